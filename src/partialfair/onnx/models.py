"""Scores of fitted models as operators: linear models, trees, scaled columns, adjusted scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.onnx.graph import Graph, GroupInputs, Name
from partialfair.onnx.trees import SplitTrees, leaf_sums, search_tree
from partialfair.postprocessing.maps import ScoreMap
from partialfair.utils.typing import Floats, GroupLabel

# The piece of a map that does not change scores; see `_pieces`.
_UNCHANGED = (0.0, 0.0, 1.0, 1.0, -np.inf, np.inf)

# The piece of a map for scores without a result.
_NO_SCORE = (np.nan,) * 6


@dataclass(frozen=True)
class GraphRows:
    """The inputs of a model: a table of features, or a column of scores, and the group if it is needed."""

    table: Name
    groups: GroupInputs | None


Scores: TypeAlias = Callable[[Graph, GraphRows], Name]
"""A function that adds the operators of a model and returns the scores, of shape (n,)."""


def linear_scores(
    graph: Graph, rows: GraphRows, coef: Floats, intercept: Floats, labels: Sequence[GroupLabel] = ()
) -> Name:
    """Return ``X coef + intercept``, or NaN for unknown groups.

    Parameters
    ----------
    graph, rows
        The graph that is extended, and the inputs.
    coef, intercept : (1 or K, d), (1 or K,)
        Coefficients and intercepts, for all groups together or for each group.
    labels
        The K groups, if the model has group terms.
    """
    if rows.groups is None or not labels:
        product = graph.flat(graph.op("MatMul", rows.table, graph.constant(coef[:1].T)))
        return graph.op("Add", product, graph.constant(intercept[0]))
    codes = rows.groups.codes(graph, labels)
    if len(coef) == 1:
        product = graph.flat(graph.op("MatMul", rows.table, graph.constant(coef.T)))
    else:
        # The last row is for unknown groups, whose intercept NaN makes the score NaN.
        of_group = graph.op("Gather", graph.constant(np.vstack([coef, np.zeros(coef.shape[1])])), codes)
        product = graph.op(
            "ReduceSum", graph.op("Mul", rows.table, of_group), graph.constant([1]), keepdims=0
        )
    intercepts = graph.constant(np.append(intercept, np.nan))
    return graph.op("Add", product, graph.op("Gather", intercepts, codes))


def tree_scores(
    graph: Graph, rows: GraphRows, splits: SplitTrees, factor: float, shift: float, *, refuses_missing: bool
) -> Name:
    """Return ``factor · (the library's score) − shift``, equal to the last bit.

    If the library does not support missing values, rows with missing values have the score NaN.
    """
    result = splits.sums(graph, rows.table)
    if factor != 1.0:
        result = graph.op("Mul", graph.constant(factor), result)
    if shift:
        result = graph.op("Sub", result, graph.constant(shift))
    if refuses_missing:
        holes = graph.some(graph.op("IsNaN", rows.table))
        result = graph.op("Where", holes, graph.constant(np.nan), result)
    return result


def scaled_scores(graph: Graph, rows: GraphRows, inner: Scores, steps: Sequence[tuple[str, Floats]]) -> Name:
    """Return another model's scores of scaled columns, or of columns with imputed missing values.

    Parameters
    ----------
    graph, rows, inner
        The graph that is extended, the inputs, and the model.
    steps
        Operations on the columns, in this order: an operator of ONNX with a number for each column, or
        ``"fill"`` with the values that replace NaN.
    """
    table = rows.table
    for operator, numbers in steps:
        constant = graph.constant(numbers[None])
        if operator == "fill":
            table = graph.op("Where", graph.op("IsNaN", table), constant, table)
        else:
            table = graph.op(operator, table, constant)
    return inner(graph, GraphRows(table, rows.groups))


class Link(Enum):
    """The function from scores to probabilities of the second class."""

    LOGISTIC = "1 / (1 + exp(-s))"
    HALVED = "(1 + s) / 2"
    NONE = "s"

    def probabilities(self, graph: Graph, scores: Name) -> Name:
        """Return the probabilities of the second class."""
        if self is Link.LOGISTIC:
            return _logistic(graph, graph.op("Neg", scores))
        if self is Link.HALVED:
            return graph.op("Div", graph.op("Add", graph.constant(1.0), scores), graph.constant(2.0))
        return scores

    def complements(self, graph: Graph, scores: Name) -> Name:
        """Return the probabilities of the first class."""
        if self is Link.LOGISTIC:
            return _logistic(graph, scores)
        return graph.op("Sub", graph.constant(1.0), self.probabilities(graph, scores))


def _logistic(graph: Graph, negated: Name) -> Name:
    """Return ``1 / (1 + exp(−s))`` of −s; the operator Sigmoid is imprecise in its tails."""
    return graph.op("Reciprocal", graph.op("Add", graph.constant(1.0), graph.op("Exp", negated)))


def adjusted_scores(
    graph: Graph,
    rows: GraphRows,
    inner: Scores,
    maps: Sequence[ScoreMap],
    bounds: tuple[float, float] | None,
    *,
    missing_unchanged: bool,
) -> Name:
    """Return another model's scores, adjusted by the map of each group; NaN for a group without a map.

    A map consists of pieces, ``min(max(to + (s − from) / width · rise, low), high)``. A search tree finds the
    piece of each row by its group and its score.

    Parameters
    ----------
    graph, rows, inner
        The graph that is extended, the inputs, and the model.
    maps
        One map for each group.
    bounds
        The range of scores that have a result.
    missing_unchanged
        Whether rows without a group keep their scores.
    """
    assert rows.groups is not None  # an adjuster has groups
    given = inner(graph, rows)
    codes = rows.groups.codes(graph, [one.group for one in maps])
    pieces = [_pieces(one, bounds) for one in maps]
    pieces.append((np.empty(0), np.array([_NO_SCORE])))  # for unknown groups
    missing = rows.groups.missing(graph) if missing_unchanged else None
    if missing is not None:
        codes = graph.op("Where", missing, graph.constant(len(pieces)), codes)
        pieces.append((np.empty(0), np.array([_UNCHANGED])))
    key = graph.op("Concat", graph.column(given), graph.column(graph.cast(codes, "double")), axis=1)
    piece = graph.cast(leaf_sums(graph, key, [search_tree([starts for starts, _ in pieces])]), "int64")
    table = np.concatenate([numbers for _, numbers in pieces])
    start, to, width, rise, low, high = (
        graph.op("Gather", graph.constant(column), piece) for column in table.T
    )
    fraction = graph.op("Div", graph.op("Sub", given, start), width)
    moved = graph.op("Add", to, graph.op("Mul", fraction, rise))
    moved = graph.op("Where", graph.op("Less", moved, low), low, moved)
    return graph.op("Where", graph.op("Greater", moved, high), high, moved)


def _pieces(one: ScoreMap, bounds: tuple[float, float] | None) -> tuple[Floats, npt.NDArray[np.float64]]:
    """Return the starts of all pieces but the first, and ``(from, to, width, rise, low, high)`` of all.

    The arithmetic is the same as in `ScoreMap.__call__`, so that adjusted scores are equal to the last bit.
    """
    knots, values = one.knots, one.values
    if knots.size == 1:  # a shift, which is exact at the knot itself
        shifted = (0.0, float(values[0] - knots[0]), 1.0, 1.0, -np.inf, np.inf)
        hit = (float(knots[0]), float(values[0]), 1.0, 0.0, -np.inf, np.inf)
        starts = np.array([knots[0], np.nextafter(knots[0], np.inf)])
        table = np.array([shifted, hit, shifted])
    else:
        # Linear between two knots, unchanged if neither moves, and shifts beyond the ends.
        below, above = values[:-1], values[1:]
        inner = np.column_stack([knots[:-1], below, np.diff(knots), above - below, below, above])
        inner[(below == knots[:-1]) & (above == knots[1:])] = _UNCHANGED
        ends = [(knots[place], values[place], 1.0, 1.0, -np.inf, np.inf) for place in (0, -1)]
        starts, table = knots, np.vstack([ends[:1], inner, ends[1:]])
    if bounds is None:
        return starts, table
    low, high = bounds[0], np.nextafter(bounds[1], np.inf)
    # Pieces within the bounds are kept, between two pieces without a score.
    inside = (starts > low) & (starts < high)
    first = int(np.searchsorted(starts, low, side="right"))
    within = table[first : first + int(inside.sum()) + 1]
    return np.concatenate([[low], starts[inside], [high]]), np.vstack([_NO_SCORE, within, _NO_SCORE])
