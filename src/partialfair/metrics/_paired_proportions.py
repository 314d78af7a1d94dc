"""The difference of two models' gaps at one threshold each, by limits of proportions.

Bounds from draws miss too often with few selected rows: a group in which a model selects no row selects none
in any draw. As in `partialfair.metrics._proportions`, each proportion has Clopper–Pearson limits instead, and
MOVER joins them, here for a combination ``Σ c_t P_t`` over the groups (and labels) of both models. With the
distances ``e_t`` from ``c_t P_t`` to its own upper limit, which have the sign of ``c_t``, the upper limit of
the sum is ``√(Σ r_tu e_t e_u)`` above its estimate. The r_tu are the correlations of the estimates: both
models score the same rows (Newcombe's method for paired proportions, in each group). A proportion of 0 or 1
has no correlation with others.

The claims are those of `partialfair.metrics.paired`: ``P_k − P_j`` of B is at most A's gap, for all k ≠ j,
compared with the mean of A's contenders, and with A's difference of the same two groups and label where that
has the lower end. If both are compared, each has half of the error; that the data decide whether both are is
not covered by theory, only by simulation (benchmarks/paired_and_chosen.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from partialfair.metrics._proportions import ProportionGaps, correlations
from partialfair.utils.typing import Floats

__all__ = ["PairedProportions"]

_USUAL_ERROR = 0.05
"""At which contenders are found, and the comparison that has the lower end."""

_Distances: TypeAlias = tuple[Floats, Floats]
"""From proportions to their lower and upper limits."""

_BISECTIONS = 20
_SMALLEST_ERROR = 1e-12


@dataclass(frozen=True, eq=False)
class PairedProportions:
    """Upper ends of one model's gap minus the other's.

    Attributes
    ----------
    one, other
        The proportions of both models on the same rows, which have clusters.
    n_deviations
        How many standard deviations contenders of the other model may be below its largest difference.
    """

    one: ProportionGaps
    other: ProportionGaps
    n_deviations: float

    def upper_end(self, error: float) -> float:
        """Return what the difference of the true gaps exceeds with that probability."""
        ends = self._ends(error)[0]
        if self._compare_both.any():
            ends = np.where(self._compare_both, np.minimum(*self._ends(error / 2)), ends)
        return float(ends.max())

    def p_value(self) -> float:
        """Return the largest error at which the upper end is not below 0."""
        low, high = np.log(_SMALLEST_ERROR), 0.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.upper_end(float(np.exp(middle))) < 0 else (middle, high)
        return float(np.exp(high))

    @cached_property
    def _compare_both(self) -> npt.NDArray[np.bool_]:
        with_mean, at_same = self._ends(_USUAL_ERROR)
        return np.asarray(at_same < with_mean - 1e-12)

    def _ends(self, error: float) -> tuple[Floats, Floats]:
        """Upper ends of ``P_k − P_j`` minus the mean of contenders, and minus the other's ``P_k − P_j``."""
        ours, theirs = self._differences
        reference = (self._contenders * self.other.values).sum()
        distances = self.one.distances(error), self.other.distances(error)
        with_mean = ours - reference + self._radius(0, self._contenders, *distances)
        at_same = ours - theirs + self._radius_at_same(*distances)
        diagonal = np.eye(ours.shape[1], dtype=bool)  # a group has no difference from itself
        return np.where(diagonal, -np.inf, with_mean), np.where(diagonal, -np.inf, at_same)

    @cached_property
    def _differences(self) -> tuple[Floats, Floats]:
        """``P_k − P_j`` of both models at ``[label, k, j]``."""
        one, other = (model.values[:, :, None] - model.values[:, None, :] for model in (self.one, self.other))
        return one, other

    @cached_property
    def _contenders(self) -> Floats:
        """Coefficients by which the other model's proportions make the mean difference of its contenders."""
        differences = self._differences[1]
        label, k, j = np.unravel_index(np.argmax(differences), differences.shape)
        top = np.zeros_like(self.other.values)
        top[label, k] += 1
        top[label, j] -= 1
        distances = self.other.distances(_USUAL_ERROR)
        deviation = self._radius(1, top, distances, distances) / special.ndtri(1 - _USUAL_ERROR)
        shortfall = differences[label, k, j] - differences
        chosen = (shortfall <= self.n_deviations * deviation) & (differences > 0)
        return np.asarray((chosen.sum(axis=2) - chosen.sum(axis=1)) / max(int(chosen.sum()), 1))

    def _radius(self, model: int, coefficients: Floats, ours: _Distances, theirs: _Distances) -> Floats:
        """Distance to the upper end of a model's differences minus a combination of the other's."""
        (below, above), (their_below, their_above) = ours, theirs
        errors = -coefficients * np.where(coefficients > 0, their_below, their_above)
        shared = np.tensordot(self._correlations[model, :, :, 1], errors, axes=2)
        squares = np.tensordot(errors, np.tensordot(self._correlations[1, :, :, 1], errors, axes=2), axes=2)
        crossed = (above * shared)[:, :, None] - (below * shared)[:, None, :]
        return np.sqrt(np.maximum(self._squares(model, above, below) + 2 * crossed + squares, 0.0))

    def _radius_at_same(self, ours: _Distances, theirs: _Distances) -> Floats:
        """Distance to the upper end of the difference of both models' differences."""
        (below, above), (their_below, their_above) = ours, theirs
        shared = self._by_label(0, 1)
        of_same_group = np.diagonal(shared, axis1=1, axis2=2)
        crossed = (
            shared * above[:, :, None] * their_above[:, None, :]
            + np.swapaxes(shared, 1, 2) * their_below[:, :, None] * below[:, None, :]
            - (of_same_group * above * their_below)[:, :, None]
            - (of_same_group * below * their_above)[:, None, :]
        )
        squares = self._squares(0, above, below) + self._squares(1, their_below, their_above)
        return np.sqrt(np.maximum(squares + 2 * crossed, 0.0))

    def _squares(self, model: int, first: Floats, second: Floats) -> Floats:
        """Squared distance of a model's differences, by those of the first and of the second proportion."""
        first, second = first[:, :, None], second[:, None, :]
        return np.asarray(first**2 + second**2 - 2 * self._by_label(model, model) * first * second)

    def _by_label(self, model: int, other: int) -> Floats:
        """Correlations of two models' proportions of the same label, at ``[label, k, j]``."""
        return np.stack([self._correlations[model, i, :, other, i] for i in range(self.one.values.shape[0])])

    @cached_property
    def _correlations(self) -> Floats:
        """Correlations at ``[model, label, group, model, label, group]``."""
        proportions = [each for model in (self.one, self.other) for row in model.by_label for each in row]
        matrix = correlations(proportions)
        np.fill_diagonal(matrix, 1.0)
        return matrix.reshape(2 * (2, *self.one.values.shape))
