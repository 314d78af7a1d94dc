"""GradientBoosting of scikit-learn: decision trees times a learning rate, on top of a prior."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logit

from partialfair.exceptions import InputError
from partialfair.trees._refusals import name_of, refuse_objective
from partialfair.trees.ensembles import ScoreKind, TreeEnsemble
from partialfair.trees.nodes import Structure
from partialfair.utils.typing import ArrayLike, Floats, Ints

__all__ = ["GradientBoostingTrees", "check_settings", "read"]

_SCORE_KINDS: dict[str, ScoreKind] = {
    "log_loss": "log-odds",
    "squared_error": "prediction",
    "absolute_error": "prediction",
    "huber": "prediction",
    "quantile": "prediction",
}
"""Losses whose predictions are the sum of leaf values, or its logistic transform."""


@dataclass(frozen=True, eq=False)
class GradientBoostingTrees(TreeEnsemble):
    """Trees of a ``GradientBoostingClassifier`` or a ``GradientBoostingRegressor``.

    Leaves hold values that the learning rate multiplies. A written model has a prior whose score is 0, and
    the old one within its first tree.
    """

    structure: Structure = field(repr=False)

    @property
    def factor(self) -> float:
        """The learning rate."""
        return float(self.model.learning_rate)

    def scores(self, X: ArrayLike) -> Floats:
        """Return ``decision_function(X)`` of a classifier, ``predict(X)`` of a regressor."""
        found = self.model.decision_function(X) if self.kind == "classifier" else self.model.predict(X)
        return np.asarray(found, dtype=np.float64)

    def _leaf_positions(self, X: Any) -> Ints:
        reached = self.model.apply(X).reshape(-1, self.n_trees)
        return self.structure.leaf_positions(reached.astype(np.int64))

    def _written(self, stored: Floats) -> Any:
        written = copy.deepcopy(self.model)
        for tree, values in zip(written.estimators_.ravel(), self.structure.node_values(stored), strict=True):
            tree.tree_.value[:, 0, 0] = values
        _remove_prior(written)
        return written


def read(model: Any) -> GradientBoostingTrees:
    """Read a fitted model of GradientBoosting."""
    check_settings(model)
    trees = model.estimators_.ravel()
    structure = Structure.of_decision_trees(trees)
    values = model.learning_rate * structure.leaf_values(tree.tree_.value[:, 0, 0] for tree in trees)
    values[: structure.n_leaves[0]] += _prior(model)
    return GradientBoostingTrees(
        model=model,
        score_kind=_SCORE_KINDS[model.loss],
        classes=getattr(model, "classes_", None),
        values=values,
        n_leaves=structure.n_leaves,
        structure=structure,
    )


def check_settings(model: Any) -> None:
    """Refuse what a model was or will be grown with, where it could not be read."""
    if model.loss not in _SCORE_KINDS:
        refuse_objective(model, str(model.loss), _SCORE_KINDS)
    if model.init is not None and model.init != "zero":
        raise InputError(
            f"{name_of(model)} starts from the scores of {name_of(model.init)}, which may differ from row to"
            " row; use init=None or init='zero'"
        )


def _prior(model: Any) -> float:
    """Return the score that every row starts from."""
    if hasattr(model.init_, "class_prior_"):
        return float(logit(model.init_.class_prior_[1]))
    if hasattr(model.init_, "constant_"):
        return float(model.init_.constant_.item())
    return 0.0  # init="zero"


def _remove_prior(model: Any) -> None:
    """Make all scores start from 0, and keep the kind of prior that explainers know."""
    if hasattr(model.init_, "class_prior_"):
        model.init_.class_prior_ = np.full(2, 0.5)
    elif hasattr(model.init_, "constant_"):
        model.init_.constant_ = np.zeros_like(model.init_.constant_)
