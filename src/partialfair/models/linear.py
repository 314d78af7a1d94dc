"""Linear scorers on any feature matrix, with or without terms of the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numba import njit

from partialfair._typing import ArrayLike, Floats, Ints
from partialfair.categoricals import CategoricalCodes
from partialfair.exceptions import InputError
from partialfair.models._designs import Design, as_design

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
