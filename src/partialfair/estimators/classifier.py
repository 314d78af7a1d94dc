"""A linear classifier whose scores satisfy partial-fairness constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if

from partialfair.constraints.base import Constraint
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.inputs import (
    check_labels,
    check_names_of_classes,
    read_target,
    two_classes,
)
from partialfair.exceptions import InputError
from partialfair.optimization.models import GroupTerms
from partialfair.optimization.objectives import Logistic, LossSettings
from partialfair.optimization.solvers import Record, Solver
from partialfair.training.options import FitOptions
from partialfair.utils.checks import refuse_lazy
from partialfair.utils.typing import ArrayLike, Floats, GapScale, IntervalLike

_ROUTED = {"sensitive_features": True}


def _gives_probabilities(estimator: PartialFairClassifier) -> bool:
    if estimator.loss == "logistic" or isinstance(estimator.loss, Logistic):
        return True
    raise AttributeError(
        "predict_proba needs loss='logistic'; scores of other losses are not log-odds, use decision_function"
    )


class PartialFairClassifier(ClassifierMixin, PartialFairEstimator):
    """Linear classifier with a limit on the gap between groups' scores on an interval of ranks.

    The classifier minimizes ``mean loss + ½ alpha ‖coef‖²`` subject to: the gap between any two groups, among
    the rows of each group whose rank lies in ``interval``, is at most ``max_gap``. Ranks are counted within a
    group **from the highest score**. This is the difference-of-convex program of the paper (section
    "Optimization Models"); each fit reports its KKT residual.

    Parameters
    ----------
    constraint : str, Constraint, list of those or None, default="statistical_parity"
        ``"statistical_parity"``, ``"demographic_parity"``, ``"group_auc"``, ``"equal_opportunity"``,
        ``"equalized_odds"``, a constraint of `partialfair.constraints`, or a list of those. None fits an
        unconstrained classifier.
    interval : tuple, list of tuples, mapping or "auto", default=None
        Ranks from the top: ``(0.05, 0.30)`` means ranks 5–30%, which are score percentiles 70–95, and
        ``(0, 1)`` means all ranks. A list of pairs is their union; a mapping gives each group its own
        interval. ``"auto"`` calls `choose_interval` on the training scores of the unconstrained model, around
        the proportion of scores above 0; ``result_.constraints`` has the choice. Constraint objects may have
        an interval of their own; all other constraints use this one, and `fit` raises `InputError` if it is
        missing or if no constraint uses it.
    max_gap : float, default=0.05
        Limit on the gap, in [0, 1]. Values below 0.001 are treated as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap: ``"interval"`` is the definition, a proportion of the rows in the interval;
        ``"absolute"`` is the scale of the paper's experiments, a proportion of the whole group.
    enforce : {"exact", "surrogate", "population"}, default="exact"
        What the limit applies to. ``"exact"``: the exact gap on the training rows, ``result_.gap``. If no
        such model is found, the status says so and ``result_.infeasibility`` names the groups and the rank.
        ``"surrogate"``: the surrogate of the gap, as in the paper; the exact gap may be larger.
        ``"population"``: the gap on new data from the same population, with ``confidence``. Several models
        are trained with limits up to ``max_gap``, held-out rows validate them, and the best validated model
        is returned. If none is validated, the status is NOT_VALIDATED and a warning reports the upper
        confidence bound; ``result_.population`` has the figures.
    outside : {"free", "no_worse"}, default="free"
        ``"no_worse"`` also limits the gaps on the ranks on each side of the interval, over a width equal to
        its own (for a union: on the pieces between and around its parts). The exact training gap there must
        not exceed the gap of the unconstrained model with the same ``alpha``. ``result_.outside`` and
        ``result_.outside_gaps`` have the limits and the gaps; if one is exceeded, ``result_.satisfied`` is
        False. Requires statistical parity, ``enforce="exact"`` and one interval for all groups.
    confidence : float, default=0.95
        Confidence of ``enforce="population"``, between 0 and 1, corrected for choosing among several models.
    validation : float or tuple, default=0.2
        With ``enforce="population"``, the fraction of rows to hold out, drawn within groups and classes; or
        the held-out rows, as ``(X, y, sensitive_features)`` with optional ``sample_weight`` and ``clusters``
        as fourth and fifth entries. They must be a sample of the target population that was not used in
        training.
    constraint_threshold : float, default=0.0
        Score at which demographic parity, equal opportunity and equalized odds compare groups.
    decision_threshold : float or "tune", default=0.0
        Score above which `predict` returns the second class. ``"tune"`` uses the threshold with the highest
        training accuracy, weighted as in the loss: with ``class_weight="balanced"`` it maximizes the balanced
        accuracy. Requires constraints that depend on ranks only (``"statistical_parity"``, ``"group_auc"``).
    loss : str or loss object, default="logistic"
        ``"logistic"``, ``"hinge"``, ``"squared"`` (classes as ±1), ``"auc"`` (squared hinge over all pairs of
        a positive and a negative row), or a loss of `partialfair.optimization.objectives` with its own
        settings, such as ``PartialAUC(fpr=(0.0, 0.1))``. The corner of the hinge is rounded unless its
        ``rounding`` is 0, which requires a solver that uses gradients only (``"idca-switching"``,
        ``"switching"``, ``"augmented-lagrangian"``). Pairwise losses place the score 0 midway between the
        mean scores of the classes.
    alpha : float, default=1e-4
        Strength of the ℓ2 penalty on coefficients; intercepts are not penalized. In scikit-learn's terms
        ``C = 1 / (alpha · n)``.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    class_weight : "balanced", mapping or None, default=None
        Class weights in the loss. Constraints ignore them.
    higher_is_better : bool, default=True
        False if low scores are favorable, as for risk scores. The constraints then count ranks from the
        lowest score and select rows below ``constraint_threshold``. The loss, `decision_function` and
        `predict` do not change.
    min_group_size : int, default=2
        Smallest effective sample size, ``(Σ w)² / Σ w²``, of a group in the interval (of its positives for
        equal opportunity, of its positives and negatives for equalized odds). The constraint excludes smaller
        groups; a `SmallGroupWarning` and ``result_.small_groups`` name them. Their rows still count in the
        loss.
    missing_groups : {"error", "ignore"}, default="error"
        ``"ignore"`` uses rows without a group in the loss only.
    sensitive_columns : column label, position or list of those, default=None
        Columns of X that hold the group. They are not used as features. With this parameter ``predict(X)``
        works in scorers and searches.
    group_terms : {"intercept", "interactions"} or None, default=None
        None fits one model for all groups, ``"intercept"`` an intercept per group, ``"interactions"`` a model
        per group as in the paper. Prediction then requires the groups, which the law may forbid.
    solver : str or solver object, default="auto"
        ``"auto"``: sequential quadratic programming from ``options.n_starts`` starts, then IDCA, until the
        KKT certificate holds. ``"idca"``: the paper's Algorithm 1 with Newton steps for its subproblems.
        ``"idca-switching"``: Algorithms 1 and 2. ``"switching"``: Algorithm 3. ``"augmented-lagrangian"``:
        L-BFGS on the augmented Lagrangian. Or a solver of `partialfair.optimization.solvers` with its own
        settings. Without constraints every name means Newton's method.
    options : FitOptions, default=None
        Grid of ranks, surrogate and search; None uses the defaults of `FitOptions`. Its fields are also
        parameters: ``set_params(options__n_points=30)``.
    tol : float, default=1e-4
        Tolerance ε of the KKT certificate. A fit has converged when all KKT residuals are at most ``tol``,
        with any solver. Violations are on the scale of ``max_gap``.
    max_iter : int, default=None
        Number of outer steps; None uses the default of the solver. For models with more than a few hundred
        parameters ``solver="auto"`` uses no Hessians and makes up to four times as many steps.
    time_limit : float, default=None
        Seconds for the whole fit, including reading the data. The fit then ends with the best model so far
        and status TIME_LIMIT, at most one second or 20% late.
    warm_start : bool, default=False
        Whether to start from the previous solution if its shape matches and, for the paper's solvers, if it
        is as feasible as a cold start. With ``enforce="population"`` earlier fits are not used.
    random_state : int, RandomState or None, default=None
        Seed of random starts and steps and of the held-out rows; None uses the same fixed seed every time.
    callback : callable, default=None
        Function that is called with a record of each step. If it returns True, or on Ctrl-C, the fit ends
        with the best model so far and status STOPPED.
    verbose : int, default=0
        1 reports progress on standard error once a second, 2 reports every step.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels; high scores stand for the second one.
    coef_ : ndarray of shape (1, n_features) or (n_groups, n_features)
        Coefficients; with ``group_terms="interactions"`` one row per group in the order of ``groups_``.
    intercept_ : ndarray of shape (1,) or (n_groups,)
        Intercepts; with any ``group_terms`` one per group.
    decision_threshold_ : float
        Score above which `predict` returns the second class.
    groups_ : ndarray of shape (n_groups,) or None
        Groups seen in training; None if the fit needed no groups.
    result_ : FitResult
        Status, objective, exact gap and where it occurs, whether the constraint is satisfied, excluded
        groups, history and KKT certificate.
    n_iter_ : int
        Number of outer steps, at least 1.
    n_features_in_ : int
        Number of columns of X in ``fit``, sensitive columns included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if all of them are strings.

    See Also
    --------
    PartialFairRegressor : Linear regression with the same constraints.
    partialfair.trees.PartialFairTrees : Tree ensembles with the same constraints.
    partialfair.postprocessing.PartialParityAdjuster : Change the scores of a fitted model.
    fairness_path : Models for several limits, evaluated on held-out rows.
    choose_interval : Interval of ranks around a selection rate.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(groups == "a", [1, 0])  # feature 0 depends on the group
    >>> y = X.sum(axis=1) + rng.normal(size=400) > 0.5
    >>> clf = PartialFairClassifier(interval=(0.1, 0.5), max_gap=0.1, enforce="surrogate")
    >>> clf.fit(X, y, sensitive_features=groups).result_.status
    <Status.CONVERGED: 'converged'>
    >>> bool(abs(clf.coef_[0, 0]) < clf.coef_[0, 1] / 2)  # the constraint reduces the weight of feature 0
    True
    """

    # Requested by default: pipelines and searches pass the groups without set_fit_request.
    __metadata_request__fit = _ROUTED | {"clusters": True}
    __metadata_request__decision_function = _ROUTED
    __metadata_request__predict = _ROUTED
    __metadata_request__predict_proba = _ROUTED
    __metadata_request__predict_log_proba = _ROUTED
    __metadata_request__score = _ROUTED

    def __init__(
        self,
        constraint: str | Constraint | Sequence[Constraint] | None = "statistical_parity",
        *,
        interval: IntervalLike | Literal["auto"] | None = None,
        max_gap: float = 0.05,
        gap_scale: GapScale = "interval",
        enforce: Literal["exact", "surrogate", "population"] = "exact",
        outside: Literal["free", "no_worse"] = "free",
        confidence: float = 0.95,
        validation: float | tuple[Any, ...] = 0.2,
        constraint_threshold: float = 0.0,
        decision_threshold: float | Literal["tune"] = 0.0,
        loss: str | LossSettings = "logistic",
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        higher_is_better: bool = True,
        min_group_size: int = 2,
        missing_groups: Literal["error", "ignore"] = "error",
        sensitive_columns: Any = None,
        group_terms: GroupTerms = None,
        solver: str | Solver = "auto",
        options: FitOptions | None = None,
        tol: float = 1e-4,
        max_iter: int | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        callback: Callable[[Record], bool | None] | None = None,
        verbose: int = 0,
    ) -> None:
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
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.higher_is_better = higher_is_better
        self.min_group_size = min_group_size
        self.missing_groups = missing_groups
        self.sensitive_columns = sensitive_columns
        self.group_terms = group_terms
        self.solver = solver
        self.options = options
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _read_target(self, y: ArrayLike, n_rows: int) -> npt.NDArray[Any]:
        labels = read_target(y, n_rows)
        check_labels(labels)
        return labels

    def _prepare_target(self, samples: Samples) -> tuple[Samples, float, Floats | None]:
        classes = two_classes(samples.y)
        if self.constraint is not None and self.higher_is_better:
            check_names_of_classes(classes)
        positive = samples.y == classes[1]
        factors = self._class_factors(classes, positive, samples.row_weights)
        return replace(samples, y=positive), 1.0 if self.higher_is_better else -1.0, factors

    def decision_function(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the scores of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            Groups; needed only if the model has group terms and ``sensitive_columns`` is not set.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores; high scores stand for ``classes_[1]``.
        """
        return self._scores(X, sensitive_features)

    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return ``classes_[1]`` where the score exceeds ``decision_threshold_``, else ``classes_[0]``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        above = self.decision_function(X, sensitive_features) > self.decision_threshold_
        return np.asarray(self.classes_[above.astype(np.intp)])

    @available_if(_gives_probabilities)
    def predict_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return class probabilities; only with the logistic loss.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Logistic function of the scores; columns in the order of ``classes_``.
        """
        scores = self.decision_function(X, sensitive_features)
        return np.column_stack([self._probabilities(-scores), self._probabilities(scores)])

    def _probabilities(self, scores: Floats) -> Floats:
        """Return the probability of the second class for each score."""
        return np.asarray(expit(scores))

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the logarithms of `predict_proba`; only with the logistic loss.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Logarithms of the class probabilities.
        """
        scores = self.decision_function(X, sensitive_features)
        return np.column_stack([log_expit(-scores), log_expit(scores)])

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            As in `decision_function`.

        Returns
        -------
        float
            Weighted proportion of correct predictions.
        """
        refuse_lazy(y, "y")
        refuse_lazy(sample_weight, "sample_weight")
        return float(accuracy_score(y, self.predict(X, sensitive_features), sample_weight=sample_weight))

    def _class_factors(
        self, classes: npt.NDArray[Any], positive: npt.NDArray[np.bool_], weights: Floats
    ) -> Floats:
        """Return each row's factor in the loss; "balanced" gives both classes the same total weight."""
        if self.class_weight is None:
            return np.ones(weights.size)
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            # Each class has half of the total weight.
            factors = [weights.sum() / (2 * weights[positive == side].sum()) for side in (False, True)]
        elif isinstance(self.class_weight, Mapping):
            for label in self.class_weight:
                if label not in classes.tolist():
                    raise InputError(f"class_weight names class {label!r}, which is not in y")
            factors = [float(self.class_weight.get(label, 1.0)) for label in classes.tolist()]
            if not (min(factors) >= 0 and np.isfinite(factors).all() and max(factors) > 0):
                raise InputError(f"class_weight must hold weights of at least 0, not {self.class_weight}")
        else:
            raise InputError(f"class_weight must be None, 'balanced' or a mapping, not {self.class_weight!r}")
        return np.asarray(factors)[positive.astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
