"""Read a fitted model for the export: its scores, its decisions and its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
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
from partialfair.onnx.graph import Graph, Name
from partialfair.onnx.models import (
    GraphRows,
    Link,
    Scores,
    adjusted_scores,
    linear_scores,
    scaled_scores,
    tree_scores,
)
from partialfair.onnx.trees import split_trees
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.trees import PartialFairTrees
from partialfair.trees.ensembles import TreeEnsemble, ensemble_of, find_reader, name_of
from partialfair.trees.refitting import LeafValues
from partialfair.utils.typing import Floats, GroupLabel

# Models of scikit-learn whose scores are ``X coef + intercept``.
_LINEAR = (
    linear_model.LinearRegression,
    linear_model.LogisticRegression,
    linear_model.Ridge,
    linear_model.RidgeClassifier,
    linear_model.SGDClassifier,
    linear_model.SGDRegressor,
)


@dataclass(frozen=True)
class Decision:
    """The decisions of a classifier.

    Attributes
    ----------
    classes
        The two labels; scores above the threshold have the second one.
    cut
        The decision threshold.
    link
        The function from scores to probabilities; None without probabilities.
    """

    classes: npt.NDArray[Any]
    cut: float
    link: Link | None


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """The parts of a model that are exported.

    Attributes
    ----------
    scores
        The model as operators.
    n_features
        Number of columns of its table; None if its input is a column of scores.
    decision
        The decisions of a classifier; None for regressors.
    feature_names
        Names of the columns, if any.
    group_labels
        Groups on which scores depend; empty if scores do not depend on the group.
    group_columns
        Names of the columns of the group, if any.
    categories
        The meaning of codes, if known, by position of the column.
    """

    scores: Scores
    n_features: int | None
    decision: Decision | None = None
    feature_names: tuple[str, ...] = ()
    group_labels: tuple[GroupLabel, ...] = ()
    group_columns: tuple[Any, ...] = ()
    categories: Mapping[int, tuple[Any, ...] | None] = field(default_factory=dict)


def read_model(model: Any) -> ExportedModel:
    """Return the exported parts of a fitted model; raise an error if it cannot be exported."""
    match model:
        case FrozenEstimator():
            return read_model(model.estimator)
        case Pipeline():
            return _read_pipeline(model)
        case PartialParityAdjuster():
            return _read_adjuster(model)
        case PartialFairTrees():
            check_is_fitted(model)
            refitted = LeafValues(ensemble_of(model.estimator_))
            # Scores of forests are 2 p − 1; see `trees.refitting`.
            link = Link.HALVED if refitted.ensemble.score_kind == "probability" else Link.LOGISTIC
            decision = (
                Decision(model.classes_, model.decision_threshold_, link) if is_classifier(model) else None
            )
            return replace(
                _read_trees(refitted.ensemble, *refitted.scale),
                decision=decision,
                feature_names=_feature_names(model),
            )
        case PartialFairEstimator():
            check_is_fitted(model)
            # Without group terms all groups have one intercept and one set of coefficients.
            has_terms = max(len(model.coef_), len(model.intercept_)) > 1
            return read_linear_estimator(model, tuple(model.groups_) if has_terms else ())
    if isinstance(model, _LINEAR):
        return _read_linear_model(model)
    if find_reader(model):
        return _read_library_trees(model)
    raise InputError(
        f"{name_of(model)} cannot be exported; to_onnx takes PartialFairClassifier, PartialFairRegressor, "
        "PartialFairTrees and PartialParityAdjuster, pipelines that end in one of them, tree ensembles and "
        "linear models"
    )


def read_linear_estimator(model: Any, labels: tuple[GroupLabel, ...]) -> ExportedModel:
    """Return a linear model of partialfair with its group terms, for these labels of groups."""
    decision = None
    if is_classifier(model):
        link = Link.LOGISTIC if hasattr(model, "predict_proba") else None
        decision = Decision(model.classes_, model.decision_threshold_, link)
    # Groups have the names of the columns of ``sensitive_features``, or of X.
    by_name = model.sensitive_columns
    if not (isinstance(by_name, list | tuple) and all(isinstance(name, str) for name in by_name)):
        by_name = ()
    return ExportedModel(
        partial(linear_scores, coef=model.coef_, intercept=model.intercept_, labels=labels),
        int(model.coef_.shape[1]),
        decision,
        _feature_names(model),
        labels,
        tuple(getattr(model, "_group_columns", ())) or tuple(by_name),
    )


def _read_library_trees(model: Any) -> ExportedModel:
    ensemble = ensemble_of(model)
    decision = None
    if ensemble.threshold is not None:
        classes = np.array([0, 1]) if ensemble.classes is None else ensemble.classes
        link = Link.NONE if ensemble.score_kind == "probability" else Link.LOGISTIC
        decision = Decision(classes, ensemble.threshold, link)
    return replace(_read_trees(ensemble), decision=decision, feature_names=_feature_names(model))


def _read_trees(ensemble: TreeEnsemble, factor: float = 1.0, shift: float = 0.0) -> ExportedModel:
    """Return trees with the factor and shift from the library's scale to the scale of scores."""
    model, splits = ensemble.model, split_trees(ensemble)
    of_scikit_learn = type(model).__module__.startswith("sklearn.")
    # Other libraries support missing values in every split.
    refuses = of_scikit_learn and not get_tags(model).input_tags.allow_nan
    scores = partial(tree_scores, splits=splits, factor=factor, shift=shift, refuses_missing=refuses)
    return ExportedModel(scores, splits.n_features, categories=splits.categories)


def _read_linear_model(model: Any) -> ExportedModel:
    check_is_fitted(model)
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    if len(coef) > 1:
        raise InputError(
            f"{name_of(model)} has several scores per row; only models with one score can be exported"
        )
    _check_shape(model, coef, (1, model.n_features_in_))
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64).ravel(), (1,))
    decision = None
    if is_classifier(model):
        is_logistic = isinstance(model, linear_model.LogisticRegression)
        decision = Decision(model.classes_, 0.0, Link.LOGISTIC if is_logistic else None)
    scores = partial(linear_scores, coef=coef, intercept=intercept)
    return ExportedModel(scores, coef.shape[1], decision, _feature_names(model))


def _read_adjuster(model: PartialParityAdjuster) -> ExportedModel:
    check_is_fitted(model, "maps_")
    inner = ExportedModel(lambda graph, rows: rows.table, None)
    if model.estimator is not None:
        inner = _read_scorer(model)
    return replace(
        inner,
        scores=partial(
            adjusted_scores,
            inner=inner.scores,
            maps=model.maps_,
            bounds=model._range,
            missing_unchanged=model.missing_groups == "ignore",
        ),
        group_labels=(*(one.group for one in model.maps_), *inner.group_labels),
        group_columns=inner.group_columns or model._group_columns,
    )


def _read_scorer(adjuster: PartialParityAdjuster) -> ExportedModel:
    """Return an adjuster with the model whose scores it adjusts."""
    scorer = adjuster._scorer
    if scorer.method == "__call__":
        raise InputError(
            f"the estimator {scorer.name} is a function, which cannot be exported; export the maps alone: "
            "PartialParityAdjuster(estimator=None) fitted on its scores, or one that from_json reads"
        )
    inner = read_model(scorer.model)
    decision = inner.decision
    if scorer.method == "predict_proba":
        if decision is None or decision.link is None:
            raise InputError(f"the estimator {scorer.name} gives no probabilities that can be exported")
        link = decision.link

        def probabilities(graph: Graph, rows: GraphRows) -> Name:
            return link.probabilities(graph, inner.scores(graph, rows))

        return replace(
            inner, scores=probabilities, decision=replace(decision, cut=scorer.cut, link=Link.NONE)
        )
    if scorer.method == "predict" and decision is not None:
        raise InputError(
            f"the estimator {scorer.name} gives classes by predict, not scores; "
            "use response_method='decision_function'"
        )
    # Adjusted log-odds are no longer log-odds.
    return replace(inner, decision=None if decision is None else replace(decision, link=None))


def _read_pipeline(model: Pipeline) -> ExportedModel:
    """Return the last step of a pipeline after its scalers."""
    inner = read_model(model.steps[-1][1])
    steps: list[tuple[str, Floats]] = []
    for _, step in model.steps[:-1]:
        if step is not None and step != "passthrough":
            steps += _scaling(step)
    widths = {step.n_features_in_ for _, step in model.steps if hasattr(step, "n_features_in_")}
    if len(widths) > 1:  # exported steps neither add nor drop columns
        raise InputError(f"the steps of {name_of(model)} have different numbers of features")
    scores = partial(scaled_scores, inner=inner.scores, steps=steps)
    return replace(inner, scores=scores, feature_names=_feature_names(model) or inner.feature_names)


def _scaling(step: Any) -> list[tuple[str, Floats]]:
    """Return the operations of a transformer of scikit-learn on each column."""
    check_is_fitted(step)
    match step:
        case preprocessing.StandardScaler():
            operations = [("Sub", step.mean_ if step.with_mean else None), ("Div", step.scale_)]
        case preprocessing.RobustScaler():
            center = step.center_ if step.with_centering else None
            operations = [("Sub", center), ("Div", step.scale_ if step.with_scaling else None)]
        case preprocessing.MaxAbsScaler():
            operations = [("Div", step.scale_)]
        case preprocessing.MinMaxScaler(clip=False):
            operations = [("Mul", step.scale_), ("Add", step.min_)]
        case SimpleImputer(add_indicator=False, missing_values=float() as missing) if np.isnan(missing):
            if np.isnan(np.asarray(step.statistics_, dtype=np.float64)).any():
                raise InputError("SimpleImputer drops columns that are empty; leave them out before")
            operations = [("fill", step.statistics_)]
        case _:
            raise InputError(
                f"the step {name_of(step)} cannot be exported; convert it with skl2onnx, export the last "
                "step alone, and join both with onnx.compose.merge_models"
            )
    scaling = [
        (operator, np.asarray(numbers, dtype=np.float64))
        for operator, numbers in operations
        if numbers is not None
    ]
    for _, numbers in scaling:
        _check_shape(step, numbers, (step.n_features_in_,))
    return scaling


def _check_shape(model: Any, numbers: Floats, shape: tuple[int, ...]) -> None:
    """Raise an error for numbers of a wrong shape, as in edited files: the checker of onnx may crash."""
    if numbers.shape != shape:
        raise InputError(f"{name_of(model)} holds {numbers.shape} numbers, and its features need {shape}")


def _feature_names(model: Any) -> tuple[str, ...]:
    """Return the names of features in fit, without the columns of the group."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return ()
    # Columns of groups, given by name or by position, are not features.
    left_out = getattr(model, "sensitive_columns", None)
    listed = left_out if isinstance(left_out, list | tuple | np.ndarray) else [left_out]
    hidden = [names[column] if isinstance(column, int | np.integer) else column for column in listed]
    return tuple(str(name) for name in names if name not in hidden)
