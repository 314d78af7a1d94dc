"""Losses as users specify them: settings, before they are applied to labels and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from partialfair.exceptions import InputError
from partialfair.optimization.objectives.loss import Difference, Objective, tie_loss
from partialfair.optimization.objectives.pairwise import KINDS, AUCLoss
from partialfair.optimization.objectives.pointwise import HingeLoss, LogisticLoss, SquaredLoss
from partialfair.utils.checks import check_choice, check_number, shown
from partialfair.utils.typing import Floats

# Width of rounded corners. The KKT certificate held for all of 36 constrained hinge problems of 100 to 1,500
# rows at 0.05, 0.1 and 0.2, after 31, 28 and 24 steps, and for all but one at 0.02. The objective increases
# by about 1e-4 at 0.1.
_ROUNDING = 0.1


def _labels(targets: Floats) -> Floats:
    """Return labels; raise `InputError` for 0 and 1: a row of label 0 would have a constant loss."""
    if not (np.abs(targets) == 1).all():
        raise InputError("the labels of a classification loss must be the floats 1 and −1")
    return targets


class LossSettings(Protocol):
    """A loss before it is applied to rows, as estimators accept it."""

    def build(self, targets: Floats, weights: Floats, *, anchored: bool = True) -> Objective:
        """Return the loss of all rows.

        Parameters
        ----------
        targets : (n,)
            Labels ±1, or numbers for regression losses.
        weights : (n,)
            Non-negative weights.
        anchored
            Whether scores have an intercept, which pairwise losses then determine.
        """


@dataclass(frozen=True)
class Logistic:
    """Mean logistic loss, see `LogisticLoss`."""

    def build(self, targets: Floats, weights: Floats, *, anchored: bool = True) -> Objective:
        """Return the loss of all rows."""
        return tie_loss(LogisticLoss(), _labels(targets), weights)


@dataclass(frozen=True)
class Squared:
    """Mean squared loss, see `SquaredLoss`; classes count as ±1."""

    def build(self, targets: Floats, weights: Floats, *, anchored: bool = True) -> Objective:
        """Return the loss of all rows."""
        return tie_loss(SquaredLoss(), targets, weights)


@dataclass(frozen=True)
class Hinge:
    """Mean hinge loss with a rounded corner, see `HingeLoss`.

    Parameters
    ----------
    rounding
        Width over which the corner is rounded, in units of the scores, whose margin is 1. 0 leaves it sharp.
    """

    rounding: float = _ROUNDING

    def __post_init__(self) -> None:
        check_number(self.rounding, "rounding of the hinge loss", low=0.0)

    def build(self, targets: Floats, weights: Floats, *, anchored: bool = True) -> Objective:
        """Return the loss of all rows."""
        return tie_loss(HingeLoss(self.rounding), _labels(targets), weights)


@dataclass(frozen=True)
class AUC:
    """Mean loss of the pairs of a positive and a negative (section D.1), see `AUCLoss`.

    The loss needs all rows in one place, because it compares every positive with the negatives.

    Parameters
    ----------
    kind
        ``"squared_hinge"``, ``"squared"``, ``"hinge"`` or ``"logistic"``. The first ignores pairs that are in
        order by more than the margin 1, unlike ``"squared"``, and its minimizer has the best AUC, which that
        of ``"hinge"`` need not have; ``"logistic"`` visits all pairs.
    rounding
        Width over which the corner of the hinge is rounded.
    """

    kind: str = "squared_hinge"
    rounding: float = _ROUNDING

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind of AUC", KINDS)
        check_number(self.rounding, "rounding of AUC", low=0.0)

    def build(self, targets: Floats, weights: Floats, *, anchored: bool = True) -> Objective:
        """Return the loss of all rows."""
        loss = AUCLoss(self.kind, rounding=self.rounding, anchor=float(anchored))
        return tie_loss(loss, _labels(targets), weights)


@dataclass(frozen=True)
class PartialAUC:
    """Mean loss of the pairs whose negative has a rank in an interval (section D.1).

    ``f_0 = (T_b − T_a) / (b − a)``, where T_b is the loss `AUCLoss` of the top fraction b of the negatives.
    Both are convex; with a > 0 the loss is their difference, and fits are stationary points. The loss needs
    all rows in one place, because it compares every positive with the negatives.

    Parameters
    ----------
    fpr
        False positive rates (a, b): ranks among the negatives, counted from the top.
    kind
        ``"squared_hinge"``, ``"hinge"`` or ``"logistic"``. The squared loss increases again for pairs in
        order, so its top part is not weakly convex, and it raises `InputError`.
    rounding
        Width over which the corner of the hinge and the borders of the interval are rounded, see `AUCLoss`.

    Examples
    --------
    >>> from partialfair import PartialFairClassifier
    >>> clf = PartialFairClassifier(constraint=None, loss=PartialAUC(fpr=(0.0, 0.1)))
    """

    fpr: tuple[float, float] = (0.0, 0.1)
    kind: str = "squared_hinge"
    rounding: float = _ROUNDING

    def __post_init__(self) -> None:
        if not (isinstance(self.fpr, Sequence) and len(self.fpr) == 2):
            raise InputError(
                f"fpr of PartialAUC must be a tuple of two rates such as (0.0, 0.1), not {shown(self.fpr)}"
            )
        for rate in self.fpr:
            check_number(rate, "each rate of fpr", low=0.0, high=1.0)
        if not self.fpr[0] < self.fpr[1]:
            raise InputError(f"fpr of PartialAUC must increase, unlike {self.fpr!r}")
        check_number(self.rounding, "rounding of PartialAUC", low=0.0)
        if self.kind == "squared":
            raise InputError("the squared loss has no weakly convex partial AUC; use kind='squared_hinge'")
        check_choice(self.kind, "kind of PartialAUC", KINDS[1:])

    def build(self, targets: Floats, weights: Floats, *, anchored: bool = True) -> Objective:
        """Return the loss of all rows."""
        low, high = self.fpr
        factor = 1 / (high - low)  # the mean over the interval of false positive rates
        # Only the convex part is anchored: one anchor determines the intercept, two would cancel.
        plus = AUCLoss(self.kind, high, factor, self.rounding, float(anchored))
        minus = AUCLoss(self.kind, low, factor, self.rounding)
        return tie_loss(plus if low == 0 else Difference(plus, minus), _labels(targets), weights)


LOSSES: dict[str, LossSettings] = {
    "logistic": Logistic(),
    "squared": Squared(),
    "hinge": Hinge(),
    "auc": AUC(),
}
"""Names that estimators accept; a new loss is one settings object and one entry."""


def read_loss(loss: Any) -> LossSettings:
    """Return the settings of that name, or the given settings."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if isinstance(loss, type) and hasattr(loss, "build"):
        raise InputError(f"loss must be an object, {loss.__name__}(), not its class")
    if not callable(getattr(loss, "build", None)):
        names = ", ".join(map(repr, LOSSES))
        raise InputError(f"loss must be {names}, or a loss such as PartialAUC(fpr=(0.0, 0.1)), not {loss!r}")
    return loss
