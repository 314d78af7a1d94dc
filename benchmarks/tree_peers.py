"""Our trees beside fairlearn's reductions over the same trees, and FairGBM, at equal test gaps: `make bench-peers`.

Run ``python benchmarks/tree_peers.py [--only law_school] [--splits 3] [--data DIR]``; data files as in
docs/data.md. All get the same rows and grow LightGBM's trees with the same settings and as many of them: a plain
model stops early on 15 % of the training rows, and tells how many. Nobody uses the group at prediction. What is
compared are scores; fairlearn's ThresholdOptimizer has none, and needs the group.

- ours: `PartialFairTrees`, one path of fits for each gap that is measured
- fairlearn, ExponentiatedGradient: one fit for each bound, predictors averaged into a score as in engine.py
- fairlearn, GridSearch: every predictor of one grid
- FairGBM: tolerances and learning rates of its multipliers, for each of its constraints; in its own environment

Peers constrain decisions, the paper's gap is about scores, so there are lines for both. The gap of a line is

- pSP: partial statistical parity on the interval of the table, on either scale
- decisions: how far selection rates at the score 0 differ, which fairlearn bounds
- errors: how far rates of false or of true positives differ there, whichever more, which FairGBM bounds

A line says by how much ours is better (accuracy / AUC, mean and standard error over the splits) where test gaps
are equal, in the way of trees.py: "not reached" is where no model of the peer, or of ours, is as fair on the test
rows. Frontiers begin with the model without a constraint. Models that decide worse than a constant are left out,
of all frontiers. The more models, the luckier the reading: peers have as many as ours, or more.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from _fairgbm import grow, versions_of
from _record import RESULTS, write
from engine import averaged_score, probability
from partialfair import fairness_path
from partialfair.metrics import (
    partial_demographic_parity_difference,
    partial_equalized_odds_difference,
    partial_statistical_parity_difference,
)
from partialfair.trees import PartialFairTrees
from trees import LEVELS, MAX_GAPS, ROWS, Tables, compare, grower, load, parts, read_at

DATA = ("law_school", "bank", "a9a", "adult")
HELD_OUT, PATIENCE = 0.15, 20
"""How `PartialFairTrees` stops early by default."""
BOUNDS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""What ExponentiatedGradient is allowed, of selection rates."""
GRID_SIZE, MAX_ITER = 15, 20
TOLERANCES, MULTIPLIER_RATES = (0.1, 0.05, 0.02, 0.01, 0.0), (0.01, 0.1, 1.0)
"""Those of FairGBM, whose defaults are 0.01 and 0.1; multipliers that learn faster than 1 diverge."""
FAIRGBM = Path(__file__).parents[1] / ".venv-fairgbm" / "bin" / "python"

_GAPS: dict[str, Callable[..., float]] = {
    "statistical_parity": partial_statistical_parity_difference,
    "demographic_parity": partial(partial_demographic_parity_difference, threshold=0.0),
    "equalized_odds": partial(partial_equalized_odds_difference, threshold=0.0),
}


@dataclass(frozen=True)
class Aim:
    """A gap that frontiers are read at, and that ours is asked for."""

    constraint: str
    scale: str = "interval"
    everybody: bool = False

    def asked(self, tables: Tables) -> dict[str, Any]:
        """Return where the gap is looked for, and how."""
        return {"interval": (0.0, 1.0) if self.everybody else tables.interval, "gap_scale": self.scale}

    @property
    def max_gaps(self) -> tuple[float, ...]:
        """Return what ours is allowed: of decisions, which are about shares of a group, as on that scale."""
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


@dataclass(frozen=True)
class Task:
    """One split, and what is to be grown."""

    train: Tables
    test: Tables
    model: Any
    seed: int


@dataclass(frozen=True)
class Model:
    """What one model scores on the test rows, and what it took."""

    scores: Any
    seconds: float


@dataclass(frozen=True)
class Peer:
    """Another way to constrain trees: what it bounds, its settings, and its models."""

    constrains: str
    settings: str
    models: Callable[[Task], list[Model]]


def task_of(tables: Tables, n: int | None, leaves: int, seed: int) -> Task:
    """Return a split, and a model with as many trees as early stopping finds."""
    from lightgbm import early_stopping

    train, test = parts(tables, n, seed)
    cut = int(HELD_OUT * len(train.y))  # rows are in random order
    watched, seen = train.take(np.arange(cut)), train.take(np.arange(cut, len(train.y)))
    stop = [early_stopping(PATIENCE, verbose=False)]
    grown = grower(leaves, seed).fit(
        seen.trees, seen.y, eval_set=[(watched.trees, watched.y)], callbacks=stop
    )
    return Task(train, test, grower(leaves, seed).set_params(n_estimators=grown.best_iteration_), seed)


def without_constraint(task: Task) -> list[Model]:
    """Return LightGBM's own model."""
    start = time.perf_counter()
    model = task.model.fit(task.train.trees, task.train.y)
    seconds = time.perf_counter() - start
    return [Model(model.predict(task.test.trees, raw_score=True), seconds)]


def ours(task: Task, aim: Aim) -> list[Model]:
    """Return the models of a path."""
    train, test = task.train, task.test
    start = time.perf_counter()
    path = fairness_path(
        PartialFairTrees(task.model, aim.constraint, early_stopping=None, **aim.asked(train)),
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
    """Return the scores of all predictors of a grid, whichever fairlearn would take."""
    from fairlearn.reductions import DemographicParity, GridSearch

    start = time.perf_counter()
    clf = GridSearch(task.model, DemographicParity(), grid_size=GRID_SIZE)
    clf.fit(task.train.trees, task.train.y, sensitive_features=task.train.groups)
    seconds = (time.perf_counter() - start) / GRID_SIZE
    return [Model(probability(one, task.test.trees) - 0.5, seconds) for one in clf.predictors_]


def fairgbm(task: Task, python: Path, kind: str) -> list[Model]:
    """Return FairGBM's models under one of its constraints."""
    shared = ("n_estimators", "num_leaves", "learning_rate", "min_child_samples", "random_state", "n_jobs")
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


def peers_of(wanted: list[str], python: Path) -> dict[str, Peer]:
    """Return the peers whose name holds one of some words; what is missing ends the run before it begins."""
    bounds, tolerances, rates = (
        ", ".join(f"{value:g}" for value in values) for values in (BOUNDS, TOLERANCES, MULTIPLIER_RATES)
    )
    peers = {}
    if "fairlearn" in wanted:
        reduction = f"fairlearn {version('fairlearn')}, lightgbm {version('lightgbm')}"
        rates_bounded = "selection rates at 0"
        peers["fairlearn, ExponentiatedGradient"] = Peer(
            rates_bounded,
            f"{reduction}; difference_bound {bounds}; max_iter {MAX_ITER}",
            exponentiated_gradient,
        )
        peers["fairlearn, GridSearch"] = Peer(
            rates_bounded, f"{reduction}; grid_size {GRID_SIZE}, all predictors", grid_search
        )
    if "FairGBM" in wanted:
        knobs = f"{versions_of(python)}; tolerance {tolerances}; multiplier_learning_rate {rates}"
        for kind in ("FPR", "FNR", "FPR,FNR"):
            constrains = f"{kind.replace(',', ' and ')} at 0"
            peers[f"FairGBM, {kind}"] = Peer(constrains, knobs, partial(fairgbm, python=python, kind=kind))
    return peers


def lines_of(models: list[Model], aim: Aim, test: Tables) -> list[dict[str, float]]:
    """Return what frontiers are read from: models that decide no worse than a constant does."""
    positive = test.y == 1
    constant = max(positive.mean(), 1 - positive.mean())
    lines = [
        {
            "gap": aim.gap(model.scores, test),
            "accuracy": float(np.mean((model.scores > 0) == positive)),
            "auc": float(roc_auc_score(positive, model.scores)),
            "seconds": model.seconds,
        }
        for model in models
    ]
    return [line for line in lines if line["accuracy"] >= constant]


def row_of_ours(name: str, aim: str, splits: list[Any], settings: str) -> dict[str, Any]:
    """Return the accuracies and AUCs themselves, as means over the splits that reach a level."""
    row: dict[str, Any] = {"table": name, "scale": aim, "what": "ours"}
    for level in LEVELS:
        read = np.array([[read_at(lines, level, what) for what in ("accuracy", "auc")] for lines in splits])
        means = read[np.isfinite(read[:, 0])]
        row[f"{level:g}"] = " / ".join(f"{mean:.4f}" for mean in means.mean(axis=0)) if means.size else NOT
    row["seconds"] = f"{np.mean([sum(line['seconds'] for line in lines) for lines in splits]):.0f}"
    return row | described(splits, "this gap", settings)


NOT = "not reached"


def row_beside(
    name: str, aim: str, theirs: list[Any], own: list[Any], called: str, peer: Peer
) -> dict[str, Any]:
    """Return by how much ours is better at every level."""
    row = compare(name, aim, theirs, own, (called, "ours"))
    nowhere = "+nan ± nan / +nan ± nan"
    told = {key: NOT if entry == nowhere else entry for key, entry in row.items()}
    return told | described(theirs, peer.constrains, peer.settings)


def described(splits: list[Any], constrains: str, settings: str) -> dict[str, str]:
    """Return what a frontier is made of: what is bounded, and how far it reaches on each split."""
    return {
        "constrains": constrains,
        "least test gaps": ", ".join(f"{min(line['gap'] for line in lines):.3f}" for lines in splits),
        "models": ", ".join(str(len(lines)) for lines in splits),
        "settings": settings,
    }


def beside_peers(name: str, tables: Tables, peers: dict[str, Peer], arguments: Any) -> list[dict[str, Any]]:
    """Return the lines of a table."""
    own: dict[str, list[Any]] = {aim: [] for aim in arguments.aims}
    theirs: dict[tuple[str, str], list[Any]] = {key: [] for key in product(arguments.aims, peers)}
    settings = f"partialfair {version('partialfair')}, lightgbm {version('lightgbm')}"
    for seed in range(arguments.splits):
        task = task_of(tables, ROWS[name], arguments.leaves, seed)
        plain = without_constraint(task)
        for aim in arguments.aims:
            own[aim].append(_told(name, seed, aim, "ours", plain + ours(task, AIMS[aim]), task))
        for called, peer in peers.items():
            models = plain + peer.models(task)
            for aim in arguments.aims:
                theirs[aim, called].append(_told(name, seed, aim, called, models, task))
    rows = []
    for aim in arguments.aims:
        rows.append(row_of_ours(name, aim, own[aim], settings))
        for called, peer in peers.items():
            rows.append(row_beside(name, aim, theirs[aim, called], own[aim], called, peer))
    return rows


def _told(name: str, seed: int, aim: str, called: str, models: list[Model], task: Task) -> Any:
    """Return a frontier, and print it: gap, accuracy and AUC of its models."""
    lines = lines_of(models, AIMS[aim], task.test)
    took = sum(model.seconds for model in models)
    n_trees = task.model.n_estimators
    print(f"{name}, split {seed}, {n_trees} trees, {aim}, {called}: {len(models)} models in {took:.0f} s")
    points = sorted((line["gap"], line["accuracy"], line["auc"]) for line in lines)
    print("   ", "  ".join(f"{gap:.3f}:{right:.4f}/{auc:.4f}" for gap, right, auc in points), flush=True)
    return lines


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(DATA), choices=DATA)
    parser.add_argument("--aims", nargs="*", default=list(AIMS), choices=list(AIMS))
    parser.add_argument("--methods", nargs="*", default=["fairlearn", "FairGBM"], help="peers to run")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--leaves", type=int, default=8, help="of each tree")
    parser.add_argument(
        "--fairgbm", type=Path, default=FAIRGBM, help="Python of the environment with FairGBM"
    )
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    peers = peers_of(arguments.methods, arguments.fairgbm)
    rows = []
    for name in arguments.only:
        rows += beside_peers(name, load(name, arguments.data), peers, arguments)
    title = "Trees beside peers: accuracy / AUC at equal test gaps, of ours and what peers have less"
    write("tree_peers", title, rows, arguments.out)


if __name__ == "__main__":
    main()
