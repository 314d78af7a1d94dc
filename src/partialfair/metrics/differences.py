"""Each metric as a family of signed differences, evaluated on data and draws alike.

A metric's gap is ``max_j |d_j|``; these functions return the d_j for the columns of a `Resamples`. They
mirror `partialfair.metrics.partial` on cells of scores instead of single scores, and serve only the
confidence intervals: reported values always come from the exact metrics.

There are two codings because each needs what the other cannot afford: intervals need every d_j in a thousand
draws, a metric needs its maximum alone, from one pass through the sorted scores. On cells that hold one score
each the two are equal, and ``tests/property/test_metrics_on_cells.py`` holds them together; but with every
score a cell these functions take 25 times as long as the metric (a million scores, two groups), and absolute
statistical parity is bootstrapped by rank, over other differences than its metric's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np

from partialfair.metrics import _draw_kernels
from partialfair.metrics.bounds import Differences
from partialfair.metrics.resampling import Resamples
from partialfair.utils.typing import Floats, GapScale, Ints, RankWithin

__all__ = [
    "Setting",
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "group_auc",
    "group_differences",
    "inter_group",
    "intra_group",
    "n_cells_above",
    "share_differences",
    "statistical_parity",
]

N_RANKS = 201
"""Ranks inside the interval at which the absolute gap is followed, for up to ten groups."""

FEWEST_RANKS = 21
"""The same for many groups, of which there are more pairs."""


class _Slopes(NamedTuple):
    """How far slopes go on beyond the ends of an interval; see `Resamples.passed_linearised`."""

    beyond: float
    fading: float


_OF_A_MEAN = _Slopes(beyond=0.0, fading=0.5)
"""To a mean over an interval its ends matter less than to a difference at one threshold: with slopes that go
on beyond them its standard deviation would be up to twice what it is."""


@dataclass(frozen=True)
class Setting:
    """What metrics need to know besides scores and groups."""

    gap_scale: GapScale = "interval"
    threshold: float | None = None
    rank_within: RankWithin = "group"


def statistical_parity(resamples: Resamples, setting: Setting) -> Differences:
    """Differences of conditional distributions at thresholds, or of ranks at ranks in the interval."""
    if setting.gap_scale == "absolute":
        return _rank_differences(resamples)
    curves = _Curves.of(resamples, resamples.passed_linearised)
    pairs = np.array(list(resamples.scored.pairs()))
    n_cells = np.diff(curves.offsets) - 1

    def fill(chosen: Ints, block: Floats) -> Ints:
        starts: Ints = _draw_kernels.curve_differences(
            pairs[chosen], curves.offsets, curves.cells, curves.values, block
        )
        return starts

    return Differences(pairs, n_cells[pairs].sum(axis=1), fill, resamples.n_columns)


def _rank_differences(resamples: Resamples) -> Differences:
    """Return ``p − F̄_j(F̄_k⁻¹(p))`` for ranks p in the interval and both orders of each pair.

    The thresholds that count on the absolute scale depend on the ranks, which are random. Followed by rank
    they do not: θ with F̄_k(θ) = p has ``|F̄_k(θ) − F̄_j(θ)| = |p − F̄_j(F̄_k⁻¹(p))|``.
    """
    n_groups, last_cell = len(resamples.scored), resamples.thresholds.size
    pairs = np.array(list(permutations(range(n_groups), 2)))
    n_ranks = int(np.clip(90 * N_RANKS // len(pairs), FEWEST_RANKS, N_RANKS))  # ten groups have 90 pairs
    parts = resamples.scored.groups[0].interval.parts
    grid = np.concatenate([np.linspace(low, high, n_ranks) for low, high in parts])
    curves = _Curves.of(resamples, resamples.ranks)
    reached, depth = _draw_kernels.rank_positions(
        curves.offsets, curves.cells, curves.values, grid, last_cell
    )
    rows_through = np.stack(
        [
            offset + np.searchsorted(draws.cells, np.arange(-1, last_cell + 1), side="right")
            for offset, draws in zip(curves.offsets[:-1], resamples.draws, strict=True)
        ]
    )

    def fill(chosen: Ints, block: Floats) -> Ints:
        _draw_kernels.rank_differences(
            pairs[chosen], rows_through, curves.values, grid, reached, depth, block
        )
        return np.arange(chosen.size + 1) * grid.size

    return Differences(pairs, np.full(len(pairs), grid.size), fill, resamples.n_columns)


def demographic_parity(resamples: Resamples, setting: Setting) -> Differences:
    """Differences of selected shares at the one threshold."""
    return share_differences(
        resamples, [[_selected(resamples, k, setting) for k in range(len(resamples.scored))]]
    )


def group_auc(resamples: Resamples, setting: Setting) -> Differences:
    """``Pr(s > s') + ½ Pr(s = s') − ½`` inside the intervals of each pair."""
    passed = partial(resamples.passed_linearised, **_OF_A_MEAN._asdict())
    beats = _Beats.of(resamples, passed, passed)

    def fill(pairs: Ints, block: Floats) -> None:
        block[:] = -0.5
        beats.add(pairs, block)

    return _single_differences(resamples, fill)


def equal_opportunity(resamples: Resamples, setting: Setting) -> Differences:
    """Differences of selected shares among the interval's positives."""
    return share_differences(resamples, [_selected_by_label(resamples, setting, True)])


def equalized_odds(resamples: Resamples, setting: Setting) -> Differences:
    """Differences of selected shares for both labels."""
    return share_differences(
        resamples, [_selected_by_label(resamples, setting, positive) for positive in (True, False)]
    )


def inter_group(resamples: Resamples, setting: Setting) -> Differences:
    """``A(k⁺, j⁻) − A(j⁺, k⁻)`` for each pair."""
    positives, negatives = (partial(resamples.ranks, positive=label) for label in (True, False))
    beats = _Beats.of(resamples, positives, negatives)

    def fill(pairs: Ints, block: Floats) -> None:
        block[:] = 0.0
        beats.add(pairs[:, ::-1], block)
        np.negative(block, out=block)
        beats.add(pairs, block)

    return _single_differences(resamples, fill)


def intra_group(resamples: Resamples, setting: Setting) -> Differences:
    """``A(k⁺, k⁻) − A(j⁺, j⁻)`` for each pair."""
    groups = range(len(resamples.scored))
    return share_differences(
        resamples, [[_auc(resamples.ranks(k, True), resamples.ranks(k, False)) for k in groups]]
    )


def _single_differences(resamples: Resamples, fill_pairs: Callable[[Ints, Floats], None]) -> Differences:
    """One difference for each pair."""
    pairs = np.array(list(resamples.scored.pairs()))

    def fill(chosen: Ints, block: Floats) -> Ints:
        fill_pairs(pairs[chosen], block)
        return np.arange(chosen.size + 1)

    return Differences(pairs, np.ones(len(pairs), dtype=np.int64), fill, resamples.n_columns)


def share_differences(resamples: Resamples, kinds: Sequence[Sequence[Floats]]) -> Differences:
    """Differences ``share_k − share_j`` of every pair, for each kind of share (or of mean)."""
    pairs = np.array(list(resamples.scored.pairs()))
    shares = np.array([share for kind in kinds for share in kind])
    rows = np.concatenate([pairs + kind * len(resamples.scored) for kind in range(len(kinds))])

    def fill(chosen: Ints, block: Floats) -> Ints:
        _draw_kernels.share_differences(rows[chosen], shares, block)
        return np.arange(chosen.size + 1)

    return Differences(
        rows % len(resamples.scored), np.ones(len(rows), dtype=np.int64), fill, resamples.n_columns
    )


def group_differences(values: Sequence[Floats]) -> Differences:
    """One d for each group by itself, for metrics that compare groups with a number and not with others."""
    groups, of_group = np.arange(len(values)), np.array(values)

    def fill(chosen: Ints, block: Floats) -> Ints:
        block[:] = of_group[chosen]
        return np.arange(chosen.size + 1)

    return Differences(
        np.stack([groups, groups], axis=1), np.ones(groups.size, dtype=np.int64), fill, of_group.shape[1]
    )


def _selected_by_label(resamples: Resamples, setting: Setting, positive: bool) -> list[Floats]:
    select = _selected if setting.rank_within == "group_and_label" else _selected_of_label
    return [select(resamples, k, setting, positive) for k in range(len(resamples.scored))]


def n_cells_above(resamples: Resamples, k: int, setting: Setting) -> int:
    """How many of the group's cells lie above the threshold, which `resample` put among the knots."""
    last = int(np.flatnonzero(resamples.thresholds == setting.threshold)[0])
    return int(np.searchsorted(resamples.draws[k].cells, last, side="right"))


def _selected(resamples: Resamples, k: int, setting: Setting, positive: bool | None = None) -> Floats:
    passed = resamples.passed_linearised(k, positive)
    n_above = n_cells_above(resamples, k, setting)
    share = passed[n_above - 1] if n_above else np.zeros(passed.shape[1])
    return share if setting.gap_scale == "interval" else share * resamples.scored.groups[k].interval.measure


def _selected_of_label(resamples: Resamples, k: int, setting: Setting, positive: bool) -> Floats:
    """Ranks within the group; a cell's share of the interval is split over labels by their weight in it."""
    everyone, labelled = resamples.weights(k), resamples.weights(k, positive)
    fraction = np.divide(labelled, everyone, out=np.zeros_like(everyone), where=everyone > 0)
    passed = resamples.passed_linearised(k, **_OF_A_MEAN._asdict())
    in_band = np.diff(passed, axis=0, prepend=0.0) * fraction
    selected = in_band[: n_cells_above(resamples, k, setting)].sum(axis=0)
    if setting.gap_scale == "absolute":
        rate = labelled.sum(axis=0) / everyone.sum(axis=0)
        return np.asarray(resamples.scored.groups[k].interval.measure * selected / rate)
    total = in_band.sum(axis=0)
    # A draw may move the few with the label out of the interval; the least radius answers for those.
    unchanged = np.full_like(total, selected[0] / total[0])
    return np.asarray(np.divide(selected, total, out=unchanged, where=total > 0))


def _auc(upper: Floats, lower: Floats) -> Floats:
    """Chance that a draw from one curve beats a draw from another on the same cells, ties counting ½."""
    mass, mass_below = np.diff(upper, axis=0, prepend=0.0), np.diff(lower, axis=0, prepend=0.0)
    return np.asarray(np.einsum("jb,jb->b", mass, 1.0 - lower + 0.5 * mass_below))


@dataclass(frozen=True, eq=False)
class _Curves:
    """Curves of all groups in one array, as `partialfair.metrics._draw_kernels` takes them."""

    offsets: Ints
    cells: Ints
    values: Floats

    @classmethod
    def of(cls, resamples: Resamples, curve: Callable[[int], Floats]) -> _Curves:
        """Lay the curves of all groups one below the other."""
        offsets, cells = _rows(resamples)
        values = np.zeros((offsets[-1], resamples.n_columns))
        for k, (first, end) in enumerate(pairwise(offsets)):
            values[first + 1 : end] = curve(k)
        return cls(offsets, cells, values)


@dataclass(frozen=True, eq=False)
class _Beats:
    """What decides how often a member of one curve beats a member of another; see `add_aucs`."""

    offsets: Ints
    cells: Ints
    steps: Floats
    below: Floats
    halfway: Floats

    @classmethod
    def of(
        cls, resamples: Resamples, upper: Callable[[int], Floats], lower: Callable[[int], Floats]
    ) -> _Beats:
        """Prepare two curves of each group, group by group: of many groups they take much memory."""
        offsets, cells = _rows(resamples)
        steps, below, halfway = (np.ones((offsets[-1], resamples.n_columns)) for _ in range(3))
        for k, (first, end) in enumerate(pairwise(offsets)):
            steps[first + 1 : end] = np.diff(upper(k), axis=0, prepend=0.0)
            below[first + 1 : end] -= lower(k)
            halfway[first + 1 : end] = 0.5 * (below[first : end - 1] + below[first + 1 : end])
        return cls(offsets, cells, steps, below, halfway)

    def add(self, pairs: Ints, block: Floats) -> None:
        """Add the chance that a draw from curve k beats one from curve j, ties counting ½."""
        _draw_kernels.add_aucs(pairs, self.offsets, self.cells, self.steps, self.below, self.halfway, block)


def _rows(resamples: Resamples) -> tuple[Ints, Ints]:
    """Return where the rows of each group's curve begin, and the cells of all groups."""
    n_rows = [draws.cells.size + 1 for draws in resamples.draws]
    cells = np.concatenate([draws.cells for draws in resamples.draws])
    return np.concatenate([[0], np.cumsum(n_rows)]), cells
