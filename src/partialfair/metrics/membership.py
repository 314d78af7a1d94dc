"""Which rows are in the interval, and which stay, enter and leave when the scores change.

`interval_membership` and `interval_changes` consider one interval, `grid_stays` every interval that ends on
lines of a grid. For two sets of scores of one group, with memberships m and m′ of the interval, ::

    stays(i, j) = Σ_r w_r min(m_r, m′_r)   on the interval [i / n_grid, j / n_grid).

A row that lies within one cell of the grid is either inside or outside such an interval, wherever in the cell
it is. Rows that straddle a line, alone or as part of a block of ties, are partly inside. Each such block has
a *place* of its own; since blocks share no line, there are fewer of these places than lines. So the weights
of at most ``(2 n_grid − 1)²`` pairs of places determine all intervals, whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from partialfair.data.groups import group_name
from partialfair.data.intervals import (
    RANK_TOLERANCE,
    band_weights,
    intervals_by_group,
    running_weight,
    tie_ends,
)
from partialfair.metrics.inputs import oriented, read_groups
from partialfair.utils.checks import check_flag, check_weights, finite_vector, refuse_lazy
from partialfair.utils.typing import ArrayLike, Floats, IntervalLike, Ints, MissingGroups

if TYPE_CHECKING:
    import pandas as pd

_AT_ONCE = 256  # pairs of places whose memberships are held at a time: 10 MB


def interval_membership(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> Floats:
    """Return the fraction of each row that lies in its group's interval, from 0 to 1.

    A row with weight w in a group of weight W occupies a stretch of length w / W of the group's ranks; its
    membership is the fraction of that stretch inside the interval. It is 0 or 1 except for rows that straddle
    an end of the interval, alone or as part of a block of ties. Rows of weight 0 have membership 0, and so
    have rows without a group with ``missing_groups="ignore"``.

    Parameters
    ----------
    y_score : array-like of shape (n,)
        Scores; only their order matters.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    interval : interval-like
        Ranks from the best; see `partial_statistical_parity_difference`.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    ndarray of shape (n,)
        The memberships.

    See Also
    --------
    interval_changes : Rows that enter and leave the interval under other scores.

    Examples
    --------
    >>> from partialfair.metrics import interval_membership
    >>> scores, groups = [9, 8, 5, 4, 7, 6, 3], list("aaaabbb")
    >>> interval_membership(scores, sensitive_features=groups, interval=(0, 0.5)).tolist()
    [1.0, 1.0, 0.0, 0.0, 1.0, 0.5, 0.0]
    """
    check_flag(higher_is_better, "higher_is_better")
    scores = oriented(finite_vector(y_score, "y_score", ranked=True), higher_is_better)
    weights = np.ones(scores.size) if sample_weight is None else check_weights(sample_weight, scores.size)
    groups = read_groups(sensitive_features, scores.size, missing_groups)
    membership = np.zeros(scores.size)
    for code, part in enumerate(intervals_by_group(interval, groups.labels)):
        rows = np.flatnonzero((groups.codes == code) & (weights > 0))
        if rows.size:
            held = band_weights(scores[rows], weights[rows], part)  # fractions of the interval
            membership[rows] = held * part.measure * weights[rows].sum() / weights[rows]
    return np.clip(membership, 0.0, 1.0)  # a sum of weights may be off by a rounding


def interval_changes(
    before: ArrayLike,
    after: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    sample_weight: ArrayLike | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
) -> pd.DataFrame:
    """Compare which rows are in the interval under two sets of scores.

    Parameters
    ----------
    before, after : array-like of shape (n,)
        The two sets of scores.
    sensitive_features : array-like of shape (n,) or (n, q)
        Group of each row; several columns define intersectional groups.
    interval : interval-like
        Ranks from the best; see `partial_statistical_parity_difference`.
    sample_weight : array-like of shape (n,), optional
        A row of weight 2 counts as two rows, one of weight 0 as none.
    higher_is_better : bool, default=True
        If False, ranks count from the lowest score.
    missing_groups : {"error", "ignore"}, default="error"
        "ignore" leaves out rows without a group; "error" raises `InputError`.

    Returns
    -------
    pandas.DataFrame
        Indexed by group: ``in_interval`` (weight inside, the same under both), ``stays``, ``enters`` and
        ``leaves``, with ``stays + enters = stays + leaves = in_interval``.

    See Also
    --------
    interval_membership : The rows in the interval under one set of scores.
    compare_gaps : The difference of the gaps of two models.

    Examples
    --------
    >>> from partialfair.metrics import interval_changes
    >>> before, after, groups = [9, 8, 5, 4, 7, 6], [9, 4, 5, 8, 7, 6], list("aaaabb")
    >>> interval_changes(before, after, sensitive_features=groups, interval=(0, 0.5)).loc["a"].to_dict()
    {'in_interval': 2.0, 'stays': 1.0, 'enters': 1.0, 'leaves': 1.0}
    """
    import pandas as pd

    refuse_lazy(before, "before")
    refuse_lazy(after, "after")
    n_rows = finite_vector(before, "y_score", ranked=True).size
    groups = read_groups(sensitive_features, n_rows, missing_groups)
    old, new = (
        interval_membership(
            scores,
            sensitive_features=groups,
            interval=interval,
            sample_weight=sample_weight,
            higher_is_better=higher_is_better,
            missing_groups=missing_groups,
        )
        for scores in (before, after)
    )
    # As they were given, unlike those of check_weights: totals are in their units.
    weights = np.ones(old.size) if sample_weight is None else finite_vector(sample_weight, "sample_weight")
    known = groups.codes >= 0

    def total(membership: Floats) -> Floats:
        inside = (weights * membership)[known]
        return np.asarray(np.bincount(groups.codes[known], weights=inside, minlength=len(groups.labels)))

    return pd.DataFrame(
        {
            "in_interval": total(old),
            "stays": total(np.minimum(old, new)),
            "enters": total(np.maximum(new - old, 0.0)),
            "leaves": total(np.maximum(old - new, 0.0)),
        },
        index=pd.Index([group_name(label) for label in groups.labels], name="group"),
    )


@dataclass(frozen=True, eq=False)
class GridPlaces:
    """Positions of the members of one group, as far as intervals between grid lines depend on them.

    Attributes
    ----------
    place : (n,)
        Place of each member. The first ``n_grid`` places are the cells, from the best; those of blocks that
        straddle a line follow.
    low, high
        Ranks of each place, counted in cells.
    n_grid
        Number of cells.
    """

    place: Ints
    low: Floats
    high: Floats
    n_grid: int

    @classmethod
    def of(cls, scores: Floats, weights: Floats, n_grid: int) -> GridPlaces:
        """Rank the members of one group, higher scores first; weights are positive."""
        from_top = np.argsort(-scores, kind="stable")
        ends, above = tie_ends(scores[from_top]), running_weight(weights[from_top])
        ranks = n_grid * (above[ends] / above[-1])
        slack = n_grid * RANK_TOLERANCE  # rounding must not make a block straddle a line
        first = np.minimum(np.floor(ranks[:-1] + slack), n_grid - 1).astype(np.int64)
        straddles = np.ceil(ranks[1:] - slack) - 1 > first
        block_place = np.where(straddles, n_grid - 1 + np.cumsum(straddles), first)
        place = np.empty(scores.size, dtype=np.int16)
        place[from_top] = np.repeat(block_place, np.diff(ends))
        cells = np.arange(n_grid, dtype=np.float64)
        return cls(
            place,
            np.concatenate([cells, ranks[:-1][straddles]]),
            np.concatenate([cells + 1, ranks[1:][straddles]]),
            n_grid,
        )

    def memberships(self) -> Floats:
        """Return the fraction of each place inside each interval, by the upper triangle of (i, j − 1)."""
        i, last = np.triu_indices(self.n_grid)
        low, high = self.low[:, np.newaxis], self.high[:, np.newaxis]
        inside = np.maximum(np.minimum(high, last + 1) - np.maximum(low, i), 0.0)
        return np.asarray(inside / (high - low))


def grid_stays(before: GridPlaces, after: GridPlaces, weights: Floats) -> Floats:
    """Return ``stays(i, j)`` by the upper triangle of (i, j − 1), row after row."""
    n_grid, shape = before.n_grid, (before.low.size, after.low.size)
    code = before.place.astype(np.int64) * shape[1] + after.place
    joint = np.bincount(code, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)
    # Members inside one cell under both: all whose two cells are in [i, j), by sums over rectangles.
    above = np.zeros((n_grid + 1, n_grid + 1))
    above[1:, 1:] = joint[:n_grid, :n_grid].cumsum(axis=0).cumsum(axis=1)
    i, last = np.triu_indices(n_grid)
    j = last + 1
    stays = above[j, j] - above[i, j] - above[j, i] + above[i, i]
    # Members that are inside in part, under one model at least.
    joint[:n_grid, :n_grid] = 0.0
    old_places, new_places = np.nonzero(joint)
    if old_places.size == 0:
        return np.asarray(stays)
    old_members, new_members = before.memberships(), after.memberships()
    for begin in range(0, old_places.size, _AT_ONCE):
        old, new = (places[begin : begin + _AT_ONCE] for places in (old_places, new_places))
        stays += joint[old, new] @ np.minimum(old_members[old], new_members[new])
    return np.asarray(stays)
