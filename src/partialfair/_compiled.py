"""numba's njit, or nothing where numba is not installed: on a machine with torch and NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["njit"]

try:
    from numba import njit
except ModuleNotFoundError:

    def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Leave loops to the interpreter: all is the same, and slow."""
        return function if function is not None else lambda loops: loops
