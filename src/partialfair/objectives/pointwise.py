"""Mean losses of single scores (Ex. objerm): value and gradient in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from scipy.special import logit

from partialfair._typing import Floats
from partialfair.objectives._protocol import Curvature

__all__ = ["HingeLoss", "LogisticLoss", "SquaredLoss"]


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

    def curvature(self, scores: Floats) -> Curvature:
        """Return ``ω_i σ(s_i)(1 − σ(s_i))``."""
        small = np.exp(-np.abs(scores))
        return Curvature(self.weights * small / (1 + small) ** 2)

    def best_constant(self) -> float:
        """Return the log-odds of the weighted share of positives."""
        positive = float(self.weights[self.signs > 0].sum())
        return float(logit(np.clip(positive, 1e-9, 1 - 1e-9)))

    @cached_property
    def _equal(self) -> bool:
        return bool(np.ptp(self.weights) == 0)


@dataclass(frozen=True, eq=False)
class SquaredLoss:
    """Weighted mean squared loss ``½ Σ ω_i (s_i − y_i)²``, ``ω = weights / Σ weights`` (Ex. objerm).

    Parameters
    ----------
    targets : (n,)
        Numbers y; labels as ±1 will do.
    weights : (n,)
        Non-negative weights.
    """

    targets: Floats
    weights: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", self.weights / self.weights.sum())

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""
        residuals = scores - self.targets
        gradient = self.weights * residuals
        return 0.5 * float(gradient @ residuals), gradient

    def curvature(self, scores: Floats) -> Curvature:
        """Return ω."""
        return Curvature(self.weights)

    def best_constant(self) -> float:
        """Return the weighted mean of the targets."""
        return float(self.weights @ self.targets)


@dataclass(frozen=True, eq=False)
class HingeLoss:
    """Weighted mean hinge loss ``Σ ω_i (1 − ζ_i s_i)_+``, ``ω = weights / Σ weights`` (Ex. objerm).

    Parameters
    ----------
    signs : (n,)
        Labels ζ as ±1.
    weights : (n,)
        Non-negative weights.
    rounding
        Width over which the corner is rounded, by a parabola: ``(x + rounding/2)² / (2 rounding)`` instead of
        x_+ where ``|x| < rounding/2``, which adds at most rounding/8. 0 leaves it sharp: solvers that need
        only subgradients then take it as it is, the others end without a certificate.
    """

    signs: Floats
    weights: Floats
    rounding: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", self.weights / self.weights.sum())

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores; at a sharp corner that of the flat side."""
        shortfalls = 1 - self.signs * scores
        if self.rounding > 0:
            inside = np.clip(shortfalls + self.rounding / 2, 0.0, self.rounding)
            slopes = inside / self.rounding
            losses = 0.5 * inside * slopes + np.maximum(shortfalls - self.rounding / 2, 0.0)
        else:
            losses, slopes = np.maximum(shortfalls, 0.0), np.where(shortfalls > 0, 1.0, 0.0)
        return float(self.weights @ losses), -self.weights * self.signs * slopes

    def curvature(self, scores: Floats) -> Curvature:
        """Return ``ω_i / rounding`` for scores at the corner."""
        if self.rounding == 0:
            return Curvature(np.zeros(scores.size))
        at_corner = np.abs(1 - self.signs * scores) < self.rounding / 2
        return Curvature(np.where(at_corner, self.weights / self.rounding, 0.0))

    def best_constant(self) -> float:
        """Return the label of the majority."""
        return float(np.sign(self.weights @ self.signs))
