"""What every estimator does: state the problem, solve it, certify the answer, measure the exact gap."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from partialfair._checks import check_count, check_flag, check_number, is_finite_number
from partialfair._clock import deadline_in, noticing_interrupts, unhurried
from partialfair._state import StoredAsPairs
from partialfair._typing import ArrayLike, Floats
from partialfair.constraints import Constraint
from partialfair.constraints.base import Positive
from partialfair.estimators._flat import flat_scores_warning
from partialfair.estimators._idle import idle_threshold_warning
from partialfair.estimators._inputs import (
    Features,
    in_columns_of,
    known_groups,
    n_rows_of,
    names_of,
    read_features,
    read_groups,
)
from partialfair.estimators._origin import Origin
from partialfair.estimators._overfitted import overfitted_gap_warning
from partialfair.estimators._path_memory import PathMemory, PreparedRows
from partialfair.estimators._path_rows import GivenRows
from partialfair.estimators._population import check_population_settings, fit_for_new_people
from partialfair.estimators._promise import (
    Promise,
    check_promises,
    promised,
    small_group_warning,
    small_groups,
)
from partialfair.estimators._scales import ColumnUnits, column_units, penalized_warning
from partialfair.estimators._search import Search, ending, remarks_on
from partialfair.estimators._statement import Automatic, read_constraints, seed_of
from partialfair.estimators._stored import check_stored
from partialfair.estimators._threads import one_blas_thread
from partialfair.estimators._training import FitRows
from partialfair.estimators._units import estimator_in_units, take_over
from partialfair.estimators.result import FitResult
from partialfair.exceptions import InputError
from partialfair.groups import Groups, group_name
from partialfair.models import linear_model
from partialfair.models.linear import LinearModel
from partialfair.problems import Counts, InMemoryData, Problem
from partialfair.problems.ranks import spread, tied_share
from partialfair.solvers import IDCA, Newton, Result, Solver
from partialfair.surrogates import Surrogate, surrogate

__all__ = ["PartialFairEstimator"]

# Width of a surrogate in units of the spread of the unconstrained scores. On a9a, law school and the made
# admissions at max_gap .05 the exact gap was smallest between .15 and .4.
_RELATIVE_WIDTH = 0.25

# Scores whose spread is smaller, relative to their size, are all alike but for rounding errors.
_SPREAD_AT_ALL = 1e-9

_FREE_TOL = 1e-2
"""Gradient of the unconstrained model, which is only a start, in units of tol."""


class PartialFairEstimator(StoredAsPairs, BaseEstimator):
    """Fit and score linear models; what the labels mean is left to subclasses.

    Subclasses store the parameters that are read here, as `PartialFairClassifier` does.
    """

    result_: FitResult

    _memory: PathMemory | None = None
    """What other fits of the same rows have found: `fairness_path`."""

    _origin: Origin | None = None
    """Another model that coefficients are counted from: `partialfair.trees`."""

    takes_tables: ClassVar[bool] = False
    """Whether features may be categories, and missing."""

    _told_by_fits: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "groups_", "classes_", "n_iter_")
    """What one fit leaves to another estimator that it was made for, beside ``result_``."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a fitted model; those of earlier versions lack parameters that are newer than they are."""
        super().__setstate__(state)
        for name, parameter in signature(type(self).__init__).parameters.items():
            if parameter.default is not Parameter.empty and name not in vars(self):
                setattr(self, name, parameter.default)
        if "result_" in vars(self) and "enforce" not in vars(self.result_):
            self.result_ = replace(self.result_, enforce=self.enforce)

    def _check_settings(self) -> None:
        """Refuse settings that cannot be right."""
        self._check_alpha()
        check_number(self.tol, "tol", above=0.0)
        if self.time_limit is not None:
            check_number(self.time_limit, "time_limit", above=0.0)
        if self.max_iter is not None:
            check_count(self.max_iter, "max_iter")
        check_count(self.n_starts, "n_starts")
        check_count(self.min_group_size, "min_group_size")
        check_flag(self.higher_is_better, "higher_is_better")
        check_flag(self.allow_ties, "allow_ties")
        check_flag(self.warm_start, "warm_start")
        if not isinstance(self.verbose, bool):
            check_count(self.verbose, "verbose", low=0)
        if not isinstance(self.random_state, np.random.RandomState):  # from which that would draw
            seed_of(self)
        check_count(self.search_steps, "search_steps", low=0)
        check_count(self.surrogate_halvings, "surrogate_halvings", low=0)
        check_population_settings(self)
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be a function of one record, not {self.callback!r}")
        if isinstance(self.surrogate, Surrogate) and self.surrogate_width != "auto":
            raise InputError("surrogate has a width of its own, so surrogate_width must not be given")
        surrogate(self.surrogate, 1.0 if self.surrogate_width == "auto" else self.surrogate_width)

    def _check_alpha(self) -> None:
        check_number(self.alpha, "alpha", low=0.0)

    def _deadline(self) -> float:
        """Return when the fit that begins now has to end; settings are checked later."""
        limit = self.time_limit
        return deadline_in(float(limit) if limit is not None and is_finite_number(limit) else None)

    def _fit_for_new_people(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sensitive_features: ArrayLike | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
        moment: float,
    ) -> Self:
        """Fit for a promise about new people; settings were checked."""
        fit_for_new_people(self, X, y, sensitive_features, sample_weight, clusters, moment)
        return self

    def _refuse_clusters(self, clusters: ArrayLike | None) -> None:
        """Refuse clusters where no rows are held out: they change no fit."""
        if clusters is not None:
            raise InputError(
                "clusters say which rows are held out together and how sure the promise about new people is, "
                f"and enforce={self.enforce!r} makes none; leave them out"
            )

    def _read_features(self, X: ArrayLike, *, reset: bool) -> tuple[Features, dict[str, ArrayLike] | None]:
        """Return features, and the columns taken out of them that hold the group."""
        return read_features(self, X, self.sensitive_columns, reset=reset)

    def _read_constraints(self) -> tuple[Constraint, ...]:
        """Return the constraints that the parameters state."""
        return read_constraints(self)

    def _for_several_fits(self, rows: GivenRows, gaps: Sequence[float] = ()) -> Self:
        """Return an estimator that is not fitted, to be copied for several fits on the same rows.

        What it would choose by the rows is chosen once, for the gaps that are to be allowed in turn.
        """
        return clone(self)  # type: ignore[no-any-return]

    def _check_stored(self) -> None:
        """Refuse what a file holds if it could not score rows."""
        check_stored(self)

    def _read_groups(
        self,
        sensitive_features: ArrayLike | None,
        columns: dict[str, ArrayLike] | None,
        present: npt.NDArray[np.bool_],
        constraints: Sequence[Constraint],
        weights: Floats,
        positive: Positive = None,
    ) -> Groups | None:
        """Return the groups of the rows that count, if anything needs them; refuse what cannot work."""
        if not constraints and self.group_terms is None:
            return None
        everybody = read_groups(
            sensitive_features,
            columns,
            present.size,
            self.missing_groups,
            advice="; missing_groups='ignore' lets such rows count in the loss only",
        )
        if everybody is None:
            wanted = "a constraint" if constraints else f"group_terms={self.group_terms!r}"
            raise InputError(
                f"{wanted} needs the group of every row: pass sensitive_features to fit, or name the "
                "columns of X in sensitive_columns"
            )
        groups = everybody.take(present)
        if self.group_terms is not None and groups.codes.min(initial=0) < 0:
            row = int(np.flatnonzero(everybody.codes < 0)[0])
            raise InputError(f"group_terms={self.group_terms!r} needs every row's group; row {row} has none")
        if constraints and len(groups.labels) < 2:
            who = f"only group {group_name(groups.labels[0])!r}" if groups.labels else "no group"
            raise InputError(f"sensitive_features has {who}; a constraint needs at least two groups")
        promises = self._promises(constraints, groups, weights, positive)
        check_promises(promises)
        remark = overfitted_gap_warning(promises, weights, positive)
        if remark is not None:
            warnings.warn(remark, stacklevel=3)
        self._group_columns = names_of(sensitive_features)
        return groups

    def _promises(
        self, constraints: Sequence[Constraint], groups: Groups, weights: Floats, positive: Positive
    ) -> tuple[Promise, ...]:
        """Return every constraint with the groups that are large enough for it."""
        return tuple(
            promised(stated, groups, weights, positive, self.min_group_size) for stated in constraints
        )

    def _fit_in_units(
        self, unit: float, rows: FitRows, constraints: Sequence[Constraint], solver: Solver
    ) -> None:
        """Fit a copy that counts scores in a unit, and take over what it says; then warn.

        The loss of the rows counts scores in the unit already. A negative unit makes low scores high.
        """
        scaled = estimator_in_units(self, unit)
        stated = [one.in_units(unit) for one in constraints]
        remarks = scaled._fit_model(rows, stated, solver)
        take_over(self, scaled, unit)
        for remark in [*remarks_on(self.result_), *remarks]:
            warnings.warn(remark, stacklevel=3)

    def _fit_model(self, rows: FitRows, constraints: Sequence[Constraint], solver: Solver) -> list[Warning]:
        """Solve, certify, measure, and set the fitted attributes; return what is to be warned of."""
        # The first model of a path has no constraint, and may do without the groups of its rows.
        memory = self._memory if self._memory is not None and constraints else PathMemory()
        prepared = memory.prepared = memory.prepared or self._prepared(rows)
        rows = replace(prepared.rows, deadline=rows.deadline)
        units, model = prepared.units, prepared.model
        # NumPy and SciPy bring a BLAS each, whose threads get in each other's way: small products, of which a
        # solve has many, take several times as long with both.
        with one_blas_thread(), noticing_interrupts():
            last = self._last(model, rows.groups)
            blur = getattr(self, "_blur", None)
            if blur is not None and blur.size != len(constraints):
                blur = None
            box = None if self._origin is None else self._origin.domain(model)
            search = Search(
                self, prepared.data, prepared.alpha, rows, tuple(constraints), solver, box, last, blur, memory
            )
            found = search.run(rows.deadline)
            certificate = search.certificate(found.attempt, rows.deadline)
            status, obstacle = ending(found, certificate, search.exact)
        attempt, training = found.attempt, found.attempt.training
        if self.warm_start and attempt.constraints and not attempt.rank_by_rank:
            self._blur = attempt.blur
        result = attempt.result
        same = np.array_equal(found.w, attempt.w)
        with unhurried():
            x = result.x if same else attempt.problem.start_at(found.w)
            violation = result.violation if same else attempt.problem.evaluate(x).violation
            constant_objective = search.constant_objective
        accuracy, constant_accuracy = _accuracies(found.counts, sign=1.0 if self.higher_is_better else -1.0)
        self.coef_, intercepts = (part.copy() for part in model.unpack(found.w))
        labels = () if rows.groups is None else rows.groups.labels
        n_intercepts = 1 if self.group_terms is None else len(labels)
        self.intercept_ = intercepts if self.fit_intercept else np.zeros(n_intercepts)
        self.groups_: Any = _object_array(labels) if rows.groups is not None else None
        self.n_iter_ = max(1, result.history[-1].step)
        self.result_ = FitResult(
            status=status,
            objective=found.objective,
            max_violation=violation,
            constraints=tuple(promise.stated for promise in training.promises),
            gaps=training.gaps(found.counts),
            thresholds=attempt.problem.split(x)[1].copy(),
            obstacle=obstacle,
            surrogate=attempt.sigma,
            tied_share=tied_share(found.counts),
            spread=spread(found.counts),
            history=result.history,
            kkt=replace(certificate, objective=result.objective, gap=attempt.gap),
            tol=self.tol,
            enforce=self.enforce,
            small_groups=small_groups(training.promises),
            higher_is_better=self.higher_is_better,
            search=found.tried,
            interval_chosen=any(isinstance(one.interval, Automatic) for one in constraints),
            constant_objective=constant_objective,
            accuracy=accuracy,
            constant_accuracy=constant_accuracy,
        )
        penalized = penalized_warning(self, rows.X, units, self.alpha) if self._origin is None else None
        remarks: list[Warning | None] = [
            units.remark(self),
            penalized,
            small_group_warning(training.promises),
        ]
        free = None if search.free is None else model.scores(search.free.x)
        remarks.append(flat_scores_warning(self.result_, found.counts, free))
        if self.result_.tied_share < 1:
            remarks.append(idle_threshold_warning(training.promises, found.counts))
        return [remark for remark in remarks if remark is not None]

    def _prepared(self, rows: FitRows) -> PreparedRows:
        """Return rows in units that suit the solver."""
        units = column_units(rows.X, rows.weights, centred=self.fit_intercept)
        model = self._model(rows.X, rows.groups, units)
        alpha = np.tile(units.penalties(self.alpha), model.n_vectors)
        data = InMemoryData(model, rows.objective, rows.people)
        return PreparedRows(rows, units, model, alpha, data)

    def _suited(self, solver: Solver, problem: Problem) -> Solver:
        """Return the solver, or one that suits the problem better if it was chosen by name."""
        if not isinstance(self.solver, str):
            return solver
        if not problem.m:
            return Newton()  # constraints that nothing can violate
        if self.solver == "idca" and problem.rows.parameters.block_size > Newton.largest_block:
            # Hessians would be too large.
            return IDCA() if self.max_iter is None else IDCA(max_iter=self.max_iter)
        return solver

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Score rows as fitted; the group is read only if the model has group terms."""
        check_is_fitted(self)
        features, columns = self._read_features(X, reset=False)
        n_codes, n_intercepts = len(self.coef_), len(self.intercept_)
        groups = None
        if max(n_codes, n_intercepts) > 1:
            given = in_columns_of(self._group_columns, sensitive_features)
            groups = read_groups(given, columns, n_rows_of(features))
            if groups is None:
                raise InputError(
                    "the model has group terms, so it needs the group to score a row: pass "
                    "sensitive_features, or name the columns of X in sensitive_columns"
                )
            groups = known_groups(groups, tuple(self.groups_))
        terms = "interactions" if n_codes > 1 else "intercept" if n_intercepts > 1 else None
        model = linear_model(
            features,
            codes=None if groups is None else groups.codes,
            n_groups=1 if groups is None else len(groups.labels),
            group_terms=terms,  # type: ignore[arg-type]
        )
        if model.design.shape[1] != self.coef_.shape[1]:
            raise InputError(
                f"X has {model.design.shape[1]} features, but there are {self.coef_.shape[1]} coefficients"
            )
        return model.scores(model.pack(self.coef_, self.intercept_))

    def _model(self, X: Features, groups: Groups | None, units: ColumnUnits) -> LinearModel:
        model = linear_model(
            X,
            codes=None if groups is None else groups.codes,
            n_groups=1 if groups is None else len(groups.labels),
            group_terms=self.group_terms,
            fit_intercept=self.fit_intercept,
            scales=units.scales,
            centres=units.centres,
        )
        return model if self._origin is None else self._origin.moved(model)

    def _free_fit(self, problem: Problem) -> Result:
        """Return the unconstrained model."""
        last = getattr(self, "_free", None) if self.warm_start else None
        if last is None or last.size != problem.n:
            last = problem.constant_start if self._origin is None else np.zeros(problem.n)
        start = last
        free = Newton(tol=max(1e-6, _FREE_TOL * self.tol)).solve(problem, start)
        if self.warm_start:
            self._free = free.x
        return free

    def _sigma(self, counts: Counts) -> Surrogate:
        """Return the surrogate; "auto" makes it as wide as suits the spread of the unconstrained scores."""
        if isinstance(self.surrogate, Surrogate):
            return self.surrogate
        if self.surrogate_width != "auto":
            return surrogate(self.surrogate, float(self.surrogate_width))
        unit = spread(counts)
        width = _RELATIVE_WIDTH * unit if unit > _SPREAD_AT_ALL * (1 + np.abs(counts.scores).max()) else 1.0
        return surrogate("rounded_ramp" if self.surrogate == "ramp" else self.surrogate, width)

    def _last(self, model: LinearModel, groups: Groups | None) -> tuple[Floats, Floats] | None:
        """Return parameters and thresholds of the last fit, when starting warm and if they fit the model."""
        labels = () if groups is None else groups.labels
        if not (self.warm_start and hasattr(self, "result_") and _same(labels, self.groups_)):
            return None
        intercepts = self.intercept_ if self.fit_intercept else np.empty(0)
        shapes = (model.n_vectors, model.design.shape[1]), (model.n_intercepts,)
        if (self.coef_.shape, intercepts.shape) != shapes:
            return None
        return model.pack(self.coef_, intercepts), self.result_.thresholds


def _accuracies(counts: Counts, sign: float) -> tuple[float, float]:
    """Return the accuracy of scores and of the best constant prediction; nan without labels."""
    if counts.positive is None:
        return float("nan"), float("nan")
    rate = float(np.average(counts.positive, weights=counts.weights))
    accuracy = np.average((sign * counts.scores > 0) == counts.positive, weights=counts.weights)
    return float(accuracy), max(rate, 1 - rate)


def _same(labels: Sequence[Any], groups: Any) -> bool:
    return tuple(labels) == (() if groups is None else tuple(groups))


def _object_array(labels: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return labels, which may be tuples, as a one-dimensional array."""
    array = np.empty(len(labels), dtype=object)
    for k, label in enumerate(labels):
        array[k] = label
    return array
