"""Least squares under an order: isotonic regression on a graph of rows ``x_lower ≤ x_upper``, without ties.

    min Σ w_i (x_i − s_i)²   subject to   x_lower ≤ x_upper for every row

is a sparse quadratic program with two entries in each row. An interior-point method finds which rows hold
with equality; knots that those join form a block, and all of a block get their weighted mean, as in any
isotonic regression. Alone in its block, a knot keeps its score to the last bit. Two touches are left, in an
order that no row contradicts, from the worst up: nobody stays below a knot that a row puts underneath
(rounding errors), and those of a block are told apart by less than anyone would notice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partialfair.optimization.problems.programs import QuadraticProgram, Tolerances, solve_program
from partialfair.postprocessing._knots import KnotRows, Knots
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Bools, Floats, Ints

__all__ = ["least_change", "rising", "told_apart"]

_TOLERANCES = Tolerances(absolute=1e-10, relative=1e-10, gap_absolute=1e-13, gap_relative=1e-13, max_iter=200)
"""In units of the spread of the scores; a gap g leaves values off by √g."""

_NEAR = 1e-6
"""A block's mean that is further from the solver's value, in such units, is not believed."""

_APART = 1e-7
"""Half the width, in such units, over which a block of equal scores is spread so that none are tied: far more
than rounding errors, and far less than anyone would notice."""

_ROUNDS, _FEW = 50, 0.25
"""How often rows are taken up (ten groups take some seven rounds; what would be broken still is lifted), and
how many for each knot are few."""


def least_change(knots: Knots, rows: KnotRows) -> Floats:
    """Return the scores nearest to those of the knots that obey all rows, strictly where anybody moves."""
    if rows.point_of is None:
        return _nearest(knots.scores, knots.weights, rows, np.zeros(knots.scores.size, dtype=np.bool_))
    # The mean is counted from one score of each point: that of equal scores is then exact.
    first = np.unique(rows.point_of, return_index=True)[1]
    offsets = knots.weights * (knots.scores - knots.scores[first][rows.point_of])
    weights = np.bincount(rows.point_of, weights=knots.weights).astype(np.float64, copy=False)
    scores = knots.scores[first] + np.bincount(rows.point_of, weights=offsets) / weights
    moved = np.bincount(rows.point_of, weights=knots.scores != scores[rows.point_of]) > 0
    return _nearest(scores, weights, rows, moved)[rows.point_of]


def _nearest(scores: Floats, weights: Floats, rows: KnotRows, moved: Bools) -> Floats:
    """Return the new scores of points, some of which are means that move their knots already."""
    center = np.average(scores, weights=weights)
    spread = _root_mean_square(scores - center, weights) or 1.0
    targets = (scores - center) / spread
    weights = weights / weights.mean()
    solved, active = _solved_row_by_row(targets, weights, rows)
    blocks = _blocks(targets.size, rows, active)
    sums = np.bincount(blocks, weights=weights)
    means = (np.bincount(blocks, weights=weights * targets) / sums)[blocks]
    values = center + spread * np.where(np.abs(means - solved) <= _NEAR, means, solved)
    alone = np.bincount(blocks)[blocks] == 1
    values[alone] = scores[alone]
    sequence = np.argsort(rows.order[rows.lower], kind="stable")
    _lift(values, rows.lower[sequence], rows.upper[sequence])
    return told_apart(values, scores, rows.order, _APART * spread, moved | (values != scores))


def _root_mean_square(values: Floats, weights: Floats) -> float:
    """Return ``√(Σ w x² / Σ w)`` in units of the largest: squares of 1e-170 are too small for floats."""
    largest = float(np.abs(values).max())
    return largest and largest * float(np.sqrt(np.average((values / largest) ** 2, weights=weights)))


def _solved_row_by_row(targets: Floats, weights: Floats, rows: KnotRows) -> tuple[Floats, Bools]:
    """Return a solution as `_solved` does, of a program with the rows that matter.

    With K groups a knot has K − 1 rows above it, and one of them mostly decides; all of them together make
    the program's graph so dense that it takes minutes. So begin with the rows within groups, and take up
    those that the solution breaks, until there are none: of each knot the one that is broken worst, or all of
    them where they are few.
    """
    if rows.lower.size <= 3 * targets.size:  # two groups, or three
        return _solved(targets, weights, rows)
    taken = np.arange(rows.lower.size) < rows.n_within
    active = np.zeros(taken.size, dtype=np.bool_)
    values = targets
    for _ in range(_ROUNDS):
        broken = values[rows.lower] - values[rows.upper]
        broken[taken] = 0.0
        candidates = np.flatnonzero(broken > _TOLERANCES.absolute)
        if not candidates.size:
            break
        if candidates.size > _FEW * targets.size:
            by_knot = candidates[np.lexsort((-broken[candidates], rows.lower[candidates]))]
            candidates = by_knot[np.append(True, np.diff(rows.lower[by_knot]) > 0)]
        taken[candidates] = True
        some = replace(rows, lower=rows.lower[taken], upper=rows.upper[taken])
        values, active[taken] = _solved(targets, weights, some)
    return values, active


def _solved(targets: Floats, weights: Floats, rows: KnotRows) -> tuple[Floats, Bools]:
    """Return a solution up to the solver's tolerance, and which rows hold with equality in it."""
    from scipy.sparse import csc_matrix, diags

    n, m = targets.size, rows.lower.size
    at = np.arange(m)
    entries = (
        np.concatenate([np.ones(m), -np.ones(m)]),
        (np.tile(at, 2), np.concatenate([rows.lower, rows.upper])),
    )
    program = QuadraticProgram(
        diags(weights, format="csc"), -weights * targets, csc_matrix(entries, shape=(m, n)), np.zeros(m)
    )
    optimum = solve_program(program, _TOLERANCES)
    if optimum is None:  # lifting alone obeys the rows as well
        return targets.copy(), np.zeros(m, dtype=np.bool_)
    values = optimum.x
    # Of a row's slack and its multiplier one is 0 at the solution; near it that one is the smaller.
    return values, optimum.rows > values[rows.upper] - values[rows.lower]


def _blocks(n: int, rows: KnotRows, active: Bools) -> Ints:
    """Return the number of each knot's block: knots that rows with equality join."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    lower, upper = rows.lower[active], rows.upper[active]
    joined = coo_matrix((np.ones(lower.size), (lower, upper)), shape=(n, n))
    return np.asarray(connected_components(joined, directed=False)[1])


@njit(cache=True)
def _lift(values: Floats, lower: Ints, upper: Ints) -> None:
    """Raise values until all rows hold; rows are sorted by the order of their lower ends."""
    for row in range(lower.size):
        values[upper[row]] = max(values[upper[row]], values[lower[row]])


def told_apart(values: Floats, before: Floats, order: Ints, apart: float, moves: Bools) -> Floats:
    """Spread equal values, one of which was moved, by at most ``apart``, in an order that no row contradicts.

    A block takes at most a quarter of the way to its neighbours, and never leaves the range of the scores.
    Those whom nobody moved keep their scores, ties of different groups included.
    """
    sequence = np.lexsort((order, values))
    ranked, originals = values[sequence], before[sequence]
    begins = np.concatenate([[0], np.flatnonzero(ranked[1:] != ranked[:-1]) + 1])
    sizes = np.diff(np.append(begins, ranked.size))
    heights = ranked[begins]
    moved = np.add.reduceat(moves[sequence].astype(np.intp), begins) > 0
    bounds = np.concatenate([[min(before.min(), heights[0])], heights, [max(before.max(), heights[-1])]])
    half = np.minimum(apart, np.minimum(np.diff(bounds)[:-1], np.diff(bounds)[1:]) / 4)
    half = np.where(moved & (sizes > 1), half, 0.0)
    place = np.arange(ranked.size) - np.repeat(begins, sizes)
    steps = np.repeat(np.where(sizes > 1, 2 * half / np.maximum(sizes - 1, 1), 0.0), sizes)
    spread = ranked + (place * steps - np.repeat(half, sizes))
    spread[np.repeat(half == 0, sizes)] = ranked[np.repeat(half == 0, sizes)]
    tied = np.append(False, (originals[1:] == originals[:-1]) & ~np.repeat(moved, sizes)[1:])
    result = np.empty(values.size)
    result[sequence] = rising(spread, tied, before.max())
    return result


@njit(cache=True)
def rising(values: Floats, tied: Bools, highest: float) -> Floats:
    """Return values that rise strictly, but where they may stay tied, and end at ``highest`` at most.

    They are raised by as little as floats can, and lowered by as little where that led above the end.
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
