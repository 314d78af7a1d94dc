"""Maps with the least change under demographic parity: who crosses the one threshold.

At the threshold θ̂ only the number of distinct scores above it matters. If the best m of group k are to be
above, those of them that are not move to just above θ̂, those beyond that are above move down to θ̂, and all
others stay: the change c_k(m) grows with the distance from the number that is above now. The shares
``e_k,m_k`` that are then selected must lie within κ of each other, so within ``[L, L + κ]`` for some L, which
may be the smallest of them. For each L that is a share of some group, every group takes the number nearest to
its own; the best L wins.
"""

from __future__ import annotations

import numpy as np

from partialfair.data.intervals import RANK_TOLERANCE
from partialfair.metrics.inputs import GroupScores, ScoredGroups
from partialfair.postprocessing._isotonic import rising
from partialfair.postprocessing._knots import Blocks, group_blocks
from partialfair.postprocessing.maps import ScoreMap, score_map
from partialfair.utils.typing import Floats, Ints

__all__ = ["selection_maps"]

_APART = 1e-7
"""In units of the spread of a group's scores, how far those who cross are spread so that none are tied."""


def selection_maps(scored: ScoredGroups, threshold: float, max_share: float) -> tuple[ScoreMap, ...]:
    """Return the maps with the least squared change whose selected shares differ by at most ``max_share``.

    Parameters
    ----------
    threshold
        On the scores of ``scored``, of which higher is better.
    max_share
        Of the interval.
    """
    blocks = [group_blocks(group, "interval") for group in scored]
    numbers = _numbers_above(blocks, threshold, max_share)
    return tuple(
        _thinned(group, score_map(group.label, one.scores[::-1], _crossed(one, threshold, number)[::-1]))
        for group, one, number in zip(scored, blocks, numbers, strict=True)
    )


def _thinned(group: GroupScores, full: ScoreMap) -> ScoreMap:
    """Leave out knots between others that cross as well, unless that would tie members of the group."""
    moves = full.knots != full.values
    between = np.zeros(moves.size, dtype=np.bool_)
    between[1:-1] = moves[:-2] & moves[1:-1] & moves[2:]
    thin = ScoreMap(full.group, full.knots[~between], full.values[~between])
    tied = (np.diff(thin(group.scores)) <= 0) & (np.diff(group.scores) > 0)
    return full if bool(tied.any()) else thin


def _numbers_above(blocks: list[Blocks], threshold: float, max_share: float) -> Ints:
    """Return how many distinct scores of each group are to be above the threshold."""
    shares = [np.append(one.starts[0], one.ends) for one in blocks]
    lows = np.unique(np.concatenate(shares))
    total = np.zeros(lows.size)
    chosen = np.empty((len(blocks), lows.size), dtype=np.intp)
    for k, (one, held) in enumerate(zip(blocks, shares, strict=True)):
        now = int((one.scores > threshold).sum())
        least = np.searchsorted(held, lows - RANK_TOLERANCE / 4)
        most = np.searchsorted(held, lows + max_share + RANK_TOLERANCE / 4, side="right") - 1
        chosen[k] = np.clip(now, least, np.maximum(most, least))
        total += np.where(most >= least, _costs(one, threshold, now)[np.minimum(chosen[k], most)], np.inf)
    # Everybody's whole interval selected is always among the choices, so some total is finite.
    return chosen[:, int(np.argmin(total))]


def _costs(blocks: Blocks, threshold: float, now: int) -> Floats:
    """Return the squared change if the best 0, 1, …, n scores are above the threshold instead of ``now``."""
    squares = blocks.weights * (blocks.scores - threshold) ** 2
    passed = np.append(0.0, np.cumsum(squares))
    return np.asarray(np.abs(passed - passed[now]))


def _crossed(blocks: Blocks, threshold: float, number: int) -> Floats:
    """Return scores of which that many are above the threshold; the others stay where they can."""
    scores = blocks.scores.copy()
    now = int((scores > threshold).sum())
    center = np.average(scores, weights=blocks.weights)
    spread = float(np.sqrt(np.average((scores - center) ** 2, weights=blocks.weights)))
    if number > now:  # from the worst up, above the threshold
        room = scores[now - 1] - threshold if now else np.inf
        steps = min(_APART * spread, room / 2) * np.arange(1, number - now + 1) / (number - now)
        scores[now:number] = (threshold + steps)[::-1]
        raised = rising(
            np.append(threshold, scores[:number][::-1]), np.zeros(number + 1, dtype=np.bool_), np.inf
        )
        scores[:number] = raised[:0:-1]
    elif number < now:  # from the best down, the first of them at the threshold
        room = threshold - scores[now] if now < scores.size else np.inf
        steps = min(_APART * spread, room / 2) * np.arange(now - number) / (now - number)
        scores[number:now] = threshold - steps
        lowered = np.append(np.nextafter(threshold, np.inf), scores[number:])
        scores[number:] = -rising(-lowered, np.zeros(lowered.size, dtype=np.bool_), np.inf)[1:]
    return scores
