"""Sums of a surrogate over pairs of people from the top of one group and the bottom of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from partialfair._typing import Floats, Ints
from partialfair.dc.atoms import (
    AtomKinks,
    Curvature,
    Gradient,
    Moves,
    PullMany,
    flat,
    group_shares,
    without_kinks,
)
from partialfair.surrogates import Surrogate

__all__ = ["PairSums"]


class _Side(NamedTuple):
    """Members at the top or at the bottom of a group, by ascending score.

    rows and scores are (n,); shares (E, n) say how much of each member counts, once for each top or bottom.
    """

    rows: Ints
    scores: Floats
    shares: Floats

    def mirrored(self) -> tuple[Floats, Floats]:
        """Return minus the scores, ascending again, and the shares."""
        return -self.scores[::-1], np.ascontiguousarray(self.shares[:, ::-1])


@dataclass(frozen=True, eq=False)
class PairSums:
    """``H_φ(b, c) = Σ_ij u_i v_j φ(s_i − t_j)``: u the top b of one group, v the bottom c of another.

    b and c are shares of a group's weight, and φ is σ⁺ or σ⁻. Weights add up to 1 in each group; a member, or
    a block of equal scores, on the border counts in part, split by weight. For φ convex and non-decreasing H
    is the largest of all such sums with ``0 ≤ u ≤ ω, Σu = b, 0 ≤ v ≤ ω', Σv = c``, hence jointly convex; sums
    over the tops of both groups are not.

    A value or a subgradient costs one sort per group and one sweep per pair for ramps, O(n log n), and all
    differences, O(n_top · n_bottom) per pair, for surrogates that are not piecewise polynomial.

    Parameters
    ----------
    surrogate
        σ = σ⁺ − σ⁻.
    codes, weights : (n,)
        Group and weight of each score; code −1 leaves it out.
    n_groups
        Number of groups.
    pairs
        Which groups are compared: (one, other).
    tops
        For each group the ranks b, in (0, 1], at which tops end.
    bottoms
        For each group the ranks ``1 − c``, in [0, 1), at which bottoms begin.
    """

    surrogate: Surrogate
    codes: Ints
    weights: Floats
    n_groups: int
    pairs: tuple[tuple[int, int], ...]
    tops: tuple[tuple[float, ...], ...]
    bottoms: tuple[tuple[float, ...], ...]

    @cached_property
    def shares(self) -> Floats:
        """``ω_i``: the weight of each member in its group."""
        return group_shares(self.codes, self.weights, self.n_groups)

    @cached_property
    def _members(self) -> tuple[Ints, ...]:
        return tuple(np.flatnonzero(self.codes == k) for k in range(self.n_groups))

    @cached_property
    def _shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Atoms of each pair: two parts of the surrogate, tops, bottoms."""
        return tuple((2, len(self.tops[k]), len(self.bottoms[other])) for k, other in self.pairs)

    @cached_property
    def _firsts(self) -> Ints:
        return np.cumsum([0, *(int(np.prod(shape)) for shape in self._shapes)])

    @property
    def n_atoms(self) -> int:
        """Two per pair, top and bottom."""
        return int(self._firsts[-1])

    @property
    def n_theta(self) -> int:
        """No thresholds: groups are compared with each other."""
        return 0

    def plus(self, pair: int, top: int, bottom: int) -> int:
        """Position of the sum of σ⁺."""
        return int(self._firsts[pair] + top * self._shapes[pair][2] + bottom)

    def minus(self, pair: int, top: int, bottom: int) -> int:
        """Position of the sum of σ⁻."""
        return self.plus(pair, top, bottom) + int(np.prod(self._shapes[pair][1:]))

    def values(self, scores: Floats, theta: Floats) -> Floats:
        """Value of every atom."""
        tops, bottoms = self._sides(scores)
        values = [np.empty(0)]
        for k, other in self.pairs:
            top, bottom = tops[k], bottoms[other]
            sums = self.surrogate.pair_sums(0, top.scores, bottom.scores, bottom.shares)
            values.append(np.einsum("bi,pci->pbc", top.shares, sums).ravel())
        return np.concatenate(values)

    def pull_back(self, coefficients: Floats, scores: Floats, theta: Floats) -> Gradient:
        """Subgradient of ``Σ coefficients · atoms``."""
        return Gradient(self._weighted(1, coefficients, scores), np.empty(0))

    def curvature(self, coefficients: Floats, scores: Floats, theta: Floats, pull: PullMany) -> Curvature:
        """Second derivatives of ``Σ coefficients · atoms`` in each score; mixed ones are left out."""
        none = flat(self, scores, pull)
        return Curvature(self._weighted(2, coefficients, scores), none.cross, none.theta)

    def kinks(
        self, wanted: Floats, scores: Floats, theta: Floats, moves: Moves, reach: float, limit: int
    ) -> AtomKinks | None:
        """None are named: they lie between two scores, not between a score and a threshold."""
        return without_kinks()

    def jacobian(self, scores: Floats, theta: Floats, pull: PullMany) -> tuple[Floats, Floats]:
        """Subgradients of all atoms, one pass for each pair."""
        found = np.empty((self.n_atoms, pull.n_params))
        for pair, top, bottom, at_top, at_bottom in self._derivatives(1, scores, range(len(self.pairs))):
            slopes = np.zeros((scores.size, int(np.prod(self._shapes[pair]))))
            slopes[top.rows] = np.einsum("bi,pci->ipbc", top.shares, at_top).reshape(top.rows.size, -1)
            slopes[bottom.rows] = -np.einsum("ci,pbi->ipbc", bottom.shares, at_bottom).reshape(
                bottom.rows.size, -1
            )
            by_group, _ = pull.many(_rows_of(slopes), self.codes, self.n_groups, slopes.shape[1])
            found[self._firsts[pair] : self._firsts[pair + 1]] = by_group.sum(axis=0)
        return found, np.empty((self.n_atoms, 0))

    def _weighted(self, order: int, coefficients: Floats, scores: Floats) -> Floats:
        """Return the derivatives of ``Σ coefficients · atoms`` in every score."""
        by_score = np.zeros(scores.size)
        shaped = [
            coefficients[first:last].reshape(shape)
            for first, last, shape in zip(self._firsts, self._firsts[1:], self._shapes, strict=False)
        ]
        used = [pair for pair, own in enumerate(shaped) if own.any()]
        for pair, top, bottom, at_top, at_bottom in self._derivatives(order, scores, used):
            own = shaped[pair]
            by_score[top.rows] += np.einsum("pbc,bi,pci->i", own, top.shares, at_top)
            # d/dt of φ(s − t) has the other sign, its second derivative has not.
            by_score[bottom.rows] += (-1) ** order * np.einsum("pbc,ci,pbi->i", own, bottom.shares, at_bottom)
        return by_score

    def _derivatives(
        self, order: int, scores: Floats, pairs: Iterable[int]
    ) -> Iterator[tuple[int, _Side, _Side, Floats, Floats]]:
        """Yield sums of derivatives of σ±, at tops over the bottoms and at bottoms over the tops."""
        tops, bottoms = self._sides(scores)
        for pair in pairs:
            k, other = self.pairs[pair]
            top, bottom = tops[k], bottoms[other]
            at_top = self.surrogate.pair_sums(order, top.scores, bottom.scores, bottom.shares)
            (targets, _), (sources, shares) = bottom.mirrored(), top.mirrored()  # s − t = −t − (−s)
            at_bottom = self.surrogate.pair_sums(order, targets, sources, shares)[..., ::-1]
            yield pair, top, bottom, at_top, at_bottom

    def _sides(self, scores: Floats) -> tuple[list[_Side], list[_Side]]:
        """Tops and bottoms of every group."""
        tops: list[_Side] = []
        bottoms: list[_Side] = []
        for k, members in enumerate(self._members):
            rows = members[np.argsort(scores[members], kind="stable")]
            own = self.shares[rows]
            above = _tops(scores[rows], own, np.array(self.tops[k]))
            below = own - _tops(scores[rows], own, np.array(self.bottoms[k]))
            for shares, sides in ((above, tops), (below, bottoms)):
                used = shares.any(axis=0)
                sides.append(_Side(rows[used], scores[rows[used]], np.ascontiguousarray(shares[:, used])))
        return tops, bottoms


def _rows_of(matrix: Floats) -> Callable[[int, int], Floats]:
    return lambda first, stop: matrix[first:stop]


@njit(cache=True)
def _tops(scores: Floats, shares: Floats, ends: Floats) -> Floats:
    """Return how much of each member lies above some ranks: (n_ends, n) for ascending scores."""
    out = np.zeros((ends.size, scores.size))
    passed, last = 0.0, scores.size
    while last > 0:
        first = last - 1
        block = shares[first]
        while first > 0 and scores[first - 1] == scores[last - 1]:
            first -= 1
            block += shares[first]
        for e in range(ends.size):
            if block > 0:
                held = min(max(ends[e] - passed, 0.0), block) / block
                out[e, first:last] = shares[first:last] * held
        passed, last = passed + block, first
    return out
