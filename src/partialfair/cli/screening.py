"""Features that may be a mistake: protected attributes, and columns that hold the answer."""

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
"""AUC of one column; what is known before a decision rarely says so much."""

_MOST_ROWS = 20_000
"""So many rows tell such an AUC from a smaller one, however long the table is."""


def note_protected_columns(columns: Sequence[Column]) -> list[str]:
    """Name the features that are called like protected attributes."""
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
    """Name the features of which one alone predicts the target almost perfectly on rows not trained on.

    Parameters
    ----------
    columns, table, positive, target
        The features, all rows, which of them are positive, and the name of that column.
    known, unseen
        Rows that say how often a category is positive, and rows on which that is measured.
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
    """Return for unseen rows the rate of positives that known rows of the same category have."""
    codes, _ = pd.factorize(as_text(values), use_na_sentinel=False)  # gaps are a category
    n = np.bincount(codes[known], minlength=codes.max() + 1)
    rates = np.bincount(codes[known], positive[known], minlength=codes.max() + 1) / np.maximum(n, 1)
    # Categories that no known row has say nothing.
    return np.asarray(np.where(n > 0, rates, positive[known].mean())[codes[unseen]])
