"""Sequential quadratic programming: one small quadratic program a step, in the multipliers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partialfair.optimization.problems import Capability, Evaluation, Problem
from partialfair.optimization.solvers._descent import SECOND_ORDER, Descent, Point
from partialfair.optimization.solvers.result import Callback, Result, Run, Solver
from partialfair.optimization.solvers.status import Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats

__all__ = ["SQP"]


@dataclass(frozen=True)
class SQP(Solver):
    """Newton steps on the Lagrangian under linearised constraints, safeguarded by an exact penalty.

    The start need not be feasible, and few passes over the data are needed; see
    `partialfair.optimization.solvers._descent` for what a step does.

    Parameters
    ----------
    max_iter
        Steps.
    tol
        Stop when violation, complementarity and the gradient of the Lagrangian are no larger.
    """

    max_iter: int = 200
    tol: float = 5e-5

    requires: ClassVar[frozenset[Capability]] = SECOND_ORDER

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
        problem.domain.bounds(problem.n)  # or a sentence about domains that are not bounds
        run = Run(self, problem, self.tol, time_limit, callback)

        def algorithm(x: Floats) -> Status:
            run.record(0, x)
            descent = Descent(problem.at, np.zeros(problem.m), self.tol, problem.domain)
            at: Point = problem.at(x)
            for k in range(self.max_iter):
                following = descent.advance(at)
                if following is None:
                    return Status.CONVERGED if descent.residual <= self.tol else Status.STALLED
                at = following
                run.record(k + 1, at.x, Evaluation(at.objective, at.constraints))
            return Status.MAX_ITER

        return run.follow(problem.domain.project(start), algorithm)
