"""One fit of every method on every data set, each in a fresh process that loads, encodes, warms up and fits.

Run ``python benchmarks/engine.py [--data DIR] [--only a9a law_school]``; data files as in docs/data.md. All
scorers are linear with one coefficient vector per group (the paper's interactions), ``alpha=1e-4`` and, where
there is a constraint, ``max_gap=.05`` on the interval of the data set, on the definition's scale. Peers come
from ``pip install partialfair[comparison]``; those that are missing are left out.

- ours: ``PartialFairClassifier(enforce="surrogate")``, certified at 1e-4; and without a constraint
- lagrangian: the same problem by an augmented Lagrangian with L-BFGS inside
- fairlearn: ExponentiatedGradient and GridSearch under demographic parity, predictors averaged into a score
- LogisticRegression: scikit-learn's, lbfgs, same penalty, tol 1e-6, at most 5000 iterations
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from _data import CONSTRAINTS, LOADERS, Part, load
from _problems import only_shard
from _record import RESULTS, write
from partialfair import PartialFairClassifier
from partialfair.data.categoricals import CategoricalCodes
from partialfair.data.groups import encode_groups
from partialfair.datasets.task import Dataset
from partialfair.metrics import (
    partial_demographic_parity_difference,
    partial_statistical_parity_difference,
)
from partialfair.optimization.problems import Problem
from partialfair.optimization.solvers import Solver
from partialfair.optimization.solvers.result import Run

ALPHA, MAX_GAP = 1e-4, 0.05


@dataclass(frozen=True)
class Fitted:
    """What a method returns: how to score, and what it says of itself."""

    score: Callable[[Part], Any]
    says: dict[str, Any]


def ours(train: Part, data: Dataset, constraint: str | None, **settings: Any) -> Fitted:
    """Fit this package's classifier."""
    stated = {} if constraint is None else {"interval": data.interval, "max_gap": MAX_GAP}
    clf = PartialFairClassifier(
        constraint=constraint,
        enforce="surrogate",
        alpha=ALPHA,
        group_terms="interactions",
        **stated,
        **settings,
    )
    clf.fit(train.X, train.y, sensitive_features=train.groups)
    result = clf.result_
    says = {
        "status": str(result.status),
        "passes": result.history[-1].passes,
        "objective": result.objective,
        "violation": result.max_violation,
        "certificate": result.kkt.residual,
    }
    return Fitted(lambda part: clf.decision_function(part.X, part.groups), says)


def logistic_regression(train: Part, data: Dataset, constraint: str | None) -> Fitted:
    """Fit scikit-learn's logistic regression on the same columns; encoding them is not its business."""
    X = train.blocks()
    clf = LogisticRegression(C=1 / (ALPHA * len(train.y)), tol=1e-6, max_iter=5000)
    start = time.perf_counter()
    clf.fit(X, train.y)
    seconds = time.perf_counter() - start
    says = {"seconds": seconds, "passes": 2 * int(clf.n_iter_[0])}
    return Fitted(lambda part: clf.decision_function(part.blocks()), says)


def stated(train: Part, data: Dataset, constraint: str | None, **settings: Any) -> Problem:
    """Return the problem that the classifier solves."""
    captured: list[Problem] = []

    class Capture(Solver):
        def iterate(self, run: Run, x: Any) -> Any:
            captured.append(run.problem)
            raise StopIteration

    clf = PartialFairClassifier(
        constraint=constraint,
        interval=data.interval,
        max_gap=MAX_GAP,
        enforce="surrogate",
        alpha=ALPHA,
        group_terms="interactions",
        solver=Capture(),
        **settings,
    )
    with contextlib.suppress(StopIteration):  # only the statement of the problem is wanted
        clf.fit(train.X, train.y, sensitive_features=train.groups)
    return captured[0]


def linear_scorer(problem: Problem, x: Any) -> Callable[[Part], Any]:
    """Return how the model of a point scores."""
    model: Any = only_shard(problem).model
    coef, intercept = model.unpack(problem.split(x)[0])

    def score(part: Part) -> Any:
        X = part.X.to_csr() if isinstance(part.X, CategoricalCodes) else part.X
        codes = encode_groups(part.groups).codes
        return np.asarray((X @ coef.T)[np.arange(len(codes)), codes] + intercept[codes])

    return score


def fairlearn_reduction(train: Part, data: Dataset, constraint: str | None, grid: bool = False) -> Fitted:
    """Fit fairlearn's reductions to demographic parity; it knows no intervals, and wants dense features."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient, GridSearch

    def dense(part: Part) -> Any:
        return part.blocks().toarray()

    base = LogisticRegression(C=1 / (ALPHA * len(train.y)), max_iter=1000)
    if grid:
        clf = GridSearch(base, DemographicParity(difference_bound=MAX_GAP), grid_size=10)
        clf.fit(dense(train), train.y, sensitive_features=train.groups)
        best = clf.predictors_[clf.best_idx_]
        return Fitted(lambda part: best.decision_function(dense(part)), {})
    clf = ExponentiatedGradient(base, DemographicParity(difference_bound=MAX_GAP), max_iter=20)
    clf.fit(dense(train), train.y, sensitive_features=train.groups)

    return Fitted(lambda part: averaged_score(clf, dense(part)), {})


def averaged_score(clf: Any, X: Any) -> Any:
    """Return a score of fairlearn's randomised classifier: the mean probability of its predictors, less ½."""
    pairs = zip(clf.weights_, clf.predictors_, strict=True)
    return sum(weight * probability(one, X) for weight, one in pairs if weight > 0) - 0.5


def probability(predictor: Any, X: Any) -> Any:
    """Return the probability of the label 1; a reduction that asks for one label alone gets a constant."""
    classes = list(predictor.classes_)
    return predictor.predict_proba(X)[:, classes.index(1)] if 1 in classes else np.zeros(len(X))


METHODS: dict[str, Callable[..., Fitted]] = {
    "ours": ours,
    "ours, unconstrained": lambda train, data, _: ours(train, data, None),
    "LogisticRegression": logistic_regression,
    "lagrangian": lambda *a: ours(*a, solver="augmented-lagrangian"),
    "fairlearn ExponentiatedGradient": fairlearn_reduction,
    "fairlearn GridSearch": lambda *a: fairlearn_reduction(*a, grid=True),
}
UNCONSTRAINED = ("ours, unconstrained", "LogisticRegression")


def judge(fitted: Fitted, test: Part, data: Dataset) -> dict[str, Any]:
    """Return accuracy, AUC and gaps on the test part."""
    scores = fitted.score(test)
    options = {"sensitive_features": test.groups, "interval": data.interval}
    return {
        "accuracy": float(((scores > 0) == (test.y == 1)).mean()),
        "AUC": float(roc_auc_score(test.y == 1, scores)),
        **{
            f"test pSP, {scale}": partial_statistical_parity_difference(
                None, scores, gap_scale=scale, **options
            )
            for scale in ("interval", "absolute")
        },
        **{
            f"test pDP, {scale}": partial_demographic_parity_difference(
                None, scores, threshold=0.0, gap_scale=scale, **options
            )
            for scale in ("interval", "absolute")
        },
    }


def one(
    name: str, kind: str, method: str, path: Path | None, n: int | None, warm_up: bool = True
) -> dict[str, Any]:
    """Load, warm up on a few rows, fit once, and describe; peak memory is the process's."""
    warnings.simplefilter("ignore")
    data, train, test = load(name, path, n)
    constraint = CONSTRAINTS[kind]
    if warm_up:
        METHODS[method](train.few(), data, constraint)  # compiles
    start = time.perf_counter()
    fitted = METHODS[method](train, data, constraint)
    seconds = time.perf_counter() - start
    row = {"data": name, "rows": len(train.y), "constraint": kind, "method": method, "seconds": seconds}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {**row, **fitted.says, "peak GiB": peak, **judge(fitted, test, data)}


def shown(row: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """Return a row with its numbers in readable form."""
    formats = {
        "seconds": ".2f",
        "peak GiB": ".2f",
        "violation": ".1e",
        "certificate": ".1e",
        "objective": ".5f",
    }
    cells = {}
    for column in columns:
        value = row.get(column, "")
        form = formats.get(column, ".4f" if isinstance(value, float) else "")
        cells[column] = value if isinstance(value, str) or value is None else format(value, form)
    return cells


def main() -> None:
    """Run every row in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=10.0, help="limit of a row")
    parser.add_argument(
        "--one", nargs=4, metavar=("DATA", "CONSTRAINT", "METHOD", "ROWS"), help="one row, as JSON"
    )
    arguments = parser.parse_args()
    if arguments.one:
        name, kind, method, n = arguments.one
        print(json.dumps(one(name, kind, method, arguments.data, int(n) or None)))
        return
    rows = []
    for name in arguments.only:
        LOADERS[name](path=arguments.data)  # or one clear sentence about where to put the files
        for kind in ("pSP",) if name == "acs_income" else CONSTRAINTS:
            for method in arguments.methods:
                if kind != "pSP" and method in UNCONSTRAINED:
                    continue
                if name == "acs_income" and method not in ("ours", *UNCONSTRAINED):
                    continue  # they want dense features, or hours
                rows.append(in_a_process(name, kind, method, 0, arguments))
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = [shown(row, columns) for row in rows]
    write("engine", "One fit of every method", table, arguments.out, seeds="split 0")


def in_a_process(
    name: str, kind: str, method: str, n: int, arguments: Any, script: str = __file__
) -> dict[str, Any]:
    """Return a row that a fresh process of a script measured, or one that says why there is none."""
    command = [sys.executable, script, "--one", name, kind, method, str(n)]
    if arguments.data:
        command += ["--data", str(arguments.data)]
    row = {"data": name, "rows": n, "constraint": kind, "method": method}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * arguments.minutes)
        if done.returncode:
            row["status"] = done.stderr.strip().splitlines()[-1][:80]
        else:
            row = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        row["status"] = f"over {arguments.minutes:g} minutes"
    print({key: row[key] for key in list(row)[:9]}, flush=True)
    return row


if __name__ == "__main__":
    main()
