"""``--outside no_worse``: limits next to the interval, in what is printed, recorded and saved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partialfair import load_model
from partialfair.cli import train
from partialfair.estimators.base import PartialFairEstimator
from partialfair.metrics import partial_statistical_parity_difference
from tests.cli.conftest import TRAIN

NO_WORSE = ("--outside", "no_worse", "--test-size", 0, "--out", "out")


def test_train_says_what_the_limits_are(run, file, table):
    """The interval is ranks 10 to 50%: there are 10% above it, and 40% that are as many below it."""
    outcome = run(*TRAIN, *NO_WORSE, "--json")
    assert outcome.code == 0, outcome.err
    record = outcome.json
    assert record["settings"]["outside"] == "no_worse"
    assert record["fit"]["satisfied"]
    assert [piece["interval"] for piece in record["fit"]["outside"]] == [[0.0, 0.1], [0.5, 0.9]]
    model = load_model(file.parent / "out" / "model.skops")
    scores = model.decision_function(table)
    for piece in record["fit"]["outside"]:
        gap = partial_statistical_parity_difference(
            None, scores, sensitive_features=table["sex"], interval=tuple(piece["interval"])
        )
        assert piece["gap"] == pytest.approx(gap, abs=1e-9)
        assert piece["gap"] <= piece["limit"] + 1e-9
    printed = run(*TRAIN, *NO_WORSE).out
    for where, piece in zip(("0–10", "50–90"), record["fit"]["outside"], strict=True):
        (line,) = [line for line in printed.splitlines() if f"next to the interval, ranks {where}" in line]
        assert f"{piece['gap']:.4g}, {piece['limit']:.4g} without a constraint" in " ".join(line.split())


def test_without_limits_nothing_is_said(run, file):
    outcome = run(*TRAIN, "--test-size", 0, "--out", "out", "--json")
    assert outcome.json["fit"]["outside"] == []
    assert outcome.json["settings"]["outside"] == "free"


def test_a_violation_next_to_the_interval_is_one(run, file, monkeypatch):
    """The model of such a fit never takes a good one's place."""
    fit = PartialFairEstimator._fit_samples

    def violate(self, *arguments, **options):
        earlier = fit(self, *arguments, **options)
        result = self.result_
        if result.outside:
            larger = replace(result.outside_gaps[-1], value=result.outside[-1].max_gap + 0.01)
            self.result_ = replace(
                result,
                status=type(result.status).NO_FEASIBLE_POINT,
                outside_gaps=(*result.outside_gaps[:-1], larger),
                infeasibility="at ranks next to it; outside='free' sets no limit there",
            )
        return earlier

    monkeypatch.setattr(PartialFairEstimator, "_fit_samples", violate)
    outcome = run(*TRAIN, *NO_WORSE)
    assert outcome.code == 1
    assert "Constraint NOT satisfied" in outcome.out
    assert "--outside free sets no limit there" in " ".join(outcome.out.split())
    assert (file.parent / "out" / "model.infeasible.skops").exists()
    assert not (file.parent / "out" / "model.skops").exists()


def test_a_path_records_them_for_each_model(run, file):
    words = [str(word) for word in TRAIN]
    words[0] = "path"
    words[words.index("--max-gap") : words.index("--max-gap") + 2] = ["--max-gaps", "0.2,0.4"]
    outcome = run(*words, "--outside", "no_worse", "--out", "out", "--json")
    assert outcome.code == 0, outcome.err
    first, *others = outcome.json["models"]
    assert first["outside"] == []
    for model in others:
        assert model["satisfied"]
        assert [piece["interval"] for piece in model["outside"]] == [[0.0, 0.1], [0.5, 0.9]]
        assert all(piece["gap"] <= piece["limit"] + 1e-9 for piece in model["outside"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--constraint", "group_auc"), ("--constraint statistical_parity, not of group_auc",)),
        (("--constraint", "none"), ("not of none",)),
        (("--population",), ("leave --population out",)),
        (("--enforce", "surrogate"), ("leave --enforce surrogate out",)),
        (("--interval", "f=0.1", 0.3, "--interval", "m=0.1", 0.4), ("intervals differ by group",)),
    ],
    ids=str,
)
def test_what_has_no_meaning_is_refused_before_anything_is_read(run, options, words, monkeypatch):
    begin = TRAIN.index("--interval")
    basic = (*TRAIN[:begin], *TRAIN[begin + 3 :]) if "--interval" in options else TRAIN
    monkeypatch.setattr(train, "prepare", pytest.fail)
    outcome = run(*basic, *options, "--outside", "no_worse", "--out", "out")
    outcome.assert_refused("--outside no_worse", *words)
