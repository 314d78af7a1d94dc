"""Sums of a surrogate over pairs of members from the top of one group and the bottom of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple
from weakref import ReferenceType, ref

import numpy as np

from partialfair.constraints.dc.bank import AtomKinks, Gradient, Interaction, Moves
from partialfair.constraints.dc.pair_kinks import Movers, RowPairs, crossings
from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import Members
from partialfair.utils.clock import check_clock
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Bools, Floats, Ints

_TOP, _BOTTOM = 0, 1
"""The two borders of an atom."""


class _Ranked(NamedTuple):
    """All members of a group, by ascending score."""

    rows: Ints
    scores: Floats
    shares: Floats


class _Counted(NamedTuple):
    """Members at the top or at the bottom of a group, by ascending score.

    rows and scores are (n,); shares (E, n) are the counted weights of the members, for each top or bottom.
    """

    rows: Ints
    scores: Floats
    shares: Floats

    def mirrored(self) -> _Counted:
        """Return them in reverse order with negated scores."""
        return _Counted(self.rows[::-1], -self.scores[::-1], np.ascontiguousarray(self.shares[:, ::-1]))


class _Order(NamedTuple):
    """The members of every group, and its tops and bottoms."""

    ranked: list[_Ranked]
    tops: list[_Counted]
    bottoms: list[_Counted]


class _PairDerivatives(NamedTuple):
    """Derivatives of σ± for one pair of groups: at the top, summed over the bottom, and the reverse."""

    pair: int
    top: _Counted
    bottom: _Counted
    at_top: Floats
    at_bottom: Floats


@dataclass(frozen=True, eq=False)
class PairSums:
    """``H_φ(b, c) = Σ_ij u_i v_j φ(s_i − t_j)``: u the top b of one group, v the bottom c of another.

    b and c are shares of a group's weight, and φ is σ⁺ or σ⁻. Weights add up to 1 in each group; a member, or
    a block of equal scores, on the border counts partly, split by weight. For φ convex and non-decreasing H
    is the largest of all such sums with ``0 ≤ u ≤ ω, Σu = b, 0 ≤ v ≤ ω', Σv = c``, hence jointly convex; sums
    over the tops of both groups are not.

    A value or a subgradient costs one sort per group and one sweep per pair for ramps, O(n log n), and all
    differences, O(n_top · n_bottom) per pair, for surrogates that are not piecewise polynomial. Ranks need
    all rows at once, so values are not sums over shards.

    Parameters
    ----------
    surrogate
        σ = σ⁺ − σ⁻.
    n_groups
        Number of groups; members have the codes 0 to ``n_groups − 1``.
    pairs
        Which groups are compared: (k, k'), the top of k with the bottom of k'.
    tops
        For each group the ranks b, in (0, 1], at which tops end.
    bottoms
        For each group the ranks ``1 − c``, in [0, 1), at which bottoms begin.
    """

    n_theta: ClassVar[int] = 0  # groups are compared with each other, not with thresholds
    additive: ClassVar[bool] = False  # ranks are counted among all rows
    has_kinks: ClassVar[bool] = True  # two members may exchange places for any surrogate

    surrogate: Surrogate
    n_groups: int
    pairs: tuple[tuple[int, int], ...]
    tops: tuple[tuple[float, ...], ...]
    bottoms: tuple[tuple[float, ...], ...]
    _orders: dict[int, tuple[ReferenceType[Floats], Members, _Order]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def _shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Atoms of each pair: two parts of the surrogate, tops, bottoms."""
        return tuple((2, len(self.tops[k]), len(self.bottoms[other])) for k, other in self.pairs)

    @cached_property
    def _firsts(self) -> Ints:
        """First atom of each pair, and the number of all."""
        return np.cumsum([0, *(int(np.prod(shape)) for shape in self._shapes)])

    @property
    def n_atoms(self) -> int:
        """Two per pair, top and bottom."""
        return int(self._firsts[-1])

    def plus(self, pair: int, top: int, bottom: int) -> int:
        """Position of the sum of σ⁺."""
        return int(self._firsts[pair] + top * self._shapes[pair][2] + bottom)

    def minus(self, pair: int, top: int, bottom: int) -> int:
        """Position of the sum of σ⁻."""
        return self.plus(pair, top, bottom) + int(np.prod(self._shapes[pair][1:]))

    def values(self, scores: Floats, members: Members, theta: Floats) -> Floats:
        """Value of every atom."""
        _, tops, bottoms = self._order(scores, members)
        values = [np.empty(0)]
        for k, other in self.pairs:
            check_clock()
            top, bottom = tops[k], bottoms[other]
            # Sums over the bottoms at each score of the top, then over the tops.
            sums = self.surrogate.pair_sums(0, top.scores, bottom.scores, bottom.shares)
            values.append(np.einsum("bi,pci->pbc", top.shares, sums).ravel())
        return np.concatenate(values)

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: Members, theta: Floats
    ) -> Gradient:
        """Return derivatives of ``Σ coefficients · atoms``; pairs with no coefficient are skipped."""
        by_score = np.zeros(scores.size)
        used = [pair for pair in range(len(self.pairs)) if coefficients[self._atoms_of(pair)].any()]
        # Φ'(s_i) at each member of the top times how much of it counts, and the same at the bottom.
        for pair, top, bottom, at_top, at_bottom in self._derivatives(order, scores, members, used):
            factors = coefficients[self._atoms_of(pair)].reshape(self._shapes[pair])
            by_score[top.rows] += np.einsum("pbc,bi,pci->i", factors, top.shares, at_top)
            # d/dt of φ(s − t) has the other sign, its second derivative has not.
            sign = (-1) ** order
            by_score[bottom.rows] += sign * np.einsum("pbc,ci,pbi->i", factors, bottom.shares, at_bottom)
        return Gradient(by_score, np.empty(0))

    def columns(
        self, scores: Floats, members: Members, theta: Floats, curved: Sequence[Floats] = ()
    ) -> Iterator[RowColumns]:
        """Subgradients of all atoms, those of one pair of groups at a time."""
        for pair, top, bottom, at_top, at_bottom in self._derivatives(
            1, scores, members, range(len(self.pairs))
        ):
            atoms = np.arange(self.n_atoms)[self._atoms_of(pair)]
            slopes = np.zeros((scores.size, atoms.size))
            slopes[top.rows] = np.einsum("bi,pci->ipbc", top.shares, at_top).reshape(top.rows.size, -1)
            slopes[bottom.rows] = -np.einsum("ci,pbi->ipbc", bottom.shares, at_bottom).reshape(
                bottom.rows.size, -1
            )
            cells = np.where(np.isin(members.codes, self.pairs[pair]), 0, -1)
            yield RowColumns(slopes, cells, outputs=atoms[None])

    def kinks(
        self,
        wanted: Floats,
        scores: Floats,
        members: Members,
        theta: Floats,
        moves: Moves,
        reach: float,
        limit: int,
    ) -> AtomKinks | None:
        """Return kinks of the surrogate, and those where members cross the border of a top or bottom."""
        ranked, tops, bottoms = self._order(scores, members)
        near = reach * self.surrogate.width
        kinks: list[AtomKinks] = []
        for pair, (k, other) in enumerate(self.pairs):
            check_clock()
            atoms = np.arange(self.n_atoms)[self._atoms_of(pair)].reshape(self._shapes[pair])
            used = wanted[atoms] != 0
            top, bottom = tops[k], bottoms[other]
            for b, rank in enumerate(self.tops[k]):  # members that may join or leave the top b
                passing = _find_movers(rank, ranked[k], moves[0], near, limit)
                if passing is None:
                    return None
                slopes = self._slopes_at(np.append(passing.scores, passing.border), bottom)
                kinks += [
                    passing.of_atom(atoms[p, b, c], _TOP, slopes[p, c, :-1], slopes[p, c, -1], top=True)
                    for p, c in np.argwhere(used[:, b])
                ]
            for c, rank in enumerate(self.bottoms[other]):  # and the bottom c, whose scores count mirrored
                passing = _find_movers(rank, ranked[other], moves[0], near, limit)
                if passing is None:
                    return None
                slopes = self._slopes_at(-np.append(passing.scores, passing.border), top.mirrored())
                kinks += [
                    passing.of_atom(atoms[p, b, c], _BOTTOM, slopes[p, b, :-1], slopes[p, b, -1], top=False)
                    for p, b in np.argwhere(used[:, :, c])
                ]
            for kink in self.surrogate.kinks:
                # Where a kink of the surrogate lies between two scores that count.
                in_top, in_bottom, residuals = crossings(
                    top.scores,
                    bottom.scores,
                    kink.at * self.surrogate.width,
                    moves[0][top.rows],
                    moves[0][bottom.rows],
                    near,
                    limit,
                )
                if in_top.size > limit:
                    return None
                jumps = np.full(in_top.size, kink.jump / self.surrogate.width)
                pairs = RowPairs(top.rows[in_top], bottom.rows[in_bottom], residuals, jumps)
                for b, c in np.argwhere(used[kink.part]):
                    counted = top.shares[b, in_top] * bottom.shares[c, in_bottom]
                    kinks.append(pairs.of_atom(atoms[kink.part, b, c], counted))
            if sum(atom_kinks.atoms.size for atom_kinks in kinks) > limit:
                return None
        return AtomKinks.joined(kinks)

    def interaction(
        self, kinks: AtomKinks, fractions: Floats, rooms: Floats, scores: Floats, members: Members
    ) -> Interaction:
        """Return the interaction of tops, bottoms and crossings: see `pair_kinks`."""
        _, tops, bottoms = self._order(scores, members)
        ratios, by_score, loss = np.ones(fractions.size), np.zeros(scores.size), 0.0
        for atom in np.unique(kinks.atoms):
            check_clock()
            pair = int(np.searchsorted(self._firsts, atom, side="right")) - 1
            part, b, c = np.unravel_index(atom - self._firsts[pair], self._shapes[pair])
            k, other = self.pairs[pair]
            here = kinks.atoms == atom
            room = rooms[here][0]  # that of the atom
            u, v = _by_row(tops[k], b, scores.size), _by_row(bottoms[other], c, scores.size)
            u_change = _border_changes(kinks, fractions, here & (kinks.borders == _TOP), scores.size)
            v_change = -_border_changes(kinks, fractions, here & (kinks.borders == _BOTTOM), scores.size)
            new_u, new_v = np.maximum(u + u_change, 0.0), np.maximum(v + v_change, 0.0)

            in_top, in_bottom = np.flatnonzero(new_u), np.flatnonzero(new_v)
            u_moved, v_moved = np.flatnonzero(u_change), np.flatnonzero(v_change)
            slopes = self._sums(1, part, scores[in_top], scores[v_moved], v_change[v_moved])
            by_score[in_top] += room * new_u[in_top] * slopes
            slopes = self._sums(1, part, -scores[in_bottom], -scores[u_moved], u_change[u_moved])
            by_score[in_bottom] -= room * new_v[in_bottom] * slopes
            heights = self._sums(0, part, scores[u_moved], scores[v_moved], v_change[v_moved])
            loss -= float(room * (u_change[u_moved] @ heights))

            crossing = np.flatnonzero(here & (kinks.others >= 0))
            i, j = kinks.rows[crossing], kinks.others[crossing]
            ratios[crossing] = new_u[i] * new_v[j] / (u[i] * v[j])
        return Interaction(ratios, by_score, loss)

    def _sums(self, order: int, part: int, targets: Floats, sources: Floats, weights: Floats) -> Floats:
        """Return the surrogate's pair sums of one part, for targets and sources in any order."""
        at, of = np.argsort(targets), np.argsort(sources)
        sums = np.empty(targets.size)
        sums[at] = self.surrogate.pair_sums(order, targets[at], sources[of], weights[None, of])[part, 0]
        return sums

    def _slopes_at(self, scores: Floats, counted: _Counted) -> Floats:
        """Return slopes of σ±, summed over counted members, at scores in any order: (2, E, n_scores)."""
        order = np.argsort(scores)
        slopes = np.empty((2, len(counted.shares), scores.size))
        slopes[..., order] = self.surrogate.pair_sums(1, scores[order], counted.scores, counted.shares)
        return slopes

    def _atoms_of(self, pair: int) -> slice:
        return slice(int(self._firsts[pair]), int(self._firsts[pair + 1]))

    def _derivatives(
        self, order: int, scores: Floats, members: Members, pairs: Iterable[int]
    ) -> Iterator[_PairDerivatives]:
        """Yield sums of derivatives of σ±, at tops over the bottoms and at bottoms over the tops."""
        _, tops, bottoms = self._order(scores, members)
        for pair in pairs:
            check_clock()
            k, other = self.pairs[pair]
            top, bottom = tops[k], bottoms[other]
            at_top = self.surrogate.pair_sums(order, top.scores, bottom.scores, bottom.shares)
            targets, sources = bottom.mirrored(), top.mirrored()  # s − t = −t − (−s)
            at_bottom = self.surrogate.pair_sums(order, targets.scores, sources.scores, sources.shares)
            yield _PairDerivatives(pair, top, bottom, at_top, at_bottom[..., ::-1])

    def _order(self, scores: Floats, members: Members) -> _Order:
        """Return the members of every group by ascending score, sorted once for all values at them."""
        # Arrays are cached by identity: oracles pass the same array while it exists.
        known = self._orders.get(id(scores))
        if known is not None and known[0]() is scores and known[1] is members:
            return known[2]
        for key in [key for key, (theirs, _, _) in self._orders.items() if theirs() is None]:
            del self._orders[key]
        order = _Order([], [], [])
        for k in range(self.n_groups):
            rows = np.flatnonzero(members.codes == k)
            rows = rows[np.argsort(scores[rows])]
            ranked = _Ranked(rows, scores[rows], members.shares[rows])
            order.ranked.append(ranked)
            above = _shares_above(ranked.scores, ranked.shares, np.array(self.tops[k]))
            below = ranked.shares - _shares_above(ranked.scores, ranked.shares, np.array(self.bottoms[k]))
            for counted, ends in ((above, order.tops), (below, order.bottoms)):
                # Counted members are adjacent: a slice is faster than indexing.
                who = np.flatnonzero(counted.any(axis=0))
                used = slice(who[0], who[-1] + 1) if who.size else slice(0)
                shares = np.ascontiguousarray(counted[:, used])
                ends.append(_Counted(ranked.rows[used], ranked.scores[used], shares))
        self._orders[id(scores)] = ref(scores), members, order
        return order


def _by_row(counted: _Counted, end: int, n_rows: int) -> Floats:
    """Return the counted weight of each row at one top or bottom."""
    shares = np.zeros(n_rows)
    shares[counted.rows] = counted.shares[end]
    return shares


def _border_changes(kinks: AtomKinks, fractions: Floats, which: Bools, n_rows: int) -> Floats:
    """Return the change of each row's weight above a border, for given fractions of kinks."""
    changes = np.zeros(n_rows)
    np.add.at(changes, kinks.rows[which], (kinks.amounts * fractions)[which])
    return changes


def _find_movers(rank: float, ranked: _Ranked, moves: Floats, near: float, limit: int) -> Movers | None:
    """Return the members of a group that may pass the border of a rank; None if there are too many."""
    rows, scores, shares = ranked
    above = _shares_above(scores, shares, np.array([rank]))[0]
    return Movers.among(rows, scores, shares, above, moves[rows], near, limit)


@njit(cache=True, nogil=True)
def _shares_above(scores: Floats, shares: Floats, ranks: Floats) -> Floats:
    """Return the part of each member above some ranks: (n_ranks, n) for ascending scores."""
    out = np.zeros((ranks.size, scores.size))
    passed, last = 0.0, scores.size
    while last > 0:  # from the top, one block of equal scores at a time: those on a rank count partly
        first = last - 1
        block = shares[first]
        while first > 0 and scores[first - 1] == scores[last - 1]:
            first -= 1
            block += shares[first]
        for r in range(ranks.size):
            if block > 0:
                held = min(max(ranks[r] - passed, 0.0), block) / block
                for i in range(first, last):
                    out[r, i] = shares[i] * held
        passed, last = passed + block, first
    return out
