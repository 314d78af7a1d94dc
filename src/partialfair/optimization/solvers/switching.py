"""Switching subgradients: on IDCA's convex subproblem (Algorithm 2), or on the DC problem (Algorithm 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from partialfair.optimization.problems import Capability, Problem, ProblemPoint, Subproblem
from partialfair.optimization.problems.subproblem import SubproblemPoint
from partialfair.optimization.solvers.result import Run, Solver
from partialfair.optimization.solvers.status import Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats

_EQUAL = 1e-12
"""Constraints that differ by less are equally violated, as many are at the trivial start."""


def switching_step(
    target: Problem | Subproblem, oracle: ProblemPoint | SubproblemPoint, v: Floats, epsilon: float
) -> tuple[Floats, bool]:
    """Step as Algorithms 2 and 3 do: along the objective if v is nearly feasible, else the worst constraint.

    Returns
    -------
    next point, whether v was nearly feasible
        With a zero subgradient the point does not change.
    """
    constraints = oracle.constraints
    # g = max_i g_i, whose subgradient is that of any of the largest. The first of equal ones, so that the
    # choice does not depend on rounding.
    worst = int(np.argmax(constraints >= constraints.max() - _EQUAL)) if constraints.size else -1
    feasible = worst < 0 or constraints[worst] <= epsilon  # Alg. 2, line 4; Alg. 3, line 4
    gradient = oracle.objective_gradient() if feasible else oracle.constraint_gradient(worst)
    # Polyak's step for the objective ends ε lower, that for the constraint ends where its tangent is 0.
    length = epsilon if feasible else constraints[worst]
    norm = float(gradient @ gradient)
    step = length / norm if norm > 0 else 0.0
    # Alg. 2, lines 5 and 7; Alg. 3, lines 6 and 10
    return target.domain.project(v - step * gradient), feasible


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
        If a run finds no point better than its start, IDCA doubles the number of steps, up to this number;
        with 0, T does not change.
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

        The paper starts from feasible points. If no iterate is nearly feasible, the one with the smallest
        violation is returned.
        """
        v, best, best_order = start, start, (True, np.inf)
        for _ in range(self.n_steps):  # Alg. 2, line 3
            oracle = subproblem.at(v)
            following, feasible = switching_step(subproblem, oracle, v, self.epsilon)
            # 𝒯 and its argmin, lines 5 and 10: feasible points by their objective; without any, unlike in
            # the paper, others by their violation.
            order = (not feasible, oracle.objective if feasible else float(oracle.constraints.max()))
            if order < best_order:
                best, best_order = v, order
            v = following
        return best


@dataclass(frozen=True)
class DirectSwitching(Solver):
    """Algorithm 3 with a static or a diminishing tolerance.

    Parameters
    ----------
    max_iter
        T.
    epsilon
        Static ``ε_t = ε``; also the one tolerance at which all iterates are evaluated. With a diminishing ε_t
        the paper's rule (t in 𝒯 if f ≤ ε_t) would let early, infeasible iterates win.
    diminishing
        c of ``ε_t = c / (t + 1)``; None for the static schedule.
    record_every
        Steps between two lines of history.
    """

    max_iter: int = 10_000
    epsilon: float = 1e-3
    diminishing: float | None = None
    record_every: int = 100

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of DirectSwitching")
        check_count(self.record_every, "record_every of DirectSwitching")
        check_number(self.epsilon, "epsilon of DirectSwitching", above=0.0)
        if self.diminishing is not None:
            check_number(self.diminishing, "diminishing of DirectSwitching", above=0.0)

    def iterate(self, run: Run, x: Floats) -> Status:
        """Run Algorithm 3; the result is the best iterate that is feasible up to ``epsilon``."""
        problem, run.tolerance = run.problem, self.epsilon
        best, lowest = x, float("inf")
        run.record(0, x)
        for t in range(self.max_iter):  # Alg. 3, line 3
            epsilon_t = self.epsilon if self.diminishing is None else self.diminishing / (t + 1)
            oracle = problem.at(x)
            following, _ = switching_step(problem, oracle, x, epsilon_t)  # lines 4 to 11
            # Line 13, but with one ε for all iterates: see `epsilon`.
            if oracle.constraints.max(initial=0.0) <= self.epsilon and oracle.objective < lowest:
                best, lowest = x, oracle.objective
            x = following
            if (t + 1) % self.record_every == 0 or t + 1 == self.max_iter:
                run.record(t + 1, best if lowest < float("inf") else x)
        return Status.MAX_ITER
