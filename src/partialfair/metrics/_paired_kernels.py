"""Compiled loops over the draws of two models, for the interval of the difference of their gaps."""

from __future__ import annotations

import numpy as np

from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

__all__ = ["add_contenders", "raise_ends"]


@njit(cache=True)
def add_contenders(block: Floats, starts: Ints, top: Floats, n_deviations: float, total: Floats) -> float:
    """Add the rows that may be the largest in truth, weighted and signed, to ``total``; return their weight.

    A row is a contender if ``|top| − |d_i|`` is at most ``n_deviations`` standard deviations of that
    difference. Its weight is the square of its variance, compared with the largest variance of its pair.
    Column 0 is the estimate, the others are draws; ``top`` is positive, and ``starts`` says where each pair's
    rows begin.
    """
    weight, squares = 0.0, np.empty(block.shape[0])
    for pair in range(starts.size - 1):
        first, end = starts[pair], starts[pair + 1]
        for row in range(first, end):
            squares[row] = np.sum((block[row, 1:] - block[row, 0]) ** 2)
        largest = squares[first:end].max() if end > first else 0.0
        for row in range(first, end):
            values = block[row]
            sign = -1.0 if values[0] < 0 else 1.0
            shortfall = top[0] - sign * values[0]
            spread = np.sum((top[1:] - sign * values[1:] - shortfall) ** 2)
            if shortfall <= n_deviations * np.sqrt(spread / (top.size - 1)):
                # Not 0: the only contender may be a row without variance.
                relative = max((squares[row] / largest) ** 2, 1e-9) if largest > 0 else 1.0
                weight += relative
                total += relative * sign * values
    return weight


@njit(cache=True)
def raise_ends(
    one: tuple[Floats, Ints],
    other: tuple[Floats, Ints],
    reference: Floats,
    factors: Floats,
    n_beyond: Ints,
    floors: Floats,
    ends: Floats,
    limit: float,
    unseen: tuple[Floats, float],
) -> float:
    """Raise ``ends`` to the largest upper end of ``±d_j − g``; return the largest p-value.

    Parameters
    ----------
    one, other
        Differences of two models: their block of rows, and where each pair's rows start.
    reference : (B + 1,)
        A lower bound of the other model's gap g: the estimate, and the draws.
    factors : (p,)
        What each pair's deviations are multiplied by.
    n_beyond : (l,)
        Draws beyond each of several quantiles.
    floors : (l, p)
        What a pair's ends are above the estimates at least.
    ends : (l,)
        Ends so far.
    limit
        The value whose p-values are returned: of the null hypothesis that ``±d_j − g`` is at least that.
    unseen
        Each pair's smallest sample and how far two rows can differ, for what the sample cannot show.
    """
    (block, starts), (block_other, starts_other), (n_smallest, widest) = one, other, unseen
    n_levels, n_draws = n_beyond.size, reference.size - 1
    estimates, deviations = np.empty(2), np.empty(2)
    errors, largest, p_value = np.empty((2, n_draws)), np.empty(n_draws), 0.0
    for pair in range(starts.size - 1):
        n_rows, n_theirs = starts[pair + 1] - starts[pair], starts_other[pair + 1] - starts_other[pair]
        for row in range(n_rows):
            ours = block[starts[pair] + row]
            theirs = block_other[starts_other[pair] + (2 * row + 1) * n_theirs // (2 * n_rows)]
            for sign in (1.0, -1.0):
                for way in range(2):
                    estimates[way] = sign * ours[0] - (reference[0] if way == 0 else sign * theirs[0])
                    squares = 0.0
                    for b in range(n_draws):
                        reached = sign * ours[b + 1] - (
                            reference[b + 1] if way == 0 else sign * theirs[b + 1]
                        )
                        errors[way, b] = factors[pair] * (reached - estimates[way])
                        squares += errors[way, b] ** 2
                    deviations[way] = max(np.sqrt(squares / n_draws), 1e-12 * widest)
                # A second way whose end is higher would only widen the first.
                hopeless = estimates[1] + 2 * deviations[1] > estimates[0] + 2 * deviations[0]
                n_ways = 1 if hopeless else 2
                for b in range(n_draws):
                    largest[b] = errors[0, b] / deviations[0]
                    if n_ways == 2:
                        largest[b] = max(largest[b], errors[1, b] / deviations[1])
                # An end exceeds a value if the quantile exceeds all of the ways' distances from it.
                distance = -np.inf
                for way in range(n_ways):
                    distance = max(distance, (limit - estimates[way]) / deviations[way])
                excess = limit - estimates[:n_ways].min()
                missed = (1 - min(max(excess / widest, 0.0), 1.0)) ** n_smallest[pair]
                chance = (1.0 + np.sum(largest >= distance)) / (1.0 + n_draws)
                p_value = max(p_value, chance, missed)
                ordered = False
                for level in range(n_levels):
                    floor = floors[level, pair]
                    distance = -np.inf
                    for way in range(n_ways):
                        if estimates[way] + floor <= ends[level]:
                            distance = max(distance, (ends[level] - estimates[way]) / deviations[way])
                    # Few rows are sorted: most have too few draws beyond what other rows have reached.
                    if np.sum(largest > distance) <= n_beyond[level]:
                        continue
                    if not ordered:
                        largest.sort()
                        ordered = True
                    quantile = largest[n_draws - 1 - n_beyond[level]]
                    end = np.inf
                    for way in range(n_ways):
                        end = min(end, estimates[way] + max(quantile * deviations[way], floor))
                    ends[level] = max(ends[level], end)
    return p_value
