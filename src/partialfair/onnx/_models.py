"""Scores of fitted models as graphs: linear models, trees, adjusters, and what stands in front."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from partialfair.onnx._graph import Graph, Name
from partialfair.onnx._groups import GroupInputs
from partialfair.onnx._trees import leaf_sums, search_tree
from partialfair.onnx.splits import SplitTrees
from partialfair.postprocessing import ScoreMap
from partialfair.utils.typing import Floats, GroupLabel

__all__ = [
    "AdjustedScores",
    "GraphRows",
    "Linear",
    "Link",
    "Probabilities",
    "Scaled",
    "Scores",
    "Trees",
    "Unadjusted",
]

_AS_IT_IS = (0.0, 0.0, 1.0, 1.0, -np.inf, np.inf)
"""The piece of a map that leaves scores as they are; see `_pieces`."""

_NO_SCORE = (np.nan,) * 6
"""The piece of a map for scores that have no answer."""


@dataclass(frozen=True)
class GraphRows:
    """The inputs of a model: a table of features, or a column of scores, and the group if it is needed."""

    table: Name
    groups: GroupInputs | None


class Scores(Protocol):
    """A model as operators.

    Attributes
    ----------
    n_features
        Columns of the table that it takes; None where it takes a column of scores.
    group_labels
        Groups that it tells apart; none where it needs no group.
    categories
        From the position of a column that holds codes to what they stand for, where that is known.
    """

    @property
    def n_features(self) -> int | None: ...

    @property
    def group_labels(self) -> tuple[GroupLabel, ...]: ...

    @property
    def categories(self) -> Mapping[int, tuple[Any, ...] | None]: ...

    def scores(self, graph: Graph, rows: GraphRows) -> Name:
        """Return the score of each row, of shape (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class Linear:
    """``X coef + intercept``, both of the row's group where there are several.

    Attributes
    ----------
    coef, intercept : (1 or K, d), (1 or K,)
        Of all groups alike, or of each.
    group_labels
        The K groups, where the model has group terms.
    """

    coef: Floats
    intercept: Floats
    group_labels: tuple[GroupLabel, ...] = ()
    categories: Mapping[int, tuple[Any, ...] | None] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Columns of the table."""
        return int(self.coef.shape[1])

    def scores(self, graph: Graph, rows: GraphRows) -> Name:
        """Return the scores; NaN for a group that the model does not know."""
        if rows.groups is None or not self.group_labels:
            product = graph.flat(graph.op("MatMul", rows.table, graph.constant(self.coef[:1].T)))
            return graph.op("Add", product, graph.constant(self.intercept[0]))
        codes = rows.groups.codes(graph, self.group_labels)
        if len(self.coef) == 1:
            product = graph.flat(graph.op("MatMul", rows.table, graph.constant(self.coef.T)))
        else:
            own = graph.op("Gather", graph.constant(np.vstack([self.coef, np.zeros(self.n_features)])), codes)
            product = graph.op("ReduceSum", graph.op("Mul", rows.table, own), graph.constant([1]), keepdims=0)
        intercepts = graph.constant(np.append(self.intercept, np.nan))  # the last is that of strangers
        return graph.op("Add", product, graph.op("Gather", intercepts, codes))


@dataclass(frozen=True, eq=False)
class Trees:
    """``factor · (what the library computes) − shift``.

    Attributes
    ----------
    splits
        The trees.
    factor, shift
        Between the library's scale and that of scores.
    refuses_missing
        Whether the library refuses rows with missing values, which then have no score.
    """

    splits: SplitTrees
    factor: float = 1.0
    shift: float = 0.0
    refuses_missing: bool = False
    group_labels: tuple[GroupLabel, ...] = ()

    @property
    def n_features(self) -> int:
        """Columns of the table."""
        return self.splits.n_features

    @property
    def categories(self) -> Mapping[int, tuple[Any, ...] | None]:
        """What the codes of categories stand for."""
        return self.splits.categories

    def scores(self, graph: Graph, rows: GraphRows) -> Name:
        """Return the scores, to the last bit those of the library's own model."""
        result = self.splits.sums(graph, rows.table)
        if self.factor != 1.0:
            result = graph.op("Mul", graph.constant(self.factor), result)
        if self.shift:
            result = graph.op("Sub", result, graph.constant(self.shift))
        if self.refuses_missing:
            holes = graph.some(graph.op("IsNaN", rows.table))
            result = graph.op("Where", holes, graph.constant(np.nan), result)
        return result


@dataclass(frozen=True, eq=False)
class _Around:
    """A model made of another one."""

    inner: Scores

    @property
    def n_features(self) -> int | None:
        """Columns of the table."""
        return self.inner.n_features

    @property
    def group_labels(self) -> tuple[GroupLabel, ...]:
        """Groups that the inner model tells apart."""
        return self.inner.group_labels

    @property
    def categories(self) -> Mapping[int, tuple[Any, ...] | None]:
        """What the codes of categories stand for."""
        return self.inner.categories


class Link(Enum):
    """How scores become probabilities of the second class."""

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


@dataclass(frozen=True, eq=False)
class Probabilities(_Around):
    """The probabilities of the second class that another model's scores stand for."""

    link: Link

    def scores(self, graph: Graph, rows: GraphRows) -> Name:
        """Return the probabilities."""
        return self.link.probabilities(graph, self.inner.scores(graph, rows))


@dataclass(frozen=True, eq=False)
class Scaled(_Around):
    """Another model of columns that are scaled, or whose missing values are filled.

    Attributes
    ----------
    inner
        The model.
    steps
        What is done to the columns, one after the other: an operator of ONNX with a number for each column,
        or ``"fill"`` with what takes the place of NaN.
    """

    steps: tuple[tuple[str, Floats], ...]

    def scores(self, graph: Graph, rows: GraphRows) -> Name:
        """Return the model's scores of the changed table."""
        table = rows.table
        for operator, numbers in self.steps:
            constant = graph.constant(numbers[None])
            if operator == "fill":
                table = graph.op("Where", graph.op("IsNaN", table), constant, table)
            else:
                table = graph.op(operator, table, constant)
        return self.inner.scores(graph, GraphRows(table, rows.groups))


@dataclass(frozen=True)
class Unadjusted:
    """Scores as they are given."""

    n_features: None = None
    group_labels: tuple[GroupLabel, ...] = ()
    categories: Mapping[int, tuple[Any, ...] | None] = field(default_factory=dict)

    def scores(self, graph: Graph, rows: GraphRows) -> Name:
        """Return the input."""
        return rows.table


@dataclass(frozen=True, eq=False)
class AdjustedScores(_Around):
    """Another model's scores, moved by the map of each group.

    Attributes
    ----------
    inner
        The model.
    maps
        One for each group.
    bounds
        Beyond these scores have no answer.
    keep_missing
        Whether rows without a group keep their scores.
    """

    maps: tuple[ScoreMap, ...]
    bounds: tuple[float, float] | None
    keep_missing: bool

    @property
    def group_labels(self) -> tuple[GroupLabel, ...]:
        """The groups of the maps, and those that the model tells apart."""
        return (*(one.group for one in self.maps), *self.inner.group_labels)

    def scores(self, graph: Graph, rows: GraphRows) -> Name:
        """Return the new scores; NaN for a group without a map.

        A map is made of pieces, ``min(max(to + (s − from) / width · rise, low), high)``. A search tree finds
        the piece of each row by its group and its score.
        """
        assert rows.groups is not None  # an adjuster has groups
        given = self.inner.scores(graph, rows)
        codes = rows.groups.codes(graph, [one.group for one in self.maps])
        pieces = [_pieces(one, self.bounds) for one in self.maps]
        pieces.append((np.empty(0), np.array([_NO_SCORE])))  # of strangers
        missing = rows.groups.missing(graph) if self.keep_missing else None
        if missing is not None:
            codes = graph.op("Where", missing, graph.constant(len(pieces)), codes)
            pieces.append((np.empty(0), np.array([_AS_IT_IS])))
        key = graph.op("Concat", graph.column(given), graph.column(graph.cast(codes, "double")), axis=1)
        found = leaf_sums(graph, key, [search_tree([starts for starts, _ in pieces])])
        place = graph.cast(found, "int64")
        table = np.concatenate([rows_of for _, rows_of in pieces])
        start, to, width, rise, low, high = (
            graph.op("Gather", graph.constant(column), place) for column in table.T
        )
        share = graph.op("Div", graph.op("Sub", given, start), width)
        moved = graph.op("Add", to, graph.op("Mul", share, rise))
        moved = graph.op("Where", graph.op("Less", moved, low), low, moved)
        return graph.op("Where", graph.op("Greater", moved, high), high, moved)


def _logistic(graph: Graph, negated: Name) -> Name:
    """Return ``1 / (1 + exp(−s))`` of −s; the operator Sigmoid loses the digits of its tails."""
    return graph.op("Reciprocal", graph.op("Add", graph.constant(1.0), graph.op("Exp", negated)))


def _pieces(one: ScoreMap, bounds: tuple[float, float] | None) -> tuple[Floats, npt.NDArray[np.float64]]:
    """Return where the pieces of a map begin, but for the first, and ``(from, to, width, rise, low, high)``.

    The arithmetic is that of `ScoreMap.__call__`, so that new scores are the same to the last bit.
    """
    knots, values = one.knots, one.values
    if knots.size == 1:
        shifted = (0.0, float(values[0] - knots[0]), 1.0, 1.0, -np.inf, np.inf)
        hit = (float(knots[0]), float(values[0]), 1.0, 0.0, -np.inf, np.inf)
        starts = np.array([knots[0], np.nextafter(knots[0], np.inf)])
        table = np.array([shifted, hit, shifted])
    else:
        below, above = values[:-1], values[1:]
        inner = np.column_stack([knots[:-1], below, np.diff(knots), above - below, below, above])
        inner[(below == knots[:-1]) & (above == knots[1:])] = _AS_IT_IS
        ends = [(knots[place], values[place], 1.0, 1.0, -np.inf, np.inf) for place in (0, -1)]
        starts, table = knots, np.vstack([ends[:1], inner, ends[1:]])
    if bounds is None:
        return starts, table
    low, high = bounds[0], np.nextafter(bounds[1], np.inf)
    inside = (starts > low) & (starts < high)
    first = int(np.searchsorted(starts, low, side="right"))
    kept = table[first : first + int(inside.sum()) + 1]
    return np.concatenate([[low], starts[inside], [high]]), np.vstack([_NO_SCORE, kept, _NO_SCORE])
