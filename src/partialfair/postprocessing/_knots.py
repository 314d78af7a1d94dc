"""Who stands where: distinct scores of each group, their places in the interval, and what order κ asks for.

Let group k have the distinct scores ``x_k1 > x_k2 > …`` and let ``e_ki`` be the share of its interval that is
passed after the i-th (`IntervalSet.passed`). A change of scores that keeps the order within groups leaves all
``e_ki`` as they are, and ``P_k(θ) = e_ki`` for θ in ``[x_k,i+1, x_ki)``. Hence

    max_θ |P_k(θ) − P_j(θ)| ≤ κ   ⟺   x_ki ≤ x_jl for each i, where l is the first with e_jl ≥ e_ki − κ,

and the same with k and j exchanged: just below x_ki a share of at least e_ki of k is passed, so j must have
passed e_ki − κ by then. The gap is bounded by an *order between people of different groups*, and least
squares under an order is isotonic regression (`partialfair.postprocessing._isotonic`).

On the absolute scale ``e_ki`` is the share of the whole group, and only θ count at which a rank lies in the
interval: those with e_ki inside ask for x_ki ≤ x_jl as above, and for ``x_jr ≤ x_k,i+1`` where r is the first
with ``e_jr > e_ki + κ``.

**The floor.** Let ``u_ki = e_ki − ½ p_ki`` be the middle of what a score holds of its interval. If κ is at
least ½ (b_k + b_j), b being the largest p of a group, all these rows lead from larger u to smaller u,
strictly: ``u_jl = e_j,l−1 + ½ p_jl < e_ki − κ + ½ p_jl ≤ u_ki``. So placing everybody by u satisfies them
without a tie, and sorting by u puts every row's lower end before its upper end (`Knots.order`).

The floor is sufficient, not necessary. Below it rows may form cycles, whose knots all have the same score.
That is a new tie within a group if a cycle holds two knots of that group; a cycle with at most one knot of
each group only ties scores of *different* groups, which no definition forbids. So maps exist exactly if no
strongly connected component of the rows holds two knots of one group (`order_rows`): two groups with the same
ten shares on ten scores reach a gap of 0, whatever these scores are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet, tie_ends
from partialfair.metrics.inputs import GroupScores
from partialfair.utils.typing import Bools, Floats, GapScale, Ints

__all__ = ["Blocks", "KnotRows", "Knots", "group_blocks", "knots_of", "largest_shares", "order_rows"]

_SAME = RANK_TOLERANCE / 2
"""Shares that differ by less are the same: half of what the referee forgives."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Distinct scores of one group, from the best down.

    Attributes
    ----------
    scores, weights : (n,)
        Each score, and the weight of everybody who has it.
    starts, ends : (n,)
        Share of the interval (on the absolute scale: of the group) that is passed before and after it.
    ranks : (n,)
        Share of the group that is passed after it.
    """

    scores: Floats
    weights: Floats
    starts: Floats
    ends: Floats
    ranks: Floats

    @property
    def masses(self) -> Floats:
        """What each score holds: p."""
        return self.ends - self.starts


@dataclass(frozen=True, eq=False)
class KnotRows:
    """Pairs of points, the lower of which must not have the higher score; those within groups come first.

    Attributes
    ----------
    order : (n,)
        Place of each point in an order from the worst up that no row contradicts.
    point_of
        Point of each knot, where rows tie knots of different groups; None if every knot is a point.
    """

    lower: Ints
    upper: Ints
    n_within: int
    order: Ints
    point_of: Ints | None = None


@dataclass(frozen=True, eq=False)
class Knots:
    """Scores of all groups between which maps are straight, group after group, each from the best down.

    Attributes
    ----------
    first : (n_groups + 1,)
        Where each group begins.
    scores, weights, starts, ends : (n,)
        As in `Blocks`; where not every score is a knot, those between two count with both.
    is_all
        Whether every distinct score is a knot.
    """

    first: Ints
    scores: Floats
    weights: Floats
    starts: Floats
    ends: Floats
    is_all: bool

    def of(self, k: int) -> slice:
        """Where the knots of a group are."""
        return slice(int(self.first[k]), int(self.first[k + 1]))

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return self.first.size - 1

    @cached_property
    def order(self) -> Ints:
        """Place of each knot in an order from the worst up that no row contradicts; see the floor above."""
        sizes = np.diff(self.first)
        group = np.repeat(np.arange(sizes.size), sizes)
        middles = self.starts + self.ends  # twice u; sums of rising numbers rise, whatever the rounding
        sequence = np.lexsort((-np.arange(group.size), group, -middles))
        places = np.empty(group.size, dtype=np.intp)
        places[sequence] = np.arange(group.size)
        return places


def group_blocks(group: GroupScores, gap_scale: GapScale) -> Blocks:
    """Return the distinct scores of a group, with the shares that the referee computes."""
    from_top = group.scores[::-1]
    ends = tie_ends(from_top)
    above = np.arange(group.n + 1.0) if group.weights is None else group.above
    ranks = above[ends] / above[-1]
    shares = group.interval.passed(ranks) if gap_scale == "interval" else ranks
    return Blocks(from_top[ends[:-1]], np.diff(above[ends]), shares[:-1], shares[1:], ranks[1:])


def knots_of(blocks: list[Blocks], max_knots: int | None, borders: Sequence[float] = ()) -> Knots:
    """Choose about ``max_knots`` scores of each group: half by shares of the interval, half by rank.

    Scores on either side of where the interval begins and ends are always chosen, and those at the ranks
    ``borders``.
    """
    chosen = [_chosen(one, max_knots, borders) for one in blocks]
    parts = [_thinned(one, at) for one, at in zip(blocks, chosen, strict=True)]
    first = np.concatenate([[0], np.cumsum([at.size for at in chosen])])
    scores, weights, starts, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    is_all = all(at.size == one.scores.size for one, at in zip(blocks, chosen, strict=True))
    return Knots(first, scores, weights, starts, ends, is_all)


def _chosen(blocks: Blocks, max_knots: int | None, borders: Sequence[float]) -> Ints:
    n = blocks.scores.size
    if max_knots is None or n <= max_knots:
        return np.arange(n)
    shares = np.linspace(0.0, 1.0, max_knots // 2)
    between = (
        shares[1:] + shares[:-1]
    ) / 2  # or both halves would be the same where the interval is everybody
    inside = blocks.masses > 0
    ends = np.flatnonzero(inside[1:] != inside[:-1])
    ends = np.concatenate([ends, np.searchsorted(blocks.ranks, np.asarray(borders, dtype=np.float64))])
    chosen = [
        np.searchsorted(blocks.ends, shares * blocks.ends[-1]),
        np.searchsorted(blocks.ranks, between * blocks.ranks[-1]),
        ends - 1,
        ends,
        ends + 1,
        [0, n - 1],
    ]
    return np.unique(np.clip(np.concatenate(chosen), 0, n - 1)).astype(np.intp)


def _thinned(blocks: Blocks, at: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """Return scores, weights, starts and ends of the knots; what lies between two belongs to both in part."""
    if at.size == blocks.scores.size:
        return blocks.scores, blocks.weights, blocks.starts, blocks.ends
    scores = blocks.scores[at]
    left = np.clip(np.searchsorted(at, np.arange(blocks.scores.size), side="right") - 1, 0, at.size - 2)
    # A map moves a score between two knots by the mean of their moves, in proportion to its distances.
    nearness = (blocks.scores - scores[left]) / (scores[left + 1] - scores[left])
    weights = np.zeros(at.size)
    weights += np.bincount(left, weights=blocks.weights * (1 - nearness), minlength=at.size)
    weights += np.bincount(left + 1, weights=blocks.weights * nearness, minlength=at.size)
    borders = (blocks.ends[at[:-1]] + blocks.starts[at[1:]]) / 2
    starts = np.concatenate([[blocks.starts[0]], borders])
    return scores, weights, starts, np.concatenate([borders, [blocks.ends[-1]]])


def largest_shares(blocks: list[Blocks], max_gap: float, interval: IntervalSet | None) -> Floats:
    """Return b, the largest share of its interval that a score of each group holds; half of two is a floor.

    Parameters
    ----------
    interval
        On the absolute scale the interval: only scores that a row may be about count, those with ranks at
        most ``max_gap`` away from it. None on the interval scale.
    """
    return np.array([one.masses[_near(one, max_gap, interval)].max() for one in blocks])


def _near(blocks: Blocks, max_gap: float, interval: IntervalSet | None) -> Bools:
    near = np.zeros(blocks.scores.size, dtype=np.bool_)
    for low, high in ((0.0, 1.0),) if interval is None else interval.parts:
        near |= (blocks.ends > low - max_gap) & (blocks.starts < high + max_gap)
    return near


def order_rows(knots: Knots, max_gap: float, interval: IntervalSet | None) -> KnotRows | None:
    """Return all rows that bound the gap by ``max_gap``, those within groups first.

    Parameters
    ----------
    interval
        On the absolute scale, the interval; None on the interval scale.

    Returns
    -------
    rows
        None if no scores without new ties obey them. Where not every score is a knot, None already below the
        floor of the knots: scores between tied knots would pass each other.
    """
    inner = np.setdiff1d(np.arange(knots.scores.size), knots.first[:-1])
    lower, upper = [inner], [inner - 1]
    for k, j in permutations(range(knots.n_groups), 2):
        for low, high in _rows_between(knots, k, j, max_gap, interval):
            lower.append(low)
            upper.append(high)
    rows = KnotRows(np.concatenate(lower), np.concatenate(upper), inner.size, knots.order)
    if bool((rows.order[rows.lower] < rows.order[rows.upper]).all()):
        return rows
    return _merge_cycles(knots, rows) if knots.is_all else None


def _merge_cycles(knots: Knots, rows: KnotRows) -> KnotRows | None:
    """Return the rows between strongly connected components; None if one holds two knots of a group."""
    from graphlib import TopologicalSorter

    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = knots.scores.size
    graph = coo_matrix((np.ones(rows.lower.size), (rows.lower, rows.upper)), shape=(n, n))
    n_points, point_of = connected_components(graph, directed=True, connection="strong")
    point_of = point_of.astype(np.intp)
    lower, upper = point_of[rows.lower], point_of[rows.upper]
    if (lower[: rows.n_within] == upper[: rows.n_within]).any():
        return None
    between = lower != upper
    lower, upper = lower[between], upper[between]
    below: dict[int, list[int]] = {point: [] for point in range(n_points)}
    for low, high in zip(lower.tolist(), upper.tolist(), strict=True):
        below[high].append(low)
    order = np.empty(n_points, dtype=np.intp)
    order[list(TopologicalSorter(below).static_order())] = np.arange(n_points)
    return KnotRows(lower, upper, rows.n_within, order, point_of)


def _rows_between(
    knots: Knots, k: int, j: int, max_gap: float, interval: IntervalSet | None
) -> list[tuple[Ints, Ints]]:
    """Return the rows that k asks for of j; of several with one upper end only the strictest."""
    k_at, j_at = knots.of(k), knots.of(j)
    k_ends, j_ends = knots.ends[k_at], knots.ends[j_at]
    asks = knots.starts[k_at] < k_ends if interval is None else _holds(interval, k_ends)
    at = np.flatnonzero(asks & (k_ends - max_gap > _SAME))
    upper, first = np.unique(np.searchsorted(j_ends, k_ends[at] - max_gap - _SAME), return_index=True)
    found = [(k_at.start + at[first], j_at.start + upper)]
    if interval is None:
        return found
    # Below the last of k that θ lets pass comes the next, at θ itself; nobody may be passed before the first.
    at = np.flatnonzero(_holds(interval, knots.starts[k_at]))[::-1]
    lower = np.searchsorted(j_ends, knots.starts[k_at][at] + max_gap + _SAME, side="right")
    at, lower = at[lower < j_ends.size], lower[lower < j_ends.size]
    lower, first = np.unique(lower, return_index=True)  # at falls: the first is the worst
    return [*found, (j_at.start + lower, k_at.start + at[first])]


def _holds(interval: IntervalSet, ranks: Floats) -> Bools:
    """Whether each rank lies in the interval; see `partialfair.data.intervals.holds_rank`."""
    depth = ranks[:, None] - interval.starts
    return np.asarray(((depth >= -RANK_TOLERANCE) & (depth < interval.lengths - RANK_TOLERANCE)).any(axis=1))
