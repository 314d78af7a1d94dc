"""The augmented Lagrangian with a limited-memory quasi-Newton method inside; it needs gradients only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from partialfair.optimization.problems import Box, PointValues, Problem, ProblemPoint
from partialfair.optimization.solvers.result import Run, Solver, unconstrained_start
from partialfair.optimization.solvers.status import Status
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class AugmentedSettings:
    """Settings of `AugmentedLagrangian` that hardly depend on the problem.

    Attributes
    ----------
    slow
        If the violation has not decreased by this factor, the weight increases.
    halvings
        Halvings of a step of length 1 along the gradient; the rest is rounding.
    largest_weight
        With larger weights, rounding errors of the constraints dominate.
    n_pairs
        Pairs of steps and gradients that L-BFGS stores. With 20 it took 1.1 to 2.6 times as many passes, on a
        network and on linear models of law school and a9a; each pair costs two products of n numbers.
    """

    slow: float = 0.5
    halvings: int = 40
    largest_weight: float = 1e8
    n_pairs: int = 50


SETTINGS = AugmentedSettings()


@dataclass(frozen=True)
class AugmentedLagrangian(Solver):
    """``min f_0 + 1/(2ρ) Σ [max(0, λ_i + ρ f_i)² − λ_i²]`` for improving multipliers λ ≥ 0.

    Each minimization is by L-BFGS, with two passes over the data per evaluation, and then
    ``λ ← max(0, λ + ρ f)``. Neither convexity nor linear scores are needed: it trains any model with scores
    and ``Jᵀv``. For f_i that are differences of convex functions with kinks, an element of their
    subdifferentials is used.

    Parameters
    ----------
    max_iter
        Updates of the multipliers.
    inner_steps
        Steps of L-BFGS between two updates.
    tol
        Stop when violations, complementarity and the gradient of the Lagrangian are at most this. It is half
        of the estimators' tolerance of KKT certificates, which have other multipliers.
    weight
        First ρ.
    growth
        Factor of ρ if violations do not decrease although L-BFGS ended before its last step.
    """

    max_iter: int = 50
    inner_steps: int = 200
    tol: float = 5e-5
    weight: float = 10.0
    growth: float = 4.0

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of AugmentedLagrangian")
        check_count(self.inner_steps, "inner_steps of AugmentedLagrangian")
        check_number(self.tol, "tol of AugmentedLagrangian", above=0.0)
        check_number(self.weight, "weight of AugmentedLagrangian", above=0.0)
        check_number(self.growth, "growth of AugmentedLagrangian", above=1.0)

    def start(self, problem: Problem, free: Floats, last: Floats | None = None) -> Floats:
        """Start from the last solution, or from the unconstrained model."""
        return unconstrained_start(problem, free, last)

    def iterate(self, run: Run, x: Floats) -> Status:
        """Run until the KKT residual is small."""
        problem, box, run.tolerance = run.problem, run.problem.box, self.tol
        bounds = np.stack(box.bounds(problem.n), axis=1)
        options = {"maxiter": self.inner_steps, "maxcor": SETTINGS.n_pairs, "gtol": 0.1 * self.tol}
        options |= {"ftol": 0.0}  # only the gradient ends a run
        run.record(0, x)
        multipliers, weight, violation = np.zeros(problem.m), self.weight, np.inf
        for k in range(self.max_iter):
            augmented = _Augmented(problem, multipliers, weight)
            minimum = optimize.minimize(
                augmented, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options
            )
            # A failed line search returns its start.
            moved = not np.array_equal(minimum.x, x)
            x = np.asarray(minimum.x) if moved else _downhill(augmented, x, box)
            point = problem.at(x)
            run.record(k + 1, x, PointValues(point.objective, point.constraints))
            # λ ← max(0, λ + ρ f): with these the Lagrangian's gradient is that of the augmented one.
            multipliers = augmented.multipliers_at(point)
            if _residual(point, multipliers) <= self.tol:
                return Status.STATIONARY
            if not moved and np.array_equal(x, minimum.x):
                return Status.STALLED
            worst = float(point.constraints.max(initial=0.0))
            # If L-BFGS ran out of steps, a larger weight would only make the problem harder.
            if minimum.nit < self.inner_steps and worst > max(SETTINGS.slow * violation, self.tol):
                weight = min(self.growth * weight, SETTINGS.largest_weight)
            violation = worst
        return Status.MAX_ITER


@dataclass(frozen=True, eq=False)
class _Augmented:
    """The augmented Lagrangian for fixed multipliers and weight, as a function for scipy."""

    problem: Problem
    multipliers: Floats
    weight: float

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """Return value and gradient: that of the Lagrangian with the next multipliers."""
        point = self.problem.at(x.copy())
        # [max(0, λ + ρ f)² − λ²] / 2ρ for each constraint, of derivative max(0, λ + ρ f).
        following = self.multipliers_at(point)
        squares = float(following @ following - self.multipliers @ self.multipliers) / (2 * self.weight)
        return point.objective + squares, point.lagrangian_gradient(following)

    def multipliers_at(self, point: ProblemPoint) -> Floats:
        """Return ``max(0, λ + ρ f(x))``."""
        return np.maximum(self.multipliers + self.weight * point.constraints, 0.0)


def _downhill(augmented: _Augmented, x: Floats, box: Box) -> Floats:
    """Return the first point along minus the gradient at which the function is lower, or x if there is none.

    L-BFGS begins with a step of length 1; where the penalty is steep its line search fails.
    """
    # From length 1 down to the smallest step above rounding errors.
    value, gradient = augmented(x)
    step = gradient / max(float(np.linalg.norm(gradient)), 1.0)
    for halvings in range(SETTINGS.halvings):
        trial = box.project(x - 0.5**halvings * step)
        if augmented(trial)[0] < value:
            return trial
    return x


def _residual(point: ProblemPoint, multipliers: Floats) -> float:
    """Return the largest residual of the KKT conditions, with these multipliers."""
    gradient = point.lagrangian_gradient(multipliers)
    return max(
        point.problem.domain.stationarity(point.x, gradient),
        float(point.constraints.max(initial=0.0)),
        float(np.abs(multipliers * point.constraints).max(initial=0.0)),
    )
