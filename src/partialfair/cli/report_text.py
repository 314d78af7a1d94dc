"""A fairness report as terminal text (tables and sentences) and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console

from partialfair.cli.output import PlainTable
from partialfair.data.groups import group_name, label_kind, members_text
from partialfair.data.intervals import IntervalSet, interval_text
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.evaluation import TOO_FEW, SmallGroup
from partialfair.metrics.report import FairnessReport, PairGap, ReportRow
from partialfair.report.sections import PAIR_INTERVALS, gap_cells, interval_title, pair_interval_title
from partialfair.utils.text import fixed, listed, percent, short_percent

_AT_SCORE = "at score"
_SHOWN_PAIRS, _RECORDED_PAIRS = 5, 200
"""Pairs of groups with the largest gaps, as printed and as recorded; pairs.csv has all of them."""


def print_metrics(report: FairnessReport, metric: str, out: Console, *, unseen: bool = True) -> None:
    """Print one line per metric, notes on the columns, and the pairs with the largest gaps by one metric.

    Confidence statements are left out for training rows (``unseen=False``), where they are not valid.
    """
    table = _metrics_table(report)
    titles = table.fit(out)
    out.print(table)
    claims = [report.confidence_note if unseen else None, _explain_where(report, titles), report.ranking_note]
    if any(claims):
        out.print(" ".join(filter(None, claims)), style="dim")
    if metric in report.omitted or len(pairs := report.pairs(metric)) < 2:
        return
    shown = f"The {_SHOWN_PAIRS} largest gaps of {len(pairs):,} pairs"
    widest = "Pairs" if len(pairs) <= _SHOWN_PAIRS else shown
    out.print(f"\n{widest} by {METRICS[metric].title}:")
    table = PlainTable()
    table.add_column("pair")
    table.add_column("gap", justify="right", no_wrap=True)
    table.add_column(pair_interval_title(report.confidence), no_wrap=True)
    labelled = any(gap.label is not None for gap in pairs[:_SHOWN_PAIRS])
    if labelled:
        table.add_column("among")
    for gap in pairs[:_SHOWN_PAIRS]:
        among = [label_kind(gap.label)] if labelled else []
        table.add_row(_pair(gap), *gap_cells(gap, metric), *among)
    out.print(table)
    if unseen:
        out.print(
            PAIR_INTERVALS.format(elsewhere="above"),
            style="dim",
        )


def print_omitted(report: FairnessReport, out: Console, what: str = "left out") -> None:
    """Print the metrics that could not be computed, one line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.omitted.items():
        by_reason.setdefault(reason, []).append(METRICS[name].title)
    for reason, titles in by_reason.items():
        out.print(f"{what} ({reason}): {listed(titles, most=len(titles))}", style="dim")


def _explain_where(report: FairnessReport, titles: Sequence[str]) -> str | None:
    """Explain the columns that locate the difference of the worst pair, if the table has room for them."""
    if _AT_SCORE not in titles:
        return None
    score = f"“{_AT_SCORE}”: the score at which the worst pair differs most"
    if _proportions_title(report) not in titles:
        return f"{score}."
    return f"{score}, and the proportion of each of the two whole groups that scores {_side(report)} it."


def _metrics_table(report: FairnessReport) -> PlainTable:
    """Return one line per metric, with the confidence interval and where the worst pair differs."""
    # The last two columns are left out of narrow terminals.
    proportions = _proportions_title(report)
    table = PlainTable(optional=(_AT_SCORE, proportions))
    table.add_column("metric", no_wrap=True)
    table.add_column("gap", justify="right", no_wrap=True)
    table.add_column(interval_title(report.confidence), no_wrap=True)
    table.add_column("worst pair")
    table.add_column(_AT_SCORE, justify="right", no_wrap=True)
    table.add_column(proportions, no_wrap=True)
    for row in report.metrics:
        among = f", among {label_kind(row.label)}" if row.label is not None else ""
        where = ["", ""]
        # Pairwise metrics have no threshold; without a difference it is −∞.
        if np.isfinite(row.threshold) and not row.reason:
            where = [f"{row.threshold:.4g}", " / ".join(percent(rank) for rank in row.ranks)]
        title = METRICS[row.metric].title
        # With a threshold outside the interval there is no worst pair.
        pair = "" if row.reason else _pair(row) + among
        table.add_row(title, *gap_cells(row, row.metric), pair, *where)
    return table


def _proportions_title(report: FairnessReport) -> str:
    return f"proportion {_side(report)}"


def groups_table(report: FairnessReport) -> PlainTable:
    """Return one line per group; a column counts tied scores if there are any."""
    any_tied = any(group.tied_share > 0 for group in report.groups)
    table = PlainTable()
    table.add_column("group")
    for title in ("members", "in the interval", *(["tied scores"] if any_tied else [])):
        table.add_column(title, justify="right")
    if report.small_groups:
        table.add_column("")  # the reason
    if any_tied:
        table.caption = "tied scores: members with the same score as another member of their group"
        table.caption_justify, table.caption_style = "left", "dim"
    for group in report.groups:
        tied = [percent(group.tied_share)] if any_tied else []
        table.add_row(group_name(group.group), f"{group.n:,}", members_text(group.n_in_interval), *tied)
    # Groups that are too small to evaluate are dimmed.
    for small in report.small_groups:
        n_inside = members_text(small.n_in_interval, too_few=True)
        empty = [""] if any_tied else []
        table.add_row(group_name(small.group), f"{small.n:,}", n_inside, *empty, TOO_FEW, style="dim")
    return table


def parity_sentence(report: FairnessReport, *, unseen: bool = True) -> str:
    """Describe where the worst pair of the statistical-parity gap differs, and by how much.

    The confidence interval is left out for training rows (``unseen=False``), where it is not valid.
    """
    row = report["statistical_parity"]
    first, second = row.groups
    intervals = {group.group: IntervalSet(group.interval) for group in report.groups}
    shares = [percent(rank) for rank in row.ranks]
    # Ranks refer to whole groups; on the interval scale, proportions refer to the interval.
    if report.gap_scale == "interval":
        shares = [
            percent(float(intervals[label].passed(np.array(rank))))
            for label, rank in zip(row.groups, row.ranks, strict=True)
        ]
    ranks = {label: interval_text(intervals[label], report.higher_is_better) for label in row.groups}
    if report.gap_scale == "absolute":
        among = f"With a threshold at {ranks[first]} of either group"
    elif ranks[first] == ranks[second]:
        among = f"Among {ranks[first]} of each group"
    else:
        among = "Among " + " and ".join(f"{ranks[label]} of {group_name(label)}" for label in row.groups)
    found = (
        f"{shares[0]} of {group_name(first)} but {shares[1]} of {group_name(second)} score "
        f"{_side(report)} {row.threshold:.4g}"
    )
    if row.gap == 0:
        found = "no threshold separates the groups"
    return f"{among}, {found}: a gap of {fixed(row.gap)}{_reach(row, report) if unseen else ''}."


def gap_sentence(report: FairnessReport, metric: str, *, unseen: bool) -> str:
    """Describe one metric's gap; `parity_sentence` describes the statistical-parity gap."""
    if metric == "statistical_parity":
        return parity_sentence(report, unseen=unseen)
    row, described = report[metric], METRICS[metric]
    if np.isnan(row.gap):
        return f"The {described.title} gap is {row.missing_text}."
    reach = _reach(row, report) if unseen else ""
    return f"The {described.title} gap is {described.text(row.gap)}{reach}, between {_pair(row)}."


def _reach(row: ReportRow, report: FairnessReport) -> str:
    text = METRICS[row.metric].text
    return f" ({short_percent(report.confidence)} interval {text(row.ci_low)} to {text(row.ci_high)})"


def report_record(report: FairnessReport, *, pairs: bool = True) -> dict[str, Any]:
    """Return the report as plain data for JSON, with the pairs of the largest gaps."""
    return {
        "gap_scale": report.gap_scale,
        "higher_is_better": report.higher_is_better,
        "min_group_size": report.min_group_size,
        "rows_without_group": report.n_missing,
        "rank_within": report.rank_within,
        "threshold": report.threshold,
        "confidence": report.confidence,
        "metrics": {
            row.metric: {
                "gap": row.gap,
                "reason": row.missing_text if np.isnan(row.gap) else None,
                "ci_low": row.ci_low,
                "ci_high": row.ci_high,
                "lower_bound": row.lower_bound,
                "upper_bound": row.upper_bound,
                "among": label_kind(row.label) or None,
                "worst_pair": [group_name(label) for label in row.groups],
                "at_score": row.threshold,
                "ranks_from_top": list(row.ranks),
                "n": list(row.sizes),
                **(
                    {"pairs": list(map(_pair_record, report.pairs(row.metric)[:_RECORDED_PAIRS]))}
                    if pairs
                    else {}
                ),
            }
            for row in report.metrics
        },
        "omitted": report.omitted,
        "groups": [
            {
                "group": group_name(group.group),
                "n": group.n,
                "n_effective": group.n_effective,
                "n_in_interval": group.n_in_interval,
                "tied_share": group.tied_share,
                "interval": [list(part) for part in group.interval],
            }
            for group in report.groups
        ],
        "small_groups": [_small_record(group) for group in report.small_groups],
        "merged_groups": [_small_record(group) for group in report.merged_groups],
        "too_few_labelled": {
            metric: [_small_record(group) for group in small]
            for metric, small in report.too_few_labelled.items()
        },
    }


def _pair_record(gap: PairGap) -> dict[str, Any]:
    return {
        "groups": [group_name(label) for label in gap.groups],
        "gap": gap.gap,
        "ci_low": gap.ci_low,
        "ci_high": gap.ci_high,
        "among": label_kind(gap.label) or None,
    }


def _small_record(group: SmallGroup) -> dict[str, Any]:
    return {
        "group": group_name(group.group),
        "n": group.n,
        "counted": group.counted,
        "n_counted": group.n_counted,
        "reason": group.reason,
    }


def _pair(gap: ReportRow | PairGap) -> str:
    return " / ".join(group_name(label) for label in gap.groups)


def _side(report: FairnessReport) -> str:
    """Return the side of a threshold on which rows are selected."""
    return "above" if report.higher_is_better else "below"
