"""CPU time and memory compared with an earlier checkout: whether a refactoring keeps the speed.

Run ``python benchmarks/same_speed.py --before-commit COMMIT`` or ``--before DIR``; data files as in
docs/data.md. Every workload runs ``--runs`` times in fresh processes, alternating between the two checkouts
so that both run under the same load, after one run that compiles. Medians are compared. CPU time is summed
over all threads, so that other load has little influence. The limit is a ratio of 1.05.

- exact fit, path: a9a, the paper's interval, one limit and ten
- exact fit, ACS: 1.5 million rows of ACS income, without the time of reading them
- audit: the command on 200 groups of 50 rows, with its HTML report
- import: ``from partialfair import PartialFairClassifier``
- predict: the command on 1,000 rows
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import partialfair
from _data import LOADERS, as_part
from _earlier import ROOT, add_earlier, answer_of, commit_of, earlier_checkout
from _record import RESULTS, write
from many_groups import COMMAND, write_scores
from partialfair import PartialFairClassifier, fairness_path
from startup import TRAIN, write_table

PATH_GAPS = np.geomspace(0.02, 0.4, 10).tolist()
INTERVALS = {"a9a": (0.05, 0.30), "acs_income": (0.2, 0.4)}
LIMIT = 1.05


def fit(name: str, data: Path | None) -> Callable[[], Any]:
    """Read a data set; return its exact fit."""
    rows = as_part(LOADERS[name](path=data))
    model = PartialFairClassifier(interval=INTERVALS[name], max_gap=0.05, alpha=1e-4)
    return lambda: model.fit(rows.X, rows.y, sensitive_features=rows.groups)


def fit_path(data: Path | None) -> Callable[[], Any]:
    """Read a9a; return a path of ten limits."""
    rows = as_part(LOADERS["a9a"](path=data))
    model = PartialFairClassifier(interval=INTERVALS["a9a"], alpha=1e-4)
    return lambda: fairness_path(model, rows.X, rows.y, sensitive_features=rows.groups, max_gaps=PATH_GAPS)


def command(words: str, folder: Path) -> Callable[[], Any]:
    """Return a function that runs a command in its own process."""
    call = [sys.executable, "-m", "partialfair", *words.split()]
    return lambda: subprocess.run(call, cwd=folder, capture_output=True, check=True)


def prepare(workload: str, data: Path | None, folder: Path) -> Callable[[], Any]:
    """Return the function to measure, after the preparation of a workload."""
    if workload == "audit":
        write_scores(folder / "scores.csv", [50] * 200)
        return command(COMMAND, folder)
    if workload == "predict":
        write_table(folder)
        command(TRAIN, folder)()
        return command("predict model table.csv --out scores.csv", folder)
    if workload == "import":
        call = [sys.executable, "-c", "from partialfair import PartialFairClassifier"]
        return lambda: subprocess.run(call, check=True)
    if workload == "path":
        return fit_path(data)
    return fit("acs_income" if workload == "exact fit, ACS" else "a9a", data)


WORKLOADS = ("exact fit", "path", "exact fit, ACS", "audit", "import", "predict")


def measure(workload: str, data: Path | None) -> dict[str, Any]:
    """Run a workload once; return its CPU seconds and peak memory, of the process or its children."""
    warnings.simplefilter("ignore")
    in_process = workload.startswith(("exact", "path"))
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(workload, data, Path(folder))
        who = resource.RUSAGE_SELF if in_process else resource.RUSAGE_CHILDREN
        before = resource.getrusage(who)
        start = time.perf_counter()
        run()
        wall = time.perf_counter() - start
        after = resource.getrusage(who)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    package = str(Path(partialfair.__file__).resolve())
    return {"package": package, "seconds": seconds, "wall": wall, "peak": after.ru_maxrss / 2**20}


def main() -> None:
    """Compare this checkout with an earlier one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    add_earlier(parser, "--measure", "a workload to run once with the package at hand")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.measure, arguments.data)))
        return
    table = []
    with earlier_checkout(arguments) as before:
        commit = commit_of(before)
        for workload in arguments.only:
            measured: dict[Path, list[dict[str, Any]]] = {before: [], ROOT: []}
            for run in range(arguments.runs + 1):
                for checkout, answers in measured.items():
                    data = [] if arguments.data is None else ["--data", str(arguments.data)]
                    answer = answer_of(__file__, ["--measure", workload, *data], checkout, workload)
                    if run:  # the first one compiles
                        answers.append(answer)
            row: dict[str, Any] = {"workload": workload}
            for what in ("seconds", "peak"):
                old, new = (median(one[what] for one in measured[side]) for side in (before, ROOT))
                row |= {f"{what} before": f"{old:.2f}", f"{what} now": f"{new:.2f}"}
                row[f"ratio of {what}"] = f"{new / old:.3f}"
            table.append({**row, "within": "yes" if float(row["ratio of seconds"]) <= LIMIT else "no"})
            print(table[-1], flush=True)
    title = (
        f"CPU seconds and peak memory (GiB) compared with {commit}, medians of {arguments.runs} runs in turn"
    )
    write("same_speed", title, table, arguments.out)


if __name__ == "__main__":
    main()
