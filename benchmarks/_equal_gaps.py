"""Accuracy at equal test gap: two frontiers of one split, and what the differences of all splits come to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

N_LEVELS = 9
"""Gaps at which two frontiers are compared, evenly spaced over what both cover, ends included."""
LEAST_OVERLAP = 0.1
"""What both cover must be at least this share of what either covers: less is no comparison."""

Point = tuple[float, float]
"""Test gap and test accuracy of a fit."""


@dataclass(frozen=True)
class Levels:
    """Two frontiers at the same gaps: mean accuracy of each, and from which gap to which."""

    before: float
    after: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """How much more accurate it is after."""
        return self.after - self.before


def at_equal_gaps(before: Iterable[Point], after: Iterable[Point]) -> Levels | None:
    """Return two frontiers at the gaps that both cover; None where they hardly overlap."""
    frontiers = [_frontier(points) for points in (before, after)]
    ends = np.array([(gaps[0], gaps[-1]) for gaps, _ in frontiers])
    low, high = float(ends[:, 0].max()), float(ends[:, 1].min())
    either = float(ends[:, 1].max() - ends[:, 0].min())
    if high <= low or high - low < LEAST_OVERLAP * either:
        return None
    levels = np.linspace(low, high, N_LEVELS)
    means = [float(np.interp(levels, *frontier).mean()) for frontier in frontiers]
    return Levels(means[0], means[1], low, high)


def _frontier(points: Iterable[Point]) -> tuple[Any, Any]:
    """Return gaps in rising order, and the accuracies there; fits with one gap count as one, their mean."""
    gaps, accuracies = np.array(list(points), dtype=float).T
    distinct, which = np.unique(gaps, return_inverse=True)
    return distinct, np.bincount(which, accuracies) / np.bincount(which)


@dataclass(frozen=True)
class Paired:
    """A mean difference over splits with its standard error, which takes two splits."""

    mean: float
    error: float

    @classmethod
    def of(cls, differences: Iterable[float]) -> Paired:
        """Return the mean and the standard error of differences, one of each split."""
        values = np.array(list(differences), dtype=float)
        if values.size == 0:
            return cls(math.nan, math.nan)
        error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
        return cls(float(values.mean()), float(error))

    @property
    def in_errors(self) -> float:
        """The mean in standard errors; 0 where nothing differs in any split."""
        if self.mean == self.error == 0:
            return 0.0
        return self.mean / self.error if self.error else math.copysign(math.inf, self.mean)


def overall(tables: Mapping[str, Mapping[Any, Mapping[int, float]]]) -> Paired:
    """Return the mean over all rows of all tables, with its standard error.

    Rows of a table share their splits, so that they are averaged within each split first; tables are
    independent. With R_t rows and the paired mean m_t ± e_t of table t it is ``Σ R_t m_t / Σ R_t`` with the
    error ``√(Σ (R_t e_t)²) / Σ R_t``.

    Parameters
    ----------
    tables
        Differences by table, row and split.
    """
    weights, means, errors = [], [], []
    for rows in tables.values():
        splits = sorted({split for row in rows.values() for split in row})
        by_split = [np.mean([row[split] for row in rows.values() if split in row]) for split in splits]
        if len(splits) > 1:
            paired = Paired.of(by_split)
            weights.append(sum(bool(row) for row in rows.values()))
            means.append(paired.mean)
            errors.append(paired.error)
    if not weights:
        return Paired(math.nan, math.nan)
    shares = np.array(weights) / sum(weights)
    return Paired(float(shares @ means), float(np.linalg.norm(shares * errors)))
