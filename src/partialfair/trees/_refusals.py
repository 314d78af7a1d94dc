"""Why a model cannot be read as a sum of leaf values, each in one sentence that names the model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

from partialfair.exceptions import InputError

__all__ = [
    "name_of",
    "refuse_classes",
    "refuse_dart",
    "refuse_linear_leaves",
    "refuse_monotone",
    "refuse_objective",
    "refuse_targets",
]


def name_of(model: Any) -> str:
    """Return what messages call a model: the name of its class."""
    return model.__name__ if isinstance(model, type) else type(model).__name__


def refuse_classes(model: Any, n_classes: int) -> NoReturn:
    """Refuse a classifier of other than two classes."""
    counted = "one class" if n_classes == 1 else f"{n_classes} classes"
    raise InputError(f"{name_of(model)} has {counted}; only binary classifiers and regressors can be read")


def refuse_targets(model: Any) -> NoReturn:
    """Refuse a model of several targets."""
    raise InputError(f"{name_of(model)} predicts several targets at once; give each a model of its own")


def refuse_dart(model: Any, instead: str) -> NoReturn:
    """Refuse trees that were dropped and weighted anew while others grew."""
    raise InputError(
        f"{name_of(model)} uses DART, which drops trees and weights them anew as others grow; use {instead}"
    )


def refuse_linear_leaves(model: Any) -> NoReturn:
    """Refuse leaves that hold linear models."""
    raise InputError(f"{name_of(model)} has linear models in its leaves, not values; use linear_tree=False")


def refuse_monotone(model: Any) -> NoReturn:
    """Refuse models that promise to be monotone."""
    raise InputError(
        f"{name_of(model)} has monotone constraints, which other leaf values would break; leave them out"
    )


def refuse_objective(model: Any, objective: str, supported: Collection[str]) -> NoReturn:
    """Refuse a link that is neither the identity nor the logit."""
    raise InputError(
        f"{name_of(model)} has the objective {objective}, whose predictions are neither sums of leaf values"
        f" nor their logistic transform; use one of {', '.join(supported)}"
    )
