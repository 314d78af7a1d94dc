"""The splits of every kind of tree ensemble that `partialfair.trees` reads, as ONNX can hold them.

Libraries differ in what a comparison is (``<=`` or ``<``), in what precision features are compared, and in
where missing values and unknown categories go. What concerns whole columns is done to the table before the
trees see it; what concerns a node is in the node.
"""

from __future__ import annotations

from partialfair.exceptions import InputError
from partialfair.onnx.splits import _decision_trees, _histograms, _lightgbm, _xgboost
from partialfair.onnx.splits._tables import SplitTrees
from partialfair.trees.ensembles import TreeEnsemble
from partialfair.trees.lightgbm import LightGBMTrees
from partialfair.trees.scikit_learn import ForestTrees, GradientBoostingTrees, HistogramTrees
from partialfair.trees.xgboost import XGBoostTrees

__all__ = ["SplitTrees", "split_trees"]


def split_trees(ensemble: TreeEnsemble) -> SplitTrees:
    """Return the splits of an ensemble, whatever library it is from."""
    match ensemble:
        case LightGBMTrees():
            return _lightgbm.read(ensemble)
        case XGBoostTrees():
            return _xgboost.read(ensemble)
        case HistogramTrees():
            return _histograms.read(ensemble)
        case GradientBoostingTrees() | ForestTrees():
            return _decision_trees.read(ensemble)
    name = type(ensemble.model).__name__
    raise InputError(
        f"{name} is not exported here: CatBoost does so itself, in single precision and without categories, "
        "by model_.save_model(path, format='onnx')"
    )
