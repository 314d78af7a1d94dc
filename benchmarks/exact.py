"""What the promise on the exact gap costs: ``enforce="exact"`` beside ``enforce="surrogate"``.

Run ``python benchmarks/exact.py [--data DIR] [--only a9a law_school]``; data files as in docs/data.md. Linear
scorers with one coefficient vector per group, ``alpha=1e-4``; partial statistical and demographic parity on
the interval of the data set, on both scales, with ``max_gap`` .02, .05 and .1. The gap is measured here, by
the definition, not by the package.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from _data import CONSTRAINTS, LOADERS, Part, load
from _record import RESULTS, write
from partialfair import PartialFairClassifier
from partialfair.datasets import Dataset

MAX_GAPS = (0.02, 0.05, 0.1)
SCALES = ("interval", "absolute")


def gap_of(scores: Any, groups: Any, interval: tuple[float, float], kind: str, scale: str) -> float:
    """Return the gap of two groups by definition: ranks at every score, clipped to the interval."""
    low, high = interval
    one, other = (np.sort(scores[groups == label]) for label in np.unique(groups))
    thresholds = np.unique(scores) if kind == "pSP" else np.array([0.0])
    thresholds = np.append(thresholds, -np.inf) if kind == "pSP" else thresholds
    ranks = [1 - np.searchsorted(own, thresholds, side="right") / own.size for own in (one, other)]
    if kind == "pSP" and scale == "absolute":
        inside = [(low <= rank + 1e-12) & (rank < high - 1e-12) for rank in ranks]
        differences = np.abs(ranks[0] - ranks[1])[inside[0] | inside[1]]
        return float(differences.max(initial=0.0))
    clipped = [np.minimum(rank, high) - np.minimum(rank, low) for rank in ranks]
    gap = float(np.abs(clipped[0] - clipped[1]).max())
    return gap if scale == "absolute" else gap / (high - low)


def fitted(train: Part, data: Dataset, kind: str, scale: str, max_gap: float, enforce: str) -> Any:
    """Return the classifier and the seconds that its fit took."""
    clf = PartialFairClassifier(
        CONSTRAINTS[kind],
        interval=data.interval,
        max_gap=max_gap,
        gap_scale=scale,
        enforce=enforce,
        alpha=1e-4,
        group_terms="interactions",
    )
    start = time.perf_counter()
    clf.fit(train.X, train.y, sensitive_features=train.groups)
    return clf, time.perf_counter() - start


def row(name: str, data: Dataset, train: Part, kind: str, scale: str, max_gap: float) -> dict[str, Any]:
    """Fit both ways and describe."""
    surrogate, cheap = fitted(train, data, kind, scale, max_gap, "surrogate")
    exact, dear = fitted(train, data, kind, scale, max_gap, "exact")
    before, gap = (
        gap_of(clf.decision_function(train.X, train.groups), train.groups, data.interval, kind, scale)
        for clf in (surrogate, exact)
    )
    return {
        "data": name,
        "constraint": kind,
        "scale": scale,
        "max_gap": max_gap,
        "gap, surrogate": f"{before:.4f}",
        "gap, exact": f"{gap:.4f}",
        "status": str(exact.result_.status),
        "broken": "yes" if exact.result_.status == "converged" and gap > max_gap + 1e-9 else "",
        "objective, surrogate": f"{surrogate.result_.objective:.5f}",
        "objective, exact": f"{exact.result_.objective:.5f}",
        "seconds, surrogate": f"{cheap:.2f}",
        "seconds, exact": f"{dear:.2f}",
        "ratio": f"{dear / cheap:.1f}",
    }


def main() -> None:
    """Fit everything on everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--rows", type=int, default=None, help="training rows, for a quick look")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in arguments.only:
        data, train, _ = load(name, arguments.data, arguments.rows)
        for kind in CONSTRAINTS:
            for scale in SCALES:
                fitted(train.few(), data, kind, scale, 0.1, "exact")  # compiles
                for max_gap in MAX_GAPS:
                    rows.append(row(name, data, train, kind, scale, max_gap))
                    print(rows[-1], flush=True)
    converged = [one["status"] == "converged" for one in rows]
    kept = sum(not one["broken"] for one in rows)
    cost = sum(float(one["seconds, exact"]) for one in rows) / sum(
        float(one["seconds, surrogate"]) for one in rows
    )
    title = (
        f"Exact gaps: {sum(converged)} of {len(rows)} fits converged, {len(rows) - kept} of them broke the "
        f"promise; all together they took {cost:.1f} times as long as surrogate ones"
    )
    write("exact", title, rows, arguments.out)


if __name__ == "__main__":
    main()
