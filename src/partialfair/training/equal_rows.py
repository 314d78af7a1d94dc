"""Rows with equal features that are too many to lie inside of a constraint's interval.

Rows with equal features have equal scores: a threshold passes all of them at once. If they are a share a of
one group and b of another, then the difference of the groups' proportions changes by ``|a − b|`` there, and
is at least half of that on one side. If that exceeds the limit, the block must be above the interval or below
it in every feasible model. The slopes of a surrogate do not show this: they make the two sides of the block
conflict, and steps stay where they are. So models are moved first, until the block is outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair.constraints import OnAGrid
from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.problems.rows import Shard
from partialfair.training.candidates import Candidate, Pool
from partialfair.training.named_constraints import record_of
from partialfair.utils.typing import Floats

__all__ = ["Block", "BlockMoves", "largest_block", "move_outside"]


@dataclass(frozen=True)
class BlockMoves:
    """Settings of `largest_block` and `move_outside`.

    Attributes
    ----------
    decimals
        Scores, in units of their standard deviation, that agree in so many decimals are equal: those of
        features that differ by rounding errors do.
    n_rounds
        Steps of a move at most: thresholds at the ends of the interval move as well.
    margin
        By how much the block is outside in the end, in units of the spread of scores.
    proximal
        What is added to second derivatives of the objective, relative to their mean.
    """

    decimals: int = 6
    n_rounds: int = 5
    margin: float = 0.1
    proximal: float = 0.01


@dataclass(frozen=True, eq=False)
class Block:
    """Rows with equal features.

    Attributes
    ----------
    direction, low_score, high_score
        Rows of the block, and no others, have scores from the low to the high one at these parameters, which
        are random.
    group
        Code of the group of which they are the largest share.
    low, high
        Ends of the interval of that group, as ranks from the top.
    """

    direction: Floats
    low_score: float
    high_score: float
    group: int
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class _SumsOfBlock:
    """Sum of the gradients of a block's scores, sum of these scores, and number of its rows.

    The reference holds the rows at the block's direction.
    """

    block: Block

    def map(self, shard: Shard, reference: Shard | None, /) -> tuple[Floats, Floats]:
        assert reference is not None
        at_direction = reference.deployed_scores
        inside = (at_direction >= self.block.low_score) & (at_direction <= self.block.high_score)
        sums = np.array([shard.deployed_scores[inside].sum(), np.count_nonzero(inside)])
        return shard.vjp_vector(inside.astype(np.float64)), sums

    def combine(
        self, first: tuple[Floats, Floats], second: tuple[Floats, Floats], /
    ) -> tuple[Floats, Floats]:
        return first[0] + second[0], first[1] + second[1]


def largest_block(pool: Pool, settings: BlockMoves) -> Block | None:
    """Return the block that exceeds a limit most inside of its interval, if one exceeds any."""
    direction = np.random.default_rng(0).normal(size=pool.problem.rows.parameters.n)
    counts = pool.problem.rows.at(direction).counts().weighted
    unit = max(float(np.std(counts.scores)), 1e-300)
    block_of = np.unique(np.round(counts.scores / unit, settings.decimals), return_inverse=True)[1]
    largest, most = None, 1.0
    for promise in pool.training.promises:
        record = record_of(promise.constraint)
        limit = promise.constraint.max_gap
        if record is None or record.bounded.in_scores or not isinstance(promise.constraint, OnAGrid):
            continue
        groups = promise.groups_of(counts)
        intervals = promise.constraint.intervals(groups)
        shares = np.zeros((len(groups.labels), block_of.max() + 1))
        is_member = groups.codes >= 0
        np.add.at(shares, (groups.codes[is_member], block_of[is_member]), counts.weights[is_member])
        shares /= shares.sum(axis=1, keepdims=True)
        if promise.constraint.gap_scale == "interval":
            shares /= np.array([part.measure for part in intervals])[:, None]
        jumps = np.ptp(shares, axis=0)
        worst = int(np.argmax(jumps))
        if jumps[worst] / 2 > most * limit > 0:
            most, group = jumps[worst] / (2 * limit), int(np.argmax(shares[:, worst]))
            (low, _), (_, high) = intervals[group].parts[0], intervals[group].parts[-1]
            scores = counts.scores[block_of == worst]
            largest = Block(direction, float(scores.min()), float(scores.max()), group, low, high)
    return largest


def move_outside(pool: Pool, start: Candidate, block: Block, settings: BlockMoves) -> list[Candidate]:
    """Return a model near a candidate with the block above the interval, and one with it below.

    There is none where the interval reaches to that end of the ranks.
    """
    problem = pool.problem
    at = problem.at(start.w)
    local = at.expand(np.zeros(0))
    assert isinstance(local.convex, ArrowMatrix)
    curvature = sum(float(np.trace(part)) for part in local.convex.inner.blocks) / start.w.size
    ((gradients, (_, n_rows)),) = at.scored.reduce(
        _SumsOfBlock(block), reference=problem.rows.at(block.direction)
    )
    gradient = gradients / n_rows
    direction = local.convex.cholesky(settings.proximal * max(curvature, 1e-3)).solve(gradient)
    direction /= gradient @ direction
    ends = [(block.low, 1.0)] * (block.low > 0) + [(block.high, -1.0)] * (block.high < 1)
    return [_move_beyond(pool, start.w, block, direction, rank, sign, settings) for rank, sign in ends]


def _move_beyond(
    pool: Pool, w: Floats, block: Block, direction: Floats, rank: float, sign: float, settings: BlockMoves
) -> Candidate:
    """Return the model with the block beyond a rank, above it if the sign is positive."""
    rows = pool.problem.rows
    for _ in range(settings.n_rounds):
        scored = rows.at(w)
        counts = scored.counts()
        weighted = counts.weighted
        members = weighted.codes == block.group
        order = np.argsort(-weighted.scores[members])
        passed = np.cumsum(weighted.weights[members][order])
        place = min(int(np.searchsorted(passed, rank * passed[-1])), order.size - 1)
        threshold = weighted.scores[members][order[place]]
        ((_, (total, n_rows)),) = scored.reduce(_SumsOfBlock(block), reference=rows.at(block.direction))
        missing = sign * (threshold - total / n_rows) + settings.margin * counts.spread
        if missing <= 0:
            break
        w = pool.problem.domain.project(w + sign * missing * direction)
    candidate = pool.evaluate(w, ties=True)
    assert candidate is not None
    return candidate
