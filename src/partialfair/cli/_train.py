"""``partialfair train``: from a table to a model with its preprocessing, judged on rows it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair._checks import check_number
from partialfair.cli._audit import Gate
from partialfair.cli._output import METRIC_TITLES, step
from partialfair.cli._prepare import NO_CONSTRAINT, HoldOut, Roles, Rows, prepare
from partialfair.cli._trained import Judged, Training, TrainSettings
from partialfair.estimators import PartialFairClassifier
from partialfair.exceptions import InputError
from partialfair.metrics import fairness_report
from partialfair.solvers import Record, Status

__all__ = ["check_settings", "train"]


def check_settings(settings: TrainSettings, gate: Gate | None) -> None:
    """Refuse settings that cannot be right, before any file is read."""
    settings.check()
    check_number(settings.max_gap, "--max-gap", low=0.0, high=1.0)
    check_number(settings.alpha, "--alpha", low=0.0)
    if not 0 <= settings.test_size < 1:
        raise InputError(f"--test-size must be at least 0 and below 1, not {settings.test_size:g}")
    if gate is not None:
        check_number(gate.limit, "--fail-above", low=0.0, high=1.0)
        if gate.metric not in METRIC_TITLES:
            raise InputError(f"--fail-metric must be one of {', '.join(METRIC_TITLES)}, not {gate.metric}")


def train(path: Path, roles: Roles, settings: TrainSettings) -> Training:
    """Read, split, encode, fit with and without the constraint, and judge both."""
    hold_out = HoldOut("--test-size", settings.test_size, settings.seed)
    prepared = prepare(path, roles, settings, hold_out)
    parts, notes = prepared.parts, [*prepared.notes]
    models: dict[str, PartialFairClassifier] = {}
    with _collecting(notes):
        for name, constraint in _models(settings):
            models[name] = _fit(name, constraint, settings, parts["training"])
        judged = {
            (name, part): _judge(model, rows, settings)
            for name, model in models.items()
            for part, rows in parts.items()
        }
    model = prepared.model(list(models.values())[-1])
    return Training(path, settings, prepared, model, judged, tuple(dict.fromkeys(notes)))


def _models(settings: TrainSettings) -> list[tuple[str, str | None]]:
    """Return the names and constraints of the models to fit; the last one is saved."""
    if settings.constraint == NO_CONSTRAINT:
        return [("without a constraint", None)]
    return [("without the constraint", None), ("with the constraint", settings.constraint)]


def _fit(name: str, constraint: str | None, settings: TrainSettings, rows: Rows) -> PartialFairClassifier:
    """Fit one model, showing progress."""
    stated = {} if constraint is None else {"max_gap": settings.max_gap}
    model = settings.classifier(constraint, alpha=settings.alpha, **stated)
    with step(f"training {name} on {len(rows.positive):,} rows") as say:

        def show(line: Record) -> None:
            say(f"step {line.step}, objective {line.objective:.4g}, violation {line.violation:.1e}")

        model.set_params(callback=show)
        model.fit(rows.X, rows.positive, sensitive_features=rows.groups, sample_weight=rows.weights)
    if model.result_.status is Status.STOPPED:
        raise KeyboardInterrupt  # a model that was not trained to the end is not saved
    model.set_params(callback=None)
    return model


def _judge(model: PartialFairClassifier, rows: Rows, settings: TrainSettings) -> Judged:
    with step(f"measuring {len(rows.positive):,} scores"):
        scores = model.decision_function(rows.X, rows.groups)
        report = fairness_report(
            rows.positive,
            scores,
            sensitive_features=rows.groups,
            interval=settings.interval,
            threshold=0.0,  # where decisions are made
            confidence=settings.confidence,
            gap_scale=settings.gap_scale,
            pos_label=True,
            sample_weight=rows.weights,
            random_state=settings.seed,
        )
    return Judged(
        scores,
        float(accuracy_score(rows.positive, scores > 0, sample_weight=rows.weights)),
        float(roc_auc_score(rows.positive, scores, sample_weight=rows.weights)),
        report,
    )


@contextmanager
def _collecting(notes: list[str]) -> Iterator[None]:
    """Turn warnings into notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes.extend(str(warning.message) for warning in caught)
