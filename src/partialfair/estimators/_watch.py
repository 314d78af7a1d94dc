"""What happens after every step of a solver: progress, the user's callback, and a look at the certificate."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from partialfair._typing import Floats
from partialfair.problems import Problem, certify
from partialfair.solvers import Record

__all__ = ["Watch"]


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
    """

    problem: Problem
    tol: float
    callback: Callable[[Record], bool | None] | None
    verbose: int
    _next_look: float = 1000.0
    _last_shown: float = float("-inf")

    def __call__(self, line: Record, best: Floats) -> bool:
        """Show, ask, look."""
        now = time.monotonic()
        if self.verbose and (now - self._last_shown >= 1 or self.verbose > 1):
            self._last_shown = now
            sys.stderr.write(
                f"step {line.step:>5}  {line.passes:>9,} passes  {line.seconds:7.1f} s  "
                f"objective {line.objective:.6f}  violation {line.violation:.1e}\n"
            )
        if self.callback is not None and self.callback(line):
            return True
        if line.passes < self._next_look:
            return False
        self._next_look = 2.0 * line.passes
        return certify(self.problem, best, tol=self.tol).holds(self.tol)
