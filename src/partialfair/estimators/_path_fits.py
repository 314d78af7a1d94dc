"""Fits of a path: one model after the other, each knowing the others, judged on rows held out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

from partialfair._clock import out_of_time
from partialfair._typing import Floats
from partialfair.constraints import Constraint
from partialfair.estimators._inputs import read_weights
from partialfair.estimators._path_rows import GivenRows
from partialfair.estimators._promise import exact_gap
from partialfair.groups import encode_groups
from partialfair.metrics.catalogue import Metric
from partialfair.metrics.partial import WorstGap
from partialfair.named_constraints import NamedConstraint, make_known
from partialfair.problems import Counts
from partialfair.solvers import Record, Status

__all__ = ["SCORINGS", "PathPoint", "chain", "judged_in_training", "with_gap"]

Scoring: TypeAlias = Callable[[Any, Any, Floats, Floats | None], float]

SCORINGS: dict[str, Scoring] = {
    # Not scikit-learn's, whose checks of labels would take longer than the fits, over all resamples.
    "accuracy": lambda y, predicted, scores, w: float(np.average(np.asarray(y) == predicted, weights=w)),
    "balanced_accuracy": lambda y, predicted, scores, w: float(
        balanced_accuracy_score(y, predicted, sample_weight=w)
    ),
    "roc_auc": lambda y, predicted, scores, w: float(roc_auc_score(y, scores, sample_weight=w)),
    "r2": lambda y, predicted, scores, w: float(r2_score(y, predicted, sample_weight=w)),
}
"""How good a model is, higher being better: functions of labels, predictions, scores and weights."""

_N_RESAMPLES = 200
_TINY_TIME = 1e-3
"""Seconds that a fit is given at least: it needs a limit above 0."""


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One model of the path.

    Attributes
    ----------
    max_gap, alpha
        What it was asked for; ``max_gap`` is infinite for the model without constraint.
    model
        The fitted estimator; ``model.result_`` has its status and certificate.
    constraint
        What it is judged by, with an interval that was chosen automatically filled in.
    training_gap
        Its exact gap on the rows it was trained on.
    scores, predictions
        On the validation rows.
    score, error
        How good it is there, and the standard error of that.
    seconds
        What the fit took.
    """

    max_gap: float
    alpha: float
    model: Any
    constraint: Constraint
    training_gap: float
    scores: Floats
    predictions: npt.NDArray[Any]
    score: float
    error: float
    seconds: float

    @property
    def unconstrained(self) -> bool:
        """Whether this is the model without constraint."""
        return self.max_gap == float("inf")

    @property
    def objective(self) -> float:
        """Loss and penalty on the rows it was trained on."""
        return float(self.model.result_.objective)

    @property
    def allowed(self) -> str:
        """What it was asked for, in words."""
        return "no constraint" if self.unconstrained else f"max gap {self.max_gap:g}"


def chain(
    estimator: Any,
    train: GivenRows,
    held_out: GivenRows,
    gaps: list[float],
    alpha: float,
    scoring: str,
    say: Callable[[PathPoint], None],
    known: tuple[NamedConstraint, Metric],
    *,
    moment: float = float("inf"),
    points: list[PathPoint] | None = None,
) -> list[PathPoint]:
    """Fit the models of one alpha, without constraint and then from loose to strict, each from the last.

    They may have to end at a moment, all of them. Who brings the list of ``points`` has those that were
    finished when the chain ends with KeyboardInterrupt, and the one that was interrupted.
    """
    make_known(*known)
    points = [] if points is None else points
    settings = estimator.get_params(deep=False)
    # Solvers given as objects, which may need constraints, and their steps are not for the first.
    freed = {"constraint": None, "solver": "auto", "max_iter": None}
    model = clone(estimator).set_params(alpha=alpha, warm_start=True, **freed)
    for gap in [float("inf"), *gaps]:
        if points and out_of_time(moment):
            return points
        if points:
            model = deepcopy(model).set_params(**{name: settings[name] for name in freed})
            model.set_params(**with_gap(model, gap))
        if moment < float("inf"):
            model.set_params(time_limit=max(moment - time.monotonic(), _TINY_TIME))
        point, interrupted = _fitted(estimator, model, gap, points, train, held_out, scoring)
        points.append(point)
        if interrupted:
            raise KeyboardInterrupt  # a fit keeps its best point, a path ends
        say(point)
    # A stricter model that costs less is a better answer to the looser question: that one is asked again.
    for k in range(len(points) - 1, 1, -1):
        looser, stricter = points[k - 1], points[k]
        if out_of_time(moment):
            return points
        if stricter.model.result_.promise_kept and stricter.objective < looser.objective:
            model = deepcopy(looser.model)
            again, interrupted = _fitted(estimator, model, looser.max_gap, points, train, held_out, scoring)
            if interrupted:
                raise KeyboardInterrupt
            points[k - 1] = again
            say(again)
    return points


def _fitted(
    estimator: Any,
    model: Any,
    gap: float,
    others: Sequence[PathPoint],
    train: GivenRows,
    held_out: GivenRows,
    scoring: str,
) -> tuple[PathPoint, bool]:
    """Fit one model of a path, which knows the others, and judge it; say whether Ctrl-C ended the fit."""
    start = time.perf_counter()
    listener = _Listener(estimator.callback)
    constrained = [point.model for point in others if not point.unconstrained]
    model._neighbours = tuple(other._parameters for other in constrained)
    model.set_params(callback=listener)
    model.fit(train.X, train.y, sensitive_features=train.groups, sample_weight=train.weights)
    model.set_params(callback=estimator.callback)
    del model._neighbours
    interrupted = model.result_.status is Status.STOPPED and not listener.stopped
    if gap < float("inf"):
        (constraint,), training_gap = model.result_.constraints, model.result_.gap
    else:
        constraint, worst = judged_in_training(estimator, model, train)
        training_gap = worst.value
    seconds = time.perf_counter() - start
    point = _point(model, gap, float(model.alpha), constraint, training_gap, held_out, scoring, seconds)
    return point, interrupted


@dataclass(eq=False)
class _Listener:
    """Knows whether it was the estimator's callback that stopped a fit, or the keyboard."""

    callback: Callable[[Record], bool | None] | None
    stopped: bool = False

    def __call__(self, line: Record) -> bool:
        self.stopped = bool(self.callback is not None and self.callback(line))
        return self.stopped


def judged_in_training(estimator: Any, model: Any, train: GivenRows) -> tuple[Constraint, WorstGap]:
    """Return the constraint that the estimator states, and its exact gap under a model without any."""
    weights = read_weights(train.weights, train.n)
    present = np.flatnonzero(weights > 0)
    rows = train.take(present)
    sign = 1.0 if estimator.higher_is_better else -1.0
    groups = encode_groups(rows.groups, missing="ignore")
    positive = None if is_regressor(model) else np.asarray(rows.y) == model.classes_[1]
    (stated,) = estimator._read_constraints()
    scores = _scores(model, rows)
    counts = Counts(scores, weights[present], groups.codes, positive)
    return exact_gap(stated, scores, counts, groups.labels, estimator.min_group_size, sign)


def with_gap(model: Any, gap: float) -> dict[str, Any]:
    """Return the settings by which an estimator allows that gap."""
    if isinstance(model.constraint, str):
        return {"max_gap": gap}
    return {"constraint": replace(model.constraint, max_gap=gap)}


def _scores(model: Any, rows: GivenRows) -> Floats:
    score = model.predict if is_regressor(model) else model.decision_function
    return np.asarray(score(rows.X, rows.groups))


def _point(
    model: Any,
    gap: float,
    alpha: float,
    constraint: Constraint,
    training_gap: float,
    held_out: GivenRows,
    scoring: str,
    seconds: float,
) -> PathPoint:
    """Judge a model on the rows held out; the standard error is a bootstrap's."""
    scores = _scores(model, held_out)
    predictions = scores if is_regressor(model) else model.classes_[(scores > 0).astype(np.intp)]
    y = np.asarray(held_out.y)
    n = len(y)
    weights = np.ones(n) if held_out.weights is None else np.asarray(held_out.weights, dtype=float)
    measure = SCORINGS[scoring]
    rng = np.random.default_rng(0)
    drawn = [
        measure(y, predictions, scores, weights * np.bincount(rng.integers(n, size=n), minlength=n))
        for _ in range(_N_RESAMPLES)
    ]
    value = measure(y, predictions, scores, weights)
    error = float(np.std(drawn))
    return PathPoint(gap, alpha, model, constraint, training_gap, scores, predictions, value, error, seconds)
