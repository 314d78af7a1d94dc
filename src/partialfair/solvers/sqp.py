"""Sequential quadratic programming: one small quadratic program a step, in the multipliers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair._checks import check_count, check_number
from partialfair._typing import Floats
from partialfair.exceptions import InputError
from partialfair.problems import Evaluation, Problem, WholeSpace
from partialfair.solvers._descent import Descent, Point
from partialfair.solvers.result import Callback, Result, Run, Status

__all__ = ["SQP"]


@dataclass(frozen=True)
class SQP:
    """Newton steps on the Lagrangian under linearised constraints, safeguarded by an exact penalty.

    The start need not be feasible, and few passes over the data are needed; see
    `partialfair.solvers._descent` for what a step does.

    Parameters
    ----------
    max_iter
        Steps.
    tol
        Stop when violation, complementarity and the gradient of the Lagrangian are no larger.
    """

    max_iter: int = 200
    tol: float = 5e-5

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of SQP")
        check_number(self.tol, "tol of SQP", above=0.0)

    def solve(
        self,
        problem: Problem,
        start: Floats,
        *,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Run until the KKT residual is small or no step helps; Ctrl-C keeps the best point so far."""
        if not isinstance(problem.domain, WholeSpace):
            raise InputError(
                "SQP solves problems over all of ℝⁿ; IDCA and DirectSwitching know other domains"
            )
        run = Run(problem, self.tol, time_limit, callback)

        def algorithm(x: Floats) -> Status:
            run.record(0, x)
            descent = Descent(problem.at, np.zeros(problem.m), self.tol)
            at: Point = problem.at(x)
            for k in range(self.max_iter):
                following = descent.advance(at)
                if following is None:
                    return Status.CONVERGED if descent.residual <= self.tol else Status.STALLED
                at = following
                run.record(k + 1, at.x, Evaluation(at.objective, at.constraints))
            return Status.MAX_ITER

        return run.follow(start, algorithm)
