"""Fairness constraints for training: the metric to limit, on an interval of ranks, and its limit.

A constraint is a frozen setting, for instance statistical parity on ranks 5–30% with a gap of at most 0.05.
`Constraint.build` applies it to groups and weights and returns a `ConstraintBlock`: atoms (convex functions
of scores and thresholds), the difference-of-convex functions ``f_i ≤ 0`` of them, and thresholds θ that make
a model with all scores 0 feasible.
"""

from partialfair.constraints.group_auc import GroupAUC
from partialfair.constraints.parity import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    StatisticalParity,
)

__all__ = ["DemographicParity", "EqualOpportunity", "EqualizedOdds", "GroupAUC", "StatisticalParity"]
