"""What ``partialfair train`` found: the record, the files and the printed report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.console import Console
from rich.text import Text

from partialfair.cli._csv import csv_text
from partialfair.cli._gate import Gate
from partialfair.cli._intervals import AUTO, interval_record
from partialfair.cli._prepare import ModelSettings, Prepared
from partialfair.cli._reports import gap_sentence, print_metrics, report_record, value_and_interval
from partialfair.cli._split import OUT_OF_FOLD, HoldOut
from partialfair.cli._wording import as_options
from partialfair.cli.output import PlainTable, note_line, rank_curves
from partialfair.cli.writing import Content
from partialfair.data.groups import group_name
from partialfair.estimators import FitResult
from partialfair.metrics import FairnessReport
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.map import groups_curve
from partialfair.optimization.solvers import GOOD
from partialfair.persistence import model_bytes
from partialfair.plotting.densities import plot_group_densities
from partialfair.report.changes import interval_changes
from partialfair.report.pages import audit_page, fits_section, notes_section, settings_section
from partialfair.report.sections import Section
from partialfair.tables import TableModel
from partialfair.training.named_constraints import NO_CONSTRAINT
from partialfair.training.result import Population
from partialfair.utils.text import fixed, listed
from partialfair.utils.typing import Floats, GroupLabel, IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "HELD_OUT",
    "MODEL",
    "SCORED_OUT_OF_FOLD",
    "Judged",
    "TrainSettings",
    "Trained",
    "file_names",
    "print_training",
]

RECORD = "train.json"
MODEL = "model.skops"
HELD_OUT = "held_out.csv"
SCORED_OUT_OF_FOLD = "out_of_fold.csv"
PICTURES = ("rank_curves.png", "score_densities.png")

_CURVE_POINTS = 2000


def unkept_name(name: str) -> str:
    """Return the name of a model that does not keep its promise, ``model.unkept.skops``."""
    return name.removesuffix(".skops") + ".unkept.skops"


def file_names(model: str) -> tuple[str, ...]:
    """Return what ``--out`` may write, known before anything is trained; the record last."""
    return (model, unkept_name(model), HELD_OUT, SCORED_OUT_OF_FOLD, *PICTURES, RECORD)


@dataclass(frozen=True, kw_only=True)
class TrainSettings(ModelSettings):
    """What is asked of the model, and how it is judged."""

    max_gap: float
    alpha: float | Literal["auto"]
    test_size: float
    cv: int | None = None

    @property
    def hold_out(self) -> HoldOut:
        """Which rows are held out."""
        return HoldOut.asked("--test-size", self.test_size, self.seed, self.cv)

    @property
    def for_new_people(self) -> bool:
        """Whether the promise is about new people, and not about the training rows."""
        return self.enforce == "population"


@dataclass(frozen=True, eq=False)
class Judged:
    """One model's scores of one part of the rows."""

    scores: Floats
    accuracy: float
    auc: float
    report: FairnessReport

    def record(self, *, pairs: bool) -> dict[str, Any]:
        """Return plain data for JSON, with the gaps of all pairs of groups or without."""
        return {"accuracy": self.accuracy, "auc": self.auc, **report_record(self.report, pairs=pairs)}


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, and how it and the one without a constraint do on both parts of the rows.

    Attributes
    ----------
    settings, prepared
        What was asked for, and the table.
    interval
        What the models are judged on.
    model
        What is saved.
    judged
        From the model ("without the constraint", "with the constraint") and the part ("training", "held out"
        or "out of fold") to how it does there.
    notes, fit_notes, overfitted
        What may surprise, how fits ended that did not converge, and why the training gap says little.
    """

    settings: TrainSettings
    prepared: Prepared
    interval: IntervalLike
    model: TableModel
    judged: dict[tuple[str, str], Judged]
    notes: tuple[str, ...]
    fit_notes: tuple[str, ...]
    overfitted: tuple[str, ...]

    @property
    def result(self) -> FitResult:
        """How the fit ended."""
        result: FitResult = self.model.classifier.result_
        return result

    @property
    def last(self) -> tuple[str, str]:
        """The model and the part that count: the one that is saved, on rows not seen if there are any."""
        return list(self.judged)[-1]

    @property
    def report(self) -> FairnessReport:
        """The metrics of the model that is saved, on the rows that count."""
        return self.judged[self.last].report

    @property
    def headline(self) -> str:
        """What was trained, and on what."""
        return f"{self.prepared.headline}; {self._demand}"

    @property
    def _demand(self) -> str:
        """What was asked of the model, and of whom it was not."""
        settings = self.settings
        chosen = ", chosen by the scores" if settings.interval == AUTO else ""
        where = f"{settings.words(self.interval)}{chosen}, on the {settings.gap_scale} scale"
        if settings.constraint == NO_CONSTRAINT:
            return f"no constraint; judged at {where}"
        outside = f"; outside the promise: {listed(self.outside)}" if self.outside else ""
        return f"{METRICS[settings.metric].title} gap at most {settings.max_gap:g} at {where}{outside}"

    @property
    def outside(self) -> list[str]:
        """Names of groups that are too few to judge, whose rows count in the loss only."""
        return [group_name(label) for label in self.result.small_groups]

    @property
    def promise(self) -> str | None:
        """Say whether the gap that was asked for was reached; None where nothing was promised."""
        settings, result = self.settings, self.result
        if result.satisfied is None:
            return None
        if result.population is not None:
            return self._promise_for_new_people(result.population)
        gap = f"the {METRICS[settings.metric].title} gap of the training rows is {result.gap:.4g}"
        if result.satisfied:
            return f"promise kept: {gap}, at most {settings.max_gap:g} was asked for"
        obstacle = "" if result.obstacle is None else f" (in the way: {result.obstacle})"
        return f"promise NOT kept: {gap}, and at most {settings.max_gap:g} was asked for{obstacle}"

    def _promise_for_new_people(self, population: Population) -> str:
        """Say what rows held out show of the gap of new people."""
        answer = f"{population.sentence[0].upper()}{population.sentence[1:]} ({population.basis})"
        if population.certified:
            return answer
        return f"promise NOT kept: {answer}; {as_options(self.result.obstacle or '')}"

    def file_name(self, name: str) -> str:
        """Return what the model is saved as: one that breaks its promise never takes a good one's place."""
        return unkept_name(name) if self.result.satisfied is False else name

    @cached_property
    def content(self) -> bytes:
        """The model as its file holds it."""
        return model_bytes(self.model)

    def record(self, gate: Gate | None, model_name: str) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to."""
        result = self.result
        record: dict[str, Any] = {
            "schema": "partialfair.train/1",
            "model": self.file_name(model_name),
            **self.prepared.record(),
            "settings": self.settings.record(),
            "interval": interval_record(self.interval),
            "outside_the_promise": self.outside,
            "fit": {
                "status": result.status.value,
                "satisfied": result.satisfied,
                "objective": result.objective,
                "max_violation": result.max_violation,
                "exact_training_gap": result.gap,
                "obstacle": result.obstacle,
                "population": None if result.population is None else _population_record(result.population),
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
            **_parameters_record(self.model),
            "models": {
                model: {
                    part: found.record(pairs=part == self.last[1])
                    for (name, part), found in self.judged.items()
                    if name == model
                }
                for model in dict.fromkeys(name for name, _ in self.judged)
            },
            "notes": [*self.overfitted, *self.notes, *self.fit_notes],
        }
        if gate is not None:
            record["gate"] = {"part": self.last[1], **gate.record(self.report)}
        return record

    def files(self, model_name: str) -> dict[str, Content]:
        """Return what ``--out`` writes beside the record."""
        return {
            self.file_name(model_name): self.content,
            **self._scored(),
            PICTURES[0]: self._rank_curves,
            PICTURES[1]: self._densities,
        }

    def _scored(self) -> dict[str, Content]:
        """Return who was held out or in folds, and how the models score them; ``audit`` reads it."""
        judged = self.last[1]
        if judged == "training":
            return {}
        scores = {model: found.scores for (model, part), found in self.judged.items() if part == judged}
        *others, saved = scores
        named = {"score": scores[saved], **{f"score {name}": scores[name] for name in others}}
        text = csv_text(self.prepared.scored(named))
        return {SCORED_OUT_OF_FOLD if judged == OUT_OF_FOLD else HELD_OUT: text}

    def page(self) -> str:
        """Return the interactive page: the model beside the one without the constraint."""
        part = self.last[1]
        found = {model: judged for (model, of), judged in self.judged.items() if of == part}
        good = [
            [model, of, f"{judged.accuracy:.3f}", f"{judged.auc:.3f}"]
            for (model, of), judged in self.judged.items()
        ]
        rows = self.prepared.parts[part]
        scores = {model: judged.scores for model, judged in found.items()}
        changes = interval_changes(
            scores,
            sensitive_features=self.report.evaluated(rows.groups),
            interval=self.interval,
            sample_weight=rows.weights,
            missing_groups="ignore",
            higher_is_better=self.settings.higher_is_better,
        )
        return audit_page(
            {model: judged.report for model, judged in found.items()},
            title=f"Model of {self.prepared.path.name}",
            headline=f"{self.headline}; judged on rows {part}",
            sections=[
                Section("How good the models are", good, ("model", "rows", "accuracy", "AUC")),
                fits_section({self.last[0]: self.result}, self.settings.metric),
                settings_section(self.settings.record()),
                *notes_section([*self.overfitted, *self.notes, *self.fit_notes]),
            ],
            shown=len(found) - 1,
            seen_in_training=part == "training",
            warning=self._shortfall,
            pairs_by=self.settings.metric,
            changes=changes,
        )

    @property
    def _shortfall(self) -> str | None:
        """What the model was asked for and is not."""
        if self.result.satisfied is False:
            return f"{self.promise}."
        if self.result.status in GOOD:
            return None
        return f"The fit ended with: {str(self.result.status).replace('_', ' ')}."

    def _rank_curves(self) -> Figure:
        part = self.last[1]
        curves = {
            f"{model} ({part})": groups_curve(judged.report.scored, n_points=_CURVE_POINTS)
            for (model, of), judged in self.judged.items()
            if of == part
        }
        shared = None if isinstance(self.interval, dict) else self.interval
        return rank_curves(curves, reference=self._largest_group, interval=shared)

    def _densities(self) -> Figure:
        axes = plot_group_densities(self.report.scored, threshold=0.0)
        figure: Figure = axes[0].figure
        return figure

    @property
    def _largest_group(self) -> GroupLabel:
        return max(self.report.groups, key=lambda group: group.n_effective).group


def _parameters_record(model: TableModel) -> dict[str, Any]:
    """Return intercepts and coefficients by group, or how large the trees are."""
    classifier: Any = model.classifier
    if classifier.takes_tables:
        from partialfair.trees import ensemble_of

        n_leaves = ensemble_of(classifier.model_).n_leaves
        kind = type(classifier.model_).__name__
        size = {"n_trees": len(n_leaves), "n_leaves": sum(n_leaves)}
        return {"trees": {"kind": kind, **size, "alpha": classifier.alpha_}}
    blocks = classifier.groups_.tolist() if len(classifier.intercept_) > 1 else ["all"]
    shape = (max(len(blocks), len(classifier.coef_)), classifier.coef_.shape[1])
    coefficients = np.broadcast_to(classifier.coef_, shape)
    return {
        "intercepts": {
            group_name(block): float(value)
            for block, value in zip(blocks, classifier.intercept_, strict=True)
        },
        "coefficients": {
            group_name(block): dict(zip(model.feature_names, row.tolist(), strict=True))
            for block, row in zip(blocks, coefficients, strict=True)
        },
    }


def _population_record(population: Population) -> dict[str, Any]:
    """Return plain data for JSON; a model trained without a constraint has no gap that it was trained for."""
    record = asdict(population)
    record["trained_max_gap"] = None if np.isinf(population.trained_max_gap) else population.trained_max_gap
    record["not_evaluated"] = [group_name(label) for label in population.not_evaluated]
    return record


def print_training(training: Trained, gate: Gate | None, out: Console, *, verbose: bool) -> None:
    """Print the readable report, the answer first; how the fit went is for those who ask."""
    settings, (model, part) = training.settings, training.last
    report = training.judged[training.last].report
    out.print(Text.assemble((str(training.prepared.path), "bold"), f": {training.headline}\n"))
    unseen = part != "training"  # intervals are about people whom the model has not seen
    # New people count for more than those the model has seen: a promise about the latter comes later.
    promise_first = settings.for_new_people or training.result.satisfied is False
    if promise_first:
        _print_promise(training, out)
    if settings.metric in report.omitted:
        out.print(f"{part}: {METRICS[settings.metric].title} {report.omitted[settings.metric]}")
    else:
        out.print(f"{part}, {model}: {gap_sentence(report, settings.metric, sure=unseen)}")
    if not promise_first:
        _print_promise(training, out)
    for said in training.overfitted:
        out.print(note_line(said))
    if report.coverage:
        out.print(f"{part}: {report.coverage}")
    if gate is not None:
        out.print(gate.verdict(report))
    out.print()
    out.print(_models_table(training))
    out.print(f"\nThe model {model}, {part if unseen else 'training rows'}:")
    print_metrics(report, settings.metric if gate is None else gate.metric, out, sure=unseen)
    for name, reason in report.omitted.items():
        out.print(f"left out: {METRICS[name].title} {reason}", style="dim")
    if verbose:
        out.print(f"\nThe fit: {training.result}")
    elif training.result.status not in GOOD:
        out.print(
            f"\nThe fit ended with: {str(training.result.status).replace('_', ' ')} (--verbose says more)"
        )
    for note in [*training.notes, *(training.fit_notes if verbose else ())]:
        out.print(note_line(note))


def _print_promise(training: Trained, out: Console) -> None:
    """Say whether the gap is what was asked for, and what to do if not."""
    if training.promise is not None:
        out.print(Text(training.promise, style="" if training.result.satisfied else "red"))
    if training.result.satisfied is False:
        larger = "more rows, or a larger --test-size, bring bounds closer; "
        more = larger if training.settings.for_new_people else ""
        out.print(
            f"what to do: {more}partialfair path shows which gaps can be reached, and at what cost; more "
            "features or --group-terms can close a gap that these cannot\n"
        )


def _models_table(training: Trained) -> PlainTable:
    """Return one line per model and part of the rows."""
    settings = training.settings
    table = PlainTable()
    for title in ("model", "rows", "accuracy", "AUC", f"{METRICS[settings.metric].title} gap"):
        table.add_column(title, justify="left" if title in ("model", "rows") else "right")
    table.add_column(f"{100 * settings.confidence:g} % interval")
    for (model, part), judged in training.judged.items():
        gap, interval = "undefined", ""
        if settings.metric not in judged.report.omitted:
            gap, interval = value_and_interval(judged.report[settings.metric])
        seen = part == "training"
        table.add_row(model, part, fixed(judged.accuracy), fixed(judged.auc), gap, "" if seen else interval)
    return table
