"""The report of all metrics of one set of scores, with confidence intervals that are valid for a maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partialfair.data.groups import MAX_GROUPS, Groups, group_name, label_kind
from partialfair.metrics.bounds import Fluctuation, bound_fluctuation
from partialfair.metrics.catalogue import METRICS, Metric, draw_groups
from partialfair.metrics.elsewhere import GapElsewhere, groups_gap_elsewhere
from partialfair.metrics.evaluation import (
    MERGED,
    TOO_FEW,
    EvaluatedScores,
    GroupSummary,
    SmallGroup,
    evaluate_scores,
    summarize_group,
)
from partialfair.metrics.inputs import ScoredGroups, Setting
from partialfair.metrics.map import groups_curve
from partialfair.metrics.partial import WorstGap, labelled_proportion, selected_proportion
from partialfair.metrics.proportions import ProportionGaps, estimate_proportions
from partialfair.metrics.verdict import Verdict, gap_text, name_of, state_verdict, summarize_report
from partialfair.utils.checks import check_choice, random_generator
from partialfair.utils.notebook import result_html
from partialfair.utils.text import short_percent
from partialfair.utils.typing import (
    ArrayLike,
    GapScale,
    GroupLabel,
    IntervalLike,
    MissingGroups,
    RankWithin,
    SmallGroups,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class ReportRow:
    """One metric: its gap, confidence interval, and where the worst pair differs.

    Attributes
    ----------
    metric, gap, ci_low, ci_high
        Name, gap of the worst pair, and the ends of the confidence interval for the maximum over all pairs,
        whichever pair is worst in the population. nan if undefined.
    groups
        Labels of the worst pair.
    threshold, ranks
        Score at which they differ most, in the units of the scores, and its rank from the best in the two
        groups; nan for pairwise metrics.
    sizes
        Members of the two groups.
    label
        For metrics that compare both labels, the label with the larger gap (True: positives); else None.
    lower_bound, upper_bound
        One-sided confidence bounds of the gap, each by itself with the report's confidence.
    fluctuation, least, most
        The distribution of the error, and the values from which ``ci_low`` and ``ci_high`` are measured: the
        gap itself, or less and more where ties leave open which scores belong to the interval.
    largest
        The largest possible gap: 1 for proportions.
    reason
        Why the metric is not evaluated and its gap is nan: "threshold outside the interval"; else empty.
    worse_off
        The group of the worst pair with the smaller proportion above the threshold or, for metrics of whole
        distributions, above the score at which they differ most; None for metrics of pairs of rows, and where
        the gap is 0.
    """

    metric: str
    gap: float
    ci_low: float
    ci_high: float
    groups: tuple[GroupLabel, GroupLabel]
    threshold: float
    ranks: tuple[float, float]
    sizes: tuple[int, int]
    label: bool | None
    lower_bound: float
    upper_bound: float
    fluctuation: Fluctuation | ProportionGaps | None
    least: float
    most: float
    largest: float
    reason: str = ""
    worse_off: GroupLabel | None = None

    @property
    def missing_text(self) -> str:
        """The text that replaces a gap that is nan."""
        return f"n/a ({self.reason})" if self.reason else "undefined"

    def __repr__(self) -> str:
        if np.isnan(self.gap):
            return f"<{self.metric}: {self.missing_text}>"
        pair = " / ".join(map(group_name, self.groups))
        return f"<{self.metric}: {self.gap:.4g} ({self.ci_low:.4g} to {self.ci_high:.4g}), {pair}>"

    def bound_above(self, error: float) -> float:
        """Return ``upper_bound`` at another error, the probability that the true gap exceeds it."""
        return min(self.largest, self.gap + self.radius(error)) if self.fluctuation else float("nan")

    def radius(self, error: float) -> float:
        """Return the distance of that bound from the gap, not limited to the largest possible gap."""
        return self.most - self.gap + self.fluctuation.above(error) if self.fluctuation else float("nan")

    def p_value(self, tolerance: float) -> float:
        """P-value of the null hypothesis that the true gap is at most ``tolerance``."""
        if self.fluctuation is None:
            return float("nan")
        return self.fluctuation.p_value(self.least - tolerance)


@dataclass(frozen=True)
class PairGap:
    """The gap between two groups.

    Attributes
    ----------
    groups
        Their labels.
    gap, ci_low, ci_high
        The gap, and the ends of its confidence interval. It is valid for a pair that was chosen beforehand;
        the interval of a report's row is that of the maximum over all pairs.
    label
        For metrics that compare both labels, the label with the larger gap (True: positives); else None.
    """

    groups: tuple[GroupLabel, GroupLabel]
    gap: float
    ci_low: float
    ci_high: float
    label: bool | None = None


@dataclass(frozen=True, eq=False, repr=False)
class FairnessReport:
    """Result of `fairness_report`.

    Attributes
    ----------
    metrics
        One `ReportRow` per metric.
    threshold, confidence, n_resamples, min_group_size
        The settings; the threshold is in the units of the scores.
    """

    metrics: tuple[ReportRow, ...]
    threshold: float | None
    confidence: float
    n_resamples: int
    min_group_size: int
    _evaluated: EvaluatedScores
    _pairs: dict[str, list[PairGap]] = field(default_factory=dict)

    @property
    def omitted(self) -> dict[str, str]:
        """Metrics that could not be computed, with the reasons."""
        return self._evaluated.omitted

    @cached_property
    def groups(self) -> tuple[GroupSummary, ...]:
        """One summary per evaluated group."""
        return tuple(summarize_group(group) for group in self.scored)

    @property
    def small_groups(self) -> tuple[SmallGroup, ...]:
        """Groups with too few members in the interval to be evaluated."""
        return self._evaluated.small

    @property
    def merged_groups(self) -> tuple[SmallGroup, ...]:
        """Small groups that are evaluated together, as the group "small groups"."""
        return self._evaluated.merged

    @property
    def too_few_labelled(self) -> dict[str, tuple[SmallGroup, ...]]:
        """For metrics that need labels: groups left out for too few positives or negatives."""
        return self._evaluated.too_few_labelled

    @property
    def scored(self) -> ScoredGroups:
        """The sorted scores of the evaluated groups, with labels; negated where lower is better.

        HTML reports are computed from them, and a pickled report contains them.
        """
        return self._evaluated.scored

    @property
    def gap_scale(self) -> GapScale:
        """The scale of the gaps."""
        return self._evaluated.setting.gap_scale

    @property
    def rank_within(self) -> RankWithin:
        """Rows among which metrics by label count ranks."""
        return self._evaluated.setting.rank_within

    @property
    def higher_is_better(self) -> bool:
        """Whether high scores are the good ones."""
        return self.scored.higher_is_better

    @property
    def n_missing(self) -> int:
        """Number of rows that were left out because they have no group."""
        return self.scored.n_missing

    @property
    def exclusions(self) -> str:
        """What is not evaluated, such as "2 of 5 groups too small to evaluate"; empty if nothing is."""
        n_single = len(self.scored) - bool(self.merged_groups)
        n_groups = n_single + len(self.small_groups) + len(self.merged_groups)
        said = []
        if self.small_groups:
            said.append(f"{len(self.small_groups)} of {n_groups} groups {TOO_FEW}")
        if self.merged_groups:
            said.append(f"{len(self.merged_groups)} of {n_groups} groups judged together as {MERGED!r}")
        if self.n_missing:
            rows = "1 row" if self.n_missing == 1 else f"{self.n_missing:,} rows"
            said.append(f"{rows} without a group left out")
        return "; ".join(said)

    def evaluated(self, groups: Groups) -> Groups:
        """Return the groups as they are evaluated: without those too small, and with merged ones as one."""
        labels = tuple(group.label for group in self.scored)
        joined = {group.group: MERGED for group in self.merged_groups}
        names = [joined.get(label, label) for label in groups.labels]
        return groups.regroup([labels.index(name) if name in labels else -1 for name in names], labels)

    @property
    def worst(self) -> ReportRow:
        """The row with the largest gap among metrics of proportions (not in units of scores)."""
        comparable = [row for row in self.metrics if METRICS[row.metric].largest <= 1]
        return max(comparable, key=lambda row: -1.0 if np.isnan(row.gap) else row.gap)

    @property
    def confidence_note(self) -> str:
        """A sentence on the confidence of the intervals, individually and simultaneously."""
        each = f"Each interval by itself holds with {short_percent(self.confidence)} confidence"
        if self._n_intervals < 2 or self.joint_confidence == 0:
            return f"{each}."
        return (
            f"{each}; all {self._n_intervals} hold simultaneously with at least "
            f"{short_percent(self.joint_confidence)} confidence."
        )

    @property
    def ranking_note(self) -> str:
        """The rows among which metrics by label count ranks, in a sentence; empty without such metrics."""
        labelled = any(set(METRICS[row.metric].proportions) - {None} for row in self.metrics)
        if not labelled or all(group.interval.parts == ((0.0, 1.0),) for group in self.scored):
            return ""
        rows = "all members of a group" if self.rank_within == "group" else "a group's members with the label"
        return f"Metrics by label (equal opportunity, equalized odds) count ranks among {rows}."

    @property
    def joint_confidence(self) -> float:
        """Lower bound on the confidence of all m intervals simultaneously: ``1 − m (1 − confidence)``."""
        return max(0.0, 1 - self._n_intervals * (1 - self.confidence))

    @property
    def _n_intervals(self) -> int:
        return sum(row.fluctuation is not None for row in self.metrics)

    @property
    def verdict(self) -> Verdict:
        """The result for statistical parity: finding, direction, size, confidence, and claim."""
        return state_verdict(self)

    def summary(self) -> str:
        """Return a paragraph for a memo: what was compared, the verdict, other gaps, and the exclusions."""
        return summarize_report(self)

    def __repr__(self) -> str:
        coverage = f"; {self.exclusions}" if self.exclusions else ""
        n_metrics, n_groups = len(self.metrics), len(self.scored)
        verdict = self.verdict
        found = (
            "" if verdict.metric in self.omitted or not self.metrics else f" {gap_text(self[verdict.metric])}"
        )
        return (
            f"<FairnessReport: {verdict.finding}, {verdict.metric}{found}; {n_metrics} metrics, {n_groups} "
            f"groups{coverage}>"
        )

    def __str__(self) -> str:
        columns, rows = self._table()
        widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (columns, *rows)
        ]
        coverage = [f"Not included: {self.exclusions}."] if self.exclusions else []
        return "\n".join([str(self.verdict), "", *lines, "", *coverage, *self._notes()])

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        coverage = f" Not included: {self.exclusions}." if self.exclusions else ""

        interval = None if self.scored.intervals_differ else self.scored.groups[0].interval.parts
        draw = partial(groups_curve(self.scored, 500).plot, interval=interval)
        return result_html(f"{self.verdict}{coverage}", columns, rows, notes=self._notes(), draw=draw)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return one text row per metric: the gap, its confidence interval, and the direction."""
        columns = [
            "metric",
            "gap",
            f"{short_percent(self.confidence)} interval",
            "worse off",
            "compared with",
        ]
        rows = []
        for row in self.metrics:
            text, groups = METRICS[row.metric].text, [name_of(label) for label in row.groups]
            if np.isnan(row.gap):
                gap = [row.missing_text, "", "", ""]
            elif row.worse_off is None:  # it has no direction
                gap = [text(row.gap), f"{text(row.ci_low)} to {text(row.ci_high)}", "", " / ".join(groups)]
            else:
                worse = row.groups.index(row.worse_off)
                direction = [groups[worse], groups[1 - worse]]
                gap = [text(row.gap), f"{text(row.ci_low)} to {text(row.ci_high)}", *direction]
            rows.append([METRICS[row.metric].title, *gap])
        return columns, rows

    def _notes(self) -> list[str]:
        """Explain the limits in the table, and those that it does not show."""
        notes = [
            f"Limits are two-sided: with {short_percent(self.confidence)} confidence the largest gap in the "
            f"population lies between them. {self.confidence_note}",
            "to_frame() also has one-sided limits, lower_bound and upper_bound, for questions on one side "
            "(is the gap at most 0.1?): each is nearer to the gap than the end of an interval, as it can "
            "miss on one side only. So a lower limit may be above 0 where the interval begins at 0.",
        ]
        return [*notes, *filter(None, [self.ranking_note])]

    def __getitem__(self, metric: str) -> ReportRow:
        """Return the row of one metric; the error for a missing one gives the reason."""
        for row in self.metrics:
            if row.metric == metric:
                return row
        raise KeyError(f"{metric}: {self.omitted.get(metric, 'no such metric')}")

    def test(self, tolerance: float) -> pd.DataFrame:
        """Test "the true gap exceeds ``tolerance``" for each metric.

        Parameters
        ----------
        tolerance : float
            The gap of the null hypothesis gap ≤ tolerance.

        Returns
        -------
        pandas.DataFrame
            Indexed by metric: ``gap``, ``tolerance``, ``p_value`` and ``exceeds`` (p ≤ 1 − confidence). The
            tests are one per metric, not adjusted for their number.
        """
        import pandas as pd

        table = pd.DataFrame(
            {
                "metric": [row.metric for row in self.metrics],
                "gap": [row.gap for row in self.metrics],
                "tolerance": tolerance,
                "p_value": [row.p_value(tolerance) for row in self.metrics],
            }
        )
        table["exceeds"] = table["p_value"] <= 1 - self.confidence
        return table.set_index("metric")

    def pairs(self, metric: str) -> list[PairGap]:
        """Return the gaps of all pairs of groups by one metric, the largest first.

        Each confidence interval is that of one pair, at the report's confidence; the interval of the metric's
        own row is that of the maximum.
        """
        if metric not in self._pairs:
            fluctuation, gaps = self[metric].fluctuation, []
            if fluctuation is not None:  # else the gap is undefined
                scored, setting = self._evaluated.compared(metric), self._evaluated.setting
                positions, values, lows, highs = fluctuation.pair_ends()
                of_pair: dict[tuple[int, int], list[int]] = {}
                for row, (k, j) in enumerate(np.sort(positions, axis=1).tolist()):
                    of_pair.setdefault((k, j), []).append(row)  # both orders, or labels, are rows of one pair
                for (k, j), rows in of_pair.items():
                    pair = replace(scored, groups=(scored.groups[k], scored.groups[j]))
                    gap = METRICS[metric].gap(pair, setting)
                    # Differences are followed on cells of scores, where the gap is a little different.
                    off = gap.value - float(values[rows].max())
                    low = max(float(lows[rows].max()) + off, 0.0)
                    high = min(float(highs[rows].max()) + off, METRICS[metric].largest)
                    gaps.append(PairGap(gap.groups, gap.value, low, high, gap.label))
            self._pairs[metric] = sorted(gaps, key=lambda gap: -gap.gap)
        return list(self._pairs[metric])

    def elsewhere(self) -> GapElsewhere | None:
        """Return the largest gap outside the interval, see `gap_elsewhere`; None for intervals by group."""
        if self.scored.intervals_differ:
            return None
        return groups_gap_elsewhere(
            self.scored,
            gap_scale=self.gap_scale,
            confidence=self.confidence,
            n_resamples=self.n_resamples,
            min_group_size=self.min_group_size,
            rng=np.random.default_rng(0),
        )

    def to_frame(self, by: Literal["metric", "pair", "group"] = "metric") -> pd.DataFrame:
        """Return the report as a data frame.

        Parameters
        ----------
        by : {"metric", "pair", "group"}, default="metric"
            One row per metric, with the worst pair (ranks count from the best); or per metric and pair of
            groups, the largest gap of each metric first (see `pairs`); or per group, where ``evaluated`` is
            False for groups that are too small.

        Returns
        -------
        pandas.DataFrame
            Indexed by metric or by group; pairs are numbered.
        """
        import pandas as pd

        check_choice(by, "by", ("metric", "pair", "group"))
        if by == "group":
            every = [*self.groups, *self.small_groups]
            names = [name for name in GroupSummary.__dataclass_fields__ if name != "group"]
            frame = pd.DataFrame([asdict(group) for group in every], columns=names)
            frame["evaluated"] = [not isinstance(group, SmallGroup) for group in every]
            frame.index = pd.Index([group_name(group.group) for group in every], name="group")
            return frame
        if by == "pair":
            pairs = [
                (
                    row.metric,
                    *map(group_name, pair.groups),
                    pair.gap,
                    pair.ci_low,
                    pair.ci_high,
                    label_kind(pair.label),
                )
                for row in self.metrics
                for pair in self.pairs(row.metric)
            ]
            columns = ["metric", "group_a", "group_b", "gap", "ci_low", "ci_high", "among"]
            return pd.DataFrame(pairs, columns=columns)
        ends = ["gap", "ci_low", "ci_high", "lower_bound", "upper_bound"]
        place = ["group_a", "group_b", "at_score", "rank_a", "rank_b", "n_a", "n_b", "worse_off", "reason"]
        rows = [
            (
                row.metric,
                *(getattr(row, end) for end in ends),
                *map(group_name, row.groups),
                row.threshold,
                *row.ranks,
                *row.sizes,
                None if row.worse_off is None else group_name(row.worse_off),
                row.reason,
            )
            for row in self.metrics
        ]
        return pd.DataFrame(rows, columns=["metric", *ends, *place]).set_index("metric")

    def to_html(self, path: str | Path | None = None, *, title: str = "Fairness audit") -> str | None:
        """Write the interactive HTML report of these scores, or return it if no path is given.

        The report is one file that opens offline, with the unfairness map and all metrics on any interval of
        whole percents. It contains summaries of the scores, from which the scores of small groups could be
        inferred.
        """
        from partialfair.report.pages import audit_page, write_page

        text = audit_page(self, title=title)
        if path is None:
            return text
        write_page(text, path)
        return None


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
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = None,
    higher_is_better: bool = True,
    min_group_size: int = 10,
    small_groups: SmallGroups = "list",
    missing_groups: MissingGroups = "error",
    max_groups: int = MAX_GROUPS,
    metrics: Sequence[str] | None = None,
) -> FairnessReport:
    """Compute every partial metric that the data allow, each with a confidence interval.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Labels of two classes. With None, metrics that need labels are omitted with a reason.
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    interval : interval-like, default=(0, 1)
        Ranks from the best; see `partial_statistical_parity_difference`.
    threshold : float, optional
        Rows with scores above it (below it where lower is better) are selected. With None, metrics that need
        a threshold are omitted.
    confidence : float, default=0.95
        Nominal coverage of each interval; see `partialfair.metrics.bounds` for the method, and
        `partialfair.metrics.proportions` for metrics at one threshold.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partial_statistical_parity_difference`.
    rank_within : {"group", "group_and_label"}, default="group"
        Rows among which ranks are counted; see `partial_equal_opportunity_difference`.
    pos_label : object, default=1
        The label that counts as positive.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    clusters : array-like of shape (n,), optional
        Cluster of each row, for instance the person: gaps are unchanged, and confidence intervals are those
        of that many clusters. By default every row is an independent observation.
    n_resamples : int, default=1000
        Bootstrap draws; the run time does not depend on the number of rows, unless there are clusters.
    random_state : int or numpy.random.Generator, optional
        Seed or generator of the draws. Each metric has its own random stream, so its interval does not depend
        on options that other metrics need.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score, and rows with scores below the threshold are selected.
    min_group_size : int, default=10
        A group with fewer effective members inside the interval is too small to evaluate. Metrics that need
        labels also leave out groups with too few positives or negatives.
    small_groups : {"list", "merge", "keep"}, default="list"
        ``"list"`` puts groups that are too small in ``report.small_groups``, ``"merge"`` merges them into the
        group ``"small groups"`` (evaluated if it is large enough, else they are listed), and ``"keep"``
        evaluates all groups. Groups with enough members, but too few positives or negatives, are not merged;
        they are only left out of the metrics that need labels.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.
    max_groups : int, default=1000
        More groups raise `InputError`: a numeric column given by mistake has thousands, and run time and
        memory grow with the number of pairs.
    metrics : sequence of str, optional
        Names of the metrics, from `partialfair.metrics.catalogue.METRICS`; by default the five partial and
        the two pairwise ones. Fewer metrics have a higher joint confidence.

    Returns
    -------
    FairnessReport
        One row per metric, a verdict, and ``to_frame()``, ``to_html()`` and ``test()``.

    Warns
    -----
    SmallGroupWarning
        If some group is too small to evaluate, or has fewer than 30 effective members, in all or with one
        label, inside the interval.
    ThresholdOutsideIntervalWarning
        If the threshold's rank lies outside the interval of some group (or between its parts), among its
        members or, with ``rank_within="group_and_label"``, among its positives.

    See Also
    --------
    compare_gaps : The difference of the gaps of two models on the same rows.
    sample_size : Members that a group needs for a small gap to be shown.

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
    seed = int(random_generator(random_state).integers(2**63))
    evaluated = evaluate_scores(
        y_true,
        y_score,
        sensitive_features=sensitive_features,
        interval=interval,
        threshold=threshold,
        confidence=confidence,
        gap_scale=gap_scale,
        rank_within=rank_within,
        pos_label=pos_label,
        sample_weight=sample_weight,
        clusters=clusters,
        n_resamples=n_resamples,
        higher_is_better=higher_is_better,
        min_group_size=min_group_size,
        small_groups=small_groups,
        missing_groups=missing_groups,
        max_groups=max_groups,
        metrics=metrics,
    )
    rows = tuple(metric_row(name, evaluated, confidence, n_resamples, seed) for name in evaluated.metrics)
    return FairnessReport(rows, threshold, confidence, n_resamples, min_group_size, evaluated)


def metric_row(
    name: str, evaluated: EvaluatedScores, confidence: float, n_resamples: int, seed: int
) -> ReportRow:
    """Return the row of one metric; see `fairness_report`."""
    metric, setting, scored = METRICS[name], evaluated.setting, evaluated.compared(name)
    ranked_gap = metric.gap(scored, setting)
    gap = ranked_gap.in_units(scored.higher_is_better)
    sizes = {group.label: group.n for group in scored}
    fluctuation: Fluctuation | ProportionGaps | None = None
    value = low = high = lower_bound = upper_bound = least = most = float("nan")
    reason = metric.why_not_evaluated(scored, setting, gap.value)
    if not (reason or np.isnan(gap.value)):
        value = gap.value
        if metric.proportions:
            fluctuation = estimate_proportions(scored, setting, metric.proportions, confidence)
        else:
            fluctuation = bound_fluctuation(
                metric.differences(draw_groups(name, scored, setting, n_resamples, seed), setting),
                confidence,
                metric.n_members(scored, setting),
                metric.widest_difference(scored),
                around_half=metric.around_half,
            )
        least = most = gap.value  # what the ends are measured from
        if metric.reach is not None:
            least, most = metric.reach(scored, setting, gap.value)
        # Each end of the interval may miss with half of the probability, a bound with all of it.
        errors = ((1 - confidence) / 2, 1 - confidence)
        low, lower_bound = (max(0.0, least - fluctuation.below(error)) for error in errors)
        high, upper_bound = (min(metric.largest, most + fluctuation.above(error)) for error in errors)
    pair = (sizes[gap.groups[0]], sizes[gap.groups[1]])
    place = (gap.groups, gap.threshold, gap.ranks, pair, gap.label)
    bounds = (lower_bound, upper_bound, fluctuation, least, most)
    worse_off = None if np.isnan(value) else find_worse_off(metric, scored, setting, ranked_gap)
    return ReportRow(name, value, low, high, *place, *bounds, metric.largest, reason, worse_off)


def find_worse_off(
    metric: Metric, scored: ScoredGroups, setting: Setting, gap: WorstGap
) -> GroupLabel | None:
    """Return the group of the worst pair with the smaller proportion above the threshold, or None."""
    labels = metric.proportions or (None,)
    if gap.value == 0 or not np.isfinite(gap.threshold):
        return None
    label = gap.label if len(labels) > 1 else labels[0]
    at_threshold = replace(setting, threshold=gap.threshold)
    of_pair = [next(group for group in scored if group.label == name) for name in gap.groups]
    proportions = [
        selected_proportion(group, at_threshold)
        if label is None
        else labelled_proportion(group, at_threshold, label)
        for group in of_pair
    ]
    return gap.groups[int(np.argmin(proportions))]
