"""Convex atoms: functions T(s, θ) of all scores and thresholds, jointly convex, evaluated together.

A bank holds many atoms that share their loops over the scores. Constraints refer to atoms by position, so a
bank is evaluated once per point however many constraints use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from scipy import linalg

from partialfair._typing import Floats, Ints
from partialfair.surrogates import Surrogate

__all__ = ["AtomBank", "Gradient", "GroupMeans", "JoinedBank", "PullMany", "pulled_one_by_one"]


@dataclass(frozen=True, eq=False)
class Gradient:
    """A (sub)gradient in the scores and in the free thresholds."""

    scores: Floats
    theta: Floats


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

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Second derivatives of ``Σ coefficients · atoms`` in each score and threshold, smoothed over kinks.

        They only guide steps; zeros are allowed.
        """

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Subgradients of all atoms: in the model's parameters (n_atoms, n_params), and in θ.

        `pulled_one_by_one` does it for any bank, with a pass over the data for each atom.
        """


class PullMany(Protocol):
    """How a model pulls vectors on its scores back to its parameters."""

    def one(self, vector: Floats) -> Floats:
        """Return ``Jᵀ vector``; one pass."""

    def many(
        self, slopes: Callable[[int, int], Floats], groups: Ints, n_groups: int, n_columns: int
    ) -> tuple[Floats, Floats]:
        """Return ``Jᵀ`` times many vectors by group, and the vectors' sums; one pass."""


def pulled_one_by_one(bank: AtomBank, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
    """Return the Jacobian of any bank, atom by atom."""
    gradients = [bank.pull_back(unit, scores, theta) for unit in np.eye(bank.n_atoms)]
    by_theta = np.array([gradient.theta for gradient in gradients]).reshape(bank.n_atoms, bank.n_theta)
    return np.array([pull.one(gradient.scores) for gradient in gradients]), by_theta


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
        inside = self.codes >= 0
        totals = np.bincount(self.codes[inside], weights=self.weights[inside], minlength=self.n_groups)
        return np.where(inside, self.weights / totals[np.where(inside, self.codes, 0)], 0.0)

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

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Second derivatives of ``Σ coefficients · atoms``, smoothed over kinks."""
        shaped = coefficients.reshape(2, self.n_groups, self.n_thresholds)
        by_score, by_threshold = self.surrogate.bends(
            shaped, scores, self.shares, self.codes, self._thresholds(theta)
        )
        return Gradient(by_score, by_threshold[: self.n_theta])

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Subgradients of all atoms in one pass; rows are taken a few thousand at a time."""
        thresholds, shares = self._thresholds(theta), self.shares

        def slopes(first: int, stop: int) -> Floats:
            return self.surrogate.slopes(scores[first:stop], shares[first:stop], thresholds)

        by_params, sums = pull.many(slopes, self.codes, self.n_groups, 2 * self.n_thresholds)
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
        thetas = self._split(theta, [bank.n_theta for bank in self.banks])
        values = [bank.values(scores, part) for bank, part in zip(self.banks, thetas, strict=True)]
        return np.concatenate([np.empty(0), *values])

    def pull_back(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Subgradient of ``Σ coefficients · atoms``."""
        return self._combined("pull_back", coefficients, scores, theta)

    def _combined(
        self, method: Literal["pull_back", "curvature"], coefficients: Floats, scores: Floats, theta: Floats
    ) -> Gradient:
        """Add up the banks; those whose coefficients are all 0 are skipped."""
        thetas = self._split(theta, [bank.n_theta for bank in self.banks])
        parts = self._split(coefficients, [bank.n_atoms for bank in self.banks])
        by_score, by_theta = np.zeros(scores.size), [np.zeros(part.size) for part in thetas]
        for b, bank in enumerate(self.banks):
            if parts[b].any():
                gradient = getattr(bank, method)(parts[b], scores, thetas[b])
                by_score += gradient.scores
                by_theta[b] = gradient.theta
        return Gradient(by_score, np.concatenate([np.empty(0), *by_theta]))

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Second derivatives of ``Σ coefficients · atoms``, smoothed over kinks."""
        return self._combined("curvature", coefficients, scores, theta)

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Subgradients of all atoms, one pass for each bank."""
        thetas = self._split(theta, [bank.n_theta for bank in self.banks])
        parts = [bank.jacobian(scores, own, pull) for bank, own in zip(self.banks, thetas, strict=True)]
        if not parts:
            return np.empty((0, pull.one(np.zeros(scores.size)).size)), np.empty((0, 0))
        return np.vstack([by_params for by_params, _ in parts]), linalg.block_diag(
            *(part[1] for part in parts)
        )

    @staticmethod
    def _split(vector: Floats, sizes: list[int]) -> list[Floats]:
        ends = np.cumsum(sizes, dtype=np.int64)
        return [vector[end - size : end] for size, end in zip(sizes, ends, strict=True)]
