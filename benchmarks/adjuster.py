"""Adjusted scores compared with quantile matching on the whole range: gaps, changes, accuracy and run time.

A logistic regression without the group is trained on each data set. Its scores are adjusted on the training
rows, on the paper's interval. Gap, accuracy and AUC are those of the test rows; seconds are those of fitting
and of adjusting the training scores. The floor is the smallest gap that scores without new ties can always
reach.

Quantile matching is implemented here in ten lines, and by EquiPy and holisticai if they are installed
(`benchmarks/peers.txt`, `make bench-comparison`; holisticai needs its extra ``bias``: jax and flax).
holisticai compares every score with all scores of the other group at 100 values, in quadratic time, so it is
skipped above 50,000 rows. A last table has the run time for a million scores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from _data import Part, load
from _record import RESULTS, write
from partialfair.data.categoricals import CategoricalCodes
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.postprocessing import PartialParityAdjuster

DATA = {"law_school": None, "bank": None, "a9a": None, "acs_income": 100_000}
MAX_GAPS = (0.1, 0.05)
MOST_ROWS_OF_HOLISTICAI = 50_000

Adjust = Callable[[Any, Any], Any]


def quantile_matching(scores: Any, groups: Any) -> Adjust:
    """Map every quantile of a group to the mean of all groups' quantiles, the Wasserstein-2 barycenter."""
    names, sizes = np.unique(groups, return_counts=True)
    ranked = {name: np.sort(scores[groups == name]) for name in names}

    def adjust(new: Any, new_groups: Any) -> Any:
        adjusted = np.empty(new.size)
        for name in names:
            mine = new_groups == name
            share = np.searchsorted(ranked[name], new[mine], side="right") / ranked[name].size
            means = [np.quantile(ranked[other], np.clip(share, 0, 1)) for other in names]
            adjusted[mine] = np.average(means, axis=0, weights=sizes)
        return adjusted

    return adjust


def equipy(scores: Any, groups: Any) -> Adjust | None:
    """Return EquiPy's exact fairness, if it is installed; it expects probabilities."""
    try:
        from equipy.fairness import FairWasserstein
    except ImportError:
        return None
    from scipy.special import expit, logit

    def column(names: Any) -> Any:
        return np.asarray(names).astype(str)[:, None]

    model = FairWasserstein(sigma=0.0001)
    model.fit(expit(scores), column(groups))
    return lambda new, names: logit(np.clip(model.transform(expit(new), column(names)), 1e-9, 1 - 1e-9))


def holisticai(scores: Any, groups: Any) -> Adjust | None:
    """Return holisticai's Wasserstein barycenter, if it is installed; it supports two groups and few rows."""
    names = np.unique(groups)
    if names.size != 2 or scores.size > MOST_ROWS_OF_HOLISTICAI:
        return None
    try:
        from holisticai.bias.mitigation import WassersteinBarycenter
    except ImportError:
        return None
    model = WassersteinBarycenter()
    model.fit(scores, *(groups == name for name in names))
    return lambda new, given: model.transform(new, *(given == name for name in names))["y_pred"]


RIVALS: dict[str, Callable[[Any, Any], Adjust | None]] = {
    "quantile matching": quantile_matching,
    "EquiPy": equipy,
    "holisticai": holisticai,
}


def adjusted(
    scores: Any, groups: Any, interval: Any, max_gap: float, scale: str, margin: Any = "auto"
) -> tuple[Adjust, Any]:
    """Return the adjuster's map and a summary of its result."""
    adjuster = PartialParityAdjuster(interval, max_gap, gap_scale=scale, margin=margin)
    adjuster.fit(scores, sensitive_features=groups)
    return adjuster.transform, adjuster.result_


def ways_of(scores: Any, groups: Any, interval: Any, scale: str) -> dict[str, Callable[[], Adjust]]:
    """Return the settings of the adjuster, and the unadjusted scores."""

    def ask(max_gap: float, interval: Any = interval, margin: Any = "auto") -> Callable[[], Adjust]:
        return lambda: adjusted(scores, groups, interval, max_gap, scale, margin)[0]

    wide = PartialParityAdjuster(interval, 1.0, gap_scale=scale)
    floor = wide.fit(scores, sensitive_features=groups).result_.floor
    ways = {
        "as they are": lambda: lambda given, _: given,
        **{f"adjuster, max_gap {gap:g}": ask(gap) for gap in MAX_GAPS},
        f"adjuster at the floor, {floor:.2g}": ask(floor),
        "adjuster, whole range, max_gap 0.05": ask(0.05, (0.0, 1.0)),
    }
    return ways | (
        {"adjuster, max_gap 0.05, no margin": ask(0.05, margin=0.0)} if scale == "absolute" else {}
    )


@dataclass(frozen=True)
class Moved:
    """Adjusted scores of training and test rows, with the run time."""

    train: Any
    test: Any
    seconds: float


def rows_of(name: str, path: Path | None, n: int | None) -> list[dict[str, Any]]:
    """Return one row per method for a data set, on both scales."""
    data, train, test = load(name, path, n)
    model = LogisticRegression(C=1 / (1e-4 * len(train.y)), max_iter=500).fit(_features(train), train.y)
    scores, new = (model.decision_function(_features(part)) for part in (train, test))
    positive = test.y == model.classes_[1]

    def moved(make: Callable[[], Adjust | None]) -> Moved | None:
        start = time.perf_counter()
        adjust = make()
        if adjust is None:
            return None
        after = adjust(scores, train.groups)
        seconds = time.perf_counter() - start
        return Moved(after, adjust(new, test.groups), seconds)

    rivals = {way: moved(partial(match, scores, train.groups)) for way, match in RIVALS.items()}
    rows = []
    for scale in ("interval", "absolute"):
        ways = ways_of(scores, train.groups, data.interval, scale)
        for way, after in ({way: moved(make) for way, make in ways.items()} | rivals).items():
            if after is None:
                continue
            rows.append(
                {
                    "data": name,
                    "scale": scale,
                    "scores": way,
                    "training gap": f"{_gap(after.train, train.groups, data.interval, scale):.4f}",
                    "test gap": f"{_gap(after.test, test.groups, data.interval, scale):.3f}",
                    "rms change": f"{np.sqrt(np.mean((after.train - scores) ** 2)):.3f}",
                    "test accuracy": f"{np.mean((after.test > 0) == positive):.4f}",
                    "test AUC": f"{roc_auc_score(positive, after.test):.4f}",
                    "seconds": f"{after.seconds:.2f}",
                }
            )
    return rows


def speed_rows(sizes: list[int]) -> list[dict[str, Any]]:
    """Return the time of a fit for many synthetic scores of two groups."""
    rows = []
    rng = np.random.default_rng(0)
    for n in sizes:
        groups = rng.integers(0, 2, n)
        scores = rng.normal(size=n) * (1 + 0.3 * groups) + 0.5 * groups
        for interval in ((0.05, 0.30), (0.0, 1.0)):
            start = time.perf_counter()
            _, result = adjusted(scores, groups, interval, 0.05, "interval")
            rows.append(
                {
                    "scores": f"{n:,}",
                    "interval": str(interval),
                    "gap before": f"{result.gap_before:.3f}",
                    "gap": f"{result.gap:.4f}",
                    "rms change": f"{np.sqrt(result.mean_squared_change):.3f}",
                    "rows of the table": result.n_knots,
                    "seconds": f"{time.perf_counter() - start:.1f}",
                }
            )
    return rows


def _features(part: Part) -> Any:
    return part.X.to_csr() if isinstance(part.X, CategoricalCodes) else part.X


def _gap(scores: Any, groups: Any, interval: Any, scale: str) -> float:
    return partial_statistical_parity_difference(
        None, scores, sensitive_features=groups, interval=interval, gap_scale=scale
    )


def main() -> None:
    """Measure, and write both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, help="directory of the data files")
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--sizes", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    few, halves = np.linspace(-1, 1, 40), np.arange(40) % 2
    adjusted(few, halves, (0.0, 0.5), 0.1, "interval")  # compiles
    for match in RIVALS.values():
        match(few, halves)  # imports
    if arguments.data:
        rows = [row for name in arguments.data for row in rows_of(name, arguments.path, DATA[name])]
        title = "Adjusted scores compared with whole-range quantile matching"
        write("adjuster", title, rows, arguments.out, seeds="split 0")
    if arguments.sizes:
        title = "Seconds of an adjustment, max_gap 0.05"
        write("adjuster_speed", title, speed_rows(arguments.sizes), arguments.out, seeds="0")


if __name__ == "__main__":
    main()
