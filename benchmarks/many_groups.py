"""Run time and memory of ``partialfair audit`` with 200 groups.

Run ``python benchmarks/many_groups.py``; results go to ``benchmarks/results/``. Every audit runs in its own
process, after one that fills numba's cache, and writes its files and the HTML report. The limits are 20
seconds and 1 GB.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from _record import RESULTS, write

BAR_SECONDS, BAR_BYTES = 20, 1e9
COMMAND = (
    "audit scores.csv --score s --group g --label y --threshold 0 --interval 0.2 0.4 --small-groups keep "
    "--out d --report r.html"
)
_ENTRY = "import sys; from partialfair.cli import main; sys.exit(main())"


def sizes_of(n_groups: int, many: int) -> dict[str, list[int]]:
    """Return the members of every group of the three data sets."""
    return {
        "20 in each group": [20] * n_groups,
        f"{many:,} in each group": [many] * n_groups,
        "20 in each but one": [20] * (n_groups - 1) + [many * n_groups - 20 * (n_groups - 1)],
    }


def write_scores(path: Path, sizes: list[int]) -> None:
    """Write scores of groups with equal distributions, the hardest case: every pair may be the worst."""
    rng = np.random.default_rng(0)
    groups = np.repeat([f"g{k:03d}" for k in range(len(sizes))], sizes)
    scores = rng.normal(loc=0.3, size=groups.size)
    labels = (rng.random(groups.size) < 1 / (1 + np.exp(-scores))).astype(int)
    table = pd.DataFrame({"s": scores, "g": groups, "y": labels})
    table.sample(frac=1, random_state=0).to_csv(path, index=False)


def audit(directory: str) -> tuple[float, float, int]:
    """Run the command; return its run time, CPU time and peak memory."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", _ENTRY, *COMMAND.split()], cwd=directory, check=True, capture_output=True
    )
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * unit


def row(name: str, sizes: list[int]) -> dict[str, Any]:
    """Measure one data set."""
    with tempfile.TemporaryDirectory() as directory:
        write_scores(Path(directory, "scores.csv"), sizes)
        # Each measurement has its own process, since ru_maxrss is the maximum over all children.
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            seconds, on_processor, n_bytes = pool.apply(audit, (directory,))
        page = os.path.getsize(Path(directory, "r.html"))
    return {
        "rows": f"{sum(sizes):,}",
        "groups": name,
        "seconds": f"{seconds:.1f}",
        "of a processor": f"{on_processor:.1f}",
        "peak GB": f"{n_bytes / 1e9:.2f}",
        "page MB": f"{page / 1e6:.1f}",
        "bar": f"{BAR_SECONDS} s, {BAR_BYTES / 1e9:g} GB",
    }


def main() -> None:
    """Audit every data set once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument(
        "--many", type=int, default=4_000, help="members of each group of the second data set"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    row("few", [50] * 12)  # compiles
    sizes = sizes_of(arguments.groups, arguments.many)
    rows = [row(name, members) for name, members in sizes.items()]
    slowest = max(float(line["seconds"]) for line in rows)
    largest = max(float(line["peak GB"]) for line in rows)
    title = f"Audits of {arguments.groups} groups: at most {slowest:.0f} s and {largest:.2f} GB"
    write("many_groups", title, rows, arguments.out, seeds="0")


if __name__ == "__main__":
    main()
