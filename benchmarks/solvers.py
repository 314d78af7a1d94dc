"""SQP beside IDCA with switching subgradients at the paper's budget, on the same problems and kernels.

Run ``python benchmarks/solvers.py [--outer 400] [--steps 200]``; data files as in docs/data.md. The problems
are the paper's (interactions, ramp of width 1, ten points, κ on the absolute scale) with ``alpha=1e-4``; both
start from w = 0. SQP ends when the certificate, whose time is counted, holds at 1e-3, or when no step helps.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from _record import RESULTS, write
from partialfair.constraints import Constraint, DemographicParity, StatisticalParity
from partialfair.datasets import Dataset, load_a9a, load_bank, load_law_school
from partialfair.estimators._scales import column_scales
from partialfair.estimators._watch import Watch
from partialfair.groups import encode_groups
from partialfair.models import linear_model
from partialfair.objectives import LogisticLoss
from partialfair.problems import Problem, certify
from partialfair.solvers import IDCA, SQP, Solver, Switching
from partialfair.surrogates import Ramp

MAX_GAPS = {"law_school": 0.05, "a9a": 0.05, "bank": 0.05}


def state(data: Dataset, constraint: Constraint) -> Problem:
    """Return the training problem of the first split."""
    rows = data.split(0).train
    X: Any = data.X
    if not sparse.issparse(X):
        X = StandardScaler().fit_transform(X.to_numpy(dtype=float))
    X, weights = X[rows], np.ones(len(rows))
    groups = encode_groups(data.sensitive_features.iloc[rows])
    scales = column_scales(X, weights)
    model = linear_model(
        X,
        codes=groups.codes,
        n_groups=len(groups.labels),
        group_terms="interactions",
        scales=scales,
    )
    loss = LogisticLoss(np.where(data.y[rows] == 1, 1.0, -1.0), weights)
    alpha = np.tile(1e-4 / scales**2, len(groups.labels))
    return Problem(model, loss, constraint.build(groups, weights, Ramp(1.0)), alpha)


def run(problem: Problem, solver: Solver, watched: bool) -> dict[str, Any]:
    """Solve from w = 0 and describe what came out."""
    problem.n_passes = 0
    watch = Watch(problem, 1e-3, None, 0) if watched else None
    start = time.perf_counter()
    result = solver.solve(problem, problem.trivial_start, callback=watch)
    seconds, passes = time.perf_counter() - start, problem.n_passes
    return {
        "seconds": seconds,
        "passes": passes,
        "objective": result.objective,
        "violation": result.violation,
        "certificate": certify(problem, result.x).residual,
    }


def main() -> None:
    """Run every problem with both solvers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outer", type=int, default=400)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    slow = IDCA(max_iter=arguments.outer, inner=Switching(arguments.steps, 2e-3, longest=0))
    table = []
    for load in (load_law_school, load_bank, load_a9a):
        options = {"drop_sensitive": True} if load is load_a9a else {}
        data = load(path=arguments.data, **options)
        kappa = MAX_GAPS[data.name]
        for constraint in (
            StatisticalParity(data.interval, kappa, "absolute"),
            DemographicParity(data.interval, kappa, "absolute"),
        ):
            problem = state(data, constraint)
            run(problem, SQP(max_iter=2), watched=True)  # compiles
            fast, paper = run(problem, SQP(), watched=True), run(problem, slow, watched=False)
            common = {"data": data.name, "constraint": type(constraint).__name__}
            for name, found in (("SQP", fast), ("IDCA, switching", paper)):
                table.append(
                    {
                        **common,
                        "solver": name,
                        "seconds": f"{found['seconds']:.2f}",
                        "passes": f"{found['passes']:,}",
                        "objective": f"{found['objective']:.5f}",
                        "violation": f"{found['violation']:.1e}",
                        "certificate": f"{found['certificate']:.1e}",
                        "times fewer passes": f"{found['passes'] / fast['passes']:.0f}",
                        "times faster": f"{found['seconds'] / fast['seconds']:.0f}",
                    }
                )
                print(table[-1], flush=True)
    write("solvers", "SQP beside IDCA with switching subgradients", table, arguments.out)


if __name__ == "__main__":
    main()
