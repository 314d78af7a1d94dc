"""Move scores of any model by the least so that groups are similar on an interval."""

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
        raise AttributeError("there is no estimator, so there is nothing to predict with; take transform")
    return True


def _has_classes(adjuster: PartialParityAdjuster) -> bool:
    _has_scorer(adjuster)
    if adjuster._scorer.method != "predict_proba":
        raise AttributeError("the estimator's scores are no probabilities; take decision_function")
    return True


class PartialParityAdjuster(StoredAsPairs, BaseEstimator):
    """Moves scores by the least so that the gap between groups on an interval is at most ``max_gap``.

    ``min Σ w (s' − s)²`` subject to partial statistical parity (or partial demographic parity at one
    threshold) of the new scores s', evaluated exactly, and to the order within every group: no row overtakes
    another of its group, and none are tied that were not before. For models that cannot be trained again.
    Rows outside the interval move only where the order forces them to. There is no randomness.

    **The new scores depend on the group**, so scoring needs it, and a row's score would be another in another
    group. Using the group so may be unlawful where you are; models of `PartialFairClassifier` need no group
    at prediction. The constraint is about the rows of ``fit``: `report` evaluates others.

    Parameters
    ----------
    interval
        Ranks from the top: ``(0.05, 0.30)`` holds ranks 5–30%, score percentiles 70–95. Also a list of such
        pairs (their union), or a mapping from group to either. It has no default that would suit: `fit`
        needs one, ``(0, 1)`` for the whole range.
    max_gap
        κ, the largest gap allowed, in [0, 1]. Scores without new ties always reach ``result_.floor``; a
        smaller limit raises `InputError` exactly if no such scores reach it, and the message names the
        smallest that they do.
    constraint
        ``"statistical_parity"``, or ``"demographic_parity"`` at ``constraint_threshold``.
    constraint_threshold
        Of demographic parity: those with scores above it are selected (below, where lower is better).
    gap_scale
        ``"interval"``, the definition, or ``"absolute"``, the scale of the paper's experiments.
    estimator
        A fitted model, or a function of X that returns scores; `fit` and `transform` then take its features.
        None: they take the scores. Where the adjuster is cloned (searches, cross-validation), wrap a model in
        ``sklearn.frozen.FrozenEstimator``, or its clone will not be fitted.
    response_method
        The estimator's method that gives the scores: ``"decision_function"``, ``"predict_proba"`` (its second
        column) or ``"predict"``; ``"auto"`` takes the first of them that there is, the last only of models
        that are no classifiers.
    score_range
        ``(low, high)`` where scores have a range, as probabilities have: both ends stay where they are, so
        that new people's scores do not leave it. Probabilities of an estimator have (0, 1) anyway.
    higher_is_better
        False where low scores are good: the interval then counts from the lowest.
    min_group_size
        A group with fewer effective members, ``(Σ w)² / Σ w²``, in the interval keeps its scores and is
        outside of the promise; a `SmallGroupWarning` and ``result_.small_groups`` name it. 0 judges all.
    missing_groups
        ``"error"``, or ``"ignore"``: rows without a group are left out in `fit`, and keep their scores in
        `transform`.
    max_knots
        About how many rows the table may have for each group, fewer with more than four groups. With more
        distinct scores than that the change is the least among maps with so many knots; the gap is exact all
        the same. Where ``max_gap`` is too narrow for so few, more are taken. None takes all, and finds the
        least change there is.
    margin
        For statistical parity on the absolute scale: by how much the interval is widened, in ranks, while
        maps are sought. There a threshold counts wholly or not at all, so that maps jump where the interval
        ends, and ranks of new rows are a little off. ``"auto"`` is ``1.36 / √n`` of the smallest group, or 0
        where ``max_gap`` cannot be reached on an interval so wide; 0 finds the least change, and may be far
        off on new data. On the interval scale it is not used.

    Attributes
    ----------
    maps_ : tuple of ScoreMap
        One strictly increasing, piecewise linear map per group.
    groups_ : (n_groups,)
        The groups, in the same order.
    result_ : Adjustment
        Gap before and after, what moved and by how much, floor, calibration.

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
        """Find the maps.

        Parameters
        ----------
        X : (n,) or (n, 1), or (n, d) with an estimator
            The scores, or the features that the estimator takes.
        y : (n,)
            Labels. Not needed: where they have two classes, calibration by group is measured, before and
            after.
        sensitive_features : (n,) or (n, q)
            Group of each row; several columns are crossed.
        sample_weight : (n,)
            Weight 2 is the row twice, weight 0 the row absent: in the change and in the groups' ranks.
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
        # From the units of ranked scores to the users', with the ends of their range.
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
        """Return the new scores, in the shape of X where X holds the scores.

        Returns
        -------
        array, Series or DataFrame
            Of pandas where X is, with its index and names; an estimator's scores are a Series, ``score``.
        """
        adjusted = self._adjust(X, sensitive_features)
        if hasattr(X, "iloc"):
            import pandas as pd

            if self.estimator is not None:
                return pd.Series(adjusted, index=X.index, name="score")
            if isinstance(X, pd.DataFrame):
                return pd.DataFrame(adjusted[:, None], index=X.index, columns=X.columns)
            return pd.Series(adjusted, index=X.index, name=X.name)
        # As transformers do: a column in, a column out.
        return adjusted[:, None] if self.estimator is None and np.ndim(X) == 2 else adjusted

    def _adjust(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Return the new score of every row."""
        check_is_fitted(self, "maps_")
        scores = self._scores(X, sensitive_features)
        groups = encode_groups(
            in_columns_of(self._group_columns, _require_groups(sensitive_features)),
            n_rows=scores.size,
            missing=self.missing_groups,
            advice="; missing_groups='ignore' leaves such scores as they are",
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
        """Find the maps and return the new scores of the same rows."""
        self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X, sensitive_features)

    @available_if(_has_scorer)
    def decision_function(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the new scores of an estimator's rows, as an array."""
        return self._adjust(X, sensitive_features)

    @available_if(_has_scorer)
    def predict(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> npt.NDArray[Any]:
        """Return the class that the new scores stand for, or the scores if the estimator has no classes."""
        scores = self._adjust(X, sensitive_features)
        classes = self._scorer.classes
        return scores if classes is None else classes[(scores > self._scorer.cut).astype(np.intp)]

    @available_if(_has_classes)
    def predict_proba(self, X: ArrayLike, sensitive_features: ArrayLike | None = None) -> Floats:
        """Return the complements of new scores, and these, where the estimator gives probabilities."""
        scores = self._adjust(X, sensitive_features)
        return np.column_stack([1 - scores, scores])

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The estimator's classes."""
        classes = None if self.estimator is None else self._scorer.classes
        if classes is None:
            raise AttributeError("there are no classes without a classifier as estimator")
        return classes

    @property
    def groups_(self) -> npt.NDArray[Any]:
        """The groups, in the order of the maps."""
        check_is_fitted(self, "maps_")
        labels = np.empty(len(self.maps_), dtype=object)  # tuples stay one label each
        labels[:] = [one.group for one in self.maps_]
        return labels

    def table(self) -> pd.DataFrame:
        """Return the maps as a table: group, score_from, score_to. In between they are straight."""
        check_is_fitted(self, "maps_")
        return maps_frame(self.maps_)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the maps to a JSON file, which `from_json` and ``partialfair adjust --apply`` read."""
        check_is_fitted(self, "maps_")
        write_maps(path, self.maps_, self._group_columns)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Self:
        """Return an adjuster that moves scores by the maps of a file; it has no ``result_``."""
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
        """Evaluate the new scores of rows that `fit` has not seen: what can be said of the population.

        ``report["statistical_parity"].upper_bound`` is a gap that, with that confidence, the new scores of
        rows like these do not exceed. The rows must not be those of `fit`: there the gap is ``max_gap`` by
        construction, and bounds would be too good to be true.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`; labels are needed for equal opportunity and equalized odds only.
        pos_label, confidence, clusters, min_group_size, random_state
            As in `partialfair.metrics.fairness_report`.
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
        """Draw the maps; see `partialfair.plotting.plot_score_maps`, which names the options."""
        from partialfair.plotting.scores import plot_score_maps

        check_is_fitted(self, "maps_")
        return plot_score_maps(self.maps_, ax=ax, **options)

    def check(self) -> None:
        """Refuse maps that could not move scores, as a file may hold; one that is not fitted is as new."""
        held = vars(self).get("maps_", ())  # attributes alone: a file may lack settings
        if not (isinstance(held, tuple) and all(isinstance(one, ScoreMap) for one in held)):
            raise InputError("its maps_ are no maps of scores")
        for one in held:
            one.check()
        if held and not isinstance(vars(self).get("_group_columns"), tuple):
            raise InputError("its group columns are no tuple")

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
            # Like scores, turned where lower is better.
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
        # Probabilities have a range without being told; both ends become knots that stay.
        probabilities = self.estimator is not None and self._scorer.method == "predict_proba"
        return (0.0, 1.0) if probabilities else None

    def _scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> Floats:
        """Return the scores of the rows, checked."""
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
        raise InputError("scores are moved group by group: give sensitive_features, in scoring as in fit")
    return sensitive_features
