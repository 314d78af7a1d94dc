"""The search for a model, top to bottom: solve, accept, tighten, search directly, escalate, choose, check.

`find_model` is the fit in units that suit the solver; it reads rows through `TrainingData` only, so they may
be stored anywhere. `fit_linear` is the fit of rows in memory, in the user's units.
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
    """The input of a search, and the unconstrained model once it is solved.

    Attributes
    ----------
    training, constraints
        Rows, loss and penalty; and the stated constraints, in units of the fit.
    settings, start, earlier
        Settings of the search, its start, and the results of other fits of a path.
    without
        The problem without constraints.
    unconstrained
        Its solution; None before it is solved, and without constraints.
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
        """Parameters of the unconstrained model, or of the constant model if it was not solved."""
        return self.without.constant_start if self.unconstrained is None else self.unconstrained.x


@dataclass(frozen=True, eq=False)
class Search:
    """A search whose problem is stated, with its attempts so far.

    Attributes
    ----------
    task
        The input.
    trained, problem
        The constraints of the first solve, and the problem with these and a surrogate.
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
        """Whether the limits apply to exact gaps."""
        return self.task.settings.enforce == "exact" and bool(self.trained)

    @property
    def solves_are_long(self) -> bool:
        """Whether there are so many parameters that the exact metric costs far less than a solve."""
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
    """The result of a search.

    Attributes
    ----------
    w, objective
        The model.
    status, infeasibility
        How the search ended, and the infeasibility reason if no feasible model was found.
    attempt, kkt
        The best feasible attempt whose KKT certificate holds, or the best of all; and its KKT certificate.
    search
        The search.
    earlier
        Results for other fits of a path.
    """

    w: Floats
    objective: float
    status: Status
    infeasibility: str | None
    attempt: Attempt
    kkt: Certificate
    search: Search
    earlier: EarlierFits

    @cached_property
    def counts(self) -> Counts:
        """The distribution of weight over the scores of the model."""
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

    There is always an attempt to report, the best so far, however the search ends.

    Parameters
    ----------
    training
        Rows, loss and penalty, without constraints.
    constraints
        The stated constraints, in units of the fit.
    settings
        Settings of the search.
    end
        Time at which the search has to end.
    start
        Where it begins.
    earlier
        Results of other fits of the same rows.
    """
    start, earlier = start or Start(), earlier or EarlierFits()
    task = Task(training, tuple(constraints), settings, start, earlier, training.problem([]))
    cut: Status | None
    with notice_interrupts():
        with deadline(end):
            try:
                cut = _search(task)
            except OutOfTime:
                # The deadline passed during a pass over the data outside any solver.
                cut = Status.TIME_LIMIT
            except KeyboardInterrupt:
                acknowledge_interrupt()
                cut = Status.STOPPED
            # State the problem even after an interruption, because a result holds its constraints.
            search = task.search or state_problem(task)
            attempt = search.attempts.best or search.unsolved(cut or Status.TIME_LIMIT)
        pool = search.attempts.pool
        # Only an exact search has candidates; otherwise the attempt is the answer.
        answer = pool.answer if pool.candidates else None
        certificate = certify_attempt(attempt, end, settings.grace)
    # An interrupted model is not used as a start for the next fit.
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
        kkt_holds=holds and (search.attempts.is_feasible(attempt) or not search.is_exact),
        satisfied=satisfied if search.is_exact else None,
    )
    reason = None
    if status is Status.NO_FEASIBLE_POINT and search.is_exact and not satisfied:
        # The gaps of the returned model, which may differ from the attempt's.
        gaps = attempt.training.gaps(attempt.problem.rows.at(w).counts())
        reason = explain_infeasibility(attempt.training, gaps)
    elif status is Status.NO_FEASIBLE_POINT:
        values = attempt.problem.evaluate(attempt.result.x).constraints
        reason = attempt.problem.constraints.names[int(np.argmax(values))]
    return SearchResult(w, objective, status, reason, attempt, certificate, search, earlier)


def _search(task: Task) -> Status | None:
    """Run the steps of a fit in this order; return the status of an interruption, if there was one."""
    # The unconstrained model comes first: it may be feasible, and its scores determine the surrogate's width.
    if task.constraints:
        task.unconstrained = task.earlier.unconstrained or solve_unconstrained(task)
        if task.unconstrained.ended in CUT_SHORT:
            return task.unconstrained.ended
    task.search = search = state_problem(task)
    # The paper's method ends here: a solution of the surrogate problem, whatever its exact gap.
    if not search.is_exact:
        ended = search.solve_stated().result.ended
        return ended if ended in CUT_SHORT else None
    if accept_unconstrained(search):
        return None
    # Solve the surrogate problem, and tighten its limits until exact gaps are within the stated ones. If an
    # earlier fit of the path had the same limits, only models of other fits are new.
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
    # No feasible point with a KKT certificate: the following steps take several times as long.
    escalates = solved is None and is_unfinished(search)
    if escalates and (stopped := escalate_search(search)):
        return stopped
    attempts.chosen = choose(search, escalates)
    # Only attempts of this fit show whether it was interrupted.
    return attempts.cut_short if solved is None else None


def solve_unconstrained(task: Task) -> Result:
    """Return the unconstrained model, from an earlier fit if there is one."""
    begin = task.start.unconstrained
    if begin is None or begin.size != task.without.n:
        begin = task.without.constant_start if task.start.begin is None else task.start.begin
    tol = max(1e-6, task.settings.unconstrained_tol * task.settings.tol)
    return Newton(tol=tol).solve(task.without, begin)


def state_problem(task: Task) -> Search:
    """State the constraints on groups that are large enough, and the problem to train for them."""
    settings, training, without = task.settings, task.training, task.without
    sigma, trained = None, tuple[Constraint, ...]()
    if task.constraints:
        counts = without.rows.at(task.w).counts()
        # The width of the surrogate depends on the spread of the unconstrained scores.
        sigma = settings.choose_surrogate(counts)
        training = training.state(task.constraints, counts, settings.min_group_size)
        if settings.outside == "no_worse":
            training = limit_adjoining(training, counts, settings.min_group_size)
        # Exact gaps concern all ranks of the interval, so the grid includes its ends.
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
    """Accept the unconstrained model if it is feasible; otherwise add the other known models."""
    task, pool = search.task, search.attempts.pool
    start, earlier, result = task.start, task.earlier, task.unconstrained
    assert result is not None
    pool.add(result.x, "no constraint")
    (unconstrained,) = pool.candidates
    # No constraint is active: without constraints the problem is convex, and this is its solution.
    if pool.is_feasible(unconstrained):
        search.attempts.note(Attempt(pool.training, (), None, pool.problem, result), unconstrained)
        return True
    # Equal scores satisfy all constraints but rank nothing; they bound the objective of a useful model.
    pool.add(pool.problem.constant_start, "equal scores")
    # Models of looser limits may be infeasible here, but can still be ends of segments.
    known = {one.w.tobytes() for one in pool.candidates}
    for candidate in earlier.candidates(pool.training.max_gaps):
        if candidate.w.tobytes() not in known:
            pool.take(candidate, "another model")
    # A warm start without a path adds one model; a path has added it already.
    if not earlier.models and start.last is not None and start.last[0].size == unconstrained.w.size:
        pool.add(start.last[0], "previous fit")
    return False


def continue_last_fit(search: Search) -> None:
    """Solve from the model of an earlier fit alone, which may be near the answer."""
    start, attempts = search.task.start, search.attempts
    if start.last is None or search.solves_are_long:
        return
    # A feasible model of another fit is nearer to the answer than the previous one, which may be infeasible.
    near = attempts.pool.best.w if attempts.pool.any_feasible else start.last[0]
    # If the previous fit had other constraints, its bias does not apply.
    bias = start.surrogate_bias
    if bias is None or bias.size != len(search.trained):
        bias = np.zeros(len(search.trained))
    begin = search.unsolved(Status.STOPPED)
    for attempt in search.tightener.continue_from(begin, near, bias):
        attempts.evaluate(attempt, "warm start from the previous fit")
        if attempt.result.ended in CUT_SHORT:
            return


def solve_and_tighten(search: Search) -> None:
    """Solve the surrogate problem, and correct it until exact gaps are within the limits."""
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
        # Evaluating the exact gap is so cheap that steps on it may replace the next solve.
        if long and not pool.is_feasible(pool.best):
            search_directly(search)
            if pool.is_feasible(pool.best):
                return


def search_directly(search: Search) -> None:
    """Make steps on the exact metric."""
    settings, pool = search.task.settings, search.attempts.pool
    long = search.solves_are_long and not pool.any_feasible
    n_steps = (settings.times_after_long_solves if long else 1) * settings.options.search_steps
    direct_search(pool, n_steps, settings.seed, settings.direct)


def is_unfinished(search: Search) -> bool:
    """Whether to escalate: corrections found no feasible point with a KKT certificate."""
    settings, attempts = search.task.settings, search.attempts
    # Users who switch off steps on the exact metric (search_steps=0) do not want a longer search, either.
    if search.solves_are_long or not settings.options.search_steps or attempts.any_feasible_kkt_point:
        return False
    # Quadratic programs grow with the number of functions, and no model can satisfy some limits.
    is_affordable = search.problem.m <= settings.escalation.most_functions
    return is_affordable and all(map(is_reachable, attempts.pool.training.constraints))


def escalate_search(search: Search) -> Status | None:
    """Search along the boundary of the feasible set; return STOPPED if the user's callback returns True."""
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

    If no such attempt exists but some model is feasible, look for one near that model.
    """
    attempts, tightener, settings = search.attempts, search.tightener, search.task.settings
    pool, ordered = attempts.pool, attempts.ordered
    for attempt in ordered:
        # In order of objectives: if the best has no KKT certificate, a later one may have it.
        if attempts.has_feasible_kkt_point(attempt):
            return attempt
    best = last = ordered[0]
    if search.solves_are_long or not pool.any_feasible:
        return best
    # A solve that ran out of steps is resumed until it is feasible and its KKT certificate holds.
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
    # Otherwise solve problems whose constraints are exact at the best model.
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
