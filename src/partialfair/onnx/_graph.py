"""A graph of ONNX operators as it grows: constants, operators, inputs and outputs, all with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.utils.extras import require
from partialfair.utils.typing import Ints

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["Graph", "Kind", "Name"]

Name: TypeAlias = str
"""Of a value in a graph."""

Kind: TypeAlias = Literal["double", "int64", "bool", "string"]
"""What a value holds."""

_ML = "ai.onnx.ml"
_OPSETS = {"": 18, _ML: 5}
"""Versions of the operators: 5 of ai.onnx.ml is the first whose trees take and return doubles."""

_IR_VERSION = 9
"""Of the file format. Newer ones have nothing that is needed here, and older runtimes refuse them."""

_OURS = "partialfair/"
"""What names of inner values begin with, so that inputs may be called as columns are."""


class Graph:
    """Operators in the order in which they run."""

    def __init__(self) -> None:
        self._onnx = require("onnx", extra="onnx", purpose="export to ONNX")
        self._helper = require("onnx.helper", extra="onnx", purpose="export to ONNX")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: dict[Name, Any] = {}
        self._outputs: dict[Name, Any] = {}

    def input(self, name: Name, kind: Kind, n_columns: int | None = None) -> Name:
        """Declare an input: a column, or a table with so many columns."""
        if name not in self._inputs:
            self._inputs[name] = self._described(name, kind, n_columns)
        return name

    def output(self, name: Name, value: Name, kind: Kind, n_columns: int | None = None) -> None:
        """Return a value to whoever runs the graph, under a name."""
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs[name] = self._described(name, kind, n_columns)

    def constant(self, values: npt.ArrayLike) -> Name:
        """Add numbers, or texts, that never change."""
        array, name = np.asarray(values), f"{_OURS}constant {len(self._constants)}"
        if array.dtype.kind in "OU":
            texts = [str(text).encode() for text in array.ravel()]
            tensor = self._helper.make_tensor(name, self._onnx.TensorProto.STRING, array.shape, texts)
        else:
            tensor = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        self._constants.append(tensor)
        return name

    def op(self, operator: str, *inputs: Name, **attributes: Any) -> Name:
        """Add an operator of ONNX, and return its only output."""
        return self._added(operator, inputs, "", attributes)

    def ml(self, operator: str, *inputs: Name, **attributes: Any) -> Name:
        """Add an operator of ONNX for classical machine learning."""
        return self._added(operator, inputs, _ML, attributes)

    def tensor(self, values: npt.ArrayLike) -> Any:
        """Return numbers as an attribute of an operator holds them."""
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
        """Tell, row by row, whether a table of booleans has a true one."""
        counted = self.op("ReduceSum", self.cast(flags, "double"), self.constant([1]), keepdims=0)
        return self.op("Greater", counted, self.constant(0.0))

    def lookup(self, value: Name, keys: Sequence[Any] | Ints, default: int) -> Name:
        """Return the position of each entry among the keys, which are of its kind; a default elsewhere."""
        places = np.arange(len(keys))
        if isinstance(keys[0], str):
            texts = [str(key) for key in keys]
            return self.ml(
                "LabelEncoder",
                value,
                keys_strings=texts,
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

    def _added(
        self, operator: str, inputs: tuple[Name, ...], domain: str, attributes: dict[str, Any]
    ) -> Name:
        name = f"{_OURS}{operator} {len(self._nodes)}"
        node = self._helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def _described(self, name: Name, kind: Kind, n_columns: int | None) -> Any:
        shape = ["n"] if n_columns is None else ["n", n_columns]
        return self._helper.make_tensor_value_info(name, getattr(self._onnx.TensorProto, kind.upper()), shape)
