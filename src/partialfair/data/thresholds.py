"""Finds the threshold of scores with the highest accuracy of decisions.

The weighted accuracy of ``scores > t`` changes only where t passes a score, so one sort of the scores finds
the best t.
"""

from __future__ import annotations

import numpy as np

from partialfair.utils.typing import Bools, Floats

_ROUNDING = 1e-12
"""Accuracies that differ by less are equal: sums of fractional weights are not exact."""


def find_decision_threshold(scores: Floats, positive: Bools, weights: Floats) -> float:
    """Return the threshold with the highest weighted accuracy of ``scores > threshold``.

    Parameters
    ----------
    scores, positive, weights : (n,)
        Rows with known classes.

    Returns
    -------
    float
        0 if no other is better; else the middle between the two scores that it separates. Among equally good
        thresholds the one nearest to 0 is returned.
    """
    values, at = np.unique(scores, return_inverse=True)
    # Gain in accuracy, times the sum of weights, if the k lowest scores are predicted negative.
    gains = np.append(0.0, np.cumsum(np.bincount(at, weights=np.where(positive, -weights, weights))))
    best = np.flatnonzero(gains >= gains.max() - _ROUNDING * weights.sum())
    # Thresholds in [low, high) give equal decisions.
    low, high = np.append(-np.inf, values)[best], np.append(values, np.inf)[best]
    if ((low <= 0) & (high > 0)).any():
        return 0.0
    with np.errstate(invalid="ignore"):  # infinite ends have no middle
        middle = low / 2 + high / 2
    # Above the highest score it is that score; the middle of neighbors among floats may round to the upper.
    middle = np.where(high == np.inf, low, middle)
    middle = np.where((low == -np.inf) | (middle >= high), np.nextafter(high, -np.inf), middle)
    return float(middle[np.abs(middle).argmin()])
