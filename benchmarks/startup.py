"""CPU time of commands that compute almost nothing.

Run ``python benchmarks/startup.py``, with ``--before DIR`` or ``--before-commit COMMIT`` to compare with an
earlier checkout; results go to ``benchmarks/results/``. Every command runs ``--runs`` times in fresh
processes, alternating between the two checkouts so that both run under the same load, after one run that
compiles; medians are compared. The first run also writes bytecode, which installed packages have, even if the
environment disables it. User and system time are added, so that other load has little influence. The limits
are 0.3 s for ``--version`` and ``--help``, and 1.5 s for ``predict`` of 1,000 rows.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from _earlier import ROOT, commit_of, earlier_checkout
from _record import COMMIT, RESULTS, write

BARS = {"--version": 0.3, "--help": 0.3, "train --help": 0.3, "predict model table.csv --out scores.csv": 1.5}
TRAIN = "train table.csv --target hired --group sex --id number --interval 0.1 0.5 --max-gap 0.2 --out model"
N_ROWS = 1000


def cpu_seconds(words: str, checkout: Path, work: Path) -> float:
    """Run a command with the package of a checkout; return the CPU seconds of its process."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "partialfair", *words.split()],
        env=environment,
        cwd=work,
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_table(work: Path) -> None:
    """Write a table to train on and to predict."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"number": np.arange(N_ROWS), "sex": rng.choice(["women", "men"], N_ROWS)})
    table["age"], table["income"] = rng.integers(18, 70, N_ROWS), rng.normal(size=N_ROWS).round(3)
    table["city"] = rng.choice([*"abcdef"], N_ROWS)
    table["hired"] = (table["income"] + rng.normal(size=N_ROWS) > 0).astype(int)
    table.to_csv(work / "table.csv", index=False)


def prepare(checkout: Path, work: Path) -> None:
    """Write a table, and train a model on it with the package of a checkout."""
    work.mkdir()
    write_table(work)
    cpu_seconds(TRAIN, checkout, work)


def rows(checkouts: dict[str, Path], n_runs: int, folder: Path) -> list[dict[str, Any]]:
    """Measure all commands; the last of the checkouts is this one."""
    for name, checkout in checkouts.items():
        prepare(checkout, folder / name)
    table = []
    for words, bar in BARS.items():
        seconds: dict[str, list[float]] = {name: [] for name in checkouts}
        for run in range(n_runs + 1):
            for name, checkout in checkouts.items():
                used = cpu_seconds(words, checkout, folder / name)
                if run:
                    seconds[name].append(used)
        medians = {name: median(measured) for name, measured in seconds.items()}
        one = {"command": words.partition(" model")[0], **{name: f"{s:.2f}" for name, s in medians.items()}}
        if "before" in medians:
            one["ratio"] = f"{medians['now'] / medians['before']:.2f}"
        table.append({**one, "bar": f"{bar:g}", "within": "yes" if medians["now"] <= bar else "no"})
    return table


def main() -> None:
    """Measure this checkout, and an earlier one if it is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument("--before", type=Path, help="an earlier checkout")
    earlier.add_argument("--before-commit", help="an earlier commit, checked out for the time being")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    compares = arguments.before is not None or arguments.before_commit is not None
    with (
        earlier_checkout(arguments) if compares else nullcontext() as before,
        tempfile.TemporaryDirectory() as folder,
    ):
        checkouts = {} if before is None else {"before": before.resolve()}
        measured = rows({**checkouts, "now": ROOT}, arguments.runs, Path(folder))
        commits = "" if before is None else f", compared with {commit_of(before)}"
    title = f"CPU seconds of commands, medians of {arguments.runs} runs, at {COMMIT}{commits}"
    write("startup", title, measured, arguments.out, seeds="0")


if __name__ == "__main__":
    main()
