"""Solves of one fit: their progress and interruption, and the exact metrics of their solutions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from partialfair.constraints.base import Constraint
from partialfair.constraints.surrogates import Surrogate
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import Certificate, Problem, certify
from partialfair.optimization.solvers import CUT_SHORT, Record, Result, Solver, Status
from partialfair.training.candidates import CandidateModel, Pool
from partialfair.training.result import ROUNDING_OF_GAPS
from partialfair.training.statement import Training
from partialfair.utils.clock import (
    OutOfTime,
    acknowledge_interrupt,
    deadline,
    ignore_deadline,
    out_of_time,
    seconds_left,
)
from partialfair.utils.typing import Floats

_NOTHING = Record(0, 0, 0.0, float("nan"), float("nan"))


@dataclass(frozen=True, eq=False)
class Attempt:
    """A solved problem, the constraints that were trained, and the exact gaps of the solution.

    Attributes
    ----------
    training
        The parts of the problem that attempts share.
    constraints, sigma
        The trained constraints, whose limits may be stricter than stated, and the surrogate.
    problem, result
        The problem, and the result of the solver.
    number
        Number of corrections before this attempt.
    rank_by_rank
        Whether its constraints were exact at each rank for the previous solution.
    halved
        How often the surrogate's width was halved.
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
        """Steps of all solves up to this one."""
        return self.result.history[-1].step

    @property
    def w(self) -> Floats:
        """Parameters of the solution."""
        return self.problem.split(self.result.x)[0]

    @cached_property
    def gaps(self) -> tuple[WorstGap, ...]:
        """The exact gaps, one for each constraint."""
        return self.training.gaps(self.problem.rows.at(self.w).counts())

    @cached_property
    def excess(self) -> Floats:
        """Excess of each exact gap over its limit; 0 if the constraint has no exact metric."""
        gaps = np.array([gap.value for gap in self.gaps])
        return np.asarray(np.nan_to_num(gaps - self.training.max_gaps))

    @property
    def surrogate_bias(self) -> Floats:
        """Difference between each exact gap and its trained limit, in units of √κ.

        0 if the constraint has no exact metric, or the limit is 0.
        """
        # Along paths the bias falls about as √κ, so in this unit it applies to the next limit as well.
        gaps, limits = (gap.value for gap in self.gaps), (one.max_gap for one in self.constraints)
        larger, unit = np.nan_to_num(np.array([*gaps]) - np.array([*limits])), np.sqrt(self.training.max_gaps)
        return np.asarray(np.divide(larger, unit, out=np.zeros(unit.size), where=unit > 0))

    @property
    def gap(self) -> float:
        """The exact gap that is largest relative to its limit; nan without constraints."""
        return float(self.gaps[int(np.argmax(self.excess))].value) if self.gaps else float("nan")

    @property
    def satisfied(self) -> bool:
        """Whether all exact gaps are within their limits."""
        return bool((self.excess <= ROUNDING_OF_GAPS).all())

    def uses_its_gap(self, but_for: float) -> bool:
        """Whether the constraints are satisfied and at most a fraction of the limits is left unused."""
        return self.satisfied and bool(self.excess.max() >= -but_for * self.training.max_gaps.min())

    @cached_property
    def certificate(self) -> Certificate:
        """The KKT certificate of the solution."""
        return certify(self.problem, self.result.x, tol=self.training.tol)

    @property
    def solved(self) -> bool:
        """Whether the KKT certificate holds; it is not computed if constraints are violated."""
        tol = self.training.tol
        return self.result.violation <= tol and self.certificate.holds(tol)

    @property
    def arrived(self) -> bool:
        """Whether the solver reports convergence, or the KKT certificate holds."""
        return self.result.ended is Status.CONVERGED or self.solved


@dataclass(eq=False)
class Attempts:
    """The attempts of one fit, whose solutions are candidates.

    Attributes
    ----------
    pool
        All candidates of the fit.
    first
        The first solve, even if it was interrupted before its solution was evaluated.
    chosen
        The attempt whose KKT certificate is reported, once it is chosen.
    """

    pool: Pool
    first: Attempt | None = None
    chosen: Attempt | None = None
    _evaluated: dict[Attempt, CandidateModel] = field(default_factory=dict)

    def evaluate(self, attempt: Attempt, how: str) -> CandidateModel:
        """Evaluate the solution of an attempt and add it to the candidates."""
        with ignore_deadline():  # an interrupted solve may have found the best model so far
            candidate = self.pool.add(attempt.w, how, attempt.gaps)
        self._evaluated[attempt] = candidate
        return candidate

    def note(self, attempt: Attempt, candidate: CandidateModel) -> None:
        """Add an attempt whose solution is already a candidate."""
        self._evaluated[attempt] = candidate

    def is_feasible(self, attempt: Attempt) -> bool:
        """Whether the solution of an attempt satisfies the constraints."""
        candidate = self._evaluated.get(attempt)
        return candidate is not None and self.pool.is_feasible(candidate)

    def has_feasible_kkt_point(self, attempt: Attempt) -> bool:
        """Whether the solution satisfies the constraints and its KKT certificate holds."""
        return self.is_feasible(attempt) and attempt.solved

    @property
    def any_feasible(self) -> bool:
        """Whether the solution of some attempt satisfies the constraints."""
        return any(map(self.is_feasible, self._evaluated))

    @property
    def any_feasible_kkt_point(self) -> bool:
        """Whether some attempt is feasible and its KKT certificate holds."""
        return any(map(self.has_feasible_kkt_point, self._evaluated))

    @property
    def ordered(self) -> list[Attempt]:
        """All attempts: feasible ones first, then those that converged, by objective or excess."""

        def sort_key(attempt: Attempt) -> tuple[bool, bool, float]:
            feasible = self.is_feasible(attempt)
            value = attempt.result.objective if feasible else self._evaluated[attempt].worst
            return not feasible, not attempt.arrived, value

        return sorted(self._evaluated, key=sort_key)

    @property
    def best(self) -> Attempt | None:
        """The attempt to report, whatever ended the search; None before the first solve."""
        return self.chosen or next(iter(self.ordered), self.first)

    @property
    def first_solution(self) -> CandidateModel:
        """The solution of the first attempt."""
        return next(iter(self._evaluated.values()))

    @property
    def cut_short(self) -> Status | None:
        """The status of a solve that the user or the clock interrupted, if there is one."""
        endings = (attempt.result.ended for attempt in self._evaluated)
        return next((status for status in endings if status in CUT_SHORT), None)


@dataclass(eq=False)
class Watch:
    """Stop a solver when the KKT certificate of its best point holds, or when the callback returns True.

    The KKT certificate is computed after 1000 passes over the data, which only the paper's solvers need, and
    again whenever that number has doubled, so its cost is small.

    Parameters
    ----------
    problem, tol
        The problem, and the tolerance of the KKT certificate.
    callback
        The user's callback, a function of one record.
    verbose
        1 writes a line to standard error at most once a second, 2 at every step.
    before
        The record of earlier solves of the same fit.
    holds
        Whether a KKT certificate held.
    seen, best
        The solver's records, and the best point so far.
    """

    problem: Problem
    tol: float
    callback: Callable[[Record], bool | None] | None = None
    verbose: int = 0
    before: Record = _NOTHING
    holds: bool = False
    seen: list[Record] = field(default_factory=list)
    best: Floats | None = None
    _next_look: float = 1000.0
    _last_shown: float = float("-inf")

    def __call__(self, line: Record, best: Floats) -> bool:
        """Report a step, call the user's callback, compute the KKT certificate; return whether to stop."""
        self.seen.append(line)
        self.best = best
        passes, line = line.passes, self.total(line)
        now = time.monotonic()
        if self.verbose and (now - self._last_shown >= 1 or self.verbose > 1):
            self._last_shown = now
            sys.stderr.write(
                f"step {line.step:>5}  {line.passes:>9,} passes  {line.seconds:7.1f} s  "
                f"objective {line.objective:.6f}  violation {line.violation:.1e}\n"
            )
        # The callback comes before the KKT certificate.
        if self.callback is not None and self.callback(line):
            return True
        if passes < self._next_look:
            return False
        # The interval doubles, so all computations together cost at most twice the last one.
        self._next_look = 2.0 * passes
        self.holds = certify(self.problem, best, tol=self.tol).holds(self.tol)
        return self.holds

    def total(self, line: Record) -> Record:
        """Return a record that includes the work of earlier solves."""
        before = self.before
        return replace(
            line,
            step=before.step + line.step,
            passes=before.passes + line.passes,
            seconds=before.seconds + line.seconds,
        )

    def unfinished(self, start: Floats, status: Status) -> Result:
        """Return the best point of the solver so far, or its start, as its result."""
        x = start if self.best is None else self.best
        with ignore_deadline():
            evaluation = self.problem.evaluate(x)
        line = Record(0, self.problem.n_passes, 0.0, evaluation.objective, evaluation.violation)
        feasible = evaluation.violation <= self.tol
        history = tuple(self.seen or [line])
        return Result(x, status, evaluation.objective, evaluation.violation, feasible, history)


@dataclass(eq=False)
class Solving:
    """Solve one problem after another until the deadline; results have the history of all solves.

    Parameters
    ----------
    solver
        The solver of the first problem.
    tol, callback, verbose
        As in `Watch`.
    """

    solver: Solver
    tol: float
    callback: Callable[[Record], bool | None] | None
    verbose: int
    history: list[Record] = field(default_factory=list)

    @property
    def last(self) -> Record:
        """The record of all solves so far."""
        return self.history[-1] if self.history else _NOTHING

    def solve(self, problem: Problem, start: Floats, *, again: bool = False) -> Result:
        """Solve a problem; `again` if the start solves a problem that differs little from this one."""
        watch = Watch(problem, self.tol, self.callback, self.verbose, self.last)
        # One start is enough for a problem that is nearly solved.
        solver = self.solver.again() if again else self.solver
        try:
            result = solver.solve(problem, start, time_limit=seconds_left(), callback=watch)
        # Solvers of users need not handle the deadline, at which oracles raise OutOfTime.
        except OutOfTime:
            result = watch.unfinished(start, Status.TIME_LIMIT)
        except KeyboardInterrupt:
            acknowledge_interrupt()
            result = watch.unfinished(start, Status.STOPPED)
        # The first record of a later solve repeats the last record of the solve before.
        self.history += [watch.total(line) for line in result.history[bool(self.history) :]]
        ended = Status.CONVERGED if watch.holds else result.ended
        return replace(result, history=tuple(self.history), ended=ended)

    def is_stopped(self) -> bool:
        """Whether the user's callback, called between solves, returns True."""
        return self.callback is not None and bool(self.callback(self.last))


def certify_attempt(attempt: Attempt, end: float, grace: float) -> Certificate:
    """Return the KKT certificate of an attempt; it may take ``grace`` seconds after the deadline."""
    try:
        with deadline(end):
            certificate = attempt.certificate
        # Complete, or incomplete but good enough.
        if not out_of_time(end) or certificate.holds(attempt.training.tol):
            return certificate
        # Interrupted by the deadline: without a KKT certificate a result says little, so it gets more time.
        with deadline(end + grace):
            return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)
    except KeyboardInterrupt:
        acknowledge_interrupt()
        with deadline(0.0):
            return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)
