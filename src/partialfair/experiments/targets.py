"""The paper's figures and tables, by their own labels: which runs each needs, and what it says in numbers.

A target knows nothing of pictures: `partialfair.plotting` draws what `Target.rows` and the store tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from partialfair._typing import Floats
from partialfair.exceptions import InputError
from partialfair.experiments.frontiers import Mean, Point, chosen, curves, frontier, halved, read_at
from partialfair.experiments.method import Method, Question
from partialfair.experiments.methods import METHODS, method_of
from partialfair.experiments.paper import (
    DATASETS,
    INTERVALS,
    NETWORKS,
    OWN_INTERVALS,
    ROBUST,
    SEEDS,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
)
from partialfair.experiments.parts import FACES, LOADERS, gap_name
from partialfair.experiments.runs import Run
from partialfair.experiments.store import Store

__all__ = [
    "TARGETS",
    "Convergence",
    "Densities",
    "Frontiers",
    "Networks",
    "RankCurves",
    "Robustness",
    "Scope",
    "Target",
    "targets_named",
]

Row = dict[str, Any]

_SAME_FAIRNESS = 5e-5
"""Less than the paper's last digit."""


@dataclass(frozen=True)
class Scope:
    """How much of a target is done.

    Attributes
    ----------
    datasets
        Those that are wanted, of the target's own.
    seeds
        Number of splits.
    protocol
        ``"fast"`` or ``"paper"``.
    rows
        Training rows that are kept; None for all.
    folder
        Where data files are; None as in `partialfair.datasets`.
    """

    datasets: tuple[str, ...] = tuple(LOADERS)
    seeds: int = SEEDS
    protocol: str = "fast"
    rows: int | None = None
    folder: Path | None = None

    def question(self, dataset: str, fairness: str, **changes: Any) -> Question:
        """Return what methods are asked on a data set, on its own interval."""
        stated = {"interval": OWN_INTERVALS[dataset], "seeds": range(self.seeds), "rows": self.rows}
        return Question(dataset, fairness, **{**stated, **changes})

    def method(self, name: str) -> Method:
        """Return who solves the problem of a method in this protocol."""
        return method_of(self.protocol, name)


class Target(ABC):
    """A figure or table.

    Attributes
    ----------
    name
        The paper's label.
    title
        What it shows.
    datasets
        On which it is in the paper.
    """

    name: str
    title: str
    datasets: Sequence[str] = DATASETS

    @abstractmethod
    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs that it needs."""

    @abstractmethod
    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return what it says, as rows of a table."""

    def of(self, scope: Scope) -> list[str]:
        """Return its data sets within a scope."""
        return [dataset for dataset in self.datasets if dataset in scope.datasets]


def compared(scope: Scope) -> list[Method]:
    """Return the methods of a frontier: of the protocol, ours first, and what every frontier starts from."""
    return [
        method
        for method in METHODS.values()
        if method.in_frontiers
        and (method.protocol == scope.protocol or method.name == "unconstrained")
        and method.missing() is None
    ]


def _shown(mean: Mean) -> str:
    return f"{mean.value:.4f}" if np.isnan(mean.error) else f"{mean.value:.4f} ± {mean.error:.4f}"


@dataclass(frozen=True)
class Frontiers(Target):
    """Accuracy against fairness on the test rows, of all methods."""

    name: str
    title: str
    fairness: Sequence[str] = ("pSP", "pDP")
    datasets: Sequence[str] = DATASETS

    def questions(self, scope: Scope) -> Iterator[Question]:
        """Yield what is asked, picture by picture."""
        for fairness in self.fairness:
            for dataset in self.of(scope):
                yield scope.question(dataset, fairness)

    def runs(self, scope: Scope) -> list[Run]:
        """Return all methods' runs."""
        each = (method.runs(question) for question in self.questions(scope) for method in compared(scope))
        return list(chain.from_iterable(each))

    def trainers(self, scope: Scope, store: Store) -> Iterator[tuple[Question, Method, Method]]:
        """Yield a method by our engine and by the paper's trainer, where both have been run in full."""
        for question in self.questions(scope):
            for trainer in METHODS.values():
                if trainer.solves is None or not trainer.in_frontiers:
                    continue
                engine = METHODS[trainer.solves]
                needed = engine.runs(question) + trainer.runs(question)
                if all(store.of(run) is not None for run in needed):
                    yield question, engine, trainer

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return every point, and those of the other protocol: means over splits, with standard errors."""
        beside = [(question, method) for question, *pair in self.trainers(scope, store) for method in pair]
        shown = [(question, method) for question in self.questions(scope) for method in compared(scope)]
        return [
            {
                "dataset": question.dataset,
                "fairness of": question.fairness,
                "protocol": method.protocol,
                "method": method.label,
                "tolerance": "" if point.tolerance is None else f"{point.tolerance:g}",
                "fairness": _shown(point.fairness),
                "accuracy": _shown(point.accuracy),
                "splits": point.n,
            }
            for question, method in shown + [pair for pair in beside if pair not in shown]
            for point in frontier(store, question, method)
        ]


class _ByTolerance(Target):
    """Pictures of the first split's test scores, of the unconstrained model and of each κ."""

    fairness: str

    def runs(self, scope: Scope) -> list[Run]:
        """Return ours and the unconstrained model on the first split."""
        questions = [scope.question(dataset, self.fairness, seeds=(0,)) for dataset in self.of(scope)]
        methods = (METHODS["unconstrained"], scope.method("ours"))
        return [run for question in questions for method in methods for run in method.runs(question)]

    def pictured(self, scope: Scope, store: Store, dataset: str) -> Iterator[tuple[float | None, Run]]:
        """Yield tolerances, None for no constraint, with the runs that validation chose."""
        question = scope.question(dataset, self.fairness, seeds=(0,))
        for method in (METHODS["unconstrained"], scope.method("ours")):
            for (_, tolerance), (run, _) in chosen(store, question, method).items():
                yield tolerance, run

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return the gap of every picture."""
        rows = []
        for dataset in self.of(scope):
            gap = gap_name(self.fairness, OWN_INTERVALS[dataset])
            for tolerance, run in self.pictured(scope, store, dataset):
                outcome = store.of(run)
                assert outcome is not None
                rows.append(
                    {
                        "dataset": dataset,
                        "κ": "unconstrained" if tolerance is None else f"{tolerance:g}",
                        "fairness": f"{1 - outcome.test[gap]:.4f}",
                        "accuracy": f"{outcome.test['accuracy']:.4f}",
                    }
                )
        return rows


@dataclass(frozen=True)
class RankCurves(_ByTolerance):
    """Positive rates of one group against those of the other."""

    name: str
    title: str
    fairness: str = "pSP"
    datasets: Sequence[str] = DATASETS


@dataclass(frozen=True)
class Densities(_ByTolerance):
    """Densities of scores with the interval in red."""

    name: str
    title: str
    fairness: str
    datasets: Sequence[str]


@dataclass(frozen=True)
class Robustness(Target):
    """Fairness of all methods on several intervals, at about the same accuracy."""

    name: str
    title: str
    datasets: Sequence[str] = DATASETS

    def asked(self, scope: Scope) -> Iterator[tuple[Question, Method, float]]:
        """Yield questions with methods and their tolerances (Section G.6)."""
        for dataset in self.of(scope):
            for interval in INTERVALS[dataset]:
                question = scope.question(dataset, "pSP", interval=interval)
                for name, tolerance in ROBUST[dataset].items():
                    yield question, scope.method(name), tolerance

    def runs(self, scope: Scope) -> list[Run]:
        """Return one tolerance of each method on each interval."""
        return [run for question, method, one in self.asked(scope) for run in method.runs(question, (one,))]

    def bars(self, scope: Scope, store: Store) -> Iterator[tuple[Question, Method, Point]]:
        """Yield the bars whose runs have been done."""
        for question, method, tolerance in self.asked(scope):
            for point in frontier(store, question, method, (tolerance,)):
                yield question, method, point

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return fairness and accuracy by interval and method."""
        return [
            {
                "dataset": question.dataset,
                "interval": f"{question.interval[0]:.0%} to {question.interval[1]:.0%}",
                "method": method.label,
                "fairness": _shown(point.fairness),
                "accuracy": _shown(point.accuracy),
                "splits": point.n,
            }
            for question, method, point in self.bars(scope, store)
        ]


@dataclass(frozen=True)
class Convergence(Target):
    """Objective and infeasibility by iterations, passes and seconds: IDCA, SSG, and our engine."""

    name: str
    title: str
    fairness: str
    datasets: Sequence[str] = DATASETS
    methods: ClassVar[tuple[str, ...]] = ("idca", "ssg", "ours-as-stated")

    def tolerance(self, dataset: str) -> float:
        """Return the κ of the picture; the paper names none: that of Figure 9 for pSP, .05 for pDP."""
        return ROBUST[dataset]["ours"] if self.fairness == "pSP" else 0.05

    def runs(self, scope: Scope) -> list[Run]:
        """Return the three on the first split."""
        return [
            run
            for dataset in self.of(scope)
            for name in self.methods
            for run in METHODS[name].runs(
                scope.question(dataset, self.fairness, seeds=(0,)), (self.tolerance(dataset),)
            )
        ]

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return where each ends."""
        rows = []
        for run in self.runs(scope):
            outcome = store.of(run)
            if outcome is None or outcome.failed:
                continue
            last = {name: column[-1] for name, column in outcome.history.items()}
            rows.append(
                {
                    "dataset": run.dataset,
                    "method": METHODS[run.method].label,
                    "κ": f"{run.tolerance:g}",
                    "objective": f"{outcome.fit['objective']:.5f}",
                    "infeasibility": f"{outcome.fit['violation']:.1e}",
                    "passes": int(last["passes"]),
                    "seconds": f"{last['seconds']:.1f}",
                }
            )
        return rows


@dataclass(frozen=True)
class Networks(Target):
    """Accuracy of networks against their fairness on the band, by where they were constrained."""

    name: str
    title: str
    datasets: Sequence[str] = (FACES,)

    def curves(self, scope: Scope) -> Iterator[tuple[str, Question, Method]]:
        """Yield what is compared, with a name for each: no constraint, then settings (i) to (iii)."""
        if not self.of(scope):
            return
        asked = scope.question(FACES, "pSP")
        yield "unconstrained", asked, METHODS["network-unconstrained"]
        for label, (interval, n_points) in NETWORKS.items():
            yield label, replace(asked, interval=interval, n_points=n_points), METHODS["network"]

    def runs(self, scope: Scope) -> list[Run]:
        """Return the networks of all curves."""
        return [run for _, question, method in self.curves(scope) for run in method.runs(question)]

    def points(self, store: Store, question: Question, method: Method) -> list[Point]:
        """Return a curve: wherever it was constrained, fairness is that on the band."""
        return frontier(store, question, method, judged_on=OWN_INTERVALS[FACES])

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return every point: means over networks of several seeds, with standard errors."""
        return [
            {
                "constraint on": label,
                "κ": "" if point.tolerance is None else f"{point.tolerance:g}",
                "fairness on the band": _shown(point.fairness),
                "accuracy": _shown(point.accuracy),
                "networks": point.n,
            }
            for label, question, method in self.curves(scope)
            for point in self.points(store, question, method)
        ]


@dataclass(frozen=True)
class DataTable(Target):
    """Sizes of the data sets."""

    name: str
    title: str
    datasets: Sequence[str] = tuple(TABLE_1)

    def runs(self, scope: Scope) -> list[Run]:
        """Return none: no model is fitted."""
        return []

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return the paper's rows and columns beside ours."""
        rows = []
        for dataset in self.of(scope):
            data = LOADERS[dataset](scope.folder)
            rows.append(
                {
                    "dataset": dataset,
                    "instances, paper": f"{TABLE_1[dataset][0]:,}",
                    "instances, here": f"{len(data.y):,}",
                    "attributes, paper": TABLE_1[dataset][1],
                    "features, here": len(data.feature_names),
                    "label": data.target_name,
                    "groups": ", ".join(map(str, data.sensitive_features.cat.categories)),
                }
            )
        return rows


@dataclass(frozen=True)
class PrintedRows(Target):
    """A table of fairness and accuracy, the paper's beside ours at the same fairness.

    Attributes
    ----------
    columns
        Methods and numbers of points, with what the paper prints for them by data set.
    """

    name: str
    title: str
    columns: tuple[tuple[str, int, dict[str, Any]], ...]
    datasets: Sequence[str] = DATASETS

    def tolerances(self, question: Question, method: Method) -> tuple[float | None, ...]:
        """Return the grid of a column.

        Models of the same κ are not of the same fairness, so frontiers are read between them, and straight
        lines between the paper's κ lie below: our engine solves also for those in the middle.
        """
        own = method.tolerances(question.dataset, question.fairness)
        return halved(own) if method.protocol == "fast" else own

    def runs(self, scope: Scope) -> list[Run]:
        """Return the methods of the columns, and the unconstrained model."""
        runs = []
        for dataset in self.of(scope):
            for name, n_points, _ in self.columns:
                question, method = scope.question(dataset, "pSP", n_points=n_points), scope.method(name)
                runs += METHODS["unconstrained"].runs(question)
                runs += method.runs(question, self.tolerances(question, method))
        return runs

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return our accuracy at the fairness of each of the paper's rows; of bank changes are compared."""
        rows = []
        for dataset in self.of(scope):
            for name, n_points, printed in self.columns:
                question = scope.question(dataset, "pSP", n_points=n_points)
                free = frontier(store, question, METHODS["unconstrained"])
                method = scope.method(name)
                lines = curves(store, question, method, self.tolerances(question, method))
                if not free or not lines:
                    continue
                first, *others = printed[dataset]
                # The paper's encoding of bank is not known: there only changes can be compared.
                offset = first.accuracy - free[0].accuracy.value if dataset == "bank" else 0.0
                ours = {"dataset": dataset, "method": method.label, "points": n_points}
                rows.append(
                    {
                        **ours,
                        "κ": "none",
                        "fairness": f"{first.fairness:.4f}",
                        "paper": f"{first.accuracy:.4f}",
                        "ours": _shown(free[0].accuracy),
                        "difference": f"{free[0].accuracy.value - first.accuracy:+.4f}",
                        "in errors": _in_errors(free[0].accuracy, first.accuracy),
                        "read at": f"{free[0].fairness.value:.4f}",
                    }
                )
                for row in others:
                    read = Mean.of(read_at(line, row.fairness) + offset for line in lines.values())
                    rows.append(
                        {
                            **ours,
                            "κ": "" if row.max_gap is None else f"{row.max_gap:g}",
                            "fairness": f"{row.fairness:.4f}",
                            "paper": f"{row.accuracy:.4f}",
                            "ours": _shown(read),
                            "difference": f"{read.value - row.accuracy:+.4f}",
                            "in errors": _in_errors(read, row.accuracy),
                            "read at": _reached(lines.values(), row.fairness),
                        }
                    )
        return rows


def _reached(lines: Iterable[Floats], fairness: float) -> str:
    """Return at what fairness frontiers were read, where they end before that of the paper."""
    reached = fmean(float(np.clip(fairness, line[0, 0], line[-1, 0])) for line in lines)
    return "" if abs(reached - fairness) < _SAME_FAIRNESS else f"{reached:.4f}"


def _in_errors(mean: Mean, printed: float) -> str:
    return "" if np.isnan(mean.error) else f"{(mean.value - printed) / mean.error:+.1f}"


_NAMES = {"a9a": "a9a", "bank": "bank", "law_school": "law school"}

_ACS: tuple[tuple[str, int, dict[str, Any]], ...] = tuple(
    (name, 10, {"acs_income": rows}) for name, rows in TABLE_2.items()
)
_TEN, _TWENTY = ({data: by_points[n] for data, by_points in TABLE_4.items()} for n in (10, 20))

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Frontiers("fig1", "Pareto frontiers of accuracy against pSP and pDP fairness"),
        RankCurves("fig2", "Positive rates of one group against the other's, by κ"),
        *(
            Densities(
                f"fig{number}",
                f"Score densities on {_NAMES[dataset]} by κ ({fairness})",
                fairness,
                (dataset,),
            )
            for number, (fairness, dataset) in enumerate(
                [(fairness, dataset) for fairness in ("pSP", "pDP") for dataset in DATASETS], start=3
            )
        ),
        Robustness("fig9", "Fairness on several intervals at the same accuracy"),
        Convergence("fig10", "IDCA, SSG and our engine on pSP constraints", "pSP"),
        Convergence("fig11", "IDCA, SSG and our engine on pDP constraints", "pDP"),
        Networks("fig12", "ResNet-18s on faces, constrained on the band and on all ranks"),
        DataTable("table1", "Statistics of the datasets"),
        PrintedRows("table2", "Pairwise baselines and ours on ACS", _ACS, ("acs_income",)),
        PrintedRows(
            "table3",
            "Full against partial statistical parity",
            (("full-parity", 10, dict(TABLE_3)), ("ours", 10, _TEN)),
        ),
        PrintedRows("table4", "Ten against twenty points", (("ours", 20, _TWENTY), ("ours", 10, _TEN))),
    )
}
"""By the paper's labels."""


def targets_named(names: Sequence[str]) -> list[Target]:
    """Return targets by their labels, each once; ``all`` are those that need no GPU."""
    if "all" in names:
        names = [*(name for name in TARGETS if not isinstance(TARGETS[name], Networks)), *names]
        names = [name for name in names if name != "all"]
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise InputError(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}, and all")
    return [TARGETS[name] for name in dict.fromkeys(names)]
