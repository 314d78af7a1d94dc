"""Leaf values of tree ensembles as coefficients of a linear model, and their refit.

partialfair's classifiers compare scores with 0. Boosted classifiers sum log-odds, which suit that. Forests
average probabilities p, whose scores are ``2 p − 1``; the squared loss of labels ±1 is four times that of p.
A leaf of one of T trees that holds p adds ``(2 p − 1) / T``, between −1/T and 1/T, to a score.

An intercept of the refit is divided equally among all trees. If values have bounds there is no intercept,
because it could violate them; all leaves of a tree together have the same effect.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from sklearn.base import is_regressor
from sklearn.ensemble._forest import ForestClassifier

from partialfair.constraints.base import Constraint
from partialfair.data.samples import Samples
from partialfair.estimators.classifier import PartialFairClassifier
from partialfair.estimators.parameters import read_deadline, read_task
from partialfair.estimators.path_fits import TINY_TIME, scores_of
from partialfair.estimators.regressor import PartialFairRegressor
from partialfair.metrics.calibration import calibration_by_group
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.objectives import read_loss
from partialfair.optimization.problems import WeightedScores
from partialfair.training.settings import EarlierFits
from partialfair.training.statement import measure_gap
from partialfair.training.units import DeployedScores, Offset
from partialfair.trees.base_estimators import unwrap
from partialfair.trees.ensembles import TreeEnsemble, ensemble_of
from partialfair.utils.typing import ArrayLike, Floats, Ints

if TYPE_CHECKING:
    import pandas as pd


def _has_bounds(model: Any) -> bool:
    """Return whether the leaves of a model, fitted or not, hold probabilities."""
    return isinstance(unwrap(model), ForestClassifier)


def loss_of(model: Any) -> str:
    """Return the loss that the leaf values of a model, fitted or not, minimize in the refit."""
    model = unwrap(model)
    if not hasattr(model, "get_params"):  # a booster, which is fitted
        return "logistic" if ensemble_of(model).score_kind == "log-odds" else "squared"
    return "squared" if is_regressor(model) or _has_bounds(model) else "logistic"


def linear_estimator(trees: Any) -> Any:
    """Return the classifier or regressor that refits leaf values, warm-started if there was a fit."""
    kind = PartialFairRegressor if is_regressor(trees) else PartialFairClassifier
    shared = signature(kind).parameters
    settings = {name: value for name, value in trees.get_params(deep=False).items() if name in shared}
    # Groups and held-out rows were read before; the linear model reads leaves only.
    settings |= {"loss": trees.loss, "sensitive_columns": None, "validation": 0.2}
    settings |= {"decision_threshold": 0.0} if kind is PartialFairClassifier else {}  # set by the trees
    settings["fit_intercept"] = not _has_bounds(trees.estimator)
    if kind is PartialFairClassifier and trees.constraint_threshold is None:
        settings["constraint_threshold"] = 0.0  # on the scale of scores; see the module docstring
    last = getattr(trees, "_refit", None)
    if trees.warm_start and type(last) is kind:
        return copy.copy(last).set_params(**settings)
    return kind(**settings)


@dataclass(frozen=True, eq=False)
class LeafValues:
    """A tree ensemble on partialfair's scale of scores.

    Attributes
    ----------
    ensemble
        The trees, with the leaf values of their library.
    """

    ensemble: TreeEnsemble

    @cached_property
    def scale(self) -> tuple[float, float]:
        """Factor and shift: scores are ``factor · (sum of leaf values) − shift``."""
        return (2.0, 1.0) if self.ensemble.score_kind == "probability" else (1.0, 0.0)

    def scores(self, X: ArrayLike) -> Floats:
        """Return the scores of the library's own model, on partialfair's scale."""
        factor, shift = self.scale
        return factor * self.ensemble.scores(X) - shift

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probability of the second class for each score."""
        return (1 + scores) / 2 if self.ensemble.score_kind == "probability" else expit(scores)

    def offset(self, X: ArrayLike) -> Offset:
        """Return the ensemble as the model of these rows from which coefficients differ."""
        ensemble, n_trees = self.ensemble, self.ensemble.n_trees
        low, high = self._coefficients(np.array(ensemble.bounds)).tolist()
        return Offset(
            self.scores(X),
            self._coefficients(ensemble.values)[None],
            np.zeros(1),  # the library's base score is in the first tree
            np.full((1, len(ensemble.values)), 1 / n_trees),  # one leaf of each tree sums to 1
            (low, high),
            self._deploy,
        )

    def with_coefficients(self, coef: Floats, intercept: Floats) -> LeafValues:
        """Return the ensemble with other values, written into a copy of the library's model.

        Parameters
        ----------
        coef, intercept : (1, d), (1,)
            Differences that are added to its values.
        """
        total = self._coefficients(self.ensemble.values) + coef[0]
        return LeafValues(self.ensemble.with_values(self._values(total, float(intercept[0]))))

    def _coefficients(self, values: Floats) -> Floats:
        """Return the contributions to scores of leaves with these values."""
        factor, shift = self.scale
        return factor * values - shift / self.ensemble.n_trees  # each tree adds its part of the shift

    def _values(self, coef: Floats, intercept: float) -> Floats:
        """Return leaf values whose sums are the scores of coefficients and intercept."""
        factor, shift = self.scale
        return np.asarray((coef + (intercept + shift) / self.ensemble.n_trees) / factor)

    def _deploy(self, coef: Floats, intercept: Floats) -> tuple[Floats, DeployedScores]:
        """Return the numbers that the library adds up, without rounding, and the scores of the sums."""
        factor, shift = self.scale
        divisor = self.ensemble.divisor
        values = self._values(coef[0], float(intercept[0]))
        return self.ensemble.summands(values)[None], lambda sums: factor * (sums / divisor) - shift


@dataclass(frozen=True, eq=False)
class LeafSamples:
    """Rows in the format of a refit of leaf values.

    Attributes
    ----------
    samples
        Rows whose features are the leaves that they fall in.
    offset
        The library's own model, from whose values coefficients differ, with its scores of the rows.
    """

    samples: Samples
    offset: Offset

    @classmethod
    def read(cls, values: LeafValues, samples: Samples) -> LeafSamples:
        """Return rows with their leaves in an ensemble."""
        return cls(samples.with_features(values.ensemble.leaves(samples.X)), values.offset(samples.X))

    def take(self, rows: Ints) -> LeafSamples:
        """Return the rows at some positions."""
        return LeafSamples(self.samples.take(rows), replace(self.offset, scores=self.offset.scores[rows]))

    def refit(
        self, linear: Any, end: float = float("inf"), earlier: EarlierFits | None = None
    ) -> EarlierFits:
        """Fit a linear model on the leaves; its coefficients are differences of leaf values.

        Parameters
        ----------
        linear
            The estimator to fit.
        end
            Time at which the fit has to end.
        earlier
            Results of other fits of the same rows.

        Returns
        -------
        EarlierFits
            Results for the next fit of the same rows.
        """
        if end < float("inf"):
            linear.set_params(time_limit=max(end - time.monotonic(), TINY_TIME))
        deadline = read_deadline(linear)
        linear._check_settings()
        linear._read_features(self.samples.X, reset=True)
        fits: EarlierFits = linear._fit_samples(
            self.samples, read_task(linear), deadline, earlier=earlier, offset=self.offset
        )
        return fits

    def scores(self, linear: Any) -> Floats:
        """Return the scores of these rows with leaf values that were refitted on these or other rows."""
        return np.asarray(self.offset.scores + scores_of(linear, self.samples))


def exact_gaps(
    linear: Any, scores: Floats, samples: Samples, constraints: Sequence[Constraint]
) -> tuple[WorstGap, ...]:
    """Return the exact gaps of a refit's constraints for any scores of any rows."""
    positive = None if is_regressor(linear) else samples.y == linear.classes_[1]
    counts = WeightedScores(scores, samples.row_weights, samples.groups.codes, positive)
    size, is_higher_better = linear.min_group_size, linear.higher_is_better
    return tuple(
        measure_gap(
            stated, counts, samples.groups.labels, min_group_size=size, higher_is_better=is_higher_better
        )[1]
        for stated in constraints
    )


def evaluate(linear: Any, scores: Floats, samples: Samples) -> tuple[float, float]:
    """Return the weighted mean loss that a refit minimizes, and its gap, for any scores of any rows.

    The gap is the sum over several constraints, and 0 without any.
    """
    weights, targets = samples.row_weights, samples.y
    if not is_regressor(linear):
        positive = samples.y == linear.classes_[1]
        targets = np.where(positive, 1.0, -1.0)
        weights = weights * linear._class_factors(linear.classes_, positive, weights)
    objective = read_loss(linear.loss).build(targets, weights)
    loss = objective.loss.value_and_slopes(scores, objective.targets, objective.shares)[0]
    gaps = exact_gaps(linear, scores, samples, linear.result_.constraints)
    return loss, float(np.nansum([gap.value for gap in gaps]))


def compare_calibration(
    before: LeafValues, after: LeafValues, X: Any, y: ArrayLike, **settings: Any
) -> pd.DataFrame:
    """Return `calibration_by_group` of two sets of leaf values, each column ``…_before`` and ``…_after``."""
    tables = {
        name: calibration_by_group(y, values.probabilities(values.scores(X)), **settings).to_frame()
        for name, values in {"before": before, "after": after}.items()
    }
    groups = tables["before"][[]]  # the index without columns
    columns = tables["before"].columns
    return groups.assign(**{f"{what}_{name}": tables[name][what] for what in columns for name in tables})
