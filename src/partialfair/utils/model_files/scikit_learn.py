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
            if check := _CHECKS.get(f"{kind.__module__}.{kind.__qualname__}"):
                check(part)


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


def _check_decision_tree(model: Any) -> None:
    held = vars(model)
    if (tree := held.get("tree_")) is None:
        return
    _check_kind(tree, "sklearn.tree._tree.Tree")
    n_classes = np.atleast_1d(np.asarray(held.get("n_classes_", 1), dtype=np.int64))
    # Rows are handed to the tree by the estimator's number of features, and its values split by n_classes_.
    if not (
        is_count(held.get("n_features_in_"), tree.n_features, tree.n_features)
        and is_count(held.get("n_outputs_"), tree.n_outputs, tree.n_outputs)
        and ("classes_" not in held or np.array_equal(n_classes, tree.n_classes))
    ):
        raise InputError(f"its {type(model).__name__} does not fit the tree that it holds")


def _check_forest(model: Any) -> None:
    held = vars(model)
    if "estimators_" not in held:
        return
    for estimator in _trees(held["estimators_"]):
        _check_width(model, estimator)
        for name in ("n_outputs_", "n_classes_"):
            if name in held and not np.array_equal(held[name], vars(estimator).get(name, held[name])):
                raise InputError(f"its {type(model).__name__} does not fit the trees that it holds")


def _check_isolation_forest(model: Any) -> None:
    held = vars(model)
    if "estimators_" not in held:
        return
    trees, features = list(_trees(held["estimators_"])), held["estimators_features_"]
    # Where the trees read some columns only, these are selected before; else rows are handed over whole.
    widths = {int(tree.tree_.n_features) for tree in trees}
    whole = held.get("_max_features") == held.get("n_features_in_")
    if not (
        is_count(held.get("n_features_in_"), 1, 1 << 62)
        and widths == {held.get("_max_features")}
        and len(features) == len(trees)
        and (whole or all(np.shape(chosen) == (held["_max_features"],) for chosen in features))
    ):
        raise InputError(f"its {type(model).__name__} does not fit the trees that it holds")


def _check_gradient_boosting(model: Any) -> None:
    held = vars(model)
    if "estimators_" not in held:
        return
    stages = held["estimators_"]
    if not (isinstance(stages, np.ndarray) and stages.ndim == 2 and stages.dtype == object):
        raise InputError(f"its {type(model).__name__} holds no table of trees")
    n_trees = stages.shape[1]
    for estimator in _trees(stages.ravel()):
        _check_width(model, estimator)
        if estimator.tree_.n_outputs != 1 or estimator.tree_.max_n_classes != 1:
            raise InputError(f"its {type(model).__name__} does not fit the trees that it holds")
    loss, start = held.get("_loss"), held.get("init_")
    n_classes = len(held.get("classes_", ()))
    # As many scores as trees a stage, which only so many columns of the first prediction have room for.
    is_multiclass = n_trees > 1
    fits = (
        is_count(held.get("n_trees_per_iteration_"), n_trees, n_trees)
        and "is_multiclass" not in vars(loss)
        and getattr(type(loss), "is_multiclass", None) is is_multiclass
        and (not is_multiclass or n_classes == n_trees)
    )
    if not fits or (is_multiclass and not _is_prior(start, n_trees)):
        raise InputError(f"its {type(model).__name__} starts from scores that do not fit its trees")


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


def _check_histograms(model: Any) -> None:
    held = vars(model)
    if "_predictors" not in held:
        return
    n_features, n_trees = held.get("n_features_in_"), held.get("n_trees_per_iteration_")
    baseline, rounds, mapper = held["_baseline_prediction"], held["_predictors"], vars(held["_bin_mapper"])
    categorical, thresholds = mapper["is_categorical_"], mapper["bin_thresholds_"]
    # Scores begin as copies of the baseline, to which each round adds one value of each of its trees.
    fits = (
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
    )
    _refuse_misfit(model, fits)
    # Compiled code walks these, over tables whose columns were ordered by the preprocessor.
    for tree in (tree for trees in rounds for tree in trees):
        _check_kind(tree, "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor")
        _check_predictor(vars(tree), categorical)


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


def _check_neighbors(model: Any) -> None:
    """Refuse neighbors whose labels are not among the classes that votes are counted by."""
    held = vars(model)
    if "_fit_X" not in held:
        return
    # Compiled code counts votes in places that labels name.
    rows, labels, classes = held["_fit_X"], held.get("_y"), held.get("classes_")
    n_rows, n_features = held.get("n_samples_fit_"), held.get("n_features_in_")
    fits = np.shape(rows) == (n_rows, n_features) and (labels is None or np.shape(labels)[:1] == (n_rows,))
    if fits and classes is not None:
        columns = np.asarray(labels).reshape(n_rows, -1).T
        known = classes if isinstance(classes, list) else [classes]
        fits = np.asarray(labels).dtype.kind == "i" and len(columns) == len(known)
        fits = fits and all(
            column.size == 0 or (column.min() >= 0 and column.max() < len(names))
            for column, names in zip(columns, known, strict=True)
        )
    _refuse_misfit(model, fits)


def _check_centers(model: Any) -> None:
    held = vars(model)
    if "cluster_centers_" in held:
        shape = np.shape(held["cluster_centers_"])
        # Distances are computed over as many columns as rows have.
        _refuse_misfit(model, len(shape) == 2 and shape[0] > 0 and shape[1] == held.get("n_features_in_"))


def _check_support_vectors(model: Any) -> None:
    """Refuse support vectors of which there are not as many as libsvm, which counts them by class, reads."""
    held = vars(model)
    if "support_vectors_" not in held:
        return
    # libsvm reads vectors class by class, by these counts, with coefficients against all other classes.
    counts, indices = np.asarray(held["_n_support"]), np.asarray(held["support_"])
    vectors, coefficients, n_vectors = held["support_vectors_"], held["_dual_coef_"], indices.size
    is_classifier = type(model)._impl in ("c_svc", "nu_svc")
    n_classes = len(held["classes_"]) if is_classifier else 2
    n_pairs = n_classes * (n_classes - 1) // 2
    precomputed = held.get("kernel") == "precomputed"
    fits = (
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
    _refuse_misfit(model, fits)


def _check_linear(model: Any) -> None:
    """Refuse coefficients that are not one per feature, and as many rows as scores of the classes."""
    held = vars(model)
    if "coef_" not in held or not type(model).__module__.startswith("sklearn."):
        return
    shape: tuple[int, ...] = getattr(held["coef_"], "shape", ())
    classes = held.get("classes_")
    n_scores = shape[0] if len(shape) == 2 else 1
    fits = (
        len(shape) in (1, 2)
        and held["coef_"].dtype.kind == "f"
        and is_count(held.get("n_features_in_"), shape[-1], shape[-1])
        and np.size(held.get("intercept_", 0.0)) in (1, n_scores)
        and (classes is None or np.shape(classes) == (2 if n_scores == 1 else n_scores,))
    )
    _refuse_misfit(model, fits)


def _check_bagging(model: Any) -> None:
    """Refuse columns of the base estimators that the ensemble does not have, and other numbers of classes."""
    held = vars(model)
    if "estimators_features_" not in held:
        return
    features = [np.asarray(chosen) for chosen in held["estimators_features_"]]
    # Columns are taken by these numbers, and votes added up in as many places as there are classes.
    fits = (
        is_count(held.get("n_features_in_"), 1, 1 << 62)
        and len(features) == len(held["estimators_"])
        and all(
            chosen.dtype.kind in "iu" and bool(((chosen >= 0) & (chosen < held["n_features_in_"])).all())
            for chosen in features
        )
        and ("classes_" not in held or np.shape(held["classes_"]) == (held.get("n_classes_"),))
    )
    _refuse_misfit(model, fits)


def _check_scaler(model: Any) -> None:
    """Refuse means and scales that are not one per feature."""
    held = vars(model)
    for name in ("mean_", "var_", "scale_"):
        fits = held.get(name) is None or np.shape(held[name]) == (held.get("n_features_in_"),)
        _refuse_misfit(model, fits)


def _check_names(model: Any) -> None:
    """Refuse names of features that are not one per feature, and classes that are not a list."""
    held = vars(model)
    if isinstance(classes := held.get("classes_"), np.ndarray) and classes.ndim != 1:
        raise InputError(f"its {type(model).__name__} has no list of classes")
    names = held.get("feature_names_in_")
    if names is not None and np.shape(names) != (held.get("n_features_in_"),):
        raise InputError(f"its {type(model).__name__} has other features than it has names for them")


def _trees(estimators: Any) -> Iterator[Any]:
    """Visit decision trees, of which there has to be one."""
    if len(estimators) == 0:
        raise InputError("an ensemble in it has no trees")
    for estimator in estimators:
        _check_kind(estimator, "sklearn.tree._classes.BaseDecisionTree")
        if "tree_" not in vars(estimator):
            raise InputError("a decision tree in it is not fitted")
        yield estimator


def _check_width(model: Any, estimator: Any) -> None:
    n_features = int(estimator.tree_.n_features)
    if not is_count(vars(model).get("n_features_in_"), n_features, n_features):
        raise InputError(f"its {type(model).__name__} has other features than the trees that it holds")


def _refuse_misfit(model: Any, fits: Any) -> None:
    if not fits:
        raise InputError(f"its {type(model).__name__} has parts that do not fit each other")


def _check_kind(part: Any, name: str) -> None:
    if name not in [f"{kind.__module__}.{kind.__qualname__}" for kind in type(part).__mro__]:
        raise InputError(f"it holds {type(part).__name__}, where there has to be {name.rpartition('.')[2]}")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "sklearn.tree._classes.BaseDecisionTree": _check_decision_tree,
    "sklearn.ensemble._forest.BaseForest": _check_forest,
    "sklearn.ensemble._iforest.IsolationForest": _check_isolation_forest,
    "sklearn.ensemble._gb.BaseGradientBoosting": _check_gradient_boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": _check_histograms,
    "sklearn.neighbors._base.NeighborsBase": _check_neighbors,
    "sklearn.cluster._kmeans._BaseKMeans": _check_centers,
    "sklearn.svm._base.BaseLibSVM": _check_support_vectors,
    "sklearn.ensemble._bagging.BaseBagging": _check_bagging,
    "sklearn.linear_model._base.LinearClassifierMixin": _check_linear,
    "sklearn.linear_model._base.LinearModel": _check_linear,
    "sklearn.preprocessing._data.StandardScaler": _check_scaler,
    "sklearn.base.BaseEstimator": _check_names,
}
