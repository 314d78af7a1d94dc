"""The search that follows if corrections of the surrogate problem found no feasible KKT point.

It follows the boundary of the feasible set from several models, makes random steps on the exact metric in all
coordinates, and then looks for a KKT certificate near the best models. It is limited by numbers of steps and
solves, never by seconds, so the outcome is the same on every machine.

**Rows with equal features** have equal scores, so a threshold passes all of them together. If they are a
fraction a of one group and b of another, the difference of the groups' proportions changes by ``|a − b|``
there, and is at least half of that on one side. If that exceeds the limit, the block must be above or below
the interval in every feasible model. The slopes of a surrogate do not show this: the two sides of the block
conflict, and steps do not move it. So models are moved first, until the block is outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from partialfair.constraints.base import Constraint
from partialfair.constraints.parity import OnAGrid
from partialfair.constraints.surrogates import Surrogate
from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.problems import Shard
from partialfair.optimization.solvers import CUT_SHORT, Status
from partialfair.training.attempts import Attempt, Attempts
from partialfair.training.boundary import BoundarySearch, follow_boundary
from partialfair.training.candidates import CandidateModel, Pool
from partialfair.training.direct_search import DirectSearch, search_all_coordinates
from partialfair.training.tightening import Tightener
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class KKTSearch:
    """Settings of `find_kkt_point`.

    Solves begin at feasible models. With a wide surrogate, solutions are far away and infeasible; with a
    narrow one, solves need more steps than the corrections of a fit allow. So solves are resumed, and a
    solution with a small excess is solved again with stricter limits.

    Attributes
    ----------
    series
        Halvings of the surrogate, and fractions of the limits. The solves of each series begin at the best
        model and at the model that leaves most of the limits unused.
    n_solves
        Largest number of solves, for the usual number of rows or fewer.
    n_resumed, n_resumed_feasible
        How often a solve that ran out of steps is resumed, and how often if its last point is feasible.
    most_violation
        Violation of the surrogate constraints above which no solve is resumed a second time, because such
        solves hardly ever converge. Nor is a solve resumed whose infeasible gaps no longer change.
    n_stricter, most_excess, closer
        How often a solution is solved again with stricter limits, the largest excess for which it is, and
        the additional reduction of the limits, relative to them.
    least_allowed
        Lower bound on limits, relative to those stated.
    """

    series: tuple[tuple[int, float], ...] = ((2, 0.7), (3, 0.7), (3, 0.5), (2, 0.85), (3, 0.85))
    n_solves: int = 25
    n_resumed: int = 3
    n_resumed_feasible: int = 6
    most_violation: float = 1e-2
    n_stricter: int = 2
    most_excess: float = 0.3
    closer: float = 0.05
    least_allowed: float = 0.1


@dataclass(frozen=True)
class BlockMoves:
    """Settings of `find_largest_block` and `move_outside`.

    Attributes
    ----------
    decimals
        Scores that agree to this many decimals, in units of their standard deviation, are equal: those of
        features that differ by rounding errors are.
    n_rounds
        Largest number of steps of a move: thresholds at the ends of the interval move as well.
    margin
        Distance of the block from the interval in the end, in units of the spread of scores.
    proximal
        Addition to the second derivatives of the objective, relative to their mean.
    """

    decimals: int = 6
    n_rounds: int = 5
    margin: float = 0.1
    proximal: float = 0.01


@dataclass(frozen=True)
class Escalation:
    """Settings of the search if no feasible point with a KKT certificate was found.

    Attributes
    ----------
    halvings
        How often the surrogate of runs along the boundary is halved. Wide surrogates have reliable slopes
        if rows are few, narrow ones if scores tie; both are tried.
    boundary
        Settings of a run. Runs begin at the best model, at the first solution of the fit, and at the
        unconstrained model: the last two do not depend on later steps and their rounding errors. Later fits
        of a path begin at the best model only, if another fit has found a feasible one.
    more_halvings
        The same for runs from the best model if no other run has found a feasible one.
    n_steps
        Random steps in all coordinates after that.
    usual_rows
        Largest number of rows with this many steps. With more rows the steps are divided by the square root
        of the ratio, because the cost of a step is proportional to the rows.
    most_functions
        Number of constraint functions above which there is no escalation: quadratic programs take too long.
    kkt_search
        Settings of the final search for a feasible point with a KKT certificate.
    blocks
        How models are moved if a block of rows with equal features is too large for the interval. Then runs
        begin at the best model, and at the first solution with the block above and below the interval.
    """

    halvings: tuple[int, ...] = (1, 3)
    more_halvings: tuple[int, ...] = (2, 4)
    boundary: BoundarySearch = field(default_factory=BoundarySearch)
    n_steps: int = 800
    usual_rows: int = 20_000
    most_functions: int = 400
    kkt_search: KKTSearch = KKTSearch()
    blocks: BlockMoves = field(default_factory=BlockMoves)

    def fraction(self, n_rows: int) -> float:
        """Return the fraction of the steps and solves for a number of rows."""
        return float(min(1.0, (self.usual_rows / n_rows) ** 0.5))


def escalate(
    attempts: Attempts,
    constraints: tuple[Constraint, ...],
    sigma: Surrogate,
    settings: Escalation,
    direct: DirectSearch,
    seed: int,
    *,
    others_are_known: bool,
    is_stopped: Callable[[], bool],
) -> Status | None:
    """Follow the boundary of the feasible set from several models, then make random steps.

    Parameters
    ----------
    attempts
        Evaluated attempts of the fit.
    constraints, sigma
        The trained constraints with the stated limits, and the surrogate.
    settings, direct, seed
        Numbers of steps, lengths, and the seed of random steps.
    others_are_known
        Whether candidates of other fits of a path are in the pool. They cover the other starts, so the best
        model is the only start if one of them is feasible.
    is_stopped
        Whether the user's callback, called between runs, returns True.

    Returns
    -------
    Status or None
        STOPPED if the user's callback returned True.
    """
    pool, fraction = attempts.pool, settings.fraction(attempts.pool.training.cells.n_rows)
    boundary = replace(settings.boundary, n_steps=max(1, int(fraction * settings.boundary.n_steps)))
    # Not only the best model, because which one is best may depend on rounding.
    starts: list[CandidateModel | None] = [None]  # the best model at that time
    if not (others_are_known and pool.any_feasible):
        first, block = attempts.first_solution, find_largest_block(pool, settings.blocks)
        if block is None:
            starts += [first, pool.candidates[0]]
        else:
            starts += move_outside(pool, first, block, settings.blocks)
    # Each start with a wide and a narrow surrogate; the best model is looked up when a run begins.
    runs = [(start, halved) for start in starts for halved in settings.halvings]
    for start, halved in [*runs, *((None, halved) for halved in settings.more_halvings)]:
        if is_stopped():
            return Status.STOPPED
        if halved in settings.more_halvings and pool.any_feasible:
            break
        # Slopes are those of a narrower surrogate, values those of the indicator.
        narrower = replace(sigma, width=sigma.width * 0.5**halved)
        follow_boundary(pool, constraints, narrower, start or pool.best, boundary)
    search_all_coordinates(pool, int(fraction * settings.n_steps), seed, direct)
    return None


def find_kkt_point(
    attempts: Attempts, last: Attempt, tightener: Tightener, settings: KKTSearch, fraction: float
) -> Attempt | None:
    """Return a feasible attempt whose KKT certificate holds, from series of solves near the best models.

    Parameters
    ----------
    attempts
        Evaluated attempts of the fit; new ones are added.
    last
        The best of them.
    tightener
        Solves problems again with other limits.
    settings, fraction
        Numbers of solves, and the fraction of them that the number of rows allows.
    """
    stated, pool = last.training.max_gaps, attempts.pool
    n_solves = max(1, int(fraction * settings.n_solves))
    # If the best model leaves no part of the limit unused, a surrogate problem around it may be infeasible.
    feasible = [one for one in pool.candidates if pool.is_feasible(one)]
    loosest = min(feasible, key=lambda one: float(one.excess.max()))
    starts = [pool.best] if loosest is pool.best else [pool.best, loosest]
    for halved, of_limits in settings.series:
        for start in starts:
            # Limits below those stated leave room for the error of the surrogate.
            w, limits = start.w, of_limits * stated
            for _ in range(1 + settings.n_stricter):
                last = tightener.solve_around(last, w, limits, halved)
                last, n_more = _resume(attempts, last, tightener, settings)
                n_solves -= 1 + n_more
                if attempts.has_feasible_kkt_point(last):
                    return last
                # Numbers of solves end the search, never seconds, so all machines give the same result.
                if n_solves <= 0 or last.result.ended in CUT_SHORT:
                    return None
                # Feasible without a KKT certificate, or far from feasible: stricter limits do not help.
                is_near = (last.excess <= settings.most_excess * stated).all()
                if attempts.is_feasible(last) or not is_near or not last.result.feasible:
                    break
                w = last.w
                # A small excess: reduce the limits by it, and start from this solution.
                less = np.maximum(last.excess, 0.0) + settings.closer * stated
                limits = np.maximum(limits - less, settings.least_allowed * stated)
    return None


def _resume(
    attempts: Attempts, last: Attempt, tightener: Tightener, settings: KKTSearch
) -> tuple[Attempt, int]:
    """Evaluate an attempt, and resume its solve as long as that may lead to a KKT certificate."""
    candidate, stated = attempts.evaluate(last, "correction of the best"), last.training.max_gaps
    n_more = 0
    while last.result.ended is Status.MAX_ITER and not last.solved:
        is_feasible = attempts.pool.is_feasible(candidate)
        # A solve that is infeasible for its own problem hardly ever converges.
        is_lost = n_more > 0 and last.result.violation > settings.most_violation
        most = settings.n_resumed_feasible if is_feasible else settings.n_resumed
        if is_lost or n_more == most or (last.excess > stated).any():
            break
        before, last = last, tightener.solve_further(last)
        candidate, n_more = attempts.evaluate(last, "more steps"), n_more + 1
        # Exact gaps that do not change at all are at a step of the metric.
        if not is_feasible and (last.excess == before.excess).all():
            break
    return last, n_more


@dataclass(frozen=True, eq=False)
class Block:
    """Rows with equal features.

    Attributes
    ----------
    direction, low_score, high_score
        With these random parameters the rows of the block, and no others, have scores from the low to the
        high one.
    group
        Code of the group of which they are the largest fraction.
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


def find_largest_block(pool: Pool, settings: BlockMoves) -> Block | None:
    """Return the block that exceeds a limit inside its interval the most, if there is one."""
    # Rows with equal features have equal scores in any direction; others differ in a random one.
    direction = np.random.default_rng(0).normal(size=pool.problem.rows.parameters.n)
    counts = pool.problem.rows.at(direction).counts().weighted
    unit = max(float(np.std(counts.scores)), 1e-300)
    block_of = np.unique(np.round(counts.scores / unit, settings.decimals), return_inverse=True)[1]
    largest, most = None, 1.0
    for grouped in pool.training.constraints:
        constraint = grouped.constraint
        if not grouped.has_metric or grouped.is_in_scores or not isinstance(constraint, OnAGrid):
            continue
        groups, limit = grouped.groups_of(counts), constraint.max_gap
        intervals = constraint.intervals(groups)
        # The fraction of each group, on the scale of the gap, that each block is.
        fractions = np.zeros((len(groups.labels), block_of.max() + 1))
        is_member = groups.codes >= 0
        np.add.at(fractions, (groups.codes[is_member], block_of[is_member]), counts.weights[is_member])
        fractions /= fractions.sum(axis=1, keepdims=True)
        if constraint.gap_scale == "interval":
            fractions /= np.array([part.measure for part in intervals])[:, None]
        # The change of some pair's gap at a threshold that passes the block.
        jumps = np.ptp(fractions, axis=0)
        worst = int(np.argmax(jumps))
        # The gap is at least half of the jump on one of its sides.
        if jumps[worst] / 2 > most * limit > 0:
            most, group = jumps[worst] / (2 * limit), int(np.argmax(fractions[:, worst]))
            (low, _), (_, high) = intervals[group].parts[0], intervals[group].parts[-1]
            scores = counts.scores[block_of == worst]
            largest = Block(direction, float(scores.min()), float(scores.max()), group, low, high)
    return largest


def move_outside(
    pool: Pool, start: CandidateModel, block: Block, settings: BlockMoves
) -> list[CandidateModel]:
    """Return a model near a candidate with the block above the interval, and one with it below.

    A side of the interval without ranks gives no model.
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
    # To second order, the step that moves scores of the block by 1 and raises the objective least.
    direction = local.convex.cholesky(settings.proximal * max(curvature, 1e-3)).solve(gradient)
    direction /= gradient @ direction
    # No rank is above an interval that begins at 0, and none below one that ends at 1.
    ends = [(block.low, 1.0)] * (block.low > 0) + [(block.high, -1.0)] * (block.high < 1)
    return [_move_beyond(pool, start.w, block, direction, rank, sign, settings) for rank, sign in ends]


def _move_beyond(
    pool: Pool, w: Floats, block: Block, direction: Floats, rank: float, sign: float, settings: BlockMoves
) -> CandidateModel:
    """Return the model with the block beyond a rank, above it if the sign is positive."""
    rows = pool.problem.rows
    # Moving the block also moves other rows, and with them the threshold to pass.
    for _ in range(settings.n_rounds):
        scored = rows.at(w)
        counts = scored.counts()
        weighted = counts.weighted
        members = weighted.codes == block.group
        order = np.argsort(-weighted.scores[members])
        passed = np.cumsum(weighted.weights[members][order])
        # The score at that rank of the group.
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
