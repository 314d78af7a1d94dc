"""Solves penalized problems by subgradient descent, as the paper's regularization method does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair.extension import (
    Floats,
    Problem,
    ProblemPoint,
    Run,
    Solver,
    Status,
    check_count,
    check_number,
)


@dataclass(frozen=True)
class Penalty(Solver):
    """Subgradient descent with a constant step on ``f_0(x) + weight · max_i f_i(x)``.

    For constraints with κ = 0 the maximum is the largest surrogate gap, which gives the paper's
    regularization method (Equations 83 and 84). For pSP the f_i are distances of means from ranks and
    ``weight = 2λ / (β − α)``; for pDP they are differences of means and ``weight = λ / (β − α)``, both on the
    absolute scale. A larger κ subtracts a constant from the maximum and changes nothing.

    The result is the last iterate, as in the paper; it need not be feasible or stationary.

    Parameters
    ----------
    weight : float
        Weight of the largest f_i.
    step : float, default=1e-3
        η of ``x ← x − η g`` with a subgradient g.
    max_iter : int, default=10_000
        Number of steps.
    record_every : int, default=100
        Steps between two records of the history.
    """

    weight: float
    step: float = 1e-3
    max_iter: int = 10_000
    record_every: int = 100

    def __post_init__(self) -> None:
        check_number(self.weight, "weight of Penalty", low=0.0)
        check_number(self.step, "step of Penalty", above=0.0)
        check_count(self.max_iter, "max_iter of Penalty")
        check_count(self.record_every, "record_every of Penalty")

    def value(self, at: ProblemPoint) -> float:
        """Return ``f_0 + weight · max_i f_i``."""
        return at.objective + self.weight * float(at.constraints.max())

    def subgradient(self, at: ProblemPoint) -> Floats:
        """Return a subgradient: that of f_0 plus that of the first largest function."""
        prices = np.zeros(at.problem.m)
        prices[int(np.argmax(at.constraints))] = self.weight
        return at.lagrangian_gradient(prices)

    def start(self, problem: Problem, free: Floats, last: Floats | None = None) -> Floats:
        """Start at w = 0 with feasible thresholds, as the paper does, or at the last solution."""
        return problem.trivial_start if last is None else last

    def iterate(self, run: Run, x: Floats) -> Status:
        """Take all steps and return the last point."""
        problem, run.tolerance = run.problem, np.inf
        try:
            run.record(0, x)
            for t in range(1, self.max_iter + 1):
                x = problem.domain.project(x - self.step * self.subgradient(problem.at(x)))
                if t % self.record_every == 0 or t == self.max_iter:
                    run.record(t, x)
        finally:
            run.best = run.last  # also after an interruption
        return Status.MAX_ITER
