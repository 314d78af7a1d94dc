"""How nearly a point satisfies the KKT conditions (Def. nearlyeKKT), whoever found it.

The certificate is a witness that anybody can check: multipliers λ ≥ 0, and with them the point
``ŵ = argmin_{v in 𝒲} g_0(v) + Σ λ_i g_i(v)``, where g_i is f⁺_i minus the tangent of f⁻_i at x plus
``μ/2 ‖v − x‖²``. At ŵ the subgradients add up to ``−μ (1 + Σ λ_i)(ŵ − x)`` and a normal of 𝒲: exactly the
stationarity condition, with a residual that is known once ``‖ŵ − x‖`` is. Without the shift μ this distance
would mean nothing, because thresholds of inactive constraints are free.

Good multipliers come from the subproblem at x, solved by cutting planes: one cone program per step, whose
model lies below every g_i. The model also bounds how far its own solution is from ŵ, so that the reported
distance is an upper bound whatever the accuracy of the cone solver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import clarabel
import numpy as np
from scipy import sparse

from partialfair._typing import Floats, Ints
from partialfair.exceptions import InputError
from partialfair.problems.constrained import Problem, Subproblem, SubTrial

__all__ = ["Certificate", "certify"]

_OBJECTIVE, _DOMAIN = 0, -1
_ROUNDING = 4 * np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class Certificate:
    """Residuals of the nearly ε-KKT conditions at a point; it is a nearly ε-KKT point if all are ≤ ε.

    They have the units of the problem's parameters and functions: features in tiny units have tiny gradients,
    and then small residuals say little. Estimators measure features by their root mean squares.

    Attributes
    ----------
    mu
        The shift μ that defines ŵ.
    distance
        An upper bound of ``‖ŵ − x‖``.
    distance_error
        By how much that bound may be too large.
    stationarity
        ``‖∂f_0 + Σ λ_i (∂f⁺_i(ŵ) − ∂f⁻_i(x)) + n‖ ≤ μ (1 + Σ λ_i) · distance``, eq. (stationarity).
    feasibility
        ``max(0, max_i f_i(x))``, and the distance of x from 𝒲 if that is larger, eq. (feasibility).
    complementarity
        ``max_i |λ_i f_i(x)|``, eq. (complementary).
    multipliers : (m,)
        The λ_i.
    """

    mu: float
    distance: float
    distance_error: float
    stationarity: float
    feasibility: float
    complementarity: float
    multipliers: Floats

    @property
    def residual(self) -> float:
        """The smallest ε for which this witness shows a nearly ε-KKT point."""
        residuals = [self.distance, self.stationarity, self.feasibility, self.complementarity]
        return float(np.max(residuals))  # nan, unlike with max(), is never small

    def holds(self, tol: float) -> bool:
        """Whether the point is nearly ``tol``-KKT."""
        return self.residual <= tol

    def __str__(self) -> str:
        return (
            f"distance {self.distance:.1e}, stationarity {self.stationarity:.1e}, "
            f"feasibility {self.feasibility:.1e}, complementarity {self.complementarity:.1e} "
            f"(mu = {self.mu:g})"
        )


@dataclass(eq=False)
class _Cuts:
    """Planes ``values[c] + gradients[c] · d`` below one of the convex functions of d = v − x."""

    functions: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    gradients: list[Floats] = field(default_factory=list)

    def add(self, function: int, value: float, gradient: Floats, step: Floats) -> None:
        """Add the plane that touches a function at ``x + step``."""
        self.functions.append(function)
        self.values.append(float(value - gradient @ step))
        self.gradients.append(gradient)

    def arrays(self) -> tuple[Ints, Floats, Floats]:
        """Return which function each plane belongs to, their values at x, and their gradients."""
        return np.array(self.functions), np.array(self.values), np.array(self.gradients)


@dataclass(frozen=True, eq=False)
class _Witness:
    """Multipliers, the minimiser of the model's Lagrangian over 𝒲, and that minimum (relative to f_0(x))."""

    multipliers: Floats
    step: Floats
    lower_bound: float


@dataclass(frozen=True, eq=False)
class _Point:
    """The point to judge, with the unshifted subproblem there."""

    problem: Problem
    x: Floats
    mu: float
    subproblem: Subproblem

    @cached_property
    def start(self) -> SubTrial:
        """The oracles at x itself."""
        return self.subproblem.at(self.x)

    @cached_property
    def allowed(self) -> Floats:
        """Right-hand sides that admit x: Def. nearlyeKKT asks for f_i(x) ≤ ε, which feasibility judges."""
        return np.maximum(self.start.constraints, 0.0)

    @cached_property
    def outside(self) -> float:
        """Distance of x from 𝒲."""
        return float(np.linalg.norm(self.problem.domain.project(self.x) - self.x))

    @cached_property
    def feasibility(self) -> float:
        """How far x is from satisfying the constraints, or from 𝒲."""
        return max(self.outside, float(self.start.constraints.max(initial=0.0)))

    def first_cuts(self, tol: float) -> _Cuts:
        """Return the tangents at x of the objective and of the constraints that are nearly active."""
        cuts, zero = _Cuts(), np.zeros_like(self.x)
        cuts.add(_OBJECTIVE, 0.0, self.start.objective_gradient(), zero)
        gradients = self.start.constraint_jacobian()
        for i in np.flatnonzero(self.start.constraints > -tol).tolist():
            cuts.add(i + 1, self.start.constraints[i] - self.allowed[i], gradients[i], zero)
        return cuts

    def certificate(self, multipliers: Floats, length: float, error: float) -> Certificate:
        """Return the residuals of a witness whose ŵ is at ``length ± error`` from x."""
        distance = length + error
        return Certificate(
            self.mu,
            distance,
            2 * error,
            self.mu * (1 + float(multipliers.sum())) * distance,
            self.feasibility,
            float(np.abs(multipliers * self.start.constraints).max(initial=0.0)),
            multipliers,
        )


def certify(
    problem: Problem,
    x: Floats,
    *,
    mu: float = 1.0,
    tol: float = 1e-4,
    max_steps: int = 50,
    decide: bool = False,
) -> Certificate:
    """Return the certificate of x; it may say no.

    Parameters
    ----------
    problem
        Its scores must be linear in the parameters, so that the parts f± are convex.
    x
        A point (w, θ), from anywhere.
    mu
        The shift μ > 0. A small one makes the distance stricter where the problem is flat, and takes longer.
    tol
        The ε of interest: the search ends when distance and stationarity are below a tenth of it, or when
        the distance is known to within a tenth.
    max_steps
        Cutting-plane steps; the bounds hold after any number of them.
    decide
        End as soon as it is known whether the certificate holds at ``tol``.
    """
    if not 1e-8 <= mu <= 1e8:
        raise InputError(f"the certificate needs a mu in [1e-8, 1e8], not {mu}")
    if x.shape != problem.trivial_start.shape or not np.isfinite(x).all():
        raise InputError(f"a point of this problem has {problem.trivial_start.size} finite coordinates")
    point = _Point(problem, x, mu, problem.linearise(x))
    cuts = point.first_cuts(tol)
    # λ = 0 is a witness for any x in 𝒲: its ŵ is no farther than the gradient is long.
    radius = float(np.linalg.norm(cuts.gradients[0])) / (2 * mu)
    known = radius if point.outside == 0 else np.inf
    best = point.certificate(np.zeros(problem.m), known, known)
    scale = max(radius / 5, tol)
    for _ in range(max_steps):
        witness = _solve_model(point, cuts, scale)
        if witness is None:
            break
        step, multipliers = witness.step, witness.multipliers
        at = point.subproblem.at(x + step)
        objective = at.objective - point.start.objective
        constraints = at.constraints - point.allowed
        shift, total = 0.5 * mu * float(step @ step), 1 + float(multipliers.sum())
        excess = objective + float(multipliers @ constraints) + total * shift - witness.lower_bound
        # Rounding of the Lagrangian's terms may hide as much; with huge multipliers that is not little.
        scale_of_terms = 1 + abs(point.start.objective) + float(multipliers @ (1 + np.abs(constraints)))
        excess = max(excess, 0.0) + _ROUNDING * scale_of_terms
        # ŵ minimises the Lagrangian, which is μ (1 + Σ λ)-strongly convex: the excess bounds the distance.
        error = float(np.sqrt(2 * excess / (mu * total)))
        length = float(np.linalg.norm(step))
        found = point.certificate(multipliers, length, error)
        best = min(best, found, key=lambda one: (one.residual, one.distance))
        if error <= 0.1 * length or max(found.distance, found.stationarity) <= 0.1 * tol:
            break
        if decide and (found.holds(tol) or max(length - error, point.feasibility) > tol):
            break
        cuts.add(_OBJECTIVE, objective, at.objective_gradient(), step)
        gradients = at.constraint_jacobian()
        for i in np.flatnonzero((constraints + shift > 0) | (multipliers > 0)).tolist():
            cuts.add(i + 1, constraints[i], gradients[i], step)
        scale = max(length, 1e-3 * tol)
    return best


def _solve_model(point: _Point, cuts: _Cuts, scale: float) -> _Witness | None:
    """Solve the cutting-plane model of the subproblem; None if the cone solver gives nothing usable.

    ``min z + q`` subject to: planes of g_0 below z, planes of g_i below −q, ``q ≥ ‖y‖²/2``, where
    ``d = scale · basis · y`` and values are counted in units of ``μ scale²``.
    """
    mu, problem = point.mu, point.problem
    functions, values, gradients = cuts.arrays()
    basis = np.linalg.qr(gradients.T)[0]  # the solution is a combination of the planes' gradients
    slopes = gradients @ basis
    n_cuts, n_basis = slopes.shape
    planes = np.zeros((n_cuts, n_basis + 2))
    planes[:, :n_basis] = slopes / (mu * scale)
    planes[functions == _OBJECTIVE, n_basis] = -1
    planes[functions > 0, n_basis + 1] = 1
    # ‖y‖² ≤ 2q is ‖(q − ½, y)‖ ≤ q + ½.
    cone = np.zeros((n_basis + 2, n_basis + 2))
    cone[0, n_basis + 1] = cone[1, n_basis + 1] = -1
    cone[2:, :n_basis] = -np.eye(n_basis)
    right = np.concatenate([-values / (mu * scale**2), [0.5, -0.5], np.zeros(n_basis)])
    costs = np.zeros(n_basis + 2)
    costs[n_basis:] = 1
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((n_basis + 2, n_basis + 2)),
        costs,
        sparse.csc_matrix(np.vstack([planes, cone])),
        right,
        [clarabel.NonnegativeConeT(n_cuts), clarabel.SecondOrderConeT(n_basis + 2)],
        settings,
    ).solve()
    duals = np.maximum(np.array(solution.z)[:n_cuts], 0.0)
    total = duals[functions == _OBJECTIVE].sum()
    if not (np.isfinite(duals).all() and total > 0):
        return None
    _add_domain_cut(point, cuts, scale * (basis @ np.array(solution.x)[:n_basis]))
    duals = np.where(functions == _DOMAIN, 0.0, duals / total)
    multipliers = np.zeros(problem.m)
    np.add.at(multipliers, functions[functions > 0] - 1, duals[functions > 0])
    # The model's Lagrangian is Σ duals · planes + μ/2 (1 + Σ λ) ‖d‖²: its minimiser over 𝒲 is a projection.
    curvature = mu * (1 + float(multipliers.sum()))
    slope = duals @ gradients
    step = -slope / curvature
    projected = problem.domain.project(point.x + step)
    if not np.array_equal(projected, point.x + step):  # else x + step − x would round small steps away
        step = projected - point.x
    lower_bound = float(duals @ values + slope @ step + 0.5 * curvature * (step @ step))
    return _Witness(multipliers, step, lower_bound)


def _add_domain_cut(point: _Point, cuts: _Cuts, step: Floats) -> None:
    """Separate a point outside 𝒲 from it: the set is known by its projection."""
    outwards = point.x + step - point.problem.domain.project(point.x + step)
    norm = float(np.linalg.norm(outwards))
    if norm > 1e-12 * (1 + float(np.linalg.norm(point.x))):
        normal = outwards / norm
        cuts.add(_DOMAIN, float(normal @ outwards), normal, step)
