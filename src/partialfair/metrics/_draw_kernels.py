"""Compiled loops over draws of many pairs of groups, for the confidence intervals.

A *curve* of a group holds, below each cell of scores that the group occupies, a share in the data (column 0)
and in each draw. Curves of all groups lie one below the other: group k has the rows ``offsets[k]`` to
``offsets[k + 1]``, of which the first is 0 (above its top cell) and the others belong to its ``cells``, which
begin at ``offsets[k] − k``. Inner loops run over the draws, which are consecutive in memory.
"""

from __future__ import annotations

import numpy as np

from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

__all__ = [
    "add_aucs",
    "curve_differences",
    "rank_differences",
    "rank_positions",
    "share_differences",
    "undominated",
    "widest_deviations",
]


@njit(cache=True)
def widest_deviations(block: Floats, starts: Ints, least: Floats, sure: Floats) -> tuple[Floats, Floats]:
    """For each pair ``max_j |d_j|``, and the widest deviations of each draw over j with ``|d_j| ≥ least``.

    Deviations are ``|d*_j − d_j|``, and where ``|d_j| > sure`` those away from 0, and those towards it, by
    themselves: (2, n_pairs, n_draws).
    """
    n_pairs, n_draws = starts.size - 1, block.shape[1] - 1
    gaps, deviations = np.zeros(n_pairs), np.zeros((2, n_pairs, n_draws))
    for pair in range(n_pairs):
        away, towards = deviations[0, pair], deviations[1, pair]
        for row in range(starts[pair], starts[pair + 1]):
            data = block[row, 0]
            draws = block[row, 1:]
            gaps[pair] = max(gaps[pair], abs(data))
            if abs(data) < least[pair]:
                continue
            if abs(data) > sure[pair]:
                sign = 1.0 if data > 0 else -1.0
                for b in range(n_draws):
                    away[b] = max(away[b], sign * (draws[b] - data))
                    towards[b] = max(towards[b], sign * (data - draws[b]))
            else:
                for b in range(n_draws):
                    away[b] = max(away[b], abs(draws[b] - data))
                    towards[b] = max(towards[b], abs(draws[b] - data))
    return gaps, deviations


@njit(cache=True)
def undominated(block: Floats, starts: Ints) -> tuple[Floats, Floats, Ints]:
    """Return ``|d_j|``, the root mean square of ``d*_j − d_j``, and the pair, of rows that may matter.

    A row does not matter if the pair's widest one has draws that deviate as much.
    """
    sizes, deviations = np.empty(block.shape[0]), np.empty(block.shape[0])
    pairs, kept = np.empty(block.shape[0], dtype=np.int64), 0
    for pair in range(starts.size - 1):
        first = kept
        for row in range(starts[pair], starts[pair + 1]):
            data, squares = block[row, 0], 0.0
            for b in range(1, block.shape[1]):
                squares += (block[row, b] - data) ** 2
            sizes[kept], pairs[kept] = abs(data), pair
            deviations[kept] = np.sqrt(squares / (block.shape[1] - 1))
            kept += 1
        if kept == first:
            continue
        widest = first + np.argmax(sizes[first:kept])
        sizes[first], sizes[widest] = sizes[widest], sizes[first]
        deviations[first], deviations[widest] = deviations[widest], deviations[first]
        last, kept = kept, first + 1
        for at in range(first + 1, last):
            if deviations[at] > deviations[first]:
                sizes[kept], deviations[kept], pairs[kept] = sizes[at], deviations[at], pair
                kept += 1
    return sizes[:kept], deviations[:kept], pairs[:kept]


@njit(cache=True)
def curve_differences(pairs: Ints, offsets: Ints, cells: Ints, curves: Floats, block: Floats) -> Ints:
    """Write the differences of each pair below each cell that either occupies; return where they start."""
    starts = np.zeros(pairs.shape[0] + 1, dtype=np.int64)
    row = 0
    for pair in range(pairs.shape[0]):
        k, j = pairs[pair]
        at_k, at_j = offsets[k], offsets[j]
        while at_k < offsets[k + 1] - 1 or at_j < offsets[j + 1] - 1:
            # Cell of the next row, which is one further on in the curves than in the cells.
            cell_k = cells[at_k - k] if at_k < offsets[k + 1] - 1 else np.iinfo(np.int64).max
            cell_j = cells[at_j - j] if at_j < offsets[j + 1] - 1 else np.iinfo(np.int64).max
            at_k += cell_k <= cell_j
            at_j += cell_j <= cell_k
            upper, lower, target = curves[at_k], curves[at_j], block[row]
            for b in range(target.size):
                target[b] = upper[b] - lower[b]
            row += 1
        starts[pair + 1] = row
    return starts


@njit(cache=True)
def share_differences(pairs: Ints, shares: Floats, block: Floats) -> None:
    """Write ``share_k − share_j`` of each pair."""
    for pair in range(pairs.shape[0]):
        upper, lower, target = shares[pairs[pair, 0]], shares[pairs[pair, 1]], block[pair]
        for b in range(target.size):
            target[b] = upper[b] - lower[b]


@njit(cache=True)
def add_aucs(
    pairs: Ints, offsets: Ints, cells: Ints, steps: Floats, below: Floats, halfway: Floats, block: Floats
) -> None:
    """Add ``Pr(s > s') + ½ Pr(s = s')``, s from curve k and s' from curve j.

    ``steps`` are the shares of k in its cells; ``below`` is what lies below each cell of j, and ``halfway``
    that and half of what lies in it.
    """
    for pair in range(pairs.shape[0]):
        k, j = pairs[pair]
        target = block[pair]
        row = offsets[j]
        for at in range(offsets[k] + 1, offsets[k + 1]):
            cell = cells[at - 1 - k]
            while row < offsets[j + 1] - 1 and cells[row - j] <= cell:
                row += 1
            shared = row > offsets[j] and cells[row - 1 - j] == cell
            step, beaten = steps[at], (halfway[row] if shared else below[row])
            for b in range(target.size):
                target[b] += step[b] * beaten[b]


@njit(cache=True)
def rank_positions(
    offsets: Ints, cells: Ints, ranks: Floats, grid: Floats, last_cell: int
) -> tuple[Ints, Floats]:
    """For each group, rank and draw: the cell in which the group reaches that rank, and how far into it."""
    n_groups, n_draws = offsets.size - 1, ranks.shape[1]
    reached = np.empty((n_groups, grid.size, n_draws), dtype=np.int32)
    depth = np.empty((n_groups, grid.size, n_draws))
    for k in range(n_groups):
        first, end = offsets[k], offsets[k + 1]
        for b in range(n_draws):
            at = first
            for p in range(grid.size):
                if p > 0 and grid[p] < grid[p - 1]:
                    at = first
                while at + 1 < end and ranks[at + 1, b] <= grid[p]:
                    at += 1
                if at + 1 < end:
                    reached[k, p, b] = cells[at - k]
                    depth[k, p, b] = (grid[p] - ranks[at, b]) / (ranks[at + 1, b] - ranks[at, b])
                else:
                    reached[k, p, b], depth[k, p, b] = last_cell, 1.0
    return reached, depth


@njit(cache=True)
def rank_differences(
    pairs: Ints,
    rows_through: Ints,
    ranks: Floats,
    grid: Floats,
    reached: Ints,
    depth: Floats,
    block: Floats,
) -> None:
    """Write ``p − F̄_j(F̄_k⁻¹(p))`` of each pair for each p of the grid.

    ``rows_through[j, c + 1]`` is the row of ``ranks`` that holds F̄_j below cell c.
    """
    row = 0
    for pair in range(pairs.shape[0]):
        k, j = pairs[pair]
        rows = rows_through[j]
        for p in range(grid.size):
            cell, share, target = reached[k, p], depth[k, p], block[row]
            for b in range(target.size):
                before = ranks[rows[cell[b]], b]
                target[b] = grid[p] - (before + share[b] * (ranks[rows[cell[b] + 1], b] - before))
            row += 1
