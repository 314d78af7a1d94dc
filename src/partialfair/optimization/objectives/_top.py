"""The top share of some values, with a sharp or a rounded border."""

from __future__ import annotations

import numpy as np

from partialfair.utils.typing import Floats

__all__ = ["top_shares"]


def top_shares(values: Floats, weights: Floats, top: float, rounding: float) -> Floats:
    """Return the r that maximises ``Σ r v + rounding/2 Σ r (1 − r/q)`` over ``0 ≤ r ≤ q, Σ r = top``.

    That is ``r_j = q_j clip((v_j − λ)/rounding + ½, 0, 1)``. Without rounding values above a border λ have
    all of their weight in it, those below none, and those at the border share what is left by weight. The
    maximum exceeds the sharp one by at most ``rounding/2 · top (1 − top)``.

    Parameters
    ----------
    values : (n,)
        v.
    weights : (n,)
        q > 0, which sum to 1.
    top
        In [0, 1].
    rounding
        At least 0, in units of the values.
    """
    if rounding == 0:
        border = _sharp_border(values, weights, top)
        above, at = values > border, values == border
        left = np.clip((top - weights[above].sum()) / weights[at].sum(), 0.0, 1.0)
        return np.where(above, weights, np.where(at, left * weights, 0.0))
    border = _rounded_border(values, weights, top, rounding)
    return np.asarray(weights * np.clip((values - border) / rounding + 0.5, 0.0, 1.0))


def _sharp_border(values: Floats, weights: Floats, top: float) -> float:
    """Return the value at which a share ``top`` has been passed from above."""
    order = np.argsort(-values)
    passed = np.cumsum(weights[order])
    return float(values[order[min(int(np.searchsorted(passed, top)), order.size - 1)]])


def _rounded_border(values: Floats, weights: Floats, top: float, rounding: float) -> float:
    """Return the λ at which the shares sum to ``top``: they fall along straight lines as λ rises."""
    bends = np.concatenate([values - rounding / 2, values + rounding / 2])
    order = np.argsort(bends)
    steps = np.diff(bends[order])
    falling = np.cumsum(np.concatenate([weights, -weights])[order])[:-1] / rounding
    sums = np.concatenate([[1.0], 1.0 - np.cumsum(falling * steps)])
    place = min(int(np.searchsorted(-sums, -top)), sums.size - 1)  # the first sum that is not above top
    if place == 0:
        return float(bends[order[0]])
    low, drop = sums[place - 1] - top, sums[place - 1] - sums[place]
    share = low / drop if drop > 0 else 0.0
    return float(bends[order[place - 1]] + share * steps[place - 1])
