"""``train --population``: the promise about new people comes first, or an honest no."""

from __future__ import annotations

import numpy as np
import pytest

from partialfair import load_model
from partialfair.estimators import population
from tests.cli.conftest import TRAIN

BASIC = (*TRAIN, "--interval", 0.1, 0.9, "--population", "--test-size", 0.4)


@pytest.fixture(autouse=True)
def two_levels(file, monkeypatch):
    """Train for two gaps only, on the applicants."""
    monkeypatch.setattr(population, "_TIGHTER", np.array([1.0, 0.3]))


def test_the_promise_comes_first(run, tmp_path):
    outcome = run(*BASIC, "--max-gap", 0.5, "--confidence", 0.9, "--out", "out")
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    promise = said.index("With 90% confidence the gap on new data is at most 0.5 (")
    assert promise < said.index("Before, no constraint")
    assert "the model was chosen on the held-out rows" in said
    model = load_model(tmp_path / "out" / "model.skops")
    told = model.classifier.result_.population
    assert told.validated
    assert told.n_rows == pytest.approx(320, abs=2)
    assert not isinstance(model.classifier.validation, tuple)  # nobody's rows are in the file


def test_the_record_has_the_figures(run):
    record = run(*BASIC, "--max-gap", 0.5, "--json", "--out", "out").json
    told = record["fit"]["population"]
    assert record["fit"]["satisfied"] is told["validated"] is True
    assert record["settings"]["enforce"] == "population"
    assert told["upper_bound"] <= told["max_gap"] == 0.5
    assert told["n_models"] == 3


def test_an_honest_no(run, tmp_path):
    outcome = run(*BASIC, "--max-gap", 0.1, "--out", "out")
    assert outcome.code == 1
    said = " ".join(outcome.out.split())
    for words in (
        "Constraint NOT satisfied: No model was validated: none has, with 95% confidence, a gap of at most",
        "the lowest upper bound is",
        "what to do: more rows",
    ):
        assert words in said
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert "model.infeasible.skops" in names
    assert "model.skops" not in names
    refused = run("predict", "out", "table.csv", "--out", "scores.csv")
    assert refused.code == 2
    assert "no model was validated" in refused.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--enforce", "surrogate"), "--population trains for exact gaps"),
        (("--constraint", "none"), "--constraint none has no limit"),
        (("--test-size", 0), "--test-size must be above 0"),
    ],
)
def test_what_does_not_go_with_it(run, options, message):
    outcome = run(*BASIC, *options)
    assert outcome.code == 2
    assert message in outcome.err
