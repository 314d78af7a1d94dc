"""Checks which groups are large enough to evaluate, and by which metrics; warns of the others.

The effective size of a group inside its interval is ``n_eff · m``, where ``n_eff = (Σw)² / Σw²`` and m is the
interval's measure. Below ``min_group_size`` its gap reflects mostly sampling noise: the group is listed as
too small, or merged with other small groups. Metrics that need labels also leave out groups with too few
members with one of the labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from partialfair.data.groups import LABEL_KINDS, MAX_GROUPS, Groups, enough, group_name, members_text
from partialfair.exceptions import InputError, SmallGroupWarning, ThresholdOutsideIntervalWarning
from partialfair.metrics.catalogue import METRICS, Metric, choose_metrics
from partialfair.metrics.inputs import (
    GroupScores,
    ScoredGroups,
    Setting,
    check_gap_scale,
    positives,
    ranked_threshold,
    scored_groups,
    sorted_group,
)
from partialfair.metrics.thresholds import threshold_messages
from partialfair.utils.checks import check_choice, check_count, check_fraction
from partialfair.utils.text import listed
from partialfair.utils.typing import (
    ArrayLike,
    GapScale,
    GroupLabel,
    IntervalLike,
    MissingGroups,
    RankWithin,
    SmallGroups,
)

# A warning names evaluated groups whose effective size inside the interval is smaller.
MIN_MEMBERS = 30

TOO_FEW = "too small to evaluate"

# Label of the group that small ones are merged into.
MERGED = "small groups"


@dataclass(frozen=True)
class GroupSummary:
    """One group in numbers.

    Attributes
    ----------
    group
        Its label.
    n, n_effective
        Its members, and ``(Σw)² / Σw²``.
    n_in_interval
        Number of them inside the interval; fractional where a member straddles an end.
    tied_share
        Proportion of the members with a score that is tied within the group.
    interval
        Pairs (low, high) of ranks from the best.
    """

    group: GroupLabel
    n: int
    n_effective: float
    n_in_interval: float
    tied_share: float
    interval: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class SmallGroup(GroupSummary):
    """A group that is not evaluated, by any metric or by one that needs labels.

    Attributes
    ----------
    group, n, n_effective, n_in_interval, tied_share, interval
        As in `GroupSummary`.
    counted
        What is too rare: ``"members"``, ``"positives"`` or ``"negatives"``.
    n_counted
        Their effective number: inside the interval, or in the whole group for metrics of all ranks.
    """

    counted: Literal["members", "positives", "negatives"]
    n_counted: float

    @property
    def reason(self) -> str:
        """Why it is not evaluated."""
        return TOO_FEW

    @property
    def text(self) -> str:
        """Its name and effective number."""
        count = members_text(self.n_counted, too_few=True)
        counted = self.counted.removesuffix("s") if count == "1" else self.counted
        return f"{group_name(self.group)!r} ({count} effective {counted})"


@dataclass(frozen=True, eq=False)
class EvaluatedScores:
    """Scores that are checked, split by group and sorted, before any draw.

    Attributes
    ----------
    scored, setting
        The evaluated groups, and the settings of metrics.
    small, merged
        Groups that are too small, and small groups that are merged.
    too_few_labelled, omitted
        By metric: groups with too few rows of a label, and the reason why it cannot be computed.
    metrics
        Names of the requested metrics that can be computed.
    """

    scored: ScoredGroups
    setting: Setting
    small: tuple[SmallGroup, ...] = ()
    merged: tuple[SmallGroup, ...] = ()
    too_few_labelled: dict[str, tuple[SmallGroup, ...]] = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()

    def compared(self, metric: str) -> ScoredGroups:
        """Return the groups that a metric compares, without those with too few rows of a label."""
        small = {group.group for group in self.too_few_labelled.get(metric, ())}
        groups = tuple(group for group in self.scored if group.label not in small)
        return replace(self.scored, groups=groups)


def evaluate_scores(
    y_true: ArrayLike | None,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    threshold: float | None,
    confidence: float,
    gap_scale: GapScale,
    rank_within: RankWithin,
    pos_label: Any,
    sample_weight: ArrayLike | None,
    clusters: ArrayLike | None,
    n_resamples: int,
    higher_is_better: bool,
    min_group_size: int,
    small_groups: SmallGroups,
    missing_groups: MissingGroups,
    metrics: Sequence[str] | None,
    max_groups: int = MAX_GROUPS,
) -> EvaluatedScores:
    """Check the arguments of `fairness_report`, choose the groups to evaluate, and warn of small ones."""
    check_fraction(confidence, "confidence")
    check_count(n_resamples, "n_resamples")
    # Five draws beyond the end of an interval are the fewest that a quantile is read from.
    if n_resamples * (1 - confidence) < 5 - 1e-9:
        needed = int(np.ceil(5 / (1 - confidence) - 1e-9))
        raise InputError(f"confidence {confidence} needs n_resamples of at least {needed}, not {n_resamples}")
    setting = Setting(gap_scale, None, rank_within)
    check_choice(small_groups, "small_groups", get_args(SmallGroups))
    check_count(min_group_size, "min_group_size")
    check_count(max_groups, "max_groups", low=2)
    if small_groups == "merge" and isinstance(interval, Mapping):  # the merged group would have none
        raise InputError("small_groups='merge' needs one interval for all groups, not one for each")
    names = choose_metrics(metrics)
    all_groups = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        None if y_true is None else positives(y_true, pos_label),
        higher_is_better,
        missing_groups,
        clusters=clusters,
        max_groups=max_groups,
    )
    check_gap_scale(gap_scale, all_groups)
    if threshold is not None:
        setting = replace(setting, threshold=ranked_threshold(all_groups, threshold))
    scored, small, merged = _part_groups(all_groups, min_group_size, small_groups)
    few: dict[str, tuple[SmallGroup, ...]] = {}
    omitted: dict[str, str] = {}
    for name, metric in METRICS.items():
        if small_groups != "keep" and (
            small_of := _too_few_labelled(metric, scored, setting, min_group_size)
        ):
            few[name] = small_of
        n_compared = len(scored) - len(few.get(name, ()))
        reason = metric.missing_inputs(scored, setting)
        omitted[name] = reason or too_few_reason(metric, n_compared, min_group_size)
    # Warnings consider labels whatever the requested metrics; the result contains only these metrics.
    evaluated = EvaluatedScores(
        scored,
        setting,
        small,
        merged,
        {name: few[name] for name in names if name in few},
        {name: omitted[name] for name in names if omitted[name]},
        tuple(name for name in names if not omitted[name]),
    )
    # Warnings are issued here, so that they point to the caller of the public function.
    without_positives = [group.group for group in few.get("equal_opportunity", ())]
    for message in threshold_messages(scored, setting, without_positives):
        warnings.warn(message, ThresholdOutsideIntervalWarning, stacklevel=3)
    for message in _small_group_messages(evaluated, few.get("equalized_odds", ()), min_group_size):
        warnings.warn(message, SmallGroupWarning, stacklevel=3)
    return evaluated


def check_comparable(
    groups: Groups,
    interval: IntervalLike,
    *,
    metric: str,
    positive: npt.NDArray[np.bool_] | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    min_group_size: float = 10,
    missing_groups: MissingGroups = "error",
) -> None:
    """Raise `InputError` for rows in which that metric cannot compare two groups.

    This needs no fit: the sizes do not depend on scores, nor do those by label where ranks are counted within
    group and label.
    """
    scores = np.zeros(groups.codes.size)
    every = scored_groups(scores, groups, interval, sample_weight, positive, True, missing_groups, clusters)
    scored, _, _ = _part_groups(every, min_group_size, "list")
    setting = Setting(rank_within="group_and_label")
    n_small = len(_too_few_labelled(METRICS[metric], scored, setting, min_group_size))
    if reason := too_few_reason(METRICS[metric], len(scored) - n_small, min_group_size):
        raise InputError(f"{metric} {reason}")


def too_few_reason(metric: Metric, n_compared: int, min_group_size: float) -> str:
    """Return why a metric that needs labels cannot compare two groups; empty if it can."""
    if n_compared >= 2:
        return ""
    kinds = " and ".join(LABEL_KINDS[label] for label in metric.labels)
    where = "" if metric.counts == "whole group" else " in the interval"
    only = "only 1 has" if n_compared else "none has"
    return (
        f"compares groups with at least {min_group_size:g} effective {kinds}{where}, of which {only} enough"
    )


def summarize_group(group: GroupScores) -> GroupSummary:
    """Return the numbers of one group."""
    same_as_next = group.scores[1:] == group.scores[:-1]
    tied = np.concatenate([[False], same_as_next]) | np.concatenate([same_as_next, [False]])
    measure = group.interval.measure
    # Rows inside, whatever their weights; a row that straddles an end counts in part.
    n_inside = group.n * measure
    if group.weights is not None:
        n_inside = float((group.in_band * measure * group.weights.sum() / group.weights).sum())
    return GroupSummary(
        group.label, group.n, group.n_effective, n_inside, float(tied.mean()), group.interval.parts
    )


def _part_groups(
    scored: ScoredGroups, min_group_size: float, small_groups: SmallGroups
) -> tuple[ScoredGroups, tuple[SmallGroup, ...], tuple[SmallGroup, ...]]:
    """Return the groups that are evaluated, those that are too small, and those merged into one."""
    if small_groups == "keep":
        return scored, (), ()
    large = [group for group in scored if enough(group.n_inside, min_group_size)]
    few = [group for group in scored if not enough(group.n_inside, min_group_size)]
    small = tuple(_small_group(group, "members", group.n_inside) for group in few)
    merged: tuple[SmallGroup, ...] = ()
    if small_groups == "merge" and few:
        together = _merge(few, [group.label for group in large])
        if enough(together.n_inside, min_group_size):
            large, small, merged = [*large, together], (), small
    if len(large) < 2:
        alone = small or merged  # all groups that are too small separately
        who = "only 1" if len(alone) < len(scored) else "none"
        which = "the small ones together are one"
        if alone:
            which = f"{TOO_FEW}: {listed([group.text for group in alone])}"
        merging = "" if small_groups == "merge" else ", small_groups='merge'"
        raise InputError(
            f"{who} of {len(scored)} groups has at least {min_group_size:g} effective members in the "
            f"interval, and a gap needs two; {which}; widen the interval, or see "
            f"min_group_size{merging} and small_groups='keep'"
        )
    return replace(scored, groups=tuple(large)), small, merged


def _merge(few: Sequence[GroupScores], others: Sequence[GroupLabel]) -> GroupScores:
    """Rank the members of all small groups as one group."""
    if MERGED in others:
        raise InputError(f"small_groups='merge' makes a group {MERGED!r}, but the data have one of that name")
    columns = zip(*((one.scores, one.weights, one.positive, one.clusters) for one in few), strict=True)
    together: list[Any] = [None if column[0] is None else np.concatenate(column) for column in columns]
    return sorted_group(MERGED, few[0].interval, *together)


def _too_few_labelled(
    metric: Metric, scored: ScoredGroups, setting: Setting, min_group_size: float
) -> tuple[SmallGroup, ...]:
    """Return the groups with too few rows of a label that the metric compares, with the rarer label."""
    if not metric.needs_labels or scored.groups[0].positive is None:
        return ()
    within = None if metric.counts == "whole group" else setting.rank_within
    small = []
    for group in scored:
        n_counted, label = min((group.n_labelled(label, within), label) for label in metric.labels)
        if not enough(n_counted, min_group_size):
            small.append(_small_group(group, LABEL_KINDS[label], n_counted))
    return tuple(small)


def _small_group(group: GroupScores, counted: Any, n_counted: float) -> SmallGroup:
    return SmallGroup(**vars(summarize_group(group)), counted=counted, n_counted=n_counted)


def _small_group_messages(
    evaluated: EvaluatedScores, few_inside: Sequence[SmallGroup], min_group_size: int
) -> list[str]:
    """Return messages on groups that are not evaluated, by some or all metrics, or on few members only."""
    scored, setting, messages = evaluated.scored, evaluated.setting, []
    if evaluated.small:
        n_small, n_merged = len(evaluated.small), len(evaluated.merged)
        n_groups = len(scored) - bool(n_merged) + n_small + n_merged
        messages.append(
            f"{n_small} of {n_groups} groups {TOO_FEW}, with fewer than "
            f"{min_group_size} effective members in the interval: "
            f"{listed([group.text for group in evaluated.small])}"
        )
    titles: dict[str, list[str]] = {}
    for name, small in evaluated.too_few_labelled.items():
        if name not in evaluated.omitted:
            titles.setdefault(listed([group.text for group in small]), []).append(METRICS[name].title)
    if titles:
        left_out = "; ".join(f"{listed(metrics, 4)} without {groups}" for groups, metrics in titles.items())
        messages.append(f"{TOO_FEW}, with fewer than {min_group_size}: {left_out}")
    labels_count = setting.threshold is not None and scored.groups[0].positive is not None
    skipped = [group.group for group in few_inside]
    scarce = []
    for group in scored:
        counts = {"members": group.n_inside}
        if labels_count and group.label not in skipped and group.n_inside >= MIN_MEMBERS:
            counts = {
                kind: group.n_labelled(label, setting.rank_within) for label, kind in LABEL_KINDS.items()
            }
        for kind, count in counts.items():
            if (
                0 < count < MIN_MEMBERS
            ):  # none at all makes a metric undefined, which has a warning of its own
                scarce.append(f"{group.name!r} (about {int(count)} effective {kind})")
    if scarce:
        noise = f"gaps measured on fewer than {MIN_MEMBERS} are mostly noise"
        messages.append(f"few in the interval: {listed(scarce)}; {noise}")
    return messages
