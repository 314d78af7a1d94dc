"""Defines the paper's figures as targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from partialfair_paper.frontiers import Point, choose_runs, frontier
from partialfair_paper.method import Method, Question
from partialfair_paper.methods import METHODS
from partialfair_paper.parts import FACES, gap_name
from partialfair_paper.published import DATASETS, INTERVALS, NETWORKS, OWN_INTERVALS, ROBUST
from partialfair_paper.runs import Run
from partialfair_paper.store import Store
from partialfair_paper.target import Row, Scope, Target, list_methods, write_mean, yes_or_no


@dataclass(frozen=True)
class Frontiers(Target):
    """Accuracy against fairness on the test rows, for all methods."""

    name: str
    title: str
    fairness: Sequence[str] = ("pSP", "pDP")
    datasets: Sequence[str] = DATASETS

    def questions(self, scope: Scope) -> Iterator[Question]:
        """Yield the setting of each panel."""
        for fairness in self.fairness:
            for dataset in self.of(scope):
                yield scope.question(dataset, fairness)

    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs of all methods."""
        each = (method.runs(question) for question in self.questions(scope) for method in list_methods(scope))
        return list(chain.from_iterable(each))

    def trainers(self, scope: Scope, store: Store) -> Iterator[tuple[Question, Method, Method]]:
        """Yield methods that both protocols have run in full: the fast method and the paper's algorithm."""
        for question in self.questions(scope):
            for trainer in METHODS.values():
                if trainer.solves is None or not trainer.in_frontiers:
                    continue
                engine = METHODS[trainer.solves]
                needed = engine.runs(question) + trainer.runs(question)
                if all(store.of(run) is not None for run in needed):
                    yield question, engine, trainer

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return the points of both protocols: means over splits, with standard errors."""
        trained = [(question, method) for question, *pair in self.trainers(scope, store) for method in pair]
        pairs = [(question, method) for question in self.questions(scope) for method in list_methods(scope)]
        return [
            {
                "dataset": question.dataset,
                "fairness of": question.fairness,
                "protocol": method.protocol,
                "method": method.label,
                "in the paper": yes_or_no(method.of_the_paper),
                "group at prediction": yes_or_no(method.uses_group),
                "tolerance": "" if point.tolerance is None else f"{point.tolerance:g}",
                "fairness": write_mean(point.fairness),
                "accuracy": write_mean(point.accuracy),
                "splits": point.n,
            }
            for question, method in pairs + [pair for pair in trained if pair not in pairs]
            for point in frontier(store, question, method)
        ]


class _ByTolerance(Target):
    """Figures of test scores on the first split: the unconstrained model and one model per κ."""

    fairness: str

    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs of the unconstrained model and the paper's method on the first split."""
        questions = [scope.question(dataset, self.fairness, seeds=(0,)) for dataset in self.of(scope)]
        methods = (METHODS["unconstrained"], scope.method("ours"))
        return [run for question in questions for method in methods for run in method.runs(question)]

    def find_pictured(self, scope: Scope, store: Store, dataset: str) -> Iterator[tuple[float | None, Run]]:
        """Yield tolerances, None for no constraint, with the runs that the validation rows select."""
        question = scope.question(dataset, self.fairness, seeds=(0,))
        for method in (METHODS["unconstrained"], scope.method("ours")):
            for (_, tolerance), (run, _) in choose_runs(store, question, method).items():
                yield tolerance, run

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return the fairness and accuracy of each model."""
        rows = []
        for dataset in self.of(scope):
            gap = gap_name(self.fairness, OWN_INTERVALS[dataset])
            for tolerance, run in self.find_pictured(scope, store, dataset):
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
    """Positive rates of one group against those of another."""

    name: str
    title: str
    fairness: str = "pSP"
    datasets: Sequence[str] = DATASETS


@dataclass(frozen=True)
class Densities(_ByTolerance):
    """Densities of scores with the interval highlighted."""

    name: str
    title: str
    fairness: str
    datasets: Sequence[str]


@dataclass(frozen=True)
class Robustness(Target):
    """Fairness of all methods on several intervals, at similar accuracy."""

    name: str
    title: str
    datasets: Sequence[str] = DATASETS

    def settings(self, scope: Scope) -> Iterator[tuple[Question, Method, float]]:
        """Yield questions with methods and their tolerances (Section G.6)."""
        for dataset in self.of(scope):
            for interval in INTERVALS[dataset]:
                question = scope.question(dataset, "pSP", interval=interval)
                for name, tolerance in ROBUST[dataset].items():
                    yield question, scope.method(name), tolerance

    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs of one tolerance per method and interval."""
        return [
            run for question, method, one in self.settings(scope) for run in method.runs(question, (one,))
        ]

    def bars(self, scope: Scope, store: Store) -> Iterator[tuple[Question, Method, Point]]:
        """Yield the bars whose runs are finished."""
        for question, method, tolerance in self.settings(scope):
            for point in frontier(store, question, method, (tolerance,)):
                yield question, method, point

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return fairness and accuracy by interval and method."""
        return [
            {
                "dataset": question.dataset,
                "interval": f"{question.interval[0]:.0%} to {question.interval[1]:.0%}",
                "method": method.label,
                "fairness": write_mean(point.fairness),
                "accuracy": write_mean(point.accuracy),
                "splits": point.n,
            }
            for question, method, point in self.bars(scope, store)
        ]


@dataclass(frozen=True)
class Convergence(Target):
    """Objective and infeasibility of IDCA, SSG and partialfair, by passes over the data and by seconds."""

    name: str
    title: str
    fairness: str
    datasets: Sequence[str] = DATASETS
    methods: ClassVar[tuple[str, ...]] = ("idca", "ssg", "ours-as-stated")

    def tolerance(self, dataset: str) -> float:
        """Return κ of a data set: that of Figure 9 for pSP and 0.05 for pDP, since the paper gives none."""
        return ROBUST[dataset]["ours"] if self.fairness == "pSP" else 0.05

    def runs(self, scope: Scope) -> list[Run]:
        """Return the runs of the three solvers on the first split."""
        return [
            run
            for dataset in self.of(scope)
            for name in self.methods
            for run in METHODS[name].runs(
                scope.question(dataset, self.fairness, seeds=(0,)), (self.tolerance(dataset),)
            )
        ]

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return objective and infeasibility at the end of each run."""
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
    """Accuracy of networks against fairness on the interval, for several constraints."""

    name: str
    title: str
    datasets: Sequence[str] = (FACES,)

    def curves(self, scope: Scope) -> Iterator[tuple[str, Question, Method]]:
        """Yield labels and settings of the curves: no constraint, then settings (i) to (iii)."""
        if not self.of(scope):
            return
        settings = scope.question(FACES, "pSP")
        yield "unconstrained", settings, METHODS["network-unconstrained"]
        for label, (interval, n_points) in NETWORKS.items():
            yield label, replace(settings, interval=interval, n_points=n_points), METHODS["network"]

    def runs(self, scope: Scope) -> list[Run]:
        """Return the networks of all curves."""
        return [run for _, question, method in self.curves(scope) for run in method.runs(question)]

    def points(self, store: Store, question: Question, method: Method) -> list[Point]:
        """Return a curve; fairness is always that on the interval of ranks 20 to 40%."""
        return frontier(store, question, method, fairness_on=OWN_INTERVALS[FACES])

    def rows(self, scope: Scope, store: Store) -> list[Row]:
        """Return all points: means over seeds, with standard errors."""
        rows = []
        for label, question, method in self.curves(scope):
            done = [outcome for run in method.runs(question) if (outcome := store.of(run)) is not None]
            n_images = {outcome.fit["training images"] for outcome in done if not outcome.failed}
            rows += [
                {
                    "constraint on": label,
                    "κ": "" if point.tolerance is None else f"{point.tolerance:g}",
                    "fairness on the interval": write_mean(point.fairness),
                    "accuracy": write_mean(point.accuracy),
                    "networks": point.n,
                    "training images": ", ".join(f"{n:,}" for n in sorted(n_images)),
                }
                for point in self.points(store, question, method)
            ]
        return rows
