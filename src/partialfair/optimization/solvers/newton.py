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
"""Expected second derivative of the loss along features that are divided by their spreads."""


@dataclass(frozen=True)
class NewtonSettings:
    """Settings of `Newton`.

    Attributes
    ----------
    rounding
        Largest apparent increase of an objective, relative to 1 + its size, that counts as rounding.
    ridge
        First multiple of the identity that is added to a singular Hessian; then ten times as much.
    first_held, largest_held
        Multiples between which one is added if it is not settled which bounds hold a step.
    far, rough
        Gradient above which a sample of the rows improves the start, and at which the steps on it end.
    n_pairs
        Number of steps that L-BFGS stores.
    halvings, enough
        Halvings of a step, and the fraction of the predicted decrease that it must achieve (Armijo).
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

    The Hessian is formed and factored by group blocks, with a line search. If its blocks would be too large,
    it is never formed: L-BFGS approaches the minimum, and conjugate gradients in a trust region continue from
    there, unless there are bounds, which they do not support. With many rows, the first steps are on a sample
    of them.

    Parameters
    ----------
    max_iter
        Newton steps; the same number of L-BFGS steps comes before them if the Hessian is too large.
    tol
        Stop when ‖∇f_0‖ is at most this; in a box, without its component along the faces' normals.
    largest_block
        Largest size of blocks that are factored.
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
        """Run until the gradient vanishes; return the status."""
        problem = run.problem
        if problem.m:
            raise InputError("Newton solves problems without constraints")
        run.record(0, x)
        x = self._nearer(problem, x)
        if problem.rows.parameters.block_size <= self.largest_block:
            return self._factor(problem, x, run)
        return self._conjugate(problem, x, run)

    def _nearer(self, problem: Problem, start: Floats) -> Floats:
        """Return the minimum of a sample if there are many rows and the start is far from their minimum."""
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
            # If a singular Hessian needed a ridge, so will the next one.
            step, ridge = _newton_step(at, ridge)
            following = _downhill(at, step)
            if following is None:
                return Status.STALLED
            at = following
            run.record(k + 1, at.x, PointValues(at.objective, at.constraints))
        return Status.MAX_ITER

    def _conjugate(self, problem: Problem, start: Floats, run: Run) -> Status:
        """Run L-BFGS, then conjugate gradients in a trust region; the Hessian is never formed."""
        # In units in which second derivatives are similar: rare features have large penalties.
        units = 1 / np.sqrt(problem.penalties + EXPECTED_CURVATURE)
        last = problem.at(start)

        def at(scaled: Floats) -> ProblemPoint:
            # Value, gradient and curvature at one point share its scores, so the last point is cached.
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
        # Far from the minimum gradient steps are cheapest; with bounds they are the only ones.
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
    """Return the Newton step within the domain, and the ridge for a singular Hessian."""
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
            # Use less of the concave part, if there is one; the rest is singular up to rounding.
            if concave_part > DESCENT.min_concave_part and concave is not None:
                concave_part /= 2
            else:
                concave_part, ridge = 0.0, 10 * ridge
            continue
        if step.settled or held > SETTINGS.largest_held:
            return step.p, ridge
        held = max(10 * held, SETTINGS.first_held)


def _downhill(at: ProblemPoint, step: Floats) -> ProblemPoint | None:
    """Halve a step until the objective decreases enough (Armijo); None if it never does."""
    slope = float(at.objective_gradient() @ step)
    slack = SETTINGS.rounding * (1 + abs(at.objective))
    for halvings in range(SETTINGS.halvings):
        length = 0.5**halvings
        trial = at.problem.at(at.problem.box.project(at.x + length * step))  # rounding may leave a box
        if trial.objective <= at.objective + SETTINGS.enough * length * slope + slack:
            return trial
    return None
