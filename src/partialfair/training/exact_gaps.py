"""The referee as seen from an estimator: the exact gap of a constraint on given scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from partialfair.constraints import Constraint
from partialfair.data.groups import Groups
from partialfair.data.intervals import IntervalSet, intervals_by_group
from partialfair.metrics.inputs import GroupScores, ScoredGroups, sorted_group
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import WeightedScores
from partialfair.optimization.problems.rows import map_in_threads
from partialfair.training.named_constraints import NamedConstraint, record_of, setting_of
from partialfair.utils.typing import GroupLabel, Ints

__all__ = ["Referee"]

_LARGE = 100_000
"""Scores from which on groups are sorted in threads."""


@dataclass(frozen=True, eq=False)
class Referee:
    """Judges one model after the other by the same constraint: who belongs to which group is looked up once.

    Attributes
    ----------
    constraint
        What is to be judged, on the groups below.
    labels, rows
        The groups, and which of the counted scores are theirs.
    """

    constraint: Constraint
    labels: Sequence[GroupLabel]
    rows: Sequence[Ints]

    @classmethod
    def of(cls, constraint: Constraint, groups: Groups) -> Referee:
        """Return the referee of scores that belong to these groups; rows of none are left out."""
        rows = [np.flatnonzero(groups.codes == code) for code in range(len(groups.labels))]
        return cls(constraint, groups.labels, rows)

    def gap(self, counts: WeightedScores) -> WorstGap:
        """Return the exact gap, with the worst pair and where they differ.

        A constraint without a `NamedConstraint` bounds no metric: it is trained, but its exact gap is nan.
        """
        record = self._record
        if record is None:
            return WorstGap(float("nan"), (None, None))
        if not record.bounded.needs_labels:
            counts = replace(counts, positive=None)
        threshold = setting_of(self.constraint).threshold
        counted = _sorted if threshold is None or not record.bounded.of_selected else _selected(threshold)

        def scored(group: tuple[GroupLabel, IntervalSet, Ints]) -> GroupScores:
            label, interval, rows = group
            return counted(label, interval, _of(counts, rows))

        groups = list(zip(self.labels, self._intervals, self.rows, strict=True))
        scores = map(scored, groups) if counts.scores.size < _LARGE else map_in_threads(scored, groups)
        return record.gap(ScoredGroups(tuple(scores)), self.constraint)

    @cached_property
    def _record(self) -> NamedConstraint | None:
        return record_of(self.constraint)

    @cached_property
    def _intervals(self) -> tuple[IntervalSet, ...]:
        return intervals_by_group(self.constraint.interval, list(self.labels))


def _of(counts: WeightedScores, rows: Ints) -> WeightedScores:
    """Return what is counted of some rows."""
    positive = None if counts.positive is None else counts.positive[rows]
    return WeightedScores(counts.scores[rows], counts.weights[rows], counts.codes[rows], positive)


def _sorted(label: GroupLabel, interval: IntervalSet, counts: WeightedScores) -> GroupScores:
    """Sort the scores of a group; equal weights need not be carried along."""
    weights = None if np.ptp(counts.weights) == 0 else counts.weights
    return sorted_group(label, interval, counts.scores, weights, counts.positive)


def _selected(threshold: float) -> Callable[[GroupLabel, IntervalSet, WeightedScores], GroupScores]:
    """Count who of a group is above a threshold, by label if there are labels: nothing has to be sorted."""

    def counted(label: GroupLabel, interval: IntervalSet, counts: WeightedScores) -> GroupScores:
        above = counts.scores > threshold
        labels = np.zeros(above.size, dtype=bool) if counts.positive is None else counts.positive
        weights = np.bincount(2 * above + labels, weights=counts.weights, minlength=4).astype(np.float64)
        cells = np.flatnonzero(weights)
        scores = np.where(cells >= 2, np.nextafter(threshold, np.inf), threshold)
        positive = None if counts.positive is None else cells % 2 == 1
        return GroupScores(label, interval, scores, weights[cells], positive)

    return counted
