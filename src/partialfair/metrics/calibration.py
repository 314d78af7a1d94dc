"""Calibration by group: the proportion of positives at similar scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.groups import group_name
from partialfair.exceptions import InputError
from partialfair.metrics.inputs import positives, read_groups
from partialfair.utils.checks import check_count, check_weights, finite_vector
from partialfair.utils.typing import ArrayLike, Floats, GroupLabel, MissingGroups

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class GroupCalibration:
    """Agreement of the scores of one group with its proportion of positives.

    Attributes
    ----------
    group
        Its label.
    error
        Expected calibration error ``Σ_b share_b · |positives_b − mean score_b|`` over bins b; nan unless all
        scores are probabilities.
    bias
        Mean score minus proportion of positives: above 0 the scores of the group are too high; nan likewise.
    difference
        ``Σ_b share_b · |positives_b − positives of all groups in b|``: the mean distance between this group's
        proportion of positives and that of all groups at similar scores. Defined for any scores.
    """

    group: GroupLabel
    error: float
    bias: float
    difference: float


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationByGroup:
    """Result of `calibration_by_group`.

    Attributes
    ----------
    groups
        One `GroupCalibration` per group.
    edges : (n_bins + 1,)
        Ends of the bins; a score that equals an inner end belongs to the bin above it.
    shares, mean_scores, positive_rates : (n_groups, n_bins)
        Fraction of each group in each bin, with the mean score and the proportion of positives there; nan in
        empty bins.
    """

    groups: tuple[GroupCalibration, ...]
    edges: Floats
    shares: Floats
    mean_scores: Floats
    positive_rates: Floats

    def __repr__(self) -> str:
        return (
            f"<CalibrationByGroup of {len(self.groups)} groups: largest error {self.worst_error:.3f}, "
            f"largest difference {self.worst_difference:.3f}>"
        )

    @property
    def worst_error(self) -> float:
        """Largest calibration error of any group; nan unless the scores are probabilities."""
        return max(line.error for line in self.groups)

    @property
    def worst_difference(self) -> float:
        """Largest ``difference`` of any group."""
        return max(line.difference for line in self.groups)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per group."""
        import pandas as pd

        rows = [(group_name(one.group), one.error, one.bias, one.difference) for one in self.groups]
        return pd.DataFrame(rows, columns=["group", "error", "bias", "difference"]).set_index("group")

    def bins_frame(self) -> pd.DataFrame:
        """Return one row per group and bin that is not empty."""
        import pandas as pd

        k, b = np.nonzero(self.shares > 0)
        return pd.DataFrame(
            {
                "group": [group_name(self.groups[position].group) for position in k],
                "low": self.edges[b],
                "high": self.edges[b + 1],
                "share": self.shares[k, b],
                "mean_score": self.mean_scores[k, b],
                "positive_rate": self.positive_rates[k, b],
            }
        )


def calibration_by_group(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    n_bins: int = 10,
    pos_label: Any = 1,
    sample_weight: ArrayLike | None = None,
    missing_groups: MissingGroups = "error",
) -> CalibrationByGroup:
    """Compare scores with the proportion of positives at these scores, in each group.

    ``error_k = Σ_b share_kb · |positives_kb − mean score_kb|`` (the expected calibration error, for
    probabilities) and ``difference_k = Σ_b share_kb · |positives_kb − positives_b|`` (for any scores), where
    b runs over bins of about equal weight of all scores together. Both are biased upwards where bins hold few
    rows: compare scores of the same rows, not groups of different sizes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_score : array-like of shape (n,)
        Probabilities of the positive class, or other scores; for the latter only ``difference`` is defined.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    n_bins : int, default=10
        Number of bins; there are fewer where scores are tied.
    pos_label : object, default=1
        The label that counts as positive.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    CalibrationByGroup
        The errors of each group, and the bins.

    See Also
    --------
    fairness_report : The partial metrics.

    Examples
    --------
    >>> from partialfair.metrics import calibration_by_group
    >>> y, p, groups = [0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], list("aabb")
    >>> calibration_by_group(y, p, sensitive_features=groups).worst_error
    0.0
    """
    check_count(n_bins, "n_bins")
    scores = finite_vector(y_score, "y_score", ranked=True)
    positive = positives(y_true, pos_label)
    if positive.size != scores.size:
        raise InputError(f"y_true has {positive.size} rows, but there are {scores.size} scores")
    if scores.size == 0:
        raise InputError("y_score is empty")
    weights = np.ones(scores.size) if sample_weight is None else check_weights(sample_weight, scores.size)
    encoded = read_groups(sensitive_features, scores.size, missing_groups)
    counted = (encoded.codes >= 0) & (weights > 0)
    scores, positive, weights = scores[counted], positive[counted], weights[counted]
    groups = encoded.take(counted)
    if not groups.labels:
        raise InputError("no row has a group and a positive weight, so there is nothing to calibrate")
    edges = _bin_edges(scores, weights, int(n_bins))
    cells = np.digitize(scores, edges[1:-1]) + (edges.size - 1) * groups.codes.astype(np.intp)
    shape = (len(groups.labels), edges.size - 1)

    def sums(values: Floats) -> Floats:
        flat = np.bincount(cells, weights=values, minlength=shape[0] * shape[1])
        return flat.reshape(shape).astype(np.float64, copy=False)

    in_bin = sums(weights)
    score_sums, positive_sums = sums(weights * scores), sums(weights * positive)
    with np.errstate(invalid="ignore"):
        means, rates = score_sums / in_bin, positive_sums / in_bin
        pooled = positive_sums.sum(axis=0) / in_bin.sum(axis=0)
    totals = in_bin.sum(axis=1)
    errors = np.abs(positive_sums - score_sums).sum(axis=1) / totals
    biases = (score_sums - positive_sums).sum(axis=1) / totals
    away = np.nansum(in_bin * np.abs(rates - pooled), axis=1) / totals
    if scores.min() < 0 or scores.max() > 1:  # not probabilities
        errors, biases = np.full((2, totals.size), np.nan)
    columns = (groups.labels, errors.tolist(), biases.tolist(), away.tolist())
    lines = tuple(GroupCalibration(*line) for line in zip(*columns, strict=True))
    return CalibrationByGroup(lines, edges, in_bin / totals[:, None], means, rates)


def _bin_edges(scores: Floats, weights: Floats, n_bins: int) -> Floats:
    """Return ends of bins of about equal weight; no bin is empty, so there may be fewer."""
    order = np.argsort(scores, kind="stable")
    passed = np.cumsum(weights[order])
    cuts = np.searchsorted(passed, passed[-1] * np.arange(1, n_bins) / n_bins, side="left")
    low, high = scores[order[0]], scores[order[-1]]
    inner = np.unique(scores[order[np.minimum(cuts, scores.size - 1)]])
    return np.concatenate([[low], inner[inner > low], [high]])
