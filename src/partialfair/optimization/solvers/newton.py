"""Newton's method for the problem without constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from partialfair.exceptions import InputError
from partialfair.optimization.problems import Capability, Evaluation, Problem, ProblemPoint, WholeSpace
from partialfair.optimization.problems.elastic import ElasticModel, StepBounds
from partialfair.optimization.problems.local import no_kinks
from partialfair.optimization.solvers.descent import LEAST_CONCAVE_SHARE
from partialfair.optimization.solvers.result import Callback, Ended, Result, Run, Solver
from partialfair.optimization.solvers.status import Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Floats

EXPECTED_CURVATURE = 0.25
"""Second derivative of the loss that is expected along features that are measured in their spreads."""
_ROUNDING = 1e-14
"""By how much an objective may seem to rise, relative to 1 + its size."""
_RIDGE = 1e-12
"""First multiple of the identity that is added to a Hessian; ten times as much where it is singular."""
_FIRST_HELD, _LARGEST_HELD = 1e-3, 1e3
"""Multiples of the identity between which one is added where it does not settle which bounds hold a step."""
_FAR, _ROUGHLY = 0.05, 1e-3
"""Gradient at a start that a sample of the rows improves, and at its end: that is not the minimum of all."""
_PAIRS = 20
"""Steps that L-BFGS remembers."""
_HALVINGS, _ENOUGH = 40, 1e-4
"""Of a step, and the share of the predicted fall that it must achieve (Armijo)."""


@dataclass(frozen=True)
class Newton(Solver):
    """``min f_0(w)`` over all of ℝⁿ or a box, by Newton steps.

    The Hessian is formed and factored by group blocks, with a line search; if its blocks would be too large,
    it is never formed: L-BFGS leads near the minimum, and conjugate gradients in a trust region go on from
    there, unless there are bounds, which they do not know. Where rows are many, the first steps are on a
    sample of them.

    Parameters
    ----------
    max_iter
        Newton steps; as many of L-BFGS come before them where the Hessian is too large.
    tol
        Stop when ‖∇f_0‖ is no larger; in a box, when what is left of it without the faces' normals is not.
    largest_block
        Size up to which blocks are factored.
    """

    max_iter: int = 200
    tol: float = 1e-9
    largest_block: int = 3000

    requires: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.GRADIENT, Capability.HESSIAN, Capability.LINEAR}
    )

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of Newton")
        check_number(self.tol, "tol of Newton", above=0.0)

    def solve(
        self,
        problem: Problem,
        start: Floats,
        *,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Run until the gradient vanishes; the status says whether it did."""
        if problem.m:
            raise InputError("Newton solves problems without constraints")
        problem.domain.bounds(problem.n)  # or a sentence about domains that are not bounds
        run = Run(self, problem, 0.0, time_limit, callback)
        small = problem.rows.parameters.block_size <= self.largest_block

        def algorithm(x: Floats) -> Status:
            run.record(0, x)
            x = self._nearer(problem, x)
            return self._factor(problem, x, run) if small else self._conjugate(problem, x, run)

        return run.follow(problem.domain.project(start), algorithm)

    def _nearer(self, problem: Problem, start: Floats) -> Floats:
        """Return the minimum of a sample of the rows, if they are many and the start is far from theirs."""
        if _left_of_gradient(problem.at(start)) <= _FAR:
            return start
        sample = problem.sample(problem.enough_rows)
        if sample is None:
            return start
        rough = replace(self, tol=max(self.tol, _ROUGHLY)).solve(sample, start)
        problem.n_passes += int(np.ceil(sample.share * sample.n_passes))
        if rough.ended in (Status.STOPPED, Status.TIME_LIMIT):
            raise Ended(rough.ended)
        return rough.x

    def _factor(self, problem: Problem, start: Floats, run: Run) -> Status:
        at, ridge = problem.at(start), _RIDGE
        for k in range(self.max_iter):
            gradient = at.objective_gradient()
            if _left_of_gradient(at) <= self.tol:
                return Status.CONVERGED
            step, ridge = _newton_step(at, ridge)
            following = _downhill(at, step, gradient)
            if following is None:
                return Status.STALLED
            at = following
            run.record(k + 1, at.x, Evaluation(at.objective, at.constraints))
        return Status.MAX_ITER

    def _conjugate(self, problem: Problem, start: Floats, run: Run) -> Status:
        # In units in which second derivatives are alike: rare features have large penalties.
        units = 1 / np.sqrt(problem.penalties + EXPECTED_CURVATURE)
        trials = _LastPoint(problem, units)

        def record(intermediate_result: OptimizeResult) -> None:
            at = trials.at(np.asarray(intermediate_result.x))
            run.record(len(run.history), at.x, Evaluation(at.objective, at.constraints))
            if _left_of_gradient(at) <= self.tol:
                raise StopIteration

        def arrived(ended: OptimizeResult) -> bool:
            x = problem.domain.project(units * ended.x)
            return problem.domain.stationarity(x, ended.jac / units) <= self.tol

        bounded = not isinstance(problem.domain, WholeSpace)
        enough = {"ftol": 0.0} if bounded else {}
        # Far from the minimum steps by gradients alone cost least; with bounds they must lead all the way.
        near = minimize(
            trials.value,
            start / units,
            jac=trials.gradient,
            method="L-BFGS-B",
            bounds=np.stack(problem.domain.bounds(problem.n), axis=1) / units[:, None],
            callback=record,
            options={"gtol": 0.0, "maxcor": _PAIRS, "maxiter": self.max_iter} | enough,
        )
        if arrived(near):
            return Status.CONVERGED
        if bounded:
            return Status.MAX_ITER if near.nit >= self.max_iter else Status.STALLED
        minimum = minimize(
            trials.value,
            near.x,
            jac=trials.gradient,
            hessp=trials.hessian_product,
            method="trust-ncg",
            callback=record,
            options={"gtol": 0.0, "maxiter": self.max_iter, "max_trust_radius": 1e6},
        )
        if arrived(minimum):
            return Status.CONVERGED
        return Status.MAX_ITER if minimum.nit >= self.max_iter else Status.STALLED


def _left_of_gradient(at: ProblemPoint) -> float:
    """Return ``min ‖∇f_0 + n‖`` over the normal cone of the domain."""
    return at.problem.domain.stationarity(at.x, at.objective_gradient())


def _newton_step(at: ProblemPoint, ridge: float) -> tuple[Floats, float]:
    """Return the Newton step within the domain, and the ridge that a singular Hessian took."""
    problem, share, held = at.problem, 1.0, 0.0
    convex, concave = at.objective_hessians()
    no_rows, bounds = np.empty((0, problem.n)), StepBounds(*problem.domain.room(at.x))
    while True:
        check_clock()
        try:
            hessian = convex if concave is None else convex.minus(concave, share)
            model = ElasticModel(
                hessian.cholesky(ridge + held),
                at.objective_gradient(),
                no_rows,
                no_kinks(problem.n, 0),
                0.0,
                bounds,
            )
            step = model.step(np.empty(0))
        except np.linalg.LinAlgError:
            # Less of the concave part, if there is one; the rest is singular up to rounding.
            differs = share > LEAST_CONCAVE_SHARE and concave is not None
            share, ridge = (share / 2, ridge) if differs else (0.0, 10 * ridge)
            continue
        if step.settled or held > _LARGEST_HELD:
            return step.p, ridge
        held = max(10 * held, _FIRST_HELD)


def _downhill(at: ProblemPoint, step: Floats, gradient: Floats) -> ProblemPoint | None:
    """Halve a step until the objective falls enough (Armijo); None if it never does."""
    slope, slack = float(gradient @ step), _ROUNDING * (1 + abs(at.objective))
    for halvings in range(_HALVINGS):
        length = 0.5**halvings
        trial = at.problem.at(at.problem.domain.project(at.x + length * step))  # rounding may leave a box
        if trial.objective <= at.objective + _ENOUGH * length * slope + slack:
            return trial
    return None


class _LastPoint:
    """Oracles at the last point asked for, in other units: value, gradient and curvature share its scores."""

    def __init__(self, problem: Problem, units: Floats) -> None:
        self.problem = problem
        self.units = units
        self.last: ProblemPoint | None = None

    def at(self, scaled: Floats) -> ProblemPoint:
        """Return the oracles at a point."""
        x = self.problem.domain.project(self.units * scaled)  # rounding may leave a box
        if self.last is None or not np.array_equal(self.last.x, x):
            self.last = self.problem.at(x)
        return self.last

    def value(self, scaled: Floats) -> float:
        """Return f_0."""
        return self.at(scaled).objective

    def gradient(self, scaled: Floats) -> Floats:
        """Return its gradient."""
        return self.units * self.at(scaled).objective_gradient()

    def hessian_product(self, scaled: Floats, direction: Floats) -> Floats:
        """Return its Hessian times a direction."""
        return self.units * self.at(scaled).hessian_product(self.units * direction)
