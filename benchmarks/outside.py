"""Accuracy that limits next to the interval cost, and how well these limits hold on test rows.

Run ``python benchmarks/outside.py [--data DIR] [--only law_school] [--splits 5]``; data files as in
docs/data.md. On every split three linear models are trained: without a constraint, with one on the interval
(``free``), and with ``outside="no_worse"``, both at the same ``max_gap``. Gaps of statistical parity are
measured on the interval and on the adjoining intervals, with training and with test rows. The summary has
means over splits; differences are paired by split, and ± is their standard error. The synthetic admissions,
in which groups differ only in the interval, are drawn again for every split.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from _data import LOADERS, Part, as_part
from _record import RESULTS, write
from partialfair import PartialFairClassifier
from partialfair.data.intervals import as_interval_set
from partialfair.datasets import make_admissions
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.training.adjoining import adjoining_intervals

ALPHA, MAX_GAP, N_SPLITS = 1e-4, 0.1, 5
MIDDLE = (0.15, 0.40)
"""An interval with ranks on both sides, for all data sets in addition to their own."""
ROWS = {"law_school": None, "a9a": None, "bank": None, "acs_income": 20_000, "admissions": 4_000}
"""Number of training rows by data set; None for all of a split."""
N_TEST = 8_000
"""Number of test rows of the synthetic admissions."""
MODELS: dict[str, dict[str, Any]] = {
    "no constraint": {"constraint": None},
    "free": {"outside": "free"},
    "no_worse": {"outside": "no_worse"},
}

Row = dict[str, Any]


def draw_splits(
    name: str, n_splits: int, path: Path | None
) -> Iterator[tuple[Part, Part, tuple[float, float]]]:
    """Yield training rows, test rows and the data set's own interval."""
    n_train = ROWS[name]
    if name == "admissions":
        for split in range(n_splits):
            data = make_admissions(n_train + N_TEST, seed=split)
            X = pd.get_dummies(data.X, dtype=float)
            X = StandardScaler().fit_transform(X.fillna(X.mean()))
            whole = Part(X, np.asarray(data.y), np.asarray(data.sensitive_features))
            train = np.arange(n_train)
            yield whole.take(train), whole.take(np.arange(n_train, n_train + N_TEST)), MIDDLE
        return
    data = LOADERS[name](path=path)
    whole = as_part(data)
    for split in range(n_splits):
        parts = data.split(split)
        train = parts.train
        if n_train is not None and n_train < len(train):
            train = np.random.default_rng(split).choice(train, n_train, replace=False)
        yield whole.take(train), whole.take(parts.test), data.interval


def gap(part: Part, scores: Any, interval: tuple[float, float]) -> float:
    """Return the exact gap of statistical parity of scores."""
    return float(
        partial_statistical_parity_difference(None, scores, sensitive_features=part.groups, interval=interval)
    )


def measure(name: str, split: int, interval: tuple[float, float], train: Part, test: Part) -> list[Row]:
    """Train the three models on a split, and return their metrics on training and test rows."""
    rows = []
    pieces = adjoining_intervals(as_interval_set(interval))
    for model, settings in MODELS.items():
        stated = {} if "constraint" in settings else {"interval": interval, "max_gap": MAX_GAP}
        classifier = PartialFairClassifier(alpha=ALPHA, **stated, **settings)
        begun = time.perf_counter()
        classifier.fit(train.X, train.y, sensitive_features=train.groups)
        seconds = time.perf_counter() - begun
        on_train, on_test = (classifier.decision_function(part.X) for part in (train, test))
        rows.append(
            {
                "data": name,
                "interval": f"{interval[0]:g}-{interval[1]:g}",
                "split": split,
                "model": model,
                "status": str(classifier.result_.status),
                "seconds": round(seconds, 2),
                "accuracy": classifier.score(test.X, test.y),
                "auc": float(roc_auc_score(test.y, on_test)),
                "training gap": gap(train, on_train, interval),
                "test gap": gap(test, on_test, interval),
                "pieces": [f"{low:.4g}-{high:.4g}" for low, high in pieces],
                "training gaps outside": [gap(train, on_train, piece) for piece in pieces],
                "test gaps outside": [gap(test, on_test, piece) for piece in pieces],
            }
        )
        print(rows[-1], flush=True)
    return rows


def paired(differences: list[float]) -> str:
    """Write a mean over splits with its standard error."""
    values = np.array(differences)
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return f"{values.mean():+.4f} ± {error:.4f}"


def summarize(rows: list[Row]) -> list[Row]:
    """Return one row per data set, interval and model: means over the splits."""
    lines = []
    for name, interval in dict.fromkeys((row["data"], row["interval"]) for row in rows):
        of_case = [row for row in rows if (row["data"], row["interval"]) == (name, interval)]
        by_model = {model: [row for row in of_case if row["model"] == model] for model in MODELS}
        without = by_model["no constraint"]
        for model, of_model in by_model.items():
            both = list(zip(of_model, without, strict=True))
            line: Row = {"data": name, "interval": interval, "model": model, "splits": len(of_model)}
            line["accuracy"] = f"{np.mean([row['accuracy'] for row in of_model]):.4f}"
            pairs = zip(of_model, by_model["free"], strict=True)
            line["accuracy − free"] = paired([row["accuracy"] - free["accuracy"] for row, free in pairs])
            line["auc"] = f"{np.mean([row['auc'] for row in of_model]):.4f}"
            for part in ("training", "test"):
                line[f"{part} gap"] = f"{np.mean([row[f'{part} gap'] for row in of_model]):.3f}"
                line[f"{part} gaps outside"] = ", ".join(
                    f"{piece}: {np.mean([row[f'{part} gaps outside'][k] for row in of_model]):.3f}"
                    for k, piece in enumerate(of_model[0]["pieces"])
                )
            # Increase of a test gap next to the interval, compared with the unconstrained model.
            rises = [
                after - before
                for row, other in both
                for after, before in zip(row["test gaps outside"], other["test gaps outside"], strict=True)
            ]
            line["test rise outside, mean"] = f"{np.mean(rises):+.3f}"
            line["test rise outside, most"] = f"{max(rises):+.3f}"
            line["test gaps outside that rose"] = f"{sum(rise > 0 for rise in rises)} of {len(rises)}"
            line["satisfied"] = f"{sum(row['status'] in ('converged', 'feasible') for row in of_model)}"
            line["seconds"] = f"{np.mean([row['seconds'] for row in of_model]):.1f}"
            lines.append(line)
    return lines


def main() -> None:
    """Measure every data set on every split, on its own interval and on one in the middle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for name in arguments.only:
        for split, (train, test, own) in enumerate(draw_splits(name, arguments.splits, arguments.data)):
            for interval in dict.fromkeys([own, MIDDLE]):
                rows += measure(name, split, interval, train, test)
    seeds = f"splits 0 to {arguments.splits - 1}"
    write("outside_splits", "Limits next to the interval, split by split", rows, arguments.out, seeds=seeds)
    title = f"Limits next to the interval, max_gap {MAX_GAP:g}: means over splits"
    write("outside", title, summarize(rows), arguments.out, seeds=seeds)


if __name__ == "__main__":
    main()
