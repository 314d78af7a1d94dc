"""Units of features, so that distances between parameters mean something."""

from __future__ import annotations

import numpy as np

from partialfair._typing import Floats
from partialfair.estimators._inputs import Features, n_rows_of
from partialfair.exceptions import InputError
from partialfair.models._designs import as_design

__all__ = ["column_scales"]


def column_scales(X: Features, weights: Floats) -> Floats:
    """Return the weighted root mean square of every feature; 1 for a feature that is always 0."""
    design = as_design(X, np.zeros(n_rows_of(X), dtype=np.int8), 1)
    with np.errstate(over="ignore", under="ignore"):
        scales = np.sqrt(design.squares(weights / weights.sum()))
    if not np.isfinite(scales).all():
        column = int(np.flatnonzero(~np.isfinite(scales))[0])
        raise InputError(f"feature {column} of X holds values too large to square; rescale it")
    return np.where(scales > 0, scales, 1.0)
