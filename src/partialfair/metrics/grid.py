"""Summaries of rank curves on a grid, which determine the gaps of all intervals that end on its lines.

The rank curve of two groups, ``θ → (x, y) = (F̄_a(θ), F̄_b(θ))``, is monotone and visits at most 2 n + 1
cells of an n × n grid. A few extremes of each visit (`grid_visits`) determine statistical parity on both
scales and the group AUC on every interval ``[i/n, j/n)``, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from partialfair.data.intervals import RANK_TOLERANCE
from partialfair.metrics import sweep
from partialfair.metrics.inputs import GroupScores
from partialfair.metrics.sweep import next_block
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints


def visits_of_pairs(groups: Sequence[GroupScores], n_grid: int) -> Iterator[tuple[Ints, Floats]]:
    """Yield `grid_visits` of each pair, in order."""
    if len(groups) <= sweep.MANY_GROUPS:
        for a, b in combinations(groups, 2):
            yield grid_visits(*a.ranked, *b.ranked, n_grid)
        return
    owners, passed, ends, n_groups = sweep.sweep_scores(groups)
    owners = owners.astype(np.int32)  # small integers: every group but the last goes through these arrays
    blocks = np.repeat(np.arange(ends.size - 1, dtype=np.int32), np.diff(ends))
    n_left = blocks.size
    for k in range(n_groups - 1):
        n_left, n_visits, cells, visits = _visits_of_one(
            owners[:n_left], passed[:n_left], blocks[:n_left], n_groups, k, n_grid
        )
        for j in range(k + 1, n_groups):
            yield cells[j, : n_visits[j]], visits[j, : n_visits[j]]


@njit(cache=True)
def grid_visits(a: Floats, above_a: Floats, b: Floats, above_b: Floats, n_grid: int) -> tuple[Ints, Floats]:
    """Summarize the curve ``θ → (x, y) = (F̄_a(θ), F̄_b(θ))`` by the cells of a grid that it visits.

    The curve is monotone, so it visits at most ``2 n_grid + 1`` cells. For each one, in order, return its
    position, and the points (x, y) of the visit that come first, last, with the largest ``x − y`` and with
    the largest ``y − x``, and last the mass of pairs within the visit in which the member of a scores higher,
    ties counted ½. These determine the gaps of all intervals that end on grid lines.
    """
    cells = np.empty((2 * n_grid + 1, 2), dtype=np.int64)
    visits = np.empty((2 * n_grid + 1, 9))
    n_visits = 0
    i, j, theta = 0, 0, np.inf
    while theta > -np.inf:
        theta, x, y, i, j = next_block(i, j, a, above_a, b, above_b)
        n_visits = extend_visits(cells, visits, n_visits, x, y, n_grid)
    return cells[:n_visits], visits[:n_visits]


@njit(cache=True)
def extend_visits(cells: Ints, visits: Floats, n_visits: int, x: float, y: float, n_grid: int) -> int:
    """Add the next point of the curve to the last of the visits, or begin another; return their number."""
    # A rank that rounding put just below a grid line belongs to the cell that begins there.
    column, row = int((x + RANK_TOLERANCE) * n_grid), int((y + RANK_TOLERANCE) * n_grid)
    last = n_visits - 1
    if last < 0 or column != cells[last, 0] or row != cells[last, 1]:
        cells[n_visits, 0], cells[n_visits, 1] = column, row
        for point in range(0, 8, 2):
            visits[n_visits, point], visits[n_visits, point + 1] = x, y
        visits[n_visits, 8] = 0.0
        return n_visits + 1
    at = visits[last]
    # The block of ties just passed: its members of b score less than those of a passed before.
    at[8] += (y - at[3]) * ((at[2] - at[0]) + 0.5 * (x - at[2]))
    at[2], at[3] = x, y  # both only grow as θ falls
    if x - y > at[4] - at[5]:
        at[4], at[5] = x, y
    if y - x > at[7] - at[6]:
        at[6], at[7] = x, y
    return n_visits


@njit(cache=True)
def _first_visits(cells: Ints, axis: int, n_grid: int) -> Ints:
    """First visit at which the rank of that axis has reached each grid line; the last visit is at rank 1."""
    first = np.empty(n_grid + 1, dtype=np.int64)
    visit = 0
    for line in range(n_grid + 1):
        while cells[visit, axis] < line:
            visit += 1
        first[line] = visit
    return first


@njit(cache=True)
def _add_leads(
    up: Ints, down: Ints, lead: Floats, most: Floats, least: Floats, n_grid: int, leads: Floats
) -> None:
    """Raise ``leads[i, j − 1]`` to the largest ``min(u, high) − max(l, low)`` on [low, high).

    The ends are ``low = i / n_grid`` and ``high = j / n_grid``; u and l are the two ranks, ``up`` and
    ``down`` the visits at which they reach each grid line, and lead, most and least the largest u − l, the
    largest u and the smallest l of each visit. As θ falls, the curve has up to four stretches::

        u inside, l before it       min(u, high) − low grows: its last visit counts
        u beyond it, l before it    all of the interval
        u inside, l inside          u − l: the largest of the stretch
        u beyond it, l inside       high − l falls: its first visit counts

    The largest u − l is held for all j while i falls, so that an interval costs a constant number of steps.
    """
    inside = np.zeros(n_grid + 1)  # at j: largest u − l from where both have reached i until one reaches j
    beyond = np.zeros(n_grid + 1)
    for j in range(1, n_grid + 1):
        if up[j] < down[j]:
            beyond[j] = j / n_grid - least[up[j]]
    for i in range(n_grid - 1, -1, -1):
        low = i / n_grid
        # Visits between line i and line i + 1 are new; those further down were included for i + 1.
        visit, following = max(up[i], down[i]), max(up[i + 1], down[i + 1])
        largest = 0.0
        j = i + 1
        while j <= n_grid and min(up[j], down[j]) < following:
            while visit < min(up[j], down[j]):
                largest = max(largest, lead[visit])
                visit += 1
            inside[j] = largest
            j += 1
        while visit < following:
            largest = max(largest, lead[visit])
            visit += 1
        for column in range(j, n_grid + 1):
            inside[column] = max(inside[column], largest)
        # The last visit before l reaches the interval; u grows until then.
        before = most[down[i] - 1] - low if up[i] < down[i] else 0.0
        j = i + 1
        while j <= n_grid and up[j] < down[i]:  # u passes all of the interval before l reaches it
            leads[i, j - 1] = j / n_grid - low
            j += 1
        for column in range(j, n_grid + 1):
            widest = max(before, max(inside[column], beyond[column]))
            leads[i, column - 1] = max(leads[i, column - 1], widest)


@njit(cache=True)
def clipped_grid_gaps(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """Return the clipped gap of every interval ``[i / n_grid, j / n_grid)`` at ``[i, j − 1]``; else nan."""
    # The larger of the leads of either group over the other; each call raises ``gaps`` to one of them.
    gaps = np.zeros((n_grid, n_grid))
    x, y = _first_visits(cells, 0, n_grid), _first_visits(cells, 1, n_grid)
    _add_leads(x, y, visits[:, 4] - visits[:, 5], visits[:, 2], visits[:, 1], n_grid, gaps)
    _add_leads(y, x, visits[:, 7] - visits[:, 6], visits[:, 3], visits[:, 0], n_grid, gaps)
    ends = np.arange(n_grid + 1) / n_grid
    for i in range(n_grid):
        gaps[i, :i] = np.nan
        for j in range(i, n_grid):
            gaps[i, j] /= ends[j + 1] - ends[i]
    return gaps


@njit(cache=True)
def widest_in_strips(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """Return the largest ``|x − y|`` where x, and where y, lies in the strips l to m − 1 of the grid.

    It is at ``[axis, l, m − 1]``; strip ``n_grid`` is rank 1, which belongs to no interval.
    """
    widest = np.zeros((2, n_grid + 1, n_grid + 1))
    for visit in range(cells.shape[0]):
        at = visits[visit]
        lead = max(at[4] - at[5], at[7] - at[6])
        for axis in range(2):
            strip = cells[visit, axis]
            widest[axis, strip, strip] = max(widest[axis, strip, strip], lead)
    # Running maxima: strips l to m − 1 are those l to m − 2 and one more.
    for axis in range(2):
        for first in range(n_grid + 1):
            for last in range(first + 1, n_grid + 1):
                widest[axis, first, last] = max(widest[axis, first, last - 1], widest[axis, last, last])
    return widest


@njit(cache=True)
def gaps_in_strips(widest: Floats) -> Floats:
    """Absolute gaps of all intervals, from what `widest_in_strips` returns."""
    n_grid = widest.shape[1] - 1
    gaps = np.full((n_grid, n_grid), np.nan)
    for i in range(n_grid):
        for j in range(i, n_grid):
            gaps[i, j] = max(widest[0, i, j], widest[1, i, j])
    return gaps


@njit(cache=True)
def bottom_lead(cells: Ints, visits: Floats, n_grid: int) -> float:
    """Return the largest ``|x − y|`` where x or y is 1, for intervals that end at rank 1."""
    best = 0.0
    for visit in range(cells.shape[0]):
        if max(cells[visit, 0], cells[visit, 1]) == n_grid:
            at = visits[visit]
            best = max(best, at[4] - at[5], at[7] - at[6])
    return best


@njit(cache=True)
def _tied_area(x: float, y: float, next_x: float, next_y: float, low: float, high: float) -> float:
    """Mass of pairs within the block of ties from (x, y) to the next point, or above it in a, clipped."""
    x, y = min(max(x, low), high), min(max(y, low), high)
    next_x, next_y = min(max(next_x, low), high), min(max(next_y, low), high)
    return (next_y - y) * ((x - low) + 0.5 * (next_x - x))


@njit(cache=True)
def grid_aucs(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """As `clipped_grid_gaps`, the probability that a row of a's interval outranks one of b's, ties ½.

    It is the area ``∫ (min(x, high) − low) dy`` left of the curve inside the square ``[low, high)²``, over
    that of the square. From the visit at which both ranks have reached ``low`` until one reaches ``high`` it
    is a difference of running sums; the block of ties before that stretch and the one after it are cut.
    """
    aucs = np.full((n_grid, n_grid), np.nan)
    reach_x, reach_y = _first_visits(cells, 0, n_grid), _first_visits(cells, 1, n_grid)
    # Areas left of the curve down to x = 0: of each visit, and of all up to its end.
    areas = (visits[:, 3] - visits[:, 1]) * visits[:, 0] + visits[:, 8]
    sums = areas.copy()
    for visit in range(1, sums.size):
        last, at = visits[visit - 1], visits[visit]
        sums[visit] += sums[visit - 1] + (at[1] - last[3]) * 0.5 * (at[0] + last[2])
    ends = np.arange(n_grid + 1) / n_grid
    for i in range(n_grid):
        begin, low = max(reach_x[i], reach_y[i]), ends[i]
        for j in range(i + 1, n_grid + 1):
            end, high = min(reach_x[j], reach_y[j]), ends[j]
            width = high - low
            if end < begin:  # one leaves the interval before the other enters it
                aucs[i, j - 1] = 1.0 if reach_x[j] == end else 0.0
                continue
            area = 0.0
            # The block of ties that enters the square, and the one that leaves it, count in part.
            if begin > 0:
                last, at = visits[begin - 1], visits[begin]
                area += _tied_area(last[2], last[3], at[0], at[1], low, high)
            at = visits[end]
            if begin < end:  # whole visits inside the square
                first, last = visits[begin], visits[end - 1]
                area += sums[end - 1] - sums[begin] + areas[begin] - low * (last[3] - first[1])
                area += _tied_area(last[2], last[3], at[0], at[1], low, high)
            # Rows of b after a has left the interval rank below all of a.
            area += (high - min(max(at[1], low), high)) * (width if reach_x[j] == end else 0.0)
            aucs[i, j - 1] = area / width**2
    return aucs


@njit(cache=True)
def keep_widest(values: Floats, fair: float, position: int, widest: Floats, pair: Ints) -> None:
    """Raise ``widest`` to one more pair's distances from equality, and store the pair where it is larger."""
    for i in range(values.shape[0]):
        for j in range(i, values.shape[1]):
            gap = abs(values[i, j] - fair)
            if gap > widest[i, j]:
                widest[i, j], pair[i, j] = gap, position


@njit(cache=True)
def widen_interval_band(gaps: Floats, radius: float, low: Floats, high: Floats) -> None:
    """Raise the ends of a band to those of one more pair, with errors of at most radius / width."""
    n_grid = gaps.shape[0]
    for i in range(n_grid):
        for j in range(i, n_grid):
            off = radius * n_grid / (j + 1 - i)
            low[i, j] = max(low[i, j], max(gaps[i, j] - off, 0.0))
            high[i, j] = max(high[i, j], min(gaps[i, j] + off, 1.0))


@njit(cache=True)
def widen_absolute_band(
    widest: Floats, radius: float, reach: tuple[float, float], low: Floats, high: Floats
) -> None:
    """As `widen_interval_band` on the absolute scale, where also the θ inside the interval are uncertain.

    Errors of ranks are at most ``reach`` of their axis, rounded up to whole cells. An interval that this
    extends to rank 1 includes rank 1: a θ whose true rank is just below 1 may lie below all scores of the
    sample. ``widest`` is that of `widest_in_strips`.
    """
    n_grid = widest.shape[1] - 1
    for i in range(n_grid):
        for j in range(i, n_grid):
            # The interval shrunk by the reach bounds the gap from below; extended by it, from above.
            inside, outside = 0.0, 0.0
            for axis in range(2):
                steps = int(np.ceil(reach[axis] * n_grid))
                if i + steps <= j - steps:
                    inside = max(inside, widest[axis, i + steps, j - steps])
                last = j + steps if j + steps < n_grid - 1 else n_grid
                outside = max(outside, widest[axis, max(i - steps, 0), last])
            low[i, j] = max(low[i, j], max(inside - radius, 0.0))
            high[i, j] = max(high[i, j], min(outside + radius, 1.0))


@njit(cache=True)
def _visits_of_one(
    groups: Ints, ranks: Floats, blocks: Ints, n_groups: int, k: int, n_grid: int
) -> tuple[int, Ints, Ints, Floats]:
    """As `grid_visits`, of group k and each group j after it.

    Group k is removed from the arrays, which hold only groups k and later; the number of remaining scores is
    returned first. Equal scores have the same ``blocks``.

    The current visit of each pair is stored in arrays over j until the visit ends; a move within its cell, as
    nearly all are, then takes one or two steps. If k moves, only ``x − y`` may grow, and if j moves, only ``y
    − x`` and the mass of pairs.
    """
    cells = np.empty((n_groups, 2 * n_grid + 1, 2), dtype=np.int64)
    visits = np.empty((n_groups, 2 * n_grid + 1, 9))
    n_visits = np.zeros(n_groups, dtype=np.int64)
    rank, cell = np.zeros(n_groups), np.zeros(n_groups, dtype=np.int64)
    first_x, mass = np.zeros(n_groups), np.zeros(n_groups)
    lead_x, lead_y = np.zeros(n_groups), np.zeros(n_groups)  # where x − y is largest
    lag_x, lag_y = np.zeros(n_groups), np.zeros(n_groups)  # where y − x is largest
    for j in range(k + 1, n_groups):
        n_visits[j] = extend_visits(cells[j], visits[j], 0, 0.0, 0.0, n_grid)
    end = n_left = 0
    while end < groups.size:
        begin = end
        end += 1
        while end < groups.size and blocks[end] == blocks[begin]:
            end += 1
        if end - begin == 1:
            mover, moved = groups[begin], ranks[begin]
            stays = int((moved + RANK_TOLERANCE) * n_grid) == cell[mover]
            if mover == k and stays:
                rank[k] = moved
                for j in range(k + 1, n_groups):
                    if moved - rank[j] > lead_x[j] - lead_y[j]:
                        lead_x[j], lead_y[j] = moved, rank[j]
                continue
            if stays:
                groups[n_left], ranks[n_left], blocks[n_left] = mover, moved, blocks[begin]
                n_left += 1
                mass[mover] += (moved - rank[mover]) * (rank[k] - first_x[mover])
                rank[mover] = moved
                if moved - rank[k] > lag_y[mover] - lag_x[mover]:
                    lag_x[mover], lag_y[mover] = rank[k], moved
                continue
        # Several groups share the score, or a cell is left: these pairs are updated first.
        k_moves = False
        for at in range(begin, end):
            k_moves |= groups[at] == k
        n_concerned = n_groups - k - 1 if k_moves else end - begin
        for position in range(n_concerned):
            j = k + 1 + position if k_moves else groups[begin + position]
            if j != k:
                visit = visits[j, n_visits[j] - 1]
                visit[2], visit[3] = rank[k], rank[j]
                visit[4], visit[5], visit[6], visit[7] = lead_x[j], lead_y[j], lag_x[j], lag_y[j]
                visit[8] = mass[j]
        for at in range(begin, end):
            rank[groups[at]] = ranks[at]
            cell[groups[at]] = int((ranks[at] + RANK_TOLERANCE) * n_grid)
        for position in range(n_concerned):
            j = k + 1 + position if k_moves else groups[begin + position]
            if j != k:
                n_visits[j] = extend_visits(cells[j], visits[j], n_visits[j], rank[k], rank[j], n_grid)
                visit = visits[j, n_visits[j] - 1]
                first_x[j], mass[j] = visit[0], visit[8]
                lead_x[j], lead_y[j], lag_x[j], lag_y[j] = visit[4], visit[5], visit[6], visit[7]
        for at in range(begin, end):
            if groups[at] != k:
                groups[n_left], ranks[n_left], blocks[n_left] = groups[at], ranks[at], blocks[at]
                n_left += 1
    # All ranks end at 1, which lies in a cell of its own: the last visit is complete.
    return n_left, n_visits, cells, visits
