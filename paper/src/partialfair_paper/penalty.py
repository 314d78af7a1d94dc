"""Solves by the penalty method of the paper's comparison: constraints as a term, by subgradients."""

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
    """Subgradient descent on ``f_0(x) + weight · max_i f_i(x)``, by steps of one length.

    Of constraints with κ = 0 the maximum is the largest surrogate gap, so this is the paper's regularization
    method (inprocess_pdp_regularized_approx): its λ enters as ``weight = 2λ / (β − α)`` for pSP, whose f_i
    are distances of shares from ranks, and as ``weight = λ / (β − α)`` for pDP, whose f_i are differences of
    shares (both on the absolute scale). A larger κ subtracts a constant from the maximum and changes nothing.

    The last iterate is returned, as in the paper: nothing says that it is feasible, or stationary.

    Parameters
    ----------
    weight
        Price of a unit of the largest f_i.
    step
        Length η of ``x ← x − η g`` with a subgradient g.
    max_iter
        Steps.
    record_every
        Steps between two lines of history.
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
        """Return a subgradient of it: that of f_0, and of the first function that is largest."""
        prices = np.zeros(at.problem.m)
        prices[int(np.argmax(at.constraints))] = self.weight
        return at.lagrangian_gradient(prices)

    def start(self, problem: Problem, free: Floats, last: Floats | None = None) -> Floats:
        """Start at w = 0 with thresholds that suit it, as the paper does, or at the last solution."""
        return problem.trivial_start if last is None else last

    def iterate(self, run: Run, x: Floats) -> Status:
        """Take all steps; the result is the last point."""
        problem, run.tolerance = run.problem, np.inf
        try:
            run.record(0, x)
            for t in range(1, self.max_iter + 1):
                x = problem.domain.project(x - self.step * self.subgradient(problem.at(x)))
                if t % self.record_every == 0 or t == self.max_iter:
                    run.record(t, x)
        finally:
            run.best = run.last  # whatever ends the steps
        return Status.MAX_ITER
