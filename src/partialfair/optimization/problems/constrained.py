"""Minimize a loss of a model's scores under difference-of-convex constraints (section "Inexact DCA").

A point x = (w, θ) is one flat vector: the model's parameters, then the constraints' thresholds. All values
come from the rows by reductions, each of which is one pass over the data and is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from partialfair.constraints.block import ConstraintBlock
from partialfair.constraints.dc import JoinedBank, Slopes
from partialfair.exceptions import InputError
from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.objectives import Difference, Loss, Objective
from partialfair.optimization.problems.domains import EVERYWHERE, Box, Domain
from partialfair.optimization.problems.local import Interplay, Kinks, Local, find_kinks
from partialfair.optimization.problems.ranks import Cells
from partialfair.optimization.problems.reductions import (
    Curved,
    Expanded,
    Expansion,
    GradientOf,
    HessianProduct,
    InteractionOfKinks,
    LossParts,
    Values,
)
from partialfair.optimization.problems.rows import (
    Capability,
    InMemoryData,
    Reduction,
    Rows,
    ScoredRows,
    TrainingData,
    check_capabilities,
)
from partialfair.optimization.problems.subproblem import Subproblem
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class ProblemSettings:
    """Settings for samples of problems.

    Attributes
    ----------
    sampled_rows, sampled_rows_of_a_parameter
        Number of rows of a sample that locates solutions roughly: this number, or this multiple of the
        parameters of a block.
    largest_fraction
        Largest fraction of the rows for a sample; larger ones save too little.
    """

    sampled_rows: int = 20_000
    sampled_rows_of_a_parameter: int = 50
    largest_fraction: float = 0.15


SETTINGS = ProblemSettings()


@dataclass(frozen=True, eq=False)
class PointValues:
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
    rows
        The data, and the model that scores it.
    loss
        Loss of the scores: convex, or a difference of convex losses.
    constraints
        The functions f_i; several constraints are joined by `constraints.join`. The rows know its groups.
    alpha
        ``f_0 = loss + ½ Σ alpha_j w_j²`` over the penalized part of w; one number, or one for each.
    domain
        𝒲.
    mean_target
        Mean target of all rows, for the best common score of all rows.

    Attributes
    ----------
    n_passes
        Passes over the data so far, which are calls of `reduce`. Scores for exact metrics only, or to place
        thresholds once before a solve, are not counted.
    share
        Fraction of the rows in this problem, if it is a sample of another.
    """

    rows: Rows
    loss: Loss | Difference
    constraints: ConstraintBlock
    alpha: Floats | float = 0.0
    domain: Domain = EVERYWHERE
    mean_target: float = 0.0
    n_passes: int = field(default=0, init=False)
    share: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        # Sums over pairs do not add up over shards.
        if not (self.loss.additive and self.bank.additive):
            check_capabilities(
                self.rows,
                frozenset({Capability.WHOLE}),
                "a constraint on pairs" if self.loss.additive else "a loss of pairs",
                reason="because it compares every row with others; these rows are divided",
            )

    @classmethod
    def of(
        cls,
        model: Any,
        objective: Objective,
        constraints: ConstraintBlock,
        alpha: Floats | float = 0.0,
        domain: Domain = EVERYWHERE,
        *,
        n_shards: int | None = None,
        cells: Cells | None = None,
    ) -> Problem:
        """State a problem about rows in memory.

        Parameters
        ----------
            Scores all rows: a `LinearModel`, a `FirstOrderModel`, or another `ScoreModel`.
            Scores all rows: a `LinearModel`, a `FirstOrderModel`, or whatever is a `ScoreModel`.
            The loss and the functions f_i, applied to all rows.
            The loss and the functions f_i, tied to all rows.
        alpha, domain
            As in `Problem`.
        n_shards, cells
            As in `partialfair.optimization.problems.InMemoryData`.
        """
        data = InMemoryData(model, objective, cells, n_shards)
        return cls.about(data, objective, constraints, alpha, domain)

    @classmethod
    def about(
        cls,
        data: TrainingData,
        objective: Objective,
        constraints: ConstraintBlock,
        alpha: Floats | float = 0.0,
        domain: Domain = EVERYWHERE,
    ) -> Problem:
        """State a problem on rows stored anywhere; of the objective only the loss and mean are used."""
        # Formulas that compare rows with each other need all of them together.
        additive = objective.loss.additive and constraints.bank.additive
        return cls(
            data.rows(constraints.all_members, additive=additive),
            objective.loss,
            constraints.without_members(),
            alpha,
            domain,
            objective.mean_target,
        )

    @property
    def box(self) -> Box:
        """𝒲, for solvers that support only bounds on coordinates; raise `InputError` for other domains."""
        if not isinstance(self.domain, Box):
            raise InputError(
                f"this solver needs a domain of bounds on coordinates (Box), not {self.domain}; IDCA with "
                "Switching inside and DirectSwitching support any"
            )
        return self.domain

    @property
    def m(self) -> int:
        """Number of constraint functions."""
        return self.constraints.system.m

    @property
    def bank(self) -> JoinedBank:
        """The constraints' atoms."""
        return self.constraints.joined_bank

    @property
    def n(self) -> int:
        """Number of coordinates of a point."""
        return self.rows.parameters.n + self.bank.n_theta

    @property
    def has_kinks(self) -> bool:
        """Whether some f⁺ can have kinks: those of the surrogate, or of maxima."""
        return self.bank.has_kinks or self.constraints.system.has_maxima

    @property
    def penalties(self) -> Floats:
        """Second derivatives of the penalty, 0 for thresholds and unpenalized parameters: (n,)."""
        penalties = np.zeros(self.n)
        penalties[: self.rows.parameters.n_penalized] = self.alpha
        return penalties

    @property
    def trivial_start(self) -> Floats:
        """Return the w of scores of 0, with thresholds at which these are feasible (Assumption 6.3 E).

        It is w = 0 also for models with an offset that do not define the w of scores of 0; then it may be
        infeasible.
        """
        starts = self.constraints.joined_thresholds.starts
        return np.concatenate([self.rows.parameters.at_no_scores, starts])

    @property
    def constant_start(self) -> Floats:
        """Return the best model with equal scores for all rows, with the thresholds moved by the same amount.

        It is as feasible as the trivial start, unless some constraint has a fixed threshold; if no parameter
        raises all scores equally, it is the trivial start.
        """
        start, parameters = self.trivial_start, self.rows.parameters
        # Thresholds move with all scores, so that every s − θ is unchanged.
        if parameters.level is not None:
            up = np.concatenate([parameters.level, np.ones(self.bank.n_theta)])
            start += self.loss.best_constant(self.mean_target) * up
        elif parameters.n > parameters.n_penalized:
            start[parameters.n_penalized :] += self.loss.best_constant(self.mean_target)
        return start

    def start_at(self, w: Floats) -> Floats:
        """Return w with thresholds computed from its scores."""
        if not self.bank.n_theta:
            return w.copy()
        # Thresholds are placed at ranks of the scores at w, in a pass that is not counted; see `n_passes`.
        scored = self.rows.at(w)
        return np.concatenate([w, self.constraints.joined_thresholds.at(scored.ranks)])

    def split(self, x: Floats) -> tuple[Floats, Floats]:
        """Return w and θ."""
        return x[: self.rows.parameters.n], x[self.rows.parameters.n :]

    def reduce(
        self, scored: ScoredRows, *reductions: Reduction[Any], reference: ScoredRows | None = None
    ) -> list[Any]:
        """Compute reductions over all rows: one counted pass over the data, unless time is up."""
        check_clock()
        self.n_passes += 1
        return scored.reduce(*reductions, reference=reference)

    def at(self, x: Floats) -> ProblemPoint:
        """Return the oracles of f_0, ..., f_m at x."""
        return ProblemPoint(self, x)

    def evaluate(self, x: Floats) -> PointValues:
        """Return objective and constraints at x."""
        point = self.at(x)
        return PointValues(point.objective, point.constraints)

    @property
    def enough_rows(self) -> int:
        """Number of rows that locate solutions roughly."""
        per_parameter = SETTINGS.sampled_rows_of_a_parameter
        return max(SETTINGS.sampled_rows, per_parameter * self.rows.parameters.block_size)

    def sample(self, size: int, seed: int = 0) -> Problem | None:
        """Return the problem on some of the rows; None if they cannot be sampled or are nearly all.

        Its points are points of this problem, and its passes are fractions of a pass.
        """
        if Capability.SAMPLES not in self.rows.capabilities:
            return None
        rows, share = self.rows.sample(size, seed)
        if share > SETTINGS.largest_fraction:
            return None
        # The same functions of other rows, whose shares add up to those of all.
        sample = Problem(rows, self.loss, self.constraints, self.alpha, self.domain, self.mean_target)
        sample.share = share
        return sample

    def linearise(self, x: Floats, *, mu: float = 0.0) -> Subproblem:
        """Return the convex subproblem at x: every f⁻ replaced by its tangent (section "Inexact DCA").

        With ``mu`` the shift of Assumption 6.3 A is applied to every f_i: adding ``μ/2 ‖·‖²`` to f⁺ and to f⁻
        does not change f and adds ``μ/2 ‖v − x‖²`` to its convex majorant. The ρ-shift of weakly convex
        functions (Appendix D) is the same transformation with μ = ρ, for scores that are not linear in the
        parameters.
        """
        return Subproblem(self, self.at(x), mu)


@dataclass(eq=False)
class ProblemPoint:
    """Oracles of ``f_0, f_1, ..., f_m`` at one point; computed values are cached."""

    problem: Problem
    x: Floats
    _objective_gradient: Floats | None = field(default=None, init=False, repr=False)
    _atoms_jacobian: Floats | None = field(default=None, init=False, repr=False)

    @cached_property
    def scored(self) -> ScoredRows:
        """All rows at w."""
        return self.problem.rows.at(self.problem.split(self.x)[0])

    @property
    def theta(self) -> Floats:
        """θ."""
        return self.problem.split(self.x)[1]

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """Values of the two parts of the loss, and of all atoms; one pass."""
        # Losses and atoms share one pass, because computing the scores costs most.
        reduction = Values(self.problem.bank, self.theta)
        ((losses, atoms),) = self.problem.reduce(self.scored, reduction)
        return losses, atoms

    @property
    def atoms(self) -> Floats:
        """Values of the constraints' atoms."""
        return self.values[1]

    @property
    def convex_objective(self) -> float:
        """``f⁺_0(x)``."""
        return float(self.values[0][0]) + 0.5 * float(self.penalty_gradient @ self.x)

    @property
    def objective(self) -> float:
        """``f_0(x)``."""
        plus, minus = self.values[0]
        return float(plus) + 0.5 * float(self.penalty_gradient @ self.x) - float(minus)

    @cached_property
    def constraints(self) -> Floats:
        """All ``f_i(x)``."""
        return self.problem.constraints.system.values(self.atoms)

    @cached_property
    def slopes(self) -> tuple[Slopes, Slopes]:
        """Subgradients of all f⁺ and of all f⁻ in the atoms: (m, n_atoms) each."""
        check_clock()
        return self.problem.constraints.system.slopes(self.atoms)

    def objective_gradient(self) -> Floats:
        """Return ``∇f_0(x)``; one pass, unless cached."""
        if self._objective_gradient is None:
            self._objective_gradient = self.lagrangian_gradient(np.zeros(self.problem.m))
        return self._objective_gradient

    def constraint_gradient(self, i: int) -> Floats:
        """Return an element of ``∂f⁺_i(x) − ∂f⁻_i(x)``; one pass."""
        plus, minus = self.problem.constraints.system.slope(self.atoms, i)
        return self.gradient_of(LossParts.NONE, plus - minus)

    def lagrangian_gradient(self, multipliers: Floats) -> Floats:
        """Return an element of ``∂f_0(x) + Σ λ_i ∂f_i(x)``; one pass if the atoms' values are cached."""
        coefficients = None
        if multipliers.any():  # Σ λ_i ∂f_i as one combination of atoms, whatever m is
            plus, minus = self.problem.constraints.system.combined(self.atoms, multipliers)
            coefficients = plus - minus
        return self.gradient_of(LossParts.WHOLE, coefficients) + self.penalty_gradient

    def gradient_of(self, loss: LossParts, coefficients: Floats | None = None) -> Floats:
        """Return the gradient of parts of the loss plus ``Σ coefficients · atoms``, no penalty; one pass."""
        reduction = GradientOf(self.problem.bank, loss, coefficients, self.theta)
        ((by_params, by_theta),) = self.problem.reduce(self.scored, reduction)
        return np.concatenate([by_params, by_theta])

    def hessian_product(self, direction: Floats) -> Floats:
        """Return ``∇²f_0(x) direction``, for scores that are linear in w; one pass."""
        along = self.problem.split(direction)[0]
        ((product,),) = self.problem.reduce(self.scored, HessianProduct(along))
        # The penalty ½ Σ alpha_j w_j² does not apply to intercepts.
        penalised = self.problem.rows.parameters.n_penalized
        product[:penalised] += self.problem.alpha * direction[:penalised]
        return self._padded(product)

    def objective_hessians(self) -> tuple[ArrowMatrix, ArrowMatrix | None]:
        """Return ``∇²f⁺_0(x)`` and ``∇²f⁻_0(x)``, None if that is 0; one pass."""
        _, convex, concave = self._expand(LossParts.NONE, *self._curved_parts())
        return convex, concave

    def expand(self, multipliers: Floats) -> Local:
        """Return the problem near the point; one pass for everything."""
        plus, minus = self.slopes
        # Σ λ_i f⁻_i joins f⁻_0: the concave part of the Lagrangian is a separate matrix.
        of_minus = multipliers @ minus if multipliers.any() else None
        curved = self._curved_parts(multipliers @ plus, of_minus)
        gradient, convex, concave = self._expand(LossParts.WHOLE, *curved)
        return Local(gradient, self.constraint_jacobian(), convex, concave)

    def expand_net(self, multipliers: Floats) -> Local:
        """Return the problem near the point, with one Hessian of all curved parts; one pass in total."""
        plus, minus = self.slopes
        curved = self._curved_parts(multipliers @ (plus - minus))
        gradient, convex, concave = self._expand(LossParts.WHOLE, *curved)
        # Not positive definite in general; `AbsoluteHessian` makes it so.
        hessian = convex if concave is None else convex.minus(concave, 1.0)
        return Local(gradient, self.constraint_jacobian(), hessian, None)

    def expand_convex(self, multipliers: Floats) -> Local:
        """Return ``f⁺_0, ..., f⁺_m`` near the point; one pass for everything."""
        curved = Curved(LossParts.CONVEX, multipliers @ self.slopes[0])
        gradient, hessian, _ = self._expand(LossParts.CONVEX, curved)
        return Local(gradient, np.asarray(self.slopes[0] @ self.atoms_jacobian), hessian, None)

    def constraint_jacobian(self) -> Floats:
        """Elements of all ``∂f⁺_i(x) − ∂f⁻_i(x)``: (m, n)."""
        plus, minus = self.slopes
        return np.asarray((plus - minus) @ self.atoms_jacobian)

    @property
    def atoms_jacobian(self) -> Floats:
        """Subgradients of all atoms at x: (n_atoms, n); one pass, which also computes ∇f_0, unless cached."""
        if self._atoms_jacobian is None:  # an expansion of the problem also computes it
            self._expand(LossParts.WHOLE)
        assert self._atoms_jacobian is not None
        return self._atoms_jacobian

    def kinks(
        self,
        multipliers: Floats,
        reach: float,
        towards: ProblemPoint | None = None,
        limit: int = 400,
        *,
        of_convex: bool = False,
    ) -> Kinks | None:
        """Return the relevant kinks of f⁺ without those that f⁻ shares; None if there are too many.

        Parameters
        ----------
        multipliers : (m,)
            Only f_i with positive multipliers are relevant.
        reach
            Largest distance, in widths of the surrogate.
        towards
            If given, kinks on the way to this point.
        limit
            Largest number of kinks, after those of equal rows of the data are joined.
        of_convex
            Return the kinks of f⁺, including those that f⁻ shares.
        """
        return find_kinks(self, multipliers > 0, reach, towards, limit, of_convex=of_convex)

    def interplay(self, kinks: Kinks, multipliers: Floats, kink_multipliers: Floats) -> Interplay:
        """Return the difference between the tangent and the sum of kinks' separate terms; one pass.

        Parameters
        ----------
        kinks
            Kinks of the point, as `kinks` returned them.
        multipliers, kink_multipliers : (m,), (K,)
            Multipliers of the f_i, and of the kinks.
        """
        merged = kinks.merged
        if merged is None or not self.problem.bank.interacts:
            return Interplay.none(kinks.gaps.size, self.x.size)
        room = np.maximum(kinks.shares @ multipliers + kinks.beyond @ kink_multipliers, 0.0)
        fractions = np.divide(kink_multipliers, room, out=np.zeros(room.size), where=room > 0)
        fractions = np.clip(fractions, -kinks.backs, 1.0)
        reduction = InteractionOfKinks(
            self.problem.bank, merged.kinks, fractions[merged.positions], room[merged.positions]
        )
        ((ratios, slope, loss),) = self.problem.reduce(self.scored, reduction)
        return Interplay(merged.averages(ratios, kinks.gaps.size), self._padded(slope), loss)

    def _curved_parts(self, plus: Floats | None = None, minus: Floats | None = None) -> list[Curved]:
        """Return the loss's two parts with these coefficients of atoms, whose Hessians are needed."""
        no_atoms = np.zeros(self.problem.bank.n_atoms)
        curved = [Curved(LossParts.CONVEX, no_atoms if plus is None else plus)]
        if minus is not None or isinstance(self.problem.loss, Difference):
            curved.append(Curved(LossParts.SUBTRACTED, no_atoms if minus is None else minus))
        return curved

    def _expand(self, loss: LossParts, *curved: Curved) -> tuple[Floats, ArrowMatrix, ArrowMatrix | None]:
        """Return the gradient and up to two Hessians, the first with the penalty; one pass.

        The values of the atoms and of the whole objective that it also computes are cached.
        """
        problem = self.problem
        expanded: Expanded
        (expanded,) = problem.reduce(self.scored, Expansion(problem.bank, self.theta, loss, curved))
        gradient = self._padded(expanded.gradient) + self.penalty_gradient
        if loss is not LossParts.NONE:
            self._atoms_jacobian = expanded.atoms
        if loss is LossParts.WHOLE:
            self._objective_gradient = gradient
        n = problem.rows.parameters.n
        matrices: list[Any] = [
            ArrowMatrix(blocks, border[:, :n].T, border[:, n:])
            for blocks, border in zip(expanded.blocks, expanded.borders, strict=True)
        ]
        if matrices:
            alpha, inner = problem.penalties, matrices[0].inner
            for positions, block in zip(inner.positions, inner.blocks, strict=True):
                block[np.diag_indices_from(block)] += alpha[positions]
        convex, concave, *_ = [*matrices, None, None]
        return gradient, convex, concave

    @cached_property
    def penalty_gradient(self) -> Floats:
        """``alpha_j w_j`` for penalized parameters, 0 for the rest of x."""
        return self.problem.penalties * self.x

    def _padded(self, by_params: Floats) -> Floats:
        """Return derivatives in the parameters with zeros for the thresholds."""
        return np.concatenate([by_params, np.zeros(self.problem.bank.n_theta)])
