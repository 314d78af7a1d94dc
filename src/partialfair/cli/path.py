"""``partialfair path``: models for several limits on one table, and the frontier of accuracy and gap."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from rich.console import Console
from rich.text import Text

from partialfair.cli.intervals import AUTO
from partialfair.cli.model_record import outside_record
from partialfair.cli.output import Content, PlainTable, as_options, csv_text, note_line, step
from partialfair.cli.prepare import Prepared, prepare
from partialfair.cli.settings import SCORINGS, PathSettings
from partialfair.cli.train_report import HELD_OUT_FILE, MODEL, OUT_OF_FOLD_FILE
from partialfair.cli.training import Notes, build_estimator, chosen_alpha_note, fit_path
from partialfair.cli.verdict import Change, Side, difference_sentence, print_before_after, quality_text
from partialfair.data.groups import group_name
from partialfair.data.intervals import require_interval
from partialfair.estimators.path import FairnessPath, PathPoint
from partialfair.exceptions import InputError
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.report import ReportRow
from partialfair.persistence import model_bytes
from partialfair.report.pages import path_page
from partialfair.report.sections import gap_cells, interval_title, notes_section, settings_section
from partialfair.utils.text import fixed, short_percent
from partialfair.utils.typing import IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = (MODEL, "path.csv", HELD_OUT_FILE, OUT_OF_FOLD_FILE, "frontier.png", "path.json")
"""The files of ``--out``, the record last."""


@dataclass(frozen=True, eq=False)
class Frontier:
    """The models of a table, and the chosen one.

    Attributes
    ----------
    lines
        One line per model, as in `FairnessPath.to_frame`.
    chosen
        The best validated model; None without ``--best``, or if no model qualifies.
    refusal
        Why no model qualifies for ``--best``.
    after
        The model that is compared with the unconstrained one: the chosen model, or else the one with the
        smallest limit that it satisfies in training.
    change
        What this model changed on the rows on which models are evaluated.
    notes
        Warnings and remarks.
    """

    settings: PathSettings
    prepared: Prepared
    models: FairnessPath
    lines: pd.DataFrame
    chosen: PathPoint | None
    refusal: str | None
    after: PathPoint
    change: Change
    notes: Notes

    @property
    def headline(self) -> str:
        """A description of the target, the rows and the interval."""
        title = METRICS[self.settings.metric].title
        coverage = self.models.report(self.models.points[-1], self.settings.confidence).exclusions
        covered = f"; {self.models.evaluated_on}: {coverage}" if coverage else ""
        return self.prepared.headline(title, self.interval, self.excluded) + covered

    @property
    def interval(self) -> IntervalLike:
        """The interval on which models are evaluated; for "auto", the one that the fits chose."""
        return require_interval(self.models.points[-1].constraint.interval)

    @property
    def excluded(self) -> list[str]:
        """Names of groups that are too small for the constraint; their rows count in the loss only."""
        return [group_name(label) for label in self.models.points[-1].model.result_.small_groups]

    @cached_property
    def content(self) -> bytes | None:
        """The content of the file of the chosen model."""
        return None if self.chosen is None else model_bytes(self.prepared.model(self.chosen.model, True))

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; an incompatible change increases the number of the schema."""
        models = [
            {
                **line,
                "satisfied": point.model.result_.satisfied,
                "infeasibility": point.model.result_.infeasibility,
                "outside": outside_record(point.model.result_),
                "worst_pair": [group_name(label) for label in self._gap(point).groups],
                "chosen": point is self.chosen,
            }
            for line, point in zip(self.lines.to_dict("records"), self.models.points, strict=True)
        ]
        return {
            "schema": "partialfair.path/1",
            "model": None if self.chosen is None else MODEL,
            **self.prepared.record(self.interval, self.excluded),
            "models": models,
            "no_model_reason": self.refusal,
            "compared_model": self.models.points.index(self.after),
            **self.change.record(),
            "notes": [*self.notes.general, *self.notes.fits],
        }

    def files(self) -> dict[str, Content]:
        """Return the files of ``--out`` besides the record."""
        model = {} if self.content is None else {MODEL: self.content}
        return {
            **model,
            # The unconstrained model has an empty cell: spreadsheets would read inf as text.
            "path.csv": csv_text(self.lines.replace({"max_gap": {float("inf"): float("nan")}})),
            HELD_OUT_FILE if self.models.folds is None else OUT_OF_FOLD_FILE: self._scored(),
            "frontier.png": self._picture,
        }

    def _scored(self) -> str:
        """Return the held-out or out-of-fold rows with the scores of all models; ``audit`` reads the file."""
        points = self.models.points
        one_alpha = len({point.alpha for point in points}) == 1
        scores = {
            ("score_unconstrained" if point.unconstrained else f"score_max_gap_{point.max_gap:.12g}")
            + ("" if one_alpha else f"_alpha_{point.alpha:.12g}"): point.scores
            for point in points
        }
        return csv_text(self.prepared.scored(scores))

    def page(self) -> str:
        """Return the HTML report; it opens with the model of "After"."""
        rows = f"{self.models.evaluated_on.replace(' ', '-')} rows"
        difference = self.change.difference
        return path_page(
            self.models,
            confidence=self.settings.confidence,
            title=f"Frontier of {self.prepared.path.name}",
            headline=self.headline,
            sections=[
                settings_section(self.settings.record()),
                *notes_section([*self.notes.general, *self.notes.fits]),
            ],
            chosen=self.chosen,
            shown=self.after,
            claim=""
            if difference is None
            else difference_sentence(difference, self.settings.confidence, rows),
            warning=self.refusal,
        )

    def table(self) -> PlainTable:
        """Return one line per model, the unconstrained one first; an arrow marks the chosen one."""
        settings = self.settings
        # One penalty for all models needs no column.
        several = self.lines["alpha"].nunique() > 1
        # This column is left out of narrow terminals.
        table = PlainTable(optional=("seconds",))
        table.add_column("")
        for title in (
            "max gap",
            *(["alpha"] if several else []),
            "training gap",
            f"gap {self.models.evaluated_on}",
        ):
            table.add_column(title, justify="right")
        table.add_column(interval_title(settings.confidence))
        table.add_column(SCORINGS[settings.scoring], justify="right")
        table.add_column("seconds", justify="right")
        table.add_column("constraint")
        for point in self.models.points:
            table.add_row(
                "→" if point is self.chosen else "",
                "none" if point.unconstrained else f"{point.max_gap:g}",
                *([f"{point.alpha:g}"] if several else []),
                METRICS[settings.metric].text(point.training_gap),
                *gap_cells(self._gap(point), settings.metric),
                f"{fixed(point.score)} ± {fixed(point.error)}",
                f"{point.seconds:.1f}",
                _outcome(point),
            )
        return table

    def _gap(self, point: PathPoint) -> ReportRow:
        return self.models.gap(point, self.settings.confidence)

    def _picture(self) -> Figure:
        title = f"{METRICS[self.settings.metric].title} at {self.settings.words(self.interval)}"
        drawn = self.models.plot(confidence=self.settings.confidence, title=title)
        return cast("Figure", drawn.figure)

    def print(self, out: Console) -> None:
        """Print the report, the chosen model first."""
        settings, chosen = self.settings, self.chosen
        out.print(Text.assemble((str(self.prepared.path), "bold"), f": {self.headline}\n"))
        if chosen is not None:
            out.print(
                f"Validated (→): of the models whose gap in the population is, with "
                f"{short_percent(settings.confidence)} confidence, at most {settings.best:g}, the best is "
                f"{chosen.allowed}, alpha {chosen.alpha:g}\n"
            )
        elif self.refusal is not None:
            out.print(Text(f"Not validated: {self.refusal}\n", style="red"))
        self.print_before_after(out)
        out.print("What fairness costs, model by model:")
        out.print(self.table())
        if settings.verbose:
            for point in self.models.points:
                out.print(f"\n{point.allowed}, alpha {point.alpha:g}: {point.model.result_}")
        for note in [*self.notes.general, *(self.notes.fits if settings.verbose else ())]:
            out.print(note_line(note))

    @property
    def sides(self) -> tuple[PathPoint, PathPoint]:
        """The unconstrained model, and the one that is compared with it."""
        return self.models.points[0], self.after

    def print_before_after(self, out: Console) -> None:
        """Print the accuracy and the gaps of the two models, and the difference of the gaps."""
        settings = self.settings
        sides = tuple(
            Side(
                f"{when}, {point.allowed}",
                quality_text(point.score, SCORINGS[settings.scoring]),
                self.models.report(point, settings.confidence),
                None if point.max_gap == float("inf") else point.max_gap,
            )
            for when, point in zip(("Before", "After"), self.sides, strict=True)
        )
        rows = f"{self.models.evaluated_on.replace(' ', '-')} rows"
        print_before_after(out, sides, settings.metric, rows, self.change)


def _outcome(point: PathPoint) -> str:
    """Return whether the constraint is satisfied in training, or else the status of the fit."""
    satisfied = point.model.result_.satisfied
    if satisfied is None:
        return "" if point.unconstrained else str(point.model.result_.status).replace("_", " ")
    return "satisfied" if satisfied else "NOT satisfied"


def trace(settings: PathSettings, *, shown: float | None = None) -> Frontier:
    """Read, split and encode; fit a model for every limit and penalty; choose.

    If ``shown`` is given, the model with this limit is compared with the unconstrained one.
    """
    # Built before the table is read, so that invalid settings raise at once.
    estimator = build_estimator(settings)
    prepared = prepare(settings, estimator)
    notes = Notes(general=[*prepared.notes])
    # Prepared rows have their small groups merged already.
    small_groups = "list" if settings.small_groups == "merge" else settings.small_groups
    with notes.collecting():
        models = fit_path(
            prepared,
            settings,
            estimator,
            notes,
            scoring=settings.scoring,
            small_groups=small_groups,
            name_models=True,
        )
        if settings.alphas[0] == AUTO:
            notes.general.append(chosen_alpha_note(models.points[0].model))
        if settings.decision_threshold == "tune":
            notes.general.append("each model has its own decision threshold, tuned on training rows")
        with step("measuring gaps"):
            # The path caches the reports of all models, which are made here.
            lines = models.to_frame(settings.confidence)
        chosen, refusal = None, None
        if settings.best is not None:
            try:
                # Its confidence is corrected for the choice among all models.
                model = models.best(settings.best, settings.confidence)
                chosen = next(point for point in models.points if point.model is model)
            except InputError as error:
                refusal = as_options(str(error))
        after = chosen or _compared_model(models, shown)
        with step("comparing gaps"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reports have issued the same warnings
            first, confidence = models.points[0], settings.confidence
            difference = models.compare(first, after, confidence)[settings.metric]
            before, final = (models.report(point, confidence) for point in (first, after))
            change = Change.between(before, final, difference)
    return Frontier(settings, prepared, models, lines, chosen, refusal, after, change, notes)


def _compared_model(models: FairnessPath, shown: float | None) -> PathPoint:
    """Return the model with limit ``shown``, else the smallest limit, of feasible models if there are any."""
    constrained = [point for point in models.points if shown in (None, point.max_gap)]
    constrained = [point for point in constrained if not point.unconstrained]
    satisfied = [point for point in constrained if point.model.result_.satisfied is not False]
    return min(satisfied or constrained, key=lambda point: point.max_gap)
