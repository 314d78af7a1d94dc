"""``partialfair predict`` and ``export``: a saved model scores the rows of a table, or becomes ONNX."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from partialfair.cli.columns import read_table
from partialfair.cli.output import csv_text, step
from partialfair.cli.settings import ExportSettings, PredictSettings
from partialfair.exceptions import InputError
from partialfair.persistence import load_model
from partialfair.tables import TableModel
from partialfair.utils.extras import require
from partialfair.utils.files import check_set, check_targets, is_file_name, write_file

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

_RECORDS = ("train.json", "path.json")
_ADDED = ("score", "probability", "decision")

_WHOLE = re.compile(r"0|-?[1-9]\d{0,18}")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?\d{1,2})?")


@dataclass(frozen=True, eq=False)
class Prediction:
    """A table with scores, whether its other cells are text as in CSV files, and notes."""

    model_path: Path
    path: Path
    model: TableModel
    table: pd.DataFrame
    is_text: bool
    notes: tuple[str, ...]

    @property
    def selected(self) -> int:
        """Number of rows that are classified as positive."""
        return int((self.table["score"] > self.model.classifier.decision_threshold_).sum())

    def record(self, out: Path) -> dict[str, Any]:
        """Return plain data for JSON; an incompatible change increases the number of the schema."""
        return {
            "schema": "partialfair.predict/1",
            "model": str(self.model_path),
            "file": str(self.path),
            "out": str(out),
            "target": self.model.target,
            "pos_label": self.model.labels[1],
            "rows": len(self.table),
            "selected": self.selected,
            "columns": [str(name) for name in self.table.columns],
            "notes": list(self.notes),
        }


def find_model(path: Path) -> list[Path]:
    """Return the file of a model, and other files that must not be overwritten.

    In a directory of ``train`` or ``path``, the record names the model and the other files of the run.
    """
    if not path.is_dir():
        return [path]
    # The JSON report contains the name of the model and the digests of the files.
    names = [name for name in _RECORDS if (path / name).is_file()]
    if not names:
        raise InputError(f"{path} is a directory with neither {' nor '.join(_RECORDS)}; name a model file")
    if len(names) > 1:
        raise InputError(f"{path} holds {' and '.join(names)}, of two commands; name the model file")
    record_path = path / names[0]
    # Raises an error if a file is missing or belongs to another run.
    record = check_set(path, names[0])
    model = record.get("model")
    if model is None:
        reason = record.get("no_model_reason")
        what = f"none qualified ({reason})" if isinstance(reason, str) else "it was run without --best"
        raise InputError(
            f"{record_path} names no model: partialfair path saved none, because {what}; run it again with a "
            "larger --best, or partialfair train with one --max-gap"
        )
    if not is_file_name(model):
        raise InputError(f"{record_path} is damaged: its model is not a file of the same directory")
    # No file of the run may be overwritten.
    members = [path / name for name in record.get("files", {}) if name != model]
    return [path / model, record_path, *members]


def check_target(out: Path, inputs: Sequence[Path], suffixes: Sequence[str], flag: str = "") -> None:
    """Raise an error, before any work, if a file cannot be written or is one of the inputs."""
    if out.is_dir():
        example = {".csv": "scores.csv", ".onnx": "model.onnx"}[suffixes[0]]
        raise InputError(f"{flag}{out} is a directory; name a file, such as {out / example}")
    if out.suffix.lower() not in suffixes:
        raise InputError(f"{flag}{out} must end in {' or '.join(suffixes)}")
    if out.suffix.lower() == ".parquet":
        require("pyarrow", extra="cli", purpose="writing Parquet files")
    if not out.resolve().parent.is_dir():
        raise InputError(f"{flag}{out} is in a directory that does not exist")
    check_targets([out], inputs)


def predict(settings: PredictSettings) -> Prediction:
    """Score the rows of a table; an infeasible model raises an error without ``--allow-infeasible``."""
    path = settings.file
    model_path, *others = find_model(settings.model)
    if settings.out is not None:
        check_target(settings.out, [model_path, *others, path], (".csv", ".parquet"), "--out ")
    with step(f"loading {model_path}"):
        model = load_model(model_path)
    if not isinstance(model, TableModel):
        raise InputError(
            f"{model_path} holds a {type(model).__name__}, which needs features and cannot read tables; "
            "predict needs a model of partialfair train or path; use others from Python, with load_model"
        )
    if not settings.allow_infeasible:
        refuse_infeasible(model, model_path, "scores with it")
    with step(f"reading {path}"):
        table, is_text = read_table(path, model.needed)
    present = list(table.columns)
    # Without --keep only ids, groups and target are kept.
    identifying = {*model.ids, *(group.name for group in model.groups), model.target}
    columns = present if settings.keep else [name for name in present if name in identifying]
    taken = [name for name in _ADDED if name in columns]
    if taken:
        raise InputError(f"{path} has a column {taken[0]!r}, which predict would write; rename it")
    with step(f"scoring {len(table):,} rows"):
        scores = model.decision_function(table)
        # Decisions are labels as in the training table.
        added = {
            "score": scores,
            "probability": model.predict_proba(table)[:, 1],
            "decision": model.decide(scores),
        }
    # Notes on levels that training did not contain.
    notes = tuple(model.unseen_levels(table))
    return Prediction(model_path, path, model, table[columns].assign(**added), is_text, notes)


def refuse_infeasible(model: Any, path: Path, then: str) -> None:
    """Raise an error for a model that violates its constraint, whatever the name of its file."""
    is_table_model = isinstance(model, TableModel)
    result: Any = getattr(model.classifier if is_table_model else model, "result_", None)
    satisfied = model.satisfied if is_table_model else None
    if satisfied is None:
        satisfied = getattr(result, "satisfied", None)
    if satisfied is False:
        allowed = ", ".join(f"{constraint.max_gap:g}" for constraint in result.constraints)
        reason = f"its training gap is {result.gap:.3g}, limit {allowed}"
        if result.population is not None:
            reason = result.population.sentence
        raise InputError(f"{path} is an infeasible model: {reason}; --allow-infeasible {then} nevertheless")


def write(scored: Prediction, out: Path) -> None:
    """Write the scores as CSV or Parquet; floats are written with all their digits."""
    content = io.BytesIO()
    if out.suffix.lower() == ".parquet":
        _infer_types(scored).to_parquet(content, index=False)
    else:
        content.write(csv_text(scored.table).encode())
    write_file(out, content.getvalue())


def _infer_types(scored: Prediction) -> pd.DataFrame:
    """Return the table with the types of the input; text columns of CSV files get inferred types.

    Decisions have the type of the target.
    """
    table = scored.table.copy(deep=False)
    if scored.is_text:
        # CSV files have no types: infer them, so that Parquet files have numbers.
        for name in table.columns.difference(list(_ADDED)):
            table[name] = _infer_type(table[name])
    target = table.get(scored.model.target)
    if target is None or pd.api.types.is_numeric_dtype(target.dtype):  # booleans are numeric
        labels = _infer_type(pd.Series(scored.model.labels, dtype=object))
        # Labels 0 and 1 of a column of floats are floats.
        if target is not None and target.dtype.kind == "f" and pd.api.types.is_numeric_dtype(labels.dtype):
            labels = labels.astype(np.float64)
        positive = table["decision"] == scored.model.labels[1]
        table["decision"] = labels.to_numpy()[positive.astype(np.intp)]
    return table


def _infer_type(column: pd.Series) -> pd.Series:
    """Convert text to numbers or booleans if all cells can be converted exactly.

    Codes such as 007 stay text, and so do whole numbers that floats would round.
    """
    # Each distinct cell is checked once.
    different = column.dropna().unique().tolist()
    gaps = bool(column.isna().any())
    if not different:
        return column
    # Within 64 bits: larger numbers would be rounded.
    if all(_WHOLE.fullmatch(cell) and abs(int(cell)) < 1 << 63 for cell in different):
        return column.map(int, na_action="ignore").astype("Int64" if gaps else "int64")
    if all(map(_NUMBER.fullmatch, different)):
        return column.map(float, na_action="ignore").astype("float64")
    if set(different) <= {"True", "False"}:
        return column.map({"True": True, "False": False}).astype("boolean" if gaps else "bool")
    return column


@dataclass(frozen=True, eq=False)
class Export:
    """A model that was exported."""

    model_path: Path
    out: Path
    proto: ModelProto

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """Names and types of the inputs."""
        return [(value.name, _type_of(value)) for value in self.proto.graph.input]

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Names and types of the outputs."""
        return [(value.name, _type_of(value)) for value in self.proto.graph.output]

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON; an incompatible change increases the number of the schema."""
        return {
            "schema": "partialfair.export/1",
            "model": str(self.model_path),
            "out": str(self.out),
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "metadata": {entry.key: entry.value for entry in self.proto.metadata_props},
        }


def export(settings: ExportSettings) -> Export:
    """Write a saved model as ONNX; an infeasible model raises an error without ``--allow-infeasible``."""
    from partialfair.onnx import to_onnx

    out = settings.out
    model_path, *others = find_model(settings.model)
    require("onnx", extra="onnx", purpose="export to ONNX")
    check_target(out, [model_path, *others], (".onnx",))
    with step(f"loading {model_path}"):
        model = load_model(model_path)
    if not settings.allow_infeasible:
        refuse_infeasible(model, model_path, "exports it")
    with step(f"exporting {model_path}"):
        return Export(model_path, out, to_onnx(model, out))


def _type_of(value: ValueInfoProto) -> str:
    """Return the type and shape of a value, ``double (n, 8)``."""
    from onnx import TensorProto

    held = value.type.tensor_type
    sizes = ", ".join(size.dim_param or str(size.dim_value) for size in held.shape.dim)
    return f"{TensorProto.DataType.Name(held.elem_type).lower()} ({sizes})"
