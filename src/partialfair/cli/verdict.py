"""The first lines of commands that train: the models before and after, and what the test set can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from partialfair.cli.report_text import gap_sentence
from partialfair.data.groups import group_name
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.elsewhere import ElsewhereComparison, GapElsewhere
from partialfair.metrics.paired import GapDifference
from partialfair.metrics.report import FairnessReport
from partialfair.report.sections import interval_title
from partialfair.utils.text import fixed


@dataclass(frozen=True)
class Side:
    """A model before or after: its name, its accuracy in words, its gaps on some rows, and its limit."""

    name: str
    quality: str
    report: FairnessReport
    limit: float | None = None

    def gap_in_words(self, metric: str, *, unseen: bool) -> str:
        """Describe the gap, the group that is worse off and, on held-out rows, whether the limit holds."""
        row = self.report[metric]
        sentences = [gap_sentence(self.report, metric, unseen=unseen)]
        if row.gap > 0 and row.worse_off is not None:
            sentences.append(f"{group_name(row.worse_off)} is worse off.")
        if unseen and self.limit is not None and not np.isnan(row.gap):
            # A constraint that is satisfied in training is easily misread as a claim about new data.
            sentences.append(
                f"The confidence interval lies within the limit {self.limit:g}."
                if row.ci_high <= self.limit
                else f"The confidence interval reaches above the limit {self.limit:g}: whether the limit "
                "holds on new data is inconclusive."
            )
        return " ".join(sentences)


@dataclass(frozen=True)
class Change:
    """What a constraint changed, on the same rows.

    Attributes
    ----------
    difference
        The difference of the constrained gap; None on training rows, and if a gap is undefined.
    elsewhere
        The largest gap outside the interval before and after; None if no rank lies outside.
    """

    difference: GapDifference | None = None
    elsewhere: ElsewhereComparison | None = None

    @classmethod
    def between(
        cls, before: FairnessReport, after: FairnessReport, difference: GapDifference | None
    ) -> Change:
        """Return the difference together with the gaps of two reports outside the interval."""
        outside = before.elsewhere(), after.elsewhere()
        if outside[0] is None or outside[1] is None:
            return cls(difference)
        return cls(difference, ElsewhereComparison(outside[0], outside[1]))

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        row, outside = self.difference, None
        if self.elsewhere is not None:
            sides = {"before": self.elsewhere.before, "after": self.elsewhere.after}
            outside = {when: _elsewhere_record(gap) for when, gap in sides.items()}
        return {
            "difference_from_unconstrained": None if row is None else difference_record(row),
            "outside_the_interval": outside,
        }

    def elsewhere_sentence(self, *, unseen: bool) -> str | None:
        """Describe the change of the largest gap outside the interval, with confidence on held-out rows."""
        if self.elsewhere is None or unseen:
            return None if self.elsewhere is None else self.elsewhere.statement
        before, after = self.elsewhere.before, self.elsewhere.after
        return (
            f"Outside the interval the largest gap of intervals of the same width is {fixed(before.gap)} "
            f"before ({before.place}) and {fixed(after.gap)} after ({after.place}), on the training rows."
        )


def _elsewhere_record(gap: GapElsewhere) -> dict[str, Any]:
    return {
        "gap": gap.gap,
        "ci_low": gap.ci_low,
        "ci_high": gap.ci_high,
        "interval": list(gap.interval),
        "groups": [group_name(label) for label in gap.groups],
        "worse_off": group_name(gap.worse_off),
    }


def print_before_after(
    out: Console, sides: tuple[Side, ...], metric: str, rows: str, change: Change, *, unseen: bool = True
) -> None:
    """Print the accuracy of each model, its gap in words, and the difference of the gaps.

    Parameters
    ----------
    out
        The console.
    sides
        The unconstrained and the constrained model, or one model.
    metric
        The metric of the gap.
    rows
        The name of the rows, such as "held-out rows".
    change
        The change between the two models on these rows.
    unseen
        Whether the models were not trained on these rows, so that confidence intervals are valid.
    """
    for side in sides:
        out.print(f"{side.name}: {side.quality} on {rows}.", style="bold")
        if metric in side.report.omitted:
            out.print(f"{METRICS[metric].title} {side.report.omitted[metric]}\n")
        else:
            out.print(f"{side.gap_in_words(metric, unseen=unseen)}\n")
    if change.difference is not None:
        out.print(f"{difference_sentence(change.difference, sides[-1].report.confidence, rows)}\n")
    if (sentence := change.elsewhere_sentence(unseen=unseen)) is not None:
        out.print(f"{sentence}\n")


def difference_sentence(row: GapDifference, confidence: float, rows: str) -> str:
    """Describe the change of the gap on the same rows, and its verdict."""
    metric = METRICS[row.metric]
    if np.isnan(row.difference):
        reason = f": {row.reason}" if row.reason else ""
        return f"The change of the gap is undefined on the {rows}{reason}."
    if row.difference == row.ci_low == row.ci_high == 0:
        return f"Both models have the same gap on the {rows}: the constraint changed nothing there."
    change, low, high = (_signed(metric.text(value)) for value in (row.difference, row.ci_low, row.ci_high))
    limits = f"{interval_title(confidence)} {low} to {high}"
    changed = f"On the same {rows} the gap changed by {change} ({limits})"
    if row.verdict == "smaller gap":
        return f"{changed}: it is smaller than without the constraint."
    if row.verdict == "larger gap":
        return f"{changed}: it is larger than without the constraint."
    if row.difference < 0:
        return f"{changed}: the test set is too small to show that the gap became smaller."
    return f"{changed}: these rows do not show that the gap became smaller."


def quality_text(score: float, scoring: str = "accuracy") -> str:
    """Return the score of a model as text."""
    return f"{scoring} {fixed(score)}"


def difference_record(row: GapDifference) -> dict[str, Any]:
    """Return the difference of two gaps as plain data for JSON."""
    return {
        "difference": row.difference,
        "reason": row.reason or None,
        "ci_low": row.ci_low,
        "ci_high": row.ci_high,
        "lower_bound": row.lower_bound,
        "upper_bound": row.upper_bound,
        "p_value": row.p_value,
        "verdict": row.verdict,
    }


def _signed(text: str) -> str:
    """Add a plus sign to positive numbers."""
    return text if text.startswith("-") or not text.strip("0.") else f"+{text}"
