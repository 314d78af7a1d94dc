"""Run time of fits relative to logistic regressions, on tables of many shapes.

Run ``python benchmarks/price.py [--data DIR] [--only "a9a, sparse" text]``; data files as in docs/data.md.
Every table has its own process, which warms up on a few rows and then alternates between the methods, so that
they run under the same load; seconds are medians. Tables that are not run keep their earlier results.

- LogisticRegression: scikit-learn's with defaults, and with tol=1e-6 and up to 5,000 iterations, both with
  partialfair's penalty and all rows in one model
- surrogate, exact: ``PartialFairClassifier`` with that ``enforce``, ``max_gap=0.05`` on the table's interval
- path: ``fairness_path`` with ten κ and an unconstrained model, on four fifths of the rows, with exact fits
- pGAUC: a surrogate fit under parity of group AUCs, relative to surrogate fits under statistical parity
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from _record import COMMIT, RESULTS, write
from _tables import TABLES, Table
from partialfair import PartialFairClassifier, fairness_path

ALPHA, MAX_GAP = 1e-4, 0.05
PATH_GAPS = np.geomspace(0.02, 0.4, 10)
ROUNDS, ROUNDS_OF_LONG_FITS, LONG = 5, 1, 20.0
"""Repetitions, and repetitions of methods that take longer than a number of seconds."""
BARS = {
    ("a9a, sparse", "surrogate"): 4,
    ("a9a, sparse", "exact"): 12,
    ("a9a, sparse", "path, in exact fits"): 5,
    ("a9a, sparse", "pGAUC, in surrogate fits"): 3,
    ("a9a, dense", "surrogate"): 4,
    ("a9a, dense", "exact"): 12,
    ("one-hot", "surrogate"): 4,
    ("one-hot", "exact"): 12,
    ("ACS", "surrogate"): 0.7,
    ("ACS", "exact"): 1,
    ("text", "surrogate"): 10,
}
"""Limits of run time, relative to logistic regressions with defaults unless stated otherwise."""
BESIDE = {"path, in exact fits": "exact", "pGAUC, in surrogate fits": "surrogate"}

Says = dict[str, Any]


def logistic_regression(table: Table, **settings: Any) -> Says:
    """Fit scikit-learn's logistic regression."""
    alpha = table.settings.get("alpha", ALPHA)
    fitted = LogisticRegression(C=1 / (alpha * len(table.rows.y)), **settings).fit(
        table.plain(), table.rows.y
    )
    ended = "converged" if fitted.n_iter_[0] < fitted.max_iter else "max_iter"
    return {"status": ended, "passes": 2 * int(fitted.n_iter_[0])}


def ours(table: Table, **settings: Any) -> Says:
    """Fit this package's classifier."""
    stated = {"interval": table.interval, "max_gap": MAX_GAP, "alpha": ALPHA, **table.settings, **settings}
    clf = PartialFairClassifier(**stated)
    clf.fit(table.rows.X, table.rows.y, sensitive_features=table.rows.groups)
    result = clf.result_
    return {
        "status": str(result.status),
        "passes": result.history[-1].passes,
        "objective": f"{result.objective:.5f}",
        "gap": f"{result.gap:.4f}",
        "certificate": f"{result.kkt.residual:.1e}",
    }


def path(table: Table) -> Says:
    """Fit ten models, from strict to loose."""
    clf = PartialFairClassifier(interval=table.interval, alpha=ALPHA, **table.settings)
    rows = table.rows
    models = fairness_path(clf, rows.X, rows.y, sensitive_features=rows.groups, max_gaps=PATH_GAPS.tolist())
    statuses = [str(point.model.result_.status) for point in models.points]
    return {"status": f"{statuses.count('converged')} of {len(statuses)} converged"}


def methods(name: str) -> dict[str, Callable[[Table], Says]]:
    """Return the methods that are fitted to a table."""
    chosen: dict[str, Callable[[Table], Says]] = {
        "LogisticRegression": logistic_regression,
        "LogisticRegression, tight": lambda table: logistic_regression(table, tol=1e-6, max_iter=5000),
        "surrogate": lambda table: ours(table, enforce="surrogate"),
        "exact": ours,
    }
    if name == "a9a, sparse":
        chosen["path, in exact fits"] = path
        chosen["pGAUC, in surrogate fits"] = lambda table: ours(
            table, constraint="group_auc", enforce="surrogate"
        )
    return chosen


def measured(name: str, folder: Path | None) -> list[Says]:
    """Return a row for every method on a table."""
    warnings.simplefilter("ignore")
    table = TABLES[name](folder)
    few = Table(table.rows.few(), table.interval, {**table.settings, "max_iter": 5})
    fits = methods(name)
    for number, fit in enumerate(fits.values()):
        if number > 1:
            fit(few)  # compiles
    seconds: dict[str, list[float]] = {method: [] for method in fits}
    says: dict[str, Says] = {}
    for turn in range(ROUNDS):
        for method, fit in fits.items():
            if turn >= ROUNDS_OF_LONG_FITS and median(seconds[method]) > LONG:
                continue
            start = time.perf_counter()
            says[method] = fit(table)
            seconds[method].append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    middle = {method: median(times) for method, times in seconds.items()}
    rows, columns = table.shape
    return [
        {
            "table": f"{name}, {rows:,} × {columns:,}",
            "method": method,
            "seconds": f"{middle[method]:.2f}",
            "times": f"{middle[method] / middle[BESIDE.get(method, 'LogisticRegression')]:.2f}",
            "at most": BARS.get((name, method), ""),
            "times tight": f"{middle[method] / middle['LogisticRegression, tight']:.2f}",
            "status": said.get("status", ""),
            "passes": said.get("passes", ""),
            "objective": said.get("objective", ""),
            "gap": said.get("gap", ""),
            "certificate": said.get("certificate", ""),
            "peak GiB of the table": f"{peak:.2f}",
        }
        for method, said in says.items()
    ]


def main() -> None:
    """Measure every table in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", help="one table, as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.one, arguments.data)))
        return
    record = arguments.out / "price.json"
    known = json.loads(record.read_text())["rows"] if record.exists() else []
    rows_of = {name: [row for row in known if row["table"].startswith(f"{name}, ")] for name in TABLES}
    for name in arguments.only:
        command = [sys.executable, __file__, "--one", name]
        command += ["--data", str(arguments.data)] if arguments.data else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows_of[name] = [{**row, "commit": COMMIT} for row in json.loads(done.stdout.splitlines()[-1])]
        print(*rows_of[name], sep="\n", flush=True)
    rows = [row for rows in rows_of.values() for row in rows]
    write("price", "Run time of a fit, in logistic regressions", rows, arguments.out, seeds="0")


if __name__ == "__main__":
    main()
