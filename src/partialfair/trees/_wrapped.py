"""Models as users pass them: estimators, boosters, or estimators in scikit-learn's ``FrozenEstimator``."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import ensemble_of

__all__ = ["predicts_numbers", "unwrapped"]


def unwrapped(model: Any) -> Any:
    """Return the model that a ``FrozenEstimator`` holds, or the model itself."""
    return model.estimator if isinstance(model, FrozenEstimator) else model


def predicts_numbers(model: Any) -> bool:
    """Whether a model is a regressor; of what cannot be read it is not, and fit says what is wrong."""
    inner = unwrapped(model)
    if hasattr(inner, "get_params"):
        return not isinstance(inner, type) and bool(is_regressor(inner))
    try:
        return ensemble_of(inner).kind == "regressor"  # of a booster
    except InputError:
        return False
