"""Where sums over pairs bend.

``H(b, c) = max_{u, v} Σ_ij u_i v_j φ(s_i − t_j)``, u a top b of one group and v a bottom c of another (see
`PairSums`), has two kinds of kinks.

**Crossings.** φ itself has a kink at x: where ``s_i − t_j`` passes x, the slope of H jumps by ``u_i v_j``
times the jump of φ'.

**Swaps.** A top is the best choice of whom to count, so H also bends where that choice changes. By ascending
score, with the border of the top at the bar::

    not counted ...  j₃  j₂  j₁ | i₁  i₂  i₃  ... counted       those on the bar count in part

Suppose j overtakes i. Then u may count j for i, by an amount that i can give (what is counted of it) and j
can take (what is not). With all else as it is that adds ``amount · [Φ(s_j) − Φ(s_i)]`` to the sum, where
``Φ(s) = Σ_j v_j φ(s − t_j)`` is convex and does not fall. To first order that is
``amount · Φ' · max(0, s_j − s_i)``: a kink between two rows. We take Φ' at the lower of the two scores, where
it is smaller: a lower bound, and exact where i and j tie.

Swaps add up if members are matched so that nobody gives or takes more, in all swaps together, than there is:
any subset of such swaps leads to some u with ``0 ≤ u ≤ ω`` and ``Σ u = b``, and H is the largest sum over all
of those. Members are matched from the border outwards, because the nearest meet first: those on the border
give to those below, then take from those above, and then those above give to those below.

The same holds for bottoms, with ``−t`` in place of s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partialfair._compiled import njit
from partialfair._typing import Floats, Ints
from partialfair.dc.bank import AtomKinks

__all__ = ["RowPairs", "crossings", "swaps"]

_WHOLE = 1e-9
"""A member whose counted share is so close to all or to nothing is not on the border: shares are rounded."""

_TRIES = 100
"""Pairs that are looked at for each that may be reported, before there are too many: an end to long moves."""


class RowPairs(NamedTuple):
    """Pairs of rows between whose scores atoms bend.

    Attributes
    ----------
    rows, others : (K,)
        Their scores s and t.
    residuals : (K,)
        How far ``s − t`` is beyond the kink.
    weights : (K,)
        By how much the slope jumps, up to a factor that depends on the atom.
    """

    rows: Ints
    others: Ints
    residuals: Floats
    weights: Floats

    def of_atom(self, atom: int, factors: Floats) -> AtomKinks:
        """Return the kinks of one atom; factors of 0 make none."""
        weights = self.weights * factors
        used = weights > 0
        none = np.full(int(used.sum()), -1)
        return AtomKinks(
            np.full_like(none, atom),
            self.rows[used],
            none,
            self.residuals[used],
            weights[used],
            self.others[used],
        )


@njit(cache=True, nogil=True)
def swaps(
    scores: Floats, shares: Floats, above: Floats, moves: Floats, near: float, limit: int
) -> tuple[Ints, Ints, Floats]:
    """Return pairs of a lower and a higher member, and how much of the higher may count for the lower.

    Scores are ascending, and ``above`` says how much of each share lies above the rank. Pairs are those that
    are near, or that the moves bring into the other order, from the rank outwards. One pair more than the
    limit, whatever it holds, says that there are too many.
    """
    n = scores.size
    lower, higher = np.zeros(limit + 1, dtype=np.int64), np.zeros(limit + 1, dtype=np.int64)
    amounts = np.zeros(limit + 1)
    count, first_in = 0, n
    while first_in > 0 and above[first_in - 1] >= (1 - _WHOLE) * shares[first_in - 1]:
        first_in -= 1
    last_out = first_in - 1
    while last_out >= 0 and above[last_out] > _WHOLE * shares[last_out]:
        last_out -= 1
    # What members may still give and take; those on the border are the first to do both.
    give, take = above.copy(), shares - above
    far = max(near, 2 * np.abs(moves).max()) if n else near
    for turn in range(3):
        i, j = first_in, last_out
        if turn == 0:
            i = last_out + 1
        elif turn == 1:
            j = first_in - 1
        while i < (first_in if turn == 0 else n) and j > (last_out if turn == 1 else -1):
            if count > limit:
                return lower, higher, amounts
            if scores[i] - scores[j] > far:
                break
            amount = min(give[i], take[j])
            passed = scores[j] + moves[j] > scores[i] + moves[i]
            if amount > 0 and (passed or scores[i] - scores[j] <= near):
                lower[count], higher[count], amounts[count] = j, i, amount
                count += 1
            give[i] -= amount
            take[j] -= amount
            if give[i] <= 0:
                i += 1
            else:
                j -= 1
    return lower[:count], higher[:count], amounts[:count]


@njit(cache=True, nogil=True)
def crossings(
    top: Floats,
    bottom: Floats,
    kink_at: float,
    top_moves: Floats,
    bottom_moves: Floats,
    near: float,
    limit: int,
) -> tuple[Ints, Ints, Floats]:
    """Return pairs with ``residual = s − t − kink_at`` near 0 or passing it, and residuals; scores ascend.

    One pair more than the limit, whatever it holds, says that there are too many.
    """
    in_top, in_bottom = np.zeros(limit + 1, dtype=np.int64), np.zeros(limit + 1, dtype=np.int64)
    residuals = np.zeros(limit + 1)
    count, tried, first, far = 0, 0, 0, near
    if top.size and bottom.size:
        far = max(near, np.abs(top_moves).max() + np.abs(bottom_moves).max())
    for i in range(top.size):
        while first < bottom.size and top[i] - bottom[first] - kink_at > far:
            first += 1
        j = first
        while j < bottom.size and top[i] - bottom[j] - kink_at >= -far:
            residual = top[i] - bottom[j] - kink_at
            moved = residual + top_moves[i] - bottom_moves[j]
            tried += 1
            if abs(residual) <= near or (residual > 0) != (moved > 0):
                in_top[count], in_bottom[count], residuals[count] = i, j, residual
                count += 1
            if count > limit or tried > _TRIES * limit:
                return in_top, in_bottom, residuals
            j += 1
    return in_top[:count], in_bottom[:count], residuals[:count]
