"""The fit of a linear model as a function: rows, constraints and settings in, model and result out.

Nothing here knows an estimator. Scores are counted in a unit (`partialfair.training.units`): constraints,
settings and what an earlier fit left are converted at the beginning, the model and its result at the end.
Between the two, `partialfair.training.search.find_model` goes through the steps of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from partialfair.constraints import Constraint
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.features import Features
from partialfair.data.groups import Groups
from partialfair.data.samples import Samples
from partialfair.exceptions import InputError
from partialfair.optimization.models import GroupTerms, LinearModel, linear_model
from partialfair.optimization.objectives import LossSettings
from partialfair.optimization.problems import Certificate
from partialfair.optimization.solvers import Record
from partialfair.training.offset import Offset
from partialfair.training.remarks import (
    flat_partial_auc_warning,
    flat_scores_warning,
    idle_threshold_warning,
)
from partialfair.training.result import FitResult
from partialfair.training.search import (
    EarlierFits,
    FitSettings,
    SearchResult,
    Start,
    certify_attempt,
    decide_ending,
    find_model,
)
from partialfair.training.statement import Automatic, Training, small_group_warning
from partialfair.training.threads import one_blas_thread
from partialfair.training.units import (
    ColumnUnits,
    prepare_rows,
    record_in_users_units,
    result_in_users_units,
)
from partialfair.utils.clock import ignore_deadline, noticing_interrupts
from partialfair.utils.typing import Floats, GroupLabel


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What an earlier fit left to begin with, in the units of the caller.

    Attributes
    ----------
    coef, intercept, labels, thresholds
        Its model, the groups of group terms, and the thresholds of its constraints.
    unconstrained
        Parameters of its unconstrained model, if it had one.
    surrogate_bias
        By how much its exact gaps exceeded its trained limits; see `Start`.
    """

    coef: Floats
    intercept: Floats
    labels: tuple[GroupLabel, ...]
    thresholds: Floats
    unconstrained: Floats | None = None
    surrogate_bias: Floats | None = None

    def start(
        self, model: LinearModel, labels: tuple[GroupLabel, ...], n_constraints: int, unit: float
    ) -> Start:
        """Return where a search for a model begins; parameters count only if they fit the model."""
        intercept = self.intercept if model.n_intercepts else np.empty(0)
        shapes = (model.n_vectors, model.design.shape[1]), (model.n_intercepts,)
        last, bias = None, self.surrogate_bias
        if self.labels == labels and (self.coef.shape, intercept.shape) == shapes:
            last = model.pack(self.coef / unit, intercept / unit), self.thresholds / unit
        return Start(
            last=last,
            unconstrained=self.unconstrained,
            surrogate_bias=None if bias is None or bias.size != n_constraints else bias,
        )


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted linear model.

    Attributes
    ----------
    coef, intercept
        One row and one number, or one for each group with group terms.
    labels
        Groups of the rows; None if they were not needed.
    result
        How the fit ended.
    columns
        How features were measured.
    unconstrained
        Parameters of the unconstrained model; None if there was no constraint.
    surrogate_bias
        For a `WarmStart`; None if the fit says nothing about it.
    earlier
        For the next fit of the same rows.
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


# NumPy and SciPy bring a BLAS each, whose threads get in each other's way: small products, of which a
# solve has many, take several times as long with both. And their number decides how products are rounded.
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
        Rows with weight; ``y`` says which are positive, or holds the numbers to predict.
    constraints : sequence of Constraint
        As stated, in the units of the caller.
    loss : LossSettings
        The loss, before it is tied to rows.
    settings : FitSettings
        In the units of the caller.
    deadline : float, default=inf
        When the fit has to end, on the monotonic clock.
    loss_factors : (n,), optional
        What weights are multiplied by in the loss.
    unit : float, default=1.0
        Unit of scores in the fit, plus or minus a power of two. A negative one makes low scores high.
    warm_start : WarmStart, optional
        What an earlier fit left.
    offset : Offset, optional
        Another model that coefficients are counted from.
    earlier : EarlierFits, optional
        What other constrained fits of the same rows have found: `LinearFit.earlier` of the last of them.

    Returns
    -------
    LinearFit
    """
    # The first model of a path has no constraint, and may do without the groups of its rows.
    known = earlier if earlier is not None and constraints else EarlierFits()
    offset = None if offset is None else offset.in_units(unit)
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
    uses_groups = bool(constraints) or settings.group_terms is not None
    labels = groups.labels if uses_groups else ()
    start = Start() if warm_start is None else warm_start.start(model, labels, len(constraints), unit)
    box = None
    if offset is not None:  # coefficients that are counted from another model begin there
        start, box = replace(start, begin=np.zeros(model.parameters.n)), offset.domain(model)
    training = Training(rows.data, rows.objective, rows.alpha, groups, settings.tol, box)
    with noticing_interrupts():
        found = find_model(
            training,
            [one.in_units(unit) for one in constraints],
            _settings_in_units(settings, unit),
            end=deadline,
            start=start,
            earlier=replace(known, rows=rows),
        )
        certificate = certify_attempt(found.attempt, deadline, settings.grace)
    automatic = any(isinstance(one.interval, Automatic) for one in constraints)
    result = _describe(found, certificate, settings, interval_chosen=automatic)
    coef, intercept = (part.copy() for part in model.unpack(found.w))
    if not settings.fit_intercept:
        intercept = np.zeros(1 if settings.group_terms is None else len(labels))
    attempt, grouped = found.attempt, found.attempt.training.constraints
    remarks = (
        small_group_warning(grouped),
        flat_scores_warning(result, found.counts, found.unconstrained_counts),
        idle_threshold_warning(grouped, found.counts.weighted) if result.tied_share < 1 else None,
        flat_partial_auc_warning(loss, abs(unit) * result.spread),
    )
    return LinearFit(
        coef=unit * coef,
        intercept=unit * intercept,
        labels=labels if uses_groups else None,
        result=result_in_users_units(result, unit),
        columns=rows.columns,
        unconstrained=None if found.search.unconstrained is None else found.search.unconstrained.x,
        surrogate_bias=attempt.surrogate_bias if attempt.constraints and not attempt.rank_by_rank else None,
        earlier=found.earlier if constraints else earlier or EarlierFits(),
        remarks=tuple(remark for remark in remarks if remark is not None),
    )


def _settings_in_units(settings: FitSettings, unit: float) -> FitSettings:
    """Return the settings of the same fit with scores in a unit."""
    sigma, width, callback = settings.surrogate, settings.surrogate_width, settings.callback
    if isinstance(sigma, Surrogate):
        sigma = replace(sigma, width=sigma.width / abs(unit))
    elif width != "auto":
        width = width / abs(unit)

    def call(record: Record) -> bool | None:
        assert callback is not None
        return callback(record_in_users_units(record, unit))

    return replace(
        settings,
        surrogate=sigma,
        surrogate_width=width,
        callback=None if callback is None else call,
    )


def _describe(
    found: SearchResult, certificate: Certificate, settings: FitSettings, *, interval_chosen: bool
) -> FitResult:
    """Describe the model that a search came back with, in the units of the fit."""
    attempt, training, search = found.attempt, found.attempt.training, found.search
    problem = search.attempts.pool.problem
    is_solution = np.array_equal(found.w, attempt.w)
    with ignore_deadline():
        x = attempt.result.x if is_solution else attempt.problem.start_at(found.w)
        violation = attempt.result.violation if is_solution else attempt.problem.evaluate(x).violation
        constant_objective = problem.evaluate(problem.constant_start).objective
    status, obstacle = decide_ending(found, certificate)
    counts, grouped = found.counts.weighted, training.constraints
    accuracy = constant_accuracy = float("nan")
    if counts.positive is not None:
        sign = 1.0 if settings.higher_is_better else -1.0
        is_right = (sign * counts.scores > 0) == counts.positive
        accuracy = float(np.average(is_right, weights=counts.weights))
        rate = float(np.average(counts.positive, weights=counts.weights))
        constant_accuracy = max(rate, 1 - rate)
    return FitResult(
        status=status,
        objective=found.objective,
        max_violation=violation,
        constraints=tuple(one.stated for one in grouped),
        gaps=training.gaps(found.counts),
        thresholds=attempt.problem.split(x)[1].copy(),
        obstacle=obstacle,
        surrogate=attempt.sigma,
        tied_share=float(counts.tied[0]),
        spread=found.counts.spread,
        history=attempt.result.history,
        kkt=replace(certificate, objective=attempt.result.objective, gap=attempt.gap),
        tol=settings.tol,
        enforce=settings.enforce,
        small_groups=tuple(dict.fromkeys(label for one in grouped for label in one.small)),
        higher_is_better=settings.higher_is_better,
        search=found.tried,
        interval_chosen=interval_chosen,
        constant_objective=constant_objective,
        accuracy=accuracy,
        constant_accuracy=constant_accuracy,
    )


def score_rows(X: Features, coef: Floats, intercept: Floats, groups: Groups | None = None) -> Floats:
    """Return the scores of a fitted linear model; with group terms, of rows of the groups of its terms."""
    terms: GroupTerms = None
    if groups is not None:
        terms = "interactions" if len(coef) > 1 else "intercept"
    model = linear_model(
        X,
        codes=None if groups is None else groups.codes,
        n_groups=1 if groups is None else len(groups.labels),
        group_terms=terms,
    )
    if model.design.shape[1] != coef.shape[1]:
        raise InputError(
            f"X has {model.design.shape[1]} features, but there are {coef.shape[1]} coefficients"
        )
    return model.scores(model.pack(coef, intercept))
