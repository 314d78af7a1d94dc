"""Compiled loops over the scores of two groups, merged from the top.

Every kernel walks `merged_ranks`, so thresholds, ties and weights are handled in one place. Scores are sorted
ascending; ``above[i]`` is the weight of the ``i`` largest ones, and an empty ``above`` stands for equal
weights. An interval set travels as the tuple ``(starts, lengths, measure)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numba import njit

from partialfair._typing import Floats, Ints
from partialfair.intervals import RANK_TOLERANCE, holds_rank, passed_share

__all__ = [
    "absolute_gap",
    "absolute_grid_gaps",
    "band_auc",
    "bottom_lead",
    "clipped_gap",
    "clipped_grid_gaps",
    "grid_aucs",
    "grid_visits",
]

SetArguments: TypeAlias = tuple[Floats, Floats, float]


@njit(cache=True)
def _rank(i: int, above: Floats, n: int) -> float:
    return above[i] / above[n] if above.size else i / n


@njit  # not cached: numba cannot link a generator that it loaded from its cache; the callers are cached
def merged_ranks(
    a: Floats, above_a: Floats, b: Floats, above_b: Floats
) -> Iterator[tuple[float, float, float]]:
    """Yield ``(θ, F̄_a(θ), F̄_b(θ))`` for each distinct score θ from the top, then for θ = −∞."""
    i = j = 0
    while i < a.size or j < b.size:
        top_a = a[a.size - 1 - i] if i < a.size else -np.inf
        top_b = b[b.size - 1 - j] if j < b.size else -np.inf
        theta = max(top_a, top_b)
        yield theta, _rank(i, above_a, a.size), _rank(j, above_b, b.size)
        while i < a.size and a[a.size - 1 - i] == theta:
            i += 1
        while j < b.size and b[b.size - 1 - j] == theta:
            j += 1
    yield -np.inf, 1.0, 1.0


@njit(cache=True)
def clipped_gap(
    a: Floats, above_a: Floats, b: Floats, above_b: Floats, set_a: SetArguments, set_b: SetArguments
) -> tuple[float, float, float, float]:
    """Return ``max_θ |passed_a(F̄_a(θ)) − passed_b(F̄_b(θ))|`` with its θ, F̄_a(θ) and F̄_b(θ)."""
    best, best_theta, best_a, best_b = -1.0, 0.0, 0.0, 0.0
    for theta, rank_a, rank_b in merged_ranks(a, above_a, b, above_b):
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
    for theta, rank_a, rank_b in merged_ranks(a, above_a, b, above_b):
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
    for _, rank_a, rank_b in merged_ranks(a, above_a, b, above_b):
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
    visit = -1
    for _, x, y in merged_ranks(a, above_a, b, above_b):
        column, row = int((x + RANK_TOLERANCE) * n_grid), int((y + RANK_TOLERANCE) * n_grid)
        if visit < 0 or column != cells[visit, 0] or row != cells[visit, 1]:
            visit += 1
            cells[visit, 0], cells[visit, 1] = column, row
            for point in range(0, 8, 2):
                visits[visit, point], visits[visit, point + 1] = x, y
            visits[visit, 8] = 0.0
        else:
            at = visits[visit]
            # The block of ties just passed: its members of b score less than those of a passed before.
            at[8] += (y - at[3]) * ((at[2] - at[0]) + 0.5 * (x - at[2]))
            at[2], at[3] = x, y  # both only grow as θ falls
            if x - y > at[4] - at[5]:
                at[4], at[5] = x, y
            if y - x > at[7] - at[6]:
                at[6], at[7] = x, y
    return cells[: visit + 1], visits[: visit + 1]


@njit(cache=True)
def _side_gap(
    upper: int, lower: int, i: int, j: int, low: float, high: float, both: float, most: float, least: float
) -> float:
    """Return ``max min(u, high) − max(l, low)`` over one visit: the clipped lead of rank u over rank l."""
    if upper < i or lower >= j:
        return 0.0
    if upper < j and lower >= i:
        return both
    return (most if upper < j else high) - (least if lower >= i else low)


@njit(cache=True)
def clipped_grid_gaps(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """Clipped gap of every interval ``[i / n_grid, j / n_grid)``, at ``[i, j − 1]``; nan where j ≤ i."""
    gaps = np.full((n_grid, n_grid), np.nan)
    for i in range(n_grid):
        for j in range(i + 1, n_grid + 1):
            low, high = i / n_grid, j / n_grid
            best = 0.0
            for visit in range(cells.shape[0]):
                x, y = cells[visit]
                at = visits[visit]
                best = max(best, _side_gap(x, y, i, j, low, high, at[4] - at[5], at[2], at[1]))
                best = max(best, _side_gap(y, x, i, j, low, high, at[7] - at[6], at[3], at[0]))
            gaps[i, j - 1] = best / (high - low)
    return gaps


@njit(cache=True)
def absolute_grid_gaps(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """As `clipped_grid_gaps` on the absolute scale."""
    gaps = np.full((n_grid, n_grid), np.nan)
    for i in range(n_grid):
        for j in range(i + 1, n_grid + 1):
            best = 0.0
            for visit in range(cells.shape[0]):
                x, y = cells[visit]
                if i <= x < j or i <= y < j:
                    at = visits[visit]
                    best = max(best, at[4] - at[5], at[7] - at[6])
            gaps[i, j - 1] = best
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
def grid_aucs(cells: Ints, visits: Floats, n_grid: int) -> Floats:
    """As `clipped_grid_gaps`, the chance that a member of a's band scores higher than one of b's, ties ½."""
    aucs = np.full((n_grid, n_grid), np.nan)
    for i in range(n_grid):
        for j in range(i + 1, n_grid + 1):
            low, high = i / n_grid, j / n_grid
            auc, last_x, last_y = 0.0, low, low
            for visit in range(visits.shape[0]):
                at = visits[visit]
                x, y = min(max(at[0], low), high), min(max(at[1], low), high)
                # Between two visits lies one block of ties, which an end of the interval may cut.
                auc += (x - last_x) * ((high - y) + 0.5 * (y - last_y))
                last_x, last_y = min(max(at[2], low), high), min(max(at[3], low), high)
                auc += (last_x - x) * (high - last_y)
                if i <= cells[visit, 0] < j and i <= cells[visit, 1] < j:
                    auc += at[8]
            aucs[i, j - 1] = auc / (high - low) ** 2
    return aucs
