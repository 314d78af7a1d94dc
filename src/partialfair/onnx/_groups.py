"""Groups in a graph: one input a column of sensitive features, and positions among known groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partialfair._checks import shown
from partialfair._typing import GroupLabel
from partialfair.exceptions import InputError
from partialfair.onnx._graph import Graph, Kind, Name

__all__ = ["GroupInputs", "group_inputs"]


@dataclass(frozen=True)
class _Column:
    """An input that holds part of the group, or all of it."""

    value: Name
    kind: Kind

    def keys(self, labels: Sequence[Any]) -> list[Any]:
        """Return different labels as the input holds them, in order."""
        if self.kind == "string":
            return sorted(set(labels))
        number = float if self.kind == "double" else int
        return sorted({number(label) for label in labels})

    def positions(self, graph: Graph, keys: Sequence[Any]) -> Name:
        """Return where each row's label is among the keys, and after them if it is not."""
        value = graph.cast(self.value, "int64") if self.kind == "bool" else self.value
        return graph.lookup(value, keys, len(keys))

    def missing(self, graph: Graph) -> Name | None:
        """Tell which rows have no label: an empty text, or NaN; None where that cannot be."""
        if self.kind == "double":
            return graph.op("IsNaN", self.value)
        if self.kind == "string":
            return graph.op("Equal", graph.lookup(self.value, [""], 1), graph.constant(0))
        return None


@dataclass(frozen=True)
class GroupInputs:
    """The inputs that hold the group.

    Attributes
    ----------
    columns
        One, or as many as were crossed.
    """

    columns: tuple[_Column, ...]

    def codes(self, graph: Graph, labels: Sequence[GroupLabel]) -> Name:
        """Return the position of each row's group among the labels; the number of labels for strangers."""
        rows = [_parts(label) for label in labels]
        keys = [column.keys(found) for column, found in zip(self.columns, zip(*rows, strict=True), strict=True)]
        if len(keys) == 1:
            order = [keys[0].index(label) for (label,) in rows]
            known = self.columns[0].positions(graph, keys[0])
            places = np.append(np.argsort(order), len(labels))  # from sorted keys to labels
            return graph.op("Gather", graph.constant(places), known)
        sizes = [len(known) + 1 for known in keys]
        strides = np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int64)
        crossed = [
            sum(known.index(part) * int(stride) for known, part, stride in zip(keys, row, strides, strict=True))
            for row in rows
        ]
        total = graph.constant(0)
        for column, known, stride in zip(self.columns, keys, strides, strict=True):
            place = graph.op("Mul", column.positions(graph, known), graph.constant(stride))
            total = graph.op("Add", total, place)
        return graph.lookup(total, np.array(crossed, dtype=np.int64), len(labels))

    def missing(self, graph: Graph) -> Name | None:
        """Tell which rows lack part of the group; None where that cannot be."""
        flags = [flag for column in self.columns if (flag := column.missing(graph)) is not None]
        if not flags:
            return None
        result = flags[0]
        for flag in flags[1:]:
            result = graph.op("Or", result, flag)
        return result


def group_inputs(
    graph: Graph, labels: Sequence[GroupLabel], names: Sequence[Any], taken: Mapping[str, Kind] | None = None
) -> GroupInputs:
    """Declare the inputs that hold the group.

    Parameters
    ----------
    graph
        Where to.
    labels
        All groups that the graph knows; tuples where columns were crossed.
    names
        Of the columns; ``group``, or ``group_0``, ``group_1`` and so on where there are none.
    taken
        Inputs that the graph has: a column of the same kind is shared, another one is called ``group x``.
    """
    taken = taken or {}
    by_column = list(zip(*map(_parts, labels), strict=True))
    if len(names) != len(by_column):
        names = ["group"] if len(by_column) == 1 else [f"group_{j}" for j in range(len(by_column))]
    columns = []
    for given, found in zip(names, by_column, strict=True):
        kind, name = _kind_of(found), str(given)
        if taken.get(name, kind) != kind:
            name = f"group {name}"
        columns.append(_Column(graph.input(name, kind), kind))
    return GroupInputs(tuple(columns))


def _parts(label: GroupLabel) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _kind_of(labels: Sequence[Any]) -> Kind:
    """Return what an input has to hold for labels like these."""
    kinds: dict[Kind, type | tuple[type, ...]] = {
        "string": str,
        "bool": bool,
        "int64": int,
        "double": (int, float),
    }
    for kind, types in kinds.items():
        if all(isinstance(label, types) for label in labels):
            return kind
    raise InputError(
        f"the groups {', '.join(shown(label) for label in sorted(set(labels), key=str)[:3])} are not all texts, "
        "or all numbers, and an input of ONNX holds one kind of values; name groups by texts"
    )
