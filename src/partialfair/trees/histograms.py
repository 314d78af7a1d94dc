"""HistGradientBoosting of scikit-learn, whose trees are tables of nodes that only its own code walks."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partialfair.trees._refusals import refuse_monotone, refuse_objective
from partialfair.trees.ensembles import ScoreKind, TreeEnsemble
from partialfair.trees.nodes import Nodes, Structure
from partialfair.utils.typing import ArrayLike, Floats, Ints

__all__ = ["HistogramTrees", "check_settings", "read"]

_SCORE_KINDS: dict[str, ScoreKind] = {
    "log_loss": "log-odds",
    "squared_error": "prediction",
    "absolute_error": "prediction",
    "quantile": "prediction",
}
"""Losses whose predictions are the sum of leaf values, or its logistic transform."""


@dataclass(frozen=True, eq=False)
class HistogramTrees(TreeEnsemble):
    """Trees of a ``HistGradientBoostingClassifier`` or a ``HistGradientBoostingRegressor``.

    There is no ``apply``, and the nodes are private (their names are the same in scikit-learn 1.6 to 1.9).
    Missing values, categories and bins are met as in prediction, since the library's own code walks copies
    of the trees whose leaves hold their positions for values. A written model has a baseline of 0, and the
    old one within its first tree.
    """

    structure: Structure = field(repr=False)
    numbered: list[Any] = field(repr=False)
    """The trees with the positions of leaves for values."""

    def scores(self, X: ArrayLike) -> Floats:
        """Return ``decision_function(X)`` of a classifier, ``predict(X)`` of a regressor."""
        found = self.model.decision_function(X) if self.kind == "classifier" else self.model.predict(X)
        return np.asarray(found, dtype=np.float64)

    def _leaf_positions(self, X: Any) -> Ints:
        from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

        checked = self.model._preprocess_X(X, reset=False)
        positions = np.zeros((checked.shape[0], self.n_trees), order="F")
        # All trees as one iteration of a model with as many outputs, which come out side by side.
        self.model._predict_iterations(
            checked, [self.numbered], positions, is_binned=False, n_threads=_openmp_effective_n_threads()
        )
        return positions.astype(np.uint16)

    def _written(self, stored: Floats) -> Any:
        written = copy.deepcopy(self.model)
        for (tree,), values in zip(written._predictors, self.structure.node_values(stored), strict=True):
            tree.nodes["value"] = values
        written._baseline_prediction = np.zeros_like(self.model._baseline_prediction)
        return written


def read(model: Any) -> HistogramTrees:
    """Read a fitted model of HistGradientBoosting."""
    check_settings(model)
    trees = [tree for (tree,) in model._predictors]
    structure = Structure(tuple(_nodes_of(tree) for tree in trees))
    values = structure.leaf_values(tree.nodes["value"] for tree in trees)
    values[: structure.n_leaves[0]] += model._baseline_prediction.item()
    return HistogramTrees(
        model=model,
        score_kind=_SCORE_KINDS[model.loss],
        classes=getattr(model, "classes_", None),
        values=values,
        n_leaves=structure.n_leaves,
        structure=structure,
        numbered=[_numbered(tree, nodes) for tree, nodes in zip(trees, structure.trees, strict=True)],
    )


def check_settings(model: Any) -> None:
    """Refuse what a model was or will be grown with, where it could not be read."""
    if model.loss not in _SCORE_KINDS:
        refuse_objective(model, str(model.loss), _SCORE_KINDS)
    if _is_monotone(model.monotonic_cst):
        refuse_monotone(model)


def _is_monotone(constraints: Any) -> bool:
    """Tell whether any feature is constrained, in either form: one number a feature, or by their names."""
    if constraints is None:
        return False
    return bool(np.any(list(constraints.values()) if isinstance(constraints, dict) else constraints))


def _nodes_of(tree: Any) -> Nodes:
    table = tree.nodes
    left, right = (
        np.where(table["is_leaf"].astype(bool), -1, table[side].astype(np.int64))
        for side in ("left", "right")
    )
    return Nodes(left, right, table["count"].astype(np.float64))


def _numbered(tree: Any, nodes: Nodes) -> Any:
    """Return a copy of a tree that predicts the position of the leaf."""
    numbered = copy.copy(tree)
    numbered.nodes = tree.nodes.copy()
    numbered.nodes["value"] = nodes.leaf_positions
    return numbered
