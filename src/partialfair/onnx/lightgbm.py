"""Splits of LightGBM (``<=`` in double precision), with three kinds of missing values."""

from __future__ import annotations

from typing import Any

import numpy as np

from partialfair.onnx.graph import Graph, Name
from partialfair.onnx.trees import Mode, SplitTree, SplitTrees, floor_columns, members_of_bits
from partialfair.trees.lightgbm import LightGBMTrees, numbers_of
from partialfair.utils.typing import Ints

# LightGBM treats smaller numbers as 0 if zeros are missing values.
_ZERO_WIDTH = float(np.float32(1e-35))

# LightGBM's kinds of missing values: NaN counts as 0; zeros and NaN are missing; NaN is missing.
_NONE, _ZERO, _NAN = 0, 1, 2


def read(ensemble: LightGBMTrees) -> SplitTrees:
    """Return the trees with their splits."""
    n_features = int(ensemble.text.entry("max_feature_idx")) + 1
    kinds = [_missing_kinds(tree) for tree in ensemble.text.trees]
    # Nodes may have different kinds of missing values, so each reads one of several copies of the table.
    blocks = sorted(set(np.concatenate(kinds).tolist())) or [_NAN]
    trees, coded = [], set()
    for text, missing in zip(ensemble.text.trees, kinds, strict=True):
        tree, codes = _tree(text, np.searchsorted(blocks, missing) * n_features)
        trees.append(tree)
        coded |= codes
    columns = sorted(coded)
    return SplitTrees(
        tuple(trees),
        n_features,
        before=(
            *([floor_columns(n_features, columns)] if coded else []),
            lambda graph, table: _blocks(graph, table, blocks),
        ),
        categories=_categories(ensemble, columns),
    )


def _missing_kinds(tree: str) -> Ints:
    """Return the kind of missing values of each node; NaN is never a category."""
    decisions = numbers_of(tree, "decision_type").astype(np.int64)
    return np.where(decisions & 1, _NAN, (decisions >> 2) & 3)


def _tree(text: str, shift: Ints) -> tuple[SplitTree, set[int]]:
    """Return a tree, whose nodes read one of several copies of the table, and the columns of codes."""
    values = numbers_of(text, "leaf_value")
    if len(values) == 1:
        return SplitTree.of_one_leaf(values[0]), set()
    feature, decisions, yes, no, bounds, bits = (
        numbers_of(text, key).astype(np.int64)
        for key in (
            "split_feature",
            "decision_type",
            "left_child",
            "right_child",
            "cat_boundaries",
            "cat_threshold",
        )
    )
    threshold = numbers_of(text, "threshold")
    coded = (decisions & 1).astype(bool)
    sets = threshold[coded].astype(np.int64)
    tree = SplitTree(
        feature=feature + shift,
        threshold=np.where(coded, 0.0, threshold),
        mode=np.where(coded, Mode.MEMBER, Mode.AT_MOST),
        yes=yes,
        no=no,
        missing_yes=np.where(coded, 0, (decisions >> 1) & 1),
        members=tuple(members_of_bits(bits[bounds[one] : bounds[one + 1]].astype(np.uint32)) for one in sets),
        values=values,
    )
    return tree, set(feature[coded].tolist())


def _categories(ensemble: LightGBMTrees, coded: list[int]) -> dict[int, tuple[Any, ...] | None]:
    """Return the meaning of codes; LightGBM lists the categories of all pandas columns, in order."""
    booster = getattr(ensemble.model, "booster_", ensemble.model)
    known = getattr(booster, "pandas_categorical", None) or []
    # Categories are listed as 0:1:2, numbers as [low:high], and unused columns as none.
    ranges = ensemble.text.entry("feature_infos").split()
    columns = [j for j, values in enumerate(ranges) if values[0] not in "[n"]
    levels = dict(zip(columns, known, strict=True)) if len(columns) == len(known) else {}
    return {j: tuple(levels[j]) if j in levels else None for j in coded}


def _blocks(graph: Graph, table: Name, kinds: list[int]) -> Name:
    """Return the table repeated once for each kind of missing values."""
    copies = []
    for kind in kinds:
        if kind == _NONE:
            missing, instead = graph.op("IsNaN", table), 0.0
        elif kind == _ZERO:
            small = graph.constant(_ZERO_WIDTH)
            missing, instead = graph.op("LessOrEqual", graph.op("Abs", table), small), np.nan
        else:
            copies.append(table)
            continue
        copies.append(graph.op("Where", missing, graph.constant(instead), table))
    return copies[0] if len(copies) == 1 else graph.op("Concat", *copies, axis=1)
