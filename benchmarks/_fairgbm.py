"""Runs FairGBM in its own environment; rows and scores are exchanged as files in a folder.

FairGBM 0.9.14, the last release, is a fork of LightGBM. It passes scikit-learn an argument that version 1.8
removed (``force_all_finite``), so that training raises a TypeError. With 1.7 it works on Linux.
benchmarks/fairgbm.txt pins its requirements, `make bench-comparison` installs them into ``.venv-fairgbm``,
and the Python of that environment runs this file: ``python benchmarks/_fairgbm.py FOLDER``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

ROWS, SETTINGS, SCORES, SAYS = "rows.npz", "settings.json", "scores.npy", "says.json"
"""Files of the folder: the first two are inputs, the others outputs."""


@dataclass(frozen=True)
class Grown:
    """Results: test scores (log-odds) and seconds of every model, and the versions that trained them."""

    scores: list[Any]
    seconds: list[float]
    versions: str


def versions_of(python: Path) -> str:
    """Return the version of FairGBM in an environment, or exit with a message on how to create it."""
    if python.exists():
        done = subprocess.run([python, __file__], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    raise SystemExit(
        f"{python} cannot import FairGBM: `make bench-comparison` creates that environment, --fairgbm names "
        "another Python, and `--peers` excludes FairGBM"
    )


def grow(python: Path, train: tuple[pd.DataFrame, Any, Any], new: pd.DataFrame, settings: list[Any]) -> Grown:
    """Train one model for each of the settings.

    Parameters
    ----------
    python
        Python of the environment with FairGBM.
    train
        Features, labels 0 and 1, and groups.
    new
        Rows to score, with the same columns.
    settings
        Parameters of ``FairGBMClassifier``, one dictionary per model.
    """
    X, y, groups = train
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        codes = np.unique(groups, return_inverse=True)[1]
        categories = [number for number, kind in enumerate(X.dtypes) if kind == "category"]
        arrays = {"X": _numbers(X), "y": y, "groups": codes, "new": _numbers(new), "categories": categories}
        np.savez(folder / ROWS, **arrays)
        (folder / SETTINGS).write_text(json.dumps(settings))
        subprocess.run([python, __file__, folder], check=True, stdout=subprocess.DEVNULL)
        says = json.loads((folder / SAYS).read_text())
        return Grown(list(np.load(folder / SCORES)), **says)


def _numbers(table: pd.DataFrame) -> Any:
    """Return a table in LightGBM's form: categories as codes, missing values as nan."""
    columns = [
        column.cat.codes.where(column.notna()) if column.dtype == "category" else column
        for _, column in table.items()
    ]
    return np.column_stack([column.to_numpy(dtype=float) for column in columns])


def _grow_here(folder: Path) -> None:
    """Train the models of a folder, in the environment of FairGBM."""
    from fairgbm import FairGBMClassifier

    warnings.simplefilter("ignore")  # about force_all_finite, and about columns named as categories
    rows = np.load(folder / ROWS)
    scores, seconds = [], []
    for settings in json.loads((folder / SETTINGS).read_text()):
        start = time.perf_counter()
        model = FairGBMClassifier(**settings).fit(
            rows["X"],
            rows["y"],
            constraint_group=rows["groups"],
            categorical_feature=rows["categories"].astype(int).tolist() or "auto",
            verbose=False,
        )
        seconds.append(time.perf_counter() - start)
        scores.append(model.predict(rows["new"], raw_score=True))
    np.save(folder / SCORES, np.array(scores))
    (folder / SAYS).write_text(json.dumps({"seconds": seconds, "versions": _versions_here()}))


def _versions_here() -> str:
    import fairgbm
    import sklearn

    return f"fairgbm {fairgbm.__version__}, scikit-learn {sklearn.__version__}, numpy {np.__version__}"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        _grow_here(Path(sys.argv[1]))
    else:
        print(_versions_here())
