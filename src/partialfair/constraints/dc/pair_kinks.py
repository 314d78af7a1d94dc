"""Kinks of sums over pairs.

``H(b, c) = max_{u, v} Σ_ij u_i v_j φ(s_i − t_j)``, u a top b of one group and v a bottom c of another (see
`PairSums`), has two kinds of kinks.

**Crossings.** φ itself has a kink at x: where ``s_i − t_j`` passes x, the slope of H jumps by ``u_i v_j``
times the jump of φ'.

**Borders.** A top is the best choice of members, so H also has kinks where that choice changes. By
ascending score, with the border of the top at the bar::

    not counted ...  j₃  j₂  j₁ | i₁  i₂  i₃  ... counted       those on the bar count partly

For a fixed v, ``H = max_u Σ u_i Φ(s_i)`` over ``0 ≤ u ≤ ω, Σ u = b``, where ``Φ(s) = Σ_j v_j φ(s − t_j)`` is
convex and non-decreasing. *Any* such u gives a lower bound of H, and so does its tangent. Compared with that
of the best u, with ``δ = u − best u``, its slope in s_i is larger by ``δ_i Φ'(s_i)`` and its value smaller by
``−Σ δ_i Φ(s_i)``. The δ add up to 0, so that values may be measured from Φ(θ) at the border::

    max_ν Σ_i ν_i amount_i [Φ(s_i) − Φ(θ)],    0 ≤ ν_i ≤ 1,    Σ_i ν_i amount_i = 0

where the amount of a member below the border is its part that is not counted, and that of one above is minus
the counted part. Members on the border have both: their ν may also be negative. That is a kink for each
member, and one condition for each border. It describes *all* choices near the border, in any order of the
members, and members with equal rows, which are always tied, are one kink. Swaps of fixed pairs of members
would describe only some choices.

The distance of a member from the border is measured with a slope that is not too small, ``Φ'(θ) (θ − s)``
below it and ``Φ'(s) (s − θ)`` above: still a lower bound, and exact where scores tie.

The same holds for bottoms, with ``−t`` in place of s and δ' for δ.

**Together.** Any choices ``u + δ`` and ``v + δ'`` and any slopes of φ at its kinks give a lower bound. It is
not the sum of the bounds of single kinks, because H is a product of u, v and φ. The sum omits ::

    the slope in s_i       (u_i + δ_i) Σ_j δ'_j φ'(s_i − t_j)
    the slope in t_j      −(v_j + δ'_j) Σ_i δ_i φ'(s_i − t_j)
    the value at x         Σ_ij δ_i δ'_j φ(s_i − t_j)

and the crossing of i and j has the factor ``(u_i + δ_i)(v_j + δ'_j) / (u_i v_j)`` times. Where φ is smooth
these terms are negligible if the loss of the choices is: the δ add up to 0, so that ``|Σ_i δ_i φ'(s_i −
t_j)|`` is at most ``max φ'' Σ_i |δ_i| |s_i − θ|``, a multiple of the loss. Where φ has kinks it is not. A
member that leaves the top removes its crossings, and almost tied members may be on both sides of a kink. So
`PairSums.interaction` computes all four terms, and a KKT certificate includes them. Steps ignore them,
because the new point is evaluated exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partialfair.constraints.dc.bank import AtomKinks
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

_WHOLE = 1e-9
"""A member is not on the border if its counted fraction is this close to 0 or 1: fractions are rounded."""

_TRIES = 100
"""Limit of pairs that are tested for each returned pair, which ends the search after long moves."""


class RowPairs(NamedTuple):
    """Pairs of rows at whose scores atoms have kinks.

    Attributes
    ----------
    rows, others : (K,)
        Their scores s and t.
    residuals : (K,)
        Distance of ``s − t`` beyond the kink.
    weights : (K,)
        The jump of the slope, up to a factor that depends on the atom.
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
        return AtomKinks.alone(
            np.full_like(none, atom),
            self.rows[used],
            none,
            self.residuals[used],
            weights[used],
            self.others[used],
        )


class Movers(NamedTuple):
    """Members of a group that may pass the border of a rank.

    Attributes
    ----------
    rows : (K,)
        Their rows.
    scores, border : (K,) and a number
        Their scores, and that of the border: the lowest that counts.
    amounts, backs : (K,)
        As in `AtomKinks`.
    """

    rows: Ints
    scores: Floats
    border: float
    amounts: Floats
    backs: Floats

    @classmethod
    def among(
        cls,
        rows: Ints,
        scores: Floats,
        shares: Floats,
        above: Floats,
        moves: Floats,
        near: float,
        limit: int,
    ) -> Movers | None:
        """Return members that are near or cross the border by the moves, or none if they cannot balance.

        None if there are too many. Members have ascending scores, and ``above`` is the part of each weight
        above the rank.
        """
        who, border = _movers(scores, shares, above, moves, near, limit)
        if who.size > limit:
            return None
        above, below, on_border = above[who], (shares - above)[who], scores[who] == border
        rises = np.where(on_border, below >= above, scores[who] < border)
        amounts = np.where(rises, below, -above)
        backs = np.where(on_border, np.minimum(above, below) / np.maximum(above, below), 0.0)
        backs[backs <= _WHOLE] = 0.0  # shares are rounded
        two_sided = bool((backs > 0).any())
        balances = ((amounts > 0).any() or two_sided) and ((amounts < 0).any() or two_sided)
        used = slice(None) if balances else slice(0)
        return cls(rows[who][used], scores[who][used], border, amounts[used], backs[used])

    def of_atom(self, atom: int, border: int, slopes: Floats, at_border: float, *, top: bool) -> AtomKinks:
        """Return the kinks of one atom.

        Parameters
        ----------
        atom, border
            Their numbers.
        slopes, at_border
            Sizes of Φ' at the members' scores, and at the border.
        top
            Whether members above the border are counted, or those below.
        """
        used = (slopes > 0) & (self.amounts != 0)
        slopes, amounts, distances = slopes[used], self.amounts[used], self.scores[used] - self.border
        joins = (amounts > 0) == top
        none = np.full(amounts.size, -1)
        return AtomKinks(
            np.full_like(none, atom),
            self.rows[used],
            none,
            distances * np.where(joins, at_border / slopes, 1.0),
            np.abs(amounts) * slopes,
            none,
            np.full_like(none, border),
            amounts,
            self.backs[used],
        )


@njit(cache=True, nogil=True)
def _movers(
    scores: Floats, shares: Floats, above: Floats, moves: Floats, near: float, limit: int
) -> tuple[Ints, float]:
    """Return members near the border of a rank, or that cross it by the moves, and its score.

    Scores are ascending, and ``above`` is the part of each weight above the rank. The border is at the lowest
    score that counts. The result has one member more than the limit if there are too many.
    """
    first_in = 0
    while first_in < scores.size and above[first_in] <= _WHOLE * shares[first_in]:
        first_in += 1
    found = np.zeros(limit + 1, dtype=np.int64)
    if first_in == scores.size:
        return found[:0], 0.0
    # Neither a score nor the border moves by more than the largest move.
    border, farthest = scores[first_in], 2 * np.abs(moves).max()
    far = max(near, farthest)
    low = np.searchsorted(scores, border - far)
    high = np.searchsorted(scores, border + far, side="right")
    after = above[low:high].copy()
    if farthest > 0:
        left = after.sum()
        for i in np.argsort(scores[low:high] + moves[low:high])[::-1]:
            after[i] = min(shares[low + i], left)
            left -= after[i]
    count = 0
    for i in range(low, high):
        changed = abs(after[i - low] - above[i]) > _WHOLE * shares[i]
        if shares[i] > 0 and (changed or abs(scores[i] - border) <= near):
            if count > limit:
                break
            found[count] = i
            count += 1
    return found[:count], border


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

    The result has one more, arbitrary pair if there are more than the limit.
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
