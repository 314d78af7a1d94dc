"""Losses of score vectors: value and gradient in the scores, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numba import njit
from scipy.special import logit

from partialfair._typing import Floats

__all__ = ["LOSSES", "LogisticLoss", "Loss"]


class Loss(Protocol):
    """A convex function of the score vector."""

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""

    def curvature(self, scores: Floats) -> Floats:
        """Return the second derivative in each score; losses that couple scores have none to give."""

    def best_constant(self) -> float:
        """Return the score with the smallest loss if everybody has the same."""


@njit(cache=True)
def _logistic(scores: Floats, signs: Floats, shares: Floats, gradient: Floats) -> float:
    """Return the loss and fill ``gradient``."""
    total = 0.0
    for i in range(scores.size):
        margin = signs[i] * scores[i]
        small = np.exp(-abs(margin))  # never overflows
        total += shares[i] * (np.log1p(small) + max(-margin, 0.0))
        wrong = 1.0 / (1.0 + small) if margin < 0 else small / (1.0 + small)
        gradient[i] = -shares[i] * signs[i] * wrong
    return total


@njit(cache=True)
def _equal_logistic(scores: Floats, signs: Floats, share: float, gradient: Floats) -> float:
    """As `_logistic` with equal weights: one logarithm per 32 rows, of a product that is at most 2³²."""
    total, product = 0.0, 1.0
    for i in range(scores.size):
        margin = signs[i] * scores[i]
        small = np.exp(-abs(margin))
        product *= 1.0 + small
        if i % 32 == 31:
            total += np.log(product)
            product = 1.0
        total += max(-margin, 0.0)
        gradient[i] = -share * signs[i] * (1.0 if margin < 0 else small) / (1.0 + small)
    return share * (total + np.log(product))


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

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""
        gradient = np.empty(scores.size)
        if self._equal:
            return float(_equal_logistic(scores, self.signs, self.weights[0], gradient)), gradient
        return float(_logistic(scores, self.signs, self.weights, gradient)), gradient

    def curvature(self, scores: Floats) -> Floats:
        """Return ``ω_i σ(s_i)(1 − σ(s_i))``."""
        small = np.exp(-np.abs(scores))
        return np.asarray(self.weights * small / (1 + small) ** 2)

    def best_constant(self) -> float:
        """Return the log-odds of the weighted share of positives."""
        positive = float(self.weights[self.signs > 0].sum())
        return float(logit(np.clip(positive, 1e-9, 1 - 1e-9)))

    @cached_property
    def _equal(self) -> bool:
        return bool(np.ptp(self.weights) == 0)


LOSSES: dict[str, type[LogisticLoss]] = {"logistic": LogisticLoss}
"""Names that estimators accept."""
