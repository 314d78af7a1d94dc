"""Compares methods beyond the paper's linear model: trees with refitted leaves, and adjusted scores.

Both are asked for the paper's κ on its scale, and both see the group when they score, as all models of the
paper do: trees as one of their features, the adjuster because it has a map for each group.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

from partialfair.extension import Floats
from partialfair.postprocessing import PartialParityAdjuster
from partialfair.trees import PartialFairTrees
from partialfair_paper.engine import state_constraint
from partialfair_paper.method import Fitted, Method, classifier, describe_fit
from partialfair_paper.others import TOO_LARGE, with_group
from partialfair_paper.parts import Part, Parts
from partialfair_paper.published import MAX_GAPS
from partialfair_paper.runs import Run

_TREES, _LEAVES = 120, 8
"""At most: on law school and bank growing stops earlier, after about 70 and 100 trees. On a9a, split 0 at
κ = .1, 60, 120 and 254 trees have validation accuracies of .839, .845 and .843, and refits of 2.5, 6 and
14 seconds."""


def _without_question(run: Run) -> Run:
    """Return what a model has in common that is trained once for all κ, intervals and kinds of fairness."""
    return replace(run, tolerance=None, fairness=None, interval=None, n_points=None)


def _labels(parts: Parts) -> tuple[Any, ...]:
    return tuple(np.unique(parts.train.groups))


@lru_cache(maxsize=1)
def _train_trees(run: Run, parts: Parts) -> PartialFairTrees:
    """Return trees without a constraint; growing stops early on some of the training rows."""
    grower = HistGradientBoostingClassifier(max_iter=_TREES, max_leaf_nodes=_LEAVES)
    return _refit(PartialFairTrees(grower, None, alpha=run.alpha, random_state=run.seed), parts)


def _refit(trees: PartialFairTrees, parts: Parts) -> PartialFairTrees:
    X = with_group(parts.train, _labels(parts))
    return trees.fit(X, parts.train.y, sensitive_features=parts.train.groups)


class RefittedTrees(Method):
    """Boosted trees whose leaf values are refitted under the constraint: grown once a split, for all κ.

    They are scikit-learn's, whatever else is installed: a run is known by its key, and the same key must not
    mean other trees on another machine. The promise is about the exact gap, as everywhere in
    `partialfair.trees`; the first of its models, without a tolerance, is refitted without a constraint.
    """

    name, label = "trees", "partial parity, refitted trees"
    of_the_paper, is_ours, free = False, True, "trees"
    alphas = (1e-2,)  # the estimator's own: on law school, ten times more or less is no better for validation
    rough_seconds = 1.5

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return none and the paper's κ; nothing for data that is too large as a dense table."""
        return () if dataset in TOO_LARGE else (None, *MAX_GAPS[fairness][dataset])

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Refit the leaf values of the split's trees with the constraint of the run."""
        trees = free = _train_trees(_without_question(run), parts)
        if run.tolerance is not None:
            frozen = FrozenEstimator(free.initial_estimator_)
            trees = PartialFairTrees(frozen, state_constraint(run), alpha=run.alpha, random_state=run.seed)
            trees = _refit(trees, parts)
        fitted, labels = describe_fit(trees), _labels(parts)

        def scores(part: Part) -> Floats:
            return np.asarray(trees.decision_function(with_group(part, labels)))

        return replace(
            fitted, scores=scores, fit={**fitted.fit, "trees": int(free.initial_estimator_.n_iter_)}
        )


@lru_cache(maxsize=1)
def _fit_unconstrained(run: Run, parts: Parts) -> Fitted:
    return classifier(run, parts, constraint=None)


class AdjustedScores(Method):
    """The unconstrained linear model, its scores moved by the least that closes the gap: it needs the group.

    Maps are found on the training rows, as those of quantile matching are; validation rows choose the penalty
    alone. Scores without new ties cannot be as alike as a small κ asks of few rows: then κ is their floor.
    """

    name, label = "adjuster", "adjusted scores (needs the group)"
    of_the_paper, is_ours = False, True
    rough_seconds = 0.06

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's κ."""
        return MAX_GAPS[fairness][dataset]

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Find the maps of the split's unconstrained scores for the constraint of the run."""
        assert run.interval is not None
        assert run.tolerance is not None
        free = _fit_unconstrained(_without_question(run), parts)
        scores, groups = free.scores(parts.train), parts.train.groups
        settings: dict[str, Any] = {"gap_scale": "absolute"}
        if run.fairness == "pDP":
            settings |= {"constraint": "demographic_parity", "constraint_threshold": 0.0}
        adjuster = PartialParityAdjuster(run.interval, 1.0, **settings).fit(scores, sensitive_features=groups)
        max_gap = max(run.tolerance, adjuster.result_.floor)
        adjuster.set_params(max_gap=max_gap).fit(scores, sensitive_features=groups)
        fit = {**free.fit, "max gap": max_gap, "training gap": adjuster.result_.gap}
        return replace(free, scores=lambda part: adjuster.transform(free.scores(part), part.groups), fit=fit)


BEYOND_METHODS: tuple[Method, ...] = (RefittedTrees(), AdjustedScores())
"""All of them; `METHODS` has them by name."""
