"""A Hessian of which only the last steps are remembered: for problems whose own would be too large.

``B = D − W M⁻¹ Wᵀ`` with a diagonal D and ``W = [D S, Y]``: S holds the last steps, Y by how much the
gradient of the Lagrangian changed along them (Byrd, Nocedal and Schnabel 1994, Theorem 2.3). Where a function
is not convex, changes are damped (Powell 1978), so that B stays positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from partialfair._typing import Floats
from partialfair.models.blocks import Factored

__all__ = ["LimitedMemory"]

_PAIRS = 40
"""Steps that are remembered."""
_DAMPED = 0.2
"""Share of the curvature of B along a step that a change of the gradient must show at least."""
_SMALLEST, _LARGEST = 1e-3, 1e3
"""Between these the diagonal is chosen, beside the penalty's."""


@dataclass(frozen=True, eq=False)
class LimitedMemory:
    """B, with what it was made of.

    Attributes
    ----------
    penalties : (n,)
        Second derivatives that are known: those of the penalty.
    size
        The rest of the diagonal.
    steps, changes : (n, k)
        S and Y.
    """

    penalties: Floats
    size: float
    steps: Floats
    changes: Floats

    @classmethod
    def start(cls, penalties: Floats, size: float) -> LimitedMemory:
        """Return a diagonal."""
        return cls(penalties, size, np.empty((penalties.size, 0)), np.empty((penalties.size, 0)))

    @property
    def diagonal(self) -> Floats:
        """D."""
        return self.penalties + self.size

    def __matmul__(self, vector: Floats) -> Floats:
        out = self.diagonal * vector
        if self.steps.shape[1]:
            out -= self._wide @ np.linalg.solve(self._middle, self._wide.T @ vector)
        return np.asarray(out)

    def updated(self, step: Floats, change: Floats) -> LimitedMemory:
        """Return B after a step along which the gradient of the Lagrangian changed by so much."""
        along = self @ step
        curvature, expected = float(step @ change), float(step @ along)
        if expected <= 0 or not np.isfinite(curvature):
            return self
        size = self.size
        if curvature < _DAMPED * expected:
            share = (1 - _DAMPED) * expected / (expected - curvature)
            change = share * change + (1 - share) * along
        else:
            # Between ⟨s, y⟩ / ⟨s, s⟩, which is small where curvatures differ, and ⟨y, y⟩ / ⟨s, y⟩.
            rest = change - self.penalties * step
            size = float(np.clip(np.linalg.norm(rest) / np.linalg.norm(step), _SMALLEST, _LARGEST))
        steps = np.column_stack([self.steps[:, 1 - _PAIRS :], step])
        changes = np.column_stack([self.changes[:, 1 - _PAIRS :], change])
        return replace(self, size=size, steps=steps, changes=changes)

    def cholesky(self, shift: float) -> Factored:
        """Return B plus a multiple of the identity, ready to be inverted."""
        return _LimitedFactors(self, shift)

    @cached_property
    def _wide(self) -> Floats:
        return np.hstack([self.diagonal[:, None] * self.steps, self.changes])

    @cached_property
    def _middle(self) -> Floats:
        products = self.steps.T @ self.changes
        below = np.tril(products, -1)
        scaled = self.steps.T @ (self.diagonal[:, None] * self.steps)
        return np.block([[scaled, below], [below.T, -np.diag(np.diag(products))]])


@dataclass(frozen=True, eq=False)
class _LimitedFactors:
    """``(B + τ)⁻¹`` by Woodbury's formula."""

    matrix: LimitedMemory
    shift: float

    def solve(self, right: Floats) -> Floats:
        """As in `Factored`."""
        scaled = right / self._diagonal.reshape(-1, *(1,) * (right.ndim - 1))
        if not self.matrix.steps.shape[1]:
            return scaled
        inner = linalg.lu_solve(self._inner, self._scaled.T @ right, check_finite=False)
        return np.asarray(scaled + self._scaled @ inner)

    @cached_property
    def _diagonal(self) -> Floats:
        return self.matrix.diagonal + self.shift

    @cached_property
    def _scaled(self) -> Floats:
        return self.matrix._wide / self._diagonal[:, None]

    @cached_property
    def _inner(self) -> tuple[Floats, Floats]:
        middle = self.matrix._middle - self.matrix._wide.T @ self._scaled
        factors: tuple[Floats, Floats] = linalg.lu_factor(middle, check_finite=False)
        return factors
