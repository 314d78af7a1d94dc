"""Bounds on gaps and losses in the population, and the number of IDCA steps.

The formulas are those of the paper's Theorem 6.5 and Appendix F; each docstring begins with its formula. For
sample sizes see `partialfair.metrics.sample_size`.
"""

from partialfair.theory.budget import IdcaBudget, idca_budget
from partialfair.theory.deviations import describe_bound, dkw_bound, uniform_deviation_bound
from partialfair.theory.theorems import (
    GapBound,
    NearThresholds,
    ObjectiveBound,
    describe_generalization,
    gap_bound,
    near_thresholds,
    objective_bound,
)

__all__ = [
    "GapBound",
    "IdcaBudget",
    "NearThresholds",
    "ObjectiveBound",
    "describe_bound",
    "describe_generalization",
    "dkw_bound",
    "gap_bound",
    "idca_budget",
    "near_thresholds",
    "objective_bound",
    "uniform_deviation_bound",
]
