"""Whether the threshold of a constraint lies where the constraint looks.

Parity at one threshold is met by moving that threshold out of the interval: nobody or everybody inside is
selected then, in every group, and nobody is better off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partialfair._checks import shown
from partialfair._text import listed
from partialfair._typing import Floats
from partialfair.constraints.parity import AtThreshold
from partialfair.estimators._promise import Promise
from partialfair.exceptions import IdleThresholdWarning
from partialfair.groups import Groups
from partialfair.problems import WeightedScores

__all__ = ["idle_threshold_warning"]


def idle_threshold_warning(
    promises: Sequence[Promise], counts: WeightedScores
) -> IdleThresholdWarning | None:
    """Name the groups in which a threshold's rank is outside of the interval; None if there are none."""
    told = []
    for promise in promises:
        outside = _outside(promise, counts)
        if outside:
            told.append(f"the threshold of {type(promise.stated).__name__} has {listed(outside)}")
    if not told:
        return None
    return IdleThresholdWarning(
        f"{'; '.join(told[:2])}: outside of the interval, so the gap at it says nothing of those inside; "
        "take an interval that contains the selection rate, or constraint='statistical_parity'"
    )


def _outside(promise: Promise, counts: WeightedScores) -> list[str]:
    """Return "rank 4.2 % in group 'f'" for every group where that is outside of the interval, ends included.

    Ranks are those among the people compared. Where positives and negatives are, a threshold that is inside
    for one of them is not idle.
    """
    constraint, groups = promise.constraint, promise.groups_of(counts)
    if not isinstance(constraint, AtThreshold):
        return []
    ranks = np.array(
        [
            _ranks(constraint.threshold, counts.scores, np.where(rows, counts.weights, 0.0), groups)
            for rows in constraint.compared(counts.positive)
        ]
    )
    outside = []
    for name, part, of_group in zip(groups.names, constraint.intervals(groups), ranks.T, strict=True):
        if all(part.side(rank) != "inside" for rank in of_group.tolist()):
            percents = " and ".join(f"{100 * rank:.3g} %" for rank in of_group)
            outside.append(f"rank {percents} in group {shown(name, 60)}")
    return outside


def _ranks(threshold: float, scores: Floats, weights: Floats, groups: Groups) -> Floats:
    """Return the share of each group's weight whose score is above the threshold."""
    inside = groups.codes >= 0
    selected, totals = (
        np.bincount(groups.codes[inside], weights=counted[inside], minlength=len(groups.labels))
        for counted in (np.where(scores > threshold, weights, 0.0), weights)
    )
    return np.asarray(selected / totals)
