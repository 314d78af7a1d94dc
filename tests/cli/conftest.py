"""Running the command in this process, and a table of scores to run it on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from partialfair import cli
from partialfair.cli import audit, evaluation, output, path, train
from partialfair.estimators import fitted_path
from partialfair.metrics import compare_gaps, fairness_report
from partialfair.training import search
from partialfair.training.candidates import Pool
from partialfair.training.direct_search import DirectSearch, direct_search

COLUMNS = ("--score", "score", "--group", "sex")
BAND = ("--interval", 0.1, 0.5)
TRAIN = (
    "train",
    "table.csv",
    "--target",
    "hired",
    "--group",
    "sex",
    "--id",
    "person",
    *BAND,
    "--max-gap",
    0.2,
)
"""Trains on the applicants of the fixture ``file``."""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as strict JSON: anything beside it, or a NaN, fails."""
        assert self.out, self.err
        return json.loads(self.out, parse_constant=pytest.fail)

    def assert_refused(self, *words: str) -> None:
        """One sentence that names the culprit, exit code 2, and nothing written to the directory ``out``."""
        assert self.code == 2
        assert self.out == ""
        assert self.err.startswith("partialfair: error: ")
        assert self.err.count("\n") == 1, self.err
        assert "this is a bug" not in self.err
        for word in words:
            assert word in self.err
        assert not Path("out").exists()

    def assert_refused_elsewhere(self, *words: str) -> None:
        """As `assert_refused`, where a directory ``out`` is there from before."""
        assert (self.code, self.out) == (2, "")
        (line,) = [line for line in self.err.splitlines() if line.startswith("partialfair: error: ")]
        assert all(word in line for word in words), line


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Run ``partialfair`` with some arguments, in an empty directory.

    With fewer resamples and steps of the search, no escalation, a coarser map than usual, and pictures that
    are not painted, for speed.
    """
    for module in (evaluation, fitted_path):
        monkeypatch.setattr(module, "fairness_report", partial(fairness_report, n_resamples=100))
        monkeypatch.setattr(module, "compare_gaps", partial(compare_gaps, n_resamples=100))
    monkeypatch.setattr(search, "direct_search", _search_briefly)
    monkeypatch.setattr(search, "escalate_search", lambda this: None)
    monkeypatch.setattr(audit, "MAP_GRID", 20)
    monkeypatch.setattr(output, "png", _unpainted)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")  # the command sets it; this puts it back
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["partialfair", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.command()
        return Outcome(stop.value.code, *capsys.readouterr())

    return call


def _search_briefly(pool: Pool, n_steps: int, seed: int, settings: DirectSearch) -> None:
    """Take a tenth of the steps: how good the models are is not the command line's affair."""
    direct_search(pool, n_steps // 10, seed, settings)


def _unpainted(figure: Any) -> bytes:
    """The first bytes of a picture."""
    from matplotlib import pyplot

    pyplot.close(figure)
    return b"\x89PNG\r\n\x1a\n"


_PAINTED = output.png


@pytest.fixture
def painted(run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pictures painted, for tests that look at them."""
    monkeypatch.setattr(output, "png", _PAINTED)


@pytest.fixture
def no_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a model is fitted: bad input is refused before such long work."""

    def fit(*arguments: object, **options: object) -> None:
        pytest.fail("a model was fitted")

    monkeypatch.setattr(path, "fit_path", fit)
    for name in ("fit_path", "fit_population"):
        monkeypatch.setattr(train, name, fit)


@pytest.fixture(scope="session")
def people() -> pd.DataFrame:
    """Scores of 600 people; women score lower, the more so the higher they rank."""
    rng = np.random.default_rng(7)
    n = 600
    sex, age = rng.choice(["f", "m"], n), rng.choice(["old", "young"], n)
    merit = np.where(
        rng.random(n) < 0.5, rng.normal(size=n), rng.normal(size=n).round(1)
    )  # half of them tied
    return pd.DataFrame(
        {
            "person": [f"p{k:03d}" for k in rng.permutation(n)],
            "score": merit - 0.4 * (sex == "f") * (merit > 0),
            "sex": sex,
            "age": age,
            "hired": np.where(merit + rng.normal(size=n) > 0, "yes", "no"),
            "code": np.where(sex == "f", 1, 0),
            "weight": rng.integers(0, 4, n),
        }
    )


@pytest.fixture
def scores(people: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "scores.csv"
    people.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    """Applicants with gaps, text, codes, a date and an id; test scores of women are lower in the middle."""
    rng = np.random.default_rng(3)
    n = 800
    sex, merit = rng.choice(["f", "m"], n), rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "person": [f"p{k:04d}" for k in rng.permutation(n)],
            "sex": sex,
            "age": rng.choice(["old", "young"], n),
            "test": (merit - 0.7 * (sex == "f") * (np.abs(merit - 0.5) < 1) + 0.3 * rng.normal(size=n)).round(
                3
            ),
            "years": rng.integers(0, 30, n).astype(float),
            "school": rng.choice(["art", "law", "trade"], n, p=[0.5, 0.3, 0.2]),
            "licence": rng.choice(["True", "False"], n),
            "weight": rng.integers(1, 4, n),
            "hired": np.where(merit + 0.5 * rng.normal(size=n) > 0.3, "yes", "no"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "years"] = np.nan
    frame.loc[rng.random(n) < 0.1, "school"] = None
    return frame


@pytest.fixture
def file(table: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    return path
