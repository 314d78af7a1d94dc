"""Some of the rows in place of all: a problem that is nearly the same, and costs a share of it.

Row i is kept with a probability π_i, and its shares of the loss and of its groups are divided by π_i and then
scaled, so that they add up to what they do among all rows. Members of small groups are kept more often.
"""

from __future__ import annotations

import numpy as np

from partialfair.data.groups import Members, members_of
from partialfair.optimization.objectives import Objective
from partialfair.utils.typing import Floats, Ints

__all__ = ["chances_of", "sampled_members", "sampled_objective"]

_FEWEST_MEMBERS = 1000
"""Of a group of which fewer would be kept so many are, or all that there are."""


def chances_of(members: tuple[Members, ...], n_rows: int, size: int) -> Floats:
    """Return the probability with which each row is kept, so that about ``size`` are, if no group is small.

    Parameters
    ----------
    members
        Whom constraints are about, in any number of ways.
    n_rows, size
        Rows that there are, and how many are wanted.
    """
    chances = np.full(n_rows, min(1.0, size / n_rows))
    for groups in members:
        inside = groups.codes >= 0
        counts = np.bincount(groups.codes[inside])
        enough = np.minimum(_FEWEST_MEMBERS / np.maximum(counts, 1), 1.0)
        chances[inside] = np.maximum(chances[inside], enough[groups.codes[inside]])
    return chances


def sampled_members(members: Members, kept: Ints, chances: Floats) -> Members:
    """Return the members among the rows that were kept, with shares that add up to 1 in each group."""
    codes = members.codes[kept]
    return members_of(codes, members.shares[kept] / chances[kept], int(members.codes.max(initial=0)) + 1)


def sampled_objective(objective: Objective, kept: Ints, chances: Floats) -> Objective:
    """Return the loss of the rows that were kept, with shares that add up to those of all."""
    shares = objective.shares[kept] / chances[kept]
    shares *= objective.shares.sum() / shares.sum()
    return Objective(objective.loss, objective.targets[kept], shares)
