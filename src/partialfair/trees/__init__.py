"""Constrained tree ensembles: leaf values of other libraries' trees, refitted and written back."""

from partialfair.trees.estimator import PartialFairTrees

__all__ = ["PartialFairTrees"]
