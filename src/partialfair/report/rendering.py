"""Render the HTML report: one file without a server or network, with the audited and all other intervals.

All data are escaped, or inserted as text by the script of the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from partialfair.data.groups import group_name, members_text
from partialfair.data.intervals import span_text
from partialfair.exceptions import InputError
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.evaluation import TOO_FEW
from partialfair.metrics.inputs import ranked_threshold
from partialfair.metrics.report import FairnessReport
from partialfair.report.page_data import DISCLOSED, N_GRID, IntervalChanges, Worst, leading_pairs, summarise
from partialfair.report.sections import Section, audited_line
from partialfair.report.verdict import Outcome, summaries_html
from partialfair.utils.text import short_percent

NOT_ONE_INTERVAL = (
    "an HTML report shows one interval that is the same for all groups, not a union or one for each group"
)
_MAX_PAIRS = 100
_MAX_PAIRS_WITH_CHANGES = 75
"""Fewer pairs leave room for the tables of rows that enter and leave."""
_LEAST_WIDTH = 2
_MOST_CHARACTERS = 2_800_000
"""Tables of rows that enter and leave end here, so that a report has less than 3 MB."""
_SCRIPTS = ("numbers.js", "charts.js", "changes.js", "page.js")


def render(
    reports: Mapping[str, FairnessReport],
    *,
    title: str,
    headline: str,
    metric: str,
    outcomes: Mapping[str, Outcome],
    sections: Sequence[Section] = (),
    frontier: Mapping[str, Any] | None = None,
    shown: int = 0,
    seen_in_training: bool = False,
    warning: str | None = None,
    changes: IntervalChanges | None = None,
) -> str:
    """Return the HTML report as text.

    Parameters
    ----------
    reports
        Reports of models by name, which passed `check_reports`.
    title, headline
        The first lines.
    metric
        The metric of the verdict.
    outcomes
        Further results of models, by name.
    sections
        The details below the figures.
    frontier
        For a path: titles of the axes, and for every model its name, label, position of its report, gap and
        score with their errors, whether it was chosen and whether its fit failed. Users select the model in
        it.
    shown
        Position of the model that is shown first; the first model is drawn next to it.
    seen_in_training
        Whether the rows are training rows; there are then no confidence bands.
    warning
        A red line at the top, for example for an infeasible model.
    changes
        Rows that enter and leave the interval between the models of the reports.
    """
    first = next(iter(reports.values()))
    settings = _Confidence.of(reports, seen_in_training)
    # Unfolded sections come first.
    sections = sorted([*sections, *_small_groups(first)], key=lambda section: not section.is_open)
    marks = {
        "title": escape(title),
        "headline": escape("; ".join(filter(None, [headline, first.exclusions]))),
        **_words(first.higher_is_better),
        "cautions": "\n".join(
            [
                *([] if warning is None else [f'<p class="warn">{escape(warning)}</p>']),
                *(f"<p>{escape(text)}</p>" for text in _cautions(first)),
            ]
        ),
        "generator": f"partialfair {escape(version('partialfair'))}",
        "bands": escape(settings.explanation),
        "style": page_style(),
        "script": "\n".join(map(_asset, _SCRIPTS)),
        "summaries": summaries_html(
            reports, outcomes, metric=metric, shown=shown, seen_in_training=seen_in_training
        ),
        "contents": "\n".join(
            f'<li><a href="#section-{k}">{escape(section.title)}</a></li>'
            for k, section in enumerate(sections)
        ),
        "no_frontier": "hidden" if frontier is None else "",
        "no_changes": "hidden" if changes is None else "",
        "sections": "\n".join(section.html(f"section-{k}") for k, section in enumerate(sections)),
    }
    # Tables of changes use the remaining size.
    max_pairs = _MAX_PAIRS if changes is None else _MAX_PAIRS_WITH_CHANGES
    data = _data(reports, settings, frontier, shown, max(max_pairs // len(reports), 1))
    if changes is not None:
        used = len(_json(data)) + sum(map(len, marks.values()))
        data["changes"] = changes.record(shown, room=_MOST_CHARACTERS - used)
    marks["data"] = _json(data)
    # One pass: inserted text is not searched again.
    return re.sub(r"@(\w+)@", lambda found: marks[found[1]], _asset("page.html"))


def check_reports(reports: Mapping[str, FairnessReport], shown: int = 0) -> None:
    """Raise an error for reports that one HTML report cannot show together."""
    if not isinstance(reports, Mapping) or not reports:
        raise InputError("an HTML report needs a fairness report, or several by name")
    if not 0 <= shown < len(reports):
        raise InputError(f"shown must be the position of one of {len(reports)} reports, not {shown}")
    first_name, first = next(iter(reports.items()))
    for name, report in reports.items():
        audited_interval(report)
        if report.threshold is not None and not np.isfinite(report.threshold):
            raise InputError(f"an HTML report needs a finite threshold, not {report.threshold}")
        for setting in ("gap_scale", "rank_within", "threshold", "confidence", "higher_is_better"):
            if getattr(report, setting) != getattr(first, setting):
                raise InputError(f"the reports {first_name!r} and {name!r} differ in their {setting}")
        if audited_interval(report) != audited_interval(first):
            raise InputError(f"the reports {first_name!r} and {name!r} differ in their interval")
        if [group.label for group in report.scored] != [group.label for group in first.scored]:
            raise InputError(f"the reports {first_name!r} and {name!r} evaluate different groups")
        # Only sizes can be compared: reports contain no rows.
        if [group.n for group in report.scored] != [group.n for group in first.scored]:
            raise InputError(f"the reports {first_name!r} and {name!r} have different rows")
        if (report.scored.groups[0].positive is None) != (first.scored.groups[0].positive is None):
            raise InputError(f"only one of the reports {first_name!r} and {name!r} has labels")


@dataclass(frozen=True)
class _Confidence:
    """The confidence of bands in words: a short form for sentences, and the explanation."""

    reach: str
    bands: bool
    explanation: str

    @classmethod
    def of(cls, reports: Mapping[str, FairnessReport], seen_in_training: bool) -> _Confidence:
        first = next(iter(reports.values()))
        confidence = short_percent(first.confidence)
        audited = (
            "On the audited interval the report shows the shorter confidence interval of this interval alone."
        )
        if seen_in_training:
            text = (
                "The models were trained on these rows, so that gaps on new data are mostly larger: there "
                "are no bands, and the confidence intervals under “As audited” are not valid for new data."
            )
            return cls(confidence, False, text)
        # For weighted or clustered rows the effective size only approximates the law of ranks.
        rough = _approximate(first)
        about = "about " if rough else ""
        each = ", and for each model" if len(reports) > 1 else ""
        dkw = "from the Dvoretzky–Kiefer–Wolfowitz inequality"
        # Clusters make ranks dependent, for which only DKW on the effective number is used.
        clustered = first.scored.groups[0].clusters is not None
        source = dkw if clustered else f"as in the Kolmogorov–Smirnov test (of group AUC, {dkw})"
        text = (
            f"Bands hold with {about}{confidence} confidence simultaneously for all intervals, pairs and "
            f"thresholds, separately for each metric and scale{each}. They follow from bounds on the largest "
            f"error of ranks in two samples, {source}, so they are corrected for searching all intervals, "
            f"and are long.{rough} They assume that the rows are a random sample that the model was not "
            f"trained on. {audited}"
        )
        return cls(about + confidence, True, text)


def _approximate(report: FairnessReport) -> str:
    """Return why the confidence of bands is approximate; empty if it is exact."""
    reasons = []
    if any(group.weights is not None for group in report.scored):
        reasons.append(" Weights enter by the variance of ranks, which makes it approximate.")
    if any(group.clusters is not None for group in report.scored):
        reasons.append(" Clusters of rows enter by their effective number, which makes it approximate.")
    return "".join(reasons)


def _cautions(report: FairnessReport) -> list[str]:
    """Return cautions: the interval differs from the audited one, or small groups are disclosed."""
    cautions = []
    low, high = audited_interval(report)
    begin, end = _snapped(report)
    if not _is_on_grid(report):
        cautions.append(
            f"The report begins with ranks {begin}–{end}%, the whole percents next to the audited "
            f"{span_text(low, high)}. The numbers of the audited interval are under “As audited”."
        )
    small = [group.name for group in report.scored if group.n <= DISCLOSED]
    if small:
        whose = f"group {small[0]}" if len(small) == 1 else f"{len(small)} groups, among them {small[0]}"
        cautions.append(
            f"The scores of {whose}, with at most {DISCLOSED} members, can be inferred from this file: "
            "consider this before you publish it."
        )
    return cautions


def _words(higher_is_better: bool) -> dict[str, str]:
    """Return the words of the report for the direction of ranks."""
    lowest = ("from the best (lowest scores)", "lower: rank 0% is the best, the lowest score", "below")
    highest = ("from the top", "higher: rank 0% is the top", "above")
    return dict(zip(("from_best", "better", "side"), highest if higher_is_better else lowest, strict=True))


def _small_groups(report: FairnessReport) -> Iterator[Section]:
    """Yield tables of the groups that are not evaluated, and of the groups that were merged."""
    columns = ("group", "members", "effective members in the audited interval")
    merged_title = "Small groups that were merged into one"
    for title, groups in ((TOO_FEW.capitalize(), report.small_groups), (merged_title, report.merged_groups)):
        rows = [
            [group_name(group.group), f"{group.n:,}", members_text(group.n_counted, too_few=True)]
            for group in groups
        ]
        if rows:
            yield Section(title, rows, columns, is_open=True)


def _too_few(report: FairnessReport) -> dict[str, list[int]]:
    """Return the positions of groups that metrics leave out on every interval."""
    labels = [group.label for group in report.scored]
    return {
        metric: [labels.index(group.group) for group in small]
        for metric, small in report.too_few_labelled.items()
    }


def page_style() -> str:
    """Return the style sheet of HTML reports."""
    return _asset("page.css")


@cache
def _asset(name: str) -> str:
    return files("partialfair.report").joinpath("assets", name).read_text(encoding="utf-8").strip()


def _json(data: Any) -> str:
    """Return JSON that cannot end its script element."""
    # Escaped, "</script>" in a name cannot end the element.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(
    reports: Mapping[str, FairnessReport],
    settings: _Confidence,
    frontier: Mapping[str, Any] | None,
    shown: int,
    max_pairs: int,
) -> dict[str, Any]:
    first = next(iter(reports.values()))
    pairs: list[tuple[int, int]] | None = None
    worsts: dict[str, Worst | None] = dict.fromkeys(reports)
    # With too many pairs, the file contains the worst ones, and the maximum of all on every interval.
    if len(list(first.scored.pairs())) > max_pairs:
        found = {name: Worst.of(report.scored) for name, report in reports.items()}
        pairs, worsts = leading_pairs(first.scored, list(found.values()), max_pairs), {**found}
    return {
        "schema": "partialfair.report/1",
        "titles": {name: metric.title for name, metric in METRICS.items()},
        "settings": {
            "interval": _snapped(first),
            "scale": first.gap_scale,
            "rankWithin": first.rank_within,
            "reach": settings.reach,
            "bands": settings.bands,
            "ownThreshold": first.threshold is not None,
            "higherIsBetter": first.higher_is_better,
            "model": shown,
            "onGrid": _is_on_grid(first),
            "minMembers": first.min_group_size,
        },
        "models": [
            {
                "name": name,
                "tooFew": _too_few(report),
                "audited": {row.metric: audited_line(row) for row in report.metrics},
                "limits": {
                    row.metric: [row.ci_low, row.ci_high]
                    for row in report.metrics
                    if np.isfinite(row.ci_high)
                },
                **summarise(
                    report.scored,
                    threshold=None
                    if report.threshold is None
                    else ranked_threshold(report.scored, report.threshold),
                    confidence=report.confidence,
                    pairs=pairs,
                    worst=worsts[name],
                ),
            }
            for name, report in reports.items()
        ],
        "changes": None,
        "frontier": frontier,
    }


def _snapped(report: FairnessReport) -> list[int]:
    """Return the whole percents next to the audited interval, with which the report begins."""
    (low, high) = audited_interval(report)
    # The width is at least two percent: gaps on one percent are mostly noise.
    begin = min(round(N_GRID * low), N_GRID - _LEAST_WIDTH)
    return [begin, max(round(N_GRID * high), begin + _LEAST_WIDTH)]


def _is_on_grid(report: FairnessReport) -> bool:
    """Return whether the audited interval has whole percents as its ends."""
    ends = zip(_snapped(report), audited_interval(report), strict=True)
    return all(abs(percent - N_GRID * end) <= 1e-9 for percent, end in ends)


def audited_interval(report: FairnessReport) -> tuple[float, float]:
    """Return the interval of all groups; unions and intervals by group are an error."""
    groups = report.scored.groups
    if report.scored.intervals_differ or len(groups[0].interval.parts) > 1:
        raise InputError(NOT_ONE_INTERVAL)
    return groups[0].interval.parts[0]
