"""Sections of the HTML report: tables and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.data.groups import group_name, label_kind
from partialfair.data.intervals import interval_text
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.evaluation import TOO_FEW
from partialfair.metrics.report import FairnessReport, PairGap, ReportRow
from partialfair.utils.text import listed, short_percent

if TYPE_CHECKING:
    from partialfair.training.result import FitResult

_FEW_COLUMNS = 6
"""With more columns a narrow window scrolls sideways, so that cells are not broken."""
PAIR_INTERVALS = (
    "The confidence interval of a pair is valid if the pair was chosen in advance. The interval {elsewhere} "
    "is valid for the largest gap of all pairs: it is corrected for the choice of the pair."
)
"""The explanation of the two confidence intervals of the worst pair."""
_MOST_PAIRS = 50
"""The largest number of pairs in a list."""


@dataclass(frozen=True)
class Section:
    """Details below the figures: a table, a list, or terms with explanations.

    Attributes
    ----------
    title, text
        The heading, and paragraphs separated by empty lines.
    columns, rows
        The table; without columns, rows are pairs of a term and its value.
    items
        The items of a list.
    is_open
        Whether the section is unfolded at first.
    """

    title: str
    rows: Sequence[Sequence[str]] = ()
    columns: Sequence[str] = ()
    text: str = ""
    items: Sequence[str] = ()
    is_open: bool = False

    def html(self, address: str = "") -> str:
        """Return the section as escaped HTML; ``address`` is the target of links."""
        unfolded, link = " open" if self.is_open else "", f' id="{address}"' if address else ""
        parts = [f"<details{unfolded}{link}>\n<summary><h2>{escape(self.title)}</h2></summary>"]
        if self.text:
            parts += [f"<p>{escape(paragraph)}</p>" for paragraph in self.text.split("\n\n")]
        if self.columns:
            parts.append(self._table())
        elif self.rows:
            lines = (f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in self.rows)
            parts.append("<dl>\n" + "\n".join(lines) + "\n</dl>")
        if self.items:
            parts.append("<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in self.items) + "\n</ul>")
        return "\n".join([*parts, "</details>"])

    def _table(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        wide = ' class="wide-table"' if len(self.columns) > _FEW_COLUMNS else ""
        body = "\n".join(
            f'<tr><th scope="row">{escape(first)}</th>' + "".join(map(_cell, rest)) + "</tr>"
            for first, *rest in self.rows
        )
        return (
            f'<div class="scroll" role="region" aria-label="{escape(self.title)}" tabindex="0">\n'
            f"<table{wide}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n</div>"
        )


def _cell(value: str) -> str:
    """Return a cell; intervals, whose numbers have spaces between them, stay on one line."""
    # As in "0.1 – 0.3" or "0.1 to 0.3".
    several = " " in value and not any(character.isalpha() for character in value.replace(" to ", " "))
    return f"<td{' class=numbers' if several else ''}>{escape(value)}</td>"


def audited_section(reports: Mapping[str, FairnessReport], *, seen_in_training: bool) -> Section:
    """Return the metrics on the audited interval, with all confidence bounds."""
    report = next(iter(reports.values()))
    interval = interval_text(report.scored.groups[0].interval, report.higher_is_better)
    omitted = [
        text
        for each in reports.values()
        for text in (
            *(f" Left out: {METRICS[name].title}, which {reason}." for name, reason in each.omitted.items()),
            *(
                f" {METRICS[name].title}, {TOO_FEW}: {listed([group.text for group in small])}."
                for name, small in each.too_few_labelled.items()
                if name not in each.omitted
            ),
        )
    ]
    side = "above" if report.higher_is_better else "below"
    threshold = "" if report.threshold is None else f"; selected: score {side} {report.threshold:.6g}"
    what = f"At {interval}, gaps on the {report.gap_scale} scale{threshold}.{''.join(dict.fromkeys(omitted))}"
    # The meaning of intervals and bounds.
    claims = (
        "The model was trained on these rows: intervals and bounds are not valid for new data."
        if seen_in_training
        else f"Confidence intervals hold for this interval of ranks alone. {report.confidence_note} "
        "“At least” and “at most” are one-sided lower and upper confidence bounds at the same confidence "
        "level. Use one of them where only one side matters, and the interval otherwise."
    )
    model = ["model"] if len(reports) > 1 else []
    limits = interval_title(report.confidence)
    return Section(
        "As audited",
        text=f"{what} {report.ranking_note}\n\n{claims}",
        columns=(*model, "metric", "gap", limits, "at least", "at most", "between", "members"),
        rows=[
            [*([name] if model else []), *audited_line(row)]
            for name, each in reports.items()
            for row in each.metrics
        ],
    )


def audited_line(row: ReportRow) -> list[str]:
    """Return a line of the audited metrics: title, gap, interval, both bounds, groups and their sizes."""
    known, metric = not np.isnan(row.gap), METRICS[row.metric]
    return [
        metric.title,
        *gap_cells(row, row.metric, missing="–"),
        metric.text(row.lower_bound) if known else "–",
        metric.text(row.upper_bound) if known else "–",
        "–"
        if row.reason
        else _between(row) + (f", among {label_kind(row.label)}" if row.label is not None else ""),
        " and ".join(f"{size:,}" for size in row.sizes),
    ]


def pairs_section(report: FairnessReport, metric: str, title: str = "Pairs of groups") -> list[Section]:
    """Return the pairs with the largest gaps, if there are several pairs."""
    # A single pair has the same gap as the audited line.
    pairs = [] if metric in report.omitted else report.pairs(metric)
    if len(pairs) < 2:
        return []
    shown = (
        f"All {len(pairs)}" if len(pairs) <= _MOST_PAIRS else f"The {_MOST_PAIRS} largest of {len(pairs):,}"
    )
    labelled = any(gap.label is not None for gap in pairs)
    return [
        Section(
            title,
            text=f"{shown} pairs by {METRICS[metric].title}, the largest gap first. "
            + PAIR_INTERVALS.format(elsewhere="under “As audited”"),
            columns=(
                "between",
                "gap",
                pair_interval_title(report.confidence),
                *(["among"] if labelled else []),
            ),
            rows=[
                [
                    _between(gap),
                    *gap_cells(gap, metric),
                    *([label_kind(gap.label)] if labelled else []),
                ]
                for gap in pairs[:_MOST_PAIRS]
            ],
        )
    ]


def _between(gap: ReportRow | PairGap) -> str:
    return " and ".join(map(group_name, gap.groups))


def interval_title(confidence: float) -> str:
    """Return the title of a column of confidence intervals."""
    return f"{short_percent(confidence)} interval"


def pair_interval_title(confidence: float) -> str:
    """Return the title of a column of confidence intervals of single pairs."""
    return f"{interval_title(confidence)}, this pair alone"


def gap_cells(gap: ReportRow | PairGap, metric: str, missing: str = "") -> tuple[str, str]:
    """Return a gap and its confidence interval as text."""
    if np.isnan(gap.gap):
        return gap.missing_text if isinstance(gap, ReportRow) else "undefined", missing
    text = METRICS[metric].text
    return text(gap.gap), f"{text(gap.ci_low)} – {text(gap.ci_high)}"


def fits_section(
    fits: Mapping[str, FitResult], metric: str, training_gaps: Sequence[float] | None = None
) -> Section:
    """Return the results and KKT certificates of fits; training gaps are those of the fits by default."""
    gaps = [result.gap for result in fits.values()] if training_gaps is None else training_gaps
    # All fits of one estimator have the same tolerance.
    (tol,) = {result.tol for result in fits.values()}
    return Section(
        "Fits and KKT certificates",
        text="A KKT certificate concerns the solver: it holds if its four residuals are at most "
        f"tol = {tol:g}, and the model is then nearly a KKT point of the training problem. It does not "
        "concern new data. The training gap is the exact metric.",
        columns=(
            "model",
            "status",
            "training gap",
            "objective",
            "feasibility",
            "stationarity",
            "complementarity",
            "distance",
            "steps",
            "seconds",
        ),
        rows=[
            [
                name,
                describe_end(result),
                METRICS[metric].text(gap),
                f"{result.objective:.5f}",
                f"{result.kkt.feasibility:.1e}",
                f"{result.kkt.stationarity:.1e}",
                f"{result.kkt.complementarity:.1e}",
                f"{result.kkt.distance:.1e}",
                f"{result.history[-1].step:,}",
                f"{result.history[-1].seconds:.1f}",
            ]
            for (name, result), gap in zip(fits.items(), gaps, strict=True)
        ],
    )


def settings_section(settings: Mapping[str, Any]) -> Section:
    """Return the settings."""
    return Section("Settings", rows=[(name, str(value)) for name, value in settings.items()])


def notes_section(notes: Sequence[str]) -> list[Section]:
    """Return a section with the notes, if there are any."""
    return [Section("Notes", items=notes, is_open=True)] if notes else []


def describe_end(result: FitResult) -> str:
    """Describe how a fit ended."""
    status = str(result.status).replace("_", " ")
    return status if result.infeasibility is None else f"{status} ({result.infeasibility})"
