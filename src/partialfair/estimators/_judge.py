"""The referee as seen from an estimator: the exact gap of each constraint on given scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair._typing import Floats
from partialfair.constraints import (
    Constraint,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.groups import Groups
from partialfair.metrics._inputs import ScoredGroups, scored_groups
from partialfair.metrics.partial import (
    WorstGap,
    demographic_parity_gap,
    equal_opportunity_gap,
    equalized_odds_gap,
    group_auc_gap,
    statistical_parity_gap,
)

__all__ = ["JUDGES", "judge"]

Judge: TypeAlias = Callable[[ScoredGroups, Any], WorstGap]

JUDGES: dict[type[Constraint], Judge] = {
    StatisticalParity: lambda scored, stated: statistical_parity_gap(scored, stated.gap_scale),
    DemographicParity: lambda scored, stated: demographic_parity_gap(
        scored, stated.threshold, stated.gap_scale
    ),
    GroupAUC: lambda scored, stated: group_auc_gap(scored, "half"),
    # Ranks among the people with the label, as the constraints count them.
    EqualOpportunity: lambda scored, stated: equal_opportunity_gap(
        scored, stated.threshold, stated.gap_scale, "group_and_label"
    ),
    EqualizedOdds: lambda scored, stated: equalized_odds_gap(
        scored, stated.threshold, stated.gap_scale, "group_and_label"
    ),
}
"""Which metric a constraint bounds; a constraint without one is trained but its exact gap is nan."""


def judge(
    constraint: Constraint,
    scores: Floats,
    groups: Groups,
    weights: Floats,
    positive: npt.NDArray[np.bool_] | None = None,
) -> WorstGap:
    """Return the exact gap that a constraint is about, with the worst pair and where they differ."""
    measure = JUDGES.get(type(constraint))
    if measure is None:
        return WorstGap(float("nan"), (None, None))
    known = groups.codes >= 0
    scored = scored_groups(
        scores[known],
        groups.take(known),
        constraint.interval,
        weights[known],
        None if positive is None else positive[known],
    )
    return measure(scored, constraint)
