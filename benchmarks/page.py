"""How large an audit page is and how long it takes, by numbers of scores and groups.

Run ``python benchmarks/page.py [--scores 10000000]``; results go to ``benchmarks/results/``. The bar: ten
million scores give a page under 3 MB.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from _record import RESULTS, write
from partialfair.exceptions import SmallGroupWarning, UndefinedGapWarning
from partialfair.metrics import fairness_report

N_GROUPS = (2, 5, 12, 50)
BAR = 3e6


def row(n_scores: int, n_groups: int) -> dict[str, Any]:
    """Make scores that differ by group, their report and its page."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, n_groups, n_scores).astype(np.int8)
    scores = rng.normal(size=n_scores) + 0.05 * groups
    labels = rng.random(n_scores) < 1 / (1 + np.exp(-scores))
    start = time.perf_counter()
    report = fairness_report(
        labels,
        scores,
        sensitive_features=groups,
        interval=(0.05, 0.30),
        threshold=0.5,
        pos_label=True,
        random_state=0,
    )
    middle = time.perf_counter()
    size = len(report.to_html().encode())
    return {
        "scores": f"{n_scores:,}",
        "groups": n_groups,
        "seconds, report": f"{middle - start:.1f}",
        "seconds, page": f"{time.perf_counter() - middle:.1f}",
        "MB": f"{size / 1e6:.2f}",
        "bar": f"{BAR / 1e6:g} MB",
    }


def main() -> None:
    """Make every page once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, nargs="*", default=N_GROUPS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallGroupWarning)
    warnings.simplefilter("ignore", UndefinedGapWarning)
    row(10_000, 2)  # compiles
    rows = [row(arguments.scores, n_groups) for n_groups in arguments.groups]
    largest = max(float(one["MB"]) for one in rows)
    write("page", f"Audit pages: at most {largest:.2f} MB", rows, arguments.out)


if __name__ == "__main__":
    main()
