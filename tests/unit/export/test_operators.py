"""The pieces that graphs are made of, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
Graph = pytest.importorskip("partialfair.onnx.graph").Graph
from partialfair.onnx.trees import (  # noqa: E402
    Mode,
    SplitTree,
    leaf_sums,
    looks_like_a_leaf,
    search_tree,
)
from tests.onnx_runs import run, tree_attributes  # noqa: E402


def summed(trees, table):
    graph = Graph()
    graph.output("sums", leaf_sums(graph, graph.input("X", "double", table.shape[1]), trees), "double")
    model = graph.model({}, "0", "")
    return model, run(model, X=table)["sums"]


def random_tree(rng, n_features):
    """A tree of random shape, grown leaf by leaf."""
    nodes, n_leaves = [[0, ~0, ~1]], 2
    for _ in range(rng.integers(0, 8)):
        leaves = [(i, side) for i, node in enumerate(nodes) for side in (1, 2) if node[side] < 0]
        i, side = leaves[rng.integers(len(leaves))]
        kept, nodes[i][side] = nodes[i][side], len(nodes)
        children = [kept, ~n_leaves] if rng.random() < 0.5 else [~n_leaves, kept]
        nodes.append([0, *children])
        n_leaves += 1
    n = len(nodes)
    mode = rng.choice([Mode.AT_MOST, Mode.BELOW, Mode.MEMBER], n).astype(np.int64)
    children = np.array(nodes)
    return SplitTree(
        feature=rng.integers(0, n_features, n),
        threshold=np.where(mode == Mode.MEMBER, 0.0, rng.integers(0, 6, n)),
        mode=mode,
        yes=children[:, 1],
        no=children[:, 2],
        missing_yes=rng.integers(0, 2, n),
        members=tuple(
            rng.choice(6, rng.integers(1, 6), replace=False).astype(float)
            for _ in range((mode == Mode.MEMBER).sum())
        ),
        values=rng.integers(-99, 99, n_leaves) / 8,
    )


def walked(tree, row):
    sets = dict(zip(np.flatnonzero(tree.mode == Mode.MEMBER), tree.members, strict=True))
    node = 0
    while node >= 0:
        x, threshold = row[tree.feature[node]], tree.threshold[node]
        if np.isnan(x):
            passes = tree.missing_yes[node]
        elif tree.mode[node] == Mode.MEMBER:
            passes = x in sets[node]
        else:
            passes = x < threshold or (x == threshold and tree.mode[node] == Mode.AT_MOST)
        node = (tree.yes if passes else tree.no)[node]
    return tree.values[~node]


@pytest.mark.parametrize("seed", range(15))
def test_trees_walk_as_they_should(seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, 2) for _ in range(rng.integers(1, 12))]
    table = rng.integers(0, 8, (60, 2)).astype(float)
    table[rng.random(table.shape) < 0.15] = np.nan
    model, sums = summed(trees, table)
    np.testing.assert_array_equal(sums, [sum(walked(tree, row) for tree in trees) for row in table])
    # Older runtimes take a root for a leaf whose children, a node and a leaf, have the same number.
    held = tree_attributes(model)
    roots = held["tree_roots"]
    mixed = held["nodes_trueleafs"][roots] != held["nodes_falseleafs"][roots]
    same = held["nodes_truenodeids"][roots] == held["nodes_falsenodeids"][roots]
    assert not (mixed & same).any()


def test_a_root_that_looks_like_a_leaf_is_met():
    """The test above has cases in which the numbers would be the same, or it would show nothing."""
    rng = np.random.default_rng(0)
    met = [looks_like_a_leaf(random_tree(rng, 2), 5, leaf) for leaf in range(4, 8) for _ in range(50)]
    assert any(met)


@pytest.mark.parametrize("seed", range(10))
def test_search_trees_count_boundaries(seed):
    rng = np.random.default_rng(seed)
    lists = [np.unique(rng.normal(size=rng.integers(0, 40)).round(1)) for _ in range(rng.integers(1, 6))]
    scores = np.concatenate([rng.normal(size=50), *lists, *[np.nextafter(held, -np.inf) for held in lists]])
    codes = rng.integers(0, len(lists), scores.size)
    firsts = np.cumsum([0, *(len(held) + 1 for held in lists)])
    expected = [firsts[k] + np.sum(lists[k] <= score) for score, k in zip(scores, codes, strict=True)]
    np.testing.assert_array_equal(
        summed([search_tree(lists)], np.column_stack([scores, codes]).astype(float))[1], expected
    )


def test_probabilities_keep_the_digits_of_their_tails():
    from scipy.special import expit

    from partialfair.onnx.models import Link

    graph = Graph()
    scores = graph.input("s", "double")
    graph.output("p", Link.LOGISTIC.probabilities(graph, scores), "double")
    graph.output("q", Link.LOGISTIC.complements(graph, scores), "double")
    given = np.array([-700.0, -30.0, -1e-9, 0.0, 0.3, 40.0, 800.0])
    outputs = run(graph.model({}, "0", ""), s=given)
    np.testing.assert_allclose(outputs["p"], expit(given), rtol=1e-14)
    np.testing.assert_allclose(outputs["q"], expit(-given), rtol=1e-14)
