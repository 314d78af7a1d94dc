"""Grids of ranks at which statistical parity is asked for.

On the interval scale a point is ``u / (1 − κ)`` in [0, 1], where u is the share of an interval that has been
passed and the band at the point holds the shares from u to u + κ: points are thus the same for any κ. On the
absolute scale a point is a rank p itself, and the band holds the ranks from p to p + κ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from partialfair.data.intervals import IntervalSet, as_interval_set
from partialfair.utils.typing import Floats, GapScale

if TYPE_CHECKING:
    from partialfair.constraints.base import Constraint

__all__ = ["OnAGrid", "RankGrid", "paper_points"]

_SAME_POINT = 1e-6
"""Points that are closer ask for the same."""


@dataclass(frozen=True)
class RankGrid:
    """Points at which a constraint looks, and how they get more.

    Attributes
    ----------
    points
        In any order; see the top of this file.
    kappa
        κ, the width of the bands.
    gap_scale
        Which of the two kinds of points.
    """

    points: tuple[float, ...]
    kappa: float
    gap_scale: GapScale = "interval"

    @classmethod
    def reaching(cls, n_points: int, kappa: float, interval: IntervalSet | None) -> RankGrid:
        """Return an even grid, with its ends, that reaches everywhere the exact gap looks.

        Without the ends scores pile up just beyond the last point, where nothing is asked of them.

        Parameters
        ----------
        n_points
            Points between the ends.
        kappa
            κ.
        interval
            That of all groups, on the absolute scale: there one group may be inside it while another is κ
            before it, so that the grid covers ``[max(0, α − κ), β)``. None stands for the interval scale.
        """
        even = np.linspace(0.0, 1.0, n_points + 2)
        if interval is None:
            return cls(tuple(even.tolist()), kappa, "interval")
        wider = as_interval_set(_merged([(max(0.0, low - kappa), high) for low, high in interval.parts]))
        return cls(tuple(wider.rank_at(even, side="left").tolist()), kappa, "absolute")

    def denser(self) -> RankGrid:
        """Return the grid with a point between any two that follow each other in it."""
        points = np.array(self.points)
        return replace(self, points=(*self.points, *((points[1:] + points[:-1]) / 2).tolist()))

    def with_points(self, n_points: int) -> RankGrid:
        """Return a grid of the same reach, with so many points between its ends, as even as this one."""
        points = np.sort(self.points)
        even = np.interp(np.linspace(0, points.size - 1, n_points + 2), np.arange(points.size), points)
        return replace(self, points=tuple(even.tolist()))

    def refined(self, ranks: Sequence[float], intervals: Sequence[IntervalSet]) -> RankGrid:
        """Return the grid with a point whose band holds the middle of two ranks that differ too much.

        Parameters
        ----------
        ranks
            Of two groups at one threshold.
        intervals
            Of the same groups.
        """
        if self.kappa >= 1:
            return self  # no gap exceeds it: there is nothing to look at
        passed = np.array(ranks)
        if self.gap_scale == "interval":
            both = zip(intervals, ranks, strict=True)
            passed = np.array([interval.passed(np.array(rank)) for interval, rank in both])
        point = float(np.clip(passed.mean() - self.kappa / 2, 0.0, 1.0 - self.kappa))
        if self.gap_scale == "interval":
            point /= 1 - self.kappa
        if np.isclose(self.points, point, atol=_SAME_POINT).any():
            return self
        return replace(self, points=(*self.points, point))


@runtime_checkable
class OnAGrid(Protocol):
    """What a constraint may offer besides: it looks at a grid of ranks, which can be made finer."""

    @property
    def grid(self) -> RankGrid:
        """The points to look at so that the exact gap is at most κ, if they are close enough."""

    def on_grid(self, grid: RankGrid) -> Constraint:
        """Return the constraint at the points of another grid."""


def paper_points(n_points: int, interval: IntervalSet | None) -> Floats:
    """Return the paper's ``p_j = α + j(β − α)/N``, and without an interval those with the best guarantee.

    These, ``j / (N + 1)`` on the interval scale, guarantee a gap of κ plus one step of the grid.
    """
    if interval is None:
        return np.arange(1, n_points + 1) / (n_points + 1)
    return interval.rank_at(np.arange(n_points) / n_points, side="right")


def _merged(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return increasing intervals with those that overlap joined."""
    joined = [intervals[0]]
    for low, high in intervals[1:]:
        if low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined
