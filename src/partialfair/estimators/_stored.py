"""Estimators out of files: whether what they hold can score rows, whoever wrote it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from partialfair.exceptions import InputError
from partialfair.training.result import FitResult
from partialfair.utils.typing import Floats

__all__ = ["check_stored"]


def check_stored(estimator: Any) -> None:
    """Refuse an estimator that could not score rows as fitted; one that is not fitted is as good as new.

    Parameters
    ----------
    estimator
        Of partialfair. Attributes only are looked at: a file may lack settings that came later.
    """
    held = vars(estimator)
    if "coef_" not in held:
        return
    coef = _floats(held, "coef_", n_dimensions=2)
    intercept = _floats(held, "intercept_", n_dimensions=1)
    groups = held.get("groups_")
    if groups is not None and not (isinstance(groups, np.ndarray) and groups.ndim == 1):
        raise InputError("its groups_ are no list of groups")
    n_groups = 0 if groups is None else len(groups)
    if not {len(coef), len(intercept)} <= {1, n_groups}:
        raise InputError("its coef_ and intercept_ do not fit its groups")
    n_features = held.get("n_features_in_")
    if type(n_features) is not int or not 0 < coef.shape[1] <= n_features:
        raise InputError("its coef_ does not fit its number of features")
    names = held.get("feature_names_in_")
    if names is not None and not (isinstance(names, np.ndarray) and names.shape == (n_features,)):
        raise InputError("its feature_names_in_ does not fit its number of features")
    if held.get("group_terms") not in (None, "intercept", "interactions"):
        raise InputError("its group_terms are unknown")
    if not isinstance(held.get("_group_columns", ()), tuple):
        raise InputError("its group columns are no tuple")
    if not isinstance(held.get("result_"), FitResult):
        raise InputError("its result_ is not that of a fit")
    if isinstance(estimator, ClassifierMixin):
        classes = held.get("classes_")
        if not (isinstance(classes, np.ndarray) and classes.shape == (2,)):
            raise InputError("its classes_ are not two")


def _floats(held: dict[str, Any], name: str, *, n_dimensions: int) -> Floats:
    """Return an attribute that is an array of finite floats."""
    value = held.get(name)
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == n_dimensions:
        floats: Floats = value
        if floats.size and np.isfinite(floats).all():
            return floats
    raise InputError(f"its {name} is not an array of finite numbers")
