"""Graphs of ONNX operators with inputs, constants and outputs, and the inputs for the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.utils.checks import shown
from partialfair.utils.extras import require
from partialfair.utils.text import listed
from partialfair.utils.typing import GroupLabel, Ints

if TYPE_CHECKING:
    from onnx import ModelProto

Name: TypeAlias = str
"""The name of a value in a graph."""

Kind: TypeAlias = Literal["double", "int64", "bool", "string"]
"""The type of a value."""

_ML = "ai.onnx.ml"
# Versions of the operators: version 5 of ai.onnx.ml is the first with trees in double precision.
_OPSETS = {"": 18, _ML: 5}

# Version of the file format: newer ones are not needed, and older runtimes do not support them.
_IR_VERSION = 9

# The prefix of inner values, so that inputs may have the names of columns.
_OURS = "partialfair/"


class Graph:
    """A list of operators in execution order."""

    def __init__(self) -> None:
        self._onnx = require("onnx", extra="onnx", purpose="export to ONNX")
        self._helper = require("onnx.helper", extra="onnx", purpose="export to ONNX")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: dict[Name, Any] = {}
        self._outputs: dict[Name, Any] = {}

    def input(self, name: Name, kind: Kind, n_columns: int | None = None) -> Name:
        """Declare an input: a column, or a table with this number of columns."""
        if name not in self._inputs:  # a feature may also be the group
            self._inputs[name] = self._value_info(name, kind, n_columns)
        return name

    def output(self, name: Name, value: Name, kind: Kind, n_columns: int | None = None) -> None:
        """Declare an output with a name."""
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs[name] = self._value_info(name, kind, n_columns)

    def constant(self, values: npt.ArrayLike) -> Name:
        """Add a constant of numbers or texts."""
        array, name = np.asarray(values), f"{_OURS}constant {len(self._constants)}"
        if array.dtype.kind in "OU":
            texts = [str(text).encode() for text in array.ravel()]
            tensor = self._helper.make_tensor(name, self._onnx.TensorProto.STRING, array.shape, texts)
        else:
            tensor = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        self._constants.append(tensor)
        return name

    def op(self, operator: str, *inputs: Name, domain: str = "", **attributes: Any) -> Name:
        """Add an operator of ONNX, and return its only output."""
        name = f"{_OURS}{operator} {len(self._nodes)}"
        node = self._helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def ml(self, operator: str, *inputs: Name, **attributes: Any) -> Name:
        """Add an operator of ONNX for classical machine learning."""
        return self.op(operator, *inputs, domain=_ML, **attributes)

    def tensor(self, values: npt.ArrayLike) -> Any:
        """Return numbers as an attribute of an operator."""
        return self._onnx.numpy_helper.from_array(np.asarray(values))

    def cast(self, value: Name, kind: Kind | Literal["float"]) -> Name:
        """Convert a value."""
        return self.op("Cast", value, to=getattr(self._onnx.TensorProto, kind.upper()))

    def column(self, value: Name) -> Name:
        """Make a column, of shape (n,), a table of one column."""
        return self.op("Unsqueeze", value, self.constant([1]))

    def flat(self, value: Name) -> Name:
        """Make a table of one column a column, of shape (n,)."""
        return self.op("Squeeze", value, self.constant([1]))

    def some(self, flags: Name) -> Name:
        """Return for each row of a table of booleans whether any is true."""
        counted = self.op("ReduceSum", self.cast(flags, "double"), self.constant([1]), keepdims=0)
        return self.op("Greater", counted, self.constant(0.0))

    def lookup(self, value: Name, keys: Sequence[Any] | Ints, default: int) -> Name:
        """Return the position of each entry among the keys, or a default for unknown entries."""
        places = np.arange(len(keys))
        if isinstance(keys[0], str):
            return self.ml(
                "LabelEncoder",
                value,
                keys_strings=[str(key) for key in keys],
                values_int64s=places.tolist(),
                default_int64=default,
            )
        return self.ml(
            "LabelEncoder",
            value,
            keys_tensor=self.tensor(keys),
            values_tensor=self.tensor(places),
            default_tensor=self.tensor([default]),
        )

    def model(self, metadata: Mapping[str, str], version: str, doc: str) -> ModelProto:
        """Return the whole graph as a model, checked."""
        # Each node comes after its inputs, because nodes are in the order in which they were added.
        graph = self._helper.make_graph(
            self._nodes, "partialfair", [*self._inputs.values()], [*self._outputs.values()], self._constants
        )
        opsets = [self._helper.make_opsetid(domain, number) for domain, number in _OPSETS.items()]
        made_by = {"producer_name": "partialfair", "producer_version": version, "doc_string": doc}
        model: ModelProto = self._helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, **made_by
        )
        self._helper.set_model_props(model, dict(metadata))
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _value_info(self, name: Name, kind: Kind, n_columns: int | None) -> Any:
        shape = ["n"] if n_columns is None else ["n", n_columns]
        return self._helper.make_tensor_value_info(name, getattr(self._onnx.TensorProto, kind.upper()), shape)


@dataclass(frozen=True)
class _GroupColumn:
    """An input that contains the group, or one column of an intersectional group."""

    value: Name
    kind: Kind

    def keys(self, labels: Sequence[Any]) -> list[Any]:
        """Return the distinct labels of this input, in order."""
        if self.kind == "string":
            return sorted(set(labels))
        number = float if self.kind == "double" else int
        return sorted({number(label) for label in labels})

    def missing(self, graph: Graph) -> Name | None:
        """Return which rows have no label (an empty text or NaN); None if all types of values are labels."""
        if self.kind == "double":
            return graph.op("IsNaN", self.value)
        if self.kind == "string":
            return graph.op("Equal", graph.lookup(self.value, [""], 1), graph.constant(0))
        return None


@dataclass(frozen=True)
class GroupInputs:
    """The inputs that contain the group.

    Attributes
    ----------
    columns
        One column, or several for intersectional groups.
    """

    columns: tuple[_GroupColumn, ...]

    @classmethod
    def declare(
        cls,
        graph: Graph,
        labels: Sequence[GroupLabel],
        names: Sequence[Any],
        present: Mapping[str, Kind],
    ) -> GroupInputs:
        """Declare the inputs that contain the group.

        Parameters
        ----------
        graph
            The graph that is extended.
        labels
            All known groups; tuples for intersectional groups.
        names
            Names of the columns; without names ``group``, or ``group_0``, ``group_1`` and so on.
        present
            Inputs that exist already: a column of the same type is shared, others are called ``group x``.
        """
        by_column = list(zip(*map(_parts, labels), strict=True))
        if len(names) != len(by_column):
            names = ["group"] if len(by_column) == 1 else [f"group_{j}" for j in range(len(by_column))]
        columns = []
        for name, parts in zip(map(str, names), by_column, strict=True):
            kind = _kind_of(parts)
            if present.get(name, kind) != kind:
                name = f"group {name}"
            columns.append(_GroupColumn(graph.input(name, kind), kind))
        return cls(tuple(columns))

    def codes(self, graph: Graph, labels: Sequence[GroupLabel]) -> Name:
        """Return the position of each row's group among the labels, or their number for unknown groups."""
        rows = [_parts(label) for label in labels]
        keys = [column.keys(held) for column, held in zip(self.columns, zip(*rows, strict=True), strict=True)]
        # The positions of the columns (or the number of keys, if unknown) are the digits of one number.
        sizes = [len(known) + 1 for known in keys]
        places = [[known.index(part) for known, part in zip(keys, row, strict=True)] for row in rows]
        crossed = np.ravel_multi_index(np.transpose(places), sizes)
        total = graph.constant(0)
        for column, known, size in zip(self.columns, keys, sizes, strict=True):
            total = graph.op("Mul", total, graph.constant(size))
            value = graph.cast(column.value, "int64") if column.kind == "bool" else column.value
            total = graph.op("Add", total, graph.lookup(value, known, len(known)))
        return graph.lookup(total, crossed, len(labels))

    def missing(self, graph: Graph) -> Name | None:
        """Return which rows have a missing group; None if groups cannot be missing."""
        flags = [flag for column in self.columns if (flag := column.missing(graph)) is not None]
        if not flags:
            return None
        result = flags[0]
        for flag in flags[1:]:
            result = graph.op("Or", result, flag)
        return result


def _parts(label: GroupLabel) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _kind_of(labels: Sequence[Any]) -> Kind:
    """Return the type of an input for these labels."""
    # The order matters: booleans are integers in Python, and integers may be doubles.
    kinds: dict[Kind, type | tuple[type, ...]] = {
        "string": str,
        "bool": bool,
        "int64": int,
        "double": (int, float),
    }
    for kind, types in kinds.items():
        if all(isinstance(label, types) for label in labels):
            return kind
    examples = listed([shown(label) for label in sorted(set(labels), key=str)], most=3)
    raise InputError(
        f"the groups {examples} are neither all texts nor all numbers, and an input of ONNX holds one kind "
        "of values; name groups by texts"
    )
