"""Scores of models that cannot be trained again, moved so that groups are alike on an interval."""

from partialfair.postprocessing.adjuster import PartialParityAdjuster
from partialfair.postprocessing.maps import ScoreMap
from partialfair.postprocessing.result import Adjustment

__all__ = ["Adjustment", "PartialParityAdjuster", "ScoreMap"]
