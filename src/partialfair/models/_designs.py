"""Feature matrices seen through two products, with one coefficient vector per group.

``forward`` gives ``s_i = coef[code_i] · x_i`` and ``backward`` the transpose, ``Σ_i v_i x_i`` by code. Cross
terms of the features with the group, (1, ξ, γ, γξ), span just that: a separate linear model per group. They
are never formed; one gather per row does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numba import get_num_threads, njit
from scipy import sparse

from partialfair._clock import check_clock
from partialfair._typing import ArrayLike, Floats, Ints
from partialfair.categoricals import CategoricalCodes
from partialfair.exceptions import InputError

__all__ = ["CSRDesign", "CodesDesign", "DenseDesign", "Design", "as_design"]


_ROWS_PER_THREAD = 100_000
_MOST_AT_ONCE = 2e8
"""Multiplications of a kernel between two looks at the clock: some tenths of a second."""
_MOST_BY_BLAS = 4e9
"""The same of a product of matrices."""


def _summed(n_rows: int, part: Callable[[slice], Floats], work: float = 0.0) -> Floats:
    """Add up what some threads compute of parts of the rows; kernels release the lock of the interpreter.

    There are as many threads as numba may use (``NUMBA_NUM_THREADS``), and fewer if rows are few. Parts are
    so short that all of them, of so much work together, leave time to look at the clock in between.
    """
    n_threads = max(1, min(get_num_threads(), n_rows // _ROWS_PER_THREAD))
    n_turns = max(1, min(n_rows, int(work / (n_threads * _MOST_AT_ONCE))))
    if n_threads * n_turns == 1:
        return part(slice(0, n_rows))
    bounds = np.linspace(0, n_rows, n_threads * n_turns + 1).astype(int)
    parts = [slice(int(first), int(stop)) for first, stop in pairwise(bounds)]
    with ThreadPoolExecutor(n_threads) as pool:
        total: Floats | None = None
        for turn in range(n_turns):
            check_clock()
            for term in pool.map(part, parts[turn * n_threads : (turn + 1) * n_threads]):
                total = term if total is None else np.add(total, term, out=total)
    assert total is not None
    return total


class Design(Protocol):
    """n rows of d features, each row with a code that chooses its coefficient vector."""

    @property
    def n_codes(self) -> int:
        """Number of coefficient vectors."""

    @property
    def codes(self) -> Ints:
        """Which of them each row uses."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    def forward(self, coefficients: Floats) -> Floats:
        """Return ``coefficients[code_i] · x_i`` for each row; coefficients are (n_codes, d)."""

    def backward(self, vector: Floats) -> Floats:
        """Return ``Σ vector[i] x_i`` over the rows of each code: (n_codes, d)."""

    def backward_many(self, first: int, vectors: Floats, groups: Ints, out: Floats) -> None:
        """Add ``Σ x_i vectors[i]ᵀ``, over the rows of each group, to ``out``: (n_groups, d, q).

        ``vectors`` (r, q) and ``groups`` belong to r rows from ``first`` on; rows of group −1 are left out.
        """

    def backward_binned(self, first: Floats, second: Floats, places: Ints, n_places: int) -> Floats:
        """Return ``Σ (first[i], second[i]) x_i`` over the rows of each place ≥ 0: (n_places, d, 2)."""

    def gram(self, weights: Floats) -> Floats:
        """Return ``Σ weights[i] x_i x_iᵀ`` over the rows of each code: (n_codes, d, d)."""

    def squares(self, weights: Floats) -> Floats:
        """Return ``Σ weights[i] x_ij²`` over all rows: (d,)."""

    def rows(self, which: Ints) -> Floats:
        """Return some rows, dense: (n_which, d)."""


def as_design(X: ArrayLike, codes: Ints, n_codes: int) -> Design:
    """Return the design of whatever holds the features."""
    if isinstance(X, CategoricalCodes):
        columns = X.codes.astype(np.uint32) + np.asarray(X.offsets, dtype=np.uint32)
        return CodesDesign(columns, X.n_levels, codes, n_codes)
    if sparse.issparse(X):
        matrix = X.tocsr()
        data = np.empty(0) if (matrix.data == 1).all() else matrix.data
        # Unsigned: numba then need not ask of every index whether it counts from the end.
        indptr, indices = matrix.indptr.astype(np.uint64), matrix.indices.astype(np.uint32)
        return CSRDesign(indptr, indices, data, matrix.shape, codes, n_codes)
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(f"X must have two dimensions, not {array.ndim}")
    return DenseDesign(array, codes, n_codes)


@dataclass(frozen=True, eq=False)
class DenseDesign:
    """A numpy array of either order and either precision."""

    X: npt.NDArray[Any]
    codes: Ints
    n_codes: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.X.shape[0], self.X.shape[1]

    @cached_property
    def _blocks(self) -> list[tuple[Ints | slice, npt.NDArray[Any]]]:
        """Rows of each code as a matrix of their own, so that BLAS can run on it."""
        if self.n_codes == 1:
            return [(slice(None), self.X)]
        members = [np.flatnonzero(self.codes == k) for k in range(self.n_codes)]
        return [(rows, self.X[rows]) for rows in members]

    def forward(self, coefficients: Floats) -> Floats:
        """As in `Design`."""
        out = np.empty(self.shape[0])
        for own, (rows, block) in zip(coefficients, self._blocks, strict=True):
            out[rows] = np.concatenate([np.empty(0), *(part @ own for part in _pieces(block))])
        return out

    def backward(self, vector: Floats) -> Floats:
        """As in `Design`."""
        out = np.zeros((self.n_codes, self.shape[1]))
        for own, (rows, block) in zip(out, self._blocks, strict=True):
            values = vector[rows]
            first = 0
            for part in _pieces(block):
                own += part.T @ values[first : first + len(part)]
                first += len(part)
        return out

    def backward_many(self, first: int, vectors: Floats, groups: Ints, out: Floats) -> None:
        """As in `Design`."""
        rows = self.X[first : first + len(vectors)]
        for k in np.unique(groups[groups >= 0]).tolist():
            own = np.flatnonzero(groups == k)
            out[k] += rows[own].T @ vectors[own]

    def backward_binned(self, first: Floats, second: Floats, places: Ints, n_places: int) -> Floats:
        """As in `Design`."""
        out = np.zeros((n_places, self.shape[1], 2))
        for start in range(0, self.shape[0], 4096):
            rows = slice(start, start + 4096)
            part = np.ascontiguousarray(self.X[rows], dtype=np.float64)
            _dense_backward_binned(part, first[rows], second[rows], places[rows], out)
        return out

    def gram(self, weights: Floats) -> Floats:
        """As in `Design`."""
        out = np.zeros((self.n_codes, self.shape[1], self.shape[1]))
        at_once = int(np.clip(_MOST_BY_BLAS / max(1, self.shape[1]) ** 2, 64, 4096))
        for own, (rows, block) in zip(out, self._blocks, strict=True):
            values = weights[rows]
            for first in range(0, len(block), at_once):
                check_clock()
                part = np.asarray(block[first : first + at_once], dtype=np.float64)
                own += part.T @ (part * values[first : first + at_once, None])
        return out

    def rows(self, which: Ints) -> Floats:
        """As in `Design`."""
        return np.asarray(self.X[which], dtype=np.float64)

    def squares(self, weights: Floats) -> Floats:
        """As in `Design`."""
        out = np.zeros(self.shape[1])
        for first in range(0, self.shape[0], 4096):
            part = np.asarray(self.X[first : first + 4096], dtype=np.float64)
            out += weights[first : first + 4096] @ (part * part)
        return out


def _pieces(block: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Rows to multiply at once: all in double precision; otherwise few, since each piece is converted."""
    size = len(block) if block.dtype == np.float64 else 4096
    return (block[first : first + size] for first in range(0, len(block), max(size, 1)))


@njit(cache=True)
def _dense_backward_binned(X: Floats, first: Floats, second: Floats, places: Ints, out: Floats) -> None:
    for i in range(places.size):
        if places[i] >= 0:
            own = out[places[i]]
            for j in range(X.shape[1]):
                own[j, 0] += first[i] * X[i, j]
                own[j, 1] += second[i] * X[i, j]


@njit(cache=True, nogil=True)
def _csr_backward_binned(
    indptr: Ints, indices: Ints, data: Floats, first: Floats, second: Floats, places: Ints, out: Floats
) -> None:
    for i in range(places.size):
        if places[i] >= 0:
            own = out[places[i]]
            for place in range(indptr[i], indptr[i + 1]):
                value = data[place] if data.size else 1.0
                own[indices[place], 0] += value * first[i]
                own[indices[place], 1] += value * second[i]


@njit(cache=True, nogil=True)
def _codes_backward_binned(columns: Ints, first: Floats, second: Floats, places: Ints, out: Floats) -> None:
    for i in range(places.size):
        if places[i] >= 0:
            own = out[places[i]]
            for field in range(columns.shape[1]):
                own[columns[i, field], 0] += first[i]
                own[columns[i, field], 1] += second[i]


@njit(cache=True)
def _csr_forward(indptr: Ints, indices: Ints, data: Floats, coefficients: Floats, codes: Ints) -> Floats:
    out = np.empty(indptr.size - 1)
    for i in range(out.size):
        own = coefficients[codes[i]]
        total = 0.0
        if data.size:
            for place in range(indptr[i], indptr[i + 1]):
                total += own[indices[place]] * data[place]
        else:
            for place in range(indptr[i], indptr[i + 1]):
                total += own[indices[place]]
        out[i] = total
    return out


@njit(cache=True, nogil=True)
def _csr_backward(
    indptr: Ints, indices: Ints, data: Floats, vector: Floats, codes: Ints, size: tuple[int, int]
) -> Floats:
    out = np.zeros(size)
    for i in range(vector.size):
        value = vector[i]
        if value != 0.0:
            own = out[codes[i]]
            if data.size:
                for place in range(indptr[i], indptr[i + 1]):
                    own[indices[place]] += value * data[place]
            else:
                for place in range(indptr[i], indptr[i + 1]):
                    own[indices[place]] += value
    return out


@njit(cache=True)
def _csr_backward_many(
    indptr: Ints, indices: Ints, data: Floats, first: int, vectors: Floats, groups: Ints, out: Floats
) -> None:
    for r in range(groups.size):
        if groups[r] >= 0:
            own, vector = out[groups[r]], vectors[r]
            for place in range(indptr[first + r], indptr[first + r + 1]):
                target = own[indices[place]]
                value = data[place] if data.size else 1.0
                for j in range(vector.size):
                    target[j] += value * vector[j]


@njit(cache=True, nogil=True)
def _csr_gram(
    indptr: Ints, indices: Ints, data: Floats, weights: Floats, codes: Ints, size: tuple[int, int, int]
) -> Floats:
    """Fill one entry of each symmetric pair."""
    out = np.zeros(size)
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        own = out[codes[i]]
        for place in range(indptr[i], indptr[i + 1]):
            target = own[indices[place]]
            value = weights[i] * data[place] if data.size else weights[i]
            for other in range(indptr[i], place + 1):
                target[indices[other]] += value * data[other] if data.size else value
    return out


@njit(cache=True)
def _symmetric(half: Floats) -> Floats:
    """Complete matrices of which one entry of each symmetric pair is filled, in tiles that stay in cache."""
    n, tile = half.shape[1], 64
    for own in half:
        for top in range(0, n, tile):
            for left in range(0, top + 1, tile):
                for i in range(top, min(top + tile, n)):
                    for j in range(left, min(left + tile, i)):
                        own[i, j] += own[j, i]
                        own[j, i] = own[i, j]
    return half


@dataclass(frozen=True, eq=False)
class CSRDesign:
    """A sparse matrix by rows; empty ``data`` stands for values that are all 1."""

    indptr: Ints
    indices: Ints
    data: Floats
    shape: tuple[int, int]
    codes: Ints
    n_codes: int

    def forward(self, coefficients: Floats) -> Floats:
        """As in `Design`."""
        return np.asarray(_csr_forward(self.indptr, self.indices, self.data, coefficients, self.codes))

    def backward(self, vector: Floats) -> Floats:
        """As in `Design`."""
        size = (self.n_codes, self.shape[1])
        return _summed(
            self.shape[0],
            lambda rows: _csr_backward(
                self._part(rows), self.indices, self.data, vector[rows], self.codes[rows], size
            ),
        )

    def _part(self, rows: slice) -> Ints:
        """Return where some rows begin and end."""
        return self.indptr[rows.start : rows.stop + 1]

    def backward_many(self, first: int, vectors: Floats, groups: Ints, out: Floats) -> None:
        """As in `Design`."""
        _csr_backward_many(self.indptr, self.indices, self.data, first, vectors, groups, out)

    def backward_binned(self, first: Floats, second: Floats, places: Ints, n_places: int) -> Floats:
        """As in `Design`."""

        def part(rows: slice) -> Floats:
            out = np.zeros((n_places, self.shape[1], 2))
            own = (first[rows], second[rows], places[rows])
            _csr_backward_binned(self._part(rows), self.indices, self.data, *own, out)
            return out

        return _summed(self.shape[0], part)

    def gram(self, weights: Floats) -> Floats:
        """As in `Design`."""
        size = (self.n_codes, self.shape[1], self.shape[1])
        half = _summed(
            self.shape[0],
            lambda rows: _csr_gram(
                self._part(rows), self.indices, self.data, weights[rows], self.codes[rows], size
            ),
            work=float((np.diff(self.indptr).astype(float) ** 2).sum()),
        )
        return np.asarray(_symmetric(half))

    def rows(self, which: Ints) -> Floats:
        """As in `Design`."""
        out = np.zeros((which.size, self.shape[1]))
        for own, i in zip(out, which, strict=True):
            places = slice(int(self.indptr[i]), int(self.indptr[i + 1]))
            np.add.at(own, self.indices[places], self.data[places] if self.data.size else 1.0)
        return out

    def squares(self, weights: Floats) -> Floats:
        """As in `Design`."""
        squared, size = self.data * self.data, (self.n_codes, self.shape[1])
        out = _csr_backward(self.indptr, self.indices, squared, weights, self.codes, size)
        return np.asarray(out.sum(axis=0))


@njit(cache=True)
def _codes_forward(columns: Ints, coefficients: Floats, codes: Ints) -> Floats:
    out = np.empty(columns.shape[0])
    for i in range(out.size):
        own = coefficients[codes[i]]
        total = 0.0
        for field in range(columns.shape[1]):
            total += own[columns[i, field]]
        out[i] = total
    return out


@njit(cache=True, nogil=True)
def _codes_backward(columns: Ints, vector: Floats, codes: Ints, size: tuple[int, int]) -> Floats:
    out = np.zeros(size)
    for i in range(vector.size):
        if vector[i] != 0.0:
            own = out[codes[i]]
            for field in range(columns.shape[1]):
                own[columns[i, field]] += vector[i]
    return out


@njit(cache=True)
def _codes_backward_many(columns: Ints, first: int, vectors: Floats, groups: Ints, out: Floats) -> None:
    for r in range(groups.size):
        if groups[r] >= 0:
            own, vector = out[groups[r]], vectors[r]
            for field in range(columns.shape[1]):
                target = own[columns[first + r, field]]
                for j in range(vector.size):
                    target[j] += vector[j]


@njit(cache=True, nogil=True)
def _codes_gram(columns: Ints, weights: Floats, codes: Ints, size: tuple[int, int, int]) -> Floats:
    """Fill one entry of each symmetric pair."""
    out = np.zeros(size)
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        own = out[codes[i]]
        for field in range(columns.shape[1]):
            target = own[columns[i, field]]
            for other in range(field + 1):
                target[columns[i, other]] += weights[i]
    return out


@dataclass(frozen=True, eq=False)
class CodesDesign:
    """One-hot features without values: row i has ones in the columns ``columns[i]``, one per field."""

    columns: Ints
    n_features: int
    codes: Ints
    n_codes: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and one-hot features."""
        return self.columns.shape[0], self.n_features

    def forward(self, coefficients: Floats) -> Floats:
        """As in `Design`."""
        return np.asarray(_codes_forward(self.columns, coefficients, self.codes))

    def backward(self, vector: Floats) -> Floats:
        """As in `Design`."""
        size = (self.n_codes, self.n_features)
        return _summed(
            self.shape[0],
            lambda rows: _codes_backward(self.columns[rows], vector[rows], self.codes[rows], size),
        )

    def backward_many(self, first: int, vectors: Floats, groups: Ints, out: Floats) -> None:
        """As in `Design`."""
        _codes_backward_many(self.columns, first, vectors, groups, out)

    def backward_binned(self, first: Floats, second: Floats, places: Ints, n_places: int) -> Floats:
        """As in `Design`."""

        def part(rows: slice) -> Floats:
            out = np.zeros((n_places, self.n_features, 2))
            _codes_backward_binned(self.columns[rows], first[rows], second[rows], places[rows], out)
            return out

        return _summed(self.shape[0], part)

    def gram(self, weights: Floats) -> Floats:
        """As in `Design`."""
        size = (self.n_codes, self.n_features, self.n_features)
        half = _summed(
            self.shape[0],
            lambda rows: _codes_gram(self.columns[rows], weights[rows], self.codes[rows], size),
            work=float(self.shape[0]) * self.columns.shape[1] ** 2,
        )
        return np.asarray(_symmetric(half))

    def rows(self, which: Ints) -> Floats:
        """As in `Design`."""
        out = np.zeros((which.size, self.n_features))
        np.add.at(out, (np.arange(which.size)[:, None], self.columns[which].astype(np.int64)), 1.0)
        return out

    def squares(self, weights: Floats) -> Floats:
        """As in `Design`."""
        return np.asarray(self.backward(weights).sum(axis=0))
