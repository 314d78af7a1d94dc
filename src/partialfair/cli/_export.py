"""``partialfair export``: a saved model as ONNX, with what it takes and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partialfair.cli._predict import refuse_unkept
from partialfair.cli.output import step
from partialfair.exceptions import InputError
from partialfair.persistence import load_model
from partialfair.utils.extras import require
from partialfair.utils.files import check_targets

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

__all__ = ["Export", "check_target", "export"]


@dataclass(frozen=True, eq=False)
class Export:
    """A model that was exported."""

    model_path: Path
    out: Path
    proto: ModelProto

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """Names of the inputs, and what they hold."""
        return [(value.name, _type_of(value)) for value in self.proto.graph.input]

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Names of the outputs, and what they hold."""
        return [(value.name, _type_of(value)) for value in self.proto.graph.output]

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to."""
        return {
            "schema": "partialfair.export/1",
            "model": str(self.model_path),
            "out": str(self.out),
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "metadata": {entry.key: entry.value for entry in self.proto.metadata_props},
        }


def check_target(out: Path, inputs: Sequence[Path]) -> None:
    """Refuse, before any work, a file that cannot be written, or that is one of the inputs."""
    require("onnx", extra="onnx", purpose="export to ONNX")
    if out.is_dir():
        raise InputError(f"{out} is a directory; name a file, {out / 'model.onnx'} say")
    if out.suffix.lower() != ".onnx":
        raise InputError(f"{out} must end in .onnx")
    if not out.resolve().parent.is_dir():
        raise InputError(f"{out} is in a directory that does not exist")
    check_targets([out], inputs)


def export(model_path: Path, out: Path, *, use_unkept: bool) -> Export:
    """Write a saved model as ONNX; one that breaks its promise only if that is wanted."""
    from partialfair.onnx import to_onnx

    with step(f"loading {model_path}"):
        model = load_model(model_path)
    if not use_unkept:
        refuse_unkept(model, model_path, "exports it")
    with step(f"exporting {model_path}"):
        return Export(model_path, out, to_onnx(model, out))


def _type_of(value: ValueInfoProto) -> str:
    """Return what a value holds, as people write it: ``double (n, 8)``."""
    from onnx import TensorProto

    held = value.type.tensor_type
    sizes = ", ".join(size.dim_param or str(size.dim_value) for size in held.shape.dim)
    return f"{TensorProto.DataType.Name(held.elem_type).lower()} ({sizes})"
