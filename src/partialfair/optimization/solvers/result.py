"""The base class of solvers, the state of a solve, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from partialfair.optimization.problems import Capability, PointValues, Problem
from partialfair.optimization.problems.rows import check_capabilities
from partialfair.optimization.solvers.status import Status, decide_status
from partialfair.utils.clock import (
    OutOfTime,
    acknowledge_interrupt,
    check_clock,
    deadline,
    deadline_in,
    ignore_deadline,
)
from partialfair.utils.typing import Floats

_NEARLY_FEASIBLE = 1e-2
"""Additional violation of the constraints, compared with another start, up to which a start is feasible."""

_FIRST_ORDER = "; IDCA with Switching inside, DirectSwitching and AugmentedLagrangian need gradients only"


@dataclass(frozen=True)
class Record:
    """One record of the history of a solve: the step, its cost, and the values of objective and violation.

    Seconds are those of the solver, without evaluations for the history, callbacks and other work of a fit.
    """

    step: int
    passes: int
    seconds: float
    objective: float
    violation: float


Callback: TypeAlias = Callable[[Record, Floats], bool | None]
"""Called after every outer step with its record and the best point so far; returning True stops the solve."""


@dataclass(frozen=True, eq=False)
class Result:
    """The best feasible iterate of a solve, or the least violating one if none was feasible.

    Attributes
    ----------
    x
        The point (w, θ).
    ended
        The status that the solver reports.
    objective, violation
        ``f_0(x)`` and ``max(0, max_i f_i(x))``.
    feasible
        Whether the violation is within the solver's tolerance.
    history
        One record per outer step.
    """

    x: Floats
    ended: Status
    objective: float
    violation: float
    feasible: bool
    history: tuple[Record, ...]

    @property
    def status(self) -> Status:
        """The status of the point before its KKT certificate is computed."""
        return decide_status(self.ended, feasible=self.feasible)


class Solver:
    """A frozen settings object whose ``iterate`` is the algorithm, or which overrides ``solve``.

    Attributes
    ----------
    requires
        Capabilities of the rows that the solver needs; an `InputError` names those that a problem lacks.
    """

    requires: ClassVar[frozenset[Capability]] = frozenset({Capability.GRADIENT})

    def iterate(self, run: Run, x: Floats) -> Status:
        """Make the steps of the algorithm from x, and record points in the run; return the final status."""
        raise NotImplementedError(f"{type(self).__name__} has neither iterate nor a solve of its own")

    def solve(
        self,
        problem: Problem,
        start: Floats,
        *,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the best point found from ``start`` within some seconds.

        The deadline also holds within steps, because passes over the data and quadratic programs check it.
        Ctrl-C returns the best point so far.
        """
        run = Run(self, problem, callback)
        start = problem.domain.project(start)
        with deadline(deadline_in(time_limit)):
            # The best point so far is the result, however the solve ends.
            try:
                status = self.iterate(run, start)
            except Ended as end:
                status = end.status
            except OutOfTime:
                status = Status.TIME_LIMIT
            except KeyboardInterrupt:
                acknowledge_interrupt()
                status = Status.STOPPED
        if not run.history:
            with suppress(Ended), run.off_the_clock():
                run.remember(0, start)
        return run.result(status)

    def start(self, problem: Problem, free: Floats, last: Floats | None = None) -> Floats:
        """Return the start, by default a model with equal scores for all rows, which is feasible.

        Parameters
        ----------
        problem
            The problem to solve.
        free
            Parameters of the unconstrained model.
        last
            A point that solved a problem like this one, if there is one.
        """
        return feasible_start(problem, last)

    def again(self) -> Solver:
        """Return the solver for a problem that differs little from the last, whose solution is the start."""
        return self


def feasible_start(problem: Problem, last: Floats | None) -> Floats:
    """Return the last solution if it is nearly feasible, else the best model with equal scores.

    The paper's methods need a feasible start (Assumption 6.3 E). If a constraint has a fixed threshold, w = 0
    may have a smaller violation than that model.
    """
    # Starts that are likely to be better come later: the last nearly feasible one is chosen.
    candidates = [problem.trivial_start, problem.constant_start]
    if last is not None:
        candidates.append(last)
    passes = problem.n_passes
    with ignore_deadline():
        violations = [problem.evaluate(x).violation for x in candidates]
    problem.n_passes = passes
    nearly = np.array(violations) <= min(violations) + _NEARLY_FEASIBLE
    return candidates[int(np.flatnonzero(nearly)[-1])]


def unconstrained_start(problem: Problem, free: Floats, last: Floats | None) -> Floats:
    """Return the last solution, or else the unconstrained model with thresholds computed from its scores."""
    return problem.start_at(free) if last is None else last


class Ended(Exception):
    """Raised to end a run before its algorithm ends."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class Seen(NamedTuple):
    """A point that a solver has visited, and whether it is feasible up to the solver's tolerance."""

    x: Floats
    evaluation: PointValues
    feasible: bool

    def better_than(self, other: Seen | None) -> bool:
        """Whether it is better: feasible before infeasible, then by objective or by violation."""
        # The paper's 𝒯: infeasible iterates count only as long as none is feasible.
        if other is None or self.feasible != other.feasible:
            return other is None or self.feasible
        if self.feasible:
            return self.evaluation.objective < other.evaluation.objective
        return self.evaluation.violation < other.evaluation.violation


@dataclass(eq=False)
class Run:
    """The state of one solve: the clock, the history, the best point so far, and the stopping rule.

    Attributes
    ----------
    solver, problem
        The solver and its problem. An `InputError` names required capabilities that the rows lack.
    callback
        As in `Solver.solve`.
    tolerance
        Violation up to which a point counts as feasible; algorithms set it.
    history
        One record for every call of `record`.
    best, last
        The best point so far, and the last.
    """

    solver: Solver
    problem: Problem
    callback: Callback | None = None
    tolerance: float = 0.0
    history: list[Record] = field(default_factory=list)
    best: Seen | None = None
    last: Seen | None = None
    _seconds: float = 0.0
    _since: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        check_capabilities(self.problem.rows, self.solver.requires, type(self.solver).__name__, _FIRST_ORDER)

    @contextmanager
    def off_the_clock(self) -> Iterator[None]:
        """Stop the clock, and do not count passes."""
        self._seconds += time.perf_counter() - self._since
        passes = self.problem.n_passes
        try:
            yield
        finally:
            self.problem.n_passes = passes
            self._since = time.perf_counter()

    def record(self, step: int, x: Floats, known: PointValues | None = None) -> None:
        """Evaluate a point, unless its values are known, and keep it if it is the best; or end the run."""
        with self.off_the_clock():
            line, best = self.remember(step, x, known)
            if self.callback is not None and self.callback(line, best):
                raise Ended(Status.STOPPED)
        check_clock()

    def remember(self, step: int, x: Floats, known: PointValues | None = None) -> tuple[Record, Floats]:
        """Add a point to the history; return its record and the best point so far."""
        with ignore_deadline():  # a point that was reached in time counts
            evaluation = self.problem.evaluate(x) if known is None else known
        if not (np.isfinite(evaluation.objective) and np.isfinite(evaluation.violation)):
            raise Ended(Status.NONFINITE)
        self.last = Seen(x.copy(), evaluation, evaluation.violation <= self.tolerance)
        if self.last.better_than(self.best):
            self.best = self.last
        assert self.best is not None
        # Passes and seconds are the solver's own: see `off_the_clock`.
        line = Record(step, self.problem.n_passes, self._seconds, evaluation.objective, evaluation.violation)
        self.history.append(line)
        return line, self.best.x

    def result(self, ended: Status) -> Result:
        """Return the best point, or the last one if the solver reports convergence."""
        if self.best is None or self.last is None:
            raise FloatingPointError("the starting point has a loss or constraint that is not finite")
        # A point with a lower objective that is not stationary may have been passed on the way.
        arrived = ended in (Status.CONVERGED, Status.STATIONARY)
        x, values, feasible = self.last if arrived else self.best
        return Result(x, ended, values.objective, values.violation, feasible, tuple(self.history))
