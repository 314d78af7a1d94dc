"""A linear regressor whose predictions obey partial-fairness constraints."""

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
    """Linear regressor whose predictions are distributed alike across groups on an interval of percentiles.

    ``min ½ mean (s − y)² + ½ alpha ‖coef‖²`` subject to a bound ``max_gap`` on the gap between groups among
    the members of each group whose rank, counted **from the top** by prediction, lies in the interval. What
    `PartialFairClassifier` does with scores, this does with predictions, which are the scores.

    Parameters
    ----------
    constraint
        ``"statistical_parity"``, ``"demographic_parity"``, None for ridge regression, a constraint of
        `partialfair.constraints`, or a list of those. Equal opportunity and equalized odds compare people
        with the same label, and are refused. Numbers in units of scores are in units of y.
    interval
        As in `PartialFairClassifier`, but for ``"auto"``, which needs a rate of positive decisions and is
        refused: take ``choose_interval(predictions, positive_rate=...)``.
    constraint_threshold
        Prediction at which demographic parity is imposed, which needs it.
    loss
        ``"squared"``.
    tol
        ε of the KKT certificate, in units in which y has a standard deviation of about 1.
    max_gap, gap_scale, enforce, outside, confidence, validation, alpha, fit_intercept
        As in `PartialFairClassifier`; rows are held out within groups, and models compared by R².
    higher_is_better
        False where low predictions are good: the constraints then count ranks from the lowest, and select
        those below ``constraint_threshold``. The loss and ``predict`` are the same.
    min_group_size, missing_groups, sensitive_columns, group_terms, solver, options
        As in `PartialFairClassifier`.
    max_iter, time_limit, warm_start, random_state
        As in `PartialFairClassifier`.
    callback, verbose
        As in `PartialFairClassifier`.

    Attributes
    ----------
    coef_, intercept_, groups_, result_, n_iter_, n_features_in_, feature_names_in_
        As in `PartialFairClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairRegressor
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(groups == "a", [1, 0])  # the first feature tells the group
    >>> y = X.sum(axis=1) + rng.normal(size=400)
    >>> reg = PartialFairRegressor(interval=(0.1, 0.5), max_gap=0.1, enforce="surrogate")
    >>> reg.fit(X, y, sensitive_features=groups).result_.status
    <Status.CONVERGED: 'converged'>
    >>> bool(abs(reg.coef_[0, 0]) < reg.coef_[0, 1] / 2)  # so it counts for less than half of the other
    True
    """

    # Requested by default, so that pipelines and searches hand the groups on without set_fit_request.
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
        """Return the scores; groups are needed only if the model has group terms."""
        return self._scores(X, sensitive_features)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return R²."""
        refuse_lazy(y, "y")
        refuse_lazy(sample_weight, "sample_weight")
        return float(r2_score(y, self.predict(X, sensitive_features), sample_weight=sample_weight))

    def _read_constraints(self) -> tuple[Constraint, ...]:
        refuse_for_regression(self)
        return super()._read_constraints()
