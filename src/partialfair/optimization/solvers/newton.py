"""Newton's method for the problem without constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from partialfair.exceptions import InputError
from partialfair.optimization.problems import Capability, PointValues, Problem, ProblemPoint
from partialfair.optimization.problems.elastic import ElasticModel
from partialfair.optimization.problems.local import no_kinks
from partialfair.optimization.solvers.descent import DESCENT
from partialfair.optimization.solvers.result import Ended, Run, Solver
from partialfair.optimization.solvers.status import CUT_SHORT, Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Floats

EXPECTED_CURVATURE = 0.25
"""Second derivative of the loss that is expected along features that are measured in their spreads."""


@dataclass(frozen=True)
class NewtonSettings:
    """Settings of `Newton`.

    Attributes
    ----------
    rounding
        By how much an objective may seem to rise, relative to 1 + its size.
    ridge
        First multiple of the identity that is added to a Hessian; ten times as much where it is singular.
    first_held, largest_held
        Multiples between which one is added where it does not settle which bounds hold a step.
    far, rough
        Gradient at a start that a sample of the rows improves, and at its end, which is not the minimum of
        all rows anyway.
    n_pairs
        Steps that L-BFGS remembers.
    halvings, enough
        Of a step, and the part of the predicted fall that it must achieve (Armijo).
    """

    rounding: float = 1e-14
    ridge: float = 1e-12
    first_held: float = 1e-3
    largest_held: float = 1e3
    far: float = 0.05
    rough: float = 1e-3
    n_pairs: int = 20
    halvings: int = 40
    enough: float = 1e-4


SETTINGS = NewtonSettings()


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

    def iterate(self, run: Run, x: Floats) -> Status:
        """Run until the gradient vanishes; the status says whether it did."""
        problem = run.problem
        if problem.m:
            raise InputError("Newton solves problems without constraints")
        run.record(0, x)
        x = self._nearer(problem, x)
        if problem.rows.parameters.block_size <= self.largest_block:
            return self._factor(problem, x, run)
        return self._conjugate(problem, x, run)

    def _nearer(self, problem: Problem, start: Floats) -> Floats:
        """Return the minimum of a sample of the rows, if they are many and the start is far from theirs."""
        if _stationarity(problem.at(start)) <= SETTINGS.far:
            return start
        sample = problem.sample(problem.enough_rows)
        if sample is None:
            return start
        rough = replace(self, tol=max(self.tol, SETTINGS.rough)).solve(sample, start)
        problem.n_passes += int(np.ceil(sample.share * sample.n_passes))
        if rough.ended in CUT_SHORT:
            raise Ended(rough.ended)
        return rough.x

    def _factor(self, problem: Problem, start: Floats, run: Run) -> Status:
        """Factor the Hessian at every step."""
        at, ridge = problem.at(start), SETTINGS.ridge
        for k in range(self.max_iter):
            if _stationarity(at) <= self.tol:
                return Status.CONVERGED
            # A ridge that a singular Hessian needed is needed at the next point as well.
            step, ridge = _newton_step(at, ridge)
            following = _downhill(at, step)
            if following is None:
                return Status.STALLED
            at = following
            run.record(k + 1, at.x, PointValues(at.objective, at.constraints))
        return Status.MAX_ITER

    def _conjugate(self, problem: Problem, start: Floats, run: Run) -> Status:
        """Never form the Hessian: L-BFGS, then conjugate gradients in a trust region."""
        # In units in which second derivatives are similar: rare features have large penalties.
        units = 1 / np.sqrt(problem.penalties + EXPECTED_CURVATURE)
        last = problem.at(start)

        def at(scaled: Floats) -> ProblemPoint:
            # Value, gradient and curvature at one point share its scores: the last point is remembered.
            nonlocal last
            x = problem.box.project(units * scaled)  # rounding may leave a box
            if not np.array_equal(last.x, x):
                last = problem.at(x)
            return last

        def gradient(scaled: Floats) -> Floats:
            return units * at(scaled).objective_gradient()

        def record(intermediate_result: OptimizeResult) -> None:
            here = at(np.asarray(intermediate_result.x))
            run.record(len(run.history), here.x, PointValues(here.objective, here.constraints))
            if _stationarity(here) <= self.tol:
                raise StopIteration

        def has_arrived(ended: OptimizeResult) -> bool:
            x = problem.box.project(units * ended.x)
            return problem.box.stationarity(x, ended.jac / units) <= self.tol

        bounded = not problem.box.is_unbounded
        # Far from the minimum steps by gradients alone cost least; with bounds they must lead all the way.
        ended = minimize(
            lambda scaled: at(scaled).objective,
            start / units,
            jac=gradient,
            method="L-BFGS-B",
            bounds=np.stack(problem.box.bounds(problem.n), axis=1) / units[:, None],
            callback=record,
            options={"gtol": 0.0, "maxcor": SETTINGS.n_pairs, "maxiter": self.max_iter}
            | ({"ftol": 0.0} if bounded else {}),
        )
        if not (has_arrived(ended) or bounded):
            ended = minimize(
                lambda scaled: at(scaled).objective,
                ended.x,
                jac=gradient,
                hessp=lambda scaled, p: units * at(scaled).hessian_product(units * p),
                method="trust-ncg",
                callback=record,
                options={"gtol": 0.0, "maxiter": self.max_iter, "max_trust_radius": 1e6},
            )
        if has_arrived(ended):
            return Status.CONVERGED
        return Status.MAX_ITER if ended.nit >= self.max_iter else Status.STALLED


def _stationarity(at: ProblemPoint) -> float:
    """Return ``min ‖∇f_0 + n‖`` over the normal cone of the domain."""
    return at.problem.box.stationarity(at.x, at.objective_gradient())


def _newton_step(at: ProblemPoint, ridge: float) -> tuple[Floats, float]:
    """Return the Newton step within the domain, and the ridge that a singular Hessian needed."""
    problem, concave_part, held = at.problem, 1.0, 0.0
    convex, concave = at.objective_hessians()
    no_rows, bounds = np.empty((0, problem.n)), problem.box.room(at.x)
    while True:
        check_clock()
        try:
            hessian = convex if concave is None else convex.minus(concave, concave_part)
            factor = hessian.cholesky(ridge + held)
            model = ElasticModel(
                factor, at.objective_gradient(), no_rows, no_kinks(problem.n, 0), 0.0, bounds
            )
            step = model.step(np.empty(0))
        except np.linalg.LinAlgError:
            # Less of the concave part, if there is one; the rest is singular up to rounding.
            if concave_part > DESCENT.min_concave_part and concave is not None:
                concave_part /= 2
            else:
                concave_part, ridge = 0.0, 10 * ridge
            continue
        if step.settled or held > SETTINGS.largest_held:
            return step.p, ridge
        held = max(10 * held, SETTINGS.first_held)


def _downhill(at: ProblemPoint, step: Floats) -> ProblemPoint | None:
    """Halve a step until the objective falls enough (Armijo); None if it never does."""
    slope = float(at.objective_gradient() @ step)
    slack = SETTINGS.rounding * (1 + abs(at.objective))
    for halvings in range(SETTINGS.halvings):
        length = 0.5**halvings
        trial = at.problem.at(at.problem.box.project(at.x + length * step))  # rounding may leave a box
        if trial.objective <= at.objective + SETTINGS.enough * length * slope + slack:
            return trial
    return None
