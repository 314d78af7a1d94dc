"""What every estimator does: state the problem, solve it, certify the answer, measure the exact gap."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from partialfair._typing import ArrayLike, Floats
from partialfair.constraints import Constraint, check_compatible, join
from partialfair.estimators._inputs import Features, known_groups, n_rows_of, read_features, read_groups
from partialfair.estimators._judge import judge
from partialfair.estimators.result import FitResult
from partialfair.exceptions import InputError, SurrogateWarning
from partialfair.groups import Groups, group_name
from partialfair.metrics.partial import WorstGap
from partialfair.models import linear_model
from partialfair.models.linear import LinearModel
from partialfair.objectives import Loss
from partialfair.problems import Problem, certify
from partialfair.solvers import Newton, Record, Result, Solver, Status
from partialfair.surrogates import Surrogate, surrogate

__all__ = ["PartialFairEstimator"]

# Width of a surrogate in units of the spread of the unconstrained scores. On a9a, law school and the made
# admissions at max_gap .05 the exact gap was smallest between .15 and .4.
_RELATIVE_WIDTH = 0.25


class PartialFairEstimator(BaseEstimator):
    """Fit and score linear models; what the labels mean is left to subclasses.

    Subclasses store the parameters that are read here, as `PartialFairClassifier` does.
    """

    def _check_settings(self) -> None:
        """Refuse numbers that cannot be right."""
        if not self.alpha >= 0:
            raise InputError(f"alpha must be at least 0, not {self.alpha}")
        if not self.tol > 0:
            raise InputError(f"tol must be positive, not {self.tol}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(f"time_limit must be positive or None, not {self.time_limit}")
        if self.max_iter is not None and not self.max_iter >= 1:
            raise InputError(f"max_iter must be at least 1 or None, not {self.max_iter}")
        if isinstance(self.surrogate, Surrogate) and self.surrogate_width != "auto":
            raise InputError("surrogate has a width of its own, so surrogate_width must not be given")
        surrogate(self.surrogate, 1.0 if self.surrogate_width == "auto" else self.surrogate_width)

    def _check_groups(self, groups: Groups | None, constraints: Sequence[Constraint]) -> Groups | None:
        """Refuse what the constraints or the group terms cannot work with, before any long work."""
        if not constraints and self.group_terms is None:
            return None
        if groups is None:
            wanted = "a constraint" if constraints else f"group_terms={self.group_terms!r}"
            raise InputError(
                f"{wanted} needs the group of every row: pass sensitive_features to fit, or name the "
                "columns of X in sensitive_columns"
            )
        if self.group_terms is not None and groups.codes.min(initial=0) < 0:
            row = int(np.flatnonzero(groups.codes < 0)[0])
            raise InputError(f"group_terms={self.group_terms!r} needs every row's group; row {row} has none")
        if constraints and len(groups.labels) < 2:
            who = f"only group {group_name(groups.labels[0])!r}" if groups.labels else "no group"
            raise InputError(f"sensitive_features has {who}; a constraint needs at least two groups")
        for constraint in constraints:
            constraint.intervals(groups)
        check_compatible(constraints, groups)
        return groups

    def _fit_model(
        self,
        X: Features,
        loss: Loss,
        constraints: Sequence[Constraint],
        groups: Groups | None,
        weights: Floats,
        solver: Solver,
    ) -> None:
        """Solve, certify, measure, and set the fitted attributes."""
        model = self._model(X, groups)
        width = self._width(model, loss, weights) if constraints else float("nan")
        blocks = [
            constraint.build(groups, weights, self._surrogate(width))
            for constraint in constraints
            if groups is not None
        ]
        problem = Problem(model, loss, join(blocks), self.alpha)
        found = solver.solve(
            problem, self._start(problem), time_limit=self.time_limit, callback=self._progress()
        )
        w = problem.split(found.x)[0]
        scores = model.scores(w)
        self.coef_, self.intercept_ = (part.copy() for part in model.unpack(w))
        if not self.fit_intercept:
            self.intercept_ = np.zeros(1)
        self.groups_: Any = None if groups is None else _object_array(groups.labels)
        self.n_iter_ = max(1, found.history[-1].step)
        gaps = tuple(judge(one, scores, groups, weights) for one in constraints if groups is not None)
        ties, spread = _tied_share(scores, weights), _spread(scores, weights)
        self.result_ = self._result(problem, found, constraints, gaps, width, ties, spread)
        self._warn(self.result_)

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Score rows as fitted; the group is read only if the model has group terms."""
        check_is_fitted(self)
        features, columns = read_features(self, X, self.sensitive_columns, reset=False)
        groups = None
        if self.group_terms is not None:
            groups = read_groups(sensitive_features, columns, n_rows_of(features))
            if groups is None:
                raise InputError(
                    f"group_terms={self.group_terms!r} needs the group to score a row: pass "
                    "sensitive_features, or name the columns of X in sensitive_columns"
                )
            groups = known_groups(groups, tuple(self.groups_))
        model = self._model(features, groups)
        intercepts = self.intercept_ if self.fit_intercept else np.empty(0)
        return model.scores(np.concatenate([self.coef_.ravel(), intercepts]))

    def _model(self, X: Features, groups: Groups | None) -> LinearModel:
        return linear_model(
            X,
            codes=None if groups is None else groups.codes,
            n_groups=1 if groups is None else len(groups.labels),
            group_terms=self.group_terms,
            fit_intercept=self.fit_intercept,
        )

    def _width(self, model: LinearModel, loss: Loss, weights: Floats) -> float:
        """Read the surrogate's width; "auto" is relative to the spread of the unconstrained scores."""
        if isinstance(self.surrogate, Surrogate):
            return self.surrogate.width
        if self.surrogate_width != "auto":
            return surrogate(self.surrogate, self.surrogate_width).width
        problem = Problem(model, loss, join([]), self.alpha)
        free = Newton(tol=1e-6).solve(problem, problem.trivial_start)
        spread = _spread(model.scores(free.x), weights)
        return _RELATIVE_WIDTH * spread if spread > 0 else 1.0

    def _surrogate(self, width: float) -> Surrogate:
        return surrogate(self.surrogate, width)

    def _start(self, problem: Problem) -> Floats:
        """Return the last solution when starting warm, else the best model that scores everybody alike.

        With thresholds moved along, that model is as feasible as w = 0 (Assumption assume:DC E), unless some
        constraint has a threshold of its own.
        """
        start = problem.trivial_start
        if self.fit_intercept:
            moved = start.copy()
            moved[problem.model.n_penalised :] += problem.loss.best_constant()
            if problem.evaluate(moved).violation <= problem.evaluate(start).violation:
                start = moved
            problem.n_passes = 0
        if not (self.warm_start and hasattr(self, "result_")):
            return start
        intercepts = self.intercept_ if self.fit_intercept else np.empty(0)
        last = np.concatenate([self.coef_.ravel(), intercepts, self.result_.thresholds])
        return last if last.shape == start.shape else start

    def _progress(self) -> Any:
        """Join the user's callback with lines on standard error, at most one a second, when verbose."""
        if not self.verbose:
            return self.callback
        last_shown = -np.inf

        def show(line: Record) -> bool | None:
            nonlocal last_shown
            now = time.monotonic()
            if now - last_shown >= 1 or self.verbose > 1:
                last_shown = now
                sys.stderr.write(
                    f"step {line.step:>5}  {line.passes:>9,} passes  {line.seconds:7.1f} s  "
                    f"objective {line.objective:.6f}  violation {line.violation:.1e}\n"
                )
            return None if self.callback is None else self.callback(line)

        return show

    def _result(
        self,
        problem: Problem,
        found: Result,
        constraints: Sequence[Constraint],
        gaps: tuple[WorstGap, ...],
        width: float,
        tied_share: float,
        spread: float,
    ) -> FitResult:
        certificate = certify(problem, found.x, tol=self.tol)
        excess = [gap.value - constraint.max_gap for gap, constraint in zip(gaps, constraints, strict=True)]
        binding = gaps[int(np.nanargmax(excess))] if not np.isnan(excess).all() else None
        status = found.status
        if certificate.holds(self.tol):
            status = Status.CONVERGED
        elif status is Status.CONVERGED:  # by the solver's own lights only
            status = Status.STALLED
        return FitResult(
            status=status,
            objective=found.objective,
            max_violation=found.violation,
            gap=float("nan") if binding is None else binding.value,
            binding=binding,
            gaps=gaps,
            thresholds=problem.split(found.x)[1].copy(),
            surrogate_width=width,
            tied_share=tied_share,
            spread=spread,
            history=found.history,
            kkt=certificate,
        )

    def _warn(self, result: FitResult) -> None:
        if result.status is not Status.CONVERGED:
            warnings.warn(
                f"the solver ended with status {result.status} after {result.history[-1].step} steps, and "
                f"the certificate does not hold at tol={self.tol:g}: {result.kkt}; raise max_iter or tol, or "
                "scale the features",
                ConvergenceWarning,
                stacklevel=4,
            )
        if result.status not in (Status.CONVERGED, Status.STALLED):
            return  # scores of unfinished work say little about where it would have ended
        if result.gaps and result.tied_share == 1:
            warnings.warn(
                "all training scores are equal: the model satisfies the constraint by ranking nobody",
                SurrogateWarning,
                stacklevel=4,
            )
        elif result.spread < result.surrogate_width:
            warnings.warn(
                f"the scores have shrunk to a spread of {result.spread:.3g}, less than one surrogate width "
                f"({result.surrogate_width:.3g}), within which only means are compared: the exact gap is "
                f"{result.gap:.3g}; narrow surrogate_width, or add features or group_terms that can close it",
                SurrogateWarning,
                stacklevel=4,
            )


def _object_array(labels: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return labels, which may be tuples, as a one-dimensional array."""
    array = np.empty(len(labels), dtype=object)
    for k, label in enumerate(labels):
        array[k] = label
    return array


def _spread(scores: Floats, weights: Floats) -> float:
    """Return the weighted interquartile range / 1.349: the standard deviation, if scores are normal."""
    order = np.argsort(scores)
    passed = np.cumsum(weights[order]) / weights.sum()
    low, high = scores[order[np.searchsorted(passed, [0.25 - 1e-12, 0.75 - 1e-12])]]
    return float(high - low) / 1.349


def _tied_share(scores: Floats, weights: Floats) -> float:
    """Return the largest share of the weight that one score holds."""
    _, position = np.unique(scores, return_inverse=True)
    return float(np.bincount(position, weights=weights).max() / weights.sum())
