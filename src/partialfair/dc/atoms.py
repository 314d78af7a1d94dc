"""Convex atoms: functions T(s, θ) of all scores and thresholds, jointly convex, evaluated together.

A bank holds many atoms that share their loops over the scores. Constraints refer to atoms by position, so a
bank is evaluated once per point however many constraints use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numba import njit
from scipy import linalg

from partialfair._pieces import Pieces, look_up
from partialfair._typing import Floats, Ints
from partialfair.surrogates import Surrogate

__all__ = [
    "AtomBank",
    "AtomKinks",
    "Curvature",
    "Gradient",
    "GroupMeans",
    "JoinedBank",
    "Moves",
    "PullMany",
    "flat",
    "group_shares",
    "joined_kinks",
    "pulled_one_by_one",
    "without_kinks",
]


@dataclass(frozen=True, eq=False)
class Gradient:
    """A (sub)gradient in the scores and in the free thresholds."""

    scores: Floats
    theta: Floats


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives of a function of ``s_i − θ_j``, smoothed over kinks, pulled back to parameters.

    Attributes
    ----------
    scores : (n,)
        In each score; the model's Hessian is ``Jᵀ diag(scores) J``.
    cross : (n_params, n_theta)
        In parameters and thresholds.
    theta : (n_theta,)
        In each threshold.
    """

    scores: Floats
    cross: Floats
    theta: Floats


@dataclass(frozen=True, eq=False)
class AtomKinks:
    """Places where atoms bend: atom a holds ``weight · max(0, residual + change of s_row − θ − s_other)``.

    Attributes
    ----------
    atoms, rows, thresholds : (K,)
        The atom, the row of the score, and the free threshold, −1 for a fixed one.
    residuals, weights : (K,)
        How far on its right or left side the kink is, in units of scores, and by how much the slope jumps.
    others : (K,)
        The row of a score that takes the place of the threshold, −1 for none.
    """

    atoms: Ints
    rows: Ints
    thresholds: Ints
    residuals: Floats
    weights: Floats
    others: Ints

    def keys(self, n_rows: int) -> Ints:
        """Return a number for each kink that tells it from those of other atoms and rows."""
        return (self.atoms * n_rows + self.rows) * (n_rows + 1) + self.others + 1


class AtomBank(Protocol):
    """Convex functions of (scores, θ), in a fixed order."""

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""

    @property
    def n_theta(self) -> int:
        """Number of free thresholds θ."""

    def values(self, scores: Floats, theta: Floats) -> Floats:
        """Value of every atom."""

    def pull_back(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Subgradient of ``Σ coefficients · atoms``; for coefficients ≥ 0 that sum is convex."""

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats, pull: PullMany) -> Curvature:
        """Second derivatives of ``Σ coefficients · atoms``, smoothed over kinks.

        They only guide steps; `flat` gives zeros for any bank.
        """

    def kinks(
        self, wanted: Floats, scores: Floats, theta: Floats, moves: Moves, reach: float, limit: int
    ) -> AtomKinks | None:
        """Kinks of the atoms with wanted ≠ 0 that are within reach, or that the moves pass; None over limit.

        The reach is in units in which the atoms change their slopes much, such as a surrogate's width.
        They only make solvers faster and certificates tighter; `without_kinks` finds none for any bank.
        """

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Subgradients of all atoms: in the model's parameters (n_atoms, n_params), and in θ.

        `pulled_one_by_one` does it for any bank, with a pass over the data for each atom.
        """


T = TypeVar("T")
Moves: TypeAlias = tuple[Floats, Floats]
"""Changes of all scores and of all free thresholds."""


class PullMany(Protocol):
    """How a model pulls vectors on its scores back to its parameters."""

    def one(self, vector: Floats) -> Floats:
        """Return ``Jᵀ vector``; one pass."""

    def many(
        self, slopes: Callable[[int, int], Floats], groups: Ints, n_groups: int, n_columns: int
    ) -> tuple[Floats, Floats]:
        """Return ``Jᵀ`` times many vectors by group, and the vectors' sums; one pass."""

    def binned(
        self, scores: Floats, weights: Floats, bins: Ints, groups: Ints, shape: tuple[int, int]
    ) -> Floats:
        """Return ``Jᵀ`` times weights, and times weights · scores, of each group and bin; one pass.

        The shape is (n_groups, n_bins), and that of the result (n_groups, n_bins, 2, n_params + 1): the last
        entry is the sum.
        """

    def remembered(self, bank: AtomBank, compute: Callable[[], T]) -> T:
        """Return what was computed for a bank at this point, computing it the first time."""

    @property
    def n_params(self) -> int:
        """Length of w."""


def pulled_one_by_one(bank: AtomBank, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
    """Return the Jacobian of any bank, atom by atom."""
    gradients = [bank.pull_back(unit, scores, theta) for unit in np.eye(bank.n_atoms)]
    by_theta = np.array([gradient.theta for gradient in gradients]).reshape(bank.n_atoms, bank.n_theta)
    return np.array([pull.one(gradient.scores) for gradient in gradients]), by_theta


def group_shares(codes: Ints, weights: Floats, n_groups: int) -> Floats:
    """Return weights scaled to add up to 1 in each group, and 0 without a group."""
    inside = codes >= 0
    totals = np.bincount(codes[inside], weights=weights[inside], minlength=n_groups)
    return np.where(inside, weights / totals[np.where(inside, codes, 0)], 0.0)


def flat(bank: AtomBank, scores: Floats, pull: PullMany) -> Curvature:
    """Return no curvature."""
    return Curvature(np.zeros(scores.size), np.zeros((pull.n_params, bank.n_theta)), np.zeros(bank.n_theta))


def without_kinks() -> AtomKinks:
    """Return no kinks."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    return AtomKinks(none, none, none, nothing, nothing, none)


@njit(cache=True)
def _find_kinks(
    place: float,
    wanted: Floats,
    scores: Floats,
    codes: Ints,
    thetas: Floats,
    score_moves: Floats,
    theta_moves: Floats,
    reach: float,
    limit: int,
) -> tuple[Ints, Ints, Floats]:
    """Rows and thresholds with ``|s_i − θ_j − place| ≤ reach``, or whose sign the moves change."""
    rows, thresholds = np.empty(limit, dtype=np.int64), np.empty(limit, dtype=np.int64)
    residuals, found = np.empty(limit), 0
    for i in range(scores.size):
        if codes[i] >= 0:
            for j in range(thetas.size):
                if wanted[codes[i], j] != 0.0:
                    residual = scores[i] - thetas[j] - place
                    moved = residual + score_moves[i] - theta_moves[j]
                    if abs(residual) <= reach or (residual > 0) != (moved > 0):
                        if found == limit:
                            return rows[:0], thresholds[:0], np.full(1, np.nan)
                        rows[found], thresholds[found], residuals[found] = i, j, residual
                        found += 1
    return rows[:found], thresholds[:found], residuals[:found]


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """The means ``Σ_{i in k} ω_i σ±(s_i − θ_j)`` of a surrogate's two parts, for all groups and thresholds.

    Parameters
    ----------
    surrogate
        σ = σ⁺ − σ⁻.
    codes : (n,)
        Group of each score; −1 leaves it out.
    weights : (n,)
        Weights, which are scaled to add up to 1 in each group.
    n_groups
        Number of groups.
    n_theta
        Number of free thresholds.
    fixed
        Thresholds that are given, numbered after the free ones.
    """

    surrogate: Surrogate
    codes: Ints
    weights: Floats
    n_groups: int
    n_theta: int
    fixed: tuple[float, ...] = ()

    @cached_property
    def shares(self) -> Floats:
        """``ω_i``: the weight of each member in its group."""
        return group_shares(self.codes, self.weights, self.n_groups)

    @property
    def n_thresholds(self) -> int:
        """Number of thresholds, free and fixed."""
        return self.n_theta + len(self.fixed)

    @property
    def n_atoms(self) -> int:
        """Two per group and threshold."""
        return 2 * self.n_groups * self.n_thresholds

    def plus(self, group: int, threshold: int) -> int:
        """Position of the mean of σ⁺."""
        return group * self.n_thresholds + threshold

    def minus(self, group: int, threshold: int) -> int:
        """Position of the mean of σ⁻."""
        return self.n_groups * self.n_thresholds + self.plus(group, threshold)

    def values(self, scores: Floats, theta: Floats) -> Floats:
        """Value of every atom."""
        means = self.surrogate.means(scores, self.shares, self.codes, self._thresholds(theta), self.n_groups)
        return means.ravel()

    def pull_back(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Subgradient of ``Σ coefficients · atoms``."""
        shaped = coefficients.reshape(2, self.n_groups, self.n_thresholds)
        by_score, by_threshold = self.surrogate.pull_back(
            shaped, scores, self.shares, self.codes, self._thresholds(theta)
        )
        return Gradient(by_score, by_threshold[: self.n_theta])

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats, pull: PullMany) -> Curvature:
        """Second derivatives of ``Σ coefficients · atoms``, from sums by bin if the surrogate has pieces."""
        shaped = coefficients.reshape(2, self.n_groups, self.n_thresholds)
        pieces = self.surrogate.pieces(self._thresholds(theta))
        if pieces is None:
            return self._curvature_by_rows(shaped, scores, theta, pull)
        each = shaped.transpose(1, 0, 2).reshape(self.n_groups, -1)
        table = np.einsum("bj,gj->gb", pieces.bends, each)
        bins, binned = self._binned(pieces, scores, pull)
        by_score = look_up(np.stack([table, np.zeros_like(table)]), bins, scores, self.shares, self.codes)
        sums = binned[:, :, 0]
        cross = np.einsum("bj,gj,gbp->jp", pieces.bends, each, sums, optimize=True)
        cross = cross.reshape(2, self.n_thresholds, -1).sum(axis=0)[: self.n_theta]
        return Curvature(by_score, -cross[:, :-1].T, cross[:, -1])

    def _curvature_by_rows(
        self, coefficients: Floats, scores: Floats, theta: Floats, pull: PullMany
    ) -> Curvature:
        """Second derivatives for any surrogate; rows are taken a few thousand at a time."""
        thresholds, shares, by_score = self._thresholds(theta), self.shares, np.empty(scores.size)

        def bends(first: int, stop: int) -> Floats:
            rows = slice(first, stop)
            found = self.surrogate.bends(
                coefficients, scores[rows], shares[rows], self.codes[rows], thresholds
            )
            by_score[rows] = found.sum(axis=1)
            return found

        cross, by_theta = pull.many(bends, self.codes, self.n_groups, self.n_thresholds)
        free = slice(self.n_theta)
        return Curvature(by_score, -cross.sum(axis=0)[free].T, by_theta.sum(axis=0)[free])

    def _binned(self, pieces: Pieces, scores: Floats, pull: PullMany) -> tuple[Ints, Floats]:
        """Where scores lie between the surrogate's edges, and sums of rows of J there; one pass.

        All derivatives of all atoms follow from these sums.
        """

        def compute() -> tuple[Ints, Floats]:
            bins = pieces.bins(scores)
            shape = (self.n_groups, pieces.n_bins)
            return bins, pull.binned(scores, self.shares, bins, self.codes, shape)

        return pull.remembered(self, compute)

    def kinks(
        self, wanted: Floats, scores: Floats, theta: Floats, moves: Moves, reach: float, limit: int
    ) -> AtomKinks | None:
        """Kinks within reach or passed; a score has one for each threshold and kink of the surrogate."""
        shaped = wanted.reshape(2, self.n_groups, self.n_thresholds)
        theta_moves = np.concatenate([moves[1], np.zeros(len(self.fixed))])
        width, found = self.surrogate.width, without_kinks()
        for part, place, jump in self.surrogate.kinks:
            rows, thresholds, residuals = _find_kinks(
                width * place,
                shaped[part],
                scores,
                np.where(self.shares > 0, self.codes, -1),
                self._thresholds(theta),
                moves[0],
                theta_moves,
                reach * width,
                limit,
            )
            if residuals.size > rows.size:
                return None
            first = np.array([self.plus(0, 0), self.minus(0, 0)])[part]
            atoms = first + self.codes[rows] * self.n_thresholds + thresholds
            free = np.where(thresholds < self.n_theta, thresholds, -1)
            weights = jump / width * self.shares[rows]
            found = joined_kinks(
                found, AtomKinks(atoms, rows, free, residuals, weights, np.full_like(rows, -1))
            )
        return found

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Subgradients of all atoms in one pass."""
        thresholds, shares = self._thresholds(theta), self.shares
        pieces = self.surrogate.pieces(thresholds)
        if pieces is None:

            def slopes(first: int, stop: int) -> Floats:
                return self.surrogate.slopes(scores[first:stop], shares[first:stop], thresholds)

            by_params, sums = pull.many(slopes, self.codes, self.n_groups, 2 * self.n_thresholds)
        else:
            binned = self._binned(pieces, scores, pull)[1]
            both = np.einsum("mbj,gbmp->gjp", pieces.slopes, binned, optimize=True)
            by_params, sums = both[:, :, :-1], both[:, :, -1]
        parts = by_params.reshape(self.n_groups, 2, self.n_thresholds, -1).transpose(1, 0, 2, 3)
        by_theta = np.zeros((2, self.n_groups, self.n_thresholds, self.n_theta))
        each = np.arange(self.n_theta)
        by_theta[:, :, each, each] = -sums.reshape(self.n_groups, 2, -1).transpose(1, 0, 2)[
            ..., : self.n_theta
        ]
        return parts.reshape(self.n_atoms, -1), by_theta.reshape(self.n_atoms, self.n_theta)

    def _thresholds(self, theta: Floats) -> Floats:
        return np.concatenate([theta, self.fixed])


@dataclass(frozen=True, eq=False)
class JoinedBank:
    """Any number of banks on the same scores, in a row; each keeps thresholds of its own."""

    banks: tuple[AtomBank, ...]

    @property
    def n_atoms(self) -> int:
        """Atoms of all banks."""
        return sum(bank.n_atoms for bank in self.banks)

    @property
    def n_theta(self) -> int:
        """Free thresholds of all banks."""
        return sum(bank.n_theta for bank in self.banks)

    def values(self, scores: Floats, theta: Floats) -> Floats:
        """Value of every atom."""
        values = [bank.values(scores, theta[own]) for bank, _, own in self._parts()]
        return np.concatenate([np.empty(0), *values])

    def pull_back(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Subgradient of ``Σ coefficients · atoms``; banks whose coefficients are all 0 are skipped."""
        by_score, by_theta = np.zeros(scores.size), np.zeros(theta.size)
        for bank, atoms, own in self._parts():
            if coefficients[atoms].any():
                gradient = bank.pull_back(coefficients[atoms], scores, theta[own])
                by_score += gradient.scores
                by_theta[own] = gradient.theta
        return Gradient(by_score, by_theta)

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats, pull: PullMany) -> Curvature:
        """Second derivatives of ``Σ coefficients · atoms``, smoothed over kinks."""
        total = flat(self, scores, pull)
        for bank, atoms, own in self._parts():
            if coefficients[atoms].any():
                found = bank.curvature(coefficients[atoms], scores, theta[own], pull)
                total.scores[:] += found.scores
                total.cross[:, own], total.theta[own] = found.cross, found.theta
        return total

    def kinks(
        self, wanted: Floats, scores: Floats, theta: Floats, moves: Moves, reach: float, limit: int
    ) -> AtomKinks | None:
        """Kinks within reach or passed, of all banks."""
        total = without_kinks()
        for bank, atoms, own in self._parts():
            if wanted[atoms].any():
                found = bank.kinks(wanted[atoms], scores, theta[own], (moves[0], moves[1][own]), reach, limit)
                if found is None:
                    return None
                free = np.where(found.thresholds >= 0, found.thresholds + own.start, -1)
                numbered = replace(found, atoms=found.atoms + atoms.start, thresholds=free)
                total = joined_kinks(total, numbered)
        return total

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Subgradients of all atoms, one pass for each bank."""
        parts = [bank.jacobian(scores, theta[own], pull) for bank, _, own in self._parts()]
        if not parts:
            return np.empty((0, pull.n_params)), np.empty((0, 0))
        return np.vstack([by_params for by_params, _ in parts]), linalg.block_diag(
            *(part[1] for part in parts)
        )

    def _parts(self) -> Iterator[tuple[AtomBank, slice, slice]]:
        """Every bank, with the places of its atoms and of its thresholds."""
        atom = threshold = 0
        for bank in self.banks:
            yield bank, slice(atom, atom + bank.n_atoms), slice(threshold, threshold + bank.n_theta)
            atom, threshold = atom + bank.n_atoms, threshold + bank.n_theta


def joined_kinks(one: AtomKinks, other: AtomKinks) -> AtomKinks:
    """Return both."""
    pairs = ((getattr(one, field.name), getattr(other, field.name)) for field in fields(AtomKinks))
    return AtomKinks(*(np.concatenate(pair) for pair in pairs))
