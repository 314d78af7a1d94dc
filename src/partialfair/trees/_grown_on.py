"""Refusals of rows that are not like those a model was grown on: other columns, or other labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.trees._refusals import name_of
from partialfair.trees.ensembles import TreeEnsemble
from partialfair.utils.text import listed

__all__ = ["check_classes", "check_order", "check_width"]

_BLANKS = re.compile(r"\s")
"""LightGBM knows columns by names without blanks."""


def check_width(model: Any, X: Any) -> None:
    """Refuse features that are not as many as those a model was grown on, where it says how many."""
    n_features = getattr(model, "n_features_in_", X.shape[1])
    if n_features != X.shape[1]:
        raise InputError(f"{name_of(model)} was grown on {n_features} features, and X has {X.shape[1]}")


def check_order(model: Any, X: Any) -> None:
    """Refuse the columns that a model was grown on in another order: LightGBM goes by places, in silence."""
    given = [_BLANKS.sub("_", str(name)) for name in getattr(X, "columns", ())]
    known = [_BLANKS.sub("_", str(name)) for name in _names_of_columns(model)]
    if given != known and sorted(given) == sorted(known):
        raise InputError(
            f"{name_of(model)} was grown on the columns {listed(list(map(repr, known)))}, and X has them in "
            f"another order, {listed(list(map(repr, given)))}"
        )


def _names_of_columns(model: Any) -> Sequence[str]:
    """Return the names that a model knows; none where it has none."""
    for attribute in (
        "feature_names_in_",
        "feature_name_",
        "feature_names_",
        "feature_names",
        "feature_name",
    ):
        names = getattr(model, attribute, None)
        if names is not None:
            return tuple(names() if callable(names) else names)
    return ()


def check_classes(ensemble: TreeEnsemble, classes: npt.NDArray[Any]) -> None:
    """Refuse labels other than those that a model was grown on; 0 and 1 stand for any two, in order."""
    own = ensemble.classes
    if own is not None and own.tolist() not in (classes.tolist(), [0, 1]):
        raise InputError(
            f"{name_of(ensemble.model)} was grown on the classes {own.tolist()}, and y has {classes.tolist()}"
        )
