"""One model for every gap allowed, and the choice among them."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair import cli, load_model
from partialfair.cli import training
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.tables import TableModel

BASIC = (
    "path",
    "table.csv",
    "--target",
    "hired",
    "--group",
    "sex",
    "--id",
    "person",
    "--interval",
    0.1,
    0.6,
)
TWO = ("--max-gaps", "0.15,0.4")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Applicants; the test, which counts most, scores women lower, and the interview does not."""
    rng = np.random.default_rng(5)
    n = 500
    sex, merit = rng.choice(["f", "m"], n), rng.normal(size=n)
    return pd.DataFrame(
        {
            "person": [f"p{k:03d}" for k in rng.permutation(n)],
            "sex": sex,
            "test": merit - 0.8 * (sex == "f") + 0.3 * rng.normal(size=n),
            "interview": merit + 0.8 * rng.normal(size=n),
            "school": rng.choice(["art", "law"], n),
            "weight": rng.integers(1, 4, n),
            "hired": np.where(merit + 0.3 * rng.normal(size=n) > 0.3, "yes", "no"),
        }
    )


@pytest.fixture
def file(table, tmp_path):
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def traced(table, tmp_path_factory):
    """A directory with a path of three gaps, and the best model whose gap is at most 1."""
    directory = tmp_path_factory.mktemp("traced")
    table.to_csv(directory / "table.csv", index=False)
    options = ["--max-gaps", "0.4,0.1,0.2", "--drop", "weight", "--best", "1", "--out", directory / "out"]
    arguments = ["partialfair", "path", directory / "table.csv", *BASIC[2:], *options, "--json"]
    with patch.object(sys, "argv", [*map(str, arguments)]), pytest.raises(SystemExit) as stop:
        cli.command()
    assert stop.value.code == 0
    return directory / "out"


@pytest.fixture
def record(traced):
    return json.loads((traced / "path.json").read_text())


def _chosen(record):
    (line,) = [model for model in record["models"] if model["chosen"]]
    return line


class TestPath:
    def test_the_promise_holds_from_loose_to_strict(self, record):
        assert record["schema"] == "partialfair.path/1"
        models = record["models"]
        assert [model["max_gap"] for model in models] == [None, 0.4, 0.2, 0.1]  # the first has no constraint
        assert [model["satisfied"] for model in models] == [None, True, True, True]
        for model in models:
            assert model["status"] == "converged"
            assert model["training_gap"] <= (model["max_gap"] or 1.0)
            assert model["ci_low"] <= model["gap"] <= model["ci_high"]
            assert set(model["worst_pair"]) == {"f", "m"}
        rows = record["rows"]
        assert rows["training"] + rows["held out"] == 500
        assert rows["held out"] == pytest.approx(100, abs=2)  # a fifth of each of four strata, rounded

    def test_the_csv_is_the_table_of_the_json(self, traced, record):
        frame = pd.read_csv(traced / "path.csv")
        for line, model in zip(frame.to_dict("records"), record["models"], strict=True):
            told = {name: np.nan if model[name] is None else model[name] for name in line}
            assert told == pytest.approx(line, nan_ok=True)

    def test_the_best_is_saved_with_its_preprocessing(self, traced, record, table):
        """A gap of at most 1 is no demand, so that the most accurate model on the rows held out is chosen."""
        scores = [model["accuracy"] for model in record["models"]]
        (chosen,) = [model for model in record["models"] if model["chosen"]]
        assert chosen["accuracy"] == max(scores)
        model = load_model(traced / record["model"])
        assert isinstance(model, TableModel)
        assert chosen["max_gap"] in (None, model.classifier.max_gap)
        assert (model.classifier.constraint is None) == (chosen["max_gap"] is None)
        assert (model.classifier.callback, model.classifier.warm_start) == (None, False)
        assert model.labels == ("no", "yes")
        # Two thirds would be right by chance; the rows held out are some of these.
        assert accuracy_score(table["hired"], model.predict(table)) > 0.75

    def test_predict_reads_it(self, run, traced, file, table):
        outcome = run("predict", traced / "model.skops", "table.csv", "--out", "scores.csv")
        assert outcome.code == 0, outcome.err
        scored = pd.read_csv(file.parent / "scores.csv")
        assert list(scored.columns) == ["person", "sex", "hired", "score", "probability", "decision"]

    def test_the_numbers_are_those_of_the_rows_held_out(self, run, file, table):
        """Half of the rows are held out; training gap and gap are those of complementary halves."""
        options = ("--max-gaps", 0.3, "--best", 1, "--test-size", 0.5, "--scoring", "roc_auc", "--json")
        record = run(*BASIC, *options, "--drop", "weight", "--out", "out").json
        line = _chosen(record)
        model = load_model(file.parent / "out" / "model.skops")
        halves = _halves(table, seed=0)
        scores = model.decision_function(table)
        gaps = [
            partial_statistical_parity_difference(
                None, scores[half], sensitive_features=table["sex"][half], interval=(0.1, 0.6)
            )
            for half in halves
        ]
        assert (line["training_gap"], line["gap"]) == pytest.approx(tuple(gaps))
        assert line["roc_auc"] == pytest.approx(
            roc_auc_score(table["hired"][halves[1]] == "yes", scores[halves[1]])
        )

    @pytest.mark.usefixtures("painted")
    def test_what_is_printed_and_written(self, run, file, tmp_path):
        outcome = run(*BASIC, *TWO, "--alphas", "1e-4,1e-2", "--out", "out")
        assert outcome.code == 0, outcome.err
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"path.json", "path.csv", "held_out.csv", "frontier.png"}
        assert all(name in outcome.out for name in names)
        assert (tmp_path / "out" / "frontier.png").read_bytes().startswith(b"\x89PNG")
        for word in ("max gap", "alpha", "training gap", "gap held out", "95% interval", "accuracy", "0.01"):
            assert word in outcome.out
        assert "predict" not in outcome.out
        assert not [line for line in outcome.err.splitlines() if not line.startswith("partialfair: ")]

    def test_the_chosen_model_is_pointed_at(self, run, file):
        outcome = run(*BASIC, "--max-gaps", "0.3", "--best", 1, "--out", "out")
        assert outcome.code == 0, outcome.err
        assert "→" in outcome.out
        assert "partialfair predict out/model.skops NEW.csv" in outcome.out

    def test_weights_count_on_the_rows_held_out(self, run, file, table):
        """A weight of 2 is the row twice, in every number."""
        options = ("--max-gaps", 0.3, "--scoring", "accuracy", "--json", "--best", 1, "--test-size", 0.5)
        line = _chosen(run(*BASIC, *options, "--weight", "weight", "--out", "out").json)
        scores = load_model(file.parent / "out" / "model.skops").decision_function(table)
        half = _halves(table, seed=0)[1]
        right = (scores > 0) == (table["hired"] == "yes")
        assert line["accuracy"] == pytest.approx(np.average(right[half], weights=table["weight"][half]))
        gap = partial_statistical_parity_difference(
            None,
            scores[half],
            sensitive_features=table["sex"][half],
            interval=(0.1, 0.6),
            sample_weight=table["weight"][half],
        )
        assert line["gap"] == pytest.approx(gap)

    def test_every_model_has_its_scores(self, run, file):
        record = run(*BASIC, "--max-gaps", "0.3,0.3000001", "--json", "--out", "out").json
        scores = [name for name in pd.read_csv("out/held_out.csv").columns if name.startswith("score")]
        assert len(scores) == len(record["models"]) == 3

    def test_a_path_of_one_limit_answers_as_train_does(self, run, file):
        """The same models, on the same rows, with the same resamples: the same intervals and differences."""
        path = run(*BASIC, "--max-gaps", 0.3, "--json", "--out", "out").json
        train = run("train", *BASIC[1:], "--max-gap", 0.3, "--json", "--out", "out").json
        models = train["models"]
        for line, name in zip(path["models"], ("without the constraint", "with the constraint"), strict=True):
            row = models[name]["held out"]["metrics"]["statistical_parity"]
            shown = (line["gap"], line["ci_low"], line["ci_high"])
            assert shown == (row["gap"], row["ci_low"], row["ci_high"])
        for part in ("difference_from_unconstrained", "outside_the_interval"):
            assert path[part] == train[part]

    def test_the_seed_decides(self, run, file):
        first, again, other = (
            run(*BASIC, "--max-gaps", 0.3, "--seed", seed, "--json", "--out", "out").json["models"]
            for seed in (1, 1, 2)
        )
        for model in (*first, *again, *other):
            del model["seconds"]
        assert first == again
        assert first != other

    def test_what_a_fit_leaves_open_is_said_of_its_model(self, run, file):
        record = run(*BASIC, "--max-gaps", "0.02,0.1", "--time-limit", 1e-6, "--json", "--out", "out").json
        assert [model["status"] for model in record["models"]] == ["time_limit"] * 3
        for which in ("no constraint", "max gap 0.1", "max gap 0.02"):
            notes = [note for note in record["notes"] if note.startswith(f"{which}, alpha 0.0001: ")]
            assert any("status time_limit" in note for note in notes)


def test_ctrl_c_ends_the_path_and_not_one_fit(run, file, monkeypatch):
    @contextmanager
    def interrupted(message):
        def say(progress):
            raise KeyboardInterrupt

        yield say

    monkeypatch.setattr(training, "step", interrupted)
    assert run(*BASIC, *TWO, "--out", "out").code == 130
    assert not (file.parent / "out").exists()


class TestNoModel:
    def test_one_sentence_and_the_path_all_the_same(self, run, file, tmp_path):
        outcome = run(*BASIC, *TWO, "--best", 0.001, "--json", "--out", "out")
        assert outcome.code == 1
        last = outcome.err.splitlines()[-1]
        for words in (
            "partialfair: no model of the path",
            "at most 0.001",
            "validation rows",
            "lowest upper",
        ):
            assert words in last
        record = outcome.json
        assert record["model"] is None
        assert record["no_model_reason"] in last
        assert not any(model["chosen"] for model in record["models"])
        assert {path.name for path in (tmp_path / "out").iterdir()} == {
            "path.json",
            "path.csv",
            "held_out.csv",
            "frontier.png",
        }
        refused = run("predict", "out", "table.csv")
        refused.assert_refused_elsewhere("none qualified (no model of the path", "run it again with a larger")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-gaps", "small"], ["--max-gaps", "numbers with commas", "'small'"]),
        (["--max-gaps", "0.1;0.2"], ["--max-gaps", "'0.1;0.2'"]),
        (["--max-gaps", ""], ["--max-gaps"]),
        (["--max-gaps", "0.1,2"], ["--max-gaps", "2"]),
        (["--max-gaps", "nan"], ["--max-gaps"]),
        (["--alphas", "0.1,x"], ["--alphas", "'0.1,x'"]),
        (["--alphas", "-1"], ["--alphas"]),
        (["--test-size", 0], ["--test-size"]),
        (["--test-size", 0.95], ["--test-size must lie in (0, 0.9], not 0.95"]),
        (["--test-size", 0.0001], ["--test-size 0.0001", "0 rows held out"]),
        (["--scoring", "r2"], ["--scoring", "accuracy", "r2"]),
        (["--best", 2], ["--best"]),
        (["--confidence", 1], ["--confidence"]),
        (["--confidence", 0.999], ["--confidence must be at most 0.995, not 0.999"]),
        (["--constraint", "group_auc", "--gap-scale", "absolute"], ["--gap-scale absolute has no meaning"]),
        (["--constraint", "none"], ["--constraint none", "train"]),
        (["--constraint", "nonsense"], ["--constraint", "statistical_parity"]),
        (["--interval", 0.5, 0.1], ["interval", "reversed"]),
        (["--test-size", 0.02], ["at least 10", "--test-size"]),
        (["--time-limit", 0], ["--time-limit"]),
        (["--target", "nonsense"], ["table.csv has no column 'nonsense'"]),
        (["--drop", "sex"], ["'sex'", "--group", "--drop"]),
        (["--pos-label", "maybe"], ["--pos-label maybe", "no, yes"]),
        (["--target", "test", "--drop", "hired"], ["'test'", "labels need two"]),
    ],
    ids=str,
)
def test_options_that_are_refused(run, file, options, words, no_fits):
    run(*BASIC, *TWO, "--out", "out", *options).assert_refused(*words)


def test_an_out_that_is_a_file(run, file, tmp_path):
    (tmp_path / "taken").touch()
    run(*BASIC, *TWO, "--out", "taken").assert_refused("--out taken")


def _halves(table: pd.DataFrame, seed: int) -> list[np.ndarray]:
    """Rows for training and held out at ``--test-size 0.5``: of every group and label, in drawn order."""
    shuffled = np.random.default_rng(seed).permutation(len(table))
    held_out = np.zeros(len(table), dtype=bool)
    for _, members in table.iloc[shuffled].groupby(["sex", "hired"]):
        held_out[members.index[: round(0.5 * len(members))]] = True
    return [~held_out, held_out]
