"""What a search does if corrections of the surrogate problem found no feasible point with a KKT certificate.

It follows the boundary of the feasible set from several models, takes random steps on the exact metric in all
coordinates, and then looks for a certificate near the best models. The numbers of steps and solves are fixed,
never their seconds, so that the outcome is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from partialfair.constraints import Constraint
from partialfair.constraints.surrogates import Surrogate
from partialfair.optimization.solvers import CUT_SHORT, Status
from partialfair.training.attempts import Attempt, Attempts
from partialfair.training.boundary import BoundarySearch, follow_boundary
from partialfair.training.candidates import Candidate, Pool
from partialfair.training.direct_search import DirectSearch, search_all_coordinates
from partialfair.training.equal_rows import BlockMoves, largest_block, move_outside
from partialfair.training.tightening import Tightener

__all__ = ["Escalation", "KKTSearch", "escalate", "find_kkt_point"]


@dataclass(frozen=True)
class KKTSearch:
    """Settings of `find_kkt_point`.

    Solves begin at feasible models. With a wide surrogate solutions are far away and infeasible; with a
    narrow one, solves need more steps than the corrections of a fit take. So solves are resumed, and a
    solution that is infeasible by a little is solved again with stricter limits.

    Attributes
    ----------
    series
        Halvings of the surrogate, and fractions of the limits. Solves of each begin at the best model and at
        the one that leaves most of the limits unused.
    n_solves
        Solves at most, with as many rows as usual or fewer.
    n_resumed, n_resumed_feasible
        How often a solve that ran out of steps is resumed, and how often if its last point is feasible.
    most_violation
        Violation of the surrogate constraints beyond which no solve is resumed a second time: from
        there solves hardly ever arrive. Nor is one whose infeasible gaps no longer change.
    n_stricter, most_excess, closer
        How often a solution is solved again with stricter limits, the largest excess for which it is, and
        what is taken off in addition, relative to the limits.
    least_allowed
        What limits are at least, relative to those stated.
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
class Escalation:
    """What a search does if it has found no feasible point with a KKT certificate.

    Attributes
    ----------
    halvings
        How often the surrogate of runs along the boundary is halved. Wide surrogates have reliable slopes
        where members are few, narrow ones where scores tie; both are tried.
    boundary
        Settings of a run. Runs begin at the best model, at the first solution of the fit, and at the
        unconstrained model: the last two do not depend on later steps, which rounding may decide. Later fits
        of a path begin at the best model only, if another fit has found a feasible one.
    more_halvings
        The same for runs from the best model if no other run has found a feasible one.
    n_steps
        Random steps in all coordinates after that.
    usual_rows
        Rows up to which there are as many steps. Beyond, they are fewer by the square root of the ratio: a
        step costs as much as there are rows.
    most_functions
        Constraint functions beyond which there is no escalation: quadratic programs take too long.
    kkt_search
        How a feasible point with a KKT certificate is looked for in the end.
    blocks
        How models are moved if rows with equal features are too many for the interval. Then runs begin at
        the best model, and at the first solution with these rows above the interval and below it.
    """

    halvings: tuple[int, ...] = (1, 3)
    more_halvings: tuple[int, ...] = (2, 4)
    boundary: BoundarySearch = field(default_factory=BoundarySearch)
    n_steps: int = 800
    usual_rows: int = 20_000
    most_functions: int = 400
    kkt_search: KKTSearch = KKTSearch()
    blocks: BlockMoves = field(default_factory=BlockMoves)

    def share(self, n_rows: int) -> float:
        """Return the fraction of the steps and solves that so many rows allow."""
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
    """Follow the boundary of the feasible set from several models, then step at random.

    Parameters
    ----------
    attempts
        Evaluated attempts of the fit.
    constraints, sigma
        What is trained, with the stated limits, and the surrogate.
    settings, direct, seed
        Numbers of steps, lengths, and the seed of random steps.
    others_are_known
        Whether candidates of other fits of a path are in the pool. They have been where other starts lead:
        that is enough if one of them is feasible.
    is_stopped
        Asks the user's callback, between runs, whether to stop.

    Returns
    -------
    Status or None
        STOPPED if the user's callback says so.
    """
    pool, share = attempts.pool, settings.share(attempts.pool.training.cells.n_rows)
    boundary = replace(settings.boundary, n_steps=max(1, int(share * settings.boundary.n_steps)))
    starts: list[Candidate | None] = [None]
    if not (others_are_known and pool.is_feasible(pool.best)):
        starts += _starts(pool, attempts.first, settings.blocks)
    runs = [(start, halved) for start in starts for halved in settings.halvings]
    for start, halved in [*runs, *((None, halved) for halved in settings.more_halvings)]:
        if is_stopped():
            return Status.STOPPED
        if halved in settings.more_halvings and pool.is_feasible(pool.best):
            break
        narrower = replace(sigma, width=sigma.width * 0.5**halved)
        follow_boundary(pool, constraints, narrower, start or pool.best, boundary)
    search_all_coordinates(pool, int(share * settings.n_steps), seed, direct)
    return None


def _starts(pool: Pool, first: Candidate, settings: BlockMoves) -> list[Candidate]:
    """Return the first solution and the unconstrained model, or the first with a block moved outside."""
    block = largest_block(pool, settings)
    return [first, pool.candidates[0]] if block is None else move_outside(pool, first, block, settings)


def find_kkt_point(
    attempts: Attempts, last: Attempt, tightener: Tightener, settings: KKTSearch, share: float
) -> Attempt | None:
    """Return a feasible attempt whose KKT certificate holds, from series of solves near the best models.

    Parameters
    ----------
    attempts
        Evaluated attempts of the fit, which are extended.
    last
        The best of them.
    tightener
        Solves problems again with other limits.
    settings, share
        Numbers of solves, and the share of them that the number of rows allows.
    """
    stated, pool = last.training.max_gaps, attempts.pool
    n_solves = max(1, int(share * settings.n_solves))
    feasible = [one for one in pool.candidates if pool.is_feasible(one)]
    loosest = min(feasible, key=lambda one: float(one.excess.max()))
    starts = [pool.best] if loosest is pool.best else [pool.best, loosest]
    for halved, fraction in settings.series:
        for start in starts:
            w, limits = start.w, fraction * stated
            for _ in range(1 + settings.n_stricter):
                last = tightener.solve_around(last, w, limits, halved)
                last, n_more = _resume(attempts, last, tightener, settings)
                n_solves -= 1 + n_more
                if attempts.has_feasible_kkt_point(last):
                    return last
                if n_solves <= 0 or last.result.ended in CUT_SHORT:
                    return None
                is_near = (last.excess <= settings.most_excess * stated).all()
                if attempts.is_feasible(last) or not is_near or not last.result.feasible:
                    break
                w = last.w
                less = np.maximum(last.excess, 0.0) + settings.closer * stated
                limits = np.maximum(limits - less, settings.least_allowed * stated)
    return None


def _resume(
    attempts: Attempts, last: Attempt, tightener: Tightener, settings: KKTSearch
) -> tuple[Attempt, int]:
    """Evaluate an attempt, and resume its solve while that may end with a KKT certificate."""
    candidate, stated = attempts.evaluate(last, "correction of the best"), last.training.max_gaps
    n_more = 0
    while last.result.ended is Status.MAX_ITER and not last.solved:
        is_feasible = attempts.pool.is_feasible(candidate)
        is_lost = n_more > 0 and last.result.violation > settings.most_violation
        most = settings.n_resumed_feasible if is_feasible else settings.n_resumed
        if is_lost or n_more == most or (last.excess > stated).any():
            break
        before, last = last, tightener.solve_further(last)
        candidate, n_more = attempts.evaluate(last, "more steps"), n_more + 1
        if not is_feasible and (last.excess == before.excess).all():
            break
    return last, n_more
