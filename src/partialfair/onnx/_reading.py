"""From a fitted model to what of it is exported: its scores, how it decides by them, and what it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import linear_model, preprocessing
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from partialfair.estimators.base import PartialFairEstimator
from partialfair.exceptions import InputError
from partialfair.onnx._models import (
    AdjustedScores,
    Linear,
    Link,
    Probabilities,
    Scaled,
    Scores,
    Trees,
    Unadjusted,
)
from partialfair.onnx.splits import split_trees
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.trees import PartialFairTrees, TreeEnsemble, ensemble_of
from partialfair.trees.ensembles import READERS
from partialfair.trees.refitting import LeafValues
from partialfair.utils.typing import Floats

__all__ = ["Decision", "Exported", "exported"]

_LINKS = {"log-odds": Link.LOGISTIC, "probability": Link.NONE}

_LINEAR = (
    linear_model.LinearRegression,
    linear_model.LogisticRegression,
    linear_model.Ridge,
    linear_model.RidgeClassifier,
    linear_model.SGDClassifier,
    linear_model.SGDRegressor,
)
"""Models of scikit-learn whose scores are ``X coef + intercept``."""


@dataclass(frozen=True)
class Decision:
    """How a classifier decides.

    Attributes
    ----------
    classes
        The two labels; the second where the score is above the cut.
    cut
        The score above which that is.
    link
        How scores become probabilities; None where they do not.
    """

    classes: npt.NDArray[Any]
    cut: float
    link: Link | None


@dataclass(frozen=True, eq=False)
class Exported:
    """What of a model is exported.

    Attributes
    ----------
    scores
        The model as operators.
    decision
        Of classifiers.
    feature_names
        Of the columns, where they have names.
    group_columns
        Names of the columns that were crossed to groups, where they have any.
    """

    scores: Scores
    decision: Decision | None = None
    feature_names: tuple[str, ...] = ()
    group_columns: tuple[Any, ...] = ()


def exported(model: Any) -> Exported:
    """Return what of a fitted model is exported, or say why it cannot be."""
    match model:
        case FrozenEstimator():
            return exported(model.estimator)
        case Pipeline():
            return _pipeline(model)
        case PartialParityAdjuster():
            return _adjuster(model)
        case PartialFairTrees():
            return _refitted_trees(model)
        case PartialFairEstimator():
            return _linear_estimator(model)
    if isinstance(model, _LINEAR):
        return _linear_model(model)
    if _has_trees(model):
        return _library_trees(model)
    raise InputError(
        f"{_name(model)} cannot be exported; to_onnx takes PartialFairClassifier, PartialFairRegressor, "
        "PartialFairTrees and PartialParityAdjuster, pipelines that end in one of them, tree ensembles and "
        "linear models"
    )


def _linear_estimator(model: Any) -> Exported:
    check_is_fitted(model)
    labels = tuple(model.groups_) if max(len(model.coef_), len(model.intercept_)) > 1 else ()
    link = Link.LOGISTIC if hasattr(model, "predict_proba") else None
    decision = Decision(model.classes_, 0.0, link) if is_classifier(model) else None
    return Exported(
        Linear(model.coef_, model.intercept_, labels),
        decision,
        _feature_names(model),
        _group_columns(model),
    )


def _refitted_trees(model: PartialFairTrees) -> Exported:
    check_is_fitted(model)
    refitted = LeafValues(ensemble_of(model.model_))
    factor, shift = refitted.scale
    decision = None
    if is_classifier(model):
        link = Link.HALVED if refitted.ensemble.score_kind == "probability" else Link.LOGISTIC
        decision = Decision(model.classes_, 0.0, link)
    return Exported(_trees(refitted.ensemble, factor, shift), decision, _feature_names(model))


def _has_trees(model: Any) -> bool:
    """Whether a model is of a kind whose trees can be read, by where its class is defined."""
    homes = tuple(f"{home}." for home in READERS)
    return any(f"{ancestor.__module__}.".startswith(homes) for ancestor in type(model).__mro__)


def _library_trees(model: Any) -> Exported:
    ensemble = ensemble_of(model)
    decision = None
    if ensemble.threshold is not None:
        classes = np.array([0, 1]) if ensemble.classes is None else ensemble.classes
        decision = Decision(classes, ensemble.threshold, _LINKS[ensemble.score_kind])
    return Exported(_trees(ensemble), decision, _feature_names(model))


def _trees(ensemble: TreeEnsemble, factor: float = 1.0, shift: float = 0.0) -> Trees:
    model = ensemble.model
    of_scikit_learn = type(model).__module__.startswith("sklearn.")
    refuses = of_scikit_learn and not get_tags(model).input_tags.allow_nan
    return Trees(split_trees(ensemble), factor, shift, refuses)


def _linear_model(model: Any) -> Exported:
    check_is_fitted(model)
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    if len(coef) > 1:
        raise InputError(f"{_name(model)} has several scores a row; only models with one can be exported")
    _check_shape(model, coef, (1, model.n_features_in_))
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64).ravel(), (1,))
    decision = None
    if is_classifier(model):
        is_logistic = isinstance(model, linear_model.LogisticRegression)
        decision = Decision(model.classes_, 0.0, Link.LOGISTIC if is_logistic else None)
    return Exported(Linear(coef, intercept), decision, _feature_names(model))


def _adjuster(model: PartialParityAdjuster) -> Exported:
    check_is_fitted(model, "maps_")
    inner = Exported(Unadjusted()) if model.scorer is None else _scorer(model)
    bounds, keeps = model._range, model.missing_groups == "ignore"
    return replace(
        inner,
        scores=AdjustedScores(inner.scores, model.maps_, bounds, keeps),
        group_columns=inner.group_columns or model._group_columns,
    )


def _scorer(adjuster: PartialParityAdjuster) -> Exported:
    """Return an adjuster's scorer, with the scores that the adjuster moves."""
    asked = adjuster._scorer
    if asked.method == "__call__":
        raise InputError(
            f"the scorer {asked._name} is a function, which cannot be exported; export the maps alone: "
            "PartialParityAdjuster(scorer=None) fitted on its scores, or one that from_json reads"
        )
    inner = exported(asked.model)
    decision = inner.decision
    if asked.method == "predict_proba":
        if decision is None or decision.link is None:
            raise InputError(f"the scorer {asked._name} gives no probabilities that can be exported")
        scores = Probabilities(inner.scores, decision.link)
        return replace(inner, scores=scores, decision=replace(decision, cut=asked.cut, link=Link.NONE))
    if asked.method == "predict" and decision is not None:
        raise InputError(
            f"the scorer {asked._name} gives classes by predict, not scores; use response='decision_function'"
        )
    return replace(inner, decision=None if decision is None else replace(decision, link=None))


def _pipeline(model: Pipeline) -> Exported:
    """Return the last step of a pipeline behind columns that are scaled."""
    inner = exported(model.steps[-1][1])
    steps: list[tuple[str, Floats]] = []
    for _, step in model.steps[:-1]:
        if step is not None and step != "passthrough":
            steps += _scaling(step)
    widths = {step.n_features_in_ for _, step in model.steps if hasattr(step, "n_features_in_")}
    if len(widths) > 1:  # no step that is exported adds or drops columns
        raise InputError(f"the steps of {_name(model)} have different numbers of features")
    names = _feature_names(model) or inner.feature_names
    return replace(inner, scores=Scaled(inner.scores, tuple(steps)), feature_names=names)


def _scaling(step: Any) -> list[tuple[str, Floats]]:
    """Return what a transformer of scikit-learn does to columns, one by one."""
    check_is_fitted(step)
    match step:
        case preprocessing.StandardScaler():
            wanted = [("Sub", step.mean_ if step.with_mean else None), ("Div", step.scale_)]
        case preprocessing.RobustScaler():
            centre = step.center_ if step.with_centering else None
            wanted = [("Sub", centre), ("Div", step.scale_ if step.with_scaling else None)]
        case preprocessing.MaxAbsScaler():
            wanted = [("Div", step.scale_)]
        case preprocessing.MinMaxScaler(clip=False):
            wanted = [("Mul", step.scale_), ("Add", step.min_)]
        case SimpleImputer(add_indicator=False, missing_values=missing) if _is_nan(missing):
            if np.isnan(np.asarray(step.statistics_, dtype=np.float64)).any():
                raise InputError("SimpleImputer drops columns that are empty; leave them out before")
            wanted = [("fill", step.statistics_)]
        case _:
            raise InputError(
                f"the step {_name(step)} cannot be exported; convert it with skl2onnx, export the last step "
                "alone, and join both with onnx.compose.merge_models"
            )
    numbers = [(what, np.asarray(held, dtype=np.float64)) for what, held in wanted if held is not None]
    for _, held in numbers:
        _check_shape(step, held, (step.n_features_in_,))
    return numbers


def _check_shape(model: Any, numbers: Floats, shape: tuple[int, ...]) -> None:
    """Refuse numbers, out of an edited file say, that do not fit the features: onnx's checker may crash."""
    if numbers.shape != shape:
        raise InputError(f"{_name(model)} holds {numbers.shape} numbers, and its features need {shape}")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value)


def _feature_names(model: Any) -> tuple[str, ...]:
    """Return the names of features as fit saw them, without the columns that hold the group."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return ()
    left_out = getattr(model, "sensitive_columns", None)
    listed = left_out if isinstance(left_out, list | tuple | np.ndarray) else [left_out]
    hidden = [names[one] if isinstance(one, int | np.integer) else one for one in listed]
    return tuple(str(name) for name in names if name not in hidden)


def _group_columns(model: Any) -> tuple[Any, ...]:
    """Return the names of the columns of groups: those of ``sensitive_features``, or of X."""
    held = model.sensitive_columns
    by_name = isinstance(held, list | tuple) and all(isinstance(one, str) for one in held)
    return tuple(getattr(model, "_group_columns", ())) or (tuple(held) if by_name else ())


def _name(model: Any) -> str:
    return model.__name__ if isinstance(model, type) else type(model).__name__
