"""Splits of XGBoost (``<`` in single precision); members of a set go right."""

from __future__ import annotations

from typing import Any

import numpy as np

from partialfair.onnx.graph import Graph, Name
from partialfair.onnx.trees import (
    Change,
    Mode,
    SplitTree,
    SplitTrees,
    floor_columns,
    renumber,
    round_to_single,
)
from partialfair.trees.nodes import Nodes
from partialfair.trees.xgboost import XGBoostTrees, base_margin


def read(ensemble: XGBoostTrees) -> SplitTrees:
    """Return the trees with their splits."""
    learner = ensemble.saved["learner"]
    n_features = int(learner["learner_model_param"]["num_feature"])
    pairs = zip(learner["gradient_booster"]["model"]["trees"], ensemble.structure.trees, strict=True)
    trees = tuple(_tree(*pair) for pair in pairs)
    coded = sorted({int(j) for tree in trees for j in tree.feature[tree.mode == Mode.MEMBER]})
    before: list[Change] = [round_to_single]
    missing = getattr(ensemble.model, "missing", np.nan)
    if not np.isnan(missing):
        before.append(lambda graph, table: _blank_missing(graph, table, float(np.float32(missing))))
    if coded:
        before.append(floor_columns(n_features, coded))
    return SplitTrees(
        trees,
        n_features,
        base=base_margin(learner),
        before=tuple(before),
        categories=dict.fromkeys(coded),
    )


def _tree(saved: dict[str, Any], nodes: Nodes) -> SplitTree:
    """Return a tree: numbers below the threshold go left, members of a set go right, both in float32."""
    conditions = np.asarray(saved["split_conditions"], dtype=np.float32).astype(np.float64)
    inner = nodes.inner_ids
    coded = np.asarray(saved["split_type"], dtype=np.int64)[inner] == 1
    # Sets are listed in the order of their nodes.
    starts, listed = saved["categories_segments"], np.array(saved["categories"], dtype=np.float64)
    sets = np.split(listed, starts[1:]) if starts else []
    set_of = dict(zip(saved["categories_nodes"], sets, strict=True))
    # Members of a set pass the comparison and go right, so sides and defaults are exchanged there.
    left_default = np.asarray(saved["default_left"], dtype=np.int64)[inner]
    left, right = nodes.left[inner], nodes.right[inner]
    return renumber(
        nodes,
        conditions,  # leaf values are in the array of thresholds
        feature=np.asarray(saved["split_indices"], dtype=np.int64)[inner],
        threshold=np.where(coded, 0.0, conditions[inner]),
        mode=np.where(coded, Mode.MEMBER, Mode.BELOW),
        yes=np.where(coded, right, left),
        no=np.where(coded, left, right),
        missing_yes=np.where(coded, 1 - left_default, left_default),
        members=tuple(set_of[node] for node in inner[coded].tolist()),
    )


def _blank_missing(graph: Graph, table: Name, missing: float) -> Name:
    """Replace the number that represents missing values by NaN."""
    is_missing = graph.op("Equal", table, graph.constant(missing))
    return graph.op("Where", is_missing, graph.constant(np.nan), table)
