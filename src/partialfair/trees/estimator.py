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
# Attributes that are models of libraries.
_MODELS = ("estimator", "estimator_", "initial_estimator_")
# What linear models lack where no feasible model is found, and what trees do.
_ADVICE = (
    "add features or group_terms that can close",
    "grow more trees, or larger ones, that can close",
)
# Leaf values by estimator. They are not an attribute: ``predict`` must not change an estimator.
_LEAF_VALUES: WeakKeyDictionary[PartialFairTrees, LeafValues] = WeakKeyDictionary()


def _classifies(estimator: PartialFairTrees) -> bool:
    if is_regressor(estimator):
        raise AttributeError(
            f"{name_of(estimator.estimator)} is a regressor: its scores are what predict returns"
        )
    return True


class PartialFairTrees(PartialFairEstimator):
    """Trees as a library trained them, with leaf values refitted so that a gap between groups is bounded.

    The leaves of an ensemble are a linear model: ``s = s₀ + Z (v − v₀)``, with Z telling which leaf of each
    tree a row falls in, v₀ the values that the library gave the leaves and s₀ its scores. The trees stay,
    and v is found by ``min mean loss + ½ alpha ‖v − v₀‖²`` subject to the constraint, as
    `PartialFairClassifier` finds its coefficients: the constraint is about exact gaps, and there is a KKT
    certificate. Leaves of forests of classifiers hold probabilities: v then stays in [0, 1], as part of the
    problem. Then v goes back into a copy of the library's own model, ``estimator_``, which predicts, saves,
    explains and exports as before. Prediction needs no group.

    Parameters
    ----------
    estimator
        A binary classifier or a regressor of LightGBM or XGBoost (estimator or booster), CatBoost's, or
        scikit-learn's HistGradientBoosting, GradientBoosting, RandomForest or ExtraTrees. One that is fitted
        keeps its trees; another is copied and trained on the rows of `fit`. ``clone``, and so searches and
        cross-validation, forget that an estimator was fitted, unless it is wrapped in scikit-learn's
        ``FrozenEstimator``.
    constraint, interval, max_gap, gap_scale, enforce, outside, confidence, validation
        As in `PartialFairClassifier`; regressors have no constraint that compares rows with the same label.
    constraint_threshold
        As there, 0 by default; regressors need one for demographic parity. Scores of boosted classifiers are
        log-odds, those of forests ``2 p − 1``.
    decision_threshold
        As in `PartialFairClassifier`. ``"tune"`` looks at rows that no tree is trained on: those that are
        held out for ``validation_fraction`` (15% if it is None), or, of a fitted model, all rows. The refit
        of the leaf values is on all rows.
    alpha
        How strongly leaf values are drawn towards those of the library; ``"auto"`` chooses among 1, .1, .01,
        .001 and .0001 by loss and gap on the rows that are held out for ``validation_fraction`` (15% if it is
        None), on which then nothing is trained either, and refits on all rows: five times the work of one.
        `fairness_path` chooses once, for the middle one of its gaps. Give a fitted model rows that it was not
        trained on, if alpha is to be chosen by them.
    validation_fraction
        Fraction of the rows that show a boosted model when to stop training, drawn within groups and classes;
        the refit is on all rows. None leaves that to the model, as does a model with settings of its own.
    class_weight
        As in `PartialFairClassifier`, in the refit; how a model weighs classes in its training is its own.
    higher_is_better, min_group_size, missing_groups, sensitive_columns
        As in `PartialFairClassifier`.
    solver, options, tol, max_iter, time_limit
        As in `PartialFairClassifier`, but ``tol`` is 1e-3 by default, ten times as large: a fit
        that has converged is a critical point less exactly. Training and reading leaves count against the
        time limit, and are not cut short by it.
    warm_start, random_state, callback, verbose
        As in `PartialFairClassifier`; models without a ``random_state`` of their own are trained with it.

    Attributes
    ----------
    estimator_
        The library's model with the new values.
    initial_estimator_
        The library's model with its own values.
    alpha_
        The alpha of the refit.
    classes_ : (2,)
        Labels of classifiers; scores above ``decision_threshold_`` stand for the second.
    decision_threshold_ : float
        The score above which `predict` returns the second class.
    groups_, result_, n_iter_, n_features_in_, feature_names_in_
        As in `PartialFairClassifier`. The gaps of ``result_`` are those of the scores of ``estimator_``.

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
    """Prediction needs no group."""

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
        """Fit the model, given what other fits of the same rows have found (``earlier``, for the refit)."""
        # Whatever can be refused is refused before anything is trained.
        samples = samples.with_weight()
        positive = positive_rows(self, samples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the refit says it again
            check_sample_groups(samples, task.constraints, self.min_group_size, positive)
        held_out = hold_out_rows(self, samples, getattr(self, "_held_out_seed", seed_of(self)))

        # The trees, those of a fitted model or trained here, and the leaf of each that every row falls in.
        initial = LeafValues(read_trees(self, samples, held_out))
        leaves = LeafSamples.read(initial, samples)

        # The linear model whose coefficients are added to the leaf values.
        refit = linear_estimator(self)
        if held_out is not None and self.alpha == "auto":
            refit = choose_alpha(self, leaves, held_out, deadline)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            earlier = leaves.refit(refit, deadline, earlier)
        for remark in caught:  # as issued where fit was called
            warnings.warn(str(remark.message).replace(*_ADVICE), remark.category, stacklevel=3)
        written = initial.with_coefficients(refit.coef_, refit.intercept_)

        self.initial_estimator_, self.estimator_ = initial.ensemble.model, written.ensemble.model
        self._refit = refit.set_params(callback=None, warm_start=self.warm_start)  # files hold it as well
        self.alpha_ = float(refit.alpha)
        self.groups_, self.n_iter_ = refit.groups_, refit.n_iter_
        self.result_ = result = refit.result_
        # What counts are the scores that users get: the library's own.
        scores = written.scores(samples.X)
        if result.constraints:
            self.result_ = replace(
                result,
                gaps=exact_gaps(refit, scores, samples, result.constraints),
                outside_gaps=exact_gaps(refit, scores, samples, result.outside),
            )
            if result.satisfied and not self.result_.satisfied:
                infeasibility = f"{name_of(self.estimator_)} rounds scores in another way than it should"
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
        positive_rows(self, samples)  # which refuses labels of other than two classes
        seed = seed_of(self)
        held_out = hold_out_rows(self, samples, seed)
        ensemble = read_trees(self, samples, held_out)
        if held_out is not None:
            fresh._held_out_seed = seed  # by which copies know the rows that no tree was trained on
            if self.alpha == "auto":
                leaves = LeafSamples.read(LeafValues(ensemble), samples)
                fresh.set_params(alpha=choose_alpha(self, leaves, held_out, deadline, gaps).alpha)
        model = ensemble.model
        # Copies are cloned, which forgets that an estimator was fitted; boosters stay fitted.
        fitted = FrozenEstimator(model) if hasattr(model, "get_params") else model
        return fresh.set_params(estimator=fitted)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the scores of ``estimator_``: log-odds, of forests ``2 p − 1``; groups are not used."""
        return self._scores(X, sensitive_features)

    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return ``classes_[1]`` above ``decision_threshold_``, else ``classes_[0]``; or numbers."""
        scores = self._scores(X, sensitive_features)
        if is_regressor(self):
            return scores
        return np.asarray(self.classes_[(scores > self.decision_threshold_).astype(np.intp)])

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the probabilities that ``estimator_`` gives the two classes."""
        second = self._probabilities(self._scores(X, sensitive_features))
        return np.column_stack([1 - second, second])

    def _probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities of the second class that scores stand for."""
        return self._deployed_values.probabilities(scores)

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

        A bound on gaps between groups whose labels differ costs calibration: rows of the group that is moved
        up get higher probabilities than they should. Use rows that were not trained on.

        Returns
        -------
        DataFrame
            ``error``, ``bias`` and ``difference`` of `partialfair.metrics.calibration_by_group`, each
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
        """The trees of ``estimator_``; reading them costs time, so the last values are used again."""
        check_is_fitted(self)
        values = _LEAF_VALUES.get(self)
        if values is None or values.ensemble.model is not self.estimator_:
            values = _LEAF_VALUES[self] = LeafValues(ensemble_of(self.estimator_))
        return values

    def __getstate__(self) -> dict[str, Any]:
        """Return what is stored: models as their libraries write them."""
        state = super().__getstate__()
        return state | {name: pack_model(state[name]) for name in _MODELS if name in state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {name: unpack_model(state[name]) for name in _MODELS if name in state})

    def _check_stored(self) -> None:
        check_stored_trees(self)

    def _check_settings(self) -> None:
        """Refuse settings that cannot be right, and models without trees."""
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
        """Score rows by the library's model, which needs no group."""
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
