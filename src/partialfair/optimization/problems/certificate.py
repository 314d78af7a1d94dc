"""KKT certificates: how nearly a point satisfies the KKT conditions, independent of the solver.

The KKT certificate is a witness that can be checked: multipliers λ ≥ 0, and with them the point
``ŵ = argmin_{v in 𝒲} L(v)``, ``L = g_0 + Σ λ_i g_i``, where g_i is f⁺_i minus the tangent of f⁻_i at x plus
``μ/2 ‖v − x‖²``. At ŵ the subgradients add up to ``−μ (1 + Σ λ_i)(ŵ − x)`` and a normal of 𝒲: exactly the
stationarity condition, with a residual that is known once ``‖ŵ − x‖`` is. Without the shift μ this distance
has no meaning, because thresholds of inactive constraints are free.

How far ŵ is follows from convexity. Tangents of all f⁺ at x, and hinges for kinks nearby, lie below them, so
``L(v) ≥ L(x) − ε + ⟨s, v − x⟩ + M/2 ‖v − x‖²`` with ``M = μ (1 + Σ λ_i)``: s is an element of the
ε-subdifferential of the Lagrangian. And L is M-strongly convex, so ``M/2 ‖ŵ − x‖² ≤ L(x) − L(ŵ)``, which on
all of ℝⁿ gives ``‖ŵ − x‖² ≤ ‖s‖²/M² + 2ε/M``. Multipliers that make it small come from a quadratic program.
In it λ_i costs ``|f_i(x)|``, its part of complementarity, on both sides of the border: if multipliers of
violated constraints cost nothing, many would be best, and rounding would choose among them. The proof holds
for any λ ≥ 0.

If f⁺ sums over the top of a group, rows that tie at its border, exactly or nearly, may be counted in any
shares that add up to the top. Each choice has a tangent that lies below f⁺: multipliers of these kinks are
the choice, they balance, and ε is its loss compared with the best one (`constraints.dc.pair_kinks`).
Multipliers represent one choice at every border and one slope at every kink of the surrogate, and the tangent
is computed with all of them together: s and ε include the *interplay* of kinks, the difference from the sum
of their separate terms. The quadratic program has sums only, so it is solved again with the interplay of the
last choice. The proof does not need this to converge: it uses the interplay of the final multipliers.

The definition of a nearly ε-KKT point depends on how f is split into f⁺ − f⁻: a function in both parts adds
kinks to f⁺ that f does not have, and with them slopes to choose from. Such functions are cancelled first
(`optimization.problems.local`): the witness is one for the remaining split, which near x is one of f, and for
the given split.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from partialfair.exceptions import InputError
from partialfair.optimization.problems.constrained import Problem, ProblemPoint
from partialfair.optimization.problems.elastic import ElasticModel
from partialfair.optimization.problems.local import Interplay, Kinks, no_kinks
from partialfair.optimization.problems.programs import WITNESS_GAP
from partialfair.optimization.problems.rows import Capability, check_capabilities
from partialfair.utils.clock import OutOfTime, ignore_deadline
from partialfair.utils.typing import Floats, Ints

REQUIRED = frozenset({Capability.GRADIENT, Capability.JACOBIAN, Capability.ROWS, Capability.LINEAR})
"""Capabilities of the rows that a KKT certificate needs."""

_LARGEST_MULTIPLIER = 1e4
_ROUNDING = 4 * np.finfo(float).eps
_SHIFTS = (1e-8, 1e8)
"""With a shift outside these bounds, rounding errors dominate a KKT certificate."""
_INSIDE = 1e-9
"""Largest distance from 𝒲, relative to 1 + ‖x‖, at which a witness is searched for."""
_REACHES = (1e-2, 1e-3, 1e-4, 1e-6)
"""Distances of kinks in widths of the surrogate; the first without too many kinks is used."""
_CORRECTIONS = 5
_WEIGHTS = (1.0, 1e-2, 1e-4)
"""Weights of slack in the search for multipliers; the next is used only if the last results are too large."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """Residuals of the nearly ε-KKT conditions at a point; it is a nearly ε-KKT point if all are ≤ ε.

    They have the units of the problem's parameters and functions: features in tiny units have tiny gradients,
    and small residuals then mean little. Estimators divide features by their standard deviations.

    Attributes
    ----------
    mu
        The shift μ in the definition of ŵ.
    distance
        An upper bound of ``‖ŵ − x‖``.
    stationarity
        ``‖∂f_0 + Σ λ_i (∂f⁺_i(ŵ) − ∂f⁻_i(x)) + n‖ ≤ μ (1 + Σ λ_i) · distance``, eq. (stationarity).
    feasibility
        ``max(0, max_i f_i(x))``, and the distance of x from 𝒲 if that is larger, eq. (feasibility).
    complementarity
        ``max_i |λ_i f_i(x)|``, eq. (complementary).
    multipliers : (m,)
        The λ_i.
    objective, gap
        ``f_0(x)``, and the exact gap there, if known: the point of the KKT certificate may differ from the
        returned model.
    """

    mu: float
    distance: float
    stationarity: float
    feasibility: float
    complementarity: float
    multipliers: Floats
    objective: float = float("nan")
    gap: float = float("nan")

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


def certify(problem: Problem, x: Floats, *, mu: float = 1.0, tol: float = 1e-4) -> Certificate:
    """Return the KKT certificate of x; it may not hold, for example if time runs out in the search.

    Parameters
    ----------
    problem
        Its scores must be linear in the parameters, so that the parts f± are convex.
    x
        A point (w, θ) from any source.
    mu
        The shift μ > 0. A small one makes the distance stricter where the problem is flat.
    tol
        The ε of interest; constraints with more slack than its square root are left out of the search.
    """
    low, high = _SHIFTS
    if not low <= mu <= high:
        raise InputError(f"the KKT certificate needs a mu in [{low:g}, {high:g}], not {mu}")
    if x.shape != (problem.n,) or not np.isfinite(x).all():
        raise InputError(f"a point of this problem has {problem.n} finite coordinates")
    check_capabilities(
        problem.rows, REQUIRED, "a KKT certificate", advice="; elsewhere f⁺ and f⁻ need not be convex"
    )
    at = problem.at(x)
    outside = float(np.linalg.norm(problem.domain.project(x) - x))
    with ignore_deadline():
        witnesses = [_certificate(at, mu, outside, np.zeros(problem.m), np.inf)]
    if outside <= _INSIDE * (1 + float(np.linalg.norm(x))):
        with suppress(OutOfTime):
            for certificate in _witnesses(at, mu, outside, tol):
                witnesses.append(certificate)
                if certificate.holds(tol):
                    return certificate
    return min(witnesses, key=lambda one: (np.isnan(one.residual), one.residual))


def _witnesses(at: ProblemPoint, mu: float, outside: float, tol: float) -> Iterator[Certificate]:
    """Search for multipliers with several weights."""
    slack = -np.abs(at.constraints)
    active = np.flatnonzero(at.constraints > -np.sqrt(tol))
    jacobian = at.constraint_jacobian()  # also computes the objective's gradient
    search = _WitnessSearch(at, mu, active, slack[active], jacobian[active], at.objective_gradient())
    kinks = _nearby_kinks(at, active)
    # Multipliers of constraints that are not quite active cost complementarity and gain stationarity; the
    # best trade-off is not known.
    for weight in _WEIGHTS:
        yield _certificate(at, mu, outside, *search.witness(kinks, weight))


def _certificate(
    at: ProblemPoint, mu: float, outside: float, multipliers: Floats, distance: float
) -> Certificate:
    return Certificate(
        mu,
        distance,
        mu * (1 + float(multipliers.sum())) * distance,
        max(outside, float(at.constraints.max(initial=0.0))),
        float(np.abs(multipliers * at.constraints).max(initial=0.0)),
        multipliers,
    )


def _nearby_kinks(at: ProblemPoint, active: Ints) -> Kinks:
    """Return the kinks near x of the constraints that are nearly active."""
    marks = np.zeros(at.problem.m)
    marks[active] = 1.0
    for reach in _REACHES:
        kinks = at.kinks(marks, reach)
        if kinks is not None:
            return kinks
    return no_kinks(at.x.size, at.problem.m)


@dataclass(frozen=True)
class _Multiple:
    """A multiple of the identity."""

    factor: float

    def solve(self, right: Floats) -> Floats:
        return right / self.factor

    def times(self, vector: Floats) -> Floats:
        return self.factor * vector

    def restricted(self, coordinates: Ints) -> _Multiple:
        return self


@dataclass(frozen=True, eq=False)
class _WitnessSearch:
    """The point that is evaluated, with its nearly active constraints."""

    at: ProblemPoint
    mu: float
    active: Ints
    slack: Floats
    rows: Floats
    gradient: Floats

    def witness(self, kinks: Kinks, weight: float) -> tuple[Floats, float]:
        """Return multipliers, and a bound on the distance of their ŵ; slack has a weight.

        For a given M, good multipliers are those of the step that minimizes the lower bound of f_0, with a
        shift of ``M/2 ‖p‖²``, under the lower bounds of the constraints, all made elastic. Then M and the
        interplay of kinks are corrected.
        """
        domain = self.at.problem.domain
        bounds, normals = domain.room(self.at.x), domain.normals(self.at.x)
        rows, values, shares = self.rows, weight * self.slack, kinks.shares[:, self.active]
        if len(normals):  # they act like constraints without slack and without kinks
            rows, values = np.vstack([rows, normals]), np.append(values, np.zeros(len(normals)))
            shares = np.hstack([shares, np.zeros((len(shares), len(normals)))])
        best, total = (np.zeros(self.at.problem.m), np.inf), 1.0
        interplay = Interplay.none(kinks.gaps.size, self.at.x.size)
        for _ in range(_CORRECTIONS):
            step = ElasticModel(
                _Multiple(self.mu * total),
                self.gradient + interplay.slope,
                rows,
                replace(kinks.with_interplay(interplay), shares=shares),
                _LARGEST_MULTIPLIER,
                bounds,
                WITNESS_GAP,
            ).step(values)
            multipliers = step.multipliers[: self.active.size]  # the rest are those of normals
            guess, total = total, 1 + float(multipliers.sum())
            every = np.zeros(self.at.problem.m)
            every[self.active] = multipliers
            expected = self._distance(every, step.kink_multipliers, kinks, interplay)
            interplay = self.at.interplay(kinks, every, step.kink_multipliers)
            proven = self._distance(every, step.kink_multipliers, kinks, interplay)
            best = min(best, (every, proven), key=lambda pair: (1 + pair[0].sum()) * pair[1])
            if abs(total - guess) <= 0.01 * guess and proven <= 1.01 * expected:
                break
        return best

    def _distance(
        self, multipliers: Floats, kink_multipliers: Floats, kinks: Kinks, interplay: Interplay
    ) -> float:
        """Return the bound on the distance that multipliers prove with this interplay of their kinks."""
        total, active = 1 + float(multipliers.sum()), multipliers[self.active]
        kinks = kinks.with_interplay(interplay)
        slope = self.gradient + active @ self.rows + kink_multipliers @ kinks.rows + interplay.slope
        step = self.at.problem.domain.project(self.at.x - slope / (self.mu * total)) - self.at.x
        if np.array_equal(self.at.problem.domain.project(self.at.x - slope), self.at.x - slope):
            step = -slope / (self.mu * total)  # x + step − x would round small steps away
        fall = -float(slope @ step) - 0.5 * self.mu * total * float(step @ step)
        inexact = float(kink_multipliers @ kinks.gaps) + interplay.loss
        # The rounding error of the Lagrangian's terms, which is not small with large multipliers.
        sizes = 1 + abs(self.at.objective) + float(active @ (1 + np.abs(self.slack)))
        rounding = _ROUNDING * sizes
        return float(np.sqrt(2 * (max(fall, 0.0) + max(inexact, 0.0) + rounding) / (self.mu * total)))
