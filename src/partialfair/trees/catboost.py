"""Models of CatBoost, which has its own functions for leaf indices and leaf values."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import (
    ScoreKind,
    TreeEnsemble,
    name_of,
    refuse_monotone,
    refuse_objective,
    score_kinds,
)
from partialfair.utils.typing import ArrayLike, Floats, Ints

# Losses whose predictions are the sum of leaf values, or its logistic transform.
_SCORE_KINDS = score_kinds(("Logloss", "CrossEntropy"), ("RMSE", "MAE", "Huber", "Quantile", "MAPE"))


@dataclass(frozen=True, eq=False, kw_only=True)
class CatBoostTrees(TreeEnsemble):
    """Trees of a ``CatBoostClassifier``, a ``CatBoostRegressor`` or a ``CatBoost``, with any growing policy.

    Inner nodes hold no values. A written model has a bias of 0, and the former bias is part of its first
    tree; its parameters are spelled as in CatBoost's files.
    """

    def scores(self, X: ArrayLike) -> Floats:
        """Return the scores of ``predict(X, prediction_type="RawFormulaVal")``."""
        return np.asarray(self.model.predict(X, prediction_type="RawFormulaVal"), dtype=np.float64)

    def _leaf_positions(self, X: Any) -> Ints:
        positions: Ints = self.model.calc_leaf_indexes(X)
        return positions

    def _write(self, stored: Floats) -> Any:
        written = self.model.copy()
        # Leaf values cannot be set in a copy, and the original must not change, so a file makes a new model.
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "model.cbm"))
            self.model.save_model(path)
            written.load_model(path)
        written.set_leaf_values(stored)
        written.set_scale_and_bias(1.0, [0.0])
        return written


def read(model: Any) -> CatBoostTrees:
    """Read a fitted model of CatBoost."""
    score_kind = _score_kind(model, model.get_all_params())
    counts = tuple(int(count) for count in model.get_tree_leaf_counts())
    if not counts:
        raise InputError(f"{name_of(model)} has no trees")
    scale, bias = model.get_scale_and_bias()
    # There is no intercept here: the bias becomes part of the first tree, as every row reaches a leaf of it.
    values = scale * model.get_leaf_values()
    values[: counts[0]] += bias
    return CatBoostTrees(
        model=model,
        score_kind=score_kind,
        values=values,
        n_leaves=counts,
    )


def check_settings(model: Any) -> None:
    """Raise `InputError` for settings of an unfitted model whose trees could not be read."""
    # Parameters that were not given are not listed; RMSE represents the defaults, which can all be read.
    _score_kind(model, {"loss_function": "RMSE"} | model.get_params())


def _score_kind(model: Any, settings: dict[str, Any]) -> ScoreKind:
    """Return the kind of the sums; raise `InputError` for a model that is not such a sum."""
    objective = str(settings["loss_function"])
    score_kind = _SCORE_KINDS.get(objective.partition(":")[0])
    if score_kind is None:
        refuse_objective(model, objective, _SCORE_KINDS)
    if settings.get("monotone_constraints"):
        refuse_monotone(model)
    return score_kind
