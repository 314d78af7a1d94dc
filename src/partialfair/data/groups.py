"""Encodes sensitive features of any kind as small integer group codes.

One column gives one group per distinct value; several columns give intersectional groups, one per
combination that occurs, labelled by the tuple of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.utils.checks import refuse_lazy
from partialfair.utils.typing import ArrayLike, Floats, GroupLabel, Ints

MAX_GROUPS = 1000
"""Largest number of groups: all pairs are compared, and a numeric column given by mistake has thousands."""

LABEL_KINDS = {True: "positives", False: "negatives"}
"""Names of members with a label, by whether it is the positive one."""

_MAX_INTEGER_SPREAD = 1 << 16  # a table of counts of that length fits into a cache
_ROUNDING = 1e-9  # 100 members · (0.3 − 0.2) are ten
_ROUNDING_OF_TEXT = 1e-6  # more than rounding errors of a count, less than the printed digits


@dataclass(frozen=True)
class Groups:
    """Group membership of ``n`` rows.

    Attributes
    ----------
    codes : (n,) integers
        Position of each row's group in ``labels``; −1 where the group is missing and ignored.
    labels
        Distinct groups that occur, sorted; tuples where groups are intersections of several columns.
    """

    codes: Ints
    labels: tuple[GroupLabel, ...]

    @classmethod
    def none(cls, n: int) -> Groups:
        """Return n rows without groups."""
        return cls(np.full(n, -1, dtype=np.int32), ())

    @property
    def names(self) -> tuple[str, ...]:
        """Labels as text: ``"Female × Black"`` for an intersectional group."""
        return tuple(group_name(label) for label in self.labels)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """All unordered pairs of group positions."""
        return combinations(range(len(self.labels)), 2)

    def take(self, rows: npt.NDArray[Any]) -> Groups:
        """Return the membership of some rows (positions or a mask), with the groups that occur among them."""
        codes = self.codes[rows]
        present = np.bincount(codes[codes >= 0], minlength=len(self.labels)) > 0
        return Groups(codes, self.labels).only(present)

    def check(
        self,
        n_rows: int | None = None,
        *,
        rows_of: str = "scores",
        missing: Literal["error", "ignore"] = "error",
        advice: str = "",
    ) -> Groups:
        """Return these groups; raise `InputError` for another number of rows, see `encode_groups`."""
        if self.codes.size and not -1 <= self.codes.min() <= self.codes.max() < len(self.labels):
            raise InputError("Groups has codes that are not positions of its labels")
        _check_lengths({self.codes.size}, n_rows, rows_of)
        if missing == "error":
            _refuse_missing(self.codes, "sensitive_features", advice)
        return self

    def only(self, chosen: npt.NDArray[np.bool_]) -> Groups:
        """Return the same rows with some of the groups; rows of others have none."""
        labels = tuple(self.labels[k] for k in np.flatnonzero(chosen))
        return self.regroup(np.where(chosen, np.cumsum(chosen) - 1, -1), labels)

    def regroup(self, position: npt.ArrayLike, labels: tuple[GroupLabel, ...]) -> Groups:
        """Return the same rows in other groups: the k-th goes to that position in ``labels``, or to none, −1.

        Rows without a group still have none.
        """
        codes = np.append(position, -1).astype(np.int32)[self.codes]  # code −1 indexes the last
        return Groups(codes, labels)


@dataclass(frozen=True, eq=False)
class Members:
    """The group of each row, and the row's weight in it.

    Attributes
    ----------
    codes : (n,)
        Group of each row; −1 leaves it out.
    shares : (n,)
        ``ω_i``: non-negative, and adding up to 1 over *all* members of a group, those of other shards
        included; 0 for rows that are left out.
    """

    codes: Ints
    shares: Floats

    def take(self, rows: slice) -> Members:
        """Return some of the rows, with unchanged shares."""
        return Members(self.codes[rows], self.shares[rows])


def members_of(codes: Ints, weights: Floats, n_groups: int) -> Members:
    """Return rows with weights scaled to add up to 1 in each group."""
    inside = codes >= 0
    totals = np.bincount(codes[inside], weights=weights[inside], minlength=n_groups)
    return Members(codes, np.where(inside, weights / totals[np.where(inside, codes, 0)], 0.0))


def group_name(label: GroupLabel) -> str:
    """Return the name of a group as text."""
    return " × ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def label_kind(label: bool | None) -> str:
    """Return the name of members with a label, "positives" or "negatives"; empty without a label."""
    return "" if label is None else LABEL_KINDS[label]


def members_text(count: float, *, too_few: bool = False) -> str:
    """Return a number of members, some of which are partly inside an interval, as a whole number.

    Halves go up, also where rounding errors put a count slightly below them: sums of weights and products of
    sizes are then equal here and in the HTML report's script. Numbers below a limit are rounded down: 9.98 of
    10 that are needed must not read "10".
    """
    return f"{math.floor(count + _ROUNDING_OF_TEXT + (0.0 if too_few else 0.5)):,}"


def enough(n_members: float, min_group_size: float) -> bool:
    """Return whether a number of effective members is enough, up to rounding errors."""
    return n_members >= min_group_size - _ROUNDING


def encode_groups(
    sensitive_features: ArrayLike,
    *,
    n_rows: int | None = None,
    rows_of: str = "scores",
    missing: Literal["error", "ignore"] = "error",
    advice: str = "",
    max_groups: int = MAX_GROUPS,
) -> Groups:
    """Turn sensitive features into `Groups`.

    Parameters
    ----------
    sensitive_features
        One column (list, numpy, pandas, polars or Arrow; strings, categories, booleans or numbers) or several
        (a frame, a mapping of columns or a 2-D array); or `Groups`, which are checked and returned unchanged.
    n_rows
        Required number of rows.
    rows_of
        The kind of rows, for the message.
    missing
        How to handle rows without a value in some column: raise `InputError`, or code them −1.
    advice
        Text to add to that message.
    max_groups
        Largest number of groups. `Groups` were counted before.
    """
    if isinstance(sensitive_features, Groups):
        return sensitive_features.check(n_rows, rows_of=rows_of, missing=missing, advice=advice)
    columns = _columns(sensitive_features)
    encoded = [_encode_column(column, name) for name, column in columns]
    _check_lengths({codes.size for codes, _ in encoded}, n_rows, rows_of)
    if missing == "error":
        for (codes, _), (name, _) in zip(encoded, columns, strict=True):
            _refuse_missing(codes, name, advice)
    return _intersect(encoded, [name for name, _ in columns], max_groups)


def _check_lengths(lengths: set[int], n_rows: int | None, rows_of: str) -> None:
    if len(lengths) > 1 or (n_rows is not None and lengths != {n_rows}):
        given = " and ".join(str(length) for length in sorted(lengths))
        expected = f"but there are {n_rows} {rows_of}" if n_rows is not None else "in different columns"
        raise InputError(f"sensitive_features has {given} rows, {expected}")


def column_names(table: ArrayLike) -> list[Any] | None:
    """Return the names of the columns of a frame, or None.

    Frames of pandas and polars, and tables of Arrow, whose ``columns`` are the values, have columns by name.
    """
    if not (hasattr(table, "columns") and hasattr(table, "__getitem__")):
        return None
    return list(getattr(table, "column_names", table.columns))


def _columns(features: ArrayLike) -> list[tuple[str, ArrayLike]]:
    """Return the columns of sensitive features, with their names for messages."""
    if features is None:
        raise InputError("sensitive_features is missing; give one group per row")
    refuse_lazy(features, "sensitive_features")
    if isinstance(features, str):
        raise InputError(f"sensitive_features must hold one group per row, not the name {features!r}")
    if isinstance(features, Mapping):
        columns = [(f"column {name!r}", column) for name, column in features.items()]
    elif (names := column_names(features)) is not None:
        if len(set(names)) < len(names):
            raise InputError(f"sensitive_features has several columns of one name: {names}")
        columns = [(f"column {name!r}", features[name]) for name in names]
    elif hasattr(features, "dtype") and getattr(features, "ndim", 1) == 1:  # series and 1-D arrays, untouched
        name = getattr(features, "name", None)
        columns = [("sensitive_features" if name is None else f"sensitive feature {name!r}", features)]
    else:
        is_array = hasattr(features, "dtype") or hasattr(features, "__array__")
        # Lists become object arrays, so that None stays missing, and 1 and "1" stay different.
        masked = isinstance(features, np.ma.MaskedArray)
        array = features if masked else np.asarray(features, dtype=None if is_array else object)
        if array.ndim not in (1, 2):
            raise InputError(f"sensitive_features must have one or two dimensions, not {array.ndim}")
        if array.ndim == 1:
            columns = [("sensitive_features", array)]
        else:
            columns = [(f"sensitive_features[:, {j}]", array[:, j]) for j in range(array.shape[1])]
    if not columns:
        raise InputError("sensitive_features has no columns")
    return columns


def _encode_column(column: ArrayLike, name: str) -> tuple[Ints, tuple[GroupLabel, ...]]:
    refuse_lazy(column, name)
    if isinstance(column, np.ma.MaskedArray):
        # Values below the mask are arbitrary and must not become groups.
        known = ~np.ma.getmaskarray(column)
        codes = np.full(column.size, -1, dtype=np.int32)
        codes[known], labels = _encode_column(np.asarray(column)[known], name)
        return codes, labels
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        encoded = _encode_integers(np.asarray(column))
        if encoded is not None:
            return encoded
    return _encode_by_hashing(column, name)


def _encode_integers(values: npt.NDArray[Any]) -> tuple[Ints, tuple[GroupLabel, ...]] | None:
    """Count instead of hashing when integers lie close together; else return None."""
    if values.size == 0:
        return None
    as_integers = values.view(np.int8) if values.dtype.kind == "b" else values  # booleans have no difference
    low, high = int(as_integers.min()), int(as_integers.max())
    if high - low >= _MAX_INTEGER_SPREAD:
        return None
    # Differences of narrow integers would overflow, and not all of uint64 fits int64.
    wide = as_integers if as_integers.dtype == np.uint64 else as_integers.astype(np.int64, copy=False)
    countable = low == 0 and as_integers.dtype != np.uint64
    shifted = as_integers if countable else (wide - wide.dtype.type(low)).astype(np.intp)
    present = np.flatnonzero(np.bincount(shifted, minlength=high - low + 1))
    labels = tuple((values.dtype.type(value + low)).item() for value in present.tolist())
    if present.size == high - low + 1:  # no holes: values less the lowest are codes already
        return shifted, labels
    position = np.full(high - low + 1, -1, dtype=np.int32)
    position[present] = np.arange(present.size)
    return position[shifted], labels


def _encode_by_hashing(column: ArrayLike, name: str) -> tuple[Ints, tuple[GroupLabel, ...]]:
    import pandas as pd

    if not isinstance(column, pd.Series | pd.Categorical | pd.Index | np.ndarray):
        if type(column).__module__.partition(".")[0] == "pyarrow":
            column = column.to_pandas()  # which keeps categories; to_numpy returns objects
        else:
            column = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if isinstance(getattr(column, "dtype", None), pd.CategoricalDtype):
        # The order of categories is that of the groups.
        categorical = pd.Categorical(column).remove_unused_categories()
        return categorical.codes, tuple(categorical.categories.tolist())
    try:
        codes, uniques = pd.factorize(np.asarray(column) if isinstance(column, np.ndarray) else column)
    except TypeError as error:
        raise InputError(f"{name} holds values that cannot be groups: {error}") from None
    labels = list(uniques.tolist())
    try:
        order = sorted(range(len(labels)), key=labels.__getitem__)
    except TypeError:  # mixed types: any fixed order is valid
        order = sorted(range(len(labels)), key=lambda i: (type(labels[i]).__name__, str(labels[i])))
    position = np.empty(len(labels) + 1, dtype=np.int32)
    position[order] = np.arange(len(labels))
    position[-1] = -1  # factorize codes a missing value −1, which indexes the last place
    return position[codes], tuple(labels[i] for i in order)


def _intersect(
    encoded: list[tuple[Ints, tuple[GroupLabel, ...]]], names: list[str], max_groups: int
) -> Groups:
    """Intersect the columns, keeping only the combinations that occur; refuse more than ``max_groups``."""
    codes, labels = encoded[0]
    _refuse_many(len(labels), names[:1], max_groups)
    if len(encoded) == 1:
        return Groups(codes, labels)
    joint: list[tuple[GroupLabel, ...]] = [(label,) for label in labels]
    # One column after the other: the product of all their numbers of values may not fit an integer.
    for last, (added, added_labels) in enumerate(encoded[1:], start=1):
        known = (codes >= 0) & (added >= 0)
        n_added = max(len(added_labels), 1)
        combined = np.where(known, codes.astype(np.int64) * n_added + added, -1)
        present = np.unique(combined[known])
        _refuse_many(present.size, names[: last + 1], max_groups)
        codes = np.where(known, np.searchsorted(present, combined), -1).astype(np.int32)
        joint = [(*joint[at // n_added], added_labels[at % n_added]) for at in present.tolist()]
    return Groups(codes, tuple(joint))


def _refuse_many(n_groups: int, names: list[str], max_groups: int) -> None:
    if n_groups > max_groups:
        raise InputError(
            f"{' × '.join(names)} has {n_groups:,} groups, more than {max_groups:,}; if it is a number or an "
            "identifier, bin it or use another column (fairness_report reports on more with max_groups)"
        )


def _refuse_missing(codes: Ints, name: str, advice: str) -> None:
    if codes.size and codes.min() < 0:
        rows = np.flatnonzero(codes < 0)
        raise InputError(f"{name} has {rows.size} missing values, the first in row {rows[0]}{advice}")
