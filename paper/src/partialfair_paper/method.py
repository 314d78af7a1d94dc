"""Defines what a method of a comparison is; a new one is one class and one line in `METHODS`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from partialfair import PartialFairClassifier
from partialfair.extension import Floats
from partialfair.trees import PartialFairTrees
from partialfair_paper.parts import Part, Parts
from partialfair_paper.published import N_POINTS
from partialfair_paper.runs import Run

ALPHAS = (1e-5, 1e-4, 1e-3, 1e-2)
"""Penalties on coefficients among which the validation rows choose; the paper has none, and stops early."""

_MOST_ALPHA: Mapping[str, float] = {"acs_income": 1e-4}
"""Of data with so many rows stronger penalties than this only lose, and each of its models takes a minute."""

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model: scores of rows, of which those above 0 are selected, and what its training has to tell."""

    scores: Callable[[Part], Floats]
    fit: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What several methods are asked: fairness of one kind on an interval of a data set.

    Attributes
    ----------
    dataset, fairness, interval
        As in `Run`.
    seeds
        Splits.
    n_points
        |Î|.
    rows
        As in `Run`.
    """

    dataset: str
    fairness: str
    interval: Interval
    seeds: Sequence[int]
    n_points: int = N_POINTS
    rows: int | None = None


class Method(ABC):
    """A way to a model, with something that trades accuracy for fairness.

    Attributes
    ----------
    name
        Its key.
    label
        In legends.
    of_the_paper
        Whether the paper compares with it.
    is_ours
        Whether it is ours, and so shown whole in pictures: of others, what lies far below is left out.
    uses_group
        Whether a row's scores depend on its group, as the paper's models do, and not on its features alone.
    sees_interval
        Whether models depend on the kind of fairness and the interval that a question is about.
    protocol
        Whose trainer it is.
    solves
        The method of the fast protocol whose problem it solves too, if it is one of the paper's trainers.
    in_frontiers
        Whether it belongs in Figure 1; others have figures and tables of their own.
    free
        The method without a constraint from which its frontiers start.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    of_the_paper: ClassVar[bool] = True
    is_ours: ClassVar[bool] = False
    uses_group: ClassVar[bool] = True
    sees_interval: ClassVar[bool] = True
    protocol: ClassVar[str] = "fast"
    solves: ClassVar[str | None] = None
    in_frontiers: ClassVar[bool] = True
    free: ClassVar[str] = "unconstrained"
    alphas: ClassVar[tuple[float, ...]] = ALPHAS
    keeps_history: ClassVar[bool] = False
    rough_seconds: ClassVar[float] = 0.3

    @abstractmethod
    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return the grid of a frontier."""

    def guessed_seconds(self) -> float:
        """Return what a run takes on law school, or on its own data, before any has been done."""
        return self.rough_seconds

    def missing(self) -> str | None:
        """Return what is not installed that it needs, as a sentence; None if all is there."""
        return None

    @abstractmethod
    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Train a model."""

    def runs(self, question: Question, tolerances: Iterable[float | None] | None = None) -> list[Run]:
        """Return the runs that answer a question, split by split."""
        seen: dict[str, Any] = {}
        if self.sees_interval:
            seen = {
                "fairness": question.fairness,
                "interval": question.interval,
                "n_points": question.n_points,
            }
        if tolerances is None:
            tolerances = self.tolerances(question.dataset, question.fairness)
        grid = tuple(tolerances)
        return [
            Run(
                question.dataset,
                seed,
                self.name,
                tolerance,
                alpha=alpha,
                protocol=self.protocol,
                rows=question.rows,
                **seen,
            )
            for seed in question.seeds
            for alpha in self.alphas  # some methods find the models of all tolerances together
            if alpha <= _MOST_ALPHA.get(question.dataset, np.inf)
            for tolerance in grid
        ]


def classifier(run: Run, parts: Parts, **settings: Any) -> Fitted:
    """Fit the paper's model by our engine, with terms for every group unless the settings say otherwise."""
    clf = PartialFairClassifier(**{"alpha": run.alpha, "group_terms": "interactions", **settings})
    clf.fit(parts.train.X, parts.train.y, sensitive_features=parts.train.groups)
    return describe_fit(clf)


def describe_fit(clf: PartialFairClassifier | PartialFairTrees) -> Fitted:
    """Return a fitted classifier as a model that tells how it was trained."""
    result = clf.result_
    fit = {
        "status": str(result.status),
        "objective": result.objective,
        "violation": result.max_violation,
        "training gap": max((gap.value for gap in result.gaps), default=float("nan")),
    }
    columns = ("step", "passes", "seconds", "objective", "violation")
    history = {name: [getattr(record, name) for record in result.history] for name in columns}
    return Fitted(lambda part: clf.decision_function(part.X, part.groups), fit, history)
