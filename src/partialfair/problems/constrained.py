"""Minimise a loss of a model's scores under difference-of-convex constraints on them (problem (DC)).

A point x = (w, θ) is one flat vector: the model's parameters, then the constraints' thresholds. Oracles count
passes over the data where they happen: one for the scores, one for a vector-Jacobian product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from partialfair._clock import check_clock
from partialfair._typing import Floats, Ints
from partialfair.constraints import ConstraintBlock
from partialfair.dc import AtomBank
from partialfair.models.blocks import ArrowMatrix
from partialfair.objectives import Curvature, Difference, Loss, parts
from partialfair.problems.domains import Domain, WholeSpace
from partialfair.problems.kinks import Kinks, atom_rows, merged
from partialfair.problems.score_model import ScoreModel

__all__ = ["Evaluation", "Problem", "SubTrial", "Subproblem", "Trial"]


T = TypeVar("T")

_TIE = 0.05
"""Pieces of a maximum that are at most so much lower, on the scale of gaps, count as kinks."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Objective and constraints at a point: ``f_0(x)`` and all ``f_i(x)``, which should be ≤ 0."""

    objective: float
    constraints: Floats

    @property
    def violation(self) -> float:
        """Return ``max(0, max_i f_i(x))``."""
        return float(self.constraints.max(initial=0.0))


@dataclass(eq=False)
class Problem:
    """``min f_0(w)`` subject to ``f_i(w, θ) ≤ 0`` and (w, θ) in 𝒲.

    Parameters
    ----------
    model
        Gives scores.
    loss
        Loss of the scores: convex, or a difference of convex losses.
    constraints
        The functions f_i, tied to the same rows; several constraints are joined by `constraints.join`.
    alpha
        ``f_0 = loss + ½ Σ alpha_j w_j²`` over the penalised part of w; one number, or one for each.
    domain
        𝒲.

    Attributes
    ----------
    n_passes
        Passes over the data so far.
    """

    model: ScoreModel
    loss: Loss | Difference
    constraints: ConstraintBlock
    alpha: Floats | float = 0.0
    domain: Domain = field(default_factory=WholeSpace)
    n_passes: int = field(default=0, init=False)

    @property
    def m(self) -> int:
        """Number of constraint functions."""
        return self.constraints.system.m

    @property
    def trivial_start(self) -> Floats:
        """Return w = 0 with the thresholds at which scores of 0 are feasible (Assumption assume:DC E)."""
        return np.concatenate([np.zeros(self.model.n_params), self.constraints.theta0])

    @property
    def constant_start(self) -> Floats:
        """Return the best model that scores everybody alike, with the thresholds moved along.

        It is as feasible as the trivial start, unless some constraint has a threshold of its own; without
        intercepts it is the trivial start.
        """
        start = self.trivial_start
        if self.model.n_params > self.model.n_penalised:
            start[self.model.n_penalised :] += self.loss.best_constant()
        return start

    def start_at(self, w: Floats) -> Floats:
        """Return w with thresholds that suit its scores."""
        return np.concatenate([w, self.constraints.thresholds_at(self.model.scores(w))])

    def split(self, x: Floats) -> tuple[Floats, Floats]:
        """Return w and θ."""
        return x[: self.model.n_params], x[self.model.n_params :]

    def count_passes(self, n_passes: int = 1) -> None:
        """Count passes over the data that are about to be made, unless time is up."""
        check_clock()
        self.n_passes += n_passes

    def at(self, x: Floats) -> Trial:
        """Return the oracles of f_0, ..., f_m at x."""
        return Trial(self, x)

    def evaluate(self, x: Floats) -> Evaluation:
        """Return objective and constraints at x."""
        trial = self.at(x)
        return Evaluation(trial.objective, trial.constraints)

    def linearise(self, x: Floats, *, mu: float = 0.0) -> Subproblem:
        """Return the convex subproblem (DCA) at x: every f⁻ replaced by its tangent.

        With ``mu`` the shift of Assumption assume:DC A is applied to every f_i: adding ``μ/2 ‖·‖²`` to f⁺ and
        to f⁻ leaves f as it is and adds ``μ/2 ‖v − x‖²`` to its convex majorant. The ρ-shift of weakly convex
        functions (wcisdc) is the same transformation with μ = ρ.
        """
        return Subproblem(self, x, mu)


@dataclass(frozen=True, eq=False)
class Trial:
    """Oracles of ``f_0, f_1, ..., f_m`` at one point; scores and atoms are computed once, when needed."""

    problem: Problem
    x: Floats

    @cached_property
    def scores(self) -> Floats:
        """Scores of all rows; one pass."""
        self.problem.count_passes()
        return self.problem.model.scores(self.problem.split(self.x)[0])

    @cached_property
    def atoms(self) -> Floats:
        """Values of the constraints' atoms."""
        return self.problem.constraints.bank.values(self.scores, self.problem.split(self.x)[1])

    @cached_property
    def objective(self) -> float:
        """``f_0(x)``."""
        return self.convex_objective - self._subtracted[0]

    @cached_property
    def convex_objective(self) -> float:
        """``f⁺_0(x)``."""
        penalised = self.x[: self.problem.model.n_penalised]
        return self._loss[0] + 0.5 * float(penalised @ (self.problem.alpha * penalised))

    @cached_property
    def constraints(self) -> Floats:
        """All ``f_i(x)``."""
        return self.problem.constraints.system.values(self.atoms)

    @cached_property
    def slopes(self) -> tuple[Floats, Floats]:
        """Subgradients of all f⁺ and of all f⁻ in the atoms: (m, n_atoms) each."""
        check_clock()
        return self.problem.constraints.system.slopes(self.atoms)

    def objective_gradient(self) -> Floats:
        """Return ``∇f_0(x)``; one pass."""
        return self._objective_gradient(self._loss[1] - self._subtracted[1])

    def convex_objective_gradient(self) -> Floats:
        """Return ``∇f⁺_0(x)``; one pass."""
        return self._objective_gradient(self._loss[1])

    def objective_tangent(self) -> tuple[float, Floats]:
        """Return ``f⁻_0(x)`` and ``∇f⁻_0(x)``; one pass, unless they are 0."""
        if parts(self.problem.loss)[1] is None:
            return 0.0, np.zeros(self.x.size)
        value, slope = self._subtracted
        return value, self._pull(slope, np.zeros(self.problem.constraints.bank.n_theta))

    def objective_curvature(self, direction: Floats) -> Floats:
        """Return ``∇²f_0(x) direction``, for scores that are linear in w; two passes."""
        model = self.problem.model
        w = self.problem.split(self.x)[0]
        along = model.jvp(w, self.problem.split(direction)[0])
        self.problem.count_passes()
        theta = np.zeros(self.problem.constraints.bank.n_theta)
        plus, minus = parts(self.problem.loss)
        by_score = plus.curvature(self.scores).product(along)
        if minus is not None:
            by_score -= minus.curvature(self.scores).product(along)
        product = self._pull(by_score, theta)
        product[: model.n_penalised] += self.problem.alpha * direction[: model.n_penalised]
        return product

    def constraint_gradient(self, i: int) -> Floats:
        """Return an element of ``∂f⁺_i(x) − ∂f⁻_i(x)``; one pass."""
        plus, minus = self.problem.constraints.system.slope(self.atoms, i)
        return self.atoms_gradient(plus - minus)

    def atoms_gradient(self, slope: Floats) -> Floats:
        """Return the gradient of ``Σ slope · atoms``; one pass."""
        theta = self.problem.split(self.x)[1]
        gradient = self.problem.constraints.bank.pull_back(slope, self.scores, theta)
        return self._pull(gradient.scores, gradient.theta)

    @cached_property
    def atoms_jacobian(self) -> Floats:
        """Subgradients of all atoms at x: (n_atoms, n); one pass for each bank that can."""
        bank, theta = self.problem.constraints.bank, self.problem.split(self.x)[1]
        return np.hstack(bank.jacobian(self.scores, theta, self._puller))

    def constraint_jacobian(self) -> Floats:
        """Elements of all ``∂f⁺_i(x) − ∂f⁻_i(x)``: (m, n)."""
        plus, minus = self.slopes
        return np.asarray((plus - minus) @ self.atoms_jacobian)

    def objective_hessian(self, share: float = 1.0) -> ArrowMatrix:
        """Return ``∇²f⁺_0(x) − share · ∇²f⁻_0(x)`` of linear scores; the whole may be indefinite."""
        convex, concave = self._objective_hessians
        return convex if concave is None else convex.minus(concave, share)

    @cached_property
    def _objective_hessians(self) -> tuple[ArrowMatrix, ArrowMatrix | None]:
        minus = parts(self.problem.loss)[1]
        nothing = np.zeros(self.problem.constraints.bank.n_atoms)
        convex = self.convex_hessian(np.zeros(self.problem.m))
        return convex, None if minus is None else self._hessian(minus, nothing)

    def lagrangian_hessian(self, multipliers: Floats) -> tuple[ArrowMatrix, ArrowMatrix | None]:
        """Return the Hessians of ``f⁺_0 + Σ λ_i f⁺_i`` and of the f⁻, smoothed; None if that is 0."""
        loss = parts(self.problem.loss)[1]
        concave = None
        if loss is not None or multipliers.any():
            concave = self._hessian(loss, multipliers @ self.slopes[1])
        return self.convex_hessian(multipliers), concave

    def convex_hessian(self, multipliers: Floats) -> ArrowMatrix:
        """Return the Hessian of ``f⁺_0 + Σ λ_i f⁺_i``, smoothed over kinks."""
        model = self.problem.model
        found = self._hessian(parts(self.problem.loss)[0], multipliers @ self.slopes[0])
        alpha = np.zeros(model.n_params)
        alpha[: model.n_penalised] = self.problem.alpha
        for places, block in zip(found.inner.positions, found.inner.blocks, strict=True):
            block[np.diag_indices_from(block)] += alpha[places]
        return found

    def _hessian(self, loss: Loss | None, coefficients: Floats) -> ArrowMatrix:
        """Return the Hessian of a loss plus that of ``Σ coefficients · atoms``.

        One pass for the blocks, and one for what couples scores.
        """
        model, bank = self.problem.model, self.problem.constraints.bank
        curvature = Curvature(np.zeros(self.scores.size)) if loss is None else loss.curvature(self.scores)
        weights = curvature.diagonal
        cross, corner = np.zeros((model.n_params, bank.n_theta)), np.zeros(bank.n_theta)
        if coefficients.any():
            theta = self.problem.split(self.x)[1]
            found = bank.curvature(coefficients, self.scores, theta, self._puller)
            weights, cross, corner = weights + found.scores, found.cross, found.theta
        self.problem.count_passes(1 + len(curvature.couplings))
        inner = model.gram(weights)
        for one in curvature.couplings:
            inner = inner.plus_product(model.vjp_cells(one.weights, one.cells, len(one.core)), one.core)
        return ArrowMatrix(inner, cross, np.diag(corner))

    def kinks(
        self, multipliers: Floats, reach: float, towards: Trial | None = None, limit: int = 400
    ) -> Kinks | None:
        """Return the kinks of f⁺ that matter; None if there are too many.

        Parameters
        ----------
        multipliers : (m,)
            Those of the f_i with a positive one matter.
        reach
            How near, in widths of the surrogate.
        towards
            Or on the way to this point, if it is given.
        limit
            How many kinks, after those of equal rows of the data are joined, are too many.
        """
        bank, system = self.problem.constraints.bank, self.problem.constraints.system
        theta = self.problem.split(self.x)[1]
        plus = self.slopes[0]
        moves = (np.zeros(self.scores.size), np.zeros(theta.size))
        if towards is not None:
            moves = (towards.scores - self.scores, towards.problem.split(towards.x)[1] - theta)
        found = bank.kinks((multipliers > 0) @ plus, self.scores, theta, moves, reach, 20 * limit)
        if found is None:
            return None
        model_rows = self.problem.model.rows(found.rows)
        between = np.flatnonzero(found.others >= 0)
        model_rows[between] -= self.problem.model.rows(found.others[between])
        found, model_rows = merged(found, model_rows)
        if found.atoms.size > limit:
            return None
        ties = system.ties(self.atoms, multipliers > 0, _TIE)
        shares = np.zeros((ties.gaps.size, system.m))
        shares[np.arange(ties.gaps.size), ties.functions] = ties.factors
        return Kinks(
            np.vstack([atom_rows(found, model_rows, self.x.size), ties.slopes @ self.atoms_jacobian]),
            np.concatenate([found.weights * np.abs(found.residuals), ties.gaps]),
            np.vstack([plus[:, found.atoms].T, shares]),
            np.concatenate([found.keys(self.scores.size), -1 - ties.keys]),
        )

    @cached_property
    def _puller(self) -> _Pull:
        return _Pull(self.problem, self.problem.split(self.x)[0])

    @cached_property
    def _loss(self) -> tuple[float, Floats]:
        return parts(self.problem.loss)[0].value_and_gradient(self.scores)

    @cached_property
    def _subtracted(self) -> tuple[float, Floats]:
        """Value and gradient in the scores of the loss that is subtracted."""
        minus = parts(self.problem.loss)[1]
        return (0.0, np.zeros(1)) if minus is None else minus.value_and_gradient(self.scores)

    def _objective_gradient(self, by_score: Floats) -> Floats:
        """Return the gradient of f_0, or of a part of it, from that in the scores."""
        model = self.problem.model
        gradient = self._pull(by_score, np.zeros(self.problem.constraints.bank.n_theta))
        gradient[: model.n_penalised] += self.problem.alpha * self.x[: model.n_penalised]
        return gradient

    def _pull(self, by_score: Floats, by_theta: Floats) -> Floats:
        self.problem.count_passes()
        by_params = self.problem.model.vjp(self.problem.split(self.x)[0], by_score)
        return np.concatenate([by_params, by_theta])


@dataclass(frozen=True, eq=False)
class _Pull:
    """The model at one point, as banks see it; passes are counted.

    It does not know the trial it belongs to: in a cycle, arrays as long as the data would outlive their use.
    """

    problem: Problem
    w: Floats
    memory: dict[AtomBank, Any] = field(default_factory=dict)

    def one(self, vector: Floats) -> Floats:
        self.problem.count_passes()
        return self.problem.model.vjp(self.w, vector)

    def many(
        self, slopes: Callable[[int, int], Floats], groups: Ints, n_groups: int, n_columns: int
    ) -> tuple[Floats, Floats]:
        self.problem.count_passes()
        return self.problem.model.vjp_many(slopes, groups, n_groups, n_columns)

    def binned(
        self, scores: Floats, weights: Floats, bins: Ints, groups: Ints, shape: tuple[int, int]
    ) -> Floats:
        self.problem.count_passes()
        return self.problem.model.vjp_binned(scores, weights, bins, groups, shape)

    def remembered(self, bank: AtomBank, compute: Callable[[], T]) -> T:
        if bank not in self.memory:
            self.memory[bank] = compute()
        return cast(T, self.memory[bank])

    @property
    def n_params(self) -> int:
        return self.problem.model.n_params


@dataclass(frozen=True, eq=False)
class Subproblem:
    """``min g_0(v)`` subject to ``g_i(v) ≤ 0``: convex majorants of f_0, ..., f_m that touch them at x.

    ``g_i(v) = f⁺_i(v) − f⁻_i(x) − ⟨∇f⁻_i(x), v − x⟩ + μ/2 ‖v − x‖²``, and likewise g_0.
    """

    problem: Problem
    x: Floats
    mu: float = 0.0

    @property
    def domain(self) -> Domain:
        """𝒲."""
        return self.problem.domain

    @cached_property
    def tangents(self) -> tuple[Floats, Floats]:
        """Values (m,) and gradients (m, n) of all f⁻ at x.

        In parameter space the tangents are m short vectors: evaluating them takes no pass over the data.
        """
        values = self.problem.constraints.system.parts(self._here.atoms)[1]
        return values, self._here.slopes[1] @ self._here.atoms_jacobian

    @cached_property
    def objective_tangent(self) -> tuple[float, Floats]:
        """Value and gradient of f⁻_0 at x."""
        return self._here.objective_tangent()

    @cached_property
    def _here(self) -> Trial:
        return self.problem.at(self.x)

    def at(self, v: Floats) -> SubTrial:
        """Return the oracles of g_0, ..., g_m at v."""
        return SubTrial(self, v)


@dataclass(frozen=True, eq=False)
class SubTrial:
    """Oracles of ``g_0, g_1, ..., g_m`` at one point."""

    subproblem: Subproblem
    v: Floats

    @cached_property
    def original(self) -> Trial:
        """Oracles of the original functions at the same point."""
        return self.subproblem.problem.at(self.v)

    @cached_property
    def objective(self) -> float:
        """``g_0(v)``."""
        value, gradient = self.subproblem.objective_tangent
        return self.original.convex_objective - value - float(gradient @ self._step) + self._shift

    @cached_property
    def constraints(self) -> Floats:
        """All ``g_i(v)``."""
        values, gradients = self.subproblem.tangents
        plus = self.subproblem.problem.constraints.system.parts(self.original.atoms)[0]
        return np.asarray(plus - values - gradients @ self._step + self._shift)

    def objective_gradient(self) -> Floats:
        """Return ``∇g_0(v)``; one pass."""
        gradient = self.original.convex_objective_gradient() - self.subproblem.objective_tangent[1]
        return np.asarray(gradient + self.subproblem.mu * self._step)

    def constraint_gradient(self, i: int) -> Floats:
        """Return a subgradient of g_i at v; one pass."""
        plus = self.subproblem.problem.constraints.system.slope(self.original.atoms, i)[0]
        gradient = self.original.atoms_gradient(plus)
        return np.asarray(gradient - self.subproblem.tangents[1][i] + self.subproblem.mu * self._step)

    def constraint_jacobian(self) -> Floats:
        """Subgradients of all g_i at v: (m, n)."""
        plus = self.original.slopes[0]
        jacobian = plus @ self.original.atoms_jacobian
        return np.asarray(jacobian - self.subproblem.tangents[1] + self.subproblem.mu * self._step)

    @property
    def x(self) -> Floats:
        """The point itself."""
        return self.v

    def lagrangian_hessian(self, multipliers: Floats) -> tuple[ArrowMatrix, None]:
        """Return the Hessian of ``g_0 + Σ λ_i g_i``, smoothed over kinks; nothing of it is concave."""
        shift = self.subproblem.mu * (1 + float(multipliers.sum()))
        return self.original.convex_hessian(multipliers).shifted(shift), None

    def kinks(
        self, multipliers: Floats, reach: float, towards: SubTrial | None = None, limit: int = 400
    ) -> Kinks | None:
        """Return the kinks of all g_i that matter: those of f⁺."""
        there = None if towards is None else towards.original
        return self.original.kinks(multipliers, reach, there, limit)

    @property
    def _step(self) -> Floats:
        return self.v - self.subproblem.x

    @cached_property
    def _shift(self) -> float:
        return 0.5 * self.subproblem.mu * float(self._step @ self._step)
