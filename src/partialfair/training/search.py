"""The search for a model, top to bottom: solve, accept, tighten, search directly, escalate, choose, check.

`find_model` is the fit in units that suit the solver, over rows that may lie anywhere: they are seen through
`TrainingData` only. `fit_linear` is the fit of rows in memory, in the user's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from partialfair.constraints.base import Constraint
from partialfair.constraints.parity import OnAGrid
from partialfair.optimization.problems import Certificate, Counts, Problem
from partialfair.optimization.solvers import CUT_SHORT, Newton, Result, Status, decide_status
from partialfair.training.adjoining import limit_adjoining
from partialfair.training.attempts import Attempt, Attempts, Solving, Watch, certify_attempt
from partialfair.training.candidates import Pool
from partialfair.training.direct_search import direct_search
from partialfair.training.escalation import escalate, find_kkt_point
from partialfair.training.settings import EarlierFits, FitSettings, PathModel, Start
from partialfair.training.statement import Training
from partialfair.training.tightening import Tightener, explain_infeasibility, is_reachable
from partialfair.utils.clock import OutOfTime, acknowledge_interrupt, deadline, notice_interrupts
from partialfair.utils.typing import Floats


@dataclass(eq=False)
class Task:
    """What a search is given, and the unconstrained model once it is solved.

    Attributes
    ----------
    training, constraints
        Rows, loss and penalty; and the constraints as stated, in units of the fit.
    settings, start, earlier
        How to search, where to begin, and what other fits of a path have found.
    without
        The problem without constraints.
    unconstrained
        Its solution; None before it is solved, and where there are no constraints.
    search
        The search, once the problem is stated.
    """

    training: Training
    constraints: tuple[Constraint, ...]
    settings: FitSettings
    start: Start
    earlier: EarlierFits
    without: Problem
    unconstrained: Result | None = None
    search: Search | None = None

    @property
    def w(self) -> Floats:
        """Parameters of the unconstrained model, or of the constant one where it was not solved."""
        return self.without.constant_start if self.unconstrained is None else self.unconstrained.x


@dataclass(frozen=True, eq=False)
class Search:
    """A search whose problem is stated; its attempts, and what solves took, grow on the way.

    Attributes
    ----------
    task
        What was given.
    trained, problem
        The constraints as they are first trained, and the problem of these and a surrogate.
    attempts
        Solved problems and all candidates.
    tightener
        Solves the problem again with other limits.
    """

    task: Task
    trained: tuple[Constraint, ...]
    problem: Problem
    attempts: Attempts
    tightener: Tightener

    @property
    def is_exact(self) -> bool:
        """Whether exact gaps are to be small enough."""
        return self.task.settings.enforce == "exact" and bool(self.trained)

    @property
    def solves_are_long(self) -> bool:
        """Whether parameters are so many that evaluating the exact metric costs far less than a solve."""
        return self.problem.rows.parameters.n > Newton.largest_block

    def attempt(self, result: Result) -> Attempt:
        """Return a result of the problem as an attempt."""
        pool = self.attempts.pool
        return Attempt(pool.training, self.trained, pool.sigma, self.problem, result)

    def solve_stated(self) -> Attempt:
        """Solve the problem as it is stated."""
        solving, last = self.tightener.solving, self.task.start.point(self.problem)
        start = solving.solver.start(self.problem, self.task.w, last)
        self.attempts.first = self.attempt(solving.solve(self.problem, start))
        return self.attempts.first

    def unsolved(self, because: Status) -> Attempt:
        """Return the earlier fit's solution, or the unconstrained model, as an attempt that ended at once."""
        last = self.task.start.point(self.problem)
        start = self.problem.start_at(self.task.w) if last is None else last
        return self.attempt(Watch(self.problem, 0.0).unfinished(start, because))


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search came back with.

    Attributes
    ----------
    w, objective
        The model.
    status, infeasibility
        How the search ended, and why no point that satisfies the constraints was found if that is so.
    attempt, certificate
        The best feasible attempt whose KKT certificate holds, or the best of all; and its KKT certificate.
    search
        What was tried.
    earlier
        For other fits of a path.
    """

    w: Floats
    objective: float
    status: Status
    infeasibility: str | None
    attempt: Attempt
    certificate: Certificate
    search: Search
    earlier: EarlierFits

    @cached_property
    def counts(self) -> Counts:
        """How much weight has which score under the model."""
        return self.attempt.problem.rows.at(self.w).counts()


def find_model(
    training: Training,
    constraints: Sequence[Constraint],
    settings: FitSettings,
    *,
    end: float = float("inf"),
    start: Start | None = None,
    earlier: EarlierFits | None = None,
) -> SearchResult:
    """Return the best model that is found until a time of the monotonic clock.

    Whatever ends the search, there is an attempt to show: the best so far.

    Parameters
    ----------
    training
        Rows, loss and penalty, without constraints.
    constraints
        As stated, in units of the fit.
    settings
        How to search.
    end
        When the search has to end.
    start
        Where it begins.
    earlier
        What other fits of the same rows have found.
    """
    start, earlier = start or Start(), earlier or EarlierFits()
    task = Task(training, tuple(constraints), settings, start, earlier, training.problem([]))
    cut: Status | None
    with notice_interrupts():
        with deadline(end):
            try:
                cut = _search(task)
            except OutOfTime:
                # The clock ended a pass over the data that no solver was in charge of.
                cut = Status.TIME_LIMIT
            except KeyboardInterrupt:
                acknowledge_interrupt()
                cut = Status.STOPPED
            # Even before the problem was stated: a result holds its constraints.
            search = task.search or state_problem(task)
            attempt = search.attempts.best or search.unsolved(cut or Status.TIME_LIMIT)
        pool = search.attempts.pool
        # Only an exact search has candidates; otherwise the attempt is the answer.
        answer = pool.answer if pool.candidates else None
        certificate = certify_attempt(attempt, end, settings.grace)
    # A model that was cut short is no start for the next fit.
    if task.unconstrained is not None and task.unconstrained.ended not in CUT_SHORT:
        earlier = replace(earlier, unconstrained=task.unconstrained)
    if answer is not None:
        earlier = earlier.add(PathModel(answer, attempt), pool)
    w, objective = (attempt.w, attempt.result.objective) if answer is None else (answer.w, answer.objective)
    satisfied = answer is not None and pool.is_feasible(answer)
    holds = certificate.holds(settings.tol)
    status = decide_status(
        attempt.result.ended if cut is None else cut,
        feasible=attempt.result.feasible,
        certified=holds and (search.attempts.is_feasible(attempt) or not search.is_exact),
        satisfied=satisfied if search.is_exact else None,
    )
    reason = None
    if status is Status.NO_FEASIBLE_POINT and search.is_exact and not satisfied:
        # Of the model that is returned, which need not be the attempt's.
        gaps = attempt.training.gaps(attempt.problem.rows.at(w).counts())
        reason = explain_infeasibility(attempt.training, gaps)
    elif status is Status.NO_FEASIBLE_POINT:
        values = attempt.problem.evaluate(attempt.result.x).constraints
        reason = attempt.problem.constraints.names[int(np.argmax(values))]
    return SearchResult(w, objective, status, reason, attempt, certificate, search, earlier)


def _search(task: Task) -> Status | None:
    """Go through the steps of a fit, in this order; return what cut them short."""
    # Without constraints first: that model may be feasible, and its scores say how wide a surrogate is.
    if task.constraints:
        task.unconstrained = task.earlier.unconstrained or solve_unconstrained(task)
        if task.unconstrained.ended in CUT_SHORT:
            return task.unconstrained.ended
    task.search = search = state_problem(task)
    # The paper ends here: a solution of the surrogate problem, whatever its exact gap.
    if not search.is_exact:
        ended = search.solve_stated().result.ended
        return ended if ended in CUT_SHORT else None
    if accept_unconstrained(search):
        return None
    # Solve the surrogate problem, and tighten its limits until exact gaps are small enough. A fit of a path
    # with the same limits has done that already: then only models of other fits are new.
    attempts = search.attempts
    solved = task.earlier.model_with(attempts.pool.training.max_gaps)
    if solved is not None:
        attempts.evaluate(solved.attempt, "the earlier fit")
    else:
        continue_last_fit(search)
        if attempts.cut_short is None and not attempts.any_feasible:
            solve_and_tighten(search)
        if attempts.cut_short is not None:
            return attempts.cut_short
    search_directly(search)
    # Nothing is feasible and has a KKT certificate: what follows takes several times as long.
    escalates = solved is None and is_unfinished(search)
    if escalates and (stopped := escalate_search(search)):
        return stopped
    attempts.chosen = choose(search, escalates)
    # Only attempts of this fit say whether it was cut short.
    return attempts.cut_short if solved is None else None


def solve_unconstrained(task: Task) -> Result:
    """Return the unconstrained model, from that of an earlier fit if there is one."""
    begin = task.start.unconstrained
    if begin is None or begin.size != task.without.n:
        begin = task.without.constant_start if task.start.begin is None else task.start.begin
    tol = max(1e-6, task.settings.unconstrained_tol * task.settings.tol)
    return Newton(tol=tol).solve(task.without, begin)


def state_problem(task: Task) -> Search:
    """State the constraints on groups that are large enough, and what is to be trained for them."""
    settings, training, without = task.settings, task.training, task.without
    sigma, trained = None, tuple[Constraint, ...]()
    if task.constraints:
        counts = without.rows.at(task.w).counts()
        # A surrogate is as wide as the spread of the scores requires, so these are needed first.
        sigma = settings.choose_surrogate(counts)
        training = training.state(task.constraints, counts, settings.min_group_size)
        if settings.outside == "no_worse":
            training = limit_adjoining(training, counts, settings.min_group_size)
        # Exact gaps are about all ranks of the interval, and so the grid has to reach as far.
        trained = tuple(
            one.on_grid(one.grid) if settings.enforce == "exact" and isinstance(one, OnAGrid) else one
            for one in (each.constraint for each in training.constraints)
        )
    problem = training.problem(training.blocks(trained, sigma))
    solver = settings.select_solver(problem)
    solving = Solving(solver, settings.tol, settings.callback, settings.verbose)
    attempts = Attempts(Pool(training, without, sigma, settings.options.allow_ties))
    return Search(task, trained, problem, attempts, Tightener(settings.tightening, solving))


def accept_unconstrained(search: Search) -> bool:
    """Accept the unconstrained model if it is feasible; else add what else is known already."""
    task, pool = search.task, search.attempts.pool
    start, earlier, result = task.start, task.earlier, task.unconstrained
    assert result is not None
    pool.add(result.x, "no constraint")
    (unconstrained,) = pool.candidates
    # No constraint binds: without them the problem is convex, and this is its solution.
    if pool.is_feasible(unconstrained):
        search.attempts.note(Attempt(pool.training, (), None, pool.problem, result), unconstrained)
        return True
    # Equal scores satisfy all constraints but rank nothing; they bound the objective of a useful model.
    pool.add(pool.problem.constant_start, "everybody alike")
    # Models of looser limits may be infeasible here, and starts of segments all the same.
    known = {one.w.tobytes() for one in pool.candidates}
    for candidate in earlier.candidates(pool.training.max_gaps):
        if candidate.w.tobytes() not in known:
            pool.take(candidate, "another model")
    # A warm start alone brings one model; a path has brought it already.
    if not earlier.models and start.last is not None and start.last[0].size == unconstrained.w.size:
        pool.add(start.last[0], "the last fit")
    return False


def continue_last_fit(search: Search) -> None:
    """Solve from the model of an earlier fit alone, which may be near the answer."""
    start, attempts = search.task.start, search.attempts
    if start.last is None or search.solves_are_long:
        return
    # A feasible model of another fit is nearer to the answer than the last one, which need not be.
    near = attempts.pool.best.w if attempts.pool.any_feasible else start.last[0]
    # With other constraints than those of this fit the last one says nothing about the surrogate.
    bias = start.surrogate_bias
    if bias is None or bias.size != len(search.trained):
        bias = np.zeros(len(search.trained))
    begin = search.unsolved(Status.STOPPED)
    for attempt in search.tightener.continue_from(begin, near, bias):
        attempts.evaluate(attempt, "going on from the last fit")
        if attempt.result.ended in CUT_SHORT:
            return


def solve_and_tighten(search: Search) -> None:
    """Solve the surrogate problem, and correct it until exact gaps are small enough."""
    attempts, pool, long = search.attempts, search.attempts.pool, search.solves_are_long
    first = search.solve_stated()
    attempts.evaluate(first, "surrogate constraints")
    if first.result.ended in CUT_SHORT:
        return
    halvings = search.task.settings.options.surrogate_halvings
    for attempt in search.tightener.tighten(first, halvings, solves_are_long=long):
        way = ", rank by rank" if attempt.rank_by_rank else ""
        attempts.evaluate(attempt, f"correction {attempt.number}{way}")
        if attempt.result.ended in CUT_SHORT:
            return
        # Evaluating the exact gap costs so little that it may spare the next solve.
        if long and not pool.is_feasible(pool.best):
            search_directly(search)
            if pool.is_feasible(pool.best):
                return


def search_directly(search: Search) -> None:
    """Take steps on the exact metric."""
    settings, pool = search.task.settings, search.attempts.pool
    long = search.solves_are_long and not pool.any_feasible
    n_steps = (settings.times_after_long_solves if long else 1) * settings.options.search_steps
    direct_search(pool, n_steps, settings.seed, settings.direct)


def is_unfinished(search: Search) -> bool:
    """Whether to escalate: corrections found no feasible point with a KKT certificate."""
    settings, attempts = search.task.settings, search.attempts
    # Without steps on the exact metric (search_steps=0) users want no longer search either.
    if search.solves_are_long or not settings.options.search_steps or attempts.any_feasible_kkt_point:
        return False
    # Quadratic programs grow with the functions; and some limits no model can reach.
    is_affordable = search.problem.m <= settings.escalation.most_functions
    return is_affordable and all(map(is_reachable, attempts.pool.training.constraints))


def escalate_search(search: Search) -> Status | None:
    """Search along the boundary of the feasible set; return STOPPED if the user's callback says so."""
    settings = search.task.settings
    sigma = search.attempts.pool.sigma
    assert sigma is not None
    return escalate(
        search.attempts,
        search.trained,
        sigma,
        settings.escalation,
        settings.direct,
        settings.seed,
        others_are_known=bool(search.task.earlier.models),
        is_stopped=search.tightener.solving.is_stopped,
    )


def choose(search: Search, escalated: bool) -> Attempt:
    """Return the best feasible attempt whose KKT certificate holds, or the best of all.

    If there is none such, and some model is feasible, one is looked for near that model.
    """
    attempts, tightener, settings = search.attempts, search.tightener, search.task.settings
    pool, ordered = attempts.pool, attempts.ordered
    for attempt in ordered:
        # In order of objectives: a later one may have a KKT certificate where the best is not.
        if attempts.has_feasible_kkt_point(attempt):
            return attempt
    best = last = ordered[0]
    if search.solves_are_long or not pool.any_feasible:
        return best
    # A solve that ran out of steps is resumed, until it is feasible and its KKT certificate holds.
    for _ in range(settings.n_looks):
        if last.result.ended is not Status.MAX_ITER:
            break
        last = tightener.solve_further(last)
        if not pool.is_feasible(attempts.evaluate(last, "more steps")):
            break
        if last.solved:
            return last
    if escalated:
        escalation = settings.escalation
        fraction = escalation.fraction(pool.training.cells.n_rows)
        return find_kkt_point(attempts, best, tightener, escalation.kkt_search, fraction) or best
    # Else problems are solved whose constraints are true of the best model.
    last, near, limits = best, pool.best, pool.training.max_gaps
    for _ in range(settings.n_looks):
        last = tightener.solve_around(last, near.w, limits)
        near = attempts.evaluate(last, "correction of the best")
        if last.result.ended in CUT_SHORT:
            break
        if not pool.is_feasible(near):
            limits = tightener.make_stricter(last, limits)
        elif last.solved:
            return last
    return best
