"""The set 𝒲 of parameters: all of ℝⁿ, a ball or a box, with its projection and normal cone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

_ON_BORDER = 1e-9
"""Points so near to the border, relative to their size, lie on it: there a gradient may point outwards."""
_NEAR_BORDER = 1e-6
"""Normals of points so near are offered to KKT certificates: what they prove is counted from x itself."""


class Domain(Protocol):
    """A closed convex set."""

    def project(self, x: Floats) -> Floats:
        """Return the nearest point of the set."""

    def stationarity(self, x: Floats, gradient: Floats) -> float:
        """Return ``min ‖gradient + n‖`` over the normal cone at x."""

    def normals(self, x: Floats) -> Floats:
        """Return generators of the normal cone at x that no bound on a coordinate has: (q, n)."""

    def room(self, x: Floats) -> tuple[Floats, Floats]:
        """Return what bounds on coordinates leave to a step from x: ``low ≤ p ≤ high``, with 0 among them."""

    def bounds(self, n: int) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of n coordinates, if that is all that the set is made of."""


@dataclass(frozen=True)
class WholeSpace:
    """All of ℝⁿ; its normal cone is {0}."""

    def project(self, x: Floats) -> Floats:
        """Return x."""
        return x

    def stationarity(self, x: Floats, gradient: Floats) -> float:
        """Return ‖gradient‖."""
        return float(np.linalg.norm(gradient))

    def normals(self, x: Floats) -> Floats:
        """Return none."""
        return np.empty((0, x.size))

    def room(self, x: Floats) -> tuple[Floats, Floats]:
        """Bound nothing."""
        return self.bounds(x.size)

    def bounds(self, n: int) -> tuple[Floats, Floats]:
        """Return none."""
        return np.full(n, -np.inf), np.full(n, np.inf)


@dataclass(frozen=True)
class Ball:
    """``‖x‖ ≤ radius``; on the sphere the normal cone is {t x, t ≥ 0}."""

    radius: float

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise InputError(f"the radius of a ball must be positive, not {self.radius}")

    def project(self, x: Floats) -> Floats:
        """Shrink x onto the sphere if it lies outside."""
        norm = float(np.linalg.norm(x))  # exact: points inside stay bitwise the same
        return x if norm <= self.radius else x * (self.radius / norm)

    def stationarity(self, x: Floats, gradient: Floats) -> float:
        """Remove from −gradient what points outwards, if x lies on the sphere."""
        norm = float(np.linalg.norm(x))
        if norm < self.radius * (1 - _ON_BORDER):
            return float(np.linalg.norm(gradient))
        # The best normal t x: what −gradient has of it, if that points outwards.
        outwards = x / norm
        return float(np.linalg.norm(gradient + max(0.0, -float(gradient @ outwards)) * outwards))

    def normals(self, x: Floats) -> Floats:
        """Return the direction of x, if it lies on the sphere."""
        norm = float(np.linalg.norm(x))
        return np.empty((0, x.size)) if norm < self.radius * (1 - _NEAR_BORDER) else x[None] / norm

    def room(self, x: Floats) -> tuple[Floats, Floats]:
        """Bound nothing: a ball bounds no coordinate by itself."""
        return WholeSpace().bounds(x.size)

    def bounds(self, n: int) -> tuple[Floats, Floats]:
        """Refuse: a ball bounds no coordinate by itself."""
        raise InputError(
            "this solver knows bounds on coordinates (Box) and all of ℝⁿ, not balls; IDCA with Switching "
            "inside and DirectSwitching do"
        )


@dataclass(frozen=True, eq=False)
class Box:
    """``low ≤ x ≤ high`` in every coordinate; on a face the normal cone points out of it."""

    low: Floats | float
    high: Floats | float

    def __post_init__(self) -> None:
        if np.any(np.asarray(self.low) > np.asarray(self.high)):
            raise InputError("a box needs low ≤ high in every coordinate")

    def project(self, x: Floats) -> Floats:
        """Clip every coordinate."""
        return np.clip(x, self.low, self.high)

    def stationarity(self, x: Floats, gradient: Floats) -> float:
        """Drop the coordinates in which −gradient points out of a face that x lies on."""
        # A face may push inwards as hard as it must, and never pulls.
        slack = _ON_BORDER * np.maximum(1.0, np.abs(x))
        blocked = ((x <= self.low + slack) & (gradient > 0)) | ((x >= self.high - slack) & (gradient < 0))
        return float(np.linalg.norm(np.where(blocked, 0.0, gradient)))

    def normals(self, x: Floats) -> Floats:
        """Return no others than those of the faces."""
        return np.empty((0, x.size))

    def room(self, x: Floats) -> tuple[Floats, Floats]:
        """Return how far the faces are; from outside, steps may lead inwards only."""
        # 0 is always among the steps, also for a point that rounding left outside.
        low, high = self.bounds(x.size)
        return np.minimum(low - x, 0.0), np.maximum(high - x, 0.0)

    def bounds(self, n: int) -> tuple[Floats, Floats]:
        """Return the faces."""
        return np.broadcast_to(self.low, n).astype(float), np.broadcast_to(self.high, n).astype(float)

    def with_free(self, n_free: int) -> Box:
        """Return the box with so many coordinates more, without bounds; its own must have one each."""
        low, high = (np.asarray(side, dtype=float) for side in (self.low, self.high))
        return Box(np.append(low, np.full(n_free, -np.inf)), np.append(high, np.full(n_free, np.inf)))
