"""Ranks of scores in their groups, and the distribution of weight over scores.

A search never accesses rows. It sees scores through `Counts`: in memory these are the scores of all rows
(`WeightedScores`), elsewhere they may be merged. Constraints apply to `Cells`: rows in memory, elsewhere all
rows of one group and label together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from partialfair.data.groups import Members
from partialfair.data.intervals import tie_ends
from partialfair.exceptions import InputError
from partialfair.utils.typing import Bools, Floats, Ints

_NORMAL = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""

Value = TypeVar("Value")
Gap = TypeVar("Gap", covariant=True)


class Scale(NamedTuple):
    """Statistics of the size of scores.

    Attributes
    ----------
    deviation
        Weighted standard deviation.
    size
        Weighted root mean square.
    largest
        Largest absolute value.
    """

    deviation: float
    size: float
    largest: float


class ExactMetric(Protocol[Gap]):
    """A metric of scores for given rows."""

    def gap(self, scores: WeightedScores, /) -> Gap:
        """Return the gap of some scores."""

    def inside(self, scores: WeightedScores, /) -> Bools:
        """Return which of the scores are inside the interval, or tie with one that is."""


class Counts(Protocol):
    """The distribution of weight over the scores of a model, wherever the rows are stored."""

    def gap(self, metric: ExactMetric[Value], /) -> Value:
        """Return an exact gap."""

    def ties(self, metrics: Sequence[ExactMetric[Any]], /) -> Floats:
        """Return the fraction of the weight on the most common score, and on tied scores: (2, 2).

        The first row is for all scores, the second for those inside the interval of some metric.
        """

    @property
    def spread(self) -> float:
        """The weighted interquartile range / 1.349: the standard deviation, if scores are normal.

        If half of the weight has one score, that is 0, and the standard deviation is returned.
        """

    @property
    def scale(self) -> Scale:
        """Statistics of the size of the scores."""

    @property
    def weighted(self) -> WeightedScores:
        """The scores with their weights, for computations that are done once per fit."""


@dataclass(frozen=True, eq=False)
class WeightedScores:
    """Scores with their weights, groups and labels: `Counts` in memory.

    Rows with the same score, group and label may be merged: a weight of 2 equals two rows.

    Attributes
    ----------
    scores, weights : (n,)
        Distinct or repeated scores, and their weights.
    codes : (n,)
        Groups; −1 for none.
    positive : (n,) or None
        Labels, if there are any.
    """

    scores: Floats
    weights: Floats
    codes: Ints
    positive: Bools | None = None

    def gap(self, metric: ExactMetric[Value]) -> Value:
        """As in `Counts`."""
        return metric.gap(self)

    def ties(self, metrics: Sequence[ExactMetric[Any]]) -> Floats:
        """As in `Counts`."""
        inside = np.any([metric.inside(self) for metric in metrics], axis=0)
        # Fractions of the weight of all rows, not of those inside.
        part = WeightedScores(self.scores[inside], self.weights[inside], self.codes[inside])
        fraction = part.weights.sum() / self.weights.sum()
        return np.stack([self.tied, fraction * part.tied])

    @property
    def spread(self) -> float:
        """As in `Counts`."""
        scores, weights = self.scores, self.weights
        quarters = np.array([0.25 - 1e-12, 0.75 - 1e-12])  # below by more than rounding errors of sums
        if np.ptp(weights) == 0:  # nothing has to be sorted
            at = np.maximum(np.ceil(quarters * scores.size).astype(np.int64) - 1, 0)
            low, high = np.partition(scores, at)[at]
        else:
            order = np.argsort(scores)
            passed = np.cumsum(weights[order]) / weights.sum()
            low, high = scores[order[np.searchsorted(passed, quarters)]]
        return float(high - low) / _NORMAL if high > low else self.scale.deviation

    @property
    def scale(self) -> Scale:
        """As in `Counts`."""
        scores, weights = self.scores, self.weights
        variance = np.average((scores - np.average(scores, weights=weights)) ** 2, weights=weights)
        square = np.average(scores**2, weights=weights)
        return Scale(float(np.sqrt(variance)), float(np.sqrt(square)), float(np.abs(scores).max()))

    @property
    def weighted(self) -> WeightedScores:
        """As in `Counts`."""
        return self

    @property
    def tied(self) -> Floats:
        """The largest fraction of the weight that one score has, and the fraction of all equal scores."""
        if np.ptp(self.weights) == 0:  # sorting scores alone is faster
            scores = np.sort(self.scores)
            like_the_next = np.flatnonzero(scores[1:] == scores[:-1])
            if not like_the_next.size:
                return np.array([1 / scores.size, 0.0])
            last_of_runs = np.append(np.flatnonzero(np.diff(like_the_next) > 1), like_the_next.size - 1)
            members = np.diff(last_of_runs, prepend=-1) + 1  # k equal scores have k − 1 equal successors
            return np.asarray(np.array([members.max(), members.sum()]) / scores.size)
        order = np.argsort(self.scores)
        # Weight of each block of equal scores.
        ends = tie_ends(self.scores[order])
        passed = np.concatenate([[0.0], np.cumsum(self.weights[order])])
        blocks = np.diff(passed[ends])
        return np.asarray(np.array([blocks.max(), blocks[np.diff(ends) > 1].sum()]) / passed[-1])


@dataclass(frozen=True, eq=False)
class Cells:
    """The data of a training set without its features: for its rows, or for cells of rows.

    A cell contains rows of one group and one label. Constraints apply to cells: the share of a cell in its
    group is divided among its rows by their weights.

    Attributes
    ----------
    weights : (n,)
        Sums of the weights of each cell's rows.
    codes : (n,)
        Groups; −1 for none.
    positive : (n,) or None
        Labels, if there are any.
    squares : (n,) or None
        Sums of their squared weights; None: each cell is one row.
    counts : (n,) or None
        Numbers of rows; None: each cell is one row.
    """

    weights: Floats
    codes: Ints
    positive: Bools | None = None
    squares: Floats | None = None
    counts: Ints | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.weights.size if self.counts is None else int(self.counts.sum())

    def with_scores(self, scores: Floats) -> WeightedScores:
        """Return the scores of cells, one each."""
        return WeightedScores(scores, self.weights, self.codes, self.positive)


@dataclass(frozen=True, eq=False)
class SortedRanks:
    """Ranks in sorted arrays; a group is sorted on first use.

    Parameters
    ----------
    scores : (n,)
        Scores of all rows.
    members
        Their groups and shares.
    """

    scores: Floats
    members: Members
    _sorted: dict[int, tuple[Floats, Floats]] = field(default_factory=dict, init=False, repr=False)

    def at(self, group: int, ranks: Floats) -> Floats:
        """Return the scores at which fractions ``ranks`` of a group are passed from the top."""
        scores, passed = self._descending(group)
        if not scores.size:
            raise InputError(f"group {group} of a constraint has no members, so it has no scores at any rank")
        # The first score at which this fraction is passed; rounding must not lead beyond the last.
        return scores[np.minimum(np.searchsorted(passed, ranks), scores.size - 1)]

    def _descending(self, group: int) -> tuple[Floats, Floats]:
        """Return a group's scores in descending order, and the fractions passed with each."""
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
