"""``partialfair train``: a table → a model with its preprocessing, judged on rows that were held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair.cli._gate import Gate
from partialfair.cli._intervals import AUTO
from partialfair.cli._judging import on_judged
from partialfair.cli._models import alpha_notes, check_alpha
from partialfair.cli._prepare import Prepared, Roles, prepare
from partialfair.cli._split import OUT_OF_FOLD
from partialfair.cli._trained import Judged, Trained, TrainSettings
from partialfair.cli._wording import as_options
from partialfair.cli.output import step
from partialfair.data.samples import Samples
from partialfair.estimators import PartialFairClassifier
from partialfair.estimators.path_parts import OutOfFold
from partialfair.exceptions import IdleThresholdWarning, InputError, OverfittedGapWarning
from partialfair.optimization.solvers import Record, Status
from partialfair.training.named_constraints import NO_CONSTRAINT
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats, IntervalLike

__all__ = ["check_settings", "train"]

_WITHOUT, _WITH = "without the constraint", "with the constraint"

_CHOSEN_BY_ROWS_HELD_OUT = (
    "the rows held out chose the model: their intervals below are those of one model looked at alone; the "
    "promise about new people allows for the choice"
)


def check_settings(settings: TrainSettings, gate: Gate | None) -> None:
    """Refuse settings that cannot be right, before any file is read."""
    settings.check()
    settings.check_savable()
    check_number(settings.max_gap, "--max-gap", low=0.0, high=settings.largest_gap)
    check_alpha(settings.alpha, "--alpha", settings.model)
    if not 0 <= settings.test_size < 1:
        raise InputError(f"--test-size must be at least 0 and below 1, not {settings.test_size:g}")
    if settings.for_new_people and settings.constraint == NO_CONSTRAINT:
        raise InputError("--population bounds a gap of new people, and --constraint none has none")
    _check_folds(settings, gate)
    if settings.for_new_people and settings.test_size == 0:
        raise InputError("--population certifies models on rows held out, so --test-size must be above 0")
    if gate is not None:
        gate.check()
        if gate.is_about_new_people and settings.test_size == 0 and settings.cv is None:
            raise InputError(
                f"--fail-on {gate.fail_on} is about people whom the model has not seen: it needs rows held "
                "out, so --test-size above 0"
            )


def _check_folds(settings: TrainSettings, gate: Gate | None) -> None:
    """Refuse, with ``--cv``, what is about one model."""
    if settings.cv is None:
        return
    check_count(settings.cv, "--cv", low=2)
    if settings.for_new_people:
        raise InputError(
            "--population promises the gap of one model, and --cv measures those of several; leave one out"
        )
    if gate is not None and gate.is_about_new_people:
        raise InputError(
            f"--fail-on {gate.fail_on} is about one model, and --cv measures several; leave one of them out"
        )


def train(path: Path, roles: Roles, settings: TrainSettings, gate: Gate | None = None) -> Trained:
    """Read, split, encode, fit with and without the constraint, and judge both."""
    prepared = prepare(path, roles, settings, settings.hold_out)
    notes, fit_notes, overfitted = [*prepared.notes], list[str](), list[str]()
    if settings.for_new_people:
        notes.append(_CHOSEN_BY_ROWS_HELD_OUT)
    with _collecting(notes, fit_notes, overfitted):
        models = _fit_models(prepared, settings)
        saved = list(models.values())[-1]
        interval = _interval(saved, prepared)
        every = [(name, part) for name in models for part in prepared.parts]
        scores = {which: _scores(which, models[which[0]], prepared, interval, notes) for which in every}
        judged = {}
        for name, part in every:
            # Notes are about the model and the rows that count, and about the threshold if the constraint is.
            with _muted((name, part) != every[-1], threshold=not settings.is_at_threshold):
                rows = prepared.parts[part]
                judged[name, part] = _judge(
                    f"{part}, {name}", scores[name, part], rows, settings, interval, gate
                )
    notes += [*alpha_notes(settings.alpha, saved), *_calibration_notes(saved, prepared)]
    if gate is not None:
        gate.check_measured(judged[every[-1]].report)
    model = prepared.model(saved, saved.result_.satisfied)
    once = (tuple(dict.fromkeys(said)) for said in (notes, fit_notes, overfitted))
    return Trained(settings, prepared, interval, model, judged, *once)


def _fit_models(prepared: Prepared, settings: TrainSettings) -> dict[str, Any]:
    """Fit an ordinary model and, if asked for, one with the constraint; the last one is saved."""
    rows = prepared.parts["training"]
    if settings.constraint == NO_CONSTRAINT:
        ordinary = settings.classifier(None, prepared.interval, alpha=settings.alpha)
        return {"without a constraint": _fit("without a constraint", ordinary, rows)}
    ordinary = settings.classifier(None, prepared.interval, alpha=settings.alpha)
    constrained = settings.classifier(
        settings.constraint, prepared.interval, alpha=settings.alpha, max_gap=settings.max_gap
    )
    if settings.for_new_people:
        held_out = prepared.parts["held out"]
        certifying = (
            held_out.X,
            held_out.y,
            held_out.groups,
            held_out.weights,
            held_out.clusters,
        )
        constrained.set_params(validation=certifying, confidence=settings.confidence)
    return {_WITHOUT: _fit(_WITHOUT, ordinary, rows), _WITH: _fit(_WITH, constrained, rows)}


def _fit(name: str, model: Any, rows: Samples) -> Any:
    """Fit one model, showing progress."""
    with step(f"training {name} on {rows.n:,} rows") as say:

        def show(line: Record) -> None:
            say(f"step {line.step}, objective {line.objective:.4g}, violation {line.violation:.1e}")

        model.set_params(callback=show)
        model.fit(rows.X, rows.y, sensitive_features=rows.groups, sample_weight=rows.weights)
    model.set_params(callback=None, validation=PartialFairClassifier().validation)  # no file holds rows
    if model.result_.status is Status.STOPPED:
        raise KeyboardInterrupt  # what was reached so far is not what was asked for, and is not saved
    return model


def _calibration_notes(model: Any, prepared: Prepared) -> list[str]:
    """Say what the constraint did to the calibration of trees, whose library gives the measure."""
    if not model.takes_tables or model.constraint is None:
        return []
    part = [name for name in prepared.parts if name != OUT_OF_FOLD][-1]
    rows = prepared.parts[part]
    table = model.calibration(rows.X, rows.y, sensitive_features=rows.groups, sample_weight=rows.weights)
    worst = table["error_after"].idxmax()
    line = table.loc[worst]
    suffers = "suffers" if line["error_after"] > line["error_before"] else "does not suffer"
    return [
        f"calibration by group, {part} rows: it {suffers}; group {worst} has the largest error, "
        f"{line['error_after']:.3f} ({line['error_before']:.3f} before the refit): its probabilities are "
        f"{abs(line['bias_after']):.3f} too {'high' if line['bias_after'] > 0 else 'low'} on average"
    ]


def _interval(model: Any, prepared: Prepared) -> IntervalLike:
    """Return the interval to judge on; the fit knows what "auto" chose."""
    if prepared.interval != AUTO:
        return prepared.interval
    interval: IntervalLike = model.result_.constraints[0].interval
    return interval


def _scores(
    which: tuple[str, str],
    model: PartialFairClassifier,
    prepared: Prepared,
    interval: IntervalLike,
    notes: list[str],
) -> Floats:
    """Return a model's scores of a part of the rows; out of fold those of models like it."""
    name, part = which
    rows = prepared.parts[part]
    if part != OUT_OF_FOLD:
        return model.decision_function(rows.X, rows.groups)
    assert prepared.folds is not None
    folded = OutOfFold(rows, prepared.folds)
    by_fold, n_broken = [], 0
    for k, fold in enumerate(folded.numbers):
        others, own = (
            rows.take(np.flatnonzero((prepared.folds == fold) == of_fold)) for of_fold in (False, True)
        )
        without = clone(model)
        if prepared.interval == AUTO and model.constraint is not None:
            without.set_params(interval=interval)  # chosen once, on all rows: others would not be comparable
        with _muted(True, threshold=True):  # the model on all rows has said it
            _fit(f"{name}, fold {k + 1} of {len(folded.numbers)}", without, others)
        n_broken += without.result_.satisfied is False
        by_fold.append(without.decision_function(own.X, own.groups))
    if n_broken:
        notes.append(
            f"in {n_broken} of {len(by_fold)} folds no model was found that keeps the promise in training"
        )
    return folded.on_one_scale(folded.joined(by_fold), thresholds=[0.0])


def _judge(
    which: str,
    scores: Floats,
    rows: Samples,
    settings: TrainSettings,
    interval: IntervalLike,
    gate: Gate | None,
) -> Judged:
    with step(f"measuring {rows.n:,} scores: {which}"):
        report = settings.once_merged.report(
            rows.y,
            scores,
            rows.groups,
            interval=on_judged(interval, rows.groups),
            threshold=0.0,  # where decisions are made
            positive=True,
            weights=rows.weights,
            clusters=rows.clusters,
            rank_within=settings.rank_within,
            also={settings.metric, settings.metric if gate is None else gate.metric},
        )
    return Judged(
        scores,
        float(accuracy_score(rows.y, scores > 0, sample_weight=rows.weights)),
        float(roc_auc_score(rows.y, scores, sample_weight=rows.weights)),
        report,
    )


@contextmanager
def _muted(everything: bool, *, threshold: bool) -> Iterator[None]:
    """Ignore all warnings, or those about the threshold, if that is wanted."""
    with warnings.catch_warnings():
        if everything:
            warnings.simplefilter("ignore")
        if threshold:
            warnings.simplefilter("ignore", IdleThresholdWarning)
        yield


@contextmanager
def _collecting(notes: list[str], fit_notes: list[str], overfitted: list[str]) -> Iterator[None]:
    """Turn warnings into notes, those about how a fit ended, and about too little data for it, apart."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        said = fit_notes if issubclass(warning.category, ConvergenceWarning) else notes
        if issubclass(warning.category, OverfittedGapWarning):
            said = overfitted
        said.append(as_options(str(warning.message)))
