"""Models out of untrusted files: whether their parts fit each other, before compiled code relies on it.

Nodes of scikit-learn's trees are checked in the archive, as compiled code builds them (`nodes.py`). Here
everything that can be reached from a model is visited: trees stand in pipelines, searches and adjusters too.
Ensembles hand rows to their trees without another check, so that a tree has to have been fitted to as many
features as its ensemble, and give as many values as that adds up. Neighbors, centers of clusters and support
vectors are read by compiled code in the same trust.
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
# Least numbers. KMeans passes ``_n_threads`` to OpenMP, which ends the process if it is negative.
_FEWEST = {"_n_threads": 1, **dict.fromkeys(_JOBS, -_MOST_JOBS)}
_BITSET = 8  # numbers of 32 bits, for 256 categories


def check_models(model: Any) -> None:
    """Refuse a model where anything in it could lead compiled code astray.

    Raises
    ------
    InputError
        Saying what is wrong, in half a sentence.
    """
    for part in _parts(model):
        for kind in type(part).__mro__:
            attribute, fits = _CHECKS.get(f"{kind.__module__}.{kind.__qualname__}", ("", None))
            if fits is not None and (not attribute or attribute in vars(part)) and not fits(part, vars(part)):
                raise InputError(f"its {type(part).__name__} has parts that do not fit each other")


def _parts(model: Any) -> Iterator[Any]:
    """Visit every object that a model is made of, once."""
    waiting, seen = [model], {}
    while waiting:
        part = waiting.pop()
        if isinstance(part, str | bytes | int | float | None) or id(part) in seen:
            continue
        seen[id(part)] = part  # held, so that no other object gets its id
        yield part
        if isinstance(part, dict):
            for name, fewest in _FEWEST.items():
                jobs = part.get(name)
                if jobs is not None and not is_count(jobs, fewest, _MOST_JOBS):
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


def _isolation_forest_fits(model: Any, held: dict[str, Any]) -> bool:
    trees, features = list(_trees(held["estimators_"])), held["estimators_features_"]
    # Where the trees read some columns only, these are selected before; else rows are handed over whole.
    whole = held.get("_max_features") == held.get("n_features_in_")
    return (
        is_count(held.get("n_features_in_"), 1, 1 << 62)
        and {int(tree.tree_.n_features) for tree in trees} == {held.get("_max_features")}
        and len(features) == len(trees)
        and (whole or all(np.shape(chosen) == (held["_max_features"],) for chosen in features))
    )


def _gradient_boosting_fits(model: Any, held: dict[str, Any]) -> bool:
    stages = held["estimators_"]
    if not (isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.dtype == object):
        return False
    trees, n_trees = list(_trees(stages.ravel())), stages.shape[1]
    loss, start = held.get("_loss"), held.get("init_")
    n_classes = len(held.get("classes_", ()))
    # As many scores as trees a stage, which only so many columns of the first prediction have room for.
    is_multiclass = n_trees > 1
    return (
        all(_has_width(held, one) and one.tree_.n_outputs == one.tree_.max_n_classes == 1 for one in trees)
        and is_count(held.get("n_trees_per_iteration_"), n_trees, n_trees)
        and "is_multiclass" not in vars(loss)
        and getattr(type(loss), "is_multiclass", None) is is_multiclass
        and (not is_multiclass or (n_classes == n_trees and _is_prior(start, n_trees)))
    )


def _is_prior(start: Any, n_classes: int) -> bool:
    """Whether boosting of several classes starts from nothing, or from their shares."""
    if isinstance(start, str):
        return start == "zero"
    held = getattr(start, "__dict__", {})
    return (
        f"{type(start).__module__}.{type(start).__name__}" == "sklearn.dummy.DummyClassifier"
        and is_count(held.get("n_classes_"), n_classes, n_classes)
        and np.shape(held.get("class_prior_", ())) == (n_classes,)
        and held.get("strategy") == "prior"
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


def _neighbors_fit(model: Any, held: dict[str, Any]) -> bool:
    """Return whether the labels of neighbors are among the classes that votes are counted by."""
    rows, labels, classes = held["_fit_X"], held.get("_y"), held.get("classes_")
    n_rows: Any = held.get("n_samples_fit_")
    if np.shape(rows) != (n_rows, held.get("n_features_in_")):
        return False
    if labels is not None and np.shape(labels)[:1] != (n_rows,):
        return False
    if classes is None:
        return True
    columns = np.asarray(labels).reshape(n_rows, -1).T
    known = classes if isinstance(classes, list) else [classes]
    # Compiled code counts votes in places that labels name.
    return (
        np.asarray(labels).dtype.kind == "i"
        and len(columns) == len(known)
        and all(
            column.size == 0 or (column.min() >= 0 and column.max() < len(names))
            for column, names in zip(columns, known, strict=True)
        )
    )


def _centers_fit(model: Any, held: dict[str, Any]) -> bool:
    shape = np.shape(held["cluster_centers_"])
    # Distances are computed over as many columns as rows have.
    return len(shape) == 2 and shape[0] > 0 and shape[1] == held.get("n_features_in_")


def _support_vectors_fit(model: Any, held: dict[str, Any]) -> Any:
    """Return whether there are as many support vectors as libsvm, which counts them by class, reads."""
    # libsvm reads vectors class by class, by these counts, with coefficients against all other classes.
    counts, indices = np.asarray(held["_n_support"]), np.asarray(held["support_"])
    vectors, coefficients, n_vectors = held["support_vectors_"], held["_dual_coef_"], indices.size
    is_classifier = type(model)._impl in ("c_svc", "nu_svc")
    n_classes = len(held["classes_"]) if is_classifier else 2
    n_pairs = n_classes * (n_classes - 1) // 2
    precomputed = held.get("kernel") == "precomputed"
    return (
        "_impl" not in held
        and held.get("kernel") in ("linear", "poly", "rbf", "sigmoid", "precomputed")
        and np.ndim(held["_gamma"]) == 0
        and (precomputed or np.shape(vectors) == (n_vectors, held.get("n_features_in_")))
        and all(
            getattr(held[name], "dtype", None) == np.float64
            for name in ("support_vectors_", "_dual_coef_", "_intercept_")
        )
        and (n_vectors == 0 or (indices.min() >= 0 and indices.max() < held["shape_fit_"][0]))
        and counts.shape == (n_classes,)
        and (not is_classifier or ((counts >= 0).all() and counts.sum() == n_vectors))
        and np.shape(coefficients) == (n_classes - 1, n_vectors)
        and (not hasattr(coefficients, "nnz") or coefficients.nnz == (n_classes - 1) * n_vectors)
        and np.size(held["_intercept_"]) == n_pairs
        and all(np.size(held.get(name, ())) in (0, 1, n_pairs) for name in ("_probA", "_probB"))
        and np.size(held.get("_probA", ())) == np.size(held.get("_probB", ()))
    )


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


def _bagging_fits(model: Any, held: dict[str, Any]) -> bool:
    """Return whether base estimators read columns of the ensemble, and know as many classes."""
    features = [np.asarray(chosen) for chosen in held["estimators_features_"]]
    # Columns are taken by these numbers, and votes added up in as many places as there are classes.
    return (
        is_count(held.get("n_features_in_"), 1, 1 << 62)
        and len(features) == len(held["estimators_"])
        and all(
            chosen.dtype.kind in "iu" and bool(((chosen >= 0) & (chosen < held["n_features_in_"])).all())
            for chosen in features
        )
        and ("classes_" not in held or np.shape(held["classes_"]) == (held.get("n_classes_"),))
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
    "sklearn.ensemble._iforest.IsolationForest": ("estimators_", _isolation_forest_fits),
    "sklearn.ensemble._gb.BaseGradientBoosting": ("estimators_", _gradient_boosting_fits),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": (
        "_predictors",
        _histograms_fit,
    ),
    "sklearn.neighbors._base.NeighborsBase": ("_fit_X", _neighbors_fit),
    "sklearn.cluster._kmeans._BaseKMeans": ("cluster_centers_", _centers_fit),
    "sklearn.svm._base.BaseLibSVM": ("support_vectors_", _support_vectors_fit),
    "sklearn.ensemble._bagging.BaseBagging": ("estimators_features_", _bagging_fits),
    "sklearn.linear_model._base.LinearClassifierMixin": ("coef_", _linear_fits),
    "sklearn.linear_model._base.LinearModel": ("coef_", _linear_fits),
    "sklearn.preprocessing._data.StandardScaler": ("", _scaler_fits),
    "sklearn.base.BaseEstimator": ("", _names_fit),
}
