"""Tree ensembles whose leaf values are refitted under partial-fairness constraints."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partialfair.constraints import Constraint
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import Groups
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.classifier import PartialFairClassifier
from partialfair.estimators.inputs import (
    check_labels,
    check_sample_groups,
    part_features,
    read_target,
    refuse_repeated_names,
    two_classes,
)
from partialfair.estimators.parameters import FitTask, read_deadline, seed_of
from partialfair.estimators.path_fits import TINY_TIME, with_gap
from partialfair.estimators.regressor import PartialFairRegressor
from partialfair.exceptions import InputError
from partialfair.optimization.solvers import Record, Solver
from partialfair.training import EarlierFits, Offset
from partialfair.trees._alpha import check_alpha, chosen_refit, is_auto, judging_rows
from partialfair.trees._calibration import calibrations
from partialfair.trees._growing import grown, name_model_in_errors
from partialfair.trees._grown_on import check_classes, check_order, check_width
from partialfair.trees._leaf_rows import LeafRows, judged_by_library
from partialfair.trees._refusals import name_of
from partialfair.trees._stored import check_stored_trees, restored, stored
from partialfair.trees._wrapped import predicts_numbers, unwrapped
from partialfair.trees.ensembles import TreeEnsemble, check_settings, ensemble_of, is_fitted
from partialfair.trees.refitting import LeafValues, has_bounds, loss_of
from partialfair.utils.checks import (
    check_number,
    check_sparse,
    refuse_lazy,
    refuse_masked,
    squarable_vector,
)
from partialfair.utils.typing import ArrayLike, Floats, GapScale, IntervalLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PartialFairTrees"]

_ROUTED = {"sensitive_features": True}
_MODELS = ("model", "model_", "initial_estimator_")
"""Attributes that are models of libraries."""
_ADVICE = (
    "add features or group_terms that can close",
    "grow more trees, or larger ones, that can close",
)
"""What linear models lack where nothing keeps the promise, and what trees do."""
_LEAF_VALUES: WeakKeyDictionary[PartialFairTrees, LeafValues] = WeakKeyDictionary()
"""Leaf values by estimator. They are not an attribute: ``predict`` must not change an estimator."""


def _classifies(estimator: PartialFairTrees) -> bool:
    if is_regressor(estimator):
        raise AttributeError(
            f"{name_of(estimator.model)} is a regressor: its scores are what predict returns"
        )
    return True


class PartialFairTrees(PartialFairEstimator):
    """Trees as a library grew them, with leaf values refitted so that a gap between groups is bounded.

    The leaves of an ensemble are a linear model: ``s = s₀ + Z (v − v₀)``, with Z telling which leaf of each
    tree a row falls in, v₀ the values that the library gave the leaves and s₀ its scores. The trees are kept
    and v is found by ``min mean loss + ½ alpha ‖v − v₀‖²`` subject to the constraint, as
    `PartialFairClassifier` finds its coefficients: the promise is about exact gaps, and there is a
    certificate. Leaves of forests of classifiers hold probabilities: v then stays in [0, 1], as part of the
    problem. Then v goes back into a copy of the library's own model, ``model_``, which predicts, saves,
    explains and exports as before. Prediction needs no group.

    Parameters
    ----------
    model
        A binary classifier or a regressor of LightGBM or XGBoost (estimator or booster), CatBoost's, or
        scikit-learn's HistGradientBoosting, GradientBoosting, RandomForest or ExtraTrees. One that is fitted
        keeps its trees; another is copied and grown on the rows of `fit`. ``clone``, and so searches and
        cross-validation, forget that an estimator was fitted, unless it is wrapped in scikit-learn's
        ``FrozenEstimator``.
    constraint, interval, max_gap, gap_scale, enforce, confidence, validation, n_points
        As in `PartialFairClassifier`; regressors take no constraint that compares people with the same label.
    constraint_threshold
        As there, 0 by default; regressors need one for demographic parity. Scores of boosted classifiers are
        log-odds, those of forests ``2 p − 1``.
    alpha
        How strongly leaf values are drawn to those of the library; ``"auto"`` chooses among 1, .1, .01, .001
        and .0001 by loss and gap on the rows that are held out for ``early_stopping`` (15 % if it is None),
        on which then nothing is grown either, and refits on all rows: five times the work of a number.
        `fairness_path` chooses once, for the middle one of its gaps. Give a fitted model rows that it was not
        grown on, if alpha is to be chosen by them.
    early_stopping
        Share of the rows that show a boosted model when to stop growing, drawn within groups and classes;
        the refit is on all rows. None leaves that to the model, as does a model with settings of its own.
    class_weight
        As in `PartialFairClassifier`, in the refit; how a model weighs classes while it grows is its own.
    higher_is_better, min_group_size, missing_groups, sensitive_columns, surrogate, surrogate_width
        As in `PartialFairClassifier`.
    solver, n_starts, surrogate_halvings, search_steps, allow_ties, tol, max_iter, time_limit
        As in `PartialFairClassifier`; growing and reading leaves count against the time limit, and are
        not cut short by it.
    warm_start, random_state, callback, verbose
        As in `PartialFairClassifier`; models without a ``random_state`` of their own are grown with it.

    Attributes
    ----------
    model_
        The library's model with the new values.
    initial_estimator_
        The library's model with its own values.
    alpha_
        The alpha of the refit.
    classes_ : (2,)
        Labels of classifiers; positive scores stand for the second.
    groups_, result_, n_iter_, n_features_in_, feature_names_in_
        As in `PartialFairClassifier`. The gaps of ``result_`` are those of the scores of ``model_``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from partialfair.trees import PartialFairTrees
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 1000)
    >>> X = rng.normal(size=(1000, 2)) + np.outer(groups == "a", [1, 0])  # the first feature tells the group
    >>> y = X.sum(axis=1) + rng.normal(size=1000) > 0.5
    >>> grower = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8)
    >>> trees = PartialFairTrees(grower, interval=(0.1, 0.5), max_gap=0.1)
    >>> bool(trees.fit(X, y, sensitive_features=groups).result_.gap <= 0.1)
    True
    >>> type(trees.model_).__name__
    'HistGradientBoostingClassifier'
    """

    __metadata_request__fit = _ROUTED | {"clusters": True}
    __metadata_request__decision_function = _ROUTED
    __metadata_request__predict = _ROUTED
    __metadata_request__predict_proba = _ROUTED
    __metadata_request__score = _ROUTED

    _set_by_fits: ClassVar[tuple[str, ...]] = (
        "model_",
        "initial_estimator_",
        "alpha_",
        "groups_",
        "classes_",
        "n_iter_",
        "_refit",
    )

    takes_tables: ClassVar[bool] = True

    group_terms = None
    """Prediction needs no group."""

    def __init__(
        self,
        model: Any,
        constraint: str | Constraint | Sequence[Constraint] | None = "statistical_parity",
        *,
        interval: IntervalLike | Literal["auto"] = (0.0, 1.0),
        max_gap: float = 0.05,
        gap_scale: GapScale = "interval",
        enforce: Literal["exact", "surrogate", "population"] = "exact",
        confidence: float = 0.95,
        validation: float | tuple[Any, ...] = 0.2,
        n_points: int = 10,
        constraint_threshold: float | None = None,
        alpha: float | Literal["auto"] = 1e-2,
        early_stopping: float | None = 0.15,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        higher_is_better: bool = True,
        min_group_size: int = 2,
        missing_groups: Literal["error", "ignore"] = "error",
        sensitive_columns: Any = None,
        surrogate: str | Surrogate = "ramp",
        surrogate_width: float | Literal["auto"] = "auto",
        solver: str | Solver = "auto",
        n_starts: int = 2,
        surrogate_halvings: int = 0,
        search_steps: int = 100,
        allow_ties: bool = False,
        tol: float = 1e-3,
        max_iter: int | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        callback: Callable[[Record], bool | None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.constraint = constraint
        self.interval = interval
        self.max_gap = max_gap
        self.gap_scale = gap_scale
        self.enforce = enforce
        self.confidence = confidence
        self.validation = validation
        self.n_points = n_points
        self.constraint_threshold = constraint_threshold
        self.alpha = alpha
        self.early_stopping = early_stopping
        self.class_weight = class_weight
        self.higher_is_better = higher_is_better
        self.min_group_size = min_group_size
        self.missing_groups = missing_groups
        self.sensitive_columns = sensitive_columns
        self.surrogate = surrogate
        self.surrogate_width = surrogate_width
        self.solver = solver
        self.n_starts = n_starts
        self.surrogate_halvings = surrogate_halvings
        self.search_steps = search_steps
        self.allow_ties = allow_ties
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Grow the model, unless it is fitted, and refit its leaf values.

        Parameters
        ----------
        X : (n, d)
            Whatever the model takes: missing values and categories among it, where it does.
        y : (n,)
            Labels of two classes, or numbers.
        sensitive_features : (n,) or (n, q)
            Group of each row; several columns are crossed. Not needed with ``sensitive_columns``.
        sample_weight : (n,)
            Weight 2 is the row twice, weight 0 the row absent: while growing, in the loss and in the groups'
            distributions.
        clusters : (n,)
            As in `PartialFairClassifier`, with ``enforce="population"``.
        """
        return self._fit(X, y, sensitive_features, sample_weight, clusters)

    def _fit_samples(
        self,
        samples: Samples,
        task: FitTask,
        deadline: float,
        *,
        earlier: EarlierFits | None = None,
        offset: Offset | None = None,
    ) -> EarlierFits:
        """Fit the model, given what other fits of the same rows have found."""
        rows = samples.with_weight()
        self._check_classes(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the refit says it again
            check_sample_groups(rows, task.constraints, self.min_group_size, self._positive(rows))
        unseen = self._unseen(rows)
        leaf_values = LeafValues(self._trees(rows, unseen))
        leaf_rows = LeafRows.of(leaf_values, rows)
        linear = self._linear() if unseen is None else self._chosen(leaf_rows, unseen, deadline)
        earlier = self._refitted(linear, leaf_rows, deadline, earlier)
        self._refit = linear
        self.alpha_ = float(self._refit.alpha)
        written = leaf_values.refitted(self._refit.coef_, self._refit.intercept_)
        self.initial_estimator_, self.model_ = leaf_values.ensemble.model, written.ensemble.model
        self.groups_, self.n_iter_ = self._refit.groups_, self._refit.n_iter_
        if not is_regressor(self):
            self.classes_ = self._refit.classes_
        self.result_ = judged_by_library(self._refit, written.scores(rows.X), rows, name_of(self.model_))
        return earlier

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the scores of ``model_``: log-odds, of forests ``2 p − 1``; groups are not looked at."""
        return self._scores(X, sensitive_features)

    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return ``classes_[1]`` where the score is above 0, else ``classes_[0]``; or numbers."""
        scores = self._scores(X, sensitive_features)
        return scores if is_regressor(self) else np.asarray(self.classes_[(scores > 0).astype(np.intp)])

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the probabilities that ``model_`` gives the two classes."""
        second = self._written.probabilities(self._scores(X, sensitive_features))
        return np.column_stack([1 - second, second])

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy, or R² of a regressor."""
        refuse_lazy(y, "y")
        refuse_lazy(sample_weight, "sample_weight")
        measure = r2_score if is_regressor(self) else accuracy_score
        return float(measure(y, self.predict(X, sensitive_features), sample_weight=sample_weight))

    def calibration(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 10,
    ) -> pd.DataFrame:
        """Compare the probabilities of the library's values and of the new ones with what happened, by group.

        A bound on gaps between groups whose labels differ costs calibration: people of the group that is
        moved up get higher probabilities than they should. Take rows that were not trained on.

        Returns
        -------
        DataFrame
            ``error``, ``bias`` and ``difference`` of `partialfair.metrics.calibration_by_group`, each
            ``…_before`` and ``…_after``.
        """
        _classifies(self)
        return calibrations(
            {"before": LeafValues(ensemble_of(self.initial_estimator_)), "after": self._written},
            self._read_features(X, reset=False)[0],
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            pos_label=self.classes_[1],
            n_bins=n_bins,
        )

    @property
    def loss(self) -> str:
        """What leaf values are refitted for: logistic, or squared for regressors and forests."""
        return loss_of(self.model)

    @property
    def _written(self) -> LeafValues:
        """The trees of ``model_``; reading them costs time, so the values of the last call are used again."""
        check_is_fitted(self)
        values = _LEAF_VALUES.get(self)
        if values is None or values.ensemble.model is not self.model_:
            values = _LEAF_VALUES[self] = LeafValues(ensemble_of(self.model_))
        return values

    def __getstate__(self) -> dict[str, Any]:
        """Return what is stored: models as their libraries write them."""
        state = super().__getstate__()
        return state | {name: stored(state[name]) for name in _MODELS if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {name: restored(state[name]) for name in _MODELS if name in state})

    def _check_stored(self) -> None:
        """Refuse what a file holds if it could not score rows."""
        check_stored_trees(dict(vars(self)), "regressor" if is_regressor(self) else "classifier")

    def _check_settings(self) -> None:
        """Refuse settings that cannot be right, and models without trees."""
        super()._check_settings()
        if self.early_stopping is not None:
            check_number(self.early_stopping, "early_stopping", above=0.0, high=0.9)
        model = unwrapped(self.model)
        if isinstance(model, type) or not is_fitted(model):
            check_settings(model)
        else:
            ensemble_of(model)
        self._read_constraints()

    def _check_alpha(self) -> None:
        check_alpha(self.alpha)

    def _read_constraints(self) -> tuple[Constraint, ...]:
        constraints: tuple[Constraint, ...] = self._linear()._read_constraints()
        return constraints

    def _read_features(self, X: ArrayLike, *, reset: bool) -> tuple[Any, dict[str, ArrayLike] | None]:
        refuse_masked(X, "X")
        check_sparse(X, "X")
        if not hasattr(X, "shape"):
            try:
                X = np.asarray(X)
            except ValueError:
                raise InputError("X has rows of different lengths; trees need a table") from None
        if len(X.shape) != 2:
            raise InputError(
                f"X must have two dimensions, not {len(X.shape)}. Reshape your data: X.reshape(-1, 1) is one "
                "feature, X.reshape(1, -1) is one row"
            )
        refuse_repeated_names(X, "X")
        features, columns = part_features(self, X, self.sensitive_columns, reset=reset)
        if not features.shape[1]:
            raise InputError(f"X has 0 feature(s) (shape={features.shape}) while a minimum of 1 is required.")
        if sparse.issparse(features):
            # Libraries read some formats only, and CatBoost neither arrays nor long indices.
            rows = features.tocsr()
            return sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape), columns
        polars = hasattr(features, "to_pandas") and not hasattr(features, "iloc")
        return features.to_pandas() if polars else features, columns

    def _prepare_fits(self, samples: Samples, gaps: Sequence[float] = ()) -> Self:
        """Return a copy whose trees are trained, and whose alpha is a number."""
        fresh, deadline = self._copy_unfitted(), read_deadline(self)
        rows = samples.with_weight()
        self._check_classes(rows)
        unseen = self._unseen(rows)
        ensemble = self._trees(rows, unseen)
        if unseen is not None:
            leaf_rows = LeafRows.of(LeafValues(ensemble), rows)
            fresh.set_params(alpha=self._chosen(leaf_rows, unseen, deadline, gaps).alpha)
        model = ensemble.model
        kept = FrozenEstimator(model) if hasattr(model, "get_params") else model  # boosters stay fitted
        return fresh.set_params(model=kept)  # type: ignore[no-any-return]

    def _read_target(self, y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
        if n_rows < 2:
            raise InputError(f"X has {'1 sample' if n_rows else 'no rows'}; trees need at least 2")
        target = read_target(y, n_rows)
        if is_regressor(self):
            return squarable_vector(target, "y")
        check_labels(target)
        return target

    def _check_classes(self, rows: Samples) -> None:
        """Refuse labels that are not of two classes."""
        if not is_regressor(self):
            two_classes(rows.y)

    def _positive(self, rows: Samples) -> npt.NDArray[np.bool_] | None:
        """Return which rows are positive; None of numbers."""
        return None if is_regressor(self) else rows.y == two_classes(rows.y)[1]

    def _unseen(self, rows: Samples) -> npt.NDArray[np.bool_] | None:
        """Return which rows are to choose alpha; None where it is a number."""
        return judging_rows(self._linear(), rows, self.early_stopping) if is_auto(self.alpha) else None

    def _trees(self, rows: Samples, unseen: npt.NDArray[np.bool_] | None) -> TreeEnsemble:
        """Return the trees of the model, or those of a copy that is grown on the rows."""
        model = unwrapped(self.model)
        if not is_fitted(model):
            return ensemble_of(grown(model, rows, self.early_stopping, seed_of(self), unseen))
        check_width(model, rows.X)
        check_order(model, rows.X)
        ensemble = ensemble_of(model)
        if ensemble.kind == "classifier":
            check_classes(ensemble, two_classes(rows.y))
        return ensemble

    def _linear(self) -> Any:
        """Return the classifier or regressor that refits leaf values; from a warm start it knows the last."""
        kind = PartialFairRegressor if is_regressor(self) else PartialFairClassifier
        known = set(signature(kind).parameters)
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in known}
        settings |= {"loss": self.loss, "sensitive_columns": None, "validation": 0.2}
        settings["fit_intercept"] = not has_bounds(self.model)
        if kind is PartialFairClassifier and self.constraint_threshold is None:
            settings["constraint_threshold"] = 0.0
        last = getattr(self, "_refit", None)
        if self.warm_start and type(last) is kind:
            return copy.copy(last).set_params(**settings)
        return kind(**settings)

    def _chosen(
        self, rows: LeafRows, unseen: npt.NDArray[np.bool_], moment: float, gaps: Sequence[float] = ()
    ) -> Any:
        """Return the linear model with the alpha that does best on rows that no leaf was grown on."""
        linear = self._linear()
        if self.enforce == "population":  # whose models are exact ones
            linear.set_params(enforce="exact")
        if gaps:
            linear.set_params(**with_gap(self, gaps[len(gaps) // 2]))
        return chosen_refit(linear, rows, unseen, moment)

    def _refitted(
        self, linear: Any, rows: LeafRows, moment: float, earlier: EarlierFits | None
    ) -> EarlierFits:
        """Fit the linear model on the leaves, with what is added to their values as coefficients."""
        if moment < float("inf"):
            linear.set_params(time_limit=max(moment - time.monotonic(), TINY_TIME))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            earlier = rows.refit(linear, earlier)
        for remark in caught:  # as said where fit was called
            warnings.warn(str(remark.message).replace(*_ADVICE), remark.category, stacklevel=4)
        linear.set_params(callback=None, warm_start=self.warm_start)  # it is kept, in files as well
        return earlier

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Score rows by the library's model; it never asks for the group."""
        check_is_fitted(self)
        return self._score_samples(self._read_features(X, reset=False)[0])

    def _score_samples(self, X: Any, groups: Groups | None = None) -> Floats:
        written = self._written
        with name_model_in_errors(self.model_, "could not score X"):
            return written.scores(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        model = unwrapped(self.model)
        if hasattr(model, "get_params") and not isinstance(model, type):
            tags.input_tags = get_tags(model).input_tags
        else:  # boosters of LightGBM and XGBoost
            tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        if predicts_numbers(self.model):
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_class=False)
        return tags
