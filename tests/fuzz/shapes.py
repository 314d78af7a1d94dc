"""Columns and tables in the types that callers of the Python interface have, and in types that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

__all__ = ["draw_column", "draw_matrix"]

Values = list[Any]


def draw_column(rng: Random, values: Sequence[Any], bad: float) -> Any:
    """Return values as some kind of column; rarely something that is not a column of that length."""
    held = list(values)
    if rng.random() < bad:
        return rng.choice(_WRONG)(rng, held)
    kind = rng.choice(_PLAIN if rng.random() < 0.75 else _ODD)
    try:
        return kind(held)
    except (TypeError, ValueError, OverflowError, pa.ArrowException):  # it cannot hold such values
        return held


def _natural(values: Values) -> Any:
    return np.asarray(values)


def _objects(values: Values) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _shuffled_index(values: Values) -> Any:
    return pd.Series(values, index=list(range(len(values)))[::-1], name="name \u05e9\u05dc\u05d5\u05dd")


def _polars(values: Values) -> Any:
    import polars  # its threads must begin in this process, not in the one that it was forked from

    return polars.Series("a", values)


_PLAIN: tuple[Callable[[Values], Any], ...] = (list, _natural, _natural, pd.Series)
_ODD: tuple[Callable[[Values], Any], ...] = (
    tuple,
    _objects,
    _shuffled_index,
    _polars,
    pa.array,
    lambda values: pa.chunked_array([values[: len(values) // 2], values[len(values) // 2 :]]),
    lambda values: pd.Series(values).convert_dtypes(),
    lambda values: pd.Series(values, dtype="category"),
    lambda values: pd.Series(values, dtype="string"),
    lambda values: pd.Series(values, dtype="Float64"),
    lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.float64())),
    pd.Categorical,
    pd.Index,
    lambda values: pd.DataFrame({"only": values}),
    lambda values: np.asarray(values)[:, None],
    lambda values: np.asarray(values, dtype=np.float32),
    lambda values: np.asarray(values, dtype=np.float16),
    lambda values: np.asarray(values, dtype=np.longdouble),
    lambda values: np.asarray(values, dtype=bool),
    lambda values: np.asarray(values, dtype=complex),
    lambda values: np.ma.masked_invalid(np.asarray(values, dtype=float)),
    lambda values: np.ma.masked_greater(np.asarray(values, dtype=float), 0.5),
    lambda values: np.asarray(values)[::-1][::-1],
    lambda values: pa.array(values).dictionary_encode(),
    lambda values: pd.to_datetime(pd.Series(values)),
    lambda values: dict(enumerate(values)),
    lambda values: {"a": values, "b": values},
    lambda values: pd.DataFrame({"\u0634\u0645\u0627\u0644": values, "\u200fb": values[::-1]}),
    lambda values: pd.DataFrame([[value, value] for value in values], columns=["same", "same"]),
    lambda values: pa.table({"a": values}),
    lambda values: pa.table({"a": values, "b": values}),
)


def _another_length(rng: Random, values: Values) -> Any:
    return rng.choice([values[:-1], values + values[:1], values[: len(values) // 2], []])


_WRONG: tuple[Callable[[Random, Values], Any], ...] = (
    _another_length,
    _another_length,
    lambda rng, values: rng.choice([None, 3, 0.5, "text", b"bytes", object(), True, float("nan")]),
    lambda rng, values: (value for value in values),
    lambda rng, values: {value for value in values if isinstance(value, str | int | float)},
    lambda rng, values: [values, values],
    lambda rng, values: [[value, values[: k % 3]] for k, value in enumerate(values)],
    lambda rng, values: np.zeros((len(values), 2, 2)),
    lambda rng, values: np.asarray(3.0),
    lambda rng, values: sparse.csr_array(np.ones((1, len(values)))),
    lambda rng, values: np.zeros(len(values), dtype=[("a", "i4"), ("b", "f8")]),
    lambda rng, values: [10**400] * len(values),
    lambda rng, values: [float("nan")] * len(values),
    lambda rng, values: _nested(values, rng.choice([3, 200])),
)


def _nested(values: Values, depth: int) -> Any:
    held: Any = values
    for _ in range(depth):
        held = [held]
    return held


_SCALES = (1.0, 1.0, 1.0, 1.0, 1e-300, 1e300, 1e-8, 1e8, 5e-324, 1e16, 0.0)
_NAMES = (
    "income",
    "\u05d4\u05db\u05e0\u05e1\u05d4",
    "\u202eevil",
    "caf\u00e9",
    "cafe\u0301",
    "",
    "a b",
    "x[1]<2",
    '"q"',
)


def draw_matrix(rng: Random, n_rows: int, skill: Sequence[float], bad: float, n_columns: int = 3) -> Any:
    """Return features, of which the first follows a skill, as some kind of table."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    X = numbers.normal(size=(n_rows, n_columns))
    if n_columns and n_rows:
        X[:, 0] += np.resize(np.asarray(skill, dtype=float), n_rows)
    if rng.random() < 0.5:
        X = np.round(X, rng.choice([0, 1]))
    if rng.random() < 0.3:
        X = X * np.array([rng.choice(_SCALES) for _ in range(n_columns)])
    if rng.random() < bad and X.size:
        X.flat[rng.randrange(X.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308])
    if rng.random() < bad:
        return rng.choice(_WRONG_TABLES)(X)
    return rng.choice(_PLAIN_TABLES if rng.random() < 0.6 else _ODD_TABLES)(rng, X)


def _frame(rng: Random, X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=rng.sample(_NAMES, X.shape[1]))


def _with_words(rng: Random, X: Any) -> pd.DataFrame:
    """Add a column that is not numbers."""
    words = np.resize(["low", "high", "\u05d2\u05d1\u05d5\u05d4"], len(X))
    kinds = (
        words,
        pd.Categorical(words),
        pd.Series(words, dtype="string"),
        pd.Series(np.resize([True, False], len(X)), dtype="boolean"),
        pd.Series(np.resize([1, None, 3], len(X)), dtype="Int64"),
        pd.to_datetime(np.resize(["2020-01-01", "2021-02-03"], len(X))),
        np.resize(np.array([{"a": 1}, [1]], dtype=object), len(X)),
        np.resize(np.array([1, 2], dtype="m8[s]"), len(X)),
    )
    return pd.DataFrame(X).rename(columns=str).assign(words=rng.choice(kinds))


def _polars_frame(rng: Random, X: Any) -> Any:
    import polars

    return polars.DataFrame({f"f{j}": X[:, j] for j in range(X.shape[1])})


def _sparse(rng: Random, X: Any) -> Any:
    kind = rng.choice(["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
    return rng.choice([sparse.csr_matrix, sparse.csr_array])(X).asformat(kind)


_PLAIN_TABLES: tuple[Callable[[Random, Any], Any], ...] = (lambda rng, X: X, lambda rng, X: X, _frame)
_ODD_TABLES: tuple[Callable[[Random, Any], Any], ...] = (
    lambda rng, X: X.tolist(),
    lambda rng, X: X.astype(object),
    lambda rng, X: np.asfortranarray(X),
    lambda rng, X: X.astype(np.float32),
    lambda rng, X: np.nan_to_num(X).clip(-100, 100).astype(np.int8),
    lambda rng, X: X > 0,
    lambda rng, X: pd.DataFrame(X, columns=["same"] * X.shape[1]),
    lambda rng, X: pd.DataFrame(X),
    lambda rng, X: pd.DataFrame(X).convert_dtypes(),
    lambda rng, X: pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a"], range(X.shape[1])])),
    lambda rng, X: pd.DataFrame(X, columns=[*range(X.shape[1] - 1), "mixed"][: X.shape[1]]),
    lambda rng, X: pa.table({f"f{j}": X[:, j] for j in range(X.shape[1])}),
    _polars_frame,
    _with_words,
    _with_words,
    _sparse,
    _sparse,
)
_WRONG_TABLES: tuple[Callable[[Any], Any], ...] = (
    lambda X: X[:-1],
    lambda X: X[:0],
    lambda X: X[:, :0],
    lambda X: X[:1],
    lambda X: X[:, 0],
    lambda X: X[None],
    lambda X: None,
    lambda X: "text",
    lambda X: 3.0,
    lambda X: X + 1j,
    lambda X: np.ma.masked_greater(X, 0.5),
    lambda X: {"a": X},
    lambda X: [[1.0, 2.0], [1.0]],
    lambda X: X.astype("U5"),
    lambda X: (row for row in X),
)
