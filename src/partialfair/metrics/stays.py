"""Who stays in the interval from one model to another, for every interval that ends on lines of a grid.

Of two sets of scores of one group, with memberships m and m′ of the interval as in `band_membership`, ::

    stays(i, j) = Σ_r w_r min(m_r, m′_r)   on the interval [i / n_grid, j / n_grid).

A row that lies within one cell of the grid is inside such an interval or outside, wherever in the cell it is.
Rows that straddle a line, alone or as part of a block of ties, are inside in part; they have a *place* of
their own, and since they share no line there are fewer such places than lines. So the weights of at most
``(2 n_grid − 1)²`` pairs of places determine all intervals, whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair.data.intervals import RANK_TOLERANCE, running_weight, tie_ends
from partialfair.utils.typing import Floats, Ints

__all__ = ["GridPlaces", "grid_stays"]

_AT_ONCE = 256  # pairs of places whose memberships are held at once: 10 MB


@dataclass(frozen=True, eq=False)
class GridPlaces:
    """Where the members of one group stand, as far as intervals between grid lines can tell.

    Attributes
    ----------
    place : (n,)
        Of each member. The first ``n_grid`` places are the cells, from the best; those of blocks that
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
        slack = n_grid * RANK_TOLERANCE
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
        """Return the share of each place inside each interval, by the upper triangle of (i, j − 1)."""
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
    old_shares, new_shares = before.memberships(), after.memberships()
    for begin in range(0, old_places.size, _AT_ONCE):
        old, new = (places[begin : begin + _AT_ONCE] for places in (old_places, new_places))
        stays += joint[old, new] @ np.minimum(old_shares[old], new_shares[new])
    return np.asarray(stays)
