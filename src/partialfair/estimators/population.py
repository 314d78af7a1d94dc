"""``enforce="population"``: fit several models and return the best one that held-out rows validate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partialfair.data.samples import Samples
from partialfair.estimators.fitted_path import FairnessPath, find_best
from partialfair.estimators.held_out import HeldOut, check_group_sizes, hold_out
from partialfair.estimators.inputs import read_samples
from partialfair.estimators.parameters import (
    choose_scoring,
    is_rows,
    read_bounded_constraint,
    seed_of,
)
from partialfair.estimators.path_fits import (
    PathPoint,
    VariedConstraint,
    evaluate_on,
    fit_chain,
    measure_training_gap,
)
from partialfair.exceptions import InputError
from partialfair.metrics.report import FairnessReport
from partialfair.optimization.solvers import Status, decide_status_on_new_rows
from partialfair.training.result import FitResult, Population
from partialfair.utils.clock import acknowledge_interrupt, out_of_time
from partialfair.utils.typing import ArrayLike

# Limits of the trained models, in units of ``max_gap``. Gaps on new data are larger than in training, so the
# largest limit that can be validated is below 1; below 0.1 models fit the noise of the training rows.
_TIGHTER = np.geomspace(1.0, 0.1, 8)


def fit_population(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None,
    weights: Any,
    clusters: ArrayLike | None,
    deadline: float,
) -> None:
    """Fit models with decreasing limits, validate them on held-out rows, and adopt the best."""
    stated, record = read_bounded_constraint(estimator)
    samples = read_samples(estimator, X, y, groups, weights, clusters).with_weight()
    parts = hold_out(estimator, samples, estimator.validation, clusters, seed_of(estimator))
    parts = replace(parts, evaluated=parts.evaluated.with_weight())
    train, held_out = parts.train, parts.evaluated
    if not is_rows(estimator.validation) and not (train.n and held_out.n):
        raise InputError(
            f"validation={estimator.validation:g} of {samples.n} rows leaves none to "
            f"{'train on' if held_out.n else 'validate models on'}"
        )
    # Each fit limits the exact training gap; only the choice among the models concerns the population.
    inner = estimator._prepare_fits(train).set_params(enforce="exact", sensitive_columns=None, validation=0.2)
    scoring, size = choose_scoring(estimator), estimator.min_group_size
    parts.check(inner, scoring)
    check_group_sizes(inner, stated, record.metric, train, held_out, size, "list")
    error, max_gap = 1 - estimator.confidence, float(stated.max_gap)
    # Limits below max_gap as well: training gaps are smaller than gaps on new data.
    gaps = sorted({float(stated.max_gap * part) for part in _TIGHTER}, reverse=True)
    varied = VariedConstraint(stated, record, record.bounded)
    points, remarks, cut = _fit_models(inner, parts, gaps, varied, scoring, deadline)
    path = _RememberingPath(
        tuple(points), scoring, held_out, size, "list", record, seed_of(estimator), remarks=remarks
    )
    validated, shortfall = path.find_validated(max_gap, error), None
    if validated:
        chosen = find_best(list(validated))
        upper_bound = path.gap(chosen).bound_above(validated[chosen])
    else:
        chosen, upper_bound = path.find_lowest_bound(error)
        shortfall = path.explain_shortfall(max_gap, error)
    population = Population(
        max_gap=max_gap,
        confidence=float(estimator.confidence),
        validated=bool(validated),
        upper_bound=upper_bound,
        gap=path.gap(chosen).gap,
        n_rows=held_out.n,
        n_models=len(points),
        n_validated=len(validated),
        trained_max_gap=chosen.max_gap,
        scoring=scoring,
        score=chosen.score,
        score_without=points[0].score,
        not_evaluated=_find_excluded(path, chosen, train),
    )
    # The estimator adopts the attributes of the chosen model, as if it had been fitted alone.
    for name in estimator._set_by_fits:
        if hasattr(chosen.model, name):
            setattr(estimator, name, getattr(chosen.model, name))
    estimator.result_ = result = _describe(inner, chosen, train, population, cut, shortfall)
    for remark in _select_remarks(result, remarks[chosen]):
        warnings.warn(remark, stacklevel=3)


@dataclass(frozen=True, eq=False)
class _RememberingPath(FairnessPath):
    """A path that stores the warnings of fits and reports by model; only the chosen model's are issued."""

    remarks: dict[PathPoint, list[Warning]] = field(default_factory=dict)

    def report(self, point: PathPoint, confidence: float = 0.95) -> FairnessReport:
        """Return all metrics of the model, as in `FairnessPath`."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = super().report(point, confidence)
        self.remarks.setdefault(point, []).extend(_messages(caught))
        return report


def _messages(caught: list[warnings.WarningMessage]) -> list[Warning]:
    return [line.message for line in caught if isinstance(line.message, Warning)]


def _fit_models(
    estimator: Any,
    parts: HeldOut,
    gaps: list[float],
    varied: VariedConstraint,
    scoring: str,
    deadline: float,
) -> tuple[list[PathPoint], dict[PathPoint, list[Warning]], Status | None]:
    """Fit models until the deadline or an interrupt; return them, their warnings, and what ended the fits."""
    points: list[PathPoint] = []
    remarks: dict[PathPoint, list[Warning]] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def keep_remarks(point: PathPoint) -> None:
            remarks[point] = _messages(caught)
            caught.clear()
            if point.model.result_.status is Status.STOPPED:
                raise KeyboardInterrupt  # a callback that stops one fit stops all fits

        try:
            fit_chain(
                estimator,
                parts.train,
                gaps,
                float(estimator.alpha),
                evaluate_on(parts.evaluated, scoring),
                keep_remarks,
                varied,
                deadline=deadline,
                points=points,
            )
        except KeyboardInterrupt:
            if not points:
                raise
            acknowledge_interrupt()
            return points, remarks, Status.STOPPED
    return points, remarks, Status.TIME_LIMIT if out_of_time(deadline) else None


def _find_excluded(path: FairnessPath, point: PathPoint, train: Samples) -> tuple[Any, ...]:
    """Return the groups that were not evaluated because too few of their rows, or none, were held out."""
    report = path.report(point)
    # Groups with enough rows but too few labels.
    few = {group.group for group in report.too_few_labelled.get(path.record.metric, ())}
    evaluated = {group.group for group in report.groups} - few
    known = dict.fromkeys([*train.groups.labels, *path.validation.groups.labels])
    return tuple(label for label in known if label not in evaluated)


def _describe(
    estimator: Any,
    chosen: PathPoint,
    train: Samples,
    population: Population,
    cut: Status | None,
    shortfall: str | None,
) -> FitResult:
    """Return the result of the chosen model's fit with the population guarantee."""
    of_fit: FitResult = chosen.model.result_
    gaps = of_fit.gaps
    if chosen.unconstrained:
        gaps = (measure_training_gap(chosen.constraint, chosen.model, train)[1],)
    return replace(
        of_fit,
        status=decide_status_on_new_rows(of_fit.status, validated=population.validated, cut=cut),
        constraints=(replace(chosen.constraint, max_gap=population.max_gap),),
        gaps=gaps,
        infeasibility=shortfall,
        enforce="population",
        population=population,
        interval_chosen=isinstance(estimator.interval, str),
    )


def _select_remarks(result: FitResult, others: list[Warning]) -> list[Warning]:
    """Return warnings about a failed validation, about an early end, and those of the chosen model.

    Convergence warnings of the chosen fit are omitted, because only the population guarantee matters here.
    """
    remarks: list[Warning] = []
    population = result.population
    assert population is not None
    if not population.validated:
        remarks.append(ConvergenceWarning(f"{population.sentence}: {result.infeasibility}"))
    if result.status in (Status.TIME_LIMIT, Status.STOPPED):
        advice = "raise time_limit" if result.status is Status.TIME_LIMIT else "it was stopped"
        remarks.append(
            ConvergenceWarning(
                f"the fit ended with status {result.status} after {population.n_models} models; {advice}"
            )
        )
    remarks += [one for one in others if not isinstance(one, ConvergenceWarning)]
    return list({str(remark): remark for remark in remarks}.values())  # each message once
