"""Losses of pairs of a positive and a negative: AUC, and partial AUC over the top negatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partialfair._checks import check_choice
from partialfair._typing import Floats, Ints
from partialfair.exceptions import InputError
from partialfair.objectives._pairs import (
    HingePairs,
    LogisticPairs,
    PairFunction,
    SquaredHingePairs,
    SquaredPairs,
)
from partialfair.objectives._protocol import Coupling, Curvature
from partialfair.objectives._top import top_shares

__all__ = ["KINDS", "AUCLoss"]

KINDS = ("squared", "squared_hinge", "hinge", "logistic")
"""Functions of a pair."""

_CELLS = 64
"""Into so many cells positives and negatives are sorted by score when pairs are averaged over."""


@dataclass(frozen=True, eq=False)
class AUCLoss:
    """``factor · Σ_i Σ_j p_i r_j φ(t_j − s_i) + ½ anchor · m²`` of positives i, top negatives j (aucloss).

    s are the scores of positives and p their weights, which sum to 1, t those of negatives. r are the weights
    of the top share of negatives by score, which sum to ``top``: all of them if that is 1. Since φ is
    non-decreasing, r maximises the sum among ``0 ≤ r ≤ q, Σ r = top``, where q are the negatives' weights:
    the loss is a maximum of convex functions, and convex. m is the mean of the two classes' mean scores.

    Parameters
    ----------
    signs : (n,)
        Labels as ±1.
    weights : (n,)
        Non-negative weights; both classes need some.
    kind
        φ(x): ``"squared"`` is ``½ (1 + x)²``, ``"squared_hinge"`` is ``½ (1 + x)_+²``, ``"hinge"`` is
        ``(1 + x)_+`` and ``"logistic"`` is ``ln(1 + exp x)``. All cost O(n log n) but the last, which visits
        all pairs.
    top
        Share of the negatives, from the top. The squared loss, which rises on both sides, needs 1.
    factor
        Of the sum.
    rounding
        Width over which the corner of the hinge, and for ``top < 1`` the border of the top share, is rounded:
        by ``r_j (1 − r_j / q_j) rounding / 2`` in the maximum, in units of the loss of one negative. 0 leaves
        corners sharp; fits then end without a certificate, except with losses that have none.
    anchor
        Pairs do not see a constant that is added to all scores. With an intercept, ``anchor = 1`` puts 0
        midway between the classes, at no cost: then m = 0 at the optimum.
    """

    signs: Floats
    weights: Floats
    kind: str = "squared_hinge"
    top: float = 1.0
    factor: float = 1.0
    rounding: float = 0.0
    anchor: float = 0.0

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind of AUC", KINDS)
        if self.kind == "squared" and self.top < 1:
            raise InputError("the squared loss of the top negatives is not weakly convex; it needs top = 1")

    def value_and_gradient(self, scores: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient in the scores."""
        gradient = np.zeros(scores.size)
        if not np.isfinite(scores).all():
            return float("nan"), gradient
        view = self._view(scores)
        gradient[self._positives] = -self._p * self._phi.sums(-view.s, -view.t, view.r)[1]
        gradient[self._negatives] = view.r * view.slopes
        middle = float(self._halves @ scores)
        rounded = 0.5 * self.rounding * float(view.r @ (1 - view.r / self._q))
        value = self.factor * (float(view.r @ view.losses) + rounded) + 0.5 * self.anchor * middle**2
        return value, self.factor * gradient + self.anchor * middle * self._halves

    def curvature(self, scores: Floats) -> Curvature:
        """Return the second derivative, with pairs of similar scores averaged over."""
        view = self._view(scores)
        diagonal, couplings = np.zeros(scores.size), []
        pairs = self._pairs(view)
        diagonal[self._positives], diagonal[self._negatives] = pairs.diagonals
        couplings.append(self._coupling(pairs.cells, (self._p, view.r), pairs.core))
        # Where the border passes, negatives trade places: the variance of what they would bring in.
        passing = (view.r > 0) & (view.r < self._q)
        if self.rounding > 0 and passing.any():
            share = np.where(passing, self._q, 0.0)
            diagonal[self._negatives] += share * view.slopes**2 / self.rounding
            core = np.array([[-1 / (self.rounding * share.sum())]])
            cells = (np.full(self._p.size, -1), np.where(passing, 0, -1))
            couplings.append(self._coupling(cells, (self._p, share * view.slopes), core))
        scaled = [Coupling(one.cells, one.weights, self.factor * one.core) for one in couplings]
        if self.anchor:
            everybody = np.zeros(scores.size, dtype=np.int64)
            scaled.append(Coupling(everybody, self._halves, np.array([[self.anchor]])))
        return Curvature(self.factor * diagonal, tuple(scaled))

    def best_constant(self) -> float:
        """Return 0: equal scores are equally bad."""
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

    @cached_property
    def _positives(self) -> Ints:
        return np.flatnonzero((self.signs > 0) & (self.weights > 0))

    @cached_property
    def _negatives(self) -> Ints:
        return np.flatnonzero((self.signs < 0) & (self.weights > 0))

    @cached_property
    def _p(self) -> Floats:
        own = self.weights[self._positives]
        return np.asarray(own / own.sum())

    @cached_property
    def _q(self) -> Floats:
        own = self.weights[self._negatives]
        return np.asarray(own / own.sum())

    @cached_property
    def _halves(self) -> Floats:
        """Weights of the mean of the two classes' means."""
        halves = np.zeros(self.signs.size)
        halves[self._positives], halves[self._negatives] = self._p / 2, self._q / 2
        return halves

    def _view(self, scores: Floats) -> _View:
        s, t = scores[self._positives], scores[self._negatives]
        losses, slopes = self._phi.sums(t, s, self._p)
        r = self._q if self.top == 1 else top_shares(losses, self._q, self.top, self.rounding)
        return _View(s, t, losses, slopes, r)

    def _pairs(self, view: _View) -> _Pairs:
        """Return ``Σ p_i r_j φ''(t_j − s_i) (e_j − e_i)(e_j − e_i)ᵀ`` with φ'' averaged over pairs of cells.

        Averages of φ'' are difference quotients of φ', and positive: whatever the cells, this is positive
        semidefinite.
        """
        own = _cells(view.s, 1 if self.kind == "squared" else _CELLS)
        other = _cells(view.t, 1 if self.kind == "squared" else _CELLS)
        gaps = other.middles[:, None] - own.middles[None]
        reach = (other.widths[:, None] + own.widths[None]) / 2 + 1e-6 * (1 + np.abs(gaps))
        bend = (self._phi.slope(gaps + reach) - self._phi.slope(gaps - reach)) / (2 * reach)
        p = np.bincount(own.cells, self._p, minlength=own.middles.size)
        r = np.bincount(other.cells, view.r, minlength=other.middles.size)
        core = np.zeros((p.size + r.size,) * 2)
        core[p.size :, : p.size] = -bend
        core[: p.size, p.size :] = -bend.T
        return _Pairs(
            (self._p * (bend.T @ r)[own.cells], view.r * (bend @ p)[other.cells]),
            (own.cells, other.cells + p.size),
            core,
        )

    def _coupling(self, cells: tuple[Ints, Ints], weights: tuple[Floats, Floats], core: Floats) -> Coupling:
        """Put what is known of positives and of negatives into the order of the rows."""
        all_cells, all_weights = np.full(self.signs.size, -1), np.zeros(self.signs.size)
        all_cells[self._positives], all_cells[self._negatives] = cells
        all_weights[self._positives], all_weights[self._negatives] = weights
        return Coupling(all_cells, all_weights, core)


@dataclass(frozen=True, eq=False)
class _View:
    """Scores of positives and negatives, the negatives' losses and slopes, and their shares in the top."""

    s: Floats
    t: Floats
    losses: Floats
    slopes: Floats
    r: Floats


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Diagonals, cells and core of the second derivative."""

    diagonals: tuple[Floats, Floats]
    cells: tuple[Ints, Ints]
    core: Floats


@dataclass(frozen=True, eq=False)
class _Cells:
    """Scores in cells of about as many each; middles and half widths of the cells."""

    cells: Ints
    middles: Floats
    widths: Floats


def _cells(scores: Floats, n_cells: int) -> _Cells:
    borders = np.unique(np.quantile(scores, np.arange(1, n_cells) / n_cells)) if n_cells > 1 else np.empty(0)
    cells = np.searchsorted(borders, scores, side="right")
    lows, highs = np.full(borders.size + 1, np.inf), np.full(borders.size + 1, -np.inf)
    np.minimum.at(lows, cells, scores)
    np.maximum.at(highs, cells, scores)
    kept, cells = np.unique(cells, return_inverse=True)  # cells that somebody is in
    lows, highs = lows[kept], highs[kept]
    return _Cells(cells, (lows + highs) / 2, (highs - lows) / 2)
