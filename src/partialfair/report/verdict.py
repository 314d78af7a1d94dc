"""The top of an HTML report: the verdict of each model, and up to four cards of figures.

They state the gaps on the audited interval, with the confidence intervals of the report, and do not depend on
the interval that is selected below. Each model is compared with the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from sklearn.metrics import roc_auc_score

from partialfair.data.groups import group_name, members_text
from partialfair.data.intervals import IntervalSet, ranks_text
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.elsewhere import ElsewhereComparison, GapElsewhere
from partialfair.metrics.inputs import ranked_threshold
from partialfair.metrics.report import FairnessReport
from partialfair.metrics.verdict import state_verdict
from partialfair.report.sections import gap_cells, interval_title
from partialfair.utils.text import fixed, listed

_SATISFIED = {True: "satisfied", False: "not satisfied"}


@dataclass(frozen=True)
class Outcome:
    """Results of a model in addition to its report.

    Attributes
    ----------
    quality
        Names and formatted values of scores; if empty, the card shows accuracy and AUC on the rows of the
        report.
    satisfied, limit, training_gap
        Whether the constraint is satisfied (None without a constraint), its limit, and the exact training
        gap.
    claim
        A further sentence of the verdict.
    """

    quality: Sequence[tuple[str, str]] = ()
    satisfied: bool | None = None
    limit: float = float("inf")
    training_gap: float = float("nan")
    claim: str = ""


@dataclass(frozen=True)
class Card:
    """Figures under a title: for each one its name, its value and a note."""

    title: str
    figures: Sequence[tuple[str, str, str]]
    text: str = ""
    state: str = ""

    def html(self) -> str:
        """Return the card as escaped HTML."""
        figures = "\n".join(
            f'<div><dt>{escape(name)}</dt><dd class="figure">{escape(value)}</dd>'
            f"<dd>{escape(note)}</dd></div>"
            for name, value, note in self.figures
        )
        return (
            f'<div class="card {self.state}"><h3>{escape(self.title)}</h3>\n<dl>{figures}</dl>\n'
            f"<p>{escape(self.text)}</p></div>"
        )


def summaries_html(
    reports: Mapping[str, FairnessReport],
    outcomes: Mapping[str, Outcome],
    *,
    metric: str,
    shown: int,
    seen_in_training: bool,
) -> str:
    """Return the verdicts and cards of all models; the script of the report shows one model."""
    known = {name: outcomes.get(name) or Outcome() for name in reports}
    quality = {name: one.quality or _quality(reports[name]) for name, one in known.items()}
    elsewhere = {name: report.elsewhere() for name, report in reports.items()}
    first = next(iter(reports))
    parts = []
    for k, (name, report) in enumerate(reports.items()):
        compared = list(dict.fromkeys([first, name]))
        gaps = {each: elsewhere[each] for each in compared}
        cards = [
            _gap_card({each: reports[each] for each in compared}, metric, seen_in_training),
            *_quality_card({each: quality[each] for each in compared}),
            *_elsewhere_card(gaps, seen_in_training),
            _constraint_card(known[name], report, metric),
        ]
        title = "Verdict" if len(reports) == 1 else f"Verdict: {name}"
        headline, *others = _verdict(report, known[name], list(gaps.values()), metric, seen_in_training)
        parts.append(
            f'<section class="summary" data-model="{k}"{"" if k == shown else " hidden"}>\n'
            f'<h2>{escape(title)}</h2>\n<p class="verdict">{escape(headline)}</p>\n'
            f'<ul class="claims">{"".join(f"<li>{escape(each)}</li>" for each in others if each)}</ul>\n'
            f'<div class="cards">{"".join(card.html() for card in cards)}</div>\n</section>'
        )
    return "\n".join(parts)


def _quality(report: FairnessReport) -> list[tuple[str, str]]:
    """Return accuracy at the threshold and AUC on the evaluated rows, if there are labels."""
    if any(group.positive is None for group in report.scored):
        return []
    labels = np.concatenate([group.positive for group in report.scored])
    scores = np.concatenate([group.scores for group in report.scored])
    weights = np.concatenate(
        [np.ones(group.n) if group.weights is None else group.weights for group in report.scored]
    )
    quality = []
    if report.threshold is not None:
        selected = scores > ranked_threshold(report.scored, report.threshold)
        quality.append(("accuracy", fixed(np.average(selected == labels, weights=weights))))
    if labels.any() and not labels.all():
        quality.append(("AUC", fixed(roc_auc_score(labels, scores, sample_weight=weights))))
    return quality


def _verdict(
    report: FairnessReport,
    outcome: Outcome,
    elsewhere: Sequence[GapElsewhere | None],
    metric: str,
    seen_in_training: bool,
) -> list[str]:
    """Return the headline, then the claim about new data, and the gaps of other intervals."""
    answer = []
    if outcome.satisfied is not None:
        answer.append(f"Constraint {_SATISFIED[outcome.satisfied]}: {_trained(outcome, metric)}.")
    if seen_in_training:
        gap = "not evaluated" if metric in report.omitted else gap_cells(report[metric], metric)[0]
        answer.append(f"The {METRICS[metric].title} gap of the rows is {gap}.")
        return [
            " ".join(answer),
            "The model was trained on these rows: the gap shows nothing about new data.",
        ]
    verdict = state_verdict(report, metric)
    known = [gap for gap in elsewhere if gap is not None]
    moved = ElsewhereComparison(*known).statement if len(known) == 2 else ""
    if len(elsewhere) == len(known) == 1:
        moved = known[0].statement
    return [" ".join([*answer, verdict.headline]), verdict.claim, outcome.claim, moved]


def _trained(outcome: Outcome, metric: str) -> str:
    """Return the training gap and its limit as text."""
    return f"training gap {METRICS[metric].text(outcome.training_gap)}, limit {outcome.limit:g}"


def _gap_card(compared: Mapping[str, FairnessReport], metric: str, seen_in_training: bool) -> Card:
    """Return a card with the gaps of the first model and of this one."""
    figures, pairs = [], []
    for name, report in compared.items():
        if metric in report.omitted:
            figures.append((name, "n/a", report.omitted[metric]))
            continue
        gap, interval = gap_cells(report[metric], metric)
        figures.append((name, gap, "" if seen_in_training else interval))
        pairs.append(" and ".join(map(group_name, report[metric].groups)))
    last = list(compared.values())[-1]
    limits = "" if seen_in_training else f"With {interval_title(last.confidence)}"
    text = ", ".join(filter(None, [limits, f"between {pairs[-1]}" if pairs else ""]))
    return Card(f"Gap: {METRICS[metric].title}", figures, text[:1].upper() + text[1:])


def _quality_card(quality: Mapping[str, Sequence[tuple[str, str]]]) -> list[Card]:
    """Return a card with the scores of the models, the first score in large type."""
    if not all(quality.values()):
        return []
    measures = listed([name for name, _ in next(iter(quality.values())) if name != "±"])
    figures = [
        (name, values[0][1], ", ".join(f"{measure} {value}" for measure, value in values[1:]))
        for name, values in quality.items()
    ]
    return [Card(measures[0].upper() + measures[1:], figures)]


def _elsewhere_card(gaps: Mapping[str, GapElsewhere | None], seen_in_training: bool) -> list[Card]:
    """Return a card with the largest gaps outside the interval, if enough rows lie outside."""
    known = {name: gap for name, gap in gaps.items() if gap is not None}
    if not known:
        return []
    figures = [
        (
            name,
            fixed(gap.gap),
            f"ranks {ranks_text(IntervalSet((gap.interval,)))}"
            + ("" if seen_in_training else f": {fixed(gap.ci_low)} – {fixed(gap.ci_high)}"),
        )
        for name, gap in known.items()
    ]
    text = "Intervals of the same width that do not overlap this one, or shorter remaining pieces"
    if not seen_in_training:
        text += f". With {interval_title(next(iter(known.values())).confidence)}, corrected for the search"
    return [Card("Largest gap elsewhere", figures, text, "elsewhere")]


def _constraint_card(outcome: Outcome, report: FairnessReport, metric: str) -> Card:
    """Return a card on the constraint, or without a constraint the numbers of rows in the interval."""
    if outcome.satisfied is not None:
        state = "good" if outcome.satisfied else "bad"
        figure = (METRICS[metric].title, _SATISFIED[outcome.satisfied], _trained(outcome, metric))
        return Card("Constraint in training", [figure], state=state)
    pair = [] if metric in report.omitted else report[metric].groups
    figures = [
        (group_name(group.group), members_text(group.n_in_interval), f"of {group.n:,}")
        for group in report.groups
        if group.group in pair
    ]
    return Card("Rows in the interval", figures)
