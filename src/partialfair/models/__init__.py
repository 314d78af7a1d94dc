"""Models: scores of parameters, and how columns over rows are pulled back to the parameters."""

from partialfair.models.first_order import FirstOrderModel
from partialfair.models.linear import GroupTerms, LinearModel, linear_model
from partialfair.models.parameters import Parameters
from partialfair.models.protocol import LinearScores, ScoreModel, TellsScores

__all__ = [
    "FirstOrderModel",
    "GroupTerms",
    "LinearModel",
    "LinearScores",
    "Parameters",
    "ScoreModel",
    "TellsScores",
    "linear_model",
]
