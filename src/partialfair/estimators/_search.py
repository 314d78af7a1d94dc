"""The search for a model that an estimator makes: solve, correct, certify, and say how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partialfair._clock import OutOfTime, acknowledge_interrupt, deadline, out_of_time
from partialfair._typing import Floats
from partialfair.constraints import Constraint, OnAGrid, join
from partialfair.constraints.base import Positive
from partialfair.estimators._exact import Attempt, Training, enforce_exactly
from partialfair.estimators._inputs import Features
from partialfair.estimators._placing import placed
from partialfair.estimators._promise import Promise, check_promises
from partialfair.estimators._watch import Solving, unsolved
from partialfair.estimators.result import FitResult
from partialfair.exceptions import SurrogateWarning
from partialfair.groups import Groups
from partialfair.objectives import Objective
from partialfair.problems import Certificate, People, Problem, TrainingData, certify
from partialfair.solvers import CUT_SHORT, Result, Solver, Status, decided
from partialfair.solvers.result import unconstrained_start
from partialfair.surrogates import Surrogate

__all__ = ["FitRows", "Search", "ending", "remarks_on"]

# Seconds after the deadline that the certificate of the best point may take.
_GRACE = 0.25

_ADVICE = {
    Status.MAX_ITER: "raise max_iter or tol",
    Status.TIME_LIMIT: "raise time_limit or tol",
    Status.STATIONARY: "it found a stationary point whose certificate does not hold: lower its tol",
    Status.STALLED: "its steps no longer move: raise tol, or take another solver",
    Status.STOPPED: "it was stopped by the callback or the keyboard",
    Status.NONFINITE: "it met values that are not finite: scale the features",
    Status.NO_FEASIBLE_POINT: (
        "it found no point that satisfies the constraints: raise max_gap, or add features or group_terms "
        "that can close the gap"
    ),
}


@dataclass(frozen=True, eq=False)
class FitRows:
    """What a fit is about: the rows that have weight, and when it has to end.

    Attributes
    ----------
    X, weights, groups, positive
        Features, weights, groups if they are needed, and positives if there are classes.
    objective
        The loss of the rows' scores, in the units of the fit.
    deadline
        On the monotonic clock.
    """

    X: Features
    weights: Floats
    groups: Groups | None
    objective: Objective
    deadline: float
    positive: Positive = None

    @property
    def people(self) -> People:
        """What the referee must know of the rows."""
        codes = np.full(self.weights.size, -1) if self.groups is None else self.groups.codes
        return People(self.weights, codes, self.positive)


@dataclass(eq=False)
class Search:
    """The search for a model: the unconstrained one, then one that meets the constraints, then corrections.

    Whatever ends it, there is an attempt to show: the best so far.

    Attributes
    ----------
    estimator
        Its settings, and what an earlier fit left for a warm start.
    data
        The rows, wherever they lie.
    alpha
        Of the penalty, for each penalised parameter.
    rows
        What is known of the rows beside their features.
    constraints, solver
        What is asked for, and who solves it.
    last
        Parameters and thresholds of an earlier fit to start from, if there is one.
    """

    estimator: Any
    data: TrainingData
    alpha: Floats
    rows: FitRows
    constraints: tuple[Constraint, ...]
    solver: Solver
    last: tuple[Floats, Floats] | None = None
    free: Result | None = None
    best: Attempt | None = None

    @property
    def exact(self) -> bool:
        """Whether exact gaps are to be small enough."""
        return self.estimator.enforce == "exact" and bool(self.constraints)

    def run(self, moment: float) -> tuple[Attempt, Status | None]:
        """Return the best attempt until a moment, and what cut the search short, if anything did."""
        cut: Status | None
        with deadline(moment):
            try:
                cut = self._search()
            except OutOfTime:
                cut = Status.TIME_LIMIT
            except KeyboardInterrupt:
                acknowledge_interrupt()
                cut = Status.STOPPED
            if self.best is None:  # the unconstrained model is all there is
                self.best = self._first(cut or Status.TIME_LIMIT)
        return self.best, cut

    def certificate(self, attempt: Attempt, moment: float) -> Certificate:
        """Return the certificate of an attempt; a moment after the deadline is left for it."""
        try:
            with deadline(moment):
                certificate = attempt.certificate
            if not out_of_time(moment) or certificate.holds(attempt.training.tol):
                return certificate
            with deadline(moment + _GRACE):
                return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)
        except KeyboardInterrupt:
            acknowledge_interrupt()
            with deadline(0.0):
                return certify(attempt.problem, attempt.result.x, tol=attempt.training.tol)

    def _search(self) -> Status | None:
        """Search; return what cut it short."""
        if self.constraints:
            self.free = self.estimator._free_fit(self._free_problem)
            if self.free.ended in CUT_SHORT:
                return self.free.ended
        self.best = first = self._first()
        if first.result.ended in CUT_SHORT:
            return first.result.ended
        for attempt in enforce_exactly(first, self._solving.again) if self.exact else ():
            self.best = min(self.best, attempt, key=Attempt.worth)
            if attempt.result.ended in CUT_SHORT:
                return attempt.result.ended
        return None

    @cached_property
    def _free_problem(self) -> Problem:
        return Problem.about(self.data, self.rows.objective, join([]), self.alpha)

    def _first(self, unsolved_because: Status | None = None) -> Attempt:
        """State the problem and solve it, or show where the solver would have begun."""
        estimator, constraints = self.estimator, self.constraints
        free = self._free_problem.constant_start if self.free is None else self.free.x
        sigma: Surrogate | None = None
        promises: tuple[Promise, ...] = ()
        if constraints:
            assert self.rows.groups is not None
            counts = self._free_problem.rows.at(free).counts()
            sigma = estimator._sigma(counts)
            constraints = placed(constraints, counts, self.rows.groups.labels)
            promises = estimator._promises(
                constraints, self.rows.groups, self.rows.weights, self.rows.positive
            )
            check_promises(promises)
        trained = tuple(self._trained(promise.constraint) for promise in promises)
        training = Training(
            self.data,
            self.rows.objective,
            self.alpha,
            self.rows.weights,
            self.rows.positive,
            promises,
            estimator.tol,
        )
        problem = training.problem(training.blocks(trained, sigma))
        solver = estimator._suited(self.solver, problem)
        self._solving = Solving(solver, estimator.tol, estimator.callback, estimator.verbose)
        last = self._last_of(problem)
        if unsolved_because is None:
            result = self._solving(problem, solver.start(problem, free, last))
        else:
            result = unsolved(problem, unconstrained_start(problem, free, last), unsolved_because)
        return Attempt(training, trained, sigma, problem, result)

    def _trained(self, constraint: Constraint) -> Constraint:
        """Return what to train for a promise: on a grid that reaches as far as the exact gap does."""
        if self.exact and isinstance(constraint, OnAGrid):
            return constraint.on_grid(constraint.grid)
        return constraint

    def _last_of(self, problem: Problem) -> Floats | None:
        """Return the solution of an earlier fit, with its thresholds if they are as many."""
        if self.last is None:
            return None
        w, thresholds = self.last
        if w.size != problem.rows.parameters.n:
            return None
        same = thresholds.size == problem.bank.n_theta
        return np.concatenate([w, thresholds]) if same else problem.start_at(w)


def ending(
    attempt: Attempt, certificate: Certificate, cut: Status | None, exact: bool
) -> tuple[Status, str | None]:
    """Return the status, and what is in the way if no point was found that keeps the promise."""
    result = attempt.result
    status = decided(
        result.ended if cut is None else cut,
        feasible=result.feasible,
        certified=certificate.holds(attempt.training.tol),
        promise_kept=attempt.kept if exact else None,
    )
    if status is not Status.NO_FEASIBLE_POINT:
        return status, None
    if exact and not attempt.kept:
        return status, attempt.obstacle
    values = attempt.problem.evaluate(result.x).constraints
    return status, attempt.problem.constraints.names[int(np.argmax(values))]


def remarks_on(result: FitResult) -> list[Warning]:
    """Say what the fit leaves open: an unfinished solve, or a surrogate that has lost touch with the gap."""
    remarks: list[Warning] = []
    if result.status is not Status.CONVERGED:
        obstacle = "" if result.obstacle is None else f" (in the way: {result.obstacle})"
        holds = "holds" if result.kkt.holds(result.tol) else "does not hold"
        remarks.append(
            ConvergenceWarning(
                f"the solver ended with status {result.status} after {result.history[-1].step} steps, and "
                f"the certificate {holds} at tol={result.tol:g} ({result.kkt}); "
                f"{_ADVICE[result.status]}{obstacle}"
            )
        )
    if result.gaps and result.tied_share == 1:
        remarks.append(SurrogateWarning("all training scores are equal: the model ranks nobody"))
    elif (
        result.surrogate
        and result.spread < result.surrogate.width
        and np.nanmax(result.excess, initial=0.0) > 0
    ):
        remarks.append(
            SurrogateWarning(
                f"the scores have a spread of {result.spread:.3g}, less than one surrogate width "
                f"({result.surrogate.width:.3g}), within which only means are compared: the exact gap is "
                f"{result.gap:.3g}; narrow surrogate_width, or add features or group_terms that can close it"
            )
        )
    return remarks
