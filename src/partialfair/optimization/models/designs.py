"""Feature matrices accessed through a few products, with one coefficient vector per group.

``forward`` computes ``s_i = coef[code_i] · x_i`` and ``backward`` the transpose, sums of rows with values.
Cross terms of the features with the group, (1, ξ, γ, γξ), span the same space: a separate linear model per
group. They are never formed; one lookup per row is enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg.blas import dsyrk

from partialfair.data.categoricals import CategoricalCodes
from partialfair.exceptions import InputError
from partialfair.optimization.models._kernels import (
    codes_backward,
    codes_forward,
    codes_gram,
    csr_backward,
    csr_forward,
    csr_gram,
    dense_backward,
    symmetrize,
)
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import ArrayLike, Floats, Ints

Loop: TypeAlias = Callable[..., None]


@dataclass(frozen=True)
class PassSettings:
    """Sizes of the parts in which a pass is computed.

    Attributes
    ----------
    most_by_kernel, most_by_blas
        Multiplications of a compiled loop, and of a product of matrices, between two checks of the deadline:
        a few tenths of a second.
    chunk
        Dense rows that are gathered or converted together: a few megabytes, which fit into the cache.
    fewest_by_blas
        Number of rows below which a product of matrices is not faster than its parts.
    most_values
        Values of a row that the dense kernel adds up; sums of more are faster as products of matrices.
    most_short
        Slots that short integers can number; those are sorted by digits, several times as fast.
    """

    most_by_kernel: float = 2e8
    most_by_blas: float = 4e9
    chunk: int = 4096
    fewest_by_blas: int = 64
    most_values: int = 2
    most_short: int = np.iinfo(np.int16).max


SETTINGS = PassSettings()


class Design(Protocol):
    """n rows of d features, each row with a code that chooses its coefficient vector."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    def forward(self, coefficients: Floats) -> Floats:
        """Return ``coefficients[code_i] · x_i`` for each row; coefficients are (n_codes, d)."""

    def backward(self, values: Floats, slots: Ints | None = None, n_slots: int = 0) -> Floats:
        """Return ``Σ x_i values[i]ᵀ`` over the rows of each slot: (n_slots, d, q).

        The values are (n, q); rows of slot −1 are left out. By default a row's slot is its code.
        """

    def gram(self, weights: Floats) -> Floats:
        """Return ``Σ weights[i] x_i x_iᵀ`` for each code: (n_codes, d, d)."""

    def squares(self, weights: Floats, centres: Floats | None = None) -> Floats:
        """Return ``Σ weights[i] (x_ij − centres[j])²`` over all rows: (d,)."""

    def take(self, rows: slice | Ints) -> Self:
        """Return the design of some rows; for consecutive ones it holds views."""


def as_design(X: ArrayLike, codes: Ints, n_codes: int) -> Design:
    """Return the design of whatever holds the features."""
    if isinstance(X, CategoricalCodes):
        # Passes are limited by memory: half the width takes a third of the time with many fields.
        # Offsets make levels of all fields distinct columns.
        width = np.uint16 if X.n_levels <= np.iinfo(np.uint16).max + 1 else np.uint32
        columns = X.codes.astype(width, copy=False) + X.offsets.astype(width)
        return CodesDesign(columns, X.n_levels, codes, n_codes)
    if sparse.issparse(X):
        matrix = X.tocsr()
        data = np.empty(0) if (matrix.data == 1).all() else matrix.data
        # Unsigned, so that numba need not check whether an index is negative.
        indptr, indices = matrix.indptr.astype(np.uint64), matrix.indices.astype(np.uint32)
        return CSRDesign(indptr, indices, data, matrix.shape[1], codes, n_codes)
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(f"X must have two dimensions, not {array.ndim}")
    return DenseDesign(array, codes, n_codes)


def _split_by_work(n_rows: int, multiplications: float) -> Iterator[slice]:
    """Divide rows into parts with little work, and check the deadline between them."""
    n_stretches = max(1, min(n_rows, int(multiplications / SETTINGS.most_by_kernel)))
    for k in range(n_stretches):
        if k:
            check_clock()
        yield slice(k * n_rows // n_stretches, (k + 1) * n_rows // n_stretches)


def _split_by_size(n_rows: int, size: int) -> Iterator[slice]:
    """Divide rows into chunks of equal size, and check the deadline between them."""
    for start in range(0, n_rows, size):
        if start:
            check_clock()
        yield slice(start, min(start + size, n_rows))


@dataclass(frozen=True, eq=False)
class DenseDesign:
    """A numpy array of either order and either precision, minus an origin (d,) if there is one.

    The array is not copied: the origin is subtracted from a few rows at a time, when they are needed.
    """

    X: npt.NDArray[Any]
    codes: Ints
    n_codes: int
    origin: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.X.shape[0], self.X.shape[1]

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return int(self.X.size)

    def forward(self, coefficients: Floats) -> Floats:
        """As in `Design`."""
        out = np.empty(len(self.X))
        for vector, (members, block) in zip(coefficients, self._blocks, strict=True):
            products = np.empty(len(block))  # of one group, then scattered to its rows
            for rows in self._at_once(block):
                products[rows] = _centre(block[rows], self.origin) @ vector
            out[members] = products
        return out

    def backward(self, values: Floats, slots: Ints | None = None, n_slots: int = 0) -> Floats:
        """As in `Design`."""
        if slots is None:
            return self._backward_by_code(values)
        out = np.zeros((n_slots, self.shape[1], values.shape[1]))
        for rows in _split_by_size(self.shape[0], SETTINGS.chunk):
            if values.shape[1] <= SETTINGS.most_values:  # the usual case
                chunk = np.ascontiguousarray(_centre(self.X[rows], self.origin))
                dense_backward(chunk, values[rows], slots[rows], out)
            else:
                _add_products(_centre(self.X[rows], self.origin), values[rows], slots[rows], out)
        return out

    def gram(self, weights: Floats) -> Floats:
        """As in `Design`."""
        out = np.zeros((self.n_codes, self.shape[1], self.shape[1]))
        by_clock = SETTINGS.most_by_blas / max(1, self.shape[1]) ** 2
        at_once = int(np.clip(by_clock, SETTINGS.fewest_by_blas, SETTINGS.chunk))
        for total, (members, block) in zip(out, self._blocks, strict=True):
            roots, signs = np.sqrt(np.abs(weights[members])), np.sign(weights[members])
            # Products of a matrix with itself cost half. Losses that are differences have negative weights.
            for sign in (1.0, -1.0):
                counted = np.flatnonzero(signs == sign)
                for chosen in _split_by_size(counted.size, at_once):
                    which = counted[chosen] if counted.size < len(block) else chosen
                    chunk = _centre(block[which], self.origin) * roots[which, None]
                    total += dsyrk(sign, chunk.T)
            total += np.triu(total, 1).T  # dsyrk fills the upper triangle
        return out

    def squares(self, weights: Floats, centres: Floats | None = None) -> Floats:
        """As in `Design`."""
        out = np.zeros(self.shape[1])
        for rows in _split_by_size(self.shape[0], SETTINGS.chunk):
            chunk = _centre(_centre(self.X[rows], self.origin), centres)
            out += weights[rows] @ (chunk * chunk)
        return out

    def take(self, rows: slice | Ints) -> Self:
        """As in `Design`."""
        return replace(self, X=self.X[rows], codes=self.codes[rows])

    @cached_property
    def _blocks(self) -> list[tuple[Ints | slice, npt.NDArray[Any]]]:
        """The members of each code, and their rows as a matrix, so that BLAS can run on it."""
        if self.n_codes == 1:  # a view: nothing is copied
            return [(slice(None), self.X)]
        members = [np.flatnonzero(self.codes == k) for k in range(self.n_codes)]
        return [(rows, self.X[rows]) for rows in members]

    def _backward_by_code(self, values: Floats) -> Floats:
        out = np.zeros((self.n_codes, self.shape[1], values.shape[1]))
        for total, (members, block) in zip(out, self._blocks, strict=True):
            # As a vector, one column is gathered and multiplied faster than as a matrix.
            values_of_members = (values[:, 0] if total.shape[1] == 1 else values)[members]
            for rows in self._at_once(block):
                products = _centre(block[rows], self.origin).T @ values_of_members[rows]
                total += products.reshape(total.shape)
        return out

    def _at_once(self, block: npt.NDArray[Any]) -> Iterator[slice]:
        """Rows to multiply together: many if no conversion is needed, few otherwise."""
        if block.dtype == np.float64 and self.origin is None:
            return _split_by_work(len(block), float(block.size))
        return _split_by_size(len(block), SETTINGS.chunk)


def _centre(X: npt.NDArray[Any], origin: Floats | None) -> Floats:
    """Return rows in double precision, minus their origin."""
    converted = np.asarray(X, dtype=np.float64)
    return converted if origin is None else converted - origin


def _add_products(X: npt.NDArray[Any], values: Floats, slots: Ints, out: Floats) -> None:
    """Add ``X_kᵀ values_k`` for the rows of each slot k, which are sorted to lie together."""
    order = np.argsort(slots.astype(np.int16) if len(out) <= SETTINGS.most_short else slots, kind="stable")
    order = order[np.searchsorted(slots[order], 0) :]  # rows of slot −1 are skipped
    borders = np.flatnonzero(np.diff(slots[order], prepend=-1, append=-1))
    for start, stop in pairwise(borders):
        members = order[start:stop]
        out[slots[members[0]]] += X[members].T @ values[members]


class _RowsOfEntries(ABC):
    """Common methods of designs whose rows have few entries each: compiled loops over these."""

    forward_loop: ClassVar[Loop]
    backward_loop: ClassVar[Loop]
    gram_loop: ClassVar[Loop]

    n_features: int
    codes: Ints
    n_codes: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.codes.size, self.n_features

    @property
    @abstractmethod
    def n_entries(self) -> int:
        """Number of stored entries."""

    @property
    @abstractmethod
    def n_pairs(self) -> float:
        """Pairs of entries in the same row."""

    @abstractmethod
    def entries(self, rows: slice) -> tuple[Any, ...]:
        """Return the entries of some rows in the format of the loops."""

    def forward(self, coefficients: Floats) -> Floats:
        """As in `Design`."""
        out = np.empty(self.shape[0])
        for rows in _split_by_work(out.size, float(self.n_entries)):
            self.forward_loop(*self.entries(rows), coefficients, self.codes[rows], out[rows])
        return out

    def backward(self, values: Floats, slots: Ints | None = None, n_slots: int = 0) -> Floats:
        """As in `Design`."""
        slots, n_slots = (self.codes, self.n_codes) if slots is None else (slots, n_slots)
        out = np.zeros((n_slots, self.n_features, values.shape[1]))
        for rows in _split_by_work(self.shape[0], float(self.n_entries) * values.shape[1]):
            self.backward_loop(*self.entries(rows), values[rows], slots[rows], out)
        return out

    def gram(self, weights: Floats) -> Floats:
        """As in `Design`."""
        out = np.zeros((self.n_codes, self.n_features, self.n_features))
        for rows in _split_by_work(self.shape[0], self.n_pairs):
            self.gram_loop(*self.entries(rows), weights[rows], self.codes[rows], out)
        symmetrize(out)  # the loops fill one entry of each symmetric pair
        return out

    def squares(self, weights: Floats, centres: Floats | None = None) -> Floats:
        """As in `Design`: ``Σ ω (x − c)² = Σ ω x² − 2 c Σ ω x + (Σ ω) c²``."""
        squared = self._squared()
        squares = squared.backward(weights[:, None]).sum(axis=0)[:, 0]
        if centres is None:
            return np.asarray(squares)
        sums = squares if squared is self else self.backward(weights[:, None]).sum(axis=0)[:, 0]
        return np.asarray(squares - 2 * centres * sums + weights.sum() * centres**2)

    def _squared(self) -> Self:
        """Return the design of the features' squares."""
        return self


@dataclass(frozen=True, eq=False)
class CSRDesign(_RowsOfEntries):
    """A sparse matrix by rows; empty ``data`` stands for values that are all 1."""

    forward_loop = staticmethod(csr_forward)
    backward_loop = staticmethod(csr_backward)
    gram_loop = staticmethod(csr_gram)

    indptr: Ints
    indices: Ints
    data: Floats
    n_features: int
    codes: Ints
    n_codes: int

    @property
    def n_entries(self) -> int:
        """Number of stored entries."""
        return int(self.indptr[-1] - self.indptr[0])

    @cached_property
    def n_pairs(self) -> float:
        """Pairs of entries in the same row."""
        return float((np.diff(self.indptr).astype(float) ** 2).sum())

    def entries(self, rows: slice) -> tuple[Ints, Ints, Floats]:
        """Return where the entries of some rows begin and end, and all entries."""
        return self.indptr[rows.start : rows.stop + 1], self.indices, self.data

    def take(self, rows: slice | Ints) -> Self:
        """As in `Design`; views of consecutive rows keep the numbering of entries."""
        if isinstance(rows, slice):
            return replace(self, indptr=self.indptr[rows.start : rows.stop + 1], codes=self.codes[rows])
        starts = self.indptr[:-1][rows].astype(np.int64)
        lengths = self.indptr[1:][rows].astype(np.int64) - starts
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        # Entry e of the new rows is entry starts[row] + (e − indptr[row]) of the old ones.
        entries = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
        data = self.data[entries] if self.data.size else self.data
        indptr, indices = indptr.astype(np.uint64), self.indices[entries]
        return replace(self, indptr=indptr, indices=indices, data=data, codes=self.codes[rows])

    def _squared(self) -> Self:
        return replace(self, data=self.data * self.data)


@dataclass(frozen=True, eq=False)
class CodesDesign(_RowsOfEntries):
    """One-hot features without values: row i has ones in the columns ``columns[i]``, one per field.

    They are their own squares.
    """

    forward_loop = staticmethod(codes_forward)
    backward_loop = staticmethod(codes_backward)
    gram_loop = staticmethod(codes_gram)

    columns: Ints
    n_features: int
    codes: Ints
    n_codes: int

    @property
    def n_entries(self) -> int:
        """Number of rows times fields."""
        return int(self.columns.size)

    @property
    def n_pairs(self) -> float:
        """Pairs of fields in the same row."""
        return float(self.columns.size) * self.columns.shape[1]

    def entries(self, rows: slice) -> tuple[Ints]:
        """Return the columns of some rows."""
        return (self.columns[rows],)

    def take(self, rows: slice | Ints) -> Self:
        """As in `Design`."""
        return replace(self, columns=self.columns[rows], codes=self.codes[rows])
