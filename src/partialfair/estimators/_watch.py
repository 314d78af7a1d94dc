"""One or several solves as one fit: progress, the user's callback, the clock, a look at the certificate."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from partialfair._typing import Floats
from partialfair.problems import Problem, certify
from partialfair.solvers import Certified, Record, Result, Solver, Status

__all__ = ["Solving", "Watch"]


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
    """

    problem: Problem
    tol: float
    callback: Callable[[Record], bool | None] | None
    verbose: int
    before: Record = _NOTHING
    certified: bool = False
    _next_look: float = 1000.0
    _last_shown: float = float("-inf")

    def __call__(self, line: Record, best: Floats) -> bool:
        """Show, ask, look."""
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
    """Solves one problem after another; results carry the history of all.

    Parameters
    ----------
    solver
        For the first problem.
    tol, callback, verbose
        As in `Watch`.
    time_limit
        Of all solves together.
    """

    solver: Solver
    tol: float
    time_limit: float | None
    callback: Callable[[Record], bool | None] | None
    verbose: int
    history: list[Record] = field(default_factory=list)

    def __call__(self, problem: Problem, start: Floats) -> Result:
        """Solve a problem."""
        return self._solve(self.solver, problem, start)

    def again(self, problem: Problem, start: Floats) -> Result:
        """Solve a problem that is nearly the last one, whose solution is the start."""
        solver = self.solver
        if isinstance(solver, Certified):
            solver = replace(solver, warm=True)
        return self._solve(solver, problem, start)

    def _solve(self, solver: Solver, problem: Problem, start: Floats) -> Result:
        before = self.history[-1] if self.history else _NOTHING
        left = None if self.time_limit is None else max(self.time_limit - before.seconds, 1e-9)
        watch = Watch(problem, self.tol, self.callback, self.verbose, before)
        found = solver.solve(problem, start, time_limit=left, callback=watch)
        self.history += [_after(before, line) for line in found.history[bool(self.history) :]]
        status = Status.CONVERGED if watch.certified else found.status
        return replace(found, history=tuple(self.history), status=status)
