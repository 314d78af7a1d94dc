"""Exact metrics of partial fairness, from the scores of any model.

The signature is that of scikit-learn and fairlearn: ``metric(y_true, y_score, *, sensitive_features, ...)``.
Intervals count from the top, or from the lowest score with ``higher_is_better=False``: ``(0.05, 0.30)`` holds
ranks 5–30%, that is, score percentiles 70–95, or 5–30.
"""

from partialfair.metrics.calibration import calibration_by_group
from partialfair.metrics.map import rank_curve, unfairness_map
from partialfair.metrics.membership import interval_changes, interval_membership
from partialfair.metrics.paired import compare_gaps
from partialfair.metrics.partial import (
    inter_group_pairwise_difference,
    intra_group_pairwise_difference,
    partial_demographic_parity_difference,
    partial_equal_opportunity_difference,
    partial_equalized_odds_difference,
    partial_group_auc_difference,
    partial_statistical_parity_difference,
)
from partialfair.metrics.report import fairness_report
from partialfair.metrics.sample_size import detectable_gap, sample_size

__all__ = [
    "calibration_by_group",
    "compare_gaps",
    "detectable_gap",
    "fairness_report",
    "inter_group_pairwise_difference",
    "interval_changes",
    "interval_membership",
    "intra_group_pairwise_difference",
    "partial_demographic_parity_difference",
    "partial_equal_opportunity_difference",
    "partial_equalized_odds_difference",
    "partial_group_auc_difference",
    "partial_statistical_parity_difference",
    "rank_curve",
    "sample_size",
    "unfairness_map",
]
