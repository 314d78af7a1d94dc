"""The computations of problems on all rows: values, gradients, expansions, kinks.

In a shard, formulas in score space are combined with the model: slopes in the scores become slopes in the
parameters, by ``Jᵀ``. All results add up over shards.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from partialfair.constraints.dc import AtomKinks, Gradient, JoinedBank
from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.optimization.models.blocks import BlockMatrix
from partialfair.optimization.objectives import Coupling, split_loss
from partialfair.optimization.problems.rows import Shard
from partialfair.utils.typing import Floats


def _sum(first: tuple[Any, ...], second: tuple[Any, ...], /) -> tuple[Any, ...]:
    """Add a tuple of arrays to another, in place, because Hessians are large."""
    for total, entry in zip(first, second, strict=True):
        total += entry
    return first


class LossParts(Enum):
    """Parts of the loss ``f_0 = f⁺_0 − f⁻_0``, by their factors."""

    NONE = (0, 0)
    WHOLE = (1, -1)
    CONVEX = (1, 0)
    SUBTRACTED = (0, 1)


def score_gradient(
    shard: Shard, loss: LossParts, bank: JoinedBank, coefficients: Floats | None, theta: Floats
) -> Gradient:
    """Return the gradient of parts of the loss plus ``Σ coefficients · atoms``, in a shard's scores and θ."""
    # Parts of the loss with their signs, then the atoms: all slopes in the scores, before any Jᵀ.
    terms, by_theta = [], np.zeros(bank.n_theta)
    for factor, known in zip(loss.value, shard.losses, strict=True) if loss is not LossParts.NONE else ():
        if factor and known is not None:
            terms.append(known[1] if factor == 1 else factor * known[1])
    if coefficients is not None and coefficients.any():
        atoms = bank.by_score(1, coefficients, shard.scores, shard.data.members, theta)
        terms.append(atoms.scores)
        by_theta = atoms.theta
    by_score = functools.reduce(np.add, terms) if terms else np.zeros(shard.scores.size)
    return Gradient(by_score, by_theta)


@dataclass(frozen=True, eq=False)
class Values:
    """Values of the loss's two parts, (2,), and of all atoms."""

    bank: JoinedBank
    theta: Floats

    def map(self, shard: Shard, reference: Shard | None) -> tuple[Floats, Floats]:
        """As in `Reduction`."""
        plus, minus = shard.losses
        losses = np.array([plus[0], 0.0 if minus is None else minus[0]])
        return losses, self.bank.values(shard.scores, shard.data.members, self.theta)

    combine = staticmethod(_sum)


@dataclass(frozen=True, eq=False)
class GradientOf:
    """Gradient of the loss plus ``Σ coefficients · atoms`` in parameters and θ, minus that at a reference.

    Parameters
    ----------
    bank
        The atoms.
    loss, coefficients, theta
        For this point; None omits the atoms.
    tangent_loss, tangent_coefficients, tangent_theta
        For the reference point, whose gradient *in the scores* is subtracted: a tangent in score space.
    """

    bank: JoinedBank
    loss: LossParts
    coefficients: Floats | None
    theta: Floats
    tangent_loss: LossParts = LossParts.NONE
    tangent_coefficients: Floats | None = None
    tangent_theta: Floats | None = None

    def map(self, shard: Shard, reference: Shard | None) -> tuple[Floats, Floats]:
        """As in `Reduction`."""
        here = score_gradient(shard, self.loss, self.bank, self.coefficients, self.theta)
        by_score, by_theta = here.scores, here.theta
        if reference is not None and self.tangent_theta is not None:
            there = score_gradient(
                reference, self.tangent_loss, self.bank, self.tangent_coefficients, self.tangent_theta
            )
            by_score, by_theta = by_score - there.scores, by_theta - there.theta
        return shard.vjp_vector(by_score), by_theta

    combine = staticmethod(_sum)


@dataclass(frozen=True, eq=False)
class TangentRise:
    """The increase of tangents from a reference point to this one: of f⁻_0, (1,), and of all atoms.

    ``⟨∂T(s', θ'), (s − s', θ − θ')⟩``, in score space: it needs no Jacobian.
    """

    bank: JoinedBank
    theta: Floats
    theta_reference: Floats

    def map(self, shard: Shard, reference: Shard | None) -> tuple[Floats, Floats]:
        """As in `Reduction`."""
        assert reference is not None
        moves = shard.scores - reference.scores
        slopes = score_gradient(reference, LossParts.SUBTRACTED, self.bank, None, self.theta_reference).scores
        rises = np.zeros(self.bank.n_atoms)
        # The last entry is for functions without a θ, whose number is −1.
        theta_moves = np.append(self.theta - self.theta_reference, 0.0)
        for columns in self.bank.columns(reference.scores, shard.data.members, self.theta_reference):
            by_row = np.stack([moves[columns.rows], np.ones(len(columns.values))], axis=1)
            sums = columns.dotted(by_row)
            shifts = -1 if columns.thresholds is None else columns.thresholds
            assert columns.outputs is not None
            np.add.at(rises, columns.outputs, sums[..., 0] - theta_moves[shifts] * sums[..., 1])
        return np.array([float(slopes @ moves)]), rises

    combine = staticmethod(_sum)


class Curved(NamedTuple):
    """A function whose Hessian is needed: a part of the loss, or none, plus ``Σ coefficients · atoms``."""

    loss: LossParts
    coefficients: Floats


@dataclass(frozen=True, eq=False)
class Expanded:
    """The result of an `Expansion`.

    Attributes
    ----------
    gradient : (n_params,)
        Gradient of the loss in the parameters.
    atoms : (n_atoms, n_params + n_theta)
        Subgradients of all atoms.
    blocks
        For each curved function its Hessian in the parameters.
    borders
        For each curved function (n_theta, n_params + n_theta) its second derivatives in thresholds and
        parameters, and in thresholds and thresholds: a diagonal.
    """

    gradient: Floats
    atoms: Floats
    blocks: tuple[BlockMatrix, ...]
    borders: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Expansion:
    """Gradient of the loss, Jacobian of all atoms, Hessians of some functions, smoothed over kinks.

    One loop over the rows gives all derivatives of all atoms, and one for each Hessian its blocks.

    Parameters
    ----------
    bank, theta
        The atoms and their thresholds.
    loss
        The parts whose gradient is needed; NONE also omits the Jacobian.
    curved
        Functions whose Hessians are needed.
    """

    bank: JoinedBank
    theta: Floats
    loss: LossParts = LossParts.WHOLE
    curved: tuple[Curved, ...] = ()

    def map(self, shard: Shard, reference: Shard | None) -> Expanded:
        """As in `Reduction`."""
        bank, n, n_theta = self.bank, shard.w.size, self.bank.n_theta
        gradient = np.zeros(n)
        if self.loss is not LossParts.NONE:
            gradient = shard.vjp_vector(score_gradient(shard, self.loss, bank, None, self.theta).scores)
        # Derivatives of all atoms in (w, θ), then of the slopes in θ of each curved function.
        bent = [number for number, function in enumerate(self.curved) if function.coefficients.any()]
        derivatives = np.zeros((bank.n_atoms + len(bent) * n_theta, n + n_theta))
        if self.loss is not LossParts.NONE or (bent and n_theta):
            coefficients = [self.curved[number].coefficients for number in bent]
            for columns in bank.columns(shard.scores, shard.data.members, self.theta, coefficients):
                assert columns.outputs is not None
                products = shard.vjp(columns)
                for outputs, block in zip(columns.outputs, products, strict=True):
                    derivatives[outputs, :n] += block[:, :-1]  # a block has no output twice
                if columns.thresholds is not None:
                    # A function of s − θ_j: its slope in θ_j is minus the sum of its slopes in s.
                    shifted = columns.thresholds >= 0
                    entries = columns.outputs[shifted], n + columns.thresholds[shifted]
                    np.add.at(derivatives, entries, -products[..., -1][shifted])
        atoms, *mixed = np.split(derivatives, bank.n_atoms + n_theta * np.arange(len(bent)))
        borders = [np.zeros((n_theta, n + n_theta)) for _ in self.curved]
        for number, border in zip(bent, mixed, strict=True):
            borders[number] = border
        blocks = tuple(self._hessian(shard, function) for function in self.curved)
        return Expanded(gradient, atoms, blocks, tuple(borders))

    def _hessian(self, shard: Shard, function: Curved) -> BlockMatrix:
        """Return the Hessian of one function in the parameters: ``Jᵀ diag J``, plus couplings of scores."""
        tied = shard.data.objective
        couplings: tuple[Coupling, ...] = ()
        weights: Floats | None = None
        assert function.loss is not LossParts.WHOLE  # a difference has no positive semidefinite Hessian
        for factor, loss in zip(function.loss.value, split_loss(tied.loss), strict=True):
            if factor and loss is not None:  # at most one of the two parts
                curvature = loss.curvature(shard.scores, tied.targets, tied.shares)
                weights, couplings = curvature.diagonal, curvature.couplings
        if function.coefficients.any():
            atoms = self.bank.by_score(
                2, function.coefficients, shard.scores, shard.data.members, self.theta
            ).scores
            weights = atoms if weights is None else weights + atoms
        hessian = shard.linear.gram(np.zeros(shard.scores.size) if weights is None else weights)
        for coupling in couplings:  # Jᵀ (Σ core[c, d] a_c a_dᵀ) J, from the sums Jᵀ a_c
            cells = RowColumns(coupling.weights[:, None], coupling.cells, n_blocks=len(coupling.core))
            hessian = hessian.plus_product(np.asarray(shard.vjp(cells)[:, 0, :-1]), coupling.core)
        return hessian

    def combine(self, first: Expanded, second: Expanded) -> Expanded:
        """As in `Reduction`."""
        _sum((first.gradient, first.atoms, *first.borders), (second.gradient, second.atoms, *second.borders))
        for total, matrix in zip(first.blocks, second.blocks, strict=True):
            _sum(total.blocks, matrix.blocks)
        return first


@dataclass(frozen=True, eq=False)
class HessianProduct:
    """``∇²loss · direction`` in the parameters, for linear scores: the Hessian itself is never formed."""

    direction: Floats

    def map(self, shard: Shard, reference: Shard | None) -> tuple[Floats]:
        """As in `Reduction`."""
        tied, along = shard.data.objective, shard.linear.along(self.direction)
        by_score = np.zeros(along.size)
        for sign, loss in zip((1, -1), split_loss(tied.loss), strict=True):
            if loss is not None:
                by_score += sign * loss.curvature(shard.scores, tied.targets, tied.shares).product(along)
        return (shard.vjp_vector(by_score),)

    combine = staticmethod(_sum)


@dataclass(frozen=True, eq=False)
class KinksOfRows:
    """Kinks of atoms, and their directions in the parameters, (K, n_params), with the number of rows."""

    kinks: AtomKinks
    directions: Floats
    n_rows: int

    @classmethod
    def joined(cls, parts: Sequence[KinksOfRows]) -> KinksOfRows:
        """Return the kinks of several parts of the rows as those of all."""
        kinks = AtomKinks.joined([part.kinks for part in parts])
        directions = np.concatenate([part.directions for part in parts])
        return cls(kinks, directions, sum(part.n_rows for part in parts))


@dataclass(frozen=True, eq=False)
class KinkSearch:
    """The kinks of atoms that are near, or on the way to a reference point; None if there are too many.

    Parameters
    ----------
    bank, theta
        The atoms, which have kinks, and their thresholds.
    wanted : (n_atoms,)
        Relevant atoms have an entry other than 0.
    theta_moves
        Change of the thresholds on the way.
    reach
        Largest distance, in widths of the surrogate.
    limit
        Largest number, in a shard or in total.
    """

    bank: JoinedBank
    theta: Floats
    wanted: Floats
    theta_moves: Floats
    reach: float
    limit: int

    def map(self, shard: Shard, reference: Shard | None) -> list[KinksOfRows] | None:
        """As in `Reduction`."""
        scores = shard.scores
        moves = (np.zeros(scores.size) if reference is None else reference.scores - scores, self.theta_moves)
        kinks = self.bank.kinks(
            self.wanted, scores, shard.data.members, self.theta, moves, self.reach, self.limit
        )
        if kinks is None:
            return None
        # A kink's height s_row − s_other − θ changes along J_row − J_other.
        directions = shard.linear.rows(kinks.rows)
        between = np.flatnonzero(kinks.others >= 0)
        directions[between] -= shard.linear.rows(kinks.others[between])
        # Rows are numbered among all rows, so that kinks of different shards have different numbers.
        numbered = replace(
            kinks,
            rows=kinks.rows + shard.data.first,
            others=np.where(kinks.others >= 0, kinks.others + shard.data.first, -1),
        )
        return [KinksOfRows(numbered, directions, scores.size)]

    def combine(
        self, first: list[KinksOfRows] | None, second: list[KinksOfRows] | None
    ) -> list[KinksOfRows] | None:
        """As in `Reduction`."""
        if first is None or second is None:
            return None
        both = first + second
        return None if sum(part.kinks.atoms.size for part in both) > self.limit else both


@dataclass(frozen=True, eq=False)
class InteractionOfKinks:
    """The `Interaction` of kinks, with its slope in the parameters.

    Its bank is not additive, so there is one shard with all rows.

    Parameters
    ----------
    bank
        The atoms.
    kinks, fractions, rooms
        As in `partialfair.constraints.dc.Interacting`.
    """

    bank: JoinedBank
    kinks: AtomKinks
    fractions: Floats
    rooms: Floats

    def map(self, shard: Shard, reference: Shard | None) -> tuple[Floats, Floats, float]:
        """As in `Reduction`."""
        change = self.bank.interaction(
            self.kinks, self.fractions, self.rooms, shard.scores, shard.data.members
        )
        return change.ratios, shard.vjp_vector(change.scores), change.loss

    combine = staticmethod(_sum)
