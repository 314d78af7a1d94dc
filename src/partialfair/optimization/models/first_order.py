"""Models that are given by two functions: networks, and whatever else knows its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.optimization.models.parameters import Parameters
from partialfair.utils.typing import Floats

__all__ = ["FirstOrderModel"]


@dataclass(frozen=True, eq=False)
class FirstOrderModel:
    """``s(w) = score(w)`` and ``J(w)ᵀ v = pull_back(w, v)``, of any scores that are differentiable in w.

    Parameters
    ----------
    parameters
        How long w is, and how it is divided.
    score
        From w to the score of every row, (n,).
    pull_back
        From w and one number for each row, (n,), to a vector as long as w.
    """

    parameters: Parameters
    score: Callable[[Floats], Floats]
    pull_back: Callable[[Floats, Floats], Floats]

    def scores(self, w: Floats) -> Floats:
        """Return the score of every row."""
        return np.array(self.score(w), dtype=np.float64)  # a copy: the function may use its array again

    def vjp(self, w: Floats, columns: RowColumns) -> Floats:
        """Return ``J(w)ᵀ C`` and the columns' sums, by one call of ``pull_back`` for each column."""
        out = np.zeros((columns.n_blocks, columns.n_columns, self.parameters.n + 1))
        vector = np.zeros(self._n_rows)
        for block, column, entries in _columns(columns):
            if entries.any():  # a group that these rows lack costs nothing
                vector[columns.rows] = entries
                out[block, column, :-1] = self.pull_back(w, vector)
                out[block, column, -1] = entries.sum()
        return out

    @cached_property
    def _n_rows(self) -> int:
        """Number of scores: columns may be about some of the rows only, and do not tell."""
        return int(self.scores(np.zeros(self.parameters.n)).size)


def _columns(columns: RowColumns) -> Iterator[tuple[int, int, Floats]]:
    """Write out every column of every block, one at a time, by the definition in `RowColumns`."""
    n_cells = columns.n_cells // columns.n_blocks
    cells = np.zeros(len(columns.values), dtype=np.int64) if columns.cells is None else columns.cells
    if columns.cells is None and columns.table is None:
        yield from ((0, column, columns.values[:, column]) for column in range(columns.n_columns))
        return
    for block in range(columns.n_blocks):
        members = np.flatnonzero((cells >= 0) & (cells // n_cells == block))
        values, cells_of_members = columns.values[members], cells[members] - block * n_cells
        for column in range(columns.n_columns):
            entries = np.zeros(len(columns.values))
            if columns.table is None:
                entries[members] = values[:, column]
            else:
                factors = columns.table[block, cells_of_members, :, column]
                entries[members] = np.einsum("iq,iq->i", values, factors)
            yield block, column, entries
