"""Projected gradient descent under convex quadratic constraints, which trains the paper's baselines.

A projection follows every step (Equations 77 to 79). It is a convex quadratically constrained program

    min_w  ½ ‖w − z‖²   subject to   q_i(w) = c_i + ⟨b_i, w⟩ + ½ wᵀ Q_i w ≤ 0.

For two groups there are two such constraints, so the dual is solved. For multipliers λ ≥ 0 the best w solves
``(I + Σ λ_i Q_i) w = z − Σ λ_i b_i``. The dual function is concave with gradient q(w) and Hessian
``−J (I + Σ λ_i Q_i)⁻¹ Jᵀ``, where J is the Jacobian of q at w. Newton steps subject to λ ≥ 0 need few
factorizations, and fewer when they are warm-started from the multipliers of the last projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.optimize import nnls

from partialfair.exceptions import InputError
from partialfair.extension import (
    Capability,
    Floats,
    Problem,
    Run,
    Solver,
    Status,
    check_clock,
    check_count,
    check_number,
)

_ACCURACY = 1e-9
"""Violation and complementarity at which a projection ends; the paper's fmincon stops at 1e-6."""
_NEAR_THE_END = 1e-6
"""Below this, residuals measure progress better than values of the dual."""
_ROUNDS, _HALVINGS = 100, 40
_SUFFICIENT = 1e-4
"""Fraction of the first-order increase of the dual that a Newton step must reach."""
_SINGULAR = 1e-12
"""Added to the dual's Hessian, relative to its trace, because constraints may be parallel."""
_SAME = 1e-6
"""Largest relative difference between a constraint and its quadratic at the point of the check."""


@dataclass(frozen=True, eq=False)
class QuadraticConstraints:
    """``q_i(w) = heights_i + ⟨slopes_i, w⟩ + ½ wᵀ hessians_i w``, all of them convex.

    Attributes
    ----------
    heights : (m,)
        Values at w = 0.
    slopes : (m, n)
        Gradients at w = 0.
    hessians : (m, n, n)
        Positive semidefinite.
    """

    heights: Floats
    slopes: Floats
    hessians: Floats

    @classmethod
    def of(cls, problem: Problem) -> QuadraticConstraints:
        """Compute the quadratics of a problem, with Hessians from differences of gradients."""
        if problem.bank.n_theta:
            raise InputError("ProjectedGradient supports only constraints without thresholds of their own")
        n, m = problem.n, problem.m
        origin = problem.at(np.zeros(n))
        slopes = origin.constraint_jacobian()
        hessians = np.empty((m, n, n))
        for j, unit in enumerate(np.eye(n)):
            hessians[:, :, j] = problem.at(unit).constraint_jacobian() - slopes
        found = cls(origin.constraints, slopes, (hessians + hessians.transpose(0, 2, 1)) / 2)
        # A point with all coordinates nonzero reveals functions that are not quadratic.
        w = np.cos(np.arange(n))
        if not np.allclose(found.values(w), problem.at(w).constraints, rtol=_SAME, atol=_SAME):
            raise InputError(
                "ProjectedGradient needs constraints that are quadratic in the parameters, such as "
                "QuadraticGroupAUC for a linear model"
            )
        return found

    def values(self, w: Floats) -> Floats:
        """Return all q_i(w)."""
        return np.asarray(self.heights + self.slopes @ w + 0.5 * (self.hessians @ w) @ w)

    def jacobian(self, w: Floats) -> Floats:
        """Return all ∇q_i(w): (m, n)."""
        return np.asarray(self.slopes + self.hessians @ w)

    def project(self, z: Floats, multipliers: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the nearest w with q(w) ≤ 0, and its multipliers.

        Parameters
        ----------
        z : ndarray of shape (n,)
            The point to project.
        multipliers : ndarray of shape (m,), optional
            Initial multipliers, such as those of a point nearby.
        """
        if (self.values(z) <= 0).all():
            return z, np.zeros(self.heights.size)
        dual = _Dual.at(self, z, np.zeros(self.heights.size) if multipliers is None else multipliers)
        for _ in range(_ROUNDS):
            if dual.residual <= _ACCURACY:
                break
            following = dual.advance()
            if following is None:  # no step increases the dual: only rounding is left
                break
            dual = following
        return dual.w, dual.multipliers


@dataclass(frozen=True, eq=False)
class _Dual:
    """The dual function of a projection at some multipliers, with the w that minimizes the Lagrangian."""

    constraints: QuadraticConstraints
    z: Floats
    multipliers: Floats
    factor: tuple[Floats, bool]
    w: Floats
    values: Floats

    @classmethod
    def at(cls, constraints: QuadraticConstraints, z: Floats, multipliers: Floats) -> _Dual:
        """Solve for w."""
        check_clock()
        curved = np.tensordot(multipliers, constraints.hessians, axes=1)
        curved[np.diag_indices_from(curved)] += 1.0
        factor = cho_factor(curved)
        w = cho_solve(factor, z - multipliers @ constraints.slopes)
        return cls(constraints, z, multipliers, factor, w, constraints.values(w))

    @property
    def value(self) -> float:
        """``½ ‖w − z‖² + ⟨λ, q(w)⟩``, which the dual maximizes."""
        away = self.w - self.z
        return 0.5 * float(away @ away) + float(self.multipliers @ self.values)

    @property
    def residual(self) -> float:
        """The largest violation or complementarity."""
        return float(np.maximum(self.values, np.abs(self.multipliers * self.values)).max())

    def advance(self) -> _Dual | None:
        """Take a Newton step that increases the dual, or return None."""
        jacobian = self.constraints.jacobian(self.w)
        hessian = jacobian @ cho_solve(self.factor, jacobian.T)
        hessian[np.diag_indices_from(hessian)] += _SINGULAR * np.trace(hessian)
        # max_μ ⟨q, μ − λ⟩ − ½ (μ − λ)ᵀ H (μ − λ) over μ ≥ 0, as least squares with H = L Lᵀ.
        low = np.linalg.cholesky(hessian)
        towards = nnls(low.T, np.linalg.solve(low, self.values + hessian @ self.multipliers))[0]
        change = towards - self.multipliers
        expected, length = float(self.values @ change), 1.0
        for _ in range(_HALVINGS):
            following = _Dual.at(self.constraints, self.z, self.multipliers + length * change)
            rises = following.value >= self.value + _SUFFICIENT * length * expected and expected > 0
            # Near the end values differ by rounding alone, and only residuals measure progress.
            if rises or (length == 1.0 and following.residual <= 0.5 * self.residual <= _NEAR_THE_END):
                return following
            length /= 2
        return None


@dataclass(frozen=True)
class ProjectedGradient(Solver):
    """``w ← Proj(w − η ∇f_0(w))`` onto convex quadratic constraints, from w = 0.

    Parameters
    ----------
    max_iter : int, default=1000
        K; the paper uses 1000 on a9a and bank and 500 on law school.
    step : float, optional
        η, which the paper does not give. The default is ``1 / L`` with the largest eigenvalue L of
        ``∇²f_0(0)``, which bounds the curvature of the logistic loss.
    tol : float, default=1e-6
        Violation up to which a point counts as feasible.
    record_every : int, default=10
        Number of steps between two records of the history.
    """

    max_iter: int = 1000
    step: float | None = None
    tol: float = 1e-6
    record_every: int = 10

    requires: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.GRADIENT, Capability.HESSIAN, Capability.LINEAR}
    )

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of ProjectedGradient")
        check_count(self.record_every, "record_every of ProjectedGradient")
        check_number(self.tol, "tol of ProjectedGradient", above=0.0)
        if self.step is not None:
            check_number(self.step, "step of ProjectedGradient", above=0.0)

    def start(self, problem: Problem, free: Floats, last: Floats | None = None) -> Floats:
        """Start at w = 0, as the paper does, or at the last solution."""
        return problem.trivial_start if last is None else last

    def iterate(self, run: Run, x: Floats) -> Status:
        """Take all steps and return the best point; all points but the start are feasible."""
        problem, run.tolerance = run.problem, self.tol
        constraints = QuadraticConstraints.of(problem)
        step = 1 / _largest_curvature(problem) if self.step is None else self.step
        w, multipliers = constraints.project(x, np.zeros(problem.m))
        run.record(0, w)
        for k in range(1, self.max_iter + 1):
            uphill = problem.at(w).objective_gradient()
            w, multipliers = constraints.project(w - step * uphill, multipliers)
            if k % self.record_every == 0 or k == self.max_iter:
                run.record(k, w)
        return Status.MAX_ITER


def _largest_curvature(problem: Problem) -> float:
    """Return the largest eigenvalue of ``∇²f_0(0)``, which has one block for each group's model."""
    hessian, _ = problem.at(np.zeros(problem.n)).objective_hessians()
    return max(float(eigvalsh(block)[-1]) for block in hessian.inner.blocks)
