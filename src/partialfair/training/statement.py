"""What a fit is asked for: rows, loss and penalty, and constraints on the groups that are large enough.

A constraint as the user wrote it becomes one on the groups of some rows (`GroupedConstraint`), whose exact
gap decides whether a model is feasible. It is measured by `partialfair.metrics`, never by the formulas that
train.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from partialfair.constraints import Constraint, ConstraintBlock, check_compatible, join
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import Groups, enough, group_name, members_text
from partialfair.data.intervals import IntervalSet, band_weights, intervals_by_group
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics.choice import choose_interval
from partialfair.metrics.inputs import GroupScores, ScoredGroups, sorted_group
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.objectives import Objective
from partialfair.optimization.problems import Box, Cells, Counts, Problem, TrainingData, WeightedScores
from partialfair.optimization.problems.rows import map_in_threads
from partialfair.training.named_constraints import record_of, setting_of
from partialfair.utils.checks import shown
from partialfair.utils.text import listed
from partialfair.utils.typing import Bools, Floats, GroupLabel, Ints

# Scores from which on groups are sorted in threads.
_LARGE = 100_000


class Automatic(tuple[float, float]):
    """An interval that stands for one that is chosen when the unconstrained scores are known."""

    __slots__ = ()


def place_intervals(
    constraints: Sequence[Constraint], counts: Counts, labels: Sequence[GroupLabel]
) -> tuple[Constraint, ...]:
    """Return the constraints, automatic intervals chosen by the scores of the unconstrained model (App. B).

    That is `choose_interval` with the share of scores above 0 as the rate of positive decisions.
    """
    if not any(isinstance(one.interval, Automatic) for one in constraints):
        return tuple(constraints)
    weighted = counts.weighted
    known = weighted.codes >= 0
    names = np.array([group_name(label) for label in labels], dtype=object)
    choice = choose_interval(
        weighted.scores[known],
        sensitive_features=names[weighted.codes[known]],
        threshold=0.0,
        sample_weight=weighted.weights[known],
    )
    return tuple(
        replace(one, interval=choice.interval) if isinstance(one.interval, Automatic) else one
        for one in constraints
    )


@dataclass(frozen=True, eq=False)
class ExactGap:
    """The exact gap of a constraint, of one model after the other: rows are sorted into groups once.

    Attributes
    ----------
    constraint
        What bounds the gap, on the groups below.
    labels, rows, intervals
        The groups, which of the counted scores are theirs, and their intervals.
    """

    constraint: Constraint
    labels: Sequence[GroupLabel]
    rows: Sequence[Ints]
    intervals: Sequence[IntervalSet]

    @classmethod
    def of(cls, constraint: Constraint, groups: Groups) -> ExactGap:
        """Return the gap of scores that belong to these groups; rows of none are left out."""
        rows = [np.flatnonzero(groups.codes == code) for code in range(len(groups.labels))]
        return cls(
            constraint, groups.labels, rows, intervals_by_group(constraint.interval, list(groups.labels))
        )

    def measure(self, counts: WeightedScores) -> WorstGap:
        """Return the gap, with the worst pair and where they differ.

        A constraint without a `NamedConstraint` bounds no metric: it is trained, but its exact gap is nan.
        """
        record = record_of(self.constraint)
        if record is None:
            return WorstGap(float("nan"), (None, None))
        # At one threshold nothing has to be sorted: numbers above it and below it are enough.
        threshold = setting_of(self.constraint).threshold if record.bounded.of_selected else None
        positive = counts.positive if record.bounded.needs_labels else None

        def count(group: tuple[GroupLabel, IntervalSet, Ints]) -> GroupScores:
            label, interval, rows = group
            scores, weights = counts.scores[rows], counts.weights[rows]
            labels = None if positive is None else positive[rows]
            if threshold is not None:
                return _count_selected(label, interval, scores, weights, labels, threshold)
            equal = np.ptp(weights) == 0  # equal weights need not be carried along
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
    cells = np.flatnonzero(sums)
    two_scores = np.where(cells >= 2, np.nextafter(threshold, np.inf), threshold)
    return GroupScores(label, interval, two_scores, sums[cells], None if positive is None else cells % 2 == 1)


@dataclass(frozen=True, eq=False)
class GroupedConstraint:
    """A constraint, on those groups of some rows that are large enough for it.

    Attributes
    ----------
    stated
        The constraint as the user wrote it.
    all_groups
        The groups of all rows.
    is_large : (n_groups,)
        Which of them are large enough.
    small
        Groups that are too small, with their effective members in the interval.
    min_group_size
        Members from which on a group is large enough.
    n_rows : (n_groups,)
        Number of rows of each group.
    """

    stated: Constraint
    all_groups: Groups
    is_large: Bools
    small: dict[GroupLabel, float]
    min_group_size: float
    n_rows: Floats
    _gap_of: list[tuple[Ints, ExactGap]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def groups(self) -> Groups:
        """Group of every cell; −1 for those of groups that are too small, which count in the loss only."""
        return self.all_groups if self.is_large.all() else self.all_groups.only(self.is_large)

    @cached_property
    def constraint(self) -> Constraint:
        """The constraint on the groups that are large enough."""
        return self.stated.among(self.groups.labels)

    @cached_property
    def has_metric(self) -> bool:
        """Whether it bounds an exact metric."""
        return record_of(self.constraint) is not None

    @property
    def is_in_scores(self) -> bool:
        """Whether it bounds a difference of scores, and not one of proportions."""
        record = record_of(self.constraint)
        return record is not None and record.bounded.in_scores

    def groups_of(self, counts: WeightedScores) -> Groups:
        """Return the groups that scores belong to, among those that are large enough."""
        return Groups(counts.codes, self.all_groups.labels).only(self.is_large)

    def gap(self, counts: WeightedScores) -> WorstGap:
        """Return the exact gap."""
        # Models of the same rows share the array of codes, and with it the sorting into groups.
        if not self._gap_of or self._gap_of[0][0] is not counts.codes:
            self._gap_of[:] = [(counts.codes, ExactGap.of(self.constraint, self.groups_of(counts)))]
        return self._gap_of[0][1].measure(counts)

    def inside(self, counts: WeightedScores) -> Bools:
        """Return which scores are in the interval, or tie with one that is."""
        groups, inside = self.groups_of(counts), np.zeros(counts.scores.size, dtype=bool)
        for code, interval in enumerate(self.constraint.intervals(groups)):
            rows = np.flatnonzero(groups.codes == code)
            inside[rows] = band_weights(counts.scores[rows], counts.weights[rows], interval) > 0
        return inside

    def effective_members(self, cells: Cells) -> Floats:
        """Return the effective number of members of each group in the interval."""
        return self.constraint.effective_members(self.groups, cells.weights, cells.positive, cells.squares)

    def describe_small(self) -> str:
        """Say which groups are too small, and how small."""
        sizes = [
            f"{shown(group_name(label), 60)} has {members_text(size, too_few=True)}"
            for label, size in self.small.items()
        ]
        return f"group {listed(sizes)} effective {self.stated.counted} in the interval"


def group_constraints(
    constraints: Sequence[Constraint], groups: Groups, cells: Cells, min_group_size: float
) -> tuple[GroupedConstraint, ...]:
    """Tie constraints to groups, without those that have too few effective members in the interval.

    Rows that have no weight must be left out before.
    """
    inside = groups.codes >= 0
    counts = None if cells.counts is None else cells.counts[inside]
    n_rows = np.bincount(groups.codes[inside], counts, len(groups.labels)).astype(np.float64)
    grouped = []
    for stated in constraints:
        members = stated.effective_members(groups, cells.weights, cells.positive, cells.squares)
        sizes = dict(zip(groups.labels, members.tolist(), strict=True))
        small = {label: size for label, size in sizes.items() if not enough(size, min_group_size)}
        is_large = np.array([label not in small for label in groups.labels])
        grouped.append(GroupedConstraint(stated, groups, is_large, small, min_group_size, n_rows))
    return tuple(grouped)


def check_groups(constraints: Sequence[GroupedConstraint]) -> None:
    """Refuse constraints that compare fewer than two groups, and those that exclude each other."""
    for one in constraints:
        if len(one.groups.labels) < 2:
            large = [shown(name) for name in one.groups.names]
            which = f"only group {large[0]} is" if large else "no group is"
            raise InputError(
                f"{which} large enough for {one.stated.says()}, which compares at least two: "
                f"{one.describe_small()}, and min_group_size={one.min_group_size:g}; widen the interval, "
                "merge groups or lower min_group_size"
            )
    for one, other in combinations(constraints, 2):
        common = [label for label in one.groups.labels if label in other.groups.labels]
        members = np.isin(one.groups.codes, [one.groups.labels.index(label) for label in common])
        check_compatible([one.stated.among(common), other.stated.among(common)], one.groups.take(members))


def small_group_warning(constraints: Sequence[GroupedConstraint]) -> SmallGroupWarning | None:
    """Name the groups that are too small for some constraint; None if there are none."""
    sentences = [f"{one.describe_small()} of {type(one.stated).__name__}" for one in constraints if one.small]
    if not sentences:
        return None
    return SmallGroupWarning(
        f"{'; '.join(sentences[:3])}: with fewer than min_group_size={constraints[0].min_group_size:g} a "
        "group is not judged; its rows count in the loss, and the promise leaves it out"
    )


def measure_gap(
    stated: Constraint,
    rows: WeightedScores,
    labels: Sequence[GroupLabel],
    *,
    min_group_size: float,
    higher_is_better: bool,
) -> tuple[Constraint, WorstGap]:
    """Return a constraint, with an interval that is chosen by scores filled in, and its exact gap.

    Parameters
    ----------
    stated
        The constraint, in the units of the scores.
    rows, labels
        Scores with their weights, groups and positives, and the groups' labels.
    min_group_size
        Members in the interval from which on a group is large enough.
    higher_is_better
        Whether ranks are counted from the highest score.
    """
    sign = 1.0 if higher_is_better else -1.0
    counts = replace(rows, scores=sign * rows.scores)
    placed = place_intervals([stated.in_units(sign)], counts, labels)
    cells = Cells(counts.weights, counts.codes, counts.positive)
    (one,) = group_constraints(placed, Groups(counts.codes, tuple(labels)), cells, min_group_size)
    worst = one.gap(counts)
    return placed[0].in_units(sign), replace(worst, threshold=sign * worst.threshold)


@dataclass(frozen=True, eq=False)
class Training:
    """What stays the same while a fit tries models.

    Attributes
    ----------
    data
        The rows, wherever they lie.
    objective, alpha
        Loss, and penalty of each penalized parameter.
    groups
        Groups of the rows (or cells).
    tol
        ε of the KKT certificate.
    box
        Where parameters may lie; None: anywhere. Thresholds always may.
    constraints
        What is bounded, and among which groups; none for the unconstrained model.
    """

    data: TrainingData
    objective: Objective
    alpha: Floats
    groups: Groups
    tol: float
    box: Box | None = None
    constraints: tuple[GroupedConstraint, ...] = ()

    @property
    def cells(self) -> Cells:
        """What constraints are tied to: rows, or cells of rows."""
        assert self.data.cells is not None
        return self.data.cells

    @property
    def max_gaps(self) -> Floats:
        """The limits."""
        return np.array([one.constraint.max_gap for one in self.constraints])

    def blocks(self, trained: Sequence[Constraint], sigma: Surrogate | None) -> list[ConstraintBlock]:
        """Tie what is trained, one for each constraint, to the rows."""
        if sigma is None:
            return []
        return [
            one.build(grouped.groups, self.cells.weights, sigma, self.cells.positive)
            for one, grouped in zip(trained, self.constraints, strict=True)
        ]

    def problem(self, blocks: Sequence[ConstraintBlock]) -> Problem:
        """State the problem of the paper for some blocks of constraints; for none it is unconstrained."""
        joined = join(blocks)
        box = None if self.box is None else self.box.with_free(joined.joined_bank.n_theta)
        return Problem.about(self.data, self.objective, joined, self.alpha, box)

    def gaps(self, counts: Counts) -> tuple[WorstGap, ...]:
        """Return the exact gap of each constraint."""
        return tuple(counts.gap(one) for one in self.constraints)
