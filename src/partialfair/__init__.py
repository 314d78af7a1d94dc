"""Audit and train scoring models so that groups get similar scores on a chosen interval of ranks.

Submodules are imported on first use (PEP 562): ``import partialfair`` alone loads only this file.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partialfair import (
        constraints,
        datasets,
        metrics,
        onnx,
        plotting,
        postprocessing,
        theory,
        trees,
    )
    from partialfair.estimators.classifier import PartialFairClassifier
    from partialfair.estimators.path import fairness_path
    from partialfair.estimators.regressor import PartialFairRegressor
    from partialfair.metrics.choice import choose_interval
    from partialfair.persistence import load_model, save_model
    from partialfair.tables import make_table_pipeline
    from partialfair.training.options import FitOptions

__version__ = "0.1.0.dev0"

__all__ = [
    "FitOptions",
    "PartialFairClassifier",
    "PartialFairRegressor",
    "choose_interval",
    "constraints",
    "datasets",
    "fairness_path",
    "load_model",
    "make_table_pipeline",
    "metrics",
    "onnx",
    "plotting",
    "postprocessing",
    "save_model",
    "theory",
    "trees",
]

# Public objects by submodule; subpackages are imported by their own name.
_HOME_OF = {
    "FitOptions": "partialfair.training.options",
    "PartialFairClassifier": "partialfair.estimators.classifier",
    "PartialFairRegressor": "partialfair.estimators.regressor",
    "choose_interval": "partialfair.metrics.choice",
    "fairness_path": "partialfair.estimators.path",
    "load_model": "partialfair.persistence",
    "make_table_pipeline": "partialfair.tables",
    "save_model": "partialfair.persistence",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name in __all__:
        return importlib.import_module(f"partialfair.{name}")
    raise AttributeError(f"module 'partialfair' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
