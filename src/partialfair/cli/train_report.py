"""``partialfair train``: a model fitted and evaluated, and the record, files and page that show it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from partialfair.cli.evaluation import Gate, ScoreEvaluation
from partialfair.cli.model_record import model_record, outside_record
from partialfair.cli.output import Content, PlainTable, as_options, csv_text, note_line
from partialfair.cli.pictures import draw_densities, draw_rank_curves
from partialfair.cli.prepare import OUT_OF_FOLD, TRAINING, Prepared
from partialfair.cli.report_text import gap_sentence, print_metrics, report_record
from partialfair.cli.settings import TrainSettings
from partialfair.cli.training import Notes
from partialfair.data.groups import group_name
from partialfair.data.intervals import as_interval_set, ranks_text
from partialfair.estimators import FitResult
from partialfair.metrics.catalogue import METRICS
from partialfair.optimization.solvers import GOOD
from partialfair.persistence import model_bytes
from partialfair.report.page_data import interval_changes
from partialfair.report.pages import audit_page
from partialfair.report.sections import (
    Section,
    fits_section,
    gap_cells,
    interval_title,
    notes_section,
    settings_section,
)
from partialfair.tables import TableModel
from partialfair.utils.text import fixed
from partialfair.utils.typing import IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORD = "train.json"
MODEL = "model.skops"
HELD_OUT_FILE = "held_out.csv"
OUT_OF_FOLD_FILE = "out_of_fold.csv"
PICTURES = ("rank_curves.png", "score_densities.png")


def unkept_name(name: str) -> str:
    """Return the name of a model that does not keep its promise, ``model.unkept.skops``."""
    return name.removesuffix(".skops") + ".unkept.skops"


def file_names(model: str) -> tuple[str, ...]:
    """Return what ``--out`` may write, known before anything is trained; the record last."""
    return (model, unkept_name(model), HELD_OUT_FILE, OUT_OF_FOLD_FILE, *PICTURES, RECORD)


@dataclass(frozen=True, eq=False)
class TrainReport:
    """A trained model, and how it and the one without a constraint do on every part of the rows.

    Attributes
    ----------
    settings, gate, prepared
        What was requested, and the table.
    interval
        What the models are evaluated on.
    model
        What is saved.
    evaluations
        From the model ("without the constraint", "with the constraint") and the part ("training", "held out"
        or "out of fold") to how it does there. The last is the one that counts: of the model that is saved,
        on rows not trained on if there are any.
    notes
        What may surprise.
    """

    settings: TrainSettings
    gate: Gate | None
    prepared: Prepared
    interval: IntervalLike
    model: TableModel
    evaluations: dict[tuple[str, str], ScoreEvaluation]
    notes: Notes

    @property
    def result(self) -> FitResult:
        """How the fit ended."""
        result: FitResult = self.model.classifier.result_
        return result

    @property
    def last(self) -> tuple[str, str]:
        """The model and the part that count."""
        return list(self.evaluations)[-1]

    @property
    def evaluation(self) -> ScoreEvaluation:
        """The evaluation that counts."""
        return self.evaluations[self.last]

    @property
    def compared(self) -> dict[str, ScoreEvaluation]:
        """All models on the part that counts, by name."""
        return {model: each for (model, part), each in self.evaluations.items() if part == self.last[1]}

    @property
    def succeeded(self) -> bool:
        """Whether neither the constraint nor the gate failed."""
        if self.result.satisfied is False:
            return False
        return self.gate is None or self.gate.passes(self.evaluation.report)

    @property
    def headline(self) -> str:
        """What was trained, on what, and what was requested of whom."""
        settings = self.settings
        purpose = "no constraint; judged"
        if settings.is_constrained:
            purpose = f"{METRICS[settings.metric].title} gap at most {settings.max_gap:g}"
        return self.prepared.headline(purpose, self.interval, self.excluded)

    @property
    def excluded(self) -> list[str]:
        """Names of groups that are too small for the constraint, whose rows count in the loss only."""
        return [group_name(label) for label in self.result.small_groups]

    @property
    def answer(self) -> str | None:
        """Say whether the constraint is satisfied; None without one."""
        settings, result = self.settings, self.result
        if result.satisfied is None:
            return None
        if (population := result.population) is not None:
            answer = f"{population.sentence[0].upper()}{population.sentence[1:]} ({population.basis})"
            if population.certified:
                return answer
            return f"promise NOT kept: {answer}; {as_options(result.obstacle or '')}"
        gap = f"the {METRICS[settings.metric].title} gap of the training rows is {result.gap:.4g}"
        if not result.satisfied_outside:
            reason = "those next to the interval exceed their limits"
            return f"promise NOT kept: {gap}, but {as_options(result.obstacle or reason)}"
        if result.satisfied:
            return f"promise kept: {gap}, at most {settings.max_gap:g} was asked for"
        reason = "" if result.obstacle is None else f" (in the way: {result.obstacle})"
        return f"promise NOT kept: {gap}, and at most {settings.max_gap:g} was asked for{reason}"

    @property
    def all_notes(self) -> list[str]:
        """Everything that may surprise, what matters most first."""
        return [*self.notes.overfitted, *self.notes.general, *self.notes.fits]

    @property
    def file_name(self) -> str:
        """What the model is saved as: one that violates its constraint never takes a good one's place."""
        name = self.settings.out.name if self.settings.out.suffix == ".skops" else MODEL
        return unkept_name(name) if self.result.satisfied is False else name

    @cached_property
    def content(self) -> bytes:
        """The model as its file holds it."""
        return model_bytes(self.model)

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to."""
        part = self.last[1]
        models: dict[str, dict[str, Any]] = {}
        for (model, of), each in self.evaluations.items():
            models.setdefault(model, {})[of] = {
                "accuracy": each.accuracy,
                "auc": each.auc,
                **report_record(each.report, pairs=of == part),
            }
        record: dict[str, Any] = {
            "schema": "partialfair.train/1",
            "model": self.file_name,
            **self.prepared.record(self.interval, self.excluded),
            **model_record(self.model),
            "models": models,
            "notes": self.all_notes,
        }
        if self.gate is not None:
            record["gate"] = {"part": part, **self.gate.record(self.evaluation.report)}
        return record

    def files(self) -> dict[str, Content]:
        """Return what ``--out`` writes with the record."""
        files: dict[str, Content] = {self.file_name: self.content}
        part = self.last[1]
        if part != TRAINING:
            # Rows not trained on, and how the models score them, the saved one first; `audit` reads the file.
            *others, _ = self.compared
            scores = {"score": self.evaluation.scores}
            scores |= {f"score {name}": self.compared[name].scores for name in others}
            name = OUT_OF_FOLD_FILE if part == OUT_OF_FOLD else HELD_OUT_FILE
            files[name] = csv_text(self.prepared.scored(scores))
        return {
            **files,
            PICTURES[0]: self._rank_curves,
            PICTURES[1]: lambda: draw_densities(self.evaluation.report),
        }

    def page(self) -> str:
        """Return the interactive page: the model compared with the one without the constraint."""
        model, part = self.last
        quality = [
            [name, of, f"{each.accuracy:.3f}", f"{each.auc:.3f}"]
            for (name, of), each in self.evaluations.items()
        ]
        warning = None
        if self.result.satisfied is False:
            warning = f"{self.answer}."
        elif self.result.status not in GOOD:
            warning = f"The fit ended with: {str(self.result.status).replace('_', ' ')}."
        return audit_page(
            {name: each.report for name, each in self.compared.items()},
            title=f"Model of {self.prepared.path.name}",
            headline=f"{self.headline}; judged on rows {part}",
            sections=[
                Section("How good the models are", quality, ("model", "rows", "accuracy", "AUC")),
                fits_section({model: self.result}, self.settings.metric),
                settings_section(self.settings.record()),
                *notes_section(self.all_notes),
            ],
            shown=len(self.compared) - 1,
            seen_in_training=part == TRAINING,
            warning=warning,
            pairs_by=self.settings.metric,
            # Ranks of the same rows under both models.
            changes=interval_changes(
                {name: each.scores for name, each in self.compared.items()},
                interval=self.interval,
                **self.evaluation.ranking,
            ),
        )

    def _rank_curves(self) -> Figure:
        reports = {f"{model} ({self.last[1]})": each.report for model, each in self.compared.items()}
        return draw_rank_curves(reports, self.evaluation.interval)

    def print(self, out: Console) -> None:
        """Print the readable report, the answer first; how the fit went comes last."""
        settings, (model, part) = self.settings, self.last
        report, metric = self.evaluation.report, settings.metric
        out.print(Text.assemble((str(self.prepared.path), "bold"), f": {self.headline}\n"))
        unseen = part != TRAINING  # intervals say nothing of rows that the model was trained on
        # A guarantee for new data counts for more than the gap of these rows; one for training rows for less.
        answer_first = settings.population or self.result.satisfied is False
        if answer_first:
            self._print_answer(out)
        if metric in report.omitted:
            out.print(f"{part}: {METRICS[metric].title} {report.omitted[metric]}")
        else:
            out.print(f"{part}, {model}: {gap_sentence(report, metric, unseen=unseen)}")
        if not answer_first:
            self._print_answer(out)
        for note in self.notes.overfitted:
            out.print(note_line(note))
        if report.coverage:
            out.print(f"{part}: {report.coverage}")
        if self.gate is not None:
            out.print(self.gate.verdict(report))
        out.print()
        out.print(self._models_table())
        out.print(f"\nThe model {model}, {part if unseen else 'training rows'}:")
        print_metrics(report, metric if self.gate is None else self.gate.metric, out, unseen=unseen)
        for name, reason in report.omitted.items():
            out.print(f"left out: {METRICS[name].title} {reason}", style="dim")
        if settings.verbose:
            out.print(f"\nThe fit: {self.result}")
        elif self.result.status not in GOOD:
            status = str(self.result.status).replace("_", " ")
            out.print(f"\nThe fit ended with: {status} (--verbose says more)")
        for note in [*self.notes.general, *(self.notes.fits if settings.verbose else ())]:
            out.print(note_line(note))

    def _print_answer(self, out: Console) -> None:
        """Say whether the constraint is satisfied, and what to do if not."""
        if self.answer is not None:
            out.print(Text(self.answer, style="" if self.result.satisfied else "red"))
        for piece in outside_record(self.result):
            where = ranks_text(as_interval_set(tuple(piece["interval"])))
            out.print(
                f"next to the interval, ranks {where}: training gap {piece['gap']:.4g}, "
                f"{piece['limit']:.4g} without a constraint"
            )
        if self.result.satisfied is False:
            larger = "more rows, or a larger --test-size, bring bounds closer; "
            more = larger if self.settings.population else ""
            out.print(
                f"what to do: {more}partialfair path shows which gaps can be reached, and at what cost; more "
                "features or --group-terms can close a gap that these cannot\n"
            )

    def _models_table(self) -> PlainTable:
        """Return one line per model and part of the rows."""
        metric = self.settings.metric
        table = PlainTable()
        for title in ("model", "rows", "accuracy", "AUC", f"{METRICS[metric].title} gap"):
            table.add_column(title, justify="left" if title in ("model", "rows") else "right")
        table.add_column(interval_title(self.settings.confidence))
        for (model, part), each in self.evaluations.items():
            gap, interval = "undefined", ""
            if metric not in each.report.omitted:
                gap, interval = gap_cells(each.report[metric], metric)
            if part == TRAINING:
                interval = ""
            table.add_row(model, part, fixed(each.accuracy), fixed(each.auc), gap, interval)
        return table
