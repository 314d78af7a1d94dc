"""Nodes of trees out of untrusted files, checked before compiled code follows them.

Libraries do not check nodes: a child or a feature that does not exist reads foreign memory, and a child that
is its own ancestor gives an endless loop. Every other node has at most one parent and the root has none, so a
walk from the root cannot enter a cycle: on a cycle each node's only parent is on the cycle too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError

_LEAF = -1
_MOST_FEATURES = 1 << 26
_STATE = {"max_depth", "node_count", "nodes", "values"}


def is_count(value: Any, low: int, high: int) -> bool:
    """Whether a value is an integer, not a boolean, between two others."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def check_links(left: npt.NDArray[Any], right: npt.NDArray[Any], inner: npt.NDArray[np.bool_]) -> None:
    """Raise `InputError` for children that do not exist, are the root, or have several parents.

    Parameters
    ----------
    left, right : (n,)
        Children of each node; those of leaves are not read.
    inner : (n,)
        Which nodes have children.
    """
    children = np.concatenate([left[inner], right[inner]]).astype(np.int64)
    if children.size and not (children.min() > 0 and children.max() < len(inner)):
        raise InputError("a tree in it has children that do not exist")
    # A node with one parent at most is on no cycle that the root leads to; see the module.
    if children.size and np.bincount(children).max() > 1:
        raise InputError("a tree in it has nodes with several parents")


def check_splits(features: npt.NDArray[Any], thresholds: npt.NDArray[Any], n_features: int) -> None:
    """Raise `InputError` for splits at missing features, or at NaN; infinity is valid."""
    if features.size and not (features.min() >= 0 and features.max() < n_features):
        raise InputError(f"a tree in it splits at a feature beyond the {n_features} that there are")
    if np.isnan(thresholds).any():  # compared with it, every row goes right
        raise InputError("a tree in it splits at thresholds that are NaN")


def _check_tree(
    n_features: Any,
    n_classes: npt.NDArray[Any],
    n_outputs: Any,
    sizes: dict[str, Any],
    nodes: npt.NDArray[Any],
    values: npt.NDArray[Any],
) -> None:
    """Raise `InputError` for arrays that are not a valid scikit-learn ``Tree``.

    Its ``__setstate__`` checks types and shapes of the two arrays; it does not check the nodes.
    """
    # The constructor allocates by these sizes, and predictions are copied out of values by them.
    sizes_fit = (
        is_count(n_features, 1, _MOST_FEATURES)
        and is_count(n_outputs, 1, values.size)
        and n_classes.dtype.kind == "i"
        and n_classes.shape == (n_outputs,)
        and n_classes.min() >= 1
        and nodes.ndim == 1
        and is_count(sizes["node_count"], nodes.size, nodes.size)
        and is_count(sizes["max_depth"], 0, nodes.size)
        and values.dtype.kind == "f"
        and values.shape == (nodes.size, n_outputs, n_classes.max())
    )
    if not sizes_fit:
        raise InputError("a tree in it has sizes that do not fit each other")
    if not np.isfinite(values).all():
        raise InputError("a tree in it holds values that are not finite")
    left, right = nodes["left_child"], nodes["right_child"]
    inner = left != _LEAF
    if not np.array_equal(inner, right != _LEAF):
        raise InputError("a tree in it has nodes with one child")
    check_links(left, right, inner)
    check_splits(nodes["feature"][inner], nodes["threshold"][inner], n_features)
    # decision_path allocates by the depth. The walk ends, as links were checked.
    depth, level = 0, np.zeros(1, dtype=np.int64)
    while (below := level[left[level] != _LEAF]).size:
        depth, level = depth + 1, np.concatenate([left[below], right[below]])
    if depth > sizes["max_depth"]:
        raise InputError("a tree in it is deeper than it says")


def check_tree_node(node: dict[str, Any], read: Callable[[str], npt.NDArray[Any]]) -> None:
    """Raise `InputError` for a schema node of a ``Tree`` unless it is as skops writes it.

    Parameters
    ----------
    node
        Of the loader ``TreeNode``.
    read
        From a member of the archive to its array.
    """
    arguments, state = node["__reduce__"]["args"], node["content"]
    held = state["content"]
    if arguments["__loader__"] != "TupleNode" or state["__loader__"] != "DictNode" or set(held) != _STATE:
        raise InputError("a tree in it is not what it says")
    n_features, n_classes, n_outputs = arguments["content"]
    _check_tree(
        plain_value(n_features),
        _array(n_classes, read),
        plain_value(n_outputs),
        {name: plain_value(held[name]) for name in ("max_depth", "node_count")},
        _array(held["nodes"], read),
        _array(held["values"], read),
    )


def plain_value(node: dict[str, Any]) -> Any:
    """Return the number, text or Boolean of a schema node."""
    if node["__loader__"] != "JsonNode":
        raise InputError("a tree in it is not what it says")
    return json.loads(node["content"])


def _array(node: dict[str, Any], read: Callable[[str], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    kind = node["__loader__"], node["__module__"], node["__class__"], node["type"]
    if kind != ("NdArrayNode", "numpy", "ndarray", "numpy"):
        raise InputError("a tree in it is not what it says")
    return read(node["file"])
