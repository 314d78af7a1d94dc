"""Rows as a refit of leaf values takes them: their leaves, and the scores of the library's own model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from partialfair.data.samples import Samples
from partialfair.estimators.parameters import read_deadline, read_task
from partialfair.estimators.path_fits import scores_of
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.objectives import read_loss
from partialfair.optimization.problems import WeightedScores
from partialfair.optimization.solvers import Status
from partialfair.training import EarlierFits, FitResult, Offset, measure_gap
from partialfair.trees.refitting import LeafValues
from partialfair.utils.typing import Floats, Ints

__all__ = ["LeafRows", "exact_gaps", "judged_by_library", "mean_loss"]


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Some rows, and the model that leaf values are counted from.

    Attributes
    ----------
    rows
        With leaves for features.
    origin
        The library's own model, with its scores of these rows.
    """

    rows: Samples
    origin: Offset

    @classmethod
    def of(cls, values: LeafValues, rows: Samples) -> LeafRows:
        """Return rows with their leaves in an ensemble."""
        return cls(rows.with_features(values.ensemble.leaves(rows.X)), values.origin(rows.X))

    def take(self, which: Ints) -> LeafRows:
        """Return some of them."""
        return LeafRows(self.rows.take(which), replace(self.origin, scores=self.origin.scores[which]))

    def refit(self, linear: Any, earlier: EarlierFits | None = None) -> EarlierFits:
        """Fit a linear model on the leaves: its coefficients are what is added to their values.

        Parameters
        ----------
        linear
            The estimator, which is fitted.
        earlier
            What other fits of the same rows have found.

        Returns
        -------
        EarlierFits
            For the next fit of the same rows.
        """
        deadline = read_deadline(linear)
        linear._check_settings()
        linear._read_features(self.rows.X, reset=True)
        task = read_task(linear)
        fits: EarlierFits = linear._fit_samples(
            self.rows, task, deadline, earlier=earlier, offset=self.origin
        )
        return fits

    def scores(self, linear: Any) -> Floats:
        """Return the scores of these rows with leaf values that were refitted, on these or on others."""
        return np.asarray(self.origin.scores + scores_of(linear, self.rows))


def exact_gaps(linear: Any, scores: Floats, rows: Samples) -> tuple[WorstGap, ...]:
    """Return the exact gaps that the constraints of a refit are about, of any scores of any rows."""
    positive = None if is_regressor(linear) else rows.y == linear.classes_[1]
    counts = WeightedScores(scores, rows.row_weights, rows.groups.codes, positive)
    size, is_higher_better = linear.min_group_size, linear.higher_is_better
    return tuple(
        measure_gap(
            stated,
            counts,
            rows.groups.labels,
            min_group_size=size,
            higher_is_better=is_higher_better,
        )[1]
        for stated in linear.result_.constraints
    )


def judged_by_library(linear: Any, scores: Floats, rows: Samples, name: str) -> FitResult:
    """Return the result of a refit with the gaps of scores that the library's own model, of a name, gives."""
    result: FitResult = linear.result_
    if not result.constraints:
        return result
    judged = replace(result, gaps=exact_gaps(linear, scores, rows))
    if result.satisfied and not judged.satisfied:
        obstacle = f"{name} rounds scores in another way than it should"
        return replace(judged, status=Status.NO_FEASIBLE_POINT, obstacle=obstacle)
    return judged


def mean_loss(linear: Any, scores: Floats, rows: Samples) -> float:
    """Return the weighted mean of the loss that a refit minimises, of any scores of any rows."""
    weights = rows.row_weights
    if is_regressor(linear):
        targets = rows.y
    else:
        positive = rows.y == linear.classes_[1]
        targets = np.where(positive, 1.0, -1.0)
        weights = weights * linear._class_factors(linear.classes_, positive, weights)
    objective = read_loss(linear.loss).build(targets, weights)
    return objective.loss.value_and_slopes(scores, objective.targets, objective.shares)[0]
