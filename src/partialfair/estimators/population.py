"""Fits for new people: models of a path, and the best of those that rows held out certify."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning

from partialfair.constraints import Constraint
from partialfair.data.samples import Samples
from partialfair.estimators.certifying import Certification, best_of, judging_of, report_on
from partialfair.estimators.path_fits import PathPoint, chain, judged_in_training, judged_on
from partialfair.estimators.path_rows import (
    check_apart,
    check_held_out,
    check_judged,
    check_members,
    check_validation,
    read_validation,
)
from partialfair.estimators.statement import seed_of
from partialfair.exceptions import InputError
from partialfair.metrics.report import FairnessReport, ReportRow
from partialfair.optimization.objectives import AUC, PartialAUC, read_loss
from partialfair.optimization.solvers import Status, decide_status_on_new_rows
from partialfair.training.named_constraints import NamedConstraint, record_of
from partialfair.training.result import FitResult, Population
from partialfair.utils.checks import check_number
from partialfair.utils.clock import acknowledge_interrupt, out_of_time
from partialfair.utils.typing import ArrayLike

__all__ = ["check_population_settings", "fit_population", "is_rows"]

_TIGHTER = np.geomspace(1.0, 0.1, 8)
"""Gaps that models are trained for, in units of ``max_gap``. On new people gaps are wider than in training,
so the widest that can be certified is below 1; below .1 models are fitted to noise of the training rows."""

_REPORT_CONFIDENCE = 0.95
"""Of reports whose bounds are then taken at other errors; it makes no difference to these."""


def is_rows(validation: Any) -> bool:
    """Whether ``validation`` holds rows, and is no share of them."""
    return isinstance(validation, tuple | list)


def check_population_settings(estimator: Any) -> None:
    """Refuse settings of a promise about new people that cannot be right."""
    confidence, validation = estimator.confidence, estimator.validation
    check_number(confidence, "confidence", above=0.0, high=1.0)
    if confidence == 1:
        raise InputError("confidence must lie between 0 and 1, not 1: no sample shows anything for certain")
    if is_rows(validation):
        check_validation(validation)
    else:
        check_number(validation, "validation", above=0.0, high=0.9)


def fit_population(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None,
    weights: Any,
    clusters: ArrayLike | None,
    deadline: float,
) -> None:
    """Fit models from loose to strict, certify them on rows held out, and make the best the estimator's."""
    stated, record = _asked(estimator)
    samples = estimator._read_samples(X, y, groups, weights, clusters).with_weight()
    train, held_out = _split(estimator, samples, clusters)
    inner = estimator._prepare_fits(train).set_params(enforce="exact", sensitive_columns=None, validation=0.2)
    scoring, size = _scoring(estimator), estimator.min_group_size
    check_held_out(inner, train, held_out, scoring)
    check_members(inner, train, held_out)
    check_judged(inner, stated, record.metric, train, held_out, size, "list")
    fits = _Fits()
    fits.run(inner, train, held_out, stated, record, scoring, deadline)
    judging = _Judging(held_out, record.metric, size, seed_of(estimator))
    chosen, population, shortfall = _choice(estimator, fits, judging, stated, scoring, train)
    for name in estimator._set_by_fits:
        if hasattr(chosen.model, name):
            setattr(estimator, name, getattr(chosen.model, name))
    estimator.result_ = result = _result(inner, chosen, train, population, fits.cut, shortfall)
    for remark in _remarks(result, [*fits.remarks.get(chosen, ()), *judging.remarks[chosen]]):
        warnings.warn(remark, stacklevel=4)


def _choice(
    estimator: Any, fits: _Fits, judging: _Judging, stated: Constraint, scoring: str, train: Samples
) -> tuple[PathPoint, Population, str | None]:
    """Return the best certified model, or the one with the lowest bound and how far from certified it is."""
    error, max_gap = 1 - estimator.confidence, float(stated.max_gap)
    certification = Certification(fits.points, judging.gap, judging.rows.n)
    certified = certification.certified(max_gap, error)
    if certified:
        chosen, shortfall = best_of(list(certified)), None
        at_most = certification.gap(chosen).bound_above(certified[chosen])
    else:
        chosen, at_most = certification.lowest(error)
        shortfall = certification.shortfall(max_gap, error)
    population = Population(
        max_gap=max_gap,
        confidence=float(estimator.confidence),
        certified=bool(certified),
        at_most=at_most,
        gap=certification.gap(chosen).value,
        n_rows=judging.rows.n,
        n_models=len(fits.points),
        n_certified=len(certified),
        trained_max_gap=chosen.max_gap,
        scoring=scoring,
        score=chosen.score,
        score_without=fits.points[0].score,
        not_evaluated=judging.left_out(chosen, train),
    )
    return chosen, population, shortfall


def _asked(estimator: Any) -> tuple[Constraint, NamedConstraint]:
    """Return the constraint and its record, refusing what no promise about new people can be about."""
    if estimator.constraint is None:
        raise InputError("enforce='population' bounds the gap of new people, so it needs a constraint")
    constraints = estimator._read_constraints()
    if len(constraints) != 1:
        raise InputError(f"enforce='population' takes one constraint, not {len(constraints)}")
    (stated,) = constraints
    record = record_of(stated)
    if record is None:
        raise InputError(
            f"enforce='population' bounds the gap of new people, and {type(stated).__name__} bounds no exact "
            "metric"
        )
    return stated, record


def _scoring(estimator: Any) -> str:
    """Return how certified models are compared, by what they were trained for."""
    if is_regressor(estimator):
        return "r2"
    if isinstance(read_loss(estimator.loss), AUC | PartialAUC):
        return "roc_auc"
    balanced = isinstance(estimator.class_weight, str) and estimator.class_weight == "balanced"
    return "balanced_accuracy" if balanced else "accuracy"


def _split(estimator: Any, samples: Samples, clusters: ArrayLike | None) -> tuple[Samples, Samples]:
    """Return the rows to train on, and those to certify models on."""
    validation = estimator.validation
    if is_rows(validation):
        check_apart(clusters, validation[4] if len(validation) > 4 else None)
        return samples, read_validation(estimator, validation).with_weight()
    train, held_out = samples.hold_out(validation, seed_of(estimator))
    if not (train.n and held_out.n):
        raise InputError(
            f"validation={validation:g} of {samples.n} rows leaves none to "
            f"{'train on' if held_out.n else 'certify models on'}"
        )
    return train, held_out


@dataclass(eq=False)
class _Fits:
    """The models of a path as they are finished, what each fit had to remark, and what cut them short."""

    points: list[PathPoint] = field(default_factory=list)
    remarks: dict[PathPoint, list[Warning]] = field(default_factory=dict)
    cut: Status | None = None
    _caught: list[warnings.WarningMessage] = field(default_factory=list)

    def run(
        self,
        estimator: Any,
        train: Samples,
        held_out: Samples,
        stated: Constraint,
        record: NamedConstraint,
        scoring: str,
        deadline: float,
    ) -> None:
        """Fit the models, until a moment or an interrupt."""
        gaps = sorted({float(stated.max_gap * share) for share in _TIGHTER}, reverse=True)
        known = (record, record.bounded)
        with warnings.catch_warnings(record=True) as self._caught:
            warnings.simplefilter("always")
            try:
                alpha = float(estimator.alpha)
                chain(
                    estimator,
                    train,
                    gaps,
                    alpha,
                    judged_on(held_out, scoring),
                    self.finished,
                    known,
                    moment=deadline,
                    points=self.points,
                )
            except KeyboardInterrupt:
                if not self.points:
                    raise
                acknowledge_interrupt()
                self.cut = Status.STOPPED
                return
        self.cut = Status.TIME_LIMIT if out_of_time(deadline) else None

    def finished(self, point: PathPoint) -> None:
        """Keep what was remarked of a model; a callback that stops one fit stops them all."""
        self.remarks[point] = _warnings(self._caught)
        self._caught.clear()
        if point.model.result_.status is Status.STOPPED:
            raise KeyboardInterrupt


@dataclass(frozen=True, eq=False)
class _Judging:
    """Reports of models on the rows held out, made once each, and what they had to remark."""

    rows: Samples
    metric: str
    min_group_size: int
    seed: int
    remarks: dict[PathPoint, list[Warning]] = field(default_factory=dict)
    _reports: dict[PathPoint, FairnessReport] = field(default_factory=dict)

    def report(self, point: PathPoint) -> FairnessReport:
        """Return the report of a model, which has its gap."""
        if point not in self._reports:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                labels, asked = judging_of(
                    self.rows,
                    point,
                    confidence=_REPORT_CONFIDENCE,
                    min_group_size=self.min_group_size,
                    small_groups="list",
                    seed=self.seed,
                )
                report = report_on(labels, point, asked)
            if self.metric in report.omitted:
                raise InputError(
                    f"{self.metric} {report.omitted[self.metric]}, on the {self.rows.n:,} validation rows; "
                    "hold out more rows"
                )
            self._reports[point], self.remarks[point] = report, _warnings(caught)
        return self._reports[point]

    def gap(self, point: PathPoint) -> ReportRow:
        """Return the gap that the promise is about."""
        return self.report(point)[self.metric]

    def left_out(self, point: PathPoint, train: Samples) -> tuple[Any, ...]:
        """Return the groups that the promise says nothing of: too few of them, or nobody, were held out."""
        report = self.report(point)
        few = {group.group for group in report.too_few_labelled.get(self.metric, ())}
        judged = {group.group for group in report.groups} - few
        known = dict.fromkeys([*train.groups.labels, *self.rows.groups.labels])
        return tuple(label for label in known if label not in judged)


def _warnings(caught: list[warnings.WarningMessage]) -> list[Warning]:
    return [line.message for line in caught if isinstance(line.message, Warning)]


def _result(
    estimator: Any,
    chosen: PathPoint,
    train: Samples,
    population: Population,
    cut: Status | None,
    shortfall: str | None,
) -> FitResult:
    """Return the result of the chosen model's fit as an answer to what was asked for."""
    own: FitResult = chosen.model.result_
    gaps = own.gaps
    if chosen.unconstrained:
        gaps = (judged_in_training(estimator, chosen.model, train)[1],)
    return replace(
        own,
        status=decide_status_on_new_rows(own.status, certified=population.certified, cut=cut),
        constraints=(replace(chosen.constraint, max_gap=population.max_gap),),
        gaps=gaps,
        obstacle=shortfall,
        enforce="population",
        population=population,
        interval_chosen=isinstance(estimator.interval, str),
    )


def _remarks(result: FitResult, others: list[Warning]) -> list[Warning]:
    """Say what is left open: a promise not kept, a search cut short; and what the chosen fit remarked.

    How the fit of the chosen model ended is no matter: it answers another question.
    """
    remarks: list[Warning] = []
    population = result.population
    assert population is not None
    if not population.certified:
        remarks.append(ConvergenceWarning(f"{population.sentence}: {result.obstacle}"))
    if result.status in (Status.TIME_LIMIT, Status.STOPPED):
        advice = "raise time_limit" if result.status is Status.TIME_LIMIT else "it was stopped"
        remarks.append(
            ConvergenceWarning(
                f"the fit ended with status {result.status} after {population.n_models} models; {advice}"
            )
        )
    told = {str(remark) for remark in remarks}
    for remark in others:
        if not isinstance(remark, ConvergenceWarning) and str(remark) not in told:
            told.add(str(remark))
            remarks.append(remark)
    return remarks
