"""Functions of scores that are polynomials between edges: sums over scores come from a few sums per bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

_REACH = 0.1
"""Number of widths on both sides over which bends of sharp corners are averaged."""

_SLOTS_PER_EDGE = 16
"""Enough slots that a score rarely passes an edge after the first one of its slot."""


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
        """Return the bin of each score; one that equals an edge lies below it."""
        return np.asarray(_bins(self.edges, scores))


def hinge_pieces(centres: Floats, width: float, rounding: float) -> Pieces:
    """Return the pieces of ``max(s − centre, 0) / width``, rounded over ``rounding`` widths on both sides."""
    half = width * (rounding or _REACH)  # half width over which the bend of sharp corners is averaged
    edges = np.unique(np.concatenate([centres - half, centres + half, centres]))
    if not edges.size:
        edges = np.zeros(1)  # without functions, any bins are enough
    # A point inside each bin determines which functions are 0, rounded or straight there.
    middles = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])
    x = middles[:, None] - centres
    corner, above = np.abs(x) < half, x > 0
    values, slopes = np.zeros((3, *x.shape)), np.zeros((2, *x.shape))
    straight = above if rounding == 0 else x >= half
    values[0], values[1] = np.where(straight, -centres, 0.0), straight
    slopes[0] = straight
    if rounding:
        # (s − centre + half)² / (4 half) as a polynomial of s
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
    """Count the edges below each score; slots of equal width give the start, faster than bisection."""
    n_slots = _SLOTS_PER_EDGE * edges.size
    low, high = edges[0], edges[-1]
    scale = n_slots / (high - low) if high > low else 0.0
    first, below = np.empty(n_slots + 1, dtype=np.int32), 0
    for slot in range(n_slots + 1):
        # Slightly to the left, so that rounding never gives a start too far right.
        while below < edges.size and (edges[below] - low) * scale < slot - 0.5:
            below += 1
        first[slot] = below
    out = np.empty(scores.size, dtype=np.int32)
    for i in range(scores.size):
        score, n_below = scores[i], 0  # also for nan
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

    The p_j are polynomials of x between edges, at most quadratic, with coefficients (degree + 1, B, J). As
    long as no difference passes an edge, a sum is a polynomial of the target. A sweep of the targets stores
    its value, slope and bend at the current target, so that distant scores lose no precision. A difference
    that passes an edge adds the jump from one piece to the next: O((n + n_sources) C) for each p_j and edge
    of it.
    """
    degree, n_bins, n_functions = polynomials.shape
    n_columns = len(weights)
    out = np.zeros((n_functions, n_columns, targets.size))
    below = np.full(n_bins, -np.inf)  # the edge below each bin
    below[1:] = edges
    for j in range(n_functions):
        jumps = np.zeros((n_bins, 3))
        jumps[:, :degree] = polynomials[:, :, j].T
        straight = jumps[0, 2] == 0 and jumps[-1, 2] == 0
        jumps[1:] -= jumps[:-1].copy()
        changes = np.array([jumps[b].any() for b in range(n_bins)])
        for c in range(n_columns):
            _sweep(below[changes], jumps[changes], straight, targets, sources, weights[c], out[j, c])
    return out


@njit(cache=True, nogil=True)
def _sweep(
    edges: Floats,
    jumps: Floats,
    straight: bool,
    targets: Floats,
    sources: Floats,
    weights: Floats,
    out: Floats,
) -> None:
    """Write one sum to ``out``; jumps are the polynomials that edges add, straight those outside."""
    passed = np.zeros(edges.size, dtype=np.int64)  # sources whose differences are beyond each edge
    value = slope = bend = 0.0
    here = targets[0] if targets.size else 0.0
    for i in range(targets.size if edges.size else 0):
        step = targets[i] - here
        here = targets[i]
        value += step * (slope + step * bend)
        slope += 2 * step * bend
        for b in range(edges.size):
            m = passed[b]
            while m < sources.size and here - sources[m] > edges[b]:
                x = here - sources[m]
                value += weights[m] * (jumps[b, 0] + x * (jumps[b, 1] + x * jumps[b, 2]))
                slope += weights[m] * (jumps[b, 1] + 2 * x * jumps[b, 2])
                bend += weights[m] * jumps[b, 2]
                m += 1
            passed[b] = m
        if straight and passed[0] == passed[-1]:
            bend = 0.0  # no score remains where pieces bend, and no rounding error either
        out[i] = value
