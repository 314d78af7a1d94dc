"""Pairwise losses of positives and negatives: AUC, and partial AUC over the top negatives.

Sums of ``φ(end − start)`` over all pairs are computed without visiting the pairs if possible. φ is convex, so
its sums are; for partial AUC it must also be non-decreasing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import expit

from partialfair.exceptions import InputError
from partialfair.optimization.objectives.loss import Coupling, Curvature
from partialfair.utils.checks import check_choice
from partialfair.utils.clock import check_clock
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

KINDS = ("squared", "squared_hinge", "hinge", "logistic")
"""Functions of the difference of two scores."""

_N_CELLS = 64
"""Number of cells by score into which positives, and negatives, are divided to average over pairs. Products
of the average are within a tenth of the exact ones (tests); a core of 128² numbers is small compared with
the rows."""

_MIN_REACH = 1e-6
"""Smallest width of difference quotients, relative to 1 + |gap|, even between cells of one score each: far
above rounding errors, far below the margin of 1."""
_MOST_PAIRS = 1e7
"""Pairs between two checks of the deadline: a few tenths of a second, as each needs an exponential."""

_FLAT_SIDE = 1e-12
"""Pairs that miss the margin by at most this are on the flat side of a sharp corner. Scores of order 1 have
an error of 1e-16, so pairs on the corner are there in either order."""


@dataclass(frozen=True)
class AUCLoss:
    """``factor · Σ_i Σ_j p_i r_j φ(t_j − s_i) + ½ anchor · m²`` of positives i, top negatives j.

    See section D.1. s are the scores of positives and p their shares, which sum to 1, t and q those of
    negatives. r are the shares of the top negatives by score, which sum to ``top``: all of q if that is 1.
    Since φ is non-decreasing, r maximizes the sum among ``0 ≤ r ≤ q, Σ r = top``: the loss is a maximum of
    convex functions, and convex. m is the mean of the two classes' mean scores. Targets are labels ±1. Pairs
    and top shares are those of all rows: this loss is not additive.

    Parameters
    ----------
    kind
        φ(x): ``"squared"`` is ``½ (1 + x)²``, ``"squared_hinge"`` is ``½ (1 + x)_+²``, ``"hinge"`` is
        ``(1 + x)_+`` and ``"logistic"`` is ``ln(1 + exp x)``. All cost O(n log n) but the last, which visits
        all pairs.
    top
        Fraction of the negatives, from the top. The squared loss, which rises on both sides, needs 1.
    factor
        Factor of the sum.
    rounding
        Width over which the corner of the hinge, and for ``top < 1`` the border of the top share, is rounded:
        by ``r_j (1 − r_j / q_j) rounding / 2`` in the maximum, in units of the loss of one negative. 0 leaves
        corners sharp; fits then end without a KKT certificate, except with losses that have none.
    anchor
        Pairs do not depend on a constant that is added to all scores. With an intercept, ``anchor = 1`` puts
        0 midway between the classes, at no cost: then m = 0 at the optimum.
    """

    additive: ClassVar[bool] = False

    kind: str = "squared_hinge"
    top: float = 1.0
    factor: float = 1.0
    rounding: float = 0.0
    anchor: float = 0.0

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind of AUC", KINDS)
        if self.kind == "squared" and self.top < 1:
            raise InputError("the squared loss of the top negatives is not weakly convex; it needs top = 1")

    def shares(self, targets: Floats, weights: Floats) -> Floats:
        """Return p and q: the weights of all rows, scaled to add up to 1 in each class."""
        shares = np.zeros(weights.size)
        for name, sign in (("positive", 1), ("negative", -1)):
            members = np.flatnonzero((sign * targets > 0) & (weights > 0))
            if members.size == 0:  # class weights may have removed one class
                raise InputError(f"a pairwise loss needs rows of both classes, and no {name} row has weight")
            shares[members] = weights[members] / weights[members].sum()
        return shares

    def value_and_slopes(self, scores: Floats, targets: Floats, shares: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""
        slopes = np.zeros(scores.size)
        if not np.isfinite(scores).all():
            return float("nan"), slopes
        pairs = self._pairs(scores, targets, shares)
        # Slopes at positives are sums over the top negatives: the same sums with both signs reversed.
        slopes[pairs.positives] = -pairs.p * self._phi.sums(-pairs.s, -pairs.t, pairs.r)[1]
        slopes[pairs.negatives] = pairs.r * pairs.slopes
        halves = shares / 2  # weights of the mean of the two classes' means
        middle = float(halves @ scores)
        rounded = 0.5 * self.rounding * float(pairs.r @ (1 - pairs.r / pairs.q))
        value = self.factor * (float(pairs.r @ pairs.losses) + rounded) + 0.5 * self.anchor * middle**2
        return value, self.factor * slopes + self.anchor * middle * halves

    def curvature(self, scores: Floats, targets: Floats, shares: Floats) -> Curvature:
        """Return the second derivative, with pairs of similar scores averaged over.

        ``Σ p_i r_j φ''(t_j − s_i) (e_j − e_i)(e_j − e_i)ᵀ``, with φ'' averaged over pairs of cells. Averages
        of φ'' are difference quotients of φ', and positive: whatever the cells, this is positive
        semidefinite.
        """
        pairs = self._pairs(scores, targets, shares)
        n_cells = 1 if self.kind == "squared" else _N_CELLS  # φ'' = 1 equals its average
        of_s, middles_s, halves_s = _divide_into_cells(pairs.s, n_cells)
        of_t, middles_t, halves_t = _divide_into_cells(pairs.t, n_cells)
        gaps = middles_t[:, None] - middles_s[None]
        reach = (halves_t[:, None] + halves_s[None]) / 2 + _MIN_REACH * (1 + np.abs(gaps))
        bend = (self._phi.slope(gaps + reach) - self._phi.slope(gaps - reach)) / (2 * reach)
        p = np.bincount(of_s, pairs.p, minlength=middles_s.size)
        r = np.bincount(of_t, pairs.r, minlength=middles_t.size)
        core = np.zeros((p.size + r.size,) * 2)
        core[p.size :, : p.size] = -bend
        core[: p.size, p.size :] = -bend.T
        diagonal = np.zeros(scores.size)
        diagonal[pairs.positives] = pairs.p * (bend.T @ r)[of_s]
        diagonal[pairs.negatives] = pairs.r * (bend @ p)[of_t]
        couplings = [pairs.coupling((of_s, of_t + p.size), (pairs.p, pairs.r), self.factor * core)]
        # At the border negatives replace each other: the variance of their contributions.
        passing = (pairs.r > 0) & (pairs.r < pairs.q)
        if self.rounding > 0 and passing.any():
            q = np.where(passing, pairs.q, 0.0)
            diagonal[pairs.negatives] += q * pairs.slopes**2 / self.rounding
            core = np.array([[-1 / (self.rounding * q.sum())]])
            cells = (np.full(pairs.p.size, -1), np.where(passing, 0, -1))
            couplings.append(pairs.coupling(cells, (pairs.p, q * pairs.slopes), self.factor * core))
        if self.anchor:
            one_cell = np.zeros(scores.size, dtype=np.int64)
            couplings.append(Coupling(one_cell, shares / 2, np.array([[self.anchor]])))
        return Curvature(self.factor * diagonal, tuple(couplings))

    def best_constant(self, mean_target: float) -> float:
        """Return 0: all equal scores have the same loss."""
        return 0.0

    @cached_property
    def _phi(self) -> PairFunction:
        functions: dict[str, PairFunction] = {
            "squared": SquaredPairs(),
            "squared_hinge": SquaredHingePairs(),
            "hinge": HingePairs(self.rounding),
            "logistic": LogisticPairs(),
        }
        return functions[self.kind]

    def _pairs(self, scores: Floats, targets: Floats, shares: Floats) -> _ClassPairs:
        counted = shares > 0  # rows without weight are in no pair
        positives = np.flatnonzero(counted & (targets > 0))
        negatives = np.flatnonzero(counted & (targets < 0))
        p, q, s, t = shares[positives], shares[negatives], scores[positives], scores[negatives]
        losses, slopes = self._phi.sums(t, s, p)
        r = q if self.top == 1 else top_shares(losses, q, self.top, self.rounding)
        return _ClassPairs(scores.size, positives, negatives, p, q, s, t, losses, slopes, r)


@dataclass(frozen=True, eq=False)
class _ClassPairs:
    """All pairs of a positive and a negative, at some scores.

    Attributes
    ----------
    n_rows
        Rows of the data, those without weight included.
    positives, negatives
        Indices of the rows with weight, by class.
    p, q
        Their shares of their class.
    s, t
        Their scores.
    losses, slopes
        ``Σ_i p_i φ(t_j − s_i)`` of each negative j, and the same of φ'.
    r
        The shares of the top negatives, ``0 ≤ r ≤ q``.
    """

    n_rows: int
    positives: Ints
    negatives: Ints
    p: Floats
    q: Floats
    s: Floats
    t: Floats
    losses: Floats
    slopes: Floats
    r: Floats

    def coupling(self, cells: tuple[Ints, Ints], weights: tuple[Floats, Floats], core: Floats) -> Coupling:
        """Return values of positives and of negatives in the order of the rows."""
        cell_of_row, weight_of_row = np.full(self.n_rows, -1), np.zeros(self.n_rows)
        cell_of_row[self.positives], cell_of_row[self.negatives] = cells
        weight_of_row[self.positives], weight_of_row[self.negatives] = weights
        return Coupling(cell_of_row, weight_of_row, core)


def _divide_into_cells(scores: Floats, n_cells: int) -> tuple[Ints, Floats, Floats]:
    """Return the cell of each score, and middles and half widths of cells with equal numbers of scores."""
    borders = np.unique(np.quantile(scores, np.arange(1, n_cells) / n_cells)) if n_cells > 1 else np.empty(0)
    cells = np.searchsorted(borders, scores, side="right")
    lows, highs = np.full(borders.size + 1, np.inf), np.full(borders.size + 1, -np.inf)
    np.minimum.at(lows, cells, scores)
    np.maximum.at(highs, cells, scores)
    used, cells = np.unique(cells, return_inverse=True)
    return cells, (lows[used] + highs[used]) / 2, (highs[used] - lows[used]) / 2


class PairFunction(ABC):
    """A function φ of the difference of two scores; a difference of 0 misses the margin of 1."""

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
        # ½ Σ w (1 + e − s)² from the moments of s around its mean, so that distant scores lose no digits.
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
        # The hinge is a parabola that begins half a width early minus one that begins half a width late.
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
    """``φ(x) = ln(1 + exp x)``: sums need all pairs, O(n²) time and O(n) memory."""

    def sums(self, ends: Floats, starts: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """As in `PairFunction`; O(n²)."""
        n_turns = max(1, int(ends.size * starts.size / _MOST_PAIRS))
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
    """As `_tail_moments` for sorted arrays. All terms are positive, so there is no cancellation.

    A sweep keeps the three moments at each end: a step changes ``Σ w x²`` by ``step (2 Σ w x + step Σ w)``,
    and the starts that it passes are added.
    """
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


def top_shares(values: Floats, weights: Floats, top: float, rounding: float) -> Floats:
    """Return the r that maximizes ``Σ r v + rounding/2 Σ r (1 − r/q)`` over ``0 ≤ r ≤ q, Σ r = top``.

    That is ``r_j = q_j clip((v_j − λ)/rounding + ½, 0, 1)``. Without rounding, values above a border λ have
    all of their weight in it, those below none, and those at the border divide the rest by weight. The
    maximum exceeds the sharp one by at most ``rounding/2 · top (1 − top)``.

    Parameters
    ----------
    values : (n,)
        v.
    weights : (n,)
        q > 0, which sum to 1.
    top
        In [0, 1].
    rounding
        At least 0, in units of the values.
    """
    if rounding == 0:
        # The value at which a fraction ``top`` has been passed from above; those who tie there divide the
        # rest.
        order = np.argsort(-values)
        passed = np.cumsum(weights[order])
        border = float(values[order[min(int(np.searchsorted(passed, top)), order.size - 1)]])
        above, at = values > border, values == border
        left = np.clip((top - weights[above].sum()) / weights[at].sum(), 0.0, 1.0)
        return np.where(above, weights, np.where(at, left * weights, 0.0))
    border = _rounded_border(values, weights, top, rounding)
    return np.asarray(weights * np.clip((values - border) / rounding + 0.5, 0.0, 1.0))


def _rounded_border(values: Floats, weights: Floats, top: float, rounding: float) -> float:
    """Return the λ at which the shares sum to ``top``: they are piecewise linear and decrease in λ."""
    # Each share is complete below its first bend, 0 above its second, and linear between them.
    bends = np.concatenate([values - rounding / 2, values + rounding / 2])
    order = np.argsort(bends)
    steps = np.diff(bends[order])
    falling = np.cumsum(np.concatenate([weights, -weights])[order])[:-1] / rounding
    sums = np.concatenate([[1.0], 1.0 - np.cumsum(falling * steps)])
    place = min(int(np.searchsorted(-sums, -top)), sums.size - 1)  # the first sum that is not above top
    if place == 0:
        return float(bends[order[0]])
    low, drop = sums[place - 1] - top, sums[place - 1] - sums[place]
    share = low / drop if drop > 0 else 0.0
    return float(bends[order[place - 1]] + share * steps[place - 1])
