"""A loss tied to rows."""

from __future__ import annotations

from dataclasses import dataclass

from partialfair.optimization.objectives._protocol import Difference, Loss
from partialfair.utils.typing import Floats

__all__ = ["Objective", "tied"]


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss, and what it needs to know of some rows besides their scores.

    Attributes
    ----------
    loss
        The formula.
    targets : (n,)
        Labels ±1, or numbers for losses of numbers.
    shares : (n,)
        Weights, normalised over *all* rows, those of other shards included.
    """

    loss: Loss | Difference
    targets: Floats
    shares: Floats

    @property
    def mean_target(self) -> float:
        """``Σ shares_i targets_i``: of all rows the mean, of a shard what it adds to the mean."""
        return float(self.shares @ self.targets)

    def take(self, rows: slice) -> Objective:
        """Return the objective of some rows, with the shares that they have among all; a shard may be empty.

        Only additive losses of shards add up to the whole.
        """
        return Objective(self.loss, self.targets[rows], self.shares[rows])


def tied(loss: Loss | Difference, targets: Floats, weights: Floats) -> Objective:
    """Return the loss of all rows.

    Parameters
    ----------
    loss
        The formula.
    targets : (n,)
        Labels ±1, or numbers for losses of numbers.
    weights : (n,)
        Non-negative, in any unit: the loss normalises them.
    """
    return Objective(loss, targets, loss.shares(targets, weights))
