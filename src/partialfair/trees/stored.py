"""Libraries' models in the form in which files hold them, and the checks before they are used.

XGBoost holds its trees in a ``bytearray``, which model files do not support: files hold its own JSON, which
is checked and rewritten before XGBoost reads it. Models of LightGBM hold their own text, those of
scikit-learn plain arrays. HistGradientBoosting reads tables with categories by a partial function, which
files do not support either; it is always the same and is therefore omitted.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_array

from partialfair.estimators.decisions import check_stored_decisions
from partialfair.exceptions import InputError
from partialfair.training.result import FitResult
from partialfair.trees.ensembles import ensemble_of, is_fitted, name_of
from partialfair.utils.extras import require
from partialfair.utils.model_files.xgboost import rewrite_json

_BOOSTER = "Booster"
_ESTIMATORS = ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor")


@dataclass(frozen=True)
class StoredXGBoost:
    """A fitted model of XGBoost.

    Attributes
    ----------
    kind
        The name of its class.
    settings
        The parameters of an estimator; empty for a booster.
    content
        The trees, in the library's own JSON.
    frozen
        Whether it is in a ``FrozenEstimator``.
    """

    kind: str
    settings: dict[str, Any]
    content: bytes
    frozen: bool


def pack_model(model: Any) -> Any:
    """Return a model in the form in which files hold it."""
    frozen = isinstance(model, FrozenEstimator)
    inner = model.estimator if frozen else model
    if _readers_of_numbers(inner):
        plain = copy.deepcopy(inner)
        for step in _readers_of_numbers(plain):
            step.func = None  # a partial function, which `unpack_model` restores
        return FrozenEstimator(plain) if frozen else plain
    if not type(inner).__module__.startswith("xgboost.") or not is_fitted(inner):
        return model
    kind = name_of(inner)
    booster = inner if kind == _BOOSTER else inner.get_booster()
    settings = {} if kind == _BOOSTER else inner.get_params()
    return StoredXGBoost(kind, settings, rewrite_json(booster.save_raw("json")), frozen)


def unpack_model(packed: Any) -> Any:
    """Return the model that was given to `pack_model`."""
    if not isinstance(packed, StoredXGBoost):
        for step in _readers_of_numbers(packed.estimator if isinstance(packed, FrozenEstimator) else packed):
            step.func = partial(check_array, dtype=[np.float64], ensure_all_finite=False)
        return packed
    xgboost = require("xgboost", extra="boosting", purpose="a model of XGBoost")
    # The file names the class, so only known names are looked up.
    if packed.kind not in (_BOOSTER, *_ESTIMATORS):
        raise InputError(f"its model is a {packed.kind[:40]}, which is not a class of XGBoost")
    model = getattr(xgboost, packed.kind)(**packed.settings)
    model.load_model(bytearray(rewrite_json(packed.content)))
    return FrozenEstimator(model) if packed.frozen else model


def _readers_of_numbers(model: Any) -> list[FunctionTransformer]:
    """Return the transformers of numbers in a HistGradientBoosting that was fitted with categories."""
    reader = getattr(model, "_preprocessor", None)
    parts = [*getattr(reader, "transformers", ()), *getattr(reader, "transformers_", ())]
    return [step for _, step, _ in parts if isinstance(step, FunctionTransformer)]


def check_stored_trees(trees: Any) -> None:
    """Raise `InputError` if a file's estimator could not score rows; an unfitted one is accepted."""
    held = vars(trees)
    if "estimator_" not in held:
        return
    kind = "regressor" if is_regressor(trees) else "classifier"
    if ensemble_of(held["estimator_"]).kind != kind:
        raise InputError(f"its estimator_ is not a {kind}")
    if type(held.get("n_features_in_")) is not int:
        raise InputError("its number of features is missing or invalid")
    names = held.get("feature_names_in_")
    if names is not None and not (isinstance(names, np.ndarray) and names.shape == (held["n_features_in_"],)):
        raise InputError("its feature_names_in_ does not match its number of features")
    if not isinstance(held.get("result_"), FitResult):
        raise InputError("its result_ is not the result of a fit")
    if kind == "classifier":
        check_stored_decisions(held)
