"""Where a classifier decides: the score above which it predicts the second class.

Constraints about ranks alone do not see the intercept: adding a number to all scores changes no rank, so that
the threshold of decisions may be chosen freely afterwards. The weighted accuracy of ``scores > t`` changes
only where t passes a score, hence one sort of the scores finds the best t of all.
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
    """Refuse what is neither a number nor to be tuned, and tuning where constraints look at one score."""
    given = estimator.decision_threshold
    if not isinstance(given, str):
        check_number(given, "decision_threshold")
    elif given != TUNE:
        raise InputError(f"decision_threshold must be a number or {TUNE!r}, not {shown(given)}")
    if is_regressor(estimator):
        if given != 0.0:
            raise InputError("decision_threshold is for classifiers: a regressor makes no decisions")
        return
    if given != TUNE:
        return
    bound = [one for one in estimator._read_constraints() if hasattr(one, "threshold")]
    if bound:
        raise InputError(
            f"decision_threshold={TUNE!r} moves decisions away from the score at which "
            f"{type(bound[0]).__name__} compares groups; give a number, or a constraint about ranks "
            "('statistical_parity', 'group_auc')"
        )


def check_stored_decisions(held: Mapping[str, Any]) -> None:
    """Refuse attributes out of a file by which a classifier could not decide."""
    classes, threshold = held.get("classes_"), held.get("decision_threshold_")
    if not (isinstance(classes, np.ndarray) and classes.shape == (2,)):
        raise InputError("its classes_ are not two")
    if not is_finite_number(threshold):
        raise InputError("its decision_threshold_ is not a finite number")
