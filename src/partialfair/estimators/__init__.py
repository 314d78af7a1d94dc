"""scikit-learn estimators over the training problem and its solvers."""

from partialfair.estimators.classifier import PartialFairClassifier
from partialfair.estimators.regressor import PartialFairRegressor
from partialfair.training.result import FitResult

__all__ = ["FitResult", "PartialFairClassifier", "PartialFairRegressor"]
