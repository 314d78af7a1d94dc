"""Columns over rows, stored as few numbers, and their products with a model's Jacobian.

Derivatives of all atoms in all scores are a matrix C with a row for each row of the data and a column for
each atom. What solvers need is ``Jᵀ C``, where row i of J is the gradient of score i in the parameters. C is
structured: an atom depends on one group, and between two edges of a surrogate its slope is ``a + b s``. So a
row of the data has a *cell* (its group, and the edges between which its score lies) and a few *values* (ω,
ωs), and a column is a short *table* of a and b by cell. A model sums values times rows of J by cell, in one
loop over the data for any number of columns; the table is applied to those sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class RowColumns:
    """``C[i, (b, c)] = Σ_q values[i, q] · table[b, cell_i, q, c]`` for rows i of block b, and 0 for others.

    Attributes
    ----------
    values : (n, q)
        Values of n consecutive rows.
    cells : (n,) or None
        ``block · n_cells + cell`` of each row, −1 for rows of no block. None: all rows are in the only cell.
    table : (n_blocks, n_cells, q, n_columns) or None
        None means one cell per block, whose columns are the values themselves.
    n_blocks
        Number of blocks.
    outputs : (n_blocks, n_columns) or None
        Output to which each column is added; None numbers the columns block by block.
    thresholds : (n_blocks, n_columns) or None
        The free threshold θ_j by which the column's function is shifted (it depends on s − θ_j), −1 for none.
    first
        Number of the first of the rows.
    """

    values: Floats
    cells: Ints | None = None
    table: Floats | None = None
    n_blocks: int = 1
    outputs: Ints | None = None
    thresholds: Ints | None = None
    first: int = 0

    @property
    def rows(self) -> slice:
        """The positions of these rows."""
        return slice(self.first, self.first + len(self.values))

    @cached_property
    def n_cells(self) -> int:
        """Cells of all blocks together."""
        return self.n_blocks * (1 if self.table is None else self.table.shape[1])

    @property
    def n_columns(self) -> int:
        """Columns of each block."""
        return int(self.values.shape[1] if self.table is None else self.table.shape[3])

    def combined(self, sums: Floats, cells: Ints | slice = slice(None)) -> Floats:
        """Apply the table to sums of some cells: (n_blocks, n_columns, p) of (n_cells, p, q).

        Parameters
        ----------
        sums : (n, p, q)
            ``Σ values[i, q] row_i`` over the rows of each cell.
        cells : (n,)
            Which cells these are, each at most once and in ascending order; by default all.
        """
        where = np.arange(self.n_cells)[cells] if isinstance(cells, slice) else cells
        out = np.zeros((self.n_blocks, self.n_columns, sums.shape[1]))
        if self.table is None:  # every block is a cell
            out[where] = sums.transpose(0, 2, 1)
            return out
        # Cells of a block lie together: one product of its table with their sums.
        per_block = self.n_cells // self.n_blocks
        borders = np.searchsorted(where, per_block * np.arange(self.n_blocks + 1))
        for block in np.flatnonzero(borders[1:] > borders[:-1]):
            members = slice(borders[block], borders[block + 1])
            factors = self.table[block][where[members] - block * per_block].reshape(-1, self.n_columns)
            out[block] = factors.T @ sums[members].transpose(0, 2, 1).reshape(len(factors), -1)
        return out

    def dotted(self, by_row: Floats) -> Floats:
        """Return ``Cᵀ by_row``: (n_blocks, n_columns, p) for vectors (n, p) over the same rows."""
        if self.cells is None:  # one cell: a product of matrices
            sums = (by_row.T @ self.values)[None]
        else:
            sums = np.zeros((self.n_cells, by_row.shape[1], self.values.shape[1]))
            _sums_by_cell(self.cells, self.values, np.ascontiguousarray(by_row), sums)
        return self.combined(sums)


@njit(cache=True, nogil=True)
def _sums_by_cell(cells: Ints, values: Floats, by_row: Floats, sums: Floats) -> None:
    """Add ``values[i, q] · by_row[i, p]`` to ``sums[cell_i, p, q]``."""
    for i in range(cells.size):
        if cells[i] >= 0:
            for p in range(by_row.shape[1]):
                for q in range(values.shape[1]):
                    sums[cells[i], p, q] += values[i, q] * by_row[i, p]


def single_column(vector: Floats) -> RowColumns:
    """Return one column."""
    return RowColumns(vector[:, None])
