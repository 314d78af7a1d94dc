"""What every estimator does: check parameters and data, call the fit, store and score."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from partialfair.constraints.base import Constraint
from partialfair.data.groups import Groups
from partialfair.data.samples import Features, Samples, n_rows_of
from partialfair.data.thresholds import find_decision_threshold
from partialfair.estimators.decisions import TUNE, check_stored_decisions
from partialfair.estimators.inputs import (
    check_sample_groups,
    feature_name,
    in_columns_of,
    known_groups,
    read_features,
    read_groups,
    read_samples,
)
from partialfair.estimators.parameters import (
    FitTask,
    check_parameters,
    read_constraints,
    read_deadline,
    read_options,
    read_settings,
    read_task,
)
from partialfair.exceptions import InputError
from partialfair.training.fit import fit_linear
from partialfair.training.options import FitOptions
from partialfair.training.remarks import explain_unfinished, uninformative_warning
from partialfair.training.result import FitResult
from partialfair.training.settings import EarlierFits, WarmStart
from partialfair.training.units import Offset, penalized_warning, score_rows
from partialfair.utils.checks import check_number
from partialfair.utils.state import StoredAsPairs
from partialfair.utils.typing import ArrayLike, Bools, Floats


class PartialFairEstimator(StoredAsPairs, BaseEstimator):
    """Fit and score linear models; what the labels mean is left to subclasses.

    Subclasses store the parameters that are read here, as `PartialFairClassifier` does.
    """

    options: FitOptions | None
    result_: FitResult

    takes_tables: ClassVar[bool] = False
    """Whether features may be categories, and missing."""

    _set_by_fits: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "groups_",
        "classes_",
        "decision_threshold_",
        "n_iter_",
    )
    """Attributes that a fit sets besides ``result_``, for an estimator that adopts another's fit."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` also the fields of ``options``, as ``options__n_points``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to list parameters of what parameters hold.
        """
        parameters: dict[str, Any] = super().get_params(deep=deep)
        options = FitOptions() if self.options is None else self.options
        # What else was set is refused by fit.
        if deep and isinstance(options, FitOptions):
            parameters |= {f"options__{name}": value for name, value in vars(options).items()}
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``options__n_points`` and so on replace one field of ``options``.

        Parameters
        ----------
        **params : dict
            Values by name, as `get_params` lists them.
        """
        of_options = {name: params.pop(name) for name in [*params] if name.startswith("options__")}
        super().set_params(**params)
        changes = {name.removeprefix("options__"): value for name, value in of_options.items()}
        known = [field.name for field in fields(FitOptions)]
        for name in changes:
            if name not in known:
                raise InputError(f"options has no field {name!r}; its fields are {', '.join(known)}")
        if changes:
            self.options = replace(read_options(self), **changes)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_settings(self) -> None:
        """Refuse settings that cannot be right."""
        self._check_alpha()
        check_parameters(self)

    def _check_alpha(self) -> None:
        check_number(self.alpha, "alpha", low=0.0)

    def _read_features(self, X: ArrayLike, *, reset: bool) -> tuple[Features, dict[str, ArrayLike] | None]:
        """Return features, and the columns taken out of them that hold the group."""
        return read_features(self, X, self.sensitive_columns, reset=reset)

    def _read_target(self, y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
        """Return labels or numbers, checked."""
        raise NotImplementedError

    def _read_constraints(self) -> tuple[Constraint, ...]:
        """Return the constraints that the parameters state."""
        return read_constraints(self)

    def _prepare_target(self, samples: Samples) -> tuple[Samples, float, Floats | None]:
        """Return rows whose ``y`` is positive or not, or a number; a unit of scores; factors in the loss.

        A negative unit makes low scores high.
        """
        raise NotImplementedError

    def _prepare_fits(self, samples: Samples, gaps: Sequence[float] = ()) -> Self:
        """Return an estimator that is not fitted, to be copied for several fits to the same rows.

        What it would choose by the rows is chosen once, for the limits that are to be set in turn.
        """
        return self._copy_unfitted()

    def _copy_unfitted(self) -> Self:
        """Return an estimator that is not fitted and expects the columns that this one has read."""
        fresh: Self = clone(self)
        for name in ("n_features_in_", "feature_names_in_", "_group_columns", "_held_out_seed"):
            if hasattr(self, name):
                setattr(fresh, name, getattr(self, name))
        return fresh

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n, d)
            Numbers: array, frame (pandas, polars), sparse matrix, or `CategoricalCodes`. For trees whatever
            their library accepts: with missing values and categories, where it does.
        y : (n,)
            Labels of two classes; for regressors numbers.
        sensitive_features : (n,) or (n, q)
            Group of each row; several columns are crossed. Not needed with ``sensitive_columns``.
        sample_weight : (n,)
            Weight 2 is the row twice, weight 0 the row absent: in the loss and in the groups' distributions,
            and where trees are trained.
        clusters : (n,)
            With ``enforce="population"``, which rows belong together, as several of one person do: they are
            held out together, and confidence is that of so many clusters.
        """
        # The clock runs from here: reading rows counts, and so do all solves.
        deadline = read_deadline(self)
        self._check_settings()
        if self.enforce == "population":
            from partialfair.estimators.population import fit_population  # needs more than most fits

            fit_population(self, X, y, sensitive_features, sample_weight, clusters, deadline)
            return self
        if clusters is not None:
            raise InputError(
                "clusters say which rows are held out together and how sure the promise about new people is, "
                f"and enforce={self.enforce!r} makes none; leave them out"
            )
        task = read_task(self)
        needed = task.uses_groups(self.group_terms)
        samples = read_samples(self, X, y, sensitive_features, sample_weight, groups_needed=needed)
        self._fit_samples(samples, task, deadline)
        return self

    def _fit_samples(
        self,
        samples: Samples,
        task: FitTask,
        deadline: float,
        *,
        earlier: EarlierFits | None = None,
        offset: Offset | None = None,
    ) -> EarlierFits:
        """Fit the model, set the fitted attributes, and warn of what the fit leaves open.

        Parameters
        ----------
        samples, task, deadline
            The rows, what is to be fitted to them, and when the fit has to end.
        earlier
            What other fits of the same rows have found.
        offset
            Another model that coefficients are counted from.

        Returns
        -------
        EarlierFits
            For the next fit of the same rows.
        """
        samples = samples.with_weight()
        rows, unit, loss_factors = self._prepare_target(samples)
        check_sample_groups(rows, task.constraints, self.min_group_size, rows.positive)
        fit = fit_linear(
            rows,
            task.constraints,
            task.loss,
            read_settings(self, task.solver),
            deadline=deadline,
            loss_factors=loss_factors,
            unit=unit,
            warm_start=self._warm_start(),
            offset=offset,
            earlier=earlier,
        )
        self.coef_, self.intercept_, self.result_ = fit.coef, fit.intercept, fit.result
        if isinstance(self, ClassifierMixin):
            self.classes_: Any = np.unique(samples.y)
        self.groups_: Any = None
        if fit.labels is not None:
            self.groups_ = np.empty(len(fit.labels), dtype=object)
            for k, label in enumerate(fit.labels):  # which may be tuples
                self.groups_[k] = label
        if rows.positive is not None and loss_factors is not None:
            self.decision_threshold_ = 0.0
            if self.decision_threshold != 0.0:
                scores = self._score_samples(samples.X, samples.groups)
                self._place_threshold(scores, rows.positive, rows.row_weights, loss_factors)
        # scikit-learn expects at least one iteration.
        self.n_iter_ = max(1, fit.result.history[-1].step)
        # What only another fit needs is not stored without one.
        if self.warm_start:
            if fit.unconstrained is not None:
                self._unconstrained = fit.unconstrained
            if fit.surrogate_bias is not None:
                self._surrogate_bias = fit.surrogate_bias
        how_it_ended = explain_unfinished(fit.result)
        names = partial(feature_name, self)
        for remark in (
            None if how_it_ended is None else ConvergenceWarning(how_it_ended),
            uninformative_warning(fit.result),
            fit.columns.remark(names),
            penalized_warning(names, rows.X, fit.columns, self.alpha) if offset is None else None,
            *fit.remarks,
        ):
            if remark is not None:
                warnings.warn(remark, stacklevel=3)
        return fit.earlier

    def _place_threshold(
        self,
        scores: Floats,
        positive: Bools,
        weights: Floats,
        factors: Floats,
        tuned_on: Bools | slice = slice(None),
    ) -> None:
        """Set the threshold of decisions, tuned on some of the rows if it is to be, and their accuracy.

        ``factors`` are those of weights in the loss.
        """
        threshold: Any = self.decision_threshold
        if threshold == TUNE:
            threshold = find_decision_threshold(
                scores[tuned_on], positive[tuned_on], (weights * factors)[tuned_on]
            )
        self.decision_threshold_ = float(threshold)
        accuracy = float(np.average((scores > threshold) == positive, weights=weights))
        self.result_ = replace(self.result_, accuracy=accuracy)

    def _warm_start(self) -> WarmStart | None:
        """Return what the last fit left, when starting warm."""
        if not (self.warm_start and hasattr(self, "result_")):
            return None
        return WarmStart(
            self.coef_,
            self.intercept_,
            () if self.groups_ is None else tuple(self.groups_),
            self.result_.thresholds,
            getattr(self, "_unconstrained", None),
            getattr(self, "_surrogate_bias", None),
        )

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Score rows as fitted; the group is read only if the model has group terms."""
        check_is_fitted(self)
        features, columns = self._read_features(X, reset=False)
        groups = None
        if self._has_group_terms:
            given = in_columns_of(self._group_columns, sensitive_features)
            groups = read_groups(given, columns, n_rows_of(features))
            if groups is None:
                raise InputError(
                    "the model has group terms, so it needs the group to score a row: pass "
                    "sensitive_features, or name the columns of X in sensitive_columns"
                )
        return self._score_samples(features, groups)

    @property
    def _has_group_terms(self) -> bool:
        """Whether the fitted model has group terms."""
        return max(len(self.coef_), len(self.intercept_)) > 1

    def _score_samples(self, X: Features, groups: Groups | None) -> Floats:
        """Score rows that were read."""
        # Without group terms the group of a row does not matter, known or not.
        known = None
        if groups is not None and self._has_group_terms:
            known = known_groups(groups, tuple(self.groups_))
        return score_rows(X, self.coef_, self.intercept_, known)

    def _check_stored(self) -> None:
        """Refuse what a file holds if it could not score rows; a file may lack settings that came later."""
        held = vars(self)
        if "coef_" not in held:  # as good as new
            return
        for name, n_dimensions in (("coef_", 2), ("intercept_", 1)):
            value: Any = held.get(name)
            is_floats = isinstance(value, np.ndarray) and value.dtype == np.float64
            if not is_floats or not (value.ndim == n_dimensions and value.size and np.isfinite(value).all()):
                raise InputError(f"its {name} is not an array of finite numbers")
        coef, intercept, groups = held["coef_"], held["intercept_"], held.get("groups_")
        if groups is not None and not (isinstance(groups, np.ndarray) and groups.ndim == 1):
            raise InputError("its groups_ are no list of groups")
        # One row for all groups, or one for each.
        n_groups = 0 if groups is None else len(groups)
        if not {len(coef), len(intercept)} <= {1, n_groups}:
            raise InputError("its coef_ and intercept_ do not fit its groups")
        n_features, names = held.get("n_features_in_"), held.get("feature_names_in_")
        if type(n_features) is not int or not 0 < coef.shape[1] <= n_features:
            raise InputError("its coef_ does not fit its number of features")
        if names is not None and not (isinstance(names, np.ndarray) and names.shape == (n_features,)):
            raise InputError("its feature_names_in_ does not fit its number of features")
        if held.get("group_terms") not in (None, "intercept", "interactions"):
            raise InputError("its group_terms are unknown")
        if not isinstance(held.get("_group_columns", ()), tuple):
            raise InputError("its group columns are no tuple")
        if not isinstance(held.get("result_"), FitResult):
            raise InputError("its result_ is not that of a fit")
        if isinstance(self, ClassifierMixin):
            check_stored_decisions(held)
