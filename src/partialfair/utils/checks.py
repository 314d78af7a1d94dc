"""Checks of user input: each raises an `InputError` that names the argument and the offending value.

Checks of arrays return floats. Values that NumPy would convert silently (dates to nanoseconds, masked entries
to the values below the mask) raise an error here.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import date, time, timedelta
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.utils.typing import ArrayLike, Floats

WEIGHT_RANGE = "weights must be 0 or lie between 1e-75 and 1e75, so that their squares can be added up"

_LARGEST = 1e75  # the squares of a million such numbers still add up to a float; 1e-75 is its inverse
_EXACT_UP_TO = 2**53  # floats hold all whole numbers up to this one
_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # those of pandas are subclasses
# By package; lazy frames of others, such as polars, have a `collect`.
_GATHERED_BY = {"dask": "compute", "dask_expr": "compute", "ibis": "execute", "pyspark": "toPandas"}
_GATHERED_BY |= {"duckdb": "df", "_duckdb": "df"}


def check_choice(value: Any, name: str, choices: Collection[str]) -> None:
    """Raise `InputError` unless the value is one of ``choices``."""
    if not (isinstance(value, str) and value in choices):
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, not {shown(value)}")


def check_number(
    value: Any, name: str, *, low: float = -np.inf, high: float = np.inf, above: float = -np.inf
) -> None:
    """Raise unless the value is one finite number with ``low ≤ value ≤ high`` and ``value > above``."""
    is_finite = is_finite_number(value)
    if is_finite and low <= value <= high and value > above:
        return
    if high < np.inf:
        wanted = f"lie in ({above:g}, {high:g}]" if above > -np.inf else f"lie in [{low:g}, {high:g}]"
    elif not is_finite:  # inf is at least 0, but invalid
        limit = f" above {above:g}" if above > -np.inf else f" of at least {low:g}" if low > -np.inf else ""
        wanted = f"be a finite number{limit}"
    elif above > -np.inf:
        wanted = "be positive" if above == 0 else f"be above {above:g}"
    else:
        wanted = f"be at least {low:g}"
    raise InputError(f"{name} must {wanted}, not {shown(value)}")


def is_finite_number(value: Any) -> bool:
    """Return whether the value is one number in the range of floats; True and 10**400 are not."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_count(value: Any, name: str, *, low: int = 1) -> None:
    """Raise unless the value is a whole number of at least ``low``."""
    check_number(value, name, low=low)
    if int(value) != value:
        raise InputError(f"{name} must be a whole number, not {shown(value)}")


def check_fraction(value: Any, name: str) -> None:
    """Raise unless the value is a number strictly between 0 and 1, such as a confidence."""
    check_number(value, name)
    if not 0 < value < 1:
        raise InputError(f"{name} must lie between 0 and 1, not {shown(value)}")


def random_generator(random_state: Any, name: str = "random_state") -> np.random.Generator:
    """Return the generator of a seed; raise `InputError` for other values."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be None, a whole number of at least 0 or a generator, not {shown(random_state)}"
        ) from None


def check_flag(value: Any, name: str) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, not {shown(value)}")


def finite_vector(values: ArrayLike, name: str, *, ranked: bool = False) -> Floats:
    """Return one column of finite numbers, or a complaint that names it.

    Parameters
    ----------
    values, name
        What was given, and what messages call it.
    ranked
        Whether the order of the values matters: then those that differ must differ as floats.
    """
    if values is None:
        raise InputError(f"{name} is missing")
    refuse_masked(values, name)
    given = as_array(values, name)
    from_list = given.dtype.kind == "f" and given.ndim == 1 and not hasattr(values, "dtype")
    if from_list and np.nanmax(np.abs(given), initial=0.0) >= _EXACT_UP_TO:
        given = np.asarray(values, dtype=object)  # NumPy has rounded large whole numbers of the list
    refuse_dates(given, name)
    try:
        if given.dtype.kind == "c":  # of which NumPy would drop the imaginary part with a mere warning
            raise TypeError
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = first_text(values) if given.ndim == 1 else None
        held = type(values).__name__ if text is None else shown(text)
        raise InputError(f"{name} holds {held}, which is not a number") from None
    if vector.ndim != 1:
        from_proba = name == "y_score" and vector.ndim == 2
        hint = "; for predict_proba take one column, [:, 1]" if from_proba else ""
        raise InputError(f"{name} must have one dimension, not {vector.ndim}{hint}")
    if (bad := np.flatnonzero(~np.isfinite(vector))).size:
        raise InputError(f"{name} has {bad.size} values that are NaN or infinite, the first in row {bad[0]}")
    if ranked and (merged := find_merged(given, vector)) is not None:
        raise InputError(
            f"{name} holds {shown(merged[0])} and {shown(merged[1])}, which are equal as floats; "
            "give smaller numbers, for example their ranks"
        )
    return vector


def squarable_vector(values: ArrayLike, name: str) -> Floats:
    """Return one column of finite numbers whose squares can be added up, or a complaint that names it."""
    vector = finite_vector(values, name)
    if (large := np.flatnonzero(np.abs(vector) > _LARGEST)).size:
        raise InputError(
            f"{name} has {vector[large[0]]:g} in row {large[0]}, which is too large to square; rescale it"
        )
    return vector


def refuse_lazy(values: Any, name: str) -> None:
    """Raise for lazy collections, frames and queries, without importing their packages."""
    module, kind = type(values).__module__.partition(".")[0], type(values).__name__
    if hasattr(values, "__dask_graph__"):
        remedy = "compute"
    elif module in _GATHERED_BY:
        remedy = _GATHERED_BY[module]
    elif callable(getattr(values, "collect", None)) and not hasattr(values, "__len__"):  # lazy frames
        remedy = "collect"
    else:
        return
    raise InputError(
        f"{name} is lazy (a {kind} of {module}) and holds no values yet; gather it first, .{remedy}()"
    )


def refuse_masked(values: ArrayLike, name: str) -> None:
    """Raise for arrays with masked entries, and for lazy ones."""
    refuse_lazy(values, name)
    if isinstance(values, np.ma.MaskedArray) and (masked := np.argwhere(np.ma.getmaskarray(values))).size:
        column = f", column {masked[0][1]}" if masked.shape[1] > 1 else ""
        raise InputError(
            f"{name} has {len(masked)} values that are masked, the first in row {masked[0][0]}{column}"
        )


def check_sparse(X: ArrayLike, name: str) -> None:
    """Raise for a sparse matrix with inconsistent arrays, which compiled code would read unchecked.

    It takes one pass over the entries. Other values than sparse matrices are accepted. SciPy's
    ``check_format`` is not enough: it skips matrices whose last pointer is 0, and only warns of pointers that
    are not integers.
    """
    if not hasattr(X, "tocsr"):
        return
    try:
        fits = _is_whole(X if X.format in ("csr", "csc", "bsr", "coo", "dia") else X.tocsr())
    except (ValueError, TypeError, IndexError, AttributeError, OverflowError):
        fits = False
    if not fits:
        raise InputError(
            f"{name} is a sparse matrix whose arrays do not fit each other or its shape {X.shape}: build it "
            "anew from its entries"
        )


def _is_whole(X: Any) -> bool:
    """Return whether every entry of a sparse matrix lies in its shape."""
    if X.format == "dia":
        # Offsets may point outside: SciPy skips such diagonals.
        return bool(X.data.ndim == 2 and X.offsets.shape == (len(X.data),) and X.offsets.dtype.kind == "i")
    if X.format == "coo":
        columns = ((X.row, X.shape[0]), (X.col, X.shape[1]))
        return all(len(places) == len(X.data) and _lie_below(places, end) for places, end in columns)
    # Compressed formats: non-decreasing pointers, and indices within the other axis.
    n_rows, n_columns = X.shape if X.format != "bsr" else np.floor_divide(X.shape, X.data.shape[1:])
    if X.format == "csc":
        n_rows, n_columns = n_columns, n_rows
    starts, places = X.indptr, X.indices
    # Arrays may be longer than the last pointer; entries beyond it are unused.
    return (
        starts.dtype.kind == "i"
        and starts.shape == (n_rows + 1,)
        and starts[0] == 0
        and bool((starts[1:] >= starts[:-1]).all())
        and starts[-1] <= len(places) == len(X.data)
        and X.data.ndim == (3 if X.format == "bsr" else 1)
        and _lie_below(places[: starts[-1]], n_columns)
    )


def _lie_below(places: npt.NDArray[Any], end: int) -> bool:
    return places.dtype.kind == "i" and (not places.size or bool(0 <= places.min() <= places.max() < end))


def as_array(values: ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return values as an array of any type; raise for rows of different lengths and nested lists."""
    columns = getattr(values, "column_names", None)  # a table of Arrow is not an array of one column
    if columns is not None and hasattr(values, "column"):
        if len(columns) != 1:
            raise InputError(f"{name} must have one column, not {len(columns)}")
        values = values.column(0)
    try:
        return np.asarray(values)
    except (ValueError, RecursionError):
        raise InputError(
            f"{name} must have one dimension, not rows of different lengths or nested values"
        ) from None


def refuse_dates(values: npt.NDArray[Any], name: str) -> None:
    """Raise for dates and times, also missing ones, which NumPy would convert to nanoseconds."""
    # Columns of missing dates contain only NaT, so the type is checked.
    if values.dtype.kind in "mM":
        first: Any = values.ravel()[0] if values.size else values.dtype
    elif values.dtype.kind == "O":
        first = next((value for value in values.ravel() if isinstance(value, _DATES)), None)
    else:
        return
    if first is not None:
        raise InputError(f"{name} holds dates or times ({first}), which are not numbers")


def find_merged(given: npt.NDArray[Any], floats: Floats) -> tuple[Any, Any] | None:
    """Return two values that differ although their floats do not, or None.

    Floats represent whole numbers up to 2⁵³ exactly; beyond, 2⁵³ and 2⁵³ + 1 would be tied. Otherwise
    rounding preserves the order.
    """
    if given.dtype.kind in "iu":  # the usual case, in vectorised form
        if not given.size or max(abs(int(given.min())), abs(int(given.max()))) <= _EXACT_UP_TO:
            return None
        order = np.argsort(given)
        tied = np.flatnonzero((np.diff(floats[order]) == 0) & (given[order][1:] != given[order][:-1]))
        return tuple(given[order[tied[0] : tied[0] + 2]].tolist()) if tied.size else None
    if given.dtype.kind != "O":
        return None
    # Python's integers, fractions and decimals may differ by less than the precision of floats.
    first: dict[float, Any] = {}
    for value, number in zip(given.tolist(), floats.tolist(), strict=True):
        if not isinstance(value, str) and first.setdefault(number, value) != value:
            return first[number], value
    return None


def shown(value: Any, most: int = 80) -> str:
    """Return a value as text for a message, on one short line."""
    try:
        text = " ".join(repr(value).split())
    except (RecursionError, ValueError):  # too deep, or an integer with too many digits
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}…"


def check_weights(sample_weight: ArrayLike, n_rows: int, rows_of: str = "scores") -> Floats:
    """Return non-negative weights of the right length; raise `InputError` for others."""
    weights = finite_vector(sample_weight, "sample_weight")
    if weights.size != n_rows:
        raise InputError(f"sample_weight has {weights.size} rows, but there are {n_rows} {rows_of}")
    if (bad := np.flatnonzero(weights < 0)).size:
        raise InputError(f"sample_weight has {bad.size} negative values, the first in row {bad[0]}")
    if (bad := outside_weights(weights)).size:
        raise InputError(f"sample_weight has {weights[bad[0]]:g} in row {bad[0]}; {WEIGHT_RANGE}")
    return scale_weights(weights)


def scale_weights(weights: Floats) -> Floats:
    """Return weights scaled by a power of two, which is exact: their sums and squares then stay in range."""
    return np.ldexp(weights, -int(np.frexp(weights.max(initial=0.0))[1]))


def outside_weights(weights: Floats) -> npt.NDArray[np.intp]:
    """Return the rows of weights whose squares, relative to the largest, are out of the range of floats."""
    return np.flatnonzero((weights > _LARGEST) | ((weights < 1e-75) & (weights > 0)))


def first_text(values: ArrayLike) -> str | None:
    """Return the first value that is text and not a number, or None."""
    for value in np.asarray(values, dtype=object).ravel():
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return value
    return None
