"""All metrics of one set of scores, with confidence intervals that are right for a maximum."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from partialfair._checks import check_choice
from partialfair._typing import ArrayLike, GapScale, GroupLabel, IntervalLike, RankWithin
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.groups import group_name
from partialfair.intervals import IntervalSet
from partialfair.metrics import _differences, partial, ranking
from partialfair.metrics._differences import Setting
from partialfair.metrics._inputs import (
    GroupScores,
    ScoredGroups,
    check_gap_scale,
    check_threshold,
    positives,
    scored_groups,
)
from partialfair.metrics.resampling import Differences, Fluctuation, Resamples, fluctuation, resample

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MIN_MEMBERS", "FairnessReport", "GroupSummary", "ReportRow", "fairness_report"]

MIN_MEMBERS = 30
"""Fewer (effective) members of a group inside the interval than this and the report warns."""


@dataclass(frozen=True)
class _Metric:
    """One line of the report: its title, the exact gap, and its differences for the confidence interval.

    ``counts`` says whose number decides how much may go unseen: the interval's members, everyone, or one or
    the other by the gap's scale; ``labels`` are those it compares, and ``largest`` is the widest gap there
    can be.
    """

    title: str
    gap: Callable[[ScoredGroups, Setting], partial.WorstGap]
    differences: Callable[[Resamples, Setting], Differences]
    needs_labels: bool = False
    needs_threshold: bool = False
    counts: Literal["by scale", "interval", "everyone"] = "by scale"
    labels: tuple[bool, ...] = (True, False)
    largest: float = 1.0
    reach: Callable[[ScoredGroups, Setting, float], tuple[float, float]] = lambda scored, s, gap: (gap, gap)


def _threshold(setting: Setting) -> float:
    assert setting.threshold is not None
    return setting.threshold


METRICS: dict[str, _Metric] = {
    "statistical_parity": _Metric(
        "statistical parity (pSP)",
        lambda scored, s: partial.statistical_parity_gap(scored, s.gap_scale),
        _differences.statistical_parity,
        reach=lambda scored, s, gap: _parity_reach(scored, s, gap),
    ),
    "demographic_parity": _Metric(
        "demographic parity (pDP)",
        lambda scored, s: partial.demographic_parity_gap(scored, _threshold(s), s.gap_scale),
        _differences.demographic_parity,
        needs_threshold=True,
    ),
    "group_auc": _Metric(
        "group AUC (pGAUC)",
        lambda scored, s: partial.group_auc_gap(scored, "half"),
        _differences.group_auc,
        counts="interval",
        largest=0.5,
    ),
    "equal_opportunity": _Metric(
        "equal opportunity (pEOP)",
        lambda scored, s: partial.equal_opportunity_gap(scored, _threshold(s), s.gap_scale, s.rank_within),
        _differences.equal_opportunity,
        needs_labels=True,
        needs_threshold=True,
        labels=(True,),
    ),
    "equalized_odds": _Metric(
        "equalized odds (pEOD)",
        lambda scored, s: partial.equalized_odds_gap(scored, _threshold(s), s.gap_scale, s.rank_within),
        _differences.equalized_odds,
        needs_labels=True,
        needs_threshold=True,
    ),
    "inter_group_pairwise": _Metric(
        "inter-group pairwise (all ranks)",
        lambda scored, s: ranking.inter_group_gap(scored, "half"),
        _differences.inter_group,
        needs_labels=True,
        counts="everyone",
    ),
    "intra_group_pairwise": _Metric(
        "intra-group pairwise (all ranks)",
        lambda scored, s: ranking.intra_group_gap(scored, "half"),
        _differences.intra_group,
        needs_labels=True,
        counts="everyone",
    ),
}
"""Lines of the report in their order. A new metric is one entry here."""


@dataclass(frozen=True, eq=False, repr=False)
class ReportRow:
    """One metric: its gap, confidence interval, and where the worst pair differs.

    Attributes
    ----------
    metric, value, low, high
        Name, gap of the worst pair, and the ends of its confidence interval; nan if undefined.
    groups
        Labels of the worst pair.
    threshold, ranks
        Score at which they differ most and its rank from the top in the two groups; nan for pairwise metrics.
    sizes
        Members of the two groups.
    fluctuation, least
        How far the gap may be from the truth, and what ``low`` is measured from: the gap itself, or less
        where ties make it uncertain which scores belong to the interval.
    """

    metric: str
    value: float
    low: float
    high: float
    groups: tuple[GroupLabel, GroupLabel]
    threshold: float
    ranks: tuple[float, float]
    sizes: tuple[int, int]
    fluctuation: Fluctuation | None
    least: float

    def __repr__(self) -> str:
        pair = " / ".join(map(group_name, self.groups))
        return f"<{self.metric}: {self.value:.4g} ({self.low:.4g} to {self.high:.4g}), {pair}>"

    def p_value(self, tolerance: float) -> float:
        """P-value of the null hypothesis that the true gap is at most ``tolerance``."""
        if self.fluctuation is None:
            return float("nan")
        return self.fluctuation.p_value(self.least - tolerance)


@dataclass(frozen=True)
class GroupSummary:
    """One group: members, effective members, members inside the interval, and the share of tied scores."""

    group: GroupLabel
    n: int
    n_effective: float
    n_in_interval: float
    tied_share: float
    interval: tuple[tuple[float, float], ...]


@dataclass(frozen=True, eq=False, repr=False)
class FairnessReport:
    """What `fairness_report` found.

    Attributes
    ----------
    rows
        One per metric.
    omitted
        Metrics that could not be computed, each with the reason.
    groups
        One summary per group.
    gap_scale, rank_within, threshold, confidence, n_resamples
        The settings.
    scored
        The sorted scores of every group, with labels, from which pages are made. A pickled report holds them.
    """

    rows: tuple[ReportRow, ...]
    omitted: dict[str, str]
    groups: tuple[GroupSummary, ...]
    gap_scale: GapScale
    rank_within: RankWithin
    threshold: float | None
    confidence: float
    n_resamples: int
    scored: ScoredGroups

    @property
    def worst(self) -> ReportRow:
        """The row with the widest gap."""
        return max(self.rows, key=lambda row: -1.0 if np.isnan(row.value) else row.value)

    def __repr__(self) -> str:
        table = self.to_frame().to_string()
        return f"<FairnessReport of {len(self.rows)} metrics, {len(self.groups)} groups>\n{table}"

    def __getitem__(self, metric: str) -> ReportRow:
        """Return the row of one metric; a missing one says why it was left out."""
        for row in self.rows:
            if row.metric == metric:
                return row
        raise KeyError(f"{metric}: {self.omitted.get(metric, 'no such metric')}")

    def test(self, tolerance: float) -> pd.DataFrame:
        """Test "the true gap exceeds ``tolerance``" for each metric.

        Returns
        -------
        DataFrame
            Indexed by metric: ``value``, ``tolerance``, ``p_value`` (of the null hypothesis gap ≤ tolerance)
            and ``exceeds`` (p ≤ 1 − confidence). The tests are one per metric, not adjusted for their number.
        """
        import pandas as pd

        table = pd.DataFrame(
            {
                "metric": [row.metric for row in self.rows],
                "value": [row.value for row in self.rows],
                "tolerance": tolerance,
                "p_value": [row.p_value(tolerance) for row in self.rows],
            }
        )
        table["exceeds"] = table["p_value"] <= 1 - self.confidence
        return table.set_index("metric")

    def to_frame(self) -> pd.DataFrame:
        """One line per metric; ranks count from the top."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "metric": row.metric,
                    "value": row.value,
                    "low": row.low,
                    "high": row.high,
                    "group_a": group_name(row.groups[0]),
                    "group_b": group_name(row.groups[1]),
                    "score": row.threshold,
                    "rank_a": row.ranks[0],
                    "rank_b": row.ranks[1],
                    "n_a": row.sizes[0],
                    "n_b": row.sizes[1],
                }
                for row in self.rows
            ]
        ).set_index("metric")

    def to_html(self, path: str | Path | None = None, *, title: str = "Fairness audit") -> str | None:
        """Write the interactive page of these scores, or return it if no path is given.

        It is one file that opens offline: the unfairness map, and all metrics on any interval of whole
        percents. It holds summaries of the scores, from which those of small groups could be told.
        """
        from partialfair.report import audit_page, write_page

        text = audit_page(self, title=title)
        if path is None:
            return text
        write_page(text, path)
        return None

    def groups_frame(self) -> pd.DataFrame:
        """One line per group."""
        import pandas as pd

        frame = pd.DataFrame([asdict(group) for group in self.groups])
        frame["group"] = [group_name(group.group) for group in self.groups]
        return frame.set_index("group")


def fairness_report(
    y_true: ArrayLike | None,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike = (0.0, 1.0),
    threshold: float | None = None,
    confidence: float = 0.95,
    gap_scale: GapScale = "interval",
    rank_within: RankWithin = "group",
    pos_label: Any = 1,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = None,
) -> FairnessReport:
    """Compute every partial metric that the data allow, each with a confidence interval.

    Parameters
    ----------
    y_true
        Labels of two classes, or None; then the metrics that need them are left out with a reason.
    y_score, sensitive_features, interval, gap_scale, sample_weight
        As in `partial_statistical_parity_difference`.
    threshold
        Score above which a row is selected, or None; then the metrics that need it are left out.
    confidence
        Nominal coverage of each interval; see `partialfair.metrics.resampling` for how it is reached.
    rank_within, pos_label
        As in `partial_equal_opportunity_difference`.
    n_resamples
        Bootstrap draws; the cost does not depend on the number of rows.
    random_state
        Seed or generator of the draws.

    Returns
    -------
    FairnessReport

    Warns
    -----
    SmallGroupWarning
        If some group has fewer than 30 effective members, in all or with one label, inside the interval.

    Examples
    --------
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.metrics import fairness_report
    >>> data = make_admissions(seed=0)
    >>> report = fairness_report(
    ...     data.y,
    ...     data.historical_score,
    ...     sensitive_features=data.sensitive_features,
    ...     interval=data.interval,
    ...     random_state=0,
    ... )
    >>> report.worst.metric, report.worst.groups
    ('statistical_parity', ('North', 'Islands'))
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, not {confidence}")
    if n_resamples * (1 - confidence) < 5 - 1e-9:
        needed = int(np.ceil(5 / (1 - confidence) - 1e-9))
        raise InputError(f"confidence {confidence} needs n_resamples of at least {needed}, not {n_resamples}")
    check_choice(rank_within, "rank_within", get_args(RankWithin))
    if threshold is not None:
        check_threshold(threshold)
    positive = None if y_true is None else positives(y_true, pos_label)
    scored = scored_groups(y_score, sensitive_features, interval, sample_weight, positive)
    check_gap_scale(gap_scale, scored)
    setting = Setting(gap_scale, threshold, rank_within)
    for group in scored:
        _check_members(group)
        _check_labels(group, setting)
    resamples = resample(
        scored, threshold=threshold, n_resamples=n_resamples, rng=np.random.default_rng(random_state)
    )
    omitted = {
        name: reason for name, metric in METRICS.items() if (reason := _missing(metric, scored, setting))
    }
    rows = tuple(
        _row(name, metric, resamples, setting, confidence)
        for name, metric in METRICS.items()
        if name not in omitted
    )
    return FairnessReport(
        rows,
        omitted,
        tuple(_summary(group) for group in scored),
        gap_scale,
        rank_within,
        threshold,
        confidence,
        n_resamples,
        scored,
    )


def _row(name: str, metric: _Metric, resamples: Resamples, setting: Setting, confidence: float) -> ReportRow:
    scored = resamples.scored
    gap = metric.gap(scored, setting)
    sizes = {group.label: group.n for group in scored}
    where = (gap.groups, gap.threshold, gap.ranks, (sizes[gap.groups[0]], sizes[gap.groups[1]]))
    if np.isnan(gap.value):
        return ReportRow(
            name, gap.value, float("nan"), float("nan"), *where, fluctuation=None, least=gap.value
        )
    n_members = _n_members(metric, scored, setting)
    spread = fluctuation(metric.differences(resamples, setting), confidence, n_members)
    least, most = metric.reach(scored, setting, gap.value)
    low, high = max(0.0, least - spread.below), min(metric.largest, most + spread.above)
    return ReportRow(name, gap.value, low, high, *where, fluctuation=spread, least=least)


def _parity_reach(scored: ScoredGroups, setting: Setting, gap: float) -> tuple[float, float]:
    """Absolute gaps of the interval shrunk and widened by two standard errors of a rank, if there are ties.

    A block of ties near an end of the interval belongs to it or not by a hair, and the absolute gap jumps
    with it. The bootstrap follows ranks continuously and does not see the jump.
    """
    tied = any((group.scores[1:] == group.scores[:-1]).any() for group in scored)
    if setting.gap_scale == "interval" or not tied:
        return gap, gap
    margin = 1 / np.sqrt(min(group.n_effective for group in scored))
    parts = scored.groups[0].interval.parts
    shrunk = [(low + margin, high - margin) for low, high in parts if low + margin < high - margin]
    widened = [(max(low - margin, 0.0), min(high + margin, 1.0)) for low, high in parts]
    # Each part by itself: widened parts may overlap, and the gap of a union is that of its worst part.
    least, most = (
        max((_absolute_gap(scored, part) for part in changed), default=0.0) for changed in (shrunk, widened)
    )
    return min(least, gap), max(most, gap)


def _absolute_gap(scored: ScoredGroups, part: tuple[float, float]) -> float:
    return partial.statistical_parity_gap(scored.on(IntervalSet((part,))), "absolute").value


def _n_members(metric: _Metric, scored: ScoredGroups, setting: Setting) -> list[float]:
    """Effective members of each group, of its scarcer label where labels count, that the metric compares."""
    by_scale = metric.counts == "by scale" and setting.gap_scale == "absolute"
    everyone = by_scale or metric.counts == "everyone"
    if not metric.needs_labels:
        return [group.n_effective * (1 if everyone else group.interval.measure) for group in scored]
    if everyone:
        return [min(group.with_label(c).n_effective for c in metric.labels) for group in scored]
    return [
        min(_labelled_in_interval(group, c, setting.rank_within) for c in metric.labels) for group in scored
    ]


def _labelled_in_interval(group: GroupScores, label: bool, rank_within: RankWithin) -> float:
    """Effective members with that label inside the interval."""
    if rank_within == "group_and_label":
        return group.with_label(label).n_effective * group.interval.measure
    assert group.positive is not None
    inside = group.in_band[group.positive == label]
    return float(inside.sum() ** 2 / (inside**2).sum()) if inside.any() else 0.0


def _missing(metric: _Metric, scored: ScoredGroups, setting: Setting) -> str:
    """Why the metric cannot be computed, or the empty string."""
    lacking = []
    if metric.needs_labels and scored.groups[0].positive is None:
        lacking.append("labels")
    if metric.needs_threshold and setting.threshold is None:
        lacking.append("a threshold")
    return f"needs {' and '.join(lacking)}" if lacking else ""


def _check_members(group: GroupScores) -> None:
    """Refuse an interval that holds nobody of a group, and warn where it holds few."""
    if group.n * group.interval.measure < 1 - 1e-9:
        raise InputError(
            f"the interval of {group.interval} holds no one in group {group.name!r}, "
            f"which has {group.n} {'member' if group.n == 1 else 'members'}"
        )
    _warn_if_few(group.n_effective * group.interval.measure, group, "members")


def _check_labels(group: GroupScores, setting: Setting) -> None:
    """Warn where the interval holds few members with a label, although it holds enough in all."""
    if group.positive is None or setting.threshold is None:
        return
    if group.n_effective * group.interval.measure < MIN_MEMBERS:
        return
    for label, kind in ((True, "positives"), (False, "negatives")):
        n_inside = _labelled_in_interval(group, label, setting.rank_within)
        if n_inside > 0:  # none at all makes the metric undefined, which has a warning of its own
            _warn_if_few(n_inside, group, kind)


def _warn_if_few(n_inside: float, group: GroupScores, kind: str) -> None:
    if n_inside < MIN_MEMBERS:
        message = (
            f"group {group.name!r} has about {int(n_inside)} effective {kind} in the interval; "
            f"gaps measured on fewer than {MIN_MEMBERS} are mostly noise"
        )
        warnings.warn(message, SmallGroupWarning, stacklevel=4)


def _summary(group: GroupScores) -> GroupSummary:
    same_as_next = group.scores[1:] == group.scores[:-1]
    tied = np.concatenate([[False], same_as_next]) | np.concatenate([same_as_next, [False]])
    return GroupSummary(
        group.label, group.n, group.n_effective, _rows_inside(group), float(tied.mean()), group.interval.parts
    )


def _rows_inside(group: GroupScores) -> float:
    """Rows inside the interval, whatever their weights; a row that straddles an end counts in part."""
    if group.weights is None:
        return group.n * group.interval.measure
    return float((group.in_band * group.interval.measure * group.weights.sum() / group.weights).sum())
