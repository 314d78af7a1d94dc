"""``partialfair train``: the fitted and evaluated model as text, record, files and HTML report."""

from __future__ import annotations

import math
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
from partialfair.cli.report_text import print_metrics, print_omitted, report_record
from partialfair.cli.settings import TrainSettings
from partialfair.cli.training import Notes
from partialfair.cli.verdict import Change, Side, difference_sentence, print_before_after, quality_text
from partialfair.data.groups import group_name
from partialfair.data.intervals import as_interval_set, ranks_text
from partialfair.metrics.catalogue import METRICS
from partialfair.optimization.solvers import GOOD
from partialfair.persistence import model_bytes
from partialfair.report.page_data import collect_changes
from partialfair.report.pages import audit_page
from partialfair.report.sections import (
    Section,
    fits_section,
    gap_cells,
    interval_title,
    notes_section,
    settings_section,
)
from partialfair.report.verdict import Outcome
from partialfair.tables import TableModel
from partialfair.training.result import FitResult
from partialfair.utils.text import fixed
from partialfair.utils.typing import IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORD = "train.json"
MODEL = "model.skops"
HELD_OUT_FILE = "held_out.csv"
OUT_OF_FOLD_FILE = "out_of_fold.csv"
PICTURES = ("rank_curves.png", "score_densities.png")


_FEW_STEPS, _MOST_MEMBERS = 2.0, 50.0
"""A group is named as the cause if two of its members move the gap by the limit, and up to this size."""


def infeasible_name(name: str) -> str:
    """Return the file name of a model that violates its constraint, ``model.infeasible.skops``."""
    return name.removesuffix(".skops") + ".infeasible.skops"


def file_names(model: str) -> tuple[str, ...]:
    """Return the files that ``--out`` may write, known before training; the record is last."""
    return (model, infeasible_name(model), HELD_OUT_FILE, OUT_OF_FOLD_FILE, *PICTURES, RECORD)


@dataclass(frozen=True, eq=False)
class TrainReport:
    """A trained model, and the evaluations of it and of the unconstrained model on all parts of the rows.

    Attributes
    ----------
    settings, gate, prepared
        The settings, and the prepared table.
    interval
        The interval on which models are evaluated.
    model
        The model that is saved.
    evaluations
        Evaluations by model ("without the constraint", "with the constraint") and part ("training", "held
        out" or "out of fold"). The last one is the main evaluation: the saved model on rows that it was not
        trained on, if there are any.
    change
        What the constraint changed on the rows of the main evaluation.
    notes
        Warnings and remarks.
    """

    settings: TrainSettings
    gate: Gate | None
    prepared: Prepared
    interval: IntervalLike
    model: TableModel
    evaluations: dict[tuple[str, str], ScoreEvaluation]
    change: Change
    notes: Notes

    @property
    def result(self) -> FitResult:
        """How the fit ended."""
        result: FitResult = self.model.classifier.result_
        return result

    @property
    def last(self) -> tuple[str, str]:
        """The model and the part of the main evaluation."""
        return list(self.evaluations)[-1]

    @property
    def evaluation(self) -> ScoreEvaluation:
        """The main evaluation."""
        return self.evaluations[self.last]

    @property
    def compared(self) -> dict[str, ScoreEvaluation]:
        """The evaluations of all models on the part of the main evaluation, by name."""
        return {model: each for (model, part), each in self.evaluations.items() if part == self.last[1]}

    @property
    def succeeded(self) -> bool:
        """Whether neither the constraint nor the gate failed."""
        if self.result.satisfied is False:
            return False
        return self.gate is None or self.gate.passes(self.evaluation.report)

    @property
    def headline(self) -> str:
        """A description of the target, the rows, the limit and the interval."""
        settings = self.settings
        purpose = "no constraint; evaluated"
        if settings.is_constrained:
            purpose = f"{METRICS[settings.metric].title} gap at most {settings.max_gap:g}"
        return self.prepared.headline(purpose, self.interval, self.excluded)

    @property
    def excluded(self) -> list[str]:
        """Names of groups that are too small for the constraint; their rows count in the loss only."""
        return [group_name(label) for label in self.result.small_groups]

    @property
    def answer(self) -> str | None:
        """A sentence on whether the constraint is satisfied; None without a constraint."""
        settings, result = self.settings, self.result
        if result.satisfied is None:
            return None
        if (population := result.population) is not None:
            answer = f"{population.sentence[0].upper()}{population.sentence[1:]} ({population.basis})"
            if population.validated:
                return answer
            return f"Constraint NOT satisfied: {answer}; {as_options(result.infeasibility or '')}"
        text = METRICS[settings.metric].text
        # More digits show by how much the gap exceeds the limit.
        gap = text(result.gap) if result.satisfied else f"{result.gap:.4g}"
        pair = max(result.gaps, key=lambda gap: gap.value).groups
        figures = f"training gap {gap}, limit {settings.max_gap:g} ({' vs '.join(map(group_name, pair))})"
        if result.satisfied:
            return f"Constraint satisfied: {figures}"
        reason = "" if result.infeasibility is None else f"; {as_options(result.infeasibility)}"
        if not (reason or result.satisfied_outside):
            reason = "; gaps next to the interval exceed their limits"
        return f"Constraint NOT satisfied: {figures}{reason}"

    @property
    def all_notes(self) -> list[str]:
        """All notes, the most important first."""
        return [*self.notes.overfitted, *self.notes.general, *self.notes.fits]

    @property
    def file_name(self) -> str:
        """The file name of the model; an infeasible model never replaces a feasible one."""
        name = self.settings.out.name if self.settings.out.suffix == ".skops" else MODEL
        return infeasible_name(name) if self.result.satisfied is False else name

    @cached_property
    def content(self) -> bytes:
        """The content of the model file."""
        return model_bytes(self.model)

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; an incompatible change increases the number of the schema."""
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
            **self.change.record(),
            "notes": self.all_notes,
        }
        if self.gate is not None:
            record["gate"] = {"part": part, **self.gate.record(self.evaluation.report)}
        return record

    def files(self) -> dict[str, Content]:
        """Return the files of ``--out`` besides the record."""
        files: dict[str, Content] = {self.file_name: self.content}
        part = self.last[1]
        if part != TRAINING:
            # The rows that were not trained on with the scores of both models; `audit` reads the file.
            unconstrained, *_ = self.compared.values()
            scores = {"score": self.evaluation.scores}
            if unconstrained is not self.evaluation:
                scores["score_unconstrained"] = unconstrained.scores
            name = OUT_OF_FOLD_FILE if part == OUT_OF_FOLD else HELD_OUT_FILE
            files[name] = csv_text(self.prepared.scored(scores))
        return {
            **files,
            PICTURES[0]: self._rank_curves,
            PICTURES[1]: lambda: draw_densities(self.evaluation.report),
        }

    def page(self) -> str:
        """Return the HTML report: the model compared with the unconstrained one."""
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
            headline=f"{self.headline}; evaluated on rows {part}",
            sections=[
                Section("Accuracy and AUC", quality, ("model", "rows", "accuracy", "AUC")),
                fits_section({model: self.result}, self.settings.metric),
                settings_section(self.settings.record()),
                *notes_section(self.all_notes),
            ],
            shown=len(self.compared) - 1,
            seen_in_training=part == TRAINING,
            warning=warning,
            metric=self.settings.metric,
            outcomes={name: self._outcome(name) for name in self.compared},
            # Ranks of the same rows under both models.
            changes=collect_changes(
                {name: each.scores for name, each in self.compared.items()},
                interval=self.interval,
                **self.evaluation.ranking,
            ),
        )

    def _outcome(self, name: str) -> Outcome:
        """Return accuracy and AUC of a model and, for the saved one, how its fit ended."""
        each = self.compared[name]
        quality = [("accuracy", fixed(each.accuracy)), ("AUC", fixed(each.auc))]
        if name != self.last[0]:
            return Outcome(quality)
        claim, difference = "", self.change.difference
        if difference is not None:
            rows = f"{self.last[1].replace(' ', '-')} rows"
            claim = difference_sentence(difference, each.report.confidence, rows)
        return Outcome(quality, self.result.satisfied, self.settings.max_gap, self.result.gap, claim)

    def _rank_curves(self) -> Figure:
        reports = {f"{model} ({self.last[1]})": each.report for model, each in self.compared.items()}
        return draw_rank_curves(reports, self.evaluation.interval)

    def print(self, out: Console) -> None:
        """Print the answer, the comparison of both models and all metrics; details of the fit come last."""
        settings, (model, part) = self.settings, self.last
        report, metric = self.evaluation.report, settings.metric
        out.print(Text.assemble((str(self.prepared.path), "bold"), f": {self.headline}\n"))
        unseen = part != TRAINING  # confidence intervals are not valid on training rows
        if self.answer is not None:
            out.print(Text(self.answer, style="" if self.result.satisfied else "red"))
            for piece in outside_record(self.result):
                where = ranks_text(as_interval_set(tuple(piece["interval"])))
                out.print(
                    f"next to the interval, ranks {where}: training gap {piece['gap']:.4g}, "
                    f"{piece['limit']:.4g} without a constraint"
                )
            if (advice := self._advice()) is not None:
                out.print(f"what to do: {advice}")
            out.print()
        for note in self.notes.overfitted:
            out.print(note_line(note))
        sides: list[tuple[str, float | None]] = [("No constraint", None)]
        if settings.is_constrained:
            sides = [
                ("Before, no constraint", None),
                (f"After, max gap {settings.max_gap:g}", settings.max_gap),
            ]
        models = tuple(
            Side(name, quality_text(each.accuracy), each.report, limit)
            for (name, limit), each in zip(sides, self.compared.values(), strict=True)
        )
        rows = f"{part.replace(' ', '-')} rows"
        print_before_after(out, models, metric, rows, self.change, unseen=unseen)
        if report.exclusions:
            out.print(f"{part}: {report.exclusions}")
        if self.gate is not None:
            out.print(self.gate.verdict(report))
        if settings.is_constrained:
            out.print("What fairness costs:")
        out.print(self._models_table())
        out.print(f"\nThe model {model}, {part if unseen else 'training rows'}:")
        print_metrics(report, metric if self.gate is None else self.gate.metric, out, unseen=unseen)
        print_omitted(report, out)
        if settings.verbose:
            out.print(f"\nThe fit: {self.result}")
        elif self.result.status not in GOOD:
            status = str(self.result.status).replace("_", " ")
            out.print(f"\nThe fit ended with: {status} (--verbose says more)")
        for note in [*self.notes.general, *(self.notes.fits if settings.verbose else ())]:
            out.print(note_line(note))

    def _advice(self) -> str | None:
        """Return what to do if the constraint is not satisfied."""
        if self.result.satisfied is not False:
            return None
        path = "partialfair path shows which limits are feasible, and what they cost in accuracy"
        if self.settings.population:
            return f"more rows, or a larger --test-size, bring the confidence bound closer; {path}"
        return self._small_group_advice() or (
            f"{path}; more features or --group-terms can reduce the gap further"
        )

    def _small_group_advice(self) -> str | None:
        """Return advice on the group of the worst pair that is too small for the limit, if there is one."""
        settings, result = self.settings, self.result
        if result.gap <= settings.max_gap:  # only gaps next to the interval are too large
            return None
        rows = self.prepared.parts[TRAINING].with_weight()
        constraint = result.constraints[0].among(rows.groups.labels)
        members = constraint.effective_members(rows.groups, rows.row_weights, rows.y)
        worst = max(result.gaps, key=lambda gap: gap.value).groups
        size, label = min(
            (size, label)
            for size, label in zip(members.tolist(), rows.groups.labels, strict=True)
            if label in worst
        )
        # One member moves the proportions of a group of m by 1/m.
        if not settings.named or settings.named.bounded.largest != 1 or size * settings.max_gap >= _FEW_STEPS:
            return None
        if size > _MOST_MEMBERS:
            return None
        n_left = len(rows.groups.labels) - len(result.small_groups) - 1
        remedy = "it needs more rows, a wider interval or a larger --max-gap"
        if n_left >= 2:
            remedy = f"--min-group-size {math.floor(size) + 1} leaves it out of the constraint"
            if settings.group_terms is None and not isinstance(self.interval, dict):
                remedy += ", --small-groups merge joins it with other small groups"
        return (
            f"group {group_name(label)} has {size:.0f} effective members in the interval, so that one of "
            f"them moves the gap by about {1 / size:.2g}: {remedy}"
        )

    def _models_table(self) -> PlainTable:
        """Return one line per model and part of the rows."""
        metric = self.settings.metric
        table = PlainTable()
        for title in ("model", "rows", "accuracy", "AUC", "gap"):
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
