"""What a loss is: values, gradients and second derivatives in the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from partialfair._typing import Floats, Ints

__all__ = ["Coupling", "Curvature", "Difference", "Loss", "LossSettings", "Mirrored", "mirrored", "parts"]


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
        inside = self.cells >= 0
        cells, weights = self.cells[inside], self.weights[inside]
        sums = np.bincount(cells, weights * along[inside], minlength=len(self.core))
        out = np.zeros(along.size)
        out[inside] = weights * (self.core @ sums)[cells]
        return out


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivative of a loss in the scores: ``diag(diagonal)`` and what couples the scores.

    Losses of pairs may give an average over similar pairs: steps need it only roughly. Together the parts are
    positive semidefinite.
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
    """A convex function of the score vector."""

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores, or a subgradient."""

    def curvature(self, scores: Floats) -> Curvature:
        """Return the second derivative in the scores."""

    def best_constant(self) -> float:
        """Return the score with the smallest loss if everybody has the same."""


@dataclass(frozen=True, eq=False)
class Difference:
    """``f_0 = plus − minus`` of two convex losses (Ex. objauc); solvers linearise the second."""

    plus: Loss
    minus: Loss

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the difference and an element of ``∂plus − ∂minus``."""
        value, gradient = self.plus.value_and_gradient(scores)
        less, slope = self.minus.value_and_gradient(scores)
        return value - less, gradient - slope

    def best_constant(self) -> float:
        """Return that of the convex part."""
        return self.plus.best_constant()


@dataclass(frozen=True, eq=False)
class Mirrored:
    """``s ↦ loss(−s)``: the same loss for scores that count downwards."""

    loss: Loss

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the mirrored scores."""
        value, gradient = self.loss.value_and_gradient(-scores)
        return value, -gradient

    def curvature(self, scores: Floats) -> Curvature:
        """Return the second derivative, in which two signs cancel."""
        return self.loss.curvature(-scores)

    def best_constant(self) -> float:
        """Return the mirrored score."""
        return -self.loss.best_constant()


def mirrored(loss: Loss | Difference) -> Loss | Difference:
    """Return ``s ↦ loss(−s)``, convex where the loss is."""
    if isinstance(loss, Difference):
        return Difference(Mirrored(loss.plus), Mirrored(loss.minus))
    return Mirrored(loss)


def parts(loss: Loss | Difference) -> tuple[Loss, Loss | None]:
    """Return the convex part of a loss, and what is subtracted from it, if anything."""
    return (loss.plus, loss.minus) if isinstance(loss, Difference) else (loss, None)


class LossSettings(Protocol):
    """A loss before it is tied to data; what estimators accept."""

    def build(self, targets: Floats, weights: Floats, *, anchored: bool = True) -> Loss | Difference:
        """Return the loss of some rows.

        Parameters
        ----------
        targets : (n,)
            Labels ±1, or numbers for losses of numbers.
        weights : (n,)
            Non-negative weights.
        anchored
            Whether scores have an intercept, which losses of pairs then tie down.
        """
