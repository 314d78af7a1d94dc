"""The interface of models for solvers: parameters w, scores and products with the Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.optimization.models.blocks import BlockMatrix
from partialfair.utils.typing import Floats, Ints


@dataclass(frozen=True)
class Parameters:
    """Length and parts of w.

    Attributes
    ----------
    n
        Length of w.
    n_penalized
        Leading entries that the ℓ2 penalty acts on; the rest are intercepts.
    block_size
        Size of the largest block of a Hessian, which determines the cost of factoring it.
    flat : (n,)
        The w at which all scores are 0; None if that is w = 0, as without an offset.
    level : (n,)
        A direction that raises all scores by 1, if there are no intercepts and one is known.
    """

    n: int
    n_penalized: int
    block_size: int
    flat: Floats | None = field(default=None, compare=False)
    level: Floats | None = field(default=None, compare=False)

    @property
    def at_no_scores(self) -> Floats:
        """The w at which all scores are 0, as a new array."""
        return np.zeros(self.n) if self.flat is None else self.flat.copy()  # callers write to it


class ScoreModel(Protocol):
    """``s = s(w)``, and the Jacobian J(w), whose row i is the gradient of score i in w.

    A model that is deployed with other parameters, which may round scores differently, has a method
    ``deployed_scores(w, scores)``: the scores that users compute must satisfy the constraints.
    """

    @property
    def parameters(self) -> Parameters:
        """Length and parts of w."""

    def scores(self, w: Floats) -> Floats:
        """Return the score of every row: (n,)."""

    def vjp(self, w: Floats, columns: RowColumns) -> Floats:
        """Return ``J(w)ᵀ C``, with the columns' sums as last entries: (n_blocks, n_columns, n_params + 1)."""


@runtime_checkable
class LinearScores(ScoreModel, Protocol):
    """``s = offset + J w`` with a constant J, which allows more operations."""

    def along(self, direction: Floats) -> Floats:
        """Return ``J direction``, without the offset: (n,)."""

    def gram(self, weights: Floats) -> BlockMatrix:
        """Return ``Jᵀ diag(weights) J``."""

    def rows(self, which: Ints) -> Floats:
        """Return some rows of J: (n_which, n_params)."""


@dataclass(frozen=True, eq=False)
class FirstOrderModel:
    """``s(w) = score(w)`` and ``J(w)ᵀ v = pull_back(w, v)``, of any scores that are differentiable in w.

    Parameters
    ----------
    parameters
        Length and parts of w.
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
        return np.array(self.score(w), dtype=np.float64)  # a copy: the function may reuse its array

    def vjp(self, w: Floats, columns: RowColumns) -> Floats:
        """Return ``J(w)ᵀ C`` and the columns' sums, by one call of ``pull_back`` for each column."""
        # A network computes Jᵀ v for v over all rows; entries of other rows are 0.
        out = np.zeros((columns.n_blocks, columns.n_columns, self.parameters.n + 1))
        vector = np.zeros(self._n_rows)
        for block, column, entries in _write_columns(columns):
            if entries.any():  # skip groups without rows here
                vector[columns.rows] = entries
                out[block, column, :-1] = self.pull_back(w, vector)
                out[block, column, -1] = entries.sum()
        return out

    @cached_property
    def _n_rows(self) -> int:
        """Number of scores; columns may concern some of the rows only."""
        return int(self.scores(np.zeros(self.parameters.n)).size)


def _write_columns(columns: RowColumns) -> Iterator[tuple[int, int, Floats]]:
    """Write out every column of every block, one at a time, by the definition in `RowColumns`."""
    n_cells = columns.n_cells // columns.n_blocks
    cells = np.zeros(len(columns.values), dtype=np.int64) if columns.cells is None else columns.cells
    if columns.cells is None and columns.table is None:
        yield from ((0, column, columns.values[:, column]) for column in range(columns.n_columns))
        return
    for block in range(columns.n_blocks):  # cells of a block follow each other
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
