"""Linear scorers on any feature matrix, with or without terms of the group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.data.categoricals import CategoricalCodes
from partialfair.exceptions import InputError
from partialfair.optimization.models._kernels import (
    add_by_slot,
    add_constants,
    centre_and_change_units,
    change_units,
    number_pairs,
)
from partialfair.optimization.models.blocks import BlockMatrix
from partialfair.optimization.models.designs import DenseDesign, Design, as_design
from partialfair.optimization.models.score_model import Parameters
from partialfair.utils.typing import ArrayLike, Floats, Ints

GroupTerms: TypeAlias = Literal["intercept", "interactions"] | None

FARTHEST_CORRECTED = 1e3
"""Largest centers, in units of the features, for which sums over rows are corrected afterwards. Scores and
gradients lose as many digits as this has, Hessians twice as many: 13 and 10 are left."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """``s_i = offset_i + coef[k] · x_i + intercept[k]``, with k the group of row i, or 0.

    The parameters w are the coefficients times the features' ``scales``, one vector after the other, then the
    scores at the features' ``centres``, which are the intercepts plus ``coef[k] · centres``. So row i of J
    has ``(x_i − centres) / scales`` in the positions of the coefficients that the row uses, 1 in that of the
    score at the centers, and 0 elsewhere. Centered features and group terms are never formed: sums over rows
    are corrected afterwards, or, if that would lose digits, the design subtracts the centers from a few rows
    at a time.

    Parameters
    ----------
    design
        The features, with the coefficient vector that each row uses.
    codes : (n,)
        k: the group of each row, 0 if there are no terms of the group.
    n_vectors, n_intercepts
        Number of coefficient vectors, and of intercepts (0: none). Both are 1 or the number of groups.
    scales : (d,)
        Units of the features. If these are standard deviations, a step in w changes the scores by the same
        amount for any unit of a feature, and distances between parameters have a meaning; with 1, w has the
        coefficients. A feature with an infinite unit is ignored: its coefficients are 0.
    centres : (d,)
        Origin of the features; other than 0 only with intercepts, which absorb it.
    offset : (n,)
        Scores at w = 0.
    flat : (n_params,)
        The w at which all scores are 0, if there is an offset.
    level : (n_params,)
        As in `Parameters`.
    """

    design: Design
    codes: Ints
    n_vectors: int
    n_intercepts: int
    scales: Floats | float = 1.0
    centres: Floats | float = 0.0
    offset: Floats | float = 0.0
    flat: Floats | None = None
    level: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of scores."""
        return self.design.shape[0]

    @property
    def n_entries(self) -> int:
        """Number of entries that a pass over the features reads, if the design has that number."""
        return int(getattr(self.design, "n_entries", self.n_rows))

    @cached_property
    def parameters(self) -> Parameters:
        """Length and parts of w."""
        n_features = self.design.shape[1]
        n_penalized = self.n_vectors * n_features
        intercepts_per_block = self.n_intercepts if self.n_vectors == 1 else 1
        n, block_size = n_penalized + self.n_intercepts, n_features + intercepts_per_block
        return Parameters(n, n_penalized, block_size, self.flat, self.level)

    def take(self, rows: slice | Ints) -> LinearModel:
        """Return the model of some rows; consecutive ones are not copied."""
        if not isinstance(rows, slice):
            offset = self.offset[rows] if isinstance(self.offset, np.ndarray) else self.offset
            return replace(self, design=self.design.take(rows), codes=self.codes[rows], offset=offset)
        start, stop, _ = rows.indices(self.n_rows)
        if stop - start == self.n_rows:
            return self
        taken = slice(start, max(start, stop))
        offset = self.offset[taken] if isinstance(self.offset, np.ndarray) else self.offset
        return replace(self, design=self.design.take(taken), codes=self.codes[taken], offset=offset)

    def unpack(self, w: Floats) -> tuple[Floats, Floats]:
        """Return coefficients (n_vectors, d) and intercepts (n_intercepts,) for unscaled features."""
        scaled = w[: self.parameters.n_penalized].reshape(self.n_vectors, -1)
        coefficients, intercepts = scaled / self.scales, w[self.parameters.n_penalized :]
        if self._all_centres is not None:  # w holds the scores at the centers
            intercepts = intercepts - coefficients @ self._all_centres
        return coefficients, intercepts

    def pack(self, coefficients: Floats, intercepts: Floats) -> Floats:
        """Return the parameters w of given coefficients and intercepts: the inverse of `unpack`."""
        counted = np.isfinite(self.scales)  # features with an infinite unit are ignored
        coefficients = np.where(counted, coefficients, 0.0)
        if self._all_centres is not None:
            intercepts = intercepts + coefficients @ self._all_centres
        return np.concatenate([(coefficients * np.where(counted, self.scales, 1.0)).ravel(), intercepts])

    def scores(self, w: Floats) -> Floats:
        """Return the score of every row."""
        scores = self.along(w)
        if self._has_offset:
            scores += self.offset
        return scores

    def deployed_scores(self, w: Floats, scores: Floats) -> Floats:
        """Return the scores that users of the coefficients and intercepts compute, to the last digit.

        They equal those of `scores`, unless the design subtracts the centers.
        """
        if not (isinstance(self.design, DenseDesign) and self._rows_are_centred):
            return scores
        # Centered and uncentered rows give the same scores up to rounding, but ties depend on rounding.
        plain = replace(self, design=replace(self.design, origin=None), scales=1.0, centres=0.0)
        return plain.scores(plain.pack(*self.unpack(w)))

    def along(self, direction: Floats) -> Floats:
        """Return ``J direction``: the change of the scores along a step."""
        coefficients, constants = self.unpack(direction)
        if self._rows_are_centred:  # the design subtracts the centers: no correction for them
            constants = direction[self.parameters.n_penalized :]
        products = self.design.forward(coefficients)
        if constants.size == 1:  # without a compiled loop, whose compilation would delay scoring a few rows
            products += constants[0]
        elif constants.size:
            add_constants(products, constants, self.codes)
        return products

    def vjp(self, w: Floats, columns: RowColumns) -> Floats:
        """Return ``Jᵀ C`` and the columns' sums, (n_blocks, n_columns, n_params + 1); one pass.

        Rows of J are added up by cell and by group, then the table is applied to the sums. With group terms
        most of J is 0, and most pairs of a cell and a group do not occur: they need neither memory nor time.
        """
        d, part, values = self.design.shape[1], self.take(columns.rows), np.ascontiguousarray(columns.values)
        n_codes, n_penalized = max(1, self.n_vectors, self.n_intercepts), self.parameters.n_penalized
        out = np.empty((columns.n_blocks, columns.n_columns, self.parameters.n + 1))
        coefficients = out[:, :, :n_penalized].reshape(*out.shape[:2], self.n_vectors, d)  # a view
        totals = np.empty((*out.shape[:2], n_codes))
        # 1. Sums of values times features by slot, then the columns' table on them.
        if columns.cells is None and columns.table is None:
            coefficients[0] = part.design.backward(values).transpose(2, 0, 1)
            totals[0] = _sum_by_slot(values, part.codes, n_codes).T
        else:
            by_code = _find_slots(columns, part.codes, n_codes)
            by_vector = by_code if self.n_vectors == n_codes else _find_slots(columns, part.codes, 1)
            features = part.design.backward(values, by_vector.of_rows, by_vector.cells.size)
            sums = _sum_by_slot(values, by_code.of_rows, by_code.cells.size)[:, None]
            for k in range(self.n_vectors):
                coefficients[:, :, k] = by_vector.combined(columns, features, k)
            for k in range(n_codes):
                totals[:, :, k] = by_code.combined(columns, sums, k)[:, :, 0]
        # 2. Sums of the columns: derivatives in the intercepts, by group, and in all.
        out[:, :, -1] = totals.sum(axis=2)
        if self.n_intercepts:
            out[:, :, n_penalized:-1] = totals
        # 3. From x to z = (x − centers) / scales: Σ v z = (Σ v x − centers Σ v) / scales.
        if self._centres is not None:
            totals_of_vectors = totals if self.n_vectors == n_codes else out[:, :, -1:]
            coefficients -= totals_of_vectors[:, :, :, None] * self._centres
        coefficients /= self.scales
        return out

    def gram(self, weights: Floats) -> BlockMatrix:
        """Return ``Jᵀ diag(weights) J``: a block for each coefficient vector and its intercepts; one pass."""
        n, d, n_intercepts = self.n_vectors, self.design.shape[1], self.n_intercepts
        blocks, coefficients = self.design.gram(weights), np.arange(n * d).reshape(n, d)
        per_unit = np.full(d, 1 / np.asarray(self.scales))
        if not n_intercepts:
            change_units(blocks, per_unit)
            return BlockMatrix(tuple(coefficients), tuple(blocks))
        # With intercepts blocks are bordered by Σ ω z, and Σ ω by group is their corner.
        column = weights[:, None]
        sums = _sum_by_slot(column, self.codes, n_intercepts)
        slots = None if n_intercepts == n else self.codes
        cross = self.design.backward(column, slots, n_intercepts)[:, :, 0]
        if self._centres is None:
            change_units(blocks, per_unit)
        else:
            # One vector may have the intercepts of all groups: its sums are those of all of them.
            by_vector = (n, n_intercepts // n, -1)
            totals, sums_of_rows = (one.reshape(by_vector).sum(axis=1) for one in (sums, cross))
            centre_and_change_units(blocks, totals[:, 0], sums_of_rows, self._centres, per_unit)
            cross = cross - sums * self._centres
        cross = cross * per_unit
        intercepts = [np.arange(n_intercepts)] if n == 1 else [np.array([k]) for k in range(n)]
        joined = [
            np.block([[block, cross[which].T], [cross[which], np.diag(sums[which, 0])]])
            for block, which in zip(blocks, intercepts, strict=True)
        ]
        pairs = zip(coefficients, intercepts, strict=True)
        return BlockMatrix(tuple(np.append(row, n * d + which) for row, which in pairs), tuple(joined))

    def rows(self, which: Ints) -> Floats:
        """Return some rows of J: (n_which, n_params)."""
        d, each, codes = self.design.shape[1], np.arange(which.size), self.codes[which].astype(np.int64)
        features = self.design.take(which).backward(np.ones((which.size, 1)), each, which.size)[:, :, 0]
        if self._centres is not None:
            features -= self._centres
        features /= self.scales
        out = np.zeros((which.size, self.parameters.n))
        coefficients = out[:, : self.parameters.n_penalized].reshape(which.size, self.n_vectors, d)  # a view
        coefficients[each, codes if self.n_vectors > 1 else 0] = features
        if self.n_intercepts:
            out[each, self.parameters.n_penalized + codes] = 1
        return out

    @cached_property
    def _has_offset(self) -> bool:
        return bool(np.any(self.offset))

    @property
    def _rows_are_centred(self) -> bool:
        """Whether the design subtracts the centers."""
        return isinstance(self.design, DenseDesign) and self.design.origin is not None

    @cached_property
    def _all_centres(self) -> Floats | None:
        """The centers, None if all are 0."""
        return np.full(self.design.shape[1], self.centres) if np.any(self.centres) else None

    @cached_property
    def _centres(self) -> Floats | None:
        """The centers by which sums are to be corrected, None if there is nothing to correct."""
        return None if self._rows_are_centred else self._all_centres


@dataclass(frozen=True, eq=False)
class _Slots:
    """Slots in which rows are added up: one for each pair of a code and a cell, by code, then by cell.

    Attributes
    ----------
    of_rows : (n,)
        The slot of each row, −1 for rows of no cell.
    cells : (n_slots,)
        The cell of each slot.
    first : (n_codes + 1,)
        The first slot of each code, and the end of the last.
    """

    of_rows: Ints
    cells: Ints
    first: Ints

    def combined(self, columns: RowColumns, sums: Floats, code: int) -> Floats:
        """Apply the columns' table to the sums (n_slots, p, q) of one code: (n_blocks, n_columns, p)."""
        chosen = slice(int(self.first[code]), int(self.first[code + 1]))
        return columns.combined(sums[chosen], self.cells[chosen])


def _find_slots(columns: RowColumns, codes: Ints, n_codes: int) -> _Slots:
    """Return slots for the pairs of a code and a cell that occur; with a single code, for all cells."""
    cells = np.zeros_like(codes) if columns.cells is None else columns.cells
    if n_codes == 1:
        return _Slots(cells, np.arange(columns.n_cells), np.array([0, columns.n_cells]))
    pairs, slots = number_pairs(cells, codes, columns.n_cells, n_codes)
    first = np.searchsorted(pairs, columns.n_cells * np.arange(n_codes + 1))
    return _Slots(slots, pairs % columns.n_cells, first)


def _sum_by_slot(values: Floats, slots: Ints, n_slots: int) -> Floats:
    """Return ``Σ values[i]`` over the rows of each slot: (n_slots, q)."""
    out = np.zeros((n_slots, values.shape[1]))
    add_by_slot(values, slots, out)
    return out


def linear_model(
    X: ArrayLike,
    *,
    codes: Ints | None = None,
    n_groups: int = 1,
    group_terms: GroupTerms = None,
    fit_intercept: bool = True,
    scales: Floats | float = 1.0,
    centres: Floats | float = 0.0,
    offset: Floats | float = 0.0,
) -> LinearModel:
    """Return the linear scorer of some features.

    Parameters
    ----------
    X
        Dense array, scipy sparse matrix or `CategoricalCodes`.
    codes : (n,)
        Group of each row, needed for ``group_terms``.
    n_groups
        Number of groups.
    group_terms
        None: one model for all; ``"intercept"``: an intercept per group; ``"interactions"``: the paper's
        model with cross terms, which is a separate model per group.
    fit_intercept
        Whether there are intercepts at all.
    scales, centres, offset
        Units and origin of the features, and the scores at w = 0; see `LinearModel`.
    """
    if group_terms not in (None, "intercept", "interactions"):
        raise InputError(f"group_terms must be None, 'intercept' or 'interactions', not {group_terms!r}")
    if group_terms == "intercept" and not fit_intercept:
        raise InputError("group_terms='intercept' needs fit_intercept=True")
    n_rows = X.n_rows if isinstance(X, CategoricalCodes) else X.shape[0]
    one_group = np.zeros(n_rows, dtype=np.int8)
    if group_terms is None:
        codes, n_groups = one_group, 1
    elif codes is None:
        raise InputError(f"group_terms={group_terms!r} needs the group of every row")
    if not fit_intercept and np.any(centres):
        raise InputError("centres need fit_intercept=True: without intercepts nothing absorbs them")
    n_vectors = n_groups if group_terms == "interactions" else 1
    design = as_design(X, codes if group_terms == "interactions" else one_group, n_vectors)
    # Far from the origin, corrections of sums would lose too many digits: center the rows themselves.
    if isinstance(design, DenseDesign) and np.any(np.abs(centres) > FARTHEST_CORRECTED * scales):
        design = replace(design, origin=np.full(design.shape[1], centres))
    return LinearModel(design, codes, n_vectors, n_groups if fit_intercept else 0, scales, centres, offset)
