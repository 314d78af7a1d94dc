"""``partialfair audit``: one file of scores from any model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from partialfair._typing import GapScale, GroupLabel, RankWithin
from partialfair.cli._output import (
    METRIC_TITLES,
    groups_table,
    metrics_table,
    note_line,
    parity_sentence,
    report_record,
    step,
    verdict,
    within,
)
from partialfair.cli._tables import ScoreTable
from partialfair.cli._writing import Content
from partialfair.exceptions import InputError
from partialfair.groups import group_name
from partialfair.intervals import as_interval_set
from partialfair.metrics import (
    FairnessReport,
    UnfairnessMap,
    fairness_report,
    rank_curve,
    unfairness_map,
)
from partialfair.metrics._text import fixed
from partialfair.plotting import plot_rank_curve, plot_score_densities, plot_unfairness_map
from partialfair.report.pages import audit_page, notes_section, settings_section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FILES",
    "Audit",
    "AuditSettings",
    "Gate",
    "check_confidence",
    "check_numbers",
    "measure",
    "positive_label",
    "print_audit",
]

FILES = ("metrics.csv", "rank_curve.png", "score_densities.png", "unfairness_map.png", "audit.json")
"""What ``--out`` writes, the record last."""

MAP_WIDTH = 0.25
MAP_GRID = 100
_CURVE_POINTS = 4000
_SUREST = 0.995
"""Of the thousand draws of a report, five lie beyond the ends of an interval of this coverage."""


@dataclass(frozen=True)
class AuditSettings:
    """How scores are judged; the same for every file of one command."""

    interval: tuple[float, float]
    threshold: float | None
    gap_scale: GapScale
    rank_within: RankWithin
    confidence: float
    pos_label: str | None
    seed: int


@dataclass(frozen=True)
class Gate:
    """``--fail-above``: the metric and the largest gap that passes."""

    metric: str
    limit: float


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything measured on one file."""

    table: ScoreTable
    settings: AuditSettings
    positive: str | None
    report: FairnessReport
    unfairness: UnfairnessMap
    notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        """What the numbers are about."""
        positive = "" if self.positive is None else f"; positive label: {self.positive}"
        interval = as_interval_set(self.settings.interval)
        return f"{interval}; gaps on the {self.settings.gap_scale} scale{positive}"

    @property
    def largest_group(self) -> GroupLabel:
        """The group that the others are drawn against: its ranks are the surest."""
        return max(self.report.groups, key=lambda group: group.n_effective).group

    def record(self, gate: Gate | None) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to."""
        worst = self.unfairness.widest(MAP_WIDTH)
        record = {
            "schema": "partialfair.audit/1",
            "file": str(self.table.path),
            "interval": list(self.settings.interval),
            "pos_label": self.positive,
            **report_record(self.report),
            "widest_interval": {
                "width": MAP_WIDTH,
                "interval": list(worst.interval),
                "value": worst.value,
                "low": worst.low,
                "high": worst.high,
                "worst_pair": [group_name(label) for label in worst.groups],
            },
            "notes": list(self.notes),
        }
        if gate is not None:
            record["gate"] = {
                "metric": gate.metric,
                "limit": gate.limit,
                "passed": self.passes(gate),
                "p_value": self.report[gate.metric].p_value(gate.limit),
            }
        return record

    def passes(self, gate: Gate) -> bool:
        """Whether the gap is at most the limit; an undefined gap does not pass."""
        return within(self.report[gate.metric], gate.limit)

    def files(self) -> dict[str, Content]:
        """Return what ``--out`` writes beside the record; the figures are drawn when they are called."""
        return {
            "metrics.csv": self.report.to_frame().to_csv(),
            "rank_curve.png": self._rank_curve,
            "score_densities.png": self._densities,
            "unfairness_map.png": self._map,
        }

    def page(self) -> str:
        """Return the interactive page."""
        return audit_page(
            self.report,
            title=f"Fairness audit of {self.table.path.name}",
            headline=f"{len(self.table.scores):,} rows in {len(self.report.groups)} groups; {self.headline}",
            sections=[settings_section(self._provenance), *notes_section(self.notes)],
        )

    @property
    def _provenance(self) -> dict[str, Any]:
        """What was read and how it was judged."""
        table, settings = self.table, self.settings
        label = "none" if table.labels is None else f"{table.labels.name}, positive: {self.positive}"
        return {
            "file": table.path,
            "rows": f"{len(table.scores):,}",
            "groups by": ", ".join(map(str, table.groups.columns)),
            "label": label,
            "weights": "none" if table.weights is None else "yes",
            "interval": as_interval_set(settings.interval),
            "threshold": "none" if settings.threshold is None else f"{settings.threshold:g}",
            "gap scale": settings.gap_scale,
            "ranks within": settings.rank_within.replace("_", " "),
            "seed of the bootstrap": settings.seed,
        }

    def _rank_curve(self) -> Figure:
        table = self.table
        curve = rank_curve(
            table.scores, sensitive_features=table.groups, sample_weight=table.weights, n_points=_CURVE_POINTS
        )
        return _figure(plot_rank_curve(curve, reference=self.largest_group, interval=self.settings.interval))

    def _densities(self) -> Figure:
        table, settings = self.table, self.settings
        axes = plot_score_densities(
            table.scores,
            sensitive_features=table.groups,
            interval=settings.interval,
            threshold=settings.threshold,
            sample_weight=table.weights,
        )
        return _figure(axes[0])

    def _map(self) -> Figure:
        return _figure(plot_unfairness_map(self.unfairness, interval=self.settings.interval))


def check_confidence(confidence: float) -> None:
    """Refuse what lies outside (0, 1), and what the draws of a report cannot tell from certainty."""
    if not 0 < confidence < 1:
        raise InputError(f"--confidence must lie between 0 and 1, not {confidence:g}")
    if confidence > _SUREST:
        raise InputError(f"--confidence must be at most {_SUREST:g}, not {confidence:g}")


def check_numbers(settings: AuditSettings, gate: Gate | None) -> None:
    """Refuse settings that cannot be right, before any file is read."""
    as_interval_set(settings.interval)
    check_confidence(settings.confidence)
    if settings.threshold is not None and not np.isfinite(settings.threshold):
        raise InputError(f"--threshold must be a finite number, not {settings.threshold:g}")
    if gate is not None and not 0 <= gate.limit <= 1:
        raise InputError(f"--fail-above must lie between 0 and 1, not {gate.limit:g}")
    if gate is not None and gate.metric not in METRIC_TITLES:
        raise InputError(f"--fail-metric must be one of {', '.join(METRIC_TITLES)}, not {gate.metric}")


def measure(table: ScoreTable, settings: AuditSettings, gate: Gate | None = None) -> Audit:
    """Judge one table of scores."""
    labels = None if table.labels is None else table.labels.to_numpy()
    positive = None if table.labels is None else positive_label(table.labels, table.path, settings.pos_label)
    with step(f"measuring {len(table.scores):,} scores"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = fairness_report(
            labels,
            table.scores,
            sensitive_features=table.groups,
            interval=settings.interval,
            threshold=settings.threshold,
            confidence=settings.confidence,
            gap_scale=settings.gap_scale,
            rank_within=settings.rank_within,
            pos_label=positive,
            sample_weight=table.weights,
            random_state=settings.seed,
        )
        unfairness = unfairness_map(
            table.scores,
            sensitive_features=table.groups,
            n_grid=MAP_GRID,
            gap_scale=settings.gap_scale,
            confidence=settings.confidence,
            sample_weight=table.weights,
        )
    if gate is not None and gate.metric in report.omitted:
        reason = report.omitted[gate.metric]
        see = ": see --label and --threshold" if reason.startswith("needs") else ""
        raise InputError(f"--fail-metric {gate.metric} {reason}{see}")
    notes = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    name = None if positive is None else str(positive)
    return Audit(table, settings, name, report, unfairness, notes)


def positive_label(labels: pd.Series, path: Path, asked: str | None) -> Any:
    """Return the label that counts as positive: the one asked for, or the larger of the two."""
    classes = sorted(labels.unique().tolist(), key=lambda value: (str(type(value)), value))
    column = f"column {labels.name!r} of {path}"
    if len(classes) != 2:
        number = "only one class" if len(classes) == 1 else f"{len(classes):,} classes"
        raise InputError(f"{column} has {number} ({_some(classes)}); labels need two")
    if asked is None:
        return classes[-1]
    matching = [value for value in classes if str(value) == asked]
    if not matching:
        raise InputError(f"--pos-label {asked} is not a value of {column}, which has {_some(classes)}")
    return matching[0]


def print_audit(audit: Audit, gate: Gate | None, out: Console) -> None:
    """Print the readable report."""
    report = audit.report
    out.print(Text.assemble((str(audit.table.path), "bold"), f": {audit.headline}\n"))
    out.print(metrics_table(report))
    out.print()
    out.print(groups_table(report))
    out.print(f"\n{parity_sentence(report)}")
    out.print(_widest_sentence(audit))
    for name, reason in report.omitted.items():
        out.print(f"left out: {METRIC_TITLES[name]} {reason}", style="dim")
    for note in audit.notes:
        out.print(note_line(note))
    if gate is not None:
        out.print(verdict(report, gate.metric, gate.limit))


def _widest_sentence(audit: Audit) -> str:
    """Say where, among intervals of one width, the gap is widest; the audited one wins ties."""
    worst = audit.unfairness.widest(MAP_WIDTH)
    low, high = audit.settings.interval
    own = audit.report["statistical_parity"].value
    if np.isclose(high - low, MAP_WIDTH) and own >= worst.value - 1e-9:
        return f"No other {100 * MAP_WIDTH:g} %-wide interval has a wider gap."
    return (
        f"The widest gap of any {100 * MAP_WIDTH:g} %-wide interval is {fixed(worst.value)}, at "
        f"{as_interval_set(worst.interval)}, between {' and '.join(map(group_name, worst.groups))} "
        f"({100 * audit.settings.confidence:g} % band for all {audit.unfairness.n_intervals:,} intervals at "
        f"once: {fixed(worst.low)} – {fixed(worst.high)})."
    )


def _figure(ax: Any) -> Figure:
    figure: Figure = ax.figure
    return figure


def _some(values: list[Any]) -> str:
    shown = ", ".join(map(str, values[:5]))
    return shown if len(values) <= 5 else f"{shown}, …"
