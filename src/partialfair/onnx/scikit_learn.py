"""Splits of scikit-learn's trees (``<=``): features in float32 for forests, in double for histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.onnx.graph import Graph, Name
from partialfair.onnx.trees import (
    Change,
    Mode,
    SplitTree,
    SplitTrees,
    column_flags,
    members_of_bits,
    renumber,
    round_to_single,
)
from partialfair.trees.nodes import Nodes
from partialfair.trees.scikit_learn import ForestTrees, GradientBoostingTrees, HistogramTrees, prior_of
from partialfair.utils.checks import shown
from partialfair.utils.typing import Floats, Ints


def read(ensemble: HistogramTrees | GradientBoostingTrees | ForestTrees) -> SplitTrees:
    """Return the trees with their splits."""
    if isinstance(ensemble, HistogramTrees):
        return _read_histograms(ensemble)
    model = ensemble.model
    trees = []
    for estimator, nodes in zip(np.ravel(model.estimators_), ensemble.structure.trees, strict=True):
        tree, inner = estimator.tree_, nodes.inner_ids
        trees.append(
            renumber(
                nodes,
                ensemble.factor * tree.value[:, 0, -1],
                feature=tree.feature[inner].astype(np.int64),
                threshold=tree.threshold[inner].astype(np.float64),
                mode=np.zeros(len(inner), dtype=np.int64),
                yes=nodes.left[inner],
                no=nodes.right[inner],
                missing_yes=np.asarray(tree.missing_go_to_left)[inner].astype(np.int64),
                members=(),
            )
        )
    return SplitTrees(
        tuple(trees),
        int(model.n_features_in_),
        base=prior_of(model) if isinstance(ensemble, GradientBoostingTrees) else 0.0,
        divisor=ensemble.divisor,
        before=(round_to_single,),  # thresholds are still doubles
    )


def _read_histograms(ensemble: HistogramTrees) -> SplitTrees:
    """Return the trees of HistGradientBoosting, which treats unknown categories as missing values."""
    model = ensemble.model
    n_features = int(model.n_features_in_)
    coded = np.zeros(n_features, bool) if model.is_categorical_ is None else model.is_categorical_
    # Columns of categories come first in the binned data.
    columns = np.concatenate([np.flatnonzero(coded), np.flatnonzero(~coded)])
    categories: dict[int, tuple[Any, ...]] = {}
    if coded.any():
        encoder = model._preprocessor.named_transformers_["encoder"]
        for place, held in zip(np.flatnonzero(coded).tolist(), encoder.categories_, strict=True):
            categories[place] = tuple(level for level in held.tolist() if level == level)  # NaN comes last
    levels = {place: _input_values(model, place, known) for place, known in categories.items()}
    trees = tuple(
        _histogram_tree(tree, nodes, columns, levels)
        for (tree,), nodes in zip(model._predictors, ensemble.structure.trees, strict=True)
    )
    used = sorted({int(j) for tree in trees for j in tree.feature[tree.mode == Mode.MEMBER]})
    texts: dict[int, tuple[Any, ...] | None] = {}
    for place in used:  # numbers are not listed
        has_text = any(isinstance(level, str) for level in categories[place])
        texts[place] = categories[place] if has_text else None
    return SplitTrees(
        trees,
        n_features,
        base=float(model._baseline_prediction.item()),
        before=(_blank_fractions(n_features, used),) if used else (),
        categories=texts,
    )


def _input_values(model: Any, place: int, known: tuple[Any, ...]) -> Floats:
    """Return the input value of each category of a column: the number itself, or the position of a text."""
    if not all(isinstance(level, int | float | np.number | np.bool_) for level in known):
        return np.arange(len(known), dtype=np.float64)
    values = np.array(known, dtype=np.float64)
    if (broken := values[values != np.floor(values)]).size:
        names = getattr(model, "feature_names_in_", None)
        column = f"column {place}" if names is None else f"column {shown(names[place])}"
        raise InputError(
            f"{column} has categories that are not whole numbers, such as {broken[0]:g}, which cannot be "
            "exported; number them before training"
        )
    return values


def _histogram_tree(tree: Any, nodes: Nodes, columns: Ints, levels: dict[int, Floats]) -> SplitTree:
    """Return a tree: numbers up to the threshold go left, and unknown categories where missing values go."""
    inner = nodes.inner_ids
    table = tree.nodes[inner]
    feature = columns[table["feature_idx"].astype(np.int64)]
    coded = table["is_categorical"].astype(bool)
    missing_left = table["missing_go_to_left"].astype(np.int64)
    # A split by category has the set of the side to which missing values do not go.
    by_right = coded & (missing_left == 1)
    left, right = nodes.left[inner], nodes.right[inner]
    members = []
    for node in np.flatnonzero(coded):
        known = levels[int(feature[node])]
        to_left = members_of_bits(tree.raw_left_cat_bitsets[table["bitset_idx"][node]]).astype(np.int64)
        chosen = np.isin(np.arange(len(known)), to_left)
        members.append(known[~chosen if missing_left[node] else chosen])
    return renumber(
        nodes,
        tree.nodes["value"],
        feature=feature,
        threshold=np.where(coded, 0.0, table["num_threshold"]),
        mode=np.where(coded, Mode.MEMBER, Mode.AT_MOST),
        yes=np.where(by_right, right, left),
        no=np.where(by_right, left, right),
        missing_yes=np.where(coded, 0, missing_left),
        members=tuple(members),
    )


def _blank_fractions(n_features: int, columns: list[int]) -> Change:
    """Replace numbers that are not whole, and hence not categories, by NaN, which has the same direction."""

    def change(graph: Graph, table: Name) -> Name:
        is_whole = graph.op("Equal", table, graph.op("Floor", table))
        strange = graph.op("And", column_flags(graph, n_features, columns), graph.op("Not", is_whole))
        return graph.op("Where", strange, graph.constant(np.nan), table)

    return change
