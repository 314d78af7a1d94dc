"""What ``partialfair train`` found: the record, the files and the printed report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from partialfair._typing import Floats, GroupLabel
from partialfair.cli._audit import Gate
from partialfair.cli._output import (
    METRIC_TITLES,
    metrics_table,
    note_line,
    parity_sentence,
    rank_curves,
    report_record,
    value_and_interval,
    verdict,
    within,
)
from partialfair.cli._prepare import NO_CONSTRAINT, ModelSettings, Prepared
from partialfair.cli._writing import Content
from partialfair.estimators import FitResult
from partialfair.groups import group_name
from partialfair.intervals import as_interval_set
from partialfair.metrics import FairnessReport, rank_curve
from partialfair.persistence import model_bytes
from partialfair.plotting import plot_score_densities
from partialfair.report.page import Section
from partialfair.report.pages import (
    audit_page,
    changes_section,
    fits_section,
    notes_section,
    settings_section,
)
from partialfair.solvers import Status
from partialfair.tables import TableModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FILES", "Judged", "TrainSettings", "Training", "print_training"]

FILES = ("rank_curves.png", "score_densities.png", "train.json")
"""What ``--out`` writes beside the model, the record last."""

_CURVE_POINTS = 2000


@dataclass(frozen=True, kw_only=True)
class TrainSettings(ModelSettings):
    """What is asked of the model, and how it is judged."""

    max_gap: float
    alpha: float
    test_size: float


@dataclass(frozen=True, eq=False)
class Judged:
    """One model's scores of one part of the rows."""

    scores: Floats
    accuracy: float
    auc: float
    report: FairnessReport

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"accuracy": self.accuracy, "auc": self.auc, **report_record(self.report)}


@dataclass(frozen=True, eq=False)
class Training:
    """A trained model, and how it and the one without a constraint do on both parts of the rows.

    ``judged`` maps the model ("without the constraint", "with it") and the part ("training", "held out") to
    what was found.
    """

    path: Path
    settings: TrainSettings
    prepared: Prepared
    model: TableModel
    judged: dict[tuple[str, str], Judged]
    notes: tuple[str, ...]

    @property
    def result(self) -> FitResult:
        """How the fit ended."""
        result: FitResult = self.model.classifier.result_
        return result

    @property
    def last(self) -> tuple[str, str]:
        """The model and the part that count: the one that is saved, on rows held out if there are any."""
        return list(self.judged)[-1]

    @property
    def headline(self) -> str:
        """What was trained, and on what."""
        settings = self.settings
        demand = f"{settings.constraint} at most {settings.max_gap:g}"
        wanted = "no constraint" if settings.constraint == NO_CONSTRAINT else demand
        return (
            f"{self.prepared.headline}; {wanted} at {as_interval_set(settings.interval)}, on the "
            f"{settings.gap_scale} scale"
        )

    @cached_property
    def content(self) -> bytes:
        """The model as its file holds it."""
        return model_bytes(self.model)

    def passes(self, gate: Gate) -> bool:
        """Whether the gap is at most the limit; an undefined gap does not pass."""
        return within(self.judged[self.last].report[gate.metric], gate.limit)

    def record(self, gate: Gate | None, model_name: str) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to."""
        result, classifier = self.result, self.model.classifier
        blocks = classifier.groups_.tolist() if len(classifier.intercept_) > 1 else ["all"]
        coefficients = np.broadcast_to(
            classifier.coef_, (max(len(blocks), len(classifier.coef_)), classifier.coef_.shape[1])
        )
        record: dict[str, Any] = {
            "schema": "partialfair.train/1",
            "file": str(self.path),
            "model": model_name,
            **self.prepared.record(),
            "settings": self.settings.record(),
            "fit": {
                "status": result.status.value,
                "objective": result.objective,
                "max_violation": result.max_violation,
                "exact_training_gap": result.gap,
                "obstacle": result.obstacle,
                "steps": result.history[-1].step,
                "passes": result.history[-1].passes,
                "seconds": result.history[-1].seconds,
                "tol": result.tol,
                "certificate": {
                    "mu": result.kkt.mu,
                    "distance": result.kkt.distance,
                    "stationarity": result.kkt.stationarity,
                    "feasibility": result.kkt.feasibility,
                    "complementarity": result.kkt.complementarity,
                },
            },
            "intercepts": {
                group_name(block): float(value)
                for block, value in zip(blocks, classifier.intercept_, strict=True)
            },
            "coefficients": {
                group_name(block): dict(zip(self.model.feature_names, row.tolist(), strict=True))
                for block, row in zip(blocks, coefficients, strict=True)
            },
            "models": {
                model: {part: found.record() for (name, part), found in self.judged.items() if name == model}
                for model in dict.fromkeys(name for name, _ in self.judged)
            },
            "notes": list(self.notes),
        }
        if gate is not None:
            record["gate"] = {
                "metric": gate.metric,
                "limit": gate.limit,
                "part": self.last[1],
                "passed": self.passes(gate),
                "p_value": self.judged[self.last].report[gate.metric].p_value(gate.limit),
            }
        return record

    def files(self, model_name: str) -> dict[str, Content]:
        """Return what ``--out`` writes beside the record."""
        return {
            model_name: self.content,
            "rank_curves.png": self._rank_curves,
            "score_densities.png": self._densities,
        }

    def page(self) -> str:
        """Return the interactive page: the model beside the one without the constraint."""
        part = self.last[1]
        found = {model: judged for (model, of), judged in self.judged.items() if of == part}
        good = [
            [model, of, f"{judged.accuracy:.3f}", f"{judged.auc:.3f}"]
            for (model, of), judged in self.judged.items()
        ]
        rows, interval = self.prepared.parts[part], self.settings.interval
        scores = {model: judged.scores for model, judged in found.items()}
        return audit_page(
            {model: judged.report for model, judged in found.items()},
            title=f"Model of {self.path.name}",
            headline=f"{self.headline}; judged on rows {part}",
            sections=[
                Section("How good the models are", good, ("model", "rows", "accuracy", "AUC")),
                *changes_section(scores, groups=rows.groups, interval=interval, weights=rows.weights),
                fits_section({self.last[0]: self.result}),
                settings_section(self.settings.record()),
                *notes_section(self.notes),
            ],
            shown=len(found) - 1,
            seen_in_training=part == "training",
            warning=self._shortfall,
        )

    @property
    def _shortfall(self) -> str | None:
        """What the model was asked for and is not."""
        result, settings = self.result, self.settings
        if result.status is Status.CONVERGED:
            return None
        ended = f"The fit ended with: {str(result.status).replace('_', ' ')}"
        if settings.constraint == NO_CONSTRAINT:
            return f"{ended}."
        return (
            f"{ended}; a gap of at most {settings.max_gap:g} was asked for, and {result.gap:.3g} reached in "
            "training."
        )

    def _rank_curves(self) -> Figure:
        part = self.last[1]
        rows = self.prepared.parts[part]
        curves = {
            f"{model} ({part})": rank_curve(
                found.scores,
                sensitive_features=rows.groups,
                sample_weight=rows.weights,
                n_points=_CURVE_POINTS,
            )
            for (model, of), found in self.judged.items()
            if of == part
        }
        return rank_curves(curves, reference=self._largest_group, interval=self.settings.interval)

    def _densities(self) -> Figure:
        rows = self.prepared.parts[self.last[1]]
        axes = plot_score_densities(
            self.judged[self.last].scores,
            sensitive_features=rows.groups,
            interval=self.settings.interval,
            threshold=0.0,
            sample_weight=rows.weights,
        )
        figure: Figure = axes[0].figure
        return figure

    @property
    def _largest_group(self) -> GroupLabel:
        return max(self.judged[self.last].report.groups, key=lambda group: group.n_effective).group


def print_training(training: Training, gate: Gate | None, out: Console) -> None:
    """Print the readable report."""
    settings = training.settings
    out.print(Text.assemble((str(training.path), "bold"), f": {training.headline}\n"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("model", "rows", "accuracy", "AUC", f"{METRIC_TITLES[settings.metric]} gap"):
        table.add_column(title, justify="left" if title in ("model", "rows") else "right")
    table.add_column(f"{100 * settings.confidence:g} % interval")
    for (model, part), found in training.judged.items():
        gap = value_and_interval(found.report[settings.metric])
        table.add_row(model, part, f"{found.accuracy:.3f}", f"{found.auc:.3f}", *gap)
    out.print(table)
    model, part = training.last
    report = training.judged[training.last].report
    out.print(f"\nThe model {model}, rows {part}:")
    out.print(metrics_table(report))
    out.print(f"\n{parity_sentence(report)}")
    out.print(f"\nThe fit: {training.result}")
    for note in training.notes:
        out.print(note_line(note))
    if gate is not None:
        out.print(verdict(report, gate.metric, gate.limit))
