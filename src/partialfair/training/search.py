"""The search for a model, top to bottom: solve, accept, tighten, search directly, escalate, choose, certify.

`find_model` is the fit in units that suit the solver, over rows that may lie anywhere: they are seen through
`TrainingData` only. `fit_linear` is the fit of rows in memory, in the user's units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from partialfair.constraints import Constraint, OnAGrid
from partialfair.constraints.surrogates import Surrogate, surrogate
from partialfair.optimization.models.linear import GroupTerms
from partialfair.optimization.problems import Certificate, Counts, Problem, certify
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
from partialfair.training.attempts import Attempt, Attempts, Solving, Watch
from partialfair.training.candidates import Candidate, Pool
from partialfair.training.direct_search import DirectSearch, direct_search
from partialfair.training.escalation import Escalation, escalate, find_kkt_point
from partialfair.training.result import Tried
from partialfair.training.statement import Training, check_groups, group_constraints, place_intervals
from partialfair.training.tightening import Tightener, Tightening, explain_infeasibility, is_reachable
from partialfair.training.units import PreparedRows
from partialfair.utils.clock import OutOfTime, acknowledge_interrupt, deadline, out_of_time
from partialfair.utils.typing import Floats


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What is fitted and how, besides rows, loss and constraints; parameters of estimators state most of it.

    Attributes
    ----------
    alpha
        Of the penalty ``½ alpha ‖coef‖²``.
    fit_intercept, group_terms
        Terms of the model; see `linear_model`.
    higher_is_better
        Whether scores above 0 predict the positive class; else those below do.
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
    relative_width, min_spread
        Width of a surrogate in units of the spread of the unconstrained scores: on a9a, law school and the
        synthetic admissions at max_gap 0.05 the exact gap was smallest between 0.15 and 0.4. Scores whose
        spread is smaller, relative to their size, are equal but for rounding errors.
    unconstrained_tol
        Gradient of the unconstrained model, which is only a start, in units of tol.
    n_looks
        Solves in a row that look for a feasible KKT point near the best model, without an escalation.
    times_after_long_solves
        Evaluations of the exact metric, in units of what is usual, as long as no model is feasible, where a
        solve costs hundreds of them.
    grace
        Seconds after the deadline that the KKT certificate of the best point may take.
    """

    alpha: float
    fit_intercept: bool = True
    group_terms: GroupTerms = None
    higher_is_better: bool = True
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
    relative_width: float = 0.25
    min_spread: float = 1e-9
    unconstrained_tol: float = 1e-2
    n_looks: int = 3
    times_after_long_solves: int = 5
    grace: float = 0.25

    def choose_surrogate(self, counts: Counts) -> Surrogate:
        """Return the surrogate; "auto" makes it as wide as suits the spread of the unconstrained scores."""
        if isinstance(self.surrogate, Surrogate):
            return self.surrogate
        if self.surrogate_width != "auto":
            return surrogate(self.surrogate, float(self.surrogate_width))
        unit = counts.spread
        is_constant = unit <= self.min_spread * (1 + counts.scale.largest)
        width = 1.0 if is_constant else self.relative_width * unit
        return surrogate("rounded_ramp" if self.surrogate == "ramp" else self.surrogate, width)

    def select_solver(self, problem: Problem) -> Solver:
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
class Start:
    """Where a search begins, in units of the fit.

    Attributes
    ----------
    begin
        Where the unconstrained fit begins; None: at a constant score.
    last
        Parameters and thresholds of an earlier fit, if there is one.
    unconstrained
        Parameters of its unconstrained model.
    surrogate_bias
        By how much its exact gaps exceeded its trained limits in the end; see `Attempt.surrogate_bias`.
    """

    begin: Floats | None = None
    last: tuple[Floats, Floats] | None = None
    unconstrained: Floats | None = None
    surrogate_bias: Floats | None = None

    def point(self, problem: Problem) -> Floats | None:
        """Return the solution of the earlier fit, with its thresholds if they are as many."""
        if self.last is None or self.last[0].size != problem.rows.parameters.n:
            return None
        w, thresholds = self.last
        same = thresholds.size == problem.bank.n_theta
        return np.concatenate([w, thresholds]) if same else problem.start_at(w)


@dataclass(frozen=True, eq=False)
class PathModel:
    """What one fit of a path came back with.

    Attributes
    ----------
    max_gaps : (n_constraints,)
        Its limits.
    candidate
        The model, evaluated by them.
    attempt
        The attempt whose KKT certificate is shown.
    """

    max_gaps: Floats
    candidate: Candidate
    attempt: Attempt


@dataclass(frozen=True, eq=False)
class EarlierFits:
    """What fits of the same rows with other limits have found: a value that one fit hands to the next.

    Attributes
    ----------
    rows
        The rows in units of the fit, once they are prepared.
    unconstrained
        The unconstrained model, once it is solved.
    models
        By limits, in the order in which they were first set.
    pareto
        Candidates, feasible or not, that no other beats in gaps and objective; `Candidate.excess` holds gaps.
    """

    rows: PreparedRows | None = None
    unconstrained: Result | None = None
    models: tuple[PathModel, ...] = ()
    pareto: tuple[Candidate, ...] = ()

    def add(self, model: PathModel, pool: Pool) -> EarlierFits:
        """Return these and a model, which replaces one with the same limits, with the candidates it beat."""
        same = [(one.max_gaps == model.max_gaps).all() for one in self.models]
        models = [model if is_same else one for one, is_same in zip(self.models, same, strict=True)]
        pareto = list(self.pareto)
        for candidate in pool.candidates:
            given = replace(candidate, excess=candidate.excess + pool.training.max_gaps)
            if candidate.is_predictive and not any(_beats(one, given) for one in pareto):
                pareto = [*(one for one in pareto if not _beats(given, one)), given]
        return replace(self, models=tuple(models if any(same) else [*models, model]), pareto=tuple(pareto))

    def candidates(self, max_gaps: Floats) -> list[Candidate]:
        """Return all candidates of earlier fits, evaluated by the given limits: gaps do not change."""
        return [replace(one, excess=one.excess - max_gaps) for one in self.pareto]

    def model_with(self, max_gaps: Floats) -> PathModel | None:
        """Return the model with these limits."""
        return next((one for one in self.models if (one.max_gaps == max_gaps).all()), None)

    def has_better(self, model: PathModel) -> bool:
        """Whether a candidate of another fit satisfies the limits of a model, and is the better answer."""
        found = model.candidate
        return any(
            one.worst <= 0 and (found.worst > 0 or one.objective < found.objective)
            for one in self.candidates(model.max_gaps)
        )


def _beats(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate is at least as good in every gap, in its objective and in its ties."""
    no_more_ties = not (one.tied > other.tied).any()  # nan, unknown, is not more
    return bool(no_more_ties and (one.excess <= other.excess).all() and one.objective <= other.objective)


@dataclass(frozen=True, eq=False)
class Search:
    """A search whose problem is stated; its attempts, and what solves took, grow on the way.

    Attributes
    ----------
    settings, start, earlier
        How to search, where to begin, and what other fits of a path have found.
    trained, sigma, problem
        The constraints as they are first trained, the surrogate, and the problem of the two.
    w
        Parameters of the unconstrained model, or of the constant one where it was not solved.
    unconstrained
        The unconstrained model; None without constraints.
    attempts
        Solved problems and all candidates.
    tightener
        Solves the problem again with other limits.
    """

    settings: FitSettings
    start: Start
    earlier: EarlierFits
    trained: tuple[Constraint, ...]
    sigma: Surrogate | None
    problem: Problem
    w: Floats
    unconstrained: Result | None
    attempts: Attempts
    tightener: Tightener

    @property
    def training(self) -> Training:
        """Rows, loss and constraints."""
        return self.attempts.pool.training

    @property
    def is_exact(self) -> bool:
        """Whether exact gaps are to be small enough."""
        return self.settings.enforce == "exact" and bool(self.trained)

    @property
    def solves_are_long(self) -> bool:
        """Whether parameters are so many that evaluating the exact metric costs far less than a solve."""
        return self.problem.rows.parameters.n > Newton.largest_block

    def solve_stated(self) -> Attempt:
        """Solve the problem as it is stated."""
        solving = self.tightener.solving
        start = solving.solver.start(self.problem, self.w, self.start.point(self.problem))
        result = solving.solve(self.problem, start)
        self.attempts.first = Attempt(self.training, self.trained, self.sigma, self.problem, result)
        return self.attempts.first

    def unsolved(self, because: Status) -> Attempt:
        """Return where the solver would have begun, as an attempt."""
        start = unconstrained_start(self.problem, self.w, self.start.point(self.problem))
        result = Watch(self.problem, 0.0).unfinished(start, because)
        return Attempt(self.training, self.trained, self.sigma, self.problem, result)


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
    search
        What was tried.
    earlier
        For other fits of a path.
    is_feasible, kkt_point_is_feasible
        Whether the model satisfies the constraints, and whether the attempt does.
    """

    w: Floats
    objective: float
    attempt: Attempt
    cut: Status | None
    search: Search
    earlier: EarlierFits
    is_feasible: bool = False
    kkt_point_is_feasible: bool = False

    @property
    def tried(self) -> tuple[Tried, ...]:
        """One line for each model that was tried."""
        return tuple(self.search.attempts.pool.tried)

    @cached_property
    def counts(self) -> Counts:
        """How much weight has which score under the model."""
        return self.attempt.problem.rows.at(self.w).counts()

    @property
    def unconstrained_counts(self) -> Counts | None:
        """The same under the unconstrained model; None without constraints."""
        if self.search.unconstrained is None:
            return None
        return self.search.attempts.pool.problem.rows.at(self.search.unconstrained.x).counts()


@dataclass(eq=False)
class _Task:
    """What `find_model` is given, and how far it has come, which remains when clock or user end it."""

    training: Training
    constraints: tuple[Constraint, ...]
    settings: FitSettings
    start: Start
    earlier: EarlierFits
    without: Problem
    unconstrained: Result | None = None
    search: Search | None = None


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
    task = _Task(training, tuple(constraints), settings, start, earlier, training.problem([]))
    cut: Status | None
    with deadline(end):
        try:
            cut = _search(task)
        except OutOfTime:
            cut = Status.TIME_LIMIT
        except KeyboardInterrupt:
            acknowledge_interrupt()
            cut = Status.STOPPED
        search = task.search or _state_problem(task)
        best = search.attempts.best or search.unsolved(cut or Status.TIME_LIMIT)
    if task.unconstrained is not None and task.unconstrained.ended not in CUT_SHORT:
        earlier = replace(earlier, unconstrained=task.unconstrained)
    pool = search.attempts.pool
    if not pool.candidates:
        return SearchResult(best.w, best.result.objective, best, cut, search, earlier)
    answer = pool.answer
    earlier = earlier.add(PathModel(best.training.max_gaps, answer, best), pool)
    return SearchResult(
        answer.w,
        answer.objective,
        best,
        cut,
        search,
        earlier,
        is_feasible=pool.is_feasible(answer),
        kkt_point_is_feasible=search.attempts.is_feasible(best),
    )


def _search(task: _Task) -> Status | None:
    """Go through the steps of a fit, in this order; return what cut them short."""
    # Without constraints first: that model may be feasible, and its scores say how wide a surrogate is.
    if task.constraints:
        task.unconstrained = task.earlier.unconstrained or _solve_unconstrained(task)
        if task.unconstrained.ended in CUT_SHORT:
            return task.unconstrained.ended
    task.search = search = _state_problem(task)
    if not search.is_exact:
        ended = search.solve_stated().result.ended
        return ended if ended in CUT_SHORT else None
    if accept_unconstrained(search):
        return None
    # Solve the surrogate problem, and tighten its limits until exact gaps are small enough. A fit of a path
    # with the same limits has done that already: then only models of other fits are new.
    attempts, solved = search.attempts, task.earlier.model_with(search.training.max_gaps)
    if solved is not None:
        attempts.evaluate(solved.attempt, "the earlier fit")
    else:
        continue_last_fit(search)
        if attempts.cut_short is None and not attempts.any_feasible:
            solve_and_tighten(search)
        if attempts.cut_short is not None:
            return attempts.cut_short
    search_directly(search)
    escalates = solved is None and is_unfinished(search)
    if escalates and (stopped := escalate_search(search)):
        return stopped
    attempts.chosen = choose(search, escalates)
    # Only attempts of this fit say whether it was cut short.
    return attempts.cut_short if solved is None else None


def _solve_unconstrained(task: _Task) -> Result:
    """Return the unconstrained model, from that of an earlier fit if there is one."""
    begin = task.start.unconstrained
    if begin is None or begin.size != task.without.n:
        begin = task.without.constant_start if task.start.begin is None else task.start.begin
    tol = max(1e-6, task.settings.unconstrained_tol * task.settings.tol)
    return Newton(tol=tol).solve(task.without, begin)


def _state_problem(task: _Task) -> Search:
    """State the constraints on groups that are large enough, and what is to be trained for them."""
    settings, training, without = task.settings, task.training, task.without
    w = without.constant_start if task.unconstrained is None else task.unconstrained.x
    sigma, trained = None, tuple[Constraint, ...]()
    if task.constraints:
        counts = without.rows.at(w).counts()
        sigma = settings.choose_surrogate(counts)
        placed = place_intervals(task.constraints, counts, training.groups.labels)
        grouped = group_constraints(placed, training.groups, training.cells, settings.min_group_size)
        check_groups(grouped)
        training = replace(training, constraints=grouped)
        # Exact gaps are about all ranks of the interval, and so the grid has to reach as far.
        trained = tuple(
            one.on_grid(one.grid) if settings.enforce == "exact" and isinstance(one, OnAGrid) else one
            for one in (each.constraint for each in grouped)
        )
    problem = training.problem(training.blocks(trained, sigma))
    solving = Solving(settings.select_solver(problem), settings.tol, settings.callback, settings.verbose)
    return Search(
        settings,
        task.start,
        task.earlier,
        trained,
        sigma,
        problem,
        w,
        task.unconstrained,
        Attempts(Pool(training, without, sigma, settings.allow_ties)),
        Tightener(settings.tightening, solving),
    )


def accept_unconstrained(search: Search) -> bool:
    """Accept the unconstrained model if it is feasible; else add what else is known already."""
    pool, start, earlier = search.attempts.pool, search.start, search.earlier
    assert search.unconstrained is not None
    pool.add(search.unconstrained.x, "no constraint")
    (unconstrained,) = pool.candidates
    if pool.is_feasible(unconstrained):
        solved = Attempt(search.training, (), None, pool.problem, search.unconstrained)
        search.attempts.note(solved, unconstrained)
        return True
    pool.add(pool.problem.constant_start, "everybody alike")
    known = {one.w.tobytes() for one in pool.candidates}
    for candidate in earlier.candidates(search.training.max_gaps):
        if candidate.w.tobytes() not in known:
            pool.take(candidate, "another model")
    if not earlier.models and start.last is not None and start.last[0].size == unconstrained.w.size:
        pool.add(start.last[0], "the last fit")
    return False


def continue_last_fit(search: Search) -> None:
    """Solve from the model of an earlier fit alone, which may be near the answer."""
    start, attempts = search.start, search.attempts
    if start.last is None or search.solves_are_long:
        return
    near = attempts.pool.best.w if attempts.pool.any_feasible else start.last[0]
    bias = np.zeros(len(search.trained)) if start.surrogate_bias is None else start.surrogate_bias
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
    halvings = search.settings.surrogate_halvings
    for attempt in search.tightener.tighten(first, halvings, solves_are_long=long):
        way = ", rank by rank" if attempt.rank_by_rank else ""
        attempts.evaluate(attempt, f"correction {attempt.number}{way}")
        if attempt.result.ended in CUT_SHORT:
            return
        if long and not pool.is_feasible(pool.best):
            search_directly(search)
            if pool.is_feasible(pool.best):
                return


def search_directly(search: Search) -> None:
    """Take steps on the exact metric."""
    settings, pool = search.settings, search.attempts.pool
    long = search.solves_are_long and not pool.any_feasible
    n_steps = (settings.times_after_long_solves if long else 1) * settings.search_steps
    direct_search(pool, n_steps, settings.seed, settings.direct)


def is_unfinished(search: Search) -> bool:
    """Whether to escalate: corrections found no feasible point with a KKT certificate."""
    settings, attempts = search.settings, search.attempts
    if search.solves_are_long or not settings.search_steps or attempts.any_feasible_kkt_point:
        return False
    is_affordable = search.problem.m <= settings.escalation.most_functions
    return is_affordable and all(map(is_reachable, search.training.constraints))


def escalate_search(search: Search) -> Status | None:
    """Search along the boundary of the feasible set; return STOPPED if the user's callback says so."""
    settings = search.settings
    assert search.sigma is not None
    return escalate(
        search.attempts,
        search.trained,
        search.sigma,
        settings.escalation,
        settings.direct,
        settings.seed,
        others_are_known=bool(search.earlier.models),
        is_stopped=search.tightener.solving.is_stopped,
    )


def choose(search: Search, escalated: bool) -> Attempt:
    """Return the best feasible attempt whose KKT certificate holds, or the best of all.

    If there is none such, and some model is feasible, one is looked for near that model.
    """
    attempts, tightener, settings = search.attempts, search.tightener, search.settings
    pool, ordered = attempts.pool, attempts.ordered
    for attempt in ordered:
        if attempts.has_feasible_kkt_point(attempt):
            return attempt
    best = last = ordered[0]
    if search.solves_are_long or not pool.any_feasible:
        return best
    # A solve that ran out of steps is resumed, until it is feasible and its certificate holds.
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
    last, near, limits = best, pool.best, search.training.max_gaps
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


def certify_attempt(attempt: Attempt, end: float, grace: float) -> Certificate:
    """Return the KKT certificate of an attempt; some seconds of grace after the deadline are left for it."""
    try:
        with deadline(end):
            certificate = attempt.certificate
        if not out_of_time(end) or certificate.holds(attempt.training.tol):
            return certificate
        with deadline(end + grace):
            return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)
    except KeyboardInterrupt:
        acknowledge_interrupt()
        with deadline(0.0):
            return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)


def decide_ending(found: SearchResult, certificate: Certificate) -> tuple[Status, str | None]:
    """Return the status, and why no point that satisfies the constraints was found if that is so."""
    attempt, exact = found.attempt, found.search.is_exact
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
        return status, explain_infeasibility(attempt.training, attempt.training.gaps(found.counts))
    values = attempt.problem.evaluate(attempt.result.x).constraints
    return status, attempt.problem.constraints.names[int(np.argmax(values))]
