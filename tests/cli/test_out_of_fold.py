"""``--cv`` and ``--clusters`` of the commands that train."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from partialfair import PartialFairClassifier, load_model
from partialfair.metrics import partial_statistical_parity_difference

COLUMNS = ("table.csv", "--target", "hired", "--group", "sex", "--id", "person", "--interval", 0.1, 0.9)
QUICK = ("--enforce", "surrogate")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Applications, one to three of a person; the test scores women lower, and the interview does not."""
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(300), rng.integers(1, 4, 300))
    sex, merit = rng.choice(["f", "m"], 300)[person], rng.normal(size=300)[person]
    n = person.size
    return pd.DataFrame(
        {
            "person": [f"p{k:03d}" for k in person],
            "sex": sex,
            "test": merit - 0.8 * (sex == "f") + 0.3 * rng.normal(size=n),
            "interview": merit + 0.8 * rng.normal(size=n),
            "hired": np.where(merit + 0.3 * rng.normal(size=n) > 0.3, "yes", "no"),
        }
    ).sample(frac=1, random_state=0)


@pytest.fixture(autouse=True)
def file(table, tmp_path):
    table.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def people_in_folds(scored):
    """Return how many folds each person is in."""
    return scored.groupby("person")["fold"].nunique()


def test_train_judges_out_of_fold_and_saves_a_model_of_all_rows(run, table, tmp_path):
    outcome = run("train", *COLUMNS, *QUICK, "--cv", 4, "--max-gap", 0.3, "--out", "out")
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    assert f"{len(table):,} rows in 4 folds;" in said
    assert "on out-of-fold rows. Among ranks 10–90%" in said
    assert "every row was scored by one of 4 models" in said
    assert not (tmp_path / "out" / "held_out.csv").exists()
    scored = pd.read_csv(tmp_path / "out" / "out_of_fold.csv")
    assert len(scored) == len(table)
    assert scored["fold"].value_counts().between(len(table) // 4, len(table) // 4 + 1).all()
    model = load_model(tmp_path / "out" / "model.skops")
    own = model.decision_function(table.reset_index(drop=True))  # of rows that it was trained on
    assert not np.allclose(own, scored["score"])
    assert np.corrcoef(own, scored["score"])[0, 1] > 0.95


def test_audit_finds_what_train_printed(run, tmp_path):
    record = run("train", *COLUMNS, *QUICK, "--cv", 4, "--max-gap", 0.3, "--out", "out", "--json").json
    assert record["rows"]["training"] == record["rows"]["out of fold"]
    assert (record["split"]["folds"], record["settings"]["cv"]) == (4, 4)
    scored = pd.read_csv(tmp_path / "out" / "out_of_fold.csv")
    for name, column in (
        ("with the constraint", "score"),
        ("without the constraint", "score_unconstrained"),
    ):
        told = record["models"][name]["out of fold"]
        gap = partial_statistical_parity_difference(
            None, scored[column], sensitive_features=scored["sex"], interval=(0.1, 0.9)
        )
        assert told["metrics"]["statistical_parity"]["gap"] == pytest.approx(gap)
        assert told["accuracy"] == ((scored[column] > 0) == (scored["hired"] == "yes")).mean()


def test_rows_of_a_person_stay_together(run, table, tmp_path):
    n_people = table["person"].nunique()
    together = ("--clusters", "person")
    record = run("train", *COLUMNS, *QUICK, *together, "--cv", 4, "--out", "out", "--json").json
    assert record["split"]["clusters"] == {"column": "person", "n": n_people}
    assert not any("person" in column["name"] for column in record["columns"])
    assert (people_in_folds(pd.read_csv(tmp_path / "out" / "out_of_fold.csv")) == 1).all()
    apart = run("train", *COLUMNS, *QUICK, "--cv", 4, "--out", "apart", "--json").json
    assert (people_in_folds(pd.read_csv(tmp_path / "apart" / "out_of_fold.csv")) > 1).any()
    assert apart["split"]["clusters"] is None
    held = run("train", *COLUMNS, *QUICK, *together, "--test-size", 0.3, "--out", "held", "--json").json
    scored = pd.read_csv(tmp_path / "held" / "held_out.csv")
    assert (
        scored["person"]
        .value_counts()
        .sort_index()
        .equals(table["person"][table["person"].isin(scored["person"])].value_counts().sort_index())
    )
    assert scored["person"].nunique() == pytest.approx(0.3 * n_people, abs=3)
    # The report is that of so many people.
    found = run(
        "audit",
        "held/held_out.csv",
        *("--score", "score", "--group", "sex", "--interval", 0.1, 0.9, "--json"),
        *together,
    ).json
    row = held["models"]["with the constraint"]["held out"]["metrics"]["statistical_parity"]
    assert row["ci_high"] == pytest.approx(found["metrics"]["statistical_parity"]["ci_high"])


def test_a_path_out_of_fold(run, table, tmp_path):
    asked = ("path", *COLUMNS, *QUICK, "--clusters", "person", "--cv", 3, "--max-gaps", "0.3,0.6")
    outcome = run(*asked, "--out", "out", "--report", "out/page.html")
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    assert "gap out of fold" in said
    assert "every row was scored by one of 3 models" in said
    scored = pd.read_csv(tmp_path / "out" / "out_of_fold.csv")
    assert (people_in_folds(scored) == 1).all()
    lines = pd.read_csv(tmp_path / "out" / "path.csv")
    for gap, column in zip(lines["gap"], ("unconstrained", "max_gap_0.6", "max_gap_0.3"), strict=True):
        assert gap == pytest.approx(
            partial_statistical_parity_difference(
                None, scored[f"score_{column}"], sensitive_features=scored["sex"], interval=(0.1, 0.9)
            )
        )
    assert "every row was scored by one of 3 models" in (tmp_path / "out" / "page.html").read_text()
    assert "groups parameter is ignored" not in said


def test_the_interval_of_all_folds(run, tmp_path):
    asked = [*COLUMNS[:-3], "--interval", "auto", *QUICK, "--cv", 3, "--out", "out", "--json"]
    record = run("train", *asked).json
    assert record["interval"][1] - record["interval"][0] == pytest.approx(0.25)
    assert any("chosen for its large gap on all rows" in note for note in record["notes"])


def test_folds_that_break_the_promise_are_counted(run, monkeypatch):
    def refused(self, samples, *more, **options):
        fits = fit(self, samples, *more, **options)
        if self.constraint is not None and samples.n < 500:  # without a fold
            object.__setattr__(self.result_, "enforce", "exact")
            object.__setattr__(self.result_, "gaps", tuple(_wider(gap) for gap in self.result_.gaps))
        return fits

    fit = PartialFairClassifier._fit_samples
    monkeypatch.setattr(PartialFairClassifier, "_fit_samples", refused)
    record = run("train", *COLUMNS, *QUICK, "--cv", 2, "--max-gap", 0.3, "--out", "out", "--json").json
    assert any("in 2 of 2 folds no feasible model was found" in note for note in record["notes"])


def _wider(gap):
    object.__setattr__(gap, "value", 1.0)
    return gap


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["train", "--cv", 1], ["--cv must be at least 2"]),
        (["train", "--cv", 5, "--test-size", 0.2], ["--cv evaluates models", "--test-size"]),
        (["train", "--cv", 5, "--population"], ["--population validates one model", "--cv"]),
        (
            ["train", "--cv", 5, "--fail-above", 0.1, "--fail-on", "inconclusive"],
            ["--fail-on inconclusive", "--cv"],
        ),
        (["path", "--max-gaps", 0.1, "--cv", 5, "--best", 0.3], ["--best validates one model", "--cv"]),
        (
            ["path", "--max-gaps", 0.1, "--cv", 5, "--test-size", 0.3],
            ["--cv evaluates models", "--test-size"],
        ),
        (["train", "--cv", 301, "--clusters", "person"], ["301 folds", "there are 300"]),
        (["train", "--clusters", "sex"], ["column 'sex' is given to both --group and --clusters"]),
        (["train", "--clusters", "nobody"], ["nobody"]),
    ],
)
def test_what_cannot_be_is_refused_before_any_fit(run, no_fits, command, words):
    name, *options = command
    outcome = run(name, *COLUMNS, *options, "--out", "out")
    outcome.assert_refused_elsewhere(*words)


def test_an_estimate_out_of_fold_may_decide(run):
    gate = ("--fail-above", 0.01)
    outcome = run("train", *COLUMNS, *QUICK, "--cv", 3, "--max-gap", 0.3, *gate, "--out", "out", "--json")
    assert outcome.code == 1
    assert outcome.json["gate"]["part"] == "out of fold"
