"""FairGBM in an environment of its own: rows go there and scores come back through a folder.

FairGBM 0.9.14 is a LightGBM of its own, and the last release. Its Python part calls scikit-learn with an
argument that version 1.8 no longer knows (``force_all_finite``): growing ends in a TypeError. With 1.7 it
works, on Linux. benchmarks/fairgbm.txt pins what it needs, `make bench-comparison` installs that into
``.venv-fairgbm``, and the Python found there runs this file: ``python benchmarks/_fairgbm.py FOLDER``.
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
"""The files of a folder: the first two are read, the others written."""


@dataclass(frozen=True)
class Grown:
    """What came back: test scores (log-odds) and seconds of every model, and what grew them."""

    scores: list[Any]
    seconds: list[float]
    versions: str


def versions_of(python: Path) -> str:
    """Return which FairGBM an environment has, or end with one sentence that says how to make it."""
    if python.exists():
        done = subprocess.run([python, __file__], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    raise SystemExit(
        f"{python} cannot import FairGBM: `make bench-comparison` makes that environment, --fairgbm names "
        "another Python, and --peers leaves FairGBM out"
    )


def grow(python: Path, train: tuple[pd.DataFrame, Any, Any], new: pd.DataFrame, settings: list[Any]) -> Grown:
    """Grow one model for each of the settings.

    Parameters
    ----------
    python
        That of the environment with FairGBM.
    train
        Features, labels 0 and 1, and groups.
    new
        Rows to score, with the same columns.
    settings
        Parameters of ``FairGBMClassifier``, one dictionary for each model.
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
    """Return a table as LightGBM itself reads one: categories by their codes, gaps as nan."""
    columns = [
        column.cat.codes.where(column.notna()) if column.dtype == "category" else column
        for _, column in table.items()
    ]
    return np.column_stack([column.to_numpy(dtype=float) for column in columns])


def _grow_here(folder: Path) -> None:
    """Grow the models of a folder, where FairGBM is installed."""
    from fairgbm import FairGBMClassifier

    warnings.simplefilter("ignore")  # of force_all_finite, and of columns that are named as categories
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
