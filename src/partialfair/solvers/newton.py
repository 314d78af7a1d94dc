"""Newton's method for the problem without constraints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from partialfair._checks import check_count, check_number
from partialfair._typing import Floats
from partialfair.exceptions import InputError
from partialfair.objectives import parts
from partialfair.problems import Problem, WholeSpace
from partialfair.problems.constrained import Trial
from partialfair.solvers.result import Callback, Result, Run, Status

__all__ = ["Newton"]

_ROUNDING = 1e-14


@dataclass(frozen=True)
class Newton:
    """``min f_0(w)`` by Newton steps.

    The Hessian is formed and factored by group blocks, with a line search; if its blocks would be too large,
    steps are found by conjugate gradients in a trust region and it is never formed.

    Parameters
    ----------
    max_iter
        Newton steps.
    tol
        Stop when ‖∇f_0‖ is no larger.
    largest_block
        Size up to which blocks are factored.
    """

    max_iter: int = 200
    tol: float = 1e-9
    largest_block: int = 3000

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
        if problem.m or not isinstance(problem.domain, WholeSpace):
            raise InputError("Newton solves problems without constraints, over all of ℝⁿ")
        run = Run(problem, 0.0, time_limit, callback)
        small = problem.model.block_size <= self.largest_block

        def algorithm(x: Floats) -> Status:
            run.record(0, x)
            return self._factor(problem, x, run) if small else self._conjugate(problem, x, run)

        return run.follow(start, algorithm)

    def _factor(self, problem: Problem, start: Floats, run: Run) -> Status:
        at, ridge = problem.at(start), 1e-12
        for k in range(self.max_iter):
            gradient = at.objective_gradient()
            if np.linalg.norm(gradient) <= self.tol:
                return Status.CONVERGED
            factor, share = None, 1.0
            while factor is None:
                try:
                    factor = at.objective_hessian(share).cholesky(ridge)
                except np.linalg.LinAlgError:
                    # Less of the concave part, if there is one; the rest is singular up to rounding.
                    differs = share > 0.1 and parts(problem.loss)[1] is not None
                    share, ridge = (share / 2, ridge) if differs else (0.0, 10 * ridge)
            following = _downhill(at, -factor.solve(gradient), gradient)
            if following is None:
                return Status.STALLED
            at = following
            run.record(k + 1, at.x)
        return Status.MAX_ITER

    def _conjugate(self, problem: Problem, start: Floats, run: Run) -> Status:
        trials = _LastTrial(problem)

        def record(intermediate_result: OptimizeResult) -> None:
            run.record(len(run.history), np.asarray(intermediate_result.x))

        found = minimize(
            lambda x: trials.at(x).objective,
            start,
            jac=lambda x: trials.at(x).objective_gradient(),
            hessp=lambda x, direction: trials.at(x).objective_curvature(direction),
            method="trust-ncg",
            callback=record,
            options={"gtol": self.tol, "maxiter": self.max_iter, "max_trust_radius": 1e6},
        )
        if np.linalg.norm(found.jac) <= self.tol:
            return Status.CONVERGED
        return Status.MAX_ITER if found.nit >= self.max_iter else Status.STALLED


def _downhill(at: Trial, step: Floats, gradient: Floats) -> Trial | None:
    """Halve a step until the objective falls enough (Armijo); None if it never does."""
    slope, slack = float(gradient @ step), _ROUNDING * (1 + abs(at.objective))
    for halvings in range(40):
        length = 0.5**halvings
        trial = at.problem.at(at.x + length * step)
        if trial.objective <= at.objective + 1e-4 * length * slope + slack:
            return trial
    return None


class _LastTrial:
    """Oracles at the last point asked for: value, gradient and curvature share one pass for the scores."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.last: Trial | None = None

    def at(self, x: Floats) -> Trial:
        """Return the oracles at x."""
        if self.last is None or not np.array_equal(self.last.x, x):
            self.last = self.problem.at(x.copy())
        return self.last
