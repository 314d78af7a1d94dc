"""Compiled loops over the scores of two groups, merged from the top.

Every kernel walks by `_next_block`, so thresholds, ties and weights are handled in one place. Scores are
sorted ascending; ``above[i]`` is the weight of the ``i`` largest ones, and an empty ``above`` stands for
equal weights. An interval set travels as the tuple ``(starts, lengths, measure)``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from partialfair.data.intervals import RANK_TOLERANCE, holds_rank, passed_share
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

__all__ = [
    "absolute_gap",
    "absolute_grid_gaps",
    "band_auc",
    "bottom_lead",
    "clipped_gap",
    "clipped_grid_gaps",
    "extend_visits",
    "gaps_in_strips",
    "grid_aucs",
    "grid_visits",
    "keep_widest",
    "widen_absolute_band",
    "widen_interval_band",
    "widest_in_strips",
]

SetArguments: TypeAlias = tuple[Floats, Floats, float]


@njit(cache=True)
def _rank(i: int, above: Floats, n: int) -> float:
    return above[i] / above[n] if above.size else i / n


@njit(cache=True)
def _score_before(rank: float, scores: Floats, above: Floats) -> float:
    """Return a score at which fewer than that share of the group is passed, a little above the last such."""
    passed = np.searchsorted(above, rank * above[scores.size]) if above.size else int(rank * scores.size)
    return scores[scores.size - 1 - max(passed - 2, 0)]


@njit(cache=True)
def _n_above(theta: float, scores: Floats) -> int:
    return int(scores.size - np.searchsorted(scores, theta, side="right"))


@njit(cache=True)
def _passed_before(
    first_a: float, first_b: float, a: Floats, above_a: Floats, b: Floats, above_b: Floats
) -> tuple[int, int]:
    """Return how many members have scores above all with ranks of at least ``first_a`` or ``first_b``.

    They may be fewer than that: the walk begins a little early.
    """
    if not (first_a > 0.0 and first_b > 0.0 and a.size and b.size):
        return 0, 0
    theta = max(_score_before(first_a, a, above_a), _score_before(first_b, b, above_b))
    return _n_above(theta, a), _n_above(theta, b)


@njit(cache=True)
def _next_block(
    i: int, j: int, a: Floats, above_a: Floats, b: Floats, above_b: Floats
) -> tuple[float, float, float, int, int]:
    """Return θ, ``F̄_a(θ)`` and ``F̄_b(θ)`` of the highest score that i and j members are not above.

    Then how many members of a and b have been passed once all that have this score are. After the last score
    θ is −∞. Walks call this until then. It is no generator: numba never releases the arrays of one.
    """
    n_a, n_b = a.size, b.size
    if i >= n_a and j >= n_b:
        return -np.inf, 1.0, 1.0, i, j
    theta = max(a[n_a - 1 - i] if i < n_a else -np.inf, b[n_b - 1 - j] if j < n_b else -np.inf)
    rank_a, rank_b = _rank(i, above_a, n_a), _rank(j, above_b, n_b)
    while i < n_a and a[n_a - 1 - i] == theta:
        i += 1
    while j < n_b and b[n_b - 1 - j] == theta:
        j += 1
    return theta, rank_a, rank_b, i, j


@njit(cache=True)
def clipped_gap(
    a: Floats, above_a: Floats, b: Floats, above_b: Floats, set_a: SetArguments, set_b: SetArguments
) -> tuple[float, float, float, float]:
    """Return ``max_θ |passed_a(F̄_a(θ)) − passed_b(F̄_b(θ))|`` with its θ, F̄_a(θ) and F̄_b(θ)."""
    best, best_theta, best_a, best_b = -1.0, 0.0, 0.0, 0.0
    # Before both intervals nothing differs.
    i, j = _passed_before(set_a[0][0], set_b[0][0], a, above_a, b, above_b)
    theta = np.inf
    while theta > -np.inf:
        theta, rank_a, rank_b, i, j = _next_block(i, j, a, above_a, b, above_b)
        passed_a, passed_b = passed_share(rank_a, *set_a), passed_share(rank_b, *set_b)
        gap = abs(passed_a - passed_b)
        if gap > best:
            best, best_theta, best_a, best_b = gap, theta, rank_a, rank_b
        if passed_a == 1.0 and passed_b == 1.0:  # below both intervals nothing differs
            break
    return best, best_theta, best_a, best_b


@njit(cache=True)
def absolute_gap(
    a: Floats, above_a: Floats, b: Floats, above_b: Floats, starts: Floats, lengths: Floats
) -> tuple[float, float, float, float]:
    """Return ``max |F̄_a(θ) − F̄_b(θ)|`` over the θ at which either rank lies in the set, and where.

    The gap is 0 at θ = −∞ if no θ qualifies.
    """
    best, best_theta, best_a, best_b = 0.0, -np.inf, 1.0, 1.0
    i, j = _passed_before(starts[0], starts[0], a, above_a, b, above_b)
    theta = np.inf
    while theta > -np.inf:
        theta, rank_a, rank_b, i, j = _next_block(i, j, a, above_a, b, above_b)
        gap = abs(rank_a - rank_b)
        if gap > best and (holds_rank(rank_a, starts, lengths) or holds_rank(rank_b, starts, lengths)):
            best, best_theta, best_a, best_b = gap, theta, rank_a, rank_b
    return best, best_theta, best_a, best_b


@njit(cache=True)
def band_auc(
    a: Floats,
    above_a: Floats,
    b: Floats,
    above_b: Floats,
    set_a: SetArguments,
    set_b: SetArguments,
    tie_share: float,
) -> float:
    """Return ``Pr(s > s') + tie_share · Pr(s = s')`` for s, s' drawn from the two bands."""
    auc, last_a, last_b = 0.0, 0.0, 0.0
    i, j, theta = 0, 0, np.inf
    while theta > -np.inf:
        theta, rank_a, rank_b, i, j = _next_block(i, j, a, above_a, b, above_b)
        passed_a, passed_b = passed_share(rank_a, *set_a), passed_share(rank_b, *set_b)
        mass_a, mass_b = passed_a - last_a, passed_b - last_b  # what the block just passed holds of each band
        auc += mass_a * ((1.0 - passed_b) + tie_share * mass_b)
        last_a, last_b = passed_a, passed_b
    return auc


@njit(cache=True)
def grid_visits(a: Floats, above_a: Floats, b: Floats, above_b: Floats, n_grid: int) -> tuple[Ints, Floats]:
    """Summarise the curve ``θ → (x, y) = (F̄_a(θ), F̄_b(θ))`` by the cells of a grid that it visits.

    The curve is monotone, so it visits at most ``2 n_grid + 1`` cells. For each one, in order, return its
    position, and the points (x, y) of the visit that come first, last, with the largest ``x − y`` and with
    the largest ``y − x``, and last the mass of pairs within the visit in which the member of a scores higher,
    ties counted ½: all that any interval whose ends are grid lines needs.
    """
    cells = np.empty((2 * n_grid + 1, 2), dtype=np.int64)
    visits = np.empty((2 * n_grid + 1, 9))
    n_visits = 0
    i, j, theta = 0, 0, np.inf
    while theta > -np.inf:
        theta, x, y, i, j = _next_block(i, j, a, above_a, b, above_b)
        n_visits = extend_visits(cells, visits, n_visits, x, y, n_grid)
    return cells[:n_visits], visits[:n_visits]


@njit(cache=True)
def extend_visits(cells: Ints, visits: Floats, n_visits: int, x: float, y: float, n_grid: int) -> int:
    """Add the next point of the curve to the last of the visits, or begin another; return their number."""
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
    largest u and the smallest l of each visit. On its way down the curve meets up to four stretches::

        u inside, l before it       min(u, high) − low grows: its last visit counts
        u beyond it, l before it    all of the interval
        u inside, l inside          u − l: the largest of the stretch
        u beyond it, l inside       high − l falls: its first visit counts

    The largest u − l is kept for all j while i falls, so that an interval costs a constant number of steps.
    """
    inside = np.zeros(n_grid + 1)  # at j: largest u − l from where both have reached i until one reaches j
    beyond = np.zeros(n_grid + 1)
    for j in range(1, n_grid + 1):
        if up[j] < down[j]:
            beyond[j] = j / n_grid - least[up[j]]
    for i in range(n_grid - 1, -1, -1):
        low = i / n_grid
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
        before = most[down[i] - 1] - low if up[i] < down[i] else 0.0
        j = i + 1
        while j <= n_grid and up[j] < down[i]:
            leads[i, j - 1] = j / n_grid - low
            j += 1
        for column in range(j, n_grid + 1):
            widest = max(before, max(inside[column], beyond[column]))
            leads[i, column - 1] = max(leads[i, column - 1], widest)


@njit(cache=True)
def clipped_grid_gaps(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """Clipped gap of every interval ``[i / n_grid, j / n_grid)``, at ``[i, j − 1]``; nan where j ≤ i."""
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
    """Return the widest ``|x − y|`` where x, and where y, lies in the strips l to m − 1 of the grid.

    It is at ``[axis, l, m − 1]``; strip ``n_grid`` is rank 1, which no interval holds.
    """
    widest = np.zeros((2, n_grid + 1, n_grid + 1))
    for visit in range(cells.shape[0]):
        at = visits[visit]
        lead = max(at[4] - at[5], at[7] - at[6])
        for axis in range(2):
            strip = cells[visit, axis]
            widest[axis, strip, strip] = max(widest[axis, strip, strip], lead)
    for axis in range(2):
        for first in range(n_grid + 1):
            for last in range(first + 1, n_grid + 1):
                widest[axis, first, last] = max(widest[axis, first, last - 1], widest[axis, last, last])
    return widest


@njit(cache=True)
def absolute_grid_gaps(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """As `clipped_grid_gaps` on the absolute scale: the widest lead where either rank lies inside."""
    return gaps_in_strips(widest_in_strips(cells, visits, n_grid))


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
    """Return the widest ``|x − y|`` where x or y is 1: what rank 1 would add to intervals that end there."""
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
    """As `clipped_grid_gaps`, the chance that a member of a's band scores higher than one of b's, ties ½.

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
            if end < begin:  # one has passed the interval before the other reaches it
                aucs[i, j - 1] = 1.0 if reach_x[j] == end else 0.0
                continue
            area = 0.0
            if begin > 0:
                last, at = visits[begin - 1], visits[begin]
                area += _tied_area(last[2], last[3], at[0], at[1], low, high)
            at = visits[end]
            if begin < end:
                first, last = visits[begin], visits[end - 1]
                area += sums[end - 1] - sums[begin] + areas[begin] - low * (last[3] - first[1])
                area += _tied_area(last[2], last[3], at[0], at[1], low, high)
            area += (high - min(max(at[1], low), high)) * (width if reach_x[j] == end else 0.0)
            aucs[i, j - 1] = area / width**2
    return aucs


@njit(cache=True)
def keep_widest(values: Floats, fair: float, position: int, widest: Floats, pair: Ints) -> None:
    """Raise ``widest`` to one more pair's distances from what is fair, and note where that pair is wider."""
    for i in range(values.shape[0]):
        for j in range(i, values.shape[1]):
            gap = abs(values[i, j] - fair)
            if gap > widest[i, j]:
                widest[i, j], pair[i, j] = gap, position


@njit(cache=True)
def widen_interval_band(gaps: Floats, radius: float, low: Floats, high: Floats) -> None:
    """Raise a band to that of one more pair, in which every gap is off by at most radius / width."""
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
    """As `widen_interval_band` on the absolute scale: which θ belong to the interval is uncertain too.

    Ranks are off by at most ``reach`` of their axis, rounded up to whole cells. Where that takes an interval
    to rank 1 it includes it: a θ whose true rank is just below 1 may lie below everybody in the sample.
    ``widest`` is that of `widest_in_strips`.
    """
    n_grid = widest.shape[1] - 1
    for i in range(n_grid):
        for j in range(i, n_grid):
            inside, outside = 0.0, 0.0
            for axis in range(2):
                steps = int(np.ceil(reach[axis] * n_grid))
                if i + steps <= j - steps:
                    inside = max(inside, widest[axis, i + steps, j - steps])
                last = j + steps if j + steps < n_grid - 1 else n_grid
                outside = max(outside, widest[axis, max(i - steps, 0), last])
            low[i, j] = max(low[i, j], max(inside - radius, 0.0))
            high[i, j] = max(high[i, j], min(outside + radius, 1.0))
