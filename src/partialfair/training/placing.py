"""Where a constraint is asked for if the interval is chosen automatically (App. B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from partialfair.constraints import Constraint
from partialfair.data.groups import group_name
from partialfair.metrics.choice import choose_interval
from partialfair.optimization.problems import Counts
from partialfair.utils.typing import GroupLabel

__all__ = ["Automatic", "placed"]


class Automatic(tuple[float, float]):
    """An interval that stands for one that is chosen when the unconstrained scores are known."""

    __slots__ = ()


def placed(
    constraints: Sequence[Constraint], counts: Counts, labels: Sequence[GroupLabel]
) -> tuple[Constraint, ...]:
    """Return the constraints, automatic intervals chosen by the scores of the unconstrained model.

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
