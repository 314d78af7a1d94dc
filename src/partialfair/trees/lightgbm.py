"""Models of LightGBM: estimators and boosters, read and written in the library's text format."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partialfair.exceptions import InputError
from partialfair.trees.ensembles import (
    ScoreKind,
    TreeEnsemble,
    name_of,
    refuse_classes,
    refuse_dart,
    refuse_monotone,
    refuse_objective,
    score_kinds,
)
from partialfair.trees.nodes import Nodes
from partialfair.utils.typing import ArrayLike, Floats, Ints

_PREDICTIONS = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
# Objectives whose predictions are the sum of leaf values, or its logistic transform.
_SCORE_KINDS = score_kinds(("binary", "cross_entropy"), _PREDICTIONS)

# Some of the other objectives: those that can be rejected by name before training.
_OTHER_LINKS = frozenset(
    {"poisson", "gamma", "tweedie", "cross_entropy_lambda", "multiclass", "multiclassova"}
)


@dataclass(frozen=True)
class _ModelText:
    """A model in LightGBM's text format: a header, a block of ``key=value`` lines per tree, and the rest."""

    header: str
    trees: tuple[str, ...]
    rest: str

    @classmethod
    def of(cls, booster: Any) -> _ModelText:
        # By default only the trees up to the best iteration are written, which predictions use.
        text = booster.model_to_string()
        header, *trees = re.split(r"(?m)^(?=Tree=\d+$)", text.partition("end of trees")[0])
        return cls(header, tuple(trees), text[text.index("end of trees") :])

    def join(self) -> str:
        # The loader finds the trees by their sizes in bytes.
        sizes = " ".join(str(len(tree.encode())) for tree in self.trees)
        header = re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", self.header)
        return "".join([header, *self.trees, self.rest])

    def entry(self, name: str) -> str:
        """Return an entry of the header; empty if there is none."""
        line = re.search(rf"(?m)^{name}=(.*)$", self.header)
        return line[1] if line else ""

    def parameter(self, name: str) -> str:
        """Return a training parameter as text; empty if there is none."""
        line = re.search(rf"(?m)^\[{name}: (.*)\]$", self.rest)
        return line[1] if line else ""


@dataclass(frozen=True, eq=False, kw_only=True)
class LightGBMTrees(TreeEnsemble):
    """Trees of an ``LGBMClassifier``, an ``LGBMRegressor`` or a ``Booster``.

    Leaves have LightGBM's numbers, and its sums are in double precision. The baseline
    (``boost_from_average``) is already part of the first tree's leaves.
    """

    text: _ModelText = field(repr=False)

    def scores(self, X: ArrayLike) -> Floats:
        """Return the scores of ``predict(X, raw_score=True)``."""
        return np.asarray(self.model.predict(X, raw_score=True), dtype=np.float64)

    def _leaf_positions(self, X: Any) -> Ints:
        positions: Ints = self.model.predict(X, pred_leaf=True).reshape(-1, self.n_trees)
        return positions

    def _write(self, stored: Floats) -> Any:
        from lightgbm import Booster

        by_tree = np.split(stored, np.cumsum(self.n_leaves)[:-1])
        trees = tuple(map(_replace_leaves, self.text.trees, by_tree))
        original = _booster(self.model)
        written = Booster(model_str=_ModelText(self.text.header, trees, self.text.rest).join())
        written.best_iteration, written.best_score = original.best_iteration, original.best_score
        written.params = copy.deepcopy(original.params)
        if original is self.model:
            return written
        # The memo replaces the old booster by the new one wherever the model holds it.
        return copy.deepcopy(self.model, {id(original): written})


def read(model: Any) -> LightGBMTrees:
    """Read a fitted estimator or booster of LightGBM."""
    text = _ModelText.of(_booster(model))
    score_kind = _score_kind(model, text)
    if not text.trees:
        raise InputError(f"{name_of(model)} has no trees")
    leaves = [numbers_of(tree, "leaf_value") for tree in text.trees]
    return LightGBMTrees(
        model=model,
        score_kind=score_kind,
        values=np.concatenate(leaves),
        n_leaves=tuple(map(len, leaves)),
        text=text,
    )


def _booster(model: Any) -> Any:
    return getattr(model, "booster_", model)


def check_settings(model: Any) -> None:
    """Raise `InputError` for settings of an unfitted model whose trees could not be read."""
    settings = model.get_params()
    # Training parameters have several names; aliases that are not listed here are found in the text of the
    # fitted model.
    _check_trees(
        model,
        boosting=settings.get("boosting") or settings["boosting_type"],
        has_linear_leaves=bool(settings.get("linear_tree")),
        monotone_constraints=str(settings.get("monotone_constraints") or ""),
    )
    objective = settings["objective"]
    if objective in _OTHER_LINKS or callable(objective):
        refuse_objective(model, objective if isinstance(objective, str) else "of your own", _SCORE_KINDS)


def _score_kind(model: Any, text: _ModelText) -> ScoreKind:
    """Return the kind of the sums; raise `InputError` for a model that is not such a sum."""
    _check_trees(
        model,
        boosting="rf" if "\naverage_output\n" in text.header else text.parameter("boosting"),
        has_linear_leaves=any(numbers_of(tree, "is_linear").any() for tree in text.trees),
        monotone_constraints=text.parameter("monotone_constraints"),
    )
    if (n_classes := int(text.entry("num_class"))) > 1:
        refuse_classes(model, n_classes)
    objective, *settings = text.entry("objective").split() or ["of your own"]
    if objective not in _SCORE_KINDS or "sqrt" in settings:
        refuse_objective(model, " ".join([objective, *settings]), _SCORE_KINDS)
    # The logit of the probability is sigmoid times the sum of leaf values.
    if objective == "binary" and "sigmoid:1" not in settings:
        raise InputError(f"{name_of(model)} has {settings[0]}, so its scores are not log-odds; use sigmoid=1")
    return _SCORE_KINDS[objective]


def _check_trees(model: Any, *, boosting: str, has_linear_leaves: bool, monotone_constraints: str) -> None:
    """Raise `InputError` for trees whose sums of leaf values are not, or would not stay, the scores."""
    if boosting == "dart":
        refuse_dart(model, "boosting_type='gbdt'")
    if boosting in ("rf", "random_forest"):
        raise InputError(
            f"{name_of(model)} has boosting_type='rf', whose raw scores are sums over trees while its"
            " predictions are means; use boosting_type='gbdt', or a RandomForest of scikit-learn"
        )
    if has_linear_leaves:
        raise InputError(
            f"{name_of(model)} has linear models in its leaves, not values; use linear_tree=False"
        )
    if re.search(r"[1-9]", monotone_constraints):  # 0 leaves a feature free
        refuse_monotone(model)


def numbers_of(tree: str, key: str) -> Floats:
    """Return the numbers of one line of a tree; none if there is no such line."""
    found = re.search(rf"(?m)^{key}=(.*)$", tree)
    return np.array(found[1].split() if found else [], dtype=np.float64)


def _replace_leaves(tree: str, stored: Floats) -> str:
    """Return a tree's text with other leaf values, and their means in inner nodes."""
    children = [numbers_of(tree, key).astype(np.int64) for key in ("left_child", "right_child")]
    n_inner, no_children = len(children[0]), np.full(len(stored), -1)
    lines = {"leaf_value": stored}
    if n_inner:
        # Inner nodes are counted from 0, and leaf l is child ~l: it becomes node n_inner + l.
        numbered = (np.where(child < 0, n_inner + ~child, child) for child in children)
        left, right = (np.concatenate([child, no_children]) for child in numbered)
        cover = np.concatenate([numbers_of(tree, "internal_count"), numbers_of(tree, "leaf_count")])
        lines["internal_value"] = Nodes(left, right, cover).means(stored)[:n_inner]
    for key, numbers in lines.items():
        text = " ".join(f"{number:.17g}" for number in numbers)  # enough digits for any double
        tree = re.sub(rf"(?m)^{key}=.*$", f"{key}={text}", tree)
    return tree
