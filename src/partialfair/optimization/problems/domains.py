"""The set 𝒲 of parameters: all of ℝⁿ, a box or a ball, with its projection and normal cone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from partialfair.exceptions import InputError
from partialfair.utils.checks import check_number
from partialfair.utils.typing import Floats

_ON_BORDER = 1e-9
"""Points this near to the border, relative to their size, lie on it: a gradient there may point outwards."""
_NEAR_BORDER = 1e-6
"""Normals of points this near are used in KKT certificates; their effect is counted from x itself."""


class Domain(Protocol):
    """A closed convex set with normal cones from bounds on coordinates and from other `normals`."""

    def project(self, x: Floats) -> Floats:
        """Return the nearest point of the set."""

    def stationarity(self, x: Floats, gradient: Floats) -> float:
        """Return ``min ‖gradient + n‖`` over the normal cone at x."""

    def room(self, x: Floats) -> Box:
        """Return the bounds on coordinates for a step from x."""

    def normals(self, x: Floats) -> Floats:
        """Return generators of the normal cone at x other than bounds on coordinates: (q, n)."""


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
        # Drop coordinates in which −gradient points out of a face that x lies on: a face may push inwards
        # with any force, and never pulls.
        slack = _ON_BORDER * np.maximum(1.0, np.abs(x))
        blocked = ((x <= self.low + slack) & (gradient > 0)) | ((x >= self.high - slack) & (gradient < 0))
        return float(np.linalg.norm(np.where(blocked, 0.0, gradient)))

    def room(self, x: Floats) -> Box:
        """Return the faces' bounds for a step from x; from outside it leads inwards only."""
        # 0 is always an admissible step, also for a point that rounding left outside.
        low, high = self.bounds(x.size)
        return Box(np.minimum(low - x, 0.0), np.maximum(high - x, 0.0))

    def normals(self, x: Floats) -> Floats:
        """Return none: the faces are bounds."""
        return np.empty((0, x.size))

    def bounds(self, n: int) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of n coordinates."""
        return np.broadcast_to(self.low, n).astype(float), np.broadcast_to(self.high, n).astype(float)


EVERYWHERE = Box()


@dataclass(frozen=True)
class Ball:
    """``‖x‖ ≤ radius``; on the sphere the normal cone is {t x, t ≥ 0}."""

    radius: float

    def __post_init__(self) -> None:
        check_number(self.radius, "the radius of a ball", above=0.0)

    def project(self, x: Floats) -> Floats:
        """Shrink x onto the sphere if it lies outside."""
        norm = float(np.linalg.norm(x))  # exact: points inside do not change
        return x if norm <= self.radius else x * (self.radius / norm)

    def stationarity(self, x: Floats, gradient: Floats) -> float:
        """Return ``min ‖gradient + n‖`` over the normal cone at x."""
        norm = float(np.linalg.norm(x))
        if norm < self.radius * (1 - _ON_BORDER):
            return float(np.linalg.norm(gradient))
        # The best normal t x is the component of −gradient along x, if that points outwards.
        outwards = x / norm
        return float(np.linalg.norm(gradient + max(0.0, -float(gradient @ outwards)) * outwards))

    def room(self, x: Floats) -> Box:
        """Return no bounds, because the sphere is not a bound on a coordinate."""
        return EVERYWHERE.room(x)

    def normals(self, x: Floats) -> Floats:
        """Return the direction of x if it lies on the sphere, or nearly."""
        norm = float(np.linalg.norm(x))
        return np.empty((0, x.size)) if norm < self.radius * (1 - _NEAR_BORDER) else x[None] / norm
