"""From a table to a model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from partialfair import load_model
from partialfair.metrics import partial_statistical_parity_difference
from tests.cli.conftest import TRAIN


class TestTrain:
    @pytest.mark.usefixtures("painted")
    def test_what_is_printed_and_written(self, run, file, tmp_path):
        outcome = run(*TRAIN, "--out", "out")
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
        for word in (
            "Constraint satisfied",
            "without the constraint",
            "with the constraint",
            "training",
            "held out",
        ):
            assert word in outcome.out
        # The answer comes first, then before and after.
        places = [outcome.out.index(word) for word in ("Constraint satisfied", "Before, ", "After, ")]
        assert places == sorted(places)
        assert places[-1] < outcome.out.index("What fairness costs")
        assert "certificate" not in outcome.out
        assert "certificate, to be at most" in run(*TRAIN, "--verbose", "--out", "out").out
        assert "partialfair predict out/model.skops NEW.csv" in outcome.out
        assert not [line for line in outcome.err.splitlines() if not line.startswith("partialfair: ")]

    def test_the_numbers_are_those_of_the_saved_model(self, run, file, table):
        record = run(*TRAIN, "--out", "out/mine.skops", "--json").json
        assert record["schema"] == "partialfair.train/1"
        assert record == json.loads((file.parent / "out" / "train.json").read_text())
        assert record["rows"] == {"training": 640, "held out": 160}
        assert record["fit"]["status"] == "converged"
        assert record["fit"]["training_gap"] <= 0.2 + 1e-12
        model = load_model(file.parent / "out" / "mine.skops")
        # The parts are not recorded; together they are the table, so their counts of right answers add up.
        right = accuracy_score(table["hired"], model.predict(table)) * 800
        parts = record["models"]["with the constraint"]
        assert right == pytest.approx(
            640 * parts["training"]["accuracy"] + 160 * parts["held out"]["accuracy"]
        )
        assert parts["training"]["metrics"]["statistical_parity"]["gap"] == pytest.approx(
            record["fit"]["training_gap"]
        )

    def test_everything_on_the_training_rows(self, run, file, table):
        record = run(*TRAIN, "--test-size", 0, "--json", "--out", "out").json
        scores = load_model(file.parent / "out" / "model.skops").decision_function(table)
        found = record["models"]["with the constraint"]["training"]
        gap = partial_statistical_parity_difference(
            None, scores, sensitive_features=table["sex"], interval=(0.1, 0.5)
        )
        assert found["metrics"]["statistical_parity"]["gap"] == pytest.approx(gap)
        assert found["accuracy"] == pytest.approx(np.mean((scores > 0) == (table["hired"] == "yes")))
        assert found["auc"] == pytest.approx(roc_auc_score(table["hired"] == "yes", scores))

    def test_the_constraint_narrows_the_gap(self, run, file):
        models = run(*TRAIN, "--max-gap", 0.05, "--json", "--out", "out").json["models"]
        free, fair = (
            models[name]["training"]["metrics"]["statistical_parity"]["gap"]
            for name in ("without the constraint", "with the constraint")
        )
        assert fair < free / 2

    def test_features_are_what_the_columns_say(self, run, file, table):
        """Scores recomputed from the JSON alone: medians, means, scales, levels, coefficients."""
        record = run(*TRAIN, "--json", "--out", "out").json
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
            record = run(*TRAIN, "--seed", seed, "--test-size", 0.5, "--json", "--out", "out").json
            school = next(column for column in record["columns"] if column["name"] == "school")
            seen.add("rare" in school["levels"])
            assert any("'rare'" in note for note in record["notes"]) == ("rare" not in school["levels"])
            if seen == {True, False}:
                return
        pytest.fail("the rare level was always, or never, held out")

    @pytest.mark.parametrize("terms", ["intercept", "interactions"])
    def test_group_terms(self, run, file, terms):
        record = run(*TRAIN, "--group", "age", "--group-terms", terms, "--json", "--out", "out").json
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
        record = run(*TRAIN, "--category", "years", "--json", "--out", "out").json
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
        record = run(*TRAIN, "--pos-label", "no", "--weight", "weight", "--json", "--out", "out").json
        assert record["pos_label"] == "no"
        model = load_model(file.parent / "out" / "model.skops")
        assert model.labels == ("yes", "no")
        assert np.corrcoef(model.decision_function(table), table["hired"] == "no")[0, 1] > 0.5

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_the_kind_of_file_does_not_matter(self, run, file, table, suffix):
        typed = table.assign(licence=table["licence"] == "True")  # a number, where CSV has two texts
        getattr(table, f"to_{suffix}")(file.with_suffix(f".{suffix}"))
        record = run(*TRAIN, "--json", "--out", "out").json
        other = run("train", f"table.{suffix}", *TRAIN[2:], "--json", "--out", "other").json
        assert other["coefficients"] == record["coefficients"]
        getattr(typed, f"to_{suffix}")(file.with_suffix(f".{suffix}"))
        third = run("train", f"table.{suffix}", *TRAIN[2:], "--json", "--out", "third").json
        assert third["fit"]["objective"] == pytest.approx(record["fit"]["objective"], rel=0.02)

    def test_without_a_constraint(self, run, file):
        record = run(*TRAIN, "--constraint", "none", "--json", "--out", "out").json
        assert list(record["models"]) == ["without a constraint"]
        assert load_model(file.parent / "out" / "model.skops").classifier.constraint is None

    def test_demographic_parity(self, run, file):
        outcome = run(*TRAIN, "--constraint", "demographic_parity", "--out", "out")
        assert outcome.code == 0
        assert "demographic parity (pDP) gap" in outcome.out

    def test_the_gate(self, run, file):
        assert run(*TRAIN, "--fail-above", 1, "--out", "out").code == 0
        outcome = run(*TRAIN, "--fail-above", 0, "--out", "out")
        assert outcome.code == 1
        assert "limit 0: FAIL" in outcome.out
        record = run(*TRAIN, "--fail-above", 0, "--fail-metric", "group_auc", "--json", "--out", "out").json
        assert record["gate"] == {
            **record["gate"], "metric": "group_auc", "part": "held out", "passed": False,
        }  # fmt: skip

    def test_the_seed_decides(self, run, file):
        first, again, other = (
            run(*TRAIN, "--seed", seed, "--json", "--out", "out").json for seed in (1, 1, 2)
        )
        for record in (first, again):
            del record["fit"]["seconds"], record["files"]  # files tell times too
        assert first == again
        assert first["coefficients"] != other["coefficients"]

    def test_columns_that_are_all_alike_are_left_out(self, run, file, table):
        table.assign(country="here", zero=0).to_csv(file, index=False)
        record = run(*TRAIN, "--json", "--out", "out").json
        assert not {"country", "zero"} & {column["name"] for column in record["columns"]}
        assert sum("is the same in every training row" in note for note in record["notes"]) == 2

    def test_gaps_that_people_write(self, run, file, table):
        table.assign(years=table["years"].astype(object).fillna("NA")).to_csv(file, index=False)
        written = run(*TRAIN, "--json", "--out", "out").json
        table.to_csv(file, index=False)
        assert run(*TRAIN, "--json", "--out", "out").json["coefficients"] == written["coefficients"]


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
    note = "note: a gap of 0.05 is far below 1, the smallest gap that can be detected with 13 effective"
    assert said.index(note) < said.index("accuracy")
    assert said.count("is far below") == 1
    record = json.loads((tmp_path / "out" / "train.json").read_text(encoding="utf-8"))
    assert "is far below" in record["notes"][0]
    assert "far below" not in run("train", "few.csv", *options, "--max-gap", 0.4, "--out", "out").out
