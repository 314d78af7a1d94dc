"""Tree ensembles as origins of a fit: scores on one scale, leaf values as coefficients, and back.

A classifier's scores are cut at 0 everywhere in partialfair. Boosted classifiers sum log-odds, which are;
forests average probabilities p, whose scores are ``2 p − 1``: so is the squared loss of labels ±1 four times
that of p. A leaf of one of T trees that holds p adds ``(2 p − 1) / T``, between −1/T and 1/T, to a score.

An intercept of the refit is shared out among all trees. Where values have bounds there is none, for it would
lead out of them: all leaves of a tree together are as good as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import is_regressor
from sklearn.ensemble._forest import ForestClassifier

from partialfair.training.units import DeployedScores, Offset
from partialfair.trees._wrapped import unwrapped
from partialfair.trees.ensembles import ScoreKind, TreeEnsemble, ensemble_of
from partialfair.utils.typing import ArrayLike, Floats

__all__ = ["LOSSES", "LeafValues", "has_bounds", "loss_of"]

LOSSES: dict[ScoreKind, str] = {"log-odds": "logistic", "probability": "squared", "prediction": "squared"}
"""What the leaf values of each kind of scores are refitted for."""

_FACTORS: dict[ScoreKind, tuple[float, float]] = {"probability": (2.0, 1.0)}
"""Factor and shift of scores whose cut is not 0."""


def has_bounds(model: Any) -> bool:
    """Whether the leaves of a model, fitted or not, hold probabilities."""
    return isinstance(unwrapped(model), ForestClassifier)


def loss_of(model: Any) -> str:
    """Return what the leaf values of a model, fitted or not, are refitted for."""
    model = unwrapped(model)
    if not hasattr(model, "get_params"):  # a booster, which is fitted
        return LOSSES[ensemble_of(model).score_kind]
    return "squared" if is_regressor(model) or has_bounds(model) else "logistic"


@dataclass(frozen=True, eq=False)
class LeafValues:
    """A tree ensemble on the scale of scores.

    Attributes
    ----------
    ensemble
        The trees, with the values that their library gave them.
    """

    ensemble: TreeEnsemble

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """Factor and shift: scores are ``factor · (sum of leaf values) − shift``."""
        return _FACTORS.get(self.ensemble.score_kind, (1.0, 0.0))

    def scores(self, X: ArrayLike) -> Floats:
        """Return what the library's own model scores rows, on the scale of partialfair."""
        factor, shift = self._scale
        return factor * self.ensemble.scores(X) - shift

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities of the second class that scores stand for."""
        return (1 + scores) / 2 if self.ensemble.score_kind == "probability" else expit(scores)

    def origin(self, X: ArrayLike) -> Offset:
        """Return the ensemble as the model of these rows that coefficients are counted from."""
        ensemble, n_trees = self.ensemble, self.ensemble.n_trees
        low, high = self._coefficients(np.array(ensemble.bounds)).tolist()
        return Offset(
            self.scores(X),
            self._coefficients(ensemble.values)[None],
            np.zeros(1),
            np.full((1, len(ensemble.values)), 1 / n_trees),
            (low, high),
            self._told,
        )

    def refitted(self, coef: Floats, intercept: Floats) -> LeafValues:
        """Return the ensemble with other values, written into a copy of the library's model.

        Parameters
        ----------
        coef, intercept : (1, d), (1,)
            What is added to the values it has.
        """
        total = self._coefficients(self.ensemble.values) + coef[0]
        return LeafValues(self.ensemble.with_values(self._values(total, float(intercept[0]))))

    def _coefficients(self, values: Floats) -> Floats:
        """Return what leaves with these values add to scores."""
        factor, shift = self._scale
        return factor * values - shift / self.ensemble.n_trees

    def _values(self, coef: Floats, intercept: float) -> Floats:
        """Return values whose sums score as coefficients and intercept do."""
        factor, shift = self._scale
        return np.asarray((coef + (intercept + shift) / self.ensemble.n_trees) / factor)

    def _told(self, coef: Floats, intercept: Floats) -> tuple[Floats, DeployedScores]:
        """Return what the library adds up, which it does without rounding, and the scores of the sums."""
        factor, shift = self._scale
        divisor = self.ensemble.divisor
        added: Any = self.ensemble.factor * self.ensemble._stored(self._values(coef[0], float(intercept[0])))
        return added[None], lambda sums: factor * (sums / divisor) - shift
