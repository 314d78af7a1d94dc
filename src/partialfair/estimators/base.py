"""The base class of all estimators: check parameters and data, fit, store the result, and score rows."""

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
    """Fit and score linear models; subclasses define what the labels mean.

    Subclasses store the parameters that this class reads, as `PartialFairClassifier` does.
    """

    options: FitOptions | None
    result_: FitResult

    takes_tables: ClassVar[bool] = False
    """Whether features may be categorical and may have missing values."""

    _set_by_fits: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "groups_",
        "classes_",
        "decision_threshold_",
        "n_iter_",
    )
    """Attributes that a fit sets besides ``result_``; an estimator that adopts another fit copies them."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the estimator, by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the fields of ``options`` as ``options__n_points`` and so on.

        Returns
        -------
        dict
            Parameter names mapped to their values.
        """
        parameters: dict[str, Any] = super().get_params(deep=deep)
        options = FitOptions() if self.options is None else self.options
        # `fit` raises InputError for anything else that was set.
        if deep and isinstance(options, FitOptions):
            parameters |= {f"options__{name}": value for name, value in vars(options).items()}
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters; names such as ``options__n_points`` replace one field of ``options``.

        Parameters
        ----------
        **params : dict
            Values by parameter name, as `get_params` lists them.

        Returns
        -------
        self : object
            The estimator.
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
        """Raise `InputError` for invalid parameters."""
        self._check_alpha()
        check_parameters(self)

    def _check_alpha(self) -> None:
        check_number(self.alpha, "alpha", low=0.0)

    def _read_features(self, X: ArrayLike, *, reset: bool) -> tuple[Features, dict[str, ArrayLike] | None]:
        """Return the features, and the columns of X that hold the groups, separately."""
        return read_features(self, X, self.sensitive_columns, reset=reset)

    def _read_target(self, y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
        """Return the checked labels or numbers."""
        raise NotImplementedError

    def _read_constraints(self) -> tuple[Constraint, ...]:
        """Return the constraints that the parameters state."""
        return read_constraints(self)

    def _prepare_target(self, samples: Samples) -> tuple[Samples, float, Floats | None]:
        """Return rows with a binary or numeric ``y``, the unit of the scores, and factors for the loss.

        A negative unit makes low scores favorable.
        """
        raise NotImplementedError

    def _prepare_fits(self, samples: Samples, gaps: Sequence[float] = ()) -> Self:
        """Return an unfitted estimator to copy for several fits to the same rows.

        Choices that depend on the rows are made once here, for all limits in ``gaps``.
        """
        return self._copy_unfitted()

    def _copy_unfitted(self) -> Self:
        """Return an unfitted estimator that expects the same columns as this one."""
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
        X : array-like, sparse matrix or CategoricalCodes of shape (n_samples, n_features)
            Numeric features; a pandas or polars frame is allowed. `PartialFairTrees` accepts what the tree
            library accepts, including missing values and categories.
        y : array-like of shape (n_samples,)
            Labels of two classes; numbers for regressors.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            Group of each row. Several columns define intersectional groups. Not needed if
            ``sensitive_columns`` is set.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights. They apply to the loss, to the score distributions of the groups and to the training
            of trees. A weight of 2 equals two copies of the row, a weight of 0 removes it.
        clusters : array-like of shape (n_samples,), default=None
            Cluster of each row, for example the person that it describes; only with ``enforce="population"``.
            A cluster is held out as a whole, and confidence bounds treat clusters as independent, not rows.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        # The time limit covers everything from here: reading the rows and all solves.
        deadline = read_deadline(self)
        self._check_settings()
        if self.enforce == "population":
            from partialfair.estimators.population import fit_population  # needs more than most fits

            fit_population(self, X, y, sensitive_features, sample_weight, clusters, deadline)
            return self
        if clusters is not None:
            raise InputError(
                "clusters affect held-out rows and confidence bounds, so they need enforce='population', not "
                f"{self.enforce!r}; omit clusters"
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
        """Fit the model, set the fitted attributes and issue warnings.

        Parameters
        ----------
        samples, task, deadline
            The rows, the problem to solve, and the time at which the fit has to end.
        earlier
            Results of earlier fits of the same rows.
        offset
            Model whose scores are added, so that coefficients are differences from it.

        Returns
        -------
        EarlierFits
            Results for the next fit of the same rows.
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
            for k, label in enumerate(fit.labels):  # labels may be tuples, so assign them one at a time
                self.groups_[k] = label
        if rows.positive is not None and loss_factors is not None:
            self.decision_threshold_ = 0.0
            if self.decision_threshold != 0.0:
                scores = self._score_samples(samples.X, samples.groups)
                self._place_threshold(scores, rows.positive, rows.row_weights, loss_factors)
        # scikit-learn expects at least one iteration.
        self.n_iter_ = max(1, fit.result.history[-1].step)
        # Attributes that only a later warm-started fit needs.
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
        """Set the decision threshold, tuned on the rows ``tuned_on`` if requested, and the accuracy.

        ``factors`` are the class factors of the row weights in the loss.
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
        """Return the start that the previous fit left, if ``warm_start`` is set."""
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
        """Return scores of rows; groups are read only if the model has group terms."""
        check_is_fitted(self)
        features, columns = self._read_features(X, reset=False)
        groups = None
        if self._has_group_terms:
            given = in_columns_of(self._group_columns, sensitive_features)
            groups = read_groups(given, columns, n_rows_of(features))
            if groups is None:
                raise InputError(
                    "the model has group terms, so it needs the group of every row: pass "
                    "sensitive_features, or name the columns of X in sensitive_columns"
                )
        return self._score_samples(features, groups)

    @property
    def _has_group_terms(self) -> bool:
        """Whether the fitted model has group terms."""
        return max(len(self.coef_), len(self.intercept_)) > 1

    def _score_samples(self, X: Features, groups: Groups | None) -> Floats:
        """Return scores of rows that were already read."""
        # Without group terms the groups of rows have no effect, even if they are unknown.
        known = None
        if groups is not None and self._has_group_terms:
            known = known_groups(groups, tuple(self.groups_))
        return score_rows(X, self.coef_, self.intercept_, known)

    def _check_stored(self) -> None:
        """Raise `InputError` if a file's attributes cannot score rows; newer settings may be missing."""
        held = vars(self)
        if "coef_" not in held:  # an unfitted estimator
            return
        for name, n_dimensions in (("coef_", 2), ("intercept_", 1)):
            value: Any = held.get(name)
            is_floats = isinstance(value, np.ndarray) and value.dtype == np.float64
            if not is_floats or not (value.ndim == n_dimensions and value.size and np.isfinite(value).all()):
                raise InputError(f"its {name} is not an array of finite numbers")
        coef, intercept, groups = held["coef_"], held["intercept_"], held.get("groups_")
        if groups is not None and not (isinstance(groups, np.ndarray) and groups.ndim == 1):
            raise InputError("its groups_ are not a list of groups")
        # One row of coefficients for all groups, or one for each group.
        n_groups = 0 if groups is None else len(groups)
        if not {len(coef), len(intercept)} <= {1, n_groups}:
            raise InputError("its coef_ and intercept_ do not match its groups")
        n_features, names = held.get("n_features_in_"), held.get("feature_names_in_")
        if type(n_features) is not int or not 0 < coef.shape[1] <= n_features:
            raise InputError("its coef_ does not match its number of features")
        if names is not None and not (isinstance(names, np.ndarray) and names.shape == (n_features,)):
            raise InputError("its feature_names_in_ does not match its number of features")
        if held.get("group_terms") not in (None, "intercept", "interactions"):
            raise InputError("its group_terms are unknown")
        if not isinstance(held.get("_group_columns", ()), tuple):
            raise InputError("its group columns are not a tuple")
        if not isinstance(held.get("result_"), FitResult):
            raise InputError("its result_ is not the result of a fit")
        if isinstance(self, ClassifierMixin):
            check_stored_decisions(held)
