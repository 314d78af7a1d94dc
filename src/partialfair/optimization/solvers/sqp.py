"""Sequential quadratic programming: one small quadratic program per step, in the multipliers only.

`SQP` solves the DC problem itself, `NewtonSteps` the convex subproblems of IDCA; both use the steps of
`partialfair.optimization.solvers.descent`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partialfair.optimization.problems import Capability, PointValues, Subproblem
from partialfair.optimization.solvers.descent import SECOND_ORDER, Descent, Point
from partialfair.optimization.solvers.result import Run, Solver
from partialfair.optimization.solvers.status import Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class SQP(Solver):
    """Newton steps on the Lagrangian under linearized constraints, safeguarded by an exact penalty.

    The start need not be feasible, and few passes over the data are needed;
    `partialfair.optimization.solvers.descent` describes a step.

    Parameters
    ----------
    max_iter
        Steps.
    tol
        Stop when violation, complementarity and the gradient of the Lagrangian are at most this.
    """

    max_iter: int = 200
    tol: float = 5e-5

    requires: ClassVar[frozenset[Capability]] = SECOND_ORDER

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of SQP")
        check_number(self.tol, "tol of SQP", above=0.0)

    def iterate(self, run: Run, x: Floats) -> Status:
        """Run until the KKT residual is small or no step helps."""
        problem, run.tolerance = run.problem, self.tol
        run.record(0, x)
        descent = Descent(problem.at, np.zeros(problem.m), self.tol, problem.box)
        at: Point = problem.at(x)
        for k in range(self.max_iter):
            following = descent.advance(at)
            if following is None:  # stationary, or no step of any length helps
                return Status.CONVERGED if descent.residual <= self.tol else Status.STALLED
            at = following
            run.record(k + 1, at.x, PointValues(at.objective, at.constraints))
        return Status.MAX_ITER


@dataclass(frozen=True)
class NewtonSteps:
    """Newton model of the loss, tangents and kinks of the convex parts, one quadratic program per step.

    Parameters
    ----------
    n_steps
        Largest number of steps.
    epsilon
        Residual of the subproblem's KKT conditions to reach.
    smallest
        Lower bound of the residual in `longer`.
    """

    n_steps: int = 30
    epsilon: float = 1e-4
    smallest: float = 1e-7

    requires: ClassVar[frozenset[Capability]] = SECOND_ORDER

    def __post_init__(self) -> None:
        check_count(self.n_steps, "n_steps of NewtonSteps")
        check_number(self.epsilon, "epsilon of NewtonSteps", above=0.0)

    def solve(self, subproblem: Subproblem, start: Floats) -> Floats:
        """Return a point whose residual is small, or the last that was reached."""
        at: Point = subproblem.at(start)
        # A new state for each subproblem, because its tangents, and so its multipliers and kinks, differ.
        descent = Descent(subproblem.at, np.zeros(subproblem.problem.m), self.epsilon, subproblem.problem.box)
        for _ in range(self.n_steps):
            following = descent.advance(at)
            if following is None:
                break
            at = following
        return at.x

    def longer(self) -> NewtonSteps | None:
        """Return a copy with a smaller residual to reach."""
        smaller = self.epsilon / 10
        return replace(self, epsilon=smaller) if smaller >= self.smallest else None
