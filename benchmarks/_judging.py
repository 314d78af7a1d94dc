"""Problems of the optimality benchmark: the objective of a model, its exact gap and its ties.

The module does not use the package's solvers. Gaps are computed twice: by a compiled loop over all scores,
fast enough for a search, and by `partialfair.metrics`, which decides whether a reference is feasible.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from _data import CONSTRAINTS
from partialfair import PartialFairClassifier
from partialfair.exceptions import ThresholdOutsideIntervalWarning
from partialfair.metrics import partial_demographic_parity_difference, partial_statistical_parity_difference

ROUNDING = 1e-12
"""Tolerance of gaps, and largest difference of equal ranks."""
MORE_TIES = 0.01
"""Largest excess of the proportion of ties over that of the unconstrained model."""
SAME_SCORE = 1e-13
"""Scores closer than this, relative to the largest, are tied: rounding separates scores of equal rows."""


@dataclass(frozen=True)
class Ties:
    """Proportions of tied rows.

    Attributes
    ----------
    block
        Proportion of all rows that have the most common score.
    band
        Proportion of the rows inside the interval whose score another row of any group has.
    """

    block: float
    band: float

    def within(self, free: Ties) -> bool:
        """Whether they exceed those of the unconstrained model by at most the tolerance."""
        return self.block <= free.block + MORE_TIES and self.band <= free.band + MORE_TIES


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model: ``coef`` and ``intercept`` as in the estimator, and the training scores."""

    coef: Any
    intercept: Any
    scores: Any

    def shifted(self, moves: Any, step: Any) -> Model:
        """Return the model plus a combination of directions, each of which is a `Model`."""
        coef, intercept, scores = (getattr(self, name).copy() for name in ("coef", "intercept", "scores"))
        for move, size in zip(moves, step, strict=True):
            if size:
                coef += size * move.coef
                intercept += size * move.intercept
                scores += size * move.scores
        return Model(coef, intercept, scores)

    def minus(self, other: Model) -> Model:
        """Return the direction from another model to this one."""
        return Model(self.coef - other.coef, self.intercept - other.intercept, self.scores - other.scores)


@dataclass(frozen=True, eq=False)
class Case:
    """One problem: data, constraint and model class.

    Attributes
    ----------
    key
        Name in files.
    X, y, groups
        Features, labels (0 or 1) and groups of the rows.
    kind, interval, scale, max_gap
        The constraint: ``"pSP"``, or ``"pDP"`` at score 0, with its ranks, its scale, and κ.
    alpha, group_terms
        Parameters of the estimator.
    """

    key: str
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    groups: Any = field(repr=False)
    kind: str
    interval: tuple[float, float]
    scale: str
    max_gap: float
    alpha: float = 1e-4
    group_terms: str | None = None

    @cached_property
    def signs(self) -> Any:
        """Labels as ±1."""
        return np.where(np.asarray(self.y) > 0, 1.0, -1.0)

    @cached_property
    def codes(self) -> Any:
        """Groups as integers from 0."""
        return np.unique(np.asarray(self.groups), return_inverse=True)[1].astype(np.int64)

    @cached_property
    def sizes(self) -> Any:
        """Numbers of rows by group."""
        return np.bincount(self.codes)

    def estimator(self, **others: Any) -> PartialFairClassifier:
        """Return the estimator of the problem, with defaults for other parameters."""
        settings = {
            "constraint": CONSTRAINTS[self.kind],
            "interval": self.interval,
            "max_gap": self.max_gap,
            "gap_scale": self.scale,
            "alpha": self.alpha,
            "group_terms": self.group_terms,
        }
        return PartialFairClassifier().set_params(**{**settings, **others})

    def fitted(self, **others: Any) -> PartialFairClassifier:
        """Fit the estimator."""
        return self.estimator(**others).fit(self.X, self.y, sensitive_features=self.groups)

    def model_of(self, clf: PartialFairClassifier) -> Model:
        """Return the model of a fitted estimator."""
        groups = None if self.group_terms is None else self.groups
        scores = clf.decision_function(self.X, groups)
        return Model(clf.coef_.copy(), clf.intercept_.copy(), np.asarray(scores))

    def objective(self, model: Model) -> float:
        """Weighted mean logistic loss plus ``alpha / 2`` times the squared coefficients."""
        loss = float(np.logaddexp(0.0, -self.signs * model.scores).mean())
        return loss + 0.5 * self.alpha * float((model.coef**2).sum())

    def gap(self, scores: Any) -> float:
        """Return the exact gap, by the loop of this module."""
        low, high = self.interval
        absolute = self.scale == "absolute"
        if self.kind == "pDP":
            return selection_gap(scores, self.codes, self.sizes, low, high, absolute)
        return order_gap(np.argsort(-scores), scores, self.codes, self.sizes, low, high, absolute)

    def judged_gap(self, scores: Any) -> float:
        """Return the exact gap, by the package's metric."""
        asked: dict[str, Any] = {
            "sensitive_features": self.groups,
            "interval": self.interval,
            "gap_scale": self.scale,
        }
        if self.kind == "pDP":
            with warnings.catch_warnings():  # during a search all scores may be on one side of 0
                warnings.simplefilter("ignore", ThresholdOutsideIntervalWarning)
                return partial_demographic_parity_difference(None, scores, threshold=0.0, **asked)
        return partial_statistical_parity_difference(None, scores, **asked)

    def keeps(self, scores: Any) -> bool:
        """Whether the constraint is satisfied, by the loop of this module."""
        return self.gap(scores) <= self.max_gap + ROUNDING

    def admits(self, scores: Any, free: Ties) -> bool:
        """Whether the constraint is satisfied, with no more ties than the unconstrained model has."""
        return self.keeps(scores) and self.ties(scores).within(free)

    def ties(self, scores: Any) -> Ties:
        """Return the proportions of tied rows."""
        low, high = self.interval
        rounded = np.round(scores / (SAME_SCORE * max(np.abs(scores).max(), 1e-300)))
        _, block, counts = np.unique(rounded, return_inverse=True, return_counts=True)
        held = np.zeros(counts.size)
        for code, size in enumerate(self.sizes):
            of_group = np.bincount(block[self.codes == code], minlength=counts.size)[::-1]
            ranks = np.concatenate([[0.0], np.cumsum(of_group) / size])
            held += (size * np.diff(np.clip(ranks, low, high)))[::-1]
        return Ties(float(counts.max() / counts.sum()), float(held[counts > 1].sum() / held.sum()))


@njit(cache=True)
def order_gap(order, scores, codes, sizes, low, high, absolute):  # type: ignore[no-untyped-def]
    """Return the largest pSP gap of all pairs of groups, in one pass over descending scores.

    ``F̄_k(θ)`` changes where θ passes a block of equal scores. On the interval scale the worst pair at θ are
    the groups with the largest and the smallest ``clip(F̄ − low, 0, high − low)``. On the absolute scale it
    is a group whose rank is inside the interval, and the group with the most distant rank.
    """
    n_groups, length = sizes.size, high - low
    passed = np.zeros(n_groups, dtype=np.int64)
    ranks = np.zeros(n_groups)
    worst = 0.0
    at = 0
    while at < order.size:
        theta = scores[order[at]]
        while at < order.size and scores[order[at]] == theta:
            passed[codes[order[at]]] += 1
            at += 1
        for k in range(n_groups):
            rank = passed[k] / sizes[k]
            ranks[k] = rank if absolute else min(max(rank - low, 0.0), length) / length
        least, most = ranks.min(), ranks.max()
        if not absolute:
            worst = max(worst, most - least)
            continue
        for k in range(n_groups):
            depth = ranks[k] - low
            if depth >= -1e-12 and depth < length - 1e-12:
                worst = max(worst, ranks[k] - least, most - ranks[k])
    return worst


@njit(cache=True)
def selection_gap(scores, codes, sizes, low, high, absolute):  # type: ignore[no-untyped-def]
    """Return the largest pDP gap of all pairs; rows with a score above 0 are selected."""
    selected = np.zeros(sizes.size, dtype=np.int64)
    for row in range(scores.size):
        if scores[row] > 0.0:
            selected[codes[row]] += 1
    least, most = np.inf, -np.inf
    for k in range(sizes.size):
        share = min(max(selected[k] / sizes[k] - low, 0.0), high - low) / (high - low)
        if absolute:
            share *= high - low
        least, most = min(least, share), max(most, share)
    return most - least


def logistic_minimum(Z: Any, signs: Any, penalties: Any) -> tuple[Any, float]:
    """Return the minimizer of ``mean log(1 + e^(−y Z v)) + ½ Σ_j penalties_j v_j²``, and the minimum.

    Newton's method with step halving; it ends when the predicted decrease of a full step is below 1e-15.
    """
    v = np.zeros(Z.shape[1])
    value = _logistic(Z, signs, penalties, v)
    for _ in range(200):
        margins = signs * (Z @ v)
        chances = 1.0 / (1.0 + np.exp(np.clip(margins, -700, 700)))
        gradient = -(Z.T @ (signs * chances)) / signs.size + penalties * v
        curved = Z.T @ (Z * (chances * (1.0 - chances))[:, None]) / signs.size + np.diag(penalties)
        step = -np.linalg.solve(curved + 1e-14 * np.eye(v.size), gradient)
        if -gradient @ step < 1e-15:
            break
        size = 1.0
        while size > 1e-12 and _logistic(Z, signs, penalties, v + size * step) > value:
            size /= 2
        v = v + size * step
        value = _logistic(Z, signs, penalties, v)
    return v, value


def _logistic(Z: Any, signs: Any, penalties: Any, v: Any) -> float:
    return float(np.logaddexp(0.0, -signs * (Z @ v)).mean() + 0.5 * penalties @ v**2)
