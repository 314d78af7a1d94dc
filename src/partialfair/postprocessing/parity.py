"""Maps with the smallest change under statistical parity, and under demographic parity at one threshold.

**Statistical parity**: the scores nearest to those of the knots that satisfy an order
(`postprocessing.orders`). If every score is a knot, the change is the smallest possible; with few knots the
gap of all rows differs slightly from that of the knots, and the limit is corrected until it holds for all
rows.

**Demographic parity**: at the threshold θ̂ only the number of distinct scores above it matters. If the best m
of group k are to be above, those of them that are not move to just above θ̂, lower ones that are above move
down to θ̂, and all others stay. The change c_k(m) grows with the distance from the present number above. The
selected fractions ``e_k,m_k`` must be within κ of each other, that is, in ``[L, L + κ]`` for some L, which
can be the smallest of them. For each L that is a fraction of some group, every group gets the number nearest
to its present one; the best L is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partialfair.data.groups import members_text
from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet
from partialfair.exceptions import InputError
from partialfair.metrics.inputs import GroupScores, ScoredGroups, Setting
from partialfair.metrics.partial import statistical_parity_gap
from partialfair.postprocessing.maps import ScoreMap, score_map
from partialfair.postprocessing.orders import (
    Blocks,
    Knots,
    find_least_change,
    group_blocks,
    knots_of,
    largest_shares,
    make_rising,
    order_rows,
)
from partialfair.utils.text import listed, short_percent
from partialfair.utils.typing import Floats, GapScale, Ints


@dataclass(frozen=True)
class MapSettings:
    """Settings of the search for maps.

    Attributes
    ----------
    max_solves
        Programs for one set of few knots, whose gap differs slightly from that of all rows.
    near_enough
        Corrections end if the unused part of the limit is below this fraction of a knot's part of the
        interval.
    many_groups, fewest_knots
        With more groups than this each has fewer knots, but at least ``fewest_knots``: twenty groups with a
        thousand knots each took a minute, and three seconds with two hundred.
    more
        Factor for the number of knots if few cannot satisfy the constraint.
    tie_width
        Width, in units of the spread of a group's scores, over which scores that cross a threshold are spread
        to avoid ties.
    """

    max_solves: int = 8
    near_enough: float = 0.5
    many_groups: int = 4
    fewest_knots: int = 200
    more: int = 4
    tie_width: float = 1e-7


_MAPS = MapSettings()

# Gaps in messages have four digits.
_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class ParityMaps:
    """One map per group, the floor under the gap, and whether every score is a knot."""

    maps: tuple[ScoreMap, ...]
    floor: float
    is_exact: bool


def find_parity_maps(
    scored: ScoredGroups, max_gap: float, gap_scale: GapScale, max_knots: int | None
) -> ParityMaps:
    """Return the maps with the smallest weighted squared change whose gap is at most ``max_gap``.

    With ``max_knots`` the change is the smallest among maps with about that many knots per group, up to a
    knot's part of the interval; with None, or if groups have no more distinct scores, the smallest possible.
    """
    blocks = [group_blocks(group, gap_scale) for group in scored]
    interval = scored.groups[0].interval if gap_scale == "absolute" else None
    # ½ (b_k + b_j) of the worst pair; see "the floor" in `orders`.
    floor = float(np.sort(largest_shares(blocks, max_gap, interval))[-2:].sum() / 2)
    if statistical_parity_gap(scored, Setting(gap_scale)).value <= max_gap + RANK_TOLERANCE:
        return ParityMaps(tuple(map(identity_map, scored)), floor, True)
    all_knots = knots_of(blocks, None)
    if max_gap < floor - RANK_TOLERANCE and order_rows(all_knots, max_gap, interval) is None:
        least = _smallest_gap(all_knots, max_gap, floor, interval)
        raise InputError(_explain_floor(scored, blocks, max_gap, least, interval))
    search = _MapSearch(scored, max_gap, gap_scale, interval)
    borders: list[float] = []
    if interval is not None:  # ranks at which rows begin or end on the absolute scale, where maps jump
        borders = [end + away for part in interval.parts for end in part for away in (-max_gap, 0.0, max_gap)]
    size = max_knots
    if size is not None and len(blocks) > _MAPS.many_groups:  # the program grows with all of them
        size = max(size * _MAPS.many_groups // len(blocks), min(size, _MAPS.fewest_knots))
    while size is not None and size < max(one.scores.size for one in blocks):
        maps = search.correct(knots_of(blocks, size, borders), 2 / size)
        if maps is not None:
            return ParityMaps(maps, floor, False)
        size *= _MAPS.more
    maps = search.solve(all_knots, max_gap)
    if maps is None or search.gap(maps) > max_gap + RANK_TOLERANCE:
        raise InputError(
            f"scores are too close to each other for floats to distinguish them at max_gap {max_gap:g}; "
            "raise max_gap, or round the scores"
        )
    return ParityMaps(maps, floor, True)


@dataclass(frozen=True, eq=False)
class _MapSearch:
    """Maps of knots, evaluated by the exact gap of all rows."""

    scored: ScoredGroups
    max_gap: float
    gap_scale: GapScale
    interval: IntervalSet | None

    def solve(self, knots: Knots, max_gap: float) -> tuple[ScoreMap, ...] | None:
        """Return the maps that change scores least for this gap of the knots, or None below their floor."""
        rows = order_rows(knots, max_gap, self.interval)
        if rows is None:
            return None
        values = find_least_change(knots, rows)
        return tuple(
            score_map(group.label, knots.scores[knots.of(k)][::-1], values[knots.of(k)][::-1])
            for k, group in enumerate(self.scored)
        )

    def gap(self, maps: tuple[ScoreMap, ...]) -> float:
        """Return the exact gap of all new scores."""
        return statistical_parity_gap(with_maps(self.scored, maps), Setting(self.gap_scale)).value

    def correct(self, knots: Knots, step: float) -> tuple[ScoreMap, ...] | None:
        """Return the best maps whose exact gap is within the limit; None if there are too few knots.

        The exact gap increases with the limit of the knots, roughly and in small jumps. Correct that limit by
        the unused part until maps satisfy the constraint, then bisect between it and limits that do not.
        """
        best, least = None, np.inf
        limit, satisfied, violated = self.max_gap, -np.inf, np.inf  # the nearest limits of either kind
        for _ in range(_MAPS.max_solves):
            maps = self.solve(knots, limit) if limit > 0 else None
            if maps is None:
                break
            left = self.max_gap - self.gap(maps)
            if left >= -RANK_TOLERANCE and not has_new_ties(self.scored, maps):
                satisfied = max(satisfied, limit)
                change = squared_change(self.scored, maps)
                if change < least:
                    best, least = maps, change
            else:
                violated = min(violated, limit)
            enough = _MAPS.near_enough * step
            if (satisfied == limit and left <= enough) or violated - satisfied <= enough:
                break
            if satisfied == -np.inf:
                limit += min(left, 0.0) - enough
            else:
                limit = min(limit + left, (satisfied + violated) / 2)
        return best


def with_maps(scored: ScoredGroups, maps: tuple[ScoreMap, ...]) -> ScoredGroups:
    """Return the same rows with their new scores; the order does not change, so nothing is sorted again."""
    moved = [replace(group, scores=change(group.scores)) for group, change in zip(scored, maps, strict=True)]
    return replace(scored, groups=tuple(moved))


def weights_of(group: GroupScores) -> Floats:
    """Return the weight of each row, 1 if all are equal."""
    return np.ones(group.n) if group.weights is None else group.weights


def squared_change(scored: ScoredGroups, maps: tuple[ScoreMap, ...]) -> float:
    """Return ``Σ w (s' − s)² / Σ w`` over all rows."""
    total = weight = 0.0
    for group, change in zip(scored, maps, strict=True):
        squares, weights = (change(group.scores) - group.scores) ** 2, weights_of(group)
        total, weight = total + float(weights @ squares), weight + float(weights.sum())
    return total / weight


def has_new_ties(scored: ScoredGroups, maps: tuple[ScoreMap, ...]) -> bool:
    """Return whether rows of one group share a score that differed before."""
    return any(
        bool(((np.diff(change(group.scores)) <= 0) & (np.diff(group.scores) > 0)).any())
        for group, change in zip(scored, maps, strict=True)
    )


def identity_map(group: GroupScores) -> ScoreMap:
    """Return the map that changes no score of a group."""
    ends = np.unique(group.scores[[0, -1]])
    return ScoreMap(group.label, ends, ends)


def _smallest_gap(knots: Knots, refused: float, floor: float, interval: IntervalSet | None) -> float:
    """Return the smallest gap that scores without new ties reach, rounded up to four digits.

    Rows only become stricter as the gap decreases, so bisection between an unreachable gap and the floor is
    valid. On the absolute scale the floor at ``refused`` concerns fewer scores than at itself, but 1 can
    always be reached.
    """
    low, high = int(np.floor(refused * _STEPS)), int(np.ceil(floor * _STEPS))
    if order_rows(knots, high / _STEPS, interval) is None:
        high = _STEPS
    while high - low > 1:
        middle = (low + high) // 2
        if order_rows(knots, middle / _STEPS, interval) is None:
            low = middle
        else:
            high = middle
    return high / _STEPS


def _explain_floor(
    scored: ScoredGroups, blocks: list[Blocks], max_gap: float, least: float, interval: IntervalSet | None
) -> str:
    """Return a message: no map reaches the gap, whose scores are the reason, and what to do."""
    shares: Floats = largest_shares(blocks, max_gap, interval)
    worst = np.argsort(-shares, kind="stable")[:2].tolist()
    described, few_scores = [], False
    for k in worst:
        group, n_scores = scored.groups[k], int((blocks[k].masses > 0).sum())
        tied = bool(shares[k] * group.n_inside > 2)  # without ties a score belongs to one row
        few_scores |= tied
        count = f"{n_scores:,} distinct score{'' if n_scores == 1 else 's'}, " if tied else ""
        described.append(
            f"{group.name!r} ({members_text(group.n_inside)} effective rows in the interval, "
            f"{count}{short_percent(shares[k])} of it on one score)"
        )
    remedy = (
        "use scores with more distinct values" if few_scores else "exclude small groups with min_group_size"
    )
    return (
        f"max_gap {max_gap:g} is smaller than scores without new ties can reach, {least:g}, because of "
        f"{listed(described)}; raise it to at least that, or {remedy}"
    )


def find_selection_maps(scored: ScoredGroups, threshold: float, max_share: float) -> tuple[ScoreMap, ...]:
    """Return the maps with the smallest squared change whose selected fractions are within ``max_share``.

    Parameters
    ----------
    threshold
        On the scores of ``scored``, of which higher is better.
    max_share
        Largest difference of the selected fractions of the interval.
    """
    blocks = [group_blocks(group, "interval") for group in scored]
    maps = []
    for group, one, number in zip(scored, blocks, _numbers_above(blocks, threshold, max_share), strict=True):
        full = score_map(group.label, one.scores[::-1], _move_across(one, threshold, number)[::-1])
        # Omit knots between others that cross as well, unless that would tie rows of the group.
        moves = full.knots != full.values
        between = np.zeros(moves.size, dtype=np.bool_)
        between[1:-1] = moves[:-2] & moves[1:-1] & moves[2:]
        thin = ScoreMap(full.group, full.knots[~between], full.values[~between])
        tied = (np.diff(thin(group.scores)) <= 0) & (np.diff(group.scores) > 0)
        maps.append(full if bool(tied.any()) else thin)
    return tuple(maps)


def _numbers_above(blocks: list[Blocks], threshold: float, max_share: float) -> Ints:
    """Return how many distinct scores of each group are to be above the threshold."""
    selected = [np.append(one.starts[0], one.ends) for one in blocks]
    lows = np.unique(np.concatenate(selected))  # every L
    total = np.zeros(lows.size)
    chosen = np.empty((len(blocks), lows.size), dtype=np.intp)
    for k, (one, fractions) in enumerate(zip(blocks, selected, strict=True)):
        now = int((one.scores > threshold).sum())
        least = np.searchsorted(fractions, lows - RANK_TOLERANCE / 4)
        most = np.searchsorted(fractions, lows + max_share + RANK_TOLERANCE / 4, side="right") - 1
        chosen[k] = np.clip(now, least, np.maximum(most, least))
        # c_k(m): the squared change of all scores between the present number above and m.
        passed = np.append(0.0, np.cumsum(one.weights * (one.scores - threshold) ** 2))
        costs = np.abs(passed - passed[now])
        total += np.where(most >= least, costs[np.minimum(chosen[k], most)], np.inf)
    # Selecting the whole interval of every group is always a choice, so some total is finite.
    return chosen[:, int(np.argmin(total))]


def _move_across(blocks: Blocks, threshold: float, number: int) -> Floats:
    """Return scores of which that many are above the threshold; the others stay if possible."""
    scores = blocks.scores.copy()
    now = int((scores > threshold).sum())
    center = np.average(scores, weights=blocks.weights)
    spread = float(np.sqrt(np.average((scores - center) ** 2, weights=blocks.weights)))
    if number > now:  # from the worst up, above the threshold
        room = scores[now - 1] - threshold if now else np.inf
        steps = min(_MAPS.tie_width * spread, room / 2) * np.arange(1, number - now + 1) / (number - now)
        scores[now:number] = (threshold + steps)[::-1]
        raised = np.append(threshold, scores[:number][::-1])
        scores[:number] = make_rising(raised, np.zeros(raised.size, dtype=np.bool_), np.inf)[:0:-1]
    elif number < now:  # from the best down, the first of them at the threshold
        room = threshold - scores[now] if now < scores.size else np.inf
        steps = min(_MAPS.tie_width * spread, room / 2) * np.arange(now - number) / (now - number)
        scores[number:now] = threshold - steps
        lowered = np.append(np.nextafter(threshold, np.inf), scores[number:])
        scores[number:] = -make_rising(-lowered, np.zeros(lowered.size, dtype=np.bool_), np.inf)[1:]
    return scores
