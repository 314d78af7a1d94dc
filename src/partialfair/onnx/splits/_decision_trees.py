"""Splits of scikit-learn's decision trees, of boosting and forests: at most, float32 against double."""

from __future__ import annotations

from typing import Any

import numpy as np

from partialfair.onnx._trees import SplitTree
from partialfair.onnx.splits._tables import SplitTrees, inner_nodes, renumbered, single_precision
from partialfair.trees.nodes import Nodes
from partialfair.trees.scikit_learn import ForestTrees, GradientBoostingTrees, prior_of

__all__ = ["read"]


def read(ensemble: GradientBoostingTrees | ForestTrees) -> SplitTrees:
    """Return the trees with their splits."""
    model = ensemble.model
    pairs = zip(np.ravel(model.estimators_), ensemble.structure.trees, strict=True)
    return SplitTrees(
        tuple(_tree(estimator.tree_, nodes, ensemble.factor) for estimator, nodes in pairs),
        int(model.n_features_in_),
        base=prior_of(model) if isinstance(ensemble, GradientBoostingTrees) else 0.0,
        divisor=ensemble.divisor,
        before=(single_precision,),
    )


def _tree(tree: Any, nodes: Nodes, factor: float) -> SplitTree:
    """Return a decision tree of scikit-learn, which compares features in float32 with doubles."""
    inner = inner_nodes(nodes)
    return renumbered(
        nodes,
        inner,
        factor * tree.value[:, 0, -1],
        feature=tree.feature[inner].astype(np.int64),
        threshold=tree.threshold[inner].astype(np.float64),
        mode=np.zeros(len(inner), dtype=np.int64),
        yes=nodes.left[inner],
        no=nodes.right[inner],
        missing_yes=np.asarray(tree.missing_go_to_left)[inner].astype(np.int64),
        members=(),
    )
