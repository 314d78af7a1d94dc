"""Losses of score vectors: value and gradient in the scores, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from partialfair._typing import Floats

__all__ = ["LogisticLoss", "Loss"]


class Loss(Protocol):
    """A convex function of the score vector."""

    def value(self, scores: Floats) -> float:
        """Return the loss."""

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""


@njit(cache=True)
def _logistic(scores: Floats, signs: Floats, shares: Floats, gradient: Floats) -> float:
    """Return the loss; fill ``gradient`` unless it is empty."""
    total = 0.0
    for i in range(scores.size):
        margin = signs[i] * scores[i]
        small = np.exp(-abs(margin))  # never overflows
        total += shares[i] * (np.log1p(small) + max(-margin, 0.0))
        if gradient.size:
            wrong = 1.0 / (1.0 + small) if margin < 0 else small / (1.0 + small)
            gradient[i] = -shares[i] * signs[i] * wrong
    return total


@dataclass(frozen=True, eq=False)
class LogisticLoss:
    """Weighted mean logistic loss ``Σ ω_i ln(1 + exp(−ζ_i s_i))``, ``ω = weights / Σ weights`` (Ex. objerm).

    Parameters
    ----------
    signs : (n,)
        Labels ζ as ±1.
    weights : (n,)
        Non-negative weights.
    """

    signs: Floats
    weights: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", self.weights / self.weights.sum())

    def value(self, scores: Floats) -> float:
        """Return the loss."""
        return float(_logistic(scores, self.signs, self.weights, np.empty(0)))

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""
        gradient = np.empty(scores.size)
        return float(_logistic(scores, self.signs, self.weights, gradient)), gradient
