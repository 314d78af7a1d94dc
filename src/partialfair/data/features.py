"""Features as models use them: dense arrays, CSR matrices and integer codes of categories."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair._typing import Ints
from partialfair.categoricals import CategoricalCodes

__all__ = ["Features", "n_rows_of", "take_rows"]

Features: TypeAlias = Any
"""Dense array, CSR matrix or `CategoricalCodes`, all finite."""


def n_rows_of(X: Features) -> int:
    """Return the number of rows."""
    return X.n_rows if isinstance(X, CategoricalCodes) else int(X.shape[0])


def take_rows(X: Features, rows: npt.NDArray[np.bool_] | Ints) -> Features:
    """Return some rows of the features; all of them without a copy if a mask says so."""
    if rows.dtype == bool and rows.all():
        return X
    return X.take(rows) if isinstance(X, CategoricalCodes) else X[rows]
