"""The referee as seen from an estimator: the exact gap of a constraint on given scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partialfair._typing import GroupLabel, Ints
from partialfair.constraints import Constraint
from partialfair.groups import Groups
from partialfair.intervals import intervals_by_group
from partialfair.metrics._inputs import ScoredGroups, sorted_group
from partialfair.metrics.partial import WorstGap
from partialfair.named_constraints import record_of
from partialfair.problems import Counts

__all__ = ["Referee"]


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

    def gap(self, counts: Counts) -> WorstGap:
        """Return the exact gap, with the worst pair and where they differ.

        A constraint without a `NamedConstraint` bounds no metric: it is trained, but its exact gap is nan.
        """
        record = record_of(self.constraint)
        if record is None:
            return WorstGap(float("nan"), (None, None))
        return record.gap(self._scored(counts, labelled=record.bounded.needs_labels), self.constraint)

    def _scored(self, counts: Counts, labelled: bool) -> ScoredGroups:
        """Sort the scores of each group; labels are carried along if the metric needs them."""
        weights = None if np.ptp(counts.weights) == 0 else counts.weights
        intervals = intervals_by_group(self.constraint.interval, list(self.labels))
        return ScoredGroups(
            tuple(
                sorted_group(
                    label,
                    part,
                    counts.scores[rows],
                    None if weights is None else weights[rows],
                    counts.positive[rows] if labelled and counts.positive is not None else None,
                )
                for label, rows, part in zip(self.labels, self.rows, intervals, strict=True)
            )
        )
