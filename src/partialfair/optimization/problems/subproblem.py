"""IDCA's subproblem: every f⁻ replaced by its tangent, a convex majorant of f (section "Inexact DCA").

Tangents are in *score space*: ``f⁻(s', θ') + ⟨∂f⁻(s', θ'), (s − s', θ − θ')⟩`` lies below f⁻ for any model,
because f⁻ is convex in scores and thresholds. If scores are linear in the parameters, the tangents are m
short vectors in the parameters, and evaluating them needs no pass over the data. Otherwise each is a vector
over rows, which stays with the rows: the rows at x are the reference of those at v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from partialfair.constraints.dc.algebra import dense_rows
from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.objectives import Difference
from partialfair.optimization.problems.domains import Domain
from partialfair.optimization.problems.local import Kinks, Local
from partialfair.optimization.problems.reductions import GradientOf, LossParts, TangentRise, Values
from partialfair.optimization.problems.rows import Capability
from partialfair.utils.typing import Floats

if TYPE_CHECKING:
    from partialfair.optimization.problems.constrained import Problem, ProblemPoint


@dataclass(frozen=True, eq=False)
class ParameterTangents:
    """Tangents at ``here`` for scores that are linear in the parameters: m short vectors."""

    here: ProblemPoint

    @cached_property
    def gradients(self) -> Floats:
        """Gradients of all f⁻_i at x: (m, n)."""
        return np.asarray(self.here.slopes[1] @ self.here.atoms_jacobian)

    @cached_property
    def of_objective(self) -> Floats:
        """Gradient of f⁻_0 at x."""
        if not isinstance(self.here.problem.loss, Difference):
            return np.zeros(self.here.x.size)
        return self.here.gradient_of(LossParts.SUBTRACTED)

    def rises(self, point: ProblemPoint) -> tuple[float, Floats]:
        """Increases from x to a point: of f⁻_0's tangent, and (m,) of the constraints' tangents; no pass."""
        step = point.x - self.here.x
        return float(self.of_objective @ step), np.asarray(self.gradients @ step)

    def objective_gradient(self, point: ProblemPoint) -> Floats:
        """Return the gradient of f⁺_0 minus that of its tangent; one pass."""
        gradient = point.gradient_of(LossParts.CONVEX) + point.penalty_gradient
        return np.asarray(gradient - self.of_objective)

    def constraint_gradient(self, point: ProblemPoint, i: int) -> Floats:
        """Return a subgradient of f⁺_i minus that of its tangent; one pass."""
        plus = point.problem.constraints.system.slope(point.atoms, i)[0]
        return np.asarray(point.gradient_of(LossParts.NONE, plus) - self.gradients[i])


@dataclass(frozen=True, eq=False)
class ScoreTangents:
    """The same for any scores: vectors over rows, which stay with the rows. ``here`` has all rows at x."""

    here: ProblemPoint

    def rises(self, point: ProblemPoint) -> tuple[float, Floats]:
        """As `ParameterTangents.rises`; one pass."""
        problem = self.here.problem
        reduction = TangentRise(problem.bank, point.theta, self.here.theta)
        values = Values(problem.bank, point.theta)  # callers that need the increase need the values too
        rise, point.values = problem.reduce(point.scored, reduction, values, reference=self.here.scored)
        of_loss, of_atoms = rise
        return float(of_loss[0]), np.asarray(self.here.slopes[1] @ of_atoms)

    def objective_gradient(self, point: ProblemPoint) -> Floats:
        """As `ParameterTangents.objective_gradient`; one pass."""
        parts: Any = (LossParts.CONVEX, None), (LossParts.SUBTRACTED, None)
        return self._gradient(point, *parts) + point.penalty_gradient

    def constraint_gradient(self, point: ProblemPoint, i: int) -> Floats:
        """As `ParameterTangents.constraint_gradient`; one pass."""
        plus = point.problem.constraints.system.slope(point.atoms, i)[0]
        minus = dense_rows(self.here.slopes[1], [i])[0]
        return self._gradient(point, (LossParts.NONE, plus), (LossParts.NONE, minus))

    def _gradient(
        self,
        point: ProblemPoint,
        there: tuple[LossParts, Floats | None],
        here: tuple[LossParts, Floats | None],
    ) -> Floats:
        """Return the gradient at a point of parts of the loss and of atoms, minus that of others at x."""
        reduction = GradientOf(point.problem.bank, *there, point.theta, *here, self.here.theta)
        ((by_params, by_theta),) = point.problem.reduce(point.scored, reduction, reference=self.here.scored)
        return np.concatenate([by_params, by_theta])


@dataclass(frozen=True, eq=False)
class Subproblem:
    """``min g_0(v)`` subject to ``g_i(v) ≤ 0``: majorants of f_0, ..., f_m that touch them at x.

    ``g_i(v) = f⁺_i(v) − [tangent of f⁻_i at x](v) + μ/2 ‖v − x‖²``, and likewise g_0. They are convex where
    scores are linear in the parameters.
    """

    problem: Problem
    here: ProblemPoint
    mu: float = 0.0

    @property
    def x(self) -> Floats:
        """The point at which tangents touch."""
        return self.here.x

    @property
    def domain(self) -> Domain:
        """𝒲."""
        return self.problem.domain

    @cached_property
    def linear(self) -> bool:
        """Whether tangents can be computed in the parameters."""
        return {Capability.LINEAR, Capability.JACOBIAN} <= self.problem.rows.capabilities

    @cached_property
    def tangents(self) -> ParameterTangents | ScoreTangents:
        """Tangents of all f⁻ at x."""
        return ParameterTangents(self.here) if self.linear else ScoreTangents(self.here)

    @cached_property
    def tangent_values(self) -> Floats:
        """All ``f⁻_i(x)``."""
        return self.problem.constraints.system.parts(self.here.atoms)[1]

    def at(self, v: Floats) -> SubproblemPoint:
        """Return the oracles of g_0, ..., g_m at v."""
        return SubproblemPoint(self, self.problem.at(v))


@dataclass(frozen=True, eq=False)
class SubproblemPoint:
    """Oracles of ``g_0, g_1, ..., g_m`` at one point."""

    subproblem: Subproblem
    original: ProblemPoint

    @property
    def x(self) -> Floats:
        """The point."""
        return self.original.x

    @cached_property
    def objective(self) -> float:
        """``g_0(v)``."""
        subtracted = self._rises[0] + float(self.subproblem.here.values[0][1])  # the tangent of f⁻_0
        return self.original.convex_objective - subtracted + self._shift

    @cached_property
    def constraints(self) -> Floats:
        """All ``g_i(v)``."""
        rises = self._rises[1]  # first: with tangents in score space, it also computes the values
        # g_i(v) = f⁺_i(v) − [f⁻_i(x) + rise of its tangent] + μ/2 ‖v − x‖²
        plus = self.subproblem.problem.constraints.system.parts(self.original.atoms)[0]
        return np.asarray(plus - self.subproblem.tangent_values - rises + self._shift)

    def objective_gradient(self) -> Floats:
        """Return ``∇g_0(v)``; one pass."""
        return self.subproblem.tangents.objective_gradient(self.original) + self.subproblem.mu * self._step

    def constraint_gradient(self, i: int) -> Floats:
        """Return a subgradient of g_i at v; one pass."""
        gradient = self.subproblem.tangents.constraint_gradient(self.original, i)
        return gradient + self.subproblem.mu * self._step

    def expand(self, multipliers: Floats) -> Local:
        """Return the subproblem near the point, for linear scores; its Lagrangian has no concave part."""
        tangents, mu = self.subproblem.tangents, self.subproblem.mu
        assert isinstance(tangents, ParameterTangents)
        # Tangents are linear: they shift gradients, and Hessians are those of f⁺ and of the shift μ.
        local = self.original.expand_convex(multipliers)
        assert isinstance(local.convex, ArrowMatrix)
        return Local(
            local.gradient - tangents.of_objective + mu * self._step,
            local.jacobian - tangents.gradients + mu * self._step,
            local.convex.shifted(mu * (1 + float(multipliers.sum()))),
            None,
        )

    def kinks(
        self, multipliers: Floats, reach: float, towards: SubproblemPoint | None = None, limit: int = 400
    ) -> Kinks | None:
        """Return the relevant kinks of all g_i: those of f⁺."""
        there = None if towards is None else towards.original
        return self.original.kinks(multipliers, reach, there, limit, of_convex=True)

    @cached_property
    def _rises(self) -> tuple[float, Floats]:
        return self.subproblem.tangents.rises(self.original)

    @property
    def _step(self) -> Floats:
        return self.x - self.subproblem.x

    @cached_property
    def _shift(self) -> float:
        return 0.5 * self.subproblem.mu * float(self._step @ self._step)
