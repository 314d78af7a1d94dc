"""Test accuracy and test gap with the tuned threshold of decisions, compared with the threshold 0.

Run ``python benchmarks/decision_threshold.py [--splits 5] [--rows 2500] [--only NAME ...]``; data files as in
docs/data.md. For each split, models under statistical parity are fitted to ``--rows`` training rows: linear
models with several losses on all data sets, and trees (HistGradientBoosting) on data sets with numeric
features. Scores do not depend on the threshold, so one fit with ``decision_threshold="tune"`` gives both
decisions. Each row has means over the splits, with standard error and range of the differences. The gap of
decisions is that of demographic parity on whole groups, at either threshold.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingClassifier

from _data import LOADERS, Part, as_part
from _record import RESULTS, write
from partialfair import PartialFairClassifier
from partialfair.metrics import partial_demographic_parity_difference, partial_statistical_parity_difference
from partialfair.trees import PartialFairTrees

LIMITS = {"logistic": (None, 0.1), "hinge": (0.1,), "auc": (0.1,), "trees": (0.1,)}
"""Limits of statistical parity by loss of a linear model, and for trees; None for unconstrained models."""

TREES_ON = ("law_school", "bank")
MOST_TEST_ROWS = 50_000

Row = dict[str, Any]


def fit(kind: str, train: Part, interval: Any, max_gap: float | None) -> Any:
    """Fit trees or a linear model with a tuned threshold."""
    stated = {"interval": interval, "max_gap": 0.05 if max_gap is None else max_gap}
    stated |= {"constraint": None if max_gap is None else "statistical_parity", "decision_threshold": "tune"}
    trees = HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=8, random_state=0)
    if kind == "trees":
        model: Any = PartialFairTrees(trees, **stated)
    else:
        model = PartialFairClassifier(loss=kind, **stated)
    return model.fit(train.X, train.y, sensitive_features=train.groups)


def measure(model: Any, test: Part, interval: Any) -> Row:
    """Return the metrics of a model on test rows, at the threshold 0 and at the tuned one."""
    scores, groups = model.decision_function(test.X), {"sensitive_features": test.groups}
    row: Row = {"threshold": model.decision_threshold_, "satisfied": model.result_.satisfied}
    row["gap"] = partial_statistical_parity_difference(None, scores, interval=interval, **groups)
    for name, threshold in (("0", 0.0), ("tuned", model.decision_threshold_)):
        row[f"accuracy, {name}"] = float(np.mean((scores > threshold) == test.y))
        row[f"gap of decisions, {name}"] = partial_demographic_parity_difference(
            None, scores, threshold=threshold, **groups
        )
    return row


def run(name: str, split: int, n_rows: int, path: Path | None) -> list[Row]:
    """Return one row per model and limit of a split of a data set."""
    warnings.simplefilter("ignore")
    data = LOADERS[name](path=path)
    parts, rng, whole = data.split(split), np.random.default_rng(split), as_part(data)
    train, test = (
        whole.take(rng.choice(chosen, min(n, len(chosen)), replace=False))
        for chosen, n in ((parts.train, n_rows), (parts.test, MOST_TEST_ROWS))
    )
    rows = []
    for kind, limits in LIMITS.items():
        if kind == "trees" and name not in TREES_ON:
            continue
        for max_gap in limits:
            model = fit(kind, train, data.interval, max_gap)
            limit = "none" if max_gap is None else f"{max_gap:g}"
            row = {"data": name, "model": kind, "max_gap": limit, "split": split}
            rows.append(row | measure(model, test, data.interval))
            print(rows[-1], flush=True)
    return rows


def summarize(rows: list[Row]) -> list[Row]:
    """Return one row for all splits of a data set, a model and a limit."""
    lines = []
    for key in dict.fromkeys((row["data"], row["model"], row["max_gap"]) for row in rows):
        same = [row for row in rows if (row["data"], row["model"], row["max_gap"]) == key]

        def mean(what: str, of: list[Row] = same) -> str:
            return f"{np.mean([row[what] for row in of]):.4f}"

        gains = np.array([row["accuracy, tuned"] - row["accuracy, 0"] for row in same])
        error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else float("nan")
        lines.append(
            {
                "data": key[0],
                "model": "trees" if key[1] == "trees" else f"linear, {key[1]}",
                "max_gap": key[2],
                "test accuracy at 0": mean("accuracy, 0"),
                "tuned": mean("accuracy, tuned"),
                "difference ± standard error": f"{gains.mean():+.4f} ± {error:.4f}",
                "range": f"{gains.min():+.4f} to {gains.max():+.4f}",
                "test gap, of both": mean("gap"),
                "gap of decisions at 0": mean("gap of decisions, 0"),
                "gap of decisions, tuned": mean("gap of decisions, tuned"),
                "satisfied": f"{sum(row['satisfied'] is not False for row in same)} of {len(same)}",
            }
        )
    return lines


def main() -> None:
    """Fit, measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="+", choices=LOADERS, default=list(LOADERS))
    parser.add_argument("--data", type=Path, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    found = Parallel(arguments.jobs)(
        delayed(run)(name, split, arguments.rows, arguments.data)
        for name in arguments.only
        for split in range(arguments.splits)
    )
    rows = [row for of_split in found for row in of_split]
    title = f"Test accuracy with the tuned threshold of decisions, {arguments.rows:,} training rows"
    seeds = f"splits 0 to {arguments.splits - 1} of each data set, and the rows drawn of them"
    write("decision_threshold", title, summarize(rows), arguments.out, seeds=seeds, splits=rows)


if __name__ == "__main__":
    main()
