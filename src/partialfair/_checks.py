"""Checks of what users give, shared by everybody who takes it; each complaint names the culprit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from partialfair._typing import ArrayLike, Floats
from partialfair.exceptions import InputError

__all__ = ["check_choice", "check_weights", "finite_vector"]


def check_choice(value: str, name: str, choices: Collection[str]) -> None:
    """Refuse a string that is not one of ``choices``."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


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
        raise InputError(f"{name} holds {_first_text(values)!r}, which is not a number") from None
    if vector.ndim != 1:
        hint = "; for predict_proba take one column, [:, 1]" if vector.ndim == 2 else ""
        raise InputError(f"{name} must have one dimension, not {vector.ndim}{hint}")
    if (bad := np.flatnonzero(~np.isfinite(vector))).size:
        raise InputError(f"{name} has {bad.size} values that are NaN or infinite, the first in row {bad[0]}")
    return vector


def check_weights(sample_weight: ArrayLike, n_rows: int, rows_of: str = "scores") -> Floats:
    """Return non-negative weights of the right length, or a complaint."""
    weights = finite_vector(sample_weight, "sample_weight")
    if weights.size != n_rows:
        raise InputError(f"sample_weight has {weights.size} rows, but there are {n_rows} {rows_of}")
    if (bad := np.flatnonzero(weights < 0)).size:
        raise InputError(f"sample_weight has {bad.size} negative values, the first in row {bad[0]}")
    # Scaled by a power of two, which is exact: sums and squares of extreme weights then stay in range.
    return np.ldexp(weights, -int(np.frexp(weights.max(initial=0.0))[1]))


def _first_text(values: ArrayLike) -> Any:
    for value in np.asarray(values, dtype=object).ravel():
        try:
            float(value)
        except (TypeError, ValueError):
            return value
    return type(values).__name__
