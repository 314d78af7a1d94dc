"""Whether the threshold of a constraint lies where the constraint looks.

Parity at one threshold is met by moving that threshold out of the interval: nobody or everybody inside is
selected then, in every group, and nobody is better off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partialfair._checks import listing
from partialfair._typing import Floats
from partialfair.constraints.base import Positive
from partialfair.constraints.parity import AtThreshold
from partialfair.estimators._promise import Promise
from partialfair.exceptions import IdleThresholdWarning
from partialfair.intervals import RANK_TOLERANCE

__all__ = ["idle_threshold_warning"]


def idle_threshold_warning(
    promises: Sequence[Promise], scores: Floats, weights: Floats, positive: Positive
) -> IdleThresholdWarning | None:
    """Name the groups in which a threshold's rank is outside of the interval; None if there are none."""
    told = []
    for promise in promises:
        outside = _outside(promise, scores, weights, positive)
        if outside:
            told.append(f"the threshold of {type(promise.stated).__name__} has {listing(outside, most=4)}")
    if not told:
        return None
    return IdleThresholdWarning(
        f"{'; '.join(told[:2])}: outside of the interval, so the gap at it says nothing of those inside; "
        "take an interval that contains the selection rate, or constraint='statistical_parity'"
    )


def _outside(promise: Promise, scores: Floats, weights: Floats, positive: Positive) -> list[str]:
    """Return "rank 4.2 % in group 'f'" for every group where that is outside of the closed interval."""
    constraint, groups = promise.constraint, promise.groups
    if not isinstance(constraint, AtThreshold):
        return []
    outside = []
    for rows in constraint.compared(positive):
        counted = np.flatnonzero(np.broadcast_to(rows, groups.codes.shape) & (groups.codes >= 0))
        codes, n_groups = groups.codes[counted], len(groups.labels)
        totals = np.bincount(codes, weights=weights[counted], minlength=n_groups)
        selected = weights[counted] * (scores[counted] > constraint.threshold)
        ranks = np.bincount(codes, weights=selected, minlength=n_groups) / totals
        for name, part, rank in zip(groups.names, constraint.intervals(groups), ranks, strict=True):
            reached = any(low - RANK_TOLERANCE <= rank <= high + RANK_TOLERANCE for low, high in part.parts)
            if not reached:
                outside.append(f"rank {100 * rank:.3g} % in group {name!r}")
    return outside
