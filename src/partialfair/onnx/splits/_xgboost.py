"""Splits of XGBoost: below, in single precision; members of a set go right."""

from __future__ import annotations

from typing import Any

import numpy as np

from partialfair.onnx._graph import Graph, Name
from partialfair.onnx._trees import Mode, SplitTree
from partialfair.onnx.splits._tables import (
    Before,
    SplitTrees,
    floored,
    inner_nodes,
    renumbered,
    single_precision,
)
from partialfair.trees.nodes import Nodes
from partialfair.trees.xgboost import XGBoostTrees, base_margin

__all__ = ["read"]


def read(ensemble: XGBoostTrees) -> SplitTrees:
    """Return the trees with their splits."""
    learner = ensemble.saved["learner"]
    n_features = int(learner["learner_model_param"]["num_feature"])
    pairs = zip(learner["gradient_booster"]["model"]["trees"], ensemble.structure.trees, strict=True)
    trees = tuple(_tree(*pair) for pair in pairs)
    coded = sorted({int(j) for tree in trees for j in tree.feature[tree.mode == Mode.MEMBER]})
    before: list[Before] = [single_precision]
    missing = getattr(ensemble.model, "missing", np.nan)
    if not np.isnan(missing):
        before.append(lambda graph, table: _without(graph, table, float(np.float32(missing))))
    if coded:
        before.append(floored(n_features, coded))
    return SplitTrees(
        trees,
        n_features,
        base=base_margin(learner),
        before=tuple(before),
        categories=dict.fromkeys(coded),
    )


def _tree(held: dict[str, Any], nodes: Nodes) -> SplitTree:
    """Return a tree: numbers below the threshold go left, members of a set go right, both in float32."""
    conditions = np.asarray(held["split_conditions"], dtype=np.float32).astype(np.float64)
    inner = inner_nodes(nodes)
    coded = np.asarray(held["split_type"], dtype=np.int64)[inner] == 1
    # Sets are listed one after the other, in the order of their nodes.
    starts, listed = held["categories_segments"], np.array(held["categories"], dtype=np.float64)
    sets = np.split(listed, starts[1:]) if starts else []
    set_of = dict(zip(held["categories_nodes"], sets, strict=True))
    left_default = np.asarray(held["default_left"], dtype=np.int64)[inner]
    left, right = nodes.left[inner], nodes.right[inner]
    return renumbered(
        nodes,
        inner,
        conditions,
        feature=np.asarray(held["split_indices"], dtype=np.int64)[inner],
        threshold=np.where(coded, 0.0, conditions[inner]),
        mode=np.where(coded, Mode.MEMBER, Mode.BELOW),
        yes=np.where(coded, right, left),
        no=np.where(coded, left, right),
        missing_yes=np.where(coded, 1 - left_default, left_default),
        members=tuple(set_of[node] for node in inner[coded].tolist()),
    )


def _without(graph: Graph, table: Name, missing: float) -> Name:
    """Make NaN of the number that stands for missing values."""
    found = graph.op("Equal", table, graph.constant(missing))
    return graph.op("Where", found, graph.constant(np.nan), table)
