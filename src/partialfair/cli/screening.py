"""Notes on features that may be a mistake: protected attributes, and columns that leak the target."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from partialfair.data.columns import as_text, numbers_in
from partialfair.tables import Column, NumberColumn
from partialfair.utils.text import listed
from partialfair.utils.typing import Bools, Floats, Ints

_PROTECTED = frozenset(
    {"sex", "gender", "race", "ethnicity", "ethnic", "religion", "religious", "age", "nationality"}
    | {"disability", "disabled", "marital"}
)
"""Words in names of columns; "age" is one of "applicant_age" and of "AgeGroup", not of "mileage"."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_NEARLY_PERFECT = 0.99
"""The AUC of one column above which it gets a note; legitimate features rarely reach it."""

_MOST_ROWS = 20_000
"""This number of rows is enough to detect such an AUC in a table of any length."""


def note_protected_columns(columns: Sequence[Column]) -> list[str]:
    """Return a note on features that are named like protected attributes."""
    named = [
        column.name
        for column in columns
        if not _PROTECTED.isdisjoint(word.lower() for word in _WORD.findall(column.name))
    ]
    if not named:
        return []
    drops = " ".join(f"--drop {shlex.quote(name)}" for name in named)
    which = listed([repr(name) for name in named])
    if len(named) == 1:
        return [f"column {which} is a feature named like a protected attribute: {drops} leaves it out"]
    return [f"columns {which} are features named like protected attributes: {drops} leaves them out"]


def note_answers(
    columns: Sequence[Column], table: pd.DataFrame, positive: Bools, target: str, known: Ints, unseen: Ints
) -> list[str]:
    """Return notes on features that alone predict the target almost perfectly on held-out rows.

    Parameters
    ----------
    columns, table, positive, target
        The features, all rows, whether each row is positive, and the name of the target.
    known, unseen
        Rows from which the rates of categories are computed, and rows on which the AUC is computed.
    """
    known, unseen = known[:_MOST_ROWS], unseen[:_MOST_ROWS]
    if len(np.unique(positive[unseen])) < 2:
        return []
    notes = []
    for column in columns:
        values = table[column.name]
        candidates = [_category_rates(values, positive, known, unseen)]
        if isinstance(column, NumberColumn):
            numbers = numbers_in(values.iloc[unseen])
            gaps = np.isnan(numbers)
            candidates = [np.where(gaps, column.median, numbers), gaps.astype(np.float64)]
        auc = max(abs(roc_auc_score(positive[unseen], scores) - 0.5) for scores in candidates) + 0.5
        if auc > _NEARLY_PERFECT:
            notes.append(
                f"column {column.name!r} alone predicts {target} almost perfectly (AUC {auc:.4f} on rows not "
                f"trained on): it may hold the answer; leave it out with --drop {shlex.quote(column.name)}"
            )
    return notes


def _category_rates(values: pd.Series, positive: Bools, known: Ints, unseen: Ints) -> Floats:
    """Return for each unseen row the rate of positives among known rows of the same category."""
    codes, _ = pd.factorize(as_text(values), use_na_sentinel=False)  # gaps are a category
    n = np.bincount(codes[known], minlength=codes.max() + 1)
    rates = np.bincount(codes[known], positive[known], minlength=codes.max() + 1) / np.maximum(n, 1)
    # Categories without a known row get the overall rate.
    return np.asarray(np.where(n > 0, rates, positive[known].mean())[codes[unseen]])
