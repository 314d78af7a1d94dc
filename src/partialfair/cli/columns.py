"""Columns of a table by their role: scores, groups, labels, weights, clusters and ids, checked.

A column that does not suit its role raises an `InputError` with the file, the column and the row. This module
also chooses the positive label: the requested one, or the one that the names suggest.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from partialfair.cli.reading import read_frame
from partialfair.cli.settings import MAX_GROUPS
from partialfair.data.groups import Groups, encode_groups
from partialfair.exceptions import InputError
from partialfair.utils.checks import WEIGHT_RANGE, find_merged, outside_weights, shown
from partialfair.utils.text import reads_as_negative
from partialfair.utils.typing import Floats, MissingGroups

_DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}
_SINGLE = {"string", "integer", "floating", "boolean", "decimal", "mixed-integer-float", "empty", *_DATES}
"""Kinds of columns, as pandas infers them, in which all cells are single values."""

_CHUNK = 1 << 18
"""Rows of text that are converted at a time: pandas blocks the thread that handles Ctrl-C."""

_WHOLE = re.compile(r"\s*[+-]?\d+\s*")


@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns of a file, by role."""

    score: str
    group: tuple[str, ...]
    label: str | None = None
    weight: str | None = None
    id: str | None = None
    clusters: str | None = None

    @property
    def needed(self) -> list[str]:
        """All names, each once."""
        optional = [name for name in (self.label, self.weight, self.id, self.clusters) if name is not None]
        return list(dict.fromkeys([self.score, *self.group, *optional]))


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The checked columns of one file.

    Groups are stored twice: as columns for the output, and encoded for the evaluation.
    """

    path: Path
    scores: Floats
    groups: pd.DataFrame
    encoded: Groups
    labels: pd.Series | None
    weights: Floats | None
    ids: pd.Series | None
    clusters: pd.Series | None = None

    @property
    def clusters_text(self) -> str:
        """A description of the clusters: their number and their column."""
        record = self.clusters_record
        return "" if record is None else f"{record['n']:,} clusters of rows by {record['column']}"

    @property
    def clusters_record(self) -> dict[str, Any] | None:
        """The column of the clusters and their number, as plain data for JSON."""
        if self.clusters is None:
            return None
        return {"column": str(self.clusters.name), "n": int(self.clusters.nunique())}


def read_scores(
    path: Path,
    columns: ColumnNames,
    missing_groups: MissingGroups = "error",
    *,
    compared: bool = True,
    max_groups: int = MAX_GROUPS,
) -> ScoreTable:
    """Read and check the named columns; errors name the file, the column and the row.

    With ``missing_groups="ignore"``, rows with an empty group have a missing group. One group is enough
    unless groups are ``compared`` with each other.
    """
    names = [name for name in (columns.id, columns.clusters) if name is not None]
    as_written = [*columns.group, *names]
    # A pipe may have many more columns than the named ones.
    frame = read_frame(path, columns.needed, as_written)[0][columns.needed]
    groups = frame[list(dict.fromkeys(columns.group))]
    check_group_columns(groups, path, missing_groups)
    groups = groups.apply(_readable)
    return ScoreTable(
        path,
        encoded=encode_table_groups(groups, path, missing_groups, compared=compared, max_groups=max_groups),
        scores=_numbers(frame[columns.score], path, ranked=True),
        groups=groups,
        labels=None if columns.label is None else read_labels(frame[columns.label], path),
        weights=None if columns.weight is None else read_weights(frame[columns.weight], groups, path),
        ids=None if columns.id is None else require_complete(frame[columns.id], path).astype(str),
        clusters=None if columns.clusters is None else read_clusters(frame[columns.clusters], path),
    )


def read_table(path: Path, needed: Sequence[str]) -> tuple[pd.DataFrame, bool]:
    """Read a table with at least the needed columns; also return whether cells are text, as in CSV files."""
    return read_frame(path, list(dict.fromkeys(needed)), None)


def check_group_columns(groups: pd.DataFrame, path: Path, missing_groups: MissingGroups) -> None:
    """Raise an error for group columns with nested cells or, unless these are ignored, empty cells."""
    for name in groups.columns:
        _refuse_nested(groups[name], path)
        if missing_groups == "error":
            require_complete(
                groups[name], path, "; --missing-groups ignore leaves such rows out of all ranks"
            )


def encode_table_groups(
    groups: pd.DataFrame,
    path: Path,
    missing_groups: MissingGroups,
    *,
    compared: bool = True,
    max_groups: int = MAX_GROUPS,
) -> Groups:
    """Return the groups of a table; fewer than two (one, if not compared) or too many are an error."""
    encoded = encode_groups(groups, missing=missing_groups, max_groups=len(groups))
    names = " × ".join(map(repr, groups.columns))
    if not encoded.labels:
        raise InputError(f"column {names} of {path} is empty in every row; a gap needs two groups")
    if len(encoded.labels) == 1 and compared:
        raise InputError(
            f"column {names} of {path} has only one group ({shown(encoded.names[0])}); a gap needs two"
        )
    if len(encoded.labels) > max_groups:
        raise InputError(
            f"column {names} of {path} has {len(encoded.labels):,} different values; "
            f"a group column has at most {max_groups:,}; if it is a number or an identifier, bin it or use "
            "another column (--max-groups of audit and compare sets another limit)"
        )
    return encoded


def are_codes(column: pd.Series) -> bool:
    """Return whether groups are bare codes such as 0 and 1, which need the name of their column."""
    values = pd.Series(column.dropna().unique()).astype(str)
    return bool((pd.to_numeric(values, errors="coerce").notna() | values.isin(["True", "False"])).all())


def _readable(column: pd.Series) -> pd.Series:
    """Add the column's name to bare codes, ``"sex=1"``; missing groups stay missing."""
    if not are_codes(column):
        return column
    return (f"{column.name}=" + column.astype(str)).where(column.notna(), None)


def require_complete(column: pd.Series, path: Path, advice: str = "") -> pd.Series:
    """Return a column; empty cells are an error."""
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise InputError(f"column {_name(column)} of {path} has an empty cell in {_rows(missing)}{advice}")
    return column


def read_labels(column: pd.Series, path: Path) -> pd.Series:
    """Return labels; empty cells, dates and nested values are errors."""
    _refuse_dates(column, path)
    _refuse_nested(column, path)
    return require_complete(column, path)


def _numbers(column: pd.Series, path: Path, *, ranked: bool = False) -> Floats:
    """Return finite numbers; if they are ranked, different cells must give different numbers."""
    _refuse_dates(column, path)
    _refuse_nested(column, path)
    # Categories of Parquet files may be numbers.
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = pd.Series(column.to_numpy(), name=column.name)
    chunks = [column.iloc[start : start + _CHUNK] for start in range(0, len(column), _CHUNK)]
    parsed = [pd.to_numeric(chunk, errors="coerce") for chunk in chunks]
    # Cells that are not numbers become nan, which is an error below.
    numbers = np.concatenate([chunk.to_numpy(dtype=np.float64, na_value=np.nan) for chunk in parsed])
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        first = column.iloc[bad[0]]
        written = "an empty cell" if pd.isna(first) else shown(str(first))
        # Some locales use a decimal comma, as in 0,5.
        hint = "; decimals need a point" if "," in written else ""
        raise InputError(
            f"column {_name(column)} of {path} has {written} where a finite number is needed, "
            f"in {_rows(bad)}{hint}"
        )
    # Large integers that are equal as floats would become ties that the file does not have.
    if not ranked:
        return numbers
    # Whole numbers in text are compared as integers.
    as_given = column.to_numpy()
    if pd.api.types.is_string_dtype(column.dtype):
        whole = [int(cell) if _WHOLE.fullmatch(str(cell)) else 0.0 for cell in column]
        as_given = np.array(whole, dtype=object)
    if (merged := find_merged(as_given, numbers)) is not None:
        raise InputError(
            f"column {_name(column)} of {path} has {shown(merged[0])} and {shown(merged[1])}, which are "
            "equal as floats; write smaller numbers, for example their ranks"
        )
    return numbers


def read_weights(column: pd.Series, groups: pd.DataFrame, path: Path) -> Floats:
    """Return weights; negative weights, and weights too large or too small for sums, are errors."""
    weights = _numbers(column, path)
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        raise InputError(f"column {_name(column)} of {path} has a negative weight in {_rows(negative)}")
    # Squares of weights are summed for effective sizes, and must not overflow.
    if (outside := outside_weights(weights)).size:
        raise InputError(
            f"column {_name(column)} of {path} has {weights[outside[0]]:g} in {_rows(outside)}; "
            f"{WEIGHT_RANGE}"
        )
    # Rows with weight 0 are ignored, which may leave a group empty.
    if len(groups[weights > 0].dropna().drop_duplicates()) < 2:
        raise InputError(f"column {_name(column)} of {path} gives weight to fewer than two groups")
    return weights


def read_clusters(column: pd.Series, path: Path) -> pd.Series:
    """Return the cluster of each row; empty cells and nested values are errors."""
    _refuse_nested(column, path)
    return require_complete(column, path).astype(str)


def _refuse_dates(column: pd.Series, path: Path) -> None:
    """Raise an error for dates and times, which would become counts of nanoseconds."""
    # Parquet dates arrive as objects, those of Arrow as datetime64.
    as_objects = column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in _DATES
    if as_objects or column.dtype.kind in "mM":
        known = column.dropna()
        first = f" ({known.iloc[0]})" if len(known) else ""
        raise InputError(
            f"column {_name(column)} of {path} holds dates or times{first} instead of numbers or labels"
        )


def _refuse_nested(column: pd.Series, path: Path) -> None:
    """Raise an error for cells with bytes or several values: lists, structs and maps of Parquet files."""
    # The kind is checked first, so that only unusual columns need a loop over all cells.
    if column.dtype != object or pd.api.types.infer_dtype(column, skipna=True) in _SINGLE:
        return
    for row, value in enumerate(column):
        if isinstance(value, bytes | bytearray) or (np.ndim(value) > 0 or isinstance(value, dict | set)):
            raise InputError(
                f"column {_name(column)} of {path} holds cells of type {type(value).__name__}, where single "
                f"values are needed, first in {_rows(np.array([row]))}"
            )


def _name(column: pd.Series) -> str:
    return shown(str(column.name))


def _rows(positions: npt.NDArray[np.intp]) -> str:
    """Name the first of some rows, counted from 1, and the number of the others."""
    more = positions.size - 1
    others = f" and {more:,} more row{'s' if more > 1 else ''}" if more else ""
    return f"data row {positions[0] + 1}{others}"


@dataclass(frozen=True)
class PositiveLabel:
    """The positive and the other label, with their types in the data, and the reason of the choice."""

    value: Any
    other: Any
    reason: str

    def sentence(self, column: str) -> str:
        """Return a sentence that names the positive label and the reason."""
        return f"positive label: {column} = {self.value}, not {self.other} ({self.reason})"

    def doubts(self, column: str, *, lower_is_better: bool) -> list[str]:
        """Return a note if low scores are good and the positive label is a bad outcome by name."""
        is_absent = str(self.value).lower() in ("0", "0.0", "false") or reads_as_negative(self.value)
        is_bad = not _BAD_OUTCOMES.isdisjoint(_words(column) | _words(str(self.value)))
        if not lower_is_better or self.reason == _CHOSEN or is_absent or not is_bad:
            return []
        return [
            f"low scores are good (--lower-is-better), and the positive label is a bad outcome, "
            f"{column} = {self.value}: equal opportunity and equalized odds then treat such rows as "
            f"qualified; if {self.other} is meant, use --pos-label {shlex.quote(str(self.other))}"
        ]


_CHOSEN = "--pos-label"

_BAD_OUTCOMES = frozenset(
    {"default", "defaulted", "recid", "recidivism", "recidivist", "reoffend", "reoffended", "rearrest"}
    | {"fraud", "fraudulent", "churn", "churned", "arrest", "arrested", "bad", "loss", "delinquent"}
    | {"delinquency", "bankrupt", "bankruptcy", "death", "died", "dead", "dropout", "failure", "risk"}
)
"""Words in names of targets and labels that describe bad outcomes."""


def _words(name: str) -> set[str]:
    """Return the words of a name in lower case."""
    return set(re.findall(r"[a-z]+", name.lower()))


def find_positive_label(labels: pd.Series, path: Path, requested: str | None) -> PositiveLabel:
    """Return the positive label: the requested one, the one that the names suggest, or the larger."""
    # Sorted by type first: values of mixed types cannot be compared.
    classes = sorted(labels.unique().tolist(), key=lambda value: (str(type(value)), value))
    column = f"column {labels.name!r} of {path}"
    if len(classes) != 2:
        number = "only one class" if len(classes) == 1 else f"{len(classes):,} classes"
        raise InputError(f"{column} has {number} ({_list_values(classes)}); labels need two")
    smaller, larger = classes
    if requested is None:
        # The larger label is the positive one unless the names suggest otherwise.
        named = [reads_as_negative(value) for value in classes]
        if named == [False, True]:
            return PositiveLabel(smaller, larger, f"{larger} reads as the negative; --pos-label chooses")
        reason = f"{smaller} reads as the negative" if named == [True, False] else "the larger of the two"
        return PositiveLabel(larger, smaller, f"{reason}; --pos-label chooses")
    matching = [value for value in classes if str(value) == requested]
    if not matching:
        raise InputError(
            f"--pos-label {requested} is not a value of {column}, which has {_list_values(classes)}"
        )
    (other,) = [value for value in classes if value != matching[0]]
    return PositiveLabel(matching[0], other, _CHOSEN)


def _list_values(values: list[Any]) -> str:
    shown = ", ".join(map(str, values[:5]))
    return shown if len(values) <= 5 else f"{shown}, …"
