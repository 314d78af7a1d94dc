"""Models of XGBoost: estimators and boosters, read and written in the library's JSON format."""

from __future__ import annotations

import copy
import itertools
import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logit

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import (
    ScoreKind,
    TreeEnsemble,
    name_of,
    refuse_classes,
    refuse_dart,
    refuse_monotone,
    refuse_objective,
    refuse_targets,
    score_kinds,
)
from partialfair.trees.nodes import Nodes, Structure
from partialfair.utils.model_files.xgboost import LOGISTIC, PREDICTIONS
from partialfair.utils.typing import ArrayLike, Floats, Ints

# Objectives whose predictions are the sum of leaf values, or its logistic transform.
_SCORE_KINDS = score_kinds((LOGISTIC,), PREDICTIONS)


@dataclass(frozen=True, eq=False, kw_only=True)
class XGBoostTrees(TreeEnsemble):
    """Trees of an ``XGBClassifier``, an ``XGBRegressor`` (or the ``XGBRF`` versions) or a ``Booster``.

    XGBoost has no function to set leaf values, so the model is saved, changed and loaded. It holds and adds
    up values in single precision, in the order of trees, starting from its base score. A written model has
    the base score that adds 0, and the former one is part of its first tree, because sums are exact only on
    one grid.
    """

    significand_bits: int = 24  # of float32
    saved: dict[str, Any] = field(repr=False)
    """The model as its library saves it, up to the best iteration; never changed."""
    structure: Structure = field(repr=False)

    def scores(self, X: ArrayLike) -> Floats:
        """Return the scores of ``predict(X, output_margin=True)``, with trees up to the best iteration."""
        if _is_estimator(self.model):
            return np.asarray(self.model.predict(X, output_margin=True), dtype=np.float64)
        return np.asarray(self._predict(X, output_margin=True), dtype=np.float64)

    def _leaf_positions(self, X: Any) -> Ints:
        # Not by the estimators' apply, which does not support categories before XGBoost 3.
        reached = self._predict(X, pred_leaf=True).reshape(-1, self.n_trees)
        return self.structure.leaf_positions(reached.astype(np.int32))

    def _predict(self, X: Any, **what: bool) -> Any:
        from xgboost import DMatrix

        settings = self.model.get_params() if _is_estimator(self.model) else {}
        table = DMatrix(
            X,
            missing=settings.get("missing", np.nan),
            feature_types=settings.get("feature_types"),
            nthread=settings.get("n_jobs"),
            enable_categorical=True,
        )
        booster = _booster(self.model)
        best = _best_iteration(booster)
        # (0, 0) means all iterations.
        return booster.predict(table, iteration_range=(0, 0 if best is None else best + 1), **what)

    def _write(self, stored: Floats) -> Any:
        saved = copy.deepcopy(self.saved)
        # The base score whose margin is 0, in the form in which the library saves it: a list since 3.1.
        sizes = saved["learner"]["learner_model_param"]
        zero = "5E-1" if _is_logistic(saved["learner"]) else "0E0"
        sizes["base_score"] = f"[{zero}]" if sizes["base_score"].startswith("[") else zero
        trees = saved["learner"]["gradient_booster"]["model"]["trees"]
        for tree, nodes, values in zip(
            trees, self.structure.trees, self.structure.node_values(stored), strict=True
        ):
            # With the digits that single precision needs.
            tree["base_weights"] = [float(str(np.float32(value))) for value in values]
            for leaf in nodes.leaf_ids:  # leaves store their value where inner nodes store their split
                tree["split_conditions"][leaf] = tree["base_weights"][leaf]
        original = _booster(self.model)
        written = copy.deepcopy(original)  # with its settings: threads, device
        written.load_model(bytearray(json.dumps(saved), "utf-8"))
        # XGBoost's JSON reader does not decode escapes such as \u00e4, so names are set separately.
        written.feature_names = original.feature_names
        written.set_attr(**original.attributes())  # which a model cut at the best iteration lacks
        if original is self.model:
            return written
        # The memo replaces the old booster by the new one wherever the model holds it.
        return copy.deepcopy(self.model, {id(original): written})


def read(model: Any) -> XGBoostTrees:
    """Read a fitted estimator or booster of XGBoost."""
    booster = _booster(model)
    best = _best_iteration(booster)
    config = json.loads(booster.save_config())["learner"]["gradient_booster"]
    _check_booster(model, config["name"], config.get("tree_train_param", {}).get("monotone_constraints", ""))
    whole = json.loads(booster.save_raw("json"))
    saved = whole if best is None else json.loads(booster[: best + 1].save_raw("json"))
    # Names of categories, which XGBoost saves since 3.1.
    if (names := whole["learner"]["gradient_booster"]["model"].get("cats")) is not None:
        _check_categories(model, names)
        saved["learner"]["gradient_booster"]["model"]["cats"] = names  # which the cut leaves out
    score_kind = _score_kind(model, saved["learner"])
    trees = saved["learner"]["gradient_booster"]["model"]["trees"]
    if not trees:
        raise InputError(f"{name_of(model)} has no trees")
    structure = Structure(
        tuple(
            Nodes(
                np.asarray(tree["left_children"], dtype=np.int64),
                np.asarray(tree["right_children"], dtype=np.int64),
                np.asarray(tree["sum_hessian"], dtype=np.float64),
            )
            for tree in trees
        )
    )
    # Files have the digits of single precision, so numbers are read in that precision.
    values = structure.leaf_values(np.float32(tree["split_conditions"]) for tree in trees)
    values[: structure.n_leaves[0]] += base_margin(saved["learner"])
    return XGBoostTrees(
        model=model,
        score_kind=score_kind,
        values=values,
        n_leaves=structure.n_leaves,
        saved=saved,
        structure=structure,
    )


def _check_categories(model: Any, names: dict[str, Any]) -> None:
    """Raise `InputError` if XGBoost has corrupted the names of categories and so confuses them.

    Version 3.2 stores as many bytes of a column's names as these have letters: two of ä, ö and ü are then the
    same when it scores rows, training rows included.
    """
    for place, column in enumerate(names["enc"]):
        starts, letters = column.get("offsets", []), np.array(column["values"])
        if len(starts) == 0:  # no categories, or numbers
            continue
        try:
            for start, end in itertools.pairwise(starts):
                letters[start:end].astype(np.int8).tobytes().decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(
                f"{name_of(model)} confuses the categories of column {place}, whose names have letters "
                "beyond ASCII, which this version of XGBoost cannot store; rename them"
            ) from None


def _is_estimator(model: Any) -> bool:
    return hasattr(model, "get_booster")


def _booster(model: Any) -> Any:
    return model.get_booster() if _is_estimator(model) else model


def _best_iteration(booster: Any) -> int | None:
    """Return the iteration that early stopping chose, counted from 0; None without early stopping."""
    best = booster.attr("best_iteration")
    return None if best is None else int(best)


def check_settings(model: Any) -> None:
    """Raise `InputError` for settings of an unfitted model whose trees could not be read."""
    settings = model.get_params()
    _check_booster(model, settings["booster"] or "gbtree", str(settings["monotone_constraints"] or ""))
    objective = settings["objective"]
    if objective is not None and objective not in _SCORE_KINDS:
        refuse_objective(model, objective if isinstance(objective, str) else "of your own", _SCORE_KINDS)


def _check_booster(model: Any, booster: str, monotone_constraints: str) -> None:
    """Raise `InputError` for training settings with which sums of leaf values are not the scores."""
    if booster == "dart":
        refuse_dart(model, "booster='gbtree'")
    if booster != "gbtree":
        raise InputError(
            f"{name_of(model)} has booster={booster!r}, which trains no trees; use booster='gbtree'"
        )
    if re.search(r"[1-9]", monotone_constraints):
        refuse_monotone(model)


def _score_kind(model: Any, learner: dict[str, Any]) -> ScoreKind:
    """Return the kind of the sums; raise `InputError` for a model that is not such a sum."""
    sizes, objective = learner["learner_model_param"], learner["objective"]["name"]
    if int(sizes["num_class"]) > 1:
        refuse_classes(model, int(sizes["num_class"]))
    if int(sizes["num_target"]) > 1:
        refuse_targets(model)
    if objective not in _SCORE_KINDS:
        refuse_objective(model, objective, _SCORE_KINDS)
    return _SCORE_KINDS[objective]


def base_margin(learner: dict[str, Any]) -> float:
    """Return the start of all scores: the base score, stored as a probability for logistic objectives."""
    base_score = np.float32(learner["learner_model_param"]["base_score"].strip("[]"))  # a list since 3.1
    return float(logit(base_score) if _is_logistic(learner) else base_score)


def _is_logistic(learner: dict[str, Any]) -> bool:
    return bool(learner["objective"]["name"] == LOGISTIC)
