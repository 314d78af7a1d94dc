"""Trains by the paper's own algorithms: the ``paper`` protocol.

Every choice is the paper's (Sections G.2 to G.4): no penalty on coefficients, a ramp of width 1, and w = 0 at
the start. Steps are taken in standardized features. Two choices are not in the paper:

- a checkpoint of IDCA is its best point so far, and the next steps start from it;
- the step of the projected gradient is one over the largest curvature of the loss.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

from partialfair import FitOptions, PartialFairClassifier
from partialfair.extension import Constraint
from partialfair.optimization.solvers import IDCA, DirectSwitching, Switching
from partialfair_paper.engine import full_parity, pairwise_grid, price_grid, read_penalty, state_constraint
from partialfair_paper.method import Fitted, Method, describe_fit
from partialfair_paper.parts import Part, Parts
from partialfair_paper.penalty import Penalty
from partialfair_paper.projected import ProjectedGradient
from partialfair_paper.published import MAX_GAPS
from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC
from partialfair_paper.runs import Run

_INNER_STEPS = (150, 200)
_TOLERANCES = (5e-4, 1e-3, 2e-3, 5e-3)
_TRIED, _CHECKPOINTS, _EVERY = 50, 8, 50
"""Outer steps after which T and ε are chosen, checkpoints of the run that follows, and steps between them."""
_STEPS = (5e-4, 1e-3, 2e-3, 5e-3)
_STEPS_TO_CHOOSE = 10_000
_PROJECTIONS = {"law_school": 500}
_MOST_PROJECTIONS = 1000
_STATIC, _DIMINISHING = (1e-4, 2e-4, 5e-4, 1e-3), (0.2, 0.5, 1.0, 2.0)
_DIRECT_TO_CHOOSE, _DIRECT = 10_000, 50_000


def _model(constraint: Constraint, solver: Any, **settings: Any) -> PartialFairClassifier:
    """Return the paper's model with a solver, not fitted."""
    return PartialFairClassifier(
        constraint,
        alpha=0.0,
        group_terms="interactions",
        enforce="surrogate",
        solver=solver,
        options=FitOptions(surrogate="ramp", surrogate_width=1.0),
        **settings,
    )


def _train(clf: PartialFairClassifier, part: Part) -> PartialFairClassifier:
    return clf.fit(part.X, part.y, sensitive_features=part.groups)


def _accuracy(clf: PartialFairClassifier, part: Part) -> float:
    return float(((clf.decision_function(part.X, part.groups) > 0) == (part.y == 1)).mean())


class IDCASwitching(Method):
    """Algorithms 1 and 2 for Equations 9 and 11; T, ε and K are chosen on the validation rows."""

    name, label = "idca", "partial parity by IDCA"
    protocol, solves, is_ours, alphas, keeps_history = "paper", "ours", True, (0.0,), True
    rough_seconds = 120.0

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's κ."""
        return MAX_GAPS[fairness][dataset]

    def constraint(self, run: Run) -> Constraint:
        """Return the constraint on the scores."""
        return state_constraint(run)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Choose T and ε after 50 outer steps, then K among the checkpoints of one run."""

        def after(outer: int, inner: int, epsilon: float) -> PartialFairClassifier:
            solver = IDCA(max_iter=outer, inner=Switching(inner, epsilon, longest=0))
            return _train(_model(self.constraint(run), solver, warm_start=True), parts.train)

        settings = product(_INNER_STEPS, _TOLERANCES)
        tried = {setting: _accuracy(after(_TRIED, *setting), parts.validation) for setting in settings}
        inner, epsilon = max(tried, key=lambda setting: tried[setting])
        clf = after(_EVERY, inner, epsilon)
        checkpoints, history = [clf], describe_fit(clf).history
        for _ in range(_CHECKPOINTS - 1):
            clf = _train(deepcopy(clf), parts.train)
            checkpoints.append(clf)
            history = _append_history(history, describe_fit(clf).history)
        # K is at least 100, so the first checkpoint, after 50 steps, is not a candidate.
        accuracies = [_accuracy(checkpoint, parts.validation) for checkpoint in checkpoints[1:]]
        best = 1 + max(range(len(accuracies)), key=accuracies.__getitem__)
        fitted = describe_fit(checkpoints[best])
        picked = {"T": inner, "epsilon": epsilon, "K": _EVERY * (best + 1)}
        return replace(fitted, fit={**fitted.fit, **picked}, history=history)


class IDCAFullParity(IDCASwitching):
    """IDCA under parity of all ranks (Section G.10)."""

    name, label = "full-parity-idca", "full statistical parity by IDCA"
    solves, is_ours, keeps_history, in_frontiers = "full-parity", False, False, False

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return κ of pSP, since the paper gives none for full parity."""
        return MAX_GAPS["pSP"][dataset]

    def constraint(self, run: Run) -> Constraint:
        """Return parity of all ranks."""
        return full_parity(run)


def _append_history(before: Any, after: Any) -> dict[str, list[float]]:
    """Concatenate two histories; counts of the second continue those of the first."""
    counted = ("step", "passes", "seconds")
    return {
        name: before[name] + [value + (before[name][-1] if name in counted else 0) for value in column[1:]]
        for name, column in after.items()
    }


class DirectSSG(Method):
    """Algorithm 3; a static or diminishing ε_t is chosen by the objective after 10,000 steps."""

    name, label = "ssg", "SSG, directly"
    protocol, alphas, keeps_history, in_frontiers = "paper", (0.0,), True, False
    rough_seconds = 120.0

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's κ."""
        return MAX_GAPS[fairness][dataset]

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Choose ε_t, then run 50,000 steps."""
        solvers = [DirectSwitching(_DIRECT_TO_CHOOSE, epsilon) for epsilon in _STATIC]
        solvers += [DirectSwitching(_DIRECT_TO_CHOOSE, diminishing=c) for c in _DIMINISHING]
        models = [_train(_model(state_constraint(run), solver), parts.train) for solver in solvers]
        # The smallest objective at the end, among runs whose violation is within the static tolerances.
        order = [(clf.result_.max_violation > max(_STATIC), clf.result_.objective) for clf in models]
        best = solvers[min(range(len(order)), key=order.__getitem__)]
        fitted = describe_fit(
            _train(_model(state_constraint(run), replace(best, max_iter=_DIRECT)), parts.train)
        )
        picked = {"epsilon": best.epsilon, "diminishing": best.diminishing}
        return replace(fitted, fit={**fitted.fit, **picked})


class SubgradientPenalty(Method):
    """The regularization method by subgradient descent, with a step chosen on the validation rows."""

    name, label = "penalty-descent", "regularization by subgradients"
    protocol, solves, alphas = "paper", "penalty", (0.0,)
    rough_seconds = 60.0

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's λ."""
        return price_grid(dataset, fairness)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Choose the step after 10,000 iterations, then take T K steps, those of the longest run of IDCA."""
        constraint, price = read_penalty(run)

        def after(steps: int, step: float) -> PartialFairClassifier:
            return _train(_model(constraint, Penalty(price, step, steps)), parts.train)

        tried = {step: _accuracy(after(_STEPS_TO_CHOOSE, step), parts.validation) for step in _STEPS}
        step = max(tried, key=lambda step: tried[step])
        fitted = describe_fit(after(max(_INNER_STEPS) * _EVERY * _CHECKPOINTS, step))
        return replace(fitted, fit={**fitted.fit, "step": step})


class _Projected(Method):
    """A pairwise baseline, trained by projected gradient descent."""

    sees_interval = False
    protocol, alphas = "paper", (0.0,)
    rough_seconds = 60.0
    solves: ClassVar[str]
    constraint: ClassVar[type[Constraint]]

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the paper's κ."""
        return pairwise_grid(self.solves, dataset, fairness)

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Take K projected steps."""
        solver = ProjectedGradient(_PROJECTIONS.get(run.dataset, _MOST_PROJECTIONS))
        assert run.tolerance is not None
        constraint = self.constraint(max_gap=run.tolerance)
        return describe_fit(_train(_model(constraint, solver), parts.train))


class ProjectedGroupAUC(_Projected):
    """Group AUC fairness, trained by Equation 77."""

    name, label = "group-auc-projected", "group AUC by projected gradients"
    solves, constraint = "group-auc", QuadraticGroupAUC


class ProjectedInterGroup(_Projected):
    """Inter-group pairwise fairness, trained by Equation 78."""

    name, label = "inter-group-projected", "inter-group pairwise by projected gradients"
    solves, constraint = "inter-group", InterGroupPairwise


class ProjectedIntraGroup(_Projected):
    """Intra-group pairwise fairness, trained by Equation 79."""

    name, label = "intra-group-projected", "intra-group pairwise by projected gradients"
    solves, constraint = "intra-group", IntraGroupPairwise


PAPER_METHODS: tuple[Method, ...] = (
    IDCASwitching(),
    IDCAFullParity(),
    DirectSSG(),
    SubgradientPenalty(),
    ProjectedGroupAUC(),
    ProjectedInterGroup(),
    ProjectedIntraGroup(),
)
"""The methods of this module."""
