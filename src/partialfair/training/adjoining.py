"""The ranks next to a constrained interval, on which ``outside="no_worse"`` sets limits.

A constraint on an interval says nothing of other ranks. A model whose gap is small there often has a larger
one just outside: what it takes from one group's scores at the ends of the interval it adds beyond them. So
each adjoining piece of ranks becomes a constraint of its own, whose limit is the exact gap that the
unconstrained model, with the same penalty, has there. It is trained, tightened and evaluated as any other
constraint, and the unconstrained model satisfies it: what can be infeasible is only the limit of the interval
together with these.

A piece is as wide as the interval, where there are as many ranks on that side: gaps of intervals of other
widths do not compare, the narrower the larger they are. Of a union the pieces are those of its complement.
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
    """Refuse constraints that limits next to their intervals cannot be added to."""
    if len(constraints) != 1 or type(constraints[0]) is not StatisticalParity:
        stated = " and ".join(type(one).__name__ for one in constraints) or "no constraint"
        raise InputError(
            "outside='no_worse' limits gaps next to the interval of one statistical parity constraint, not "
            f"of {stated}; leave outside='free'"
        )
    if isinstance(constraints[0].interval, Mapping):
        raise InputError(
            "outside='no_worse' has no meaning when intervals differ by group: their adjoining ranks would; "
            "give one interval for all groups, or leave outside='free'"
        )


def limit_adjoining(training: Training, counts: Counts, min_group_size: float) -> Training:
    """Return the same with limits next to the interval of its constraint.

    Parameters
    ----------
    training
        With one constraint of statistical parity.
    counts
        Scores of the unconstrained model.
    min_group_size
        Effective members from which on a group is large enough, in each piece by itself.
    """
    (stated,) = (one.stated for one in training.constraints)
    assert isinstance(stated, StatisticalParity)
    adjoining = []
    for piece in adjoining_intervals(as_interval_set(stated.interval)):
        # A grid of points, if one was given, is that of the interval.
        constraint = replace(stated, interval=piece, max_gap=1.0, points=None)
        (grouped,) = group_constraints([constraint], training.groups, training.cells, min_group_size)
        if len(grouped.groups.labels) < 2:
            continue
        gap = counts.gap(grouped).value
        if gap < 1:  # no gap exceeds 1: that would be no limit
            limited = replace(constraint, max_gap=gap)
            adjoining.append(replace(grouped, stated=limited, is_adjoining=True))
    return replace(training, constraints=(*training.constraints, *adjoining))
