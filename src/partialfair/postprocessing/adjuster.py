"""Change the scores of any model as little as possible so that groups are similar on an interval."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partialfair.data.groups import encode_groups
from partialfair.data.intervals import require_interval
from partialfair.estimators.inputs import in_columns_of, names_of
from partialfair.exceptions import InputError
from partialfair.metrics.inputs import oriented, read_groups, scored_groups
from partialfair.metrics.report import FairnessReport, fairness_report
from partialfair.postprocessing.fitting import AdjustmentTask, calibrate, fit_maps
from partialfair.postprocessing.maps import (
    LARGEST_SCORE,
    ScoreMap,
    apply_maps,
    maps_frame,
    read_maps,
    write_maps,
)
from partialfair.postprocessing.scorer import Response, Scorer, as_scores, read_scorer
from partialfair.utils.checks import (
    check_choice,
    check_count,
    check_number,
    check_sparse,
    finite_vector,
    refuse_lazy,
    shown,
)
from partialfair.utils.state import StoredAsPairs
from partialfair.utils.typing import ArrayLike, Floats, GapScale, IntervalLike, MissingGroups

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["PartialParityAdjuster"]

_ROUTED = {"sensitive_features": True}


def _has_scorer(adjuster: PartialParityAdjuster) -> bool:
    if adjuster.estimator is None:
        raise AttributeError("the adjuster has no estimator to predict with; use transform")
    return True


def _has_classes(adjuster: PartialParityAdjuster) -> bool:
    _has_scorer(adjuster)
    if adjuster._scorer.method != "predict_proba":
        raise AttributeError("the estimator's scores are not probabilities; use decision_function")
    return True


class PartialParityAdjuster(StoredAsPairs, BaseEstimator):
    """Change scores as little as possible so that the gap between groups is at most ``max_gap``.

    The new scores s' minimize ``Σ w (s' − s)²`` subject to partial statistical parity (or partial demographic
    parity at one threshold), evaluated exactly, and to the order of rows within every group: no row overtakes
    another of its group, and no new ties arise. Rows outside the interval change only if the order requires
    it. The adjuster is for models that cannot be trained again, and it is deterministic.

    **The new scores depend on the group**, so scoring needs it, and the same row would get another score in
    another group. This may be unlawful where you are; models of `PartialFairClassifier` do not need the group
    at prediction. The constraint applies to the rows of ``fit``: `report` evaluates other rows.

    Parameters
    ----------
    interval : tuple, list of tuples or mapping, default=None
        Ranks from the top: ``(0.05, 0.30)`` means ranks 5–30%, which are score percentiles 70–95, and
        ``(0, 1)`` means all ranks. A list of pairs is their union; a mapping gives each group its own
        interval. `fit` raises `InputError` if it is None.
    max_gap : float, default=0.05
        Limit on the gap, in [0, 1]. Scores without new ties can always reach ``result_.floor``. If they
        cannot reach a smaller limit, `fit` raises `InputError` with the smallest gap that they reach.
    constraint : {"statistical_parity", "demographic_parity"}, default="statistical_parity"
        The constraint; demographic parity compares groups at ``constraint_threshold``.
    constraint_threshold : float, default=None
        Score of demographic parity: rows with higher scores are selected (lower ones if
        ``higher_is_better=False``).
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap: ``"interval"`` is the definition, a proportion of the rows in the interval;
        ``"absolute"`` is the scale of the paper's experiments, a proportion of the whole group.
    estimator : estimator or callable, default=None
        A fitted model, or a function of X that returns scores; `fit` and `transform` then expect features.
        None means that they expect scores. If the adjuster is cloned (in searches and cross-validation), wrap
        a model in ``sklearn.frozen.FrozenEstimator``, because its clone is not fitted otherwise.
    response_method : {"auto", "decision_function", "predict_proba", "predict"}, default="auto"
        Method of the estimator that returns the scores; for ``"predict_proba"`` the second column. ``"auto"``
        uses the first of these that exists, and ``"predict"`` only for models that are not classifiers.
    score_range : tuple of float, default=None
        ``(low, high)`` for bounded scores such as probabilities: both ends are fixed, so that scores of new
        data stay within the range. It is (0, 1) for probabilities of an estimator.
    higher_is_better : bool, default=True
        False if low scores are favorable: ranks are then counted from the lowest score.
    min_group_size : int, default=2
        Smallest effective sample size, ``(Σ w)² / Σ w²``, of a group in the interval. The constraint excludes
        smaller groups, whose scores do not change; a `SmallGroupWarning` and ``result_.small_groups`` name
        them. 0 excludes none.
    missing_groups : {"error", "ignore"}, default="error"
        ``"ignore"`` omits rows without a group in `fit` and leaves their scores unchanged in `transform`.
    max_knots : int or None, default=1000
        Approximate number of knots of each group's map, fewer with more than four groups. With more distinct
        scores than that, the change is the smallest among maps with that many knots; the gap is exact in any
        case. More knots are used if ``max_gap`` requires it. None uses all distinct scores and finds the
        smallest possible change.
    margin : float or "auto", default="auto"
        For statistical parity on the absolute scale: widening of the interval, in ranks, while maps are
        computed. On this scale a threshold counts fully or not at all, so maps jump at the ends of the
        interval, and the ranks of new rows differ slightly. ``"auto"`` is ``1.36 / √n`` of the smallest
        group, or 0 if ``max_gap`` cannot be reached with it. 0 gives the smallest change, but the gap on new
        data may be much larger. Not used on the interval scale.

    Attributes
    ----------
    maps_ : tuple of ScoreMap
        One strictly increasing, piecewise linear map per group.
    groups_ : ndarray of shape (n_groups,)
        The groups, in the order of the maps.
    result_ : Adjustment
        Gap before and after, the changes of scores, the floor and the calibration.

    See Also
    --------
    partialfair.PartialFairClassifier : Train a model that does not need the group at prediction.
    partialfair.trees.PartialFairTrees : Refit the leaf values of a tree ensemble.
    partialfair.metrics.fairness_report : Gaps of scores with confidence intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from partialfair.postprocessing import PartialParityAdjuster
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["a", "b"], 500)
    >>> scores = rng.normal(size=1000) + (groups == "a")
    >>> adjuster = PartialParityAdjuster(interval=(0.1, 0.3), max_gap=0.05)
    >>> adjusted = adjuster.fit_transform(scores, sensitive_features=groups)
    >>> print(f"{adjuster.result_.gap_before:.2f} before, {adjuster.result_.gap:.2f} after")
    1.00 before, 0.05 after
    """

    __metadata_request__fit = _ROUTED
    __metadata_request__transform = _ROUTED
    __metadata_request__decision_function = _ROUTED
    __metadata_request__predict = _ROUTED
    __metadata_request__predict_proba = _ROUTED

    def __init__(
        self,
        interval: IntervalLike | None = None,
        max_gap: float = 0.05,
        *,
        constraint: Literal["statistical_parity", "demographic_parity"] = "statistical_parity",
        constraint_threshold: float | None = None,
        gap_scale: GapScale = "interval",
        estimator: Any = None,
        response_method: Response = "auto",
        score_range: tuple[float, float] | None = None,
        higher_is_better: bool = True,
        min_group_size: int = 2,
        missing_groups: MissingGroups = "error",
        max_knots: int | None = 1000,
        margin: float | Literal["auto"] = "auto",
    ) -> None:
        self.interval = interval
        self.max_gap = max_gap
        self.constraint = constraint
        self.constraint_threshold = constraint_threshold
        self.gap_scale = gap_scale
        self.estimator = estimator
        self.response_method = response_method
        self.score_range = score_range
        self.higher_is_better = higher_is_better
        self.min_group_size = min_group_size
        self.missing_groups = missing_groups
        self.max_knots = max_knots
        self.margin = margin

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Compute the maps.

        Parameters
        ----------
        X : array-like of shape (n_samples,), (n_samples, 1) or (n_samples, n_features)
            The scores; with an ``estimator`` its features.
        y : array-like of shape (n_samples,), default=None
            Labels. If they have two classes, ``result_`` has the calibration by group before and after.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; several columns define intersectional groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights, for the change and the ranks of groups. A weight of 2 equals two copies of the row, a
            weight of 0 removes it.

        Returns
        -------
        self : object
            The fitted adjuster.
        """
        interval, task = require_interval(self.interval), self._read_task()  # checked before any work
        scores = self._scores(X, sensitive_features)
        groups = read_groups(_require_groups(sensitive_features), scores.size, self.missing_groups)
        scored = scored_groups(
            scores,
            groups,
            interval,
            sample_weight,
            higher_is_better=self.higher_is_better,
            missing_groups=self.missing_groups,
        )
        maps, adjustment = fit_maps(scored, task)
        self._group_columns = names_of(sensitive_features)
        # From units of ranked scores to the user's, with fixed ends of the range.
        if not self.higher_is_better:
            maps = tuple(one.turned for one in maps)
        bounds = self._range
        self.maps_ = maps if bounds is None else tuple(one.with_fixed_ends(bounds) for one in maps)
        classes = None if self.estimator is None else self._scorer.classes
        after, before = (
            calibrate(given, y, classes, groups, sample_weight)
            for given in (apply_maps(self.maps_, scores, groups), scores)
        )
        self.result_ = replace(adjustment, calibration=after, calibration_before=before, maps=self.maps_)
        return self

    def transform(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Any:
        """Return the new scores.

        Parameters
        ----------
        X : array-like of shape (n_samples,), (n_samples, 1) or (n_samples, n_features)
            The scores; with an ``estimator`` its features.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; required.

        Returns
        -------
        ndarray, Series or DataFrame
            The new scores, in the shape of X if X holds scores. For pandas input they have its index and
            names; scores of an estimator are a Series named ``score``.
        """
        adjusted = self._adjust(X, sensitive_features)
        if hasattr(X, "iloc"):
            import pandas as pd

            if self.estimator is not None:
                return pd.Series(adjusted, index=X.index, name="score")
            if isinstance(X, pd.DataFrame):
                return pd.DataFrame(adjusted[:, None], index=X.index, columns=X.columns)
            return pd.Series(adjusted, index=X.index, name=X.name)
        # As in other transformers: a column in, a column out.
        return adjusted[:, None] if self.estimator is None and np.ndim(X) == 2 else adjusted

    def _adjust(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Return the new score of every row."""
        check_is_fitted(self, "maps_")
        scores = self._scores(X, sensitive_features)
        groups = encode_groups(
            in_columns_of(self._group_columns, _require_groups(sensitive_features)),
            n_rows=scores.size,
            missing=self.missing_groups,
            advice="; missing_groups='ignore' leaves such scores unchanged",
        )
        return apply_maps(self.maps_, scores, groups)

    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Compute the maps and return the new scores of the same rows.

        Parameters
        ----------
        X : array-like of shape (n_samples,), (n_samples, 1) or (n_samples, n_features)
            The scores; with an ``estimator`` its features.
        y : array-like of shape (n_samples,), default=None
            Labels, as in `fit`.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; required.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights, as in `fit`.

        Returns
        -------
        ndarray, Series or DataFrame
            The new scores, as `transform` returns them.
        """
        self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X, sensitive_features)

    @available_if(_has_scorer)
    def decision_function(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the new scores of an estimator's rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of the estimator.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; required.

        Returns
        -------
        ndarray of shape (n_samples,)
            The new scores.
        """
        return self._adjust(X, sensitive_features)

    @available_if(_has_scorer)
    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return the class by the new scores, or the new scores if the estimator has no classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of the estimator.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; required.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels, or scores.
        """
        scores = self._adjust(X, sensitive_features)
        classes = self._scorer.classes
        return scores if classes is None else classes[(scores > self._scorer.cut).astype(np.intp)]

    @available_if(_has_classes)
    def predict_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return class probabilities, if the estimator's scores are probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of the estimator.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; required.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            One minus the new scores, and the new scores.
        """
        scores = self._adjust(X, sensitive_features)
        return np.column_stack([1 - scores, scores])

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The estimator's classes."""
        classes = None if self.estimator is None else self._scorer.classes
        if classes is None:
            raise AttributeError("classes_ needs a classifier as estimator")
        return classes

    @property
    def groups_(self) -> npt.NDArray[Any]:
        """The groups, in the order of the maps."""
        check_is_fitted(self, "maps_")
        labels = np.empty(len(self.maps_), dtype=object)  # tuples stay one label each
        labels[:] = [one.group for one in self.maps_]
        return labels

    def table(self) -> pd.DataFrame:
        """Return the maps as a table of knots, between which they are linear.

        Returns
        -------
        pandas.DataFrame
            Columns ``group``, ``score_from`` and ``score_to``.
        """
        check_is_fitted(self, "maps_")
        return maps_frame(self.maps_)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the maps to a JSON file, which `from_json` and ``partialfair adjust --apply`` read.

        Parameters
        ----------
        path : str or path-like
            The file to write.
        """
        check_is_fitted(self, "maps_")
        write_maps(path, self.maps_, self._group_columns)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Self:
        """Return an adjuster with the maps of a file; it has no ``result_``.

        Parameters
        ----------
        path : str or path-like
            A file that `to_json` wrote.

        Returns
        -------
        PartialParityAdjuster
            The fitted adjuster.
        """
        adjuster = cls()
        adjuster.maps_, adjuster._group_columns = read_maps(path)
        return adjuster

    def report(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = 1,
        confidence: float = 0.95,
        clusters: ArrayLike | None = None,
        min_group_size: int = 10,
        random_state: Any = None,
    ) -> FairnessReport:
        """Evaluate the new scores of rows that were not used in `fit`, for statements about the population.

        ``report["statistical_parity"].upper_bound`` is an upper confidence bound of the gap of the new scores
        in the population. On the rows of `fit` the gap is at most ``max_gap`` by construction, and the bounds
        would be invalid.

        Parameters
        ----------
        X : array-like of shape (n_samples,), (n_samples, 1) or (n_samples, n_features)
            The scores; with an ``estimator`` its features.
        y : array-like of shape (n_samples,), default=None
            Labels, for equal opportunity and equalized odds.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights.
        pos_label : scalar, default=1
            Label of positives.
        confidence : float, default=0.95
            Confidence level of the intervals.
        clusters : array-like of shape (n_samples,), default=None
            Cluster of each row, as in `partialfair.metrics.fairness_report`.
        min_group_size : int, default=10
            Smallest group that is evaluated.
        random_state : int, RandomState or None, default=None
            Seed of the bootstrap.

        Returns
        -------
        FairnessReport
            Gaps of the new scores with confidence intervals.
        """
        return fairness_report(
            y,
            self._adjust(X, sensitive_features),
            sensitive_features=sensitive_features,
            interval=require_interval(self.interval),
            threshold=self.constraint_threshold,
            confidence=confidence,
            gap_scale=self.gap_scale,
            pos_label=pos_label,
            sample_weight=sample_weight,
            clusters=clusters,
            random_state=random_state,
            higher_is_better=self.higher_is_better,
            min_group_size=min_group_size,
            missing_groups=self.missing_groups,
        )

    def plot(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the maps.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None creates a figure.
        **options : dict
            Further arguments of `partialfair.plotting.scores.plot_score_maps`.

        Returns
        -------
        matplotlib Axes
            The axes of the figure.
        """
        from partialfair.plotting.scores import plot_score_maps

        check_is_fitted(self, "maps_")
        return plot_score_maps(self.maps_, ax=ax, **options)

    def check(self) -> None:
        """Raise `InputError` if maps from a file could not change scores; unfitted ones are accepted."""
        held = vars(self).get("maps_", ())  # from attributes: a file may lack newer settings
        if not (isinstance(held, tuple) and all(isinstance(one, ScoreMap) for one in held)):
            raise InputError("its maps_ are not maps of scores")
        for one in held:
            one.check()
        if held and not isinstance(vars(self).get("_group_columns"), tuple):
            raise InputError("its group columns are not a tuple")

    @property
    def _scorer(self) -> Scorer:
        return read_scorer(self.estimator, self.response_method)

    def _read_task(self) -> AdjustmentTask:
        """Check the settings, and return them in the units of ranked scores."""
        check_number(self.max_gap, "max_gap", low=0.0, high=1.0)
        check_choice(self.constraint, "constraint", ("statistical_parity", "demographic_parity"))
        check_choice(
            self.response_method, "response_method", ("auto", "decision_function", "predict_proba", "predict")
        )
        check_count(self.min_group_size, "min_group_size", low=0)
        if self.max_knots is not None:
            check_count(self.max_knots, "max_knots", low=10)
        if self.margin != "auto":
            check_number(self.margin, "margin", low=0.0, high=1.0)
        threshold = None
        if self.constraint == "demographic_parity":
            check_number(self.constraint_threshold, "constraint_threshold")
            # Negated like scores if lower is better.
            threshold = oriented(float(self.constraint_threshold or 0.0), self.higher_is_better)
        return AdjustmentTask(
            self.constraint,
            float(self.max_gap),
            self.gap_scale,
            threshold,
            self.min_group_size,
            self.max_knots,
            self.margin,
        )

    @property
    def _range(self) -> tuple[float, float] | None:
        if self.score_range is not None:
            try:
                low, high = map(float, self.score_range)  # two numbers, in any container
            except (TypeError, ValueError, OverflowError):
                low, high = 1.0, 0.0
            if not low < high:
                raise InputError(
                    f"score_range must be (low, high) with low < high, not {shown(self.score_range)}"
                )
            return low, high
        # Probabilities have a known range; both of its ends become fixed knots.
        probabilities = self.estimator is not None and self._scorer.method == "predict_proba"
        return (0.0, 1.0) if probabilities else None

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Return the checked scores of the rows."""
        refuse_lazy(X, "scores" if self.estimator is None else "X")
        if self.estimator is None:
            scores = finite_vector(as_scores(X), "scores", ranked=True)
        else:
            check_sparse(X, "X")
            scores = finite_vector(self._scorer.scores(X, sensitive_features), "the estimator's scores")
        if scores.size and np.abs(scores).max() > LARGEST_SCORE:
            raise InputError(f"scores must lie within ±{LARGEST_SCORE:g}, so that squares can be added up")
        if (bounds := self._range) is not None:
            outside = np.flatnonzero((scores < bounds[0]) | (scores > bounds[1]))
            if outside.size:
                raise InputError(
                    f"{outside.size} scores lie outside score_range {bounds}, the first in row {outside[0]}: "
                    f"{scores[outside[0]]:g}"
                )
        return scores


def _require_groups(sensitive_features: ArrayLike | None) -> ArrayLike:
    if sensitive_features is None:
        raise InputError("scores are adjusted by group: pass sensitive_features, in scoring as in fit")
    return sensitive_features
