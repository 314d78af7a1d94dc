"""Fits of a path: one model after the other, each knowing the others, and how good they are on new rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import is_regressor
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score

from partialfair.constraints import Constraint
from partialfair.data.samples import Samples
from partialfair.metrics.catalogue import Metric
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import WeightedScores
from partialfair.optimization.solvers import Record, Status
from partialfair.training.named_constraints import NamedConstraint, make_known
from partialfair.training.path_memory import PathMemory, PathModel
from partialfair.training.promise import exact_gap
from partialfair.utils.clock import out_of_time
from partialfair.utils.typing import Floats

__all__ = [
    "SCORINGS",
    "TINY_TIME",
    "FittedModel",
    "Known",
    "Listener",
    "PathPoint",
    "chain",
    "judged_in_training",
    "judged_on",
    "point_of",
    "predictions_of",
    "scores_of",
    "with_gap",
]

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
TINY_TIME = 1e-3
"""Seconds that a fit is given at least: it needs a limit above 0."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """One model of a path as it was trained; attributes are those of `PathPoint`."""

    max_gap: float
    alpha: float
    model: Any
    constraint: Constraint
    training_gap: float
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


@dataclass(frozen=True, eq=False)
class PathPoint(FittedModel):
    """One model of the path, and how good it is on rows that it was not trained on.

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
    seconds
        What the fit took; with ``cv`` all fits together.
    scores, predictions
        On the validation rows. With ``cv`` out of fold: of every row by the model that has not seen it, the
        scores on a scale that the folds share (`partialfair.estimators.folds`).
    score, error
        How good these are, and the standard error of that.
    fold_models
        With ``cv`` the models whose scores they are, by fold; else none.
    """

    scores: Floats
    predictions: npt.NDArray[Any]
    score: float
    error: float
    fold_models: tuple[Any, ...] = ()


Model = TypeVar("Model", bound=FittedModel)
Known: TypeAlias = tuple[NamedConstraint, Metric]


def chain(
    estimator: Any,
    train: Samples,
    gaps: Sequence[float],
    alpha: float | None,
    judged: Callable[[FittedModel], Model],
    say: Callable[[Model], None],
    known: Known,
    *,
    moment: float = float("inf"),
    points: list[Model] | None = None,
) -> list[Model]:
    """Fit the models of one alpha, without constraint and then from loose to strict, each from the last.

    Without an alpha it is the estimator's own. They may have to end at a moment, all of them. Who brings the
    list of ``points`` has those that were finished when the chain ends with KeyboardInterrupt, and the one
    that was interrupted.
    """
    make_known(*known)
    memory, answers = PathMemory(), list[PathModel | None]()
    points = [] if points is None else points
    settings = estimator.get_params(deep=False)
    # Solvers given as objects, which may need constraints, and their steps are not for the first.
    freed = {"constraint": None, "solver": "auto", "max_iter": None}
    model = estimator._copy_unfitted().set_params(warm_start=True, **freed)
    if alpha is not None:
        model.set_params(alpha=alpha)
    for gap in [float("inf"), *gaps]:
        if points and out_of_time(moment):
            return points
        if points:
            model = deepcopy(model).set_params(**{name: settings[name] for name in freed})
            model.set_params(**with_gap(model, gap))
        if moment < float("inf"):
            model.set_params(time_limit=max(moment - time.monotonic(), TINY_TIME))
        earlier = memory.models
        fitted, interrupted = _fitted(estimator, model, gap, memory, train)
        points.append(judged(fitted))
        if interrupted:
            raise KeyboardInterrupt  # a fit keeps its best point, a path ends
        say(points[-1])
        answers.append(next((one for one in memory.models if one not in earlier), None))
    # Candidates of one fit, whether feasible for its own limit or not, may be better answers for another.
    for k, answer in reversed(list(enumerate(answers))):
        if out_of_time(moment):
            return points
        if answer is not None and memory.has_better(answer):
            again, interrupted = _fitted(
                estimator, deepcopy(points[k].model), points[k].max_gap, memory, train
            )
            if interrupted:
                raise KeyboardInterrupt
            points[k] = judged(again)
            say(points[k])
    return points


def _fitted(
    estimator: Any, model: Any, gap: float, memory: PathMemory, train: Samples
) -> tuple[FittedModel, bool]:
    """Fit one model of a path, which knows the others; say whether Ctrl-C ended the fit."""
    start = time.perf_counter()
    listener = Listener(estimator.callback)
    model.set_params(callback=listener)
    deadline = model._deadline()
    model._check_settings()
    model._fit_samples(train, model._read_task(), deadline, memory=memory)
    model.set_params(callback=estimator.callback)
    interrupted = model.result_.status is Status.STOPPED and not listener.stopped
    if gap < float("inf"):
        (constraint,), training_gap = model.result_.constraints, model.result_.gap
    else:
        constraint, worst = judged_in_training(estimator, model, train)
        training_gap = worst.value
    seconds = time.perf_counter() - start
    return FittedModel(gap, float(model.alpha), model, constraint, training_gap, seconds), interrupted


@dataclass(eq=False)
class Listener:
    """Knows whether it was the estimator's callback that stopped a fit, or the keyboard."""

    callback: Callable[[Record], bool | None] | None
    stopped: bool = False

    def __call__(self, line: Record) -> bool:
        """Call the callback, and remember whether it stops the fit."""
        self.stopped = bool(self.callback is not None and self.callback(line))
        return self.stopped


def judged_in_training(estimator: Any, model: Any, train: Samples) -> tuple[Constraint, WorstGap]:
    """Return the constraint that the estimator states, and its exact gap under a model without any."""
    train = train.with_weight()
    sign = 1.0 if estimator.higher_is_better else -1.0
    positive = None if is_regressor(model) else train.y == model.classes_[1]
    (stated,) = estimator._read_constraints()
    scores = scores_of(model, train)
    counts = WeightedScores(scores, train.row_weights, train.groups.codes, positive)
    return exact_gap(stated, scores, counts, train.groups.labels, estimator.min_group_size, sign)


def with_gap(model: Any, gap: float) -> dict[str, Any]:
    """Return the settings by which an estimator allows that gap."""
    if isinstance(model.constraint, str):
        return {"max_gap": gap}
    return {"constraint": replace(model.constraint, max_gap=gap)}


def scores_of(model: Any, samples: Samples) -> Floats:
    """Return the scores of a classifier, or the predictions of a regressor."""
    return np.asarray(model._score_samples(samples.X, samples.groups))


def judged_on(held_out: Samples, scoring: str) -> Callable[[FittedModel], PathPoint]:
    """Return a function that says how good a model is on rows held out."""

    def judged(fitted: FittedModel) -> PathPoint:
        scores = scores_of(fitted.model, held_out)
        return point_of(fitted, held_out, scores, predictions_of(fitted.model, scores), scoring)

    return judged


def predictions_of(model: Any, scores: Floats) -> npt.NDArray[Any]:
    """Return what a model predicts by its scores."""
    return scores if is_regressor(model) else np.asarray(model.classes_[(scores > 0).astype(np.intp)])


def point_of(
    fitted: FittedModel, rows: Samples, scores: Floats, predictions: npt.NDArray[Any], scoring: str
) -> PathPoint:
    """Say how good scores of rows are; the standard error is a bootstrap's, of clusters if there are any."""
    y, weights = rows.y, rows.row_weights
    together = np.arange(rows.n) if rows.clusters is None else rows.clusters
    n_drawn = int(together.max(initial=-1)) + 1
    measure = SCORINGS[scoring]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(_N_RESAMPLES):
        times = np.bincount(rng.integers(n_drawn, size=n_drawn), minlength=n_drawn)
        drawn.append(measure(y, predictions, scores, weights * times[together]))
    value = measure(y, predictions, scores, weights)
    told = {name: getattr(fitted, name) for name in FittedModel.__dataclass_fields__}
    return PathPoint(**told, scores=scores, predictions=predictions, score=value, error=float(np.std(drawn)))
