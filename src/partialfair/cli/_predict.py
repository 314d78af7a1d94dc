"""``partialfair predict``: scores of new rows by a model that ``train`` or ``path`` saved."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from partialfair.cli._csv import csv_text
from partialfair.cli._tables import read_table
from partialfair.cli.output import step
from partialfair.exceptions import InputError
from partialfair.persistence import load_model
from partialfair.tables import TableModel
from partialfair.utils.extras import require
from partialfair.utils.files import check_set, check_targets, is_file_name, write_file

__all__ = ["Prediction", "check_target", "find_model", "predict", "refuse_unkept", "write"]

_RECORDS = ("train.json", "path.json")
_ADDED = ("score", "probability", "decision")

_WHOLE = re.compile(r"0|-?[1-9]\d{0,18}")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?\d{1,2})?")


@dataclass(frozen=True, eq=False)
class Prediction:
    """A table with scores, whether its other cells are text as written, and what was strange about it."""

    model_path: Path
    path: Path
    model: TableModel
    table: pd.DataFrame
    is_text: bool
    notes: tuple[str, ...]

    @property
    def selected(self) -> int:
        """How many rows are classified as positive."""
        return int((self.table["score"] > 0).sum())

    def record(self, out: Path) -> dict[str, Any]:
        """Return plain data for JSON; the schema's number changes when a reader would have to."""
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
    """Return the file of a model, and what else must not be written over.

    In a directory of ``train`` or ``path`` that is the model its record names, with the files of its set.
    """
    if not path.is_dir():
        return [path]
    names = [name for name in _RECORDS if (path / name).is_file()]
    if not names:
        raise InputError(f"{path} is a directory with neither {' nor '.join(_RECORDS)}; name a model's file")
    if len(names) > 1:
        raise InputError(f"{path} holds {' and '.join(names)}, of two commands; name the model's file")
    record_path = path / names[0]
    record = check_set(path, names[0])
    model = record.get("model")
    if model is None:
        raise InputError(
            f"{record_path} tells of no model that was saved, and what models are beside it are of earlier "
            "runs; name the file of one of them if you want it"
        )
    if not is_file_name(model):
        raise InputError(f"{record_path} is damaged: its model is not a file beside it")
    members = [path / name for name in record.get("files", {}) if name != model]
    return [path / model, record_path, *members]


def check_target(out: Path | None, inputs: Sequence[Path]) -> None:
    """Refuse, before any work, a file that cannot be written, or that is one of the inputs."""
    if out is None:
        return
    if out.is_dir():
        raise InputError(f"--out {out} is a directory; name a file, {out / 'scores.csv'} say")
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"--out {out} must end in .csv or .parquet")
    if out.suffix.lower() == ".parquet":
        require("pyarrow", extra="cli", purpose="writing Parquet files")
    if not out.resolve().parent.is_dir():
        raise InputError(f"--out {out} is in a directory that does not exist")
    check_targets([out], inputs)


def predict(model_path: Path, path: Path, *, keep: bool, use_unkept: bool = False) -> Prediction:
    """Score the rows of a table; a model that breaks its promise is used only if that is wanted."""
    with step(f"loading {model_path}"):
        model = load_model(model_path)
    if not isinstance(model, TableModel):
        raise InputError(
            f"{model_path} holds a {type(model).__name__}, which takes features and no tables; predict needs "
            "a model of partialfair train or path, others are used from Python, with load_model"
        )
    if not use_unkept:
        refuse_unkept(model, model_path, "scores with it")
    with step(f"reading {path}"):
        table, is_text = read_table(path, model.needed)
    present = list(table.columns)
    kept = present if keep else _kept(model, present)
    taken = [name for name in _ADDED if name in kept]
    if taken:
        raise InputError(f"{path} has a column {taken[0]!r}, which predict would write; rename it")
    with step(f"scoring {len(table):,} rows"):
        scores = model.decision_function(table)
        added = {
            "score": scores,
            "probability": model.predict_proba(table)[:, 1],
            "decision": np.array(model.labels, dtype=object)[(scores > 0).astype(np.intp)],
        }
    notes = tuple(model.strangers(table))
    return Prediction(model_path, path, model, table[kept].assign(**added), is_text, notes)


def refuse_unkept(model: Any, path: Path, then: str) -> None:
    """Refuse a model that breaks its promise, whatever its file is called; say what --use-unkept does."""
    is_table_model = isinstance(model, TableModel)
    result: Any = getattr(model.classifier if is_table_model else model, "result_", None)
    noted = model.satisfied if is_table_model else None
    kept = getattr(result, "satisfied", None) if noted is None else noted
    if kept is False:
        allowed = ", ".join(f"{constraint.max_gap:g}" for constraint in result.constraints)
        found = f"its gap in training is {result.gap:.3g}, and at most {allowed} was asked for"
        if result.population is not None:
            found = result.population.sentence
        raise InputError(f"{path} does not keep its promise: {found}; --use-unkept {then} all the same")


def _kept(model: TableModel, present: Sequence[str]) -> list[str]:
    """Return the columns that say who a row is, its group and its label."""
    wanted = {*model.ids, *(group.name for group in model.groups), model.target}
    return [name for name in present if name in wanted]


def write(scored: Prediction, out: Path) -> None:
    """Write the scores as CSV or Parquet; floats are written so that they are read back exactly."""
    content = io.BytesIO()
    if out.suffix.lower() == ".parquet":
        _infer_types(scored).to_parquet(content, index=False)
    else:
        content.write(csv_text(scored.table).encode())
    write_file(out, content.getvalue())


def _infer_types(scored: Prediction) -> pd.DataFrame:
    """Return the table with the types of the input, or where that is text with what the text says.

    Decisions have the type of the target.
    """
    table = scored.table.copy(deep=False)
    if scored.is_text:
        for name in table.columns.difference(list(_ADDED)):
            table[name] = _infer_type(table[name])
    target = table.get(scored.model.target)
    if target is None or pd.api.types.is_numeric_dtype(target.dtype):  # booleans are numeric
        labels = _infer_type(pd.Series(scored.model.labels, dtype=object))
        if target is not None and target.dtype.kind == "f" and pd.api.types.is_numeric_dtype(labels.dtype):
            labels = labels.astype(np.float64)
        table["decision"] = labels.to_numpy()[(table["score"] > 0).astype(np.intp)]
    return table


def _infer_type(column: pd.Series) -> pd.Series:
    """Return text as the numbers or truth values that all its cells are, else as it is.

    Codes such as 007 stay text, and so do whole numbers that would not be exact.
    """
    different = column.dropna().unique().tolist()
    gaps = bool(column.isna().any())
    if not different:
        return column
    if all(_WHOLE.fullmatch(cell) and abs(int(cell)) < 1 << 63 for cell in different):
        return column.map(int, na_action="ignore").astype("Int64" if gaps else "int64")
    if all(map(_NUMBER.fullmatch, different)):
        return column.map(float, na_action="ignore").astype("float64")
    if set(different) <= {"True", "False"}:
        return column.map({"True": True, "False": False}).astype("boolean" if gaps else "bool")
    return column
