"""All pairs of many groups at once: one sweep through the scores of everybody.

Merging the scores of two groups anew for each of G (G − 1) / 2 pairs takes (G − 1) n steps with a branch that
no processor foresees. Here the scores of all groups are sorted once; at each score the one group whose rank
changes is compared with all others in a loop over consecutive numbers. The steps are as many, but thirty
times as fast. Sorting costs more than merging a few pairs does, so few groups are merged pair by pair.

Both ways do the same arithmetic in the same order: values are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from partialfair.data.intervals import RANK_TOLERANCE, holds_rank, passed_share, tie_ends
from partialfair.metrics import _kernels
from partialfair.metrics.inputs import GroupScores
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, GapScale, Ints

__all__ = ["MANY_GROUPS", "PairVisits", "pair_aucs", "parity_gaps", "visits_of_pairs"]

MANY_GROUPS = 8
"""More groups than this are compared in one sweep: sorting then costs less than merging every pair."""


@dataclass(frozen=True, eq=False)
class PairVisits:
    """Cells of a grid that the rank curve of two groups visits; see `partialfair.metrics._kernels`."""

    k: int
    j: int
    cells: Ints
    visits: Floats


def parity_gaps(groups: Sequence[GroupScores], gap_scale: GapScale) -> Floats:
    """Statistical-parity gap of every pair, at ``[k, j]`` for k < j; −1 elsewhere."""
    gaps = np.full((len(groups), len(groups)), -1.0)
    if len(groups) <= MANY_GROUPS:
        for k, j in combinations(range(len(groups)), 2):
            a, b = groups[k], groups[j]
            if gap_scale == "interval":
                gaps[k, j] = _kernels.clipped_gap(*a.ranked, *b.ranked, a.set_arguments, b.set_arguments)[0]
            else:
                set_a = (a.interval.starts, a.interval.lengths)
                gaps[k, j] = _kernels.absolute_gap(*a.ranked, *b.ranked, *set_a)[0]
        return gaps
    if gap_scale == "interval":
        found = _widest_differences(*_ScoreSweep.through_shares(groups).arguments)
    else:
        starts, lengths = groups[0].interval.starts, groups[0].interval.lengths
        found = _widest_differences_inside(*_ScoreSweep.through_ranks(groups).arguments, starts, lengths)
    upper = np.triu_indices(len(groups), 1)
    gaps[upper] = np.maximum(found, found.T)[upper]
    return gaps


def pair_aucs(groups: Sequence[GroupScores], pairs: Iterable[tuple[int, int]], tie_share: float) -> Floats:
    """``Pr(s > s') + tie_share · Pr(s = s')`` inside the intervals of each pair, at ``[k, j]``.

    It is nan for pairs with an empty group, and unspecified for pairs that are not asked for.
    """
    if len(groups) > MANY_GROUPS:
        aucs = _aucs(*_ScoreSweep.through_shares(groups).arguments, tie_share)
    else:
        aucs = np.empty((len(groups), len(groups)))
        for k, j in pairs:
            a, b = groups[k], groups[j]
            sets = (a.set_arguments, b.set_arguments)
            aucs[k, j] = _kernels.band_auc(*a.ranked, *b.ranked, *sets, tie_share) if a.n and b.n else np.nan
    empty = [k for k, group in enumerate(groups) if group.n == 0]
    aucs[empty, :] = aucs[:, empty] = np.nan
    return np.asarray(aucs)


def visits_of_pairs(groups: Sequence[GroupScores], n_grid: int) -> Iterator[PairVisits]:
    """Follow the rank curve of each pair, in order; with many groups, that of one group and all others."""
    if len(groups) <= MANY_GROUPS:
        for k, j in combinations(range(len(groups)), 2):
            yield PairVisits(k, j, *_kernels.grid_visits(*groups[k].ranked, *groups[j].ranked, n_grid))
        return
    sweep = _ScoreSweep.through_ranks(groups)
    # Small integers: every group but the last takes a pass through these arrays.
    owners = sweep.groups.astype(np.int32)
    blocks = np.repeat(np.arange(sweep.ends.size - 1, dtype=np.int32), np.diff(sweep.ends))
    n_left = blocks.size
    for k in range(len(groups) - 1):
        n_left, n_visits, cells, visits = _visits_of_one(
            owners[:n_left], sweep.passed[:n_left], blocks[:n_left], len(groups), k, n_grid
        )
        for j in range(k + 1, len(groups)):
            yield PairVisits(k, j, cells[j, : n_visits[j]], visits[j, : n_visits[j]])


@dataclass(frozen=True, eq=False)
class _ScoreSweep:
    """Distinct scores of every group from the top: whose each is, and what its group has passed below it.

    Scores ``ends[b]`` to ``ends[b + 1]`` are equal; a group is among them at most once.
    """

    groups: Ints
    passed: Floats
    ends: Ints
    n_groups: int

    @property
    def arguments(self) -> tuple[Ints, Floats, Ints, int]:
        """What the kernels take."""
        return self.groups, self.passed, self.ends, self.n_groups

    @classmethod
    def through_ranks(cls, groups: Sequence[GroupScores]) -> _ScoreSweep:
        """Return the sweep in which a group has passed its rank F̄."""
        return cls._of([_ranks_below(group) for group in groups])

    @classmethod
    def through_shares(cls, groups: Sequence[GroupScores]) -> _ScoreSweep:
        """Return the sweep in which a group has passed a share of its interval, without scores outside."""
        below = []
        for group in groups:
            scores, ranks = _ranks_below(group)
            shares = _passed_shares(ranks, *group.set_arguments)
            inside = np.diff(shares, prepend=0.0) != 0
            below.append((scores[inside], shares[inside]))
        return cls._of(below)

    @classmethod
    def _of(cls, below: Sequence[tuple[Floats, Floats]]) -> _ScoreSweep:
        scores = np.concatenate([scores for scores, _ in below])
        # Each group's scores are sorted: a stable sort merges those runs.
        order = np.argsort(-scores, kind="stable")
        owner = np.repeat(np.arange(len(below)), [scores.size for scores, _ in below])
        passed = np.concatenate([passed for _, passed in below])
        return cls(owner[order], passed[order], tie_ends(scores[order]), len(below))


def _ranks_below(group: GroupScores) -> tuple[Floats, Floats]:
    """Distinct scores from the top, and the share of the group's weight at or above each."""
    if group.n == 0:
        return group.scores, np.empty(0)
    ends = tie_ends(group.scores)
    n_above = group.n - ends[-2::-1]
    ranks = n_above / group.n if group.weights is None else group.above[n_above] / group.above[-1]
    return group.scores[ends[-2::-1]], ranks


@njit(cache=True)
def _passed_shares(ranks: Floats, starts: Floats, lengths: Floats, measure: float) -> Floats:
    shares = np.empty(ranks.size)
    for i in range(ranks.size):
        shares[i] = passed_share(ranks[i], starts, lengths, measure)
    return shares


@njit(cache=True)
def _widest_differences(groups: Ints, passed: Floats, ends: Ints, n_groups: int) -> Floats:
    """Return the widest ``|passed_k − passed_j|``, at [k, j] over the scores at which group k moves."""
    current = np.zeros(n_groups)
    widest = np.zeros((n_groups, n_groups))
    for block in range(ends.size - 1):
        for at in range(ends[block], ends[block + 1]):
            current[groups[at]] = passed[at]
        for at in range(ends[block], ends[block + 1]):
            row = widest[groups[at]]
            for j in range(n_groups):
                row[j] = max(row[j], abs(passed[at] - current[j]))
    return widest


@njit(cache=True)
def _widest_differences_inside(
    groups: Ints, ranks: Floats, ends: Ints, n_groups: int, starts: Floats, lengths: Floats
) -> Floats:
    """As `_widest_differences`, where one of the two ranks lies in the set."""
    current = np.zeros(n_groups)
    counts = np.empty(n_groups)  # 1.0 if the group's rank lies in the set, else 0.0
    counts[:] = 1.0 if holds_rank(0.0, starts, lengths) else 0.0
    widest = np.zeros((n_groups, n_groups))
    for block in range(ends.size - 1):
        for at in range(ends[block], ends[block + 1]):
            current[groups[at]] = ranks[at]
            counts[groups[at]] = 1.0 if holds_rank(ranks[at], starts, lengths) else 0.0
        for at in range(ends[block], ends[block + 1]):
            row, own = widest[groups[at]], counts[groups[at]]
            for j in range(n_groups):
                row[j] = max(row[j], abs(ranks[at] - current[j]) * max(own, counts[j]))
    return widest


@njit(cache=True)
def _aucs(groups: Ints, passed: Floats, ends: Ints, n_groups: int, tie_share: float) -> Floats:
    """As `partialfair.metrics._kernels.band_auc`, of all ordered pairs."""
    current, mass = np.zeros(n_groups), np.zeros(n_groups)
    aucs = np.zeros((n_groups, n_groups))
    for block in range(ends.size - 1):
        for at in range(ends[block], ends[block + 1]):
            mass[groups[at]] = passed[at] - current[groups[at]]
            current[groups[at]] = passed[at]
        for at in range(ends[block], ends[block + 1]):
            row, mass_k = aucs[groups[at]], mass[groups[at]]
            for j in range(n_groups):
                row[j] += mass_k * ((1.0 - current[j]) + tie_share * mass[j])
        for at in range(ends[block], ends[block + 1]):
            mass[groups[at]] = 0.0
    return aucs


@njit(cache=True)
def _visits_of_one(
    groups: Ints, ranks: Floats, blocks: Ints, n_groups: int, k: int, n_grid: int
) -> tuple[int, Ints, Ints, Floats]:
    """As `partialfair.metrics._kernels.grid_visits`, of group k and each group j after it.

    Group k is taken out of the arrays, which hold itself and those after it alone; how many scores are left
    is returned first. Equal scores have the same ``blocks``.

    What is known of the visit that each pair is in lies in arrays over j until the visit ends; a move that
    stays in its cell, as nearly all do, is then a step or two. If k moves, only ``x − y`` may grow, and if j
    moves, only ``y − x`` and the mass of pairs.
    """
    cells = np.empty((n_groups, 2 * n_grid + 1, 2), dtype=np.int64)
    visits = np.empty((n_groups, 2 * n_grid + 1, 9))
    n_visits = np.zeros(n_groups, dtype=np.int64)
    rank, cell = np.zeros(n_groups), np.zeros(n_groups, dtype=np.int64)
    first_x, mass = np.zeros(n_groups), np.zeros(n_groups)
    lead_x, lead_y = np.zeros(n_groups), np.zeros(n_groups)  # where x − y is largest
    lag_x, lag_y = np.zeros(n_groups), np.zeros(n_groups)  # where y − x is largest
    for j in range(k + 1, n_groups):
        n_visits[j] = _kernels.extend_visits(cells[j], visits[j], 0, 0.0, 0.0, n_grid)
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
        # Several groups share the score, or a cell is left: the pairs concerned are brought up to date first.
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
                n_visits[j] = _kernels.extend_visits(
                    cells[j], visits[j], n_visits[j], rank[k], rank[j], n_grid
                )
                visit = visits[j, n_visits[j] - 1]
                first_x[j], mass[j] = visit[0], visit[8]
                lead_x[j], lead_y[j], lag_x[j], lag_y[j] = visit[4], visit[5], visit[6], visit[7]
        for at in range(begin, end):
            if groups[at] != k:
                groups[n_left], ranks[n_left], blocks[n_left] = groups[at], ranks[at], blocks[at]
                n_left += 1
    # All ranks end at 1, which lies in a cell of its own: the last visit is up to date.
    return n_left, n_visits, cells, visits
