"""The referee: exact partial-fairness metrics of any model's scores.

Called like scikit-learn's and fairlearn's metrics, ``metric(y_true, y_score, *, sensitive_features, ...)``.
Intervals count from the top: ``(0.05, 0.30)`` holds ranks 5–30 %, score percentiles 70–95.
"""

from partialfair.metrics.partial import (
    partial_demographic_parity_difference,
    partial_equal_opportunity_difference,
    partial_equalized_odds_difference,
    partial_group_auc_difference,
    partial_statistical_parity_difference,
)
from partialfair.metrics.ranking import inter_group_pairwise_difference, intra_group_pairwise_difference

__all__ = [
    "inter_group_pairwise_difference",
    "intra_group_pairwise_difference",
    "partial_demographic_parity_difference",
    "partial_equal_opportunity_difference",
    "partial_equalized_odds_difference",
    "partial_group_auc_difference",
    "partial_statistical_parity_difference",
]
