"""The search for a model that an estimator makes: solve, correct, certify, and say how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partialfair._clock import OutOfTime, acknowledge_interrupt, deadline, out_of_time
from partialfair._typing import Floats
from partialfair.constraints import Constraint, join
from partialfair.constraints.base import Positive
from partialfair.estimators._exact import Attempt, Training, enforce_exactly
from partialfair.estimators._inputs import Features
from partialfair.estimators._placing import placed
from partialfair.estimators._promise import Promise, check_promises
from partialfair.estimators._watch import Solving, unsolved
from partialfair.estimators.result import FitResult
from partialfair.exceptions import SurrogateWarning
from partialfair.groups import Groups
from partialfair.models.linear import LinearModel
from partialfair.objectives import Difference, Loss
from partialfair.problems import Certificate, Problem, certify
from partialfair.solvers import Certified, Result, Solver, Status
from partialfair.surrogates import Surrogate

__all__ = ["Rows", "Search", "ending", "remarks_on"]

# Seconds after the deadline that the certificate of the best point may take.
_GRACE = 0.25

# How a solve may end because it was ended.
_CUTS = (Status.TIME_LIMIT, Status.STOPPED)

_ADVICE = {
    Status.MAX_ITER: "raise max_iter or tol",
    Status.TIME_LIMIT: "raise time_limit or tol",
    Status.STALLED: "its steps no longer move: raise tol, or take another solver",
    Status.STOPPED: "it was stopped by the callback or the keyboard",
    Status.NONFINITE: "it met values that are not finite: scale the features",
    Status.NO_FEASIBLE_POINT: (
        "it found no point that satisfies the constraints: raise max_gap, or add features or group_terms "
        "that can close the gap"
    ),
}


@dataclass(frozen=True, eq=False)
class Rows:
    """What a fit is about: the rows that have weight, and when it has to end.

    Attributes
    ----------
    X, weights, groups, positive
        Features, weights, groups if they are needed, and positives if there are classes.
    loss
        Of the rows' scores, in the units of the fit.
    deadline
        On the monotonic clock.
    """

    X: Features
    weights: Floats
    groups: Groups | None
    loss: Loss | Difference
    deadline: float
    positive: Positive = None


@dataclass(eq=False)
class Search:
    """The search for a model: the unconstrained one, then one that meets the constraints, then corrections.

    Whatever ends it, there is an attempt to show: the best so far.
    """

    estimator: Any
    model: LinearModel
    alpha: Floats
    rows: Rows
    constraints: tuple[Constraint, ...]
    solver: Solver
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
            self.free = self.estimator._free_fit(self.model, self.rows.loss, self.alpha)
            if self.free.status in _CUTS:
                return self.free.status
        self.best = first = self._first()
        if first.result.status in _CUTS:
            return first.result.status
        for attempt in enforce_exactly(first, self._solving.again) if self.exact else ():
            self.best = min(self.best, attempt, key=Attempt.worth)
            if attempt.result.status in _CUTS:
                return attempt.result.status
        return None

    def _first(self, unsolved_because: Status | None = None) -> Attempt:
        """State the problem and solve it, or show where the solver would have begun."""
        estimator, rows, constraints = self.estimator, self.rows, self.constraints
        sigma: Surrogate | None = None
        promises: tuple[Promise, ...] = ()
        free = None if self.free is None else self.free.x
        if constraints:
            assert rows.groups is not None
            if free is None:
                free = Problem(self.model, rows.loss, join([]), self.alpha).constant_start
            scores = self.model.scores(free)
            sigma = estimator._sigma(scores, rows.weights)
            constraints = placed(constraints, scores, rows.groups, rows.weights)
            promises = estimator._promises(constraints, rows.groups, rows.weights, rows.positive)
            check_promises(promises)
        trained = tuple(
            promise.constraint.prepared() if self.exact else promise.constraint for promise in promises
        )
        training = Training(
            self.model, rows.loss, self.alpha, rows.weights, rows.positive, promises, estimator.tol
        )
        blocks = training.blocks(trained, sigma)
        problem = training.problem(blocks)
        self._solving = Solving(
            estimator._suited(self.solver, problem), estimator.tol, estimator.callback, estimator.verbose
        )
        labels = () if rows.groups is None else rows.groups.labels
        feasible_start = unsolved_because is None and not isinstance(self._solving.solver, Certified)
        start = estimator._start(problem, self.model, labels, None if feasible_start else free)
        if unsolved_because is not None:
            result = unsolved(problem, start, unsolved_because)
        else:
            result = self._solving(problem, start)
        return Attempt(training, trained, sigma, blocks, problem, result)


def ending(
    attempt: Attempt, certificate: Certificate, cut: Status | None, exact: bool
) -> tuple[Status, str | None]:
    """Return the status, and what is in the way if no point was found that keeps the promise."""
    status = attempt.result.status
    certified = certificate.holds(attempt.training.tol)
    if cut is not None and not (certified and (attempt.kept or not exact)):
        return cut, None
    if certified:
        status = Status.CONVERGED
    elif status is Status.CONVERGED:  # by the solver's own lights only
        status = Status.STALLED
    if exact and not attempt.kept and status in (Status.CONVERGED, Status.MAX_ITER, Status.STALLED):
        return Status.NO_FEASIBLE_POINT, attempt.obstacle
    if status is Status.NO_FEASIBLE_POINT:
        values = attempt.problem.evaluate(attempt.result.x).constraints
        return status, attempt.problem.constraints.names[int(np.argmax(values))]
    return status, None


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
