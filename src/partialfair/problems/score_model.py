"""What a problem needs to know of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from partialfair._typing import Floats, Ints
from partialfair.models.blocks import BlockMatrix

__all__ = ["ScoreModel"]


class ScoreModel(Protocol):
    """A model is its scores and their derivative; everything else sees only scores."""

    @property
    def n_params(self) -> int:
        """Length of w."""

    @property
    def n_penalised(self) -> int:
        """Leading entries of w that the ℓ2 penalty acts on."""

    def scores(self, w: Floats) -> Floats:
        """Return the score of every row."""

    def jvp(self, w: Floats, direction: Floats) -> Floats:
        """Return ``J(w) direction``."""

    def vjp(self, w: Floats, vector: Floats) -> Floats:
        """Return ``J(w)ᵀ vector``."""

    def vjp_many(
        self, slopes: Callable[[int, int], Floats], groups: Ints, n_groups: int, n_columns: int
    ) -> tuple[Floats, Floats]:
        """Return ``J(w)ᵀ`` times many vectors, each restricted to one group, and the vectors' sums."""

    def vjp_binned(
        self, scores: Floats, weights: Floats, bins: Ints, groups: Ints, shape: tuple[int, int]
    ) -> Floats:
        """Return ``Jᵀ`` times weights, and times weights · scores, and their sums, of each group and bin."""

    def gram(self, weights: Floats) -> BlockMatrix:
        """Return ``Jᵀ diag(weights) J``."""

    @property
    def block_size(self) -> int:
        """Size of its largest block."""

    def rows(self, which: Ints) -> Floats:
        """Return some rows of J: (n_which, n_params)."""

    def vjp_cells(self, weights: Floats, cells: Ints, n_cells: int) -> Floats:
        """Return ``Jᵀ`` times the weights of each cell's rows: (n_cells, n_params)."""
