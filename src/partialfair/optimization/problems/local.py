"""A problem near a point: derivatives, and explicit kinks at which f_i = f⁺_i − f⁻_i bends upwards.

The f⁺ of a ramp are piecewise linear with a kink for every score and threshold, and optima lie on many of
them. A Newton model does not see kinks, so they are added to the quadratic program as rows:
``f⁺_i(x + d) ≥ f⁺_i(x) + ⟨∇f⁺_i(x), d⟩ + Σ_s shares[s, i] max(0, ⟨rows_s, d⟩ − gaps_s)``, with equality as
long as d passes no other kink.

**Terms in both parts are cancelled first.** A kink of an atom that f⁺ and f⁻ have in common is not a kink of
f. If f⁺ alone is considered, its slope there may be chosen freely while that of f⁻ is fixed: the choice can
balance any force along the kink, and a point from which f decreases looks stationary. With a the atoms::

    f = Σ c · max(pieces) − Σ c' · max(pieces')
      ≤ Σ c · max(pieces) − ⟨N, a⟩ − constant        N: the highest of pieces' at x; it touches f there
      = max over choices J of pieces:  ⟨P_J − N, a⟩ + constant_J
      ≤ max over choices J of pieces:  ⟨(P_J − N)⁺, a⟩ − ⟨(N − P_J)⁺, tangents of a at x⟩ + constant_J

The last line is convex and touches f at x. So a local minimum x also minimizes it, and its kinks are all that
is needed: those of atoms with shares ``(P_J − N)⁺``, where J are the highest pieces, and one where another
piece becomes the highest, *beyond* which shares are those of another J. Each J must be cancelled separately:
in ``max(B, A − α) − B`` nothing is in both parts throughout, but while B is the highest piece the function is
0. The line is at most f⁺ minus the tangent of f⁻, so a proof with it is valid for that as well.

If several maxima of one function are nearly tied, each changes the shares as if it were alone. That is exact
unless they have atoms in common, and then at most the increase of f⁺.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from partialfair.constraints.dc import AtomKinks
from partialfair.constraints.dc.algebra import Slopes, Ties, dense_rows, positive_part
from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.models.limited import LimitedMemory
from partialfair.optimization.problems.reductions import KinkSearch, KinksOfRows
from partialfair.utils.typing import Bools, Floats, Ints

if TYPE_CHECKING:
    from partialfair.optimization.problems.constrained import ProblemPoint

_TIE = 0.05
"""Pieces of a maximum that are lower by at most this, on the scale of gaps, count as kinks."""
_MORE_BEFORE_MERGING = 20
"""Kinks of equal rows of the data are joined; before that, this multiple of the limit is allowed."""


@dataclass(frozen=True, eq=False)
class Local:
    """A problem near a point: first derivatives, and second derivatives of its Lagrangian.

    Attributes
    ----------
    gradient : (n,)
        ``∇f_0(x)``.
    jacobian : (m, n)
        Elements of all ``∂f⁺_i(x) − ∂f⁻_i(x)``.
    convex, concave
        Hessians of ``f⁺_0 + Σ λ_i f⁺_i`` and of ``f⁻_0 + Σ λ_i f⁻_i``, smoothed over kinks; None if the
        latter is 0. A remembered Hessian, of their difference, replaces the first.
    """

    gradient: Floats
    jacobian: Floats
    convex: ArrowMatrix | LimitedMemory
    concave: ArrowMatrix | None


@dataclass(frozen=True, eq=False)
class MergedKinks:
    """Kinks of atoms, and the position of each among the kinks into which equal ones were joined."""

    kinks: AtomKinks
    positions: Ints

    def averages(self, values: Floats, n_kinks: int) -> Floats:
        """Return weighted averages over the kinks of atoms in each kink; 1 for kinks of maxima."""
        totals = np.bincount(self.positions, self.kinks.weights, n_kinks)
        sums = np.bincount(self.positions, self.kinks.weights * values, n_kinks)
        return np.divide(sums, totals, out=np.ones(n_kinks), where=totals > 0)


@dataclass(frozen=True, eq=False)
class Interplay:
    """The difference between a tangent with kinks and the sum of their separate terms.

    Attributes
    ----------
    ratios : (K,)
        Factors of the kinks.
    slope : (n,)
        Term to add to the slope.
    loss
        Term to add to the sum of gaps; it may be negative.
    """

    ratios: Floats
    slope: Floats
    loss: float

    @classmethod
    def none(cls, n_kinks: int, n: int) -> Interplay:
        """Return the interplay of kinks whose terms add up."""
        return cls(np.ones(n_kinks), np.zeros(n), 0.0)


@dataclass(frozen=True, eq=False)
class Kinks:
    """Kinks near a point x.

    Attributes
    ----------
    rows : (K, n)
        Directions that point away from the side on which x lies.
    gaps : (K,)
        Distances of x from them, at least 0, in units of the rows.
    shares : (K, m)
        Coefficient of each kink in each function.
    beyond : (K, K)
        Change of a kink (row) beyond another (column), where a maximum switches to another piece, per unit of
        the share of that.
    keys : (K,)
        Names by which two sets of kinks near the same point can be compared.
    borders : (K,)
        Names of the borders of tops to which kinks belong, −1 for none.
    amounts, backs : (K,)
        The change that a kink makes above its border, and the change that it can make to the other side: see
        below.
    merged
        The kinks of atoms from which they were merged; None if there are none, or after kinks were joined.

    With ``h = ⟨rows, d⟩ − gaps``, kinks of a border add the largest ``Σ_s ν_s h_s`` over ``−backs ≤ ν ≤ 1``
    with ``Σ_s amounts_s ν_s = 0``, which is ``min_θ Σ_s max(z_s, −backs_s z_s)``, ``z = h − amounts θ``.
    """

    rows: Floats
    gaps: Floats
    shares: Floats
    beyond: Floats
    keys: Ints
    borders: Ints
    amounts: Floats
    backs: Floats
    merged: MergedKinks | None = None

    @classmethod
    def alone(cls, rows: Floats, gaps: Floats, shares: Floats, beyond: Floats, keys: Ints) -> Kinks:
        """Return kinks that belong to no border."""
        nothing = np.zeros(gaps.size)
        return cls(rows, gaps, shares, beyond, keys, np.full(gaps.size, -1), nothing, nothing)

    def with_interplay(self, interplay: Interplay) -> Kinks:
        """Return these kinks multiplied by the ratios of their interplay."""
        ratios = interplay.ratios
        return replace(self, rows=ratios[:, None] * self.rows, gaps=ratios * self.gaps)

    @cached_property
    def balance(self) -> Floats:
        """Coefficients of the balance of multipliers, (n_borders, K): amounts, scaled by border."""
        names = np.unique(self.borders[self.borders >= 0])
        amounts = np.where(self.borders == names[:, None], self.amounts, 0.0)
        return np.asarray(amounts / np.abs(amounts).max(axis=1, initial=0.0)[:, None])

    def gains(self, step: Floats) -> Floats:
        """Return the excess of the functions over their tangents at ``x + step``: (m,)."""
        heights = self.rows @ step - self.gaps
        for amounts_of_all in self.balance:
            # The θ of one border: the sum decreases at first, and its slope jumps at each level.
            here = np.flatnonzero(amounts_of_all)
            amounts, backs = amounts_of_all[here], self.backs[here]
            levels = heights[here] / amounts
            falls = np.where(amounts > 0, amounts, -backs * amounts).sum()
            order = np.argsort(levels)
            jumps = np.cumsum((np.abs(amounts) * (1 + backs))[order])
            theta = float(levels[order[min(np.searchsorted(jumps, falls), order.size - 1)]])
            heights -= theta * amounts_of_all
        # Beyond a maximum's tie the shares of kinks of atoms are those of its other piece.
        heights = heights + np.maximum(heights, -self.backs * heights) @ self.beyond
        return np.asarray(np.maximum(heights, -self.backs * heights) @ self.shares)

    def joined(self, other: Kinks) -> Kinks:
        """Return the union with other kinks."""
        new = ~np.isin(other.keys, self.keys)
        keys = np.concatenate([self.keys, other.keys[new]])
        beyond = np.zeros((keys.size, keys.size))
        order = np.argsort(keys)
        for part in (other, self):
            entries = order[np.searchsorted(keys, part.keys, sorter=order)]
            beyond[np.ix_(entries, entries)] = part.beyond
        rows, gaps, shares, borders, amounts, backs = (
            np.concatenate([getattr(self, name), getattr(other, name)[new]])
            for name in ("rows", "gaps", "shares", "borders", "amounts", "backs")
        )
        return Kinks(rows, gaps, shares, beyond, keys, borders, amounts, backs)


def no_kinks(n: int, m: int) -> Kinks:
    """Return an empty set of kinks, of m functions of n variables."""
    return Kinks.alone(
        np.empty((0, n)), np.empty(0), np.empty((0, m)), np.empty((0, 0)), np.empty(0, dtype=np.int64)
    )


def find_kinks(
    point: ProblemPoint,
    wanted: Bools,
    reach: float,
    towards: ProblemPoint | None,
    limit: int,
    *,
    of_convex: bool,
) -> Kinks | None:
    """Return the kinks of some functions near a point; see `ProblemPoint.kinks`. One pass at most."""
    problem = point.problem
    plus, minus = point.slopes
    net = plus if of_convex else plus - minus  # P_J − N, (m, n_atoms)
    ties = problem.constraints.system.ties(point.atoms, wanted, _TIE).nearest()
    tie_rows = np.empty((0, point.x.size))
    if ties.gaps.size:
        tie_rows = ties.slopes @ point.atoms_jacobian
    of_rows = None
    if problem.bank.has_kinks:
        search = KinkSearch(
            problem.bank,
            point.theta,
            # Atoms with a larger coefficient in f⁺ than in f⁻, here or beyond a maximum's tie.
            positive_part(net[wanted]).sum(axis=0) + np.maximum(ties.net(net), 0.0).sum(axis=0),
            np.zeros(point.theta.size) if towards is None else towards.theta - point.theta,
            reach,
            _MORE_BEFORE_MERGING * limit,
        )
        reference = None if towards is None else towards.scored
        (parts,) = problem.reduce(point.scored, search, reference=reference)
        if parts is None:
            return None
        of_rows = KinksOfRows.joined(parts)
    return _join_kinks(of_rows, ties, tie_rows, net, limit)


def _join_kinks(
    of_rows: KinksOfRows | None, ties: Ties, tie_rows: Floats, net: Slopes, limit: int
) -> Kinks | None:
    """Return kinks of atoms and of maxima as kinks of the functions; None if those of atoms are too many.

    Pieces of maxima that are nearly active come with their directions in (w, θ), (K, n).
    """
    m, n, n_ties = net.shape[0], tie_rows.shape[1], ties.gaps.size
    shares = np.zeros((n_ties, m))
    shares[np.arange(n_ties), ties.functions] = ties.factors
    of_maxima = Kinks.alone(tie_rows, ties.gaps, shares, np.zeros((n_ties, n_ties)), -1 - ties.keys)
    if of_rows is None:
        return of_maxima
    kinks, directions, positions = _merge_equal_rows(of_rows.kinks, of_rows.directions)
    n_kinks = kinks.atoms.size
    if n_kinks > limit:
        return None
    # Directions in (w, θ), scaled by the jump of the slope. They point to the side of the kink on which the
    # point does not lie; for kinks on a border, to the side with more room.
    rows, free = np.zeros((n_kinks, n)), np.flatnonzero(kinks.thresholds >= 0)
    n_params = directions.shape[1]
    rows[:, :n_params] = directions
    rows[free, n_params + kinks.thresholds[free]] = -1
    falls = np.where(kinks.borders >= 0, kinks.amounts < 0, kinks.residuals > 0)
    rows = (np.where(falls, -1.0, 1.0) * kinks.weights)[:, None] * rows
    # Shares (P_J − N)⁺ of the highest pieces J, and the differences to those of a piece beyond a tie.
    here = positive_part(net)
    changes = (np.maximum(ties.net(net), 0.0) - dense_rows(here, ties.functions)) / ties.factors[:, None]
    beyond = np.zeros((n_kinks + n_ties, n_kinks + n_ties))
    beyond[:n_kinks, n_kinks:] = changes[:, kinks.atoms].T
    return Kinks(
        np.vstack([rows, of_maxima.rows]),
        np.concatenate([kinks.weights * np.abs(kinks.residuals), of_maxima.gaps]),
        np.vstack([dense_rows(here.T, kinks.atoms), of_maxima.shares]),
        beyond,
        np.concatenate([kinks.keys(of_rows.n_rows), of_maxima.keys]),
        np.concatenate([kinks.border_keys, of_maxima.borders]),
        np.concatenate([kinks.amounts, of_maxima.amounts]),
        np.concatenate([kinks.backs, of_maxima.backs]),
        MergedKinks(of_rows.kinks, positions),
    )


def _merge_equal_rows(kinks: AtomKinks, directions: Floats) -> tuple[AtomKinks, Floats, Ints]:
    """Return kinks with those of equal rows of the data joined into one, and the position of each."""
    # A projection of the rows identifies equal ones, which scores alone do not.
    projected = directions @ np.sin(1.0 + np.arange(directions.shape[1]))
    order = np.lexsort((projected, kinks.residuals, kinks.border_keys, kinks.atoms))
    if not order.size:
        return kinks, directions, np.empty(0, dtype=np.int64)
    rows = directions[order]
    same = (rows[1:] == rows[:-1]).all(axis=1)
    for of_each in (kinks.atoms, kinks.residuals, kinks.border_keys):
        same &= np.diff(of_each[order]) == 0
    first: Ints = np.flatnonzero(np.concatenate([[True], ~same]))
    chosen = order[first]
    joined = replace(
        kinks.take(chosen),
        weights=np.add.reduceat(kinks.weights[order], first),
        amounts=np.add.reduceat(kinks.amounts[order], first),
    )
    positions = np.empty(order.size, dtype=np.int64)
    positions[order] = np.repeat(np.arange(first.size), np.diff(np.append(first, order.size)))
    return joined, directions[chosen], positions
