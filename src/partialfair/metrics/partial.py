"""Exact gaps: the five partial metrics of the paper, and two pairwise ranking metrics.

All of them accept any number of groups, ties and weights. Each public function returns the gap of the worst
pair of groups. A second function per metric, of `ScoredGroups` and a `Setting`, also returns that pair and
where the two groups differ; reports and fits call it. Its scores and thresholds are negated where lower is
better. The usual full metrics are the case ``interval=(0, 1)``.
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
        The score θ at which they differ by the gap; nan for metrics without a single θ. Where lower is
        better, it is negated like the scores; `in_units` reverses that.
    ranks
        F̄(θ) in the two groups, counted from the best; nan where there is no θ.
    label
        For metrics that compare both labels, the label with the larger gap (True: positives); else None.
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
    (Definition 4.2; the closed form is in Appendix C of the paper).

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Ignored; present so that the function has the signature of other metrics and works in scorers.
    y_score : array-like of shape (n,)
        Scores; any strictly increasing transformation of them gives the same value.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    interval : interval-like, default=(0, 1)
        Ranks counted **from the best**: ``(0.05, 0.30)`` holds ranks 5–30%, that is, score percentiles 70–95,
        or 5–30 where lower is better. A list of such pairs is a union; a mapping gives each group its own
        interval.
    gap_scale : {"interval", "absolute"}, default="interval"
        ``"interval"`` is the definition. ``"absolute"`` is the gap in the paper's tables: ``max |F̄_k(θ) −
        F̄_k'(θ)|`` over the scores θ of the two groups at which one of the two ranks lies in the interval.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        False for scores such as risks: ranks count from the lowest score, and a row is selected if its score
        is **below** the threshold. The value is that of the negated scores and threshold.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1].

    See Also
    --------
    fairness_report : All metrics with confidence intervals.
    unfairness_map : The gaps of all intervals.
    partialfair.constraints.StatisticalParity : The constraint that limits this gap in training.

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

    ``max_{k,k'} |P_k(θ̂) − P_k'(θ̂)|`` at one threshold θ̂, with P_k as in
    `partial_statistical_parity_difference` (Definition 4.3). On the absolute scale P_k is not divided by β −
    α.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Ignored; present so that the function has the signature of other metrics and works in scorers.
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    threshold : float
        A row is selected if its score is above the threshold, or below it where lower is better. There is no
        default, because 0 would select every probability.
    interval : interval-like, default=(0, 1)
        Ranks from the best; see `partial_statistical_parity_difference`.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partial_statistical_parity_difference`.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score, and rows with scores below the threshold are selected.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1].

    Warns
    -----
    ThresholdOutsideIntervalWarning
        If the gap is 0 because the threshold's rank lies outside the interval in every group. Then none or
        all of the rows inside are selected, whatever their scores. Reports do not evaluate the metric in this
        case.

    See Also
    --------
    partial_statistical_parity_difference : The largest such difference over all thresholds.
    partialfair.constraints.DemographicParity : The constraint that limits this gap in training.

    Examples
    --------
    >>> from partialfair.metrics import partial_demographic_parity_difference
    >>> scores, groups = [9, 8, 5, 4, 7, 6, 3, 2], list("aaaabbbb")
    >>> partial_demographic_parity_difference(
    ...     None, scores, sensitive_features=groups, threshold=6.5, interval=(0, 0.5)
    ... )
    0.5
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
    """Distance from ½ of the probability that one group outranks another inside the interval (pGAUC).

    ``max_{k,k'} |Pr(s ≥ s' | s in the interval of k, s' in that of k') − ½|`` (Definition A.1).

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Ignored; present so that the function has the signature of other metrics and works in scorers.
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    interval : interval-like, default=(0, 1)
        Ranks from the best; see `partial_statistical_parity_difference`.
    ties : {"half", "geq"}, default="half"
        ``"half"`` counts a tie as ½, so that constant scores have gap 0. ``"geq"`` counts it as 1, like the ≥
        of the definition, so that constant scores have the largest gap.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, ½].

    See Also
    --------
    partial_statistical_parity_difference : Compares the whole distributions inside the interval.
    partialfair.constraints.GroupAUC : The constraint that limits this gap in training.

    Examples
    --------
    >>> from partialfair.metrics import partial_group_auc_difference
    >>> scores, groups = [9, 8, 5, 4, 7, 6, 3, 2], list("aaaabbbb")
    >>> partial_group_auc_difference(None, scores, sensitive_features=groups, interval=(0, 0.5))
    0.5
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
    interval)`` (Definition A.2). On the absolute scale the rank is not a condition: ``T_k = Pr(score > θ̂,
    rank in the interval | group k, label = pos_label)``.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    threshold : float
        A row is selected if its score is above the threshold.
    interval : interval-like, default=(0, 1)
        Ranks from the best; see `partial_statistical_parity_difference`.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partial_statistical_parity_difference`.
    pos_label : object, default=1
        The label that counts as positive.
    rank_within : {"group", "group_and_label"}, default="group"
        ``"group"`` (the definition) counts ranks within the whole group, ``"group_and_label"`` within the
        group's members with that label, as the training constraint of the paper does.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score, and rows with scores below the threshold are selected.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1]; nan if some group has no positives in the interval (on the absolute
        scale: no positives at all, because T_k = 0 is then defined).

    Warns
    -----
    UndefinedGapWarning
        If the gap is nan.
    ThresholdOutsideIntervalWarning
        As in `partial_demographic_parity_difference`.

    See Also
    --------
    partial_equalized_odds_difference : The larger of this gap and that of the negatives.
    partialfair.constraints.EqualOpportunity : The constraint that limits this gap in training.

    Examples
    --------
    >>> from partialfair.metrics import partial_equal_opportunity_difference
    >>> y, scores, groups = [1, 1, 0, 1, 1, 1, 0, 0], [9, 8, 5, 4, 7, 6, 3, 2], list("aaaabbbb")
    >>> partial_equal_opportunity_difference(y, scores, sensitive_features=groups, threshold=6.5)
    0.16666666666666663
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

    The maximum of `partial_equal_opportunity_difference` and the same gap for the other label (Definition
    A.3).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    threshold : float
        A row is selected if its score is above the threshold.
    interval : interval-like, default=(0, 1)
        Ranks from the best; see `partial_statistical_parity_difference`.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partial_statistical_parity_difference`.
    pos_label : object, default=1
        The label that counts as positive.
    rank_within : {"group", "group_and_label"}, default="group"
        Rows among which ranks are counted; see `partial_equal_opportunity_difference`.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score, and rows with scores below the threshold are selected.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1]; nan as in `partial_equal_opportunity_difference`.

    Warns
    -----
    UndefinedGapWarning
        If the gap is nan.
    ThresholdOutsideIntervalWarning
        As in `partial_demographic_parity_difference`, if it applies to both positives and negatives.

    See Also
    --------
    partial_equal_opportunity_difference : The gap among positives.
    partialfair.constraints.EqualizedOdds : The constraint that limits this gap in training.

    Examples
    --------
    >>> from partialfair.metrics import partial_equalized_odds_difference
    >>> y, scores, groups = [1, 1, 0, 1, 1, 1, 0, 0], [9, 8, 5, 4, 7, 6, 3, 2], list("aaaabbbb")
    >>> partial_equalized_odds_difference(y, scores, sensitive_features=groups, threshold=2.5)
    0.5
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
    A(k'⁺, k⁻)|``. The training approximation in the paper exchanges the indices of the second term; this
    function computes the definition.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    pos_label : object, default=1
        The label that counts as positive.
    ties : {"half", "geq"}, default="half"
        Count a tie as ½ (``"half"``) or as 1 (``"geq"``, the ≥ of the definition, with which constant scores
        have gap 1).
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        False if positives should have lower scores. With ties counted ½ the gap does not depend on it.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1]; nan with a warning if some group lacks a label.

    See Also
    --------
    intra_group_pairwise_difference : The gap between the AUCs within the groups.
    partial_group_auc_difference : Compares groups without labels, on an interval.

    Examples
    --------
    >>> from partialfair.metrics import inter_group_pairwise_difference
    >>> y, scores, groups = [1, 1, 0, 0, 1, 1, 0, 0], [9, 8, 5, 4, 7, 3, 6, 2], list("aaaabbbb")
    >>> inter_group_pairwise_difference(y, scores, sensitive_features=groups)
    0.5
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
    """Gap between the AUCs within the groups (Intra-Group Pairwise Fairness).

    ``max_{k,k'} |A(k⁺, k⁻) − A(k'⁺, k'⁻)|``, with A as in `inter_group_pairwise_difference` (a baseline of
    Appendix G).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two classes.
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    pos_label : object, default=1
        The label that counts as positive.
    ties : {"half", "geq"}, default="half"
        Whether a tie counts ½ or, as in the definition, 1.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        False if positives should have lower scores.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    float
        Gap of the worst pair, in [0, 1]; nan with a warning if some group lacks a label.

    See Also
    --------
    inter_group_pairwise_difference : Compares positives of one group with negatives of another.

    Examples
    --------
    >>> from partialfair.metrics import intra_group_pairwise_difference
    >>> y, scores, groups = [1, 1, 0, 0, 1, 1, 0, 0], [9, 8, 5, 4, 7, 3, 6, 2], list("aaaabbbb")
    >>> intra_group_pairwise_difference(y, scores, sensitive_features=groups)
    0.25
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
