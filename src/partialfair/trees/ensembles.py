"""Tree ensembles of other libraries, read as linear models on the codes of their leaves.

A fitted ensemble scores a row by adding up one value of each tree, that of the leaf that the row falls in::

    scores(X)[i] = sum_t values_t[leaf_t(X[i])]

With fixed trees, this is a linear model whose features are leaf codes and whose coefficients are the leaf
values. :func:`ensemble_of` reads a library's model in this form; :meth:`TreeEnsemble.with_values` writes
other values into a copy of it, which then predicts, saves and explains as before.

A library is one module, with the functions ``read(model)`` and ``check_settings(model)``, and an entry of
:data:`READERS`. For models that it cannot read it raises an `InputError` that names the model.

Values are rounded before they are written (:func:`on_grid`), so that a library adds them up without rounding
in any order: its scores then equal those computed here, to the last bit.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from partialfair.data.categoricals import CategoricalCodes
from partialfair.exceptions import InputError
from partialfair.utils.checks import finite_vector
from partialfair.utils.typing import ArrayLike, Floats, Ints

Kind = Literal["classifier", "regressor"]
ScoreKind = Literal["log-odds", "probability", "prediction"]

READERS = {
    "lightgbm": "partialfair.trees.lightgbm",
    "xgboost": "partialfair.trees.xgboost",
    "catboost": "partialfair.trees.catboost",
    "sklearn.ensemble._hist_gradient_boosting": "partialfair.trees.scikit_learn",
    "sklearn.ensemble._gb": "partialfair.trees.scikit_learn",
    "sklearn.ensemble._forest": "partialfair.trees.scikit_learn",
}
"""The package in which a model's class is defined, mapped to the module that reads it (imported on use)."""

DOUBLE_BITS = 48
"""Five bits fewer than the significand of float64: forests divide their sums by the number of trees, and two
different sums must still differ then. A step is 4e-14 for a score of 10, far below any effect of data."""

_MOST_LEAVES = np.iinfo(np.uint16).max + 1  # of CategoricalCodes
_CHUNK_CELLS = 2**22  # leaf codes per chunk: libraries return 4 or 8 bytes a code, codes here have 2


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeEnsemble(ABC):
    """A fitted ensemble as a linear model: ``scores(X)[i] = sum_t values_t[leaf_t(X[i])]``.

    A constant that a library adds to all scores (a base score, a prior) is part of the first tree's values,
    so there is no intercept; a mean over trees is a sum of values divided by the number of trees.

    Attributes
    ----------
    model
        The library's own model; never changed.
    kind
        Whether it is a binary classifier or a regressor.
    score_kind
        Meaning of the scores. ``"log-odds"`` of the second class: boosted classifiers.
        ``"probability"`` of the second class, a mean over trees: forests of classifiers.
        ``"prediction"``: regressors.
    values
        The leaf values of all trees, one tree after the other, in the units in which they add up to scores.
    n_leaves
        The number of leaves of each tree.
    factor
        The number by which the library multiplies leaf values as it adds them up: a learning rate, or 1.
    divisor
        The number by which the library divides its sum over trees: the number of trees for means.
    significand_bits
        Bits of the floats in which the library adds up leaf values.
    """

    model: Any = field(repr=False)
    score_kind: ScoreKind
    values: Floats = field(repr=False)
    n_leaves: tuple[int, ...] = field(repr=False)
    factor: float = 1.0
    divisor: int = 1
    significand_bits: int = DOUBLE_BITS

    def __post_init__(self) -> None:
        if max(self.n_leaves) > _MOST_LEAVES:
            tree = int(np.argmax(self.n_leaves))
            raise InputError(
                f"tree {tree} of {name_of(self.model)} has {self.n_leaves[tree]:,} leaves, more than"
                f" {_MOST_LEAVES:,}; train smaller trees"
            )
        # Read-only, because results computed from a model must never change it.
        values = finite_vector(self.values, "values").view()
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @property
    def classes(self) -> npt.NDArray[Any] | None:
        """The two labels of a classifier; None for regressors and models without labels."""
        labels = getattr(self.model, "classes_", ())
        return np.asarray(labels) if len(labels) else None

    @property
    def kind(self) -> Kind:
        """Whether the model is a binary classifier or a regressor."""
        return "regressor" if self.score_kind == "prediction" else "classifier"

    @property
    def threshold(self) -> float | None:
        """The score above which the second class is predicted: 0 or, for probabilities, 0.5.

        None for regressors. Libraries differ in their prediction for exactly this score.
        """
        return {"log-odds": 0.0, "probability": 0.5, "prediction": None}[self.score_kind]

    @property
    def n_trees(self) -> int:
        """The number of trees that predictions use, which early stopping may have reduced."""
        return len(self.n_leaves)

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value of a leaf: ``(0, 1 / n_trees)`` for probabilities."""
        if self.score_kind == "probability":
            return 0.0, 1.0 / self.n_trees
        return -np.inf, np.inf

    def leaves(self, X: ArrayLike) -> CategoricalCodes:
        """Return the leaf that each row falls in: one column per tree, counted from 0 within its tree.

        Rows are read in chunks, so that little more than ``X`` and the codes is in memory.
        """
        X = X.tocsr() if hasattr(X, "tocsr") else X  # other sparse formats cannot be indexed by row
        n_rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)
        codes = np.empty((n_rows, self.n_trees), dtype=np.uint16)
        size = max(1, _CHUNK_CELLS // max(1, self.n_trees))
        for start in range(0, n_rows, size):
            rows = slice(start, start + size)
            codes[rows] = self._leaf_positions(X.iloc[rows] if hasattr(X, "iloc") else X[rows])
        categories = tuple(np.arange(n) for n in self.n_leaves)
        return CategoricalCodes(codes, categories, tuple(f"tree {t}" for t in range(self.n_trees)))

    @abstractmethod
    def scores(self, X: ArrayLike) -> Floats:
        """Return the raw scores that the library's own model computes."""

    def summands(self, values: ArrayLike) -> Floats:
        """Return the nearest values that the library can hold and add up without rounding.

        These are multiples of one power of two (:func:`on_grid`) within :attr:`bounds`. Sums of other floats
        depend on the order of trees, so that rows with equal or nearly equal scores could have another order
        in the library than here. With a learning rate (scikit-learn's GradientBoosting) rounding may depend
        on the processor; such scores agree to 1e-15 of their size.
        """
        return self.factor * self._round(values)

    def with_values(self, values: ArrayLike) -> TreeEnsemble:
        """Write values, rounded as for :meth:`summands`, into a copy of the library's model, and read it.

        Inner nodes get the cover-weighted means of their children, which explainers use. Trees beyond the
        best iteration, which predictions do not use, are dropped; a base score or prior becomes part of the
        first tree.
        """
        return ensemble_of(self._write(self._round(values)))

    def _round(self, values: ArrayLike) -> Floats:
        """Return the leaf values with which the library adds up :meth:`summands`."""
        vector = finite_vector(values, "values")
        if len(vector) != len(self.values):
            raise InputError(f"values has {len(vector)} entries, but there are {len(self.values)} leaves")
        # The library's sums are on a grid before it divides them.
        added = np.clip(vector, *self.bounds) * self.divisor
        return on_grid(added, self.n_leaves, self.significand_bits) / self.factor

    @abstractmethod
    def _leaf_positions(self, X: Any) -> Ints:
        """Return the leaf of each row, counted from 0 within each tree, of shape ``(n_rows, n_trees)``."""

    @abstractmethod
    def _write(self, stored: Floats) -> Any:
        """Return a copy of the model whose leaves hold these values."""


def ensemble_of(model: Any) -> TreeEnsemble:
    """Read a fitted model of LightGBM, XGBoost, CatBoost or scikit-learn as a linear model on its leaves.

    Parameters
    ----------
    model
        A fitted estimator, or a booster of LightGBM or XGBoost: a binary classifier or a regressor whose
        predictions are sums (or means) of leaf values. It is not changed.

    Raises
    ------
    InputError
        For models without trees, models that are not fitted, and models that are not such sums.
    """
    reader = _reader_of(model)
    # Checks that all libraries have in common; readers do the rest.
    if not is_fitted(model):
        raise InputError(f"{name_of(model)} is not fitted yet, so it has no trees to read")
    if getattr(model, "n_outputs_", 1) > 1:
        refuse_targets(model)
    n_classes = len(getattr(model, "classes_", ()))  # boosters and regressors have none
    if n_classes not in (0, 2):
        refuse_classes(model, n_classes)
    ensemble: TreeEnsemble = reader.read(model)
    return ensemble


def check_settings(model: Any) -> None:
    """Raise `InputError` for an unfitted model whose settings lead to trees that could not be read.

    :func:`ensemble_of` checks what only training shows (the number of classes, parameters under other names).
    """
    _reader_of(model).check_settings(model)


def is_fitted(model: Any) -> bool:
    """Return whether a model has been fitted; boosters always have."""
    if not isinstance(model, BaseEstimator):
        return bool(model.is_fitted()) if hasattr(model, "is_fitted") else True  # CatBoost; boosters
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def find_reader(model: Any) -> str | None:
    """Return the module that reads a model, by the module of its class or of a base class."""
    for ancestor in type(model).__mro__:
        for home, module in READERS.items():
            if f"{ancestor.__module__}.".startswith(f"{home}."):
                return module
    return None


def _reader_of(model: Any) -> ModuleType:
    if module := find_reader(model):
        return importlib.import_module(module)
    if isinstance(model, type):
        raise InputError(f"{name_of(model)} is a class; pass a model of it, such as {name_of(model)}()")
    raise InputError(
        f"{name_of(model)} is not a tree ensemble that can be read; use a model of LightGBM, XGBoost or"
        " CatBoost, or a HistGradientBoosting, GradientBoosting, RandomForest or ExtraTrees of scikit-learn"
    )


def on_grid(values: Floats, n_leaves: tuple[int, ...], bits: int) -> Floats:
    r"""Round leaf values to multiples of one power of two, so that sums over trees are exact.

    With ``u`` the step and ``B`` the bound of :func:`largest_sum`, every partial sum is a whole number of
    steps between ``-B/u`` and ``B/u``. Floats with a significand of ``bits`` bits represent all of these
    exactly if ``B <= 2**bits u``; hence ``u = 2**(ceil(log2 B) - bits)``, and no sum depends on its order.

    Parameters
    ----------
    values
        The leaves of all trees, one tree after the other.
    n_leaves
        The number of leaves of each tree.
    bits
        Bits of the significand in which the sums are computed.

    Returns
    -------
    Floats
        The nearest multiples of ``u``. Rounding them again changes nothing.
    """
    rounded = np.asarray(values, dtype=np.float64)
    step = 0.0
    # Rounding up may move the bound past a power of two, which needs a larger step; then the second pass is
    # the last, except for bounds within a rounding error of a power of two.
    while bound := largest_sum(rounded, n_leaves):
        # The smallest power of two of which 2**bits reach the bound: frexp gives a significand in [0.5, 1).
        significand, exponent = np.frexp(bound)
        needed = float(np.ldexp(1.0, int(exponent) - (significand == 0.5) - bits))
        if needed <= step:
            break
        step = needed
        rounded = np.rint(rounded / step) * step
    return rounded


def largest_sum(values: Floats, n_leaves: tuple[int, ...]) -> float:
    """Bound the absolute value of every sum of one leaf per tree, and of every partial sum, in any order.

    ``max(sum_t max(0, max_l values_t[l]), sum_t max(0, max_l -values_t[l]))``: no sum exceeds the sum of the
    highest leaves above 0, or is less than the sum of the lowest leaves below 0.
    """
    starts = np.cumsum([0, *n_leaves[:-1]])
    ups = np.maximum(np.maximum.reduceat(values, starts), 0.0).sum()
    downs = np.maximum(np.maximum.reduceat(-values, starts), 0.0).sum()
    return float(max(ups, downs))


def score_kinds(log_odds: Iterable[str], predictions: Iterable[str]) -> dict[str, ScoreKind]:
    """Return the kind of scores by objective: log-odds for the first, predictions for the second."""
    kinds: dict[str, ScoreKind] = dict.fromkeys(log_odds, "log-odds")
    return kinds | dict.fromkeys(predictions, "prediction")


def name_of(model: Any) -> str:
    """Return the name of a model for messages: that of its class."""
    return model.__name__ if isinstance(model, type) else type(model).__name__


def refuse_classes(model: Any, n_classes: int) -> NoReturn:
    """Raise `InputError` for a classifier that does not have two classes."""
    counted = "one class" if n_classes == 1 else f"{n_classes} classes"
    raise InputError(f"{name_of(model)} has {counted}; only binary classifiers and regressors can be read")


def refuse_targets(model: Any) -> NoReturn:
    """Raise `InputError` for a model of several targets."""
    raise InputError(f"{name_of(model)} predicts several targets; train one model for each target")


def refuse_dart(model: Any, instead: str) -> NoReturn:
    """Raise `InputError` for trees that were dropped and reweighted while others were trained."""
    raise InputError(
        f"{name_of(model)} uses DART, which drops and reweights trees during training; use {instead}"
    )


def refuse_monotone(model: Any) -> NoReturn:
    """Raise `InputError` for monotone constraints, which refitted leaf values would not satisfy."""
    raise InputError(
        f"{name_of(model)} has monotone constraints, which other leaf values would violate; remove them"
    )


def refuse_objective(model: Any, objective: str, supported: Collection[str]) -> NoReturn:
    """Raise `InputError` for a link that is neither the identity nor the logit."""
    raise InputError(
        f"{name_of(model)} has the objective {objective}, whose predictions are neither sums of leaf values"
        f" nor their logistic transform; use one of {', '.join(supported)}"
    )
