"""Models of scikit-learn: HistGradientBoosting, GradientBoosting, RandomForest and ExtraTrees."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.base import is_classifier, is_regressor
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import (
    ScoreKind,
    TreeEnsemble,
    name_of,
    refuse_monotone,
    refuse_objective,
    score_kinds,
)
from partialfair.trees.nodes import Nodes, Structure
from partialfair.utils.typing import ArrayLike, Floats, Ints

# Losses whose predictions are the sum of leaf values, or its logistic transform.
_HISTOGRAM_LOSSES = score_kinds(("log_loss",), ("squared_error", "absolute_error", "quantile"))
# The same for GradientBoosting.
_LOSSES = _HISTOGRAM_LOSSES | score_kinds((), ("huber",))


@dataclass(frozen=True, eq=False, kw_only=True)
class _ScikitLearnTrees(TreeEnsemble):
    """Trees of a scikit-learn estimator, whose own methods score rows."""

    structure: Structure = field(repr=False)

    def scores(self, X: ArrayLike) -> Floats:
        """Return ``decision_function``, the second column of ``predict_proba``, or ``predict``."""
        if self.score_kind == "log-odds":
            scores = self.model.decision_function(X)
        elif self.score_kind == "probability":
            scores = self.model.predict_proba(X)[:, 1]
        else:
            scores = self.model.predict(X)
        return np.asarray(scores, dtype=np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class ForestTrees(_ScikitLearnTrees):
    """Trees of a RandomForest or ExtraTrees, whose scores are means over trees.

    A leaf of a classifier holds the fractions ``(1 - p, p)`` of the two classes among its rows, and the
    second class is predicted if the mean of ``p`` exceeds 0.5. Out-of-bag attributes of a written copy are
    those of the original leaf values.
    """

    def _leaf_positions(self, X: Any) -> Ints:
        return self.structure.leaf_positions(self.model.apply(X))

    def _write(self, stored: Floats) -> Any:
        written = copy.deepcopy(self.model)
        for tree, values in zip(written.estimators_, self.structure.node_values(stored), strict=True):
            tree.tree_.value[:, 0, -1] = values
            if self.kind == "classifier":
                tree.tree_.value[:, 0, 0] = 1.0 - values
        return written


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientBoostingTrees(_ScikitLearnTrees):
    """Trees of a ``GradientBoostingClassifier`` or a ``GradientBoostingRegressor``.

    The learning rate multiplies the values of leaves. A written model has a prior whose score is 0, and the
    former prior is part of its first tree.
    """

    def _leaf_positions(self, X: Any) -> Ints:
        reached = self.model.apply(X).reshape(-1, self.n_trees)
        return self.structure.leaf_positions(reached.astype(np.int64))

    def _write(self, stored: Floats) -> Any:
        written = copy.deepcopy(self.model)
        for tree, values in zip(written.estimators_.ravel(), self.structure.node_values(stored), strict=True):
            tree.tree_.value[:, 0, 0] = values
        # All scores now start from 0, by a prior of the same kind, because explainers know no other.
        start = written.init_
        if hasattr(start, "class_prior_"):
            start.class_prior_ = np.full(2, 0.5)
        elif hasattr(start, "constant_"):
            start.constant_ = np.zeros_like(start.constant_)
        return written


@dataclass(frozen=True, eq=False, kw_only=True)
class HistogramTrees(_ScikitLearnTrees):
    """Trees of a ``HistGradientBoostingClassifier`` or a ``HistGradientBoostingRegressor``.

    There is no ``apply``, and the nodes are private (their names are the same in scikit-learn 1.6 to 1.9).
    Missing values, categories and bins are treated as in prediction, because the library's own code evaluates
    copies of the trees whose leaf values are the positions of the leaves. A written model has a baseline of
    0, and the former baseline is part of its first tree.
    """

    numbered: list[Any] = field(repr=False)
    """The trees with the positions of leaves as leaf values."""

    def _leaf_positions(self, X: Any) -> Ints:
        checked = self.model._preprocess_X(X, reset=False)
        positions = np.zeros((checked.shape[0], self.n_trees), order="F")
        # All trees as one iteration of a model with that number of outputs, which are returned as columns.
        self.model._predict_iterations(
            checked, [self.numbered], positions, is_binned=False, n_threads=_openmp_effective_n_threads()
        )
        return positions.astype(np.uint16)

    def _write(self, stored: Floats) -> Any:
        written = copy.deepcopy(self.model)
        for (tree,), values in zip(written._predictors, self.structure.node_values(stored), strict=True):
            tree.nodes["value"] = values
        written._baseline_prediction = np.zeros_like(self.model._baseline_prediction)
        return written


def read(model: Any) -> TreeEnsemble:
    """Read a fitted ensemble of scikit-learn."""
    check_settings(model)
    if isinstance(model, BaseHistGradientBoosting):
        return _read_histograms(model)
    # A forest holds a list of decision trees, boosting a column of them.
    trees = [estimator.tree_ for estimator in np.ravel(model.estimators_)]
    structure = Structure(
        tuple(Nodes(tree.children_left, tree.children_right, tree.weighted_n_node_samples) for tree in trees)
    )
    # The last column: the second class's probability for classification forests, otherwise the only one.
    stored = structure.leaf_values(tree.value[:, 0, -1] for tree in trees)
    shared = {
        "model": model,
        "n_leaves": structure.n_leaves,
        "structure": structure,
    }
    if isinstance(model, BaseForest):
        score_kind: ScoreKind = "probability" if is_classifier(model) else "prediction"
        n_trees = len(trees)
        return ForestTrees(score_kind=score_kind, values=stored / n_trees, divisor=n_trees, **shared)
    rate = float(model.learning_rate)
    values = rate * stored
    values[: structure.n_leaves[0]] += prior_of(model)
    return GradientBoostingTrees(score_kind=_LOSSES[model.loss], values=values, factor=rate, **shared)


def prior_of(model: Any) -> float:
    """Return the score from which every row starts in GradientBoosting."""
    start = model.init_
    if hasattr(start, "class_prior_"):
        return float(logit(start.class_prior_[1]))
    return float(start.constant_.item()) if hasattr(start, "constant_") else 0.0  # init="zero"


def _read_histograms(model: Any) -> HistogramTrees:
    trees = [tree for (tree,) in model._predictors]
    nodes, numbered = [], []
    for tree in trees:
        is_leaf = tree.nodes["is_leaf"].astype(bool)
        left, right = (np.where(is_leaf, -1, tree.nodes[side].astype(np.int64)) for side in ("left", "right"))
        nodes.append(Nodes(left, right, tree.nodes["count"].astype(np.float64)))
        numbered.append(copy.copy(tree))
        numbered[-1].nodes = tree.nodes.copy()
        numbered[-1].nodes["value"] = nodes[-1].leaf_positions
    structure = Structure(tuple(nodes))
    values = structure.leaf_values(tree.nodes["value"] for tree in trees)
    values[: structure.n_leaves[0]] += model._baseline_prediction.item()
    return HistogramTrees(
        model=model,
        score_kind=_HISTOGRAM_LOSSES[model.loss],
        values=values,
        n_leaves=structure.n_leaves,
        structure=structure,
        numbered=numbered,
    )


def check_settings(model: Any) -> None:
    """Raise `InputError` for settings, of a fitted or unfitted model, with which it could not be read."""
    if isinstance(model, BaseForest):
        if not (is_classifier(model) or is_regressor(model)):
            raise InputError(f"{name_of(model)} predicts nothing; use a RandomForest or ExtraTrees")
    else:
        losses = _HISTOGRAM_LOSSES if isinstance(model, BaseHistGradientBoosting) else _LOSSES
        if model.loss not in losses:
            refuse_objective(model, str(model.loss), losses)
    if isinstance(model, BaseGradientBoosting) and model.init is not None and model.init != "zero":
        raise InputError(
            f"{name_of(model)} starts from the scores of {name_of(model.init)}, which may differ from row to"
            " row; use init=None or init='zero'"
        )
    # One number per feature, or a mapping from their names; GradientBoosting has no such setting.
    monotone = getattr(model, "monotonic_cst", None)
    if monotone is not None and np.any(list(monotone.values()) if isinstance(monotone, dict) else monotone):
        refuse_monotone(model)
