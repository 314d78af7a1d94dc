"""From a table to a model, from the model to scores, from the scores to an audit."""

from __future__ import annotations

import json
import logging
import pickle
import sys
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair import PartialFairClassifier, cli, load_model, save_model
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.tables import TableModel
from tests.traps import Trap

BAND = ("--interval", 0.1, 0.5)
BASIC = (
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


@pytest.fixture(scope="module")
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


def written(path) -> pd.DataFrame:
    """A table of scores with its floats as they were written, which older pandas reads only nearly."""
    frame = pd.read_csv(path, dtype={"score": str, "probability": str})
    return frame.assign(score=frame["score"].map(float), probability=frame["probability"].map(float))


@pytest.fixture
def file(table, tmp_path):
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    """A directory with a model of the table without its last hundred rows."""
    directory = tmp_path_factory.mktemp("trained")
    table.iloc[:-100].to_csv(directory / "table.csv", index=False)
    arguments = ["partialfair", *map(str, BASIC), "--out", str(directory / "out"), "--json"]
    arguments[2] = str(directory / "table.csv")
    with patch.object(sys, "argv", arguments), pytest.raises(SystemExit) as stop:
        cli.command()
    assert stop.value.code == 0
    return directory / "out"


class TestTrain:
    @pytest.mark.usefixtures("painted")
    def test_what_is_printed_and_written(self, run, file, tmp_path):
        outcome = run(*BASIC, "--out", "out")
        assert outcome.code == 0, outcome.err
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {
            "model.skops",
            "train.json",
            "held_out.csv",
            "rank_curves.png",
            "score_densities.png",
        }
        assert all(name in outcome.out for name in names)
        for word in ("promise kept", "without the constraint", "with the constraint", "training", "held out"):
            assert word in outcome.out
        assert outcome.out.index("held out, with the constraint: ") < outcome.out.index("promise kept")
        assert outcome.out.index("promise kept") < outcome.out.index("accuracy")  # the answer comes first
        assert "certificate" not in outcome.out
        assert "certificate, to be at most" in run(*BASIC, "--verbose", "--out", "out").out
        assert "partialfair predict out/model.skops NEW.csv" in outcome.out
        assert not [line for line in outcome.err.splitlines() if not line.startswith("partialfair: ")]

    def test_the_numbers_are_those_of_the_saved_model(self, run, file, table):
        record = run(*BASIC, "--out", "out/mine.skops", "--json").json
        assert record["schema"] == "partialfair.train/1"
        assert record == json.loads((file.parent / "out" / "train.json").read_text())
        assert record["rows"] == {"training": 640, "held out": 160}
        assert record["fit"]["status"] == "converged"
        assert record["fit"]["exact_training_gap"] <= 0.2 + 1e-12
        model = load_model(file.parent / "out" / "mine.skops")
        # The parts are not recorded; together they are the table, so their counts of right answers add up.
        right = accuracy_score(table["hired"], model.predict(table)) * 800
        parts = record["models"]["with the constraint"]
        assert right == pytest.approx(
            640 * parts["training"]["accuracy"] + 160 * parts["held out"]["accuracy"]
        )
        assert parts["training"]["metrics"]["statistical_parity"]["value"] == pytest.approx(
            record["fit"]["exact_training_gap"]
        )

    def test_everything_on_the_training_rows(self, run, file, table):
        record = run(*BASIC, "--test-size", 0, "--json", "--out", "out").json
        scores = load_model(file.parent / "out" / "model.skops").decision_function(table)
        found = record["models"]["with the constraint"]["training"]
        gap = partial_statistical_parity_difference(
            None, scores, sensitive_features=table["sex"], interval=(0.1, 0.5)
        )
        assert found["metrics"]["statistical_parity"]["value"] == pytest.approx(gap)
        assert found["accuracy"] == pytest.approx(np.mean((scores > 0) == (table["hired"] == "yes")))
        assert found["auc"] == pytest.approx(roc_auc_score(table["hired"] == "yes", scores))

    def test_the_constraint_narrows_the_gap(self, run, file):
        models = run(*BASIC, "--max-gap", 0.05, "--json", "--out", "out").json["models"]
        free, fair = (
            models[name]["training"]["metrics"]["statistical_parity"]["value"]
            for name in ("without the constraint", "with the constraint")
        )
        assert fair < free / 2

    def test_features_are_what_the_columns_say(self, run, file, table):
        """Scores recomputed from the JSON alone: medians, means, scales, levels, coefficients."""
        record = run(*BASIC, "--json", "--out", "out").json
        scores = np.full(len(table), record["intercepts"]["all"])
        weights = record["coefficients"]["all"]
        for column in record["columns"]:
            values, name = table[column["name"]], column["name"]
            if column["kind"] == "number":
                filled = values.astype(float).fillna(column["median"])
                scores += weights[name] * (filled - column["mean"]) / column["scale"]
            else:
                scores += sum(weights[f"{name}={level}"] * (values == level) for level in column["levels"])
            if column["gaps"]:
                scores += weights[f"{name} is missing"] * values.isna()
        assert {column["name"] for column in record["columns"]} == {
            "age", "test", "years", "school", "licence", "weight",
        }  # fmt: skip
        model = load_model(file.parent / "out" / "model.skops")
        np.testing.assert_allclose(model.decision_function(table), scores, rtol=1e-9, atol=1e-9)

    def test_statistics_are_of_the_training_rows(self, run, file, table):
        """Rows that are held out must not tell the model anything: a level of theirs alone is no feature."""
        seen = set()
        for seed in range(5):
            changed = table.assign(school=table["school"].where(table.index != 17, "rare"))
            changed.to_csv(file, index=False)
            record = run(*BASIC, "--seed", seed, "--test-size", 0.5, "--json", "--out", "out").json
            school = next(column for column in record["columns"] if column["name"] == "school")
            seen.add("rare" in school["levels"])
            assert any("'rare'" in note for note in record["notes"]) == ("rare" not in school["levels"])
            if seen == {True, False}:
                return
        pytest.fail("the rare level was always, or never, held out")

    @pytest.mark.parametrize("terms", ["intercept", "interactions"])
    def test_group_terms(self, run, file, terms):
        record = run(*BASIC, "--group", "age", "--group-terms", terms, "--json", "--out", "out").json
        assert set(record["intercepts"]) == {"f × old", "f × young", "m × old", "m × young"}
        assert set(record["coefficients"]) == set(record["intercepts"])
        assert not {"sex", "age"} & {column["name"] for column in record["columns"]}

    def test_codes_as_groups_labels_and_categories(self, run, file, table):
        coded = table.assign(
            sex=(table["sex"] == "f").astype(int),
            hired=np.where(table["hired"] == "yes", 10, 9),
            years=table["years"].fillna(99).astype(int) // 3,
        )
        coded.to_csv(file, index=False)
        record = run(*BASIC, "--category", "years", "--json", "--out", "out").json
        assert record["pos_label"] == "10"  # larger than 9, though "10" < "9"
        assert [
            group["group"] for group in record["models"]["with the constraint"]["training"]["groups"]
        ] == [
            "sex=0",
            "sex=1",
        ]
        years = next(column for column in record["columns"] if column["name"] == "years")
        assert (years["kind"], set(years["levels"])) == ("categories", {*map(str, range(10)), "33"})

    def test_pos_label_and_weight(self, run, file, table):
        record = run(*BASIC, "--pos-label", "no", "--weight", "weight", "--json", "--out", "out").json
        assert record["pos_label"] == "no"
        model = load_model(file.parent / "out" / "model.skops")
        assert model.labels == ("yes", "no")
        assert np.corrcoef(model.decision_function(table), table["hired"] == "no")[0, 1] > 0.5

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_the_kind_of_file_does_not_matter(self, run, file, table, suffix):
        typed = table.assign(licence=table["licence"] == "True")  # a number, where CSV has two texts
        getattr(table, f"to_{suffix}")(file.with_suffix(f".{suffix}"))
        record = run(*BASIC, "--json", "--out", "out").json
        other = run("train", f"table.{suffix}", *BASIC[2:], "--json", "--out", "other").json
        assert other["coefficients"] == record["coefficients"]
        getattr(typed, f"to_{suffix}")(file.with_suffix(f".{suffix}"))
        third = run("train", f"table.{suffix}", *BASIC[2:], "--json", "--out", "third").json
        assert third["fit"]["objective"] == pytest.approx(record["fit"]["objective"], rel=0.02)

    def test_without_a_constraint(self, run, file):
        record = run(*BASIC, "--constraint", "none", "--json", "--out", "out").json
        assert list(record["models"]) == ["without a constraint"]
        assert load_model(file.parent / "out" / "model.skops").classifier.constraint is None

    def test_demographic_parity(self, run, file):
        outcome = run(*BASIC, "--constraint", "demographic_parity", "--out", "out")
        assert outcome.code == 0
        assert "demographic parity (pDP) gap" in outcome.out

    def test_the_gate(self, run, file):
        assert run(*BASIC, "--fail-above", 1, "--out", "out").code == 0
        outcome = run(*BASIC, "--fail-above", 0, "--out", "out")
        assert outcome.code == 1
        assert "limit 0: FAIL" in outcome.out
        record = run(*BASIC, "--fail-above", 0, "--fail-metric", "group_auc", "--json", "--out", "out").json
        assert record["gate"] == {
            **record["gate"], "metric": "group_auc", "part": "held out", "passed": False,
        }  # fmt: skip

    def test_the_seed_decides(self, run, file):
        first, again, other = (
            run(*BASIC, "--seed", seed, "--json", "--out", "out").json for seed in (1, 1, 2)
        )
        for record in (first, again):
            del record["fit"]["seconds"], record["files"]  # files tell times too
        assert first == again
        assert first["coefficients"] != other["coefficients"]

    def test_columns_that_are_all_alike_are_left_out(self, run, file, table):
        table.assign(country="here", zero=0).to_csv(file, index=False)
        record = run(*BASIC, "--json", "--out", "out").json
        assert not {"country", "zero"} & {column["name"] for column in record["columns"]}
        assert sum("is the same in every training row" in note for note in record["notes"]) == 2

    def test_gaps_that_people_write(self, run, file, table):
        table.assign(years=table["years"].astype(object).fillna("NA")).to_csv(file, index=False)
        written = run(*BASIC, "--json", "--out", "out").json
        table.to_csv(file, index=False)
        assert run(*BASIC, "--json", "--out", "out").json["coefficients"] == written["coefficients"]


class TestTrainRefuses:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--max-gap", 2], ["--max-gap", "2"]),
            (["--max-gap", "nan"], ["--max-gap"]),
            (["--alpha", -1], ["--alpha"]),
            (["--test-size", 1], ["--test-size"]),
            (["--test-size", 0.999], ["--test-size 0.999", "rows for training"]),
            (["--test-size", 0.0001], ["--test-size 0.0001", "0 rows held out"]),
            (["--confidence", 1], ["--confidence"]),
            (["--confidence", 0.999], ["--confidence must be at most 0.995, not 0.999"]),
            (["--alpha", "inf"], ["--alpha must be a finite number of at least 0, not inf"]),
            (
                ["--constraint", "group_auc", "--gap-scale", "absolute"],
                ["--gap-scale absolute has no meaning"],
            ),
            (["--constraint", "nonsense"], ["--constraint", "statistical_parity", "none"]),
            (["--interval", 0.5, 0.1], ["interval", "reversed"]),
            (["--time-limit", 0], ["--time-limit"]),
            (["--fail-above", 2], ["--fail-above"]),
            (["--fail-above", 0.1, "--fail-metric", "x"], ["--fail-metric"]),
            (["--target", "nonsense"], ["table.csv has no column 'nonsense'"]),
            (["--group", "nonsense"], ["table.csv has no column 'nonsense'"]),
            (["--drop", "nonsense"], ["table.csv has no column 'nonsense'"]),
            (["--drop", "sex"], ["'sex'", "--group", "--drop"]),
            (["--target", "sex"], ["'sex'", "--target", "--group"]),
            (["--target", "school"], ["'school'", "an empty cell"]),
            (["--target", "years", "--drop", "hired"], ["'years'", "an empty cell"]),
            (["--target", "test", "--drop", "hired"], ["'test'", "classes", "labels need two"]),
            (["--group", "school"], ["'school'", "an empty cell"]),
            (["--group", "test"], ["different values"]),
            (["--pos-label", "maybe"], ["--pos-label maybe", "no, yes"]),
            (["--weight", "school"], ["'school'", "where a finite number is needed"]),
            (["--interval", "auto"], ["--interval auto chooses"]),
            (["--interval", "f=0.1", 0.3], ["both for everybody and for group 'f'"]),
            (["--interval", 0.7], ["--interval must be two numbers LOW HIGH", "'0.7'"]),
            (["--interval", 0.7, "x"], ["--interval must be two numbers LOW HIGH", "'0.7 x'"]),
            (["--interval", 0.6, 0.7, "--report", "r.html"], ["--report shows one interval"]),
            (["--min-group", 0], ["--min-group"]),
            (["--group-terms", "intercept", "--small-groups", "merge"], ["--small-groups merge"]),
            (["--group-terms", "intercept", "--missing-groups", "ignore"], ["--missing-groups"]),
        ],
        ids=str,
    )
    def test_options(self, run, file, options, words, no_fits):
        run(*BASIC, "--out", "out", *options).assert_refused(*words)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--interval", 0, 0.001], ["rows held out", "too few to judge", "--test-size", "--min-group"]),
            (["--interval", 0, 0.001, "--test-size", 0], ["no group is large enough", "--min-group 10"]),
            (
                ["--interval", "x=0.1", 0.2, "--interval", "f=0.1", 0.2],
                ["group 'x'", "not in the data", "'f', 'm'"],
            ),
            (["--interval", "f=0.1", 0.2], ["no interval for group 'm'"]),
            (
                ["--interval", "f=0.1", 0.2, "--interval", "m=0.1", 0.2, "--gap-scale", "absolute"],
                ["absolute"],
            ),
        ],
        ids=str,
    )
    def test_intervals(self, run, file, options, words, no_fits):
        run(*(word for word in BASIC if word not in BAND), "--out", "out", *options).assert_refused(*words)

    @pytest.mark.parametrize(
        ("change", "options", "words"),
        [
            (
                lambda f: {"sex": np.where(f.index < 3, "f", "m")},
                ["--test-size", 0],
                ["only group 'm' is large enough", "'f' has 1.2", "--min-group 10"],
            ),
            (
                lambda f: {"hired": np.where((f["sex"] == "f") & (f.index > 9), "no", f["hired"])},
                ["--constraint", "equal_opportunity"],
                ["of the 160 rows held out", "at least 10 effective positives", "only 1 has enough"],
            ),
            (
                lambda f: {"weight": (f["hired"] == "yes") * 1},
                ["--weight", "weight"],
                ["column 'weight' gives weight to fewer than two labels", "for training"],
            ),
            (
                lambda f: {"sex": np.where(f.index < 1, "x", f["sex"])},
                ["--test-size", 0.6, "--group-terms", "intercept"],
                ["no row of group 'x' is left for training", "--group-terms", "lower --test-size"],
            ),
        ],
        ids=["thin", "thin among positives", "one label", "no group to train on"],
    )
    def test_rows_that_no_model_could_be_fitted_to(self, run, file, table, no_fits, change, options, words):
        table.assign(**change(table)).to_csv(file, index=False)
        run(*BASIC, "--out", "out", *options).assert_refused(*words)

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            ({"name": [f"n{k}" for k in range(800)]}, ["'name' has 800 different texts", "--drop name"]),
            (
                {"born": pd.date_range("1980-01-01", periods=800).astype(str)},
                ["'born' holds dates", "1980-01-01"],
            ),
            ({"at": ["12/31/1999", "1/2/2003"] * 400}, ["'at' holds dates"]),
            (
                {"income": [f"{k},5" for k in range(800)]},
                ["'income' holds numbers with decimal commas", "need a point"],
            ),
            ({"row": range(1, 801)}, ["'row' numbers the rows", "--drop row"]),
            ({"blank": [None] * 800}, ["'blank' is empty"]),
            ({"big": [1.0, float("inf")] * 400}, ["'big'", "'inf'", "data row 2"]),
            ({"a b": [None] * 800, "row": range(800)}, ["'a b' is empty", "--drop 'a b' --drop row"]),
        ],
        ids=str,
    )
    def test_columns(self, run, file, table, column, words):
        table.assign(**column).to_csv(file, index=False)
        run(*BASIC, "--out", "out").assert_refused(*words)

    def test_columns_of_parquet_files(self, run, table, tmp_path):
        for column, words in [
            ({"born": pd.date_range("1980-01-01", periods=800)}, ["'born' holds dates or times"]),
            ({"tags": [["a", "b"]] * 800}, ["'tags' holds values of type"]),
        ]:
            table.assign(**column).to_parquet(tmp_path / "table.parquet")
            run("train", "table.parquet", *BASIC[2:], "--out", "out").assert_refused(*words)

    def test_nothing_left(self, run, file):
        names = ["age", "test", "years", "school", "licence", "weight"]
        dropped = [option for name in names for option in ("--drop", name)]
        run(*BASIC, *dropped, "--out", "out").assert_refused("no column left to make features of")
        run(*BASIC, *dropped[:-2], "--weight", "weight", "--out", "out").assert_refused("no column left")

    def test_two_columns_of_one_name(self, run, file):
        file.write_text(file.read_text().replace("years", "test", 1))
        run(*BASIC, "--out", "out").assert_refused("2 columns called 'test'")

    def test_out(self, run, file, tmp_path):
        (tmp_path / "taken").touch()
        run(*BASIC, "--out", "taken").assert_refused("--out taken")
        run(*BASIC, "--out", "taken/model.skops").assert_refused("--out taken")


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
        assert audit["metrics"]["statistical_parity"]["value"] == pytest.approx(gap, abs=1e-12)

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
        run(*BASIC, "--group", "age", "--group-terms", "intercept", "--out", "terms")
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


def test_a_gap_that_few_people_cannot_show_is_noted_beside_the_promise(run, tmp_path):
    rng = np.random.default_rng(0)
    team = np.repeat(["many", "few"], [400, 100])
    table = pd.DataFrame(rng.normal(size=(500, 2)), columns=["first", "second"]).round(2).assign(team=team)
    table["first"] += team == "few"
    table["hired"] = np.where(table["first"] + rng.normal(size=500) > 0, "yes", "no")
    table.to_csv(tmp_path / "few.csv", index=False)
    options = ("--target", "hired", "--group", "team", "--interval", 0.05, 0.3, "--test-size", 0.5)
    outcome = run("train", "few.csv", *options, "--max-gap", 0.05, "--enforce", "surrogate", "--out", "out")
    said = " ".join(outcome.out.split())
    note = (
        "note: a gap of 0.05 is far below 1, the smallest gap that the 12.5 effective members of group 'few'"
    )
    assert said.index("held out, with the constraint: ") < said.index(note) < said.index("accuracy")
    assert said.count("is far below") == 1
    record = json.loads((tmp_path / "out" / "train.json").read_text(encoding="utf-8"))
    assert "is far below" in record["notes"][0]
    assert "far below" not in run("train", "few.csv", *options, "--max-gap", 0.4, "--out", "out").out
