"""Features as models use them: dense arrays, CSR matrices and integer codes of categories."""

from __future__ import annotations

from typing import Any, TypeAlias

from partialfair.data.categoricals import CategoricalCodes

__all__ = ["Features", "n_rows_of"]

Features: TypeAlias = Any
"""Dense array, CSR matrix or `CategoricalCodes`, all finite."""


def n_rows_of(X: Features) -> int:
    """Return the number of rows."""
    return X.n_rows if isinstance(X, CategoricalCodes) else int(X.shape[0])
