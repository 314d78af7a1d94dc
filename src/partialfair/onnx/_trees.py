"""Trees as ONNX knows them: the operator TreeEnsemble, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.onnx._graph import Graph, Name
from partialfair.utils.typing import Floats, Ints

__all__ = ["Mode", "SplitTree", "leaf_sums", "search_tree"]


class Mode(IntEnum):
    """How a node compares a feature with its threshold, numbered as ONNX does."""

    AT_MOST = 0
    BELOW = 1
    MEMBER = 6
    """Whether it is among the node's members."""


@dataclass(frozen=True, eq=False)
class SplitTree:
    """One tree: nodes that split, the root first, and leaves.

    Attributes
    ----------
    feature, threshold, mode : (n,)
        Of each node: what it compares, with what, and how.
    yes, no : (n,)
        Where rows go that pass the comparison, and others: node i, or leaf l written as ``~l``.
    missing_yes : (n,)
        Whether rows whose feature is NaN go where those go that pass.
    members : n_members arrays
        Of the nodes whose mode is MEMBER, in their order.
    values : (n_leaves,)
        Of the leaves.
    """

    feature: Ints
    threshold: Floats
    mode: Ints
    yes: Ints
    no: Ints
    missing_yes: Ints
    members: tuple[Floats, ...]
    values: Floats

    @classmethod
    def of_one_leaf(cls, value: float) -> SplitTree:
        """Return a tree that says the same of everybody: ONNX wants a split, so both its leaves do."""
        zero = np.zeros(1, dtype=np.int64)
        return cls(zero, np.zeros(1), zero, ~zero, ~(zero + 1), zero, (), np.full(2, value))


@dataclass(frozen=True)
class _Offsets:
    """Where the nodes and the leaves of a tree begin among those of all trees."""

    node: int
    leaf: int

    def places(self, children: Ints) -> Ints:
        """Return children of a tree as positions among all nodes, or all leaves."""
        return np.where(children < 0, ~children + self.leaf, children + self.node)


def leaf_sums(graph: Graph, table: Name, trees: Sequence[SplitTree]) -> Name:
    """Return, for each row of a table, the sum over trees of the value of the leaf that it falls in."""
    offsets, leaves = [], []
    n_nodes = n_leaves = 0
    for tree in trees:
        place = _Offsets(n_nodes, n_leaves)
        values = tree.values
        if _looks_like_a_leaf(tree, place):
            place, values = _Offsets(n_nodes, n_leaves + 1), np.append(0.0, values)
        offsets.append(place)
        leaves.append(values)
        n_nodes, n_leaves = n_nodes + len(tree.feature), n_leaves + len(values)
    pairs = list(zip(trees, offsets, strict=True))
    members = [np.append(held, np.nan) for tree in trees for held in tree.members]  # NaN ends each set
    membership = {"membership_values": graph.tensor(np.concatenate(members))} if members else {}
    summed = graph.ml(
        "TreeEnsemble",
        table,
        n_targets=1,
        aggregate_function=1,  # the sum
        post_transform=0,  # none
        tree_roots=[place.node for place in offsets],
        nodes_featureids=_joined([tree.feature for tree in trees]),
        nodes_splits=graph.tensor(np.concatenate([tree.threshold for tree in trees])),
        nodes_modes=graph.tensor(np.concatenate([tree.mode for tree in trees]).astype(np.uint8)),
        nodes_truenodeids=_joined([place.places(tree.yes) for tree, place in pairs]),
        nodes_trueleafs=_joined([tree.yes < 0 for tree in trees]),
        nodes_falsenodeids=_joined([place.places(tree.no) for tree, place in pairs]),
        nodes_falseleafs=_joined([tree.no < 0 for tree in trees]),
        nodes_missing_value_tracks_true=_joined([tree.missing_yes for tree in trees]),
        leaf_targetids=[0] * n_leaves,
        leaf_weights=graph.tensor(np.concatenate(leaves)),
        **membership,
    )
    return graph.flat(summed)


def search_tree(boundaries: Sequence[Floats]) -> SplitTree:
    """Return a tree that counts which range a number is in: features are the number and, then, its list.

    With ``b_k`` the rising boundaries of list k, the value of ``(x, k)`` is the number of entries ``<= x`` of
    ``b_k``, plus ``len(b_j) + 1`` for every earlier list j. Both searches halve what is left.
    """
    nodes: list[tuple[int, float, int, int]] = []

    def halved(feature: int, thresholds: Floats, children: Sequence[int]) -> int:
        if len(children) == 1:
            return children[0]
        middle = len(children) // 2
        yes = halved(feature, thresholds[: middle - 1], children[:middle])
        no = halved(feature, thresholds[middle:], children[middle:])
        nodes.append((feature, float(thresholds[middle - 1]), yes, no))
        return len(nodes) - 1

    firsts = np.cumsum([0, *(len(held) + 1 for held in boundaries)])
    leaves = [[~place for place in range(*pair)] for pair in pairwise(firsts.tolist())]
    lists = [halved(0, held, its) for held, its in zip(boundaries, leaves, strict=True)]
    halved(1, np.arange(1.0, len(lists)), lists)
    if not nodes:
        return SplitTree.of_one_leaf(0.0)
    n_nodes, (feature, threshold, *sides) = len(nodes), np.array(nodes[::-1]).T  # the root came last
    children = (side.astype(np.int64) for side in sides)
    yes, no = (np.where(child < 0, child, n_nodes - 1 - child) for child in children)
    return SplitTree(
        feature=feature.astype(np.int64),
        threshold=threshold,
        mode=np.full(n_nodes, int(Mode.BELOW), dtype=np.int64),
        yes=yes,
        no=no,
        missing_yes=np.zeros(n_nodes, dtype=np.int64),
        members=(),
        values=np.arange(firsts[-1], dtype=np.float64),
    )


def _looks_like_a_leaf(tree: SplitTree, place: _Offsets) -> bool:
    """Whether onnxruntime up to 1.23 takes a root for a leaf (its issue 24679).

    It does where the root's children, one of them a node and the other a leaf, have the same position, each
    among its own kind.
    """
    yes, no = tree.yes[:1], tree.no[:1]
    return bool((yes < 0) != (no < 0)) and bool(place.places(yes) == place.places(no))


def _joined(parts: Sequence[npt.NDArray[Any]]) -> list[int]:
    joined: list[int] = np.concatenate(parts).astype(np.int64).tolist()
    return joined
