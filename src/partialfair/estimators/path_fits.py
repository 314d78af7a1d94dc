"""The fits of a path, each of which knows all earlier ones, and their evaluation on rows not trained on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import is_regressor
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.utils.parallel import Parallel, delayed

from partialfair.constraints.base import Constraint
from partialfair.data.samples import Samples
from partialfair.estimators.held_out import HeldOut, OutOfFold
from partialfair.estimators.parameters import read_deadline, read_task
from partialfair.metrics.catalogue import Metric
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import WeightedScores
from partialfair.optimization.solvers import Record, Status
from partialfair.training.named_constraints import NamedConstraint, make_known
from partialfair.training.settings import EarlierFits
from partialfair.training.statement import measure_gap
from partialfair.utils.clock import out_of_time
from partialfair.utils.typing import Floats

Scoring: TypeAlias = Callable[[Any, Any, Floats, Floats | None], float]

SCORINGS: dict[str, Scoring] = {
    # Not scikit-learn's functions, whose label checks would take longer over all resamples than the fits.
    "accuracy": lambda y, predicted, scores, w: float(np.average(np.asarray(y) == predicted, weights=w)),
    "balanced_accuracy": lambda y, predicted, scores, w: float(
        balanced_accuracy_score(y, predicted, sample_weight=w)
    ),
    "roc_auc": lambda y, predicted, scores, w: float(roc_auc_score(y, scores, sample_weight=w)),
    "r2": lambda y, predicted, scores, w: float(r2_score(y, predicted, sample_weight=w)),
}
"""Scores of models, higher is better: functions of labels, predictions, scores and weights."""

_N_RESAMPLES = 200
TINY_TIME = 1e-3
"""Smallest time limit of a fit in seconds: it must be above 0."""


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """One trained model of a path; its attributes are those of `PathPoint`."""

    max_gap: float
    alpha: float
    model: Any
    constraint: Constraint
    training_gap: float
    seconds: float

    @property
    def unconstrained(self) -> bool:
        """Whether this is the unconstrained model."""
        return self.max_gap == float("inf")

    @property
    def objective(self) -> float:
        """Loss and penalty on the training rows."""
        return float(self.model.result_.objective)

    @property
    def allowed(self) -> str:
        """The limit as text."""
        return "no constraint" if self.unconstrained else f"max gap {self.max_gap:g}"

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.allowed}, alpha {self.alpha:g}, training gap "
            f"{self.training_gap:.3g}, status {self.model.result_.status}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PathPoint(FittedModel):
    """One model of a path, and its evaluation on rows that were not used in training.

    Attributes
    ----------
    max_gap, alpha : float
        Limit and penalty; ``max_gap`` is infinite for the unconstrained model.
    model : estimator
        The fitted estimator; ``model.result_`` has its status and KKT certificate.
    constraint : Constraint
        The constraint by which it is evaluated, with the interval if that was chosen automatically.
    training_gap : float
        Exact gap on the training rows.
    seconds : float
        Run time of the fit; with ``cv`` of all fits together.
    scores, predictions : ndarray of shape (n_samples,)
        Scores and predictions on the validation rows. With ``cv`` they are out of fold, with scores on a
        scale that is common to the folds (`partialfair.estimators.held_out`).
    score, error : float
        Score of these predictions, and its standard error.
    fold_models : tuple of estimators
        With ``cv`` the models that scored each fold; empty otherwise.
    """

    scores: Floats
    predictions: npt.NDArray[Any]
    score: float
    error: float
    fold_models: tuple[Any, ...] = ()


Model = TypeVar("Model", bound=FittedModel)


@dataclass(frozen=True)
class VariedConstraint:
    """The constraint whose limit a path varies.

    Attributes
    ----------
    stated
        The constraint with any limit.
    record, metric
        Its name and the metric that it bounds, which other processes may not know.
    """

    stated: Constraint
    record: NamedConstraint
    metric: Metric


def fit_chain(
    estimator: Any,
    train: Samples,
    gaps: Sequence[float],
    alpha: float | None,
    evaluate: Callable[[FittedModel], Model],
    say: Callable[[Model], None],
    varied: VariedConstraint,
    *,
    deadline: float = float("inf"),
    points: list[Model] | None = None,
) -> list[Model]:
    """Fit the models of one alpha: unconstrained, then with decreasing limits, each warm-started.

    Parameters
    ----------
    estimator, train, gaps
        The estimator, the training rows and the limits in decreasing order.
    alpha
        The penalty; None uses the estimator's.
    evaluate, say
        ``evaluate`` makes a point of a fitted model, ``say`` is called with every point.
    varied
        The constraint whose limit varies.
    deadline
        Time at which all fits have to end.
    points
        A list to extend. If the chain ends with KeyboardInterrupt, it has the finished models and the one
        that was interrupted.
    """
    # Another process may not have a user's constraint registered.
    make_known(varied.record, varied.metric)
    earlier, answers = EarlierFits(), []
    points = [] if points is None else points
    settings = estimator.get_params(deep=False)
    # The unconstrained fit uses neither solver objects, which may need constraints, nor their steps.
    freed = {"constraint": None, "outside": "free", "solver": "auto", "max_iter": None}
    model = estimator._copy_unfitted().set_params(warm_start=True, **freed)
    if alpha is not None:
        model.set_params(alpha=alpha)
    # Copies of models have copies of the callback; each fit must call the original.
    stated, callback = varied.stated, estimator.callback
    for gap in [float("inf"), *gaps]:
        if points and out_of_time(deadline):
            return points
        if points:
            # Copied, because the next warm-started fit would change it.
            model = deepcopy(model).set_params(**{name: settings[name] for name in freed})
            model.set_params(**with_gap(model, gap))
        if deadline < float("inf"):
            model.set_params(time_limit=max(deadline - time.monotonic(), TINY_TIME))
        # New models after the fit mean that it returned an answer.
        before = earlier.models
        fitted, earlier, interrupted = _fit_model(stated, model, gap, earlier, train, callback)
        points.append(evaluate(fitted))
        if interrupted:
            raise KeyboardInterrupt  # a fit returns its best model on Ctrl-C, a path ends
        say(points[-1])
        answers.append(next((one for one in earlier.models if one not in before), None))
    # A candidate of one fit, feasible for its limit or not, may be the best answer for another limit.
    for k, answer in reversed(list(enumerate(answers))):
        if out_of_time(deadline):
            return points
        if answer is not None and earlier.has_better(answer):
            model, gap = deepcopy(points[k].model), points[k].max_gap
            fitted, earlier, interrupted = _fit_model(stated, model, gap, earlier, train, callback)
            if interrupted:
                raise KeyboardInterrupt
            points[k] = evaluate(fitted)
            say(points[k])
    return points


def _fit_model(
    stated: Constraint, model: Any, gap: float, earlier: EarlierFits, train: Samples, callback: Any
) -> tuple[FittedModel, EarlierFits, bool]:
    """Fit one model of a path, given the others; return also whether Ctrl-C ended the fit."""
    begun = time.perf_counter()
    # A fit returns its best model on Ctrl-C and on a callback that returns True; only Ctrl-C ends a path.
    listener = Listener(callback)
    model.set_params(callback=listener)
    deadline = read_deadline(model)
    model._check_settings()
    constraints = () if gap == float("inf") else (replace(stated, max_gap=gap),)
    earlier = model._fit_samples(train, read_task(model, constraints), deadline, earlier=earlier)
    model.set_params(callback=callback)
    interrupted = model.result_.status is Status.STOPPED and not listener.stopped
    if gap < float("inf"):
        (constraint,), training_gap = model.result_.constraints, model.result_.gap
    else:
        constraint, worst = measure_training_gap(stated, model, train)
        training_gap = worst.value
    seconds = time.perf_counter() - begun
    fitted = FittedModel(gap, float(model.alpha), model, constraint, training_gap, seconds)
    return fitted, earlier, interrupted


@dataclass(eq=False)
class Listener:
    """Record whether the estimator's callback stopped a fit, rather than the keyboard."""

    callback: Callable[[Record], bool | None] | None
    stopped: bool = False

    def __call__(self, line: Record) -> bool:
        """Call the callback, and store whether it stops the fit."""
        self.stopped = bool(self.callback is not None and self.callback(line))
        return self.stopped


def measure_training_gap(stated: Constraint, model: Any, train: Samples) -> tuple[Constraint, WorstGap]:
    """Return a constraint with its interval, and its exact gap for a model that was fitted without it."""
    train = train.with_weight()
    positive = None if is_regressor(model) else train.y == model.classes_[1]
    return measure_gap(
        stated,
        WeightedScores(scores_of(model, train), train.row_weights, train.groups.codes, positive),
        train.groups.labels,
        min_group_size=model.min_group_size,
        higher_is_better=model.higher_is_better,
    )


def with_gap(model: Any, gap: float) -> dict[str, Any]:
    """Return the parameters that give an estimator this limit."""
    if isinstance(model.constraint, str):
        return {"max_gap": gap}
    return {"constraint": replace(model.constraint, max_gap=gap)}


def scores_of(model: Any, samples: Samples) -> Floats:
    """Return the scores of a classifier, or the predictions of a regressor."""
    return np.asarray(model._score_samples(samples.X, samples.groups))


def evaluate_point(
    fitted: FittedModel, rows: Samples, scores: Floats, raw: Floats, scoring: str
) -> PathPoint:
    """Evaluate the scores of rows; the standard error is from a bootstrap, of clusters if there are any.

    Predictions come from ``raw``, the scores before those of several folds were aligned.
    """
    model, y, weights = fitted.model, rows.y, rows.row_weights
    predictions = raw
    if not is_regressor(model):
        predictions = np.asarray(model.classes_[(raw > model.decision_threshold_).astype(np.intp)])
    # Whole clusters are drawn, because the rows of a cluster are not independent.
    together = np.arange(rows.n) if rows.clusters is None else rows.clusters
    n_drawn = int(together.max(initial=-1)) + 1
    measure = SCORINGS[scoring]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(_N_RESAMPLES):
        # A resample as weights: how often each cluster or row was drawn.
        times = np.bincount(rng.integers(n_drawn, size=n_drawn), minlength=n_drawn)
        drawn.append(measure(y, predictions, scores, weights * times[together]))
    value = measure(y, predictions, scores, weights)
    of_fit = {name: getattr(fitted, name) for name in FittedModel.__dataclass_fields__}
    return PathPoint(
        **of_fit, scores=scores, predictions=predictions, score=value, error=float(np.std(drawn))
    )


def evaluate_on(held_out: Samples, scoring: str) -> Callable[[FittedModel], PathPoint]:
    """Return a function that evaluates a model on held-out rows."""

    def evaluate(fitted: FittedModel) -> PathPoint:
        scores = scores_of(fitted.model, held_out)
        return evaluate_point(fitted, held_out, scores, scores, scoring)

    return evaluate


def fit_points(
    parts: HeldOut | OutOfFold,
    estimator: Any,
    gaps: Sequence[float],
    penalties: Sequence[float | None],
    scoring: str,
    varied: VariedConstraint,
    n_jobs: int | None,
    say: Callable[[PathPoint], None],
) -> list[PathPoint]:
    """Fit the models of every penalty and evaluate each of them, with ``cv`` after all folds are scored."""
    parallel = Parallel(n_jobs=n_jobs)
    if isinstance(parts, HeldOut):
        ready, evaluate = estimator._prepare_fits(parts.train, gaps), evaluate_on(parts.evaluated, scoring)
        jobs = (
            delayed(fit_chain)(ready, parts.train, gaps, alpha, evaluate, say, varied) for alpha in penalties
        )
        return [point for chain in parallel(jobs) for point in chain]
    rows = parts.evaluated
    ready = estimator._prepare_fits(rows, gaps)
    on_all = parallel(
        delayed(fit_chain)(ready, rows, gaps, alpha, _unchanged, _ignore, varied) for alpha in penalties
    )
    # An interval that depends on the scores is chosen once, on all rows; folds must use the same interval.
    settled = [(estimator, varied)] * len(on_all)
    if isinstance(estimator.interval, str):
        chosen = [replace(varied.stated, interval=fits[0].constraint.interval) for fits in on_all]
        settled = [
            (estimator._copy_unfitted().set_params(interval=one.interval), replace(varied, stated=one))
            for one in chosen
        ]
    by_fold = parallel(
        delayed(_score_fold)(one, *parts.split(fold), gaps, alpha, with_interval)
        for (one, with_interval), alpha in zip(settled, penalties, strict=True)
        for fold in parts.numbers
    )
    n_folds, points = len(parts.numbers), []
    for a, fits in enumerate(on_all):
        for k, fitted in enumerate(fits):
            of_model = [chain[k] for chain in by_fold[n_folds * a : n_folds * (a + 1)]]
            # Scores stay on their side of the decision threshold and of the constraint's threshold.
            compared = getattr(fitted.constraint, "threshold", None)
            decides = getattr(fitted.model, "decision_threshold_", None)
            thresholds = [float(one) for one in (decides, compared) if one is not None]
            # Shift the scores of each fold's model so that all models decide at the same threshold.
            raw = parts.join(
                [
                    scores if decides is None else scores + (decides - without.model.decision_threshold_)
                    for without, scores in of_model
                ]
            )
            point = evaluate_point(fitted, rows, parts.align(raw, thresholds), raw, scoring)
            points.append(
                replace(
                    point,
                    seconds=fitted.seconds + sum(without.seconds for without, _ in of_model),
                    fold_models=tuple(without.model for without, _ in of_model),
                )
            )
            say(points[-1])
    return points


def _score_fold(
    estimator: Any,
    train: Samples,
    fold: Samples,
    gaps: Sequence[float],
    alpha: float | None,
    varied: VariedConstraint,
) -> list[tuple[FittedModel, Floats]]:
    """Fit models without the rows of a fold, and score these rows."""
    with warnings.catch_warnings():
        # The fits on all rows issued the warnings; `PathPoint.fold_models` has the results of these fits.
        warnings.simplefilter("ignore")
        ready = estimator._prepare_fits(train, gaps)
        fits = fit_chain(ready, train, gaps, alpha, _unchanged, _ignore, varied)
    return [(fitted, scores_of(fitted.model, fold)) for fitted in fits]


def _unchanged(fitted: FittedModel) -> FittedModel:
    return fitted


def _ignore(fitted: FittedModel) -> None:
    """Do nothing: with ``cv`` a model is evaluated when all folds are scored."""
