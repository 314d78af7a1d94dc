"""Scores of a model, whatever its kind: where they come from, and how it decides by them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from partialfair.exceptions import InputError
from partialfair.utils.typing import ArrayLike, Floats

Response: TypeAlias = Literal["auto", "decision_function", "predict_proba", "predict"]

# Above what score a classifier predicts its second class.
_CUTS = {"decision_function": 0.0, "predict_proba": 0.5}


@dataclass(frozen=True)
class Scorer:
    """A fitted model, and the method that gives its scores.

    Attributes
    ----------
    model
        An estimator, or a function of X.
    method
        ``"decision_function"``, ``"predict_proba"``, ``"predict"``, or ``"__call__"`` for a function.
    """

    model: Any
    method: str

    @property
    def classes(self) -> npt.NDArray[Any] | None:
        """The labels of a classifier; None for others."""
        classes = getattr(self.model, "classes_", None)
        return None if classes is None or self.method not in _CUTS else np.asarray(classes)

    @property
    def cut(self) -> float:
        """Above which score a classifier predicts its second class."""
        threshold = getattr(self.model, "decision_threshold_", 0.0)  # of partialfair's own classifiers
        if threshold == 0.0:
            return _CUTS[self.method]
        if self.method == "decision_function":
            return float(threshold)
        return float(self.model._probabilities(np.float64(threshold)))

    def scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> npt.NDArray[Any]:
        """Return one score per row; models that take the group are given it."""
        ask = self.model if self.method == "__call__" else getattr(self.model, self.method)
        groups = {"sensitive_features": sensitive_features} if _takes_groups(ask) else {}
        try:
            given = np.asarray(ask(X, **groups))
        except NotFittedError:
            raise InputError(
                f"the estimator {self.name} is not fitted; fit it first, and where the adjuster is cloned "
                "(in searches and cross-validation), wrap it in sklearn.frozen.FrozenEstimator"
            ) from None
        if self.method == "predict_proba":
            if given.ndim != 2 or given.shape[1] != 2:
                found = given.shape[1] if given.ndim == 2 else 1
                raise InputError(f"the estimator {self.name} has {found} classes, and scores need two")
            return given[:, 1]
        if given.ndim != 1:
            raise InputError(
                f"the estimator {self.name} gives {given.ndim} dimensions by {self.method}, and one score "
                "per row is needed; multi-class models have no single score"
            )
        return given

    @property
    def name(self) -> str:
        """What messages call the model."""
        return getattr(self.model, "__name__", type(self.model).__name__)


def read_scorer(model: Any, response: Response) -> Scorer:
    """Find out how a model gives scores, or say that it gives none."""
    name = getattr(model, "__name__", type(model).__name__)
    if inspect.isclass(model):
        raise InputError(f"estimator must be a fitted model or a function, not the class {name}")
    if response != "auto":
        if not hasattr(model, response):
            raise InputError(f"the estimator {name} has no method {response}")
        return Scorer(model, response)
    for method in _CUTS:
        if hasattr(model, method):
            return Scorer(model, method)
    if hasattr(model, "predict") and not _is_classifier(model):
        return Scorer(model, "predict")
    if callable(model) and not hasattr(model, "predict"):
        return Scorer(model, "__call__")
    raise InputError(
        f"the estimator {name} gives no scores: it has neither decision_function nor predict_proba, and is "
        "not a regressor"
    )


def _is_classifier(model: Any) -> bool:
    try:
        return bool(is_classifier(model))
    except AttributeError:  # of models that scikit-learn does not know, which have no tags
        return hasattr(model, "classes_")


def _takes_groups(ask: Any) -> bool:
    try:
        return "sensitive_features" in inspect.signature(ask).parameters
    except (TypeError, ValueError):  # built-in functions
        return False


def as_scores(values: Floats) -> Floats:
    """Return one column of scores; a table with one column is one."""
    try:
        given = np.asarray(values)
    except ValueError:  # rows of different lengths, which are refused later
        return values
    return given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else values
