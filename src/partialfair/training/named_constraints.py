"""One record per named constraint: its class, and the metric that it bounds.

Everything else follows from the record: the name in estimators and on the command line, the exact gap by
which fits and paths are evaluated, whether the constraint needs labels or a threshold (a property of the
metric), and which constraint classes a saved model may hold. Before a fit, this is the only module that
imports both `partialfair.constraints` and `partialfair.metrics`.

Constraints without a record, such as those of other packages, have no exact metric: they are passed to
estimators as objects, and their gap is not evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from partialfair.constraints import (
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    GroupAUC,
    StatisticalParity,
)
from partialfair.constraints.base import Constraint
from partialfair.data.groups import Groups, group_name
from partialfair.data.intervals import IntervalSet, intervals_by_group
from partialfair.exceptions import InputError
from partialfair.metrics.catalogue import METRICS, Metric
from partialfair.metrics.choice import choose_interval
from partialfair.metrics.inputs import GroupScores, ScoredGroups, Setting, sorted_group
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import Counts, WeightedScores
from partialfair.optimization.problems.rows import map_in_threads
from partialfair.utils.typing import Bools, Floats, GroupLabel, Ints

# Number of scores above which groups are sorted in threads.
_LARGE = 100_000

NO_CONSTRAINT = "none"
"""The command line's name for a model without constraint; no constraint may have this name."""


@dataclass(frozen=True)
class NamedConstraint:
    """The name and the metric of a constraint class.

    Attributes
    ----------
    name
        Name in estimators, files and on the command line.
    kind
        The class. Its fields that estimators have as parameters (``interval``, ``max_gap``, ``gap_scale``,
        ``threshold``, and ``n_points`` in their options) are set from these; others keep their defaults.
    metric
        Name in `METRICS` of the gap that it bounds and by which fits, paths and reports evaluate it.
    """

    name: str
    kind: type[Constraint]
    metric: str

    @property
    def bounded(self) -> Metric:
        """The metric record."""
        return METRICS[self.metric]

    def gap(self, scored: ScoredGroups, constraint: Constraint) -> WorstGap:
        """Return the exact gap that a constraint of this kind limits."""
        return self.bounded.gap(scored, setting_of(constraint))


NAMED_CONSTRAINTS: dict[str, NamedConstraint] = {}
"""Records by name; `register_constraint` adds one."""


def register_constraint(record: NamedConstraint) -> None:
    """Register a constraint's name and metric; raise `InputError` if they cannot be trained or evaluated.

    A class that is defined again, as in cells of a notebook, replaces the former.
    """
    kind = record.kind
    if not (isinstance(kind, type) and issubclass(kind, Constraint)):
        raise InputError(f"a named constraint needs a subclass of Constraint, not {kind!r}")
    if not record.name.isidentifier() or record.name == NO_CONSTRAINT:
        raise InputError(f"{record.name!r} cannot be a constraint's name; use a word such as 'mean_scores'")
    if record.metric not in METRICS:
        raise InputError(
            f"{record.name!r} bounds {record.metric!r}, which is not a metric; add an entry to METRICS first"
        )
    if record.bounded.needs_threshold and "threshold" not in {field.name for field in fields(kind)}:
        raise InputError(f"{record.metric!r} needs a threshold, and {kind.__name__} has no such field")
    for other in NAMED_CONSTRAINTS.values():
        same_kind = (other.kind.__module__, other.kind.__qualname__) == (kind.__module__, kind.__qualname__)
        if (other.name == record.name) != same_kind:
            raise InputError(
                f"{other.name!r} is the name of {other.kind.__name__}, so {record.name!r} cannot be that of "
                f"{kind.__name__}: a name has one class, and a class has one name"
            )
    NAMED_CONSTRAINTS[record.name] = record


def make_known(record: NamedConstraint, metric: Metric) -> None:
    """Register the record of another process; here it may be unknown, or an older class of that name."""
    METRICS[record.metric] = metric
    NAMED_CONSTRAINTS[record.name] = record


def record_of(constraint: Constraint) -> NamedConstraint | None:
    """Return the record of exactly this class; subclasses may bound something else."""
    return next((one for one in NAMED_CONSTRAINTS.values() if one.kind is type(constraint)), None)


def setting_of(constraint: Constraint) -> Setting:
    """Return the setting in which a metric evaluates what a constraint limits.

    Constraints that compare rows with the same label count ranks among those rows. The other metrics use the
    definition's ranking within the group.
    """
    record = record_of(constraint)
    by_label = record is not None and record.bounded.needs_labels
    return Setting(
        constraint.gap_scale,
        getattr(constraint, "threshold", None),
        "group_and_label" if by_label else "group",
    )


class Automatic(tuple[float, float]):
    """A placeholder for an interval that is chosen when the unconstrained scores are known."""

    __slots__ = ()


def place_intervals(
    constraints: Sequence[Constraint],
    counts: Counts,
    labels: Sequence[GroupLabel],
    min_group_size: float,
) -> tuple[Constraint, ...]:
    """Return the constraints with automatic intervals chosen by the scores of the unconstrained model.

    This is `choose_interval` (appendix "How to choose I for classification problem"), with the proportion of
    scores above 0 as the rate of positive decisions, for the groups that are large enough to be constrained.
    """
    if not any(isinstance(one.interval, Automatic) for one in constraints):
        return tuple(constraints)
    weighted = counts.weighted
    # Rows without a group belong to none of the curves that are compared.
    known = weighted.codes >= 0
    names = np.array([group_name(label) for label in labels], dtype=object)
    choice = choose_interval(
        weighted.scores[known],
        sensitive_features=names[weighted.codes[known]],
        threshold=0.0,
        sample_weight=weighted.weights[known],
        min_group_size=min_group_size,
    )
    return tuple(
        replace(one, interval=choice.interval) if isinstance(one.interval, Automatic) else one
        for one in constraints
    )


@dataclass(frozen=True, eq=False)
class ExactGap:
    """The exact gap of a constraint for several models; rows are sorted into groups once.

    Attributes
    ----------
    constraint
        The constraint on the groups below.
    labels, rows, intervals
        The groups, the indices of their scores, and their intervals.
    """

    constraint: Constraint
    labels: Sequence[GroupLabel]
    rows: Sequence[Ints]
    intervals: Sequence[IntervalSet]

    @classmethod
    def of(cls, constraint: Constraint, groups: Groups) -> ExactGap:
        """Return the gap for scores of these groups; rows without a group are left out."""
        rows = [np.flatnonzero(groups.codes == code) for code in range(len(groups.labels))]
        return cls(
            constraint, groups.labels, rows, intervals_by_group(constraint.interval, list(groups.labels))
        )

    def measure(self, counts: WeightedScores) -> WorstGap:
        """Return the gap, with the two groups that differ most and where they differ.

        A constraint without a `NamedConstraint` has no exact metric: its exact gap is nan.
        """
        record = record_of(self.constraint)
        if record is None:
            return WorstGap(float("nan"), (None, None))
        # At one threshold nothing has to be sorted: the numbers above and below it are enough.
        threshold = setting_of(self.constraint).threshold if record.bounded.of_selected else None
        positive = counts.positive if record.bounded.needs_labels else None

        def count(group: tuple[GroupLabel, IntervalSet, Ints]) -> GroupScores:
            label, interval, rows = group
            scores, weights = counts.scores[rows], counts.weights[rows]
            labels = None if positive is None else positive[rows]
            if threshold is not None:
                return _count_selected(label, interval, scores, weights, labels, threshold)
            equal = np.ptp(weights) == 0  # equal weights can be omitted
            return sorted_group(label, interval, scores, None if equal else weights, labels)

        groups = list(zip(self.labels, self.intervals, self.rows, strict=True))
        scored = map(count, groups) if counts.scores.size < _LARGE else map_in_threads(count, groups)
        return record.gap(ScoredGroups(tuple(scored)), self.constraint)


def _count_selected(
    label: GroupLabel,
    interval: IntervalSet,
    scores: Floats,
    weights: Floats,
    positive: Bools | None,
    threshold: float,
) -> GroupScores:
    """Count the weight of a group above and below a threshold, by label if there are labels."""
    above = scores > threshold
    labels = np.zeros(above.size, dtype=bool) if positive is None else positive
    sums = np.bincount(2 * above + labels, weights=weights, minlength=4).astype(np.float64)
    # At most four numbers describe the group: above or not, positive or not.
    cells = np.flatnonzero(sums)
    # Any two scores on the two sides of the threshold are enough.
    two_scores = np.where(cells >= 2, np.nextafter(threshold, np.inf), threshold)
    return GroupScores(label, interval, two_scores, sums[cells], None if positive is None else cells % 2 == 1)


register_constraint(NamedConstraint("statistical_parity", StatisticalParity, metric="statistical_parity"))
register_constraint(NamedConstraint("demographic_parity", DemographicParity, metric="demographic_parity"))
register_constraint(NamedConstraint("group_auc", GroupAUC, metric="group_auc"))
register_constraint(NamedConstraint("equal_opportunity", EqualOpportunity, metric="equal_opportunity"))
register_constraint(NamedConstraint("equalized_odds", EqualizedOdds, metric="equalized_odds"))
