"""The frontier between accuracy and fairness: one model for every gap allowed, judged on rows held out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from partialfair._checks import check_choice, check_number, shown
from partialfair._path_rows import (
    GivenRows,
    check_held_out,
    check_judged,
    check_members,
    read_rows,
    split_rows,
)
from partialfair._typing import ArrayLike, Floats, SmallGroups
from partialfair.constraints import Constraint
from partialfair.estimators._base import PartialFairEstimator
from partialfair.estimators._inputs import read_weights
from partialfair.estimators._placing import placed
from partialfair.estimators._promise import promised
from partialfair.estimators._statement import read_constraints
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups
from partialfair.metrics.catalogue import Metric
from partialfair.metrics.report import FairnessReport, ReportRow, fairness_report
from partialfair.named_constraints import NamedConstraint, make_known, record_of, setting_of
from partialfair.problems import Counts
from partialfair.solvers import Record, Status

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["FairnessPath", "PathPoint", "fairness_path"]

Scoring: TypeAlias = Callable[[Any, Any, Floats, Floats | None], float]

SCORINGS: dict[str, Scoring] = {
    "accuracy": lambda y, predicted, scores, w: float(accuracy_score(y, predicted, sample_weight=w)),
    "balanced_accuracy": lambda y, predicted, scores, w: float(
        balanced_accuracy_score(y, predicted, sample_weight=w)
    ),
    "roc_auc": lambda y, predicted, scores, w: float(roc_auc_score(y, scores, sample_weight=w)),
    "r2": lambda y, predicted, scores, w: float(r2_score(y, predicted, sample_weight=w)),
}
"""How good a model is, higher being better: functions of labels, predictions, scores and weights."""

_N_RESAMPLES = 200


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


@dataclass(frozen=True, eq=False)
class FairnessPath:
    """Models from loose to strict, what they score on rows held out, and how fair they are there.

    Attributes
    ----------
    points
        By alpha, and then by falling ``max_gap``; the first of each alpha is the model without constraint,
        whose ``max_gap`` is infinite.
    scoring
        What ``score`` means.
    validation
        The rows held out.
    min_group_size, small_groups
        Which groups are judged on them, as in `fairness_report`.
    record
        The name of the constraint, and the metric that it bounds.
    """

    points: tuple[PathPoint, ...]
    scoring: str
    validation: GivenRows
    min_group_size: int
    small_groups: SmallGroups
    record: NamedConstraint
    _seed: int
    _reports: dict[tuple[int, float], FairnessReport] = field(default_factory=dict, init=False)

    def report(self, point: PathPoint, confidence: float = 0.95) -> FairnessReport:
        """Return all metrics of the model on the validation rows, with confidence intervals."""
        key = (self.points.index(point), confidence)
        if key not in self._reports:
            self._reports[key] = self._measured(point, confidence)
        return self._reports[key]

    def gap(self, point: PathPoint, confidence: float = 0.95) -> ReportRow:
        """Return the gap that the constraint is about on the validation rows."""
        report, metric = self.report(point, confidence), self.record.metric
        if metric in report.omitted:
            raise InputError(
                f"{metric} {report.omitted[metric]}, on the {self.validation.n:,} validation rows; hold out "
                "more rows"
            )
        return report[metric]

    def best(self, max_gap: float, confidence: float = 0.95) -> Any:
        """Return the best model whose gap is, with that confidence, at most ``max_gap`` on new people.

        The upper end of the confidence interval of the gap on the validation rows decides, so small
        validation sets ask for fairer models. The interval is that of one model: choosing among several makes
        it a little too optimistic.
        """
        check_number(max_gap, "max_gap", low=0.0, high=self.record.kind.largest_gap)
        bounds = np.array([self.gap(point, confidence).high for point in self.points])
        fair = [point for point, bound in zip(self.points, bounds, strict=True) if bound <= max_gap]
        if not fair:
            raise InputError(
                f"no model of the path has a gap of at most {max_gap:g} with confidence {confidence:g} on "
                f"the {len(self.validation.y):,} validation rows; the lowest upper bound is "
                f"{bounds.min():.3g}: add smaller max_gaps or more validation rows"
            )
        return max(fair, key=lambda point: point.score).model

    def _measured(self, point: PathPoint, confidence: float) -> FairnessReport:
        """Judge a model by the interval, the scale and the threshold of its constraint."""
        rows, labelled = self.validation, not is_regressor(point.model)
        # Intervals by group may name groups that no validation row has.
        constraint = point.constraint.among(encode_groups(rows.groups, missing="ignore").labels)
        setting = setting_of(constraint)
        return fairness_report(
            rows.y if labelled else None,
            point.scores,
            sensitive_features=rows.groups,
            interval=constraint.interval,
            threshold=setting.threshold,
            confidence=confidence,
            gap_scale=setting.gap_scale,
            rank_within=setting.rank_within,
            pos_label=point.model.classes_[1] if labelled else 1,
            sample_weight=rows.weights,
            random_state=self._seed,
            higher_is_better=point.model.higher_is_better,
            min_group_size=self.min_group_size,
            small_groups=self.small_groups,
            missing_groups="ignore",  # such rows, where a model may have any, count in the score only
        )

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return one line per model: what was asked, how the fit ended, score and gap on validation rows."""
        import pandas as pd

        rows = [(point, self.gap(point, confidence)) for point in self.points]
        return pd.DataFrame(
            {
                "max_gap": [point.max_gap for point in self.points],
                "alpha": [point.alpha for point in self.points],
                "status": [str(point.model.result_.status) for point in self.points],
                "training_gap": [point.training_gap for point in self.points],
                "gap": [row.value for _, row in rows],
                "gap_low": [row.low for _, row in rows],
                "gap_high": [row.high for _, row in rows],
                "score": [point.score for point in self.points],
                "score_error": [point.error for point in self.points],
                "seconds": [point.seconds for point in self.points],
            }
        )

    def plot(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the frontier; see `partialfair.plotting.plot_path`, which names the options."""
        from partialfair.plotting import plot_path

        return plot_path(self, ax=ax, **options)

    def to_html(self, path: str | Path | None = None, *, confidence: float = 0.95) -> str | None:
        """Write the interactive page of the models on the validation rows, or return it without a path."""
        from partialfair.report import path_page, write_page

        text = path_page(self, confidence=confidence)
        if path is None:
            return text
        write_page(text, path)
        return None

    def __repr__(self) -> str:
        return f"<FairnessPath of {len(self.points)} models>\n{self.to_frame().to_string()}"


def fairness_path(
    estimator: PartialFairEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    max_gaps: Sequence[float],
    alphas: Sequence[float] | None = None,
    validation: float | tuple[Any, ...] = 0.2,
    sample_weight: ArrayLike | None = None,
    scoring: str = "accuracy",
    min_group_size: int = 10,
    small_groups: SmallGroups = "list",
    n_jobs: int | None = None,
    random_state: Any = None,
    callback: Callable[[PathPoint], None] | None = None,
    verbose: int = 0,
) -> FairnessPath:
    """Fit a model without constraint, then one for every ``max_gap``, each from the solution of the last.

    Every fit knows the models before it. Where a stricter model turns out to cost less than a looser one, the
    looser is fitted again with all of them in view, so that objectives never fall as more is asked for.

    An interrupt (Ctrl-C) ends the path with KeyboardInterrupt: half a path would say less than it seems to.
    ``callback`` has seen the models that were finished.

    Parameters
    ----------
    estimator
        A `PartialFairClassifier` or `PartialFairRegressor` with one constraint; its ``max_gap`` is varied.
    X, y, sensitive_features, sample_weight
        As in ``fit``.
    max_gaps
        Gaps to allow, in any order; they are taken from the loosest on.
    alphas
        Penalties to try with each of them; that of the estimator by default.
    validation
        Share of the rows to hold out, drawn within groups and classes, or the rows themselves:
        ``(X, y, sensitive_features)``, or with ``sample_weight`` as a fourth.
    scoring
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, or for regressors ``"r2"``.
    min_group_size, small_groups
        Which groups are judged on the validation rows, as in `fairness_report`; whom the constraint is tied
        to is the estimator's ``min_group_size``.
    n_jobs
        Processes; every ``alpha`` is one job.
    random_state
        For the rows held out and the confidence intervals.
    callback
        Called with every model once it is judged, in the process that fits it.
    verbose
        1 writes a line to standard error for every model.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier, fairness_path
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 2000)
    >>> X = rng.normal(size=(2000, 2)) + np.outer(groups == "a", [1, 0])
    >>> y = X.sum(axis=1) + rng.normal(size=2000) > 0.5
    >>> clf = PartialFairClassifier(interval=(0.1, 0.6))
    >>> path = fairness_path(
    ...     clf, X, y, sensitive_features=groups, max_gaps=[0.1, 0.2, 0.4], random_state=0
    ... )
    >>> path.to_frame()["max_gap"].tolist()  # the first has no constraint
    [inf, 0.4, 0.2, 0.1]
    >>> path.to_frame()["training_gap"].is_monotonic_decreasing
    True
    >>> path.best(max_gap=0.6).max_gap  # on 400 new people the gap of the loosest may be larger
    0.2
    """
    _check_estimator(estimator, scoring)
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function of one PathPoint, not {shown(callback)}")
    gaps = _numbers(max_gaps, "max_gaps")[::-1]
    stated = [_stated(estimator, gap) for gap in gaps]
    record = _record(stated[0])
    penalties = [float(estimator.alpha)] if alphas is None else _numbers(alphas, "alphas")
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    rows = read_rows(estimator, X, y, sensitive_features, sample_weight)
    if isinstance(validation, tuple | list):
        if len(validation) not in (3, 4):
            raise InputError(
                "validation must be a share of the rows, or (X, y, sensitive_features), with sample_weight "
                "as a fourth if need be"
            )
        train, held_out = rows, read_rows(estimator, *validation, of=" of validation")
    else:
        check_number(validation, "validation", above=0.0, high=0.9)
        train, held_out = split_rows(rows, validation, seed)
    check_held_out(estimator, train, held_out, scoring)
    check_members(estimator, train, held_out)
    check_judged(estimator, stated[0], record.metric, train, held_out, min_group_size, small_groups)
    say = _reporter(scoring, callback, verbose)
    known = (record, record.bounded)
    jobs = (
        delayed(_chain)(estimator, train, held_out, gaps, alpha, scoring, say, known) for alpha in penalties
    )
    points = tuple(point for chain in Parallel(n_jobs=n_jobs)(jobs) for point in chain)
    return FairnessPath(points, scoring, held_out, min_group_size, small_groups, record, seed)


def _numbers(given: Sequence[float], name: str) -> list[float]:
    """Return increasing numbers, refusing what is none."""
    listed = list(given) if np.ndim(given) == 1 else []
    if not listed:
        raise InputError(f"{name} must be a list of numbers, not {shown(given)}")
    for one in listed:
        check_number(one, f"a number in {name}", low=0.0)
    return sorted({float(one) for one in listed})


def _check_estimator(estimator: Any, scoring: str) -> None:
    """Refuse estimators whose gap cannot be varied, and scorings that do not suit them."""
    if not isinstance(estimator, PartialFairEstimator):
        raise InputError(f"fairness_path varies estimators of partialfair, not {type(estimator).__name__}")
    if not isinstance(estimator.constraint, str | Constraint):
        raise InputError("fairness_path needs an estimator with one constraint, whose max_gap it varies")
    check_choice(scoring, "scoring", SCORINGS)
    if is_regressor(estimator) != (scoring == "r2"):
        raise InputError(f"scoring={scoring!r} does not suit {type(estimator).__name__}")


def _stated(estimator: Any, gap: float) -> Constraint:
    """Return the constraint with that gap, refusing what no model could be fitted with."""
    (constraint,) = read_constraints(clone(estimator).set_params(**_with_gap(estimator, gap)))
    return constraint


def _record(constraint: Constraint) -> NamedConstraint:
    """Return which metric a constraint bounds, refusing those by which no model could be judged."""
    record = record_of(constraint)
    if record is None:
        raise InputError(
            f"fairness_path judges models by the metric that their constraint bounds, and "
            f"{type(constraint).__name__} bounds none"
        )
    return record


def _reporter(
    scoring: str, callback: Callable[[PathPoint], None] | None, verbose: int
) -> Callable[[PathPoint], None]:
    """Return what is to be done with every model as it is finished."""

    def say(point: PathPoint) -> None:
        if verbose:
            sys.stderr.write(
                f"alpha {point.alpha:g}, {point.allowed}: {point.model.result_.status} in "
                f"{point.seconds:.1f} s, {scoring} {point.score:.4f}\n"
            )
        if callback is not None:
            callback(point)

    return say


def _chain(
    estimator: Any,
    train: GivenRows,
    held_out: GivenRows,
    gaps: list[float],
    alpha: float,
    scoring: str,
    say: Callable[[PathPoint], None],
    known: tuple[NamedConstraint, Metric],
) -> list[PathPoint]:
    """Fit the models of one alpha, without constraint and then from loose to strict, each from the last."""
    make_known(*known)
    points: list[PathPoint] = []
    settings = estimator.get_params(deep=False)
    # Solvers given as objects, which may need constraints, and their steps are not for the first.
    freed = {"constraint": None, "solver": "auto", "max_iter": None}
    model = clone(estimator).set_params(alpha=alpha, warm_start=True, **freed)
    for gap in [float("inf"), *gaps]:
        if points:
            model = deepcopy(model).set_params(**{name: settings[name] for name in freed})
            model.set_params(**_with_gap(model, gap))
        points.append(_fitted(estimator, model, gap, points, train, held_out, scoring))
        say(points[-1])
    # A stricter model that costs less is a better answer to the looser question: that one is asked again.
    for k in range(len(points) - 1, 1, -1):
        looser, stricter = points[k - 1], points[k]
        if stricter.model.result_.promise_kept and stricter.objective < looser.objective:
            model = deepcopy(looser.model)
            points[k - 1] = _fitted(estimator, model, looser.max_gap, points, train, held_out, scoring)
            say(points[k - 1])
    return points


def _fitted(
    estimator: Any,
    model: Any,
    gap: float,
    others: Sequence[PathPoint],
    train: GivenRows,
    held_out: GivenRows,
    scoring: str,
) -> PathPoint:
    """Fit one model of a path, which knows the others, and judge it."""
    start = time.perf_counter()
    listener = _Listener(estimator.callback)
    constrained = [point.model for point in others if not point.unconstrained]
    model._neighbours = tuple((other.coef_, other.intercept_) for other in constrained)
    model.set_params(callback=listener)
    model.fit(train.X, train.y, sensitive_features=train.groups, sample_weight=train.weights)
    model.set_params(callback=estimator.callback)
    del model._neighbours
    if model.result_.status is Status.STOPPED and not listener.stopped:
        raise KeyboardInterrupt  # a fit keeps its best point, a path ends
    if gap < float("inf"):
        (constraint,), training_gap = model.result_.constraints, model.result_.gap
    else:
        constraint, training_gap = _judged_in_training(estimator, model, train)
    seconds = time.perf_counter() - start
    return _point(model, gap, float(model.alpha), constraint, training_gap, held_out, scoring, seconds)


@dataclass(eq=False)
class _Listener:
    """Knows whether it was the estimator's callback that stopped a fit, or the keyboard."""

    callback: Callable[[Record], bool | None] | None
    stopped: bool = False

    def __call__(self, line: Record) -> bool:
        self.stopped = bool(self.callback is not None and self.callback(line))
        return self.stopped


def _judged_in_training(estimator: Any, model: Any, train: GivenRows) -> tuple[Constraint, float]:
    """Return the constraint that the estimator states, and its exact gap under a model without any."""
    weights = read_weights(train.weights, train.n)
    present = np.flatnonzero(weights > 0)
    rows = train.take(present)
    sign = 1.0 if estimator.higher_is_better else -1.0
    groups = encode_groups(rows.groups, missing="ignore")
    positive = None if is_regressor(model) else np.asarray(rows.y) == model.classes_[1]
    (stated,) = (one.in_units(sign) for one in read_constraints(estimator))
    scores = sign * _scores(model, rows)
    counts = Counts(scores, weights[present], groups.codes, positive)
    (stated,) = placed([stated], counts, groups.labels)
    promise = promised(stated, groups, counts.weights, positive, estimator.min_group_size)
    return stated.in_units(sign), promise.gap(counts).value


def _with_gap(model: Any, gap: float) -> dict[str, Any]:
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
    weights = np.ones(len(y)) if held_out.weights is None else np.asarray(held_out.weights, dtype=float)
    measure = SCORINGS[scoring]
    rng = np.random.default_rng(0)
    drawn = [
        measure(y, predictions, scores, weights * rng.multinomial(len(y), np.full(len(y), 1 / len(y))))
        for _ in range(_N_RESAMPLES)
    ]
    value = measure(y, predictions, scores, weights)
    error = float(np.std(drawn))
    return PathPoint(gap, alpha, model, constraint, training_gap, scores, predictions, value, error, seconds)
