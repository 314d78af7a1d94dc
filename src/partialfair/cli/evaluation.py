"""The evaluation of a model's scores, which terminal, JSON and HTML report show, and the gate on its gap.

Renderers compute nothing: all numbers are computed here, once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.text import Text

from partialfair.cli.intervals import interval_among
from partialfair.cli.options import FailureKinds
from partialfair.cli.settings import AuditSettings, EvaluationSettings, ScoreSettings, TrainSettings
from partialfair.data.groups import Groups
from partialfair.exceptions import InputError
from partialfair.metrics import compare_gaps, fairness_report
from partialfair.metrics.catalogue import METRICS, report_metrics
from partialfair.metrics.paired import GapComparison
from partialfair.metrics.report import FairnessReport
from partialfair.utils.text import short_percent
from partialfair.utils.typing import (
    ArrayLike,
    Floats,
    IntervalLike,
    RankWithin,
    SmallGroups,
)


@dataclass(frozen=True, eq=False)
class ScoreEvaluation:
    """The evaluation of one model's scores on some rows.

    Attributes
    ----------
    scores, weights
        Scores and sample weights of the rows.
    groups
        The groups that are evaluated; rows of other groups have the code −1.
    interval
        The interval on which they are evaluated.
    report
        All metrics.
    accuracy, auc
        Accuracy and AUC of the scores; nan if they were not computed.
    """

    scores: Floats
    weights: Floats | None
    groups: Groups
    interval: IntervalLike
    report: FairnessReport
    accuracy: float = float("nan")
    auc: float = float("nan")

    @property
    def ranking(self) -> dict[str, Any]:
        """Arguments of functions that rank the same rows again."""
        return {
            "sensitive_features": self.groups,
            "sample_weight": self.weights,
            "missing_groups": "ignore",
            "higher_is_better": self.report.higher_is_better,
        }


def evaluate(
    settings: EvaluationSettings,
    scores: Floats,
    groups: Groups,
    *,
    interval: IntervalLike,
    labels: ArrayLike | None,
    positive: Any,
    threshold: float | None,
    rank_within: RankWithin,
    weights: Floats | None = None,
    clusters: ArrayLike | None = None,
    small_groups: SmallGroups | None = None,
    also: Iterable[str] = (),
) -> ScoreEvaluation:
    """Evaluate scores by the default metrics of reports, and by those in ``also``.

    ``small_groups`` replaces the setting: groups that were merged before are listed.
    """
    report = fairness_report(
        labels,
        scores,
        sensitive_features=groups,
        interval=interval,
        threshold=threshold,
        confidence=settings.confidence,
        gap_scale=settings.gap_scale,
        rank_within=rank_within,
        pos_label=positive,
        sample_weight=weights,
        clusters=clusters,
        random_state=settings.seed,
        higher_is_better=settings.higher_is_better,
        min_group_size=settings.min_group_size,
        small_groups=small_groups or settings.small_groups,
        missing_groups=settings.missing_groups,
        metrics=report_metrics(*also),
    )
    # Functions that rank the same rows again leave out the groups that the report excludes.
    evaluated = report.evaluated(groups)
    return ScoreEvaluation(scores, weights, evaluated, interval_among(interval, evaluated), report)


def compare_scores(
    settings: EvaluationSettings,
    first: ScoreEvaluation,
    scores: Floats,
    *,
    labels: ArrayLike | None,
    positive: Any,
    threshold: float | tuple[float, float] | None,
    rank_within: RankWithin,
    clusters: ArrayLike | None = None,
    metrics: Sequence[str] | None = None,
) -> GapComparison:
    """Compare the gaps of other scores of the same rows with the gaps of the first evaluation.

    A pair of thresholds has one threshold for each of the two scores.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the evaluations have issued the same warnings
        return compare_gaps(
            labels,
            first.scores,
            scores,
            **first.ranking,
            clusters=clusters,
            interval=first.interval,
            threshold=threshold,
            confidence=settings.confidence,
            gap_scale=settings.gap_scale,
            rank_within=rank_within,
            pos_label=positive,
            random_state=settings.seed,
            min_group_size=settings.min_group_size,
            # The evaluated groups have their small groups merged already.
            small_groups="keep" if settings.small_groups == "keep" else "list",
            metrics=metrics,
        )


_DECIDES = {
    FailureKinds.estimate: "gap",
    FailureKinds.exceeds: "lower_bound",
    FailureKinds.inconclusive: "upper_bound",
}
"""The value of a metric that is compared with the limit."""


@dataclass(frozen=True)
class Gate:
    """``--fail-above``: the metric, the limit on its gap, and which value of the gap is compared with it.

    Attributes
    ----------
    metric, limit
        The metric of the gap, and its limit.
    fail_on
        The gate fails for ``"estimate"`` if ``gap > limit``; for ``"exceeds"`` if ``lower_bound > limit``;
        for ``"inconclusive"`` if ``upper_bound > limit``.
    """

    metric: str
    limit: float
    fail_on: FailureKinds = FailureKinds.estimate

    @classmethod
    def of(cls, settings: ScoreSettings | TrainSettings) -> Gate | None:
        """Return the gate of a command; None for commands and settings without a gate."""
        if not isinstance(settings, AuditSettings | TrainSettings) or settings.fail_above is None:
            return None
        kind = FailureKinds(settings.fail_on or "estimate")
        return cls(settings.gate_metric, settings.fail_above, kind)

    @property
    def needs_unseen_rows(self) -> bool:
        """Whether a confidence bound decides; such bounds are not valid on training rows."""
        return self.fail_on is not FailureKinds.estimate

    def check_measured(self, report: FairnessReport) -> None:
        """Raise an error if the report lacks the metric: its gap can neither pass nor fail."""
        # Labels, a threshold or members are missing.
        if self.metric in report.omitted:
            reason = report.omitted[self.metric]
            see = ": see --label and --threshold" if reason.startswith("needs") else ""
            raise InputError(f"--fail-metric {self.metric} {reason}{see}")

    def passes(self, report: FairnessReport) -> bool:
        """Return whether the decisive value is at most the limit; an undefined value does not pass."""
        # NaN compares as False.
        return self._decisive(report) <= self.limit

    def record(self, report: FairnessReport) -> dict[str, Any]:
        """Return the verdict as plain data for JSON."""
        return {
            "metric": self.metric,
            "limit": self.limit,
            "fail_on": str(self.fail_on),
            "decided_by": _DECIDES[self.fail_on],
            "decisive_value": self._decisive(report),
            "passed": None if report[self.metric].reason else self.passes(report),
            "reason": report[self.metric].reason or None,
            "p_value": report[self.metric].p_value(self.limit),
        }

    def verdict(self, report: FairnessReport) -> Text:
        """Describe whether the gate was passed, and the value that decided."""
        passed, row, metric = self.passes(report), report[self.metric], METRICS[self.metric]
        gap, kind, bound, reason = row.missing_text, "", "", ""
        if self.needs_unseen_rows:
            kind = f" (--fail-on {self.fail_on})"
        if not np.isnan(row.gap):
            gap = metric.text(row.gap)
            if self.needs_unseen_rows:
                side = _DECIDES[self.fail_on].replace("_", " ")
                decisive = metric.text(self._decisive(report))
                bound = f", {side} {decisive} with {short_percent(report.confidence)} confidence"
            if self.fail_on is FailureKinds.exceeds:
                reason = f", {'not ' if passed else ''}above the limit with this confidence"
            elif self.fail_on is FailureKinds.inconclusive:
                reason = f", {'' if passed else 'not '}within the limit with this confidence"
        verdict = ("pass", "green") if passed else ("FAIL", "red")
        if row.reason:
            verdict = ("NOT EVALUATED", "red")
        # The hypothesis is that the true gap is at most the limit; nan for metrics without bounds.
        p_value = row.p_value(self.limit)
        return Text.assemble(
            f"\ngate{kind}: {metric.title} gap {gap}{bound}, limit {self.limit:g}: ",
            verdict,
            reason,
            "" if np.isnan(p_value) else f" (p = {p_value:.2g} for a true gap of at most {self.limit:g})",
        )

    def _decisive(self, report: FairnessReport) -> float:
        return float(getattr(report[self.metric], _DECIDES[self.fail_on]))
