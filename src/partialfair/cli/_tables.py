"""Reading files of scores: CSV, Parquet or Arrow → checked columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from partialfair._extras import require
from partialfair._typing import Floats
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups, group_name

__all__ = ["ColumnNames", "ScoreTable", "read_scores"]

MAX_GROUPS = 200
"""More distinct values than this and a column is not a group column (an id, say)."""

_SEPARATORS = (",", ";", "\t", "|")
_TEXT_SUFFIXES = {".csv", ".tsv", ".txt"}
_ARROW_SUFFIXES = {".arrow", ".feather", ".ipc"}


@dataclass(frozen=True)
class ColumnNames:
    """Which columns of a file hold what."""

    score: str
    group: tuple[str, ...]
    label: str | None = None
    weight: str | None = None
    id: str | None = None

    @property
    def needed(self) -> list[str]:
        """All names, each once."""
        optional = [name for name in (self.label, self.weight, self.id) if name is not None]
        return list(dict.fromkeys([self.score, *self.group, *optional]))


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """One file's columns, checked."""

    path: Path
    scores: Floats
    groups: pd.DataFrame
    labels: pd.Series | None
    weights: Floats | None
    ids: pd.Series | None


def read_scores(path: Path, columns: ColumnNames) -> ScoreTable:
    """Read and check the named columns; every complaint names the file, the column and the row."""
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        raise InputError(f"{path} is a directory, not a file of scores")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    frame = _read_frame(path, columns)
    if frame.empty:
        raise InputError(f"{path} has column names but no rows")
    groups = frame[list(columns.group)]
    _check_groups(groups, path)
    groups = groups.apply(_readable)
    return ScoreTable(
        path,
        scores=_numbers(frame[columns.score], path),
        groups=groups,
        labels=None if columns.label is None else _complete(frame[columns.label], path),
        weights=None if columns.weight is None else _numbers(frame[columns.weight], path),
        ids=None if columns.id is None else _complete(frame[columns.id], path),
    )


def _read_frame(path: Path, columns: ColumnNames) -> pd.DataFrame:
    kind = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() in _KINDS), None)
    if kind is None:
        known = ", ".join(sorted(_KINDS))
        raise InputError(f"{path} has an unknown kind of file name; it should end in one of {known}")
    if kind in _TEXT_SUFFIXES:
        return _read_text(path, columns)
    return _read_arrow(path, columns, parquet=kind == ".parquet")


_KINDS = _TEXT_SUFFIXES | _ARROW_SUFFIXES | {".parquet"}


def _read_text(path: Path, columns: ColumnNames) -> pd.DataFrame:
    try:
        headers = {sep: list(pd.read_csv(path, sep=sep, nrows=0).columns) for sep in _SEPARATORS}
        separator = next((sep for sep, names in headers.items() if set(columns.needed) <= set(names)), None)
        if separator is None:
            _refuse_missing_columns(path, max(headers.values(), key=len), columns)
        # Groups are read as written ("NA" may be a group, "01" is not 1); only an empty cell is missing.
        return pd.read_csv(
            path,
            sep=separator,
            usecols=columns.needed,
            dtype=dict.fromkeys(columns.group, str),
            keep_default_na=False,
            na_values=[""],
            float_precision="round_trip",
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, EOFError, OSError) as error:
        raise InputError(f"{path} cannot be read as CSV: {_one_line(error)}") from error


def _read_arrow(path: Path, columns: ColumnNames, *, parquet: bool) -> pd.DataFrame:
    pyarrow = require("pyarrow", extra="cli", purpose="reading Parquet and Arrow files")
    try:
        if parquet:
            module = require("pyarrow.parquet", extra="cli", purpose="reading Parquet files")
            names = module.read_schema(path).names
            read = module.read_table
        else:
            module = require("pyarrow.feather", extra="cli", purpose="reading Arrow files")
            names = (
                require("pyarrow.dataset", extra="cli", purpose="reading Arrow files")
                .dataset(path, format="feather")
                .schema.names
            )
            read = module.read_table
        _refuse_missing_columns(path, names, columns)
        return pd.DataFrame(read(path, columns=columns.needed).to_pandas())
    except (pyarrow.ArrowException, OSError) as error:
        kind = "Parquet" if parquet else "Arrow"
        raise InputError(f"{path} cannot be read as {kind}: {_one_line(error)}") from error


def _refuse_missing_columns(path: Path, present: Sequence[str], columns: ColumnNames) -> None:
    missing = [name for name in columns.needed if name not in present]
    if missing:
        shown = ", ".join(map(repr, present[:12])) + (", …" if len(present) > 12 else "")
        raise InputError(f"{path} has no column {missing[0]!r}; it has {shown}")


def _check_groups(groups: pd.DataFrame, path: Path) -> None:
    for name in groups.columns:
        _complete(groups[name], path)
    names = " × ".join(map(repr, groups.columns))
    labels = encode_groups(groups).labels
    if len(labels) < 2:
        raise InputError(
            f"column {names} of {path} has only one group ({group_name(labels[0])!r}); a gap needs two"
        )
    if len(labels) > MAX_GROUPS:
        raise InputError(
            f"column {names} of {path} has {len(labels):,} different values; "
            f"a group column has at most {MAX_GROUPS}"
        )


def _readable(column: pd.Series) -> pd.Series:
    """Write bare codes with their column, ``"sex=1"``: a table of groups called 0 and 1 says little."""
    values = column.astype(str)
    is_code = pd.to_numeric(values, errors="coerce").notna() | values.isin(["True", "False"])
    return f"{column.name}=" + values if is_code.all() else column


def _complete(column: pd.Series, path: Path) -> pd.Series:
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise InputError(
            f"column {column.name!r} of {path} has {missing.size:,} empty cells, "
            f"the first in data row {missing[0] + 1}"
        )
    return column


def _numbers(column: pd.Series, path: Path) -> Floats:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        first = column.iloc[bad[0]]
        written = "an empty cell" if pd.isna(first) else repr(str(first))
        raise InputError(
            f"column {column.name!r} of {path} has {bad.size:,} values that are not finite numbers, "
            f"the first ({written}) in data row {bad[0] + 1}"
        )
    return numbers


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
