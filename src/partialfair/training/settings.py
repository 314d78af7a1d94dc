"""Settings of a fit, and the results of earlier fits of the same rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from partialfair.constraints.surrogates import Surrogate, surrogate
from partialfair.optimization.models import GroupTerms, LinearModel
from partialfair.optimization.problems import Counts, Problem
from partialfair.optimization.solvers import IDCA, Newton, Record, Result, Solver
from partialfair.training.attempts import Attempt
from partialfair.training.candidates import CandidateModel, Pool
from partialfair.training.direct_search import DirectSearch
from partialfair.training.escalation import Escalation
from partialfair.training.options import FitOptions
from partialfair.training.tightening import Tightening
from partialfair.training.units import PreparedRows
from partialfair.utils.typing import Floats, GroupLabel


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Settings of a fit besides rows, loss and constraints; parameters of estimators define most of them.

    Attributes
    ----------
    alpha
        Strength of the penalty ``½ alpha ‖coef‖²``.
    fit_intercept, group_terms
        Terms of the model; see `linear_model`.
    higher_is_better
        Whether scores above 0 predict the positive class; otherwise scores below 0 do.
    solver, solver_name, max_iter
        The solver, and the name and limit by which it was chosen. A solver that was not chosen by name (None)
        is never replaced by one that suits the problem better.
    enforce
        Whether the limits apply to exact gaps or to surrogate constraints only.
    outside
        Whether gaps next to the interval may be larger than those of the unconstrained model.
    options
        The user's `FitOptions`; ``n_points`` and ``n_starts`` are in the constraints and the solver.
    min_group_size, tol
        As in `PartialFairClassifier`.
    seed
        Seed of everything random.
    callback, verbose
        The user's callback, and how much progress to report.
    tightening, direct, escalation
        Settings of the corrections of surrogate problems, of the steps on the exact metric, and of the search
        if no feasible point with a KKT certificate was found.
    relative_width, min_spread
        Width of a surrogate in units of the spread of the unconstrained scores: on a9a, law school and the
        synthetic admissions with max_gap 0.05 the exact gap was smallest between 0.15 and 0.4. Scores whose
        spread is smaller than ``min_spread``, relative to their size, are equal up to rounding errors.
    unconstrained_tol
        Gradient of the unconstrained model, which is only a start, in units of tol.
    n_looks
        Number of solves that look for a feasible KKT point near the best model, without an escalation.
    times_after_long_solves
        Number of evaluations of the exact metric, in units of the usual number, as long as no model is
        feasible and a solve costs hundreds of them.
    grace
        Seconds after the deadline that the KKT certificate of the best point may take.
    """

    alpha: float
    fit_intercept: bool = True
    group_terms: GroupTerms = None
    higher_is_better: bool = True
    solver: Solver
    solver_name: str | None = None
    max_iter: int | None = None
    enforce: Literal["exact", "surrogate", "population"] = "exact"
    outside: Literal["free", "no_worse"] = "free"
    options: FitOptions = field(default_factory=FitOptions)
    min_group_size: int = 2
    tol: float = 1e-4
    seed: int = 0
    callback: Callable[[Record], bool | None] | None = None
    verbose: int = 0
    tightening: Tightening = field(default_factory=Tightening)
    direct: DirectSearch = field(default_factory=DirectSearch)
    escalation: Escalation = field(default_factory=Escalation)
    relative_width: float = 0.25
    min_spread: float = 1e-9
    unconstrained_tol: float = 1e-2
    n_looks: int = 3
    times_after_long_solves: int = 5
    grace: float = 0.25

    def in_units(self, unit: float) -> FitSettings:
        """Return the settings of the same fit with scores in a unit."""
        options, callback = self.options, self.callback
        sigma, width = options.surrogate, options.surrogate_width
        if isinstance(sigma, Surrogate):
            options = replace(options, surrogate=replace(sigma, width=sigma.width / abs(unit)))
        elif width != "auto":
            options = replace(options, surrogate_width=width / abs(unit))

        def call(record: Record) -> bool | None:
            assert callback is not None
            return callback(replace(record, objective=unit**2 * record.objective))

        wrapped = None if callback is None else call
        return replace(self, options=options, callback=wrapped)

    def choose_surrogate(self, counts: Counts) -> Surrogate:
        """Return the surrogate; "auto" adapts its width to the spread of the unconstrained scores."""
        sigma, width = self.options.surrogate, self.options.surrogate_width
        if isinstance(sigma, Surrogate):
            return sigma
        if width != "auto":
            return surrogate(sigma, float(width))
        # Thresholds differ as scores do: a surrogate must cover a part of the interval, but not all of it.
        unit = counts.spread
        is_constant = unit <= self.min_spread * (1 + counts.scale.largest)
        width = 1.0 if is_constant else self.relative_width * unit
        return surrogate("rounded_ramp" if sigma == "ramp" else sigma, width)

    def select_solver(self, problem: Problem) -> Solver:
        """Return the solver, or one that suits the problem better if it was chosen by name."""
        # A solver object of the user is used for any problem.
        if self.solver_name is None:
            return self.solver
        if not problem.m:
            return Newton()  # constraints that cannot be violated
        if self.solver_name == "idca" and problem.rows.parameters.block_size > Newton.largest_block:
            # Hessians would be too large.
            return IDCA() if self.max_iter is None else IDCA(max_iter=self.max_iter)
        return self.solver


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The start that an earlier fit left, in the units of the caller.

    Attributes
    ----------
    coef, intercept, labels, thresholds
        Its model, the groups of group terms, and the thresholds of its constraints.
    unconstrained
        Parameters of its unconstrained model, if it had one.
    surrogate_bias
        Difference between its exact gaps and its trained limits; see `Start`.
    """

    coef: Floats
    intercept: Floats
    labels: tuple[GroupLabel, ...]
    thresholds: Floats
    unconstrained: Floats | None = None
    surrogate_bias: Floats | None = None

    def start(self, model: LinearModel, labels: tuple[GroupLabel, ...], unit: float) -> Start:
        """Return where a search for a model begins; parameters are used only if they match the model."""
        intercept = self.intercept if model.n_intercepts else np.empty(0)
        shapes = (model.n_vectors, model.design.shape[1]), (model.n_intercepts,)
        # A model with other groups or columns cannot be a start.
        last = None
        if self.labels == labels and (self.coef.shape, intercept.shape) == shapes:
            last = model.pack(self.coef / unit, intercept / unit), self.thresholds / unit
        return Start(last=last, unconstrained=self.unconstrained, surrogate_bias=self.surrogate_bias)


@dataclass(frozen=True, eq=False)
class Start:
    """Where a search begins, in units of the fit.

    Attributes
    ----------
    begin
        Where the unconstrained fit begins; None means at a constant score.
    last
        Parameters and thresholds of an earlier fit, if there is one.
    unconstrained
        Parameters of its unconstrained model.
    surrogate_bias
        Difference between its exact gaps and its trained limits in the end; see `Attempt.surrogate_bias`.
    """

    begin: Floats | None = None
    last: tuple[Floats, Floats] | None = None
    unconstrained: Floats | None = None
    surrogate_bias: Floats | None = None

    def point(self, problem: Problem) -> Floats | None:
        """Return the solution of the earlier fit, with its thresholds if their number is the same."""
        if self.last is None or self.last[0].size != problem.rows.parameters.n:
            return None
        w, thresholds = self.last
        # Thresholds of another grid do not apply; otherwise thresholds are computed from the scores.
        same = thresholds.size == problem.bank.n_theta
        return np.concatenate([w, thresholds]) if same else problem.start_at(w)


@dataclass(frozen=True, eq=False)
class PathModel:
    """The result of one fit of a path.

    Attributes
    ----------
    candidate
        The model, evaluated with the limits of the fit.
    attempt
        The attempt whose KKT certificate is reported.
    """

    candidate: CandidateModel
    attempt: Attempt

    @property
    def max_gaps(self) -> Floats:
        """The limits of the fit."""
        return self.attempt.training.max_gaps


@dataclass(frozen=True, eq=False)
class EarlierFits:
    """Results of fits of the same rows with other limits: one fit passes this value to the next.

    Attributes
    ----------
    rows
        The rows in units of the fit, once they are prepared.
    unconstrained
        The unconstrained model, once it is solved.
    models
        Models by limits, in the order in which the limits were first set.
    pareto
        Candidates, feasible or not, that no other candidate dominates in gaps and objective; their ``excess``
        holds gaps.
    """

    rows: PreparedRows | None = None
    unconstrained: Result | None = None
    models: tuple[PathModel, ...] = ()
    pareto: tuple[CandidateModel, ...] = ()

    def add(self, model: PathModel, pool: Pool) -> EarlierFits:
        """Return a copy with one more model, which replaces one with the same limits, and its candidates."""
        # A fit with the same limits replaces the former, so a path has one model for each.
        same = [(one.max_gaps == model.max_gaps).all() for one in self.models]
        models = [model if is_same else one for one, is_same in zip(self.models, same, strict=True)]
        pareto = list(self.pareto)
        for candidate in pool.candidates:
            # Gaps are stored, because excesses depend on the limits of the fit.
            given = replace(candidate, excess=candidate.excess + pool.training.max_gaps)
            if candidate.is_predictive and not any(_beats(one, given) for one in pareto):
                pareto = [*(one for one in pareto if not _beats(given, one)), given]
        return replace(self, models=tuple(models if any(same) else [*models, model]), pareto=tuple(pareto))

    def candidates(self, max_gaps: Floats) -> list[CandidateModel]:
        """Return all candidates of earlier fits, evaluated with the given limits; gaps do not change."""
        return [replace(one, excess=one.excess - max_gaps) for one in self.pareto]

    def model_with(self, max_gaps: Floats) -> PathModel | None:
        """Return the model with these limits."""
        return next((one for one in self.models if (one.max_gaps == max_gaps).all()), None)

    def has_better(self, model: PathModel) -> bool:
        """Whether a candidate of another fit satisfies the limits of a model and is a better answer."""
        # Objectives cannot decrease as limits become stricter; if one does, the looser fit missed a model.
        found = model.candidate
        return any(
            one.worst <= 0 and (found.worst > 0 or one.objective < found.objective)
            for one in self.candidates(model.max_gaps)
        )


def _beats(one: CandidateModel, other: CandidateModel) -> bool:
    """Whether a candidate is at least as good in every gap, in its objective and in its ties."""
    no_more_ties = not (one.tied > other.tied).any()  # nan, unknown, is not more
    return bool(no_more_ties and (one.excess <= other.excess).all() and one.objective <= other.objective)
