"""The metrics: name, exact gap, required inputs, and whether reports include them by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet
from partialfair.exceptions import InputError
from partialfair.metrics import differences, partial
from partialfair.metrics.bounds import Differences
from partialfair.metrics.inputs import ScoredGroups, Setting
from partialfair.metrics.resampling import Resamples, resample
from partialfair.metrics.thresholds import OUTSIDE, is_outside_everywhere
from partialfair.utils.text import fixed


@dataclass(frozen=True)
class Metric:
    """One line of the report: its title, the exact gap, and its differences for the confidence interval.

    Attributes
    ----------
    title
        A noun that fits before "gap".
    gap, differences
        The exact gap, and the family of differences of which it is the maximum; see
        `partialfair.metrics.differences`.
    needs_labels, needs_threshold
        Whether it needs labels, and a threshold.
    of_selected
        Whether, with ranks counted among rows of the same label, the gap depends only on which rows are above
        the threshold: fits then evaluate models without sorting.
    counts
        The rows whose number limits the precision: the interval's members, the whole group, or (``"by
        scale"``) the whole group on the absolute scale and else the interval's members.
    labels
        The labels that it compares, if it needs labels.
    largest
        The largest possible gap.
    in_scores
        Whether gaps are in units of the scores instead of proportions, and so have no largest value.
    around_half
        Whether gaps are distances of a probability from ½.
    proportions
        For gaps that are differences of proportions at the threshold: the labels of these, or None for all
        rows. Their bounds need no draws (`partialfair.metrics.proportions`).
    reach
        The least and the largest gap where ties leave open which scores belong to the interval.
    in_reports
        Whether reports have it by default. Others are included only by ``metrics``, so that a new metric does
        not change audits or their joint confidence.
    """

    title: str
    gap: Callable[[ScoredGroups, Setting], partial.WorstGap]
    differences: Callable[[Resamples, Setting], Differences]
    needs_labels: bool = False
    needs_threshold: bool = False
    of_selected: bool = False
    counts: Literal["by scale", "interval", "whole group"] = "by scale"
    labels: tuple[bool, ...] = (True, False)
    largest: float = 1.0
    in_scores: bool = False
    around_half: bool = False
    proportions: tuple[bool | None, ...] = ()
    reach: Callable[[ScoredGroups, Setting, float], tuple[float, float]] | None = None
    in_reports: bool = False

    def __post_init__(self) -> None:
        if self.in_scores:
            object.__setattr__(self, "largest", float("inf"))

    def text(self, gap: float) -> str:
        """Return a gap as text: proportions with three decimals, gaps in units of scores with four digits."""
        return f"{gap:.4g}" if self.largest > 1 else fixed(gap)

    def widest_difference(self, scored: ScoredGroups) -> float:
        """Return the largest possible difference of two rows: 1 for proportions, else the span of scores."""
        if not self.in_scores:
            return 1.0
        inside = np.concatenate([group.scores[group.in_band > 0] for group in scored])
        return float(np.ptp(inside)) or 1.0  # where all scores are equal any unit is enough

    def missing_inputs(self, scored: ScoredGroups, setting: Setting) -> str:
        """Return which inputs are missing; empty if none is."""
        needs = []
        if self.needs_labels and scored.groups[0].positive is None:
            needs.append("labels")
        if self.needs_threshold and setting.threshold is None:
            needs.append("a threshold")
        return f"needs {' and '.join(needs)}" if needs else ""

    def why_not_evaluated(self, scored: ScoredGroups, setting: Setting, gap: float) -> str:
        """Return why a gap is uninformative (0, with the threshold outside all intervals); else empty."""
        if not self.proportions or not gap <= RANK_TOLERANCE:
            return ""
        return OUTSIDE if is_outside_everywhere(scored, setting, self.proportions) else ""

    def n_members(self, scored: ScoredGroups, setting: Setting) -> list[float]:
        """Return the effective members of each group that it compares, of the rarer label with labels."""
        by_scale = self.counts == "by scale" and setting.gap_scale == "absolute"
        of_all_ranks = by_scale or self.counts == "whole group"
        if not self.needs_labels:
            return [group.n_effective if of_all_ranks else group.n_inside for group in scored]
        within = None if of_all_ranks else setting.rank_within
        return [min(group.n_labelled(label, within) for label in self.labels) for group in scored]


def _parity_reach(scored: ScoredGroups, setting: Setting, gap: float) -> tuple[float, float]:
    """Return absolute gaps of the interval shrunk and extended by two standard errors of its ends, with ties.

    Small errors decide whether a block of ties near an end of the interval belongs to it, and the absolute
    gap jumps accordingly. The bootstrap follows ranks continuously and does not include this jump. The errors
    of an end are those of the smallest group's ranks there.
    """
    tied = any((group.scores[1:] == group.scores[:-1]).any() for group in scored)
    if setting.gap_scale == "interval" or not tied:
        return gap, gap
    n = min(group.n_effective for group in scored)  # the smallest group has the largest errors

    def move(end: float, inwards: int) -> float:
        """Move an end by two standard errors and one member."""
        return float(np.clip(end + inwards * (2 * np.sqrt(end * (1 - end) / n) + 1 / n), 0.0, 1.0))

    def gap_on(part: tuple[float, float]) -> float:
        return partial.statistical_parity_gap(scored.on(IntervalSet((part,))), setting).value

    parts = scored.groups[0].interval.parts
    shrunk = [(move(low, 1), move(high, -1)) for low, high in parts if move(low, 1) < move(high, -1)]
    widened = [(move(low, -1), move(high, 1)) for low, high in parts]
    # Each part separately: extended parts may overlap, and the gap of a union is that of its worst part.
    least, most = (max(map(gap_on, changed), default=0.0) for changed in (shrunk, widened))
    return min(least, gap), max(most, gap)


METRICS: dict[str, Metric] = {
    "statistical_parity": Metric(
        "statistical parity (pSP)",
        partial.statistical_parity_gap,
        differences.statistical_parity,
        reach=_parity_reach,
        in_reports=True,
    ),
    "demographic_parity": Metric(
        "demographic parity (pDP)",
        partial.demographic_parity_gap,
        differences.demographic_parity,
        needs_threshold=True,
        of_selected=True,
        proportions=(None,),
        in_reports=True,
    ),
    "group_auc": Metric(
        "group AUC (pGAUC)",
        partial.group_auc_gap,
        differences.group_auc,
        counts="interval",
        largest=0.5,
        around_half=True,
        in_reports=True,
    ),
    "equal_opportunity": Metric(
        "equal opportunity (pEOP)",
        partial.equal_opportunity_gap,
        differences.equal_opportunity,
        needs_labels=True,
        needs_threshold=True,
        of_selected=True,
        labels=(True,),
        proportions=(True,),
        in_reports=True,
    ),
    "equalized_odds": Metric(
        "equalized odds (pEOD)",
        partial.equalized_odds_gap,
        differences.equalized_odds,
        needs_labels=True,
        needs_threshold=True,
        of_selected=True,
        proportions=(True, False),
        in_reports=True,
    ),
    "inter_group_pairwise": Metric(
        "inter-group pairwise (all ranks)",
        partial.inter_group_gap,
        differences.inter_group,
        needs_labels=True,
        counts="whole group",
        in_reports=True,
    ),
    "intra_group_pairwise": Metric(
        "intra-group pairwise (all ranks)",
        partial.intra_group_gap,
        differences.intra_group,
        needs_labels=True,
        counts="whole group",
        in_reports=True,
    ),
}
"""All metrics, in the order of reports. A new metric is one entry here."""


def report_metrics(*others: str) -> list[str]:
    """Return the names of the metrics that reports have by default, and of some others."""
    return choose_metrics([*(name for name, metric in METRICS.items() if metric.in_reports), *others])


def choose_metrics(names: Sequence[str] | None) -> list[str]:
    """Return names of metrics in the order of `METRICS`: those given, or by default those of reports."""
    if names is None:
        return report_metrics()
    if isinstance(names, str) or not set(names) <= METRICS.keys():
        raise InputError(f"metrics must be a list of some of {', '.join(METRICS)}, not {names!r}")
    return [name for name in METRICS if name in names]


def draw_groups(name: str, scored: ScoredGroups, setting: Setting, n_resamples: int, seed: int) -> Resamples:
    """Draw weights of the groups that a metric compares.

    Every metric has its own random stream, so its interval does not depend on the other metrics, labels or
    thresholds of a report.
    """
    metric = METRICS[name]
    # Without labels a cell is drawn once; with them, once for each.
    if not metric.needs_labels and scored.groups[0].positive is not None:
        groups = tuple(replace(group, positive=None) for group in scored)
        scored = replace(scored, groups=groups)
    stream = np.random.SeedSequence(seed, spawn_key=tuple(name.encode()))
    return resample(
        scored,
        threshold=setting.threshold if metric.needs_threshold else None,
        n_resamples=n_resamples,
        rng=np.random.default_rng(stream),
    )
