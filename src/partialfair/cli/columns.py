"""Columns of a table by their role: scores, groups, labels, weights, clusters and ids, checked.

A column that cannot have its role raises one sentence with the file, the column and the row. Which of two
labels is the positive one is decided here too: the one that is requested, or what the names say.
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
"""Kinds of columns, in the words of pandas, all cells of which are single values."""

_CHUNK = 1 << 18
"""Rows of text read as numbers at a time: pandas lets no other thread in, and one of them hears Ctrl-C."""

_WHOLE = re.compile(r"\s*[+-]?\d+\s*")


@dataclass(frozen=True)
class ColumnNames:
    """Which columns of a file hold what."""

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
    """One file's columns, checked.

    Groups are there twice: as columns that are written again, and encoded, which is what is measured.
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
        """Which rows belong together, and how many such clusters there are."""
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
    """Read and check the named columns; every complaint names the file, the column and the row.

    With ``missing_groups="ignore"`` rows with an empty cell where a group is needed keep a missing group.
    Where groups are not ``compared`` with each other, one is enough.
    """
    names = [name for name in (columns.id, columns.clusters) if name is not None]
    as_written = [*columns.group, *names]
    # Only the named columns, in their order; a pipe may have many more.
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
    """Read a whole table with at least the needed columns; say whether cells are text, as in CSV files."""
    return read_frame(path, list(dict.fromkeys(needed)), None)


def check_group_columns(groups: pd.DataFrame, path: Path, missing_groups: MissingGroups) -> None:
    """Refuse columns of groups whose cells are no single values or, where groups are needed, empty."""
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
    """Return the groups of a table, refusing fewer than two (one, if not compared) or too many."""
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
            "another column (audit and compare take more with --max-groups)"
        )
    return encoded


def are_codes(column: pd.Series) -> bool:
    """Whether groups are bare codes; a table of groups called 0 and 1 says little."""
    values = pd.Series(column.dropna().unique()).astype(str)
    return bool((pd.to_numeric(values, errors="coerce").notna() | values.isin(["True", "False"])).all())


def _readable(column: pd.Series) -> pd.Series:
    """Write bare codes with their column, ``"sex=1"``; missing ones stay so."""
    if not are_codes(column):
        return column
    return (f"{column.name}=" + column.astype(str)).where(column.notna(), None)


def require_complete(column: pd.Series, path: Path, advice: str = "") -> pd.Series:
    """Return a column, refusing empty cells."""
    missing = np.flatnonzero(column.isna())
    if missing.size:
        raise InputError(f"column {_name(column)} of {path} has an empty cell in {_rows(missing)}{advice}")
    return column


def read_labels(column: pd.Series, path: Path) -> pd.Series:
    """Return labels, refusing empty cells, dates and what is no single value."""
    _refuse_dates(column, path)
    _refuse_nested(column, path)
    return require_complete(column, path)


def _numbers(column: pd.Series, path: Path, *, ranked: bool = False) -> Floats:
    """Return finite numbers; those that are ranked must differ where the cells do."""
    _refuse_dates(column, path)
    _refuse_nested(column, path)
    # Categories of Parquet files may be numbers.
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = pd.Series(column.to_numpy(), name=column.name)
    chunks = [column.iloc[start : start + _CHUNK] for start in range(0, len(column), _CHUNK)]
    parsed = [pd.to_numeric(chunk, errors="coerce") for chunk in chunks]
    # What is no number becomes nan, and raises below.
    numbers = np.concatenate([chunk.to_numpy(dtype=np.float64, na_value=np.nan) for chunk in parsed])
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        first = column.iloc[bad[0]]
        written = "an empty cell" if pd.isna(first) else shown(str(first))
        # As in 0,5, which is how half of Europe writes numbers.
        hint = "; decimals need a point" if "," in written else ""
        raise InputError(
            f"column {_name(column)} of {path} has {written} where a finite number is needed, "
            f"in {_rows(bad)}{hint}"
        )
    # Large integers that floats merge would be ties that the file does not have.
    if not ranked:
        return numbers
    # Text that is whole numbers is compared as such: floats have merged them already.
    as_given = column.to_numpy()
    if pd.api.types.is_string_dtype(column.dtype):
        whole = [int(cell) if _WHOLE.fullmatch(str(cell)) else 0.0 for cell in column]
        as_given = np.array(whole, dtype=object)
    if (alike := find_merged(as_given, numbers)) is not None:
        raise InputError(
            f"column {_name(column)} of {path} has {shown(alike[0])} and {shown(alike[1])}, which cannot be "
            "told apart as floats; write smaller numbers, for example their ranks"
        )
    return numbers


def read_weights(column: pd.Series, groups: pd.DataFrame, path: Path) -> Floats:
    """Return weights, refusing negative ones and those too large or too small to be added up."""
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
    # Rows without weight are absent, and with them perhaps a group.
    if len(groups[weights > 0].dropna().drop_duplicates()) < 2:
        raise InputError(f"column {_name(column)} of {path} gives weight to fewer than two groups")
    return weights


def read_clusters(column: pd.Series, path: Path) -> pd.Series:
    """Return who each row belongs to, refusing empty cells and what is no single value."""
    _refuse_nested(column, path)
    return require_complete(column, path).astype(str)


def _refuse_dates(column: pd.Series, path: Path) -> None:
    """Refuse dates and times, which would become counts of nanoseconds."""
    # Parquet dates arrive as objects, those of Arrow as datetime64.
    as_objects = column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in _DATES
    if as_objects or column.dtype.kind in "mM":
        known = column.dropna()
        first = f" ({known.iloc[0]})" if len(known) else ""
        raise InputError(
            f"column {_name(column)} of {path} holds dates or times{first}, and not numbers or labels"
        )


def _refuse_nested(column: pd.Series, path: Path) -> None:
    """Refuse cells that hold bytes, or several values: lists, structs and maps of Parquet files."""
    # Checked by kind first: a loop over all cells is for odd columns only.
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
    """Name the first of some rows, counted as people do, and say how many more there are."""
    more = positions.size - 1
    others = f" and {more:,} more row{'s' if more > 1 else ''}" if more else ""
    return f"data row {positions[0] + 1}{others}"


@dataclass(frozen=True)
class PositiveLabel:
    """The positive label as it is in the data, the other one, and why it was chosen."""

    value: Any
    other: Any
    reason: str

    def sentence(self, column: str) -> str:
        """Say it, before anything is computed with it."""
        return f"positive label: {column} = {self.value}, not {self.other} ({self.reason})"

    def doubts(self, column: str, *, lower_is_better: bool) -> list[str]:
        """Ask whether a bad outcome is meant as the positive label where low scores are the good ones."""
        is_absent = str(self.value).lower() in ("0", "0.0", "false") or reads_as_negative(self.value)
        is_bad = not _BAD_OUTCOMES.isdisjoint(_words(column) | _words(str(self.value)))
        if not lower_is_better or self.reason == _CHOSEN or is_absent or not is_bad:
            return []
        return [
            f"low scores are the good ones (--lower-is-better), and the positive label is a bad outcome, "
            f"{column} = {self.value}: equal opportunity and equalized odds then compare rows with it as the "
            f"qualified ones; if {self.other} is meant, --pos-label {shlex.quote(str(self.other))}"
        ]


_CHOSEN = "--pos-label"

_BAD_OUTCOMES = frozenset(
    {"default", "defaulted", "recid", "recidivism", "recidivist", "reoffend", "reoffended", "rearrest"}
    | {"fraud", "fraudulent", "churn", "churned", "arrest", "arrested", "bad", "loss", "delinquent"}
    | {"delinquency", "bankrupt", "bankruptcy", "death", "died", "dead", "dropout", "failure", "risk"}
)
"""Words in names of targets and labels that nobody wants to come true."""


def _words(name: str) -> set[str]:
    """Return the words of a name in lower case."""
    return set(re.findall(r"[a-z]+", name.lower()))


def find_positive_label(labels: pd.Series, path: Path, requested: str | None) -> PositiveLabel:
    """Return the positive label: the one requested, the one whose name says so, or the larger."""
    # By type first: values of mixed types do not compare.
    classes = sorted(labels.unique().tolist(), key=lambda value: (str(type(value)), value))
    column = f"column {labels.name!r} of {path}"
    if len(classes) != 2:
        number = "only one class" if len(classes) == 1 else f"{len(classes):,} classes"
        raise InputError(f"{column} has {number} ({_list_values(classes)}); labels need two")
    smaller, larger = classes
    if requested is None:
        # The larger label is the positive one unless the words say otherwise.
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
