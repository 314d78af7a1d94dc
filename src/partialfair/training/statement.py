"""The problem that a fit solves: rows, loss, penalty, and constraints on the groups that are large enough.

A constraint as the user stated it becomes a constraint on the groups of some rows (`GroupedConstraint`). Its
exact gap decides whether a model is feasible; `partialfair.metrics` measures it, not the formulas that train.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from partialfair.constraints.base import Constraint, check_compatible
from partialfair.constraints.block import ConstraintBlock, join
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import Groups, enough, group_name, members_text
from partialfair.data.intervals import band_weights
from partialfair.exceptions import InputError
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.objectives import Objective
from partialfair.optimization.problems import (
    EVERYWHERE,
    Box,
    Cells,
    Counts,
    Problem,
    TrainingData,
    WeightedScores,
)
from partialfair.training.named_constraints import Automatic, ExactGap, place_intervals, record_of
from partialfair.utils.checks import shown
from partialfair.utils.text import listed
from partialfair.utils.typing import Bools, Floats, GroupLabel, Ints


@dataclass(frozen=True, eq=False)
class GroupedConstraint:
    """A constraint on those groups of some rows that are large enough.

    Attributes
    ----------
    stated
        The constraint as the user stated it.
    all_groups
        The groups of all rows.
    is_large : (n_groups,)
        Whether each group is large enough.
    small
        Groups that are too small, with their effective sample sizes in the interval.
    min_group_size
        Smallest effective sample size of a group.
    n_rows : (n_groups,)
        Number of rows of each group.
    is_adjoining
        Whether the constraint limits the gap next to a stated interval and was not stated itself.
    """

    stated: Constraint
    all_groups: Groups
    is_large: Bools
    small: dict[GroupLabel, float]
    min_group_size: float
    n_rows: Floats
    is_adjoining: bool = False
    _gap_of: list[tuple[Ints, ExactGap]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def groups(self) -> Groups:
        """Group of every cell; −1 for cells of groups that are too small, which count in the loss only."""
        return self.all_groups if self.is_large.all() else self.all_groups.only(self.is_large)

    @cached_property
    def constraint(self) -> Constraint:
        """The constraint on the groups that are large enough."""
        return self.stated.among(self.groups.labels)

    @cached_property
    def has_metric(self) -> bool:
        """Whether the constraint has an exact metric."""
        return record_of(self.constraint) is not None

    @property
    def is_in_scores(self) -> bool:
        """Whether it limits a difference of scores rather than of proportions."""
        record = record_of(self.constraint)
        return record is not None and record.bounded.in_scores

    def groups_of(self, counts: WeightedScores) -> Groups:
        """Return the groups of scores, among those that are large enough."""
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
        """Return the effective sample size of each group in the interval."""
        return self.constraint.effective_members(self.groups, cells.weights, cells.positive, cells.squares)

    def describe_small(self) -> str:
        """Return which groups are too small, with their sizes, as text."""
        sizes = [
            f"{shown(group_name(label), 60)} has {members_text(size, too_few=True)}"
            for label, size in self.small.items()
        ]
        return f"group {listed(sizes)} effective {self.stated.counted} in the interval"


def group_constraints(
    constraints: Sequence[Constraint], groups: Groups, cells: Cells, min_group_size: float
) -> tuple[GroupedConstraint, ...]:
    """Apply constraints to the groups that have enough effective rows in the interval.

    Rows with weight 0 must have been removed.
    """
    # Rows without a group count in the loss only.
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
    """Raise `InputError` if a constraint has fewer than two groups, or if constraints are contradictory."""
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
        # Constraints can be contradictory only on groups that both of them compare.
        common = [label for label in one.groups.labels if label in other.groups.labels]
        members = np.isin(one.groups.codes, [one.groups.labels.index(label) for label in common])
        check_compatible([one.stated.among(common), other.stated.among(common)], one.groups.take(members))


def measure_gap(
    stated: Constraint,
    rows: WeightedScores,
    labels: Sequence[GroupLabel],
    *,
    min_group_size: float,
    higher_is_better: bool,
) -> tuple[Constraint, WorstGap]:
    """Return a constraint, with its interval filled in if that depends on scores, and its exact gap.

    Parameters
    ----------
    stated
        The constraint, in the units of the scores.
    rows, labels
        Scores with their weights, groups and positives, and the labels of the groups.
    min_group_size
        Smallest effective sample size of a group in the interval.
    higher_is_better
        Whether ranks are counted from the highest score.
    """
    sign = 1.0 if higher_is_better else -1.0
    counts = replace(rows, scores=sign * rows.scores)
    placed = place_intervals([stated.in_units(sign)], counts, labels, min_group_size)
    cells = Cells(counts.weights, counts.codes, counts.positive)
    # Group sizes are those of the rows given here, not of the rows of the fit.
    (one,) = group_constraints(placed, Groups(counts.codes, tuple(labels)), cells, min_group_size)
    worst = one.gap(counts)
    return placed[0].in_units(sign), replace(worst, threshold=sign * worst.threshold)


@dataclass(frozen=True, eq=False)
class Training:
    """The parts of a problem that do not change while a fit tries models.

    Attributes
    ----------
    data
        The rows, in memory or elsewhere.
    objective, alpha
        Loss, and penalty of each penalized parameter.
    groups
        Groups of the rows (or cells).
    tol
        ε of the KKT certificate.
    box
        Bounds of parameters; thresholds have none.
    constraints
        The constraints on groups; empty for the unconstrained model.
    interval_chosen
        Whether an interval was chosen by the scores of the unconstrained model.
    """

    data: TrainingData
    objective: Objective
    alpha: Floats
    groups: Groups
    tol: float
    box: Box = EVERYWHERE
    constraints: tuple[GroupedConstraint, ...] = ()
    interval_chosen: bool = False

    @property
    def cells(self) -> Cells:
        """The rows, or cells of equal rows, to which constraints apply."""
        assert self.data.cells is not None
        return self.data.cells

    @property
    def max_gaps(self) -> Floats:
        """The limits."""
        return np.array([one.constraint.max_gap for one in self.constraints])

    def state(self, constraints: Sequence[Constraint], counts: Counts, min_group_size: float) -> Training:
        """Return a copy with constraints on groups that are large enough, given unconstrained scores."""
        placed = place_intervals(constraints, counts, self.groups.labels, min_group_size)
        grouped = group_constraints(placed, self.groups, self.cells, min_group_size)
        check_groups(grouped)
        chosen = any(isinstance(one.interval, Automatic) for one in constraints)
        return replace(self, constraints=grouped, interval_chosen=chosen)

    def blocks(self, trained: Sequence[Constraint], sigma: Surrogate | None) -> list[ConstraintBlock]:
        """Apply the trained constraints, one for each stated constraint, to the rows."""
        if sigma is None:
            return []
        return [
            one.build(grouped.groups, self.cells.weights, sigma, self.cells.positive)
            for one, grouped in zip(trained, self.constraints, strict=True)
        ]

    def problem(self, blocks: Sequence[ConstraintBlock]) -> Problem:
        """Return the problem of the paper for blocks of constraints; unconstrained if there are none."""
        joined = join(blocks)
        box = self.box
        if not box.is_unbounded:  # only parameters have bounds, thresholds θ do not
            free = np.full(joined.joined_bank.n_theta, np.inf)
            box = Box(np.append(box.low, -free), np.append(box.high, free))
        return Problem.about(self.data, self.objective, joined, self.alpha, box)

    def gaps(self, counts: Counts) -> tuple[WorstGap, ...]:
        """Return the exact gap of each constraint."""
        return tuple(counts.gap(one) for one in self.constraints)
