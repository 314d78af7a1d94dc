"""``partialfair audit``: the gaps of one file of scores, from any model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.console import Console
from rich.text import Text

from partialfair.cli.columns import ColumnNames, ScoreTable, find_positive_label, read_scores
from partialfair.cli.evaluation import Gate, ScoreEvaluation, evaluate
from partialfair.cli.intervals import AUTO, by_label, interval_record
from partialfair.cli.output import Content, as_options, csv_text, note_line, step
from partialfair.cli.pictures import draw_densities, draw_rank_curves, shared_interval
from partialfair.cli.report_text import (
    groups_table,
    parity_sentence,
    print_metrics,
    print_omitted,
    report_record,
)
from partialfair.cli.settings import ScoreSettings
from partialfair.data.groups import group_name
from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError
from partialfair.metrics.choice import IntervalChoice, choose_interval
from partialfair.metrics.map import UnfairnessMap, groups_map
from partialfair.metrics.report import FairnessReport
from partialfair.plotting.ranks import plot_unfairness_map
from partialfair.report.pages import audit_page
from partialfair.report.sections import notes_section, settings_section
from partialfair.utils.text import fixed, short_percent, visible
from partialfair.utils.typing import IntervalLike

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

FILES = (
    "metrics.csv",
    "pairs.csv",
    "rank_curve.png",
    "score_densities.png",
    "unfairness_map.png",
    "audit.json",
)
"""What ``--out`` writes, the record last."""

MAP_WIDTH = 0.25
MAP_GRID = 100


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit of one file.

    Attributes
    ----------
    table, settings, gate
        The columns that were read, the settings of the evaluation, and the gate on the gap.
    evaluation
        The metrics on the interval.
    unfairness
        The gap of every other interval.
    choice
        How the interval was chosen on these rows; None if it was given.
    positive
        The positive label, with the type that it has in the data; None without labels.
    notes
        Warnings and remarks.
    """

    table: ScoreTable
    settings: ScoreSettings
    gate: Gate | None
    evaluation: ScoreEvaluation
    unfairness: UnfairnessMap
    choice: IntervalChoice | None
    positive: Any
    notes: tuple[str, ...]

    @property
    def report(self) -> FairnessReport:
        """All metrics."""
        return self.evaluation.report

    @property
    def succeeded(self) -> bool:
        """Whether the gate, if there is one, was passed."""
        return self.gate is None or self.gate.passes(self.report)

    @property
    def interval(self) -> IntervalLike:
        """The interval on which groups are evaluated."""
        return self.evaluation.interval

    @property
    def positive_name(self) -> str | None:
        """The positive label as it is printed."""
        return None if self.positive is None else str(self.positive)

    @property
    def subject(self) -> str:
        """A description of the interval, scale, positive label and clusters."""
        positive = "" if self.positive is None else f"; positive label: {self.positive}"
        chosen = ", chosen by the scores" if self.settings.interval == AUTO else ""
        scale = f"gaps on the {self.settings.gap_scale} scale"
        clusters = "" if self.table.clusters is None else f"; {self.table.clusters_text}"
        return f"{self.settings.words(self.interval)}{chosen}; {scale}{positive}{clusters}"

    @property
    def headline(self) -> str:
        """The description of `subject`, and the excluded groups, which HTML reports list elsewhere."""
        return "; ".join(filter(None, [self.subject, self.report.exclusions]))

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; an incompatible change increases the number of the schema."""
        worst = self.unfairness.widest(MAP_WIDTH)
        choice = None
        if self.choice is not None:
            names = ("positive_rate", "gap", "ci_low", "ci_high", "confidence")
            values = {name: getattr(self.choice, name) for name in names}
            excluded = [group_name(label) for label in self.choice.excluded]
            choice = {"n_candidates": len(self.choice.candidates), **values, "excluded": excluded}
        record = {
            "schema": "partialfair.audit/1",
            "file": str(self.table.path),
            "interval": interval_record(self.interval),
            "interval_choice": choice,
            "pos_label": self.positive_name,
            "clusters": self.table.clusters_record,
            **report_record(self.report),
            "largest_gap": {
                "width": MAP_WIDTH,
                "interval": list(worst.interval),
                "gap": worst.gap,
                "ci_low": worst.ci_low,
                "ci_high": worst.ci_high,
                "worst_pair": [group_name(label) for label in worst.groups],
            },
            "notes": list(self.notes),
        }
        if self.gate is not None:
            record["gate"] = self.gate.record(self.report)
        return record

    def files(self) -> dict[str, Content]:
        """Return the files of ``--out`` besides the record; figures are drawn when they are called."""
        return {
            "metrics.csv": csv_text(self.report.to_frame(), index=True),
            "pairs.csv": csv_text(self.report.to_frame(by="pair")),
            "rank_curve.png": lambda: draw_rank_curves({"": self.report}, self.interval),
            "score_densities.png": lambda: draw_densities(self.report),
            "unfairness_map.png": self._map,
        }

    def page(self) -> str:
        """Return the HTML report."""
        table, settings = self.table, self.settings
        label = "none" if table.labels is None else f"{table.labels.name}, positive: {self.positive}"
        provenance = {
            "file": table.path,
            "rows": f"{len(table.scores):,}",
            "groups by": ", ".join(map(str, table.groups.columns)),
            "label": label,
            "weights": "none" if table.weights is None else "yes",
            "clusters": "none" if table.clusters is None else table.clusters_text,
            "interval": settings.words(self.interval),
            "better scores": "higher" if settings.higher_is_better else "lower",
            "threshold": "none" if settings.threshold is None else f"{settings.threshold:g}",
            "gap scale": settings.gap_scale,
            "ranks within": settings.rank_within.replace("_", " "),
            "smallest group that is evaluated": settings.min_group_size,
            "smaller groups": settings.small_groups,
            "seed of the bootstrap": settings.seed,
        }
        return audit_page(
            self.report,
            title=f"Fairness audit of {table.path.name}",
            headline=f"{len(table.scores):,} rows in {len(self.report.groups)} groups; {self.subject}",
            sections=[settings_section(provenance), *notes_section(self.notes)],
        )

    def memo(self) -> str:
        """Return a paragraph for a memo."""
        chosen = "" if self.choice is None else f" {self._choice_note()[0].upper()}{self._choice_note()[1:]}."
        return f"Audit of {visible(self.table.path.name)}: {self.report.summary()}{chosen}\n"

    def _choice_note(self) -> str:
        """Describe how the interval was chosen; the confidence intervals are not corrected for the choice."""
        assert self.choice is not None
        return f"{self.choice.statement}; the intervals of this report are not corrected for this choice"

    def _map(self) -> Figure:
        figure: Any = plot_unfairness_map(self.unfairness, interval=shared_interval(self.interval)).figure
        return cast("Figure", figure)

    def print(self, out: Console) -> None:
        """Print the report, the verdict first."""
        report = self.report
        out.print(Text.assemble((str(self.table.path), "bold"), f": {self.headline}\n"))
        verdict = report.verdict
        out.print(verdict.headline, style="bold")
        out.print(verdict.claim)
        if verdict.finding != "gap detected":  # otherwise the verdict has the proportions of both groups
            out.print(parity_sentence(report))
        out.print(self._widest_sentence())
        if self.gate is not None:
            out.print(self.gate.verdict(report))
        out.print()
        print_metrics(report, "statistical_parity" if self.gate is None else self.gate.metric, out)
        out.print()
        out.print(groups_table(report))
        print_omitted(report, out)
        for note in self.notes:
            out.print(note_line(note))

    def _widest_sentence(self) -> str:
        """Describe the interval of one width with the largest gap; the audited interval wins ties."""
        worst = self.unfairness.widest(MAP_WIDTH)
        gap = self.report["statistical_parity"].gap
        if _is_as_wide(self.interval) and gap >= worst.gap - 1e-9:
            return f"No other interval of {short_percent(MAP_WIDTH)} of the ranks has a larger gap."
        return (
            f"The largest gap of any interval of {short_percent(MAP_WIDTH)} of the ranks is "
            f"{fixed(worst.gap)}, at {self.settings.words(worst.interval)}, between "
            f"{' and '.join(map(group_name, worst.groups))} ({short_percent(self.settings.confidence)} band, "
            f"simultaneous for all {self.unfairness.n_intervals:,} intervals: {fixed(worst.ci_low)} – "
            f"{fixed(worst.ci_high)})."
        )


def read(path: Path, settings: ScoreSettings, id_column: str | None = None) -> ScoreTable:
    """Read the columns of one file."""
    columns = ColumnNames(
        settings.score, tuple(settings.group), settings.label, settings.weight, id_column, settings.clusters
    )
    with step(f"reading {path}"):
        return read_scores(path, columns, settings.missing_groups, max_groups=settings.max_groups)


def measure(table: ScoreTable, settings: ScoreSettings) -> Audit:
    """Evaluate one table of scores."""
    positive, doubts, gate = None, list[str](), Gate.of(settings)
    if table.labels is not None:
        found = find_positive_label(table.labels, table.path, settings.pos_label)
        positive = found.value
        doubts = found.doubts(str(table.labels.name), lower_is_better=settings.lower_is_better)
    # The library's warnings become notes of the report.
    with step(f"measuring {len(table.scores):,} scores"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choice = None
        interval: Any = settings.interval
        if interval == AUTO:
            choice = _choose_interval(table, settings, positive)
            interval = choice.interval
        evaluation = evaluate(
            settings,
            table.scores,
            table.encoded,
            interval=by_label(interval, table.encoded),
            labels=None if table.labels is None else table.labels.to_numpy(),
            positive=positive,
            threshold=settings.threshold,
            rank_within=settings.rank_within,
            weights=table.weights,
            clusters=table.clusters,
            also=() if gate is None else [gate.metric],
        )
        # The map reuses the sorted scores of the report.
        unfairness = groups_map(
            evaluation.report.scored,
            n_grid=MAP_GRID,
            gap_scale=settings.gap_scale,
            confidence=settings.confidence,
        )
    if gate is not None:
        gate.check_measured(evaluation.report)
    notes = tuple(dict.fromkeys([*doubts, *(as_options(str(warning.message)) for warning in caught)]))
    audit = Audit(table, settings, gate, evaluation, unfairness, choice, positive, notes)
    return audit if choice is None else replace(audit, notes=(audit._choice_note(), *notes))


def _choose_interval(table: ScoreTable, settings: ScoreSettings, positive: Any) -> IntervalChoice:
    """Choose the interval around the selection rate, or around the rate of positive labels."""
    rate = None
    if settings.threshold is None:
        if table.labels is None:
            raise InputError(
                "--interval auto chooses an interval around the selection rate: give --threshold or --label"
            )
        # Without a threshold, the rate of positive labels replaces the selection rate.
        rate = float(np.average(table.labels == positive, weights=table.weights))
    return choose_interval(
        table.scores,
        sensitive_features=table.encoded,
        positive_rate=rate,
        threshold=settings.threshold,
        sample_weight=table.weights,
        clusters=table.clusters,
        confidence=settings.confidence,
        missing_groups=settings.missing_groups,
        higher_is_better=settings.higher_is_better,
        min_group_size=1 if settings.small_groups == "keep" else settings.min_group_size,
    )


def _is_as_wide(interval: IntervalLike) -> bool:
    """Return whether the interval is a single one of the width ``MAP_WIDTH``."""
    if isinstance(interval, dict):
        return False
    # A union has no single width.
    parts = as_interval_set(interval).parts
    return len(parts) == 1 and bool(np.isclose(parts[0][1] - parts[0][0], MAP_WIDTH))
