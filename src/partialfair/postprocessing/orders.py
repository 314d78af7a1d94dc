"""Orders between rows of different groups that bound a gap by κ, and the nearest scores that satisfy them.

Let group k have the distinct scores ``x_k1 > x_k2 > …``, and let ``e_ki`` be the fraction of its interval
that is passed after the i-th (`IntervalSet.passed`). A change of scores that preserves the order within
groups does not change any ``e_ki``, and ``P_k(θ) = e_ki`` for θ in ``[x_k,i+1, x_ki)``. Hence

    max_θ |P_k(θ) − P_j(θ)| ≤ κ   ⟺   x_ki ≤ x_jl for each i, where l is the first with e_jl ≥ e_ki − κ,

and the same with k and j exchanged: just below x_ki a fraction of at least e_ki of k is passed, so j must
have passed e_ki − κ by then. The gap is bounded by an *order between rows of different groups*, and least
squares under an order is isotonic regression.

On the absolute scale ``e_ki`` is the fraction of the whole group, and only those θ count at which a rank lies
in the interval: those with e_ki inside need x_ki ≤ x_jl as above, and ``x_jr ≤ x_k,i+1`` where r is the first
with ``e_jr > e_ki + κ``.

**The floor.** Let ``u_ki = e_ki − ½ p_ki`` be the middle of the part of the interval on one score. If κ is at
least ½ (b_k + b_j), where b is the largest p of a group, all these inequalities lead from larger u to smaller
u, strictly: ``u_jl = e_j,l−1 + ½ p_jl < e_ki − κ + ½ p_jl ≤ u_ki``. So ordering all scores by u satisfies
them without a tie, and sorting by u puts the lower end of every inequality before its upper end
(`Knots.order`).

The floor is sufficient, not necessary. Below it, inequalities may form cycles, whose knots all have the same
score. That is a new tie within a group if a cycle contains two knots of that group; a cycle with at most one
knot of each group only ties scores of *different* groups, which no definition forbids. So maps exist exactly
if no strongly connected component contains two knots of one group (`order_rows`): two groups with the same
ten fractions on ten scores reach a gap of 0, whatever these scores are.

**Isotonic regression.** The smallest change,

    min Σ w_i (x_i − s_i)²   subject to   x_lower ≤ x_upper for every inequality,

is a sparse quadratic program with two entries per inequality ("row" below). An interior-point method finds
which rows are active; knots that active rows join form a block, and all knots of a block get their weighted
mean, as in any isotonic regression. A knot that is alone in its block keeps its score to the last bit. Two
corrections follow, in an order that no row contradicts, from the lowest up: knots below one that a row puts
underneath are raised (rounding errors), and knots of a block are separated by negligible distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import permutations

import numpy as np
from scipy.sparse import coo_matrix, csc_matrix, diags
from scipy.sparse.csgraph import connected_components

from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet, tie_ends
from partialfair.metrics.inputs import GroupScores
from partialfair.optimization.problems.programs import QuadraticProgram, Tolerances, solve_program
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Bools, Floats, GapScale, Ints

# Fractions that differ by less are equal: half the tolerance of the exact metric.
_SAME = RANK_TOLERANCE / 2

_TOLERANCES = Tolerances(absolute=1e-10, relative=1e-10, gap_absolute=1e-13, gap_relative=1e-13, max_iter=200)


@dataclass(frozen=True)
class IsotonicSettings:
    """Settings of the isotonic regression; lengths are in units of the spread of the scores.

    Attributes
    ----------
    tolerances
        Tolerances of the quadratic program; with a duality gap g, values are off by √g.
    near
        Largest distance of a block's mean from the solver's value at which the block is accepted.
    half_width
        Half the width over which the equal scores of a block are spread to avoid ties: far more than rounding
        errors, and negligible otherwise.
    max_rounds
        How often rows are added that the solution violates. Ten groups need about seven rounds; scores that
        violate rows after that are raised.
    few
        Number of violated rows per knot up to which all of them are added.
    """

    tolerances: Tolerances = _TOLERANCES
    near: float = 1e-6
    half_width: float = 1e-7
    max_rounds: int = 50
    few: float = 0.25


_ISOTONIC = IsotonicSettings()


@dataclass(frozen=True, eq=False)
class Blocks:
    """Distinct scores of one group, in descending order.

    Attributes
    ----------
    scores, weights : (n,)
        Each score, and the weight of all rows that have it.
    starts, ends : (n,)
        Fraction of the interval (on the absolute scale: of the group) that is passed before and after it.
    ranks : (n,)
        Fraction of the group that is passed after it.
    """

    scores: Floats
    weights: Floats
    starts: Floats
    ends: Floats
    ranks: Floats

    @property
    def masses(self) -> Floats:
        """The fraction p of the interval on each score."""
        return self.ends - self.starts


@dataclass(frozen=True, eq=False)
class KnotRows:
    """Pairs of points, the lower of which must not have the higher score; those within groups come first.

    Attributes
    ----------
    order : (n,)
        Position of each point in an ascending order that no row contradicts.
    point_of
        Point of each knot, if rows tie knots of different groups; None if every knot is a point.
    """

    lower: Ints
    upper: Ints
    n_within: int
    order: Ints
    point_of: Ints | None = None


@dataclass(frozen=True, eq=False)
class Knots:
    """Scores of all groups between which maps are linear, one group after the other, in descending order.

    Attributes
    ----------
    first : (n_groups + 1,)
        Where each group begins.
    scores, weights, starts, ends : (n,)
        As in `Blocks`; a score between two knots counts partly for both.
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
        """Return the positions of the knots of a group."""
        return slice(int(self.first[k]), int(self.first[k + 1]))

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return self.first.size - 1

    @cached_property
    def order(self) -> Ints:
        """Position of each knot in an ascending order that no row contradicts; see the floor above."""
        sizes = np.diff(self.first)
        group = np.repeat(np.arange(sizes.size), sizes)
        middles = self.starts + self.ends  # twice u; sums of increasing numbers increase under rounding
        sequence = np.lexsort((-np.arange(group.size), group, -middles))
        places = np.empty(group.size, dtype=np.intp)
        places[sequence] = np.arange(group.size)
        return places


def group_blocks(group: GroupScores, gap_scale: GapScale) -> Blocks:
    """Return the distinct scores of a group, with the fractions that the exact metric computes."""
    from_top = group.scores[::-1]
    ends = tie_ends(from_top)  # number of rows with at least each distinct score
    above = np.arange(group.n + 1.0) if group.weights is None else group.above
    ranks = above[ends] / above[-1]
    shares = group.interval.passed(ranks) if gap_scale == "interval" else ranks
    return Blocks(from_top[ends[:-1]], np.diff(above[ends]), shares[:-1], shares[1:], ranks[1:])


def knots_of(blocks: list[Blocks], max_knots: int | None, borders: Sequence[float] = ()) -> Knots:
    """Choose about ``max_knots`` scores of each group: half by fractions of the interval, half by rank.

    Scores on either side of the ends of the interval are always chosen, and those at the ranks ``borders``.
    """
    chosen = [_choose_knots(one, max_knots, borders) for one in blocks]
    parts = [_thin_out(one, at) for one, at in zip(blocks, chosen, strict=True)]
    first = np.concatenate([[0], np.cumsum([at.size for at in chosen])])
    scores, weights, starts, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    is_all = all(at.size == one.scores.size for one, at in zip(blocks, chosen, strict=True))
    return Knots(first, scores, weights, starts, ends, is_all)


def _choose_knots(blocks: Blocks, max_knots: int | None, borders: Sequence[float]) -> Ints:
    n = blocks.scores.size
    if max_knots is None or n <= max_knots:
        return np.arange(n)
    shares = np.linspace(0.0, 1.0, max_knots // 2)
    # Otherwise both halves would be the same if the interval is the whole group.
    between = (shares[1:] + shares[:-1]) / 2
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


def _thin_out(blocks: Blocks, at: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """Return scores, weights, starts and ends of the knots; scores between two count partly for both."""
    if at.size == blocks.scores.size:
        return blocks.scores, blocks.weights, blocks.starts, blocks.ends
    scores = blocks.scores[at]
    left = np.clip(np.searchsorted(at, np.arange(blocks.scores.size), side="right") - 1, 0, at.size - 2)
    # A map changes a score between two knots by the mean of their changes, weighted by its distances.
    nearness = (blocks.scores - scores[left]) / (scores[left + 1] - scores[left])
    weights = np.zeros(at.size)
    weights += np.bincount(left, weights=blocks.weights * (1 - nearness), minlength=at.size)
    weights += np.bincount(left + 1, weights=blocks.weights * nearness, minlength=at.size)
    borders = (blocks.ends[at[:-1]] + blocks.starts[at[1:]]) / 2
    starts = np.concatenate([[blocks.starts[0]], borders])
    return scores, weights, starts, np.concatenate([borders, [blocks.ends[-1]]])


def largest_shares(blocks: list[Blocks], max_gap: float, interval: IntervalSet | None) -> Floats:
    """Return b, the largest fraction of each group's interval on one score; half the sum of two is a floor.

    Parameters
    ----------
    interval
        On the absolute scale the interval: only scores that a row may concern count, those with ranks at
        most ``max_gap`` away from it. None on the interval scale.
    """
    largest = []
    for one in blocks:
        near = np.zeros(one.scores.size, dtype=np.bool_)
        for low, high in ((0.0, 1.0),) if interval is None else interval.parts:
            near |= (one.ends > low - max_gap) & (one.starts < high + max_gap)
        largest.append(one.masses[near].max())
    return np.array(largest)


def order_rows(knots: Knots, max_gap: float, interval: IntervalSet | None) -> KnotRows | None:
    """Return all rows that bound the gap by ``max_gap``, those within groups first.

    Parameters
    ----------
    interval
        On the absolute scale, the interval; None on the interval scale.

    Returns
    -------
    rows
        None if no scores without new ties satisfy them. If not every score is a knot, None already below the
        floor of the knots, because scores between tied knots would pass each other.
    """
    # Within a group every knot but the first is below the one before it.
    inner = np.setdiff1d(np.arange(knots.scores.size), knots.first[:-1])
    lower, upper = [inner], [inner - 1]
    for k, j in permutations(range(knots.n_groups), 2):
        for low, high in _rows_between(knots, k, j, max_gap, interval):
            lower.append(low)
            upper.append(high)
    rows = KnotRows(np.concatenate(lower), np.concatenate(upper), inner.size, knots.order)
    # At or above the floor the order by u contradicts no row, so there are no cycles.
    if bool((rows.order[rows.lower] < rows.order[rows.upper]).all()):
        return rows
    return _merge_cycles(knots, rows) if knots.is_all else None


def _merge_cycles(knots: Knots, rows: KnotRows) -> KnotRows | None:
    """Return the rows between strongly connected components; None if one holds two knots of a group."""
    n = knots.scores.size
    graph = coo_matrix((np.ones(rows.lower.size), (rows.lower, rows.upper)), shape=(n, n))
    # All knots of a component have one score, so the component becomes a point.
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
    """Return the rows by which k bounds j; of several with the same upper end only the strictest."""
    k_at, j_at = knots.of(k), knots.of(j)
    k_ends, j_ends = knots.ends[k_at], knots.ends[j_at]
    counts = knots.starts[k_at] < k_ends if interval is None else _holds(interval, k_ends)
    at = np.flatnonzero(counts & (k_ends - max_gap > _SAME))
    # Of all i with the same l the first has the highest score, which implies the rows of the others.
    upper, first = np.unique(np.searchsorted(j_ends, k_ends[at] - max_gap - _SAME), return_index=True)
    rows = [(k_at.start + at[first], j_at.start + upper)]
    if interval is None:
        return rows
    # The score below the last of k that θ passes is at θ itself; none may be passed before the first.
    at = np.flatnonzero(_holds(interval, knots.starts[k_at]))[::-1]
    lower = np.searchsorted(j_ends, knots.starts[k_at][at] + max_gap + _SAME, side="right")
    at, lower = at[lower < j_ends.size], lower[lower < j_ends.size]
    lower, first = np.unique(lower, return_index=True)  # at decreases: the first is the lowest
    return [*rows, (j_at.start + lower, k_at.start + at[first])]


def _holds(interval: IntervalSet, ranks: Floats) -> Bools:
    """Whether each rank lies in the interval; see `partialfair.data.intervals.holds_rank`."""
    depth = ranks[:, None] - interval.starts
    return np.asarray(((depth >= -RANK_TOLERANCE) & (depth < interval.lengths - RANK_TOLERANCE)).any(axis=1))


def find_least_change(knots: Knots, rows: KnotRows) -> Floats:
    """Return the scores nearest to those of the knots that satisfy all rows, strictly where any changes."""
    if rows.point_of is None:
        return _find_nearest(knots.scores, knots.weights, rows, np.zeros(knots.scores.size, dtype=np.bool_))
    # The mean is computed relative to one score of each point, so that of equal scores is exact.
    first = np.unique(rows.point_of, return_index=True)[1]
    offsets = knots.weights * (knots.scores - knots.scores[first][rows.point_of])
    weights = np.bincount(rows.point_of, weights=knots.weights).astype(np.float64, copy=False)
    scores = knots.scores[first] + np.bincount(rows.point_of, weights=offsets) / weights
    moved = np.bincount(rows.point_of, weights=knots.scores != scores[rows.point_of]) > 0
    return _find_nearest(scores, weights, rows, moved)[rows.point_of]


def _find_nearest(scores: Floats, weights: Floats, rows: KnotRows, moved: Bools) -> Floats:
    """Return the new scores of points, some of which are means that already change their knots."""
    center = np.average(scores, weights=weights)
    # In units of the largest distance, because squares of 1e-170 are too small for floats.
    largest = float(np.abs(scores - center).max())
    squares = ((scores - center) / (largest or 1.0)) ** 2
    spread = largest * float(np.sqrt(np.average(squares, weights=weights))) or 1.0
    targets = (scores - center) / spread
    weights = weights / weights.mean()
    solved, active = _solve_row_by_row(targets, weights, rows)
    # Knots that active rows join.
    joined = coo_matrix(
        (np.ones(int(active.sum())), (rows.lower[active], rows.upper[active])), shape=(targets.size,) * 2
    )
    blocks = np.asarray(connected_components(joined, directed=False)[1])
    sums = np.bincount(blocks, weights=weights)
    means = (np.bincount(blocks, weights=weights * targets) / sums)[blocks]
    values = center + spread * np.where(np.abs(means - solved) <= _ISOTONIC.near, means, solved)
    alone = np.bincount(blocks)[blocks] == 1
    values[alone] = scores[alone]
    sequence = np.argsort(rows.order[rows.lower], kind="stable")
    _lift(values, rows.lower[sequence], rows.upper[sequence])
    return separate_ties(
        values, scores, rows.order, _ISOTONIC.half_width * spread, moved | (values != scores)
    )


def _solve_row_by_row(targets: Floats, weights: Floats, rows: KnotRows) -> tuple[Floats, Bools]:
    """Return a solution as `_solve` does, of a program with the rows that matter.

    With K groups a knot has K − 1 rows above it, of which mostly one is active. All of them together make the
    graph of the program so dense that it takes minutes. So begin with the rows within groups, and add those
    that the solution violates until there are none: for each knot the most violated one, or all of them if
    there are few.
    """
    if rows.lower.size <= 3 * targets.size:  # two groups, or three
        return _solve(targets, weights, rows)
    taken = np.arange(rows.lower.size) < rows.n_within
    active = np.zeros(taken.size, dtype=np.bool_)
    values = targets
    for _ in range(_ISOTONIC.max_rounds):
        violation = values[rows.lower] - values[rows.upper]
        violation[taken] = 0.0
        candidates = np.flatnonzero(violation > _ISOTONIC.tolerances.absolute)
        if not candidates.size:
            break
        if candidates.size > _ISOTONIC.few * targets.size:
            by_knot = candidates[np.lexsort((-violation[candidates], rows.lower[candidates]))]
            candidates = by_knot[np.append(True, np.diff(rows.lower[by_knot]) > 0)]
        taken[candidates] = True
        some = replace(rows, lower=rows.lower[taken], upper=rows.upper[taken])
        values, active[taken] = _solve(targets, weights, some)
    return values, active


def _solve(targets: Floats, weights: Floats, rows: KnotRows) -> tuple[Floats, Bools]:
    """Return a solution up to the solver's tolerance, and which rows are active in it."""
    n, m = targets.size, rows.lower.size
    at = np.arange(m)
    entries = (
        np.concatenate([np.ones(m), -np.ones(m)]),
        (np.tile(at, 2), np.concatenate([rows.lower, rows.upper])),
    )
    program = QuadraticProgram(
        diags(weights, format="csc"), -weights * targets, csc_matrix(entries, shape=(m, n)), np.zeros(m)
    )
    optimum = solve_program(program, _ISOTONIC.tolerances)
    if optimum is None:  # raising scores alone satisfies the rows as well
        return targets.copy(), np.zeros(m, dtype=np.bool_)
    values = optimum.x
    # At the solution a row's slack or its multiplier is 0; near it that one is the smaller.
    return values, optimum.rows > values[rows.upper] - values[rows.lower]


@njit(cache=True)
def _lift(values: Floats, lower: Ints, upper: Ints) -> None:
    """Raise values until all rows hold; rows are sorted by the order of their lower ends."""
    for row in range(lower.size):
        values[upper[row]] = max(values[upper[row]], values[lower[row]])


def separate_ties(values: Floats, before: Floats, order: Ints, half_width: float, moves: Bools) -> Floats:
    """Spread equal values, one of which was changed, by at most ``half_width``, in a valid order.

    A block uses at most a quarter of the distance to its neighbors and never leaves the range of the scores.
    Unchanged scores stay the same, ties between different groups included.
    """
    sequence = np.lexsort((order, values))
    ranked, originals = values[sequence], before[sequence]
    begins = np.concatenate([[0], np.flatnonzero(ranked[1:] != ranked[:-1]) + 1])
    sizes = np.diff(np.append(begins, ranked.size))
    heights = ranked[begins]
    moved = np.add.reduceat(moves[sequence].astype(np.intp), begins) > 0
    bounds = np.concatenate([[min(before.min(), heights[0])], heights, [max(before.max(), heights[-1])]])
    half = np.minimum(half_width, np.minimum(np.diff(bounds)[:-1], np.diff(bounds)[1:]) / 4)
    half = np.where(moved & (sizes > 1), half, 0.0)
    place = np.arange(ranked.size) - np.repeat(begins, sizes)
    steps = np.repeat(np.where(sizes > 1, 2 * half / np.maximum(sizes - 1, 1), 0.0), sizes)
    spread = ranked + (place * steps - np.repeat(half, sizes))
    spread[np.repeat(half == 0, sizes)] = ranked[np.repeat(half == 0, sizes)]
    tied = np.append(False, (originals[1:] == originals[:-1]) & ~np.repeat(moved, sizes)[1:])
    result = np.empty(values.size)
    result[sequence] = make_rising(spread, tied, before.max())
    return result


@njit(cache=True)
def make_rising(values: Floats, tied: Bools, highest: float) -> Floats:
    """Return strictly increasing values, except where ties are allowed, that are at most ``highest``.

    They are raised by the smallest float increments, and lowered by these if the result exceeds the limit.
    """
    raised = values.copy()
    for i in range(1, raised.size):
        if tied[i]:
            raised[i] = max(raised[i], raised[i - 1])
        elif raised[i] <= raised[i - 1]:
            raised[i] = np.nextafter(raised[i - 1], np.inf)
    raised[-1] = min(raised[-1], highest)
    for i in range(raised.size - 2, -1, -1):
        if tied[i + 1]:
            raised[i] = min(raised[i], raised[i + 1])
        elif raised[i] >= raised[i + 1]:
            raised[i] = np.nextafter(raised[i + 1], -np.inf)
    return raised
