"""The lines of a report: what each metric is called, how its gap is measured, and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from partialfair.data.groups import LABEL_KINDS, encode_groups
from partialfair.data.intervals import IntervalSet
from partialfair.exceptions import InputError
from partialfair.metrics import differences, partial, ranking
from partialfair.metrics._proportions import ProportionGaps, proportion_gaps
from partialfair.metrics.bounds import Differences
from partialfair.metrics.differences import Setting
from partialfair.metrics.inputs import GroupScores, ScoredGroups, scored_groups
from partialfair.metrics.resampling import Resamples
from partialfair.metrics.small_groups import (
    SmallGroup,
    labelled_in_interval,
    members_inside,
    select_groups,
    too_few_labelled,
)
from partialfair.metrics.text import fixed
from partialfair.utils.typing import ArrayLike, IntervalLike, MissingGroups

__all__ = ["METRICS", "Metric", "check_judgeable", "lacking", "n_members", "too_few_of", "too_few_reason"]


@dataclass(frozen=True)
class Metric:
    """One line of the report: its title, the exact gap, and its differences for the confidence interval.

    ``counts`` says whose number decides how much may go unseen: the interval's members, everyone, or one or
    the other by the gap's scale; ``labels`` are those it compares, and ``largest`` is the widest gap there
    can be. ``of_selected`` says that only who is above the threshold matters to the gap, where ranks are
    counted among people of the same label: estimators then judge models without sorting. ``in_scores`` says
    that gaps are counted in units of the scores, and not as shares of people: they grow as scores do,
    and have no widest. ``around_half`` says that they are distances of a chance from ½. ``proportions``
    returns the bounds of gaps that are differences of proportions at the threshold; these need no draws.
    """

    title: str
    gap: Callable[[ScoredGroups, Setting], partial.WorstGap]
    differences: Callable[[Resamples, Setting], Differences]
    needs_labels: bool = False
    needs_threshold: bool = False
    of_selected: bool = False
    counts: Literal["by scale", "interval", "everyone"] = "by scale"
    labels: tuple[bool, ...] = (True, False)
    largest: float = 1.0
    in_scores: bool = False
    around_half: bool = False
    proportions: Callable[[ScoredGroups, Setting, float], ProportionGaps] | None = None
    reach: Callable[[ScoredGroups, Setting, float], tuple[float, float]] = lambda scored, s, gap: (gap, gap)

    def __post_init__(self) -> None:
        if self.in_scores:
            object.__setattr__(self, "largest", float("inf"))

    def text(self, gap: float) -> str:
        """Write a gap: shares with three decimals, gaps that may be of any size with four digits."""
        return f"{gap:.4g}" if self.largest > 1 else fixed(gap)

    def widest_difference(self, scored: ScoredGroups) -> float:
        """Return how far two people can be apart: 1 for shares, else the span of all scores in intervals."""
        if not self.in_scores:
            return 1.0
        inside = np.concatenate([group.scores[group.in_band > 0] for group in scored])
        return float(np.ptp(inside)) or 1.0  # where all scores are alike any unit does


def _threshold(setting: Setting) -> float:
    assert setting.threshold is not None
    return setting.threshold


METRICS: dict[str, Metric] = {
    "statistical_parity": Metric(
        "statistical parity (pSP)",
        lambda scored, s: partial.statistical_parity_gap(scored, s.gap_scale),
        differences.statistical_parity,
        reach=lambda scored, s, gap: _parity_reach(scored, s, gap),
    ),
    "demographic_parity": Metric(
        "demographic parity (pDP)",
        lambda scored, s: partial.demographic_parity_gap(scored, _threshold(s), s.gap_scale),
        differences.demographic_parity,
        needs_threshold=True,
        of_selected=True,
        proportions=lambda scored, s, confidence: proportion_gaps(scored, s, (None,), confidence),
    ),
    "group_auc": Metric(
        "group AUC (pGAUC)",
        lambda scored, s: partial.group_auc_gap(scored, "half"),
        differences.group_auc,
        counts="interval",
        largest=0.5,
        around_half=True,
    ),
    "equal_opportunity": Metric(
        "equal opportunity (pEOP)",
        lambda scored, s: partial.equal_opportunity_gap(scored, _threshold(s), s.gap_scale, s.rank_within),
        differences.equal_opportunity,
        needs_labels=True,
        needs_threshold=True,
        of_selected=True,
        labels=(True,),
        proportions=lambda scored, s, confidence: proportion_gaps(scored, s, (True,), confidence),
    ),
    "equalized_odds": Metric(
        "equalized odds (pEOD)",
        lambda scored, s: partial.equalized_odds_gap(scored, _threshold(s), s.gap_scale, s.rank_within),
        differences.equalized_odds,
        needs_labels=True,
        needs_threshold=True,
        of_selected=True,
        proportions=lambda scored, s, confidence: proportion_gaps(scored, s, (True, False), confidence),
    ),
    "inter_group_pairwise": Metric(
        "inter-group pairwise (all ranks)",
        lambda scored, s: ranking.inter_group_gap(scored, "half"),
        differences.inter_group,
        needs_labels=True,
        counts="everyone",
    ),
    "intra_group_pairwise": Metric(
        "intra-group pairwise (all ranks)",
        lambda scored, s: ranking.intra_group_gap(scored, "half"),
        differences.intra_group,
        needs_labels=True,
        counts="everyone",
    ),
}
"""Lines of the report in their order. A new metric is one entry here."""


def lacking(metric: Metric, scored: ScoredGroups, setting: Setting) -> str:
    """Say what the metric needs and was not given, or nothing."""
    needs = []
    if metric.needs_labels and scored.groups[0].positive is None:
        needs.append("labels")
    if metric.needs_threshold and setting.threshold is None:
        needs.append("a threshold")
    return f"needs {' and '.join(needs)}" if needs else ""


def too_few_of(
    metric: Metric, scored: ScoredGroups, setting: Setting, min_group_size: float
) -> tuple[SmallGroup, ...]:
    """Return the groups that have too few with a label that the metric compares, where it compares them."""
    if not metric.needs_labels or scored.groups[0].positive is None:
        return ()

    def count(group: GroupScores, label: bool) -> float:
        if metric.counts == "everyone":
            labelled = group.with_label(label)
            return labelled.n_effective if labelled.n else 0.0
        return labelled_in_interval(group, label, setting.rank_within)

    return too_few_labelled(scored, metric.labels, count, min_group_size)


def too_few_reason(metric: Metric, n_compared: int, min_group_size: float) -> str:
    """Say why a metric that needs labels has not two groups to compare."""
    kinds = " and ".join(LABEL_KINDS[label] for label in metric.labels)
    where = "" if metric.counts == "everyone" else " in the interval"
    only = "only 1 has" if n_compared else "none has"
    return (
        f"compares groups with at least {min_group_size:g} effective {kinds}{where}, of which {only} enough"
    )


def check_judgeable(
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    *,
    metric: str,
    positive: npt.NDArray[np.bool_] | None = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    min_group_size: float = 10,
    missing_groups: MissingGroups = "error",
) -> None:
    """Refuse rows on which a report could not judge any model by that metric.

    Before any fit: how many members are inside does not depend on scores, nor do people with a label where
    ranks are taken within group and label.
    """
    groups = encode_groups(sensitive_features, missing=missing_groups)
    scored = scored_groups(
        np.zeros(groups.codes.size),
        groups,
        interval,
        sample_weight,
        positive,
        clusters=clusters,
        missing_groups=missing_groups,
    )
    judged = select_groups(scored, min_group_size, "list")
    chosen = METRICS[metric]
    few = too_few_of(chosen, judged.scored, Setting(rank_within="group_and_label"), min_group_size)
    if len(judged.scored) - len(few) < 2:
        reason = too_few_reason(chosen, len(judged.scored) - len(few), min_group_size)
        raise InputError(f"{metric} {reason}")


def n_members(metric: Metric, scored: ScoredGroups, setting: Setting) -> list[float]:
    """Effective members of each group, of its scarcer label where labels count, that the metric compares."""
    by_scale = metric.counts == "by scale" and setting.gap_scale == "absolute"
    everyone = by_scale or metric.counts == "everyone"
    if not metric.needs_labels:
        return [group.n_effective if everyone else members_inside(group) for group in scored]
    if everyone:
        return [min(group.with_label(c).n_effective for c in metric.labels) for group in scored]
    return [
        min(labelled_in_interval(group, c, setting.rank_within) for c in metric.labels) for group in scored
    ]


def _parity_reach(scored: ScoredGroups, setting: Setting, gap: float) -> tuple[float, float]:
    """Absolute gaps of the interval shrunk and widened by two standard errors of its ends, if there are ties.

    A block of ties near an end of the interval belongs to it or not by a hair, and the absolute gap jumps
    with it. The bootstrap follows ranks continuously and does not see the jump. Errors of an end are those of
    the smallest group's ranks there.
    """
    tied = any((group.scores[1:] == group.scores[:-1]).any() for group in scored)
    if setting.gap_scale == "interval" or not tied:
        return gap, gap
    n = min(group.n_effective for group in scored)

    def move(end: float, inwards: int) -> float:
        """Move an end by two standard errors and one member."""
        return float(np.clip(end + inwards * (2 * np.sqrt(end * (1 - end) / n) + 1 / n), 0.0, 1.0))

    parts = scored.groups[0].interval.parts
    shrunk = [(move(low, 1), move(high, -1)) for low, high in parts if move(low, 1) < move(high, -1)]
    widened = [(move(low, -1), move(high, 1)) for low, high in parts]
    # Each part by itself: widened parts may overlap, and the gap of a union is that of its worst part.
    least, most = (
        max((_absolute_gap(scored, part) for part in changed), default=0.0) for changed in (shrunk, widened)
    )
    return min(least, gap), max(most, gap)


def _absolute_gap(scored: ScoredGroups, part: tuple[float, float]) -> float:
    return partial.statistical_parity_gap(scored.on(IntervalSet((part,))), "absolute").value
