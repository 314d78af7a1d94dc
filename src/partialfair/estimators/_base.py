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
from partialfair._clock import deadline_in
from partialfair._state import StoredAsPairs
from partialfair._typing import ArrayLike, Floats
from partialfair.constraints import Constraint
from partialfair.constraints.base import Positive
from partialfair.estimators._fit import FitSettings, WarmStart, fit_linear
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
from partialfair.estimators._path_memory import PathMemory
from partialfair.estimators._path_rows import GivenRows
from partialfair.estimators._population import check_population_settings, fit_for_new_people
from partialfair.estimators._promise import check_promises, promises_of
from partialfair.estimators._scales import penalized_warning
from partialfair.estimators._search import remarks_on
from partialfair.estimators._statement import read_constraints, seed_of
from partialfair.estimators._stored import check_stored
from partialfair.estimators._training import FitRows
from partialfair.estimators.result import FitResult
from partialfair.exceptions import InputError
from partialfair.groups import Groups, group_name
from partialfair.models import linear_model
from partialfair.problems import Cells
from partialfair.solvers import Solver
from partialfair.surrogates import Surrogate, surrogate

__all__ = ["PartialFairEstimator"]


class PartialFairEstimator(StoredAsPairs, BaseEstimator):
    """Fit and score linear models; what the labels mean is left to subclasses.

    Subclasses store the parameters that are read here, as `PartialFairClassifier` does.
    """

    result_: FitResult

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
        cells = Cells(weights, groups.codes, positive)
        promises = promises_of(constraints, groups, cells, self.min_group_size)
        check_promises(promises)
        remark = overfitted_gap_warning(promises, cells)
        if remark is not None:
            warnings.warn(remark, stacklevel=4)
        self._group_columns = names_of(sensitive_features)
        return groups

    def _fit_rows(
        self,
        rows: FitRows,
        constraints: Sequence[Constraint],
        solver: Solver,
        *,
        unit: float,
        memory: PathMemory | None,
        offset: Origin | None,
    ) -> None:
        """Fit the model, set the fitted attributes, and warn of what the fit leaves open.

        The loss of the rows counts scores in the unit already. A negative unit makes low scores high.
        """
        fit = fit_linear(
            rows,
            constraints,
            self._fit_settings(solver),
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
        penalized = penalized_warning(self, rows.X, fit.units, self.alpha) if offset is None else None
        of_features = [remark for remark in (fit.units.remark(self), penalized) if remark is not None]
        for remark in [*remarks_on(fit.result), *of_features, *fit.remarks]:
            warnings.warn(remark, stacklevel=4)

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


def _object_array(labels: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return labels, which may be tuples, as a one-dimensional array."""
    array = np.empty(len(labels), dtype=object)
    for k, label in enumerate(labels):
        array[k] = label
    return array
