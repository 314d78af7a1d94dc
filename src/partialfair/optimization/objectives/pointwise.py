"""Mean losses of single scores (Example D.1): value and slopes in one pass, additive over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logit

from partialfair.optimization.objectives.loss import Curvature
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats

_LEAST_PROBABILITY = 1e-9
"""Smallest fraction of either class for a constant score: it stays within ±21 if all labels are equal."""


@njit(cache=True, nogil=True)
def _logistic(scores: Floats, signs: Floats, shares: Floats, slopes: Floats) -> float:
    """Return the loss and fill ``slopes``."""
    total = 0.0
    for i in range(scores.size):
        margin = signs[i] * scores[i]
        small = np.exp(-abs(margin))  # never overflows
        total += shares[i] * (np.log1p(small) + max(-margin, 0.0))
        wrong = 1.0 / (1.0 + small) if margin < 0 else small / (1.0 + small)
        slopes[i] = -shares[i] * signs[i] * wrong
    return total


@njit(cache=True, nogil=True)
def _equal_logistic(scores: Floats, signs: Floats, share: float, slopes: Floats) -> float:
    """As `_logistic` with equal shares: one logarithm per 32 rows, of a product that is at most 2³²."""
    total, product = 0.0, 1.0
    for i in range(scores.size):
        margin = signs[i] * scores[i]
        small = np.exp(-abs(margin))
        product *= 1.0 + small
        if i % 32 == 31:
            total += np.log(product)
            product = 1.0
        total += max(-margin, 0.0)  # ln(1 + e⁻ᵐ) = ln(1 + e^−|m|) + max(−m, 0)
        slopes[i] = -share * signs[i] * (1.0 if margin < 0 else small) / (1.0 + small)
    return share * (total + np.log(product))


def _all_equal(shares: Floats) -> bool:
    """Whether there are rows, all with the same share.

    Comparing the ends nearly always detects weighted rows immediately. Otherwise the comparison costs 0.15 ns
    per row, where `_equal_logistic` takes 6 and `_logistic` 22.
    """
    return shares.size > 0 and bool(shares[0] == shares[-1]) and bool((shares == shares[0]).all())


@dataclass(frozen=True)
class _MeanLoss:
    """``Σ ω_i ℓ(s_i, y_i)``, ``ω = weights / Σ weights`` over all rows."""

    additive: ClassVar[bool] = True

    def shares(self, targets: Floats, weights: Floats) -> Floats:
        """Return ω of all rows."""
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class LogisticLoss(_MeanLoss):
    """Weighted mean logistic loss ``Σ ω_i ln(1 + exp(−ζ_i s_i))`` of labels ζ = ±1 (Example D.1)."""

    def value_and_slopes(self, scores: Floats, targets: Floats, shares: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""
        slopes = np.empty(scores.size)
        if _all_equal(shares):
            return float(_equal_logistic(scores, targets, shares[0], slopes)), slopes
        return float(_logistic(scores, targets, shares, slopes)), slopes

    def curvature(self, scores: Floats, targets: Floats, shares: Floats) -> Curvature:
        """Return ``ω_i σ(s_i)(1 − σ(s_i))``."""
        small = np.exp(-np.abs(scores))  # σ(1 − σ) = e^−|s| / (1 + e^−|s|)²
        return Curvature(shares * small / (1 + small) ** 2)

    def best_constant(self, mean_target: float) -> float:
        """Return the log-odds of the weighted share of positives, (1 + mean) / 2."""
        positive = (1 + mean_target) / 2
        return float(logit(np.clip(positive, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)))


@dataclass(frozen=True)
class SquaredLoss(_MeanLoss):
    """Weighted mean squared loss ``½ Σ ω_i (s_i − y_i)²`` of numbers y, such as labels ±1 (Example D.1)."""

    def value_and_slopes(self, scores: Floats, targets: Floats, shares: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""
        residuals = scores - targets
        slopes = shares * residuals
        return 0.5 * float(slopes @ residuals), slopes

    def curvature(self, scores: Floats, targets: Floats, shares: Floats) -> Curvature:
        """Return ω."""
        return Curvature(shares)

    def best_constant(self, mean_target: float) -> float:
        """Return the weighted mean of the targets."""
        return mean_target


@dataclass(frozen=True)
class HingeLoss(_MeanLoss):
    """Weighted mean hinge loss ``Σ ω_i (1 − ζ_i s_i)_+`` of labels ζ = ±1 (Example D.1).

    Parameters
    ----------
    rounding
        Width over which the corner is rounded, by a parabola: ``(x + rounding/2)² / (2 rounding)`` instead of
        x_+ where ``|x| < rounding/2``, which adds at most rounding/8. 0 leaves it sharp: solvers that need
        only subgradients can use it, the others end without a KKT certificate.
    """

    rounding: float = 0.0

    def value_and_slopes(self, scores: Floats, targets: Floats, shares: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores; at a sharp corner that of the flat side."""
        shortfalls = 1 - targets * scores
        if self.rounding > 0:
            # A parabola over the width, and the straight part beyond it.
            inside = np.clip(shortfalls + self.rounding / 2, 0.0, self.rounding)
            steepness = inside / self.rounding
            losses = 0.5 * inside * steepness + np.maximum(shortfalls - self.rounding / 2, 0.0)
        else:
            losses, steepness = np.maximum(shortfalls, 0.0), np.where(shortfalls > 0, 1.0, 0.0)
        return float(shares @ losses), -shares * targets * steepness

    def curvature(self, scores: Floats, targets: Floats, shares: Floats) -> Curvature:
        """Return ``ω_i / rounding`` for scores at the corner."""
        if self.rounding == 0:
            return Curvature(np.zeros(scores.size))
        at_corner = np.abs(1 - targets * scores) < self.rounding / 2
        return Curvature(np.where(at_corner, shares / self.rounding, 0.0))

    def best_constant(self, mean_target: float) -> float:
        """Return the label of the majority."""
        return float(np.sign(mean_target))
