"""Models that ``--model`` names: the linear one, and trees of three libraries."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from partialfair.cli._intervals import AUTO
from partialfair.cli.options import FIT
from partialfair.exceptions import InputError
from partialfair.utils.extras import require

if TYPE_CHECKING:
    from partialfair.estimators.base import PartialFairEstimator

__all__ = [
    "Model",
    "Models",
    "alpha_notes",
    "check_alpha",
    "check_model",
    "made_estimator",
    "read_alpha",
]

_TREES, _LEAVES, _LEARNING_RATE = 500, 8, 0.1
"""Early stopping cuts the trees to what rows held out ask for. Many leaf values fit the noise of the rows: on
a9a at a training gap of .1, 60 trees of 8 leaves had a test accuracy of .827, 300 of 31 one of .818."""


class Models(StrEnum):
    """Values of ``--model``."""

    linear = "linear"
    lightgbm = "lightgbm"
    xgboost = "xgboost"
    hist = "hist"


Model = Annotated[
    Models,
    typer.Option(
        "--model",
        help="A linear model, or trees of LightGBM, XGBoost or scikit-learn (HistGradientBoosting), whose "
        "leaf values are refitted; trees take categories and missing values as they are.",
        rich_help_panel=FIT,
    ),
]


def check_model(name: str, group_terms: Any) -> None:
    """Refuse, before any file is read, a library that is not installed, and trees that use the group."""
    if name == Models.linear:
        return
    if group_terms is not None:
        raise InputError(f"--model {name} never needs the group to score, so it takes no --group-terms")
    if name != Models.hist:
        require(name, extra="boosting", purpose=f"--model {name}")


def read_alpha(text: str | None, model: str) -> float | Literal["auto"]:
    """Return the penalty that ``--alpha`` names, "auto" among them; by default the model's own."""
    if text is None:
        own: float = made_estimator(model, "statistical_parity", 0).alpha
        return own
    if text == AUTO:
        return AUTO
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"--alpha must be a number or {AUTO}, not {text!r}") from error


def check_alpha(alpha: float | Literal["auto"], option: str, model: str) -> None:
    """Refuse a penalty that cannot be right."""
    from partialfair.utils.checks import check_number

    if alpha != AUTO:
        check_number(alpha, option, low=0.0)
    elif model == Models.linear:
        raise InputError(
            f"{option} {AUTO} is for trees, whose leaf values it draws to those of the library; give a "
            "number, or another --model"
        )


def alpha_notes(asked: float | Literal["auto"], model: Any) -> list[str]:
    """Say which penalty was chosen for a model, if that was asked for."""
    if asked != AUTO:
        return []
    return [f"alpha {model.alpha_:g} was chosen, by loss and gap on training rows that no leaf was grown on"]


def made_estimator(name: str, constraint: str | None, seed: int, **settings: Any) -> PartialFairEstimator:
    """Return the estimator of a model, to be fitted."""
    if name == Models.linear:
        from partialfair.estimators import PartialFairClassifier

        return PartialFairClassifier(constraint, random_state=seed, **settings)
    from partialfair.trees import PartialFairTrees

    return PartialFairTrees(_grower(name, seed), constraint, random_state=seed, **settings)


def _grower(name: str, seed: int) -> Any:
    """Return the library's model that is to be grown."""
    shared: dict[str, Any] = {"learning_rate": _LEARNING_RATE, "random_state": seed}
    if name == Models.hist:
        from sklearn.ensemble import HistGradientBoostingClassifier

        shared |= {"max_iter": _TREES, "max_leaf_nodes": _LEAVES, "categorical_features": "from_dtype"}
        return HistGradientBoostingClassifier(**shared)
    library = require(name, extra="boosting", purpose=f"--model {name}")
    shared |= {"n_estimators": _TREES}
    if name == Models.lightgbm:
        return library.LGBMClassifier(num_leaves=_LEAVES, verbose=-1, **shared)
    shared |= {"max_leaves": _LEAVES, "grow_policy": "lossguide", "enable_categorical": True}
    return library.XGBClassifier(max_depth=0, tree_method="hist", **shared)
