"""The set 𝒲 of parameters: all of ℝⁿ or a box, with its projection and normal cone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

_ON_BORDER = 1e-9
"""Points so near to the border, relative to their size, lie on it: there a gradient may point outwards."""


@dataclass(frozen=True, eq=False)
class Box:
    """``low ≤ x ≤ high`` in every coordinate, by default all of ℝⁿ; on a face the normal cone points out."""

    low: Floats | float = -np.inf
    high: Floats | float = np.inf

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.low) > np.asarray(self.high)):
            raise InputError("a box needs low ≤ high in every coordinate")

    @cached_property
    def is_unbounded(self) -> bool:
        """Whether it is all of ℝⁿ, whose normal cone is {0}."""
        return bool(np.all(np.isneginf(self.low)) and np.all(np.isposinf(self.high)))

    def project(self, x: Floats) -> Floats:
        """Clip every coordinate."""
        return x if self.is_unbounded else np.clip(x, self.low, self.high)

    def stationarity(self, x: Floats, gradient: Floats) -> float:
        """Return ``min ‖gradient + n‖`` over the normal cone at x."""
        if self.is_unbounded:
            return float(np.linalg.norm(gradient))
        # Coordinates in which −gradient points out of a face that x lies on are dropped: a face may push
        # inwards as hard as it must, and never pulls.
        slack = _ON_BORDER * np.maximum(1.0, np.abs(x))
        blocked = ((x <= self.low + slack) & (gradient > 0)) | ((x >= self.high - slack) & (gradient < 0))
        return float(np.linalg.norm(np.where(blocked, 0.0, gradient)))

    def room(self, x: Floats) -> Box:
        """Return what the faces leave to a step from x; from outside it leads inwards only."""
        # 0 is always among the steps, also for a point that rounding left outside.
        low, high = self.bounds(x.size)
        return Box(np.minimum(low - x, 0.0), np.maximum(high - x, 0.0))

    def bounds(self, n: int) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of n coordinates."""
        return np.broadcast_to(self.low, n).astype(float), np.broadcast_to(self.high, n).astype(float)


EVERYWHERE = Box()
