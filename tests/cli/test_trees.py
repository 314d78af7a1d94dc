"""``--model``: trees on tables with text, gaps and odd names, from training to scores of new rows."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

from partialfair import load_model
from partialfair.cli import training
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.trees import alpha as alpha_module

BAND = ("--interval", 0.1, 0.6)


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(training, "_TREES", 12)


@pytest.fixture
def table(tmp_path) -> pd.DataFrame:
    """Applicants with gaps and text; libraries would refuse the names of two columns."""
    rng = np.random.default_rng(3)
    n = 600
    sex, merit = rng.choice(["f", "m"], n), rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "sex": sex,
            "test [%], last": (merit - 0.7 * (sex == "f") + 0.3 * rng.normal(size=n)).round(3),
            "years": rng.integers(0, 30, n).astype(float),
            'school "type"': rng.choice(["art", "law", "trade"], n, p=[0.5, 0.3, 0.2]),
            "hired": np.where(merit + 0.5 * rng.normal(size=n) > 0.3, "yes", "no"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "years"] = np.nan
    frame.loc[rng.random(n) < 0.1, 'school "type"'] = None
    frame.to_csv(tmp_path / "table.csv", index=False)
    return frame


def test_the_note_on_calibration_names_no_group_that_is_too_small(run, table, tmp_path):
    """Nine rows, of which a few are held out, have the largest error by chance."""
    table.loc[:8, "sex"] = "x"
    table.to_csv(tmp_path / "few.csv", index=False)
    options = ("--target", "hired", "--group", "sex", *BAND, "--max-gap", 0.4, "--model", "hist")
    notes = " ".join(run("train", "few.csv", *options, "--json").json["notes"])
    assert "calibration by group" in notes
    assert "group x has the largest error" not in notes


@pytest.mark.parametrize("model", ["lightgbm", "xgboost", "hist"])
def test_from_a_table_to_scores(run, table, tmp_path, model):
    if model != "hist":
        pytest.importorskip(model)
    asked = ("--target", "hired", "--group", "sex", *BAND, "--max-gap", 0.4, "--model", model)
    outcome = run("train", "table.csv", *asked, "--out", "out")
    assert outcome.code == 0, outcome.err
    assert "Constraint satisfied" in outcome.out
    assert "from 3 columns; " in outcome.out
    assert "calibration by group, held out rows" in " ".join(outcome.out.split())
    record = json.loads((tmp_path / "out" / "train.json").read_text())
    assert record["settings"]["model"] == model
    assert record["settings"]["alpha"] == 0.01
    assert record["trees"]["n_trees"] <= 12
    assert "coefficients" not in record

    new = table.copy()
    new.loc[:4, 'school "type"'] = "circus"
    new.to_csv(tmp_path / "new.csv", index=False)
    (note,) = run("predict", "out", "new.csv", "--out", "scores.csv", "--json").json["notes"]
    assert note.endswith("'circus' in 5 rows, which did not occur in training: they count as missing")
    scores = pd.read_csv(tmp_path / "scores.csv")["score"]
    loaded = load_model(tmp_path / "out" / "model.skops")
    np.testing.assert_allclose(scores, loaded.decision_function(new), rtol=1e-12)
    unknown = table.copy()
    unknown.loc[:4, 'school "type"'] = None
    np.testing.assert_array_equal(
        loaded.decision_function(new.iloc[:5]), loaded.decision_function(unknown.iloc[:5])
    )

    held_out = pd.read_csv(tmp_path / "out" / "held_out.csv")["row"].to_numpy() - 1
    training = np.setdiff1d(np.arange(len(table)), held_out)
    gap = partial_statistical_parity_difference(
        None,
        loaded.decision_function(table.iloc[training]),
        sensitive_features=table["sex"].iloc[training],
        interval=(0.1, 0.6),
    )
    assert gap == pytest.approx(record["fit"]["training_gap"], abs=1e-12)
    assert gap <= 0.4 + 1e-12


@pytest.mark.parametrize("model", ["lightgbm", "xgboost", "hist"])
def test_letters_of_any_alphabet_in_names_and_categories(run, tmp_path, model):
    """Who lives in ü is hired, and nobody else: a model that takes ü for ä cannot tell."""
    if model != "hist":
        pytest.importorskip(model)
    rng = np.random.default_rng(5)
    n = 400
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "straße": rng.choice(["ä", "ö", "ü"], n)})
    frame["größe"] = rng.normal(size=n).round(3)
    frame["hired"] = np.where(frame["straße"] == "ü", "yes", "no")
    frame.to_csv(tmp_path / "table.csv", index=False)
    asked = ("--target", "hired", "--group", "sex", *BAND, "--max-gap", 1, "--model", model)
    outcome = run("train", "table.csv", *asked, "--out", "out")
    assert outcome.code == 0, outcome.err
    run("predict", "out", "table.csv", "--out", "scores.csv")
    decisions = pd.read_csv(tmp_path / "scores.csv")["decision"]
    assert decisions.tolist() == frame["hired"].tolist()


@pytest.mark.usefixtures("table")
def test_a_path_of_trees(run, tmp_path):
    asked = ("--target", "hired", "--group", "sex", *BAND, "--max-gaps", "0.3,0.6", "--model", "hist")
    outcome = run("path", "table.csv", *asked, "--out", "out")
    assert outcome.code == 0, outcome.err
    lines = pd.read_csv(tmp_path / "out" / "path.csv")
    assert set(lines["alpha"]) == {0.01}
    constrained = lines.dropna(subset="max_gap")
    assert (constrained["training_gap"] <= constrained["max_gap"] + 1e-12).all()


@pytest.mark.usefixtures("table")
def test_what_is_refused_before_the_table_is_read(run, monkeypatch):
    asked = ("train", "absent.csv", "--target", "hired", "--group", "sex", "--out", "out")
    run(*asked, "--model", "hist", "--group-terms", "intercept").assert_refused(
        "--model hist scores without the group, so --group-terms must be left out"
    )
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    run(*asked, "--model", "lightgbm").assert_refused(
        "--model lightgbm needs lightgbm, which is not installed; run: pip install 'partialfair[boosting]'"
    )


@pytest.mark.usefixtures("table")
def test_alpha_may_be_chosen(run, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(alpha_module, "ALPHA_SEARCH", alpha_module.AlphaSearch((1e-1, 1e-3)))
    asked = ("table.csv", "--target", "hired", "--group", "sex", *BAND, "--model", "hist")
    outcome = run("train", *asked, "--max-gap", 0.4, "--alpha", "auto", "--out", "out")
    assert outcome.code == 0, outcome.err
    progress = [line for line in caplog.messages if line.startswith("alpha ")]
    assert [line.partition(";")[0] for line in progress] == [
        "alpha 0.1 tried, 1 of 2",
        "alpha 0.001 tried, 2 of 2",
    ]
    assert all(line.endswith(" s left") for line in progress)
    record = json.loads((tmp_path / "out" / "train.json").read_text())
    chosen = record["trees"]["alpha"]
    assert record["settings"]["alpha"] == "auto"
    assert load_model(tmp_path / "out" / "model.skops").classifier.alpha_ == chosen
    assert [
        note for note in record["notes"] if note.startswith(f"alpha {chosen:g} was chosen by loss and gap")
    ]

    outcome = run("path", *asked, "--max-gaps", "0.4,0.6", "--alphas", "auto", "--out", "path")
    assert outcome.code == 0, outcome.err
    (alpha,) = set(pd.read_csv(tmp_path / "path" / "path.csv")["alpha"])
    assert f"alpha {alpha:g} was chosen" in " ".join(outcome.out.split())


@pytest.mark.parametrize(("command", "option"), [("train", "--alpha"), ("path", "--alphas")])
def test_linear_models_choose_no_alpha(run, command, option):
    gaps = ("--max-gaps", "0.1") if command == "path" else ()
    asked = (command, "absent.csv", "--target", "hired", "--group", "sex", *BAND, *gaps, "--out", "out")
    run(*asked, option, "auto").assert_refused(f"{option} auto is available for trees only")


def test_an_alpha_that_is_no_number_is_refused(run):
    asked = ("train", "absent.csv", "--target", "hired", "--group", "sex", *BAND, "--out", "out")
    run(*asked, "--alpha", "small").assert_refused("--alpha must be a number or auto, not 'small'")
