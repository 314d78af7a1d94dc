"""Groups in a graph: one input a column of sensitive features, and positions among known groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.onnx._graph import Graph, Kind, Name
from partialfair.utils.checks import shown
from partialfair.utils.text import listed
from partialfair.utils.typing import GroupLabel

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
        keys = [column.keys(held) for column, held in zip(self.columns, zip(*rows, strict=True), strict=True)]
        # Digits of one number: of each column the position among its keys, or the one after them.
        sizes = [len(known) + 1 for known in keys]
        places = [[known.index(part) for known, part in zip(keys, row, strict=True)] for row in rows]
        crossed = np.ravel_multi_index(np.transpose(places), sizes)
        total = graph.constant(0)
        for column, known, size in zip(self.columns, keys, sizes, strict=True):
            total = graph.op("Mul", total, graph.constant(size))
            total = graph.op("Add", total, column.positions(graph, known))
        return graph.lookup(total, crossed, len(labels))

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
    told = listed([shown(label) for label in sorted(set(labels), key=str)], most=3)
    raise InputError(
        f"the groups {told} are neither all texts nor all numbers, and an input of ONNX holds one kind of "
        "values; name groups by texts"
    )
