"""Defines the methods of a comparison; a new method is one class and one line in `METHODS`."""

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
"""Penalties on coefficients, chosen on the validation rows; the paper has no penalty and stops early."""

_MOST_ALPHA: Mapping[str, float] = {"acs_income": 1e-4}
"""Largest penalty by data set: on ACS, stronger penalties only lose accuracy, and a fit takes a minute."""

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model: a function that scores rows (those above 0 are selected), and details of the fit."""

    scores: Callable[[Part], Floats]
    fit: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """The setting of a comparison: one kind of fairness on an interval of a data set.

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
    """A way to train models, with a parameter that trades accuracy for fairness.

    Attributes
    ----------
    name
        Key of the method.
    label
        Name in legends.
    of_the_paper
        Whether the paper includes the method.
    is_ours
        Whether partialfair trains it. Figures show all of its points; points of other methods that lie far
        below are cut off.
    uses_group
        Whether a row's score depends on its group, as in the paper's models, and not on its features alone.
    sees_interval
        Whether models depend on the kind of fairness and the interval of the question.
    protocol
        ``"fast"`` or ``"paper"``.
    solves
        For a method of the paper protocol, the method of the fast protocol that solves the same problem.
    in_frontiers
        Whether Figure 1 includes it; other methods have their own figures and tables.
    free
        The unconstrained method from which its frontiers start.
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
        """Return a guess of the seconds of a run on law school, or on the method's own data."""
        return self.rough_seconds

    def missing(self) -> str | None:
        """Return a message that names a missing dependency, or None if all are installed."""
        return None

    @abstractmethod
    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Train a model."""

    def runs(self, question: Question, tolerances: Iterable[float | None] | None = None) -> list[Run]:
        """Return the runs of a question, split by split."""
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
            for alpha in self.alphas  # the inner loop is over tolerances, whose models some methods share
            if alpha <= _MOST_ALPHA.get(question.dataset, np.inf)
            for tolerance in grid
        ]


def classifier(run: Run, parts: Parts, **settings: Any) -> Fitted:
    """Fit the paper's linear model, by default with coefficients for every group."""
    clf = PartialFairClassifier(**{"alpha": run.alpha, "group_terms": "interactions", **settings})
    clf.fit(parts.train.X, parts.train.y, sensitive_features=parts.train.groups)
    return describe_fit(clf)


def describe_fit(clf: PartialFairClassifier | PartialFairTrees) -> Fitted:
    """Return the scores and the details of a fitted classifier."""
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
