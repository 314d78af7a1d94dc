"""``partialfair path``: models from loose to strict on one table, and the frontier that they make."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pandas as pd
from rich.console import Console
from rich.text import Text
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit

from partialfair.cli._csv import csv_text
from partialfair.cli._intervals import AUTO, interval_record
from partialfair.cli._models import alpha_notes, check_alpha, read_alpha
from partialfair.cli._prepare import ModelSettings, Prepared, Roles, prepare
from partialfair.cli._reports import value_and_interval
from partialfair.cli._split import HoldOut
from partialfair.cli._trained import HELD_OUT, MODEL, SCORED_OUT_OF_FOLD
from partialfair.cli._wording import as_options
from partialfair.cli.output import PlainTable, note_line, step
from partialfair.cli.writing import Content
from partialfair.data.groups import group_name
from partialfair.data.samples import Samples
from partialfair.estimators.path import FairnessPath, PathPoint, fairness_path
from partialfair.exceptions import InputError
from partialfair.metrics import ReportRow
from partialfair.metrics.catalogue import METRICS
from partialfair.optimization.solvers import Record, Status
from partialfair.persistence import model_bytes
from partialfair.report.pages import notes_section, path_names, path_page, settings_section
from partialfair.training.named_constraints import NO_CONSTRAINT
from partialfair.utils.checks import check_choice, check_count, check_number
from partialfair.utils.text import fixed, listed
from partialfair.utils.typing import IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FILES",
    "MODEL",
    "SCORINGS",
    "Frontier",
    "PathSettings",
    "print_frontier",
    "read_alphas",
    "read_numbers",
    "trace",
]

FILES = (MODEL, "path.csv", HELD_OUT, SCORED_OUT_OF_FOLD, "frontier.png", "path.json")
"""What ``--out`` writes, the record last."""

SCORINGS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "roc_auc": "AUC"}
"""What may be asked for, and what it is called in the table."""


@dataclass(frozen=True, kw_only=True)
class PathSettings(ModelSettings):
    """What is asked of the models, how they are judged, and which is to be chosen."""

    max_gaps: tuple[float, ...]
    alphas: tuple[float | Literal["auto"], ...]
    validation: float
    scoring: str
    best: float | None
    cv: int | None = None

    @property
    def hold_out(self) -> HoldOut:
        """Which rows are held out."""
        return HoldOut.asked("--validation", self.validation, self.seed, self.cv)

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        super().check()
        if self.constraint == NO_CONSTRAINT:
            raise InputError("--constraint none leaves no gap to vary; use train for an ordinary model")
        for gap in self.max_gaps:
            check_number(gap, "--max-gaps", low=0.0, high=self.largest_gap)
        for alpha in self.alphas:
            check_alpha(alpha, "--alphas", self.model)
        if self.cv is None:
            check_number(self.validation, "--validation", above=0.0, high=0.9)
        else:
            check_count(self.cv, "--cv", low=2)
            if self.best is not None:
                raise InputError(
                    "--best promises the gap of one model, and --cv measures those of several; leave one out"
                )
        check_choice(self.scoring, "--scoring", SCORINGS)
        if self.best is not None:
            self.check_savable()
            check_number(self.best, "--best", low=0.0, high=self.largest_gap)


def read_numbers(text: str, option: str) -> tuple[float, ...]:
    """Return the numbers of a list such as ``0.05,0.1``."""
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} must be numbers with commas between them, not {text!r}") from error


def read_alphas(text: str | None, model: str) -> tuple[float | Literal["auto"], ...]:
    """Return the penalties of a list such as ``1e-4,1e-3``, or "auto" alone; by default the model's own."""
    if text is None or text == AUTO:
        return (read_alpha(text, model),)
    return read_numbers(text, "--alphas")


@dataclass(frozen=True, eq=False)
class Frontier:
    """The models of a table, and which of them was chosen.

    Attributes
    ----------
    lines
        One line per model, as `FairnessPath.to_frame` gives them.
    chosen
        The best of those that are fair enough; None if that was not asked for, or if there is none.
    refusal
        Why there is none, though it was asked for.
    notes, fit_notes
        What may surprise, and how fits ended that did not converge.
    """

    settings: PathSettings
    prepared: Prepared
    models: FairnessPath
    lines: pd.DataFrame
    chosen: PathPoint | None
    refusal: str | None
    notes: tuple[str, ...]
    fit_notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        """What was trained, and on what."""
        settings = self.settings
        chosen = ", chosen by the scores" if settings.interval == AUTO else ""
        outside = f"; outside the promise: {listed(self.outside)}" if self.outside else ""
        coverage = self.models.report(self.models.points[-1], settings.confidence).coverage
        unjudged = f"; {self.models.judged_on}: {coverage}" if coverage else ""
        return (
            f"{self.prepared.headline}; {METRICS[settings.metric].title} at {settings.words(self.interval)}"
            f"{chosen}, on the {settings.gap_scale} scale{outside}{unjudged}"
        )

    @property
    def interval(self) -> IntervalLike:
        """What the models are judged on; the fits know what "auto" chose."""
        interval: IntervalLike = self.models.points[-1].constraint.interval
        return interval

    @property
    def outside(self) -> list[str]:
        """Names of groups that are too few to judge, whose rows count in the loss only."""
        return [group_name(label) for label in self.models.points[-1].model.result_.small_groups]

    @cached_property
    def content(self) -> bytes | None:
        """The chosen model as its file holds it; on new people it does what ``--best`` asks for."""
        return None if self.chosen is None else model_bytes(self.prepared.model(self.chosen.model, True))

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to."""
        models = [
            {
                **line,
                "satisfied": point.model.result_.satisfied,
                "obstacle": point.model.result_.obstacle,
                "worst_pair": [group_name(label) for label in self._gap(point).groups],
                "chosen": point is self.chosen,
            }
            for line, point in zip(self.lines.to_dict("records"), self.models.points, strict=True)
        ]
        return {
            "schema": "partialfair.estimators.path/1",
            "model": None if self.chosen is None else MODEL,
            **self.prepared.record(),
            "settings": self.settings.record(),
            "interval": interval_record(self.interval),
            "outside_the_promise": self.outside,
            "models": models,
            "refusal": self.refusal,
            "notes": [*self.notes, *self.fit_notes],
        }

    def files(self) -> dict[str, Content]:
        """Return what ``--out`` writes beside the record."""
        model = {} if self.content is None else {MODEL: self.content}
        return {
            **model,
            # No constraint is an empty cell: spreadsheets take inf for text.
            "path.csv": csv_text(self.lines.replace({"max_gap": {float("inf"): float("nan")}})),
            HELD_OUT if self.models.folds is None else SCORED_OUT_OF_FOLD: self._scored(),
            "frontier.png": self._picture,
        }

    def _scored(self) -> str:
        """Return who was held out or in folds, and how every model scores them; ``audit`` reads it."""
        names = path_names(self.models.points)
        scores = {
            f"score, {name}": point.scores for name, point in zip(names, self.models.points, strict=True)
        }
        return csv_text(self.prepared.scored(scores))

    def page(self) -> str:
        """Return the interactive page."""
        return path_page(
            self.models,
            confidence=self.settings.confidence,
            title=f"Frontier of {self.prepared.path.name}",
            headline=self.headline,
            sections=[
                settings_section(self.settings.record()),
                *notes_section([*self.notes, *self.fit_notes]),
            ],
            chosen=self.chosen,
            warning=self.refusal,
        )

    def table(self) -> PlainTable:
        """Return one line per model, the one without a constraint first, the chosen one marked."""
        settings = self.settings
        several = self.lines["alpha"].nunique() > 1
        table = PlainTable()
        table.add_column("")
        for title in (
            "max gap",
            *(["alpha"] if several else []),
            "training gap",
            f"gap {self.models.judged_on}",
        ):
            table.add_column(title, justify="right")
        table.add_column(f"{100 * settings.confidence:g} % interval")
        table.add_column(SCORINGS[settings.scoring], justify="right")
        table.add_column("seconds", justify="right")
        table.add_column("promise")
        for point in self.models.points:
            table.add_row(
                "→" if point is self.chosen else "",
                "none" if point.unconstrained else f"{point.max_gap:g}",
                *([f"{point.alpha:g}"] if several else []),
                METRICS[settings.metric].text(point.training_gap),
                *value_and_interval(self._gap(point)),
                f"{fixed(point.score)} ± {fixed(point.error)}",
                f"{point.seconds:.1f}",
                _promise(point),
            )
        return table

    def _gap(self, point: PathPoint) -> ReportRow:
        return self.models.gap(point, self.settings.confidence)

    def _picture(self) -> Figure:
        title = f"{METRICS[self.settings.metric].title} at {self.settings.words(self.interval)}"
        drawn = self.models.plot(confidence=self.settings.confidence, title=title)
        return cast("Figure", drawn.figure)


def _promise(point: PathPoint) -> str:
    """Say whether the gap asked for was reached in training; how a fit ended where it asked for none."""
    kept = point.model.result_.satisfied
    if kept is None:
        return "" if point.unconstrained else str(point.model.result_.status).replace("_", " ")
    return "kept" if kept else "NOT kept"


def trace(path: Path, roles: Roles, settings: PathSettings) -> Frontier:
    """Read, split and encode; fit a model for every gap and penalty; choose."""
    prepared = prepare(path, roles, settings, settings.hold_out)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        notes, fit_notes = [*prepared.notes], list[str]()
        models = _fit(prepared, settings, caught, notes, fit_notes)
        with step("measuring gaps"):
            lines = models.to_frame(settings.confidence)
        chosen, refusal = _choose(models, settings)
    notes += [as_options(str(warning.message)) for warning in caught]
    once = tuple(dict.fromkeys(notes)), tuple(dict.fromkeys(fit_notes))
    return Frontier(settings, prepared, models, lines, chosen, refusal, *once)


def _fit(
    prepared: Prepared,
    settings: PathSettings,
    caught: list[warnings.WarningMessage],
    notes: list[str],
    fit_notes: list[str],
) -> FairnessPath:
    """Fit the models, showing progress; every warning becomes a note that names its model."""
    rows, held_out = prepared.parts["training"], prepared.parts.get("held out")
    total, done = (len({*settings.max_gaps}) + 1) * len({*settings.alphas}), 0
    times = "" if settings.cv is None else f", and again without each of {settings.cv} folds"
    with step(f"training {total} models on {rows.n:,} rows{times}") as say:

        def show(line: Record) -> None:
            say(
                f"model {done + 1}, step {line.step}, objective {line.objective:.4g}, violation "
                f"{line.violation:.1e}"
            )

        def judged(point: PathPoint) -> None:
            nonlocal done
            if point.model.result_.status is Status.STOPPED:
                raise KeyboardInterrupt  # it ends the path, not only one fit
            done += 1
            # Models in folds are all fitted before any is judged: a warning may be of any of them.
            tell(f"{point.allowed}, alpha {point.alpha:g}: " if settings.cv is None else "")

        def tell(which: str) -> None:
            for warning in caught:
                about_the_fit = issubclass(warning.category, ConvergenceWarning)
                remark = f"{which}{as_options(str(warning.message))}"
                (fit_notes if about_the_fit else notes).append(remark)
            caught.clear()

        alphas = [alpha for alpha in settings.alphas if alpha != AUTO]
        models = fairness_path(
            settings.classifier(
                settings.constraint, prepared.interval, alpha=settings.alphas[0], callback=show
            ),
            rows.X,
            rows.y,
            sensitive_features=rows.groups,
            sample_weight=rows.weights,
            max_gaps=settings.max_gaps,
            alphas=alphas or None,
            clusters=rows.clusters,
            **_judging_rows(prepared, held_out),
            scoring=settings.scoring,
            random_state=settings.seed,
            min_group_size=settings.min_group_size,
            small_groups=settings.once_merged.small_groups,
            callback=judged,
        )
    for point in models.points:
        point.model.set_params(callback=None, warm_start=False)
    notes += alpha_notes(settings.alphas[0], models.points[0].model)
    return models


def _judging_rows(prepared: Prepared, held_out: Samples | None) -> dict[str, Any]:
    """Return what models are judged on, as `fairness_path` takes it."""
    if held_out is None:
        return {"cv": PredefinedSplit(prepared.folds)}
    columns = (held_out.X, held_out.y, held_out.groups, held_out.weights, held_out.clusters)
    return {"validation": columns}


def _choose(models: FairnessPath, settings: PathSettings) -> tuple[PathPoint | None, str | None]:
    """Return the model that ``--best`` asks for, or why there is none."""
    if settings.best is None:
        return None, None
    try:
        model = models.best(settings.best, settings.confidence)
    except InputError as error:
        return None, as_options(str(error))
    return next(point for point in models.points if point.model is model), None


def print_frontier(frontier: Frontier, out: Console, *, verbose: bool) -> None:
    """Print the readable report, what was chosen first."""
    settings, chosen = frontier.settings, frontier.chosen
    out.print(Text.assemble((str(frontier.prepared.path), "bold"), f": {frontier.headline}\n"))
    if chosen is not None:
        out.print(
            f"chosen (→): the best whose gap is, with {100 * settings.confidence:g} % confidence, at most "
            f"{settings.best:g} on new people: {chosen.allowed}, alpha {chosen.alpha:g}\n"
        )
    out.print(frontier.table())
    if verbose:
        for point in frontier.models.points:
            out.print(f"\n{point.allowed}, alpha {point.alpha:g}: {point.model.result_}")
    for note in [*frontier.notes, *(frontier.fit_notes if verbose else ())]:
        out.print(note_line(note))
