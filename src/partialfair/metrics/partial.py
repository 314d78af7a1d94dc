"""The five partial metrics: exact values, any number of groups, ties and weights.

Each public function returns the gap of the worst pair of groups. Beside it stands a function on
`ScoredGroups` that also says which pair and where; `fairness_report` calls those. Its scores and thresholds
are such that higher is better, whatever the users' are. The full (usual) metrics are the case
``interval=(0, 1)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, get_args

import numpy as np

from partialfair.exceptions import UndefinedGapWarning
from partialfair.metrics import _kernels
from partialfair.metrics.inputs import (
    GroupScores,
    ScoredGroups,
    check_gap_scale,
    check_threshold,
    oriented,
    positives,
    ranked_threshold,
    scored_groups,
)
from partialfair.metrics.sweep import pair_aucs, parity_gaps
from partialfair.utils.checks import check_choice
from partialfair.utils.typing import (
    ArrayLike,
    Floats,
    GapScale,
    GroupLabel,
    IntervalLike,
    MissingGroups,
    RankWithin,
    Ties,
)

__all__ = [
    "WorstGap",
    "partial_demographic_parity_difference",
    "partial_equal_opportunity_difference",
    "partial_equalized_odds_difference",
    "partial_group_auc_difference",
    "partial_statistical_parity_difference",
]

TIE_SHARES = {"half": 0.5, "geq": 1.0}


@dataclass(frozen=True)
class WorstGap:
    """The widest gap over all pairs of groups, and where it is.

    Attributes
    ----------
    value
        The gap; nan if it is undefined for some group.
    groups
        Labels of the two groups.
    threshold
        The score θ at which they differ by that much; nan for metrics that compare no single θ. Where lower
        is better it is negated like the scores it came from; `in_units` turns it back.
    ranks
        F̄(θ) in the two groups, counted from the best; nan where there is no θ.
    label
        Among whom they differ, where a metric compares both labels: True for positives; else None.
    """

    value: float
    groups: tuple[GroupLabel, GroupLabel]
    threshold: float = float("nan")
    ranks: tuple[float, float] = (float("nan"), float("nan"))
    label: bool | None = None

    def in_units(self, higher_is_better: bool) -> WorstGap:
        """Return the gap with its threshold in the users' units."""
        return replace(self, threshold=oriented(self.threshold, higher_is_better))


def partial_statistical_parity_difference(
    y_true: ArrayLike | None,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike = (0.0, 1.0),
    gap_scale: GapScale = "interval",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Largest difference between groups in the distribution of scores inside the interval (pSP).

    ``max_{k,k'} max_θ |P_k(θ) − P_k'(θ)|`` with ``P_k(θ) = [min(F̄_k(θ), β) − min(F̄_k(θ), α)] / (β − α)``
    (Def. pdp in the closed form CCDF_onI_all).

    Parameters
    ----------
    y_true
        Ignored; present so that the function is called like other metrics and works in scorers.
    y_score : (n,)
        Scores; any strictly increasing transformation gives the same value.
    sensitive_features : (n,) or (n, q)
        Group of each row; several columns are crossed.
    interval
        Ranks counted **from the best**: ``(0.05, 0.30)`` holds ranks 5–30 %, score percentiles 70–95, or
        5–30 where lower is better. A list of such pairs is a union; a mapping gives each group its own.
    gap_scale
        ``"interval"`` is the definition. ``"absolute"`` is what the paper's tables report:
        ``max |F̄_k(θ) − F̄_k'(θ)|`` over the scores θ of the two groups at which one of the two ranks lies in
        the interval.
    sample_weight : (n,)
        Weight 2 is the row twice, weight 0 the row absent.
    higher_is_better
        False for risks and the like, of which low ones are good: ranks count from the lowest score, and a row
        is selected if its score is **below** the threshold. The value is that of the negated scores and
        threshold.
    missing_groups
        ``"ignore"`` leaves rows without a group out; ``"error"`` refuses them.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1].

    Examples
    --------
    >>> from partialfair.metrics import partial_statistical_parity_difference
    >>> scores, groups = [9, 8, 5, 4, 7, 6, 3, 2], list("aaaabbbb")
    >>> partial_statistical_parity_difference(None, scores, sensitive_features=groups, interval=(0, 0.5))
    1.0
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return statistical_parity_gap(scored, gap_scale).value


def partial_demographic_parity_difference(
    y_true: ArrayLike | None,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    threshold: float,
    interval: IntervalLike = (0.0, 1.0),
    gap_scale: GapScale = "interval",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Largest difference between groups in the share of the interval that is selected (pDP).

    ``max_{k,k'} |P_k(θ̂) − P_k'(θ̂)|`` at the one threshold θ̂, with P_k as in
    `partial_statistical_parity_difference` (Def. wpdp). On the absolute scale P_k is not divided by β − α.

    Parameters
    ----------
    threshold
        A row is selected if its score is above it (below it, where lower is better). There is no default: 0
        would select every probability.
    y_true, y_score, sensitive_features, interval, gap_scale, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return demographic_parity_gap(scored, ranked_threshold(scored, threshold), gap_scale).value


def partial_group_auc_difference(
    y_true: ArrayLike | None,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike = (0.0, 1.0),
    ties: Ties = "half",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Distance from ½ of the chance that one group's member outranks another's, inside the interval (pGAUC).

    ``max_{k,k'} |Pr(s ≥ s' | s in the interval of k, s' in that of k') − ½|`` (Def. pgauc).

    Parameters
    ----------
    ties
        ``"half"`` counts a tie as ½, so that constant scores have gap 0; ``"geq"`` counts it as 1, as the
        definition's ≥ does, which calls constant scores maximally unfair.
    y_true, y_score, sensitive_features, interval, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, ½].
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return group_auc_gap(scored, ties).value


def partial_equal_opportunity_difference(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    threshold: float,
    interval: IntervalLike = (0.0, 1.0),
    gap_scale: GapScale = "interval",
    pos_label: Any = 1,
    rank_within: RankWithin = "group",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Largest difference between groups in the share of the interval's positives that is selected (pEOP).

    ``max_{k,k'} |T_k − T_k'|`` with ``T_k = Pr(score > θ̂ | group k, label = pos_label, rank in the
    interval)`` (Def. peop). On the absolute scale the condition on the rank moves to the left of the bar:
    ``T_k = Pr(score > θ̂, rank in the interval | group k, label = pos_label)``.

    Parameters
    ----------
    pos_label
        The label that counts as positive.
    rank_within
        ``"group"`` (the definition) takes ranks within the whole group, ``"group_and_label"`` within the
        group's members with that label, as the training constraint of the paper does.
    y_true : (n,)
        Labels of two classes.
    y_score, sensitive_features, threshold, interval, gap_scale, sample_weight
        As in `partial_demographic_parity_difference`.
    higher_is_better, missing_groups
        As in `partial_demographic_parity_difference`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1]; nan with a warning if some group has no positives in the interval
        (on the absolute scale: no positives at all, since T_k = 0 is then defined).
    """
    positive = positives(y_true, pos_label)
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        positive,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return equal_opportunity_gap(scored, ranked_threshold(scored, threshold), gap_scale, rank_within).value


def partial_equalized_odds_difference(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    threshold: float,
    interval: IntervalLike = (0.0, 1.0),
    gap_scale: GapScale = "interval",
    pos_label: Any = 1,
    rank_within: RankWithin = "group",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Return the larger of the gaps among positives and among negatives (pEOD).

    The maximum of `partial_equal_opportunity_difference` and the same with the other label (Def. peod).

    Parameters
    ----------
    y_true, y_score, sensitive_features, threshold, interval, gap_scale, pos_label, rank_within
        As in `partial_equal_opportunity_difference`.
    sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1].
    """
    positive = positives(y_true, pos_label)
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        positive,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
    )
    return equalized_odds_gap(scored, ranked_threshold(scored, threshold), gap_scale, rank_within).value


def statistical_parity_gap(scored: ScoredGroups, gap_scale: GapScale) -> WorstGap:
    """Worst pair of `partial_statistical_parity_difference`."""
    check_gap_scale(gap_scale, scored)
    k, j = (0, 1) if len(scored) == 2 else widest_pair(parity_gaps(scored.groups, gap_scale))
    a, b = scored.groups[k], scored.groups[j]
    if gap_scale == "interval":
        worst = _kernels.clipped_gap(*a.ranked, *b.ranked, a.set_arguments, b.set_arguments)
    else:
        worst = _kernels.absolute_gap(*a.ranked, *b.ranked, a.interval.starts, a.interval.lengths)
    value, theta, rank_a, rank_b = worst
    return WorstGap(value, (a.label, b.label), theta, (rank_a, rank_b))


def demographic_parity_gap(scored: ScoredGroups, threshold: float, gap_scale: GapScale) -> WorstGap:
    """Worst pair of `partial_demographic_parity_difference`."""
    check_gap_scale(gap_scale, scored)
    check_threshold(threshold)
    shares = [selected_share(group, threshold, gap_scale) for group in scored]
    return _widest_difference(scored, shares, threshold)


def group_auc_gap(scored: ScoredGroups, ties: Ties) -> WorstGap:
    """Worst pair of `partial_group_auc_difference`; ordered, since ≥ is not symmetric under ties."""
    check_choice(ties, "ties", get_args(Ties))
    order = permutations(range(len(scored)), 2)
    gaps = np.abs(pair_aucs(scored.groups, order, TIE_SHARES[ties]) - 0.5)
    np.fill_diagonal(gaps, -1.0)
    return gap_of_pair(scored, gaps)


def equal_opportunity_gap(
    scored: ScoredGroups,
    threshold: float,
    gap_scale: GapScale,
    rank_within: RankWithin,
    positive: bool = True,
) -> WorstGap:
    """Worst pair of `partial_equal_opportunity_difference`, among the positives or the negatives."""
    check_gap_scale(gap_scale, scored)
    check_choice(rank_within, "rank_within", get_args(RankWithin))
    check_threshold(threshold)
    shares = [labelled_share(group, threshold, gap_scale, rank_within, positive) for group in scored]
    for group, share in zip(scored, shares, strict=True):
        if np.isnan(share):
            kind = "positives" if positive else "negatives"
            message = f"group {group.name!r} has no {kind} in the interval, so the gap is undefined"
            warnings.warn(message, UndefinedGapWarning, stacklevel=3)
    return _widest_difference(scored, shares, threshold)


def equalized_odds_gap(
    scored: ScoredGroups, threshold: float, gap_scale: GapScale, rank_within: RankWithin
) -> WorstGap:
    """Worst pair and label of `partial_equalized_odds_difference`."""
    return widest(
        [
            replace(
                equal_opportunity_gap(scored, threshold, gap_scale, rank_within, positive), label=positive
            )
            for positive in (True, False)
        ]
    )


def selected_share(group: GroupScores, threshold: float, gap_scale: GapScale) -> float:
    """Share of the group's interval (on the absolute scale: of the group) that is selected."""
    share = float(group.interval.passed(group.rank(threshold)))
    return share if gap_scale == "interval" else share * group.interval.measure


def labelled_share(
    group: GroupScores, threshold: float, gap_scale: GapScale, rank_within: RankWithin, positive: bool
) -> float:
    """Return ``T_k`` of `partial_equal_opportunity_difference` for one label; nan if nobody counts."""
    assert group.positive is not None
    with_label = group.positive == positive
    if not with_label.any():
        return float("nan")
    if rank_within == "group_and_label":
        return selected_share(group.with_label(positive), threshold, gap_scale)
    in_band = group.in_band[with_label]
    selected = in_band[group.scores[with_label] > threshold].sum()
    if gap_scale == "absolute":
        weights = np.ones(group.n) if group.weights is None else group.weights
        share = group.interval.measure * selected / (weights[with_label].sum() / weights.sum())
        return min(float(share), 1.0)  # all of them selected may round to a little more
    total = in_band.sum()
    return float(selected / total) if total > 0 else float("nan")


def _widest_difference(scored: ScoredGroups, shares: list[float], threshold: float) -> WorstGap:
    """Widest difference between per-group shares at one threshold; undefined shares come first."""
    gap = gap_of_pair(scored, differences(shares))
    of_label = {group.label: group for group in scored}
    rank_a, rank_b = (float(of_label[label].rank(threshold)) for label in gap.groups)
    return replace(gap, threshold=threshold, ranks=(rank_a, rank_b))


def differences(shares: Sequence[float]) -> Floats:
    """``|share_k − share_j|`` at ``[k, j]`` for k < j; −1 elsewhere."""
    values = np.asarray(shares)
    gaps = np.abs(values[:, None] - values[None, :])
    gaps[np.tril_indices(values.size)] = -1.0
    return np.asarray(gaps)


def gap_of_pair(scored: ScoredGroups, gaps: Floats) -> WorstGap:
    """Widest of a matrix of gaps by pair."""
    k, j = widest_pair(gaps)
    return WorstGap(float(gaps[k, j]), (scored.groups[k].label, scored.groups[j].label))


def widest_pair(gaps: Floats) -> tuple[int, int]:
    """Position of the widest gap, the first of several; an undefined one wins, as in `widest`."""
    k, j = divmod(int(np.argmax(np.where(np.isnan(gaps), np.inf, gaps))), gaps.shape[1])
    return k, j


def widest(gaps: list[WorstGap]) -> WorstGap:
    """Return the widest gap; an undefined one wins, so that it cannot hide behind a defined one."""
    return max(gaps, key=lambda gap: np.inf if np.isnan(gap.value) else gap.value)
