"""Where the convex parts f⁺ bend near a point, one by one.

The f⁺ of a ramp are piecewise linear with a kink for every score and threshold, and optima sit on many of
them at once. To a Newton model a kink is a wall that it cannot see; spelled out, it is one more row of the
quadratic program: ``f⁺_i(x + d) ≥ f⁺_i(x) + ⟨∇f⁺_i(x), d⟩ + Σ_s shares[s, i] max(0, ⟨rows_s, d⟩ − gaps_s)``,
with equality as long as d passes no other kink.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair._typing import Floats, Ints
from partialfair.dc import AtomKinks

__all__ = ["Kinks", "atom_rows", "merged", "no_kinks"]


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
        By how much each enters each f⁺.
    keys : (K,)
        Names by which two sets of kinks near the same point can be compared.
    """

    rows: Floats
    gaps: Floats
    shares: Floats
    keys: Ints

    def gains(self, step: Floats) -> Floats:
        """By how much the f⁺ exceed their tangents at ``x + step``: (m,)."""
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


def atom_rows(found: AtomKinks, model_rows: Floats, n: int) -> Floats:
    """Return the directions of kinks of atoms in (w, θ), scaled by how much the slope jumps."""
    rows = np.zeros((found.atoms.size, n))
    n_params = model_rows.shape[1]
    rows[:, :n_params] = model_rows
    free = np.flatnonzero(found.thresholds >= 0)
    rows[free, n_params + found.thresholds[free]] = -1
    away = np.where(found.residuals > 0, -1.0, 1.0)
    return np.asarray((away * found.weights)[:, None] * rows)


def merged(found: AtomKinks, model_rows: Floats) -> tuple[AtomKinks, Floats]:
    """Return kinks with those of equal rows of the data joined into one, heavier kink."""
    # Any projection of the rows brings equal ones together, where scores alone do not.
    projected = model_rows @ np.sin(1.0 + np.arange(model_rows.shape[1]))
    order = np.lexsort((projected, found.residuals, found.atoms))
    atoms, residuals, rows = found.atoms[order], found.residuals[order], model_rows[order]
    same = (np.diff(atoms) == 0) & (np.diff(residuals) == 0) & (rows[1:] == rows[:-1]).all(axis=1)
    first: Ints = np.flatnonzero(np.concatenate([[True], ~same])) if order.size else order
    weights = np.add.reduceat(found.weights[order], first) if order.size else found.weights
    kept = order[first]
    return (
        AtomKinks(
            found.atoms[kept],
            found.rows[kept],
            found.thresholds[kept],
            found.residuals[kept],
            weights,
            found.others[kept],
        ),
        model_rows[kept],
    )
