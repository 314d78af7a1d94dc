"""Leaf values that a library can add up without rounding, in whatever order it does."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from partialfair.utils.typing import Floats

__all__ = ["DOUBLE_BITS", "SINGLE_BITS", "Sizes", "largest_sum", "on_grid"]

Sizes: TypeAlias = tuple[int, ...]

SINGLE_BITS = 24
"""The significand of float32, in which XGBoost keeps leaf values and adds them up."""

DOUBLE_BITS = 48
"""Five bits fewer than the significand of float64: forests divide their sums by the number of trees, and two
sums that differ must still differ then. A step is 4e-14 of a score of 10, far below what data can tell."""


def largest_sum(values: Floats, n_leaves: Sizes) -> float:
    """Bound the size of every sum of one leaf a tree, and of every partial sum, in any order.

    ``max(sum_t max(0, max_l values_t[l]), sum_t max(0, max_l -values_t[l]))``: nothing exceeds the sum of
    the highest leaves above 0, nor falls below that of the lowest leaves below it.
    """
    starts = np.cumsum([0, *n_leaves[:-1]])
    ups = np.maximum(np.maximum.reduceat(values, starts), 0.0).sum()
    downs = np.maximum(np.maximum.reduceat(-values, starts), 0.0).sum()
    return float(max(ups, downs))


def on_grid(values: Floats, n_leaves: Sizes, bits: int) -> Floats:
    r"""Round leaf values to multiples of one power of two, so that sums over trees are exact.

    With ``u`` the step and ``B`` the bound of :func:`largest_sum`, every partial sum is a whole number of
    steps between ``-B/u`` and ``B/u``. Floats with a significand of ``bits`` bits hold all of these exactly
    where ``B <= 2**bits u``; hence ``u = 2**(ceil(log2 B) - bits)``, and no sum depends on its order.

    Parameters
    ----------
    values
        The leaves of all trees, tree after tree.
    n_leaves
        The number of leaves of each tree.
    bits
        Of the significand in which the sums are taken.

    Returns
    -------
    Floats
        The nearest multiples of ``u``. Rounding them again changes nothing.
    """
    rounded = np.asarray(values, dtype=np.float64)
    step = 0.0
    # Rounding up may lift the bound over a power of two, which takes a wider step; the second turn ends it
    # but for bounds within a rounding error of a power of two.
    while (needed := _step(largest_sum(rounded, n_leaves), bits)) > step:
        step = needed
        rounded = np.rint(rounded / step) * step
    return rounded


def _step(bound: float, bits: int) -> float:
    """Return the least power of two of which ``2**bits`` reach the bound (0 where the bound is 0)."""
    if bound == 0.0:
        return 0.0
    significand, exponent = np.frexp(bound)  # bound = significand * 2**exponent, 0.5 <= significand < 1
    return float(np.ldexp(1.0, int(exponent) - (significand == 0.5) - bits))
