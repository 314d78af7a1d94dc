"""Compares two frontiers at equal test gaps, split by split, and averages the differences over splits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

N_LEVELS = 9
"""Number of gaps at which two frontiers are compared, evenly spaced over their common range."""
LEAST_OVERLAP = 0.1
"""Smallest common range of two frontiers, relative to the range that either covers."""

Point = tuple[float, float]
"""Test gap and test accuracy of a fit."""


@dataclass(frozen=True)
class Levels:
    """Mean accuracies of two frontiers at the same gaps, and the range of these gaps."""

    before: float
    after: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """The mean accuracy after minus the mean accuracy before."""
        return self.after - self.before


def at_equal_gaps(before: Iterable[Point], after: Iterable[Point]) -> Levels | None:
    """Return two frontiers at common gaps, or None if their ranges hardly overlap."""
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
    """Return increasing gaps and the accuracies there; fits with equal gaps are averaged."""
    gaps, accuracies = np.array(list(points), dtype=float).T
    distinct, which = np.unique(gaps, return_inverse=True)
    return distinct, np.bincount(which, accuracies) / np.bincount(which)


@dataclass(frozen=True)
class Paired:
    """A mean difference over splits with its standard error, which needs two splits."""

    mean: float
    error: float

    @classmethod
    def of(cls, differences: Iterable[float]) -> Paired:
        """Return the mean and the standard error of one difference per split."""
        values = np.array(list(differences), dtype=float)
        if values.size == 0:
            return cls(math.nan, math.nan)
        error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
        return cls(float(values.mean()), float(error))

    @property
    def in_errors(self) -> float:
        """The mean divided by the standard error, or 0 if all differences are 0."""
        if self.mean == self.error == 0:
            return 0.0
        return self.mean / self.error if self.error else math.copysign(math.inf, self.mean)


def overall(tables: Mapping[str, Mapping[Any, Mapping[int, float]]]) -> Paired:
    """Return the mean over all rows of all tables, with its standard error.

    Rows of a table share their splits, so they are averaged within each split first; tables are independent.
    With R_t rows and the paired mean m_t ± e_t of table t, the mean is ``Σ R_t m_t / Σ R_t`` and its standard
    error is ``√(Σ (R_t e_t)²) / Σ R_t``.

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
