"""Sums of a surrogate over pairs of people from the top of one group and the bottom of another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from partialfair._clock import check_clock
from partialfair._typing import Floats, Ints
from partialfair.dc.atoms import (
    AtomKinks,
    Curvature,
    Gradient,
    Moves,
    PullMany,
    flat,
    group_shares,
    joined_kinks,
    without_kinks,
)
from partialfair.surrogates import Kink, Surrogate

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


class _Bends(NamedTuple):
    """Pairs of rows between whose scores some atoms bend, with what is needed for `AtomKinks`."""

    rows: Ints
    others: Ints
    residuals: Floats
    weights: Floats

    def of(self, atom: int, weights: Floats) -> AtomKinks:
        """Return the kinks of one atom, which has weights of its own."""
        used = weights > 0
        rows, none = self.rows[used], np.full(int(used.sum()), -1)
        return AtomKinks(
            np.full_like(none, atom), rows, none, self.residuals[used], weights[used], self.others[used]
        )


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
        tops, bottoms = self._sides(scores, self._ranked(scores))
        values = [np.empty(0)]
        for k, other in self.pairs:
            check_clock()
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
        """Kinks of the surrogate, and those where two members change places across the border of a top.

        The latter let a share of one member count for another. Nobody gives or takes more, in all of them
        together, than there is, so they add up; they are exact to first order.
        """
        ranked = self._ranked(scores)
        tops, bottoms = self._sides(scores, ranked)
        total, near = without_kinks(), reach * self.surrogate.width
        for pair, (k, other) in enumerate(self.pairs):
            check_clock()
            own = wanted[self._firsts[pair] : self._firsts[pair + 1]].reshape(self._shapes[pair]) != 0
            for b, rank in enumerate(self.tops[k]):
                swaps = self._swaps(ranked[k], rank, scores, moves[0], near, limit)
                if swaps.rows.size > limit:
                    return None
                # The lower of the two slopes, and so a lower bound: σ± are convex.
                weights = swaps.weights * self._slopes_at(scores[swaps.rows], bottoms[other])
                for part, c in np.argwhere(own[:, b]):
                    total = joined_kinks(total, swaps.of(self._position(pair, part, b, c), weights[part, c]))
            for c, rank in enumerate(self.bottoms[other]):
                swaps = self._swaps(ranked[other], rank, scores, moves[0], near, limit)
                if swaps.rows.size > limit:
                    return None
                side = _Side(tops[k].rows, *tops[k].mirrored())
                weights = swaps.weights * self._slopes_at(-scores[swaps.others], side)
                for part, b in np.argwhere(own[:, :, c]):
                    total = joined_kinks(total, swaps.of(self._position(pair, part, b, c), weights[part, b]))
            for kink in self.surrogate.kinks:
                bends, shares = self._bends(kink, tops[k], bottoms[other], moves[0], near, limit)
                if bends.rows.size > limit:
                    return None
                for b, c in np.argwhere(own[kink.part]):
                    position = self._position(pair, kink.part, b, c)
                    total = joined_kinks(total, bends.of(position, bends.weights * shares(b, c)))
            if total.atoms.size > limit:
                return None
        return total

    def _position(self, pair: int, part: int, top: int, bottom: int) -> int:
        return (self.plus, self.minus)[part](pair, top, bottom)

    def _slopes_at(self, places: Floats, side: _Side) -> Floats:
        """Return the slopes of σ±, added up over one side, at places in any order: (2, E, n_places)."""
        order = np.argsort(places)
        slopes = np.empty((2, len(side.shares), places.size))
        slopes[..., order] = self.surrogate.pair_sums(1, places[order], side.scores, side.shares)
        return slopes

    def _swaps(
        self, rows: Ints, rank: float, scores: Floats, moves: Floats, near: float, limit: int
    ) -> _Bends:
        """Return where members of a group may change places across a rank, the lower one first."""
        own = self.shares[rows]
        above = _tops(scores[rows], own, np.array([rank]))[0]
        lower, higher, amounts = _find_swaps(scores[rows], own, above, moves[rows], near, limit)
        lower, higher = rows[lower], rows[higher]
        return _Bends(lower, higher, scores[lower] - scores[higher], amounts)

    def _bends(
        self, kink: Kink, top: _Side, bottom: _Side, moves: Floats, near: float, limit: int
    ) -> tuple[_Bends, Callable[[int, int], Floats]]:
        """Return where a kink of the surrogate lies between two scores, and how much of both counts."""
        width = self.surrogate.width
        one, other, residuals = _find_bends(
            top.scores, bottom.scores, kink.place * width, moves[top.rows], moves[bottom.rows], near, limit
        )
        jumps = np.full(one.size, kink.jump / width)
        return (
            _Bends(top.rows[one], bottom.rows[other], residuals, jumps),
            lambda b, c: top.shares[b, one] * bottom.shares[c, other],
        )

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
        tops, bottoms = self._sides(scores, self._ranked(scores))
        for pair in pairs:
            check_clock()
            k, other = self.pairs[pair]
            top, bottom = tops[k], bottoms[other]
            at_top = self.surrogate.pair_sums(order, top.scores, bottom.scores, bottom.shares)
            (targets, _), (sources, shares) = bottom.mirrored(), top.mirrored()  # s − t = −t − (−s)
            at_bottom = self.surrogate.pair_sums(order, targets, sources, shares)[..., ::-1]
            yield pair, top, bottom, at_top, at_bottom

    def _ranked(self, scores: Floats) -> list[Ints]:
        """Return the members of every group by ascending score."""
        return [rows[np.argsort(scores[rows], kind="stable")] for rows in self._members]

    def _sides(self, scores: Floats, ranked: list[Ints]) -> tuple[list[_Side], list[_Side]]:
        """Tops and bottoms of every group."""
        tops: list[_Side] = []
        bottoms: list[_Side] = []
        for k, rows in enumerate(ranked):
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


@njit(cache=True)
def _find_swaps(
    scores: Floats, shares: Floats, above: Floats, moves: Floats, near: float, limit: int
) -> tuple[Ints, Ints, Floats]:
    """Return pairs of a lower and a higher member, and how much of the higher may count for the lower.

    Scores are ascending, and ``above`` says how much of each share lies above the rank. Pairs are those that
    are near, or that the moves bring into the other order, from the rank outwards.
    """
    n = scores.size
    lower, higher = np.empty(limit + 1, dtype=np.int64), np.empty(limit + 1, dtype=np.int64)
    amounts = np.empty(limit + 1)
    found, first_in = 0, n
    while first_in > 0 and above[first_in - 1] >= (1 - 1e-9) * shares[first_in - 1]:
        first_in -= 1
    last_out = first_in - 1
    while last_out >= 0 and above[last_out] > 1e-9 * shares[last_out]:
        last_out -= 1
    # What members may still give and take; those on the border are the first to do both.
    give, take = above.copy(), shares - above
    far = max(near, 2 * np.abs(moves).max()) if n else near
    for turn in range(3):
        i, j = first_in, last_out
        if turn == 0:
            i = last_out + 1
        elif turn == 1:
            j = first_in - 1
        while i < (first_in if turn == 0 else n) and j > (last_out if turn == 1 else -1):
            if found > limit:
                return lower, higher, amounts
            if scores[i] - scores[j] > far:
                break
            amount = min(give[i], take[j])
            passed = scores[j] + moves[j] > scores[i] + moves[i]
            if amount > 0 and (passed or scores[i] - scores[j] <= near):
                lower[found], higher[found], amounts[found] = j, i, amount
                found += 1
            give[i] -= amount
            take[j] -= amount
            if give[i] <= 0:
                i += 1
            else:
                j -= 1
    return lower[:found], higher[:found], amounts[:found]


@njit(cache=True)
def _find_bends(
    top: Floats,
    bottom: Floats,
    place: float,
    top_moves: Floats,
    bottom_moves: Floats,
    near: float,
    limit: int,
) -> tuple[Ints, Ints, Floats]:
    """Return pairs with ``residual = s − t − place`` near 0 or passing it, and residuals; scores ascend.

    One pair more than the limit, whatever it holds, says that there are too many.
    """
    ones, others = np.empty(limit + 1, dtype=np.int64), np.empty(limit + 1, dtype=np.int64)
    residuals = np.empty(limit + 1)
    found, seen, first, far = 0, 0, 0, near
    if top.size and bottom.size:
        far = max(near, np.abs(top_moves).max() + np.abs(bottom_moves).max())
    for i in range(top.size):
        while first < bottom.size and top[i] - bottom[first] - place > far:
            first += 1
        j = first
        while j < bottom.size and top[i] - bottom[j] - place >= -far:
            residual = top[i] - bottom[j] - place
            moved = residual + top_moves[i] - bottom_moves[j]
            seen += 1
            if abs(residual) <= near or (residual > 0) != (moved > 0):
                ones[found], others[found], residuals[found] = i, j, residual
                found += 1
            if found > limit or seen > 100 * limit:
                return ones, others, residuals
            j += 1
    return ones[:found], others[:found], residuals[:found]
