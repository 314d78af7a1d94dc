"""The search for a model: solve, tighten, search directly, choose, certify, and say how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from partialfair.constraints import Constraint, OnAGrid, join
from partialfair.constraints.surrogates import Surrogate, surrogate
from partialfair.data.groups import Groups
from partialfair.optimization.objectives import Objective
from partialfair.optimization.problems import Box, Certificate, Counts, Problem, TrainingData, certify
from partialfair.optimization.solvers import (
    CUT_SHORT,
    IDCA,
    Newton,
    Record,
    Result,
    Solver,
    Status,
    decide_status,
)
from partialfair.optimization.solvers.result import unconstrained_start
from partialfair.training.attempts import Attempt, Attempts
from partialfair.training.candidates import Pool
from partialfair.training.direct_search import DirectSearch, direct_search
from partialfair.training.escalation import Escalation, escalate, find_kkt_point
from partialfair.training.fit_problem import Training
from partialfair.training.path_memory import PathMemory, PathModel
from partialfair.training.placing import placed
from partialfair.training.promise import Promise, check_promises, promises_of
from partialfair.training.result import Tried
from partialfair.training.tightening import Tightener, Tightening, is_reachable, obstacle
from partialfair.training.watch import Solving, unsolved
from partialfair.utils.clock import OutOfTime, acknowledge_interrupt, deadline, out_of_time
from partialfair.utils.typing import Floats

__all__ = ["Search", "SearchResult", "SearchSettings", "ending"]

# Seconds after the deadline that the certificate of the best point may take.
_GRACE = 0.25

_LOOKS = 3
"""Solves in a row that look for a certified point near the best model, in a search that does not escalate."""

_TIMES_AFTER_LONG_SOLVES = 5
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
    tightening, direct, escalation
        Of the corrections of surrogate problems, of the steps on the exact metric, and of what follows if no
        feasible point with a KKT certificate was found.
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
    escalation: Escalation = field(default_factory=Escalation)

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
        The best feasible attempt whose KKT certificate holds, or the best of all.
    cut
        What cut the search short, if anything did.
    is_feasible, kkt_point_is_feasible
        Whether the model satisfies the constraints, and whether the attempt does.
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


@dataclass(eq=False)
class Search:
    """The search for a model.

    First comes the unconstrained one, which is the answer if it is feasible; then one that satisfies the
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
    free
        The unconstrained model, once it is solved.
    attempts
        Solved problems of an exact fit, and its candidates.
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
    free: Result | None = None
    attempts: Attempts | None = None
    _first: Attempt | None = None
    _chosen: Attempt | None = None

    @property
    def exact(self) -> bool:
        """Whether exact gaps are to be small enough."""
        return self.settings.enforce == "exact" and bool(self.constraints)

    def run(self, end: float) -> SearchResult:
        """Return the best model that was found until a time of the clock."""
        cut: Status | None
        with deadline(end):
            try:
                cut = self._search()
            except OutOfTime:
                cut = Status.TIME_LIMIT
            except KeyboardInterrupt:
                acknowledge_interrupt()
                cut = Status.STOPPED
            best = self._best or self._unsolved(cut or Status.TIME_LIMIT)
        attempts = self.attempts
        if attempts is None or not attempts.pool.candidates:
            return SearchResult(best.w, best.result.objective, best, cut)
        pool, answer = attempts.pool, attempts.pool.answer
        self.memory.extend(pool.candidates, pool.training.max_gaps)
        self.memory.note(PathModel(best.training.max_gaps, answer, best))
        return SearchResult(
            answer.w,
            answer.objective,
            best,
            cut,
            is_feasible=pool.is_feasible(answer),
            kkt_point_is_feasible=attempts.is_feasible(best),
            tried=tuple(pool.tried),
        )

    @property
    def unconstrained_counts(self) -> Counts | None:
        """How much weight has which score under the unconstrained model; None without constraints."""
        return None if self.free is None else self._free_problem.rows.at(self.free.x).counts()

    @property
    def constant_objective(self) -> float:
        """The objective of the model whose scores are all equal."""
        problem = self._free_problem
        return problem.evaluate(problem.constant_start).objective

    def certificate(self, attempt: Attempt, end: float) -> Certificate:
        """Return the KKT certificate of an attempt; some time after the deadline is left for it."""
        try:
            with deadline(end):
                certificate = attempt.certificate
            if not out_of_time(end) or certificate.holds(attempt.training.tol):
                return certificate
            with deadline(end + _GRACE):
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
        if not self.exact:
            self._first = self._solve_stated()
            ended = self._first.result.ended
            return ended if ended in CUT_SHORT else None
        attempts = self._begin()
        if self._accept_unconstrained(attempts):
            return None
        is_new = not self._take_up_earlier_fit(attempts)
        if is_new:
            self._continue_last_fit(attempts)
            if attempts.cut_short is None and not attempts.any_feasible:
                self._solve_and_tighten(attempts)
            if attempts.cut_short is not None:
                return attempts.cut_short
        self._search_directly(attempts.pool)
        escalates = is_new and self._is_unfinished(attempts)
        if escalates and (stopped := self._escalate(attempts)):
            return stopped
        self._chosen = self._choose(attempts, escalates)
        # Only attempts of this fit say whether it was cut short.
        return attempts.cut_short if is_new else None

    @property
    def _best(self) -> Attempt | None:
        """The attempt to show, whatever ended the search."""
        if self._chosen is None and self.attempts is not None and self.attempts.any:
            return self.attempts.best
        return self._chosen or self._first

    def _solve_unconstrained(self) -> Result:
        """Return the unconstrained model, from that of an earlier fit if there is one."""
        problem, start = self._free_problem, self.last_free
        if start is None or start.size != problem.n:
            start = problem.constant_start if self.begin is None else self.begin
        return Newton(tol=max(1e-6, _UNCONSTRAINED_TOL * self.settings.tol)).solve(problem, start)

    def _begin(self) -> Attempts:
        """Return attempts, none so far, with the unconstrained model as the only candidate."""
        assert self.free is not None
        training, _, sigma = self._stated
        assert sigma is not None
        pool = Pool(training, self._free_problem, sigma, self.settings.allow_ties)
        self.attempts = Attempts(pool)
        pool.add(self.free.x, "no constraint")
        return self.attempts

    def _accept_unconstrained(self, attempts: Attempts) -> bool:
        """Accept the unconstrained model if it is feasible; else add what else is known already."""
        assert self.free is not None
        pool = attempts.pool
        (unconstrained,) = pool.candidates
        if pool.is_feasible(unconstrained):
            attempts.note(Attempt(pool.training, (), None, self._free_problem, self.free), unconstrained)
            return True
        pool.add(self._free_problem.constant_start, "everybody alike")
        known = {one.w.tobytes() for one in pool.candidates}
        for candidate in self.memory.candidates(pool.training.max_gaps):
            if candidate.w.tobytes() not in known:
                pool.take(candidate, "another model")
        if not self.memory.models and self.last is not None and self.last[0].size == unconstrained.w.size:
            pool.add(self.last[0], "the last fit")
        return False

    def _take_up_earlier_fit(self, attempts: Attempts) -> bool:
        """Take up what was solved for the same limits; then only models of other fits are new."""
        earlier = self.memory.allowing(attempts.pool.training.max_gaps)
        if earlier is not None:
            attempts.evaluate(earlier.attempt, "the earlier fit")
        return earlier is not None

    def _continue_last_fit(self, attempts: Attempts) -> None:
        """Solve from the model of an earlier fit alone, which may be near the answer."""
        if self.last is None or self._solves_are_long:
            return
        pool = attempts.pool
        near = pool.best.w if pool.is_feasible(pool.best) else self.last[0]
        bias = np.zeros(len(self.constraints)) if self.surrogate_bias is None else self.surrogate_bias
        for attempt in self._tightener.continue_from(self._unsolved(Status.STOPPED), near, bias):
            attempts.evaluate(attempt, "going on from the last fit")
            if attempt.result.ended in CUT_SHORT:
                return

    def _solve_and_tighten(self, attempts: Attempts) -> None:
        """Solve the surrogate problem, and correct it until exact gaps are small enough."""
        self._first = first = self._solve_stated()
        attempts.evaluate(first, "surrogate constraints")
        if first.result.ended in CUT_SHORT:
            return
        pool, halvings, long = attempts.pool, self.settings.surrogate_halvings, self._solves_are_long
        for attempt in self._tightener.tighten(first, halvings, solves_are_long=long):
            way = ", rank by rank" if attempt.rank_by_rank else ""
            attempts.evaluate(attempt, f"correction {attempt.number}{way}")
            if attempt.result.ended in CUT_SHORT:
                return
            if long and not pool.is_feasible(pool.best):
                self._search_directly(pool)
                if pool.is_feasible(pool.best):
                    return

    def _search_directly(self, pool: Pool) -> None:
        """Take steps on the exact metric."""
        long = self._solves_are_long and not pool.is_feasible(pool.best)
        n_steps = (_TIMES_AFTER_LONG_SOLVES if long else 1) * self.settings.search_steps
        direct_search(pool, n_steps, self.settings.seed, self.settings.direct)

    @property
    def _solves_are_long(self) -> bool:
        """Whether parameters are so many that evaluating the exact metric costs far less than a solve."""
        return self._free_problem.rows.parameters.n > Newton.largest_block

    def _is_unfinished(self, attempts: Attempts) -> bool:
        """Whether to escalate: corrections found no feasible point with a KKT certificate."""
        if self._solves_are_long or not self.settings.search_steps or attempts.any_feasible_kkt_point:
            return False
        is_affordable = self._problem.m <= self.settings.escalation.most_functions
        return is_affordable and all(map(is_reachable, attempts.pool.training.promises))

    def _escalate(self, attempts: Attempts) -> Status | None:
        """Search along the boundary of the feasible set; return STOPPED if the user's callback says so."""
        _, trained, sigma = self._stated
        assert sigma is not None
        settings = self.settings
        return escalate(
            attempts,
            trained,
            sigma,
            settings.escalation,
            settings.direct,
            settings.seed,
            others_are_known=bool(self.memory.models),
            is_stopped=self._solving.is_stopped,
        )

    def _choose(self, attempts: Attempts, escalated: bool) -> Attempt:
        """Return the best feasible attempt whose KKT certificate holds, or the best of all.

        If there is none such, and some model is feasible, one is looked for near that model.
        """
        pool, ordered = attempts.pool, attempts.ordered
        for attempt in ordered:
            if attempts.has_feasible_kkt_point(attempt):
                return attempt
        best = ordered[0]
        if self._solves_are_long or not pool.is_feasible(pool.best):
            return best
        if (finished := self._finish(attempts, best)) is not None:
            return finished
        if not escalated:
            return self._correct_near_best(attempts, best) or best
        escalation = self.settings.escalation
        share = escalation.share(pool.training.cells.n_rows)
        return find_kkt_point(attempts, best, self._tightener, escalation.kkt_search, share) or best

    def _finish(self, attempts: Attempts, last: Attempt) -> Attempt | None:
        """Resume a solve that ran out of steps; return it once it is feasible and its certificate holds."""
        for _ in range(_LOOKS):
            if last.result.ended is not Status.MAX_ITER:
                return None
            last = self._tightener.solve_further(last)
            if not attempts.pool.is_feasible(attempts.evaluate(last, "more steps")):
                return None
            if last.solved:
                return last
        return None

    def _correct_near_best(self, attempts: Attempts, last: Attempt) -> Attempt | None:
        """Solve around the best model; return a feasible attempt whose KKT certificate holds."""
        pool, limits = attempts.pool, last.training.max_gaps
        near = pool.best
        for _ in range(_LOOKS):
            last = self._tightener.solve_around(last, near.w, limits)
            near = attempts.evaluate(last, "correction of the best")
            if last.result.ended in CUT_SHORT:
                return None
            if not pool.is_feasible(near):
                limits = self._tightener.make_stricter(last, limits)
            elif last.solved:
                return last
        return None

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

    def _solve_stated(self) -> Attempt:
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
    status = decide_status(
        attempt.result.ended if found.cut is None else found.cut,
        feasible=attempt.result.feasible,
        certified=holds and (found.kkt_point_is_feasible or not exact),
        satisfied=found.is_feasible if exact else None,
    )
    if status is not Status.NO_FEASIBLE_POINT:
        return status, None
    if exact and not found.is_feasible:
        return status, obstacle(attempt.training, attempt.training.gaps(found.counts))
    values = attempt.problem.evaluate(attempt.result.x).constraints
    return status, attempt.problem.constraints.names[int(np.argmax(values))]
