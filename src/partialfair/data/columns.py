"""Infers the kind of a column of a table: numbers, categories, or not usable as a feature."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd

from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

MAX_LEVELS = 100
"""A column with more different texts is not treated as categories; it may contain names."""

_GAPS = frozenset({"NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?"})
"""Texts for missing values in columns of numbers."""

_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([ T].*)?"
    r"|\d{1,2}:\d{2}(:\d{2})?"
)
_DECIMAL_COMMA = r"[+-]?\d+,\d+"
_PLAIN = (str, bool, int, float, np.generic, Decimal)
_FEW = 20
"""With so few different values, codes, names and numbers cannot be distinguished."""

LARGEST = 1e75
"""Largest number of a feature, and one over the least range: squares can be added up, and quotients taken."""

_NAMES_OF_IDS = frozenset(
    {"id", "ids", "uuid", "guid", "identifier", "person", "patient", "customer", "client", "applicant"}
    | {"user", "member", "household", "student", "employee", "account"}
)
"""Words in names of columns of identifiers or clusters."""

_NEARLY_ALL = 0.95
"""Fraction of different whole numbers from which they may be identifiers."""


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
    """The kind of a column: numbers, categories, or neither, with the reason."""

    numbers: bool = False
    trouble: str | None = None
    note: str | None = None


def kind_of(values: pd.Series, is_category: bool) -> Kind:
    """Infer the kind of a column; numbers may be codes, and hence categories."""
    dtype = values.dtype
    if values.isna().all():
        return Kind(trouble="is empty")
    if pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return Kind(trouble=f"holds dates or times ({values.dropna().iloc[0]})")
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        return _kind_of_levels(as_text(values)) if is_category else _kind_of_numbers(values)
    for kind in map(type, values.dropna()):
        if not issubclass(kind, _PLAIN):
            return Kind(trouble=f"holds values of type {kind.__name__}")
    text = as_text(values)
    if is_category or isinstance(dtype, pd.CategoricalDtype):
        return _kind_of_levels(text)
    # Text: numbers if all of it reads as numbers, and otherwise categories, unless most of it looks like
    # numbers or dates that were written in another way.
    different = pd.Series(text.dropna().unique(), dtype=object)
    different = different[~different.isin(_GAPS)]
    is_number = pd.Series(~np.isnan(_parse(different)), index=different.index)
    if different.empty:
        return Kind(trouble="is empty")
    if is_number.all():
        return _kind_of_numbers(values)
    if different.str.fullmatch(_DECIMAL_COMMA).mean() > 0.5:
        return Kind(trouble=f"holds numbers with decimal commas ({different.iloc[0]!r}), which need a point")
    if different.str.fullmatch(_DATE).mean() > 0.9:
        return Kind(trouble=f"holds dates or times ({different.iloc[0]!r})")
    odd = different[~is_number].iloc[0]
    note = f"column {values.name!r} is read as categories because of {odd!r} among numbers"
    return _kind_of_levels(text, note if is_number.mean() > 0.5 and len(different) > _FEW else None)


def _kind_of_numbers(values: pd.Series) -> Kind:
    numbers = numbers_in(values)
    if len(numbers) > _FEW and (np.diff(np.sort(numbers)) == 1).all():
        return Kind(trouble="numbers the rows")  # whatever the order of the rows is
    return Kind(numbers=True, note=_hint_of_identifier(values, numbers))


def _hint_of_identifier(values: pd.Series, numbers: Floats) -> str | None:
    """Return a hint that numbers look like codes or identifiers, or None."""
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
    is_whole = bool((known == np.round(known)).all())
    if not is_whole or n_different <= _FEW:
        return None
    counted = f"column {values.name!r} has {n_different:,} different whole numbers in {row_count(len(known))}"
    # Names of columns decide where numbers repeat, because most repeated whole numbers are amounts.
    repeats = n_different < len(known)
    if repeats and not _NAMES_OF_IDS.isdisjoint(re.findall(r"[a-z]+", _words(str(values.name)))):
        return (
            f"{counted}, read as numbers: if it says which rows belong together, --clusters "
            f"{shlex.quote(str(values.name))} keeps them together and makes it no feature"
        )
    if n_different > _NEARLY_ALL * len(known):
        return f"{counted}, read as numbers: if it says who a row is, leave it out by --id or --drop"
    return None


def _words(name: str) -> str:
    """Return the words of a column's name in lower case: "customer id" of "customerID"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower().replace("_", " ")


def _kind_of_levels(text: pd.Series, note: str | None = None) -> Kind:
    n_different = text.nunique()
    if n_different > MAX_LEVELS or (n_different > _FEW and n_different > len(text) / 2):
        trouble = f"has {n_different:,} different texts in {len(text):,} rows"
        if n_different < len(text):  # then it may name clusters
            trouble += f" (--clusters {shlex.quote(str(text.name))} if rows of one text belong together)"
        return Kind(trouble=trouble)
    return Kind(note=note)


def numbers_in(values: pd.Series) -> Floats:
    """Return finite numbers, nan where there is none."""
    if pd.api.types.is_bool_dtype(values.dtype) or pd.api.types.is_numeric_dtype(values.dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = np.flatnonzero(np.isinf(numbers))
    else:
        text = as_text(values)
        numbers = _parse(text)
        known = ~(text.isna() | text.isin(_GAPS)).to_numpy()
        wrong = np.flatnonzero((known & np.isnan(numbers)) | np.isinf(numbers))
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


def _parse(text: pd.Series) -> Floats:
    """Return the nearest float of every text or nan; pandas before 3 misses the last digit."""
    codes, words = pd.factorize(text)
    return np.array([*map(_number, words.tolist()), np.nan])[codes]


def _number(word: str) -> float:
    try:
        return float("nan") if "_" in word else float(word)  # Python reads 1_000 as a number
    except ValueError:
        return float("nan")


def more_rows(n_rows: int) -> str:
    """Return the number of rows after the named one, as text."""
    return f" and {row_count(n_rows - 1).replace('row', 'more row')}" if n_rows > 1 else ""


def row_count(n_rows: int) -> str:
    """Return a number of rows as text."""
    return f"{n_rows:,} row{'' if n_rows == 1 else 's'}"
