"""Maps with the least change under statistical parity: exact, or among those with few knots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partialfair.data.groups import members_text
from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet
from partialfair.exceptions import InputError
from partialfair.metrics.inputs import GroupScores, ScoredGroups, Setting
from partialfair.metrics.partial import statistical_parity_gap
from partialfair.postprocessing._isotonic import least_change
from partialfair.postprocessing._knots import (
    Blocks,
    Knots,
    group_blocks,
    knots_of,
    largest_shares,
    order_rows,
)
from partialfair.postprocessing.maps import ScoreMap, score_map
from partialfair.utils.text import listed
from partialfair.utils.typing import Floats, GapScale

__all__ = ["ParityMaps", "has_new_ties", "identity_map", "parity_maps", "squared_change", "with_maps"]

_SOLVES = 8
"""With few knots the gap of everybody differs a little from theirs, for which κ is then corrected."""

_NEAR_ENOUGH = 0.5
"""Corrections end where what is left of κ is less than so much of a knot's share of the interval."""

_MANY_GROUPS, _FEWEST_KNOTS = 4, 200
"""With more groups than this each has fewer knots, though not fewer than so many: twenty groups with a
thousand knots each took a minute, and take three seconds with two hundred."""

_STEPS = 10_000
"""Gaps are written with four digits."""

_MORE = 4
"""So many times as many knots are taken where few cannot keep the promise."""


@dataclass(frozen=True, eq=False)
class ParityMaps:
    """What was found: one map per group, the floor under the gap, and whether every score is a knot."""

    maps: tuple[ScoreMap, ...]
    floor: float
    is_exact: bool


def parity_maps(
    scored: ScoredGroups, max_gap: float, gap_scale: GapScale, max_knots: int | None
) -> ParityMaps:
    """Return the maps with the least weighted squared change whose gap is at most ``max_gap``.

    With ``max_knots`` they are the least among maps with about so many knots in each group, up to a knot's
    share of the interval; with None, or where groups have no more distinct scores, they are the least of all.
    """
    blocks = [group_blocks(group, gap_scale) for group in scored]
    interval = scored.groups[0].interval if gap_scale == "absolute" else None
    floor = _floor(blocks, max_gap, interval)
    if statistical_parity_gap(scored, Setting(gap_scale)).value <= max_gap + RANK_TOLERANCE:
        return ParityMaps(tuple(map(identity_map, scored)), floor, True)
    every = knots_of(blocks, None)
    if max_gap < floor - RANK_TOLERANCE and order_rows(every, max_gap, interval) is None:
        least = _smallest_gap(every, max_gap, floor, interval)
        raise InputError(_too_small(scored, blocks, max_gap, least, interval))
    search = _Search(scored, max_gap, gap_scale, interval)
    borders = [] if interval is None else _borders(interval, max_gap)
    size = max_knots
    if size is not None and len(blocks) > _MANY_GROUPS:  # the program grows with all of them
        size = max(size * _MANY_GROUPS // len(blocks), min(size, _FEWEST_KNOTS))
    while size is not None and size < max(one.scores.size for one in blocks):
        maps = search.corrected(knots_of(blocks, size, borders), 2 / size)
        if maps is not None:
            return ParityMaps(maps, floor, False)
        size *= _MORE
    maps = search.solved(every, max_gap)
    if maps is None or search.gap(maps) > max_gap + RANK_TOLERANCE:
        raise InputError(
            f"scores are so close to each other that floats cannot tell them apart at max_gap {max_gap:g}; "
            "allow a wider gap, or round the scores"
        )
    return ParityMaps(maps, floor, True)


@dataclass(frozen=True, eq=False)
class _Search:
    """Maps of knots, judged by the referee on everybody."""

    scored: ScoredGroups
    max_gap: float
    gap_scale: GapScale
    interval: IntervalSet | None

    def solved(self, knots: Knots, max_gap: float) -> tuple[ScoreMap, ...] | None:
        """Return the maps with the least change for that gap of the knots; None below their floor."""
        rows = order_rows(knots, max_gap, self.interval)
        if rows is None:
            return None
        values = least_change(knots, rows)
        return tuple(
            score_map(group.label, knots.scores[knots.of(k)][::-1], values[knots.of(k)][::-1])
            for k, group in enumerate(self.scored)
        )

    def gap(self, maps: tuple[ScoreMap, ...]) -> float:
        """Return the exact gap of everybody's new scores."""
        return statistical_parity_gap(with_maps(self.scored, maps), Setting(self.gap_scale)).value

    def corrected(self, knots: Knots, step: float) -> tuple[ScoreMap, ...] | None:
        """Return the best maps that keep the promise for everybody; None if such knots are too few.

        The gap of everybody rises with what is asked of the knots, roughly and by small jumps: ask for what
        is left until one answer keeps the promise, then halve the way between it and those that do not.
        """
        best, least = None, np.inf
        asked, kept, broken = self.max_gap, -np.inf, np.inf
        for _ in range(_SOLVES):
            maps = self.solved(knots, asked) if asked > 0 else None
            if maps is None:
                break
            left = self.max_gap - self.gap(maps)
            if left >= -RANK_TOLERANCE and not has_new_ties(self.scored, maps):
                kept = max(kept, asked)
                change = squared_change(self.scored, maps)
                if change < least:
                    best, least = maps, change
            else:
                broken = min(broken, asked)
            if (kept == asked and left <= _NEAR_ENOUGH * step) or broken - kept <= _NEAR_ENOUGH * step:
                break
            if kept == -np.inf:
                asked += min(left, 0.0) - _NEAR_ENOUGH * step
            else:
                asked = min(asked + left, (kept + broken) / 2)
        return best


def with_maps(scored: ScoredGroups, maps: tuple[ScoreMap, ...]) -> ScoredGroups:
    """Return the same people with their new scores; order is kept, so nothing is sorted again."""
    moved = [replace(group, scores=change(group.scores)) for group, change in zip(scored, maps, strict=True)]
    return replace(scored, groups=tuple(moved))


def squared_change(scored: ScoredGroups, maps: tuple[ScoreMap, ...]) -> float:
    """Return ``Σ w (s' − s)² / Σ w`` over everybody."""
    total = weight = 0.0
    for group, change in zip(scored, maps, strict=True):
        squares = (change(group.scores) - group.scores) ** 2
        weights = np.ones(group.n) if group.weights is None else group.weights
        total, weight = total + float(weights @ squares), weight + float(weights.sum())
    return total / weight


def has_new_ties(scored: ScoredGroups, maps: tuple[ScoreMap, ...]) -> bool:
    """Whether people of one group share a score who did not before."""
    for group, change in zip(scored, maps, strict=True):
        if bool(((np.diff(change(group.scores)) <= 0) & (np.diff(group.scores) > 0)).any()):
            return True
    return False


def _borders(interval: IntervalSet, max_gap: float) -> list[float]:
    """Return ranks at which what is asked for begins or ends on the absolute scale: maps jump there."""
    return [end + away for part in interval.parts for end in part for away in (-max_gap, 0.0, max_gap)]


def identity_map(group: GroupScores) -> ScoreMap:
    ends = np.unique(group.scores[[0, -1]])
    return ScoreMap(group.label, ends, ends)


def _floor(blocks: list[Blocks], max_gap: float, interval: IntervalSet | None) -> float:
    """Return ½ (b_k + b_j) of the worst pair."""
    return float(np.sort(largest_shares(blocks, max_gap, interval))[-2:].sum() / 2)


def _smallest_gap(knots: Knots, refused: float, floor: float, interval: IntervalSet | None) -> float:
    """Return the smallest gap that scores without new ties reach, rounded up to four digits.

    Rows only get stricter as the gap shrinks, so the gaps between one that is refused and the floor can be
    halved. On the absolute scale the floor of ``refused`` looks at fewer scores than that of itself: 1 is
    always reached.
    """
    low = int(np.floor(refused * _STEPS))
    high = int(np.ceil(floor * _STEPS))
    if order_rows(knots, high / _STEPS, interval) is None:
        high = _STEPS
    while high - low > 1:
        middle = (low + high) // 2
        if order_rows(knots, middle / _STEPS, interval) is None:
            low = middle
        else:
            high = middle
    return high / _STEPS


def _too_small(
    scored: ScoredGroups, blocks: list[Blocks], max_gap: float, least: float, interval: IntervalSet | None
) -> str:
    """Say that no map reaches the gap, whose scores are the reason, and what would help."""
    shares: Floats = largest_shares(blocks, max_gap, interval)
    worst = np.argsort(-shares, kind="stable")[:2].tolist()
    described, few_scores = [], False
    for k in worst:
        group, n_scores = scored.groups[k], int((blocks[k].masses > 0).sum())
        tied = bool(shares[k] * group.n_inside > 2)  # without ties a score holds one member
        few_scores |= tied
        count = f"{n_scores:,} distinct score{'' if n_scores == 1 else 's'}, " if tied else ""
        described.append(
            f"{group.name!r} ({members_text(group.n_inside)} effective members in the interval, "
            f"{count}{100 * shares[k]:.3g}% of it on one score)"
        )
    remedy = (
        "use scores with more distinct values" if few_scores else "leave small groups out with min_group_size"
    )
    return (
        f"max_gap {max_gap:g} is smaller than scores without new ties can reach, {least:g}, because of "
        f"{listed(described)}; allow at least that, or {remedy}"
    )
