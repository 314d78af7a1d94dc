"""Units and origins of features, so that distances between parameters mean something.

With intercepts, features are measured from their means in standard deviations: neither another unit nor
another origin of a feature then changes the problem that is solved. Without, an origin is part of the model,
and features are measured in root mean squares from 0.

Sparse features cannot be centred, but sums over their rows can be corrected for that: see `LinearModel`. This
costs digits where a mean is large beside the standard deviation. Such sparse features are not centred.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.samples import Features, n_rows_of
from partialfair.exceptions import FarFromZeroWarning, InputError, PenalizedFeatureWarning
from partialfair.optimization.models.designs import DenseDesign, as_design
from partialfair.optimization.models.linear import FARTHEST_CORRECTED
from partialfair.utils.text import listed
from partialfair.utils.typing import Floats, Ints

__all__ = ["ColumnUnits", "column_units", "penalized_warning"]

_FARTHEST_DENSE = 1e9
"""Mean in standard deviations up to which dense features are centred without a word: predictions, which are
made of features as they are, lose as many of their 16 digits."""
_AT_ZERO = 1e-8
"""Means of fewer standard deviations are those of features that were centred already: so little is left that
subtracting it would cost time and change nothing."""
_NARROW = 1e-3
"""Sparse features are far from zero only if all values are within this share of the mean. An indicator that
one in a million lacks is not: it needs no centring."""

_DISABLED = 100.0
"""Penalty, in units of a feature's scale, that leaves less than a hundredth of its best coefficient."""


@dataclass(frozen=True, eq=False)
class ColumnUnits:
    """How features are measured: ``(x − centres) / scales``.

    Attributes
    ----------
    centres, scales : (d,)
        Origins and units. The unit of a feature that counts nothing beside the intercepts is infinite.
    far
        Features that are too far from zero.
    dense
        Whether features are dense: then those that are far are centred all the same.
    """

    centres: Floats
    scales: Floats
    far: tuple[int, ...] = ()
    dense: bool = True

    def penalties(self, alpha: float) -> Floats:
        """Return what makes ``½ Σ penalties w²`` the penalty ``½ alpha ‖coef‖²`` of parameters w."""
        # Nothing moves the parameter of a feature that counts nothing; 1 keeps Hessians regular.
        return np.where(np.isfinite(self.scales), alpha / self.scales**2, 1.0)

    def remark(self, name_of: Callable[[int], str]) -> FarFromZeroWarning | None:
        """Say which features are too far from zero."""
        if not self.far:
            return None
        who = listed([name_of(column) for column in self.far])
        limit = _FARTHEST_DENSE if self.dense else FARTHEST_CORRECTED
        advice = "subtract means" if self.dense else "subtract means, or pass X as a dense array"
        return FarFromZeroWarning(
            f"{who}: a mean more than {limit:g} standard deviations from 0 leaves too few digits to tell "
            f"values apart; {advice}"
        )


def penalized_warning(
    name_of: Callable[[int], str], X: Features, units: ColumnUnits, alpha: float
) -> PenalizedFeatureWarning | None:
    """Say which features the penalty disables; None if there are none.

    In units of a feature's scale s the penalty is ``alpha / s²``, and the loss bends by at most about 1: the
    best coefficient shrinks by that factor. A rare indicator has a small s as well, and deserves it; there
    a coefficient of ordinary size still moves some scores. So the largest deviation from the centre has to be
    small, too.
    """
    if isinstance(X, CategoricalCodes) or not alpha > 0:
        return None
    columns = np.flatnonzero(np.isfinite(units.scales) & (alpha >= _DISABLED * units.scales**2))
    if not columns.size:
        return None
    ends = [np.asarray(end.toarray() if issparse(end) else end).ravel() for end in _ends(X, columns)]
    largest = np.max(np.abs(np.stack(ends) - units.centres[columns]), axis=0)
    disabled = columns[(alpha >= largest**2) & (largest > 0)]
    if not disabled.size:
        return None
    who = listed([name_of(column)[:50] for column in disabled.tolist()], most=2)
    return PenalizedFeatureWarning(
        f"{who}: values this small need coefficients so large that alpha={alpha:g} keeps them near 0; "
        "standardize the features (StandardScaler), or lower alpha"
    )


def _ends(X: Features, columns: Ints) -> tuple[Any, Any]:
    """Return the largest and the smallest value of some columns."""
    part = X[:, columns]
    return part.max(axis=0), part.min(axis=0)


def column_units(X: Features, weights: Floats, *, centred: bool) -> ColumnUnits:
    """Return weighted means and standard deviations of all features, or 0 and root mean squares."""
    design = as_design(X, np.zeros(n_rows_of(X), dtype=np.int8), 1)
    shares = weights / weights.sum()
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if not centred:
            sizes = _checked(np.sqrt(design.squares(shares)))
            return ColumnUnits(np.zeros(sizes.size), _positive(sizes))
        means = design.backward(shares[:, None])[0, :, 0]
        # Rounding errors of differences may be negative.
        spreads = _checked(np.sqrt(np.maximum(design.squares(shares, means), 0.0)))
    dense, far = isinstance(design, DenseDesign), []
    farthest = _FARTHEST_DENSE if dense else FARTHEST_CORRECTED
    for column in np.flatnonzero(np.abs(means) > farthest * spreads).tolist():
        values, mean = design.forward(np.eye(1, means.size, column)), means[column]
        if values.min() == values.max():
            means[column], spreads[column] = 0.0, np.inf  # the intercepts absorb it
            continue
        if np.abs(values - mean).max() < _NARROW * abs(mean):
            far.append(column)
        if not dense:
            means[column], spreads[column] = 0.0, np.hypot(mean, spreads[column])
    centres = np.where(np.abs(means) > _AT_ZERO * spreads, means, 0.0)
    return ColumnUnits(centres, _positive(spreads), tuple(far), dense)


def _checked(spreads: Floats) -> Floats:
    """Refuse features whose squares are not finite."""
    if not np.isfinite(spreads).all():
        column = int(np.flatnonzero(~np.isfinite(spreads))[0])
        raise InputError(f"feature {column} of X holds values too large to square; rescale it")
    return spreads


def _positive(scales: Floats) -> Floats:
    """Return 1 for features that are always 0."""
    return np.where(scales > 0, scales, 1.0)
