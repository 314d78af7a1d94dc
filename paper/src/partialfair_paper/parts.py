"""Splits the rows of an experiment into training, validation and test set, and evaluates scores on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.metrics import roc_auc_score

from partialfair.datasets import fetch_a9a, fetch_acs_income, fetch_bank, fetch_law_school
from partialfair.exceptions import InputError
from partialfair.extension import CategoricalCodes, Dataset, Floats, Ints
from partialfair.metrics import (
    partial_demographic_parity_difference,
    partial_statistical_parity_difference,
)
from partialfair_paper.celeba_images import load_celeba_images
from partialfair_paper.published import INTERVALS
from partialfair_paper.runs import Run

LOADERS: Mapping[str, Callable[[Path | None], Dataset]] = {
    # The model has an intercept for each group, so columns of the group in X would be duplicates.
    "a9a": lambda path: fetch_a9a(path=path, drop_sensitive=True),
    "bank": lambda path: fetch_bank(path=path),
    "law_school": lambda path: fetch_law_school(path=path),
    "acs_income": lambda path: fetch_acs_income(path=path),
}
"""Functions that load tables, by name; a new data set also needs grids in `partialfair_paper.published`."""

FACES = "celeba"
"""Name of the images, which only networks use."""

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows: features, labels 0 or 1, and groups."""

    X: Any
    y: npt.NDArray[np.int8]
    groups: npt.NDArray[Any]

    def take(self, rows: Ints) -> Part:
        """Return a subset of the rows."""
        X = self.X.take(rows) if isinstance(self.X, CategoricalCodes) else self.X[rows]
        return Part(X, self.y[rows], self.groups[rows])


@dataclass(frozen=True, eq=False)
class Parts:
    """The three parts of a split, the intervals on which gaps are measured, and the data directory."""

    train: Part
    validation: Part
    test: Part
    intervals: tuple[Interval, ...]
    folder: Path | None = None


@lru_cache(maxsize=1)
def _load(name: str, folder: Path | None) -> tuple[Dataset, Part]:
    """Return a data set and all its rows, with dense features standardized; the last one is cached."""
    if name not in LOADERS:
        raise InputError(f"there is no experiment on {name!r}; choose one of {', '.join(LOADERS)}")
    data = LOADERS[name](folder)
    X: Any = data.X
    if not isinstance(X, CategoricalCodes) and not sparse.issparse(X):
        X = X.to_numpy(dtype=float)
        X = (X - X.mean(axis=0)) / X.std(axis=0)  # so that alpha means the same for every column
    return data, Part(X, data.y, data.sensitive_features.to_numpy())


@lru_cache(maxsize=1)
def _faces(folder: Path | None, rows: int | None) -> Parts:
    """Return images of faces in their official parts; seeds affect only the networks."""
    faces = load_celeba_images(path=folder, limit=rows)
    train, validation, test = (
        Part(part.images, part.y, part.sensitive_features.to_numpy())
        for part in map(faces.part, ("train", "validation", "test"))
    )
    return Parts(train, validation, test, INTERVALS[FACES], folder)


@lru_cache(maxsize=2)
def _split(name: str, folder: Path | None, seed: int, rows: int | None) -> Parts:
    data, all_rows = _load(name, folder)
    split = data.split(seed)
    train = split.train
    if rows is not None and rows < train.size:
        train = np.sort(np.random.default_rng(seed).choice(train, rows, replace=False))
    return Parts(
        all_rows.take(train),
        all_rows.take(split.validation),
        all_rows.take(split.test),
        INTERVALS.get(name, (data.interval,)),
    )


def check_data(runs: Iterable[Run], folder: Path | None) -> None:
    """Raise an error, before any run, if a data set is missing or cannot be read."""
    for dataset, rows in dict.fromkeys((run.dataset, run.rows) for run in runs):
        if dataset == FACES:
            _faces(folder, rows)
        else:
            _load(dataset, folder)


def parts_of(run: Run, folder: Path | None) -> Parts:
    """Return the parts of a run's data; the last splits are cached, since consecutive runs share them."""
    if run.dataset == FACES:
        return _faces(folder, run.rows)
    return _split(run.dataset, folder, run.seed, run.rows)


def gap_name(fairness: str, interval: Interval) -> str:
    """Return the name of a gap among the metrics of an outcome."""
    return f"{fairness} {interval[0]:g}-{interval[1]:g}"


def evaluate(part: Part, scores: Floats, parts: Parts) -> dict[str, float]:
    """Return accuracy, AUC and all gaps on the absolute scale, for scores that select above 0."""
    measures = {
        "accuracy": float(((scores > 0) == (part.y == 1)).mean()),
        "auc": float(roc_auc_score(part.y, scores)),
    }
    for interval in parts.intervals:
        stated: dict[str, Any] = {
            "sensitive_features": part.groups,
            "interval": interval,
            "gap_scale": "absolute",
        }
        measures[gap_name("pSP", interval)] = partial_statistical_parity_difference(None, scores, **stated)
        measures[gap_name("pDP", interval)] = partial_demographic_parity_difference(
            None, scores, threshold=0.0, **stated
        )
    return measures
