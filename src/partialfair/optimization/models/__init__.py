"""Models: scores as functions of parameters, and products with the transposed Jacobian."""

from partialfair.optimization.models.linear import GroupTerms, LinearModel, linear_model
from partialfair.optimization.models.score_model import (
    FirstOrderModel,
    LinearScores,
    Parameters,
    ScoreModel,
)

__all__ = [
    "FirstOrderModel",
    "GroupTerms",
    "LinearModel",
    "LinearScores",
    "Parameters",
    "ScoreModel",
    "linear_model",
]
