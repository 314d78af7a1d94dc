"""Checks of what users give, shared by everybody who takes it; each complaint names the culprit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any

import numpy as np

from partialfair._typing import ArrayLike, Floats
from partialfair.exceptions import InputError

__all__ = [
    "check_choice",
    "check_count",
    "check_number",
    "check_weights",
    "finite_vector",
    "first_text",
    "listing",
    "shown",
]


def check_choice(value: str, name: str, choices: Collection[str]) -> None:
    """Refuse a string that is not one of ``choices``."""
    if not (isinstance(value, str) and value in choices):
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, not {shown(value)}")


def check_number(
    value: Any, name: str, *, low: float = -np.inf, high: float = np.inf, above: float = -np.inf
) -> None:
    """Refuse what is not one finite number with ``low ≤ value ≤ high`` and ``value > above``."""
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if is_number and np.isfinite(value) and low <= value <= high and value > above:
        return
    if high < np.inf:
        wanted = f"lie in ({above:g}, {high:g}]" if above > -np.inf else f"lie in [{low:g}, {high:g}]"
    elif not (is_number and np.isfinite(value)):  # inf is at least 0, and yet refused
        limit = f" above {above:g}" if above > -np.inf else f" of at least {low:g}" if low > -np.inf else ""
        wanted = f"be a finite number{limit}"
    elif above > -np.inf:
        wanted = "be positive" if above == 0 else f"be above {above:g}"
    else:
        wanted = f"be at least {low:g}"
    raise InputError(f"{name} must {wanted}, not {shown(value)}")


def check_count(value: Any, name: str) -> None:
    """Refuse what is not a whole number of at least 1."""
    check_number(value, name, low=1)
    if int(value) != value:
        raise InputError(f"{name} must be a whole number, not {value!r}")


def finite_vector(values: ArrayLike, name: str) -> Floats:
    """Return one column of finite numbers, or a complaint that names it."""
    if values is None:
        raise InputError(f"{name} is missing")
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        if getattr(getattr(values, "dtype", None), "kind", None) in ("c", "m", "M"):  # complex numbers, dates
            raise TypeError
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        culprit = first_text(values) or type(values).__name__
        raise InputError(f"{name} holds {culprit!r}, which is not a number") from None
    if vector.ndim != 1:
        from_proba = name == "y_score" and vector.ndim == 2
        hint = "; for predict_proba take one column, [:, 1]" if from_proba else ""
        raise InputError(f"{name} must have one dimension, not {vector.ndim}{hint}")
    if (bad := np.flatnonzero(~np.isfinite(vector))).size:
        raise InputError(f"{name} has {bad.size} values that are NaN or infinite, the first in row {bad[0]}")
    return vector


def shown(value: Any, most: int = 80) -> str:
    """Write a value for a message, on one line and not at length."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}…"


def listing(items: Sequence[str], most: int = 8) -> str:
    """Write a list for a message, not at length."""
    more = f", and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(item if len(item) <= 60 else f"{item[:60]}…" for item in items[:most]) + more


def check_weights(sample_weight: ArrayLike, n_rows: int, rows_of: str = "scores") -> Floats:
    """Return non-negative weights of the right length, or a complaint."""
    weights = finite_vector(sample_weight, "sample_weight")
    if weights.size != n_rows:
        raise InputError(f"sample_weight has {weights.size} rows, but there are {n_rows} {rows_of}")
    if (bad := np.flatnonzero(weights < 0)).size:
        raise InputError(f"sample_weight has {bad.size} negative values, the first in row {bad[0]}")
    # Scaled by a power of two, which is exact: sums and squares of extreme weights then stay in range.
    return np.ldexp(weights, -int(np.frexp(weights.max(initial=0.0))[1]))


def first_text(values: ArrayLike) -> str | None:
    """Return the first value that is text and not a number, or None."""
    for value in np.asarray(values, dtype=object).ravel():
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return value
    return None
