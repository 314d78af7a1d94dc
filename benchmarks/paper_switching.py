"""IDCA with switching subgradients, as the paper ran it, beside the paper's numbers; and what one step costs.

Run ``python benchmarks/paper_switching.py [--outer 400] [--seeds 1]``; data files as in docs/data.md. The
paper's protocol: w = 0 at the start, ten points, ramp of width 1, κ on the absolute scale; T and ε chosen by
validation accuracy after 50 outer steps, then K likewise among multiples of 50 from 100.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from _record import RESULTS, best_of, write
from partialfair.constraints import StatisticalParity
from partialfair.datasets import Dataset, load_a9a, load_law_school
from partialfair.groups import encode_groups
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.models import linear_model
from partialfair.objectives import Logistic
from partialfair.problems import Problem
from partialfair.solvers import IDCA, Switching
from partialfair.surrogates import Ramp


@dataclass(frozen=True)
class Row:
    """One row of the paper: dataset, κ, and its test fairness and accuracy (Tables of App. G)."""

    data: Dataset
    max_gap: float
    fairness: float
    accuracy: float


class Experiment:
    """One split of one dataset, trained at one κ."""

    def __init__(self, row: Row, seed: int) -> None:
        self.row, self.split = row, row.data.split(seed)
        data = row.data
        X = data.X
        if not sparse.issparse(X):
            dense = X.to_numpy(dtype=float)
            X = StandardScaler().fit(dense[self.split.train]).transform(dense)
        groups = encode_groups(data.sensitive_features)
        options: dict[str, Any] = {"n_groups": len(groups.labels), "group_terms": "interactions"}
        self.everyone = linear_model(X, codes=groups.codes, **options)
        rows = self.split.train
        train = encode_groups(data.sensitive_features.iloc[rows])
        weights = np.ones(len(rows))
        self.problem = Problem.of(
            linear_model(X[rows], codes=train.codes, **options),
            Logistic().build(np.where(data.y[rows] == 1, 1.0, -1.0), weights),
            StatisticalParity(data.interval, row.max_gap, "absolute").build(train, weights, Ramp(1.0)),
        )

    def accuracy(self, x: np.ndarray, rows: np.ndarray) -> float:
        """Share of rows on the right side of 0."""
        scores = self.everyone.scores(x[: self.everyone.parameters.n])
        return float(np.mean((scores[rows] > 0) == (self.row.data.y[rows] == 1)))

    def fairness(self, x: np.ndarray, rows: np.ndarray) -> float:
        """One minus the absolute gap, as the paper reports it."""
        scores = self.everyone.scores(x[: self.everyone.parameters.n])
        groups = self.row.data.sensitive_features.iloc[rows]
        return 1 - partial_statistical_parity_difference(
            None,
            scores[rows],
            sensitive_features=groups,
            interval=self.row.data.interval,
            gap_scale="absolute",
        )

    def run(self, inner: Switching, n_outer: int) -> list[np.ndarray]:
        """Return the iterates after every 50 outer steps."""
        problem, kept = self.problem, []
        x = problem.trivial_start
        for _ in range(n_outer // 50):
            x = IDCA(max_iter=50, inner=inner).solve(problem, x).x
            kept.append(x)
        return kept

    def choose(self, inners: list[Switching], n_outer: int) -> np.ndarray:
        """Return the point that the paper's validation rule picks."""
        validated = partial(self.accuracy, rows=self.split.validation)
        best = max(inners, key=lambda inner: validated(self.run(inner, 50)[-1]))
        return max(self.run(best, n_outer)[1:] or self.run(best, 50), key=validated)


def step_cost(experiment: Experiment) -> dict[str, str]:
    """Cost of one switching step as a multiple of SciPy's X @ w and X.T @ v."""
    X = experiment.row.data.X[experiment.split.train]
    w, v = np.ones(X.shape[1]), np.ones(X.shape[0])
    products = best_of(lambda: (X @ w, X.T @ v), 50)
    subproblem = experiment.problem.linearise(experiment.problem.trivial_start)
    solve = partial(Switching(200).solve, subproblem, experiment.problem.trivial_start)
    return {
        "what": "one switching step ÷ (X @ w and X.T @ v)",
        "found": f"{best_of(solve) / 200 / products:.2f}",
    }


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outer", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, nargs="+", default=[150, 200], help="grid of T")
    parser.add_argument(
        "--epsilons", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3, 5e-3], help="grid of ε"
    )
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    grid = product(arguments.steps, arguments.epsilons)
    inners = [Switching(steps, epsilon, longest=0) for steps, epsilon in grid]
    law, a9a = load_law_school(path=arguments.data), load_a9a(path=arguments.data, drop_sensitive=True)
    table = []
    for row in (Row(law, 0.005, 0.9563, 0.8909), Row(a9a, 0.05, 0.9310, 0.8393)):
        for seed in range(arguments.seeds):
            experiment = Experiment(row, seed)
            start = time.perf_counter()
            x = experiment.choose(inners, arguments.outer)
            test = experiment.split.test
            found = experiment.problem.evaluate(x)
            table.append(
                {
                    "data": row.data.name,
                    "κ": row.max_gap,
                    "split": seed,
                    "test fairness (paper)": f"{experiment.fairness(x, test):.4f} ({row.fairness})",
                    "test accuracy (paper)": f"{experiment.accuracy(x, test):.4f} ({row.accuracy})",
                    "objective": f"{found.objective:.5f}",
                    "violation": f"{found.violation:.1e}",
                    "passes": f"{experiment.problem.n_passes:,}",
                    "seconds": f"{time.perf_counter() - start:.0f}",
                }
            )
            print(table[-1], flush=True)
    write("paper_switching", "IDCA with switching subgradients beside the paper", table, arguments.out)
    write(
        "switching_step",
        "Cost of a switching step on a9a",
        [step_cost(Experiment(Row(a9a, 0.05, 0, 0), 0))],
        arguments.out,
    )


if __name__ == "__main__":
    main()
