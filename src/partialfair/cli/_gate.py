"""``--fail-above``: the gap that passes, and how sure one has to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.text import Text

from partialfair.cli.options import FailureKinds
from partialfair.exceptions import InputError
from partialfair.metrics import FairnessReport
from partialfair.metrics.catalogue import METRICS

__all__ = ["Gate", "read_gate"]

_DECIDES = {
    FailureKinds.estimate: "value",
    FailureKinds.exceeds: "at_least",
    FailureKinds.unproven: "at_most",
}
"""The number of a metric's line that is held against the limit."""


@dataclass(frozen=True)
class Gate:
    """The metric, the largest gap that passes, and what fails.

    Attributes
    ----------
    metric, limit
        Which gap is held against which limit.
    fail_on
        ``"estimate"``: a measured gap above the limit; ``"exceeds"``: only one that is shown to exceed it,
        ``at_least > limit``; ``"unproven"``: one that is not shown to be at most the limit,
        ``at_most > limit``.
    """

    metric: str
    limit: float
    fail_on: FailureKinds = FailureKinds.estimate

    @property
    def is_about_new_people(self) -> bool:
        """Whether a confidence bound decides: of rows that a model was trained on it says nothing."""
        return self.fail_on is not FailureKinds.estimate

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        if self.metric not in METRICS:
            raise InputError(f"--fail-metric must be one of {', '.join(METRICS)}, not {self.metric}")
        largest = max(1.0, METRICS[self.metric].largest)
        if not 0 <= self.limit <= largest:
            limits = "lie between 0 and 1" if largest == 1 else "be at least 0"
            raise InputError(f"--fail-above must {limits}, not {self.limit:g}")

    def check_measured(self, report: FairnessReport) -> None:
        """Refuse a report that cannot decide: a gap that was not measured neither passes nor fails."""
        if self.metric in report.omitted:
            reason = report.omitted[self.metric]
            see = ": see --label and --threshold" if reason.startswith("needs") else ""
            raise InputError(f"--fail-metric {self.metric} {reason}{see}")

    def passes(self, report: FairnessReport) -> bool:
        """Whether the number that decides is at most the limit; an undefined gap does not pass."""
        return bool(self._decisive(report) <= self.limit)

    def record(self, report: FairnessReport) -> dict[str, Any]:
        """Return the verdict as plain data for JSON."""
        return {
            "metric": self.metric,
            "limit": self.limit,
            "fail_on": str(self.fail_on),
            "decided_by": _DECIDES[self.fail_on],
            "decisive_value": self._decisive(report),
            "passed": self.passes(report),
            "p_value": report[self.metric].p_value(self.limit),
        }

    def verdict(self, report: FairnessReport) -> Text:
        """Say whether the gate was passed, and what decided."""
        passed, row, metric = self.passes(report), report[self.metric], METRICS[self.metric]
        gap = "undefined" if np.isnan(row.value) else metric.text(row.value)
        kind = f" (--fail-on {self.fail_on})" if self.is_about_new_people else ""
        bound = ""
        if self.is_about_new_people and not np.isnan(row.value):
            side, sure = _DECIDES[self.fail_on].replace("_", " "), f"{100 * report.confidence:g} %"
            bound = f", {side} {metric.text(self._decisive(report))} with {sure} confidence"
        p_value = row.p_value(self.limit)
        return Text.assemble(
            f"\ngate{kind}: {metric.title} gap {gap}{bound}, limit {self.limit:g}: ",
            ("pass", "green") if passed else ("FAIL", "red"),
            "" if np.isnan(row.value) else self._reason(passed),
            "" if np.isnan(p_value) else f" (p = {p_value:.2g} for a true gap of at most {self.limit:g})",
        )

    def _decisive(self, report: FairnessReport) -> float:
        return float(getattr(report[self.metric], _DECIDES[self.fail_on]))

    def _reason(self, passed: bool) -> str:
        if self.fail_on is FailureKinds.exceeds:
            return f", {'not ' if passed else ''}shown to exceed it"
        if self.fail_on is FailureKinds.unproven:
            return f", {'' if passed else 'not '}shown to be at most that"
        return ""


def read_gate(metric: str, limit: float | None, fail_on: FailureKinds | None) -> Gate | None:
    """Return the gate of a command's options, None without one."""
    if limit is not None:
        return Gate(metric, limit, FailureKinds(fail_on or "estimate"))
    if fail_on is not None:
        raise InputError("--fail-on says when --fail-above fails: give --fail-above as well")
    return None
