"""An ensemble with its splits, and what is done to a table before trees see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.onnx._graph import Graph, Name
from partialfair.onnx._trees import SplitTree, leaf_sums
from partialfair.trees.nodes import Nodes
from partialfair.utils.typing import Floats, Ints

__all__ = [
    "Before",
    "SplitTrees",
    "floored",
    "inner_nodes",
    "members_of_bits",
    "only",
    "renumbered",
    "single_precision",
]

Before = Callable[[Graph, Name], Name]
"""What is done to the table of features before trees see it."""


@dataclass(frozen=True, eq=False)
class SplitTrees:
    """An ensemble with its splits: ``base + (sum over trees of leaf values) / divisor``.

    Attributes
    ----------
    trees
        With values as the library adds them up.
    n_features
        Columns of the table.
    base, divisor
        What all sums start from, and what they are divided by.
    before
        What is done to the table first.
    categories
        From the position of a column that holds codes to the values that they stand for, in order, where the
        library knows them.
    """

    trees: tuple[SplitTree, ...]
    n_features: int
    base: float = 0.0
    divisor: int = 1
    before: tuple[Before, ...] = ()
    categories: Mapping[int, tuple[Any, ...] | None] = field(default_factory=dict)

    def sums(self, graph: Graph, table: Name) -> Name:
        """Return what the library's own model computes, row by row."""
        for change in self.before:
            table = change(graph, table)
        total = leaf_sums(graph, table, self.trees)
        if self.divisor != 1:
            total = graph.op("Div", total, graph.constant(float(self.divisor)))
        return graph.op("Add", total, graph.constant(self.base)) if self.base else total


def renumbered(
    nodes: Nodes, inner: Ints, node_values: Floats, *, yes: Ints, no: Ints, **splits: Any
) -> SplitTree:
    """Return a tree whose nodes and leaves were numbered together; pruned nodes are never reached."""
    values = np.asarray(node_values, dtype=np.float64)[nodes.leaf_ids]
    if not len(inner) or nodes.left[0] < 0:
        return SplitTree.of_one_leaf(values[0])
    place = np.zeros(len(nodes.left), dtype=np.int64)
    place[nodes.leaf_ids] = ~np.arange(len(nodes.leaf_ids))
    place[inner] = np.arange(len(inner))
    return SplitTree(yes=place[yes], no=place[no], values=values, **splits)


def members_of_bits(bits: npt.NDArray[np.uint32]) -> Floats:
    """Return the numbers that a set of bits holds, 32 to a word, the lowest first."""
    words = np.asarray(bits, dtype="<u4")
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).astype(np.float64)


def single_precision(graph: Graph, table: Name) -> Name:
    """Round features as the library does before it compares them."""
    return graph.cast(graph.cast(table, "float"), "double")


def floored(n_features: int, columns: list[int]) -> Before:
    """Cut what follows the point of codes, as their libraries do."""

    def change(graph: Graph, table: Name) -> Name:
        return graph.op("Where", only(graph, n_features, columns), graph.op("Floor", table), table)

    return change


def only(graph: Graph, n_features: int, columns: list[int]) -> Name:
    return graph.constant(np.isin(np.arange(n_features), columns)[None])


def inner_nodes(nodes: Nodes) -> Ints:
    """Return the nodes that split and can be reached, in the order of their numbers: the root first."""
    reached = np.sort(np.concatenate(nodes._levels))
    return reached[nodes.left[reached] >= 0]
