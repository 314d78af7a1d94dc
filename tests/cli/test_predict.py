"""From a model to scores, and from the scores to an audit."""

from __future__ import annotations

import logging
import pickle
import sys
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from partialfair import PartialFairClassifier, cli, load_model, save_model
from partialfair.cli.predict import _infer_type
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.tables import TableModel
from tests.cli.conftest import BAND, TRAIN
from tests.traps import Trap


def written(path) -> pd.DataFrame:
    """A table of scores with its floats as they were written, which older pandas reads only nearly."""
    frame = pd.read_csv(path, dtype={"score": str, "probability": str})
    return frame.assign(score=frame["score"].map(float), probability=frame["probability"].map(float))


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    """A directory with a model of the table without its last hundred rows."""
    directory = tmp_path_factory.mktemp("trained")
    table.iloc[:-100].to_csv(directory / "table.csv", index=False)
    arguments = ["partialfair", *map(str, TRAIN), "--out", str(directory / "out"), "--json"]
    arguments[2] = str(directory / "table.csv")
    with patch.object(sys, "argv", arguments), pytest.raises(SystemExit) as stop:
        cli.command()
    assert stop.value.code == 0
    return directory / "out"


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A table with columns of several types, and a model of it whose target is a number."""
    rng, n = np.random.default_rng(3), 200
    frame = pd.DataFrame(
        {
            "number": np.arange(n) + 2**60,
            "code": [f"{row:04d}" for row in range(n)],
            "gap": pd.array([None, *range(1, n)], dtype="Int64"),
            "visited": rng.random(n) < 0.5,
            "share": rng.random(n),
            "sex": rng.choice(["women", "men"], n),
            "x": rng.normal(size=n).astype(np.float32),
        }
    )
    frame["hired"] = (frame["x"] > 0).astype(np.int64)
    directory = tmp_path_factory.mktemp("typed")
    frame.to_csv(directory / "t.csv", index=False)
    ids = [word for name in ("number", "code", "gap", "visited", "share") for word in ("--id", name)]
    words = [
        "train",
        "t.csv",
        "--target",
        "hired",
        "--group",
        "sex",
        "--interval",
        "0",
        "1",
        "--max-gap",
        "1",
        "--test-size",
        "0",
    ]
    with (
        patch.object(sys, "argv", ["partialfair", *words, *ids]),
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.chdir(directory)
        with pytest.raises(SystemExit, match="0"):
            cli.command()
    return directory / "model", frame


class TestPredict:
    def test_the_round_trip_to_an_audit(self, run, trained, table, tmp_path):
        new = table.iloc[-100:]
        new.to_csv(tmp_path / "new.csv", index=False)
        outcome = run("predict", trained / "model.skops", "new.csv", "--out", "scores.csv")
        assert (outcome.code, outcome.err.count("note")) == (0, 0)
        scored = written(tmp_path / "scores.csv")
        assert list(scored.columns) == ["person", "sex", "hired", "score", "probability", "decision"]
        assert scored["person"].tolist() == new["person"].tolist()
        model = load_model(trained / "model.skops")
        assert scored["score"].tolist() == model.decision_function(new).tolist()
        assert (scored["decision"] == np.where(scored["score"] > 0, "yes", "no")).all()
        np.testing.assert_allclose(scored["probability"], 1 / (1 + np.exp(-scored["score"])))
        options = ("--score", "score", "--group", "sex", "--label", "hired", "--threshold", 0, *BAND)
        audit = run("audit", "scores.csv", *options, "--json").json
        gap = partial_statistical_parity_difference(
            None, model.decision_function(new), sensitive_features=new["sex"], interval=(0.1, 0.5)
        )
        assert audit["metrics"]["statistical_parity"]["gap"] == pytest.approx(gap, abs=1e-12)

    def test_ways_out(self, run, trained, table, tmp_path):
        """Standard output, a file, a Parquet file, from Parquet: the same table."""
        new = table.iloc[-100:].reset_index(drop=True)
        new.to_csv(tmp_path / "new.csv", index=False)
        new.to_parquet(tmp_path / "new.parquet")
        printed = run("predict", trained / "model.skops", "new.csv").out
        run("predict", trained / "model.skops", "new.csv", "--out", "a.csv")
        record = run("predict", trained / "model.skops", "new.parquet", "--out", "b.parquet", "--json").json
        assert printed == (tmp_path / "a.csv").read_text()
        pd.testing.assert_frame_equal(
            written(tmp_path / "a.csv"),
            pd.read_parquet(tmp_path / "b.parquet"),
            check_dtype=False,
            check_exact=True,
        )
        assert record["schema"] == "partialfair.predict/1"
        assert (record["rows"], record["pos_label"], record["out"]) == (100, "yes", "b.parquet")
        assert record["selected"] == (pd.read_csv(tmp_path / "a.csv")["score"] > 0).sum()

    @pytest.mark.parametrize("source", ["csv", "parquet"])
    def test_parquet_keeps_the_types(self, run, typed, tmp_path, source):
        model, frame = typed
        getattr(frame, f"to_{source}")(tmp_path / f"in.{source}", index=False)
        run("predict", model, f"in.{source}", "--out", "out.parquet")
        kept = ["number", "code", "gap", "visited", "share", "sex", "hired"]
        schema = pyarrow.parquet.read_schema(tmp_path / "out.parquet")
        expected = {"number": "int64", "gap": "int64", "visited": "bool", "share": "double", "hired": "int64"}
        assert {name: str(schema.field(name).type) for name in expected} == expected
        assert schema.field("decision").type == schema.field("hired").type
        scored = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
        truth = pyarrow.Table.from_pandas(frame[kept]).to_pylist()
        assert [{name: row[name] for name in kept} for row in scored] == truth
        assert all(row["decision"] == (row["score"] > 0) for row in scored)
        assert {type(row["decision"]) for row in scored} == {int}

    def test_the_type_of_decisions_is_that_of_the_target(self, run, typed, tmp_path):
        model, frame = typed
        for number, target in enumerate([frame["hired"].astype(float), frame["hired"].astype(str), None]):
            given = frame.drop(columns="hired") if target is None else frame.assign(hired=target)
            given.to_parquet(tmp_path / "in.parquet")
            run("predict", model, "in.parquet", "--out", f"{number}.parquet")
        types = [pyarrow.parquet.read_schema(tmp_path / f"{number}.parquet") for number in range(3)]
        assert str(types[0].field("decision").type) == "double"
        assert "string" in str(types[1].field("decision").type)
        assert str(types[2].field("decision").type) == "int64"

    def test_text_that_is_no_number_stays_text(self):
        for cells in (
            ["007", "1"],
            ["9223372036854775808", "2"],
            ["1" * 18, "0.5"],
            ["nan", "1"],
            ["", "1"],
        ):
            column = pd.Series(cells, dtype=object)
            assert _infer_type(column) is column
        assert _infer_type(pd.Series(["1", "-2", None])).tolist()[:2] == [1, -2]
        assert _infer_type(pd.Series(["1", "2.5", "1e3"])).tolist() == [1.0, 2.5, 1000.0]

    def test_keep(self, run, trained, table, tmp_path):
        table.iloc[-100:].to_csv(tmp_path / "new.csv", index=False)
        run("predict", trained / "model.skops", "new.csv", "--out", "all.csv", "--keep")
        scored = pd.read_csv(tmp_path / "all.csv")
        pd.testing.assert_frame_equal(scored.iloc[:, :-3], pd.read_csv(tmp_path / "new.csv"))

    def test_only_the_features_are_needed(self, run, trained, table, tmp_path):
        table.drop(columns=["person", "sex", "hired"]).to_csv(tmp_path / "new.csv", index=False, sep=";")
        run("predict", trained / "model.skops", "new.csv", "--out", "scores.csv")
        scored = written(tmp_path / "scores.csv")
        assert list(scored.columns) == ["score", "probability", "decision"]
        assert (
            scored["score"].tolist() == load_model(trained / "model.skops").decision_function(table).tolist()
        )

    def test_a_row_by_itself(self, trained, table):
        """A person's score does not depend on who else is scored."""
        model = load_model(trained / "model.skops")
        together = model.decision_function(table)
        alone = [model.decision_function(table.iloc[[row]])[0] for row in range(20)]
        np.testing.assert_allclose(alone, together[:20], rtol=1e-12)

    def test_what_training_did_not_see_is_said(self, run, trained, table, tmp_path, caplog):
        new = table.iloc[-100:].assign(school="circus", test=np.nan)
        new.to_csv(tmp_path / "new.csv", index=False)
        with caplog.at_level(logging.WARNING, "partialfair"):
            assert run("predict", trained / "model.skops", "new.csv", "--out", "scores.csv").code == 0
        said = " ".join(caplog.messages)
        assert "'school' has values such as 'circus' in 100 rows" in said
        assert "'test' is empty in 100 rows" in said
        plain = load_model(trained / "model.skops")
        column = next(column for column in plain.columns if column.name == "test")
        filled = plain.decision_function(new.assign(test=column.median))
        np.testing.assert_array_equal(written(tmp_path / "scores.csv")["score"], filled)

    def test_groups_that_are_needed(self, run, file, table, tmp_path):
        run(*TRAIN, "--group", "age", "--group-terms", "intercept", "--out", "terms")
        call = ("predict", "terms/model.skops", "new.csv", "--out", "scores.csv")
        table.to_csv(tmp_path / "new.csv", index=False)
        assert run(*call).code == 0
        assert (tmp_path / "scores.csv").exists()
        for change, words in [
            ({"sex": "x"}, ["group ('x', 'old') was not seen in fit"]),
            ({"sex": None}, ["'sex' is empty in data row 1 and 799 more rows", "group terms"]),
        ]:
            table.assign(**change).to_csv(tmp_path / "new.csv", index=False)
            run(*call).assert_refused(*words)
        table.drop(columns="age").to_csv(tmp_path / "new.csv", index=False)
        run(*call).assert_refused("new.csv has no column 'age'")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda f: f.drop(columns="test"), ["new.csv has no column 'test'"]),
            (
                lambda f: f.rename(columns={"test": "Test"}),
                ["new.csv has no column 'test' ('Test' is similar); it has"],
            ),
            (lambda f: f.assign(test="high"), ["'test' has 'high'", "data row 1 and 99 more"]),
            (lambda f: f.assign(test="inf"), ["'test' has 'inf'"]),
            (lambda f: f.iloc[:0], ["new.csv has column names but no rows"]),
        ],
    )
    def test_tables_that_do_not_fit(self, run, trained, table, tmp_path, change, words):
        change(table.iloc[-100:]).to_csv(tmp_path / "new.csv", index=False)
        run("predict", trained / "model.skops", "new.csv", "--out", "scores.csv").assert_refused(*words)
        assert not (tmp_path / "scores.csv").exists()

    def test_columns_in_the_way(self, run, trained, table, tmp_path):
        table.assign(score=1).to_csv(tmp_path / "new.csv", index=False)
        call = ("predict", trained / "model.skops", "new.csv", "--out", "scores.csv")
        run(*call, "--keep").assert_refused("'score'", "rename")
        assert run(*call).code == 0

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--out", "scores.xlsx"], ["--out scores.xlsx", ".csv or .parquet"]),
            (["--out", "nowhere/scores.csv"], ["directory that does not exist"]),
            (["--out", "."], ["is a directory"]),
            (["--json"], ["--json needs --out"]),
        ],
    )
    def test_places(self, run, trained, file, options, words):
        run("predict", trained / "model.skops", "table.csv", *options).assert_refused(*words)

    def test_files_that_are_no_models(self, run, file, tmp_path):
        run("predict", "absent.skops", "table.csv").assert_refused("there is no file absent.skops")
        run("predict", "table.csv", "table.csv").assert_refused("table.csv is not a model")
        (tmp_path / "trap.skops").write_bytes(pickle.dumps(Trap(tmp_path / "pwned")))
        run("predict", "trap.skops", "table.csv").assert_refused("pickles are never opened")
        assert not (tmp_path / "pwned").exists()
        save_model(PartialFairClassifier(), tmp_path / "bare.skops")
        run("predict", "bare.skops", "table.csv").assert_refused(
            "holds a PartialFairClassifier", "load_model"
        )


def test_the_model_in_python(trained, table):
    model = load_model(trained / "model.skops")
    assert isinstance(model, TableModel)
    assert set(model.predict(table)) == {"yes", "no"}
    assert model.classifier.result_.gap < 1
    with pytest.raises(ValueError, match=r"no column 'test' \('Test' is similar\)"):
        model.predict(table.rename(columns={"test": "Test"}))


class TestDecisionThreshold:
    @pytest.mark.parametrize("command", ["train", "path"])
    def test_decisions_are_made_at_the_tuned_threshold(self, run, file, table, command):
        limits = ("--max-gap", 0.2) if command == "train" else ("--max-gaps", 0.2, "--best", 0.9)
        words = (*TRAIN[1:-2], *limits, "--decision-threshold", "tune", "--out", "m", "--json")
        done = run(command, *words)
        assert done.code == 0, done.err
        model = load_model("m/model.skops")
        threshold = model.classifier.decision_threshold_
        assert threshold != 0.0
        if command == "train":
            record = done.json
            assert record["fit"]["decision_threshold"] == threshold
            assert record["settings"]["decision_threshold"] == "tune"
            evaluated = record["models"]["with the constraint"]["held out"]
            assert evaluated["threshold"] == threshold
        assert run("predict", "m", file, "--out", "scored.csv").code == 0
        scored = written("scored.csv")
        expected = np.where(scored["score"] > threshold, model.labels[1], model.labels[0])
        assert scored["decision"].astype(str).tolist() == expected.tolist()
        assert model.predict(table.astype(str)).tolist() == expected.tolist()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--decision-threshold", "best"), ["--decision-threshold must be a number or tune, not 'best'"]),
            (("--decision-threshold", "nan"), ["--decision-threshold must be a finite number"]),
            (
                ("--decision-threshold", "tune", "--constraint", "equal_opportunity"),
                ["--decision-threshold tune moves decisions", "equal_opportunity"],
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, run, options, words):
        run(*TRAIN, *options).assert_refused(*words)
