"""Tree ensembles of other libraries, whose leaf values are refitted and written back."""

from partialfair.trees.ensembles import Kind, ScoreKind, TreeEnsemble, check_settings, ensemble_of, is_fitted

__all__ = ["Kind", "ScoreKind", "TreeEnsemble", "check_settings", "ensemble_of", "is_fitted"]
