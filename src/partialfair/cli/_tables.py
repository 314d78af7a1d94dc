"""Reading files of scores or of anything else: CSV, Parquet or Arrow → checked columns."""

from __future__ import annotations

import lzma
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from partialfair._extras import require
from partialfair._typing import Floats
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups, group_name

__all__ = [
    "ColumnNames",
    "ScoreTable",
    "are_codes",
    "check_groups",
    "complete",
    "read_scores",
    "read_table",
    "weights_of",
]

MAX_GROUPS = 200
"""More distinct values than this and a column is not a group column (an id, say)."""

_PANDAS = tuple(map(int, pd.__version__.split(".")[:2]))
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
    as_written = [*columns.group, *([] if columns.id is None else [columns.id])]
    frame = _read_frame(path, columns.needed, as_written)[columns.needed]
    groups = frame[list(dict.fromkeys(columns.group))]
    check_groups(groups, path)
    groups = groups.apply(_readable)
    return ScoreTable(
        path,
        scores=_numbers(frame[columns.score], path),
        groups=groups,
        labels=None if columns.label is None else complete(frame[columns.label], path),
        weights=None if columns.weight is None else weights_of(frame[columns.weight], groups, path),
        ids=None if columns.id is None else complete(frame[columns.id], path).astype(str),
    )


def read_table(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """Read a whole table that has at least the needed columns; cells of CSV files are text, as written."""
    return _read_frame(path, list(dict.fromkeys(needed)), None)


def _read_frame(path: Path, needed: list[str], as_written: list[str] | None) -> pd.DataFrame:
    """Read the needed columns, or if none are named that are to be kept as written, all as written."""
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        raise InputError(f"{path} is a directory, not a file with a table")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    kind = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() in _KINDS), None)
    if kind is None:
        known = ", ".join(sorted(_KINDS))
        raise InputError(f"{path} has an unknown kind of file name; it should end in one of {known}")
    if kind in _TEXT_SUFFIXES:
        frame = _read_text(path, needed, as_written)
    else:
        frame = _read_arrow(path, needed, everything=as_written is None, parquet=kind == ".parquet")
    if frame.empty:
        raise InputError(f"{path} has column names but no rows")
    return frame


_KINDS = _TEXT_SUFFIXES | _ARROW_SUFFIXES | {".parquet"}


def _read_text(path: Path, needed: list[str], as_written: list[str] | None) -> pd.DataFrame:
    headers = {separator: list(_csv(path, separator, nrows=0).columns) for separator in _SEPARATORS}
    separator = next((sep for sep, names in headers.items() if set(needed) <= set(names)), None)
    if separator is None:
        separator = max(headers, key=lambda sep: len(headers[sep]))
        _refuse_missing_columns(path, headers[separator], needed)
    written = _csv(path, separator, nrows=1, header=None, dtype=str).iloc[0].tolist()
    for name in needed if as_written is not None else dict.fromkeys(written):
        if written.count(name) > 1:  # pandas would quietly call the second one "name.1"
            raise InputError(f"{path} has {written.count(name)} columns called {name!r}; rename all but one")
    # Groups and ids are read as written ("NA" may be a group, "01" is not 1); only an empty cell is missing.
    # All columns are read: with usecols pandas accepts rows that have more cells than the header.
    return _csv(
        path,
        separator,
        dtype=str if as_written is None else dict.fromkeys(as_written, str),
        keep_default_na=False,
        na_values=[""],
        **_EXACT,
    )


def _csv(path: Path, separator: str, **options: Any) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # low_memory would read a column in pieces, of different types; index_col would shift the columns
            # of a file whose rows end in a separator.
            return pd.DataFrame(
                pd.read_csv(path, sep=separator, low_memory=False, index_col=False, **options)
            )
    except pd.errors.ParserWarning as warning:
        raise InputError(f"{path} has rows with more cells than its header has names") from warning
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as CSV in UTF-8") from error
    except (*_DAMAGED, ValueError, ImportError) as error:  # ParserError is a ValueError
        raise InputError(f"{path} cannot be read as CSV: {_reason(error)}") from error


# Before 3.1 pandas read floats exactly only when asked to; since then it warns when asked.
_EXACT = {"float_precision": "round_trip"} if _PANDAS < (3, 1) else {}
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def _read_arrow(path: Path, needed: list[str], *, everything: bool, parquet: bool) -> pd.DataFrame:
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
        _refuse_missing_columns(path, names, needed)
        return pd.DataFrame(read(path, columns=None if everything else needed).to_pandas())
    except (pyarrow.ArrowException, OSError) as error:
        kind = "Parquet" if parquet else "Arrow"
        raise InputError(f"{path} cannot be read as {kind}: {_reason(error)}") from error


def _refuse_missing_columns(path: Path, present: Sequence[str], needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in present]
    if missing:
        shown = ", ".join(map(repr, present[:12])) + (", …" if len(present) > 12 else "")
        raise InputError(f"{path} has no column {missing[0]!r}; it has {shown}")


def check_groups(groups: pd.DataFrame, path: Path) -> None:
    """Refuse columns that are not two to two hundred groups."""
    for name in groups.columns:
        complete(groups[name], path)
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


def are_codes(column: pd.Series) -> bool:
    """Whether groups are bare codes; a table of groups called 0 and 1 says little."""
    values = column.astype(str)
    return bool((pd.to_numeric(values, errors="coerce").notna() | values.isin(["True", "False"])).all())


def _readable(column: pd.Series) -> pd.Series:
    """Write bare codes with their column, ``"sex=1"``."""
    return f"{column.name}=" + column.astype(str) if are_codes(column) else column


def complete(column: pd.Series, path: Path) -> pd.Series:
    """Return a column, refusing empty cells."""
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise InputError(f"column {column.name!r} of {path} has an empty cell in {_rows(missing)}")
    return column


def _numbers(column: pd.Series, path: Path) -> Floats:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        first = column.iloc[bad[0]]
        written = "an empty cell" if pd.isna(first) else repr(str(first))
        hint = "; decimals need a point" if "," in written else ""
        raise InputError(
            f"column {column.name!r} of {path} has {written} where a finite number is needed, "
            f"in {_rows(bad)}{hint}"
        )
    return numbers


def weights_of(column: pd.Series, groups: pd.DataFrame, path: Path) -> Floats:
    """Return weights, refusing negative ones."""
    weights = _numbers(column, path)
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        raise InputError(f"column {column.name!r} of {path} has a negative weight in {_rows(negative)}")
    if len(groups[weights > 0].drop_duplicates()) < 2:
        raise InputError(f"column {column.name!r} of {path} gives weight to fewer than two groups")
    return weights


def _rows(positions: npt.NDArray[np.intp]) -> str:
    """Name the first of some rows, counted as people do, and say how many more there are."""
    more = positions.size - 1
    others = f" and {more:,} more row{'s' if more > 1 else ''}" if more else ""
    return f"data row {positions[0] + 1}{others}"


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())
