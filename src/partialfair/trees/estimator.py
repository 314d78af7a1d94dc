"""Tree ensembles whose leaf values are refitted under partial-fairness constraints."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partialfair.constraints.base import Constraint
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.inputs import check_sample_groups
from partialfair.estimators.parameters import FitTask, read_deadline, seed_of
from partialfair.exceptions import InputError
from partialfair.optimization.solvers import Record, Solver, Status
from partialfair.training.options import FitOptions
from partialfair.training.settings import EarlierFits
from partialfair.training.units import Offset
from partialfair.trees.alpha import choose_alpha, hold_out_rows
from partialfair.trees.base_estimators import (
    check_model,
    name_model_in_errors,
    positive_rows,
    predicts_numbers,
    read_labels,
    read_table,
    read_trees,
    unwrap,
)
from partialfair.trees.ensembles import ensemble_of, name_of
from partialfair.trees.refitting import (
    LeafSamples,
    LeafValues,
    compare_calibration,
    exact_gaps,
    linear_estimator,
    loss_of,
)
from partialfair.trees.stored import check_stored_trees, pack_model, unpack_model
from partialfair.utils.checks import refuse_lazy, shown
from partialfair.utils.typing import ArrayLike, Floats, GapScale, IntervalLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PartialFairTrees"]

_ROUTED = {"sensitive_features": True}
# Attributes that are models of other libraries.
_MODELS = ("estimator", "estimator_", "initial_estimator_")
# Advice of the linear refit in warnings, and its replacement for trees.
_ADVICE = ("add features or group_terms", "train more or larger trees")
# Leaf values by estimator. They are not an attribute, because ``predict`` must not change an estimator.
_LEAF_VALUES: WeakKeyDictionary[PartialFairTrees, LeafValues] = WeakKeyDictionary()


def _classifies(estimator: PartialFairTrees) -> bool:
    if is_regressor(estimator):
        raise AttributeError(
            f"{name_of(estimator.estimator)} is a regressor, whose scores are the return value of predict"
        )
    return True


class PartialFairTrees(PartialFairEstimator):
    """Tree ensemble whose leaf values are refitted with a limit on the gap between groups.

    The leaves of an ensemble are a linear model ``s = s₀ + Z (v − v₀)``, where Z indicates the leaf of each
    tree that a row falls in, v₀ are the leaf values of the library and s₀ its scores. The trees do not
    change, and v minimizes ``mean loss + ½ alpha ‖v − v₀‖²`` subject to the constraint, by the method of
    `PartialFairClassifier`: the limit applies to exact gaps, and there is a KKT certificate. Leaves of
    classification forests hold probabilities, so v is restricted to [0, 1]. The new values are written into a
    copy of the library's model, ``estimator_``, which predicts, saves, explains and exports as before.
    Prediction does not need the group.

    Parameters
    ----------
    estimator : estimator or booster
        A binary classifier or a regressor of LightGBM or XGBoost (estimator or booster), CatBoost, or
        scikit-learn (HistGradientBoosting, GradientBoosting, RandomForest, ExtraTrees). A fitted model keeps
        its trees; any other is copied and trained on the rows of `fit`. ``clone``, and therefore searches and
        cross-validation, return an unfitted copy unless it is wrapped in scikit-learn's
        ``FrozenEstimator``.
    constraint : str, Constraint, list of those or None, default="statistical_parity"
        As in `PartialFairClassifier`; for regressors as in `PartialFairRegressor`.
    interval : tuple, list of tuples, mapping or "auto", default=None
        Ranks from the top at which groups are compared, as in `PartialFairClassifier`.
    max_gap : float, default=0.05
        Limit on the gap, in [0, 1]. Values below 0.001 are treated as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        As in `PartialFairClassifier`.
    enforce : {"exact", "surrogate", "population"}, default="exact"
        As in `PartialFairClassifier`.
    outside : {"free", "no_worse"}, default="free"
        As in `PartialFairClassifier`.
    confidence : float, default=0.95
        Confidence of ``enforce="population"``, between 0 and 1.
    validation : float or tuple, default=0.2
        As in `PartialFairClassifier`.
    constraint_threshold : float, default=None
        Score at which demographic parity, equal opportunity and equalized odds compare groups. None means 0
        for classifiers; regressors need a number for demographic parity. Scores of boosted classifiers are
        log-odds, those of forests ``2 p − 1``.
    decision_threshold : float or "tune", default=0.0
        As in `PartialFairClassifier`. ``"tune"`` uses rows on which no tree was trained: those held out by
        ``validation_fraction`` (15% if it is None), or all rows for a fitted model. Leaf values are refitted
        on all rows.
    alpha : float or "auto", default=1e-2
        How strongly leaf values are shrunk towards those of the library. ``"auto"`` chooses among 1, 0.1,
        0.01, 0.001 and 0.0001 by loss and gap on the rows held out by ``validation_fraction`` (15% if it is
        None), on which no tree is trained, and refits on all rows. This takes five times as long.
        `fairness_path` chooses once, for the middle one of its limits. With a fitted model, pass rows on
        which it was not trained.
    validation_fraction : float, default=0.15
        Fraction of the rows for early stopping of boosted models, drawn within groups and classes; leaf
        values are refitted on all rows. None uses the model's own settings, as does a model that has
        settings for early stopping.
    class_weight : "balanced", mapping or None, default=None
        Class weights in the refit. The training of the trees uses the model's own class weights.
    higher_is_better : bool, default=True
        As in `PartialFairClassifier`.
    min_group_size : int, default=2
        As in `PartialFairClassifier`.
    missing_groups : {"error", "ignore"}, default="error"
        ``"ignore"`` uses rows without a group in the loss only.
    sensitive_columns : column label, position or list of those, default=None
        Columns of X that hold the group. They are not used as features.
    solver : str or solver object, default="auto"
        As in `PartialFairClassifier`.
    options : FitOptions, default=None
        Grid of ranks, surrogate and search; None uses the defaults of `FitOptions`.
    tol : float, default=1e-3
        Tolerance ε of the KKT certificate, ten times the default of linear models.
    max_iter : int, default=None
        Number of outer steps; None uses the default of the solver.
    time_limit : float, default=None
        Seconds for the whole fit. Training trees and reading leaves counts, but is not interrupted.
    warm_start : bool, default=False
        Whether to start from the previous solution, as in `PartialFairClassifier`.
    random_state : int, RandomState or None, default=None
        Seed as in `PartialFairClassifier`, and of models whose own ``random_state`` is None.
    callback : callable, default=None
        As in `PartialFairClassifier`.
    verbose : int, default=0
        1 reports progress on standard error once a second, 2 reports every step.

    Attributes
    ----------
    estimator_ : estimator or booster
        The library's model with the new leaf values.
    initial_estimator_ : estimator or booster
        The library's model with its own leaf values.
    alpha_ : float
        The alpha of the refit.
    classes_ : ndarray of shape (2,)
        Labels of classifiers; high scores stand for the second one.
    decision_threshold_ : float
        Score above which `predict` returns the second class.
    groups_ : ndarray of shape (n_groups,) or None
        Groups seen in training; None if the fit needed no groups.
    result_ : FitResult
        As in `PartialFairClassifier`; gaps are those of the scores of ``estimator_``.
    n_iter_ : int
        Number of outer steps, at least 1.
    n_features_in_ : int
        Number of columns of X in ``fit``, sensitive columns included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if all of them are strings.

    See Also
    --------
    partialfair.PartialFairClassifier : Linear classification with the same constraints.
    partialfair.fairness_path : Models for several limits, evaluated on held-out rows.
    partialfair.make_table_pipeline : Read tables with text and missing values.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from partialfair.trees import PartialFairTrees
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 1000)
    >>> X = rng.normal(size=(1000, 2)) + np.outer(groups == "a", [1, 0])  # feature 0 depends on the group
    >>> y = X.sum(axis=1) + rng.normal(size=1000) > 0.5
    >>> model = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8)
    >>> trees = PartialFairTrees(model, interval=(0.1, 0.5), max_gap=0.1)
    >>> bool(trees.fit(X, y, sensitive_features=groups).result_.gap <= 0.1)
    True
    >>> type(trees.estimator_).__name__
    'HistGradientBoostingClassifier'
    """

    __metadata_request__fit = _ROUTED | {"clusters": True}
    __metadata_request__decision_function = _ROUTED
    __metadata_request__predict = _ROUTED
    __metadata_request__predict_proba = _ROUTED
    __metadata_request__score = _ROUTED

    _set_by_fits: ClassVar[tuple[str, ...]] = (
        "estimator_",
        "initial_estimator_",
        "alpha_",
        "groups_",
        "classes_",
        "decision_threshold_",
        "n_iter_",
        "_refit",
    )

    takes_tables: ClassVar[bool] = True

    group_terms = None
    """Prediction does not need the group."""

    def __init__(
        self,
        estimator: Any,
        constraint: str | Constraint | Sequence[Constraint] | None = "statistical_parity",
        *,
        interval: IntervalLike | Literal["auto"] | None = None,
        max_gap: float = 0.05,
        gap_scale: GapScale = "interval",
        enforce: Literal["exact", "surrogate", "population"] = "exact",
        outside: Literal["free", "no_worse"] = "free",
        confidence: float = 0.95,
        validation: float | tuple[Any, ...] = 0.2,
        constraint_threshold: float | None = None,
        decision_threshold: float | Literal["tune"] = 0.0,
        alpha: float | Literal["auto"] = 1e-2,
        validation_fraction: float | None = 0.15,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        higher_is_better: bool = True,
        min_group_size: int = 2,
        missing_groups: Literal["error", "ignore"] = "error",
        sensitive_columns: Any = None,
        solver: str | Solver = "auto",
        options: FitOptions | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        callback: Callable[[Record], bool | None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.constraint = constraint
        self.interval = interval
        self.max_gap = max_gap
        self.gap_scale = gap_scale
        self.enforce = enforce
        self.outside = outside
        self.confidence = confidence
        self.validation = validation
        self.constraint_threshold = constraint_threshold
        self.decision_threshold = decision_threshold
        self.alpha = alpha
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.higher_is_better = higher_is_better
        self.min_group_size = min_group_size
        self.missing_groups = missing_groups
        self.sensitive_columns = sensitive_columns
        self.solver = solver
        self.options = options
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _fit_samples(
        self,
        samples: Samples,
        task: FitTask,
        deadline: float,
        *,
        earlier: EarlierFits | None = None,
        offset: Offset | None = None,
    ) -> EarlierFits:
        """Fit the model; ``earlier`` holds results of other fits of the same rows, for the refit."""
        # All checks come before any training.
        samples = samples.with_weight()
        positive = positive_rows(self, samples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the refit issues these warnings again
            check_sample_groups(samples, task.constraints, self.min_group_size, positive)
        held_out = hold_out_rows(self, samples, getattr(self, "_held_out_seed", seed_of(self)))

        # The trees of the fitted model, or trees trained here, and the leaf of each tree for every row.
        initial = LeafValues(read_trees(self, samples, held_out))
        leaves = LeafSamples.read(initial, samples)

        # The linear model whose coefficients are added to the leaf values.
        refit = linear_estimator(self)
        if held_out is not None and self.alpha == "auto":
            refit = choose_alpha(self, leaves, held_out, deadline)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            earlier = leaves.refit(refit, deadline, earlier)
        for remark in caught:  # with the caller of fit as their origin
            warnings.warn(str(remark.message).replace(*_ADVICE), remark.category, stacklevel=3)
        written = initial.with_coefficients(refit.coef_, refit.intercept_)

        self.initial_estimator_, self.estimator_ = initial.ensemble.model, written.ensemble.model
        self._refit = refit.set_params(callback=None, warm_start=self.warm_start)  # stored in files as well
        self.alpha_ = float(refit.alpha)
        self.groups_, self.n_iter_ = refit.groups_, refit.n_iter_
        self.result_ = result = refit.result_
        # Gaps and accuracy are those of the library's own scores.
        scores = written.scores(samples.X)
        if result.constraints:
            self.result_ = replace(
                result,
                gaps=exact_gaps(refit, scores, samples, result.constraints),
                outside_gaps=exact_gaps(refit, scores, samples, result.outside),
            )
            if result.satisfied and not self.result_.satisfied:
                infeasibility = f"{name_of(self.estimator_)} rounds scores differently than expected"
                self.result_ = replace(
                    self.result_, status=Status.NO_FEASIBLE_POINT, infeasibility=infeasibility
                )
        if positive is not None:
            self.classes_, weights = refit.classes_, samples.row_weights
            factors = refit._class_factors(self.classes_, positive, weights)
            tuned_on = slice(None) if held_out is None else held_out
            self._place_threshold(scores, positive, weights, factors, tuned_on)
        return earlier

    def _prepare_fits(self, samples: Samples, gaps: Sequence[float] = ()) -> Self:
        """Return a copy whose trees are trained, and whose alpha is a number."""
        fresh, deadline = self._copy_unfitted(), read_deadline(self)
        samples = samples.with_weight()
        positive_rows(self, samples)  # raises InputError unless there are two classes
        seed = seed_of(self)
        held_out = hold_out_rows(self, samples, seed)
        ensemble = read_trees(self, samples, held_out)
        if held_out is not None:
            # Copies of the estimator use it to identify the rows that no tree was trained on.
            fresh._held_out_seed = seed
            if self.alpha == "auto":
                leaves = LeafSamples.read(LeafValues(ensemble), samples)
                fresh.set_params(alpha=choose_alpha(self, leaves, held_out, deadline, gaps).alpha)
        model = ensemble.model
        # Copies are cloned, which returns unfitted estimators; boosters stay fitted.
        fitted = FrozenEstimator(model) if hasattr(model, "get_params") else model
        return fresh.set_params(estimator=fitted)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the scores of ``estimator_``: log-odds, or ``2 p − 1`` for forests.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like, default=None
            Not used.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores; high scores stand for ``classes_[1]``.
        """
        return self._scores(X, sensitive_features)

    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return predicted labels of a classifier, or numbers of a regressor.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like, default=None
            Not used.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``classes_[1]`` where the score exceeds ``decision_threshold_``, else ``classes_[0]``; predictions
            of a regressor.
        """
        scores = self._scores(X, sensitive_features)
        if is_regressor(self):
            return scores
        return np.asarray(self.classes_[(scores > self.decision_threshold_).astype(np.intp)])

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the class probabilities of ``estimator_``.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like, default=None
            Not used.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Probabilities; columns in the order of ``classes_``.
        """
        second = self._probabilities(self._scores(X, sensitive_features))
        return np.column_stack([1 - second, second])

    def _probabilities(self, scores: Floats) -> Floats:
        """Return the probability of the second class for each score."""
        return self._deployed_values.probabilities(scores)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy of a classifier, or R² of a regressor.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        y : array-like of shape (n_samples,)
            True labels or values.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.
        sensitive_features : array-like, default=None
            Not used.

        Returns
        -------
        float
            The score.
        """
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
        """Compare the calibration of the probabilities before and after the refit, by group.

        If the labels of groups have different distributions, a limit on the gap costs calibration: a group
        whose scores are raised gets probabilities that are too high. Use held-out rows.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        y : array-like of shape (n_samples,)
            True labels.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.
        n_bins : int, default=10
            Number of bins of probabilities.

        Returns
        -------
        pandas.DataFrame
            ``error``, ``bias`` and ``difference`` of `partialfair.metrics.calibration_by_group`, each as
            ``…_before`` and ``…_after``.
        """
        _classifies(self)
        return compare_calibration(
            LeafValues(ensemble_of(self.initial_estimator_)),
            self._deployed_values,
            self._read_features(X, reset=False)[0],
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            pos_label=self.classes_[1],
            n_bins=n_bins,
        )

    @property
    def loss(self) -> str:
        """The loss that the refit minimizes: logistic, or squared for regressors and forests."""
        return loss_of(self.estimator)

    @property
    def _deployed_values(self) -> LeafValues:
        """The trees of ``estimator_``; cached, because reading them takes time."""
        check_is_fitted(self)
        values = _LEAF_VALUES.get(self)
        if values is None or values.ensemble.model is not self.estimator_:
            values = _LEAF_VALUES[self] = LeafValues(ensemble_of(self.estimator_))
        return values

    def __getstate__(self) -> dict[str, Any]:
        """Return the stored state, with models in the formats of their libraries."""
        state = super().__getstate__()
        return state | {name: pack_model(state[name]) for name in _MODELS if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {name: unpack_model(state[name]) for name in _MODELS if name in state})

    def _check_stored(self) -> None:
        check_stored_trees(self)

    def _check_settings(self) -> None:
        """Raise `InputError` for invalid parameters and for models without trees."""
        super()._check_settings()
        check_model(self.estimator, self.validation_fraction)
        self._read_constraints()

    def _check_alpha(self) -> None:
        if not isinstance(self.alpha, str):
            super()._check_alpha()
        elif self.alpha != "auto":
            raise InputError(f"alpha must be a number or 'auto', not {shown(self.alpha)}")

    def _read_constraints(self) -> tuple[Constraint, ...]:
        constraints: tuple[Constraint, ...] = linear_estimator(self)._read_constraints()
        return constraints

    def _read_features(self, X: ArrayLike, *, reset: bool) -> tuple[Any, dict[str, ArrayLike] | None]:
        return read_table(self, X, reset=reset)

    def _read_target(self, y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
        return read_labels(self, y, n_rows)

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Return the scores of the library's model, which needs no group."""
        check_is_fitted(self)
        return self._score_samples(self._read_features(X, reset=False)[0])

    def _score_samples(self, X: Any, groups: Any = None) -> Floats:
        written = self._deployed_values
        with name_model_in_errors(self.estimator_, "could not score X"):
            return written.scores(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        model = unwrap(self.estimator)
        if hasattr(model, "get_params") and not isinstance(model, type):
            tags.input_tags = get_tags(model).input_tags
        else:  # boosters of LightGBM and XGBoost
            tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        if predicts_numbers(self.estimator):
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_class=False)
        return tags
