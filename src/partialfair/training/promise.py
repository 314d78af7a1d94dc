"""Which groups a constraint is about: those with enough members in the interval to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from partialfair.constraints import Constraint, check_compatible
from partialfair.data.groups import Groups, enough, group_name, members_text
from partialfair.data.intervals import band_weights
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.problems import Cells, WeightedScores
from partialfair.training.exact_gaps import Referee
from partialfair.training.placing import placed
from partialfair.utils.checks import shown
from partialfair.utils.text import listed
from partialfair.utils.typing import Bools, Floats, GroupLabel, Ints

__all__ = [
    "Promise",
    "check_promises",
    "exact_gap",
    "promised",
    "promises_of",
    "small_group_warning",
    "small_groups",
]


@dataclass(frozen=True, eq=False)
class Promise:
    """A constraint, and the groups that it is about.

    Attributes
    ----------
    stated
        The constraint as the user wrote it.
    everybody
        The groups of all rows.
    judged : (n_groups,)
        Which of them are large enough.
    small
        Groups that are too small, with their effective members in the interval.
    least
        Members from which on a group is judged.
    n_rows : (n_groups,)
        Number of rows of each group.
    """

    stated: Constraint
    everybody: Groups
    judged: npt.NDArray[np.bool_]
    small: dict[GroupLabel, float]
    least: float
    n_rows: Floats
    _referees: list[tuple[Ints, Referee]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def groups(self) -> Groups:
        """Group of every cell; −1 for those of groups that are too small, which count in the loss only."""
        return self.everybody if self.judged.all() else self.everybody.only(self.judged)

    def groups_of(self, counts: WeightedScores) -> Groups:
        """Return the groups that scores belong to, among those that are judged."""
        return Groups(counts.codes, self.everybody.labels).only(self.judged)

    def gap(self, counts: WeightedScores) -> WorstGap:
        """Return the exact gap that the promise is about."""
        return self._referee(counts).gap(counts)

    def inside(self, counts: WeightedScores) -> Bools:
        """Return who is in the interval; those who tie with somebody who is are, too."""
        groups, inside = self.groups_of(counts), np.zeros(counts.scores.size, dtype=bool)
        for code, interval in enumerate(self.constraint.intervals(groups)):
            rows = np.flatnonzero(groups.codes == code)
            inside[rows] = band_weights(counts.scores[rows], counts.weights[rows], interval) > 0
        return inside

    def _referee(self, counts: WeightedScores) -> Referee:
        """Return who judges the counts; models of the same rows are judged by the same referee."""
        if not self._referees or self._referees[0][0] is not counts.codes:
            self._referees[:] = [(counts.codes, Referee.of(self.constraint, self.groups_of(counts)))]
        return self._referees[0][1]

    @cached_property
    def constraint(self) -> Constraint:
        """The constraint on the groups that are judged."""
        return self.stated.among(self.groups.labels)


def promised(stated: Constraint, groups: Groups, cells: Cells, least: float) -> Promise:
    """Leave out the groups with fewer than so many effective members in the interval.

    Rows that have no weight must be left out before.
    """
    members = stated.effective_members(groups, cells.weights, cells.positive, cells.squares)
    sizes = dict(zip(groups.labels, members.tolist(), strict=True))
    small = {label: size for label, size in sizes.items() if not enough(size, least)}
    judged = np.array([label not in small for label in groups.labels])
    inside = groups.codes >= 0
    counts = None if cells.counts is None else cells.counts[inside]
    n_rows = np.bincount(groups.codes[inside], counts, len(groups.labels)).astype(np.float64)
    return Promise(stated, groups, judged, small, least, n_rows)


def promises_of(
    constraints: Sequence[Constraint], groups: Groups, cells: Cells, least: float
) -> tuple[Promise, ...]:
    """Return every constraint with the groups that are large enough for it."""
    return tuple(promised(stated, groups, cells, least) for stated in constraints)


def exact_gap(
    stated: Constraint,
    scores: Floats,
    rows: WeightedScores,
    labels: Sequence[GroupLabel],
    least: float,
    sign: float,
) -> tuple[Constraint, WorstGap]:
    """Return a constraint, with an interval that is chosen by scores filled in, and its exact gap.

    Parameters
    ----------
    stated, scores
        The constraint, and the scores that it is about.
    rows, labels, least
        Weights, groups and positives of the rows, whatever their scores; the groups' labels; and members from
        which on a group is judged.
    sign
        −1 where low scores are good.
    """
    counts = replace(rows, scores=sign * scores)
    (one,) = placed([stated.in_units(sign)], counts, labels)
    cells = Cells(counts.weights, counts.codes, counts.positive)
    worst = promised(one, Groups(counts.codes, tuple(labels)), cells, least).gap(counts)
    return one.in_units(sign), replace(worst, threshold=sign * worst.threshold)


def check_promises(promises: Sequence[Promise]) -> None:
    """Refuse constraints that compare fewer than two groups, and those that exclude each other."""
    for promise in promises:
        if len(promise.groups.labels) < 2:
            judged = [shown(name) for name in promise.groups.names]
            whom = f"only group {judged[0]} is" if judged else "no group is"
            raise InputError(
                f"{whom} large enough for {promise.stated.says()}, which compares at least two: "
                f"{_too_few(promise)}, and min_group_size={promise.least:g}; widen the interval, merge "
                "groups or lower min_group_size"
            )
    for one, other in combinations(promises, 2):
        common = [label for label in one.groups.labels if label in other.groups.labels]
        members = np.isin(one.groups.codes, [one.groups.labels.index(label) for label in common])
        check_compatible([one.stated.among(common), other.stated.among(common)], one.groups.take(members))


def small_groups(promises: Sequence[Promise]) -> tuple[GroupLabel, ...]:
    """Return the groups that are outside of some promise."""
    return tuple(dict.fromkeys(label for promise in promises for label in promise.small))


def small_group_warning(promises: Sequence[Promise]) -> SmallGroupWarning | None:
    """Name the groups that are outside of some promise; None if there are none."""
    told = [
        f"{_too_few(promise)} of {type(promise.stated).__name__}" for promise in promises if promise.small
    ]
    if not told:
        return None
    (least,) = {promise.least for promise in promises}
    return SmallGroupWarning(
        f"{'; '.join(told[:3])}: with fewer than min_group_size={least:g} a group is not judged; its rows "
        "count in the loss, and the promise leaves it out"
    )


def _too_few(promise: Promise) -> str:
    """Say which groups are small, and how small."""
    sizes = [
        f"{shown(group_name(label), 60)} has {members_text(size, too_few=True)}"
        for label, size in promise.small.items()
    ]
    return f"group {listed(sizes)} effective {promise.stated.counted} in the interval"
