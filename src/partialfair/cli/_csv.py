"""Text in CSV files that spreadsheets would run, written so that they do not and read back as it was.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, whoever wrote it, and
formulas open files and addresses. Such text gets an apostrophe, by which spreadsheets know text. So does text
that has apostrophes before such a character already; hence taking one away gives the text back.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

__all__ = ["csv_text", "escaped", "unescaped"]

# The wide signs are read as the others in some languages, and what follows a tab or a line break by some
# programs.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_text(frame: pd.DataFrame, *, index: bool = False) -> str:
    """Return a table as CSV; of text cells, names of columns and row names none is a formula.

    Numbers stay numbers, negative ones too, and the commands read the text back as it was.
    """
    safe = frame.copy(deep=False)
    for position in range(safe.shape[1]):
        column = safe.iloc[:, position]
        if not (pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype)):
            safe.isetitem(position, column.astype(object).map(_safe).to_numpy(dtype=object))
    safe.columns = pd.Index([_safe(name) for name in safe.columns])
    if index:
        safe.index = pd.Index([_safe(name) for name in safe.index], name=_safe(safe.index.name))
    text = str(safe.to_csv(index=index))
    if "\r" not in text:
        return text
    # Before 3.13 Python quotes a line feed but no carriage return, at which readers end the row as well.
    return str(safe.to_csv(index=index, quoting=csv.QUOTE_NONNUMERIC))


def escaped(text: str) -> str:
    """Return text as it is written; what looks like a number is no formula."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescaped(texts: Sequence[str]) -> dict[str, str]:
    """Return what different texts of one column were before they were written.

    Where one of them would have been written otherwise, they come from elsewhere, and are left as they are:
    different texts stay different.
    """
    before = {
        text: text[1:] if text.startswith("'") and escaped(text[1:]) == text else text for text in texts
    }
    ours = all(escaped(original) == text for text, original in before.items())
    return before if ours else {text: text for text in texts}


def _safe(cell: Any) -> Any:
    return escaped(cell) if isinstance(cell, str) else cell
