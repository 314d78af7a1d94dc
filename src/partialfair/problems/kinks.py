"""Where the functions f_i = f⁺_i − f⁻_i bend upwards near a point, one by one.

The f⁺ of a ramp are piecewise linear with a kink for every score and threshold, and optima sit on many of
them at once. To a Newton model a kink is a wall that it cannot see; spelled out, it is one more row of the
quadratic program: ``f⁺_i(x + d) ≥ f⁺_i(x) + ⟨∇f⁺_i(x), d⟩ + Σ_s shares[s, i] max(0, ⟨rows_s, d⟩ − gaps_s)``,
with equality as long as d passes no other kink.

**What stands in both parts is cancelled first.** A kink of an atom that f⁺ and f⁻ have in common is none of
f. If f⁺ alone is looked at, its slope there may be chosen freely while that of f⁻ stays: any push along the
kink can be made up for, and a point from which f falls looks stationary. With a the atoms, near x::

    f = Σ c · max(pieces) − Σ c' · max(pieces')
      ≤ Σ c · max(pieces) − ⟨N, a⟩ − constant         N: the highest pieces' at x, so that this touches f at x
      = ⟨P − N, a⟩ + Σ c · max(pieces less P) − ...   P: what the highest pieces at x have in common
      = ⟨(P − N)⁺, a⟩ + Σ c · max(pieces less P)   −   ⟨(N − P)⁺, a⟩ − constant

The last line is a difference of convex functions like the first, and is f itself as long as the pieces that
are the highest at x stay the highest. Its f⁺ has the kinks of atoms with shares ``(P − N)⁺``, and one where
two pieces of a maximum meet at x. In ``max(B, A − α) − B`` with both pieces the highest, for instance,
nothing is left of the kinks of A and B, and one kink of ``A − α − B``: the function is ``max(0, A − α − B)``.

*Nothing wrong is proven.* The shares are no larger than those of the first line's f⁺, so bounds from below
hold for that as well. *Nothing is lost*, unless pieces meet. What is subtracted is convex, so by its tangent
the last line is at most a convex function that touches f at x. A local minimum minimises that, too, and its
slopes are what the shares offer. Where pieces meet, kinks of the atoms in ``pieces less P`` are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair._typing import Floats, Ints
from partialfair.dc import AtomKinks
from partialfair.dc.algebra import Ties
from partialfair.problems.asks import KinksOfRows

__all__ = ["Kinks", "joined_kinks", "no_kinks"]


@dataclass(frozen=True, eq=False)
class Kinks:
    """Kinks near a point x.

    Attributes
    ----------
    rows : (K, n)
        Their directions, away from the side on which x lies.
    gaps : (K,)
        How far x is from them, at least 0, in units of the rows.
    shares : (K, m)
        By how much each enters each function.
    keys : (K,)
        Names by which two sets of kinks near the same point can be compared.
    """

    rows: Floats
    gaps: Floats
    shares: Floats
    keys: Ints

    def gains(self, step: Floats) -> Floats:
        """By how much the functions exceed their tangents at ``x + step``: (m,)."""
        return np.asarray(np.maximum(self.rows @ step - self.gaps, 0.0) @ self.shares)

    def joined(self, other: Kinks) -> Kinks:
        """Return these and the others that are not among them."""
        new = ~np.isin(other.keys, self.keys)
        return Kinks(
            np.vstack([self.rows, other.rows[new]]),
            np.concatenate([self.gaps, other.gaps[new]]),
            np.vstack([self.shares, other.shares[new]]),
            np.concatenate([self.keys, other.keys[new]]),
        )


def no_kinks(n: int, m: int) -> Kinks:
    """Return none, of m functions of n variables."""
    return Kinks(np.empty((0, n)), np.empty(0), np.empty((0, m)), np.empty(0, dtype=np.int64))


def joined_kinks(
    of_rows: KinksOfRows | None, ties: Ties, tie_rows: Floats, by_atom: Floats, limit: int
) -> Kinks | None:
    """Return kinks of atoms and of maxima as kinks of the functions; None if those of atoms are too many.

    Parameters
    ----------
    of_rows
        Kinks of atoms, if atoms have any.
    ties, tie_rows
        Pieces of maxima that are nearly active, and (K, n) their directions in (w, θ).
    by_atom : (m, n_atoms)
        By how much each atom's kinks enter each function, at least 0.
    limit
        How many kinks of atoms, after those of equal rows of the data are joined, are too many.
    """
    m, n = len(by_atom), tie_rows.shape[1]
    shares = np.zeros((ties.gaps.size, m))
    shares[np.arange(ties.gaps.size), ties.functions] = ties.factors
    of_maxima = Kinks(tie_rows, ties.gaps, shares, -1 - ties.keys)
    if of_rows is None:
        return of_maxima
    kinks, directions = _merged(of_rows.kinks, of_rows.directions)
    if kinks.atoms.size > limit:
        return None
    of_atoms = Kinks(
        _away_from(kinks, directions, n),
        kinks.weights * np.abs(kinks.residuals),
        by_atom[:, kinks.atoms].T,
        kinks.keys(of_rows.n_rows),
    )
    return of_atoms.joined(of_maxima)


def _away_from(kinks: AtomKinks, directions: Floats, n: int) -> Floats:
    """Return the directions of kinks of atoms in (w, θ), scaled by how much the slope jumps.

    They point to the other side of the kink than that on which the point lies.
    """
    rows = np.zeros((kinks.atoms.size, n))
    n_params = directions.shape[1]
    rows[:, :n_params] = directions
    free = np.flatnonzero(kinks.thresholds >= 0)
    rows[free, n_params + kinks.thresholds[free]] = -1
    away = np.where(kinks.residuals > 0, -1.0, 1.0)
    return np.asarray((away * kinks.weights)[:, None] * rows)


def _merged(kinks: AtomKinks, directions: Floats) -> tuple[AtomKinks, Floats]:
    """Return kinks with those of equal rows of the data joined into one, heavier kink."""
    # Any projection of the rows brings equal ones together, where scores alone do not.
    projected = directions @ np.sin(1.0 + np.arange(directions.shape[1]))
    order = np.lexsort((projected, kinks.residuals, kinks.atoms))
    atoms, residuals, rows = kinks.atoms[order], kinks.residuals[order], directions[order]
    same = (np.diff(atoms) == 0) & (np.diff(residuals) == 0) & (rows[1:] == rows[:-1]).all(axis=1)
    first: Ints = np.flatnonzero(np.concatenate([[True], ~same])) if order.size else order
    weights = np.add.reduceat(kinks.weights[order], first) if order.size else kinks.weights
    kept = order[first]
    joined = AtomKinks(
        kinks.atoms[kept],
        kinks.rows[kept],
        kinks.thresholds[kept],
        kinks.residuals[kept],
        weights,
        kinks.others[kept],
    )
    return joined, directions[kept]
