"""Losses of scores as formulas, losses tied to rows, and the settings that estimators accept for them."""

from partialfair.objectives._objective import Objective, tied
from partialfair.objectives._protocol import (
    Coupling,
    Curvature,
    Difference,
    Loss,
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
    "Curvature",
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
    "mirrored",
    "parts",
    "read_loss",
    "tied",
]
