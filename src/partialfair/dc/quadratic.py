"""Means of the quadratic surrogate ``½ (1 + x)²`` over pairs, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partialfair._typing import Floats, Ints
from partialfair.dc.atoms import (
    AtomKinks,
    Curvature,
    Gradient,
    Moves,
    PullMany,
    flat,
    group_shares,
    without_kinks,
)

__all__ = ["QuadraticPairs"]


@dataclass(frozen=True, eq=False)
class QuadraticPairs:
    """``A(a, b) = mean of ½ (1 + s_i − t_j)²``, s from cell a and t from cell b (ellquadratic).

    In moments ``A = ½ [(1 + μ_a − μ_b)² + v_a + v_b]`` with means μ and variances v of the scores of a cell,
    so that all of them cost one pass. A cell is a group, or the members of a group with one label.

    Parameters
    ----------
    codes : (n,)
        Group of each score; −1 leaves it out.
    labels : (n,)
        Label of each score, from 0 to ``n_labels − 1``.
    weights : (n,)
        Weights, which are scaled to add up to 1 in each cell.
    n_groups, n_labels
        Number of groups and labels; cells are numbered ``group · n_labels + label``.
    pairs
        Which cells are compared: (a, b).
    """

    codes: Ints
    labels: Ints
    weights: Floats
    n_groups: int
    n_labels: int
    pairs: tuple[tuple[int, int], ...]

    @cached_property
    def cells(self) -> Ints:
        """Cell of each score, −1 without a group."""
        return np.where(self.codes >= 0, self.codes.astype(np.int64) * self.n_labels + self.labels, -1)

    @cached_property
    def shares(self) -> Floats:
        """``ω_i``: the weight of each member in its cell."""
        return group_shares(self.cells, self.weights, self.n_cells)

    @property
    def n_cells(self) -> int:
        """Groups times labels."""
        return self.n_groups * self.n_labels

    @property
    def n_atoms(self) -> int:
        """One per pair."""
        return len(self.pairs)

    @property
    def n_theta(self) -> int:
        """No thresholds."""
        return 0

    def values(self, scores: Floats, theta: Floats) -> Floats:
        """Value of every atom."""
        means = self._sums(self.shares * scores)
        variances = self._sums(self.shares * (scores - self._at(means)) ** 2)
        first, second = self._ends
        leads = 1 + means[first] - means[second]
        return np.asarray((leads**2 + variances[first] + variances[second]) / 2)

    def pull_back(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Gradient of ``Σ coefficients · atoms``."""
        constants, factors = self._slopes(coefficients, scores)
        return Gradient(self.shares * (self._at(constants) + self._at(factors) * scores), np.empty(0))

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats, pull: PullMany) -> Curvature:
        """Second derivatives of ``Σ coefficients · atoms`` in each score; mixed ones are left out."""
        none = flat(self, scores, pull)
        return Curvature(
            self.shares * self._at(self._slopes(coefficients, scores)[1]), none.cross, none.theta
        )

    def kinks(
        self, wanted: Floats, scores: Floats, theta: Floats, moves: Moves, reach: float, limit: int
    ) -> AtomKinks | None:
        """There are none."""
        return without_kinks()

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Gradients of all atoms in one pass."""
        shape = (self.n_groups, self.n_labels)
        sums = pull.binned(scores, self.shares, self.labels, self.codes, shape)[..., :-1]
        sums = sums.reshape(self.n_cells, 2, pull.n_params)
        rows = [
            constants @ sums[:, 0] + factors @ sums[:, 1]
            for constants, factors in (self._slopes(unit, scores) for unit in np.eye(self.n_atoms))
        ]
        return np.array(rows).reshape(self.n_atoms, pull.n_params), np.empty((self.n_atoms, 0))

    def _slopes(self, coefficients: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Return for each cell the p and q with which the gradient in its score s_i is ``ω_i (p + q s_i)``.

        That of A(a, b) is ``ω_i (1 + s_i − μ_b)`` in cell a and ``ω_j (t_j − μ_a − 1)`` in cell b.
        """
        means = self._sums(self.shares * scores)
        first, second = self._ends
        constants, factors = np.zeros(self.n_cells), np.zeros(self.n_cells)
        np.add.at(constants, first, coefficients * (1 - means[second]))
        np.add.at(constants, second, -coefficients * (1 + means[first]))
        for ends in (first, second):
            np.add.at(factors, ends, coefficients)
        return constants, factors

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        ends = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def _sums(self, values: Floats) -> Floats:
        """Add up over each cell."""
        known = self.cells >= 0
        sums = np.bincount(self.cells[known], weights=values[known], minlength=self.n_cells)
        return np.asarray(sums, dtype=np.float64)

    def _at(self, by_cell: Floats) -> Floats:
        """Return what belongs to the cell of each score, 0 without a group."""
        return np.append(by_cell, 0.0)[self.cells]
