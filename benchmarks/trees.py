"""Trees beside linear models at equal test fairness, without the group at prediction; and where to refit.

Run ``python benchmarks/trees.py [--only TEXT] [--splits N] [--data DIR]``; data files as in docs/data.md. A
line is a table and a scale: paths of models from loose to strict, whose test accuracies and AUCs are read
at the same test gaps. ``--only rows`` compares refits on the rows that the trees were grown on with refits on
other rows. Two splits by default; five take hours.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score

from _data import LOADERS, as_part
from _equal_gaps import Paired
from _real import ADULT_INTERVAL, load_adult
from _record import RESULTS, write
from partialfair import PartialFairClassifier, fairness_path
from partialfair.categoricals import CategoricalCodes
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.trees import PartialFairTrees

MAX_GAPS = {"interval": (0.4, 0.3, 0.2, 0.1, 0.05, 0.02), "absolute": (0.3, 0.2, 0.1, 0.05, 0.02, 0.01)}
LEVELS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
"""Test gaps at which frontiers are compared."""
ROWS = {"law_school": None, "bank": None, "a9a": None, "adult": None, "acs_income": 300_000}
"""Rows of each table, None for all; a fifth of them are for testing."""


@dataclass(frozen=True)
class Tables:
    """The same people as linear models take them, and as trees do."""

    linear: Any
    trees: Any
    y: Any
    groups: Any
    interval: tuple[float, float]

    def take(self, rows: Any) -> Tables:
        """Return some of the people."""
        linear = self.linear.take(rows) if isinstance(self.linear, CategoricalCodes) else self.linear[rows]
        return Tables(linear, self.trees.iloc[rows], self.y[rows], self.groups[rows], self.interval)


def load(name: str, folder: Path | None) -> Tables:
    """Return a table in both forms."""
    if name == "adult":
        part = load_adult(folder)
        return Tables(part.X, _raw_adult(folder), part.y, part.groups, ADULT_INTERVAL)
    data = LOADERS[name](path=folder)
    part = as_part(data)
    if isinstance(data.X, CategoricalCodes):
        columns = zip(data.X.names, data.X.codes.T, data.X.categories, strict=True)
        raw = pd.DataFrame(
            {column: pd.Categorical.from_codes(codes, levels) for column, codes, levels in columns}
        )
    else:
        raw = pd.DataFrame(data.X.toarray() if hasattr(data.X, "toarray") else data.X.to_numpy(dtype=float))
        raw.columns = [f"c{number}" for number in range(raw.shape[1])]
    return Tables(part.X, raw, np.asarray(part.y), np.asarray(part.groups), data.interval)


def _raw_adult(folder: Path | None) -> pd.DataFrame:
    """Return UCI Adult with its words as categories and its question marks as gaps, without sex."""
    from _real import _ADULT

    directory = folder or Path(os.environ["PARTIALFAIR_DATA"])
    text = gzip.decompress((directory / "adult" / "adult.data.gz").read_bytes()).decode()
    table = pd.read_csv(io.StringIO(text), names=list(_ADULT), skipinitialspace=True, na_values="?")
    table = table.drop(columns=["sex", "income"])
    return table.astype({name: "category" for name in table if table[name].dtype == object})


def grower(leaves: int, seed: int) -> Any:
    """Return what is grown."""
    from lightgbm import LGBMClassifier

    settings = {"n_estimators": 500, "num_leaves": leaves, "verbose": -1, "n_jobs": 1}
    return LGBMClassifier(random_state=seed, **settings)


def frontier(estimator: Any, form: str, train: Tables, test: Tables, scale: str) -> list[dict[str, float]]:
    """Return test gap, accuracy and AUC of the models of a path."""
    settings = {"interval": train.interval, "gap_scale": scale}
    path = fairness_path(
        estimator.set_params(**settings),
        getattr(train, form),
        train.y,
        sensitive_features=train.groups,
        max_gaps=MAX_GAPS[scale],
        validation=(getattr(test, form), test.y, test.groups),
        random_state=0,
    )
    positive = test.y == np.unique(test.y)[-1]
    return [
        {
            "gap": partial_statistical_parity_difference(
                None, point.scores, sensitive_features=test.groups, **settings
            ),
            "accuracy": float(np.mean((point.scores > 0) == positive)),
            "auc": float(roc_auc_score(positive, point.scores)),
            "seconds": point.seconds,
        }
        for point in path.points
    ]


def read_at(lines: list[dict[str, float]], level: float, what: str) -> float:
    """Return accuracy or AUC at a test gap: the best of models that are as fair, or between two of them."""
    ordered = sorted(lines, key=lambda line: line["gap"])
    gaps = [line["gap"] for line in ordered]
    best = np.maximum.accumulate([line[what] for line in ordered])
    return float(np.interp(level, gaps, best)) if gaps[0] <= level else float("nan")


def compare(name: str, scale: str, a: list[Any], b: list[Any], labels: tuple[str, str]) -> dict[str, Any]:
    """Return one line: by how much the second is better at every level, over the splits."""
    row: dict[str, Any] = {"table": name, "scale": scale, "what": f"{labels[1]} − {labels[0]}"}
    for level in LEVELS:
        told = []
        for what in ("accuracy", "auc"):
            pairs = zip(a, b, strict=True)
            found = [read_at(after, level, what) - read_at(before, level, what) for before, after in pairs]
            paired = Paired.of([difference for difference in found if np.isfinite(difference)])
            told.append(f"{paired.mean:+.4f} ± {paired.error:.4f}")
        row[f"{level:g}"] = " / ".join(told)
    row["seconds"] = " / ".join(
        f"{np.mean([sum(line['seconds'] for line in split) for split in side]):.0f}" for side in (a, b)
    )
    return row


def parts(tables: Tables, n: int | None, seed: int) -> tuple[Tables, Tables]:
    """Return people to train on, and a fifth to test on."""
    order = np.random.default_rng(seed).permutation(len(tables.y))[:n]
    cut = len(order) // 5
    return tables.take(order[cut:]), tables.take(order[:cut])


def beside_linear(name: str, tables: Tables, scale: str, splits: int, leaves: int) -> dict[str, Any]:
    """Compare trees with linear models."""
    linear, trees = [], []
    for seed in range(splits):
        train, test = parts(tables, ROWS[name], seed)
        linear.append(frontier(PartialFairClassifier(tol=1e-3), "linear", train, test, scale))
        trees.append(frontier(PartialFairTrees(grower(leaves, seed)), "trees", train, test, scale))
        print(name, scale, seed, *linear[-1], *trees[-1], sep="\n  ", flush=True)
    return compare(name, scale, linear, trees, ("linear", "trees"))


def where_to_refit(name: str, tables: Tables, scale: str, splits: int, leaves: int) -> dict[str, Any]:
    """Compare refits on all rows, most of which the trees were grown on, with refits on the other half."""
    other, same = [], []
    for seed in range(splits):
        train, test = parts(tables, ROWS[name], seed)
        half = len(train.y) // 2
        first, second = train.take(np.arange(half)), train.take(np.arange(half, len(train.y)))
        watched = {"eval_set": [(second.trees, second.y)]}
        from lightgbm import early_stopping

        grown = grower(leaves, seed).fit(
            first.trees, first.y, callbacks=[early_stopping(20, verbose=False)], **watched
        )
        other.append(frontier(PartialFairTrees(FrozenEstimator(grown)), "trees", second, test, scale))
        same.append(frontier(PartialFairTrees(grower(leaves, seed)), "trees", train, test, scale))
        print(name, scale, seed, *other[-1], *same[-1], sep="\n  ", flush=True)
    return compare(name, scale, other, same, ("other rows", "same rows"))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--only", default="", help="lines whose name holds this, such as 'law_school interval'"
    )
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--leaves", type=int, default=8, help="of each tree")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    questions = {"linear": beside_linear, "rows": where_to_refit}
    rows = []
    for name in ROWS:
        wanted = [
            (question, scale)
            for question in questions
            for scale in MAX_GAPS
            if arguments.only in f"{question} {name} {scale}"
        ]
        if wanted:
            tables = load(name, arguments.data)
            given = arguments.splits, arguments.leaves
            rows += [questions[question](name, tables, scale, *given) for question, scale in wanted]
    write("trees", "Trees beside linear models: accuracy / AUC at equal test gaps", rows, arguments.out)


if __name__ == "__main__":
    main()
