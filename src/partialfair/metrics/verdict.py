"""The verdict of a report by one metric: finding, size, direction, and the claim it supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from partialfair.data.groups import group_name
from partialfair.data.intervals import ranks_text
from partialfair.metrics.catalogue import METRICS
from partialfair.utils.text import percent, short_percent, shorten
from partialfair.utils.typing import GroupLabel

if TYPE_CHECKING:
    from partialfair.metrics.report import FairnessReport, ReportRow


@dataclass(frozen=True)
class Verdict:
    """The conclusion of a report by one metric.

    Attributes
    ----------
    metric, finding
        The metric, and whether the lower end of its confidence interval is above 0.
    headline
        Finding, direction, size and confidence.
    claim
        The statement about the population that the rows support.
    """

    metric: str
    finding: Literal["gap detected", "no gap detected", "not evaluated"]
    headline: str
    claim: str

    def __str__(self) -> str:
        return f"{self.headline} {self.claim}".strip()


def state_verdict(report: FairnessReport, metric: str | None = None) -> Verdict:
    """State the verdict by one metric: statistical parity by default, else the first of the report."""
    if metric is None:
        # Without any metric, the first omitted one has the reason.
        names = [*(row.metric for row in report.metrics), *report.omitted]
        is_measured = any(row.metric == "statistical_parity" for row in report.metrics)
        metric = "statistical_parity" if is_measured else names[0]
    if metric in report.omitted:
        headline = f"Not evaluated: {METRICS[metric].title} {report.omitted[metric]}."
        return Verdict(metric, "not evaluated", headline, "")
    row, described = report[metric], METRICS[metric]
    if np.isnan(row.gap):
        headline = f"Not evaluated: the {described.title} gap is {row.missing_text}."
        return Verdict(metric, "not evaluated", headline, "It says nothing about a gap.")
    text, percents = described.text, short_percent(report.confidence)
    limits = f"{percents} interval {text(row.ci_low)} to {text(row.ci_high)}"
    ranks = ranks_in_words(report, row.groups)
    size = f"a {described.title} gap of {text(row.gap)} ({limits})"
    first, second = (name_of(label) for label in row.groups)
    several = len(report.scored) > 2
    pair = "some pair of groups differs" if several else f"{first} and {second} differ"
    if row.ci_low > 0:
        headline = f"Gap detected: {first} and {second} differ on {ranks}, {size}."
        if row.worse_off is not None:
            better_off = next(label for label in row.groups if label != row.worse_off)
            headline = (
                f"Gap detected: {name_of(row.worse_off)} is worse off than {name_of(better_off)} on {ranks}. "
                f"{_difference_in_words(report, row, better_off)}{size}."
            )
        claim = (
            f"It may be claimed with {percents} confidence that in the population {pair} by "
            f"{text(row.ci_low)} to {text(row.ci_high)} there, if these rows are a sample of it that the "
            "model was not trained on."
        )
        if several:
            claim += " In the population another pair may have the largest gap."
        return Verdict(metric, "gap detected", headline, claim)
    claim = (
        f"It may be claimed with {percents} confidence that in the population no pair of groups differs by "
        f"more than {text(row.ci_high)} there; that there is no gap may not be claimed."
    )
    headline = (
        f"No gap detected on {ranks}: the largest {described.title} gap, {text(row.gap)} ({limits}) "
        f"between {first} and {second}, may be chance."
    )
    return Verdict(metric, "no gap detected", headline, claim)


def _difference_in_words(report: FairnessReport, row: ReportRow, better_off: GroupLabel) -> str:
    """Return the proportions of both groups above the score at which they differ most."""
    if row.metric != "statistical_parity":
        return "It is "
    ranks = dict(zip(row.groups, row.ranks, strict=True))
    intervals = {group.label: group.interval for group in report.scored}
    among = "Of all members, "
    if report.gap_scale == "interval":
        among = "Of the members there, "
        ranks = {label: float(intervals[label].passed(np.array(rank))) for label, rank in ranks.items()}
    assert row.worse_off is not None
    fractions = [f"{percent(ranks[label])} of {name_of(label)}" for label in (row.worse_off, better_off)]
    side = "above" if report.higher_is_better else "below"
    return f"{among}{fractions[0]} but {fractions[1]} score {side} {row.threshold:.4g}: "


def summarize_report(report: FairnessReport) -> str:
    """Return a paragraph for a memo: what was compared, the verdict, other metrics, and the exclusions."""
    verdict = state_verdict(report)
    sizes = [f"{name_of(group.group)} {group.n:,}" for group in report.groups[:6]]
    more = len(report.groups) - len(sizes)
    groups = ", ".join(sizes) + (f" and {more} more" if more > 0 else "")
    n_rows = sum(group.n for group in report.groups)
    parts = [
        f"The scores of {n_rows:,} rows in {len(report.groups)} groups ({groups}) were compared on "
        f"{ranks_in_words(report, None)}, on the {report.gap_scale} scale.",
        str(verdict),
    ]
    others = [
        f"{METRICS[row.metric].title} {gap_text(row)}"
        for row in report.metrics
        if row.metric != verdict.metric
    ]
    if others:
        parts.append(f"Other gaps: {'; '.join(others)}.")
    parts.append(report.ranking_note)
    if report.exclusions:
        parts.append(f"Not included: {report.exclusions}.")
    parts.append(
        f"{report.confidence_note} This says nothing of other intervals of ranks, and a gap does not say why "
        "it is there."
    )
    return " ".join(filter(None, parts))


def gap_text(row: ReportRow) -> str:
    """Return a gap and the ends of its confidence interval as text: "0.412 (0.290 to 0.530)"."""
    text = METRICS[row.metric].text
    if np.isnan(row.gap):
        return row.missing_text
    return f"{text(row.gap)} ({text(row.ci_low)} to {text(row.ci_high)})"


def ranks_in_words(report: FairnessReport, groups: tuple[GroupLabel, GroupLabel] | None) -> str:
    """Return the compared ranks as text: "ranks 15–40% from the top"."""
    start = "top" if report.higher_is_better else "best, the lowest score"
    if report.scored.intervals_differ and groups is None:
        return f"intervals of ranks from the {start} that differ by group"
    intervals = {group.label: group.interval for group in report.scored}
    labels = [report.scored.groups[0].label] if groups is None else list(groups)
    different = list(dict.fromkeys(ranks_text(intervals[label]) for label in labels))
    if different == ["0–100%"]:
        return "all ranks"
    if len(different) == 1:
        return f"ranks {different[0]} from the {start}"
    of_groups = " and ".join(f"{ranks_text(intervals[label])} of {name_of(label)}" for label in labels)
    return f"ranks {of_groups} from the {start}"


def name_of(label: GroupLabel) -> str:
    """Return the name of a group on one line, shortened if it is long."""
    return shorten(group_name(label))
