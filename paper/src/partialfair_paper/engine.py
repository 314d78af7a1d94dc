"""Trains the paper's models and baselines with partialfair's solvers: the ``fast`` protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from partialfair import FitOptions, PartialFairClassifier
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.extension import Constraint, Floats, GapScale, Groups
from partialfair_paper.method import Fitted, Method, classifier, describe_fit
from partialfair_paper.parts import Parts
from partialfair_paper.published import BASELINE_MAX_GAPS, MAX_GAPS, PRICES
from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC
from partialfair_paper.runs import Run

_ABSOLUTE: GapScale = "absolute"

_BY_SURROGATE: Mapping[str, Mapping[str, Any]] = {
    "pSP": {"enforce": "surrogate", "options": FitOptions(surrogate="rounded_ramp", surrogate_width=2.0)},
    "pDP": {"enforce": "surrogate"},
}
"""Settings of fits under surrogate constraints, by kind of fairness, chosen on validation rows. For pSP, the
validation frontiers of a9a, bank and law school are at least as high as with the default ramp, and fits take
half the time. For pDP no other width is better than the default."""


def state_constraint(run: Run) -> Constraint:
    """Return the constraint of a run, on the paper's scale and at its points."""
    assert run.interval is not None
    assert run.tolerance is not None
    if run.fairness == "pDP":
        return DemographicParity(run.interval, run.tolerance, _ABSOLUTE)
    return StatisticalParity(run.interval, run.tolerance, _ABSOLUTE, n_points=run.n_points or 1)


def full_parity(run: Run) -> Constraint:
    """Return parity of all ranks, with points as dense as on the interval where the run is evaluated."""
    assert run.interval is not None
    assert run.n_points is not None
    assert run.tolerance is not None
    n_points = round(run.n_points / (run.interval[1] - run.interval[0]))
    return StatisticalParity((0.0, 1.0), run.tolerance, _ABSOLUTE, n_points=n_points)


def pairwise_grid(name: str, dataset: str, fairness: str) -> tuple[float, ...]:
    """Return κ of a pairwise baseline, from loose to strict; ACS, absent from the paper, uses a9a's."""
    grids = BASELINE_MAX_GAPS[name][fairness]
    return tuple(sorted(grids.get(dataset, grids["a9a"]), reverse=True))


def price_grid(dataset: str, fairness: str) -> tuple[float, ...]:
    """Return λ of the regularization method; ACS, absent from the paper, uses a9a's."""
    return PRICES[fairness].get(dataset, PRICES[fairness]["a9a"])


class Unconstrained(Method):
    """The unconstrained model, the first point of every frontier."""

    name, label = "unconstrained", "unconstrained"
    sees_interval = False

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return a single None."""
        return (None,)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit without a constraint."""
        return classifier(run, parts, constraint=None)


class Ours(Method):
    """The paper's problem with surrogate constraints, Equations 9 (pSP) and 11 (pDP)."""

    name, label = "ours", "partial parity"
    is_ours = True

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's κ."""
        return MAX_GAPS[fairness][dataset]

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit with the constraint of the run."""
        assert run.fairness is not None
        return classifier(run, parts, constraint=state_constraint(run), **_BY_SURROGATE[run.fairness])


class OursExact(Ours):
    """The same limit, on the exact gap of the training rows."""

    name, label = "ours-exact", "partial parity, exact"
    of_the_paper = False

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit with the constraint of the run."""
        return classifier(run, parts, constraint=state_constraint(run), enforce="exact")


class OursAsStated(Ours):
    """Exactly the problem that the paper's algorithms solve: a ramp of width 1 and no penalty."""

    name, label = "ours-as-stated", "our engine"
    in_frontiers, alphas, keeps_history = False, (0.0,), True

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit with the constraint of the run."""
        options = FitOptions(surrogate="ramp", surrogate_width=1.0)
        constraint = state_constraint(run)
        return classifier(run, parts, constraint=constraint, enforce="surrogate", options=options)


class FullParity(Method):
    """Statistical parity on all ranks, with points as dense as on the interval (Section G.10)."""

    name, label = "full-parity", "full statistical parity"
    in_frontiers = False

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return κ of pSP, since the paper gives none for full parity."""
        return MAX_GAPS["pSP"][dataset]

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit under parity of all ranks."""
        return classifier(run, parts, constraint=full_parity(run), **_BY_SURROGATE["pSP"])


class _Pairwise(Method):
    """A convex quadratic constraint on pairs of rows of different groups (Section G.3.1)."""

    sees_interval = False
    constraint: ClassVar[Callable[[float], Constraint]]

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's κ."""
        return pairwise_grid(self.name, dataset, fairness)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Fit with the quadratic constraint."""
        assert run.tolerance is not None
        return classifier(run, parts, constraint=type(self).constraint(run.tolerance), enforce="surrogate")


class GroupAUCBaseline(_Pairwise):
    """Group AUC fairness, Equation 71."""

    name, label = "group-auc", "group AUC"
    constraint = QuadraticGroupAUC


class InterGroupBaseline(_Pairwise):
    """Inter-group pairwise fairness, Equation 74."""

    name, label = "inter-group", "inter-group pairwise"
    constraint = InterGroupPairwise


class IntraGroupBaseline(_Pairwise):
    """Intra-group pairwise fairness, Equation 76."""

    name, label = "intra-group", "intra-group pairwise"
    constraint = IntraGroupPairwise


@dataclass(frozen=True)
class RankBand(StatisticalParity):
    """``|mean σ(s − θ_p) − p| ≤ κ`` in every group: the gap that the regularization method penalizes.

    The paper's constraint instead lets the mean lie between p and p + κ. The scale is always absolute.
    """

    def bands(self, points: Floats, groups: Groups) -> tuple[Floats, Floats]:
        """Return ranks p − κ and p + κ."""
        ranks = np.tile(points[:, None], (1, len(groups.labels)))
        return ranks - self.max_gap, ranks + self.max_gap


def read_penalty(run: Run) -> tuple[Constraint, float]:
    """Return constraints with κ = 0 and the penalty of their largest function (Section G.4.1).

    The paper's λ multiplies a gap on the interval scale. For pSP that gap is twice the largest distance of a
    mean σ from its rank.
    """
    assert run.interval is not None
    assert run.tolerance is not None
    width = run.interval[1] - run.interval[0]
    if run.fairness == "pDP":
        return DemographicParity(run.interval, 0.0, _ABSOLUTE), run.tolerance / width
    return RankBand(run.interval, 0.0, _ABSOLUTE, n_points=run.n_points or 1), 2 * run.tolerance / width


_PRICED_GAPS = tuple(np.geomspace(0.5, 1e-3, 24).tolist())
"""Gaps at which the loss is computed; each is a quarter smaller than the one before."""


@lru_cache(maxsize=2)
def _loss_by_gap(run: Run, parts: Parts) -> tuple[tuple[float, PartialFairClassifier], ...]:
    """Return a model for each gap, from loose to strict, each warm-started from the one before."""
    constraint, _ = read_penalty(replace(run, tolerance=0.0))
    assert run.fairness is not None
    settings = {"group_terms": "interactions", "warm_start": True, **_BY_SURROGATE[run.fairness]}
    clf = PartialFairClassifier(alpha=run.alpha, **settings)
    models = []
    for gap in _PRICED_GAPS:
        clf = deepcopy(clf).set_params(constraint=replace(constraint, max_gap=gap))
        clf.fit(parts.train.X, parts.train.y, sensitive_features=parts.train.groups)
        models.append((gap, clf))
    return tuple(models)


class PenaltyBaseline(Method):
    """The regularization method, ``min f_0 + price · largest gap`` (Equations 83 and 84).

    Its minimum equals the minimum over t of ``price · t`` plus the lowest loss among models with a gap of at
    most t, and each such loss is a constrained problem for partialfair's solvers.
    """

    name, label = "penalty", "regularization"

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's λ."""
        return price_grid(dataset, fairness)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Return the model with the smallest sum of loss and penalized gap."""
        _, price = read_penalty(run)
        # All penalties share one path of models, so the cache key has no penalty.
        models = _loss_by_gap(replace(run, tolerance=None), parts)
        gap, clf = min(models, key=lambda model: model[1].result_.objective + price * model[0])
        fitted = describe_fit(clf)
        return replace(fitted, fit={**fitted.fit, "gap": gap, "price": price})


ENGINE_METHODS: tuple[Method, ...] = (
    Unconstrained(),
    Ours(),
    OursExact(),
    OursAsStated(),
    GroupAUCBaseline(),
    InterGroupBaseline(),
    IntraGroupBaseline(),
    PenaltyBaseline(),
    FullParity(),
)
"""The methods of this module."""
