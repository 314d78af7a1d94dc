"""Compiled loops over the draws of two models, for the interval of the difference of their gaps."""

from __future__ import annotations

import numpy as np

from partialfair._compiled import njit
from partialfair._typing import Floats, Ints

__all__ = ["furthest_ends", "raise_by_candidates"]


@njit(cache=True)
def raise_by_candidates(
    block: Floats, starts: Ints, least: Floats, sure: Floats, factors: Floats, rises: Floats
) -> None:
    """Raise ``rises`` to ``max_j ±(d*_j − d_j)`` over j with ``|d_j| ≥ least``, each pair times its factor.

    The sign is d_j's own where ``|d_j| > sure``, else both. A rise may be negative: where the sign is known,
    the maximum of a model may fall as another's does.
    """
    for pair in range(starts.size - 1):
        for row in range(starts[pair], starts[pair + 1]):
            data, draws = block[row, 0], block[row, 1:]
            if abs(data) < least[pair]:
                continue
            if abs(data) > sure[pair]:
                factor = factors[pair] if data > 0 else -factors[pair]
                for b in range(rises.size):
                    rises[b] = max(rises[b], factor * (draws[b] - data))
            else:
                for b in range(rises.size):
                    rises[b] = max(rises[b], factors[pair] * abs(draws[b] - data))


@njit(cache=True)
def furthest_ends(
    one: tuple[Floats, Ints, Floats],
    other: tuple[Floats, Ints, Floats],
    other_gap: float,
    rises: Floats,
    n_beyond: Ints,
    floors: Floats,
    ends: Floats,
    limit: float,
    n_as_far: Floats,
) -> None:
    """Raise ``ends`` to the widest upper end of ``±d_j − g``, g being the other model's gap.

    Parameters
    ----------
    one, other
        Differences of two models: their block of rows, where each pair's rows start, and its factor.
    other_gap, rises
        The other model's gap, and what it rises by in each draw: ``R*``.
    n_beyond : (l,)
        Draws beyond each of several quantiles.
    floors : (2, l, p)
        What a pair's ends are above the estimates at least: beside the same place, and beside the gap.
    ends : (l,)
        Ends so far.
    limit, n_as_far
        The latter is raised, pair by pair, to the number of draws that reach the limit; where that is far
        from significant, to twice as many, which is never too few.

    Notes
    -----
    There are two ways to show that g is large: by the other model's difference at the same place (as far down
    the pair's rows, same sign), and by its gap. An end is the lower of the two. Both may fail, each with a
    probability α' that makes their union fail with α: α²/f, where f is how often one of them fails at α.
    """
    (block, starts, factors), (block_other, starts_other, factors_other) = one, other
    n_levels, n_draws = n_beyond.size, rises.size
    reached, counts = np.empty((2, n_draws)), np.empty((2, n_levels), dtype=np.int64)
    for pair in range(starts.size - 1):
        n_rows, n_theirs = starts[pair + 1] - starts[pair], starts_other[pair + 1] - starts_other[pair]
        factor = max(factors[pair], factors_other[pair])
        for row in range(n_rows):
            ours = block[starts[pair] + row]
            theirs = block_other[starts_other[pair] + (2 * row + 1) * n_theirs // (2 * n_rows)]
            for sign in (1.0, -1.0):
                counts[:] = 0
                as_far_same, as_far_gap = 0, 0
                same, beside_gap = sign * (ours[0] - theirs[0]), sign * ours[0] - other_gap
                for b in range(n_draws):
                    fall = sign * (ours[0] - ours[b + 1])
                    reached[0, b] = same + factor * (fall - sign * (theirs[0] - theirs[b + 1]))
                    reached[1, b] = beside_gap + factor * fall + rises[b]
                    as_far_same += reached[0, b] >= limit
                    as_far_gap += reached[1, b] >= limit
                    for level in range(n_levels):
                        counts[0, level] += reached[0, b] > ends[level]
                        counts[1, level] += reached[1, b] > ends[level]
                as_far = min(as_far_same, as_far_gap)
                # Few rows are sorted: most have too few draws beyond what other rows have reached.
                insignificant = as_far > 2 * n_beyond[-1]
                if insignificant:
                    n_as_far[pair] = max(n_as_far[pair], 2.0 * as_far)
                wanted = not insignificant and 2 * as_far > n_as_far[pair]
                for level in range(n_levels):
                    least = max(
                        min(same + floors[0, level, pair], beside_gap + floors[1, level, pair]), ends[level]
                    )
                    wanted |= least > ends[level]
                    wanted |= min(counts[0, level], counts[1, level]) > n_beyond[level] // 2
                if not wanted:
                    continue
                ordered_same, ordered_gap = np.sort(reached[0]), np.sort(reached[1])
                for level in range(n_levels):
                    at = n_draws - 1 - n_beyond[level]
                    q_same, q_gap = ordered_same[at], ordered_gap[at]
                    n_failing = 0
                    for b in range(n_draws):
                        n_failing += reached[0, b] > q_same or reached[1, b] > q_gap
                    share = n_beyond[level] / max(n_failing, n_beyond[level], 1)
                    at = n_draws - 1 - int(n_beyond[level] * share)
                    end_same = max(ordered_same[at], same + floors[0, level, pair])
                    end_gap = max(ordered_gap[at], beside_gap + floors[1, level, pair])
                    ends[level] = max(ends[level], min(end_same, end_gap))
                # The last level is that of the one-sided bound, to which the p-value belongs.
                if not insignificant:
                    n_as_far[pair] = max(n_as_far[pair], as_far / share if share > 0 else 2.0 * as_far)
