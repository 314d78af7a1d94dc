"""Compiled loops over Brownian bridges of many groups, for the map's radii.

Bridges lie in an array (K, ranks, draws); inner loops run over the draws, which are consecutive in memory.
"""

from __future__ import annotations

import numpy as np

from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

__all__ = ["raise_levels", "tie_down"]


@njit(cache=True)
def tie_down(numbers: Floats, steps: Floats) -> Floats:
    """Make bridges of normal numbers, in place, and return the largest absolute value of each."""
    n_groups, n_ranks, n_draws = numbers.shape
    sups = np.zeros((n_groups, n_draws))
    for k in range(n_groups):
        for b in range(n_draws):
            numbers[k, 0, b] *= steps[k, 0]
        for rank in range(1, n_ranks):
            for b in range(n_draws):
                numbers[k, rank, b] = numbers[k, rank - 1, b] + steps[k, rank] * numbers[k, rank, b]
        for rank in range(n_ranks):
            share = (rank + 1) / n_ranks
            for b in range(n_draws):
                # The last rank comes last: until then it holds where the path would have ended.
                value = numbers[k, rank, b] - share * numbers[k, n_ranks - 1, b]
                numbers[k, rank, b] = value
                sups[k, b] = abs(value) if abs(value) > sups[k, b] else sups[k, b]
    return sups


@njit(cache=True)
def raise_levels(
    bridges: Floats,
    group_sups: Floats,
    between: Floats,
    positions: Ints,
    units: Floats,
    extra: Floats,
    cap: Floats,
    levels: Floats,
) -> None:
    """Raise each draw's c to what its pairs need: in row 0 on the interval scale, in row 1 on the other."""
    n_draws = bridges.shape[2]
    widest = np.empty(n_draws)
    for pair in range(positions.shape[0]):
        k, j = positions[pair]
        widest[:] = 0.0
        for rank in range(bridges.shape[1]):
            of_k, of_j = bridges[k, rank], bridges[j, rank]
            for b in range(n_draws):
                difference = abs(of_k[b] - of_j[b])
                widest[b] = difference if difference > widest[b] else widest[b]
        missed = np.sqrt(between[k] ** 2 + between[j] ** 2)
        for b in range(n_draws):
            apart = widest[b] + missed
            clipped = max(apart, max(group_sups[k, b], group_sups[j, b]))
            needed = np.inf if clipped > cap[pair] else clipped**2 / units[pair] - extra[pair]
            levels[0, b] = max(levels[0, b], needed)
            levels[1, b] = max(levels[1, b], apart**2 / units[pair] - extra[pair])
