"""Who is judged: groups with enough effective members inside the interval, the others listed or merged.

A group has ``n_eff · m`` effective members inside its interval, where ``n_eff = (Σw)² / Σw²`` and m is the
interval's measure. With fewer than ``min_group_size`` its gap says more about chance than about the scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from partialfair.data.groups import LABEL_KINDS, enough, group_name, members_text
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics.inputs import GroupScores, ScoredGroups, effective_size
from partialfair.utils.text import listed
from partialfair.utils.typing import GroupLabel, IntervalLike, RankWithin, SmallGroups

__all__ = [
    "MERGED",
    "MIN_MEMBERS",
    "TOO_FEW",
    "EvaluatedGroups",
    "GroupSummary",
    "LabelCount",
    "SmallGroup",
    "check_merging",
    "enough",
    "group_summary",
    "labelled_in_interval",
    "members_inside",
    "select_groups",
    "too_few_labelled",
    "warn_about_few",
]

MIN_MEMBERS = 30
"""Judged groups with fewer effective members inside the interval than this get a warning."""

TOO_FEW = "too few to judge"

MERGED = "small groups"
"""Label of the group that small ones are merged into."""

LabelCount: TypeAlias = Callable[[GroupScores, bool], float]
"""Effective members of a group with one label, inside the interval or in all."""


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
        How many of them are inside the interval; fractions where a member straddles an end.
    tied_share
        Share of the members whose score someone else of the group has too.
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
    """A group that is not judged, by any metric or by one that needs labels.

    Attributes
    ----------
    group, n, n_effective, n_in_interval, tied_share, interval
        As in `GroupSummary`.
    counted
        What there are too few of: ``"members"``, ``"positives"`` or ``"negatives"``.
    n_counted
        How many effective ones count: those inside the interval, or in all for metrics of all ranks.
    """

    counted: Literal["members", "positives", "negatives"]
    n_counted: float

    @property
    def reason(self) -> str:
        """Why it is not judged."""
        return TOO_FEW

    @property
    def text(self) -> str:
        """Its name, and how many there are."""
        count = members_text(self.n_counted, too_few=True)
        counted = self.counted.removesuffix("s") if count == "1" else self.counted
        return f"{group_name(self.group)!r} ({count} effective {counted})"


@dataclass(frozen=True, eq=False)
class EvaluatedGroups:
    """The groups that are judged, those that are too small, and those that are judged together as one."""

    scored: ScoredGroups
    small: tuple[SmallGroup, ...]
    merged: tuple[SmallGroup, ...]


def check_merging(small_groups: SmallGroups, interval: IntervalLike) -> None:
    """Refuse to merge groups that have intervals of their own: the merged one would have none."""
    if small_groups == "merge" and isinstance(interval, Mapping):
        raise InputError("small_groups='merge' needs one interval for all groups, not one for each")


def select_groups(scored: ScoredGroups, min_group_size: float, small_groups: SmallGroups) -> EvaluatedGroups:
    """Part the groups into those that are judged and those that are too small."""
    if small_groups == "keep":
        return EvaluatedGroups(scored, (), ())
    large = [group for group in scored if enough(members_inside(group), min_group_size)]
    few = [group for group in scored if not enough(members_inside(group), min_group_size)]
    small = tuple(_small_group(group, "members", members_inside(group)) for group in few)
    merged: tuple[SmallGroup, ...] = ()
    if small_groups == "merge" and few:
        together = _together(few, [group.label for group in large])
        if enough(members_inside(together), min_group_size):
            large, small, merged = [*large, together], (), small
    if len(large) < 2:
        alone = small or merged  # all that are too few, though together they may suffice
        n_large = len(scored) - len(alone)
        raise InputError(_nobody_to_compare(n_large, alone, len(scored), min_group_size, small_groups))
    return EvaluatedGroups(replace(scored, groups=tuple(large)), small, merged)


def members_inside(group: GroupScores) -> float:
    """Effective members inside the interval, ``n_eff · m``."""
    return group.n_effective * group.interval.measure


def labelled_in_interval(group: GroupScores, label: bool, rank_within: RankWithin) -> float:
    """Effective members with that label inside the interval."""
    if rank_within == "group_and_label":
        labelled = group.with_label(label)
        return labelled.n_effective * group.interval.measure if labelled.n else 0.0
    assert group.positive is not None
    inside = np.where(group.positive == label, group.in_band, 0.0)
    if group.clusters is not None:
        inside = np.bincount(group.clusters, weights=inside)
    return effective_size(inside) if inside.any() else 0.0


def too_few_labelled(
    scored: ScoredGroups, labels: Sequence[bool], count: LabelCount, min_group_size: float
) -> tuple[SmallGroup, ...]:
    """Return the groups that have too few with one of the labels, each with the scarcer one."""
    small = []
    for group in scored:
        n_counted, label = min((count(group, label), label) for label in labels)
        if not enough(n_counted, min_group_size):
            small.append(_small_group(group, LABEL_KINDS[label], n_counted))
    return tuple(small)


def warn_about_few(scored: ScoredGroups, label_count: LabelCount | None, skipped: Sequence[Any]) -> None:
    """Warn, once, of judged groups that are small enough for noise.

    Parameters
    ----------
    scored
        Groups that are judged.
    label_count
        How labels inside the interval are counted; None if no metric compares them there.
    skipped
        Labels of groups whose members with a label are not judged.
    """
    few = []
    for group in scored:
        counts = {"members": members_inside(group)}
        if label_count is not None and group.label not in skipped and counts["members"] >= MIN_MEMBERS:
            counts = {kind: label_count(group, label) for label, kind in LABEL_KINDS.items()}
        # None at all makes a metric undefined, which has a warning of its own.
        scarce = {kind: count for kind, count in counts.items() if 0 < count < MIN_MEMBERS}
        few += [f"{group.name!r} (about {int(count)} effective {kind})" for kind, count in scarce.items()]
    if few:
        message = (
            f"few in the interval: {listed(few)}; gaps measured on fewer than {MIN_MEMBERS} are mostly noise"
        )
        warnings.warn(message, SmallGroupWarning, stacklevel=5)


def group_summary(group: GroupScores) -> GroupSummary:
    """Return the numbers of one group."""
    same_as_next = group.scores[1:] == group.scores[:-1]
    tied = np.concatenate([[False], same_as_next]) | np.concatenate([same_as_next, [False]])
    return GroupSummary(
        group.label, group.n, group.n_effective, _rows_inside(group), float(tied.mean()), group.interval.parts
    )


def _small_group(group: GroupScores, counted: Any, n_counted: float) -> SmallGroup:
    return SmallGroup(**vars(group_summary(group)), counted=counted, n_counted=n_counted)


def _together(few: Sequence[GroupScores], others: Sequence[GroupLabel]) -> GroupScores:
    """Rank the members of all small groups as one group."""
    if MERGED in others:
        raise InputError(f"small_groups='merge' makes a group {MERGED!r}, but the data have one of that name")
    scores = np.concatenate([group.scores for group in few])
    order = np.argsort(scores)

    def joined(of: Callable[[GroupScores], Any]) -> Any:
        return None if of(few[0]) is None else np.concatenate([of(group) for group in few])[order]

    return GroupScores(
        MERGED,
        few[0].interval,
        scores[order],
        joined(lambda group: group.weights),
        joined(lambda group: group.positive),
        joined(lambda group: group.clusters),
    )


def _rows_inside(group: GroupScores) -> float:
    """Rows inside the interval, whatever their weights; a row that straddles an end counts in part."""
    if group.weights is None:
        return group.n * group.interval.measure
    return float((group.in_band * group.interval.measure * group.weights.sum() / group.weights).sum())


def _nobody_to_compare(
    n_large: int,
    small: Sequence[SmallGroup],
    n_groups: int,
    min_group_size: float,
    small_groups: SmallGroups,
) -> str:
    who = "none" if n_large == 0 else "only 1"
    merging = "" if small_groups == "merge" else ", small_groups='merge'"
    told = (
        f"{TOO_FEW}: {listed([group.text for group in small])}"
        if small
        else "the small ones together are one"
    )
    return (
        f"{who} of {n_groups} groups has at least {min_group_size:g} effective members in the interval, and "
        f"a gap needs two; {told}; widen the interval, or see min_group_size{merging} and small_groups='keep'"
    )
