"""The decision threshold of a classifier: the score above which it predicts the second class.

Constraints that depend on ranks only do not depend on the intercept: adding a number to all scores changes no
rank, so the threshold can be chosen after the fit. The weighted accuracy of ``scores > t`` changes only where
t passes a score, so one sort of the scores finds the best t.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from partialfair.exceptions import InputError
from partialfair.utils.checks import check_number, is_finite_number, shown

TUNE = "tune"


def check_decision_threshold(estimator: Any) -> None:
    """Raise `InputError` for an invalid threshold, or for tuning with a constraint at a fixed score."""
    given = estimator.decision_threshold
    if not isinstance(given, str):
        check_number(given, "decision_threshold")
    elif given != TUNE:
        raise InputError(f"decision_threshold must be a number or {TUNE!r}, not {shown(given)}")
    if is_regressor(estimator):
        if given != 0.0:
            raise InputError("decision_threshold is for classifiers; omit it for a regressor")
        return
    if given != TUNE:
        return
    bound = [one for one in estimator._read_constraints() if hasattr(one, "threshold")]
    if bound:
        raise InputError(
            f"decision_threshold={TUNE!r} would move decisions away from the score at which "
            f"{type(bound[0]).__name__} compares groups; give a number, or use a constraint that depends on "
            "ranks only ('statistical_parity', 'group_auc')"
        )


def check_stored_decisions(held: Mapping[str, Any]) -> None:
    """Raise `InputError` if a file's attributes cannot make decisions."""
    classes, threshold = held.get("classes_"), held.get("decision_threshold_")
    if not (isinstance(classes, np.ndarray) and classes.shape == (2,)):
        raise InputError("its classes_ does not have two labels")
    if not is_finite_number(threshold):
        raise InputError("its decision_threshold_ is not a finite number")
