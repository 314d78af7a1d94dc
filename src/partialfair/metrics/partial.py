"""Compute the exact gaps: the five partial metrics of the paper, and two pairwise ranking metrics.

Any number of groups, ties and weights. Each public function returns the gap of the worst pair of groups. With
it goes a function of `ScoredGroups` and a `Setting`, which also says which pair that is and where the two
differ; reports and fits call those. Their scores and thresholds are such that higher is better, whatever the
users' are. The full (usual) metrics are the case ``interval=(0, 1)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from partialfair.data.groups import LABEL_KINDS
from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet
from partialfair.exceptions import ThresholdOutsideIntervalWarning, UndefinedGapWarning
from partialfair.metrics.inputs import (
    GroupScores,
    ScoredGroups,
    Setting,
    check_gap_scale,
    oriented,
    positives,
    ranked_threshold,
    scored_groups,
)
from partialfair.metrics.sweep import MANY_GROUPS, pair_aucs, pair_gap, parity_gaps
from partialfair.metrics.thresholds import is_outside_everywhere, threshold_message
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

# What a tie counts, by ``ties``.
TIE_WEIGHTS = {"half": 0.5, "geq": 1.0}


@dataclass(frozen=True)
class WorstGap:
    """The largest gap over all pairs of groups, and where it is.

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
        The label among which they differ, where a metric compares both: True for positives; else None.
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
    (Definition 4.2 in its closed form, Appendix C).

    Parameters
    ----------
    y_true
        Ignored; present so that the function is called like other metrics and works in scorers.
    y_score : (n,)
        Scores; any strictly increasing transformation gives the same value.
    sensitive_features : (n,) or (n, q)
        Group of each row; several columns are crossed.
    interval
        Ranks counted **from the best**: ``(0.05, 0.30)`` holds ranks 5–30%, score percentiles 70–95, or
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
        y_score, sensitive_features, interval, sample_weight, None, higher_is_better, missing_groups
    )
    check_gap_scale(gap_scale, scored)
    return statistical_parity_gap(scored, Setting(gap_scale)).value


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
    """Largest difference between groups in the proportion of the interval that is selected (pDP).

    ``max_{k,k'} |P_k(θ̂) − P_k'(θ̂)|`` at the one threshold θ̂, with P_k as in
    `partial_statistical_parity_difference` (Definition 4.3). On the absolute scale P_k is not divided by β −
    α.

    Parameters
    ----------
    threshold
        A row is selected if its score is above it (below it, where lower is better). There is no default: 0
        would select every probability.
    y_true, y_score, sensitive_features, interval, gap_scale, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.

    Warns
    -----
    ThresholdOutsideIntervalWarning
        If the gap is 0 because the threshold's rank lies outside the interval in every group: then none, or
        all, of the rows inside are selected, whatever their scores. Reports call that metric not evaluated.
    """
    scored = scored_groups(
        y_score, sensitive_features, interval, sample_weight, None, higher_is_better, missing_groups
    )
    check_gap_scale(gap_scale, scored)
    setting = Setting(gap_scale, ranked_threshold(scored, threshold))
    return _warn_if_outside(demographic_parity_gap(scored, setting), scored, setting, (None,))


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

    ``max_{k,k'} |Pr(s ≥ s' | s in the interval of k, s' in that of k') − ½|`` (Definition A.1).

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
        y_score, sensitive_features, interval, sample_weight, None, higher_is_better, missing_groups
    )
    return group_auc_gap(scored, Setting(ties=ties)).value


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
    """Largest difference between groups in the selected proportion of the interval's positives (pEOP).

    ``max_{k,k'} |T_k − T_k'|`` with ``T_k = Pr(score > θ̂ | group k, label = pos_label, rank in the
    interval)`` (Definition A.2). On the absolute scale the condition on the rank moves to the left of the
    bar: ``T_k = Pr(score > θ̂, rank in the interval | group k, label = pos_label)``.

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

    Warns
    -----
    ThresholdOutsideIntervalWarning
        As `partial_demographic_parity_difference`.
    """
    positive = positives(y_true, pos_label)
    scored = scored_groups(
        y_score, sensitive_features, interval, sample_weight, positive, higher_is_better, missing_groups
    )
    check_gap_scale(gap_scale, scored)
    setting = Setting(gap_scale, ranked_threshold(scored, threshold), rank_within)
    return _warn_if_outside(equal_opportunity_gap(scored, setting), scored, setting, (True,))


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

    The maximum of `partial_equal_opportunity_difference` and the same with the other label (Definition A.3).

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

    Warns
    -----
    ThresholdOutsideIntervalWarning
        As `partial_demographic_parity_difference`, if that is so among positives and negatives.
    """
    positive = positives(y_true, pos_label)
    scored = scored_groups(
        y_score, sensitive_features, interval, sample_weight, positive, higher_is_better, missing_groups
    )
    check_gap_scale(gap_scale, scored)
    setting = Setting(gap_scale, ranked_threshold(scored, threshold), rank_within)
    return _warn_if_outside(equalized_odds_gap(scored, setting), scored, setting, (True, False))


def inter_group_pairwise_difference(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    pos_label: Any = 1,
    ties: Ties = "half",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Gap in ranking one group's positives above another's negatives (Inter-Group Pairwise Fairness).

    ``max_{k≠k'} |A(k⁺, k'⁻) + A(k⁻, k'⁺) − 1|`` with the area under the ROC curve ``A(S, S') = Pr(s ≥ s')``,
    s drawn from S and s' from S' (a baseline of Appendix G). With ties counted ½ this is ``|A(k⁺, k'⁻) −
    A(k'⁺, k⁻)|``. In the approximation that the paper trains with, the second sum has its indices swapped;
    the definition is what is computed here.

    Parameters
    ----------
    y_true, y_score, sensitive_features, pos_label, sample_weight, missing_groups
        As in `partial_equal_opportunity_difference`.
    ties
        Count a tie as ½ (``"half"``) or as 1 (``"geq"``, the definition's ≥, under which constant scores have
        gap 1).
    higher_is_better
        False if positives should score lower. With ties counted ½ the gap is the same either way.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1]; nan with a warning if some group lacks a label.
    """
    positive = positives(y_true, pos_label)
    scored = scored_groups(
        y_score, sensitive_features, (0.0, 1.0), sample_weight, positive, higher_is_better, missing_groups
    )
    return inter_group_gap(scored, Setting(ties=ties)).value


def intra_group_pairwise_difference(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    pos_label: Any = 1,
    ties: Ties = "half",
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> float:
    """Gap between the groups' own AUCs (Intra-Group Pairwise Fairness).

    ``max_{k,k'} |A(k⁺, k⁻) − A(k'⁺, k'⁻)|``, A as in `inter_group_pairwise_difference` (a baseline of
    Appendix G).

    Parameters
    ----------
    y_true, y_score, sensitive_features, pos_label, ties, sample_weight, higher_is_better, missing_groups
        As in `inter_group_pairwise_difference`.
    """
    positive = positives(y_true, pos_label)
    scored = scored_groups(
        y_score, sensitive_features, (0.0, 1.0), sample_weight, positive, higher_is_better, missing_groups
    )
    return intra_group_gap(scored, Setting(ties=ties)).value


def _warn_if_outside(
    gap: WorstGap, scored: ScoredGroups, setting: Setting, labels: tuple[bool | None, ...]
) -> float:
    """Return the value; warn if it is 0 because the threshold lies outside the interval."""
    if gap.value <= RANK_TOLERANCE and is_outside_everywhere(scored, setting, labels):
        assert setting.threshold is not None
        (label, *_) = labels
        if label is None or setting.rank_within == "group":
            message = threshold_message(scored, setting.threshold)
        else:
            groups = tuple(group.with_label(label) for group in scored)
            among = f"among the {LABEL_KINDS[label]} of"
            message = threshold_message(replace(scored, groups=groups), setting.threshold, among)
        warnings.warn(message, ThresholdOutsideIntervalWarning, stacklevel=3)
    return gap.value


def statistical_parity_gap(scored: ScoredGroups, setting: Setting) -> WorstGap:
    """Worst pair of `partial_statistical_parity_difference`."""
    groups = scored.groups
    pairs: Iterable[tuple[int, int]] = combinations(range(len(groups)), 2)
    if len(groups) > MANY_GROUPS:
        pairs = [widest_pair(parity_gaps(groups, setting.gap_scale))]
    worst = WorstGap(-1.0, (None, None))
    for k, j in pairs:
        value, theta, *ranks = pair_gap(groups[k], groups[j], setting.gap_scale)
        if value > worst.value:  # of equal gaps the first pair's, as `widest_pair` has it
            worst = WorstGap(value, (groups[k].label, groups[j].label), theta, (ranks[0], ranks[1]))
    return worst


def demographic_parity_gap(scored: ScoredGroups, setting: Setting) -> WorstGap:
    """Worst pair of `partial_demographic_parity_difference`."""
    return _proportions_gap(scored, [selected_proportion(group, setting) for group in scored], setting)


def group_auc_gap(scored: ScoredGroups, setting: Setting) -> WorstGap:
    """Worst pair of `partial_group_auc_difference`; ordered, since ≥ is not symmetric under ties."""
    orders = permutations(range(len(scored)), 2)
    gaps = np.abs(pair_aucs(scored.groups, orders, TIE_WEIGHTS[setting.ties]) - 0.5)
    np.fill_diagonal(gaps, -1.0)  # a group is not compared with itself
    return gap_of_pair(scored, gaps)


def equal_opportunity_gap(scored: ScoredGroups, setting: Setting, positive: bool = True) -> WorstGap:
    """Worst pair of `partial_equal_opportunity_difference`, among the positives or the negatives."""
    proportions = [labelled_proportion(group, setting, positive) for group in scored]
    for group, proportion in zip(scored, proportions, strict=True):
        if np.isnan(proportion):
            kind = LABEL_KINDS[positive]
            message = f"group {group.name!r} has no {kind} in the interval, so the gap is undefined"
            warnings.warn(message, UndefinedGapWarning, stacklevel=3)
    return _proportions_gap(scored, proportions, setting)


def equalized_odds_gap(scored: ScoredGroups, setting: Setting) -> WorstGap:
    """Worst pair and label of `partial_equalized_odds_difference`."""
    by_label = [
        replace(equal_opportunity_gap(scored, setting, label), label=label) for label in (True, False)
    ]
    # An undefined gap wins, so that it cannot hide behind a defined one.
    return max(by_label, key=lambda gap: np.inf if np.isnan(gap.value) else gap.value)


def inter_group_gap(scored: ScoredGroups, setting: Setting) -> WorstGap:
    """Worst pair of `inter_group_pairwise_difference`; ordered, since ≥ is not symmetric under ties."""
    _warn_of_missing_labels(scored)
    gaps = np.abs(inter_group_leads(scored, setting.ties))
    np.fill_diagonal(gaps, -1.0)
    return gap_of_pair(scored, gaps)


def inter_group_leads(scored: ScoredGroups, ties: Ties) -> Floats:
    """Return ``A(k⁺, j⁻) + A(k⁻, j⁺) − 1`` at ``[k, j]``, k ≠ j; nan where a group lacks a label."""
    n_groups = len(scored)
    all_ranks = scored.on(IntervalSet(((0.0, 1.0),)))
    by_label = [group.with_label(label) for label in (True, False) for group in all_ranks]
    # Positives are at 0, ..., G − 1 of ``by_label``, negatives at G, ..., 2 G − 1.
    pairs = [
        pair for k, j in permutations(range(n_groups), 2) for pair in ((k, n_groups + j), (n_groups + k, j))
    ]
    aucs = pair_aucs(by_label, pairs, TIE_WEIGHTS[ties])
    return np.asarray(aucs[:n_groups, n_groups:] + aucs[n_groups:, :n_groups] - 1.0)


def intra_group_gap(scored: ScoredGroups, setting: Setting) -> WorstGap:
    """Worst pair of `intra_group_pairwise_difference`."""
    _warn_of_missing_labels(scored)
    return gap_of_pair(scored, differences(group_aucs(scored, setting.ties)))


def group_aucs(scored: ScoredGroups, ties: Ties) -> list[float]:
    """Return ``A(k⁺, k⁻)`` of every group; nan for those that lack a label."""
    aucs = []
    for group in scored.on(IntervalSet(((0.0, 1.0),))):
        by_label = [group.with_label(label) for label in (True, False)]
        aucs.append(float(pair_aucs(by_label, [(0, 1)], TIE_WEIGHTS[ties])[0, 1]))
    return aucs


def selected_proportion(group: GroupScores, setting: Setting) -> float:
    """Proportion of the group's interval (on the absolute scale: of the group) that is selected."""
    assert setting.threshold is not None
    proportion = float(group.interval.passed(group.rank(setting.threshold)))
    return proportion if setting.gap_scale == "interval" else proportion * group.interval.measure


def labelled_proportion(group: GroupScores, setting: Setting, positive: bool) -> float:
    """Return ``T_k`` of `partial_equal_opportunity_difference` for one label; nan if it has no members."""
    assert group.positive is not None
    with_label = group.positive == positive
    if not with_label.any():
        return float("nan")
    # Ranks among members with the label, as in the paper's training constraint.
    if setting.rank_within == "group_and_label":
        return selected_proportion(group.with_label(positive), setting)
    # Ranks of the whole group (Definition A.2): members count by the fraction of the interval that they hold.
    in_band = group.in_band[with_label]
    selected = in_band[group.scores[with_label] > setting.threshold].sum()
    if setting.gap_scale == "absolute":
        weights = np.ones(group.n) if group.weights is None else group.weights
        proportion = group.interval.measure * selected / (weights[with_label].sum() / weights.sum())
        return min(float(proportion), 1.0)  # all of them selected may round to a little more
    total = in_band.sum()
    return float(selected / total) if total > 0 else float("nan")


def _proportions_gap(scored: ScoredGroups, proportions: list[float], setting: Setting) -> WorstGap:
    """Largest difference between the groups' proportions at one threshold, and their ranks there."""
    assert setting.threshold is not None
    gap = gap_of_pair(scored, differences(proportions))
    of_label = {group.label: group for group in scored}
    rank_a, rank_b = (float(of_label[label].rank(setting.threshold)) for label in gap.groups)
    return replace(gap, threshold=setting.threshold, ranks=(rank_a, rank_b))


def differences(values: Sequence[float]) -> Floats:
    """``|value_k − value_j|`` at ``[k, j]`` for k < j; −1 elsewhere."""
    by_group = np.asarray(values)
    gaps = np.abs(by_group[:, None] - by_group[None, :])
    gaps[np.tril_indices(by_group.size)] = -1.0
    return np.asarray(gaps)


def gap_of_pair(scored: ScoredGroups, gaps: Floats) -> WorstGap:
    """Return the largest of a matrix of gaps by pair."""
    k, j = widest_pair(gaps)
    return WorstGap(float(gaps[k, j]), (scored.groups[k].label, scored.groups[j].label))


def widest_pair(gaps: Floats) -> tuple[int, int]:
    """Return the position of the largest gap, the first of several; an undefined one wins."""
    k, j = divmod(int(np.argmax(np.where(np.isnan(gaps), np.inf, gaps))), gaps.shape[1])
    return k, j


def _warn_of_missing_labels(scored: ScoredGroups) -> None:
    for group in scored:
        assert group.positive is not None
        if group.positive.all() or not group.positive.any():
            kind = LABEL_KINDS[not group.positive.all()]
            message = f"group {group.name!r} has no {kind}, so pairwise gaps are undefined"
            warnings.warn(message, UndefinedGapWarning, stacklevel=3)
