"""Compares two frontiers at fixed test gaps, and checks the limits of the trees benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _equal_gaps import Paired

LEVELS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
"""Test gaps at which frontiers are compared."""
MEASURES = ("accuracy", "auc")
ACCURACY_BAR, TABLES_BAR = 0.003, 3
"""Required gain in accuracy of trees over linear models, and the number of tables with that gain."""

Point = dict[str, float]
"""Test gap, accuracy, AUC and seconds of a model."""
Frontier = Sequence[Point]


def read_at(points: Frontier, level: float, measure: str) -> float:
    """Return accuracy or AUC at a test gap: the best of models with at most that gap, or between two models.

    nan if every model has a larger gap.
    """
    ordered = sorted(points, key=lambda point: point["gap"])
    gaps = [point["gap"] for point in ordered]
    best = np.maximum.accumulate([point[measure] for point in ordered])
    return float(np.interp(level, gaps, best)) if gaps[0] <= level else float("nan")


@dataclass(frozen=True)
class Difference:
    """Gain of the second of two frontiers at a test gap, over the splits in which both reach it.

    Attributes
    ----------
    level
        The test gap.
    paired
        Mean and standard error.
    reached, splits
        Number of splits in which both frontiers have a model with at most that gap, and of all splits.
    """

    level: float
    paired: Paired
    reached: int
    splits: int

    @property
    def counts(self) -> bool:
        """Whether at least half of the splits reach the level; a minority may do so by chance."""
        return self.reached > 0 and 2 * self.reached >= self.splits

    def __str__(self) -> str:
        if not self.counts:
            return f"reached in {self.reached} of {self.splits}"
        some = "" if self.reached == self.splits else f" ({self.reached} of {self.splits})"
        return f"{told(self.paired)}{some}"


def told(paired: Paired) -> str:
    """Return a mean and its standard error, which is nan for one split."""
    return f"{paired.mean:+.4f}" + ("" if np.isnan(paired.error) else f" ± {paired.error:.4f}")


def differences(before: Sequence[Frontier], after: Sequence[Frontier], measure: str) -> list[Difference]:
    """Return the differences at all levels; frontiers are given split by split."""
    found = []
    for level in LEVELS:
        pairs = zip(before, after, strict=True)
        by_split = [read_at(b, level, measure) - read_at(a, level, measure) for a, b in pairs]
        reached = [difference for difference in by_split if np.isfinite(difference)]
        found.append(Difference(level, Paired.of(reached), len(reached), len(by_split)))
    return found


@dataclass(frozen=True)
class Verdict:
    """Whether trees meet the limits on a table and a scale, at the levels that count."""

    accuracy: tuple[Difference, ...]
    auc: tuple[Difference, ...]

    @classmethod
    def on(cls, before: Sequence[Frontier], after: Sequence[Frontier]) -> Verdict:
        """Compare two frontiers, given split by split."""
        both = (differences(before, after, measure) for measure in MEASURES)
        return cls(*(tuple(found for found in of_measure if found.counts) for of_measure in both))

    @property
    def not_worse(self) -> bool:
        """Whether no accuracy is below that of linear models by more than a standard error."""
        return bool(self.accuracy) and not any(map(_is_worse, self.accuracy))

    @property
    def well_above(self) -> bool:
        """Whether every accuracy exceeds that of linear models by the required gain."""
        return bool(self.accuracy) and all(found.paired.mean >= ACCURACY_BAR for found in self.accuracy)

    @property
    def auc_above(self) -> bool:
        """Whether every AUC is higher."""
        return bool(self.auc) and all(found.paired.mean > 0 for found in self.auc)

    def row(self) -> dict[str, str]:
        """Return the row of the summary."""
        worse = [f"at {found.level:g} {told(found.paired)}" for found in self.accuracy if _is_worse(found)]
        return {
            "levels judged": ", ".join(f"{found.level:g}" for found in self.accuracy) or "none",
            "accuracy ≥ linear − 1 standard error": ", ".join(["no", *worse])
            if not self.not_worse
            else "yes",
            f"accuracy ≥ linear + {ACCURACY_BAR:g}": f"{_answer(self.well_above)}, {_means(self.accuracy)}",
            "AUC above": f"{_answer(self.auc_above)}, {_means(self.auc)}",
        }


def _is_worse(found: Difference) -> bool:
    """Whether accuracy is lower by more than a standard error, or lower at all with a single split."""
    return found.paired.mean < -np.nan_to_num(found.paired.error)


def _answer(cleared: bool) -> str:
    return "yes" if cleared else "no"


def _means(found: Sequence[Difference]) -> str:
    means = [one.paired.mean for one in found]
    return f"{np.mean(means):+.4f} on average, least {min(means):+.4f}" if means else "not reached"


def overall(verdicts: dict[tuple[str, str], Verdict]) -> dict[str, str]:
    """Return the last row of the summary: a table meets a limit if it does so on both scales."""
    tables = list(dict.fromkeys(table for table, _ in verdicts))
    every = [[verdict for (name, _), verdict in verdicts.items() if name == table] for table in tables]
    counts: dict[str, Any] = {
        what: sum(all(getattr(one, what) for one in own) for own in every)
        for what in ("not_worse", "well_above", "auc_above")
    }
    n = len(tables)
    return {
        "levels judged": "",
        "accuracy ≥ linear − 1 standard error": f"{counts['not_worse']} of {n}, asked for: all",
        f"accuracy ≥ linear + {ACCURACY_BAR:g}": f"{counts['well_above']} of {n}, asked for: {TABLES_BAR}",
        "AUC above": f"{counts['auc_above']} of {n}, asked for: all",
    }
