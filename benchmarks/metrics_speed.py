"""What judging scores costs: metrics as multiples of sorting the scores, reports, and imports.

Run ``python benchmarks/metrics_speed.py [--scores 10000000]``; results go to ``benchmarks/results/``. The
bars: the statistical-parity gap of ten million scores with int8 groups ≤ 3 sorts, ``import partialfair``
≤ 0.3 s, ``from partialfair import metrics`` ≤ 1.3 s, a report of 50,000 scores in seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from _record import RESULTS, best_of, write
from partialfair.metrics import fairness_report, partial_statistical_parity_difference, unfairness_map

INTERVAL = (0.05, 0.30)


def import_seconds(statement: str, repeats: int = 5) -> float:
    """Return the least time of an import in a fresh interpreter, less that of an empty one."""

    def once(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    once(statement)  # writes the byte code
    empty = min(once("pass") for _ in range(repeats))
    return min(once(statement) for _ in range(repeats)) - empty


def row(what: str, seconds: float, bar: str = "", sort: float | None = None) -> dict[str, Any]:
    """Return one line of the table."""
    ratio = "" if sort is None else f"{seconds / sort:.2f}"
    return {"what": what, "seconds": f"{seconds:.3f}", "÷ numpy.sort": ratio, "bar": bar}


def main() -> None:
    """Measure everything in one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    n = arguments.scores
    rng = np.random.default_rng(0)
    scores = rng.normal(size=n)
    codes = (rng.random(n) < 0.4).astype(np.int8)
    ten = rng.integers(10, size=n).astype(np.int8)
    names = np.array(["women", "men"], dtype=object)[codes]
    weights = rng.random(n)
    gap = partial(partial_statistical_parity_difference, None, scores, interval=INTERVAL)
    sort = best_of(lambda: np.sort(scores))
    few, few_codes = scores[:50_000], codes[:50_000]
    few_labels = rng.random(few.size) < 1 / (1 + np.exp(-few))
    rows = [
        row(f"numpy.sort of {n:,} scores", sort, sort=sort),
        row(
            "pSP gap, int8 groups, ranks 5–30 %",
            best_of(lambda: gap(sensitive_features=codes)),
            "≤ 3 sorts",
            sort,
        ),
        row(
            "pSP gap, int8 groups, all ranks",
            best_of(lambda: gap(sensitive_features=codes, interval=(0.0, 1.0))),
            "≤ 3 sorts",
            sort,
        ),
        row(
            "pSP gap, absolute scale",
            best_of(lambda: gap(sensitive_features=codes, gap_scale="absolute")),
            sort=sort,
        ),
        row("pSP gap, ten groups (45 pairs)", best_of(lambda: gap(sensitive_features=ten), 1), sort=sort),
        row("pSP gap, string groups", best_of(lambda: gap(sensitive_features=names)), sort=sort),
        row(
            "pSP gap, weights",
            best_of(lambda: gap(sensitive_features=codes, sample_weight=weights), 1),
            sort=sort,
        ),
        row(
            "unfairness map, 1,275 intervals",
            best_of(lambda: unfairness_map(scores, sensitive_features=codes), 1),
            sort=sort,
        ),
        row(
            "report (1,000 draws), 50,000 scores, all metrics",
            best_of(
                lambda: fairness_report(
                    few_labels,
                    few,
                    sensitive_features=few_codes,
                    interval=INTERVAL,
                    threshold=0.8,
                    random_state=0,
                )
            ),
            "seconds",
        ),
        row("import partialfair", import_seconds("import partialfair"), "≤ 0.3 s"),
        row(
            "from partialfair import metrics",
            import_seconds("from partialfair import metrics"),
            "≤ 1.3 s",
        ),
    ]
    write("metrics_speed", "Judging scores", rows, arguments.out)


if __name__ == "__main__":
    main()
