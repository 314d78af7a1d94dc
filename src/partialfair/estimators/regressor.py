"""A linear regressor whose predictions satisfy partial-fairness constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from partialfair.constraints.base import Constraint
from partialfair.data.samples import Samples
from partialfair.estimators.base import PartialFairEstimator
from partialfair.estimators.inputs import read_target
from partialfair.estimators.parameters import refuse_for_regression
from partialfair.optimization.models import GroupTerms
from partialfair.optimization.objectives import Squared
from partialfair.optimization.solvers import Record, Solver
from partialfair.training.options import FitOptions
from partialfair.training.units import unit_of
from partialfair.utils.checks import refuse_lazy, squarable_vector
from partialfair.utils.typing import ArrayLike, Floats, GapScale, IntervalLike

_ROUTED = {"sensitive_features": True}


class PartialFairRegressor(RegressorMixin, PartialFairEstimator):
    """Linear regressor with a limit on the gap between groups' predictions on an interval of ranks.

    The regressor minimizes ``½ mean (s − y)² + ½ alpha ‖coef‖²`` subject to: the gap between any two groups,
    among the rows of each group whose rank lies in ``interval``, is at most ``max_gap``. Ranks are counted
    within a group **from the highest prediction**. Predictions are the scores of `PartialFairClassifier`.

    Parameters
    ----------
    constraint : str, Constraint, list of those or None, default="statistical_parity"
        ``"statistical_parity"``, ``"demographic_parity"``, a constraint of `partialfair.constraints`, or a
        list of those; None fits ridge regression. Equal opportunity and equalized odds need class labels and
        raise `InputError`. Settings in units of scores are in units of ``y``.
    interval : tuple, list of tuples or mapping, default=None
        As in `PartialFairClassifier`, except for ``"auto"``, which needs a rate of positive decisions and
        raises `InputError`: pass ``choose_interval(predictions, positive_rate=...)`` instead.
    max_gap : float, default=0.05
        Limit on the gap, in [0, 1]. Values below 0.001 are treated as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        As in `PartialFairClassifier`.
    enforce : {"exact", "surrogate", "population"}, default="exact"
        As in `PartialFairClassifier`; validated models are compared by R².
    outside : {"free", "no_worse"}, default="free"
        As in `PartialFairClassifier`.
    confidence : float, default=0.95
        Confidence of ``enforce="population"``, between 0 and 1.
    validation : float or tuple, default=0.2
        As in `PartialFairClassifier`; rows are held out within groups.
    constraint_threshold : float, default=None
        Prediction at which demographic parity compares groups; required for it.
    loss : {"squared"}, default="squared"
        The loss.
    alpha : float, default=1e-4
        Strength of the ℓ2 penalty on coefficients; intercepts are not penalized.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    higher_is_better : bool, default=True
        False if low predictions are favorable. The constraints then count ranks from the lowest prediction
        and select rows below ``constraint_threshold``. The loss and `predict` do not change.
    min_group_size : int, default=2
        As in `PartialFairClassifier`.
    missing_groups : {"error", "ignore"}, default="error"
        ``"ignore"`` uses rows without a group in the loss only.
    sensitive_columns : column label, position or list of those, default=None
        Columns of X that hold the group. They are not used as features.
    group_terms : {"intercept", "interactions"} or None, default=None
        As in `PartialFairClassifier`.
    solver : str or solver object, default="auto"
        As in `PartialFairClassifier`.
    options : FitOptions, default=None
        Grid of ranks, surrogate and search; None uses the defaults of `FitOptions`.
    tol : float, default=1e-4
        Tolerance ε of the KKT certificate, in units in which ``y`` has a standard deviation of about 1.
    max_iter : int, default=None
        Number of outer steps; None uses the default of the solver.
    time_limit : float, default=None
        Seconds for the whole fit, as in `PartialFairClassifier`.
    warm_start : bool, default=False
        Whether to start from the previous solution, as in `PartialFairClassifier`.
    random_state : int, RandomState or None, default=None
        Seed of random starts and steps and of the held-out rows; None uses the same fixed seed every time.
    callback : callable, default=None
        As in `PartialFairClassifier`.
    verbose : int, default=0
        1 reports progress on standard error once a second, 2 reports every step.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_groups, n_features)
        Coefficients; with ``group_terms="interactions"`` one row per group in the order of ``groups_``.
    intercept_ : ndarray of shape (1,) or (n_groups,)
        Intercepts; with any ``group_terms`` one per group.
    groups_ : ndarray of shape (n_groups,) or None
        Groups seen in training; None if the fit needed no groups.
    result_ : FitResult
        As in `PartialFairClassifier`.
    n_iter_ : int
        Number of outer steps, at least 1.
    n_features_in_ : int
        Number of columns of X in ``fit``, sensitive columns included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X, if all of them are strings.

    See Also
    --------
    PartialFairClassifier : Linear classification with the same constraints.
    fairness_path : Models for several limits, evaluated on held-out rows.
    choose_interval : Interval of ranks around a selection rate.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairRegressor
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(groups == "a", [1, 0])  # feature 0 depends on the group
    >>> y = X.sum(axis=1) + rng.normal(size=400)
    >>> reg = PartialFairRegressor(interval=(0.1, 0.5), max_gap=0.1, enforce="surrogate")
    >>> reg.fit(X, y, sensitive_features=groups).result_.status
    <Status.CONVERGED: 'converged'>
    >>> bool(abs(reg.coef_[0, 0]) < reg.coef_[0, 1] / 2)  # the constraint reduces the weight of feature 0
    True
    """

    # Requested by default: pipelines and searches pass the groups without set_fit_request.
    __metadata_request__fit = _ROUTED | {"clusters": True}
    __metadata_request__predict = _ROUTED
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
        constraint_threshold: float | None = None,
        loss: str | Squared = "squared",
        alpha: float = 1e-4,
        fit_intercept: bool = True,
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
        self.loss = loss
        self.alpha = alpha
        self.fit_intercept = fit_intercept
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
        return squarable_vector(read_target(y, n_rows), "y")

    def _prepare_target(self, samples: Samples) -> tuple[Samples, float, Floats | None]:
        sign = 1 if self.higher_is_better else -1
        return samples, unit_of(samples.y, samples.row_weights) * sign, None

    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            Groups; needed only if the model has group terms and ``sensitive_columns`` is not set.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions, in units of ``y``.
        """
        return self._scores(X, sensitive_features)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return R² of the predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features with the columns of ``fit``.
        y : array-like of shape (n_samples,)
            True values.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            As in `predict`.

        Returns
        -------
        float
            Coefficient of determination.
        """
        refuse_lazy(y, "y")
        refuse_lazy(sample_weight, "sample_weight")
        return float(r2_score(y, self.predict(X, sensitive_features), sample_weight=sample_weight))

    def _read_constraints(self) -> tuple[Constraint, ...]:
        refuse_for_regression(self)
        return super()._read_constraints()
