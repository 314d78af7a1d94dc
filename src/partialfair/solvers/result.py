"""How a solve ended, and what it saw on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

import numpy as np

from partialfair._clock import OutOfTime, acknowledge_interrupt, check_clock, deadline, deadline_in, unhurried
from partialfair._typing import Floats
from partialfair.problems import Evaluation, Problem

__all__ = ["Callback", "Ended", "Record", "Result", "Run", "Solver", "Status"]


class Status(StrEnum):
    """Endings; running out of steps is not infeasibility, and neither is convergence."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    TIME_LIMIT = "time_limit"
    STALLED = "stalled"
    NONFINITE = "nonfinite"
    STOPPED = "stopped"
    NO_FEASIBLE_POINT = "no_feasible_point"


@dataclass(frozen=True)
class Record:
    """One line of history: after which step, at what cost, how good.

    Seconds are those of the solver, without evaluations for the history, callbacks and what else a fit does.
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
    status
        How the solve ended.
    objective, violation
        ``f_0(x)`` and ``max(0, max_i f_i(x))``.
    history
        One record per outer step.
    """

    x: Floats
    status: Status
    objective: float
    violation: float
    history: tuple[Record, ...]


class Solver(Protocol):
    """A frozen settings object."""

    def solve(
        self,
        problem: Problem,
        start: Floats,
        *,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the best point found from ``start`` within some seconds; `Run` keeps its books."""


class Ended(Exception):
    """The run is over before the algorithm is."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


@dataclass(eq=False)
class Run:
    """Book-keeping of one solve: the clock, the history, the best point so far, and when to stop.

    The time limit is one of the wall clock, evaluations and callbacks included. It holds inside of steps:
    passes over the data and quadratic programs look at the deadline themselves.

    Attributes
    ----------
    problem
        What is solved.
    tolerance
        Violation up to which a point counts as feasible.
    time_limit
        Seconds, or None.
    callback
        As in `Solver`.
    history
        One record for every call of `record`.
    best, last
        Whether it is feasible, by what it is compared, the point and its values: of the best so far, and of
        the last.
    """

    problem: Problem
    tolerance: float
    time_limit: float | None = None
    callback: Callback | None = None
    history: list[Record] = field(default_factory=list)
    best: tuple[bool, float, Floats, Evaluation] | None = None
    last: tuple[bool, float, Floats, Evaluation] | None = None
    _seconds: float = 0.0
    _since: float = field(default_factory=time.perf_counter)

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

    def follow(self, start: Floats, algorithm: Callable[[Floats], Status]) -> Result:
        """Run an algorithm from a start to its end, or to that of the time or of the user's patience."""
        with deadline(deadline_in(self.time_limit)):
            try:
                status = algorithm(start)
            except Ended as end:
                status = end.status
            except OutOfTime:
                status = Status.TIME_LIMIT
            except KeyboardInterrupt:
                acknowledge_interrupt()
                status = Status.STOPPED
        if not self.history:
            with suppress(Ended), self.off_the_clock():
                self._remember(0, start, None)
        return self.result(status)

    def record(self, step: int, x: Floats, known: Evaluation | None = None) -> None:
        """Evaluate a point, unless that is known, and remember it if it is the best; or end the run."""
        with self.off_the_clock():
            line, best = self._remember(step, x, known)
            if self.callback is not None and self.callback(line, best):
                raise Ended(Status.STOPPED)
        check_clock()

    def _remember(self, step: int, x: Floats, known: Evaluation | None) -> tuple[Record, Floats]:
        """Add a point to the history; return its line and the best point so far."""
        with unhurried():
            evaluation = self.problem.evaluate(x) if known is None else known
        if not (np.isfinite(evaluation.objective) and np.isfinite(evaluation.violation)):
            raise Ended(Status.NONFINITE)
        feasible = evaluation.violation <= self.tolerance
        # Feasible beats infeasible; then the lower objective, or the lower violation.
        key = evaluation.objective if feasible else evaluation.violation
        self.last = (feasible, key, x.copy(), evaluation)
        if self.best is None or (feasible, -key) > (self.best[0], -self.best[1]):
            self.best = self.last
        line = Record(step, self.problem.n_passes, self._seconds, evaluation.objective, evaluation.violation)
        self.history.append(line)
        return line, self.best[2]

    def result(self, status: Status) -> Result:
        """Return the best point, or if it converged the last; without any feasible one the status says so."""
        if self.best is None or self.last is None:
            raise FloatingPointError("the starting point has a loss or constraint that is not finite")
        feasible, _, x, found = self.last if status is Status.CONVERGED else self.best
        ran_out = status in (Status.CONVERGED, Status.MAX_ITER, Status.STALLED)
        ending = Status.NO_FEASIBLE_POINT if ran_out and not feasible else status
        return Result(x, ending, found.objective, found.violation, tuple(self.history))
