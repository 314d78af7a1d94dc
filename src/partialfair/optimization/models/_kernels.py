"""Compiled loops over rows. They release the interpreter's lock and add to their output arrays.

Sums go to *slots*; rows of slot −1 are skipped. Rows have q values each, and sums of values times features
are (n_slots, d, q): the q sums of a feature are adjacent, so that a row touches few cache lines. One and two
values, the usual case, have separate loops.
"""

from __future__ import annotations

import numpy as np

from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

_TILE = 64
"""Two tiles with this many rows and columns fit into the first cache."""

_MANY_FIELDS = 32
"""With at least this many fields, four independent sums are faster than one."""


@njit(cache=True, nogil=True)
def add_constants(scores: Floats, constants: Floats, codes: Ints) -> None:
    """Add ``constants[code_i]`` to each score."""
    for i in range(scores.size):
        scores[i] += constants[codes[i]]


@njit(cache=True, nogil=True)
def add_by_slot(values: Floats, slots: Ints, out: Floats) -> None:
    """Add ``Σ values[i]`` over the rows of each slot to ``out``: (n_slots, q)."""
    n_values = values.shape[1]
    if n_values == 1:  # numba unrolls loops of a known length only
        for i in range(slots.size):
            if slots[i] >= 0:
                out[slots[i], 0] += values[i, 0]
    elif n_values == 2:
        for i in range(slots.size):
            if slots[i] >= 0:
                out[slots[i], 0] += values[i, 0]
                out[slots[i], 1] += values[i, 1]
    else:
        for i in range(slots.size):
            if slots[i] >= 0:
                for j in range(n_values):
                    out[slots[i], j] += values[i, j]


@njit(cache=True, nogil=True)
def number_pairs(cells: Ints, codes: Ints, n_cells: int, n_codes: int) -> tuple[Ints, Ints]:
    """Return the pairs of a code and a cell that occur, and which of them each row has.

    Pairs are encoded as ``code · n_cells + cell`` and ascend; −1 marks rows of no cell. The table of all
    pairs needs no more memory than the results: columns for each cell, parameters for each code.
    """
    # First mark the pairs that occur, then number them in ascending order.
    number = np.full(n_codes * n_cells, -1, dtype=np.int32)
    for i in range(cells.size):
        if cells[i] >= 0:
            number[np.int64(codes[i]) * n_cells + cells[i]] = 0
    pairs = np.flatnonzero(number == 0)
    for k in range(pairs.size):
        number[pairs[k]] = k
    slots = np.empty(cells.size, dtype=np.int32)
    for i in range(cells.size):
        slots[i] = number[np.int64(codes[i]) * n_cells + cells[i]] if cells[i] >= 0 else -1
    return pairs, slots


@njit(cache=True, nogil=True)
def dense_backward(X: Floats, values: Floats, slots: Ints, out: Floats) -> None:
    """Add ``Σ values[i] x_i`` over the rows of each slot; for one or two values."""
    for i in range(slots.size):
        if slots[i] >= 0:
            target = out[slots[i]]  # (d, q): the sums of a row are adjacent
            if values.shape[1] == 1:
                for j in range(X.shape[1]):
                    target[j, 0] += values[i, 0] * X[i, j]
            else:
                for j in range(X.shape[1]):
                    target[j, 0] += values[i, 0] * X[i, j]
                    target[j, 1] += values[i, 1] * X[i, j]


@njit(cache=True, nogil=True)
def csr_forward(
    indptr: Ints, indices: Ints, data: Floats, coefficients: Floats, codes: Ints, out: Floats
) -> None:
    """Fill ``out`` with ``coefficients[code_i] · x_i``."""
    for i in range(out.size):
        vector = coefficients[codes[i]]
        total = 0.0
        if data.size:  # outside the loop; without values a row is a sum of coefficients
            for entry in range(indptr[i], indptr[i + 1]):
                total += vector[indices[entry]] * data[entry]
        else:
            for entry in range(indptr[i], indptr[i + 1]):
                total += vector[indices[entry]]
        out[i] = total


@njit(cache=True, nogil=True)
def csr_backward(indptr: Ints, indices: Ints, data: Floats, values: Floats, slots: Ints, out: Floats) -> None:
    """Add ``Σ values[i] x_i`` over the rows of each slot."""
    n_values = values.shape[1]
    for i in range(slots.size):
        if slots[i] < 0:
            continue
        target = out[slots[i]]
        if n_values == 1:
            value = values[i, 0]
            if value != 0.0:  # most rows have no slope where a surrogate is flat
                if data.size:
                    for entry in range(indptr[i], indptr[i + 1]):
                        target[indices[entry], 0] += value * data[entry]
                else:
                    for entry in range(indptr[i], indptr[i + 1]):
                        target[indices[entry], 0] += value
        elif n_values == 2:
            for entry in range(indptr[i], indptr[i + 1]):
                x = data[entry] if data.size else 1.0
                target[indices[entry], 0] += x * values[i, 0]
                target[indices[entry], 1] += x * values[i, 1]
        else:
            for entry in range(indptr[i], indptr[i + 1]):
                x = data[entry] if data.size else 1.0
                sums = target[indices[entry]]
                for j in range(n_values):
                    sums[j] += x * values[i, j]


@njit(cache=True, nogil=True)
def csr_gram(indptr: Ints, indices: Ints, data: Floats, weights: Floats, codes: Ints, out: Floats) -> None:
    """Add ``Σ weights[i] x_i x_iᵀ`` over the rows of each code, to one entry of each symmetric pair."""
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        matrix = out[codes[i]]
        for entry in range(indptr[i], indptr[i + 1]):
            target = matrix[indices[entry]]
            value = weights[i] * data[entry] if data.size else weights[i]
            for other in range(indptr[i], entry + 1):
                target[indices[other]] += value * data[other] if data.size else value


@njit(cache=True, nogil=True)
def codes_forward(columns: Ints, coefficients: Floats, codes: Ints, out: Floats) -> None:
    """Fill ``out`` with ``coefficients[code_i] · x_i``."""
    n_fields = columns.shape[1]
    # The order of the additions depends on the number of fields only, never on the threads.
    in_fours = n_fields - n_fields % 4 if n_fields >= _MANY_FIELDS else 0
    for i in range(out.size):
        vector, row = coefficients[codes[i]], columns[i]
        first = second = third = fourth = 0.0
        for field in range(0, in_fours, 4):
            first += vector[row[field]]
            second += vector[row[field + 1]]
            third += vector[row[field + 2]]
            fourth += vector[row[field + 3]]
        total = (first + second) + (third + fourth)
        for field in range(in_fours, n_fields):
            total += vector[row[field]]
        out[i] = total


@njit(cache=True, nogil=True)
def codes_backward(columns: Ints, values: Floats, slots: Ints, out: Floats) -> None:
    """Add ``Σ values[i] x_i`` over the rows of each slot."""
    n_values = values.shape[1]
    for i in range(slots.size):
        if slots[i] < 0:
            continue
        target = out[slots[i]]
        if n_values == 1:
            value = values[i, 0]
            if value != 0.0:
                for field in range(columns.shape[1]):
                    target[columns[i, field], 0] += value
        elif n_values == 2:
            for field in range(columns.shape[1]):
                target[columns[i, field], 0] += values[i, 0]
                target[columns[i, field], 1] += values[i, 1]
        else:
            for field in range(columns.shape[1]):
                sums = target[columns[i, field]]
                for j in range(n_values):
                    sums[j] += values[i, j]


@njit(cache=True, nogil=True)
def codes_gram(columns: Ints, weights: Floats, codes: Ints, out: Floats) -> None:
    """Add ``Σ weights[i] x_i x_iᵀ`` over the rows of each code, to one entry of each symmetric pair."""
    for i in range(weights.size):
        if weights[i] == 0.0:
            continue
        matrix = out[codes[i]]
        for field in range(columns.shape[1]):
            target = matrix[columns[i, field]]
            for other in range(field + 1):  # fields ascend, so this is one triangle
                target[columns[i, other]] += weights[i]


@njit(cache=True, nogil=True)
def symmetrize(halves: Floats) -> None:
    """Complete matrices with one filled entry per symmetric pair, in tiles that stay in cache."""
    n = halves.shape[1]
    for matrix in halves:
        for top in range(0, n, _TILE):
            for left in range(0, top + 1, _TILE):
                for i in range(top, min(top + _TILE, n)):
                    for j in range(left, min(left + _TILE, i)):
                        matrix[i, j] += matrix[j, i]  # one of the two is 0
                        matrix[j, i] = matrix[i, j]


@njit(cache=True, nogil=True)
def change_units(grams: Floats, per_unit: Floats) -> None:
    """Turn ``Σ ω x xᵀ`` into ``Σ ω z zᵀ`` with ``z = x · per_unit``."""
    for gram in grams:
        for i in range(per_unit.size):
            for j in range(per_unit.size):
                gram[i, j] *= per_unit[i] * per_unit[j]


@njit(cache=True, nogil=True)
def centre_and_change_units(
    grams: Floats, totals: Floats, sums: Floats, centres: Floats, per_unit: Floats
) -> None:
    """Turn ``Σ ω x xᵀ`` into ``Σ ω z zᵀ`` with ``z = (x − c) · per_unit``, given ``Σ ω`` and ``Σ ω x``.

    ``Σ ω (x − c)(x − c)ᵀ = Σ ω x xᵀ − h cᵀ − c hᵀ`` with ``h = Σ ω x − ½ (Σ ω) c``.
    """
    for k in range(totals.size):
        # h is subtracted on both sides, so that the matrix stays symmetric to the last bit.
        gram, half = grams[k], sums[k] - 0.5 * totals[k] * centres
        for i in range(centres.size):
            for j in range(centres.size):
                product = half[i] * centres[j] + centres[i] * half[j]
                gram[i, j] = (gram[i, j] - product) * (per_unit[i] * per_unit[j])
