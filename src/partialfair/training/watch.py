"""One or several solves as one fit: progress, the user's callback, the clock, a look at the certificate."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from partialfair.optimization.problems import Problem, certify
from partialfair.optimization.solvers import Record, Result, Solver, Status
from partialfair.utils.clock import OutOfTime, acknowledge_interrupt, ignore_deadline, seconds_left
from partialfair.utils.typing import Floats

__all__ = ["Solving", "Watch", "unsolved"]


_NOTHING = Record(0, 0, 0.0, float("nan"), float("nan"))


def _after(before: Record, line: Record) -> Record:
    """Return a record that counts what was done before."""
    return replace(
        line,
        step=before.step + line.step,
        passes=before.passes + line.passes,
        seconds=before.seconds + line.seconds,
    )


@dataclass(eq=False)
class Watch:
    """Stops a solver when the certificate of its best point holds, or when the user says so.

    The certificate is computed after 1000 passes over the data, which only the paper's solvers need, and each
    time they have doubled, so that it adds little.

    Parameters
    ----------
    problem, tol
        What is solved, and how well it is to be.
    callback
        The user's, of one record.
    verbose
        1 writes a line to standard error at most once a second, 2 at every step.
    before
        What earlier solves of the same fit took.
    certified
        Whether the certificate was seen to hold.
    seen, best
        The solver's records, and the best point so far.
    """

    problem: Problem
    tol: float
    callback: Callable[[Record], bool | None] | None
    verbose: int
    before: Record = _NOTHING
    certified: bool = False
    seen: list[Record] = field(default_factory=list)
    best: Floats | None = None
    _next_look: float = 1000.0
    _last_shown: float = float("-inf")

    def __call__(self, line: Record, best: Floats) -> bool:
        """Show, ask, look."""
        self.seen.append(line)
        self.best = best
        passes, line = line.passes, _after(self.before, line)
        now = time.monotonic()
        if self.verbose and (now - self._last_shown >= 1 or self.verbose > 1):
            self._last_shown = now
            sys.stderr.write(
                f"step {line.step:>5}  {line.passes:>9,} passes  {line.seconds:7.1f} s  "
                f"objective {line.objective:.6f}  violation {line.violation:.1e}\n"
            )
        if self.callback is not None and self.callback(line):
            return True
        if passes < self._next_look:
            return False
        self._next_look = 2.0 * passes
        self.certified = certify(self.problem, best, tol=self.tol).holds(self.tol)
        return self.certified


@dataclass(eq=False)
class Solving:
    """Solves one problem after another until the deadline; results carry the history of all.

    Parameters
    ----------
    solver
        For the first problem.
    tol, callback, verbose
        As in `Watch`.
    """

    solver: Solver
    tol: float
    callback: Callable[[Record], bool | None] | None
    verbose: int
    history: list[Record] = field(default_factory=list)

    def __call__(self, problem: Problem, start: Floats) -> Result:
        """Solve a problem."""
        return self._solve(self.solver, problem, start)

    def again(self, problem: Problem, start: Floats) -> Result:
        """Solve a problem that is nearly the last one, whose solution is the start."""
        return self._solve(self.solver.again(), problem, start)

    def is_stopped(self) -> bool:
        """Ask the user's callback, between solves, whether to stop."""
        return self.callback is not None and bool(self.callback(self._last))

    @property
    def _last(self) -> Record:
        return self.history[-1] if self.history else _NOTHING

    def _solve(self, solver: Solver, problem: Problem, start: Floats) -> Result:
        before = self._last
        watch = Watch(problem, self.tol, self.callback, self.verbose, before)
        try:
            result = solver.solve(problem, start, time_limit=seconds_left(), callback=watch)
        # Solvers of the user's own need not know that oracles end when time does.
        except OutOfTime:
            result = _unfinished(watch, start, Status.TIME_LIMIT)
        except KeyboardInterrupt:
            acknowledge_interrupt()
            result = _unfinished(watch, start, Status.STOPPED)
        self.history += [_after(before, line) for line in result.history[bool(self.history) :]]
        ended = Status.CONVERGED if watch.certified else result.ended
        return replace(result, history=tuple(self.history), ended=ended)


def unsolved(problem: Problem, start: Floats, status: Status) -> Result:
    """Return the start as the result of a solve that did not begin."""
    return _unfinished(Watch(problem, 0.0, None, 0), start, status)


def _unfinished(watch: Watch, start: Floats, status: Status) -> Result:
    """Return the best point that a solver has told of, or its start."""
    x = start if watch.best is None else watch.best
    with ignore_deadline():
        evaluation = watch.problem.evaluate(x)
    line = Record(0, watch.problem.n_passes, 0.0, evaluation.objective, evaluation.violation)
    feasible = evaluation.violation <= watch.tol
    history = tuple(watch.seen or [line])
    return Result(x, status, evaluation.objective, evaluation.violation, feasible, history)
