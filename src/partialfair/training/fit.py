"""The fit of a linear model as a function: rows, constraints and settings in, model and result out.

This module does not depend on estimators. Scores are counted in a unit (`partialfair.training.units`):
constraints, settings and warm starts are converted at the beginning, the model and its result at the end.
Between the two, `partialfair.training.search.find_model` runs the steps of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from partialfair.constraints.base import Constraint
from partialfair.data.samples import Samples
from partialfair.optimization.objectives import LossSettings
from partialfair.optimization.problems import EVERYWHERE
from partialfair.training.remarks import (
    flat_partial_auc_warning,
    flat_scores_warning,
    group_intercept_advice,
    idle_threshold_warning,
    small_group_warning,
)
from partialfair.training.result import FitResult
from partialfair.training.search import SearchResult, find_model
from partialfair.training.settings import EarlierFits, FitSettings, Start, WarmStart
from partialfair.training.statement import Training
from partialfair.training.threads import one_blas_thread
from partialfair.training.units import ColumnUnits, Offset, prepare_rows
from partialfair.utils.clock import ignore_deadline
from partialfair.utils.typing import Floats, GroupLabel


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted linear model.

    Attributes
    ----------
    coef, intercept
        One row and one number, or one of each per group with group terms.
    labels
        Groups of the rows; None if they were not needed.
    result
        The result of the fit.
    columns
        Units and origins of the features.
    unconstrained
        Parameters of the unconstrained model; None without constraints.
    surrogate_bias
        For a `WarmStart`; None if the fit gives no estimate of it.
    earlier
        Results for the next fit of the same rows.
    remarks
        Warnings, besides those about the result and the columns.
    """

    coef: Floats
    intercept: Floats
    labels: tuple[GroupLabel, ...] | None
    result: FitResult
    columns: ColumnUnits
    unconstrained: Floats | None
    surrogate_bias: Floats | None
    earlier: EarlierFits
    remarks: tuple[Warning, ...]


# NumPy and SciPy each have a BLAS, whose threads compete: the many small products of a solve take several
# times as long with both. The number of threads also affects how products are rounded.
@one_blas_thread()
def fit_linear(
    samples: Samples,
    constraints: Sequence[Constraint],
    loss: LossSettings,
    settings: FitSettings,
    *,
    deadline: float = float("inf"),
    loss_factors: Floats | None = None,
    unit: float = 1.0,
    warm_start: WarmStart | None = None,
    offset: Offset | None = None,
    earlier: EarlierFits | None = None,
) -> LinearFit:
    """Fit a linear model.

    Parameters
    ----------
    samples : Samples
        Rows with weight; ``y`` holds whether each row is positive, or the numbers to predict.
    constraints : sequence of Constraint
        The stated constraints, in the units of the caller.
    loss : LossSettings
        The loss, before it is applied to rows.
    settings : FitSettings
        In the units of the caller.
    deadline : float, default=inf
        Time on the monotonic clock at which the fit has to end.
    loss_factors : (n,), optional
        Factors of the row weights in the loss.
    unit : float, default=1.0
        Unit of scores in the fit, plus or minus a power of two. A negative one makes low scores favorable.
    warm_start : WarmStart, optional
        The start that an earlier fit left.
    offset : Offset, optional
        Model whose scores are added, so that coefficients are differences from it.
    earlier : EarlierFits, optional
        Results of other constrained fits of the same rows: `LinearFit.earlier` of the last of them.

    Returns
    -------
    LinearFit
        The model and its result.
    """
    # The first model of a path has no constraint, and may not use the groups of its rows.
    known = earlier if earlier is not None and constraints else EarlierFits()
    offset = None if offset is None else offset.in_units(unit)
    # Columns are measured and the model is built once for all fits of a path.
    rows = known.rows or prepare_rows(
        samples,
        loss,
        alpha=settings.alpha,
        fit_intercept=settings.fit_intercept,
        group_terms=settings.group_terms,
        loss_factors=loss_factors,
        unit=unit,
        offset=offset,
    )
    model, groups = rows.model, rows.samples.groups
    # Without both, groups may be unknown, and the fitted model has none.
    uses_groups = bool(constraints) or settings.group_terms is not None
    labels = groups.labels if uses_groups else ()
    start = Start() if warm_start is None else warm_start.start(model, labels, unit)
    box = EVERYWHERE
    if offset is not None:  # differences from another model begin at 0
        start, box = replace(start, begin=np.zeros(model.parameters.n)), offset.domain(model)
    training = Training(rows.data, rows.objective, rows.alpha, groups, settings.tol, box)
    found = find_model(
        training,
        [one.in_units(unit) for one in constraints],
        settings.in_units(unit),
        end=deadline,
        start=start,
        earlier=replace(known, rows=rows),
    )
    result = _describe(found, settings)
    coef, intercept = (part.copy() for part in model.unpack(found.w))
    if not settings.fit_intercept:
        # A model without intercepts has none to unpack; predictions add zeros.
        intercept = np.zeros(1 if settings.group_terms is None else len(labels))
    attempt = found.attempt
    grouped = [one for one in attempt.training.constraints if not one.is_adjoining]
    unconstrained, without = found.search.task.unconstrained, found.search.task.without
    reference = None if unconstrained is None else without.rows.at(unconstrained.x).counts()
    if reference is not None and settings.group_terms is None and offset is None:
        sign = 1.0 if settings.higher_is_better else -1.0
        advice = group_intercept_advice(grouped, found.counts.weighted, reference.weighted, sign)
        result = replace(result, advice=advice)
    remarks = (
        small_group_warning(grouped),
        flat_scores_warning(result, found.counts, reference),
        idle_threshold_warning(grouped, found.counts.weighted) if result.tied_share < 1 else None,
        flat_partial_auc_warning(loss, abs(unit) * result.spread),
    )
    return LinearFit(
        coef=unit * coef,
        intercept=unit * intercept,
        labels=labels if uses_groups else None,
        result=result.in_units(unit),
        columns=rows.columns,
        unconstrained=None if unconstrained is None else unconstrained.x,
        # With constraints that are exact at each rank, trained limits do not measure the surrogate's bias.
        surrogate_bias=attempt.surrogate_bias if attempt.constraints and not attempt.rank_by_rank else None,
        earlier=found.earlier if constraints else earlier or EarlierFits(),
        remarks=tuple(remark for remark in remarks if remark is not None),
    )


def _describe(found: SearchResult, settings: FitSettings) -> FitResult:
    """Return the result of a search, in the units of the fit."""
    attempt, training, task = found.attempt, found.attempt.training, found.search.task
    is_solution = np.array_equal(found.w, attempt.w)
    with ignore_deadline():
        # The answer may come from the direct search; thresholds are then computed for its scores.
        x = attempt.result.x if is_solution else attempt.problem.start_at(found.w)
        violation = attempt.result.violation if is_solution else attempt.problem.evaluate(x).violation
        constant_objective = task.without.evaluate(task.without.constant_start).objective
    counts = found.counts.weighted
    with_gaps = list(zip(training.constraints, training.gaps(found.counts), strict=True))
    stated = [(one, gap) for one, gap in with_gaps if not one.is_adjoining]
    adjoining = [(one, gap) for one, gap in with_gaps if one.is_adjoining]
    accuracy = constant_accuracy = float("nan")
    if counts.positive is not None:
        sign = 1.0 if settings.higher_is_better else -1.0
        # Predictions compare scores with 0, whatever the threshold of the constraint.
        is_right = (sign * counts.scores > 0) == counts.positive
        accuracy = float(np.average(is_right, weights=counts.weights))
        rate = float(np.average(counts.positive, weights=counts.weights))
        constant_accuracy = max(rate, 1 - rate)
    return FitResult(
        status=found.status,
        objective=found.objective,
        max_violation=violation,
        constraints=tuple(one.stated for one, _ in stated),
        gaps=tuple(gap for _, gap in stated),
        outside=tuple(one.stated for one, _ in adjoining),
        outside_gaps=tuple(gap for _, gap in adjoining),
        thresholds=attempt.problem.split(x)[1].copy(),
        infeasibility=found.infeasibility,
        surrogate=attempt.sigma,
        tied_share=float(counts.tied[0]),
        spread=found.counts.spread,
        history=attempt.result.history,
        kkt=replace(found.kkt, objective=attempt.result.objective, gap=attempt.gap),
        tol=settings.tol,
        enforce=settings.enforce,
        small_groups=tuple(dict.fromkeys(label for one, _ in stated for label in one.small)),
        higher_is_better=settings.higher_is_better,
        candidates=tuple(found.search.attempts.pool.tried),
        interval_chosen=training.interval_chosen,
        constant_objective=constant_objective,
        accuracy=accuracy,
        constant_accuracy=constant_accuracy,
    )
