"""The engine beside IDCA with switching subgradients at the paper's budget, on the same problems and kernels.

Run ``python benchmarks/solvers.py [--outer 400] [--steps 200]``; data files as in docs/data.md. The problems
are the paper's (interactions, ramp of width 1, ten points, κ on the absolute scale) with ``alpha=1e-4``.
The engine sets out from the unconstrained optimum, whose passes and time are counted, and from a constant
model, and ends when its certificate holds at 1e-4. Both use one thread. IDCA runs for its whole budget, as
in the paper; "moving" says how much of it, in passes and seconds, had gone when the point last changed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from _problems import unconstrained_start
from _record import RESULTS, write
from partialfair.constraints import DemographicParity, StatisticalParity
from partialfair.constraints.base import Constraint
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.datasets import fetch_a9a, fetch_bank, fetch_law_school
from partialfair.datasets.task import Dataset
from partialfair.optimization.models import linear_model
from partialfair.optimization.objectives import Logistic
from partialfair.optimization.problems import Problem, certify
from partialfair.optimization.solvers import IDCA, MultiStartSQP, Record, Switching
from partialfair.training.units import measure_columns

MAX_GAPS = {"law_school": 0.05, "a9a": 0.05, "bank": 0.05}


def state(data: Dataset, constraint: Constraint) -> Problem:
    """Return the training problem of the first split."""
    rows = data.split(0).train
    X: Any = data.X
    if not sparse.issparse(X):
        X = StandardScaler().fit_transform(X.to_numpy(dtype=float))
    X, weights = X[rows], np.ones(len(rows))
    groups = encode_groups(data.sensitive_features.iloc[rows])
    units = measure_columns(X, weights, centered=True)
    model = linear_model(
        X,
        codes=groups.codes,
        n_groups=len(groups.labels),
        group_terms="interactions",
        scales=units.scales,
        centres=units.centers,
    )
    objective = Logistic().build(np.where(data.y[rows] == 1, 1.0, -1.0), weights)
    alpha = np.tile(units.penalties(1e-4), len(groups.labels))
    return Problem.of(model, objective, constraint.build(groups, weights, Ramp(1.0)), alpha)


def fast(problem: Problem, max_iter: int = 400) -> Any:
    """Solve from the unconstrained optimum and from a constant model."""
    start, passes = unconstrained_start(problem)
    problem.n_passes += passes
    return MultiStartSQP(max_iter=max_iter).solve(problem, start)


def run(problem: Problem, solve: Callable[[Problem], Any]) -> dict[str, Any]:
    """Solve and describe what came out."""
    problem.n_passes = 0
    start = time.perf_counter()
    result = solve(problem)
    seconds, passes = time.perf_counter() - start, problem.n_passes
    return {
        "status": str(result.status),
        "seconds": seconds,
        "passes": passes,
        "objective": result.objective,
        "violation": result.violation,
        "certificate": certify(problem, result.x).residual,
        "moving": _last_change(result.history),
    }


def _last_change(history: tuple[Record, ...]) -> Record:
    """Return the record after which objective and violation stay as they are."""
    last = next(
        (k for k in range(len(history) - 1, 0, -1) if history[k].objective != history[k - 1].objective), 0
    )
    return history[last]


def main() -> None:
    """Run every problem with both solvers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outer", type=int, default=400)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    inner = Switching(arguments.steps, 2e-3, longest=arguments.steps)
    slow = IDCA(max_iter=arguments.outer, inner=inner, tol=-1.0)  # no step is too short for another
    table = []
    threadpool_limits(1)
    for load in (fetch_law_school, fetch_bank, fetch_a9a):
        options = {"drop_sensitive": True} if load is fetch_a9a else {}
        data = load(path=arguments.data, **options)
        kappa = MAX_GAPS[data.name]
        for constraint in (
            StatisticalParity(data.interval, kappa, "absolute"),
            DemographicParity(data.interval, kappa, "absolute"),
        ):
            problem = state(data, constraint)
            run(problem, lambda problem: fast(problem, max_iter=30))  # compiles
            ours = run(problem, fast)
            paper = run(problem, lambda problem: slow.solve(problem, problem.trivial_start))
            common = {"data": data.name, "constraint": type(constraint).__name__}
            for name, found in (("engine", ours), ("IDCA, switching", paper)):
                table.append(
                    {
                        **common,
                        "solver": name,
                        "status": found["status"],
                        "seconds": f"{found['seconds']:.2f}",
                        "passes": f"{found['passes']:,}",
                        "objective": f"{found['objective']:.5f}",
                        "violation": f"{found['violation']:.1e}",
                        "certificate": f"{found['certificate']:.1e}",
                        "times fewer passes": f"{found['passes'] / ours['passes']:.0f}",
                        "times faster": f"{found['seconds'] / ours['seconds']:.0f}",
                        "moving: times fewer passes": f"{found['moving'].passes / ours['passes']:.0f}",
                        "moving: times faster": f"{found['moving'].seconds / ours['seconds']:.0f}",
                    }
                )
                print(table[-1], flush=True)
    title = "The engine compared with IDCA with switching subgradients"
    write("solvers", title, table, arguments.out, seeds="split 0")


if __name__ == "__main__":
    main()
