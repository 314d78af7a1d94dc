"""Checks that the parts of models from untrusted files are consistent, before compiled code uses them.

Nodes of scikit-learn's trees are checked in the archive, as compiled code builds them (`nodes.py`). Here all
objects that can be reached from a model are visited, because pipelines, searches and adjusters may contain
trees. Ensembles pass rows to their trees unchecked, so a tree must have the ensemble's number of features and
of values. Models with other arrays that compiled code reads unchecked (neighbors, centers of clusters,
support vectors, bagged models) raise an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.utils.model_files.nodes import check_links, check_splits, is_count

# Threads or processes: of more, some libraries end the process, and others start them all.
_MOST_JOBS = 1 << 12
_JOBS = ("n_jobs", "nthread", "nthreads", "num_thread", "num_threads")

_UNCHECKED = {
    "sklearn.cluster._kmeans._BaseKMeans",
    "sklearn.ensemble._bagging.BaseBagging",  # isolation forests are some
    "sklearn.neighbors._base.NeighborsBase",
    "sklearn.svm._base.BaseLibSVM",
}
_BITSET = 8  # numbers of 32 bits, for 256 categories


def check_models(model: Any) -> None:
    """Raise `InputError` for a model with parts that compiled code could not use safely.

    Raises
    ------
    InputError
        Saying what is wrong, in half a sentence.
    """
    for part in _parts(model):
        for kind in type(part).__mro__:
            name = f"{kind.__module__}.{kind.__qualname__}"
            if name in _UNCHECKED:
                raise InputError(
                    f"its {type(part).__name__} cannot be checked before compiled code reads it; save the "
                    "rest without it (an adjuster's maps by to_json)"
                )
            attribute, fits = _CHECKS.get(name, ("", None))
            if fits is not None and (not attribute or attribute in vars(part)) and not fits(part, vars(part)):
                raise InputError(f"its {type(part).__name__} has parts that do not fit each other")


def _parts(model: Any) -> Iterator[Any]:
    """Visit every object in a model once."""
    waiting, seen = [model], {}
    while waiting:
        part = waiting.pop()
        if isinstance(part, str | bytes | int | float | None) or id(part) in seen:
            continue
        seen[id(part)] = part  # held, so that no other object gets its id
        yield part
        if isinstance(part, dict):
            for name in _JOBS:
                jobs = part.get(name)
                if jobs is not None and not is_count(jobs, -_MOST_JOBS, _MOST_JOBS):
                    raise InputError(f"its {name} is not a number of jobs")
            waiting.extend(part.values())
            waiting.extend(key for key in part if not isinstance(key, str))
        elif isinstance(part, list | tuple | set):
            waiting.extend(part)
        elif isinstance(part, np.ndarray) and part.dtype == object:
            waiting.extend(part.ravel().tolist())
        elif isinstance(held := getattr(part, "__dict__", None), dict) and not isinstance(part, type):
            waiting.append(held)


def _decision_tree_fits(model: Any, held: dict[str, Any]) -> bool:
    tree = held["tree_"]
    _check_kind(tree, "sklearn.tree._tree.Tree")
    n_classes = np.atleast_1d(np.asarray(held.get("n_classes_", 1), dtype=np.int64))
    # Rows are handed to the tree by the estimator's number of features, and its values split by n_classes_.
    return (
        is_count(held.get("n_features_in_"), tree.n_features, tree.n_features)
        and is_count(held.get("n_outputs_"), tree.n_outputs, tree.n_outputs)
        and ("classes_" not in held or np.array_equal(n_classes, tree.n_classes))
    )


def _forest_fits(model: Any, held: dict[str, Any]) -> bool:
    # Trees add what they predict to arrays that the forest has made for its own outputs and classes.
    return all(
        _has_width(held, estimator)
        and all(
            np.array_equal(held[name], vars(estimator).get(name, held[name]))
            for name in ("n_outputs_", "n_classes_")
            if name in held
        )
        for estimator in _trees(held["estimators_"])
    )


def _gradient_boosting_fits(model: Any, held: dict[str, Any]) -> bool:
    stages = held["estimators_"]
    if not (isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.dtype == object):
        return False
    # One tree a stage: of several classes each has one, and nobody refits or adjusts such a model.
    loss = held.get("_loss")
    return (
        stages.shape[1] == 1
        and all(
            _has_width(held, one) and one.tree_.n_outputs == one.tree_.max_n_classes == 1
            for one in _trees(stages.ravel())
        )
        and is_count(held.get("n_trees_per_iteration_"), 1, 1)
        and "is_multiclass" not in vars(loss)
        and getattr(type(loss), "is_multiclass", None) is False
    )


def _histograms_fit(model: Any, held: dict[str, Any]) -> bool:
    n_features, n_trees = held.get("n_features_in_"), held.get("n_trees_per_iteration_")
    baseline, rounds, mapper = held["_baseline_prediction"], held["_predictors"], vars(held["_bin_mapper"])
    categorical, thresholds = mapper["is_categorical_"], mapper["bin_thresholds_"]
    # Scores begin as copies of the baseline, to which each round adds one value of each of its trees.
    if not (
        is_count(n_features, 1, 1 << 26)
        and held.get("_n_features") == n_features
        and not held.get("_in_fit")
        and is_count(n_trees, 1, 1 << 16)
        and isinstance(baseline, np.ndarray)
        and baseline.dtype == np.float64
        and baseline.shape == (1, n_trees)
        and np.isfinite(baseline).all()
        and isinstance(categorical, np.ndarray)
        and categorical.dtype == np.uint8
        and categorical.shape == (n_features,)
        and isinstance(rounds, list)
        and all(isinstance(trees, list) and len(trees) == n_trees for trees in rounds)
        and len(thresholds) == n_features
        and all(_are_categories(thresholds[place]) for place in np.flatnonzero(categorical))
        and _fits_preprocessor(held.get("_preprocessor"), n_features)
    ):
        return False
    # Compiled code walks these, over tables whose columns were ordered by the preprocessor.
    for tree in (tree for trees in rounds for tree in trees):
        _check_kind(tree, "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor")
        _check_predictor(vars(tree), categorical)
    return True


def _are_categories(values: Any) -> bool:
    """Whether values are codes of categories, for each of which a bitset has a bit."""
    codes = np.asarray(values, dtype=np.float64)
    return codes.ndim == 1 and bool(((codes >= 0) & (codes < 32 * _BITSET) & (codes == np.rint(codes))).all())


def _fits_preprocessor(reader: Any, n_features: int) -> bool:
    """Whether what reads tables with categories returns all of the columns, each once."""
    if reader is None:
        return True
    held = vars(reader)
    steps = held["transformers_"]
    # Codes of categories come first, then numbers.
    masks = [np.asarray(columns) for _, step, columns in steps if step != "drop"]
    names = [name for name, step, _ in steps if step != "drop"]
    functions = [getattr(step, "func", None) for _, step, _ in steps]
    return (
        len(masks) == 2
        and all(mask.dtype == np.bool_ and mask.shape == (n_features,) for mask in masks)
        and np.array_equal(masks[0], ~masks[1])
        and all(
            list(held["_transformer_to_input_indices"][name]) == np.flatnonzero(mask).tolist()
            for name, mask in zip(names, masks, strict=True)
        )
        and {type(step).__name__ for _, step, _ in steps} <= {"OrdinalEncoder", "FunctionTransformer", "str"}
        and all(isinstance(function, functools.partial | None) for function in functions)
    )


def _check_predictor(held: dict[str, Any], categorical: np.ndarray[Any, Any]) -> None:
    nodes, bitsets = held["nodes"], held["raw_left_cat_bitsets"]
    sizes_fit = (
        isinstance(nodes, np.ndarray)
        and nodes.ndim == 1
        and nodes.size > 0
        and isinstance(bitsets, np.ndarray)
        and bitsets.dtype == np.uint32
        and bitsets.ndim == 2
        and bitsets.shape[1] == _BITSET
        and np.shape(held["binned_left_cat_bitsets"]) == bitsets.shape
    )
    if not sizes_fit or nodes.dtype.names is None or not np.isfinite(nodes["value"]).all():
        raise InputError("a tree in it has sizes that do not fit each other")
    inner = nodes["is_leaf"] == 0  # any other byte stands for a leaf
    check_links(nodes["left"], nodes["right"], inner)
    splits = nodes[inner]
    check_splits(splits["feature_idx"], splits["num_threshold"], len(categorical))
    splits = splits[splits["is_categorical"] != 0]
    if (splits["bitset_idx"] >= len(bitsets)).any() or (categorical[splits["feature_idx"]] == 0).any():
        raise InputError("a tree in it splits by categories that it does not hold")


def _linear_fits(model: Any, held: dict[str, Any]) -> bool:
    """Return whether coefficients are one per feature, and as many rows as scores of the classes."""
    if not type(model).__module__.startswith("sklearn."):
        return True
    shape: tuple[int, ...] = getattr(held["coef_"], "shape", ())
    classes = held.get("classes_")
    n_scores = shape[0] if len(shape) == 2 else 1
    return (
        len(shape) in (1, 2)
        and held["coef_"].dtype.kind == "f"
        and is_count(held.get("n_features_in_"), shape[-1], shape[-1])
        and np.size(held.get("intercept_", 0.0)) in (1, n_scores)
        and (classes is None or np.shape(classes) == (2 if n_scores == 1 else n_scores,))
    )


def _scaler_fits(model: Any, held: dict[str, Any]) -> bool:
    shapes = [np.shape(held[name]) for name in ("mean_", "var_", "scale_") if held.get(name) is not None]
    return all(shape == (held.get("n_features_in_"),) for shape in shapes)


def _names_fit(model: Any, held: dict[str, Any]) -> bool:
    """Return whether names of features are one per feature, and classes a list."""
    classes, names = held.get("classes_"), held.get("feature_names_in_")
    return (not isinstance(classes, np.ndarray) or classes.ndim == 1) and (
        names is None or np.shape(names) == (held.get("n_features_in_"),)
    )


def _trees(estimators: Any) -> Iterator[Any]:
    """Visit decision trees, of which there has to be one."""
    if len(estimators) == 0:
        raise InputError("an ensemble in it has no trees")
    for estimator in estimators:
        _check_kind(estimator, "sklearn.tree._classes.BaseDecisionTree")
        if "tree_" not in vars(estimator):
            raise InputError("a decision tree in it is not fitted")
        yield estimator


def _has_width(held: dict[str, Any], estimator: Any) -> bool:
    n_features = int(estimator.tree_.n_features)
    return is_count(held.get("n_features_in_"), n_features, n_features)


def _check_kind(part: Any, name: str) -> None:
    if name not in [f"{kind.__module__}.{kind.__qualname__}" for kind in type(part).__mro__]:
        raise InputError(f"it holds {type(part).__name__}, where there has to be {name.rpartition('.')[2]}")


# By class: an attribute that only fitted models have, or none, and whether all attributes fit each other.
_CHECKS: dict[str, tuple[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "sklearn.tree._classes.BaseDecisionTree": ("tree_", _decision_tree_fits),
    "sklearn.ensemble._forest.BaseForest": ("estimators_", _forest_fits),
    "sklearn.ensemble._gb.BaseGradientBoosting": ("estimators_", _gradient_boosting_fits),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": (
        "_predictors",
        _histograms_fit,
    ),
    "sklearn.linear_model._base.LinearClassifierMixin": ("coef_", _linear_fits),
    "sklearn.linear_model._base.LinearModel": ("coef_", _linear_fits),
    "sklearn.preprocessing._data.StandardScaler": ("", _scaler_fits),
    "sklearn.base.BaseEstimator": ("", _names_fit),
}
