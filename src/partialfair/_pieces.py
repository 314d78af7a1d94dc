"""Functions of scores that are polynomials between edges: sums over scores come from a few sums per bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair._compiled import njit
from partialfair._typing import Floats, Ints

__all__ = ["Pieces", "hinge_pieces", "look_up", "moments", "sums_of_differences"]

_REACH = 0.1
"""Bends of sharp corners are averaged over so many widths on both sides."""

_SLOTS_PER_EDGE = 16
"""So many that a score passes hardly any edge after its slot's first one."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """J functions of a score s, each a polynomial between two edges.

    Attributes
    ----------
    edges : (B − 1,)
        Ascending.
    values : (3, B, J)
        ``values[0] + values[1] s + values[2] s²``.
    slopes : (2, B, J)
        Likewise the first derivatives.
    bends : (B, J)
        The second derivatives, averaged over sharp corners.
    """

    edges: Floats
    values: Floats
    slopes: Floats
    bends: Floats

    @property
    def n_bins(self) -> int:
        """B."""
        return self.edges.size + 1

    def bins(self, scores: Floats) -> Ints:
        """Between which edges each score lies; one that equals an edge lies below it."""
        return np.asarray(_bins(self.edges, scores))


def hinge_pieces(centres: Floats, width: float, rounding: float) -> Pieces:
    """Return the pieces of ``max(s − centre, 0) / width``, rounded over ``rounding`` widths on both sides."""
    half = width * (rounding or _REACH)
    edges = np.unique(np.concatenate([centres - half, centres + half, centres]))
    if not edges.size:
        edges = np.zeros(1)  # of no function at all, any bins will do
    middles = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])
    x = middles[:, None] - centres
    corner, above = np.abs(x) < half, x > 0
    values, slopes = np.zeros((3, *x.shape)), np.zeros((2, *x.shape))
    straight = above if rounding == 0 else x >= half
    values[0], values[1] = np.where(straight, -centres, 0.0), straight
    slopes[0] = straight
    if rounding:
        shift = half - centres
        values[:, corner] = np.broadcast_to(
            np.stack([shift**2, 2 * shift, np.ones_like(shift)])[:, None] / (4 * half), values.shape
        )[:, corner]
        slopes[:, corner] = np.broadcast_to(
            np.stack([shift, np.ones_like(shift)])[:, None] / (2 * half), slopes.shape
        )[:, corner]
    return Pieces(edges, values / width, slopes / width, corner / (2 * half * width))


@njit(cache=True, nogil=True)
def _bins(edges: Floats, scores: Floats) -> Ints:
    """Count the edges below each score; slots of equal width tell where to begin, faster than bisection."""
    n_slots = _SLOTS_PER_EDGE * edges.size
    low, high = edges[0], edges[-1]
    scale = n_slots / (high - low) if high > low else 0.0
    first, below = np.empty(n_slots + 1, dtype=np.int32), 0
    for slot in range(n_slots + 1):
        # A little to the left, so that rounding never begins too far right.
        while below < edges.size and (edges[below] - low) * scale < slot - 0.5:
            below += 1
        first[slot] = below
    out = np.empty(scores.size, dtype=np.int32)
    for i in range(scores.size):
        score, n_below = scores[i], 0  # which is also where nan goes
        if score > high:
            n_below = edges.size
        elif score > low:
            n_below = first[int((score - low) * scale)]
            while edges[n_below] < score:
                n_below += 1
        out[i] = n_below
    return out


@njit(cache=True, nogil=True)
def moments(bins: Ints, scores: Floats, weights: Floats, codes: Ints, n_groups: int, n_bins: int) -> Floats:
    """Add up ``weight · (1, s, s²)`` over the scores of each group in each bin: (3, n_groups, n_bins)."""
    out = np.zeros((3, n_groups, n_bins))
    for i in range(scores.size):
        if codes[i] >= 0:
            first = weights[i] * scores[i]
            out[0, codes[i], bins[i]] += weights[i]
            out[1, codes[i], bins[i]] += first
            out[2, codes[i], bins[i]] += first * scores[i]
    return out


@njit(cache=True, nogil=True)
def look_up(table: Floats, bins: Ints, scores: Floats, weights: Floats, codes: Ints) -> Floats:
    """Return ``weight · (table[0] + table[1] s)`` of each score's group and bin; 0 without a group."""
    out = np.zeros(scores.size)
    for i in range(scores.size):
        if codes[i] >= 0:
            out[i] = weights[i] * (table[0, codes[i], bins[i]] + table[1, codes[i], bins[i]] * scores[i])
    return out


@njit(cache=True, nogil=True)
def sums_of_differences(
    edges: Floats, polynomials: Floats, targets: Floats, sources: Floats, weights: Floats
) -> Floats:
    """Return ``Σ_m weights[c, m] p_j(targets_i − sources_m)``: (J, C, n) for ascending targets and sources.

    The p_j are polynomials of x between edges, with coefficients (degree + 1, B, J). One sweep of the targets
    keeps, for each bin, the moments of the differences that lie in it: O((n + n_sources) B C). Differences
    are taken from where the sweep is, so that distant scores cost no digits.
    """
    degree, n_bins, n_functions = polynomials.shape
    n_columns, n_sources = weights.shape
    out = np.zeros((n_functions, n_columns, targets.size))
    sums = np.zeros((n_bins, n_columns, degree))
    beyond = np.zeros(n_bins, dtype=np.int64)  # sources whose differences lie in this bin or a higher one
    beyond[0] = n_sources
    here = targets[0] if targets.size else 0.0
    for m in range(n_sources):
        _move(sums[0], here - sources[m], weights[:, m], 1.0)
    for i in range(targets.size):
        step = targets[i] - here
        here = targets[i]
        for b in range(n_bins):
            for c in range(n_columns):
                # In place, so the highest power first: (x + step)² = x² + 2 step x + step².
                if degree > 2:
                    sums[b, c, 2] += step * (2 * sums[b, c, 1] + step * sums[b, c, 0])
                if degree > 1:
                    sums[b, c, 1] += step * sums[b, c, 0]
        for b in range(n_bins - 1):
            while beyond[b + 1] < n_sources and here - sources[beyond[b + 1]] > edges[b]:
                m = beyond[b + 1]
                _move(sums[b], here - sources[m], weights[:, m], -1.0)
                _move(sums[b + 1], here - sources[m], weights[:, m], 1.0)
                beyond[b + 1] += 1
            if beyond[b] == beyond[b + 1]:
                sums[b] = 0.0  # nobody is left, and no rounding error either
        for j in range(n_functions):
            for c in range(n_columns):
                for b in range(n_bins):
                    for power in range(degree):
                        out[j, c, i] += polynomials[power, b, j] * sums[b, c, power]
    return out


@njit(cache=True, nogil=True)
def _move(sums: Floats, x: float, weights: Floats, sign: float) -> None:
    """Add or take away the powers of one difference."""
    for c in range(weights.size):
        term = sign * weights[c]
        for power in range(sums.shape[1]):
            sums[c, power] += term
            term *= x
