"""Bounds and sample sizes as plain functions: each docstring opens with the formula it evaluates."""

from partialfair.theory.deviations import (
    describe_bound,
    dkw_bound,
    members_needed,
    uniform_deviation_bound,
)
from partialfair.theory.generalization import (
    GapBound,
    GroupContribution,
    HasLevel,
    NearThresholds,
    ObjectiveBound,
    describe_generalization,
    gap_bound,
    near_thresholds,
    objective_bound,
)
from partialfair.theory.idca import IdcaBudget, idca_budget
from partialfair.theory.sizes import required_size, smallest_gap

__all__ = [
    "GapBound",
    "GroupContribution",
    "HasLevel",
    "IdcaBudget",
    "NearThresholds",
    "ObjectiveBound",
    "describe_bound",
    "describe_generalization",
    "dkw_bound",
    "gap_bound",
    "idca_budget",
    "members_needed",
    "near_thresholds",
    "objective_bound",
    "required_size",
    "smallest_gap",
    "uniform_deviation_bound",
]
