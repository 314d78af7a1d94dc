"""The switching subgradient method (Algorithm 2), on anything with oracles ``at(x)`` and a domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from partialfair.optimization.problems import Capability, Domain, Subproblem
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats

__all__ = ["Oracle", "Switchable", "Switching", "switching_step"]


_EQUAL = 1e-12
"""Constraints that differ by less are equally violated: at the trivial start whole groups of them are."""


class Oracle(Protocol):
    """Values and gradients of an objective and of constraints at one point."""

    @property
    def objective(self) -> float:
        """Value of the objective."""

    @property
    def constraints(self) -> Floats:
        """Values of the constraints."""

    def objective_gradient(self) -> Floats:
        """Return a subgradient of the objective."""

    def constraint_gradient(self, i: int) -> Floats:
        """Return a subgradient of constraint i."""


class Switchable(Protocol):
    """What the method minimises: a problem or a subproblem."""

    @property
    def domain(self) -> Domain:
        """The set 𝒲."""

    def at(self, x: Floats, /) -> Oracle:
        """Return the oracles at x."""


def switching_step(target: Switchable, oracle: Oracle, v: Floats, epsilon: float) -> tuple[Floats, bool]:
    """Step as Algorithms 2 and 3 do: along the objective if v is nearly feasible, else the worst constraint.

    Returns
    -------
    next point, whether v was nearly feasible
        A zero subgradient cannot be followed; the point then stays where it is.
    """
    constraints = oracle.constraints
    # The first of equals, so that rounding does not choose.
    worst = int(np.argmax(constraints >= constraints.max() - _EQUAL)) if constraints.size else -1
    feasible = worst < 0 or constraints[worst] <= epsilon  # Alg. 2, line 4
    gradient = oracle.objective_gradient() if feasible else oracle.constraint_gradient(worst)
    length = epsilon if feasible else constraints[worst]
    norm = float(gradient @ gradient)
    step = length / norm if norm > 0 else 0.0
    return target.domain.project(v - step * gradient), feasible  # Alg. 2, lines 5 and 7


@dataclass(frozen=True)
class Switching:
    """``SSG(v, ε, T)``, the paper's inner solver.

    Parameters
    ----------
    n_steps
        T.
    epsilon
        Infeasibility tolerance ε, also the step's numerator.
    longest
        When a run finds nothing better than its start, IDCA asks for one of twice the steps, up to this many;
        0 keeps T as it is.
    """

    n_steps: int = 200
    epsilon: float = 5e-3
    longest: int = 6400

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.GRADIENT})

    def __post_init__(self) -> None:
        check_count(self.n_steps, "n_steps of Switching")
        check_number(self.epsilon, "epsilon of Switching", above=0.0)

    def longer(self) -> Switching | None:
        """Return SSG with twice the steps, unless that is too long."""
        return replace(self, n_steps=2 * self.n_steps) if 2 * self.n_steps <= self.longest else None

    def solve(self, subproblem: Subproblem, start: Floats) -> Floats:
        """Return the nearly feasible iterate with the smallest g_0 (Alg. 2, line 10).

        The paper starts from feasible points. From others, as long as no iterate is nearly feasible, the one
        that violates the constraints least is returned.
        """
        v, best, best_order = start, start, (True, np.inf)
        for _ in range(self.n_steps):
            oracle = subproblem.at(v)
            following, feasible = switching_step(subproblem, oracle, v, self.epsilon)
            # Feasible points by their objective; before any is, others by their violation.
            order = (not feasible, oracle.objective if feasible else float(oracle.constraints.max()))
            if order < best_order:
                best, best_order = v, order
            v = following
        return best
