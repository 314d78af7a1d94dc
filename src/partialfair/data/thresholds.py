"""Finds the threshold of scores that decides most accurately.

The weighted accuracy of ``scores > t`` changes only where t passes a score, hence one sort of the scores
finds the best t of all.
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
