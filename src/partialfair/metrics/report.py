"""All metrics of one set of scores, with confidence intervals that are right for a maximum."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.groups import MAX_GROUPS, Groups, group_name, label_kind
from partialfair.metrics._evaluated_scores import read_scores
from partialfair.metrics._report_rows import DrawsOfGroups, ReportRow, metric_row
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.differences import Setting
from partialfair.metrics.inputs import ScoredGroups, ranked_threshold
from partialfair.metrics.pairs import PairGap, pair_gaps
from partialfair.metrics.small_groups import (
    MERGED,
    TOO_FEW,
    GroupSummary,
    SmallGroup,
    group_summary,
)
from partialfair.utils.checks import random_generator
from partialfair.utils.typing import (
    ArrayLike,
    GapScale,
    IntervalLike,
    MissingGroups,
    RankWithin,
    SmallGroups,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METRICS", "FairnessReport", "ReportRow", "fairness_report"]


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
        One summary per group that is judged.
    small_groups
        Groups with too few members in the interval to be judged.
    merged_groups
        Small groups that are judged together, as the group "small groups".
    too_few_labelled
        For metrics that need labels: groups that this metric leaves out because they have too few positives
        or negatives.
    n_missing
        Rows that were left out because they have no group.
    gap_scale, rank_within, threshold, confidence, n_resamples, higher_is_better, min_group_size
        The settings; the threshold is in the units of the scores.
    scored
        The sorted scores of the groups that are judged, with labels, from which pages are made: negated where
        lower is better. A pickled report holds them.
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
    min_group_size: int
    small_groups: tuple[SmallGroup, ...] = ()
    merged_groups: tuple[SmallGroup, ...] = ()
    too_few_labelled: dict[str, tuple[SmallGroup, ...]] = field(default_factory=dict)
    _pairs: dict[str, list[PairGap]] = field(default_factory=dict)

    @property
    def higher_is_better(self) -> bool:
        """Whether high scores are the good ones."""
        return self.scored.higher_is_better

    @property
    def n_missing(self) -> int:
        """Number of rows without a group."""
        return self.scored.n_missing

    @property
    def coverage(self) -> str:
        """Who is not judged, for headlines: "2 of 5 groups too few to judge"; empty if everybody is."""
        judged = len(self.groups) - bool(self.merged_groups)
        n_groups = judged + len(self.small_groups) + len(self.merged_groups)
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
        """Return groups as they are judged here: none for those too few, and one for those merged."""
        labels = tuple(group.group for group in self.groups)
        joined = {group.group: MERGED for group in self.merged_groups}
        names = [joined.get(label, label) for label in groups.labels]
        return groups.regroup([labels.index(name) if name in labels else -1 for name in names], labels)

    @property
    def worst(self) -> ReportRow:
        """The row with the widest gap, of those that are shares; gaps in units of scores are left out."""
        shares = [row for row in self.rows if METRICS[row.metric].largest <= 1]
        return max(shares, key=lambda row: -1.0 if np.isnan(row.value) else row.value)

    @property
    def assurance(self) -> str:
        """How sure the intervals are, each by itself and all at once, in a sentence."""
        each = f"Each interval holds by itself with {100 * self.confidence:g} % confidence"
        n_intervals = sum(row.fluctuation is not None for row in self.rows)
        if n_intervals < 2 or self.joint_confidence == 0:
            return f"{each}."
        return f"{each}; all {n_intervals} at once with at least {100 * self.joint_confidence:.3g} %."

    @property
    def joint_confidence(self) -> float:
        """Confidence that all m intervals hold at once, at least: ``1 − m (1 − confidence)``."""
        n_intervals = sum(row.fluctuation is not None for row in self.rows)
        return max(0.0, 1 - n_intervals * (1 - self.confidence))

    def __repr__(self) -> str:
        table = self.to_frame().to_string()
        coverage = f"; {self.coverage}" if self.coverage else ""
        return f"<FairnessReport of {len(self.rows)} metrics, {len(self.groups)} groups{coverage}>\n{table}"

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

    def pairs(self, metric: str) -> list[PairGap]:
        """Return the gaps of all pairs of groups by one metric, the widest first.

        Their intervals are of one pair each, at the report's confidence; that of the metric's own line is of
        the maximum.
        """
        if metric not in self._pairs:
            self._pairs[metric] = self._pair_gaps(self[metric])
        return list(self._pairs[metric])

    def _pair_gaps(self, row: ReportRow) -> list[PairGap]:
        if row.fluctuation is None:
            return []
        absent = [group.group for group in self.too_few_labelled.get(row.metric, ())]
        compared = replace(self.scored, groups=tuple(g for g in self.scored if g.label not in absent))
        ranked = None if self.threshold is None else ranked_threshold(self.scored, self.threshold)
        setting = Setting(self.gap_scale, ranked, self.rank_within)
        return pair_gaps(METRICS[row.metric], compared, setting, row.fluctuation)

    def pairs_frame(self) -> pd.DataFrame:
        """One line per metric and pair of groups, the widest gap of each metric first; see `pairs`."""
        import pandas as pd

        columns = ["metric", "group_a", "group_b", "value", "low", "high", "among"]
        lines = [
            (row.metric, *map(group_name, gap.groups), gap.value, gap.low, gap.high, label_kind(gap.label))
            for row in self.rows
            for gap in self.pairs(row.metric)
        ]
        return pd.DataFrame(lines, columns=columns)

    def to_frame(self) -> pd.DataFrame:
        """One line per metric; ranks count from the best."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "metric": row.metric,
                    "value": row.value,
                    "low": row.low,
                    "high": row.high,
                    "at_least": row.at_least,
                    "at_most": row.at_most,
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
        """One line per group; ``judged`` is False for those that are too few to judge."""
        import pandas as pd

        every = [*self.groups, *self.small_groups]
        columns = [name for name in GroupSummary.__dataclass_fields__ if name != "group"]
        frame = pd.DataFrame([asdict(group) for group in every], columns=columns)
        frame["judged"] = [not isinstance(group, SmallGroup) for group in every]
        frame.index = pd.Index([group_name(group.group) for group in every], name="group")
        return frame


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
) -> FairnessReport:
    """Compute every partial metric that the data allow, each with a confidence interval.

    Parameters
    ----------
    y_true
        Labels of two classes, or None; then the metrics that need them are left out with a reason.
    y_score, sensitive_features, interval, gap_scale, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.
    threshold
        Score above which (below which, where lower is better) a row is selected, or None; then the metrics
        that need it are left out.
    confidence
        Nominal coverage of each interval; see `partialfair.metrics.bounds` for how it is reached, and
        `partialfair.metrics._proportions` for metrics at one threshold.
    rank_within, pos_label
        As in `partial_equal_opportunity_difference`.
    clusters
        Which rows belong together, as those of one person do: values are the same, confidence is that of so
        many clusters. None if every row is an observation of its own.
    n_resamples
        Bootstrap draws; the cost does not depend on the number of rows, unless there are clusters.
    random_state
        Seed or generator of the draws. Each metric has its own random stream, so its interval does not depend
        on options that other metrics need.
    min_group_size
        A group with fewer effective members inside the interval is too small to be judged. Metrics that need
        labels leave out, in the same way, groups with too few positives or negatives.
    small_groups
        What to do with those: ``"list"`` them in ``report.small_groups``, ``"merge"`` them into one group
        called ``"small groups"`` (judged if it is large enough, else they are listed), or ``"keep"`` them,
        and judge all. What is merged are groups with too few members; those with enough of them, but too few
        positives or negatives, are only left out of the metrics that need these.
    max_groups
        More groups raise `InputError`: a column of numbers given by mistake has thousands, and time and
        memory grow with the number of pairs.

    Returns
    -------
    FairnessReport

    Warns
    -----
    SmallGroupWarning
        If some group is too small to be judged, or has fewer than 30 effective members, in all or with one
        label, inside the interval.
    IdleThresholdWarning
        If the threshold's rank lies outside the interval of some group (between its parts, too), among its
        members or, with ``rank_within="group_and_label"``, among its positives.

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
    read = read_scores(
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
    )
    judged, setting, few, omitted = read.judged, read.setting, read.few, read.omitted
    scored = judged.scored
    draws = DrawsOfGroups(scored, setting.threshold, n_resamples, seed)
    rows = tuple(
        metric_row(name, metric, draws, few.get(name, ()), setting, confidence)
        for name, metric in METRICS.items()
        if name not in omitted
    )
    return FairnessReport(
        rows,
        omitted,
        tuple(group_summary(group) for group in scored),
        gap_scale,
        rank_within,
        threshold,
        confidence,
        n_resamples,
        scored,
        min_group_size,
        judged.small,
        judged.merged,
        few,
    )
