"""The search for a model that an estimator makes: solve, correct, certify, and say how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from partialfair._clock import OutOfTime, acknowledge_interrupt, deadline, out_of_time, unhurried
from partialfair._typing import Floats
from partialfair.constraints import Constraint, OnAGrid, join
from partialfair.groups import Groups
from partialfair.objectives import Objective
from partialfair.problems import Box, Certificate, Counts, Problem, TrainingData, certify
from partialfair.solvers import CUT_SHORT, IDCA, Newton, Record, Result, Solver, Status, decided
from partialfair.solvers.result import unconstrained_start
from partialfair.surrogates import Surrogate, surrogate
from partialfair.training.boundary import BoundarySearch, follow_boundary
from partialfair.training.candidates import Candidate, Pool
from partialfair.training.direct_search import DirectSearch, direct_search, search_all_coordinates
from partialfair.training.equal_rows import BlockMoves, largest_block, move_outside
from partialfair.training.fit_problem import Training
from partialfair.training.path_memory import PathMemory, PathModel
from partialfair.training.placing import placed
from partialfair.training.promise import Promise, check_promises, promises_of
from partialfair.training.result import Tried
from partialfair.training.tightening import (
    Attempt,
    Tightener,
    Tightening,
    is_reachable,
    obstacle,
)
from partialfair.training.watch import Solving, unsolved

__all__ = ["Search", "SearchResult", "SearchSettings", "ending"]

# Seconds after the deadline that the certificate of the best point may take.
_GRACE = 0.25

_LOOKS = 3
"""Solves in a row that look for a certified point near the best model, in a search that does not escalate."""

_TIMES_BESIDE_LONG_SOLVES = 5
"""Looks at the exact metric, in units of what is usual, as long as no model keeps the promise, where a solve
costs hundreds of looks."""

_RELATIVE_WIDTH = 0.25
"""Width of a surrogate in units of the spread of the unconstrained scores. On a9a, law school and the
synthetic admissions at max_gap 0.05 the exact gap was smallest between 0.15 and 0.4."""

_MIN_SPREAD = 1e-9
"""Scores whose spread is smaller, relative to their size, are equal but for rounding errors."""

_UNCONSTRAINED_TOL = 1e-2
"""Gradient of the unconstrained model, which is only a start, in units of tol."""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How a model is searched for; parameters of the estimators describe most of it.

    Attributes
    ----------
    solver, solver_name, max_iter
        The solver, and the name and limit by which it was chosen; a solver that was not chosen by name (None)
        is never replaced by one that suits the problem better.
    enforce
        Whether exact gaps, or only surrogate constraints, are to be small enough.
    surrogate, surrogate_width
        The surrogate of the indicator, or its name and width.
    surrogate_halvings, search_steps, allow_ties, min_group_size, tol
        As in `PartialFairClassifier`.
    seed
        Of all that is random.
    callback, verbose
        What is called, and shown, as solvers proceed.
    tightening, direct
        Of the corrections of surrogate problems, and of the steps on the exact metric.
    """

    solver: Solver
    solver_name: str | None = None
    max_iter: int | None = None
    enforce: Literal["exact", "surrogate", "population"] = "exact"
    surrogate: str | Surrogate = "ramp"
    surrogate_width: float | Literal["auto"] = "auto"
    surrogate_halvings: int = 0
    search_steps: int = 100
    allow_ties: bool = False
    min_group_size: int = 2
    tol: float = 1e-4
    seed: int = 0
    callback: Callable[[Record], bool | None] | None = None
    verbose: int = 0
    tightening: Tightening = field(default_factory=Tightening)
    direct: DirectSearch = field(default_factory=DirectSearch)

    def surrogate_for(self, counts: Counts) -> Surrogate:
        """Return the surrogate; "auto" makes it as wide as suits the spread of the unconstrained scores."""
        if isinstance(self.surrogate, Surrogate):
            return self.surrogate
        if self.surrogate_width != "auto":
            return surrogate(self.surrogate, float(self.surrogate_width))
        unit = counts.spread
        is_constant = unit <= _MIN_SPREAD * (1 + counts.scale.largest)
        width = 1.0 if is_constant else _RELATIVE_WIDTH * unit
        return surrogate("rounded_ramp" if self.surrogate == "ramp" else self.surrogate, width)

    def solver_for(self, problem: Problem) -> Solver:
        """Return the solver, or one that suits the problem better if it was chosen by name."""
        if self.solver_name is None:
            return self.solver
        if not problem.m:
            return Newton()  # constraints that nothing can violate
        if self.solver_name == "idca" and problem.rows.parameters.block_size > Newton.largest_block:
            # Hessians would be too large.
            return IDCA() if self.max_iter is None else IDCA(max_iter=self.max_iter)
        return self.solver


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search came back with.

    Attributes
    ----------
    w, objective
        The model.
    attempt
        The attempt that is certified: the best that keeps the promise, if there is one.
    cut
        What cut the search short, if anything did.
    keeps, certified_keeps
        Whether the model keeps the promise, and whether the attempt does.
    tried
        What was tried.
    """

    w: Floats
    objective: float
    attempt: Attempt
    cut: Status | None
    is_feasible: bool = False
    kkt_point_is_feasible: bool = False
    tried: tuple[Tried, ...] = ()

    @cached_property
    def counts(self) -> Counts:
        """How much weight has which score under the model."""
        return self.attempt.problem.rows.at(self.w).counts()


@dataclass(frozen=True)
class NearBest:
    """How a search that escalated looks for a feasible point with a KKT certificate.

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
        what is taken off beside it, relative to the limits.
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
    near_best
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
    near_best: NearBest = NearBest()
    blocks: BlockMoves = field(default_factory=BlockMoves)

    def share(self, n_rows: int) -> float:
        """Return the fraction of the steps and solves that so many rows allow."""
        return float(min(1.0, (self.usual_rows / n_rows) ** 0.5))


@dataclass(eq=False)
class Search:
    """The search for a model.

    First comes the unconstrained one, which is the answer if it keeps the promise; then one that meets the
    surrogate constraints, corrections of it, and steps on the exact metric. Whatever ends the search, there
    is an attempt to show: the best so far.

    Attributes
    ----------
    settings
        How to search.
    data
        The rows, wherever they lie.
    alpha
        Of the penalty, for each penalised parameter.
    groups, objective
        Groups of the rows (or cells), and the loss of their scores.
    constraints
        What the model has to satisfy.
    begin
        Where the unconstrained fit begins; None: at a constant score.
    box
        Where parameters may lie; None: anywhere.
    last, last_free
        Parameters and thresholds of an earlier fit to start from, and its unconstrained model, if there are
        such.
    surrogate_bias
        By how much exact gaps of the earlier fit were wider than its constraints allowed in the end.
    memory
        What other fits of the same path have found, for what each of them allowed.
    escalation
        What to do if no feasible point with a KKT certificate was found.
    """

    settings: SearchSettings
    data: TrainingData
    alpha: Floats
    groups: Groups
    objective: Objective
    constraints: tuple[Constraint, ...]
    begin: Floats | None = None
    box: Box | None = None
    last: tuple[Floats, Floats] | None = None
    last_free: Floats | None = None
    surrogate_bias: Floats | None = None
    memory: PathMemory = field(default_factory=PathMemory)
    escalation: Escalation = Escalation()
    free: Result | None = None
    best: Attempt | None = None
    pool: Pool | None = None
    escalates: bool = False
    _evaluated: dict[Attempt, Candidate] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether exact gaps are to be small enough."""
        return self.settings.enforce == "exact" and bool(self.constraints)

    def run(self, moment: float) -> SearchResult:
        """Return the best that was found until a moment."""
        cut: Status | None
        with deadline(moment):
            try:
                cut = self._search()
            except OutOfTime:
                cut = Status.TIME_LIMIT
            except KeyboardInterrupt:
                acknowledge_interrupt()
                cut = Status.STOPPED
            if self.best is None:  # the unconstrained model is all there is
                self.best = self._unsolved(cut or Status.TIME_LIMIT)
        best, pool = self.best, self.pool
        if pool is None or not pool.candidates:
            return SearchResult(best.w, best.result.objective, best, cut)
        answer, tried = pool.answer, tuple(pool.tried)
        self.memory.extend(pool.candidates, pool.training.max_gaps)
        self.memory.note(PathModel(best.training.max_gaps, answer, best))
        is_feasible, kkt_point_is_feasible = pool.is_feasible(answer), self._is_feasible(best)
        return SearchResult(answer.w, answer.objective, best, cut, is_feasible, kkt_point_is_feasible, tried)

    @property
    def unconstrained_counts(self) -> Counts | None:
        """How much weight has which score under the unconstrained model; None without constraints."""
        return None if self.free is None else self._free_problem.rows.at(self.free.x).counts()

    @property
    def constant_objective(self) -> float:
        """The objective of the model whose scores are all equal."""
        problem = self._free_problem
        return problem.evaluate(problem.constant_start).objective

    def certificate(self, attempt: Attempt, moment: float) -> Certificate:
        """Return the certificate of an attempt; a moment after the deadline is left for it."""
        try:
            with deadline(moment):
                certificate = attempt.certificate
            if not out_of_time(moment) or certificate.holds(attempt.training.tol):
                return certificate
            with deadline(moment + _GRACE):
                return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)
        except KeyboardInterrupt:
            acknowledge_interrupt()
            with deadline(0.0):
                return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)

    def _search(self) -> Status | None:
        """Search; return what cut it short."""
        if self.constraints:
            self.free = self.memory.free or self._solve_unconstrained()
            if self.free.ended in CUT_SHORT:
                return self.free.ended
            self.memory.free = self.free
        if self.exact and self._accept_unconstrained():
            return None
        cut, is_new = None, not self._takes_up_an_earlier_fit()
        if is_new:
            cut = self._continue_last_fit()
            if cut is None and not any(map(self._is_feasible, self._evaluated)):
                cut = self._solve_and_tighten()
        if cut is None and self.pool is not None:
            self._search_directly()
            self.escalates = is_new and self._is_unfinished
            if self.escalates and (stopped := self._escalate(self.escalation)):
                return stopped
            self.best = self._best_feasible()
            if is_new:  # only attempts of this fit say whether it was cut short
                cut = self._cut_short
        return cut

    @property
    def _cut_short(self) -> Status | None:
        """What cut a solve short: the user or the clock."""
        endings = (attempt.result.ended for attempt in self._evaluated)
        return next((status for status in endings if status in CUT_SHORT), None)

    @property
    def _is_unfinished(self) -> bool:
        """Whether to escalate: corrections found no feasible point with a KKT certificate."""
        if self._solves_are_long or not self.settings.search_steps:
            return False
        if any(self._is_feasible(attempt) and attempt.solved for attempt in self._evaluated):
            return False
        is_affordable = self._problem.m <= self.escalation.most_functions
        return is_affordable and all(map(is_reachable, self._stated[0].promises))

    def _escalate(self, settings: Escalation) -> Status | None:
        """Follow the boundary of the feasible set from several models, then step at random.

        The number of steps is fixed, never their seconds, so that outcomes are the same on every machine.
        Returns STOPPED if the user's callback says so.
        """
        assert self.pool is not None
        training, trained, sigma = self._stated
        assert sigma is not None
        share = settings.share(training.cells.n_rows)
        boundary = replace(settings.boundary, n_steps=max(1, int(share * settings.boundary.n_steps)))
        # Other fits of a path have been where other starts lead, and their candidates are in the pool: that
        # is enough if one of them is feasible.
        first = next(iter(self._evaluated.values()))
        starts: list[Candidate | None] = [None]
        if not (self.memory.models and self.pool.is_feasible(self.pool.best)):
            block = largest_block(self.pool, settings.blocks)
            starts += (
                [first, self.pool.candidates[0]]
                if block is None
                else move_outside(self.pool, first, block, settings.blocks)
            )
        runs = [(start, halved) for start in starts for halved in settings.halvings]
        for start, halved in [*runs, *((None, halved) for halved in settings.more_halvings)]:
            if self._solving.is_stopped():
                return Status.STOPPED
            if halved in settings.more_halvings and self.pool.is_feasible(self.pool.best):
                break
            narrower = replace(sigma, width=sigma.width * 0.5**halved)
            follow_boundary(self.pool, trained, narrower, start or self.pool.best, boundary)
        n_steps = int(share * settings.n_steps)
        search_all_coordinates(self.pool, n_steps, self.settings.seed, self.settings.direct)
        return None

    def _take_from_memory(self, how: str) -> None:
        """Take candidates of other fits that could be the answer, or lead to it."""
        assert self.pool is not None
        known = {one.w.tobytes() for one in self.pool.candidates}
        for candidate in self.memory.candidates(self.pool.training.max_gaps):
            if candidate.w.tobytes() not in known:
                self.pool.take(candidate, how)

    def _takes_up_an_earlier_fit(self) -> bool:
        """Begin with what was solved when as much was allowed: then only models of other fits are new."""
        if self.pool is None:
            return False
        earlier = self.memory.allowing(self._stated[0].max_gaps)
        if earlier is not None:
            self._evaluate(earlier.attempt, "the earlier fit")
        return earlier is not None

    def _continue_last_fit(self) -> Status | None:
        """Solve from the model of an earlier fit alone, which may be near the answer."""
        if self.pool is None or self.last is None or self._solves_are_long:
            return None
        begin = self._unsolved(Status.STOPPED)
        near = self.pool.best.w if self.pool.is_feasible(self.pool.best) else self.last[0]
        surrogate_bias = (
            np.zeros(len(self.constraints)) if self.surrogate_bias is None else self.surrogate_bias
        )
        for attempt in self._tightener.continue_from(begin, near, surrogate_bias):
            self._evaluate(attempt, "going on from the last fit")
            if attempt.result.ended in CUT_SHORT:
                return attempt.result.ended
        return None

    def _solve_and_tighten(self) -> Status | None:
        """Meet the surrogate constraints, and correct them until exact gaps are small enough."""
        self.best = first = self._solved()
        if self.pool is not None:
            self._evaluate(first, "surrogate constraints")
        if first.result.ended in CUT_SHORT:
            return first.result.ended
        if self.pool is None:
            return None
        halvings, long = self.settings.surrogate_halvings, self._solves_are_long
        for attempt in self._tightener.tighten(first, halvings, solves_are_long=long):
            way = ", rank by rank" if attempt.rank_by_rank else ""
            self._evaluate(attempt, f"correction {attempt.number}{way}")
            if attempt.result.ended in CUT_SHORT:
                return attempt.result.ended
            if long and not self.pool.is_feasible(self.pool.best):
                self._search_directly()
                if self.pool.is_feasible(self.pool.best):
                    break
        return None

    def _evaluate(self, attempt: Attempt, how: str) -> Candidate:
        """Make the solution of an attempt a candidate."""
        assert self.pool is not None
        with unhurried():  # a solve that was cut short may have come to a better model than any before
            candidate = self._evaluated[attempt] = self.pool.add(attempt.w, how, attempt.gaps)
        self.best = min(self._evaluated, key=self._sort_key)
        return candidate

    def _search_directly(self) -> None:
        """Take steps on the exact metric."""
        assert self.pool is not None
        long = self._solves_are_long and not self.pool.is_feasible(self.pool.best)
        times = _TIMES_BESIDE_LONG_SOLVES if long else 1
        direct_search(self.pool, times * self.settings.search_steps, self.settings.seed, self.settings.direct)

    @property
    def _solves_are_long(self) -> bool:
        """Whether parameters are so many that looks at the exact metric cost far less than solves."""
        return self._free_problem.rows.parameters.n > Newton.largest_block

    def _accept_unconstrained(self) -> bool:
        """Judge the models that are there already; the unconstrained one is the answer if it is fair."""
        assert self.free is not None
        training, _, sigma = self._stated
        assert sigma is not None
        self.pool = Pool(training, self._free_problem, sigma, self.settings.allow_ties)
        free = self.pool.add(self.free.x, "no constraint")
        if self.pool.is_feasible(free):
            self.best = Attempt(training, (), None, self._free_problem, self.free)
            self._evaluated[self.best] = free
            return True
        self.pool.add(self._free_problem.constant_start, "everybody alike")
        self._take_from_memory("another model")
        if not self.memory.models and self.last is not None and self.last[0].size == free.w.size:
            self.pool.add(self.last[0], "the last fit")
        return False

    def _is_feasible(self, attempt: Attempt) -> bool:
        """Whether an attempt keeps the promise."""
        candidate = self._evaluated.get(attempt)
        return candidate is not None and self.pool is not None and self.pool.is_feasible(candidate)

    def _sort_key(self, attempt: Attempt) -> tuple[bool, bool, float]:
        """Order attempts: those that keep the promise first, and arrived, by objective."""
        satisfied = self._is_feasible(attempt)
        return (
            not satisfied,
            not attempt.arrived,
            attempt.result.objective if satisfied else self._evaluated[attempt].worst,
        )

    def _best_feasible(self) -> Attempt:
        """Return the best attempt that keeps the promise and whose certificate holds, or the best of all.

        If there is none such beside a model that keeps the promise, one is looked for near that model.
        """
        assert self.pool is not None
        ordered = sorted(self._evaluated, key=self._sort_key)
        for attempt in ordered:
            if self._is_feasible(attempt) and attempt.solved:
                return attempt
        if self._solves_are_long:
            return ordered[0]
        if self.pool.is_feasible(self.pool.best):
            return self._certified_later(ordered[0]) or self._certified_near_best(ordered[0]) or ordered[0]
        return ordered[0]

    def _certified_later(self, last: Attempt) -> Attempt | None:
        """Return an attempt that ran out of steps once it is certified and keeps the promise."""
        assert self.pool is not None
        for _ in range(_LOOKS):
            if last.result.ended is not Status.MAX_ITER:
                return None
            last = self._tightener.solve_further(last)
            if not self.pool.is_feasible(self._evaluate(last, "more steps")):
                return None
            if last.solved:
                return last
        return None

    def _certified_near_best(self, last: Attempt) -> Attempt | None:
        """Return a certified attempt that keeps the promise, from solves that begin at the best model."""
        assert self.pool is not None
        if self.escalates:
            return self._certified_after_escalation(last, self.escalation.near_best)
        near, allowed = self.pool.best, last.training.max_gaps
        for _ in range(_LOOKS):
            last = self._tightener.solve_around(last, near.w, allowed)
            near = self._evaluate(last, "correction of the best")
            if last.result.ended in CUT_SHORT:
                return None
            if not self.pool.is_feasible(near):
                allowed = self._tightener.make_stricter(last, allowed)
            elif last.solved:
                return last
        return None

    def _solve_unconstrained(self) -> Result:
        """Return the unconstrained model, from that of an earlier fit if there is one."""
        problem, start = self._free_problem, self.last_free
        if start is None or start.size != problem.n:
            start = problem.constant_start if self.begin is None else self.begin
        return Newton(tol=max(1e-6, _UNCONSTRAINED_TOL * self.settings.tol)).solve(problem, start)

    def _certified_after_escalation(self, last: Attempt, settings: NearBest) -> Attempt | None:
        """Return a certified attempt that keeps the promise, from series of solves; see `NearBest`."""
        assert self.pool is not None
        stated, pool = last.training.max_gaps, self.pool
        n_solves = max(1, int(self.escalation.share(last.training.cells.n_rows) * settings.n_solves))
        feasible = [one for one in pool.candidates if pool.is_feasible(one)]
        loosest = min(feasible, key=lambda one: float(one.excess.max()))
        starts = [pool.best] if loosest is pool.best else [pool.best, loosest]
        for halved, fraction in settings.series:
            for start in starts:
                w, allowed = start.w, fraction * stated
                for _ in range(1 + settings.n_stricter):
                    last = self._tightener.solve_around(last, w, allowed, halved)
                    last, n_more = self._resume(last, settings)
                    n_solves -= 1 + n_more
                    if self._is_feasible(last) and last.solved:
                        return last
                    if n_solves <= 0 or last.result.ended in CUT_SHORT:
                        return None
                    is_near = (last.excess <= settings.most_excess * stated).all()
                    if self._is_feasible(last) or not is_near or not last.result.feasible:
                        break
                    w = last.w
                    less = np.maximum(last.excess, 0.0) + settings.closer * stated
                    allowed = np.maximum(allowed - less, settings.least_allowed * stated)
        return None

    def _resume(self, last: Attempt, settings: NearBest) -> tuple[Attempt, int]:
        """Evaluate an attempt, and resume its solve while that may end with a KKT certificate."""
        assert self.pool is not None
        candidate, stated = self._evaluate(last, "correction of the best"), last.training.max_gaps
        n_more = 0
        while last.result.ended is Status.MAX_ITER and not last.solved:
            is_feasible = self.pool.is_feasible(candidate)
            is_lost = n_more > 0 and last.result.violation > settings.most_violation
            most = settings.n_resumed_feasible if is_feasible else settings.n_resumed
            if is_lost or n_more == most or (last.excess > stated).any():
                break
            before, last = last, self._tightener.solve_further(last)
            candidate, n_more = self._evaluate(last, "more steps"), n_more + 1
            if not is_feasible and (last.excess == before.excess).all():
                break
        return last, n_more

    @cached_property
    def _free_problem(self) -> Problem:
        return Problem.about(self.data, self.objective, join([]), self.alpha, self.box)

    @cached_property
    def _stated(self) -> tuple[Training, tuple[Constraint, ...], Surrogate | None]:
        """What is promised, what is to be trained for it, and by which surrogate."""
        constraints = self.constraints
        sigma: Surrogate | None = None
        promises: tuple[Promise, ...] = ()
        if constraints:
            assert self.data.cells is not None
            counts = self._free_problem.rows.at(self._free_w).counts()
            sigma = self.settings.surrogate_for(counts)
            constraints = placed(constraints, counts, self.groups.labels)
            promises = promises_of(constraints, self.groups, self.data.cells, self.settings.min_group_size)
            check_promises(promises)
        training = Training(
            self.data,
            self.objective,
            self.alpha,
            promises,
            self.settings.tol,
            self.box,
        )
        return training, tuple(self._trained(promise.constraint) for promise in promises), sigma

    @property
    def _free_w(self) -> Floats:
        return self._free_problem.constant_start if self.free is None else self.free.x

    @cached_property
    def _problem(self) -> Problem:
        """The problem as it is stated."""
        training, trained, sigma = self._stated
        return training.problem(training.blocks(trained, sigma))

    def _solved(self) -> Attempt:
        """Solve the problem as it is stated."""
        training, trained, sigma = self._stated
        problem, solving = self._problem, self._solving
        start = solving.solver.start(problem, self._free_w, self._last_of(problem))
        return Attempt(training, trained, sigma, problem, solving(problem, start))

    @cached_property
    def _solving(self) -> Solving:
        """Who solves the problem as it is stated, and others like it."""
        settings = self.settings
        return Solving(settings.solver_for(self._problem), settings.tol, settings.callback, settings.verbose)

    @cached_property
    def _tightener(self) -> Tightener:
        """Solves the problem again with other limits."""
        return Tightener(self.settings.tightening, self._solving.again)

    def _unsolved(self, because: Status) -> Attempt:
        """Show where the solver would have begun."""
        training, trained, sigma = self._stated
        problem = self._problem
        start = unconstrained_start(problem, self._free_w, self._last_of(problem))
        return Attempt(training, trained, sigma, problem, unsolved(problem, start, because))

    def _trained(self, constraint: Constraint) -> Constraint:
        """Return what to train for a promise: on a grid that reaches as far as the exact gap does."""
        if self.exact and isinstance(constraint, OnAGrid):
            return constraint.on_grid(constraint.grid)
        return constraint

    def _last_of(self, problem: Problem) -> Floats | None:
        """Return the solution of an earlier fit, with its thresholds if they are as many."""
        if self.last is None:
            return None
        w, thresholds = self.last
        if w.size != problem.rows.parameters.n:
            return None
        same = thresholds.size == problem.bank.n_theta
        return np.concatenate([w, thresholds]) if same else problem.start_at(w)


def ending(found: SearchResult, certificate: Certificate, exact: bool) -> tuple[Status, str | None]:
    """Return the status, and what is in the way if no point was found that keeps the promise."""
    attempt = found.attempt
    holds = certificate.holds(attempt.training.tol)
    status = decided(
        attempt.result.ended if found.cut is None else found.cut,
        feasible=attempt.result.feasible,
        certified=holds and (found.kkt_point_is_feasible or not exact),
        promise_kept=found.is_feasible if exact else None,
    )
    if status is not Status.NO_FEASIBLE_POINT:
        return status, None
    if exact and not found.is_feasible:
        return status, obstacle(attempt.training, attempt.training.gaps(found.counts))
    values = attempt.problem.evaluate(attempt.result.x).constraints
    return status, attempt.problem.constraints.names[int(np.argmax(values))]
