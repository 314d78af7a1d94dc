"""One HTML file that needs no server and no network: what was audited, and every other interval.

Everything from the data enters the page escaped, or as text by the page's own script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.groups import group_name
from partialfair.metrics.report import METRICS, FairnessReport, ReportRow
from partialfair.report.summary import N_GRID, summarise

__all__ = ["Frontier", "FrontierPoint", "Section", "audited_section", "render"]

_MAX_PAIRS = 100
_LEAST_WIDTH = 2
_SCRIPTS = ("numbers.js", "charts.js", "page.js")


@dataclass(frozen=True)
class Section:
    """Something to read below the pictures: a table, or terms and what they mean.

    Attributes
    ----------
    title, text
        Heading, and what is said first.
    columns, rows
        Of the table; without columns, rows are pairs of a term and its value.
    """

    title: str
    rows: Sequence[Sequence[str]] = ()
    columns: Sequence[str] = ()
    text: str = ""

    def html(self) -> str:
        """Return the section, everything escaped."""
        parts = [f"<section>\n<h2>{escape(self.title)}</h2>"]
        if self.text:
            parts.append(f"<p>{escape(self.text)}</p>")
        if self.columns:
            parts.append(self._table())
        elif self.rows:
            lines = (f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in self.rows)
            parts.append("<dl>\n" + "\n".join(lines) + "\n</dl>")
        return "\n".join([*parts, "</section>"])

    def _table(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "\n".join(
            f'<tr><th scope="row">{escape(first)}</th>'
            + "".join(f"<td>{escape(value)}</td>" for value in rest)
            + "</tr>"
            for first, *rest in self.rows
        )
        return (
            f'<div class="scroll" role="region" aria-label="{escape(self.title)}" tabindex="0">\n'
            f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n</div>"
        )


@dataclass(frozen=True)
class FrontierPoint:
    """One model of a frontier: how large its gap is, how good it is, and which model of the page it is."""

    model: int
    label: str
    gap: float
    low: float
    high: float
    score: float
    error: float
    chosen: bool = False


@dataclass(frozen=True)
class Frontier:
    """Models by their gaps and how good they are, and what the axes are called."""

    points: tuple[FrontierPoint, ...]
    gap_label: str
    score_label: str


def render(
    reports: Mapping[str, FairnessReport],
    *,
    title: str,
    headline: str,
    sections: Sequence[Section] = (),
    frontier: Frontier | None = None,
    shown: int = 0,
) -> str:
    """Return the page as text.

    Parameters
    ----------
    reports
        One for each model, by name, all with the same settings.
    title, headline
        What is said on top.
    sections
        What is said below the pictures.
    frontier
        Drawn if given; its points choose the model that is shown.
    shown
        Position of the model that is shown first; if it is not the first, that is drawn beside it.
    """
    first = next(iter(reports.values()))
    confidence = f"{100 * first.confidence:g} %"
    marks = {
        "title": escape(title),
        "headline": escape(headline),
        "generator": f"partialfair {escape(version('partialfair'))}",
        "confidence": confidence,
        "style": _asset("page.css"),
        "script": "\n".join(map(_asset, _SCRIPTS)),
        "frontier": "" if frontier is None else _FRONTIER,
        "sections": "\n".join(section.html() for section in sections),
        "data": _json(_data(reports, frontier, shown)),
    }
    # In one pass: what is put in is never read again, whatever it says.
    return re.sub(r"@(\w+)@", lambda found: marks[found[1]], _asset("page.html"))


_FRONTIER = """<section>
<h2>Frontier</h2>
<div id="frontier"></div>
<p class="soft" id="frontier-text" role="status">Every model by its gap on rows held out, with its confidence
interval, and how good it is there, give or take one standard error. Choose one to see it below.</p>
</section>"""


@cache
def _asset(name: str) -> str:
    return files("partialfair.report").joinpath("assets", name).read_text(encoding="utf-8").strip()


def _json(data: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(reports: Mapping[str, FairnessReport], frontier: Frontier | None, shown: int) -> dict[str, Any]:
    first = next(iter(reports.values()))
    max_pairs = max(_MAX_PAIRS // len(reports), 1)
    return {
        "schema": "partialfair.page/1",
        "titles": {name: metric.title for name, metric in METRICS.items()},
        "settings": {
            "interval": _snapped(first),
            "scale": first.gap_scale,
            "rankWithin": first.rank_within,
            "confidence": first.confidence,
            "ownThreshold": first.threshold is not None,
            "model": shown,
        },
        "models": [
            {
                "name": name,
                **summarise(
                    report.scored,
                    threshold=report.threshold,
                    confidence=report.confidence,
                    max_pairs=max_pairs,
                ),
            }
            for name, report in reports.items()
        ],
        "frontier": None
        if frontier is None
        else {
            "gapLabel": frontier.gap_label,
            "scoreLabel": frontier.score_label,
            "points": [vars(point) for point in frontier.points],
        },
    }


def _snapped(report: FairnessReport) -> list[int]:
    """Whole percents next to the audited interval, which the page begins with."""
    (low, high) = audited_interval(report)
    begin = min(round(N_GRID * low), N_GRID - _LEAST_WIDTH)
    return [begin, max(round(N_GRID * high), begin + _LEAST_WIDTH)]


def audited_interval(report: FairnessReport) -> tuple[float, float]:
    """Return the one interval of all groups, refusing what a page cannot show."""
    groups = report.scored.groups
    if report.scored.intervals_differ or len(groups[0].interval.parts) > 1:
        raise InputError(
            "a page shows one interval that is the same for all groups, not a union or one for each group"
        )
    return groups[0].interval.parts[0]


def audited_section(report: FairnessReport, title: str = "As audited") -> Section:
    """Return what the report says of the audited interval, with its bootstrap's confidence intervals."""
    interval = report.scored.groups[0].interval
    omitted = "".join(
        f" Left out: {METRICS[name].title}, which {reason}." for name, reason in report.omitted.items()
    )
    threshold = "" if report.threshold is None else f"; selected: score above {report.threshold:.6g}"
    return Section(
        title,
        text=f"At {interval}, gaps on the {report.gap_scale} scale{threshold}. Confidence intervals are a "
        f"bootstrap's, for this interval alone.{omitted}",
        columns=("metric", "gap", f"{100 * report.confidence:g} % interval", "between", "members"),
        rows=[_line(row) for row in report.rows],
    )


def _line(row: ReportRow) -> list[str]:
    known = not np.isnan(row.value)
    return [
        METRICS[row.metric].title,
        f"{row.value:.3f}" if known else "undefined",
        f"{row.low:.3f} – {row.high:.3f}" if known else "–",
        " and ".join(map(group_name, row.groups)),
        " and ".join(f"{size:,}" for size in row.sizes),
    ]
