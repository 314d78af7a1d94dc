"""Solved problems of one fit, and what the exact metrics say of their solutions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from partialfair.constraints import Constraint
from partialfair.constraints.surrogates import Surrogate
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import Certificate, Problem, certify
from partialfair.optimization.solvers import CUT_SHORT, Result, Status
from partialfair.training.candidates import Candidate, Pool
from partialfair.training.fit_problem import Training
from partialfair.training.result import ROUNDING_OF_GAPS
from partialfair.utils.clock import ignore_deadline
from partialfair.utils.typing import Floats

__all__ = ["Attempt", "Attempts"]


@dataclass(frozen=True, eq=False)
class Attempt:
    """A solved problem, the constraints that were trained, and the exact gaps of the solution.

    Attributes
    ----------
    training
        What the attempt has in common with others.
    constraints, sigma
        What was trained: constraints that may allow less than was stated, and the surrogate.
    problem, result
        The problem, and what the solver made of it.
    number
        How many corrections led to it.
    rank_by_rank
        Whether its constraints are true of the solution before it, rank by rank.
    halved
        How often the surrogate was made half as wide.
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
        """Steps that all solves took up to this one."""
        return self.result.history[-1].step

    @property
    def w(self) -> Floats:
        """Parameters of the solution."""
        return self.problem.split(self.result.x)[0]

    @cached_property
    def gaps(self) -> tuple[WorstGap, ...]:
        """The exact gaps, one for each constraint."""
        return self.training.gaps(self.problem.rows.at(self.w).counts())

    @property
    def excess(self) -> Floats:
        """By how much each exact gap is too wide; 0 where no metric is known."""
        gaps = np.array([gap.value for gap in self.gaps])
        return np.asarray(np.nan_to_num(gaps - self.training.max_gaps))

    @property
    def surrogate_bias(self) -> Floats:
        """By how much each exact gap is wider than the trained constraint allows, in units of √κ.

        0 where no metric is known, or nothing is allowed.
        """
        gaps, allowed = (gap.value for gap in self.gaps), (one.max_gap for one in self.constraints)
        wider, unit = np.nan_to_num(np.array([*gaps]) - np.array([*allowed])), np.sqrt(self.training.max_gaps)
        return np.asarray(np.divide(wider, unit, out=np.zeros(unit.size), where=unit > 0))

    @property
    def gap(self) -> float:
        """The exact gap that is widest relative to what is allowed; nan without constraints."""
        return float(self.gaps[int(np.argmax(self.excess))].value) if self.gaps else float("nan")

    @property
    def satisfied(self) -> bool:
        """Whether the promise is kept."""
        return bool((self.excess <= ROUNDING_OF_GAPS).all())

    def uses_its_gap(self, but_for: float) -> bool:
        """Whether the promise is kept, and no more than a share of what it allows is left unused."""
        return self.satisfied and bool(self.excess.max() >= -but_for * self.training.max_gaps.min())

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate of the solution."""
        return certify(self.problem, self.result.x, tol=self.training.tol)

    @property
    def solved(self) -> bool:
        """Whether the certificate holds; nobody need compute it where constraints are violated."""
        tol = self.training.tol
        return self.result.violation <= tol and self.certificate.holds(tol)

    @property
    def arrived(self) -> bool:
        """Whether the solver says that it converged, or the certificate holds."""
        return self.result.ended is Status.CONVERGED or self.solved


@dataclass(frozen=True, eq=False)
class Attempts:
    """Attempts of one fit, whose solutions are candidates.

    Attributes
    ----------
    pool
        All candidates of the fit.
    """

    pool: Pool
    _evaluated: dict[Attempt, Candidate] = field(default_factory=dict)

    def evaluate(self, attempt: Attempt, how: str) -> Candidate:
        """Make the solution of an attempt a candidate."""
        with ignore_deadline():  # a solve that was cut short may have come to a better model than any before
            candidate = self.pool.add(attempt.w, how, attempt.gaps)
        self.note(attempt, candidate)
        return candidate

    def note(self, attempt: Attempt, candidate: Candidate) -> None:
        """Remember an attempt whose solution is a candidate already."""
        self._evaluated[attempt] = candidate

    def is_feasible(self, attempt: Attempt) -> bool:
        """Whether the solution of an attempt satisfies the constraints."""
        candidate = self._evaluated.get(attempt)
        return candidate is not None and self.pool.is_feasible(candidate)

    def has_feasible_kkt_point(self, attempt: Attempt) -> bool:
        """Whether the solution satisfies the constraints and its KKT certificate holds."""
        return self.is_feasible(attempt) and attempt.solved

    @property
    def any(self) -> bool:
        """Whether there is an attempt."""
        return bool(self._evaluated)

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
        """All attempts: those that satisfy the constraints first, and arrived, by objective."""
        return sorted(self._evaluated, key=self._sort_key)

    @property
    def best(self) -> Attempt:
        """The first of the ordered attempts."""
        return min(self._evaluated, key=self._sort_key)

    @property
    def first(self) -> Candidate:
        """The solution of the first attempt."""
        return next(iter(self._evaluated.values()))

    @property
    def cut_short(self) -> Status | None:
        """What cut a solve short: the user or the clock."""
        endings = (attempt.result.ended for attempt in self._evaluated)
        return next((status for status in endings if status in CUT_SHORT), None)

    def _sort_key(self, attempt: Attempt) -> tuple[bool, bool, float]:
        satisfied = self.is_feasible(attempt)
        value = attempt.result.objective if satisfied else self._evaluated[attempt].worst
        return not satisfied, not attempt.arrived, value
