"""Adjust the scores of models that cannot be trained again, so that groups are similar on an interval."""

from partialfair.postprocessing.adjuster import PartialParityAdjuster
from partialfair.postprocessing.fitting import Adjustment
from partialfair.postprocessing.maps import ScoreMap

__all__ = ["Adjustment", "PartialParityAdjuster", "ScoreMap"]
