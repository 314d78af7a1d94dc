"""One Newton step under linearised constraints that may be violated at a price, solved in its dual.

``min_p  ⟨g, p⟩ + ½ pᵀAp + penalty · Σ max(0, c_i + ⟨C_i, p⟩)`` with A positive definite. There are few
constraints and many parameters: with A factored, the dual is a quadratic program in the multipliers alone,
``max_λ  λᵀ(c − C A⁻¹ g) − ½ λᵀ (C A⁻¹ Cᵀ) λ`` over ``0 ≤ λ ≤ penalty``.
"""

from __future__ import annotations

from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import sparse

from partialfair._typing import Floats
from partialfair.models.blocks import BlockCholesky

__all__ = ["ElasticModel"]


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

    def __post_init__(self) -> None:
        solved = self.factor.solve(np.column_stack([self.gradient, self.rows.T]))
        object.__setattr__(self, "_newton", solved[:, 0])
        object.__setattr__(self, "_solved", solved[:, 1:])
        object.__setattr__(self, "_gram", self.rows @ solved[:, 1:])

    def step(self, values: Floats) -> tuple[Floats, Floats]:
        """Return p and λ for constraints with these values at p = 0."""
        newton, solved, gram = self._newton, self._solved, self._gram  # type: ignore[attr-defined]
        multipliers = box_maximiser(gram, values - self.rows @ newton, self.penalty)
        return -newton - solved @ multipliers, multipliers


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
