"""What is to be read on a page: tables and lists, among them what a report claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from partialfair.data.groups import group_name, label_kind
from partialfair.data.intervals import interval_text
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.evaluation import TOO_FEW
from partialfair.metrics.report import FairnessReport, PairGap, ReportRow
from partialfair.utils.text import listed

__all__ = ["Section", "audited_line", "audited_section", "pairs_section"]

_FEW_COLUMNS = 6
"""More than so many, and a narrow window scrolls sideways rather than breaks every cell."""
_MOST_PAIRS = 50
"""Pairs that a page lists; records of the command line have all."""


@dataclass(frozen=True)
class Section:
    """Something to read below the pictures: a table, or terms and what they mean.

    Attributes
    ----------
    title, text
        Heading, and what is said first; empty lines part its paragraphs.
    columns, rows
        Of the table; without columns, rows are pairs of a term and its value.
    items
        Of a list.
    """

    title: str
    rows: Sequence[Sequence[str]] = ()
    columns: Sequence[str] = ()
    text: str = ""
    items: Sequence[str] = ()

    def html(self, heading: str = "h2") -> str:
        """Return the section, everything escaped."""
        parts = [f"<section>\n<{heading}>{escape(self.title)}</{heading}>"]
        if self.text:
            parts += [f"<p>{escape(paragraph)}</p>" for paragraph in self.text.split("\n\n")]
        if self.columns:
            parts.append(self._table())
        elif self.rows:
            lines = (f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in self.rows)
            parts.append("<dl>\n" + "\n".join(lines) + "\n</dl>")
        if self.items:
            parts.append("<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in self.items) + "\n</ul>")
        return "\n".join([*parts, "</section>"])

    def _table(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        wide = ' class="wide"' if len(self.columns) > _FEW_COLUMNS else ""
        body = "\n".join(
            f'<tr><th scope="row">{escape(first)}</th>' + "".join(map(_cell, rest)) + "</tr>"
            for first, *rest in self.rows
        )
        return (
            f'<div class="scroll" role="region" aria-label="{escape(self.title)}" tabindex="0">\n'
            f"<table{wide}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n</div>"
        )


def _cell(value: str) -> str:
    """Return a cell; numbers with spaces between them, as intervals have, stay on one line."""
    several = " " in value and not any(character.isalpha() for character in value)
    return f"<td{' class=numbers' if several else ''}>{escape(value)}</td>"


def audited_section(
    report: FairnessReport,
    title: str = "As audited",
    *,
    seen_in_training: bool = False,
    explained: bool = True,
) -> Section:
    """Return what the report says of the audited interval, with its confidence intervals.

    What intervals and bounds claim is said where ``explained``: once on a page of several models.
    """
    interval = interval_text(report.scored.groups[0].interval, report.higher_is_better)
    omitted = "".join(
        [
            *(
                f" Left out: {METRICS[name].title}, which {reason}."
                for name, reason in report.omitted.items()
            ),
            *(
                f" {METRICS[name].title}, {TOO_FEW}: {listed([group.text for group in small])}."
                for name, small in report.too_few_labelled.items()
                if name not in report.omitted
            ),
        ]
    )
    side = "above" if report.higher_is_better else "below"
    threshold = "" if report.threshold is None else f"; selected: score {side} {report.threshold:.6g}"
    what = f"At {interval}, gaps on the {report.gap_scale} scale{threshold}.{omitted}"
    claims = _TRAINED_ON if seen_in_training else _claims(report)
    return Section(
        title,
        text=f"{what}\n\n{claims}" if explained else what,
        columns=("metric", "gap", _interval_title(report), "at least", "at most", "between", "members"),
        rows=[audited_line(row) for row in report.rows],
    )


_TRAINED_ON = "The model was trained on these rows: intervals and bounds say nothing of new people."


def _claims(report: FairnessReport) -> str:
    """Say what intervals and bounds are, and how sure."""
    return (
        f"Confidence intervals hold for this interval of ranks alone. {report.assurance} "
        "“At least” and “at most” are bounds on one side, with the same confidence: the true gap is shown to "
        "be no smaller, or no wider, than that. Where one side alone matters, read that bound."
    )


def audited_line(row: ReportRow) -> list[str]:
    """Return a line of the audited metrics: title, gap, interval, both bounds, groups and their members."""
    known, metric = not np.isnan(row.value), METRICS[row.metric]
    return [
        metric.title,
        metric.text(row.value) if known else "undefined",
        f"{metric.text(row.low)} – {metric.text(row.high)}" if known else "–",
        metric.text(row.at_least) if known else "–",
        metric.text(row.at_most) if known else "–",
        _between(row) + (f", among {label_kind(row.label)}" if row.label is not None else ""),
        " and ".join(f"{size:,}" for size in row.sizes),
    ]


def pairs_section(report: FairnessReport, metric: str, title: str = "Pairs of groups") -> list[Section]:
    """Return the gaps of the widest pairs, each with its own interval, if there are several pairs."""
    pairs = [] if metric in report.omitted else report.pairs(metric)
    if len(pairs) < 2:
        return []
    text = METRICS[metric].text
    shown = (
        f"All {len(pairs)}" if len(pairs) <= _MOST_PAIRS else f"The {_MOST_PAIRS} widest of {len(pairs):,}"
    )
    labelled = any(gap.label is not None for gap in pairs)
    return [
        Section(
            title,
            text=f"{shown} pairs by {METRICS[metric].title}, the widest gap first. Each interval is that of "
            "one pair, as if no other had been looked at; intervals under “As audited” are of the maximum "
            "over all pairs, whichever is the widest in truth.",
            columns=("between", "gap", _interval_title(report), *(["among"] if labelled else [])),
            rows=[
                [
                    _between(gap),
                    text(gap.value),
                    f"{text(gap.low)} – {text(gap.high)}",
                    *([label_kind(gap.label)] if labelled else []),
                ]
                for gap in pairs[:_MOST_PAIRS]
            ],
        )
    ]


def _between(gap: ReportRow | PairGap) -> str:
    return " and ".join(map(group_name, gap.groups))


def _interval_title(report: FairnessReport) -> str:
    return f"{100 * report.confidence:g} % interval"
