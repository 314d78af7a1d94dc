"""Rows of a data set as fits, paths and reports use them: read once, split by position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.groups import Groups
from partialfair.data.splits import draw_rows, strata_of
from partialfair.utils.checks import scaled_weights
from partialfair.utils.typing import Floats, Ints

__all__ = ["Samples"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of a data set.

    Attributes
    ----------
    X
        Features: array, CSR matrix, `CategoricalCodes`, or a table for models that take tables.
    y : (n,)
        Labels or numbers; in a fit of a classifier whether the label is the positive one.
    groups
        Group of each row; `Groups.none` where groups are unknown and not needed.
    weights : (n,)
        Weight of each row, as given; None where none were given, and every row counts 1.
    clusters : (n,)
        Number of each row's cluster; None where each row is an observation of its own.
    """

    X: Any
    y: npt.NDArray[Any]
    groups: Groups
    weights: Floats | None = None
    clusters: Ints | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def row_weights(self) -> Floats:
        """Weight of each row, 1 where none were given.

        Given ones are scaled by a power of two, which rounds nothing: sums and squares then stay in range.
        """
        return np.ones(self.n) if self.weights is None else scaled_weights(self.weights)

    @property
    def positive(self) -> npt.NDArray[np.bool_] | None:
        """Which rows are positive, in a fit of a classifier; None of numbers."""
        return self.y if self.y.dtype == bool else None

    @property
    def strata(self) -> Ints:
        """What splits keep in proportion: group and, where labels are two, label."""
        return strata_of(self.groups.codes, np.unique(self.y, return_inverse=True)[1])

    def take(self, rows: Ints) -> Samples:
        """Return the rows at some positions."""
        return Samples(
            _rows_of(self.X, rows),
            self.y[rows],
            self.groups.take(rows),
            None if self.weights is None else self.weights[rows],
            None if self.clusters is None else self.clusters[rows],
        )

    def split(self, held_out: npt.NDArray[np.bool_]) -> tuple[Samples, Samples]:
        """Return the rows that are not held out, and those that are."""
        return self.take(np.flatnonzero(~held_out)), self.take(np.flatnonzero(held_out))

    def hold_out(self, share: float, seed: int) -> tuple[Samples, Samples]:
        """Hold out a share of the rows, or clusters, of every group and label; return the rest and those."""
        return self.split(draw_rows(self.strata, share, seed, self.clusters))

    def with_weight(self) -> Samples:
        """Return the rows whose weight is positive; the others are absent."""
        if self.weights is None or self.weights.all():
            return self
        return self.take(np.flatnonzero(self.weights > 0))

    def with_features(self, X: Any) -> Samples:
        """Return the same rows with other features."""
        return replace(self, X=X)


def _rows_of(X: Any, rows: Ints) -> Any:
    """Return some rows of a table, an array, a sparse matrix or codes."""
    if isinstance(X, CategoricalCodes):
        return X.take(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if issparse(X) or isinstance(X, np.ndarray) else X[rows.tolist()]
