"""Models: scores of parameters, and how columns over rows are pulled back to the parameters."""

from partialfair.optimization.models.linear import LinearModel, linear_model
from partialfair.optimization.models.score_model import (
    FirstOrderModel,
    HasDeployedScores,
    LinearScores,
    Parameters,
    ScoreModel,
)

__all__ = [
    "FirstOrderModel",
    "HasDeployedScores",
    "LinearModel",
    "LinearScores",
    "Parameters",
    "ScoreModel",
    "linear_model",
]
