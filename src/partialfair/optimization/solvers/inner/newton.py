"""IDCA's convex subproblem by Newton steps with a quadratic program each, kinks and all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partialfair.optimization.problems import Capability, Subproblem
from partialfair.optimization.solvers._descent import SECOND_ORDER, Descent, Point
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats

__all__ = ["NewtonSteps"]


@dataclass(frozen=True)
class NewtonSteps:
    """Newton model of the loss, tangents and kinks of the convex parts, one quadratic program a step.

    Parameters
    ----------
    n_steps
        Steps at most.
    epsilon
        Residual of the subproblem's KKT conditions to reach.
    smallest
        What `longer` may lower it to.
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
        subproblem.domain.bounds(start.size)  # or a sentence about domains that are not bounds
        at: Point = subproblem.at(start)
        descent = Descent(subproblem.at, np.zeros(subproblem.problem.m), self.epsilon, subproblem.domain)
        for _ in range(self.n_steps):
            following = descent.advance(at)
            if following is None:
                break
            at = following
        return at.x

    def longer(self) -> NewtonSteps | None:
        """Return the same with a smaller residual to reach."""
        smaller = self.epsilon / 10
        return replace(self, epsilon=smaller) if smaller >= self.smallest else None
