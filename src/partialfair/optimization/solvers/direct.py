"""The switching subgradient method directly on the DC problem (Algorithm 3), a baseline."""

from __future__ import annotations

from dataclasses import dataclass

from partialfair.optimization.problems import Problem
from partialfair.optimization.solvers.inner.switching import switching_step
from partialfair.optimization.solvers.result import Callback, Result, Run, Solver
from partialfair.optimization.solvers.status import Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats

__all__ = ["DirectSwitching"]


@dataclass(frozen=True)
class DirectSwitching(Solver):
    """Algorithm 3 with a static or a diminishing tolerance.

    Parameters
    ----------
    max_iter
        T.
    epsilon
        Static ``ε_t = ε``; also the one tolerance at which all iterates are judged. With a diminishing ε_t
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

    def solve(
        self,
        problem: Problem,
        start: Floats,
        *,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Run Algorithm 3; the result is the best iterate that is feasible up to ``epsilon``."""
        run = Run(self, problem, self.epsilon, time_limit, callback)

        def algorithm(x: Floats) -> Status:
            best, lowest = x, float("inf")
            run.record(0, x)
            for t in range(self.max_iter):
                epsilon_t = self.epsilon if self.diminishing is None else self.diminishing / (t + 1)
                oracle = problem.at(x)
                following, _ = switching_step(problem, oracle, x, epsilon_t)  # Alg. 3, lines 4 to 11
                if oracle.constraints.max(initial=0.0) <= self.epsilon and oracle.objective < lowest:
                    best, lowest = x, oracle.objective
                x = following
                if (t + 1) % self.record_every == 0 or t + 1 == self.max_iter:
                    run.record(t + 1, best if lowest < float("inf") else x)
            return Status.MAX_ITER

        return run.follow(problem.domain.project(start), algorithm)
