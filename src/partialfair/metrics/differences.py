"""Metrics as families of signed differences, evaluated in the same way on data and draws.

A metric's gap is ``max_j |d_j|``; these functions return the d_j for the columns of a `Resamples`. They
mirror `partialfair.metrics.partial` on cells of scores instead of single scores, and serve only the
confidence intervals: reported values always come from the exact metrics.

There are two implementations, because confidence intervals need every d_j in a thousand draws, while a metric
needs only the maximum, from one pass through the sorted scores. On cells with one score each the two are
equal, which ``tests/property/test_metrics_on_cells.py`` checks; but with one cell per score these functions
take 25 times as long as the metric (a million scores, two groups), and absolute statistical parity is
bootstrapped by rank, over other differences than its metric's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, permutations
from typing import Any, NamedTuple

import numpy as np

from partialfair.metrics.bounds import Differences
from partialfair.metrics.inputs import Setting
from partialfair.metrics.resampling import Resamples
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

# Ranks inside the interval at which the absolute gap is evaluated, for up to ten groups; and the fewest for
# many groups, which have more pairs.
N_RANKS = 201
FEWEST_RANKS = 21


# How far slopes continue beyond the ends of an interval (`Resamples.passed_linearized`) for a mean over it.
# The ends matter less for a mean than for a difference at one threshold: with slopes that continue as far as
# for the latter, its standard deviation would be up to twice too large.
_OF_A_MEAN: dict[str, Any] = {"beyond": 0.0, "fading": 0.5}


def statistical_parity(resamples: Resamples, setting: Setting) -> Differences:
    """Differences of conditional distributions at thresholds, or of ranks at ranks in the interval."""
    if setting.gap_scale == "absolute":
        return _rank_differences(resamples)
    curves = stack_curves(resamples, resamples.passed_linearized)
    pairs = np.array(list(resamples.scored.pairs()))
    n_cells = np.diff(curves.offsets) - 1

    def fill(chosen: Ints, block: Floats) -> Ints:
        return _fill_curves(pairs[chosen], *curves, block)

    return Differences(pairs, n_cells[pairs].sum(axis=1), fill, resamples.n_columns)


def _rank_differences(resamples: Resamples) -> Differences:
    """Return ``p − F̄_j(F̄_k⁻¹(p))`` for ranks p in the interval and both orders of each pair.

    The thresholds that count on the absolute scale depend on the ranks, which are random. By rank they do
    not: θ with F̄_k(θ) = p has ``|F̄_k(θ) − F̄_j(θ)| = |p − F̄_j(F̄_k⁻¹(p))|``.
    """
    n_groups, last_cell = len(resamples.scored), resamples.thresholds.size
    pairs = np.array(list(permutations(range(n_groups), 2)))
    n_ranks = int(np.clip(90 * N_RANKS // len(pairs), FEWEST_RANKS, N_RANKS))  # ten groups have 90 pairs
    parts = resamples.scored.groups[0].interval.parts
    grid = np.concatenate([np.linspace(low, high, n_ranks) for low, high in parts])
    offsets, cells, ranks = stack_curves(resamples, resamples.ranks)
    reached, depth = _rank_positions(offsets, cells, ranks, grid, last_cell)
    # The row of ``ranks`` with F̄ of each group below each cell: that of the last cell it occupies so far.
    rows_through = np.stack(
        [
            offset + np.searchsorted(draws.cells, np.arange(-1, last_cell + 1), side="right")
            for offset, draws in zip(offsets[:-1], resamples.draws, strict=True)
        ]
    )

    def fill(chosen: Ints, block: Floats) -> Ints:
        _fill_ranks(pairs[chosen], rows_through, ranks, grid, reached, depth, block)
        return np.arange(chosen.size + 1) * grid.size

    return Differences(pairs, np.full(len(pairs), grid.size), fill, resamples.n_columns)


def demographic_parity(resamples: Resamples, setting: Setting) -> Differences:
    """Return differences of selected proportions at the threshold."""
    return share_differences(resamples, [_selected(resamples, setting, None)])


def group_auc(resamples: Resamples, setting: Setting) -> Differences:
    """``Pr(s > s') + ½ Pr(s = s') − ½`` inside the intervals of each pair."""
    passed = partial(resamples.passed_linearized, **_OF_A_MEAN)
    pairs = np.array(list(resamples.scored.pairs()))
    add_chances = _chances(resamples, passed, passed)

    def fill(chosen: Ints, block: Floats) -> None:
        block[:] = -0.5
        add_chances(pairs[chosen], block)

    return _single_differences(pairs, resamples.n_columns, fill)


def equal_opportunity(resamples: Resamples, setting: Setting) -> Differences:
    """Differences of selected proportions among the interval's positives."""
    return share_differences(resamples, [_selected(resamples, setting, True)])


def equalized_odds(resamples: Resamples, setting: Setting) -> Differences:
    """Differences of selected proportions for both labels."""
    return share_differences(resamples, [_selected(resamples, setting, label) for label in (True, False)])


def inter_group(resamples: Resamples, setting: Setting) -> Differences:
    """``A(k⁺, j⁻) − A(j⁺, k⁻)`` for each pair."""
    positives, negatives = (partial(resamples.ranks, positive=label) for label in (True, False))
    pairs = np.array(list(resamples.scored.pairs()))
    add_chances = _chances(resamples, positives, negatives)

    def fill(chosen: Ints, block: Floats) -> None:
        block[:] = 0.0
        add_chances(pairs[chosen, ::-1], block)
        np.negative(block, out=block)
        add_chances(pairs[chosen], block)

    return _single_differences(pairs, resamples.n_columns, fill)


def intra_group(resamples: Resamples, setting: Setting) -> Differences:
    """``A(k⁺, k⁻) − A(j⁺, j⁻)`` for each pair."""
    aucs = []
    for k in range(len(resamples.scored)):
        upper, lower = resamples.ranks(k, True), resamples.ranks(k, False)
        mass, mass_below = np.diff(upper, axis=0, prepend=0.0), np.diff(lower, axis=0, prepend=0.0)
        # A positive in a cell outranks the negatives of all cells below, and half of those in its own.
        aucs.append(np.einsum("jb,jb->b", mass, 1.0 - lower + 0.5 * mass_below))
    return share_differences(resamples, [aucs])


def share_differences(resamples: Resamples, kinds: Sequence[Sequence[Floats]]) -> Differences:
    """Differences ``value_k − value_j`` of every pair, for each kind of value: proportions, or means."""
    n_groups = len(resamples.scored)
    pairs = np.array(list(resamples.scored.pairs()))
    values = np.array([value for kind in kinds for value in kind])
    rows = np.concatenate([pairs + kind * n_groups for kind in range(len(kinds))])

    def fill(chosen: Ints, block: Floats) -> None:
        np.subtract(values[rows[chosen, 0]], values[rows[chosen, 1]], out=block)

    return _single_differences(rows % n_groups, resamples.n_columns, fill)


def group_differences(values: Sequence[Floats]) -> Differences:
    """Return one d for each group, for metrics that compare groups with a number instead of each other."""
    groups, of_group = np.arange(len(values)), np.array(values)

    def fill(chosen: Ints, block: Floats) -> None:
        block[:] = of_group[chosen]

    return _single_differences(np.stack([groups, groups], axis=1), of_group.shape[1], fill)


def _single_differences(
    pairs: Ints, n_columns: int, fill_rows: Callable[[Ints, Floats], None]
) -> Differences:
    """One difference for each pair."""

    def fill(chosen: Ints, block: Floats) -> Ints:
        fill_rows(chosen, block[: chosen.size])
        return np.arange(chosen.size + 1)

    return Differences(pairs, np.ones(len(pairs), dtype=np.int64), fill, n_columns)


def n_cells_above(resamples: Resamples, k: int, setting: Setting) -> int:
    """Return how many of the group's cells lie above the threshold, which is one of the knots."""
    last = int(np.flatnonzero(resamples.thresholds == setting.threshold)[0])
    return int(np.searchsorted(resamples.draws[k].cells, last, side="right"))


def _selected(resamples: Resamples, setting: Setting, label: bool | None) -> list[Floats]:
    """Return the selected proportion of each group's interval, of all members or those with a label."""
    proportions = []
    for k, group in enumerate(resamples.scored):
        if label is not None and setting.rank_within == "group":
            proportions.append(_selected_of_label(resamples, k, setting, label))
            continue
        passed = resamples.passed_linearized(k, label)
        n_above = n_cells_above(resamples, k, setting)
        selected = passed[n_above - 1] if n_above else np.zeros(passed.shape[1])
        scale = group.interval.measure if setting.gap_scale == "absolute" else 1.0
        proportions.append(selected * scale)
    return proportions


def _selected_of_label(resamples: Resamples, k: int, setting: Setting, positive: bool) -> Floats:
    """Ranks within the group: a cell's fraction of the interval is split over labels by their weight."""
    all_weights, labelled = resamples.weights(k), resamples.weights(k, positive)
    fraction = np.divide(labelled, all_weights, out=np.zeros_like(all_weights), where=all_weights > 0)
    passed = resamples.passed_linearized(k, **_OF_A_MEAN)
    in_band = np.diff(passed, axis=0, prepend=0.0) * fraction
    selected = in_band[: n_cells_above(resamples, k, setting)].sum(axis=0)
    if setting.gap_scale == "absolute":
        rate = labelled.sum(axis=0) / all_weights.sum(axis=0)
        return np.asarray(resamples.scored.groups[k].interval.measure * selected / rate)
    total = in_band.sum(axis=0)
    # A draw may move few rows with the label out of the interval; the least radius covers those.
    unchanged = np.full_like(total, selected[0] / total[0])
    return np.asarray(np.divide(selected, total, out=unchanged, where=total > 0))


class Curves(NamedTuple):
    """Curves of all groups, stacked.

    A curve holds, below each cell of scores that its group occupies, a fraction in the data (column 0) and in
    each draw. Group k has the rows ``offsets[k]`` to ``offsets[k + 1]``, of which the first is 0 (above its
    top cell) and the others belong to its ``cells``, which begin at ``offsets[k] − k``.
    """

    offsets: Ints
    cells: Ints
    values: Floats


def stack_curves(resamples: Resamples, curve: Callable[[int], Floats]) -> Curves:
    """Put the curves of all groups into one array, as the compiled loops need them."""
    offsets = np.cumsum([0, *(draws.cells.size + 1 for draws in resamples.draws)])
    values = np.zeros((offsets[-1], resamples.n_columns))
    for k, (first, end) in enumerate(pairwise(offsets)):
        values[first + 1 : end] = curve(k)
    return Curves(offsets, np.concatenate([draws.cells for draws in resamples.draws]), values)


def _chances(
    resamples: Resamples, upper: Callable[[int], Floats], lower: Callable[[int], Floats]
) -> Callable[[Ints, Floats], None]:
    """Return a function that adds, for pairs (k, j), the probability that ``upper(k)`` outranks ``lower(j)``.

    Ties count ½. Curves are prepared group by group: for many groups they need much memory.
    """
    offsets, cells, steps = stack_curves(resamples, lambda k: np.diff(upper(k), axis=0, prepend=0.0))
    below = stack_curves(resamples, lower).values
    np.subtract(1.0, below, out=below)
    halfway = np.ones_like(below)
    for first, end in pairwise(offsets):
        halfway[first + 1 : end] = 0.5 * (below[first : end - 1] + below[first + 1 : end])

    def add(pairs: Ints, block: Floats) -> None:
        _add_chances(pairs, offsets, cells, steps, below, halfway, block)

    return add


# The loops below run over many pairs of groups; the inner ones over the draws, consecutive in memory.


@njit(cache=True)
def _fill_curves(pairs: Ints, offsets: Ints, cells: Ints, curves: Floats, block: Floats) -> Ints:
    """Write the differences of each pair below each cell that either occupies; return where they start."""
    starts = np.zeros(pairs.shape[0] + 1, dtype=np.int64)
    row = 0
    for pair in range(pairs.shape[0]):
        k, j = pairs[pair]
        at_k, at_j = offsets[k], offsets[j]
        while at_k < offsets[k + 1] - 1 or at_j < offsets[j + 1] - 1:
            # Cell of the next row; the curves have one more row than there are cells.
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
def _add_chances(
    pairs: Ints, offsets: Ints, cells: Ints, steps: Floats, below: Floats, halfway: Floats, block: Floats
) -> None:
    """Add ``Pr(s > s') + ½ Pr(s = s')``, s from curve k and s' from curve j.

    ``steps`` are the fractions of k in its cells; ``below`` is what lies below each cell of j, and
    ``halfway`` that and half of what lies in it.
    """
    for pair in range(pairs.shape[0]):
        k, j = pairs[pair]
        target = block[pair]
        row = offsets[j]
        for at in range(offsets[k] + 1, offsets[k + 1]):
            cell = cells[at - 1 - k]
            while row < offsets[j + 1] - 1 and cells[row - j] <= cell:
                row += 1
            # Row ``row`` of j is the last whose cell is not below the one of k: it may be the same cell.
            shared = row > offsets[j] and cells[row - 1 - j] == cell
            step, beaten = steps[at], (halfway[row] if shared else below[row])
            for b in range(target.size):
                target[b] += step[b] * beaten[b]


@njit(cache=True)
def _rank_positions(
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
                if p > 0 and grid[p] < grid[p - 1]:  # the next part of the interval begins
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
def _fill_ranks(
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
            cell, fraction, target = reached[k, p], depth[k, p], block[row]
            for b in range(target.size):
                before = ranks[rows[cell[b]], b]
                # F̄_j at the score where group k reaches rank p, linear within its cell.
                target[b] = grid[p] - (before + fraction[b] * (ranks[rows[cell[b] + 1], b] - before))
            row += 1
