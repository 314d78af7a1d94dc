"""The ranks next to a constrained interval, on which ``outside="no_worse"`` sets limits.

A constraint on an interval does not apply to other ranks. A model with a small gap in the interval often has
a larger one just outside: what it subtracts from the scores of a group at the ends of the interval, it adds
beyond them. So each adjoining piece of ranks becomes another constraint, whose limit is the exact gap of the
unconstrained model with the same penalty. It is trained, tightened and evaluated like any other constraint.
The unconstrained model satisfies it, so only its combination with the limit of the interval can be
infeasible.

A piece has the width of the interval if there are as many ranks on that side: gaps on intervals of different
widths are not comparable, because they grow as intervals become narrower. For a union the pieces are those of
its complement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from partialfair.constraints import StatisticalParity
from partialfair.constraints.base import Constraint
from partialfair.data.intervals import IntervalSet, as_interval_set
from partialfair.exceptions import InputError
from partialfair.optimization.problems import Counts
from partialfair.training.statement import Training, group_constraints


def adjoining_intervals(interval: IntervalSet) -> tuple[tuple[float, float], ...]:
    """Return the pieces of ranks next to an interval: at most one on each side, and all between its parts."""
    if len(interval.parts) == 1:
        ((low, high),) = interval.parts
        width = high - low
        sides = [(max(0.0, low - width), low), (high, min(1.0, high + width))]
    else:
        ends = [0.0, *(end for part in interval.parts for end in part), 1.0]
        sides = list(zip(ends[::2], ends[1::2], strict=True))
    return tuple((low, high) for low, high in sides if low < high)


def check_outside(constraints: Sequence[Constraint]) -> None:
    """Raise `InputError` for constraints to which limits next to the interval cannot be added."""
    if len(constraints) != 1 or type(constraints[0]) is not StatisticalParity:
        stated = " and ".join(type(one).__name__ for one in constraints) or "no constraint"
        raise InputError(
            "outside='no_worse' limits gaps next to the interval of one statistical parity constraint, not "
            f"of {stated}; use outside='free'"
        )
    if isinstance(constraints[0].interval, Mapping):
        raise InputError(
            "outside='no_worse' does not apply when intervals differ by group; give one interval for all "
            "groups, or use outside='free'"
        )


def limit_adjoining(training: Training, counts: Counts, min_group_size: float) -> Training:
    """Return a copy with limits next to the interval of its constraint.

    Parameters
    ----------
    training
        A problem with one constraint of statistical parity.
    counts
        Scores of the unconstrained model.
    min_group_size
        Smallest effective sample size of a group, in each piece separately.
    """
    (stated,) = (one.stated for one in training.constraints)
    assert isinstance(stated, StatisticalParity)
    adjoining = []
    for piece in adjoining_intervals(as_interval_set(stated.interval)):
        # Grid points, if given, are for the ranks of the interval.
        constraint = replace(stated, interval=piece, max_gap=1.0, points=None)
        (grouped,) = group_constraints([constraint], training.groups, training.cells, min_group_size)
        if len(grouped.groups.labels) < 2:
            continue
        gap = counts.gap(grouped).value
        if gap < 1:  # gaps are at most 1, so a limit of 1 would have no effect
            limited = replace(constraint, max_gap=gap)
            adjoining.append(replace(grouped, stated=limited, is_adjoining=True))
    return replace(training, constraints=(*training.constraints, *adjoining))
