"""The scores of any model: the method that returns them, and the threshold of its decisions."""

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

# Scores above which a classifier predicts its second class.
_CUTS = {"decision_function": 0.0, "predict_proba": 0.5}


@dataclass(frozen=True)
class Scorer:
    """A fitted model, and the method that returns its scores.

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
        """The labels of a classifier; None for other models."""
        classes = getattr(self.model, "classes_", None)
        return None if classes is None or self.method not in _CUTS else np.asarray(classes)

    @property
    def cut(self) -> float:
        """The score above which a classifier predicts its second class."""
        threshold = getattr(self.model, "decision_threshold_", 0.0)  # of partialfair's own classifiers
        if threshold == 0.0:
            return _CUTS[self.method]
        if self.method == "decision_function":
            return float(threshold)
        return float(self.model._probabilities(np.float64(threshold)))

    def scores(self, X: ArrayLike, sensitive_features: ArrayLike | None) -> npt.NDArray[Any]:
        """Return one score per row; the groups are passed to models that accept them."""
        ask = self.model if self.method == "__call__" else getattr(self.model, self.method)
        groups = {"sensitive_features": sensitive_features} if _takes_groups(ask) else {}
        try:
            given = np.asarray(ask(X, **groups))
        except NotFittedError:
            raise InputError(
                f"the estimator {self.name} is not fitted; fit it first, and if the adjuster is cloned "
                "(in searches and cross-validation), wrap it in sklearn.frozen.FrozenEstimator"
            ) from None
        if self.method == "predict_proba":
            if given.ndim != 2 or given.shape[1] != 2:
                found = given.shape[1] if given.ndim == 2 else 1
                raise InputError(f"the estimator {self.name} has {found} classes, and scores need two")
            return given[:, 1]
        if given.ndim != 1:
            raise InputError(
                f"{self.method} of the estimator {self.name} returns {given.ndim} dimensions, but one score "
                "per row is needed; multi-class models have no single score"
            )
        return given

    @property
    def name(self) -> str:
        """The name of the model in messages."""
        return getattr(self.model, "__name__", type(self.model).__name__)


def read_scorer(model: Any, response: Response) -> Scorer:
    """Return the scorer of a model; raise `InputError` if it has no scores."""
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
        f"the estimator {name} has no scores: it has neither decision_function nor predict_proba, and is "
        "not a regressor"
    )


def _is_classifier(model: Any) -> bool:
    try:
        return bool(is_classifier(model))
    except AttributeError:  # models that scikit-learn does not know have no tags
        return hasattr(model, "classes_")


def _takes_groups(ask: Any) -> bool:
    try:
        return "sensitive_features" in inspect.signature(ask).parameters
    except (TypeError, ValueError):  # built-in functions
        return False


def as_scores(values: Floats) -> Floats:
    """Return one column of scores; a table with one column is accepted."""
    try:
        given = np.asarray(values)
    except ValueError:  # rows of different lengths, which are rejected later
        return values
    return given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else values
