"""Newton's method for the problem without constraints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from partialfair._checks import check_count, check_number
from partialfair._typing import Floats
from partialfair.exceptions import InputError
from partialfair.problems import Problem, WholeSpace
from partialfair.problems.constrained import Trial
from partialfair.solvers.result import Callback, Result, Run, Status

__all__ = ["Newton"]


@dataclass(frozen=True)
class Newton:
    """``min f_0(w)``: Newton steps by conjugate gradients in a trust region; the Hessian is never formed.

    Parameters
    ----------
    max_iter
        Newton steps.
    tol
        Stop when ‖∇f_0‖ is no larger.
    """

    max_iter: int = 200
    tol: float = 1e-9

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
        trials = _LastTrial(problem)
        ended: list[Status] = []

        def record(intermediate_result: OptimizeResult) -> None:
            ending = run.record(len(run.history), np.asarray(intermediate_result.x))
            if ending is not None:
                ended.append(ending)
                raise StopIteration

        first = run.record(0, start)
        if first is not None:
            return run.result(first)
        try:
            found = minimize(
                lambda x: trials.at(x).objective,
                start,
                jac=lambda x: trials.at(x).objective_gradient(),
                hessp=lambda x, direction: trials.at(x).objective_curvature(direction),
                method="trust-ncg",
                callback=record,
                options={"gtol": self.tol, "maxiter": self.max_iter, "max_trust_radius": 1e6},
            )
        except KeyboardInterrupt:
            return run.result(Status.STOPPED)
        if ended:
            return run.result(ended[0])
        if np.linalg.norm(found.jac) <= self.tol:
            return run.result(Status.CONVERGED)
        return run.result(Status.MAX_ITER if found.nit >= self.max_iter else Status.STALLED)


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
