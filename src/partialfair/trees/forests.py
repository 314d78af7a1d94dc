"""RandomForest and ExtraTrees of scikit-learn: means over trees of probabilities, or of predictions."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.trees._refusals import name_of, refuse_monotone
from partialfair.trees.ensembles import TreeEnsemble
from partialfair.trees.nodes import Structure
from partialfair.utils.typing import ArrayLike, Floats, Ints

__all__ = ["ForestTrees", "check_settings", "read"]


@dataclass(frozen=True, eq=False)
class ForestTrees(TreeEnsemble):
    """Trees of a forest, whose scores are means over trees.

    A leaf of a classifier holds the shares ``(1 - p, p)`` of the two classes among its rows, and the second
    class is predicted where the mean of ``p`` exceeds 0.5. What a forest keeps of its out-of-bag rows is
    of the old leaf values, also in a written copy.
    """

    structure: Structure = field(repr=False)

    @property
    def divisor(self) -> int:
        """What sums over trees are divided by: their number."""
        return self.n_trees

    def scores(self, X: ArrayLike) -> Floats:
        """Return ``predict_proba(X)[:, 1]`` of a classifier, ``predict(X)`` of a regressor."""
        found = self.model.predict_proba(X)[:, 1] if self.kind == "classifier" else self.model.predict(X)
        return np.asarray(found, dtype=np.float64)

    def _leaf_positions(self, X: Any) -> Ints:
        return self.structure.leaf_positions(self.model.apply(X))

    def _written(self, stored: Floats) -> Any:
        written = copy.deepcopy(self.model)
        for tree, values in zip(written.estimators_, self.structure.node_values(stored), strict=True):
            tree.tree_.value[:, 0, -1] = values
            if self.kind == "classifier":
                tree.tree_.value[:, 0, 0] = 1.0 - values
        return written


def read(model: Any) -> ForestTrees:
    """Read a fitted forest."""
    check_settings(model)
    trees = model.estimators_
    structure = Structure.of_decision_trees(trees)
    is_classifier = hasattr(model, "classes_")
    stored = structure.leaf_values(tree.tree_.value[:, 0, -1] for tree in trees)
    return ForestTrees(
        model=model,
        score_kind="probability" if is_classifier else "prediction",
        classes=model.classes_ if is_classifier else None,
        values=stored / len(trees),
        n_leaves=structure.n_leaves,
        structure=structure,
    )


def check_settings(model: Any) -> None:
    """Refuse what a model was or will be grown with, where it could not be read."""
    from sklearn.base import is_classifier, is_regressor

    if not (is_classifier(model) or is_regressor(model)):
        raise InputError(f"{name_of(model)} predicts nothing; use a RandomForest or ExtraTrees")
    if model.monotonic_cst is not None and np.any(model.monotonic_cst):
        refuse_monotone(model)
