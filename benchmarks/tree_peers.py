"""`PartialFairTrees` compared with fairlearn's reductions over the same trees, and FairGBM.

Run ``make bench-comparison``, or
``python benchmarks/tree_peers.py [--only law_school] [--splits 3] [--data DIR]``. It resumes after an
interruption (``--fresh`` starts again). Data files as in docs/data.md. All libraries get the same rows and
train LightGBM trees with the same settings and the same number, which a plain model determines by early
stopping on 15% of the training rows. No model uses the group at prediction. Scores are compared;
ThresholdOptimizer of fairlearn has none and needs the group.

- `ours`: `PartialFairTrees`, one path of fits for each measured gap
- fairlearn, ExponentiatedGradient: one fit per bound, predictors averaged into a score as in engine.py
- fairlearn, GridSearch: every predictor of three grids
- FairGBM: tolerances and learning rates of multipliers for each of its constraints, in its own environment

The other libraries constrain decisions and the paper's gap concerns scores, so there are rows for both. Gaps:

- pSP: partial statistical parity on the interval of the table, on either scale
- decisions: difference of selection rates at the score 0, which fairlearn bounds
- errors: the larger of the differences of false and of true positive rates there, which FairGBM bounds

A row has the gain of `PartialFairTrees` in accuracy and AUC at equal test gaps (as in trees.py), over the
splits in which both have a model with at most that gap; the first row of a gap has its values. The floor is
the median test gap of random scores: lower levels are reached only by chance. Frontiers begin with the
unconstrained model; others whose decisions are worse than a constant are excluded. More models have a better
chance of a high reading: the other libraries have at least as many as `PartialFairTrees`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from _fairgbm import grow, versions_of
from _levels import LEVELS, MEASURES, Frontier, differences, read_at
from _record import RESULTS, write
from _tree_tables import SAMPLED, Tables, grower, load_tables
from engine import averaged_score, probability
from partialfair import fairness_path
from partialfair.metrics import (
    partial_demographic_parity_difference,
    partial_equalized_odds_difference,
    partial_statistical_parity_difference,
)
from partialfair.trees import PartialFairTrees
from trees import MAX_GAPS, N_RANDOM, ROWS, TREES

DATA = ("law_school", "bank", "a9a", "adult")
HELD_OUT, PATIENCE = 0.15, 20
"""Default early stopping of `PartialFairTrees`."""
BOUNDS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""Bounds of ExponentiatedGradient on selection rates."""
MAX_ITER = 20
GRID_SIZE, GRID_LIMITS = 11, (2.0, 0.5, 0.1)
"""Grids of GridSearch: with the first, its default, most predictors on law school lose to a constant."""
TOLERANCES, MULTIPLIER_RATES = (0.1, 0.05, 0.02, 0.01, 0.0), (0.001, 0.01, 0.1, 1.0)
"""Learning rates of FairGBM, by default 0.01 and 0.1; with many trees, high rates of multipliers diverge."""
FAIRGBM_BOUNDS = {
    "FPR": "false positive rates at 0",
    "FNR": "false negative rates at 0",
    "FPR,FNR": "false positive and false negative rates at 0",
}
LIBRARIES = ("fairlearn", "FairGBM")
FAIRGBM = Path(__file__).parents[1] / ".venv-fairgbm" / "bin" / "python"

_GAPS: dict[str, Callable[..., float]] = {
    "statistical_parity": partial_statistical_parity_difference,
    "demographic_parity": partial(partial_demographic_parity_difference, threshold=0.0),
    "equalized_odds": partial(partial_equalized_odds_difference, threshold=0.0),
}


@dataclass(frozen=True)
class Aim:
    """A gap at which frontiers are evaluated and which `PartialFairTrees` constrains."""

    constraint: str
    scale: str = "interval"
    everybody: bool = False

    def asked(self, tables: Tables) -> dict[str, Any]:
        """Return interval and settings of the gap."""
        return {"interval": (0.0, 1.0) if self.everybody else tables.interval, "gap_scale": self.scale}

    @property
    def max_gaps(self) -> tuple[float, ...]:
        """Return the limits of `PartialFairTrees`; decisions have those of the absolute scale."""
        return MAX_GAPS["absolute" if self.everybody else self.scale]

    def gap(self, scores: Any, test: Tables) -> float:
        """Return the gap of scores."""
        given = self.asked(test) | {"sensitive_features": test.groups}
        return _GAPS[self.constraint](test.y, scores, **given)


AIMS = {
    "pSP, interval": Aim("statistical_parity"),
    "pSP, absolute": Aim("statistical_parity", "absolute"),
    "decisions": Aim("demographic_parity", everybody=True),
    "errors": Aim("equalized_odds", everybody=True),
}


Answer = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One split, with the base estimator."""

    train: Tables
    test: Tables
    model: Any
    seed: int


@dataclass(frozen=True)
class Model:
    """Test scores of one model, with its run time."""

    scores: Any
    seconds: float


@dataclass(frozen=True)
class Way:
    """One way to constrain trees.

    Attributes
    ----------
    bounds
        The bounded quantity.
    settings
        Versions and settings, in one line.
    models
        Function that trains the models.
    aims
        Gaps that evaluate the models; `PartialFairTrees` has models for each of its own.
    """

    bounds: str
    settings: str
    models: Callable[[Task], list[Model]]
    aims: tuple[str, ...] = tuple(AIMS)


@dataclass(frozen=True)
class Asked:
    """Models of one split to train: all inputs of the result."""

    way: str
    settings: str
    table: str
    rows: int | None
    leaves: int
    split: int


def task_of(tables: Tables, n: int | None, leaves: int, seed: int) -> Task:
    """Return a split, and a model with the number of trees that early stopping finds."""
    from lightgbm import early_stopping

    train, test = tables.parts(n, seed)
    cut = int(HELD_OUT * len(train.y))  # rows are in random order
    watched, seen = train.take(np.arange(cut)), train.take(np.arange(cut, len(train.y)))
    stop = [early_stopping(PATIENCE, verbose=False)]
    grown = grower(TREES, leaves, seed, **SAMPLED)
    grown.fit(seen.trees, seen.y, eval_set=[(watched.trees, watched.y)], callbacks=stop)
    return Task(train, test, grower(grown.best_iteration_, leaves, seed, **SAMPLED), seed)


def without_constraint(task: Task) -> Model:
    """Return LightGBM's unconstrained model."""
    start = time.perf_counter()
    model = task.model.fit(task.train.trees, task.train.y)
    seconds = time.perf_counter() - start
    return Model(model.predict(task.test.trees, raw_score=True), seconds)


def ours(task: Task, aim: Aim) -> list[Model]:
    """Return the models of a path."""
    train, test = task.train, task.test
    start = time.perf_counter()
    path = fairness_path(
        PartialFairTrees(task.model, aim.constraint, validation_fraction=None, **aim.asked(train)),
        train.trees,
        train.y,
        sensitive_features=train.groups,
        max_gaps=aim.max_gaps,
        validation=(test.trees, test.y, test.groups),
        random_state=task.seed,
    )
    seconds = (time.perf_counter() - start) / len(path.points)
    return [Model(point.scores, seconds) for point in path.points]


def exponentiated_gradient(task: Task) -> list[Model]:
    """Return one averaged score for each bound on the difference of selection rates."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    models = []
    for bound in BOUNDS:
        start = time.perf_counter()
        clf = ExponentiatedGradient(task.model, DemographicParity(difference_bound=bound), max_iter=MAX_ITER)
        clf.fit(task.train.trees, task.train.y, sensitive_features=task.train.groups)
        seconds = time.perf_counter() - start
        models.append(Model(averaged_score(clf, task.test.trees), seconds))
    return models


def grid_search(task: Task) -> list[Model]:
    """Return the scores of all predictors of some grids, not only of the one that fairlearn selects."""
    from fairlearn.reductions import DemographicParity, GridSearch

    models = []
    for limit in GRID_LIMITS:
        start = time.perf_counter()
        clf = GridSearch(task.model, DemographicParity(), grid_size=GRID_SIZE, grid_limit=limit)
        clf.fit(task.train.trees, task.train.y, sensitive_features=task.train.groups)
        seconds = (time.perf_counter() - start) / GRID_SIZE
        models += [Model(probability(one, task.test.trees) - 0.5, seconds) for one in clf.predictors_]
    return models


def fairgbm(task: Task, python: Path, kind: str) -> list[Model]:
    """Return FairGBM's models under one of its constraints."""
    shared = ("n_estimators", "num_leaves", "learning_rate", "random_state", "n_jobs", *SAMPLED)
    grown_alike = {name: task.model.get_params()[name] for name in shared}
    settings = [
        grown_alike
        | {
            "constraint_type": kind,
            "constraint_fpr_tolerance": tolerance,
            "constraint_fnr_tolerance": tolerance,
            "multiplier_learning_rate": rate,
            "verbose": -1,
        }
        for tolerance, rate in product(TOLERANCES, MULTIPLIER_RATES)
    ]
    train = task.train
    grown = grow(python, (train.trees, train.y, train.groups), task.test.trees, settings)
    return [Model(*each) for each in zip(grown.scores, grown.seconds, strict=True)]


def our_ways(aims: list[str]) -> dict[str, Way]:
    """Return `PartialFairTrees`, once for each gap."""
    versions = f"partialfair {version('partialfair')}, lightgbm {version('lightgbm')}"
    ways = {}
    for name in aims:
        aim = AIMS[name]
        settings = f"{versions}; max_gap {_listed(aim.max_gaps)}"
        ways[f"ours, {name}"] = Way("this gap", settings, partial(ours, aim=aim), (name,))
    return ways


def peer_ways(libraries: list[str], python: Path) -> dict[str, Way]:
    """Return the methods of other libraries; a missing library ends the run at its start."""
    ways = {}
    if "fairlearn" in libraries:
        versions = f"fairlearn {version('fairlearn')}, lightgbm {version('lightgbm')}"
        ways["fairlearn, ExponentiatedGradient"] = Way(
            "selection rates at 0",
            f"{versions}; difference_bound {_listed(BOUNDS)}; max_iter {MAX_ITER}",
            exponentiated_gradient,
        )
        ways["fairlearn, GridSearch"] = Way(
            "selection rates at 0",
            f"{versions}; grid_limit {_listed(GRID_LIMITS)}, all {GRID_SIZE} predictors of each",
            grid_search,
        )
    if "FairGBM" in libraries:
        knobs = f"tolerance {_listed(TOLERANCES)}; multiplier_learning_rate {_listed(MULTIPLIER_RATES)}"
        settings = f"{versions_of(python)}; {knobs}"
        for kind, bounds in FAIRGBM_BOUNDS.items():
            ways[f"FairGBM, {kind}"] = Way(bounds, settings, partial(fairgbm, python=python, kind=kind))
    return ways


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def frontier_of(models: list[Model], aim: Aim, test: Tables) -> Frontier:
    """Return gap, accuracy and AUC of the first model and of models not worse than a constant."""
    positive = test.y == 1
    points = [
        {
            "gap": aim.gap(model.scores, test),
            "accuracy": float(np.mean((model.scores > 0) == positive)),
            "auc": float(roc_auc_score(positive, model.scores)),
        }
        for model in models
    ]
    constant = max(positive.mean(), 1 - positive.mean())
    return points[:1] + [point for point in points[1:] if point["accuracy"] >= constant]


def floor(aim: Aim, test: Tables) -> float:
    """Return the median test gap of random scores."""
    drawn = np.random.default_rng(0).standard_normal((N_RANDOM, len(test.y)))
    return float(np.median([aim.gap(scores, test) for scores in drawn]))


def answered(way: Way, task: Task, plain: Model) -> Answer:
    """Train the models of a method, and evaluate them."""
    models = [plain, *way.models(task)]
    return {
        "trees": task.model.n_estimators,
        "models": len(models),
        "seconds": sum(model.seconds for model in models),
        "frontiers": {aim: frontier_of(models, AIMS[aim], task.test) for aim in way.aims},
        "floors": {aim: floor(AIMS[aim], task.test) for aim in way.aims},
    }


def shown(asked: Asked, answer: Answer) -> str:
    """Return gap:accuracy/AUC of the models, in order of their gaps."""
    what = f"{asked.table}, split {asked.split}: {asked.way}, {answer['trees']} trees"
    lines = [f"{what}, {answer['models']} models in {answer['seconds']:.0f} s"]
    for aim, frontier in answer["frontiers"].items():
        points = sorted((point["gap"], point["accuracy"], point["auc"]) for point in frontier)
        told = "  ".join(f"{gap:.3f}:{accuracy:.4f}/{auc:.4f}" for gap, accuracy, auc in points)
        lines.append(f"    {aim}  {told}")
    return "\n".join(lines)


def rows_of(
    table: str, aims: list[str], ways: dict[str, Way], answers: dict[str, list[Answer]]
) -> Iterator[Any]:
    """Yield the rows of a table, given the results of every method, split by split."""
    for aim in aims:
        frontiers = {
            name: [answer["frontiers"][aim] for answer in answers[name]]
            for name, way in ways.items()
            if aim in way.aims
        }
        own = frontiers.pop(f"ours, {aim}")
        first = {"table": table, "gap": aim}
        yield first | {"what": "ours"} | _levels_of(own) | _told_of(f"ours, {aim}", aim, ways, answers)
        for name, theirs in frontiers.items():
            both = zip(*(differences(theirs, own, measure) for measure in MEASURES), strict=True)
            found = {f"{a.level:g}": f"{a} / {b}" if a.counts else str(a) for a, b in both}
            yield first | {"what": f"ours − {name}"} | found | _told_of(name, aim, ways, answers)


def _levels_of(splits: list[Frontier]) -> dict[str, str]:
    """Return mean accuracy and AUC at every level, over the splits that reach it."""
    found = {}
    for level in LEVELS:
        read = np.array([[read_at(points, level, measure) for measure in MEASURES] for points in splits])
        reached = read[np.isfinite(read[:, 0])]
        if len(reached):
            some = "" if len(reached) == len(read) else f" ({len(reached)} of {len(read)})"
            found[f"{level:g}"] = " / ".join(f"{mean:.4f}" for mean in reached.mean(axis=0)) + some
        else:
            found[f"{level:g}"] = f"reached in 0 of {len(read)}"
    return found


def _told_of(name: str, aim: str, ways: dict[str, Way], answers: dict[str, list[Answer]]) -> dict[str, Any]:
    """Return the number of models of a frontier, its range and its run time."""
    way, own = ways[name], answers[name]
    frontiers = [answer["frontiers"][aim] for answer in own]
    least = (min(point["gap"] for point in points) for points in frontiers)
    return {
        "splits": len(own),
        "bounds": way.bounds,
        "least test gaps": ", ".join(f"{gap:.3f}" for gap in least),
        "floor": f"{np.mean([answer['floors'][aim] for answer in own]):.3f}",
        "models": f"{sum(map(len, frontiers))} of {sum(answer['models'] for answer in own)}",
        "trees": ", ".join(str(answer["trees"]) for answer in own),
        "seconds a split": f"{np.mean([answer['seconds'] for answer in own]):.0f}",
        "settings": way.settings,
    }


def main() -> None:
    """Measure missing results, and record each at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(DATA), choices=DATA)
    parser.add_argument("--aims", nargs="*", default=list(AIMS), choices=list(AIMS), help="gaps to measure")
    parser.add_argument("--peers", nargs="*", default=list(LIBRARIES), choices=LIBRARIES)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--leaves", type=int, default=8, help="of each tree")
    parser.add_argument("--fairgbm", type=Path, default=FAIRGBM, help="Python that can import FairGBM")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--fresh", action="store_true", help="discard the results of an earlier run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    ways = our_ways(arguments.aims) | peer_ways(arguments.peers, arguments.fairgbm)
    begun = arguments.out / "tree_peers.jsonl"
    if arguments.fresh:
        begun.unlink(missing_ok=True)
    known = _known(begun)
    rows: list[dict[str, Any]] = []
    for table in arguments.only:
        answers: dict[str, list[Answer]] = {name: [] for name in ways}
        for split in range(arguments.splits):
            asked = {
                name: Asked(name, way.settings, table, ROWS[table], arguments.leaves, split)
                for name, way in ways.items()
            }
            missing = {name: each for name, each in asked.items() if each not in known}
            known |= _measured(missing, ways, arguments.data, begun)
            for name, each in asked.items():
                answers[name].append(known[each])
        rows += rows_of(table, arguments.aims, ways, answers)
        title = "Trees compared with other libraries at equal test gaps: accuracy / AUC"
        write("tree_peers", title, rows, arguments.out, seeds="number of the split")


def _measured(
    missing: dict[str, Asked], ways: dict[str, Way], folder: Path | None, begun: Path
) -> dict[Asked, Answer]:
    """Train and evaluate missing models of a split, and record the results."""
    if not missing:
        return {}
    first = next(iter(missing.values()))
    task = task_of(load_tables(first.table, folder), first.rows, first.leaves, first.split)
    plain = without_constraint(task)
    answers = {}
    for name, asked in missing.items():
        answers[asked] = answered(ways[name], task, plain)
        begun.parent.mkdir(parents=True, exist_ok=True)
        with begun.open("a") as lines:
            lines.write(json.dumps({"asked": asdict(asked), "answer": answers[asked]}) + "\n")
        print(shown(asked, answers[asked]), flush=True)
    return answers


def _known(begun: Path) -> dict[Asked, Answer]:
    """Return the results of an earlier run."""
    if not begun.exists():
        return {}
    lines = (json.loads(line) for line in begun.read_text().splitlines())
    return {Asked(**line["asked"]): line["answer"] for line in lines}


if __name__ == "__main__":
    main()
