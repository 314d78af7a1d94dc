"""Who is in the interval, and who enters and leaves it when the scores change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partialfair.data.groups import group_name
from partialfair.data.intervals import band_weights, intervals_by_group
from partialfair.metrics.inputs import encoded_groups, oriented
from partialfair.utils.checks import check_flag, check_weights, finite_vector, refuse_lazy
from partialfair.utils.typing import ArrayLike, Floats, IntervalLike, MissingGroups

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["band_changes", "band_membership"]


def band_membership(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> Floats:
    """How much of each row lies in its group's interval, from 0 to 1.

    A row with weight w in a group of weight W holds a stretch of length w / W of the group's ranks; its
    membership is the share of that stretch inside the interval. It is 0 or 1 but for rows that straddle an
    end of the interval, alone or as part of a block of ties. Rows of weight 0 have membership 0, and so have
    rows without a group where ``missing_groups="ignore"``.

    Parameters
    ----------
    y_score, sensitive_features, interval, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.
    """
    check_flag(higher_is_better, "higher_is_better")
    scores = oriented(finite_vector(y_score, "y_score", ranked=True), higher_is_better)
    weights = np.ones(scores.size) if sample_weight is None else check_weights(sample_weight, scores.size)
    groups = encoded_groups(sensitive_features, scores.size, missing_groups)
    membership = np.zeros(scores.size)
    for code, part in enumerate(intervals_by_group(interval, groups.labels)):
        rows = np.flatnonzero((groups.codes == code) & (weights > 0))
        if rows.size:
            share = band_weights(scores[rows], weights[rows], part)
            membership[rows] = share * part.measure * weights[rows].sum() / weights[rows]
    return np.clip(membership, 0.0, 1.0)  # a sum of weights may be off by a rounding


def band_changes(
    before: ArrayLike,
    after: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> pd.DataFrame:
    """Compare who is in the interval under two sets of scores of the same rows.

    Parameters
    ----------
    before, after : (n,)
        The two sets of scores.
    sensitive_features, interval, sample_weight, higher_is_better, missing_groups
        As in `band_membership`.

    Returns
    -------
    DataFrame
        Indexed by group: ``in_interval`` (weight inside, the same under both), ``stays``, ``enters`` and
        ``leaves``, with ``stays + enters = stays + leaves = in_interval``.
    """
    import pandas as pd

    refuse_lazy(before, "before")
    refuse_lazy(after, "after")
    old, new = (
        band_membership(
            scores,
            sensitive_features=sensitive_features,
            interval=interval,
            sample_weight=sample_weight,
            higher_is_better=higher_is_better,
            missing_groups=missing_groups,
        )
        for scores in (before, after)
    )
    # As they were given, unlike those of check_weights: totals are in their units.
    weights = np.ones(old.size) if sample_weight is None else finite_vector(sample_weight, "sample_weight")
    groups = encoded_groups(sensitive_features, old.size, missing_groups)
    known = groups.codes >= 0

    def total(share: Floats) -> Floats:
        inside = (weights * share)[known]
        return np.asarray(np.bincount(groups.codes[known], weights=inside, minlength=len(groups.labels)))

    return pd.DataFrame(
        {
            "in_interval": total(old),
            "stays": total(np.minimum(old, new)),
            "enters": total(np.maximum(new - old, 0.0)),
            "leaves": total(np.maximum(old - new, 0.0)),
        },
        index=pd.Index([group_name(label) for label in groups.labels], name="group"),
    )
