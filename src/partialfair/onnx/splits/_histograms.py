"""Splits of HistGradientBoosting: at most, in double precision; unknown categories are missing values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.onnx._graph import Graph, Name
from partialfair.onnx._trees import Mode, SplitTree
from partialfair.onnx.splits._tables import (
    Before,
    SplitTrees,
    inner_nodes,
    members_of_bits,
    only,
    renumbered,
)
from partialfair.trees.nodes import Nodes
from partialfair.trees.scikit_learn import HistogramTrees
from partialfair.utils.checks import shown
from partialfair.utils.typing import Floats, Ints

__all__ = ["read"]


def read(ensemble: HistogramTrees) -> SplitTrees:
    """Return the trees with their splits."""
    model = ensemble.model
    coded = (
        model.is_categorical_ if model.is_categorical_ is not None else np.zeros(model.n_features_in_, bool)
    )
    # Columns of categories are put first before they are binned.
    columns = np.concatenate([np.flatnonzero(coded), np.flatnonzero(~coded)])
    levels = _levels(model, coded)
    trees = []
    for (predictor,), nodes in zip(model._predictors, ensemble.structure.trees, strict=True):
        trees.append(_tree(predictor, nodes, columns, levels))
    used = {int(j) for tree in trees for j in tree.feature[tree.mode == Mode.MEMBER]}
    texts = {j: told for j, told in _level_texts(model, coded).items() if j in used}
    return SplitTrees(
        tuple(trees),
        int(model.n_features_in_),
        base=float(model._baseline_prediction.item()),
        before=(_whole(int(model.n_features_in_), sorted(used)),) if used else (),
        categories=texts,
    )


def _levels(model: Any, coded: npt.NDArray[np.bool_]) -> dict[int, Floats]:
    """Return, for each column of categories, what the input holds for each of its codes.

    Numbers stand for themselves; other categories are given by their positions.
    """
    levels = {}
    for place, held in _encoded_categories(model, coded).items():
        known = [level for level in held if level == level]  # a missing value comes last
        if all(isinstance(level, int | float | np.number | np.bool_) for level in known):
            values = np.array(known, dtype=np.float64)
            if (broken := values[values != np.floor(values)]).size:
                raise InputError(
                    f"{_column_name(model, place)} has categories that are not whole numbers, such as "
                    f"{broken[0]:g}, which cannot be exported; number them before trees are grown"
                )
            levels[place] = values
        else:
            levels[place] = np.arange(len(known), dtype=np.float64)
    return levels


def _level_texts(model: Any, coded: npt.NDArray[np.bool_]) -> dict[int, tuple[Any, ...] | None]:
    """Return what codes stand for, where the input does not hold the numbers themselves."""
    texts: dict[int, tuple[Any, ...] | None] = {}
    for place, held in _encoded_categories(model, coded).items():
        known = tuple(level for level in held.tolist() if level == level)
        texts[place] = known if any(isinstance(level, str) for level in known) else None
    return texts


def _encoded_categories(model: Any, coded: npt.NDArray[np.bool_]) -> dict[int, npt.NDArray[Any]]:
    if not coded.any():
        return {}
    encoder = model._preprocessor.named_transformers_["encoder"]
    return dict(zip(np.flatnonzero(coded).tolist(), encoder.categories_, strict=True))


def _tree(tree: Any, nodes: Nodes, columns: Ints, levels: Mapping[int, Floats]) -> SplitTree:
    """Return a tree: numbers up to the threshold go left, and unknown categories where missing values go."""
    table = tree.nodes
    inner = inner_nodes(nodes)
    held = table[inner]
    feature = columns[held["feature_idx"].astype(np.int64)]
    coded = held["is_categorical"].astype(bool)
    missing_left = held["missing_go_to_left"].astype(np.int64)
    # Of the two sides of a split by category, the set is the one that missing values do not go to.
    by_right = coded & (missing_left == 1)
    left, right = nodes.left[inner], nodes.right[inner]
    members = []
    for node in np.flatnonzero(coded):
        known = levels[int(feature[node])]
        to_left = members_of_bits(tree.raw_left_cat_bitsets[held["bitset_idx"][node]]).astype(np.int64)
        chosen = np.isin(np.arange(len(known)), to_left)
        members.append(known[~chosen if missing_left[node] else chosen])
    return renumbered(
        nodes,
        inner,
        table["value"],
        feature=feature,
        threshold=np.where(coded, 0.0, held["num_threshold"]),
        mode=np.where(coded, Mode.MEMBER, Mode.AT_MOST),
        yes=np.where(by_right, right, left),
        no=np.where(by_right, left, right),
        missing_yes=np.where(coded, 0, missing_left),
        members=tuple(members),
    )


def _whole(n_features: int, columns: list[int]) -> Before:
    """Make NaN of what is no whole number, and hence no category; unknown ones go where NaN goes."""

    def change(graph: Graph, table: Name) -> Name:
        is_whole = graph.op("Equal", table, graph.op("Floor", table))
        strange = graph.op("And", only(graph, n_features, columns), graph.op("Not", is_whole))
        return graph.op("Where", strange, graph.constant(np.nan), table)

    return change


def _column_name(model: Any, place: int) -> str:
    names = getattr(model, "feature_names_in_", None)
    return f"column {place}" if names is None else f"column {shown(names[place])}"
