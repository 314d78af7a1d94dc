"""Fits of a path: one model after the other, each knowing the others, and how good they are on new rows."""

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


@dataclass(frozen=True, eq=False, repr=False)
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
        """Its limit, in words."""
        return "no constraint" if self.unconstrained else f"max gap {self.max_gap:g}"

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.allowed}, alpha {self.alpha:g}, training gap "
            f"{self.training_gap:.3g}, status {self.model.result_.status}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PathPoint(FittedModel):
    """One model of the path, and how good it is on rows that it was not trained on.

    Attributes
    ----------
    max_gap, alpha
        Its limit and penalty; ``max_gap`` is infinite for the model without constraint.
    model
        The fitted estimator; ``model.result_`` has its status and KKT certificate.
    constraint
        What it is evaluated by, with an interval that was chosen automatically filled in.
    training_gap
        Its exact gap on the rows it was trained on.
    seconds
        What the fit took; with ``cv`` all fits together.
    scores, predictions
        On the validation rows. With ``cv`` out of fold: of every row by the model that has not seen it, the
        scores on a scale that the folds share (`partialfair.estimators.held_out`).
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


@dataclass(frozen=True)
class VariedConstraint:
    """The constraint whose limit a path varies.

    Attributes
    ----------
    stated
        As the parameters state it, with any limit.
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
    """Fit the models of one alpha, without constraint and then from loose to strict, each from the last.

    Parameters
    ----------
    estimator, train, gaps
        What is fitted, to which rows, and the limits in falling order.
    alpha
        The penalty; None: the estimator's own.
    evaluate, say
        What makes a point of a fitted model, and what is to be done with every point.
    varied
        The constraint with these limits.
    deadline
        When all fits have to end.
    points
        A list to extend: it has the models that were finished when the chain ends with KeyboardInterrupt, and
        the one that was interrupted.
    """
    # In another process a constraint of the user's is not registered.
    make_known(varied.record, varied.metric)
    earlier, answers = EarlierFits(), []
    points = [] if points is None else points
    settings = estimator.get_params(deep=False)
    # Solvers given as objects, which may need constraints, and their steps are not for the first.
    freed = {"constraint": None, "outside": "free", "solver": "auto", "max_iter": None}
    model = estimator._copy_unfitted().set_params(warm_start=True, **freed)
    if alpha is not None:
        model.set_params(alpha=alpha)
    # Copies of models have copies of the callback: each fit is given the caller's own.
    stated, callback = varied.stated, estimator.callback
    for gap in [float("inf"), *gaps]:
        if points and out_of_time(deadline):
            return points
        if points:
            # A model of a path stays as it is when the next one starts from it.
            model = deepcopy(model).set_params(**{name: settings[name] for name in freed})
            model.set_params(**with_gap(model, gap))
        if deadline < float("inf"):
            model.set_params(time_limit=max(deadline - time.monotonic(), TINY_TIME))
        # Which model is new tells whether this fit had any answer.
        before = earlier.models
        fitted, earlier, interrupted = _fit_model(stated, model, gap, earlier, train, callback)
        points.append(evaluate(fitted))
        if interrupted:
            raise KeyboardInterrupt  # a fit keeps its best point, a path ends
        say(points[-1])
        answers.append(next((one for one in earlier.models if one not in before), None))
    # Candidates of one fit, whether feasible for its own limit or not, may be better answers for another.
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
    """Fit one model of a path, which knows the others; say whether Ctrl-C ended the fit."""
    begun = time.perf_counter()
    # A fit returns its best point on Ctrl-C; a path must know that it was not the callback.
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
    """Knows whether it was the estimator's callback that stopped a fit, or the keyboard."""

    callback: Callable[[Record], bool | None] | None
    stopped: bool = False

    def __call__(self, line: Record) -> bool:
        """Call the callback, and remember whether it stops the fit."""
        self.stopped = bool(self.callback is not None and self.callback(line))
        return self.stopped


def measure_training_gap(stated: Constraint, model: Any, train: Samples) -> tuple[Constraint, WorstGap]:
    """Return a constraint with its interval, and its exact gap under a model that was fitted without it."""
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
    """Return the settings by which an estimator has that limit."""
    if isinstance(model.constraint, str):
        return {"max_gap": gap}
    return {"constraint": replace(model.constraint, max_gap=gap)}


def scores_of(model: Any, samples: Samples) -> Floats:
    """Return the scores of a classifier, or the predictions of a regressor."""
    return np.asarray(model._score_samples(samples.X, samples.groups))


def evaluate_point(
    fitted: FittedModel, rows: Samples, scores: Floats, raw: Floats, scoring: str
) -> PathPoint:
    """Say how good scores of rows are; the standard error is a bootstrap's, of clusters if there are any.

    Predictions are those of the raw scores, before those of several folds were aligned.
    """
    model, y, weights = fitted.model, rows.y, rows.row_weights
    predictions = raw
    if not is_regressor(model):
        predictions = np.asarray(model.classes_[(raw > model.decision_threshold_).astype(np.intp)])
    # Clusters are drawn as a whole, for rows of one are not independent.
    together = np.arange(rows.n) if rows.clusters is None else rows.clusters
    n_drawn = int(together.max(initial=-1)) + 1
    measure = SCORINGS[scoring]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(_N_RESAMPLES):
        # A resample as weights: how often each was drawn.
        times = np.bincount(rng.integers(n_drawn, size=n_drawn), minlength=n_drawn)
        drawn.append(measure(y, predictions, scores, weights * times[together]))
    value = measure(y, predictions, scores, weights)
    of_fit = {name: getattr(fitted, name) for name in FittedModel.__dataclass_fields__}
    return PathPoint(
        **of_fit, scores=scores, predictions=predictions, score=value, error=float(np.std(drawn))
    )


def evaluate_on(held_out: Samples, scoring: str) -> Callable[[FittedModel], PathPoint]:
    """Return a function that says how good a model is on rows held out."""

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
    """Fit the models of every penalty, and evaluate each as it is finished, or when all folds are scored."""
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
    # An interval that is chosen by the scores is chosen once, on all rows: five would not be comparable.
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
            # Where decisions are made, or groups are compared, scores stay on their side.
            compared = getattr(fitted.constraint, "threshold", None)
            decides = getattr(fitted.model, "decision_threshold_", None)
            thresholds = [float(one) for one in (decides, compared) if one is not None]
            # Folds' models that decide elsewhere are shifted to decide where the model of all rows does.
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
    """Fit models without a fold, and score its rows."""
    with warnings.catch_warnings():
        # The models on all rows have said it; how these fits ended is in `PathPoint.fold_models`.
        warnings.simplefilter("ignore")
        ready = estimator._prepare_fits(train, gaps)
        fits = fit_chain(ready, train, gaps, alpha, _unchanged, _ignore, varied)
    return [(fitted, scores_of(fitted.model, fold)) for fitted in fits]


def _unchanged(fitted: FittedModel) -> FittedModel:
    return fitted


def _ignore(fitted: FittedModel) -> None:
    """Do nothing: a model is evaluated when all folds are scored."""
