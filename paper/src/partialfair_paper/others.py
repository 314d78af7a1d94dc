"""Trains by methods of others: fairlearn's reductions, a model without proxies, and quantile matching.

None of them has an interval: they constrain the whole range, and are evaluated on an interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from partialfair.extension import CategoricalCodes, Floats, require
from partialfair_paper.method import Fitted, Method, classifier
from partialfair_paper.parts import Part, Parts
from partialfair_paper.runs import Run

TOO_LARGE = ("acs_income",)
"""Data sets too large for these methods: a dense table does not fit, or fits take hours."""
_GRID = 7
"""Number of models of fairlearn's GridSearch."""
_MAX_ITER = 1000


class _WholeRange(Method):
    """A method for the whole range, with one alpha."""

    of_the_paper, sees_interval = False, False
    alphas = (1e-4,)
    grid: tuple[float, ...]

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the same grid for all data sets, or nothing for one that is too large."""
        return () if dataset in TOO_LARGE else self.grid


def _reductions() -> Any:
    return require("fairlearn.reductions", extra="comparison", purpose="comparing with fairlearn")


def with_group(part: Part, labels: tuple[Any, ...]) -> Floats:
    """Return dense features with one column for every group except the first."""
    X = part.X.toarray() if sparse.issparse(part.X) else np.asarray(part.X)
    return np.column_stack([X, *((part.groups == label).astype(float) for label in labels[1:])])


def _logistic(run: Run, parts: Parts) -> LogisticRegression:
    """Return the estimator that reductions reweight, with the same penalty as partialfair's models."""
    return LogisticRegression(C=1 / (run.alpha * len(parts.train.y)), max_iter=_MAX_ITER)


class _Reduction(_WholeRange):
    """A method of fairlearn."""

    def missing(self) -> str | None:
        """Return a message if fairlearn is not installed."""
        if find_spec("fairlearn") is None:
            return f"{self.label} needs fairlearn; run: pip install 'partialfair[comparison]'"
        return None


class ExponentiatedGradient(_Reduction):
    """fairlearn's ExponentiatedGradient for demographic parity, with the mean probability of its predictors.

    Its own predictions are drawn at random from few values, for which ranks are not defined.
    """

    name, label = "exponentiated-gradient", "fairlearn ExponentiatedGradient"
    grid = (0.2, 0.1, 0.05, 0.02)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit with a bound on the difference of selection rates."""
        reductions, labels = _reductions(), tuple(np.unique(parts.train.groups))
        parity = reductions.DemographicParity(difference_bound=run.tolerance)
        model = reductions.ExponentiatedGradient(_logistic(run, parts), parity)
        model.fit(with_group(parts.train, labels), parts.train.y, sensitive_features=parts.train.groups)

        def scores(part: Part) -> Floats:
            X = with_group(part, labels)
            pairs = zip(model.weights_, model.predictors_, strict=True)
            chances = [weight * one.predict_proba(X)[:, 1] for weight, one in pairs if weight > 0]
            return np.asarray(np.sum(chances, axis=0) - 0.5)

        return Fitted(scores)


@lru_cache(maxsize=1)
def _grid_search(run: Run, parts: Parts) -> tuple[Any, ...]:
    """Return the models of a grid of multipliers."""
    reductions, labels = _reductions(), tuple(np.unique(parts.train.groups))
    search = reductions.GridSearch(_logistic(run, parts), reductions.DemographicParity(), grid_size=_GRID)
    search.fit(with_group(parts.train, labels), parts.train.y, sensitive_features=parts.train.groups)
    return tuple(search.predictors_)


class GridSearch(_Reduction):
    """fairlearn's GridSearch for demographic parity; the tolerance is the index of a model in the grid."""

    name, label = "grid-search", "fairlearn GridSearch"
    grid = tuple(float(position) for position in range(_GRID))

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Return one model of the grid."""
        assert run.tolerance is not None
        labels = tuple(np.unique(parts.train.groups))
        model = _grid_search(replace(run, tolerance=None), parts)[int(run.tolerance)]
        return Fitted(lambda part: model.predict_proba(with_group(part, labels))[:, 1] - 0.5)


class WithoutProxies(_WholeRange):
    """One model for all groups, without the features that are most correlated with the group."""

    name, label, uses_group = "without-proxies", "without the group's proxies", False
    grid = (0.0, 0.1, 0.25, 0.5, 0.75)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Drop the columns that are most correlated with the group, and fit without a constraint."""
        assert run.tolerance is not None
        correlations = _correlations(parts.train)
        n_kept = correlations.size - int(run.tolerance * correlations.size)
        columns = np.sort(np.argsort(correlations)[:n_kept])

        def drop_columns(part: Part) -> Part:
            return replace(part, X=part.X[:, columns])

        narrow = replace(parts, train=drop_columns(parts.train))
        fitted = classifier(run, narrow, constraint=None, group_terms=None)
        return replace(fitted, scores=lambda part: fitted.scores(drop_columns(part)))


def _correlations(part: Part) -> Floats:
    """Return, for each column, the largest absolute correlation with membership of a group."""
    assert not isinstance(part.X, CategoricalCodes)
    X = sparse.csr_array(part.X)
    means = np.asarray(X.mean(axis=0)).ravel()
    spreads = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - means**2, 1e-30))
    largest = np.zeros(means.size)
    for label in np.unique(part.groups):
        belongs = (part.groups == label) - (part.groups == label).mean()
        covariances = np.asarray(X.T @ belongs).ravel() / belongs.size
        largest = np.maximum(largest, np.abs(covariances) / (spreads * belongs.std()))
    return largest


@dataclass(frozen=True, eq=False)
class QuantileMap:
    """Move scores towards those of the same rank in all groups: ``(1 − t) s + t Σ_k share_k Q_k(F(s))``.

    F is the distribution function of scores in the row's group and Q_k the quantile function of group k, both
    on the training rows. With t = 1 all groups have the same distribution there (the Wasserstein barycenter).

    Attributes
    ----------
    scores
        Sorted training scores by group.
    shares
        Proportion of each group among all rows.
    strength
        t.
    """

    scores: dict[Any, Floats]
    shares: dict[Any, float]
    strength: float

    @classmethod
    def of(cls, part: Part, scores: Floats, strength: float) -> QuantileMap:
        """Estimate the distributions on some rows."""
        labels = list(np.unique(part.groups))
        return cls(
            {label: np.sort(scores[part.groups == label]) for label in labels},
            {label: float((part.groups == label).mean()) for label in labels},
            strength,
        )

    def __call__(self, part: Part, scores: Floats) -> Floats:
        """Return adjusted scores."""
        moved = scores.astype(float).copy()
        for label, known in self.scores.items():
            members = part.groups == label
            ranks = np.interp(scores[members], known, _levels(known))
            everywhere = sum(
                self.shares[other] * np.interp(ranks, _levels(theirs), theirs)
                for other, theirs in self.scores.items()
            )
            moved[members] += self.strength * (everywhere - scores[members])
        return moved


def _levels(known: Floats) -> Floats:
    """Return the rank in (0, 1) of each sorted score."""
    return (np.arange(known.size) + 0.5) / known.size


class QuantileMatching(_WholeRange):
    """The unconstrained model with scores that are moved to one distribution in all groups."""

    name, label = "quantile-matching", "quantile matching"
    grid = (0.25, 0.5, 0.75, 1.0)

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return t; the method is fast on data of any size."""
        return self.grid

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit without a constraint, then fit the map on the training rows."""
        assert run.tolerance is not None
        free = classifier(run, parts, constraint=None)
        moved: Callable[[Part, Floats], Floats] = QuantileMap.of(
            parts.train, free.scores(parts.train), run.tolerance
        )
        return replace(free, scores=lambda part: moved(part, free.scores(part)))


OTHER_METHODS: tuple[Method, ...] = (
    ExponentiatedGradient(),
    GridSearch(),
    WithoutProxies(),
    QuantileMatching(),
)
"""The methods of this module."""
