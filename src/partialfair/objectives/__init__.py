"""Losses of score vectors, and the settings that estimators accept for them."""

from partialfair.objectives._protocol import (
    Coupling,
    Curvature,
    Difference,
    Loss,
    LossSettings,
    Mirrored,
    mirrored,
    parts,
)
from partialfair.objectives.pairwise import AUCLoss
from partialfair.objectives.pointwise import HingeLoss, LogisticLoss, SquaredLoss
from partialfair.objectives.settings import (
    AUC,
    LOSSES,
    Hinge,
    Logistic,
    PartialAUC,
    Squared,
    read_loss,
)

__all__ = [
    "AUC",
    "LOSSES",
    "AUCLoss",
    "Coupling",
    "Curvature",
    "Difference",
    "Hinge",
    "HingeLoss",
    "Logistic",
    "LogisticLoss",
    "Loss",
    "LossSettings",
    "Mirrored",
    "PartialAUC",
    "Squared",
    "SquaredLoss",
    "mirrored",
    "parts",
    "read_loss",
]
