"""Symmetric matrices that are block-diagonal up to the order of coordinates: Hessians of models by group.

The few thresholds couple with all parameters: they border the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import linalg

from partialfair.utils.typing import Floats, Ints


class Factored(Protocol):
    """A matrix that can be inverted."""

    def solve(self, right: Floats) -> Floats:
        """Return the solution for one right-hand side (n,) or several (n, m)."""

    def times(self, vector: Floats) -> Floats:
        """Return its product with a vector."""

    def restricted(self, coordinates: Ints) -> Factored:
        """Factor its rows and columns of some coordinates, ascending, alone."""


@dataclass(frozen=True, eq=False)
class BlockMatrix:
    """A symmetric matrix that is 0 outside its blocks.

    Attributes
    ----------
    positions
        Coordinates of each block; together they are all coordinates.
    blocks
        The matrices.
    """

    positions: tuple[Ints, ...]
    blocks: tuple[Floats, ...]

    def __matmul__(self, vector: Floats) -> Floats:
        out = np.empty_like(vector)
        for coordinates, block in zip(self.positions, self.blocks, strict=True):
            out[coordinates] = block @ vector[coordinates]
        return out

    def minus(self, other: BlockMatrix, factor: float) -> BlockMatrix:
        """Return this matrix minus a multiple of another with the same blocks, or of one block."""
        # Pairwise losses couple all rows: their Hessians are one block where others have one per group.
        if len(self.blocks) != len(other.blocks):
            return self.merged().minus(other.merged(), factor)
        pairs = zip(self.blocks, other.blocks, strict=True)
        return BlockMatrix(self.positions, tuple(block - factor * less for block, less in pairs))

    def plus_squares(self, rows: Floats, weight: float) -> BlockMatrix:
        """Return this matrix plus ``weight · rowsᵀ rows``; blocks that a row couples become one."""
        # Entries of each row by block; a row with entries in two blocks couples them.
        rows_of_blocks = [rows[:, coordinates] for coordinates in self.positions]
        n_blocks_of_rows = np.array([entries.any(axis=1) for entries in rows_of_blocks]).sum(axis=0)
        if (n_blocks_of_rows > 1).any():
            return self.merged().plus_squares(rows, weight)
        pairs = zip(self.blocks, rows_of_blocks, strict=True)
        # Each row lies in one block, so its square changes that block only.
        summed = tuple(block + weight * (entries.T @ entries) for block, entries in pairs)
        return BlockMatrix(self.positions, summed)

    def plus_product(self, rows: Floats, core: Floats) -> BlockMatrix:
        """Return this matrix plus ``rowsᵀ core rows`` as one block."""
        whole = self.merged()
        return BlockMatrix(whole.positions, (whole.blocks[0] + rows.T @ (core @ rows),))

    def merged(self) -> BlockMatrix:
        """Return this matrix as one block."""
        whole = np.zeros((sum(len(coordinates) for coordinates in self.positions),) * 2)
        for coordinates, block in zip(self.positions, self.blocks, strict=True):
            whole[np.ix_(coordinates, coordinates)] = block
        return BlockMatrix((np.arange(len(whole)),), (whole,))

    def restricted(self, coordinates: Ints) -> BlockMatrix:
        """Return the rows and columns of some coordinates, ascending, alone."""
        chosen = [np.flatnonzero(np.isin(block, coordinates)) for block in self.positions]
        pairs = [(which, k) for k, which in enumerate(chosen) if which.size]  # blocks may vanish
        return BlockMatrix(
            tuple(np.searchsorted(coordinates, self.positions[k][which]) for which, k in pairs),
            tuple(self.blocks[k][np.ix_(which, which)] for which, k in pairs),
        )

    def cholesky(self, shift: float) -> BlockCholesky:
        """Factor this matrix plus a multiple of the identity; LinAlgError if it is not positive definite."""
        factors = []
        for block in self.blocks:
            shifted = block.copy()  # other shifts of the same matrix may follow
            shifted[np.diag_indices_from(shifted)] += shift
            factors.append(linalg.cho_factor(shifted, overwrite_a=True, check_finite=False))
        return BlockCholesky(self, shift, tuple(factors))


@dataclass(frozen=True, eq=False)
class _Shifted:
    """Common methods of factors of a matrix plus a multiple of the identity."""

    matrix: BlockMatrix | ArrowMatrix
    shift: float

    def times(self, vector: Floats) -> Floats:
        """As in `Factored`."""
        return self.matrix @ vector + self.shift * vector

    def restricted(self, coordinates: Ints) -> Factored:
        """As in `Factored`."""
        return self.matrix.restricted(coordinates).cholesky(self.shift)


@dataclass(frozen=True, eq=False)
class BlockCholesky(_Shifted):
    """A factored block matrix plus a multiple of the identity."""

    matrix: BlockMatrix
    factors: tuple[Any, ...]

    def solve(self, right: Floats) -> Floats:
        """As in `Factored`."""
        out = np.empty_like(right)
        for coordinates, factor in zip(self.matrix.positions, self.factors, strict=True):
            out[coordinates] = linalg.cho_solve(factor, right[coordinates], check_finite=False)
        return out


@dataclass(frozen=True, eq=False)
class ArrowMatrix:
    """``[[inner, cross], [crossᵀ, corner]]``.

    Attributes
    ----------
    inner
        Block of the parameters.
    cross : (n_params, n_theta)
        Block between parameters and thresholds.
    corner : (n_theta, n_theta)
        Block of the thresholds.
    """

    inner: BlockMatrix
    cross: Floats
    corner: Floats

    def __matmul__(self, vector: Floats) -> Floats:
        w, theta = np.split(vector, [len(self.cross)])
        return np.concatenate([self.inner @ w + self.cross @ theta, w @ self.cross + self.corner @ theta])

    def minus(self, other: ArrowMatrix, factor: float) -> ArrowMatrix:
        """Return this matrix minus a multiple of another with the same blocks."""
        return ArrowMatrix(
            self.inner.minus(other.inner, factor),
            self.cross - factor * other.cross,
            self.corner - factor * other.corner,
        )

    def plus_squares(self, rows: Floats, weight: float) -> ArrowMatrix:
        """Return this matrix plus ``weight · rowsᵀ rows``."""
        inner, outer = np.split(rows, [len(self.cross)], axis=1)
        return ArrowMatrix(
            self.inner.plus_squares(inner, weight),
            self.cross + weight * (inner.T @ outer),
            self.corner + weight * (outer.T @ outer),
        )

    def shifted(self, shift: float) -> ArrowMatrix:
        """Return this matrix plus a multiple of the identity."""
        blocks = tuple(block + shift * np.eye(len(block)) for block in self.inner.blocks)
        corner = self.corner + shift * np.eye(len(self.corner))
        return ArrowMatrix(BlockMatrix(self.inner.positions, blocks), self.cross, corner)

    def restricted(self, coordinates: Ints) -> ArrowMatrix:
        """Return the rows and columns of some coordinates, ascending, alone."""
        n = len(self.cross)
        w, theta = coordinates[coordinates < n], coordinates[coordinates >= n] - n
        return ArrowMatrix(
            self.inner.restricted(w), self.cross[np.ix_(w, theta)], self.corner[np.ix_(theta, theta)]
        )

    def cholesky(self, shift: float) -> Factored:
        """Factor this matrix plus a multiple of the identity; LinAlgError if it is not positive definite."""
        inner = self.inner.cholesky(shift)
        if not self.corner.size:
            return inner
        # The Schur complement in the thresholds, which are few: C − Bᵀ A⁻¹ B.
        solved = inner.solve(self.cross)
        schur = self.corner + shift * np.eye(len(self.corner)) - self.cross.T @ solved
        factor = linalg.cho_factor(schur, overwrite_a=True, check_finite=False)
        return _ArrowCholesky(self, shift, inner, solved, factor)


@dataclass(frozen=True, eq=False)
class _ArrowCholesky(_Shifted):
    """An arrow matrix plus a multiple of the identity, factored by its Schur complement in the thresholds."""

    inner: BlockCholesky
    solved: Floats
    schur: Any

    def solve(self, right: Floats) -> Floats:
        """As in `Factored`."""
        # Eliminate w, solve for θ, substitute back.
        upper, lower = np.split(right, [len(self.solved)])
        theta = linalg.cho_solve(self.schur, lower - self.solved.T @ upper, check_finite=False)
        return np.concatenate([self.inner.solve(upper) - self.solved @ theta, theta])
