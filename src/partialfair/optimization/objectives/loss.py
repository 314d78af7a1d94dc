"""The interface of losses: formulas of scores, targets and shares, with derivatives in the scores.

Losses hold no rows and do not normalize when they are evaluated: shares are normalized over all rows before
(`Loss.shares`), so that a loss can be evaluated on any part of them, a *shard*. Values of additive losses
then add up over shards; slopes and diagonals of curvatures are one number per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from partialfair.utils.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class Coupling:
    """``Σ_cd core[c, d] a_c a_dᵀ``, where a_c holds the weights of the rows of cell c.

    Attributes
    ----------
    cells : (n,)
        Cell of each row, −1 for none.
    weights : (n,)
        Of each row in its cell.
    core : (n_cells, n_cells)
        Symmetric.
    """

    cells: Ints
    weights: Floats
    core: Floats

    def product(self, along: Floats) -> Floats:
        """Return this matrix times a vector."""
        # aᵀ along for each cell, core times the result, then back to the rows; the matrix is never formed.
        inside = self.cells >= 0
        cells, weights = self.cells[inside], self.weights[inside]
        sums = np.bincount(cells, weights * along[inside], minlength=len(self.core))
        out = np.zeros(along.size)
        out[inside] = weights * (self.core @ sums)[cells]
        return out


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivative of a loss in the scores: ``diag(diagonal)`` plus couplings of scores.

    Pairwise losses may return an average over similar pairs, because steps need it only roughly. The sum of
    all parts is positive semidefinite. Additive losses have no couplings.

    Attributes
    ----------
    diagonal : (n,)
        May be the array of the rows' shares itself, so it must not be changed.
    couplings
        Added to the diagonal matrix.
    """

    diagonal: Floats
    couplings: tuple[Coupling, ...] = ()

    def product(self, along: Floats) -> Floats:
        """Return this matrix times a vector."""
        out = self.diagonal * along
        for coupling in self.couplings:
            out += coupling.product(along)
        return out


class Loss(Protocol):
    """A convex function of the scores of some rows, given the rows' targets and shares.

    ``targets`` are labels ±1, or numbers for regression losses; ``shares`` come from `shares` of all rows. An
    additive loss may get any part of the rows, even none; others get all rows together.
    """

    @property
    def additive(self) -> bool:
        """Whether the loss is a sum over rows."""

    def shares(self, targets: Floats, weights: Floats) -> Floats:
        """Return the weights of all rows, normalized for the loss."""

    def value_and_slopes(self, scores: Floats, targets: Floats, shares: Floats) -> tuple[float, Floats]:
        """Return the loss of the rows and its gradient in their scores, or a subgradient."""

    def curvature(self, scores: Floats, targets: Floats, shares: Floats) -> Curvature:
        """Return the second derivative in the scores."""

    def best_constant(self, mean_target: float) -> float:
        """Return the common score of all rows with the smallest loss.

        Parameters
        ----------
        mean_target
            ``shares @ targets`` of all rows.
        """


@dataclass(frozen=True)
class Difference:
    """``f_0 = plus − minus`` of two convex losses (Example D.2); solvers linearize the second.

    Both parts weight rows equally: they have the same shares.
    """

    plus: Loss
    minus: Loss

    @property
    def additive(self) -> bool:
        """Whether both parts are sums over rows."""
        return self.plus.additive and self.minus.additive

    def shares(self, targets: Floats, weights: Floats) -> Floats:
        """Return the weights of all rows, normalized for both parts."""
        return self.plus.shares(targets, weights)

    def value_and_slopes(self, scores: Floats, targets: Floats, shares: Floats) -> tuple[float, Floats]:
        """Return the difference and an element of ``∂plus − ∂minus``."""
        # ∂plus − ∂minus: an element of the generalized gradient, and the gradient where both are smooth.
        plus, plus_slopes = self.plus.value_and_slopes(scores, targets, shares)
        minus, minus_slopes = self.minus.value_and_slopes(scores, targets, shares)
        return plus - minus, plus_slopes - minus_slopes

    def best_constant(self, mean_target: float) -> float:
        """Return that of the convex part."""
        return self.plus.best_constant(mean_target)


@dataclass(frozen=True)
class Mirrored:
    """``s ↦ loss(−s)``: the same loss if low scores are favorable."""

    loss: Loss

    @property
    def additive(self) -> bool:
        """Whether the loss is a sum over rows."""
        return self.loss.additive

    def shares(self, targets: Floats, weights: Floats) -> Floats:
        """Return the weights of all rows, normalized for the loss."""
        return self.loss.shares(targets, weights)

    def value_and_slopes(self, scores: Floats, targets: Floats, shares: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the mirrored scores."""
        value, slopes = self.loss.value_and_slopes(-scores, targets, shares)
        return value, -slopes

    def curvature(self, scores: Floats, targets: Floats, shares: Floats) -> Curvature:
        """Return the second derivative, in which two signs cancel."""
        return self.loss.curvature(-scores, targets, shares)

    def best_constant(self, mean_target: float) -> float:
        """Return the mirrored score."""
        return -self.loss.best_constant(mean_target)


def mirror_loss(loss: Loss | Difference) -> Loss | Difference:
    """Return ``s ↦ loss(−s)``, convex where the loss is."""
    if isinstance(loss, Difference):  # each part separately, so that both stay convex
        return Difference(Mirrored(loss.plus), Mirrored(loss.minus))
    return Mirrored(loss)


def split_loss(loss: Loss | Difference) -> tuple[Loss, Loss | None]:
    """Return the convex part of a loss, and the part that is subtracted, if there is one."""
    return (loss.plus, loss.minus) if isinstance(loss, Difference) else (loss, None)


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss, and the data of some rows that it needs in addition to their scores.

    Attributes
    ----------
    loss
        The formula.
    targets : (n,)
        Labels ±1, or numbers for regression losses.
    shares : (n,)
        Weights, normalized over *all* rows, those of other shards included.
    """

    loss: Loss | Difference
    targets: Floats
    shares: Floats

    @property
    def mean_target(self) -> float:
        """``Σ shares_i targets_i``: the mean over all rows, or the contribution of a shard to it."""
        return float(self.shares @ self.targets)

    def take(self, rows: slice) -> Objective:
        """Return the objective of some rows, with their shares among all rows; a shard may be empty.

        Only additive losses of shards add up to the whole.
        """
        return Objective(self.loss, self.targets[rows], self.shares[rows])


def tie_loss(loss: Loss | Difference, targets: Floats, weights: Floats) -> Objective:
    """Return the loss of all rows.

    Parameters
    ----------
    loss
        The formula.
    targets : (n,)
        Labels ±1, or numbers for regression losses.
    weights : (n,)
        Non-negative, in any unit: the loss normalizes them.
    """
    return Objective(loss, targets, loss.shares(targets, weights))
