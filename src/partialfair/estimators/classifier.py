"""A linear classifier whose scores obey partial-fairness constraints."""

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
        "probabilities need loss='logistic': the scores of other losses are none; take decision_function"
    )


class PartialFairClassifier(ClassifierMixin, PartialFairEstimator):
    """Linear classifier whose scores have alike distributions across groups on an interval of percentiles.

    ``min mean loss + ½ alpha ‖coef‖²`` subject to a bound ``max_gap`` on the gap between groups among the
    members of each group whose rank, counted **from the top** by score, lies in the interval. The paper's
    difference-of-convex program, solved by its algorithms; every fit reports its KKT residual.

    Parameters
    ----------
    constraint
        ``"statistical_parity"``, ``"demographic_parity"``, ``"group_auc"``, ``"equal_opportunity"``,
        ``"equalized_odds"``, None for an ordinary classifier, a constraint of `partialfair.constraints`, or a
        list of those.
    interval
        Ranks from the top: ``(0.05, 0.30)`` holds ranks 5–30%, score percentiles 70–95. Also a list of such
        pairs (their union), a mapping from group to either, or ``"auto"``: `choose_interval` on the scores of
        the unconstrained model, around the share of them above 0; ``result_.constraints`` says which. It is
        chosen on the training rows: what others show is not touched by the choice. Constraint objects with
        an interval keep it; all other constraints take this one, and `fit` raises `InputError` if there is
        none. It also does if all have one and this is given, too. ``(0, 1)`` is the whole range.
    max_gap
        κ, the largest gap allowed, in [0, 1]; less than .001 counts as .001.
    gap_scale
        ``"interval"``, the definition, or ``"absolute"``, the scale of the paper's experiments.
    enforce
        ``"exact"``: the exact gap of the training scores, ``result_.gap``, is at most ``max_gap``, or the
        status says that no such model was found, and ``result_.infeasibility`` names the pair of groups and
        the percentile. ``"surrogate"`` bounds the surrogate of the gap, as the paper does; the exact gap
        may be larger. ``"population"`` is about people whom the model has not seen: several models are
        trained, for ``max_gap`` and for less; rows held out show of which the gap on new people is, with
        ``confidence``, at most ``max_gap``; and of these the best is taken. If there is none, the status is
        NOT_VALIDATED and a warning says how far it is; ``result_.population`` has the figures.
    outside
        ``"free"``, or ``"no_worse"``: the gaps next to the interval are limited, too. The ranks on each side,
        as wide as the interval and as far as there are any (of a union: the pieces of its complement), may
        have no larger exact training gap than the model without a constraint and the same ``alpha`` has
        there. ``result_.outside`` and ``result_.outside_gaps`` have the limits and the gaps; if one is
        exceeded, ``result_.satisfied`` is False. For statistical parity with ``enforce="exact"``, and one
        interval for all groups.
    confidence
        Of a promise about new people, choosing among models included; between 0 and 1.
    validation
        For such a promise, the share of the rows to hold out, drawn within groups and classes by
        ``random_state``, or the rows themselves: ``(X, y, sensitive_features)``, or with ``sample_weight`` as
        a fourth and ``clusters`` as a fifth. They must be people like those whom the promise is about, and
        never trained on.
    constraint_threshold
        Score at which demographic parity, equal opportunity and equalized odds are imposed.
    decision_threshold
        Score above which `predict` returns the second class. ``"tune"`` takes the one with the highest
        accuracy on the training rows, weighted as in the loss (so that ``class_weight="balanced"`` makes it
        balanced accuracy). Constraints about ranks alone (``"statistical_parity"``, ``"group_auc"``, none) do
        not notice; with others it raises `InputError`.
    loss
        ``"logistic"``, ``"hinge"``, ``"squared"`` (classes as ±1), ``"auc"`` (squared hinge of the pairs of a
        positive and a negative), or a loss of `partialfair.optimization.objectives` with settings of its own,
        such as ``PartialAUC(fpr=(0.0, 0.1))``. Corners of the hinge are rounded unless its ``rounding`` is 0,
        which solvers that need gradients only can take: ``"idca-switching"``, ``"switching"`` and
        ``"augmented-lagrangian"``. Losses of pairs put the score 0 midway between the classes' mean scores.
    alpha
        Strength of the ℓ2 penalty on the coefficients; intercepts are free. scikit-learn's
        ``C = 1 / (alpha · n)``.
    fit_intercept
        Whether scores have an intercept.
    class_weight
        None, ``"balanced"`` or a mapping from class to weight; enters the loss only.
    higher_is_better
        False where low scores are good, as scores of risk are: the constraints then count ranks from the
        lowest scores, and select those below ``constraint_threshold``. The loss, ``decision_function`` and
        ``predict`` are the same.
    min_group_size
        A group with fewer effective members in the interval of a constraint (of positives for equal
        opportunity, of positives and of negatives for equalized odds) is outside of its promise: its rows
        count in the loss, a `SmallGroupWarning` and ``result_.small_groups`` name it. Effective members are
        ``(Σ w)² / Σ w²`` of the weights.
    missing_groups
        ``"error"``, or ``"ignore"``: rows without a group then count in the loss only.
    sensitive_columns
        Names or positions of columns of X that hold the group. They are read, then dropped from the features,
        so that plain ``predict(X)`` works in scorers and searches.
    group_terms
        None: one model for all. ``"intercept"``: an intercept per group. ``"interactions"``: a model per
        group, as in the paper. Prediction then needs the group; using it may be unlawful where you are.
    solver
        ``"auto"`` (sequential quadratic programming from ``options.n_starts`` starts, then IDCA, until the
        KKT certificate holds), ``"idca"`` (Algorithm 1 with Newton steps inside), the paper's
        ``"idca-switching"`` (Algorithms 1 and 2) and ``"switching"`` (Algorithm 3),
        ``"augmented-lagrangian"`` (L-BFGS on the augmented Lagrangian), or a solver of
        `partialfair.optimization.solvers` with settings of its own. Without constraints a name means
        Newton's method.
    options
        `FitOptions` for the grid of ranks, the surrogate and the search; None for the defaults. Its fields
        are parameters as well: ``set_params(options__n_points=30)``.
    tol
        ε of the KKT certificate: the fit ends as converged when all its residuals are at most this, whichever
        solver found the point. Violations are on the scale of ``max_gap``.
    max_iter
        Outer steps; None for the solver's own default. Where models have more than some hundred parameters
        ``solver="auto"`` does without Hessians, and takes up to four times as many.
    time_limit
        Seconds after which the whole fit ends with its best point so far, and status TIME_LIMIT: reading the
        data, the unconstrained model, all solves, corrections and KKT certificates together. It holds within
        a second or a fifth.
    warm_start
        Start from the last solution, if it has the right shape and, for the paper's solvers, is as feasible
        as a cold start. With ``enforce="population"`` models start from each other, and from no earlier fit.
    random_state
        For random starts and steps, and rows held out; None always draws the same ones.
    callback
        Called with a record of each step; returning True stops the fit, as Ctrl-C does: it ends with its best
        point so far, if only the unconstrained one, and status STOPPED.
    verbose
        1 shows progress on standard error once a second, 2 every step.

    Attributes
    ----------
    classes_ : (2,)
        Labels; positive scores stand for the second.
    coef_ : (1, n_features) or (n_groups, n_features)
        One row, or with interactions one per group in the order of ``groups_``.
    intercept_ : (1,) or (n_groups,)
        Likewise, with any group terms; zeros without intercepts.
    decision_threshold_ : float
        The score above which `predict` returns the second class.
    groups_ : (n_groups,)
        Groups seen in training; None if they were not needed.
    result_ : FitResult
        Status, objective, violation, exact gap and where it is, whether the promise is kept and which groups
        are outside of it, thresholds, history, KKT certificate.
    n_iter_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn; sensitive columns are counted.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair import PartialFairClassifier
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 400)
    >>> X = rng.normal(size=(400, 2)) + np.outer(groups == "a", [1, 0])  # the first feature tells the group
    >>> y = X.sum(axis=1) + rng.normal(size=400) > 0.5
    >>> clf = PartialFairClassifier(interval=(0.1, 0.5), max_gap=0.1, enforce="surrogate")
    >>> clf.fit(X, y, sensitive_features=groups).result_.status
    <Status.CONVERGED: 'converged'>
    >>> bool(abs(clf.coef_[0, 0]) < clf.coef_[0, 1] / 2)  # so it counts for less than half of the other
    True
    """

    # Requested by default, so that pipelines and searches hand the groups on without set_fit_request.
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
        """Return the scores; groups are needed only if the model has group terms."""
        return self._scores(X, sensitive_features)

    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return ``classes_[1]`` where the score is above ``decision_threshold_``, else ``classes_[0]``."""
        above = self.decision_function(X, sensitive_features) > self.decision_threshold_
        return np.asarray(self.classes_[above.astype(np.intp)])

    @available_if(_gives_probabilities)
    def predict_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the probabilities that the logistic loss takes the scores for; only with that loss."""
        scores = self.decision_function(X, sensitive_features)
        return np.column_stack([self._probabilities(-scores), self._probabilities(scores)])

    def _probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities of the second class that scores stand for."""
        return np.asarray(expit(scores))

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the logarithms of `predict_proba`; only with the logistic loss."""
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
        """Return the accuracy."""
        refuse_lazy(y, "y")
        refuse_lazy(sample_weight, "sample_weight")
        return float(accuracy_score(y, self.predict(X, sensitive_features), sample_weight=sample_weight))

    def _class_factors(
        self, classes: npt.NDArray[Any], positive: npt.NDArray[np.bool_], weights: Floats
    ) -> Floats:
        """Return the factor of each row's weight in the loss; "balanced" makes both classes count alike."""
        if self.class_weight is None:
            return np.ones(weights.size)
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            # Each class counts half of the weight.
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
