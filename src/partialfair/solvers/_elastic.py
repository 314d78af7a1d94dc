"""One Newton step under linearised constraints that may be violated at a price, solved in its dual.

``min_p  ⟨g, p⟩ + ½ pᵀAp + penalty · Σ max(0, c_i + ⟨C_i, p⟩)`` with A positive definite. There are few
constraints and many parameters: with A factored, the dual is a quadratic program in the multipliers alone,
``max_λ  λᵀ(c − C A⁻¹ g) − ½ λᵀ (C A⁻¹ Cᵀ) λ`` over ``0 ≤ λ ≤ penalty``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import clarabel
import numpy as np
from scipy import sparse

from partialfair._typing import Floats
from partialfair.models.blocks import BlockCholesky

__all__ = ["ElasticModel", "box_maximiser"]


@dataclass(frozen=True, eq=False)
class ElasticModel:
    """The step's model with A factored; constraints' values may change without factoring again.

    Parameters
    ----------
    factor
        Cholesky factors of A.
    gradient
        g.
    rows : (m, n)
        The C_i.
    penalty
        Price of a unit of violation.
    """

    factor: BlockCholesky
    gradient: Floats
    rows: Floats
    penalty: float

    def step(self, values: Floats) -> tuple[Floats, Floats]:
        """Return p and λ for constraints with these values at p = 0."""
        newton, pushes = self._solved[:, 0], self._solved[:, 1:]
        multipliers = box_maximiser(self._gram, values - self.rows @ newton, self.penalty)
        return -newton - pushes @ multipliers, multipliers

    @cached_property
    def _solved(self) -> Floats:
        """``A⁻¹ (g, C_1, ..., C_m)``, by columns."""
        return self.factor.solve(np.column_stack([self.gradient, self.rows.T]))

    @cached_property
    def _gram(self) -> Floats:
        """``C A⁻¹ Cᵀ``."""
        return np.asarray(self.rows @ self._solved[:, 1:])


def box_maximiser(gram: Floats, linear: Floats, bound: float) -> Floats:
    """Return the λ in [0, bound]ᵐ that maximises ``⟨linear, λ⟩ − ½ λᵀ gram λ``."""
    m = linear.size
    if m == 0:
        return np.zeros(0)
    # Constraints that stay satisfied whatever the others' multipliers do cannot have one.
    reach = bound * np.maximum(-(gram - np.diag(np.diag(gram))), 0).sum(axis=1)
    kept = np.flatnonzero(linear + reach > 0)
    out = np.zeros(m)
    if kept.size == 0:
        return out
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    eye = sparse.identity(kept.size, format="csc")
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(gram[np.ix_(kept, kept)])),
        -linear[kept],
        sparse.vstack([-eye, eye], format="csc"),
        np.concatenate([np.zeros(kept.size), np.full(kept.size, bound)]),
        [clarabel.NonnegativeConeT(2 * kept.size)],
        settings,
    ).solve()
    out[kept] = np.clip(np.array(solution.x), 0.0, bound)
    return out
