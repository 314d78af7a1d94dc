"""``partialfair audit``: one file of scores from any model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from partialfair.cli._csv import csv_text
from partialfair.cli._gate import Gate
from partialfair.cli._intervals import AUTO, by_label, interval_record
from partialfair.cli._judging import Judging, on_judged
from partialfair.cli._labels import positive_label
from partialfair.cli._reports import groups_table, parity_sentence, print_metrics, report_record
from partialfair.cli._tables import ScoreTable
from partialfair.cli._wording import as_options
from partialfair.cli.options import FailureKinds
from partialfair.cli.output import note_line, step
from partialfair.cli.writing import Content
from partialfair.data.groups import Groups, encode_groups, group_name
from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError
from partialfair.metrics import (
    FairnessReport,
    IntervalChoice,
    UnfairnessMap,
    choose_interval,
)
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.map import groups_curve, groups_map
from partialfair.plotting import plot_rank_curve, plot_unfairness_map
from partialfair.plotting.densities import plot_group_densities
from partialfair.report.pages import audit_page, notes_section, settings_section
from partialfair.utils.text import fixed
from partialfair.utils.typing import GroupLabel, IntervalLike, RankWithin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "Audit", "AuditSettings", "measure", "print_audit"]

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
_CURVE_POINTS = 4000


@dataclass(frozen=True, kw_only=True)
class AuditSettings(Judging):
    """How scores are judged; the same for every file of one command."""

    threshold: float | None
    rank_within: RankWithin

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        super().check()
        if self.threshold is not None and not np.isfinite(self.threshold):
            raise InputError(f"--threshold must be a finite number, not {self.threshold:g}")

    def check_gate(self, gate: Gate) -> None:
        """Refuse a gate that cannot be right, or that takes a choice for a finding."""
        gate.check()
        if self.interval == AUTO and gate.fail_on is FailureKinds.exceeds:
            raise InputError(
                "--fail-on exceeds is a test of an interval that was fixed before, and --interval auto takes "
                "one for its wide gap on the same rows; give the interval"
            )


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything measured on one file.

    Attributes
    ----------
    table, settings
        What was read, and how it was to be judged.
    groups, interval
        The groups that are judged, −1 for rows of others, and the interval they are judged on.
    positive
        The positive label as it is printed; None without labels.
    choice
        How the interval was chosen on these rows; None if it was given.
    report, unfairness
        The metrics, and the gap of every other interval.
    notes
        What may surprise.
    """

    table: ScoreTable
    settings: AuditSettings
    groups: Groups
    interval: IntervalLike
    choice: IntervalChoice | None
    positive: str | None
    report: FairnessReport
    unfairness: UnfairnessMap
    notes: tuple[str, ...]

    @property
    def subject(self) -> str:
        """What the numbers are about."""
        positive = "" if self.positive is None else f"; positive label: {self.positive}"
        chosen = ", chosen by the scores" if self.settings.interval == AUTO else ""
        scale = f"gaps on the {self.settings.gap_scale} scale"
        together = "" if self.table.clusters is None else f"; {self.table.clusters_text}"
        return f"{self.settings.words(self.interval)}{chosen}; {scale}{positive}{together}"

    @property
    def headline(self) -> str:
        """What the numbers are about, and who is not judged; pages add the latter themselves."""
        return "; ".join(filter(None, [self.subject, self.report.coverage]))

    @property
    def largest_group(self) -> GroupLabel:
        """The group that the others are drawn against: its ranks are the surest."""
        return max(self.report.groups, key=lambda group: group.n_effective).group

    def record(self, gate: Gate | None, *, pairs: bool = True) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to.

        With the gaps of all pairs of groups, which take a while where there are many, or without.
        """
        worst = self.unfairness.widest(MAP_WIDTH)
        record = {
            "schema": "partialfair.audit/1",
            "file": str(self.table.path),
            "interval": interval_record(self.interval),
            "interval_choice": None if self.choice is None else _choice_record(self.choice),
            "pos_label": self.positive,
            "clusters": self.table.clusters_record,
            **report_record(self.report, pairs=pairs),
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
            record["gate"] = gate.record(self.report)
        return record

    def files(self) -> dict[str, Content]:
        """Return what ``--out`` writes beside the record; the figures are drawn when they are called."""
        metrics = csv_text(self.report.to_frame(), index=True)
        pairs = csv_text(self.report.pairs_frame())
        contents = (metrics, pairs, self._rank_curve, self._densities, self._map)
        return dict(zip(FILES[:-1], contents, strict=True))

    def page(self) -> str:
        """Return the interactive page."""
        return audit_page(
            self.report,
            title=f"Fairness audit of {self.table.path.name}",
            headline=f"{len(self.table.scores):,} rows in {len(self.report.groups)} groups; {self.subject}",
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
            "clusters": "none" if table.clusters is None else table.clusters_text,
            "interval": settings.words(self.interval),
            "better scores": "higher" if settings.higher_is_better else "lower",
            "threshold": "none" if settings.threshold is None else f"{settings.threshold:g}",
            "gap scale": settings.gap_scale,
            "ranks within": settings.rank_within.replace("_", " "),
            "fewest members to judge a group": settings.min_group_size,
            "smaller groups": settings.small_groups,
            "seed of the bootstrap": settings.seed,
        }

    def _rank_curve(self) -> Figure:
        curve = groups_curve(self.report.scored, _CURVE_POINTS)
        return _figure(plot_rank_curve(curve, reference=self.largest_group, interval=self.shared_interval))

    def _densities(self) -> Figure:
        axes = plot_group_densities(self.report.scored, threshold=self.settings.threshold)
        return _figure(axes[0])

    def _map(self) -> Figure:
        return _figure(plot_unfairness_map(self.unfairness, interval=self.shared_interval))

    @property
    def people(self) -> dict[str, Any]:
        """Whose scores they are, for functions that rank them again."""
        return {
            "sensitive_features": self.groups,
            "sample_weight": self.table.weights,
            "missing_groups": "ignore",
            "higher_is_better": self.settings.higher_is_better,
        }

    @property
    def shared_interval(self) -> IntervalLike | None:
        """The interval to shade on axes that the groups share; intervals by group have none."""
        return None if isinstance(self.interval, dict) else self.interval


def measure(table: ScoreTable, settings: AuditSettings, gate: Gate | None = None) -> Audit:
    """Judge one table of scores."""
    label = None if table.labels is None else positive_label(table.labels, table.path, settings.pos_label)
    groups = encode_groups(table.groups, missing=settings.missing_groups, max_groups=len(table.groups))
    with step(f"measuring {len(table.scores):,} scores"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choice = _choice(table, settings, groups, None if label is None else label.value)
        asked: Any = settings.interval
        interval = by_label(asked, groups) if choice is None else choice.interval
        report = settings.report(
            None if table.labels is None else table.labels.to_numpy(),
            table.scores,
            groups,
            interval=interval,
            threshold=settings.threshold,
            positive=None if label is None else label.value,
            weights=table.weights,
            clusters=table.clusters,
            rank_within=settings.rank_within,
            also=() if gate is None else [gate.metric],
        )
        unfairness = groups_map(
            report.scored,
            n_grid=MAP_GRID,
            gap_scale=settings.gap_scale,
            confidence=settings.confidence,
        )
    if gate is not None:
        gate.check_measured(report)
    notes = tuple(dict.fromkeys(as_options(str(warning.message)) for warning in caught))
    if choice is not None:
        notes = (f"{choice.statement}; the intervals of this report do not allow for it", *notes)
    name = None if label is None else str(label.value)
    judged = report.evaluated(groups)
    on = on_judged(interval, judged)
    return Audit(table, settings, judged, on, choice, name, report, unfairness, notes)


def _choice_record(choice: IntervalChoice) -> dict[str, Any]:
    """Return plain data for JSON: what holds of the gap after the choice."""
    return {
        "positions": len(choice.candidates),
        "positive_rate": choice.positive_rate,
        "gap": choice.gap,
        "low": choice.low,
        "high": choice.high,
        "confidence": choice.confidence,
    }


def _choice(
    table: ScoreTable, settings: AuditSettings, groups: Groups, positive: Any
) -> IntervalChoice | None:
    """Choose the interval if that is asked for: around the rate of selection, or of positive labels."""
    if settings.interval != AUTO:
        return None
    rate = None
    if settings.threshold is None:
        if table.labels is None:
            raise InputError(
                "--interval auto is chosen around the rate of selection: give --threshold or --label"
            )
        rate = float(np.average(table.labels == positive, weights=table.weights))
    return choose_interval(
        table.scores,
        sensitive_features=groups,
        positive_rate=rate,
        threshold=settings.threshold,
        sample_weight=table.weights,
        clusters=table.clusters,
        confidence=settings.confidence,
        missing_groups=settings.missing_groups,
        higher_is_better=settings.higher_is_better,
    )


def print_audit(audit: Audit, gate: Gate | None, out: Console) -> None:
    """Print the readable report, the answer first."""
    report = audit.report
    out.print(Text.assemble((str(audit.table.path), "bold"), f": {audit.headline}\n"))
    out.print(parity_sentence(report))
    out.print(_widest_sentence(audit))
    if gate is not None:
        out.print(gate.verdict(report))
    out.print()
    print_metrics(report, "statistical_parity" if gate is None else gate.metric, out)
    out.print()
    out.print(groups_table(report))
    for name, reason in report.omitted.items():
        out.print(f"left out: {METRICS[name].title} {reason}", style="dim")
    for note in audit.notes:
        out.print(note_line(note))


def _widest_sentence(audit: Audit) -> str:
    """Say where, among intervals of one width, the gap is widest; the audited one wins ties."""
    worst = audit.unfairness.widest(MAP_WIDTH)
    gap = audit.report["statistical_parity"].value
    if _is_as_wide(audit.interval) and gap >= worst.value - 1e-9:
        return f"No other {100 * MAP_WIDTH:g} %-wide interval has a wider gap."
    return (
        f"The widest gap of any {100 * MAP_WIDTH:g} %-wide interval is {fixed(worst.value)}, at "
        f"{audit.settings.words(worst.interval)}, between {' and '.join(map(group_name, worst.groups))} "
        f"({100 * audit.settings.confidence:g} % band for all {audit.unfairness.n_intervals:,} intervals at "
        f"once: {fixed(worst.low)} – {fixed(worst.high)})."
    )


def _is_as_wide(interval: IntervalLike) -> bool:
    """Whether it is one interval of the width that the map's widest one has."""
    if isinstance(interval, dict):
        return False
    parts = as_interval_set(interval).parts
    return len(parts) == 1 and bool(np.isclose(parts[0][1] - parts[0][0], MAP_WIDTH))


def _figure(ax: Any) -> Figure:
    figure: Figure = ax.figure
    return figure
