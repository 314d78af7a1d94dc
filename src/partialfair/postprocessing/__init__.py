"""Adjusts the scores of a fitted model so that groups have similar scores on an interval."""

from partialfair.postprocessing.adjuster import PartialParityAdjuster

__all__ = ["PartialParityAdjuster"]
