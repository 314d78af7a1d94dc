"""LightGBM's text format out of untrusted files: parsed, checked, and written anew.

LightGBM allocates by the numbers that it reads, follows children and categories without a look, and finds
its trees by their sizes in bytes; one changed digit can end the process. Hence every line has to be one that
it writes, numbers have to be numbers, and sizes are counted again. Lines that it does not read back
(importances, categories of pandas) are left out.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.utils.model_files.nodes import check_links, check_splits, is_count, plain_value

_NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf)"
_WHOLE = re.compile(r"-?\d{1,18}")
_NUMBERS = re.compile(rf"{_NUMBER}(?: {_NUMBER})*")
_HEADER = {
    *("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"),
    *("feature_names", "monotone_constraints", "feature_infos", "tree_sizes"),
}
_OBJECTIVE = re.compile(rf"[a-z_0-9]+(?: [a-z_]+(?::{_NUMBER})?)*")
_FEATURE_INFO = re.compile(rf"none|\[{_NUMBER}:{_NUMBER}\]|-?\d+(?::-?\d+)*")
_PARAMETER = re.compile(r"\[\w+: .*\]")
_MOST_FEATURES = 1 << 24
_MOST_LEAVES = 1 << 17  # LightGBM's own limit
_MULTICLASS = ("multiclass", "multiclassova")

_INNER = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
_CATEGORICAL = ("cat_boundaries", "cat_threshold")
_TREE = {"Tree", "num_leaves", "num_cat", *_INNER, *_LEAF, *_CATEGORICAL, "is_linear", "shrinkage"}


def check_booster_node(node: dict[str, Any]) -> None:
    """Check a node of a schema that skops would make a ``Booster`` of; write its text anew, in place."""
    state = node["content"]
    held = state["content"]
    # "handle" is an address, which only a living model has, and only models in training have a network.
    if state["__loader__"] != "DictNode" or "handle" in held or plain_value(held["_network"]) is not False:
        raise InputError("a model of LightGBM in it is not what it says")
    text = plain_value(held["_handle"])
    if not isinstance(text, str) or not is_count(plain_value(held["best_iteration"]), -1, 1 << 30):
        raise InputError("a model of LightGBM in it is not what it says")
    held["_handle"]["content"] = json.dumps(rewrite_text(text))


def rewrite_text(text: str) -> str:
    """Return a model's text as LightGBM may read it.

    Raises
    ------
    InputError
        For anything that LightGBM does not write, and for trees with linear leaves.
    """
    try:
        model, marker, rest = text.partition("\nend of trees\n")
        if not marker:
            raise InputError("a model of LightGBM in it has no end")
        header, *trees = re.split(r"(?m)^(?=Tree=)", model + "\n")
        lines, n_features = _check_header(header, len(trees))
        blocks = [_check_tree(tree, place, n_features) for place, tree in enumerate(trees)]
        parameters = _check_parameters(rest)
    except InputError:
        raise
    except (KeyError, ValueError, IndexError, OverflowError) as error:
        raise InputError("a model of LightGBM in it is not what it says") from error
    sizes = " ".join(str(len(block.encode())) for block in blocks)  # by which trees are found
    return "".join(
        [
            *(f"{line}\n" for line in lines),
            f"tree_sizes={sizes}\n\n",
            *blocks,
            "end of trees\n\nparameters:\n",
            *(f"{line}\n" for line in parameters),
            "\nend of parameters\n",
        ]
    )


def _pairs(lines: list[str], allowed: set[str]) -> dict[str, str]:
    """Read lines ``key=value``, each key once."""
    pairs = [line.partition("=")[::2] for line in lines]
    found = dict(pairs)
    if len(found) < len(pairs) or not set(found) <= allowed:
        raise InputError("a model of LightGBM in it has lines that cannot be checked (linear leaves, say)")
    return found


def _check_header(header: str, n_trees: int) -> tuple[list[str], int]:
    """Return the lines of the header but the sizes of trees, and the number of features."""
    first, *lines = [line for line in header.split("\n") if line]
    flags = [line for line in lines if "=" not in line]
    found = _pairs([line for line in lines if "=" in line], _HEADER)
    n_classes, n_at_once, n_features = (
        _whole(found[name]) for name in ("num_class", "num_tree_per_iteration", "max_feature_idx")
    )
    n_features += 1
    objective = found.get("objective", "")
    kind, *settings = objective.split(" ")
    # The objective transforms as many scores of a row as it says that there are classes.
    n_stated = [one.partition(":")[2] for one in settings if one.startswith("num_class:")]
    names, infos = found["feature_names"].split(" "), found["feature_infos"].split(" ")
    monotone = found.get("monotone_constraints")
    fits = (
        first == "tree"
        and found["version"] in ("v3", "v4")
        and flags in ([], ["average_output"])
        and is_count(_whole(found["label_index"]), 0, 1 << 30)
        and 1 <= n_classes == n_at_once <= 1 << 16
        and n_trees % n_classes == 0
        and 1 <= n_features <= _MOST_FEATURES
        and len(names) == len(infos) == n_features
        and all(names)
        and all(map(_FEATURE_INFO.fullmatch, infos))
        and (not objective or _OBJECTIVE.fullmatch(objective))
        and (n_stated == [str(n_classes)] if kind in _MULTICLASS else not n_stated)
        and (kind in ("", *_MULTICLASS) or n_classes == 1)
        and (monotone is None or len(_numbers(monotone)) == n_features)
    )
    if not fits:
        raise InputError("a model of LightGBM in it has a header that does not fit its trees")
    return [line for line in [first, *lines] if not line.startswith("tree_sizes=")], n_features


def _check_tree(tree: str, place: int, n_features: int) -> str:
    """Return a tree's lines, as LightGBM writes them."""
    found = _pairs([line for line in tree.split("\n") if line], _TREE)
    n_leaves, n_categorical = _whole(found["num_leaves"]), _whole(found["num_cat"])
    if _whole(found["Tree"]) != place or not 1 <= n_leaves <= _MOST_LEAVES or found["is_linear"] != "0":
        raise InputError("a tree of LightGBM in it has leaves that cannot be checked (linear ones, say)")
    n_inner = n_leaves - 1
    held = {name: _numbers(found.get(name, "")) for name in (*_INNER, *_LEAF, *_CATEGORICAL)}
    # A tree without splits says less of its only leaf.
    lengths_fit = all(len(held[name]) == n_inner for name in _INNER) and all(
        len(held[name]) in ((n_leaves,) if n_inner or name == "leaf_value" else (0, 1)) for name in _LEAF
    )
    finite = (values for name, values in held.items() if name != "threshold")  # which infinity can be
    if not lengths_fit or not all(np.isfinite(values).all() for values in finite):
        raise InputError("a tree of LightGBM in it has sizes that do not fit each other")
    _numbers(found["shrinkage"])  # a number, of any value
    whole = {name: _whole_numbers(held[name]) for name in (*_WHOLE_INNER, *_CATEGORICAL)}
    # Inner nodes are counted from 0, and leaf l is child ~l: it becomes node n_inner + l.
    left, right = (
        np.where(child < 0, n_inner + ~child, child) for child in (whole["left_child"], whole["right_child"])
    )
    leaves = np.full(n_leaves, -1)
    inner = np.arange(n_inner + n_leaves) < n_inner
    check_links(np.concatenate([left, leaves]), np.concatenate([right, leaves]), inner)
    check_splits(whole["split_feature"], held["threshold"], n_features)
    _check_categories(whole, held["threshold"], n_categorical)
    return "".join(f"{name}={value}\n" for name, value in found.items()) + "\n\n"


_WHOLE_INNER = ("split_feature", "decision_type", "left_child", "right_child")
_IS_CATEGORICAL, _MISSING_KINDS = 1, 3


def _check_categories(whole: dict[str, npt.NDArray[np.int64]], thresholds: Any, n_categorical: int) -> None:
    """Refuse kinds of splits that there are not, and bits of categories beyond those that are held."""
    kinds = whole["decision_type"]
    bounds, bits = whole["cat_boundaries"], whole["cat_threshold"]
    categorical = (kinds & _IS_CATEGORICAL).astype(bool)
    which = _whole_numbers(thresholds[categorical])
    # Set i has the words of bits from bounds[i] to bounds[i + 1]; a categorical threshold is such an i.
    bits_fit = (
        len(bounds) == n_categorical + 1
        and bounds[0] == 0
        and (np.diff(bounds) > 0).all()
        and bounds[-1] == len(bits)
        if n_categorical
        else len(bounds) == len(bits) == 0
    )
    fits = (
        ((kinds >= 0) & (kinds < 16) & (kinds >> 2 < _MISSING_KINDS)).all()
        and bits_fit
        and ((which >= 0) & (which < n_categorical)).all()
        and ((bits >= 0) & (bits < 1 << 32)).all()
    )
    if not fits:
        raise InputError("a tree of LightGBM in it splits by categories that it does not hold")


def _check_parameters(rest: str) -> list[str]:
    """Return the lines that say what a model was trained with."""
    _, marker, after = rest.partition("\nparameters:\n")
    if not marker:
        return []
    within, marker, _ = after.partition("\nend of parameters")
    lines = [line for line in within.split("\n") if line]
    if not marker or not all(map(_PARAMETER.fullmatch, lines)):
        raise InputError("a model of LightGBM in it has parameters that cannot be checked")
    return lines


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise InputError("a model of LightGBM in it has text for a number")
    return int(text)


def _numbers(text: str) -> npt.NDArray[np.float64]:
    """Return the numbers of a line."""
    if not text:
        return np.zeros(0)
    if not _NUMBERS.fullmatch(text):
        raise InputError("a model of LightGBM in it has text for numbers")
    return np.array(text.split(" "), dtype=np.float64)


def _whole_numbers(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    # Doubles hold whole numbers exactly up to 2**53.
    if values.size and not ((values == np.rint(values)) & (np.abs(values) < 1 << 53)).all():
        raise InputError("a model of LightGBM in it has fractions for whole numbers")
    return values.astype(np.int64)
