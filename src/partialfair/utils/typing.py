"""Types of arrays and choices that several packages use."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

ArrayLike: TypeAlias = Any
"""Anything array-like: lists, numpy, pandas, polars, Arrow. Checked at run time, not by the type."""

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]

GroupLabel: TypeAlias = Hashable
GapScale: TypeAlias = Literal["interval", "absolute"]
MissingGroups: TypeAlias = Literal["error", "ignore"]
RankWithin: TypeAlias = Literal["group", "group_and_label"]
SmallGroups: TypeAlias = Literal["list", "merge", "keep"]
Ties: TypeAlias = Literal["half", "geq"]

_Ends: TypeAlias = tuple[float, float]
_Union: TypeAlias = _Ends | Sequence[_Ends]
IntervalLike: TypeAlias = _Union | Mapping[GroupLabel, _Union]
"""``(low, high)``, a sequence of those (a union), or a mapping from group to either."""
