"""A Hessian that recent steps correct: a computed one, or a diagonal if that would be too large.

``B = A − W M⁻¹ Wᵀ`` with ``W = [A S, Y]``: S holds the last steps, Y the changes of the gradient of the
Lagrangian along them (Byrd, Nocedal and Schnabel 1994, Theorem 2.3), and A is the matrix before them. If the
function is not convex, changes are damped (Powell 1978), so that B stays positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg

from partialfair.optimization.models.blocks import ArrowMatrix, BlockMatrix, Factored
from partialfair.utils.typing import Floats, Ints


@dataclass(frozen=True)
class LimitedSettings:
    """Settings of a `LimitedMemory`.

    Attributes
    ----------
    n_pairs
        Number of steps that are stored.
    damped
        Smallest fraction of the curvature of B along a step that a change of the gradient must have.
    smallest, largest
        Between these the diagonal is chosen, in addition to the penalty's.
    flat
        Curvature, in units of the block's largest, below which this value replaces it.
    """

    n_pairs: int = 40
    damped: float = 0.2
    smallest: float = 1e-3
    largest: float = 1e3
    flat: float = 1e-8


SETTINGS = LimitedSettings()


class PositiveBase(Protocol):
    """A: a positive definite matrix for which any added multiple of the identity is as easily inverted."""

    def __matmul__(self, right: Floats) -> Floats:
        """Return its product with one vector (n,) or several (n, m)."""

    def solve(self, right: Floats, shift: float) -> Floats:
        """Return ``(A + shift)⁻¹ right``."""

    def adapted(self, step: Floats, change: Floats) -> PositiveBase:
        """Return the base after a step with this change of the gradient."""

    def restricted(self, coordinates: Ints) -> PositiveBase:
        """Return its rows and columns of some coordinates, ascending, alone."""


@dataclass(frozen=True, eq=False)
class Diagonal:
    """A diagonal base.

    Attributes
    ----------
    penalties : (n,)
        Known second derivatives: those of the penalty.
    size
        The rest of the diagonal.
    """

    penalties: Floats
    size: float

    def __matmul__(self, right: Floats) -> Floats:
        return _align(self.penalties + self.size, right) * right

    def solve(self, right: Floats, shift: float) -> Floats:
        """As in `PositiveBase`."""
        return right / _align(self.penalties + self.size + shift, right)

    def adapted(self, step: Floats, change: Floats) -> Diagonal:
        """Return a base of another size."""
        # The rest of the diagonal, times the step, is the change that the penalty does not explain.
        # Between ⟨s, y⟩ / ⟨s, s⟩, which is small where curvatures differ, and ⟨y, y⟩ / ⟨s, y⟩.
        rest = change - self.penalties * step
        size = np.linalg.norm(rest) / np.linalg.norm(step)
        return replace(self, size=float(np.clip(size, SETTINGS.smallest, SETTINGS.largest)))

    def restricted(self, coordinates: Ints) -> Diagonal:
        """As in `PositiveBase`."""
        return replace(self, penalties=self.penalties[coordinates])


@dataclass(frozen=True, eq=False)
class AbsoluteHessian:
    """``|H|`` of a Hessian, by blocks: the length of steps along concave directions is that of convex ones.

    Recent steps correct the coupling of thresholds with parameters, which is omitted.

    Attributes
    ----------
    positions
        Coordinates of each block.
    values, vectors
        Absolute values of its eigenvalues, and its eigenvectors.
    """

    positions: tuple[Ints, ...]
    values: tuple[Floats, ...]
    vectors: tuple[Floats, ...]

    @classmethod
    def of(cls, hessian: ArrowMatrix) -> AbsoluteHessian:
        """Decompose the blocks, and the corner as one more."""
        n, n_theta = hessian.cross.shape
        positions = (*hessian.inner.positions, np.arange(n, n + n_theta))
        pairs = [np.linalg.eigh(block) for block in (*hessian.inner.blocks, hessian.corner)]
        # Steps along eigenvectors of negative curvature use its absolute value, and lead down.
        sizes = [np.abs(values) for values, _ in pairs]
        return cls(
            positions,
            tuple(np.maximum(size, SETTINGS.flat * size.max(initial=0.0)) for size in sizes),
            tuple(vectors for _, vectors in pairs),
        )

    def __matmul__(self, right: Floats) -> Floats:
        return self._scaled(right, self.values)

    def solve(self, right: Floats, shift: float) -> Floats:
        """As in `PositiveBase`."""
        return self._scaled(right, tuple(1 / (values + shift) for values in self.values))

    def adapted(self, step: Floats, change: Floats) -> AbsoluteHessian:
        """Return this matrix, because its curvature was computed."""
        return self

    def restricted(self, coordinates: Ints) -> PositiveBase:
        """As in `PositiveBase`."""
        return _FactoredBase(self._matrix.restricted(coordinates))

    @cached_property
    def _matrix(self) -> BlockMatrix:
        pairs = zip(self.values, self.vectors, strict=True)
        return BlockMatrix(self.positions, tuple((vectors * values) @ vectors.T for values, vectors in pairs))

    def _scaled(self, right: Floats, factors: tuple[Floats, ...]) -> Floats:
        out = np.empty_like(right)
        for coordinates, by, vectors in zip(self.positions, factors, self.vectors, strict=True):
            along = vectors.T @ right[coordinates]
            out[coordinates] = vectors @ (_align(by, along) * along)
        return out


@dataclass(frozen=True, eq=False)
class _FactoredBase:
    """Some rows and columns of an `AbsoluteHessian`, factored for one multiple of the identity at a time."""

    matrix: BlockMatrix
    _last_factor: dict[float, Factored] = field(default_factory=dict, init=False, repr=False)

    def __matmul__(self, right: Floats) -> Floats:
        return self.matrix @ right

    def solve(self, right: Floats, shift: float) -> Floats:
        """As in `PositiveBase`."""
        if shift not in self._last_factor:
            self._last_factor.clear()
            self._last_factor[shift] = self.matrix.cholesky(shift)
        return self._last_factor[shift].solve(right)

    def adapted(self, step: Floats, change: Floats) -> _FactoredBase:
        """Return this matrix, because its curvature was computed."""
        return self

    def restricted(self, coordinates: Ints) -> _FactoredBase:
        """As in `PositiveBase`."""
        return _FactoredBase(self.matrix.restricted(coordinates))


def _align(values: Floats, right: Floats) -> Floats:
    """Return values (n,) in a shape that multiplies the rows of one right-hand side or several."""
    return values.reshape(-1, *(1,) * (right.ndim - 1))


@dataclass(frozen=True, eq=False)
class LimitedMemory:
    """B and its parts.

    Attributes
    ----------
    base
        A.
    steps, changes : (n, k)
        S and Y.
    """

    base: PositiveBase
    steps: Floats
    changes: Floats

    @classmethod
    def start(cls, base: PositiveBase, n: int) -> LimitedMemory:
        """Return B before any step."""
        return cls(base, np.empty((n, 0)), np.empty((n, 0)))

    def __matmul__(self, vector: Floats) -> Floats:
        out = self.base @ vector
        if self.steps.shape[1]:
            out -= self._wide @ np.linalg.solve(self._middle, self._wide.T @ vector)
        return np.asarray(out)

    def updated(self, step: Floats, change: Floats) -> LimitedMemory:
        """Return B after a step with this change of the gradient of the Lagrangian."""
        along = self @ step
        curvature, expected = float(step @ change), float(step @ along)
        if expected <= 0 or not np.isfinite(curvature):
            return self
        base = self.base
        if curvature < SETTINGS.damped * expected:
            # Powell's damping: the change is mixed with what B expected, so that B stays positive definite.
            share = (1 - SETTINGS.damped) * expected / (expected - curvature)
            change = share * change + (1 - share) * along
        else:
            base = base.adapted(step, change)
        # The oldest pair is removed.
        steps = np.column_stack([self.steps[:, 1 - SETTINGS.n_pairs :], step])
        changes = np.column_stack([self.changes[:, 1 - SETTINGS.n_pairs :], change])
        return LimitedMemory(base, steps, changes)

    def cholesky(self, shift: float) -> Factored:
        """Return B plus a multiple of the identity, ready to be inverted."""
        n_pairs = self.steps.shape[1]
        wide, middle = (self._wide, self._middle) if n_pairs else (self.steps, np.empty((0, 0)))
        return _LimitedFactors(self.base, wide, middle, shift)

    @cached_property
    def _wide(self) -> Floats:
        return np.hstack([self.base @ self.steps, self.changes])

    @cached_property
    def _middle(self) -> Floats:
        # M = [[SᵀAS, L], [Lᵀ, −D]], with SᵀY = L + D + what is above the diagonal (Theorem 2.3).
        products = self.steps.T @ self.changes
        below = np.tril(products, -1)
        scaled = self.steps.T @ (self.base @ self.steps)
        return np.block([[scaled, below], [below.T, -np.diag(np.diag(products))]])


@dataclass(frozen=True, eq=False)
class _LimitedFactors:
    """``(B + shift)⁻¹`` by Woodbury's formula, with ``B = base − wide middle⁻¹ wideᵀ``."""

    base: PositiveBase
    wide: Floats
    middle: Floats
    shift: float

    def solve(self, right: Floats) -> Floats:
        """As in `Factored`."""
        # (A + τ)⁻¹ b + (A + τ)⁻¹ W [M − Wᵀ (A + τ)⁻¹ W]⁻¹ Wᵀ (A + τ)⁻¹ b
        solved = self.base.solve(right, self.shift)
        if not self.middle.size:
            return solved
        inner = linalg.lu_solve(self._inner, self.wide.T @ solved, check_finite=False)
        return np.asarray(solved + self._solved @ inner)

    def times(self, vector: Floats) -> Floats:
        """As in `Factored`."""
        out = self.base @ vector + self.shift * vector
        if self.middle.size:
            out -= self.wide @ np.linalg.solve(self.middle, self.wide.T @ vector)
        return np.asarray(out)

    def restricted(self, coordinates: Ints) -> _LimitedFactors:
        """As in `Factored`: the correction is a sum of products, of which some rows are used."""
        base = self.base.restricted(coordinates)
        return _LimitedFactors(base, self.wide[coordinates], self.middle, self.shift)

    @cached_property
    def _solved(self) -> Floats:
        return self.base.solve(self.wide, self.shift)

    @cached_property
    def _inner(self) -> tuple[Floats, Floats]:
        middle = self.middle - self.wide.T @ self._solved
        factors: tuple[Floats, Floats] = linalg.lu_factor(middle, check_finite=False)
        return factors
