"""Parses, checks and rewrites XGBoost's JSON from untrusted files before XGBoost reads it."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.utils.model_files.nodes import check_links, check_splits, is_count

# Objectives whose trees `partialfair.trees` refits.
LOGISTIC = "binary:logistic"
PREDICTIONS = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror")
_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_SETTING = re.compile(rf"\[?{_NUMBER}(?:,{_NUMBER})*\]?")
_NO_PARENT = 2147483647
_FEATURE_TYPES = ("float", "int", "i", "q", "c", "indicator")
_MOST_FEATURES = 1 << 26
_MOST_CATEGORIES = 1 << 24  # XGBoost's own limit: codes are floats
# Of all splits at categories: XGBoost allocates a bit for every code up to the largest of a split.
_MOST_BITS = 1 << 31

_LEARNER = {
    *("attributes", "feature_names", "feature_types"),
    *("gradient_booster", "learner_model_param", "objective"),
}
_FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
_WHOLE = ("default_left", "left_children", "right_children", "parents", "split_indices", "split_type")
_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


def rewrite_json(content: bytes) -> bytes:
    """Return a model's JSON as XGBoost may read it.

    Raises
    ------
    InputError
        For anything that XGBoost does not write of a sum of trees with one value a leaf.
    """
    try:
        document = json.loads(content)
        _check_document(document)
    except InputError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError("its model of XGBoost is not what it says") from error
    # XGBoost's own reader takes the \u00e4 of JSON for six letters.
    return json.dumps(document, ensure_ascii=False).encode()


def _check_document(document: Any) -> None:
    _check_keys(document, {"learner", "version"})
    version, learner = document["version"], document["learner"]
    if len(version) != 3 or not all(is_count(part, 0, 1000) for part in version):
        raise InputError("its model of XGBoost has no version")
    _check_keys(learner, _LEARNER)
    n_features = _check_sizes(learner["learner_model_param"])
    _check_objective(learner["objective"])
    _check_names(learner["feature_names"], n_features)
    types = learner["feature_types"]
    _check_names(types, n_features)
    if not set(types) <= set(_FEATURE_TYPES):
        raise InputError("its model of XGBoost has features of unknown types")
    booster = learner["gradient_booster"]
    _check_keys(booster, {"model", "name"})
    if booster["name"] != "gbtree":
        raise InputError("its model of XGBoost is not a sum of trees")
    n_rounds = _check_trees(booster["model"], n_features)
    attributes = learner["attributes"]
    if not all(isinstance(text, str) for text in [*attributes, *attributes.values()]):
        raise InputError("its model of XGBoost has attributes that are not text")
    # Predictions use the trees up to the best iteration.
    if "best_iteration" in attributes and not 0 <= int(attributes["best_iteration"]) < n_rounds:
        raise InputError("its model of XGBoost has no best iteration")


def _check_sizes(sizes: Any) -> int:
    """Return the number of features."""
    _check_keys(sizes, {"base_score", "num_class", "num_feature"}, {"num_target", "boost_from_average"})
    _check_settings(sizes)
    n_features = int(sizes["num_feature"])
    one_score = sizes["num_class"] == "0" and sizes.get("num_target", "1") == "1"
    base = float(sizes["base_score"].strip("[]"))  # a list from XGBoost 3.1 on
    if not (one_score and math.isfinite(base) and 1 <= n_features <= _MOST_FEATURES):
        raise InputError("its model of XGBoost does not give one score a row")
    return n_features


def _check_objective(objective: Any) -> None:
    if objective["name"] not in (LOGISTIC, *PREDICTIONS):
        raise InputError("its model of XGBoost has another objective than those that are refitted")
    for name, settings in objective.items():
        if name != "name":
            _check_settings(settings)
    if objective["name"] == LOGISTIC:
        _check_keys(objective, {"name", "reg_loss_param"})


def _check_trees(model: Any, n_features: int) -> int:
    """Return the number of rounds of boosting."""
    _check_keys(model, {"gbtree_model_param", "tree_info", "trees"}, {"iteration_indptr", "cats"})
    sizes, trees = model["gbtree_model_param"], model["trees"]
    _check_keys(sizes, {"num_trees", "num_parallel_tree"}, {"size_leaf_vector"})
    _check_settings(sizes)
    n_parallel = int(sizes["num_parallel_tree"])
    if int(sizes["num_trees"]) != len(trees) or n_parallel < 1 or len(trees) % n_parallel:
        raise InputError("its model of XGBoost has another number of trees than it says")
    n_rounds = len(trees) // n_parallel
    # Which trees belong to which round, and to which score: all to the only one.
    starts = [n_parallel * place for place in range(n_rounds + 1)]
    if model["tree_info"] != [0] * len(trees) or model.get("iteration_indptr", starts) != starts:
        raise InputError("its model of XGBoost has trees of no round")
    n_bits = sum(_check_tree(tree, place, n_features) for place, tree in enumerate(trees))
    if n_bits > _MOST_BITS:
        raise InputError("its model of XGBoost splits at more categories than any")
    if "cats" in model:
        _check_names_of_categories(model["cats"], n_features)
    return n_rounds


def _check_tree(tree: Any, place: int, n_features: int) -> int:
    """Return how many bits the splits at categories take."""
    _check_keys(tree, {"id", "tree_param", *_FLOATS, *_WHOLE, *_CATEGORIES})
    sizes = tree["tree_param"]
    _check_keys(sizes, {"num_deleted", "num_feature", "num_nodes", "size_leaf_vector"})
    _check_settings(sizes)
    n_nodes = int(sizes["num_nodes"])
    sizes_fit = (
        is_count(tree["id"], place, place)
        and int(sizes["num_feature"]) == n_features
        and sizes["size_leaf_vector"] in ("0", "1")
        and 0 <= int(sizes["num_deleted"]) < n_nodes
    )
    floats = {name: _floats(tree[name]) for name in _FLOATS}
    whole = {name: _whole(tree[name]) for name in _WHOLE}
    if not sizes_fit or any(len(values) != n_nodes for values in (*floats.values(), *whole.values())):
        raise InputError("a tree of XGBoost in it has sizes that do not fit each other")
    left, right, parents = (whole[name] for name in ("left_children", "right_children", "parents"))
    inner = left != -1
    check_links(left, right, inner)
    numbers = np.flatnonzero(inner)
    # Links are stored in both directions, and either may be followed.
    parents_fit = parents[0] == _NO_PARENT and np.array_equal(parents[left[inner]], numbers)
    categorical = inner & (whole["split_type"] == 1)
    flags = (whole["default_left"], whole["split_type"])
    if (
        not (parents_fit and np.array_equal(parents[right[inner]], numbers))
        or (right[~inner] != -1).any()
        or any(((values != 0) & (values != 1)).any() for values in flags)
    ):
        raise InputError("a tree of XGBoost in it has nodes that do not fit each other")
    check_splits(whole["split_indices"][inner], floats["split_conditions"][inner], n_features)
    return _check_categories(tree, categorical)


def _check_categories(tree: Any, categorical: npt.NDArray[np.bool_]) -> int:
    codes, nodes, starts, lengths = (_whole(tree[name]) for name in _CATEGORIES)
    # Each categorical node has one set of codes, and the sets lie one after the other.
    if not (
        np.array_equal(np.sort(nodes), np.flatnonzero(categorical))
        and len(starts) == len(lengths) == len(nodes)
        and (codes.size == 0 or (codes.min() >= 0 and codes.max() < _MOST_CATEGORIES))
        and (lengths > 0).all()
        and np.array_equal(starts, np.cumsum(lengths) - lengths)
        and lengths.sum() == len(codes)
    ):
        raise InputError("a tree of XGBoost in it splits by categories that it does not hold")
    return int(np.maximum.reduceat(codes, starts).sum()) if len(starts) else 0


def _check_names_of_categories(names: Any, n_features: int) -> None:
    """Raise `InputError` for names of categories that do not fit the features."""
    _check_keys(names, {"enc", "feature_segments", "sorted_idx"})
    columns, ends, order = names["enc"], _whole(names["feature_segments"]), _whole(names["sorted_idx"])
    counts = np.array([_n_categories(column) for column in columns], dtype=np.int64)
    # Of each column where its categories end among all, and the order that sorts them.
    if len(counts) == len(ends) == 0 == len(order):
        return
    bounds = np.concatenate([[0], np.cumsum(counts)])
    fits = len(counts) == n_features and np.array_equal(ends, bounds) and len(order) == bounds[-1]
    if not fits or any(
        not np.array_equal(np.sort(order[start:end]), np.arange(end - start))
        for start, end in itertools.pairwise(bounds)
    ):
        raise InputError("its model of XGBoost has categories that do not fit its features")


def _n_categories(column: Any) -> int:
    if "type" in column:  # numbers
        _check_keys(column, {"type", "values"})
        values = column["values"]
        if not is_count(column["type"], 0, 32) or not all(type(value) in (int, float) for value in values):
            raise InputError("its model of XGBoost has categories of an unknown type")
        return len(values)
    _check_keys(column, {"offsets", "values"})
    starts, letters = _whole(column["offsets"]), _whole(column["values"])
    if len(starts) == 0 == len(letters):
        return 0
    whole = starts[0] == 0 and (np.diff(starts) >= 0).all() and starts[-1] == len(letters)
    if not whole or not ((letters >= -128) & (letters < 128)).all():
        raise InputError("its model of XGBoost has names of categories that are not text")
    return len(starts) - 1


def _check_keys(held: Any, needed: set[str], also: Iterable[str] = ()) -> None:
    if not (isinstance(held, dict) and needed <= set(held) <= needed | set(also)):
        raise InputError("its model of XGBoost has parts that cannot be checked")


def _check_settings(settings: Any) -> None:
    """Raise `InputError` for settings that are not numbers in text form."""
    if not all(isinstance(text, str) and _SETTING.fullmatch(text) for text in settings.values()):
        raise InputError("its model of XGBoost has text for a number")


def _check_names(names: Any, n_features: int) -> None:
    if not (
        isinstance(names, list) and len(names) in (0, n_features) and all(type(name) is str for name in names)
    ):
        raise InputError("its model of XGBoost has names that do not fit its features")


def _floats(values: Any) -> npt.NDArray[np.float64]:
    """Return numbers, none of them missing; single precision has to hold them."""
    if not (isinstance(values, list) and all(type(value) in (int, float) for value in values)):
        raise InputError("a tree of XGBoost in it has text for numbers")
    array = np.array(values, dtype=np.float64)
    if not (np.abs(array) <= np.finfo(np.float32).max).all():
        raise InputError("a tree of XGBoost in it has numbers that are not finite")
    return array


def _whole(values: Any) -> npt.NDArray[np.int64]:
    """Return whole numbers; truth values, which older versions write, are 0 and 1."""
    if not (isinstance(values, list) and all(isinstance(value, int) for value in values)):
        raise InputError("a tree of XGBoost in it has text for whole numbers")
    return np.array(values, dtype=np.int64)
