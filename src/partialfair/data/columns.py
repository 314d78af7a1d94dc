"""What a column of a table holds: numbers, categories, or something that no feature can be made of."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd

from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

__all__ = ["LARGEST", "MAX_LEVELS", "Kind", "as_text", "kind_of", "more_rows", "numbers_in", "row_count"]

MAX_LEVELS = 100
"""More different texts than this and a column is not a set of categories (names, say)."""

_GAPS = frozenset({"NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?"})
"""What people write into a column of numbers where there is none."""

_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([ T].*)?"
    r"|\d{1,2}:\d{2}(:\d{2})?"
)
_DECIMAL_COMMA = r"[+-]?\d+,\d+"
_PLAIN = (str, bool, int, float, np.generic, Decimal)
_FEW = 20
"""Up to so many different values nothing can be told about what a column holds."""

LARGEST = 1e75
"""Largest number of a feature, and one over the least range: squares can be added up, and quotients taken."""

_NEARLY_ALL = 0.95
"""Whole numbers that differ in so large a share of the rows are perhaps names of the rows."""


def as_text(values: pd.Series, *, strip: bool = True) -> pd.Series:
    """Return values as text, gaps kept: whole numbers without a point, text without blanks around it."""
    if pd.api.types.is_float_dtype(values.dtype):
        codes, numbers = pd.factorize(values.to_numpy(dtype=np.float64, na_value=np.nan))
        written = [str(int(one)) if one.is_integer() else repr(one) for one in numbers.tolist()]
    else:
        codes, different = pd.factorize(values)
        written = [str(one).strip() if strip else str(one) for one in different.tolist()]
    text = np.array([*(one or None for one in written), None], dtype=object)  # code −1, a gap, is the last
    return pd.Series(text[codes], index=values.index, name=values.name, dtype=object)


@dataclass(frozen=True)
class Kind:
    """What a column holds: numbers, categories, or trouble."""

    numbers: bool = False
    trouble: str | None = None
    note: str | None = None


def kind_of(values: pd.Series, is_category: bool) -> Kind:
    """Tell what a column holds; numbers may be codes, and hence categories."""
    dtype = values.dtype
    if values.isna().all():
        return Kind(trouble="is empty")
    if pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return Kind(trouble=f"holds dates or times ({values.dropna().iloc[0]})")
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        return _kind_of_levels(as_text(values)) if is_category else _kind_of_numbers(values)
    strange = next((kind for kind in map(type, values.dropna()) if not issubclass(kind, _PLAIN)), None)
    if strange is not None:
        return Kind(trouble=f"holds values of type {strange.__name__}")
    text = as_text(values)
    if is_category or isinstance(dtype, pd.CategoricalDtype):
        return _kind_of_levels(text)
    different = pd.Series(text.dropna().unique(), dtype=object)
    told = different[~different.isin(_GAPS)]
    parsed = pd.Series(~np.isnan(_parsed(told)), index=told.index)
    if told.empty:
        return Kind(trouble="is empty")
    if parsed.all():
        return _kind_of_numbers(values)
    if told.str.fullmatch(_DECIMAL_COMMA).mean() > 0.5:
        return Kind(trouble=f"holds numbers with decimal commas ({told.iloc[0]!r}), which need a point")
    if told.str.fullmatch(_DATE).mean() > 0.9:
        return Kind(trouble=f"holds dates or times ({told.iloc[0]!r})")
    among = f"column {values.name!r} is read as categories because of {told[~parsed].iloc[0]!r} among numbers"
    return _kind_of_levels(text, among if parsed.mean() > 0.5 and len(told) > _FEW else None)


def _kind_of_numbers(values: pd.Series) -> Kind:
    numbers = numbers_in(values)
    if len(numbers) > _FEW and (np.diff(np.sort(numbers)) == 1).all():
        return Kind(trouble="numbers the rows")
    return Kind(numbers=True, note=_hint_of_identifier(values, numbers))


def _hint_of_identifier(values: pd.Series, numbers: Floats) -> str | None:
    """Say that numbers look like codes or like names of rows, of which a mean means nothing."""
    if not (pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_numeric_dtype(values.dtype)):
        different = pd.Series(as_text(values).dropna().unique(), dtype=object)
        padded = different[different.str.fullmatch(r"0\d+")]
        if len(padded):
            return (
                f"column {values.name!r} has codes with leading zeros ({padded.iloc[0]!r}), read as numbers: "
                "name it in --category, or leave it out by --id or --drop"
            )
    known = numbers[~np.isnan(numbers)]
    n_different = len(np.unique(known))
    if n_different > max(_FEW, _NEARLY_ALL * len(known)) and (known == np.round(known)).all():
        return (
            f"column {values.name!r} has {n_different:,} different whole numbers in {row_count(len(known))}, "
            "read as numbers: if it says who a row is, leave it out by --id or --drop"
        )
    return None


def _kind_of_levels(text: pd.Series, note: str | None = None) -> Kind:
    n_different = text.nunique()
    if n_different > MAX_LEVELS or (n_different > _FEW and n_different > len(text) / 2):
        return Kind(trouble=f"has {n_different:,} different texts in {len(text):,} rows")
    return Kind(note=note)


def numbers_in(values: pd.Series) -> Floats:
    """Return finite numbers, nan where there is none."""
    if pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_numeric_dtype(values.dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = np.flatnonzero(np.isinf(numbers))
    else:
        text = as_text(values)
        numbers = _parsed(text)
        told = ~(text.isna() | text.isin(_GAPS)).to_numpy()
        wrong = np.flatnonzero((told & np.isnan(numbers)) | np.isinf(numbers))
    needed = "a finite number"
    if not wrong.size:
        wrong = np.flatnonzero(np.abs(numbers) > LARGEST)
        needed = f"a number between -{LARGEST:g} and {LARGEST:g}"
    if wrong.size:
        raise InputError(
            f"column {values.name!r} has {str(values.iloc[wrong[0]])!r} where {needed} is needed, in data "
            f"row {wrong[0] + 1}{more_rows(wrong.size)}"
        )
    return np.asarray(numbers)


def _parsed(text: pd.Series) -> Floats:
    """Return the nearest float of every text, nan where it is none; pandas before 3 misses the last digit."""
    codes, words = pd.factorize(text)
    return np.array([*map(_number, words.tolist()), np.nan])[codes]


def _number(word: str) -> float:
    try:
        return float("nan") if "_" in word else float(word)  # Python reads 1_000 as a number
    except ValueError:
        return float("nan")


def more_rows(n_rows: int) -> str:
    """Say how many rows there are beside the one that is named."""
    return f" and {row_count(n_rows - 1).replace('row', 'more row')}" if n_rows > 1 else ""


def row_count(n_rows: int) -> str:
    """Write a number of rows."""
    return f"{n_rows:,} row{'' if n_rows == 1 else 's'}"
