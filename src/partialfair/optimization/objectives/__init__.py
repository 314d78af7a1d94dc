"""Losses of scores as formulas, losses of given rows, and the settings that estimators accept for them."""

from partialfair.optimization.objectives.loss import (
    Coupling,
    Difference,
    Loss,
    Mirrored,
    Objective,
    mirror_loss,
    split_loss,
    tie_loss,
)
from partialfair.optimization.objectives.pairwise import AUCLoss
from partialfair.optimization.objectives.pointwise import HingeLoss, LogisticLoss, SquaredLoss
from partialfair.optimization.objectives.settings import (
    AUC,
    LOSSES,
    Hinge,
    Logistic,
    LossSettings,
    PartialAUC,
    Squared,
    read_loss,
)

__all__ = [
    "AUC",
    "LOSSES",
    "AUCLoss",
    "Coupling",
    "Difference",
    "Hinge",
    "HingeLoss",
    "Logistic",
    "LogisticLoss",
    "Loss",
    "LossSettings",
    "Mirrored",
    "Objective",
    "PartialAUC",
    "Squared",
    "SquaredLoss",
    "mirror_loss",
    "read_loss",
    "split_loss",
    "tie_loss",
]
