"""Signed sums of maxima of atoms: differences of convex functions, and their convex majorants.

``f = Σ_t c_t max(pieces_t) + constant``, where a piece is an affine function of atoms with coefficients ≥ 0.
Terms with c > 0 make up f⁺ and those with c < 0 make up f⁻, so both are convex, and multiplying by a negative
number swaps them. Group gaps, several groups and unions of intervals then need no new class.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.utils.typing import Floats, Ints

if TYPE_CHECKING:
    from scipy import sparse

Slopes: TypeAlias = Any
"""Slopes of functions in atoms, (m, n_atoms): an array, or a CSR array where that would be large."""

_MOST_DENSE = 1 << 22
"""Entries up to which matrices are dense: small products are faster, and sum in a fixed order. Group
AUC of 100 groups has 9,900 functions of as many atoms, two of which each function depends on."""


@dataclass(frozen=True)
class Affine:
    """``Σ coefficient · atom + constant`` with coefficients ≥ 0: convex, because the atoms are."""

    atoms: tuple[tuple[int, float], ...]
    constant: float = 0.0

    def __post_init__(self) -> None:
        if any(coefficient < 0 for _, coefficient in self.atoms):
            raise ValueError("an affine piece of convex atoms needs coefficients of at least 0")


@dataclass(frozen=True)
class DC:
    """``Σ c · max(pieces) + constant``; build it from `atom` and `maximum` with +, − and ·."""

    terms: tuple[tuple[float, tuple[Affine, ...]], ...] = ()
    constant: float = 0.0

    def __add__(self, other: DC | float) -> DC:
        if isinstance(other, DC):
            return DC(self.terms + other.terms, self.constant + other.constant)
        return DC(self.terms, self.constant + other)

    def __rmul__(self, factor: float) -> DC:
        # A negative factor moves terms from f⁺ to f⁻ and back.
        terms = tuple((factor * c, pieces) for c, pieces in self.terms if factor * c != 0)
        return DC(terms, factor * self.constant)

    def renumbered(self, offset: int) -> DC:
        """Return the same function of atoms whose positions are all larger by ``offset``."""
        if not offset:
            return self
        terms = tuple(
            (c, tuple(Affine(tuple((a + offset, x) for a, x in p.atoms), p.constant) for p in pieces))
            for c, pieces in self.terms
        )
        return DC(terms, self.constant)

    def __neg__(self) -> DC:
        return -1.0 * self

    def __sub__(self, other: DC | float) -> DC:
        return self + (-other)

    def __radd__(self, other: float) -> DC:
        return self + other

    def __rsub__(self, other: float) -> DC:
        return -self + other


def atom(position: int) -> DC:
    """Return one atom as a function."""
    return DC(((1.0, (Affine(((position, 1.0),)),)),))


def maximum(*pieces: Affine) -> DC:
    """Return the largest of some affine pieces."""
    return DC(((1.0, pieces),))


@dataclass(frozen=True, eq=False)
class Tangents:
    """Tangents of every f⁻ at one point: ``f⁻_i(x) + Σ_a slopes[i, a] · (tangent of atom a)``.

    Attributes
    ----------
    values : (m,)
        ``f⁻_i`` at the point.
    slopes : (m, n_atoms)
        A subgradient of ``f⁻_i`` in the atoms: the active pieces.
    """

    values: Floats
    slopes: Floats


@dataclass(frozen=True, eq=False)
class Ties:
    """Kinks of maxima: ``f⁺_i`` gains ``factor · max(0, −gap + ⟨slopes, change of the atoms⟩)``.

    Attributes
    ----------
    functions, maxima, factors, gaps : (K,)
        The function, the maximum, its factor, and the distance of the piece below the highest one.
    slopes : (K, n_atoms)
        Slope of the piece minus that of the highest one.
    keys : (K,)
        A number for each pair of a piece and the highest one.
    """

    functions: Ints
    maxima: Ints
    factors: Floats
    gaps: Floats
    slopes: Floats
    keys: Ints

    def net(self, net: Slopes) -> Floats:
        """Slopes in the atoms of the functions on these pieces: (K, n_atoms), given all (m, n_atoms) here."""
        return np.asarray(dense_rows(net, self.functions) + self.factors[:, None] * self.slopes)

    def nearest(self) -> Ties:
        """Return the nearest of each maximum, because gains of several pieces do not add up."""
        # Of each maximum the first in the order of the gaps.
        by_gap = np.lexsort((self.gaps, self.maxima))
        nearest = by_gap[np.unique(self.maxima[by_gap], return_index=True)[1]]
        return Ties(*(getattr(self, field.name)[nearest] for field in fields(self)))


class _Terms(NamedTuple):
    """The terms ``c · max(pieces)`` of all functions in a row, and their pieces in a row.

    owner (T,) is the function of each term, factor (T,) its c, and length and first (T,) say where its pieces
    are; offsets (P,) are constants of the pieces, constants (m,) those of the functions.
    """

    owner: Ints
    factor: Floats
    length: Ints
    first: Ints
    offsets: Floats
    constants: Floats


@dataclass(frozen=True, eq=False)
class DCSystem:
    """Many DC functions of one bank's atoms, evaluated by a few small matrix products.

    Parameters
    ----------
    functions
        ``f_1, ..., f_m``.
    n_atoms
        Atoms of the bank.
    """

    functions: tuple[DC, ...]
    n_atoms: int

    @property
    def m(self) -> int:
        """Number of functions."""
        return len(self.functions)

    @cached_property
    def has_maxima(self) -> bool:
        """Whether some term is the maximum of several pieces."""
        return self._terms.offsets.size > self._terms.owner.size

    def parts(self, atoms: Floats) -> tuple[Floats, Floats]:
        """Values of all f⁺ and all f⁻, given the values of the atoms."""
        terms = self._terms
        if not terms.owner.size:
            return terms.constants.copy(), np.zeros(self.m)
        # All pieces at once, the largest of each term, then sums of terms by function and sign.
        largest = np.maximum.reduceat(self._matrix @ atoms + terms.offsets, terms.first)
        plus, minus = (
            np.bincount(terms.owner, weights=np.maximum(sign * terms.factor, 0) * largest, minlength=self.m)
            for sign in (1, -1)
        )
        return plus + terms.constants, np.asarray(minus, dtype=np.float64)

    def values(self, atoms: Floats) -> Floats:
        """Values ``f = f⁺ − f⁻`` of all functions."""
        plus, minus = self.parts(atoms)
        return np.asarray(plus - minus)

    def slope(self, atoms: Floats, i: int) -> tuple[Floats, Floats]:
        """Subgradients of f⁺_i and f⁻_i in the atoms, from the first active piece of each maximum."""
        return self.combined(atoms, np.eye(1, self.m, i)[0])

    def slopes(self, atoms: Floats) -> tuple[Slopes, Slopes]:
        """Subgradients of all f⁺ and of all f⁻ in the atoms: (m, n_atoms) each."""
        terms, shape = self._terms, (self.m, self.n_atoms)
        if not terms.owner.size:
            return np.zeros(shape), np.zeros(shape)
        active = self._sparse[self._active(atoms)].tocoo()  # one row for each maximum
        entries = terms.owner[active.row], active.col
        sides: list[Slopes] = []
        for sign in (1, -1):  # terms with c > 0 make up f⁺, those with c < 0 make up f⁻
            products = np.maximum(sign * terms.factor[active.row], 0) * active.data
            if self.m * self.n_atoms > _MOST_DENSE:
                from scipy import sparse

                sides.append(sparse.csr_array((products, entries), shape))
            else:
                sides.append(np.zeros(shape))
                np.add.at(sides[-1], entries, products)
        return sides[0], sides[1]

    def combined(self, atoms: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
        """Subgradients of ``Σ λ_i f⁺_i`` and ``Σ λ_i f⁻_i`` in the atoms: λ times those of `slopes`."""
        terms = self._terms
        if not terms.owner.size:
            return np.zeros(self.n_atoms), np.zeros(self.n_atoms)
        # λ_i c of the active piece of each term, for f⁺ and f⁻ in two columns.
        by_piece = np.zeros((terms.offsets.size, 2))
        signed = terms.factor[:, None] * np.array([1.0, -1.0])
        by_piece[self._active(atoms)] = multipliers[terms.owner][:, None] * np.maximum(signed, 0)
        plus, minus = (self._transposed @ by_piece).T
        return plus, minus

    def tangents(self, atoms: Floats) -> Tangents:
        """Tangents of all f⁻ at a point, given the values of the atoms there."""
        return Tangents(self.parts(atoms)[1], self.slopes(atoms)[1])

    def ties(self, atoms: Floats, wanted: npt.NDArray[np.bool_], reach: float) -> Ties:
        """Pieces of maxima in the f⁺ that are wanted, at most ``reach`` lower than the highest."""
        if not self.has_maxima:
            none = np.empty(0, dtype=np.int64)
            return Ties(none, none, np.empty(0), np.empty(0), np.empty((0, self.n_atoms)), none)
        terms = self._terms
        heights = self._matrix @ atoms + terms.offsets
        term = np.repeat(np.arange(terms.length.size), terms.length)
        highest = self._active(atoms)[term]
        gaps = heights[highest] - heights
        # In f⁻ any active piece gives a tangent, so its ties are not needed.
        convex = wanted[terms.owner[term]] & (terms.factor[term] > 0)
        near = np.flatnonzero((gaps <= reach) & (highest != np.arange(gaps.size)) & convex)
        return Ties(
            terms.owner[term[near]],
            term[near],
            terms.factor[term[near]],
            gaps[near],
            dense_rows(self._matrix, near) - dense_rows(self._matrix, highest[near]),
            near * gaps.size + highest[near],
        )

    def _active(self, atoms: Floats) -> Ints:
        """Return the piece of each maximum that is the highest, the first of equals."""
        terms = self._terms
        if not self.has_maxima:  # each term is one piece: nothing to compare
            return np.arange(terms.owner.size)
        heights = self._matrix @ atoms + terms.offsets
        term = np.repeat(np.arange(terms.length.size), terms.length)
        highest = np.flatnonzero(heights == np.maximum.reduceat(heights, terms.first)[term])
        return np.asarray(highest[np.unique(term[highest], return_index=True)[1]])

    @cached_property
    def _pieces(self) -> list[Affine]:
        return [piece for f in self.functions for _, pieces in f.terms for piece in pieces]

    @cached_property
    def _terms(self) -> _Terms:
        terms = [(i, c, len(pieces)) for i, f in enumerate(self.functions) for c, pieces in f.terms]
        owner, factor, length = np.array(terms, dtype=np.float64).reshape(-1, 3).T
        n_pieces = length.astype(np.int64)
        return _Terms(
            owner.astype(np.int64),
            np.ascontiguousarray(factor),
            n_pieces,
            np.cumsum(n_pieces) - n_pieces,
            np.array([piece.constant for piece in self._pieces], dtype=np.float64),
            np.array([f.constant for f in self.functions], dtype=np.float64),
        )

    @cached_property
    def _matrix(self) -> Slopes:
        """Coefficients of the pieces, (P, n_atoms)."""
        if len(self._pieces) * self.n_atoms > _MOST_DENSE:
            return self._sparse
        matrix = np.zeros((len(self._pieces), self.n_atoms))
        for row, piece in enumerate(self._pieces):
            for position, coefficient in piece.atoms:
                matrix[row, position] += coefficient
        return matrix

    @cached_property
    def _sparse(self) -> sparse.csr_array:
        """The matrix again: of thousands of atoms a piece has one or two."""
        from scipy import sparse  # late: constraints on tensors do not need it

        entries = [(row, *entry) for row, piece in enumerate(self._pieces) for entry in piece.atoms]
        rows, columns, data = np.array(entries, dtype=np.float64).reshape(-1, 3).T
        indices = rows.astype(np.intp), columns.astype(np.intp)
        return sparse.csr_array((data, indices), (len(self._pieces), self.n_atoms))

    @cached_property
    def _transposed(self) -> sparse.csr_array:
        return self._sparse.T.tocsr()


def dense_rows(slopes: Slopes, rows: Any) -> Floats:
    """Return some rows of slopes as an array, however they are stored."""
    chosen = slopes[rows]
    return np.asarray(chosen if isinstance(chosen, np.ndarray) else chosen.toarray())


def positive_part(slopes: Slopes) -> Slopes:
    """Return ``max(slopes, 0)``, stored as the slopes are."""
    return np.maximum(slopes, 0.0) if isinstance(slopes, np.ndarray) else slopes.maximum(0.0)
