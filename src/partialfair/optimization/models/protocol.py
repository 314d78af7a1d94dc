"""What a problem needs to know of a model: its scores, and how their derivative acts.

Everything else sees only scores. First-order methods require a `ScoreModel`; Newton steps, kinks and
certificates require `LinearScores`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.optimization.models.blocks import BlockMatrix
from partialfair.optimization.models.parameters import Parameters
from partialfair.utils.typing import Floats, Ints

__all__ = ["HasDeployedScores", "LinearScores", "ScoreModel"]


class ScoreModel(Protocol):
    """``s = s(w)``, and the Jacobian J(w), whose row i is the gradient of score i in w."""

    @property
    def parameters(self) -> Parameters:
        """How long w is, and how it is divided."""

    def scores(self, w: Floats) -> Floats:
        """Return the score of every row: (n,)."""

    def vjp(self, w: Floats, columns: RowColumns) -> Floats:
        """Return ``J(w)ᵀ C``, and last the columns' plain sums: (n_blocks, n_columns, n_params + 1)."""


@runtime_checkable
class LinearScores(ScoreModel, Protocol):
    """``s = offset + J w``: J is the same everywhere, and more can be asked of it."""

    def along(self, direction: Floats) -> Floats:
        """Return ``J direction``, without the offset: (n,)."""

    def gram(self, weights: Floats) -> BlockMatrix:
        """Return ``Jᵀ diag(weights) J``."""

    def rows(self, which: Ints) -> Floats:
        """Return some rows of J: (n_which, n_params)."""


@runtime_checkable
class HasDeployedScores(Protocol):
    """A model that is deployed with other parameters, which may round its scores differently.

    Constraints must be satisfied by the scores that users compute.
    """

    def deployed_scores(self, w: Floats, scores: Floats) -> Floats:
        """Return the scores that users compute, given ``s(w)``: the same, to the last digit."""
