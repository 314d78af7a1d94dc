"""The lines of a report: one metric each, with its confidence interval and bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partialfair.data.groups import group_name
from partialfair.metrics._proportions import ProportionGaps
from partialfair.metrics.bounds import Fluctuation, fluctuation
from partialfair.metrics.catalogue import Metric, n_members
from partialfair.metrics.differences import Setting
from partialfair.metrics.inputs import ScoredGroups
from partialfair.metrics.resampling import Resamples, resample
from partialfair.metrics.small_groups import SmallGroup
from partialfair.utils.typing import GroupLabel

__all__ = ["DrawsOfGroups", "ReportRow", "metric_row"]


@dataclass(frozen=True, eq=False, repr=False)
class ReportRow:
    """One metric: its gap, confidence interval, and where the worst pair differs.

    Attributes
    ----------
    metric, value, low, high
        Name, gap of the worst pair, and the ends of the confidence interval of the gap: it holds the true
        maximum over all pairs, whichever pair is worst in truth. nan if undefined.
    groups
        Labels of the worst pair.
    threshold, ranks
        Score at which they differ most, in the units of the scores, and its rank from the best in the two
        groups; nan for pairwise metrics.
    sizes
        Members of the two groups.
    label
        Among whom they differ, where the metric compares both labels: True for positives; else None.
    at_least, at_most
        One-sided bounds, each by itself with the report's confidence: the gap is shown to exceed anything
        below ``at_least``, and shown to be at most ``at_most``.
    fluctuation, least, most
        How far the gap may be from the truth, and what ``low`` and ``high`` are measured from: the gap
        itself, or less and more where ties make it uncertain which scores belong to the interval.
    largest
        The largest gap that there can be: 1 for shares.
    """

    metric: str
    value: float
    low: float
    high: float
    groups: tuple[GroupLabel, GroupLabel]
    threshold: float
    ranks: tuple[float, float]
    sizes: tuple[int, int]
    label: bool | None
    at_least: float
    at_most: float
    fluctuation: Fluctuation | ProportionGaps | None
    least: float
    most: float
    largest: float

    def __repr__(self) -> str:
        pair = " / ".join(map(group_name, self.groups))
        return f"<{self.metric}: {self.value:.4g} ({self.low:.4g} to {self.high:.4g}), {pair}>"

    def bound_above(self, error: float) -> float:
        """Return what ``at_most`` is at another error: the true gap exceeds it with that probability."""
        return min(self.largest, self.value + self.radius(error)) if self.fluctuation else float("nan")

    def radius(self, error: float) -> float:
        """Return how far above the gap that bound is, were there no largest gap."""
        return self.most - self.value + self.fluctuation.above(error) if self.fluctuation else float("nan")

    def p_value(self, tolerance: float) -> float:
        """P-value of the null hypothesis that the true gap is at most ``tolerance``."""
        if self.fluctuation is None:
            return float("nan")
        return self.fluctuation.p_value(self.least - tolerance)


@dataclass(frozen=True, eq=False)
class DrawsOfGroups:
    """Draws of the groups, for each metric by itself.

    Every metric has its own random stream and draws only what it needs, so its interval does not depend on
    which other metrics, labels or thresholds a report has.
    """

    scored: ScoredGroups
    threshold: float | None
    n_resamples: int
    seed: int

    def select_groups(self, metric: Metric, small: tuple[SmallGroup, ...]) -> ScoredGroups:
        """Return all groups but the small ones, with labels if the metric needs them."""
        absent = {group.group for group in small}
        groups = tuple(group for group in self.scored if group.label not in absent)
        if not metric.needs_labels and groups[0].positive is not None:
            groups = tuple(replace(group, positive=None) for group in groups)
        return replace(self.scored, groups=groups)

    def draw(self, name: str, metric: Metric, small: tuple[SmallGroup, ...]) -> Resamples:
        """Draw weights of the groups that the metric compares."""
        stream = np.random.SeedSequence(self.seed, spawn_key=tuple(name.encode()))
        return resample(
            self.select_groups(metric, small),
            threshold=self.threshold if metric.needs_threshold else None,
            n_resamples=self.n_resamples,
            rng=np.random.default_rng(stream),
        )


def metric_row(
    name: str,
    metric: Metric,
    draws: DrawsOfGroups,
    small: tuple[SmallGroup, ...],
    setting: Setting,
    confidence: float,
) -> ReportRow:
    """Return the line of one metric, without its small groups; see `fairness_report`."""
    scored = draws.select_groups(metric, small)
    gap = metric.gap(scored, setting).in_units(scored.higher_is_better)
    sizes = {group.label: group.n for group in scored}
    where = (gap.groups, gap.threshold, gap.ranks, (sizes[gap.groups[0]], sizes[gap.groups[1]]), gap.label)
    if np.isnan(gap.value):
        unknown = float("nan")
        return ReportRow(
            name,
            gap.value,
            unknown,
            unknown,
            *where,
            unknown,
            unknown,
            fluctuation=None,
            least=unknown,
            most=unknown,
            largest=metric.largest,
        )
    spread: Fluctuation | ProportionGaps
    if metric.proportions is not None:
        spread = metric.proportions(scored, setting, confidence)
    else:
        spread = fluctuation(
            metric.differences(draws.draw(name, metric, small), setting),
            confidence,
            n_members(metric, scored, setting),
            metric.widest_difference(scored),
            around_half=metric.around_half,
        )
    least, most = metric.reach(scored, setting, gap.value)
    error = 1 - confidence
    # Each end of the interval may miss with half of the probability, a bound with all of it.
    low, at_least = (max(0.0, least - spread.below(share)) for share in (error / 2, error))
    high, at_most = (min(metric.largest, most + spread.above(share)) for share in (error / 2, error))
    return ReportRow(
        name,
        gap.value,
        low,
        high,
        *where,
        at_least,
        at_most,
        fluctuation=spread,
        least=least,
        most=most,
        largest=metric.largest,
    )
