"""What every estimator does: state the problem, solve it, certify the answer, measure the exact gap."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from partialfair.constraints import Constraint
from partialfair.constraints.base import Positive
from partialfair.constraints.surrogates import Surrogate, surrogate
from partialfair.data.groups import Groups, group_name
from partialfair.data.samples import Features, Samples, n_rows_of
from partialfair.estimators._stored import check_stored
from partialfair.estimators.inputs import (
    feature_name,
    in_columns_of,
    known_groups,
    names_of,
    read_features,
    read_groups,
    read_weights,
)
from partialfair.estimators.population import check_population_settings, fit_population
from partialfair.estimators.statement import read_constraints, read_solver, seed_of
from partialfair.exceptions import InputError
from partialfair.metrics.inputs import cluster_codes
from partialfair.optimization.models import linear_model
from partialfair.optimization.models.linear import GroupTerms
from partialfair.optimization.objectives import LossSettings, read_loss
from partialfair.optimization.problems import Cells
from partialfair.optimization.solvers import Solver
from partialfair.training.column_units import penalized_warning
from partialfair.training.fit import FitSettings, WarmStart, fit_linear
from partialfair.training.offset import Offset
from partialfair.training.path_memory import PathMemory
from partialfair.training.promise import check_promises, promises_of
from partialfair.training.remarks import overfitted_gap_warning, unfinished, uninformative_warning
from partialfair.training.result import FitResult
from partialfair.utils.checks import check_count, check_flag, check_number, finite_vector, is_finite_number
from partialfair.utils.clock import deadline_in
from partialfair.utils.state import StoredAsPairs
from partialfair.utils.typing import ArrayLike, Floats

__all__ = ["PartialFairEstimator"]


@dataclass(frozen=True)
class FitTask:
    """What is to be fitted, and how.

    Attributes
    ----------
    constraints, loss, solver
        As an estimator's parameters state them.
    """

    constraints: tuple[Constraint, ...]
    loss: LossSettings
    solver: Solver

    def uses_groups(self, group_terms: GroupTerms) -> bool:
        """Whether rows need groups."""
        return bool(self.constraints) or group_terms is not None


class PartialFairEstimator(StoredAsPairs, BaseEstimator):
    """Fit and score linear models; what the labels mean is left to subclasses.

    Subclasses store the parameters that are read here, as `PartialFairClassifier` does.
    """

    result_: FitResult

    takes_tables: ClassVar[bool] = False
    """Whether features may be categories, and missing."""

    _set_by_fits: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "groups_", "classes_", "n_iter_")
    """Attributes that a fit sets besides ``result_``, for an estimator that adopts another's fit."""

    def _check_settings(self) -> None:
        """Refuse settings that cannot be right."""
        self._check_alpha()
        check_flag(getattr(self, "fit_intercept", True), "fit_intercept")  # trees have no such parameter
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

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sensitive_features: ArrayLike | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
    ) -> Self:
        """Check the settings, read the rows, and fit the model."""
        deadline = self._deadline()
        self._check_settings()
        if self.enforce == "population":
            fit_population(self, X, y, sensitive_features, sample_weight, clusters, deadline)
            return self
        self._refuse_clusters(clusters)
        task = self._read_task()
        samples = self._read_samples(
            X, y, sensitive_features, sample_weight, groups_needed=task.uses_groups(self.group_terms)
        )
        return self._fit_samples(samples, task, deadline)

    def _read_task(self) -> FitTask:
        """Return what is to be fitted and how, as the parameters state it."""
        constraints = self._read_constraints()
        return FitTask(constraints, self._read_loss(), read_solver(self, constraints))

    def _fit_samples(
        self,
        samples: Samples,
        task: FitTask,
        deadline: float,
        *,
        memory: PathMemory | None = None,
        offset: Offset | None = None,
    ) -> Self:
        """Fit the model to rows, given what other fits of them found, or where coefficients begin."""
        raise NotImplementedError

    def _read_target(self, y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
        """Return labels or numbers, checked."""
        raise NotImplementedError

    def _read_loss(self) -> LossSettings:
        """Return the loss that the parameters state."""
        return read_loss(self.loss)

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

    def _prepare_fits(self, samples: Samples, gaps: Sequence[float] = ()) -> Self:
        """Return an estimator that is not fitted, to be copied for several fits to the same rows.

        What it would choose by the rows is chosen once, for the gaps that are to be allowed in turn.
        """
        return self._copy_unfitted()

    def _copy_unfitted(self) -> Self:
        """Return an estimator that is not fitted and expects the columns that this one has read."""
        fresh: Self = clone(self)
        for name in ("n_features_in_", "feature_names_in_", "_group_columns"):
            if hasattr(self, name):
                setattr(fresh, name, getattr(self, name))
        return fresh

    def _check_stored(self) -> None:
        """Refuse what a file holds if it could not score rows."""
        check_stored(self)

    def _read_samples(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sensitive_features: ArrayLike | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None = None,
        *,
        reset: bool = True,
        groups_needed: bool = True,
    ) -> Samples:
        """Return rows as fits and paths use them, every array checked.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight, clusters
            As in ``fit``.
        reset
            Whether the columns of X become those that the estimator expects.
        groups_needed
            Whether rows need groups, which then must be given.
        """
        features, columns = self._read_features(X, reset=reset)
        n_rows = n_rows_of(features)
        target = self._read_target(y, n_rows)
        weights = None
        if sample_weight is not None:
            read_weights(sample_weight, n_rows)
            # As given, not scaled: what regularizes a tree (Hessians, smallest leaves) depends on their sum.
            weights = finite_vector(sample_weight, "sample_weight")
        groups = Groups.none(n_rows)
        if groups_needed:
            groups = self._read_groups(sensitive_features, columns, n_rows)
            missing = (groups.codes < 0) & (weights is None or weights > 0)
            if (terms := self.group_terms) is not None and missing.any():
                row = int(missing.argmax())
                raise InputError(f"group_terms={terms!r} needs every row's group; row {row} has none")
            if reset:
                self._group_columns = names_of(sensitive_features)
        codes = None if clusters is None else cluster_codes(clusters, n_rows)
        return Samples(features, target, groups, weights, codes)

    def _read_groups(
        self, sensitive_features: ArrayLike | None, columns: dict[str, ArrayLike] | None, n_rows: int
    ) -> Groups:
        """Return the group of every row, which the estimator needs."""
        groups = read_groups(
            sensitive_features,
            columns,
            n_rows,
            self.missing_groups,
            advice="; missing_groups='ignore' lets such rows count in the loss only",
        )
        if groups is None:
            wanted = "a constraint" if self.constraint else f"group_terms={self.group_terms!r}"
            raise InputError(
                f"{wanted} needs the group of every row: pass sensitive_features to fit, or name the "
                "columns of X in sensitive_columns"
            )
        return groups

    def _check_groups(
        self, samples: Samples, constraints: Sequence[Constraint], positive: Positive = None
    ) -> None:
        """Refuse groups that no constraint can compare; warn of those too small for the limit."""
        if not constraints:
            return
        if samples.n == 1:
            raise InputError("X has one sample; a constraint compares people of at least two groups")
        labels, weights = samples.groups.labels, samples.row_weights
        if len(labels) < 2:
            who = f"only group {group_name(labels[0])!r}" if labels else "no group"
            raise InputError(f"sensitive_features has {who}; a constraint needs at least two groups")
        cells = Cells(weights, samples.groups.codes, positive)
        promises = promises_of(constraints, samples.groups, cells, self.min_group_size)
        check_promises(promises)
        remark = overfitted_gap_warning(promises, cells)
        if remark is not None:
            warnings.warn(remark, stacklevel=5)

    def _fit_linear(
        self,
        samples: Samples,
        task: FitTask,
        deadline: float,
        *,
        unit: float,
        loss_factors: Floats | None = None,
        memory: PathMemory | None,
        offset: Offset | None,
    ) -> None:
        """Fit the model, set the fitted attributes, and warn of what the fit leaves open.

        A negative unit makes low scores high.
        """
        fit = fit_linear(
            samples,
            task.constraints,
            task.loss,
            self._fit_settings(task.solver),
            deadline=deadline,
            loss_factors=loss_factors,
            unit=unit,
            warm_start=self._warm_start(),
            offset=offset,
            memory=memory,
        )
        self.coef_, self.intercept_, self.result_ = fit.coef, fit.intercept, fit.result
        self.groups_: Any = None if fit.labels is None else _object_array(fit.labels)
        self.n_iter_ = max(1, fit.result.history[-1].step)
        if self.warm_start:
            if fit.unconstrained is not None:
                self._free = fit.unconstrained
            if fit.surrogate_bias is not None:
                self._surrogate_bias = fit.surrogate_bias
        how_it_ended = unfinished(fit.result)
        names = partial(feature_name, self)
        for remark in (
            None if how_it_ended is None else ConvergenceWarning(how_it_ended),
            uninformative_warning(fit.result),
            fit.units.remark(names),
            penalized_warning(names, samples.X, fit.units, self.alpha) if offset is None else None,
            *fit.remarks,
        ):
            if remark is not None:
                warnings.warn(remark, stacklevel=5)

    def _fit_settings(self, solver: Solver) -> FitSettings:
        """Return the parameters that describe a fit, as settings of it."""
        return FitSettings(
            solver=solver,
            solver_name=self.solver if isinstance(self.solver, str) else None,
            max_iter=self.max_iter,
            enforce=self.enforce,
            surrogate=self.surrogate,
            surrogate_width=self.surrogate_width,
            surrogate_halvings=self.surrogate_halvings,
            search_steps=self.search_steps,
            allow_ties=self.allow_ties,
            min_group_size=self.min_group_size,
            tol=self.tol,
            seed=seed_of(self),
            callback=self.callback,
            verbose=self.verbose,
            alpha=self.alpha,
            fit_intercept=self.fit_intercept,
            group_terms=self.group_terms,
            higher_is_better=self.higher_is_better,
        )

    def _warm_start(self) -> WarmStart | None:
        """Return what the last fit left, when starting warm."""
        if not (self.warm_start and hasattr(self, "result_")):
            return None
        return WarmStart(
            self.coef_,
            self.intercept_,
            () if self.groups_ is None else tuple(self.groups_),
            self.result_.thresholds,
            getattr(self, "_free", None),
            getattr(self, "_surrogate_bias", None),
        )

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Score rows as fitted; the group is read only if the model has group terms."""
        check_is_fitted(self)
        features, columns = self._read_features(X, reset=False)
        groups = None
        if self._terms is not None:
            given = in_columns_of(self._group_columns, sensitive_features)
            groups = read_groups(given, columns, n_rows_of(features))
            if groups is None:
                raise InputError(
                    "the model has group terms, so it needs the group to score a row: pass "
                    "sensitive_features, or name the columns of X in sensitive_columns"
                )
        return self._score_samples(features, groups)

    @property
    def _terms(self) -> GroupTerms:
        """The group terms of the fitted model."""
        if len(self.coef_) > 1:
            return "interactions"
        return "intercept" if len(self.intercept_) > 1 else None

    def _score_samples(self, X: Features, groups: Groups | None) -> Floats:
        """Score rows that were read."""
        known = known_groups(groups, tuple(self.groups_)) if groups is not None and self._terms else None
        model = linear_model(
            X,
            codes=None if known is None else known.codes,
            n_groups=1 if known is None else len(known.labels),
            group_terms=self._terms,
        )
        if model.design.shape[1] != self.coef_.shape[1]:
            raise InputError(
                f"X has {model.design.shape[1]} features, but there are {self.coef_.shape[1]} coefficients"
            )
        return model.scores(model.pack(self.coef_, self.intercept_))


def _object_array(labels: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return labels, which may be tuples, as a one-dimensional array."""
    array = np.empty(len(labels), dtype=object)
    for k, label in enumerate(labels):
        array[k] = label
    return array
