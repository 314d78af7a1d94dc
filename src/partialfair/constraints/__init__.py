"""Fairness constraints as difference-of-convex functions of scores.

A constraint is a frozen, reusable statement ("statistical parity on ranks 5–30% with gap at most .05").
`build` ties it to groups and weights and gives a `ConstraintBlock`: the atoms, the functions ``f_i ≤ 0`` of
them, and thresholds θ at which a model whose scores are all 0 is feasible.
"""

from partialfair.constraints.base import Constraint, check_compatible
from partialfair.constraints.block import ConstraintBlock, JoinedThresholds, Ranks, Thresholds, join
from partialfair.constraints.group_auc import GroupAUC
from partialfair.constraints.parity import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    OnAGrid,
    RankGrid,
    StatisticalParity,
)

__all__ = [
    "Constraint",
    "ConstraintBlock",
    "DemographicParity",
    "EqualOpportunity",
    "EqualizedOdds",
    "GroupAUC",
    "JoinedThresholds",
    "OnAGrid",
    "RankGrid",
    "Ranks",
    "StatisticalParity",
    "Thresholds",
    "check_compatible",
    "join",
]
