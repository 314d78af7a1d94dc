"""``partialfair train``: read, split, encode, fit without and with the constraint, evaluate both."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair.cli.evaluation import Gate, ScoreEvaluation, compare_scores, evaluate
from partialfair.cli.intervals import AUTO, interval_among
from partialfair.cli.output import as_options, step
from partialfair.cli.prepare import OUT_OF_FOLD, TRAINING, Prepared, prepare
from partialfair.cli.settings import TrainSettings
from partialfair.cli.train_report import TrainReport
from partialfair.cli.training import (
    Notes,
    build_estimator,
    chosen_alpha_note,
    fit_path,
    fit_population,
    tuned_threshold_note,
)
from partialfair.cli.verdict import Change
from partialfair.data.groups import group_name
from partialfair.data.samples import Samples
from partialfair.exceptions import ThresholdOutsideIntervalWarning
from partialfair.metrics.paired import GapDifference
from partialfair.metrics.report import FairnessReport
from partialfair.utils.typing import Floats, IntervalLike

_WITHOUT, _WITH = "without the constraint", "with the constraint"

_CHOSEN_ON_HELD_OUT_ROWS = (
    "the model was chosen on the held-out rows: the confidence intervals below are not corrected for this "
    "choice; the population guarantee is"
)


def train(settings: TrainSettings) -> TrainReport:
    """Read, split, encode, fit without and with the constraint, and evaluate both."""
    gate, estimator = Gate.of(settings), build_estimator(settings)
    prepared = prepare(settings, estimator)
    # Notes of the preparation come first.
    notes = Notes(general=[*prepared.notes])
    names = (_WITHOUT, _WITH) if settings.is_constrained else ("without a constraint",)
    out_of_fold: list[Floats | None] = [None] * len(names)
    with notes.collecting():
        if settings.population:
            notes.general.append(_CHOSEN_ON_HELD_OUT_ROWS)
            models = list(fit_population(prepared, settings, estimator))
        else:
            # A path of one limit, or of none.
            points = fit_path(prepared, settings, estimator, notes, small_groups="keep").points
            models = [point.model for point in points]
            if settings.cv is not None:
                out_of_fold = [point.scores for point in points]
            notes.general += _broken_folds(points[-1].fold_models)
        saved = models[-1]
        # "auto" is replaced by the interval that the fit chose.
        interval: Any = prepared.interval
        if interval == AUTO:
            interval = saved.result_.constraints[0].interval
        evaluations: dict[tuple[str, str], ScoreEvaluation] = {}
        for name, model, unseen_scores in zip(names, models, out_of_fold, strict=True):
            for part, rows in prepared.parts.items():
                scores = unseen_scores if part == OUT_OF_FOLD else None
                if scores is None:
                    scores = model.decision_function(rows.X, rows.groups)
                counts = model is saved and part == list(prepared.parts)[-1]
                with step(f"measuring {rows.n:,} scores: {part}, {name}"):
                    evaluations[name, part] = _evaluate(
                        settings, rows, scores, model.decision_threshold_, interval, counts=counts
                    )
        change, last = Change(), list(prepared.parts)[-1]
        if settings.is_constrained:
            before, after = evaluations[_WITHOUT, last], evaluations[_WITH, last]
            with step("comparing the models"):
                difference = None
                if last != TRAINING:
                    difference = _compare(
                        settings, prepared.parts[last], before, after.scores, saved.decision_threshold_
                    )
                change = Change.between(before.report, after.report, difference)
    if settings.alphas[0] == AUTO:
        notes.general.append(chosen_alpha_note(saved))
    if settings.decision_threshold == "tune":
        notes.general.append(tuned_threshold_note(saved))
    if saved.result_.advice is not None:
        notes.general.append(as_options(saved.result_.advice))
    notes.general += _calibration_notes(saved, prepared, list(evaluations.values())[-1].report)
    if gate is not None:
        gate.check_measured(list(evaluations.values())[-1].report)
    table_model = prepared.model(saved, saved.result_.satisfied)
    return TrainReport(settings, gate, prepared, interval, table_model, evaluations, change, notes)


def _broken_folds(fold_models: Sequence[Any]) -> list[str]:
    """Return a note on the folds in which the constraint is not satisfied."""
    n_broken = sum(model.result_.satisfied is False for model in fold_models)
    if not n_broken:
        return []
    return [
        f"in {n_broken} of {len(fold_models)} folds no feasible model was found: the constraint is violated "
        "in training"
    ]


def _evaluate(
    settings: TrainSettings,
    rows: Samples,
    scores: Floats,
    threshold: float,
    interval: IntervalLike,
    *,
    counts: bool,
) -> ScoreEvaluation:
    """Evaluate scores of some rows, with decisions at a threshold; warnings are kept where ``counts``."""
    with warnings.catch_warnings():
        if not counts:
            warnings.simplefilter("ignore")
        if not settings.is_at_threshold:
            warnings.simplefilter("ignore", ThresholdOutsideIntervalWarning)
        evaluation = evaluate(
            settings,
            scores,
            rows.groups,
            interval=interval_among(interval, rows.groups),
            labels=rows.y,
            positive=True,
            threshold=threshold,
            rank_within=settings.rank_within,
            weights=rows.weights,
            clusters=rows.clusters,
            # Prepared rows have their small groups merged already.
            small_groups="list" if settings.small_groups == "merge" else None,
            also={settings.metric, *([] if settings.fail_above is None else [settings.gate_metric])},
        )
    return replace(
        evaluation,
        accuracy=float(accuracy_score(rows.y, scores > threshold, sample_weight=rows.weights)),
        auc=float(roc_auc_score(rows.y, scores, sample_weight=rows.weights)),
    )


def _compare(
    settings: TrainSettings, rows: Samples, first: ScoreEvaluation, scores: Floats, threshold: float
) -> GapDifference | None:
    """Return the difference of the gaps of two scores; None if one of the gaps is undefined.

    Each model has its own decision threshold.
    """
    assert first.report.threshold is not None
    compared = compare_scores(
        settings,
        first,
        scores,
        labels=rows.y,
        positive=True,
        threshold=(first.report.threshold, threshold),
        rank_within=settings.rank_within,
        clusters=rows.clusters,
        metrics=[settings.metric],
    )
    return compared.metrics[0] if compared.metrics else None


def _calibration_notes(model: Any, prepared: Prepared, report: FairnessReport) -> list[str]:
    """Return a note on how the constraint changed the calibration of trees.

    Groups that are too small to evaluate are left out: their errors are mostly noise.
    """
    if not model.takes_tables or model.constraint is None:
        return []
    part = [name for name in prepared.parts if name != OUT_OF_FOLD][-1]
    rows = prepared.parts[part]
    table = model.calibration(rows.X, rows.y, sensitive_features=rows.groups, sample_weight=rows.weights)
    evaluated = [group_name(group.group) for group in report.groups]
    table = table.loc[[name for name in table.index if name in evaluated]]
    # The note is on the group with the largest calibration error.
    worst = table["error_after"].idxmax()
    line = table.loc[worst]
    suffers = "suffers" if line["error_after"] > line["error_before"] else "does not suffer"
    return [
        f"calibration by group, {part} rows: it {suffers}; group {worst} has the largest error, "
        f"{line['error_after']:.3f} ({line['error_before']:.3f} before the refit): its probabilities are "
        f"{abs(line['bias_after']):.3f} too {'high' if line['bias_after'] > 0 else 'low'} on average"
    ]
