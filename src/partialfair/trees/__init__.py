"""Tree ensembles of other libraries, whose leaf values are refitted and written back."""

from partialfair.trees.ensembles import Kind, ScoreKind, TreeEnsemble, check_settings, ensemble_of, is_fitted
from partialfair.trees.estimator import PartialFairTrees

__all__ = [
    "Kind",
    "PartialFairTrees",
    "ScoreKind",
    "TreeEnsemble",
    "check_settings",
    "ensemble_of",
    "is_fitted",
]
