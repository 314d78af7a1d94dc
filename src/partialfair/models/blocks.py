"""Symmetric matrices that are block-diagonal up to the order of coordinates: Hessians of models by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from partialfair._typing import Floats, Ints

__all__ = ["BlockCholesky", "BlockMatrix"]


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
        for places, block in zip(self.positions, self.blocks, strict=True):
            out[places] = block @ vector[places]
        return out

    def cholesky(self, diagonal: Floats) -> BlockCholesky:
        """Factor this matrix plus a diagonal one; LinAlgError if the sum is not positive definite."""
        factors = []
        for places, block in zip(self.positions, self.blocks, strict=True):
            shifted = block.copy()
            shifted[np.diag_indices_from(shifted)] += diagonal[places]
            factors.append(linalg.cho_factor(shifted, overwrite_a=True, check_finite=False))
        return BlockCholesky(self.positions, tuple(factors))


@dataclass(frozen=True, eq=False)
class BlockCholesky:
    """A factored block matrix."""

    positions: tuple[Ints, ...]
    factors: tuple[Any, ...]

    def solve(self, right: Floats) -> Floats:
        """Return the solution for one right-hand side (n,) or several (n, m)."""
        out = np.empty_like(right)
        for places, factor in zip(self.positions, self.factors, strict=True):
            out[places] = linalg.cho_solve(factor, right[places], check_finite=False)
        return out
