"""Models: scores of parameters, and how columns over rows are pulled back to the parameters."""

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
