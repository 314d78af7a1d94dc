"""Base estimators: models of other libraries, checked against rows or trained on them with early stopping."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator

from partialfair.data.samples import Samples
from partialfair.estimators.inputs import (
    check_labels,
    check_names_of_classes,
    part_features,
    read_target,
    refuse_repeated_names,
    two_classes,
)
from partialfair.estimators.parameters import seed_of
from partialfair.exceptions import InputError, InputTypeError
from partialfair.trees.ensembles import TreeEnsemble, check_settings, ensemble_of, is_fitted, name_of
from partialfair.utils.checks import check_number, check_sparse, refuse_masked, squarable_vector
from partialfair.utils.extras import require
from partialfair.utils.text import listed
from partialfair.utils.typing import ArrayLike

# Trees without gain on the held-out rows after which training stops.
_PATIENCE = 20

# Libraries that accept rows for early stopping; scikit-learn draws them itself.
_WATCHING = ("lightgbm", "xgboost", "catboost")

# Each of these parameters switches on CatBoost's early stopping.
_CATBOOST_STOPS = ("early_stopping_rounds", "od_type", "od_wait", "od_pval")

# Exceptions that derive from ``Exception`` only.
_LIBRARY_ERRORS = {"LightGBMError", "CatBoostError"}

# Attributes or methods of libraries that hold the names of columns.
_NAMES = ("feature_names_in_", "feature_name_", "feature_names_", "feature_names", "feature_name")


def unwrap(model: Any) -> Any:
    """Return the model that a ``FrozenEstimator`` holds, or the model itself."""
    return model.estimator if isinstance(model, FrozenEstimator) else model


def predicts_numbers(model: Any) -> bool:
    """Return whether a model is a regressor; False for models that fit will reject."""
    model = unwrap(model)
    if hasattr(model, "get_params"):
        return not isinstance(model, type) and bool(is_regressor(model))
    try:
        return ensemble_of(model).kind == "regressor"  # a booster
    except InputError:
        return False


def check_model(model: Any, validation_fraction: float | None) -> None:
    """Raise `InputError` for models without readable trees, and for invalid fractions of rows."""
    if validation_fraction is not None:
        check_number(validation_fraction, "validation_fraction", above=0.0, high=0.9)
    model = unwrap(model)
    if isinstance(model, type) or not is_fitted(model):
        check_settings(model)
    else:
        ensemble_of(model)


def read_table(trees: Any, X: ArrayLike, *, reset: bool) -> tuple[Any, dict[str, ArrayLike] | None]:
    """Return features in the format of the library, and the columns of X that hold the groups."""
    refuse_masked(X, "X")
    check_sparse(X, "X")
    if not hasattr(X, "shape"):
        try:
            X = np.asarray(X)
        except ValueError:
            raise InputError("X has rows of different lengths; trees need a table") from None
    if len(X.shape) != 2:
        raise InputError(
            f"X must have two dimensions, not {len(X.shape)}. Reshape your data: X.reshape(-1, 1) is one "
            "feature, X.reshape(1, -1) is one row"
        )
    refuse_repeated_names(X, "X")
    features, columns = part_features(trees, X, trees.sensitive_columns, reset=reset)
    if not features.shape[1]:
        raise InputError(f"X has 0 feature(s) (shape={features.shape}) while a minimum of 1 is required.")
    if sparse.issparse(features):
        # Libraries read some formats only, and CatBoost neither arrays nor long indices.
        rows = features.tocsr()
        return sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape), columns
    polars = hasattr(features, "to_pandas") and not hasattr(features, "iloc")
    return features.to_pandas() if polars else features, columns


def read_labels(trees: Any, y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
    """Return labels, or numbers that can be squared."""
    if n_rows < 2:
        raise InputError(f"X has {'1 sample' if n_rows else 'no rows'}; trees need at least 2")
    target = read_target(y, n_rows)
    if is_regressor(trees):
        return squarable_vector(target, "y")
    check_labels(target)
    return target


def positive_rows(trees: Any, samples: Samples) -> npt.NDArray[np.bool_] | None:
    """Return whether each row is positive, None for numbers; raise `InputError` without two classes."""
    if is_regressor(trees):
        return None
    classes = two_classes(samples.y)
    if trees.constraint is not None and trees.higher_is_better:
        check_names_of_classes(classes)
    return np.asarray(samples.y == classes[1])


def read_trees(trees: Any, samples: Samples, held_out: npt.NDArray[np.bool_] | None) -> TreeEnsemble:
    """Return the trees of an estimator's fitted model, or of a copy that is trained on the rows.

    Parameters
    ----------
    trees
        The `PartialFairTrees`.
    samples
        All rows that have weight.
    held_out : (n,)
        Rows on which nothing is trained; None if there are none.
    """
    model = unwrap(trees.estimator)
    if not is_fitted(model):
        return ensemble_of(fit_trees(model, samples, trees.validation_fraction, seed_of(trees), held_out))
    _check_columns(model, samples.X)
    ensemble = ensemble_of(model)
    if ensemble.kind == "classifier" and ensemble.classes is not None:
        known, given = ensemble.classes.tolist(), two_classes(samples.y).tolist()
        if known not in (given, [0, 1]):  # 0 and 1 stand for any two labels, in order
            raise InputError(f"{name_of(model)} was trained on the classes {known}, and y has {given}")
    return ensemble


def _check_columns(model: Any, X: Any) -> None:
    """Raise `InputError` for other columns than in training, or another order: LightGBM uses positions."""
    n_features = getattr(model, "n_features_in_", X.shape[1])
    if n_features != X.shape[1]:
        raise InputError(f"{name_of(model)} was trained on {n_features} features, and X has {X.shape[1]}")
    names = next((held for name in _NAMES if (held := getattr(model, name, None)) is not None), ())
    # LightGBM replaces blanks in the names of columns.
    given, known = (
        [re.sub(r"\s", "_", str(name)) for name in columns]
        for columns in (getattr(X, "columns", ()), names() if callable(names) else names)
    )
    if given != known and sorted(given) == sorted(known):
        raise InputError(
            f"{name_of(model)} was trained on the columns {listed(list(map(repr, known)))}, and X has them "
            f"in another order, {listed(list(map(repr, given)))}"
        )


def fit_trees(
    model: Any,
    samples: Samples,
    validation_fraction: float | None,
    seed: int,
    held_out: npt.NDArray[np.bool_] | None = None,
) -> Any:
    """Return a fitted copy of a model.

    Parameters
    ----------
    model
        An unfitted estimator with scikit-learn's API; it is not changed.
    samples
        The training rows, with weights.
    validation_fraction
        Fraction of the rows for early stopping by the library's own measure; None uses the model's settings.
        Models with settings for early stopping, forests, and very few rows are also trained without it.
    seed
        Seed of the held-out rows, and of models whose ``random_state`` is None.
    held_out : (n,)
        Rows on which nothing is trained; they are used for early stopping only. None if there are none.
    """
    library = _library_of(model)
    # clone rejects CatBoost's lists of columns.
    model = model.copy() if library == "catboost" else clone(model)
    settings = model.get_params(deep=False)
    if "random_state" in settings and settings["random_state"] is None:
        model.set_params(random_state=seed)
    if library == "xgboost" and is_classifier(model):  # XGBoost accepts only the labels 0 and 1
        samples = replace(samples, y=np.unique(samples.y, return_inverse=True)[1])
    train = samples if held_out is None else samples.split(held_out)[0]
    if validation_fraction is None:
        return _fit(model, train)
    # XGBRF's estimators train all trees together, so early stopping does not apply.
    if library in _WATCHING and not name_of(model).startswith("XGBRF"):
        parts = samples.hold_out(validation_fraction, seed) if held_out is None else samples.split(held_out)
        # Nothing is held out if the fraction of every group is less than half a row.
        return _fit_and_watch(model, *parts) if parts[1].n else _fit(model, train)
    # scikit-learn stratifies by class: each needs two rows, and the held-out rows need one of each.
    sizes = np.unique(train.y, return_counts=True)[1]
    if not is_classifier(model) or (sizes.min() >= 2 and validation_fraction * train.n > sizes.size - 1):
        if settings.get("early_stopping") == "auto":  # HistGradientBoosting
            stop = {"early_stopping": True, "n_iter_no_change": _PATIENCE}
            model.set_params(**stop, validation_fraction=validation_fraction)
        elif "n_iter_no_change" in settings and settings["n_iter_no_change"] is None:  # GradientBoosting
            model.set_params(n_iter_no_change=_PATIENCE, validation_fraction=validation_fraction)
    return _fit(model, train)


def _fit_and_watch(model: Any, train: Samples, watched: Samples) -> Any:
    """Fit a model until held-out rows show no gain, with the model's own patience if it has one."""
    library, weights = _library_of(model), watched.row_weights
    settings: dict[str, Any]
    if library == "lightgbm":
        from lightgbm import early_stopping

        has_own = model.get_params().get("early_stopping_round") is not None
        stop = None if has_own else [early_stopping(_PATIENCE, verbose=False)]
        settings = {"eval_set": [(watched.X, watched.y)], "eval_sample_weight": [weights], "callbacks": stop}
    elif library == "xgboost":
        if model.get_params().get("early_stopping_rounds") is None:
            model.set_params(early_stopping_rounds=_PATIENCE)
        settings = {"eval_set": [(watched.X, watched.y)], "sample_weight_eval_set": [weights]}
        settings["verbose"] = False
    else:
        Pool = require("catboost", extra="boosting", purpose="training trees of CatBoost").Pool
        with name_model_in_errors(model, "could not be trained"):
            categories = model.get_param("cat_features")
            pool = Pool(watched.X, watched.y, weight=weights, cat_features=categories)
        settings = {"eval_set": pool, "verbose": False}
        if all(model.get_param(name) is None for name in _CATBOOST_STOPS):
            settings["early_stopping_rounds"] = _PATIENCE
    with warnings.catch_warnings():
        # In LightGBM 4.7 eval_y, the successor of eval_set, treats labels as numbers.
        warnings.filterwarnings("ignore", "The argument 'eval_set' is deprecated")
        return _fit(model, train, **settings)


def _fit(model: Any, samples: Samples, **settings: Any) -> Any:
    # Not scaled: the regularization of trees (Hessians, smallest leaves) depends on the sum of weights.
    weights = {} if samples.weights is None else {"sample_weight": samples.weights}
    with name_model_in_errors(model, "could not be trained"):
        return model.fit(samples.X, samples.y, **weights, **settings)


@contextmanager
def name_model_in_errors(model: Any, what: str) -> Iterator[None]:
    """Raise errors of a model's library as `InputError`, with the model's name and what failed."""
    try:
        yield
    except Exception as error:
        names = {kind.__name__ for kind in type(error).__mro__}
        if not (isinstance(error, ValueError | TypeError) or names & _LIBRARY_ERRORS):
            raise
        # XGBoost appends addresses of its machine code to its messages.
        complaint, _, _ = str(error).partition("Stack trace:")
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(f"{name_of(model)} {what}: {' '.join(complaint.split())}") from error


def _library_of(model: Any) -> str:
    return type(model).__module__.partition(".")[0]
