"""From a fit of the surrogate problem to ones whose *exact* gap is as wide as allowed (``enforce="exact"``).

A surrogate constraint is met at a grid of ranks and by a smoothed indicator, while the promise is about the
exact metric. So the problem is solved again and again, each time from the last solution x_c, and corrected in
both directions: less is allowed where the exact gap was too wide, and more where there was slack. The first
time the grid is made twice as fine; later a point is added where the exact gap was widest.

That is all by default. It can be done rank by rank as well, by constraints

    f_i(x) + h_i(x_c) − f_i(x_c) ≤ 0,

where h_i is f_i with the indicator itself in place of its surrogate: at x_c the constraint says what is true,
and the surrogate, which becomes narrower as long as it covers enough people to have a slope that means
something, only says how that changes with x. The objective falls at the same training gap, but counts at one
rank are subject to chance, and fitting them can cost accuracy on new data: it is for ``surrogate_halvings``,
and for limits that cannot be satisfied otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from partialfair._typing import Floats
from partialfair.constraints import Constraint, OnAGrid, join
from partialfair.estimators._promise import Promise
from partialfair.estimators._training import Training
from partialfair.estimators.result import ROUNDING_OF_GAPS
from partialfair.groups import Groups, group_name
from partialfair.metrics.partial import WorstGap
from partialfair.named_constraints import record_of
from partialfair.problems import Certificate, Problem, certify
from partialfair.solvers import CUT_SHORT, Result, Status
from partialfair.surrogates import Ramp, Surrogate

__all__ = [
    "Attempt",
    "continue_from",
    "indicator_values",
    "is_reachable",
    "obstacle",
    "solve_around",
    "solve_further",
    "stricter",
    "tighten",
    "with_point_at",
]

_FAILURES, _LOST = 2, 0.25
"""Solves that may go wrong: end with constraints violated by that share of the stated gap, or with an exact
gap that is wider than the last by the stated one."""
_NARROWEST = 3
"""How often the surrogate is halved, at most."""
_COVERED, _ENOUGH = 0.08, 16
"""Share of a group that a surrogate of the first width covers, roughly (a quarter of the spread of scores
that are nearly normal), and members that it has to cover: fewer make its slope a matter of chance."""
_CLOSER, _CLOSER_CONTINUED, _CLOSER_RANK_BY_RANK, _LOOSER = 0.1, 0.05, 0.02, 0.7
"""Shares of the stated gap that are taken off beside an excess, and share of a slack that is given back."""
_MOST_TAKEN, _MOST_GIVEN = 0.9, 0.5
"""Shares of the stated gap by which what is allowed may differ from it."""
_ROUNDS_CONTINUED, _CLOSE_ENOUGH, _CLOSE_ENOUGH_CONTINUED = 4, 0.02, 0.25
"""Solves that go on from a model, and shares of the stated gap that a solve may leave unused: steps on the
exact metric use them up, those towards cheaper models of a path most of all."""
_SAME = 1e-9
"""Objectives that differ by no more are those of the same model."""
_INDICATOR = 1e-6
"""Width, relative to a surrogate's, of a ramp that is as good as the indicator."""

Solve = Callable[[Problem, Floats], Result]


@dataclass(frozen=True)
class _Budget:
    """How many corrections there may be, and how many steps: some for each of the first solve's, and more.

    A step costs as much as there are rows: where these are many, there are hardly any more.
    """

    rounds: int
    times: float
    more: int

    def spent(self, round_number: int, steps: int, first: Attempt) -> bool:
        """Whether there are no more rounds, or steps."""
        more = self.more * min(1.0, _USUAL_ROWS / first.training.cells.n_rows)
        of_first = first.steps - first.result.history[0].step
        return round_number >= self.rounds or steps > self.times * of_first + more


_BEFORE, _AFTER = _Budget(rounds=8, times=3, more=150), _Budget(rounds=4, times=0.2, more=40)
"""Until a model keeps the promise, and from then on, when others can be better by a little."""
_USUAL_ROWS = 20_000
"""Rows up to which there are as many more steps as the budgets say."""


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
    number
        How many corrections led to it.
    rank_by_rank
        Whether its constraints are true of the solution before it, rank by rank.
    halved
        How often the surrogate was made half as wide.
    """

    training: Training
    constraints: tuple[Constraint, ...]
    sigma: Surrogate | None
    problem: Problem
    result: Result
    number: int = 0
    rank_by_rank: bool = False
    halved: int = 0

    @property
    def steps(self) -> int:
        """Steps that all solves took up to this one."""
        return self.result.history[-1].step

    @property
    def w(self) -> Floats:
        """Parameters of the solution."""
        return self.problem.split(self.result.x)[0]

    @cached_property
    def gaps(self) -> tuple[WorstGap, ...]:
        """The exact gaps, one for each constraint."""
        return self.training.gaps(self.problem.rows.at(self.w).counts())

    @property
    def excess(self) -> Floats:
        """By how much each exact gap is too wide; 0 where no metric is known."""
        gaps = np.array([gap.value for gap in self.gaps])
        return np.asarray(np.nan_to_num(gaps - self.training.max_gaps))

    @property
    def surrogate_bias(self) -> Floats:
        """By how much each exact gap is wider than the trained constraint allows, in units of √κ.

        0 where no metric is known, or nothing is allowed.
        """
        gaps, allowed = (gap.value for gap in self.gaps), (one.max_gap for one in self.constraints)
        wider, unit = np.nan_to_num(np.array([*gaps]) - np.array([*allowed])), np.sqrt(self.training.max_gaps)
        return np.asarray(np.divide(wider, unit, out=np.zeros(unit.size), where=unit > 0))

    @property
    def gap(self) -> float:
        """The exact gap that is widest relative to what is allowed; nan without constraints."""
        return float(self.gaps[int(np.argmax(self.excess))].value) if self.gaps else float("nan")

    @property
    def satisfied(self) -> bool:
        """Whether the promise is kept."""
        return bool((self.excess <= ROUNDING_OF_GAPS).all())

    def uses_its_gap(self, but_for: float) -> bool:
        """Whether the promise is kept, and no more than a share of what it allows is left unused."""
        return self.satisfied and bool(self.excess.max() >= -but_for * self.training.max_gaps.min())

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate of the solution."""
        return certify(self.problem, self.result.x, tol=self.training.tol)

    @property
    def solved(self) -> bool:
        """Whether the certificate holds; nobody need compute it where constraints are violated."""
        tol = self.training.tol
        return self.result.violation <= tol and self.certificate.holds(tol)

    @property
    def arrived(self) -> bool:
        """Whether the solver says that it converged, or the certificate holds."""
        return self.result.ended is Status.CONVERGED or self.solved


def tighten(
    first: Attempt, halvings: int, solve: Solve, *, solves_are_long: bool = False
) -> Iterator[Attempt]:
    """Correct and solve again; yield every attempt.

    Parameters
    ----------
    first
        What is to be corrected.
    halvings
        How often the surrogate may be halved; with 0 only what is allowed is corrected, and ranks one by one
        after that only if no promise was kept.
    solve
        Solves from the last solution.
    solves_are_long
        Whether ranks are corrected one by one at once, if what is allowed would have to be next to nothing.
    """
    narrowest, begun = _narrowest(first), first.steps
    far = bool((first.excess > (_MOST_TAKEN - _CLOSER) * first.training.max_gaps).any())
    if halvings:
        order = [min(halvings, narrowest), 0]
    else:
        order = [narrowest, 0] if solves_are_long and far else [0, narrowest]
    for most in order if narrowest > 0 else [0]:
        found = first.satisfied
        for attempt in _series(first, most, begun, solve):
            yield attempt
            found = found or attempt.satisfied
            if attempt.result.ended in CUT_SHORT:
                return
        if found:
            return
        begun = attempt.steps


def _series(first: Attempt, narrowest: int, begun: int, solve: Solve) -> Iterator[Attempt]:
    """Correct again and again, rank by rank if the surrogate may be halved some times.

    Parameters
    ----------
    first
        What is to be corrected.
    narrowest
        How often the surrogate may be halved.
    begun
        Steps that were taken before.
    solve
        Solves from the last solution.
    """
    last, stated, rank_by_rank = first, first.training.max_gaps, narrowest > 0
    taken, failures, found = np.zeros(stated.size), 0, first.satisfied
    room = np.array([one.largest_gap for one in first.constraints]) - stated
    for number in range(_BEFORE.rounds):
        before = taken
        if number or not rank_by_rank:
            closer = _CLOSER_RANK_BY_RANK if rank_by_rank else _CLOSER
            change = np.where(last.excess > 0, last.excess + closer * stated, _LOOSER * last.excess)
            taken = np.clip(taken + change, -np.minimum(_MOST_GIVEN * stated, room), _MOST_TAKEN * stated)
        attempt = _corrected(last, stated - taken, solve, min(number, narrowest), rank_by_rank=rank_by_rank)
        yield attempt
        found = found or attempt.satisfied
        ended = attempt.result.ended in (*CUT_SHORT, Status.NONFINITE)
        no_narrower = number > 0 and (taken == before).all() and (attempt.excess >= last.excess).all()
        leads_nowhere = no_narrower or abs(attempt.result.objective - last.result.objective) <= _SAME
        budget = _AFTER if found else _BEFORE
        close_enough = not rank_by_rank and attempt.uses_its_gap(_CLOSE_ENOUGH)
        if ended or close_enough or leads_nowhere or budget.spent(number + 1, attempt.steps - begun, first):
            return
        if _is_lost(attempt, last):
            failures += 1
            if failures == _FAILURES:
                return
        else:
            last = attempt


def _is_lost(attempt: Attempt, last: Attempt) -> bool:
    """Whether nothing good can be expected near an attempt; one that ran out of steps need not be lost."""
    stated = attempt.training.max_gaps
    violated = not attempt.arrived and attempt.result.violation > _LOST * stated.max()
    return bool(violated or (attempt.excess > np.maximum(last.excess, 0.0) + stated).any())


def solve_around(attempt: Attempt, w: Floats, allowed: Floats, solve: Solve, halved: int = 0) -> Attempt:
    """Solve the problem whose constraints are true of a model, and allow given gaps.

    With a surrogate as wide as at first such problems are solved soonest; with one that is halved some times
    solutions are closer to the model.
    """
    at = replace(attempt, result=replace(attempt.result, x=attempt.problem.start_at(w)))
    return _corrected(at, allowed, solve, halved, rank_by_rank=True)


def continue_from(begin: Attempt, w: Floats, surrogate_bias: Floats, solve: Solve) -> Iterator[Attempt]:
    """Solve, from a model that is nearly the answer, problems that are corrected already; yield each.

    The last model of a path is nearly the answer to the next question, and its surrogate was off by about as
    much: constraints need not be stated first, and then corrected. What a surrogate blurs falls with κ, but
    more slowly: along paths about as √κ. So much is taken off at once, and a little more.

    Parameters
    ----------
    begin
        The problem as it is stated, unsolved.
    w
        The model.
    surrogate_bias : (n_promises,)
        `Attempt.surrogate_bias` of that model.
    solve
        Solves from the last solution.
    """
    stated = begin.training.max_gaps
    least, most = (1 - _MOST_TAKEN) * stated, (1 + _MOST_GIVEN) * stated
    allowed = np.clip((1 - _CLOSER_CONTINUED) * stated - np.sqrt(stated) * surrogate_bias, least, most)
    narrowest = np.inf
    last = replace(begin, result=replace(begin.result, x=begin.problem.start_at(w)))
    for _ in range(_ROUNDS_CONTINUED):
        last = _corrected(last, allowed, solve, 0, rank_by_rank=False)
        yield last
        leads_away = not last.satisfied and last.excess.max() >= narrowest and (allowed <= least).all()
        ended = last.result.ended in (*CUT_SHORT, Status.NONFINITE)
        if ended or leads_away or last.uses_its_gap(_CLOSE_ENOUGH_CONTINUED):
            return
        if last.satisfied:
            allowed = np.minimum(allowed - _LOOSER * last.excess, most)
        else:
            narrowest = last.excess.max()
            allowed = stricter(last, allowed, _CLOSER_CONTINUED)


def solve_further(attempt: Attempt, solve: Solve) -> Attempt:
    """Take more steps on the problem of an attempt that ran out of them."""
    result = solve(attempt.problem, attempt.result.x)
    return replace(attempt, result=result, number=attempt.number + 1)


def stricter(attempt: Attempt, allowed: Floats, closer: float = _CLOSER_RANK_BY_RANK) -> Floats:
    """Return what to allow after an attempt that broke the promise: less by as much, and a little more."""
    stated = attempt.training.max_gaps
    less = allowed - np.maximum(attempt.excess, 0.0) - closer * stated
    return np.asarray(np.maximum(less, (1 - _MOST_TAKEN) * stated))


def _corrected(last: Attempt, allowed: Floats, solve: Solve, halved: int, *, rank_by_rank: bool) -> Attempt:
    """Solve again from the last solution, with more ranks, and other gaps or another surrogate."""
    training, sigma = last.training, last.sigma
    if last.number == 0:
        constraints = [_denser(one) for one in last.constraints]
    else:
        triples = zip(last.constraints, last.gaps, training.promises, strict=True)
        constraints = [with_point_at(one, gap, promise.groups) for one, gap, promise in triples]
    if sigma is not None:
        sigma = replace(sigma, width=sigma.width * 0.5 ** (halved - last.halved))
    trained = tuple(replace(one, max_gap=gap) for one, gap in zip(constraints, allowed.tolist(), strict=True))
    block = join(training.blocks(trained, sigma))
    smooth = training.problem([block])
    w, theta = last.problem.split(last.result.x)
    # New thresholds are those that suit the last scores among the new members.
    thresholds = block.joined_thresholds.continued(
        last.problem.constraints.joined_thresholds, theta, smooth.rows.at(w).ranks
    )
    start = np.concatenate([w, thresholds])
    surrogate_bias = np.zeros(smooth.m)
    if rank_by_rank and sigma is not None:
        surrogate_bias = (
            indicator_values(training, trained, sigma, start) - smooth.evaluate(start).constraints
        )
    problem = training.problem([block.raised(surrogate_bias)])
    result = solve(problem, start)
    return Attempt(training, trained, sigma, problem, result, last.number + 1, rank_by_rank, halved)


def indicator_values(
    training: Training, constraints: Sequence[Constraint], sigma: Surrogate, x: Floats
) -> Floats:
    """Return ``h_i(x)``: constraints with the indicator in place of σ; with σ where no metric is known."""
    indicator = Ramp(_INDICATOR * sigma.width)
    blocks = [
        constraint.build(
            promise.groups,
            training.cells.weights,
            sigma if record_of(constraint) is None else indicator,
            training.cells.positive,
        )
        for constraint, promise in zip(constraints, training.promises, strict=True)
    ]
    return training.problem(blocks).evaluate(x).constraints


def _narrowest(first: Attempt) -> int:
    """Return how often the surrogate may be halved and still cover enough members of every group."""
    cells, covered = first.training.cells, []
    for promise in first.training.promises:
        stated, groups = promise.constraint, promise.groups
        inside = stated.effective_members(groups, cells.weights, cells.positive, cells.squares)
        measures = np.array([part.measure for part in stated.intervals(groups)])
        covered.append(float((_COVERED * inside / measures).min()))
    return int(np.clip(np.log2(max(min(covered) / _ENOUGH, 1.0)), 0, _NARROWEST))


def _denser(constraint: Constraint) -> Constraint:
    """Return a constraint that looks more closely everywhere, if it looks at a grid of ranks."""
    return constraint.on_grid(constraint.grid.denser()) if isinstance(constraint, OnAGrid) else constraint


def with_point_at(constraint: Constraint, gap: WorstGap, groups: Groups) -> Constraint:
    """Look also where the exact gap is widest, if that is at some ranks."""
    if np.isnan(gap.ranks).any() or not isinstance(constraint, OnAGrid):
        return constraint
    intervals = constraint.intervals(groups)
    of_pair = [intervals[groups.labels.index(label)] for label in gap.groups]
    return constraint.on_grid(constraint.grid.refined(gap.ranks, of_pair))


def obstacle(training: Training, gaps: Sequence[WorstGap]) -> str:
    """Say where the promise is broken most, and if ties alone could keep it."""
    excess = np.nan_to_num(np.array([gap.value for gap in gaps]) - training.max_gaps)
    worst = int(np.argmax(excess))
    promise, gap = training.promises[worst], gaps[worst]
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
        f"{reached}, and without ties it can hardly be below {floor:.2g}, because the interval holds "
        f"{members:.3g} members of group {name!r}"
    )


def is_reachable(promise: Promise) -> bool:
    """Whether scores without ties can satisfy a constraint, as far as the sizes of groups say."""
    record = record_of(promise.constraint)
    if record is not None and record.bounded.in_scores:  # sizes bound differences of proportions
        return True
    return bool(promise.constraint.max_gap >= _floor(promise)[0])


def _floor(promise: Promise) -> tuple[float, str, float]:
    """Return about the smallest gap that scores without ties can have, and the group that is to blame.

    ``1 / (2 min_k n_k m_k)``, on the absolute scale ``1 / (2 min_k n_k)``: half the step that one member of
    the interval makes. It is reached if all other groups are large.
    """
    stated, groups = promise.constraint, promise.groups
    counts = promise.n_rows[promise.judged]
    inside = counts * [part.measure for part in stated.intervals(groups)]
    fewest = int(np.argmin(inside))
    scale = 1.0 if stated.gap_scale == "interval" else inside[fewest] / counts[fewest]
    return float(scale / (2 * inside[fewest])), groups.names[fewest], float(inside[fewest])
