"""Layout of scores in figures: discrete values, their proportions, and the ends of the axis.

A density of grades 1 to 5 would show scores that do not occur. Scores are *discrete* if they take few values
and most members share their value with another. Then there is a bar at every value, and the part of a bar
inside the interval is the part of this block of ties whose ranks are, ``[F̄(v), F̄(v⁻)) ∩ I``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from partialfair.data.intervals import tie_ends
from partialfair.metrics.inputs import GroupScores, ScoredGroups
from partialfair.utils.typing import Floats

# On an axis of 400 pixels forty pairs of bars can still be distinguished; more values make a good density.
_MOST_VALUES = 40
# Thirty different scores of thirty rows are few values, but not discrete: at least half must be tied.
_LEAST_TIED = 0.5
# Fraction of the space of one value that its bars occupy.
_BAR_WIDTH = 0.8
# Scores are outliers if they lie beyond a group's first or last tenth by this many times the distance of the
# two. That is 9 standard deviations of normal scores: one outlier cannot compress the axis of all others.
_TAIL = 0.1
_FENCE = 3.0


@dataclass(frozen=True, eq=False)
class DiscreteScores:
    """The values that discrete scores take, and where their bars stand.

    Attributes
    ----------
    values : (m,)
        Ascending, of all groups.
    centres : (m,)
        Positions of the bars: the values, or 0, 1, ..., m − 1 where some values are too close together.
    """

    values: Floats
    centres: Floats

    @classmethod
    def of(cls, scored: ScoredGroups) -> DiscreteScores | None:
        """Return the values, or None if the scores are not discrete."""
        by_group = [group.scores[tie_ends(group.scores)[:-1]] for group in scored]
        if max(map(len, by_group)) > _MOST_VALUES:
            return None
        values = np.unique(np.concatenate(by_group))
        members = np.concatenate([np.searchsorted(values, group.scores) for group in scored])
        sizes = np.bincount(members, minlength=values.size)
        if values.size > _MOST_VALUES or sizes[sizes > 1].sum() < _LEAST_TIED * members.size:
            return None
        halves = values / 2  # the difference of two large scores may overflow
        crowded = np.diff(halves).min(initial=np.inf) * 2 * _MOST_VALUES < halves[-1] - halves[0]
        return cls(values, np.arange(float(values.size)) if crowded else values)

    @property
    def is_even(self) -> bool:
        """Whether values are equally spaced, so that distances on the axis are not those of scores."""
        return self.centres is not self.values

    @cached_property
    def room(self) -> float:
        """Space for the bars of one value."""
        # Scores that are all equal have a scale of their own size: 7 ± 0.35.
        alone = 0.1 * (abs(float(self.centres[0])) or 1.0)
        return float(np.diff(self.centres).min()) if self.centres.size > 1 else alone

    @property
    def width(self) -> float:
        """Width of all the bars of one value."""
        return _BAR_WIDTH * self.room

    @property
    def span(self) -> tuple[float, float]:
        """Where the axis begins and ends."""
        return float(self.centres[0] - self.room / 2), float(self.centres[-1] + self.room / 2)

    @cached_property
    def labels(self) -> list[str]:
        """The values with as many digits as distinguish them, and at least four where they have so many."""
        for digits in range(4, 18):
            labels = [f"{value:.{digits}g}" for value in self.values]
            if len(set(labels)) == len(labels):
                break
        return labels

    def shares(self, group: GroupScores) -> Floats:
        """Fraction of the group at each value; they add up to 1."""
        return np.asarray(-np.diff(self._ranks(group)))

    def shares_inside(self, group: GroupScores) -> Floats:
        """Fraction of the group that is at each value and inside its interval: ``|[F̄(v), F̄(v⁻)) ∩ I|``."""
        passed = group.interval.passed(self._ranks(group))
        return np.asarray(-np.diff(passed) * group.interval.measure)

    def _ranks(self, group: GroupScores) -> Floats:
        """Return F̄ just below the first value, which is 1, and at every value."""
        return np.concatenate([[1.0], group.rank(self.values)])

    def cuts(self, thresholds: npt.ArrayLike, higher_is_better: bool = True) -> Floats:
        """Return where to draw thresholds: between the selected bars and the others."""
        thresholds = np.asarray(thresholds, dtype=np.float64)
        drawn = np.interp(thresholds, self.values, self.centres)
        # A value at the threshold is selected neither by ">" nor by "<".
        n_passed = np.searchsorted(self.values, thresholds, side="right" if higher_is_better else "left")
        first, last = self.span
        low = np.concatenate([[first], self.centres + self.width / 2])[n_passed]
        high = np.concatenate([self.centres - self.width / 2, [last]])[n_passed]
        return np.asarray(np.clip(drawn, low, high))


def score_span(scored: ScoredGroups) -> tuple[float, float]:
    """Return the ends of an axis of scores; outliers may lie beyond them."""
    ends = np.array([_group_span(group.scores) for group in scored])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def _group_span(scores: Floats) -> tuple[float, float]:
    first, last = float(scores[0]), float(scores[-1])
    tail = int(_TAIL * (scores.size - 1))
    low, high = float(scores[tail]), float(scores[-1 - tail])
    if not high > low:  # most are tied: outliers are undefined
        return first, last
    reach = _FENCE * (high - low)  # infinite if it overflows: then there are no outliers
    inside = scores[(scores >= low - reach) & (scores <= high + reach)]
    return float(inside[0]), float(inside[-1])
