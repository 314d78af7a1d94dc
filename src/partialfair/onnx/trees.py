"""Trees in ONNX: the operator TreeEnsemble in double precision, and changes of the table before it.

Libraries differ in the comparison (``<=`` or ``<``), in the precision of features, and in the direction of
missing values and unknown categories. Differences in whole columns are changes of the table; differences in
nodes are parts of the node. Each library has one module with ``read(ensemble)``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.onnx.graph import Graph, Name
from partialfair.trees.ensembles import TreeEnsemble
from partialfair.trees.nodes import Nodes
from partialfair.utils.typing import Floats, Ints

Change: TypeAlias = Callable[[Graph, Name], Name]
"""A change of the table of features before trees read it."""

# The modules have the same names as in `partialfair.trees`.
_LIBRARIES = ("lightgbm", "xgboost", "scikit_learn")


class Mode(IntEnum):
    """The comparison of a feature with a threshold, with the numbers of ONNX."""

    AT_MOST = 0
    BELOW = 1
    MEMBER = 6
    """Whether it is among the node's members."""


@dataclass(frozen=True, eq=False)
class SplitTree:
    """One tree: nodes that split, the root first, and leaves.

    Attributes
    ----------
    feature, threshold, mode : (n,)
        Feature, threshold and comparison of each node.
    yes, no : (n,)
        Children for rows that pass the comparison and for others: node i, or leaf l as ``~l``.
    missing_yes : (n,)
        Whether rows with NaN go to the same child as rows that pass.
    members : n_members arrays
        The sets of the nodes with mode MEMBER, in their order.
    values : (n_leaves,)
        Values of the leaves.
    """

    feature: Ints
    threshold: Floats
    mode: Ints
    yes: Ints
    no: Ints
    missing_yes: Ints
    members: tuple[Floats, ...]
    values: Floats

    @classmethod
    def of_one_leaf(cls, value: float) -> SplitTree:
        """Return a tree with one value: ONNX needs a split, so both leaves have this value."""
        zero = np.zeros(1, dtype=np.int64)
        return cls(zero, np.zeros(1), zero, ~zero, ~(zero + 1), zero, (), np.full(2, value))


@dataclass(frozen=True, eq=False)
class SplitTrees:
    """An ensemble with its splits: ``base + (sum over trees of leaf values) / divisor``.

    Attributes
    ----------
    trees
        The trees, with the leaf values that the library adds.
    n_features
        Number of columns of the table.
    base, divisor
        The start of all sums, and their divisor.
    before
        Changes of the table.
    categories
        The values of codes in order, by position of the column; None if the library does not know them.
    """

    trees: tuple[SplitTree, ...]
    n_features: int
    base: float = 0.0
    divisor: int = 1
    before: tuple[Change, ...] = ()
    categories: Mapping[int, tuple[Any, ...] | None] = field(default_factory=dict)

    def sums(self, graph: Graph, table: Name) -> Name:
        """Return the score that the library computes for each row."""
        for change in self.before:
            table = change(graph, table)
        total = leaf_sums(graph, table, self.trees)
        if self.divisor != 1:
            total = graph.op("Div", total, graph.constant(float(self.divisor)))
        return graph.op("Add", total, graph.constant(self.base)) if self.base else total


def split_trees(ensemble: TreeEnsemble) -> SplitTrees:
    """Return the splits of an ensemble of any library."""
    library = type(ensemble).__module__.rpartition(".")[2]
    if library not in _LIBRARIES:
        raise InputError(
            f"{type(ensemble.model).__name__} is not exported here: CatBoost does so itself, in single "
            "precision and without categories, by estimator_.save_model(path, format='onnx')"
        )
    splits: SplitTrees = importlib.import_module(f"partialfair.onnx.{library}").read(ensemble)
    return splits


def leaf_sums(graph: Graph, table: Name, trees: Sequence[SplitTree]) -> Name:
    """Return for each row of a table the sum over trees of the values of its leaves."""
    roots, yes, no, leaves = [], [], [], []
    n_nodes = n_leaves = 0
    for tree in trees:
        values, first_leaf = tree.values, n_leaves
        if looks_like_a_leaf(tree, n_nodes, n_leaves):
            values, first_leaf = np.append(0.0, values), n_leaves + 1  # an unused leaf comes first
        roots.append(n_nodes)
        yes.append(_places(tree.yes, n_nodes, first_leaf))
        no.append(_places(tree.no, n_nodes, first_leaf))
        leaves.append(values)
        n_nodes, n_leaves = n_nodes + len(tree.feature), n_leaves + len(values)
    members = [np.append(held, np.nan) for tree in trees for held in tree.members]  # NaN ends each set
    membership = {"membership_values": graph.tensor(np.concatenate(members))} if members else {}
    summed = graph.ml(
        "TreeEnsemble",
        table,
        n_targets=1,
        aggregate_function=1,  # the sum
        post_transform=0,  # none
        tree_roots=roots,
        nodes_featureids=_joined([tree.feature for tree in trees]),
        nodes_splits=graph.tensor(np.concatenate([tree.threshold for tree in trees])),
        nodes_modes=graph.tensor(np.concatenate([tree.mode for tree in trees]).astype(np.uint8)),
        nodes_truenodeids=_joined(yes),
        nodes_trueleafs=_joined([tree.yes < 0 for tree in trees]),
        nodes_falsenodeids=_joined(no),
        nodes_falseleafs=_joined([tree.no < 0 for tree in trees]),
        nodes_missing_value_tracks_true=_joined([tree.missing_yes for tree in trees]),
        leaf_targetids=[0] * n_leaves,
        leaf_weights=graph.tensor(np.concatenate(leaves)),
        **membership,
    )
    return graph.flat(summed)


def search_tree(boundaries: Sequence[Floats]) -> SplitTree:
    """Return a tree that finds the range of a number; the features are the number and its list.

    With ``b_k`` the rising boundaries of list k, the value of ``(x, k)`` is the number of entries ``<= x`` of
    ``b_k``, plus ``len(b_j) + 1`` for every earlier list j. Both are binary searches.
    """
    nodes: list[tuple[int, float, int, int]] = []

    def halved(feature: int, thresholds: Floats, children: Sequence[int]) -> int:
        if len(children) == 1:
            return children[0]
        middle = len(children) // 2
        yes = halved(feature, thresholds[: middle - 1], children[:middle])
        no = halved(feature, thresholds[middle:], children[middle:])
        nodes.append((feature, float(thresholds[middle - 1]), yes, no))
        return len(nodes) - 1

    firsts = np.cumsum([0, *(len(held) + 1 for held in boundaries)])
    leaves = [[~place for place in range(*pair)] for pair in pairwise(firsts.tolist())]
    # The first search finds the list by feature 1, the second the number in it by feature 0.
    lists = [halved(0, held, its) for held, its in zip(boundaries, leaves, strict=True)]
    halved(1, np.arange(1.0, len(lists)), lists)
    if not nodes:
        return SplitTree.of_one_leaf(0.0)
    n_nodes, (feature, threshold, *sides) = len(nodes), np.array(nodes[::-1]).T  # the root came last
    children = (side.astype(np.int64) for side in sides)
    yes, no = (np.where(child < 0, child, n_nodes - 1 - child) for child in children)
    return SplitTree(
        feature=feature.astype(np.int64),
        threshold=threshold,
        mode=np.full(n_nodes, int(Mode.BELOW), dtype=np.int64),
        yes=yes,
        no=no,
        missing_yes=np.zeros(n_nodes, dtype=np.int64),
        members=(),
        values=np.arange(firsts[-1], dtype=np.float64),
    )


def looks_like_a_leaf(tree: SplitTree, first_node: int, first_leaf: int) -> bool:
    """Return whether onnxruntime up to 1.23 treats a root as a leaf (its issue 24679).

    This happens if one child of the root is a node and the other a leaf, and the position of the node among
    nodes equals the position of the leaf among leaves.
    """
    yes, no = tree.yes[:1], tree.no[:1]
    same = _places(yes, first_node, first_leaf) == _places(no, first_node, first_leaf)
    return bool((yes < 0) != (no < 0)) and bool(same)


def _places(children: Ints, first_node: int, first_leaf: int) -> Ints:
    """Return the children of a tree as positions among the nodes or leaves of all trees."""
    return np.where(children < 0, ~children + first_leaf, children + first_node)


def _joined(parts: Sequence[npt.NDArray[Any]]) -> list[int]:
    joined: list[int] = np.concatenate(parts).astype(np.int64).tolist()
    return joined


def renumber(nodes: Nodes, node_values: Floats, *, yes: Ints, no: Ints, **splits: Any) -> SplitTree:
    """Return a tree from nodes and leaves that were numbered together; pruned nodes are unreachable.

    Parameters
    ----------
    nodes, node_values
        The tree, and the values of all nodes.
    yes, no, splits
        The attributes of `SplitTree` for the inner nodes.
    """
    values = np.asarray(node_values, dtype=np.float64)[nodes.leaf_ids]
    # Inner nodes and leaves are counted separately, in the order of their numbers.
    if not len(nodes.inner_ids):
        return SplitTree.of_one_leaf(values[0])
    place = np.zeros(len(nodes.left), dtype=np.int64)
    place[nodes.leaf_ids] = ~np.arange(len(nodes.leaf_ids))
    place[nodes.inner_ids] = np.arange(len(nodes.inner_ids))
    return SplitTree(yes=place[yes], no=place[no], values=values, **splits)


def members_of_bits(bits: npt.NDArray[np.uint32]) -> Floats:
    """Return the numbers in a bit set of 32-bit words, the lowest word first."""
    words = np.asarray(bits, dtype="<u4")
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).astype(np.float64)


def round_to_single(graph: Graph, table: Name) -> Name:
    """Round features to single precision, as the library does before comparisons."""
    return graph.cast(graph.cast(table, "float"), "double")


def floor_columns(n_features: int, columns: list[int]) -> Change:
    """Round codes down, as the libraries do."""

    def change(graph: Graph, table: Name) -> Name:
        return graph.op("Where", column_flags(graph, n_features, columns), graph.op("Floor", table), table)

    return change


def column_flags(graph: Graph, n_features: int, columns: list[int]) -> Name:
    """Return a row of booleans that are true in the given columns."""
    return graph.constant(np.isin(np.arange(n_features), columns)[None])
