"""Where scores stand: in their groups by rank, and how much weight has which score."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from partialfair._typing import Floats, Ints
from partialfair.exceptions import InputError
from partialfair.groups import Members
from partialfair.intervals import tie_ends

__all__ = ["Counts", "People", "SortedRanks", "spread", "tied_share", "tied_shares"]

_NORMAL = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Counts:
    """How much weight has which score, in which group and with which label.

    Rows of the same score, group and label may be counted as one: weight 2 is the row twice.

    Attributes
    ----------
    scores, weights : (n,)
        Scores, and the weight that has them.
    codes : (n,)
        Groups; −1 for none.
    positive : (n,) or None
        Labels, where there are any.
    """

    scores: Floats
    weights: Floats
    codes: Ints
    positive: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class People:
    """What the referee must know of each row beside its score; as in `Counts`."""

    weights: Floats
    codes: Ints
    positive: npt.NDArray[np.bool_] | None = None

    def with_scores(self, scores: Floats) -> Counts:
        """Return the rows, each counted by itself."""
        return Counts(scores, self.weights, self.codes, self.positive)


@dataclass(frozen=True, eq=False)
class SortedRanks:
    """Ranks in sorted arrays; a group is sorted when it is first asked for.

    Parameters
    ----------
    scores : (n,)
        Of all rows.
    members
        Their groups and shares.
    """

    scores: Floats
    members: Members
    _sorted: dict[int, tuple[Floats, Floats]] = field(default_factory=dict, init=False, repr=False)

    def at(self, group: int, ranks: Floats) -> Floats:
        """Return the scores at which shares ``ranks`` of a group have been passed from the top."""
        scores, passed = self._descending(group)
        if not scores.size:
            raise InputError(f"group {group} of a constraint has no members, so it has no scores at any rank")
        return scores[np.minimum(np.searchsorted(passed, ranks), scores.size - 1)]

    def _descending(self, group: int) -> tuple[Floats, Floats]:
        """Return a group's scores in descending order, and the shares passed with each."""
        if group not in self._sorted:
            rows = np.flatnonzero(self.members.codes == group)
            scores, shares = self.scores[rows], self.members.shares[rows]
            if shares.size and np.ptp(shares) > 0:
                order = np.argsort(-scores)
                scores, shares = scores[order], shares[order]
            else:  # sorting scores alone is faster
                scores = np.sort(scores)[::-1]
            self._sorted[group] = scores, np.cumsum(shares)
        return self._sorted[group]


def spread(counts: Counts) -> float:
    """Return the weighted interquartile range / 1.349: the standard deviation, if scores are normal.

    Where half of the weight shares one score that is 0, and the standard deviation is returned.
    """
    scores, weights = counts.scores, counts.weights
    quarters = np.array([0.25 - 1e-12, 0.75 - 1e-12])
    if np.ptp(weights) == 0:  # nothing has to be sorted
        at = np.maximum(np.ceil(quarters * scores.size).astype(np.int64) - 1, 0)
        low, high = np.partition(scores, at)[at]
    else:
        order = np.argsort(scores)
        passed = np.cumsum(weights[order]) / weights.sum()
        low, high = scores[order[np.searchsorted(passed, quarters)]]
    if high > low:
        return float(high - low) / _NORMAL
    centred = scores - np.average(scores, weights=weights)
    return float(np.sqrt(np.average(centred**2, weights=weights)))


def tied_shares(counts: Counts) -> Floats:
    """Return the largest share of the weight that one score holds, and the share whose score others have."""
    if np.ptp(counts.weights) == 0:  # sorting scores alone is faster
        scores = np.sort(counts.scores)
        like_the_next = np.flatnonzero(scores[1:] == scores[:-1])
        if not like_the_next.size:
            return np.array([1 / scores.size, 0.0])
        last_of_runs = np.append(np.flatnonzero(np.diff(like_the_next) > 1), like_the_next.size - 1)
        members = np.diff(last_of_runs, prepend=-1) + 1  # a run of k has k − 1 that are like the next
        return np.asarray(np.array([members.max(), members.sum()]) / scores.size)
    order = np.argsort(counts.scores)
    ends = tie_ends(counts.scores[order])
    passed = np.concatenate([[0.0], np.cumsum(counts.weights[order])])
    blocks = np.diff(passed[ends])
    return np.asarray(np.array([blocks.max(), blocks[np.diff(ends) > 1].sum()]) / passed[-1])


def tied_share(counts: Counts) -> float:
    """Return the largest share of the weight that one score holds."""
    return float(tied_shares(counts)[0])
