"""Models as matrices: scores of given coefficients, and gradients, with and without group terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from _judging import Case, Model
from partialfair.data.categoricals import CategoricalCodes


@dataclass(frozen=True, eq=False)
class Design:
    """The features as a matrix, and the linear map from coefficients to scores.

    Attributes
    ----------
    X
        Dense or CSR.
    members
        Rows of each coefficient vector: all rows, or those of one group.
    """

    X: Any
    members: tuple[Any, ...]

    @classmethod
    def of(cls, case: Case) -> Design:
        """Return the design of a problem."""
        X = case.X.to_csr() if isinstance(case.X, CategoricalCodes) else case.X
        if case.group_terms is None:
            return cls(X, (slice(None),))
        return cls(X, tuple(np.flatnonzero(case.codes == code) for code in range(case.sizes.size)))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of coefficient vectors, and of coefficients of each."""
        return len(self.members), self.X.shape[1]

    def model(self, coef: Any, intercept: Any) -> Model:
        """Return a model with its scores."""
        scores = np.empty(self.X.shape[0])
        for k, rows in enumerate(self.members):
            scores[rows] = _product(self.X[rows], coef[k]) + intercept[k]
        return Model(coef, intercept, scores)

    def pull(self, by_score: Any) -> tuple[Any, Any]:
        """Return the gradient in coefficients and intercepts of a function of the scores."""
        coef = np.array([self.X[rows].T @ by_score[rows] for rows in self.members])
        return coef, np.array([by_score[rows].sum() for rows in self.members])

    def axis(self, k: int, j: int) -> Model:
        """Return the direction of one coefficient."""
        coef, scores = np.zeros(self.shape), np.zeros(self.X.shape[0])
        coef[k, j] = 1.0
        column = self.X[:, [j]].toarray().ravel() if sparse.issparse(self.X) else self.X[:, j]
        scores[self.members[k]] = column[self.members[k]]
        return Model(coef, np.zeros(len(self.members)), scores)


def _product(X: Any, coef: Any) -> Any:
    """Return ``X @ coef`` with equal scores for equal rows, which BLAS may round differently."""
    return X @ coef if sparse.issparse(X) else (X * coef).sum(axis=1)
