"""Growing a library's model on some rows, with others held out to stop early where the library can."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_classifier

from partialfair.data.samples import Samples
from partialfair.exceptions import InputError, InputTypeError
from partialfair.trees._refusals import name_of
from partialfair.utils.extras import require

__all__ = ["grown", "name_model_in_errors"]

_PATIENCE = 20
"""Trees without gain on the rows held out after which growing stops."""

_XGBOOST_FORESTS = "XGBRF"
"""How names of XGBoost's estimators begin that grow all trees at once, and so never stop early."""


def grown(
    model: Any,
    rows: Samples,
    early_stopping: float | None,
    seed: int,
    unseen: npt.NDArray[np.bool_] | None = None,
) -> Any:
    """Return a fitted copy of a model.

    Parameters
    ----------
    model
        Of scikit-learn's kind, not fitted; never changed.
    rows
        What it is grown on, with weights.
    early_stopping
        Share of the rows that show when to stop, by whatever the library measures; None leaves the model's
        own settings alone. Models that have settings for early stopping, forests, and rows too few to hold
        any out are left alone as well.
    seed
        For the rows held out, and for models whose ``random_state`` is None.
    unseen : (n,)
        Rows that nothing is grown on, if there are to be such: all that they may do is show when to stop.
    """
    home = type(model).__module__.partition(".")[0]
    copy = model.copy() if home == "catboost" else clone(model)  # clone refuses CatBoost's lists of columns
    settings = copy.get_params(deep=False)
    if "random_state" in settings and settings["random_state"] is None:
        copy.set_params(random_state=seed)
    if home == "xgboost" and is_classifier(copy):  # it takes no other labels than 0 and 1
        rows = replace(rows, y=np.unique(rows.y, return_inverse=True)[1])
    if early_stopping is not None and home in _GROWN_BY and not name_of(copy).startswith(_XGBOOST_FORESTS):
        train, held_out = rows.hold_out(early_stopping, seed) if unseen is None else rows.split(unseen)
        if held_out.n:
            return _GROWN_BY[home](copy, train, held_out)
        early_stopping = None  # a share of each of such small groups is less than half a row
    if unseen is not None:
        rows, _ = rows.split(unseen)
    if early_stopping is None or not _can_stratify(copy, rows, early_stopping):
        return _fitted(copy, rows)
    if settings.get("early_stopping") == "auto":  # HistGradientBoosting
        stop = {"early_stopping": True, "n_iter_no_change": _PATIENCE}
        copy.set_params(**stop, validation_fraction=early_stopping)
    elif "n_iter_no_change" in settings and settings["n_iter_no_change"] is None:  # GradientBoosting
        copy.set_params(n_iter_no_change=_PATIENCE, validation_fraction=early_stopping)
    return _fitted(copy, rows)


def _can_stratify(model: Any, rows: Samples, share: float) -> bool:
    """Whether scikit-learn can hold out a share of the rows, of a classifier within classes."""
    sizes = np.unique(rows.y, return_counts=True)[1]
    return not is_classifier(model) or (sizes.min() >= 2 and share * rows.n > sizes.size - 1)


def _by_lightgbm(model: Any, train: Samples, held_out: Samples) -> Any:
    import lightgbm

    if model.get_params().get("early_stopping_round") is None:
        stop = [lightgbm.early_stopping(_PATIENCE, verbose=False)]
    else:
        stop = None
    watched = {"eval_set": [(held_out.X, held_out.y)], "eval_sample_weight": [held_out.row_weights]}
    with warnings.catch_warnings():
        # Of eval_set; but its successor, eval_y of LightGBM 4.7, takes labels for numbers.
        warnings.filterwarnings("ignore", "The argument 'eval_set' is deprecated")
        return _fitted(model, train, callbacks=stop, **watched)


def _by_xgboost(model: Any, train: Samples, held_out: Samples) -> Any:
    if model.get_params().get("early_stopping_rounds") is None:
        model.set_params(early_stopping_rounds=_PATIENCE)
    watched = {"eval_set": [(held_out.X, held_out.y)], "sample_weight_eval_set": [held_out.row_weights]}
    return _fitted(model, train, verbose=False, **watched)


def _by_catboost(model: Any, train: Samples, held_out: Samples) -> Any:
    Pool = require("catboost", extra="boosting", purpose="growing trees of CatBoost").Pool
    with name_model_in_errors(model, _FAILED):
        watched = Pool(
            held_out.X, held_out.y, weight=held_out.row_weights, cat_features=model.get_param("cat_features")
        )
    has_own = any(model.get_param(name) is not None for name in _CATBOOST_STOPS)
    patience = {} if has_own else {"early_stopping_rounds": _PATIENCE}
    return _fitted(model, train, eval_set=watched, verbose=False, **patience)


_CATBOOST_STOPS = ("early_stopping_rounds", "od_type", "od_wait", "od_pval")
"""Any of these tells CatBoost when to stop."""

_GROWN_BY = {"lightgbm": _by_lightgbm, "xgboost": _by_xgboost, "catboost": _by_catboost}

_ERRORS = {"lightgbm": ("lightgbm.basic", "LightGBMError"), "catboost": ("catboost", "CatBoostError")}
"""Where libraries keep exceptions that know no other kind than ``Exception``."""

_FAILED = "could not be grown"

_NATIVE_TRACE = "Stack trace:"
"""Where XGBoost's complaint ends and addresses of its machine code begin."""


def _fitted(model: Any, rows: Samples, **settings: Any) -> Any:
    weights = {} if rows.weights is None else {"sample_weight": rows.weights}
    with name_model_in_errors(model, _FAILED):
        return model.fit(rows.X, rows.y, **weights, **settings)


@contextmanager
def name_model_in_errors(model: Any, what: str) -> Iterator[None]:
    """Raise the errors of a model's library as `InputError`, with the model's name and what failed."""
    try:
        yield
    except _errors_of(model) as error:
        complaint, _, _ = str(error).partition(_NATIVE_TRACE)
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(f"{name_of(model)} {what}: {' '.join(complaint.split())}") from error


def _errors_of(model: Any) -> tuple[type[Exception], ...]:
    """Return what a model's library raises for bad input: errors of Python, and of its own."""
    home = type(model).__module__.partition(".")[0]
    if home not in _ERRORS:
        return (ValueError, TypeError)
    module, name = _ERRORS[home]
    return (ValueError, TypeError, getattr(import_module(module), name))
