"""Losses of scores as formulas, losses tied to rows, and the settings that estimators accept for them."""

from partialfair.optimization.objectives._objective import Objective, tied
from partialfair.optimization.objectives._protocol import (
    Coupling,
    Curvature,
    Difference,
    Loss,
    Mirrored,
    mirrored,
    parts,
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
