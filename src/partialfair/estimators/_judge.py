"""The referee as seen from an estimator: the exact gap of each constraint on given scores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partialfair._typing import Floats
from partialfair.constraints import Constraint
from partialfair.groups import Groups
from partialfair.metrics._inputs import scored_groups
from partialfair.metrics.partial import WorstGap
from partialfair.named_constraints import record_of

__all__ = ["judge"]


def judge(
    constraint: Constraint,
    scores: Floats,
    groups: Groups,
    weights: Floats,
    positive: npt.NDArray[np.bool_] | None = None,
) -> WorstGap:
    """Return the exact gap that a constraint is about, with the worst pair and where they differ.

    A constraint without a `NamedConstraint` bounds no metric: it is trained, but its exact gap is nan.
    """
    record = record_of(constraint)
    if record is None:
        return WorstGap(float("nan"), (None, None))
    known = groups.codes >= 0
    scored = scored_groups(
        scores[known],
        groups.take(known),
        constraint.interval,
        weights[known],
        None if positive is None else positive[known],
    )
    return record.gap(scored, constraint)
