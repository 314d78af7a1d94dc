"""Means of the quadratic surrogate ``½ (margin + x)²`` over pairs, in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partialfair._row_columns import RowColumns
from partialfair._typing import Floats, Ints
from partialfair.dc.bank import Gradient
from partialfair.groups import Members

__all__ = ["QuadraticPairs"]


@dataclass(frozen=True, eq=False)
class QuadraticPairs:
    """``A(a, b) = mean of ½ (margin + s_i − t_j)²``, s from cell a and t from cell b (ellquadratic).

    In moments ``A = ½ [(margin + μ_a − μ_b)² + v_a + v_b]`` with means μ and variances v of the scores of a
    cell, so that all of them cost one pass. A cell is a group, or the members of a group with one label;
    ``codes`` of the members are cells, and their shares add up to 1 in each. Squares of means do not add up
    over shards.

    Parameters
    ----------
    n_groups, n_labels
        Number of groups and labels; cells are numbered ``group · n_labels + label``.
    pairs
        Which cells are compared: (a, b).
    margin
        By how much s should be ahead of t, in units of the scores; 1 in the paper.
    """

    n_groups: int
    n_labels: int
    pairs: tuple[tuple[int, int], ...]
    margin: float = 1.0

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

    @property
    def additive(self) -> bool:
        """Means are squared."""
        return False

    def values(self, scores: Floats, members: Members, theta: Floats) -> Floats:
        """Value of every atom."""
        means = self._means(scores, members)
        variances = self._sums(members.shares * (scores - _of_rows(means, members)) ** 2, members)
        first, second = self._ends
        leads = self.margin + means[first] - means[second]
        return np.asarray((leads**2 + variances[first] + variances[second]) / 2)

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: Members, theta: Floats
    ) -> Gradient:
        """Return derivatives of ``Σ coefficients · atoms`` in each score."""
        first, second = self._ends
        at_first, at_second = self._constants(scores, members)
        constants, factors = np.zeros(self.n_cells), np.zeros(self.n_cells)
        np.add.at(constants, first, coefficients * at_first)
        np.add.at(constants, second, coefficients * at_second)
        for cells in (first, second):
            np.add.at(factors, cells, coefficients)
        slopes = members.shares * _of_rows(factors, members)
        if order == 1:
            slopes = members.shares * (_of_rows(constants, members) + _of_rows(factors, members) * scores)
        return Gradient(slopes, np.empty(0))

    def columns(
        self, scores: Floats, members: Members, theta: Floats, curved: Sequence[Floats] = ()
    ) -> Iterator[RowColumns]:
        """Gradients of all atoms, from one table by cell."""
        table, atoms = np.zeros((1, self.n_cells, 2, self.n_atoms)), np.arange(self.n_atoms)
        for cells, constants in zip(self._ends, self._constants(scores, members), strict=True):
            table[0, cells, 0, atoms] += constants
            table[0, cells, 1, atoms] += 1.0
        shares = members.shares
        yield RowColumns(np.stack([shares, shares * scores], axis=1), members.codes, table)

    def _constants(self, scores: Floats, members: Members) -> tuple[Floats, Floats]:
        """Return the p of each atom with which its gradient is ``ω_i (p + s_i)`` in cell a, and that of b.

        They are ``ω_i (margin + s_i − μ_b)`` and ``ω_j (t_j − μ_a − margin)``.
        """
        means = self._means(scores, members)
        first, second = self._ends
        return self.margin - means[second], -(self.margin + means[first])

    def _means(self, scores: Floats, members: Members) -> Floats:
        return self._sums(members.shares * scores, members)

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        ends = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def _sums(self, values: Floats, members: Members) -> Floats:
        """Add up over each cell."""
        known = members.codes >= 0
        sums = np.bincount(members.codes[known], weights=values[known], minlength=self.n_cells)
        return np.asarray(sums, dtype=np.float64)


def _of_rows(by_cell: Floats, members: Members) -> Floats:
    """Return what belongs to the cell of each score, 0 without a cell."""
    return np.append(by_cell, 0.0)[members.codes]
