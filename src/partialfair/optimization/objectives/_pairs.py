"""Sums of ``φ(end − start)`` over all pairs of ends and starts, without visiting the pairs where possible.

φ is convex, so its sums are; for partial AUC it must be non-decreasing too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from partialfair.utils.clock import check_clock
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats

__all__ = ["HingePairs", "LogisticPairs", "PairFunction", "SquaredHingePairs", "SquaredPairs"]


_MOST_AT_ONCE = 1e7
"""Pairs between two looks at the clock: some tenths of a second, for each takes an exponential."""

_FLAT_SIDE = 1e-12
"""Pairs that are short of the margin by no more are on the flat side of a sharp corner. Scores of order 1 are
known to 1e-16: so pairs on the corner are there whichever of the two is the end."""


class PairFunction(ABC):
    """A function φ of the difference of two scores, of which 0 is wrong by a margin of 1."""

    @abstractmethod
    def sums(self, ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return ``Σ_s weights_s φ(e − s)`` and ``Σ_s weights_s φ'(e − s)`` for every end e."""

    @abstractmethod
    def slope(self, x: Floats) -> Floats:
        """Return ``φ'(x)``."""


@dataclass(frozen=True)
class SquaredPairs(PairFunction):
    """``φ(x) = ½ (1 + x)²``: sums are moments."""

    def sums(self, ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """As in `PairFunction`; O(n)."""
        total = float(weights.sum())
        mean = float(weights @ starts) / total if total > 0 else 0.0
        spread = float(weights @ (starts - mean) ** 2)
        margins = 1 + ends - mean
        return 0.5 * (total * margins**2 + spread), total * margins

    def slope(self, x: Floats) -> Floats:
        """``1 + x``."""
        return 1 + x


@dataclass(frozen=True)
class SquaredHingePairs(PairFunction):
    """``φ(x) = ½ (1 + x)_+²``."""

    def sums(self, ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """As in `PairFunction`; O(n log n)."""
        _, first, second = _tail_moments(ends + 1, starts, weights)
        return 0.5 * second, first

    def slope(self, x: Floats) -> Floats:
        """``(1 + x)_+``."""
        return np.maximum(1 + x, 0.0)


@dataclass(frozen=True)
class HingePairs(PairFunction):
    """``φ(x) = (1 + x)_+`` with its corner rounded by a parabola over ``rounding``; 0 leaves it sharp."""

    rounding: float

    def sums(self, ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """As in `PairFunction`; O(n log n)."""
        width = self.rounding
        if width == 0:
            count, first, _ = _tail_moments(ends + (1 - _FLAT_SIDE), starts, weights)
            return first, count
        # A parabola that begins half a width early, less one that begins half a width late, is the hinge.
        _, first, second = _tail_moments(ends + 1 + width / 2, starts, weights)
        _, late_first, late_second = _tail_moments(ends + 1 - width / 2, starts, weights)
        return (second - late_second) / (2 * width), (first - late_first) / width

    def slope(self, x: Floats) -> Floats:
        """From 0 to 1 around x = −1."""
        if self.rounding == 0:
            return np.where(x > -1, 1.0, 0.0)
        return np.clip((1 + x) / self.rounding + 0.5, 0.0, 1.0)


@dataclass(frozen=True)
class LogisticPairs(PairFunction):
    """``φ(x) = ln(1 + exp x)``: no sums but over all pairs, O(n²) time and O(n) memory."""

    def sums(self, ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """As in `PairFunction`; O(n²)."""
        n_turns = max(1, int(ends.size * starts.size / _MOST_AT_ONCE))
        sums = []
        for few_ends in np.array_split(ends, n_turns):
            check_clock()
            sums.append(_logistic_sums(few_ends, starts, weights))
        return np.concatenate([values for values, _ in sums]), np.concatenate([slopes for _, slopes in sums])

    def slope(self, x: Floats) -> Floats:
        """``1 / (1 + exp(−x))``."""
        return np.asarray(expit(x))


def _tail_moments(ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ``Σ_{s < e} weights_s (e − s)^k`` for k = 0, 1, 2 and every end e."""
    by_end, by_start = np.argsort(ends), np.argsort(starts)
    out = np.empty((3, ends.size))
    out[:, by_end] = _sorted_tail_moments(ends[by_end], starts[by_start], weights[by_start])
    return out[0], out[1], out[2]


@njit(cache=True, nogil=True)
def _sorted_tail_moments(ends: Floats, starts: Floats, weights: Floats) -> Floats:
    """As `_tail_moments` of sorted arrays. All terms are positive, so that nothing cancels."""
    out = np.empty((3, ends.size))
    count, first, second, passed, at = 0.0, 0.0, 0.0, 0, 0.0
    for e in range(ends.size):
        step = ends[e] - at if passed else 0.0
        second += step * (2 * first + step * count)
        first += step * count
        at = ends[e]
        while passed < starts.size and starts[passed] < at:
            beyond = at - starts[passed]
            count += weights[passed]
            first += weights[passed] * beyond
            second += weights[passed] * beyond * beyond
            passed += 1
        out[0, e], out[1, e], out[2, e] = count, first, second
    return out


@njit(cache=True, nogil=True)
def _logistic_sums(ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats]:
    values, slopes = np.zeros(ends.size), np.zeros(ends.size)
    for e in range(ends.size):
        for s in range(starts.size):
            x = ends[e] - starts[s]
            small = np.exp(-abs(x))  # never overflows
            values[e] += weights[s] * (np.log1p(small) + max(x, 0.0))
            slopes[e] += weights[s] * (1.0 if x > 0 else small) / (1.0 + small)
    return values, slopes
