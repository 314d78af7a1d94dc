"""From a fit of the surrogate problem to one whose *exact* gap is small enough (``enforce="exact"``).

A surrogate constraint is met at a grid of points and by a smoothed indicator; the promise is about the exact
metric, which exceeds it by about as much whatever is allowed. If it is too wide, what is allowed is lowered
by the excess, and the problem is solved again from the last solution, until the referee agrees. With many
people in the interval, the grid is made twice as fine and the surrogate half as wide first, because that
costs less accuracy; with few, only when hardly anything would be allowed any more. Otherwise one point is
added, where the exact gap is widest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from partialfair._typing import Floats
from partialfair.constraints import Constraint, ConstraintBlock, OnAGrid, join
from partialfair.constraints.base import Positive
from partialfair.estimators._judge import judge
from partialfair.estimators._promise import Promise
from partialfair.estimators.result import ROUNDING_OF_GAPS
from partialfair.groups import Groups, group_name
from partialfair.metrics.partial import WorstGap
from partialfair.named_constraints import record_of
from partialfair.objectives import Objective
from partialfair.problems import Certificate, Counts, Problem, ScoredRows, TrainingData, certify
from partialfair.solvers import CUT_SHORT, Result, Status
from partialfair.surrogates import Surrogate

__all__ = ["Attempt", "Training", "enforce_exactly"]

_LEVELS = 2
"""How often the surrogate is made narrower, the first time on a finer grid."""
_FAILURES = 2
"""Solves that may go wrong."""
_DEARER, _LEAST_PASSES = 4, 200
"""No correction begins after so many times the passes of the first solve, and some."""
_MANY = 500
"""Members of every group in the interval from which on a closer look is the first thing to try: fewer make a
narrow surrogate jagged, and the problem hard to solve."""
_FASTER = 0.1
"""Share of the stated gap that is taken off what is allowed beside the excess: fewer rounds are needed."""
_LEAST, _AFRESH = 0.1, 0.4
"""If less than the first share of the stated gap would be allowed, the look was too coarse; a closer one
begins with the second."""

Solve = Callable[[Problem, Floats], Result]


@dataclass(frozen=True, eq=False)
class Training:
    """What stays the same while constraints are corrected.

    Attributes
    ----------
    data
        The rows, wherever they lie.
    objective, alpha
        Loss and penalty.
    weights, positive
        Of all rows, for the shares that they have of their groups.
    promises
        What is promised, and to whom.
    tol
        ε of the certificate.
    """

    data: TrainingData
    objective: Objective
    alpha: Floats
    weights: Floats
    positive: Positive
    promises: tuple[Promise, ...]
    tol: float

    def blocks(self, constraints: Sequence[Constraint], sigma: Surrogate | None) -> list[ConstraintBlock]:
        """Tie constraints, one for each promise, to the rows."""
        if sigma is None:
            return []
        return [
            constraint.build(promise.groups, self.weights, sigma, self.positive)
            for constraint, promise in zip(constraints, self.promises, strict=True)
        ]

    def problem(self, blocks: Sequence[ConstraintBlock]) -> Problem:
        """State the problem."""
        return Problem.about(self.data, self.objective, join(blocks), self.alpha)

    def gaps(self, counts: Counts) -> tuple[WorstGap, ...]:
        """Return the exact gap that each promise is about."""
        return tuple(
            judge(
                promise.constraint,
                counts.scores,
                promise.groups_of(counts),
                counts.weights,
                counts.positive,
            )
            for promise in self.promises
        )

    @property
    def max_gaps(self) -> Floats:
        """What is allowed."""
        return np.array([promise.constraint.max_gap for promise in self.promises])


@dataclass(frozen=True, eq=False)
class Attempt:
    """A solved problem, the constraints that were trained, and the exact gaps of the solution.

    Attributes
    ----------
    training
        What the attempt has in common with others.
    constraints, sigma
        What was trained: constraints that may allow less than was stated, and the surrogate.
    problem, result
        The problem, and what the solver made of it.
    level
        How often the look was made closer.
    """

    training: Training
    constraints: tuple[Constraint, ...]
    sigma: Surrogate | None
    problem: Problem
    result: Result
    level: int = 0

    @cached_property
    def scored(self) -> ScoredRows:
        """All rows at the solution."""
        return self.problem.rows.at(self.problem.split(self.result.x)[0])

    @cached_property
    def counts(self) -> Counts:
        """How much weight has which score at the solution."""
        return self.scored.counts()

    @cached_property
    def gaps(self) -> tuple[WorstGap, ...]:
        """The exact gaps, one for each constraint."""
        return self.training.gaps(self.counts)

    @property
    def excess(self) -> Floats:
        """By how much each exact gap is too wide; 0 where no metric is known."""
        gaps = np.array([gap.value for gap in self.gaps])
        return np.asarray(np.nan_to_num(gaps - self.training.max_gaps))

    @property
    def kept(self) -> bool:
        """Whether the promise is kept."""
        return bool((self.excess <= ROUNDING_OF_GAPS).all())

    @property
    def obstacle(self) -> str:
        """Where the promise is broken most, or why nobody could keep it."""
        worst = int(np.argmax(self.excess))
        promise, gap = self.training.promises[worst], self.gaps[worst]
        stated = promise.constraint
        pair = " and ".join(map(group_name, gap.groups))
        where = "" if np.isnan(gap.ranks).any() else " at ranks {:.1%} and {:.1%}".format(*gap.ranks)
        record, who = record_of(stated), type(stated).__name__
        if record is not None and record.bounded.in_scores:
            # Scores are in the units of the fit here, not the user's: only the ratio means something to both.
            times = gap.value / stated.max_gap if stated.max_gap else np.inf
            return f"the exact gap of {who} is {times:.3g} times max_gap between {pair}{where}"
        reached = f"the exact gap of {who} is {gap.value:.3g} between {pair}{where}"
        floor, name, members = _floor(promise)
        if stated.max_gap >= floor:
            return reached
        return (
            f"{reached}, and it can hardly be below {floor:.2g}, because the interval holds {members:.3g} "
            f"members of group {name!r}"
        )

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate of the solution."""
        return certify(self.problem, self.result.x, tol=self.training.tol)

    @property
    def solved(self) -> bool:
        """Whether the certificate holds."""
        return self.certificate.holds(self.training.tol)

    def worth(self) -> tuple[bool, bool, float]:
        """Order attempts: those that keep the promise by objective, others by how much they break it."""
        return not self.kept, not self.solved, self.result.objective if self.kept else self.excess.max()


def enforce_exactly(first: Attempt, solve: Solve) -> Iterator[Attempt]:
    """Correct and solve again until the exact gaps are small enough; yield every attempt.

    What is to be solved is nearly the last problem, and set out from its solution.
    """
    best = last = first
    stated = first.training.max_gaps
    allowed, failures, too_little = stated, 0, np.zeros(stated.size)
    floors = [_floor(promise) for promise in first.training.promises]
    many = min(members for _, _, members in floors) >= _MANY
    most = first.result.history[-1].passes * _DEARER + _LEAST_PASSES
    while not (best.kept and best.solved) and failures < _FAILURES:
        lower = np.where(last.excess > 0, allowed - last.excess - _FASTER * stated, allowed)
        closer = (last.level == 0 and many) or bool((lower < _LEAST * stated).any())
        if closer and last.level == _LEVELS:
            break
        if closer:
            lower = np.maximum(lower, _AFRESH * stated)
        lower = np.maximum(lower, (too_little + allowed) / 2 if failures else 0.0)
        attempt = _corrected(last, lower, closer, solve)
        yield attempt
        best = min(best, attempt, key=Attempt.worth)
        ended = attempt.result.ended in (*CUT_SHORT, Status.NONFINITE)
        if ended or attempt.result.history[-1].passes > most:
            break
        if attempt.solved:
            last, allowed = attempt, lower
        else:
            failures, too_little = failures + 1, lower


def _corrected(last: Attempt, allowed: Floats, closer: bool, solve: Solve) -> Attempt:
    """Solve again from the last solution, with less allowed and a closer look."""
    training, sigma = last.training, last.sigma
    if sigma is not None and closer:
        sigma = replace(sigma, width=sigma.width / 2)
        # A grid that is finer still costs more than it sees.
        constraints = [_denser(one) if last.level == 0 else one for one in last.constraints]
    else:
        triples = zip(last.constraints, last.gaps, training.promises, strict=True)
        constraints = [_refined(one, gap, promise.groups) for one, gap, promise in triples]
    trained = tuple(replace(one, max_gap=gap) for one, gap in zip(constraints, allowed.tolist(), strict=True))
    problem = training.problem(training.blocks(trained, sigma))
    w, theta = last.problem.split(last.result.x)
    # New thresholds are those that suit the last scores among the new members.
    thresholds = problem.constraints.joined_thresholds.continued(
        last.problem.constraints.joined_thresholds, theta, problem.rows.at(w).ranks
    )
    start = np.concatenate([w, thresholds])
    return Attempt(training, trained, sigma, problem, solve(problem, start), last.level + closer)


def _denser(constraint: Constraint) -> Constraint:
    """Return a constraint that looks more closely everywhere, if it looks at a grid of ranks."""
    return constraint.on_grid(constraint.grid.denser()) if isinstance(constraint, OnAGrid) else constraint


def _refined(constraint: Constraint, gap: WorstGap, groups: Groups) -> Constraint:
    """Look also where the exact gap is widest, if that is at some ranks."""
    if np.isnan(gap.ranks).any() or not isinstance(constraint, OnAGrid):
        return constraint
    intervals = constraint.intervals(groups)
    of_pair = [intervals[groups.labels.index(label)] for label in gap.groups]
    return constraint.on_grid(constraint.grid.refined(gap.ranks, of_pair))


def _floor(promise: Promise) -> tuple[float, str, float]:
    """Return about the smallest gap that scores without ties can have, and the group that is to blame.

    ``1 / (2 min_k n_k m_k)``, on the absolute scale ``1 / (2 min_k n_k)``: half the step that one member of
    the interval makes. It is reached if all other groups are large.
    """
    stated, groups = promise.constraint, promise.groups
    counts = np.bincount(groups.codes[groups.codes >= 0], minlength=len(groups.labels))
    inside = counts * [part.measure for part in stated.intervals(groups)]
    fewest = int(np.argmin(inside))
    scale = 1.0 if stated.gap_scale == "interval" else inside[fewest] / counts[fewest]
    return float(scale / (2 * inside[fewest])), groups.names[fewest], float(inside[fewest])
