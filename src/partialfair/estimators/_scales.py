"""Units: of features, so that distances between parameters mean something, and of scores."""

from __future__ import annotations

import numpy as np

from partialfair._typing import Floats
from partialfair.estimators._inputs import Features, n_rows_of
from partialfair.exceptions import InputError
from partialfair.models._designs import as_design

__all__ = ["column_scales", "spread", "tied_share"]


def column_scales(X: Features, weights: Floats) -> Floats:
    """Return the weighted root mean square of every feature; 1 for a feature that is always 0."""
    design = as_design(X, np.zeros(n_rows_of(X), dtype=np.int8), 1)
    with np.errstate(over="ignore", under="ignore"):
        scales = np.sqrt(design.squares(weights / weights.sum()))
    if not np.isfinite(scales).all():
        column = int(np.flatnonzero(~np.isfinite(scales))[0])
        raise InputError(f"feature {column} of X holds values too large to square; rescale it")
    return np.where(scales > 0, scales, 1.0)


def spread(scores: Floats, weights: Floats) -> float:
    """Return the weighted interquartile range / 1.349: the standard deviation, if scores are normal.

    Where half of the weight shares one score that is 0, and the standard deviation is returned.
    """
    order = np.argsort(scores)
    passed = np.cumsum(weights[order]) / weights.sum()
    low, high = scores[order[np.searchsorted(passed, [0.25 - 1e-12, 0.75 - 1e-12])]]
    if high > low:
        return float(high - low) / 1.349
    centred = scores - np.average(scores, weights=weights)
    return float(np.sqrt(np.average(centred**2, weights=weights)))


def tied_share(scores: Floats, weights: Floats) -> float:
    """Return the largest share of the weight that one score holds."""
    _, position = np.unique(scores, return_inverse=True)
    return float(np.bincount(position, weights=weights).max() / weights.sum())
