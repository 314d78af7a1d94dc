"""Which of two labels is the positive one: the one that is asked for, or what the names say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from partialfair.exceptions import InputError

__all__ = ["PositiveLabel", "positive_label"]

_NEGATIVE = frozenset(
    {"no", "not", "none", "never", "false", "negative", "neg", "bad", "fail", "failed"}
    | {"reject", "rejected", "deny", "denied", "decline", "declined", "refused"}
)
"""Words for the label that is not wanted: the alphabet would put "denied" after "approved"."""


@dataclass(frozen=True)
class PositiveLabel:
    """The positive label as it is in the data, the other one, and why it was chosen."""

    value: Any
    other: Any
    reason: str

    def sentence(self, column: str) -> str:
        """Say it, before anything is computed with it."""
        return f"positive label: {column} = {self.value}, not {self.other} ({self.reason})"


def positive_label(labels: pd.Series, path: Path, asked: str | None) -> PositiveLabel:
    """Return the positive label: the one asked for, the one whose name says so, or the larger."""
    classes = sorted(labels.unique().tolist(), key=lambda value: (str(type(value)), value))
    column = f"column {labels.name!r} of {path}"
    if len(classes) != 2:
        number = "only one class" if len(classes) == 1 else f"{len(classes):,} classes"
        raise InputError(f"{column} has {number} ({_some(classes)}); labels need two")
    smaller, larger = classes
    if asked is None:
        named = [_is_negative(value) for value in classes]
        if named == [False, True]:
            return PositiveLabel(smaller, larger, f"{larger} reads as the negative; --pos-label chooses")
        reason = f"{smaller} reads as the negative" if named == [True, False] else "the larger of the two"
        return PositiveLabel(larger, smaller, f"{reason}; --pos-label chooses")
    matching = [value for value in classes if str(value) == asked]
    if not matching:
        raise InputError(f"--pos-label {asked} is not a value of {column}, which has {_some(classes)}")
    (other,) = [value for value in classes if value != matching[0]]
    return PositiveLabel(matching[0], other, "--pos-label")


def _is_negative(value: Any) -> bool:
    """Whether a label is text whose first word stands for the negative: "no", "denied", "not hired"."""
    words = str(value).lower().replace("_", " ").replace("-", " ").split()
    return isinstance(value, str) and bool(words) and words[0] in _NEGATIVE


def _some(values: list[Any]) -> str:
    shown = ", ".join(map(str, values[:5]))
    return shown if len(values) <= 5 else f"{shown}, …"
