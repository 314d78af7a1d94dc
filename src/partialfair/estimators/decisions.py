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
from partialfair.utils.typing import Bools, Floats

TUNE = "tune"

_ROUNDING = 1e-12
"""Accuracies that differ by less are equal: sums of fractional weights are not exact."""


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
    bound = [one for one in estimator._read_constraints() if hasattr(one, "threshold")]
    if given == TUNE and bound:
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


def find_decision_threshold(scores: Floats, positive: Bools, weights: Floats) -> float:
    """Return the threshold with the highest weighted accuracy of ``scores > threshold``.

    Parameters
    ----------
    scores, positive, weights : (n,)
        Of rows whose classes are known.

    Returns
    -------
    float
        0 if no other is better; else in the middle between the two scores that it separates, and of several
        that are equally good the one nearest to 0.
    """
    values, at = np.unique(scores, return_inverse=True)
    # What accuracy gains, times the sum of weights, where the k lowest scores are predicted negative.
    gains = np.append(0.0, np.cumsum(np.bincount(at, weights=np.where(positive, -weights, weights))))
    best = np.flatnonzero(gains >= gains.max() - _ROUNDING * weights.sum())
    # Thresholds in [low, high) decide alike.
    low, high = np.append(-np.inf, values)[best], np.append(values, np.inf)[best]
    if ((low <= 0) & (high > 0)).any():
        return 0.0
    with np.errstate(invalid="ignore"):  # infinite ends have no middle
        middle = low / 2 + high / 2
    # Above the highest score it is that score; the middle of neighbors among floats may round to the upper.
    middle = np.where(high == np.inf, low, middle)
    middle = np.where((low == -np.inf) | (middle >= high), np.nextafter(high, -np.inf), middle)
    return float(middle[np.abs(middle).argmin()])
