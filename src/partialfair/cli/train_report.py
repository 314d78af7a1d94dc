"""``partialfair train``: a model fitted and evaluated, and the record, files and page that show it."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.text import Text
from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair.cli.evaluation import Gate, ScoreEvaluation, evaluate
from partialfair.cli.intervals import AUTO, interval_among, interval_record
from partialfair.cli.output import Content, PlainTable, as_options, csv_text, note_line, rank_curves, step
from partialfair.cli.prepare import OUT_OF_FOLD, TRAINING, Prepared, prepare
from partialfair.cli.report_text import gap_sentence, print_metrics, report_record
from partialfair.cli.settings import TrainSettings
from partialfair.cli.training import Notes, build_estimator, fit_path, fit_population, fit_unconstrained
from partialfair.data.groups import group_name
from partialfair.data.samples import Samples
from partialfair.estimators import FitResult
from partialfair.estimators.base import PartialFairEstimator
from partialfair.exceptions import IdleThresholdWarning, InputError
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.map import groups_curve
from partialfair.optimization.solvers import GOOD
from partialfair.persistence import model_bytes
from partialfair.plotting.scores import plot_group_densities
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
from partialfair.training.result import Population
from partialfair.utils.text import fixed, listed
from partialfair.utils.typing import Floats, IntervalLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORD = "train.json"
MODEL = "model.skops"
HELD_OUT_FILE = "held_out.csv"
OUT_OF_FOLD_FILE = "out_of_fold.csv"
PICTURES = ("rank_curves.png", "score_densities.png")

_CURVE_POINTS = 2000


def unkept_name(name: str) -> str:
    """Return the name of a model that does not keep its promise, ``model.unkept.skops``."""
    return name.removesuffix(".skops") + ".unkept.skops"


def file_names(model: str) -> tuple[str, ...]:
    """Return what ``--out`` may write, known before anything is trained; the record last."""
    return (model, unkept_name(model), HELD_OUT_FILE, OUT_OF_FOLD_FILE, *PICTURES, RECORD)


_WITHOUT, _WITH = "without the constraint", "with the constraint"

_CHOSEN_ON_HELD_OUT_ROWS = (
    "the rows held out chose the model: their intervals below are those of one model looked at alone; the "
    "promise about new people allows for the choice"
)


def check_settings(settings: TrainSettings, gate: Gate | None) -> None:
    """Refuse settings that cannot be right, before any file is read."""
    settings.check()
    if gate is None:
        return
    gate.check()
    if gate.needs_unseen_rows and settings.cv is not None:
        raise InputError(
            f"--fail-on {gate.fail_on} is about one model, and --cv measures several; leave one of them out"
        )
    if gate.needs_unseen_rows and settings.share == 0:
        raise InputError(
            f"--fail-on {gate.fail_on} is about people whom the model has not seen: it needs rows held "
            "out, so --test-size above 0"
        )


def train(settings: TrainSettings, gate: Gate | None = None) -> TrainReport:
    """Read, split, encode, fit without and with the constraint, and evaluate both."""
    estimator = build_estimator(settings)
    prepared = prepare(settings, estimator)
    # What preparing noticed comes first.
    notes = Notes(general=[*prepared.notes])
    if settings.population:
        notes.general.append(_CHOSEN_ON_HELD_OUT_ROWS)
    with notes.collecting():
        fitted = _fit_models(prepared, settings, estimator, notes)
        saved = fitted[-1].model
        # The fit knows which interval "auto" chose.
        interval: Any = prepared.interval
        if interval == AUTO:
            interval = saved.result_.constraints[0].interval
        evaluations = {
            (each.name, part): _evaluate_part(each, part, prepared, interval, gate, counts=each is fitted[-1])
            for each in fitted
            for part in prepared.parts
        }
    if settings.alphas[0] == AUTO:
        notes.general.append(chosen_alpha_note(saved))
    if settings.decision_threshold == "tune":
        notes.general.append(tuned_threshold_note(saved))
    notes.general += _calibration_notes(saved, prepared)
    if gate is not None:
        gate.check_measured(list(evaluations.values())[-1].report)
    model = prepared.model(saved, saved.result_.satisfied)
    return TrainReport(settings, gate, prepared, interval, model, evaluations, notes)


def tuned_threshold_note(model: Any) -> str:
    """Say where a model decides whose threshold was tuned."""
    rows = "training rows that no tree was grown on" if model.takes_tables else "the training rows"
    return f"decisions are positive above the score {model.decision_threshold_:.4g}, tuned on {rows}"


def chosen_alpha_note(model: Any) -> str:
    """Say which penalty was chosen for a model."""
    return f"alpha {model.alpha_:g} was chosen, by loss and gap on training rows that no leaf was grown on"


class _Fitted(NamedTuple):
    """A model by its name, with its scores of rows that it has not seen, where these are out of fold."""

    name: str
    model: Any
    out_of_fold: Floats | None = None


def _fit_models(
    prepared: Prepared, settings: TrainSettings, estimator: PartialFairEstimator, notes: Notes
) -> list[_Fitted]:
    """Fit the unconstrained model and, if there is a constraint, the one that is saved, the last."""
    if settings.population:
        unconstrained, constrained = fit_population(prepared, settings, estimator)
        return [_Fitted(_WITHOUT, unconstrained), _Fitted(_WITH, constrained)]
    if settings.is_constrained:
        # A path of one limit.
        points = fit_path(prepared, settings, estimator, notes, small_groups="keep").points
        named = {_WITHOUT: points[0], _WITH: points[-1]}
    else:
        named = {"without a constraint": fit_unconstrained(prepared, settings, estimator)}
    fold_models = list(named.values())[-1].fold_models
    n_broken = sum(model.result_.satisfied is False for model in fold_models)
    if n_broken:
        notes.general.append(
            f"in {n_broken} of {len(fold_models)} folds no model was found that keeps the promise in training"
        )
    return [_Fitted(name, point.model, point.scores) for name, point in named.items()]


def _evaluate_part(
    fitted: _Fitted,
    part: str,
    prepared: Prepared,
    interval: IntervalLike,
    gate: Gate | None,
    *,
    counts: bool,
) -> ScoreEvaluation:
    """Evaluate a model on a part of the rows; warnings are about the model that counts, on the last part."""
    rows: Samples = prepared.parts[part]
    settings = prepared.settings
    with step(f"measuring {rows.n:,} scores: {part}, {fitted.name}"), warnings.catch_warnings():
        if not counts or part != list(prepared.parts)[-1]:
            warnings.simplefilter("ignore")
        if not settings.is_at_threshold:
            warnings.simplefilter("ignore", IdleThresholdWarning)
        scores = fitted.out_of_fold
        if part != OUT_OF_FOLD or scores is None:
            scores = fitted.model.decision_function(rows.X, rows.groups)
        evaluation = evaluate(
            settings,
            scores,
            rows.groups,
            interval=interval_among(interval, rows.groups),
            labels=rows.y,
            positive=True,
            threshold=fitted.model.decision_threshold_,
            rank_within=settings.rank_within,
            weights=rows.weights,
            clusters=rows.clusters,
            # Small groups of prepared rows that were to be merged are one group already.
            small_groups="list" if settings.small_groups == "merge" else None,
            also={settings.metric, settings.metric if gate is None else gate.metric},
        )
    return replace(
        evaluation,
        accuracy=float(
            accuracy_score(rows.y, scores > fitted.model.decision_threshold_, sample_weight=rows.weights)
        ),
        auc=float(roc_auc_score(rows.y, scores, sample_weight=rows.weights)),
    )


def _calibration_notes(model: Any, prepared: Prepared) -> list[str]:
    """Say what the constraint did to the calibration of trees, whose library gives the measure."""
    if not model.takes_tables or model.constraint is None:
        return []
    part = [name for name in prepared.parts if name != OUT_OF_FOLD][-1]
    rows = prepared.parts[part]
    table = model.calibration(rows.X, rows.y, sensitive_features=rows.groups, sample_weight=rows.weights)
    # One sentence, on the group that the probabilities suit least.
    worst = table["error_after"].idxmax()
    line = table.loc[worst]
    suffers = "suffers" if line["error_after"] > line["error_before"] else "does not suffer"
    return [
        f"calibration by group, {part} rows: it {suffers}; group {worst} has the largest error, "
        f"{line['error_after']:.3f} ({line['error_before']:.3f} before the refit): its probabilities are "
        f"{abs(line['bias_after']):.3f} too {'high' if line['bias_after'] > 0 else 'low'} on average"
    ]


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
        chosen = ", chosen by the scores" if settings.interval == AUTO else ""
        where = f"{settings.words(self.interval)}{chosen}, on the {settings.gap_scale} scale"
        if not settings.is_constrained:
            return f"{self.prepared.headline}; no constraint; judged at {where}"
        outside = f"; outside the promise: {listed(self.excluded)}" if self.excluded else ""
        gap = f"{METRICS[settings.metric].title} gap at most {settings.max_gap:g}"
        return f"{self.prepared.headline}; {gap} at {where}{outside}"

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
        result, part = self.result, self.last[1]
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
            **self.prepared.record(),
            "settings": self.settings.record(),
            "interval": interval_record(self.interval),
            "outside_the_promise": self.excluded,
            "fit": {
                "status": result.status.value,
                "satisfied": result.satisfied,
                "objective": result.objective,
                "max_violation": result.max_violation,
                "exact_training_gap": result.gap,
                "obstacle": result.obstacle,
                "population": None if result.population is None else _population_record(result.population),
                "decision_threshold": self.model.classifier.decision_threshold_,
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
        return {**files, PICTURES[0]: self._rank_curves, PICTURES[1]: self._densities}

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
        curves = {
            f"{model} ({self.last[1]})": groups_curve(each.report.scored, n_points=_CURVE_POINTS)
            for model, each in self.compared.items()
        }
        return rank_curves(
            curves, reference=self.evaluation.reference, interval=self.evaluation.shared_interval
        )

    def _densities(self) -> Figure:
        report = self.evaluation.report
        axes = plot_group_densities(report.scored, threshold=report.threshold)
        figure: Figure = axes[0].figure
        return figure

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


def _parameters_record(model: TableModel) -> dict[str, Any]:
    """Return intercepts and coefficients by group, or how large the trees are."""
    classifier: Any = model.classifier
    if classifier.takes_tables:
        from partialfair.trees import ensemble_of

        n_leaves = ensemble_of(classifier.model_).n_leaves
        kind = type(classifier.model_).__name__
        size = {"n_trees": len(n_leaves), "n_leaves": sum(n_leaves)}
        return {"trees": {"kind": kind, **size, "alpha": classifier.alpha_}}
    # With group terms there is one row of coefficients for each group.
    blocks = classifier.groups_.tolist() if len(classifier.intercept_) > 1 else ["all"]
    # Intercepts may differ by group where coefficients do not.
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
