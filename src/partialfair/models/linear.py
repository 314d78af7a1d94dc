"""Linear scorers on any feature matrix, with or without terms of the group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numba import njit

from partialfair._clock import check_clock
from partialfair._typing import ArrayLike, Floats, Ints
from partialfair.categoricals import CategoricalCodes
from partialfair.exceptions import InputError
from partialfair.models._designs import Design, as_design
from partialfair.models.blocks import BlockMatrix

__all__ = ["GroupTerms", "LinearModel", "linear_model"]

GroupTerms: TypeAlias = Literal["intercept", "interactions"] | None


@njit(cache=True)
def _add_intercepts(scores: Floats, intercepts: Floats, codes: Ints) -> None:
    for i in range(scores.size):
        scores[i] += intercepts[codes[i]]


@njit(cache=True)
def _add_by_code(totals: Floats, vector: Floats, codes: Ints) -> None:
    for i in range(vector.size):
        totals[codes[i]] += vector[i]


@njit(cache=True)
def _add_two_by_code(totals: Floats, first: Floats, second: Floats, codes: Ints) -> None:
    for i in range(first.size):
        if codes[i] >= 0:
            totals[codes[i], 0] += first[i]
            totals[codes[i], 1] += second[i]


@njit(cache=True)
def _add_rows_by_code(totals: Floats, rows: Floats, codes: Ints) -> None:
    for i in range(rows.shape[0]):
        if codes[i] >= 0:
            for j in range(rows.shape[1]):
                totals[codes[i], j] += rows[i, j]


_CHUNK = 4096
"""Rows whose vectors are held at once in `LinearModel.vjp_many`."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """``s_i = coef[c_i] · x_i + intercept[b_i]``, with c and b the group or 0.

    The parameters w are the coefficients times the features' ``scales``, row by row, then the intercepts.

    Parameters
    ----------
    design
        The features, with the coefficient vector that each row uses.
    intercept_codes, n_intercepts
        Which intercept each row uses, and how many there are (0: none).
    scales : (d,)
        Units of the features. With their root mean squares a step in w moves the scores by as much whatever
        the features' units, and a distance between parameters means something; 1 leaves w the coefficients.
    """

    design: Design
    intercept_codes: Ints
    n_intercepts: int
    scales: Floats | float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of scores."""
        return self.design.shape[0]

    @property
    def n_params(self) -> int:
        """Length of w."""
        return self.n_penalised + self.n_intercepts

    @property
    def n_penalised(self) -> int:
        """Leading entries of w that an ℓ2 penalty acts on: the coefficients, not the intercepts."""
        return self.design.n_codes * self.design.shape[1]

    @property
    def block_size(self) -> int:
        """Size of the largest block of `gram`."""
        return self.design.shape[1] + (self.n_intercepts if self.design.n_codes == 1 else 1)

    def gram(self, weights: Floats) -> BlockMatrix:
        """Return ``Jᵀ diag(weights) J``: a block for each coefficient vector and its intercepts; one pass."""
        n, d, q = self.design.n_codes, self.design.shape[1], self.n_intercepts
        blocks = self.design.gram(weights) / np.multiply.outer(self.scales, self.scales)
        coefficients = np.arange(n * d).reshape(n, d)
        if not q:
            return BlockMatrix(tuple(coefficients), tuple(blocks))
        sums = np.zeros(q)
        _add_by_code(sums, weights, self.intercept_codes)
        if q == n:
            cross = self.design.backward(weights)
        else:
            each = np.zeros((q, d, 1))
            self.design.backward_many(0, weights[:, None], self.intercept_codes, each)
            cross = each[:, :, 0]
        own = [np.arange(q)] if n == 1 else [np.array([k]) for k in range(n)]
        joined = [
            np.block(
                [
                    [block, (cross[which] / self.scales).T],
                    [cross[which] / self.scales, np.diag(sums[which])],
                ]
            )
            for block, which in zip(blocks, own, strict=True)
        ]
        places = tuple(np.append(row, n * d + which) for row, which in zip(coefficients, own, strict=True))
        return BlockMatrix(places, tuple(joined))

    def vjp_many(
        self, slopes: Callable[[int, int], Floats], groups: Ints, n_groups: int, n_columns: int
    ) -> tuple[Floats, Floats]:
        """Return ``Jᵀ`` times many vectors at once, each restricted to one group, and the vectors' sums.

        Parameters
        ----------
        slopes
            ``slopes(first, stop)`` gives the vectors' entries for some rows, (stop − first, n_columns).
        groups
            Group of each row, −1 for rows to leave out; with group terms some of the model's groups.
        n_groups, n_columns
            How many groups, and how many vectors for each.

        Returns
        -------
        (n_groups, n_columns, n_params), (n_groups, n_columns)
        """
        n, d = self.design.n_codes, self.design.shape[1]
        terms = self._terms_of(groups, n_groups)
        features, sums = np.zeros((n_groups, d, n_columns)), np.zeros((n_groups, n_columns))
        for first in range(0, self.n_rows, _CHUNK):
            check_clock()
            vectors = slopes(first, min(first + _CHUNK, self.n_rows))
            own = groups[first : first + _CHUNK]
            self.design.backward_many(first, vectors, own, features)
            _add_rows_by_code(sums, vectors, own)
        coefficients = features.transpose(0, 2, 1) / self.scales
        out = np.zeros((n_groups, n_columns, self.n_params))
        for k, term in enumerate(terms):
            first = term * d if n > 1 else 0
            out[k, :, first : first + d] = coefficients[k]
            if self.n_intercepts:
                out[k, :, n * d + (term if self.n_intercepts > 1 else 0)] = sums[k]
        return out, sums

    def vjp_binned(
        self, scores: Floats, weights: Floats, bins: Ints, groups: Ints, shape: tuple[int, int]
    ) -> Floats:
        """Return sums of ``weight · (1, score)`` times rows of J, and 1, over each group and bin.

        The shape is (n_groups, n_bins); rows of group −1 are left out. With group terms the groups are
        some of the model's.

        Returns
        -------
        (n_groups, n_bins, 2, n_params + 1)
        """
        n, d = self.design.n_codes, self.design.shape[1]
        n_groups, n_bins = shape
        terms = self._terms_of(groups, n_groups)
        sums = np.zeros((n_groups, n_bins, 2))
        places = np.where(groups >= 0, groups.astype(np.int64) * n_bins + bins, -1)
        features = self.design.backward_binned(weights, weights * scores, places, n_groups * n_bins)
        _add_two_by_code(sums.reshape(-1, 2), weights, weights * scores, places)
        shaped = features.reshape(n_groups, n_bins, d, 2).transpose(0, 1, 3, 2)
        out = np.zeros((n_groups, n_bins, 2, self.n_params + 1))
        for k, term in enumerate(terms):
            first = term * d if n > 1 else 0
            np.divide(shaped[k], self.scales, out=out[k, :, :, first : first + d])
            if self.n_intercepts:
                out[k, :, :, n * d + (term if self.n_intercepts > 1 else 0)] = sums[k]
        out[..., -1] = sums
        return out

    def _terms_of(self, groups: Ints, n_groups: int) -> list[int]:
        """Return which of the model's group terms the rows of each group have; 0 if there is one for all.

        Constraints need not be about all groups of the model, and number theirs anew.
        """
        codes = self.intercept_codes if self.n_intercepts > 1 else self.design.codes
        if max(self.n_intercepts, self.design.n_codes) == 1:
            return [0] * n_groups
        if groups is codes:
            return list(range(n_groups))
        inside = np.flatnonzero(groups >= 0)
        terms = np.zeros(n_groups, dtype=np.int64)
        terms[groups[inside]] = codes[inside]
        if not np.array_equal(terms[groups[inside]], codes[inside]):
            raise InputError("a model with group terms needs constraints on its groups, or on some of them")
        return terms.tolist()

    def vjp_cells(self, weights: Floats, cells: Ints, n_cells: int) -> Floats:
        """Return ``Jᵀ`` times the weights of each cell's rows, none of cell −1: (n_cells, n_params)."""
        groups = self.intercept_codes if self.n_intercepts > 1 else self.design.codes
        shape = max(self.n_intercepts, self.design.n_codes), n_cells + 1
        places = np.where(cells >= 0, cells, n_cells)  # the last place is dropped
        sums = self.vjp_binned(np.zeros(weights.size), weights, places, groups, shape)
        return np.asarray(sums[:, :n_cells, 0, :-1].sum(axis=0))

    def rows(self, which: Ints) -> Floats:
        """Return some rows of J: (n_which, n_params)."""
        d = self.design.shape[1]
        out = np.zeros((which.size, self.n_params))
        first = d * self.design.codes[which].astype(np.int64)
        features = self.design.rows(which) / self.scales
        out[np.arange(which.size)[:, None], first[:, None] + np.arange(d)] = features
        if self.n_intercepts:
            out[np.arange(which.size), self.n_penalised + self.intercept_codes[which].astype(np.int64)] = 1
        return out

    def unpack(self, w: Floats) -> tuple[Floats, Floats]:
        """Return coefficients (n_codes, d) and intercepts (n_intercepts,)."""
        scaled = w[: self.n_penalised].reshape(self.design.n_codes, -1)
        return scaled / self.scales, w[self.n_penalised :]

    def pack(self, coefficients: Floats, intercepts: Floats) -> Floats:
        """Return the parameters w of given coefficients and intercepts."""
        return np.concatenate([(coefficients * self.scales).ravel(), intercepts])

    def scores(self, w: Floats) -> Floats:
        """Return the score of every row."""
        coefficients, intercepts = self.unpack(w)
        scores = self.design.forward(coefficients)
        if self.n_intercepts:
            _add_intercepts(scores, intercepts, self.intercept_codes)
        return scores

    def jvp(self, w: Floats, direction: Floats) -> Floats:
        """Return ``J(w) direction``: the scores of the direction."""
        return self.scores(direction)

    def vjp(self, w: Floats, vector: Floats) -> Floats:
        """Return ``J(w)ᵀ vector``; for a linear model J does not depend on w."""
        coefficients = self.design.backward(vector) / self.scales
        intercepts = np.zeros(self.n_intercepts)
        if self.n_intercepts:
            _add_by_code(intercepts, vector, self.intercept_codes)
        return np.concatenate([coefficients.ravel(), intercepts])


def linear_model(
    X: ArrayLike,
    *,
    codes: Ints | None = None,
    n_groups: int = 1,
    group_terms: GroupTerms = None,
    fit_intercept: bool = True,
    scales: Floats | float = 1.0,
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
    scales
        Units of the features, see `LinearModel`.
    """
    if group_terms not in (None, "intercept", "interactions"):
        raise InputError(f"group_terms must be None, 'intercept' or 'interactions', not {group_terms!r}")
    if group_terms == "intercept" and not fit_intercept:
        raise InputError("group_terms='intercept' needs fit_intercept=True")
    n_rows = X.n_rows if isinstance(X, CategoricalCodes) else X.shape[0]
    nobody = (np.zeros(n_rows, dtype=np.int8), 1)
    if group_terms is None:
        return LinearModel(as_design(X, *nobody), nobody[0], int(fit_intercept), scales)
    if codes is None:
        raise InputError(f"group_terms={group_terms!r} needs the group of every row")
    design = as_design(X, *((codes, n_groups) if group_terms == "interactions" else nobody))
    return LinearModel(design, codes, n_groups if fit_intercept else 0, scales)
