"""Models: scores of parameters, and how columns over rows are pulled back to the parameters."""

from partialfair.optimization.models.first_order import FirstOrderModel
from partialfair.optimization.models.linear import GroupTerms, LinearModel, linear_model
from partialfair.optimization.models.parameters import Parameters
from partialfair.optimization.models.protocol import HasDeployedScores, LinearScores, ScoreModel

__all__ = [
    "FirstOrderModel",
    "GroupTerms",
    "HasDeployedScores",
    "LinearModel",
    "LinearScores",
    "Parameters",
    "ScoreModel",
    "linear_model",
]
