"""The fit of a linear model as a function: rows, constraints and settings in, model and result out.

Nothing here knows an estimator. Scores are counted in a unit (`partialfair.training.score_units`):
constraints, settings and what an earlier fit left are converted at the beginning, the model and its result at
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from partialfair.constraints import Constraint
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.samples import Samples
from partialfair.optimization.models import linear_model
from partialfair.optimization.models.linear import GroupTerms, LinearModel
from partialfair.optimization.objectives import LossSettings, Objective, mirror_loss
from partialfair.optimization.problems import Cells, Certificate, InMemoryData, WeightedScores
from partialfair.optimization.solvers import Record
from partialfair.training.column_units import ColumnUnits, column_units
from partialfair.training.offset import Offset
from partialfair.training.path_memory import PathMemory, PreparedFit
from partialfair.training.placing import Automatic
from partialfair.training.promise import small_group_warning, small_groups
from partialfair.training.remarks import flat_scores_warning, idle_threshold_warning
from partialfair.training.result import FitResult
from partialfair.training.score_units import record_in_users_units, result_in_users_units
from partialfair.training.search import Search, SearchResult, SearchSettings, ending
from partialfair.training.threads import one_blas_thread
from partialfair.utils.clock import ignore_deadline, notice_interrupts
from partialfair.utils.typing import Floats, GroupLabel

__all__ = ["FitSettings", "LinearFit", "WarmStart", "fit_linear"]


@dataclass(frozen=True, kw_only=True)
class FitSettings(SearchSettings):
    """What is fitted and how, besides rows and constraints.

    Attributes
    ----------
    alpha
        Of the penalty ``½ alpha ‖coef‖²``.
    fit_intercept, group_terms
        Terms of the model; see `linear_model`.
    higher_is_better
        Whether scores above 0 predict the positive class; else those below do.
    """

    alpha: float
    fit_intercept: bool = True
    group_terms: GroupTerms = None
    higher_is_better: bool = True

    def in_units(self, unit: float) -> FitSettings:
        """Return the settings of the same fit with scores in other units."""
        surrogate, width, callback = self.surrogate, self.surrogate_width, self.callback
        if isinstance(surrogate, Surrogate):
            surrogate = replace(surrogate, width=surrogate.width / abs(unit))
        elif width != "auto":
            width = width / abs(unit)
        if self.callback is not None:
            callback = _in_users_units(self.callback, unit)
        return replace(self, surrogate=surrogate, surrogate_width=width, callback=callback)


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What an earlier fit left to begin with.

    Attributes
    ----------
    coef, intercept, labels, thresholds
        Its model, the groups of group terms, and the thresholds of its constraints.
    unconstrained
        Parameters of its unconstrained model, if it had one.
    surrogate_bias
        By how much its exact gaps were wider than its constraints allowed; see `Search`.
    """

    coef: Floats
    intercept: Floats
    labels: tuple[GroupLabel, ...]
    thresholds: Floats
    unconstrained: Floats | None = None
    surrogate_bias: Floats | None = None

    def in_units(self, unit: float) -> WarmStart:
        """Return the same with scores in other units."""
        scaled = (values / unit for values in (self.coef, self.intercept, self.thresholds))
        coef, intercept, thresholds = scaled
        return replace(self, coef=coef, intercept=intercept, thresholds=thresholds)

    def parameters(self, model: LinearModel, labels: tuple[GroupLabel, ...]) -> tuple[Floats, Floats] | None:
        """Return parameters of a model and thresholds; None if they do not fit the model."""
        intercept = self.intercept if model.n_intercepts else np.empty(0)
        shapes = (model.n_vectors, model.design.shape[1]), (model.n_intercepts,)
        if self.labels != labels or (self.coef.shape, intercept.shape) != shapes:
            return None
        return model.pack(self.coef, intercept), self.thresholds


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
    units
        How features were measured.
    unconstrained
        Parameters of the unconstrained model; None if there was no constraint.
    surrogate_bias
        For a `WarmStart`; None if the fit says nothing about it.
    remarks
        What is to be warned of, besides what the result itself says.
    """

    coef: Floats
    intercept: Floats
    labels: tuple[GroupLabel, ...] | None
    result: FitResult
    units: ColumnUnits
    unconstrained: Floats | None
    surrogate_bias: Floats | None
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
    memory: PathMemory | None = None,
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
    memory : PathMemory, optional
        What other fits of the same rows have found. It is extended.

    Returns
    -------
    LinearFit
    """
    stated = tuple(one.in_units(unit) for one in constraints)
    settings = settings.in_units(unit)
    offset = None if offset is None else offset.in_units(unit)
    earlier = None if warm_start is None else warm_start.in_units(unit)
    # The first model of a path has no constraint, and may do without the groups of its rows.
    memory = memory if memory is not None and stated else PathMemory()
    if memory.prepared is None:
        objective = _objective(samples, loss, loss_factors, unit, anchored=settings.fit_intercept)
        memory.prepared = _prepare(samples, objective, settings, offset)
    prepared = memory.prepared
    samples, model = prepared.samples, prepared.model
    uses_groups = bool(stated) or settings.group_terms is not None
    labels = samples.groups.labels if uses_groups else ()
    surrogate_bias = None if earlier is None else earlier.surrogate_bias
    search = Search(
        settings,
        prepared.data,
        prepared.alpha,
        samples.groups,
        prepared.objective,
        stated,
        # Coefficients that are counted from another model begin there.
        begin=np.zeros(model.parameters.n) if offset is not None else None,
        box=None if offset is None else offset.domain(model),
        last=None if earlier is None else earlier.parameters(model, labels),
        last_free=None if earlier is None else earlier.unconstrained,
        surrogate_bias=None
        if surrogate_bias is None or surrogate_bias.size != len(stated)
        else surrogate_bias,
        memory=memory,
    )
    with notice_interrupts():
        found = search.run(deadline)
        certificate = search.certificate(found.attempt, deadline)
    result = _result(search, found, certificate, settings)
    attempt, free = found.attempt, search.free
    coef, intercept = (part.copy() for part in model.unpack(found.w))
    if not settings.fit_intercept:
        intercept = np.zeros(1 if settings.group_terms is None else len(labels))
    remarks: list[Warning | None] = [
        small_group_warning(attempt.training.promises),
        flat_scores_warning(result, found.counts, search.unconstrained_counts),
    ]
    if result.tied_share < 1:
        remarks.append(idle_threshold_warning(attempt.training.promises, found.counts.weighted))
    return LinearFit(
        coef=unit * coef,
        intercept=unit * intercept,
        labels=labels if uses_groups else None,
        result=result_in_users_units(result, unit),
        units=prepared.units,
        unconstrained=None if free is None else free.x,
        surrogate_bias=attempt.surrogate_bias if attempt.constraints and not attempt.rank_by_rank else None,
        remarks=tuple(remark for remark in remarks if remark is not None),
    )


def _objective(
    samples: Samples, loss: LossSettings, factors: Floats | None, unit: float, *, anchored: bool
) -> Objective:
    """Tie the loss to rows, for scores in a unit; where low scores are good, a classifier's is mirrored."""
    weights = samples.row_weights if factors is None else samples.row_weights * factors
    if samples.positive is None:
        return loss.build(samples.y / unit, weights, anchored=anchored)
    objective = loss.build(np.where(samples.positive, 1.0, -1.0), weights, anchored=anchored)
    return objective if unit > 0 else replace(objective, loss=mirror_loss(objective.loss))


def _prepare(
    samples: Samples, objective: Objective, settings: FitSettings, offset: Offset | None
) -> PreparedFit:
    """Return samples in units that suit the solver, and the model that scores them."""
    weights, groups = samples.row_weights, samples.groups
    units = column_units(samples.X, weights, centred=settings.fit_intercept)
    model = linear_model(
        samples.X,
        codes=None if settings.group_terms is None else groups.codes,
        n_groups=1 if settings.group_terms is None else len(groups.labels),
        group_terms=settings.group_terms,
        fit_intercept=settings.fit_intercept,
        scales=units.scales,
        centres=units.centres,
    )
    if offset is not None:
        model = offset.moved(model)
    alpha = np.tile(units.penalties(settings.alpha), model.n_vectors)
    rows = InMemoryData(model, objective, Cells(weights, groups.codes, samples.positive))
    return PreparedFit(samples, objective, units, model, alpha, rows)


def _result(
    search: Search, found: SearchResult, certificate: Certificate, settings: FitSettings
) -> FitResult:
    """Describe the model that a search came back with, in the units of the fit."""
    attempt, training = found.attempt, found.attempt.training
    is_solution = np.array_equal(found.w, attempt.w)
    with ignore_deadline():
        x = attempt.result.x if is_solution else attempt.problem.start_at(found.w)
        violation = attempt.result.violation if is_solution else attempt.problem.evaluate(x).violation
        constant_objective = search.constant_objective
    status, obstacle = ending(found, certificate, search.exact)
    sign = 1.0 if settings.higher_is_better else -1.0
    accuracy, constant_accuracy = _accuracies(found.counts.weighted, sign)
    return FitResult(
        status=status,
        objective=found.objective,
        max_violation=violation,
        constraints=tuple(promise.stated for promise in training.promises),
        gaps=training.gaps(found.counts),
        thresholds=attempt.problem.split(x)[1].copy(),
        obstacle=obstacle,
        surrogate=attempt.sigma,
        tied_share=float(found.counts.weighted.tied[0]),
        spread=found.counts.spread,
        history=attempt.result.history,
        kkt=replace(certificate, objective=attempt.result.objective, gap=attempt.gap),
        tol=settings.tol,
        enforce=settings.enforce,
        small_groups=small_groups(training.promises),
        higher_is_better=settings.higher_is_better,
        search=found.tried,
        interval_chosen=any(isinstance(one.interval, Automatic) for one in search.constraints),
        constant_objective=constant_objective,
        accuracy=accuracy,
        constant_accuracy=constant_accuracy,
    )


def _accuracies(counts: WeightedScores, sign: float) -> tuple[float, float]:
    """Return the accuracy of scores and of the best constant prediction; nan without labels."""
    if counts.positive is None:
        return float("nan"), float("nan")
    rate = float(np.average(counts.positive, weights=counts.weights))
    accuracy = np.average((sign * counts.scores > 0) == counts.positive, weights=counts.weights)
    return float(accuracy), max(rate, 1 - rate)


def _in_users_units(
    callback: Callable[[Record], bool | None], unit: float
) -> Callable[[Record], bool | None]:
    """Return a callback whose records count scores in units of 1."""
    return lambda record: callback(record_in_users_units(record, unit))
