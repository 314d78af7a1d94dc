"""Who is judged and on what: small and missing groups, intervals in all forms, scores where low is good."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from partialfair import choose_interval, load_model
from partialfair.cli.columns import find_positive_label
from partialfair.cli.intervals import _join_interval_words, read_interval
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference as gap_of
from tests.cli.conftest import COLUMNS

BAND = ("--interval", 0.1, 0.4)


def model_table(n: int = 600, **sizes: int) -> pd.DataFrame:
    """Applicants of two large groups, and of small ones of the sizes given, who score apart from others."""
    rng = np.random.default_rng(11)
    groups = [name for name, size in sizes.items() for _ in range(size)]
    region = np.array([*groups, *rng.choice(["north", "south"], n - len(groups))])
    merit = rng.normal(size=n)
    return pd.DataFrame(
        {
            "region": region,
            "test": merit - 0.6 * (region == "south") + 3.0 * np.isin(region, groups),
            "interview": merit + rng.normal(size=n),
            "hired": np.where(merit + 0.5 * rng.normal(size=n) > 0, "yes", "no"),
        }
    )


TRAIN = ("train", "table.csv", "--target", "hired", "--group", "region", "--max-gap", 0.3, "--out", "out")


class TestIntervals:
    @pytest.mark.parametrize(
        ("words", "interval"),
        [
            ([], None),
            (["--interval", "0.1", "0.3"], (0.1, 0.3)),
            (["--interval=0.1", "0.3"], (0.1, 0.3)),
            (["--interval", "0.1 0.3"], (0.1, 0.3)),
            (["--interval", "0.6", "0.8", "--json", "--interval", "0.1", "0.3"], [(0.1, 0.3), (0.6, 0.8)]),
            (["--interval", "0.1", "0.3", "--interval", "0.3", "0.5"], (0.1, 0.5)),
            (["--interval", "0.2", "0.5", "--interval", "0.1", "0.3"], (0.1, 0.5)),
            (["--interval", "0.1", "0.5", "--interval", "0.2", "0.3"], (0.1, 0.5)),
            (["--interval", "auto"], "auto"),
            (["--interval", "a=0.1", "0.3", "--interval", "b=0", "1"], {"a": (0.1, 0.3), "b": (0.0, 1.0)}),
            (["--interval", "sex=1=0.1", "0.3"], {"sex=1": (0.1, 0.3)}),
        ],
        ids=str,
    )
    def test_forms(self, words, interval):
        joined = _join_interval_words(words)
        uses = [joined[k + 1] for k, word in enumerate(joined) if word == "--interval"]
        assert read_interval(uses) == interval

    @pytest.mark.parametrize(
        "uses", [["0.1"], ["x y"], ["0.1 0.2 0.3"], ["=0.1"], ["a="], ["auto", "0.1 0.2"]]
    )
    def test_what_is_none(self, uses):
        with pytest.raises(InputError, match="--interval"):
            read_interval(uses)

    def test_a_repeated_one_is_a_union(self, run, scores, people):
        union = ("--interval", 0.1, 0.2, "--interval", 0.6, 0.8)
        found = run("audit", scores, *COLUMNS, *union, "--json").json
        assert found["interval"] == [[0.1, 0.2], [0.6, 0.8]]
        wanted = gap_of(
            None, people["score"], sensitive_features=people["sex"], interval=[(0.1, 0.2), (0.6, 0.8)]
        )
        assert found["metrics"]["statistical_parity"]["gap"] == pytest.approx(wanted)

    def test_by_group(self, run, scores, people):
        by_group = ("--interval", "f=0.1", 0.3, "--interval", "m=0.2", 0.4)
        found = run("audit", scores, *COLUMNS, *by_group, "--json", "--out", "out").json
        assert found["interval"] == {"f": [0.1, 0.3], "m": [0.2, 0.4]}
        wanted = gap_of(
            None,
            people["score"],
            sensitive_features=people["sex"],
            interval={"f": (0.1, 0.3), "m": (0.2, 0.4)},
        )
        assert found["metrics"]["statistical_parity"]["gap"] == pytest.approx(wanted)

    def test_the_sentence_names_both_intervals(self, run, scores):
        by_group = ("--interval", "f=0.1", 0.3, "--interval", "m=0.2", 0.4)
        shown = " ".join(run("audit", scores, *COLUMNS, *by_group).out.split())
        assert "Among ranks 10–30% from the top (score percentiles 70–90) of f and ranks 20–40%" in shown

    def test_auto_is_around_the_rate_of_selection(self, run, scores, people):
        found = run("audit", scores, *COLUMNS, "--interval", "auto", "--threshold", 0.5, "--json").json
        low, high = found["interval"]
        assert low <= (people["score"] > 0.5).mean() <= high
        assert high - low == pytest.approx(0.25)
        labelled = run("audit", scores, *COLUMNS, "--interval", "auto", "--label", "hired", "--json").json
        low, high = labelled["interval"]
        assert low <= (people["hired"] == "yes").mean() <= high
        run("audit", scores, *COLUMNS, "--interval", "auto").assert_refused("--threshold or --label")

    def test_an_interval_chosen_on_the_same_rows_is_said_to_be(self, run, scores, people):
        auto = ("audit", scores, *COLUMNS, "--interval", "auto", "--threshold", 0.5)
        found = run(*auto, "--json").json
        choice = choose_interval(people["score"], sensitive_features=people["sex"], threshold=0.5)
        told = found["interval_choice"]
        assert (told["gap"], told["ci_low"], told["ci_high"]) == (choice.gap, choice.ci_low, choice.ci_high)
        assert told["n_candidates"] == len(choice.candidates)
        unsure = run(*auto, "--confidence", 0.8, "--json").json["interval_choice"]
        assert unsure["confidence"] == 0.8
        assert told["ci_low"] < unsure["ci_low"]
        assert told["ci_low"] < told["gap"]
        row = found["metrics"]["statistical_parity"]
        assert told["gap"] == pytest.approx(row["gap"])
        assert found["notes"][0].startswith("the interval was chosen for its large gap")
        assert "not corrected for this choice" in found["notes"][0]
        assert "chosen for its large gap" in " ".join(run(*auto).out.split())
        gate = ("--fail-above", 0.1, "--fail-on")
        run(*auto, *gate, "exceeds").assert_refused("--fail-on exceeds", "--interval auto", "same rows")
        assert run(*auto, *gate, "inconclusive").code == 1
        given = run("audit", scores, *COLUMNS, "--interval", 0.1, 0.35, "--json").json
        assert given["interval_choice"] is None
        assert not any("chosen" in note for note in given["notes"])

    def test_training_on_all_forms(self, run, tmp_path):
        model_table().to_csv(tmp_path / "table.csv", index=False)
        auto = run(*TRAIN, "--interval", "auto", "--json").json
        assert auto["interval"][1] - auto["interval"][0] == pytest.approx(0.25)
        assert any("held-out rows had no influence on the choice" in note for note in auto["notes"])
        by_group = ("--interval", "north=0.1", 0.4, "--interval", "south=0.2", 0.5)
        found = run(*TRAIN, *by_group, "--json").json
        assert found["fit"]["training_gap"] <= 0.3
        assert run(*TRAIN, "--interval", 0, 1, "--json").json["interval"] == [0.0, 1.0]

    def test_training_without_one_is_refused(self, run, no_fits):
        for command in (TRAIN, ("path", *TRAIN[1:-4], "--max-gaps", 0.3, "--out", "out")):
            run(*command).assert_refused("--interval is missing", "--interval 0 1 for the whole range")

    def test_a_model_without_a_constraint_needs_none(self, run, tmp_path):
        model_table().to_csv(tmp_path / "table.csv", index=False)
        record = run(*TRAIN, "--constraint", "none", "--json").json
        assert record["interval"] == [0.0, 1.0]

    def test_auto_is_refused_before_any_fit(self, run, tmp_path, no_fits):
        model_table(120).to_csv(tmp_path / "table.csv", index=False)
        run(*TRAIN, "--interval", "auto").assert_refused("rows held out", "--min-group-size")
        run(*TRAIN, "--interval", "auto", "--test-size", 0, "--min-group-size", 50).assert_refused(
            "--min-group-size 50"
        )


class TestSmallGroups:
    @pytest.fixture
    def file(self, tmp_path):
        """Two large groups, one of two people, whom the interval holds .6 of, and one of twenty."""
        rng = np.random.default_rng(0)
        group = np.repeat(["big", "large", "two", "twenty"], [200, 200, 2, 20])
        frame = pd.DataFrame({"score": rng.normal(size=422), "sex": group})
        frame.to_csv(tmp_path / "scores.csv", index=False)
        return frame

    def test_they_are_listed_and_do_not_stop_the_audit(self, run, file):
        outcome = run("audit", "scores.csv", *COLUMNS, *BAND)
        assert outcome.code == 0, outcome.err
        assert (
            "2 of 4 groups too small to evaluate" in outcome.out.splitlines()[0] + outcome.out.splitlines()[1]
        )
        for name, inside in (("two", "0"), ("twenty", "6")):
            (line,) = [line for line in outcome.out.splitlines() if line.startswith(f"{name} ")]
            assert inside in line.split()
            assert "too small to evaluate" in line
        record = run("audit", "scores.csv", *COLUMNS, *BAND, "--json").json
        large = file[file["sex"].isin(["big", "large"])]
        wanted = gap_of(None, large["score"], sensitive_features=large["sex"], interval=(0.1, 0.4))
        assert record["metrics"]["statistical_parity"]["gap"] == pytest.approx(wanted)
        assert {group["group"] for group in record["small_groups"]} == {"two", "twenty"}

    def test_kept_on_request(self, run, file):
        record = run("audit", "scores.csv", *COLUMNS, *BAND, "--small-groups", "keep", "--json").json
        wanted = gap_of(None, file["score"], sensitive_features=file["sex"], interval=(0.1, 0.4))
        assert record["metrics"]["statistical_parity"]["gap"] == pytest.approx(wanted)
        fewer = run("audit", "scores.csv", *COLUMNS, *BAND, "--min-group-size", 5, "--json").json
        assert {group["group"] for group in fewer["groups"]} == {"big", "large", "twenty"}

    def test_merged_on_request(self, run, file):
        options = ("--interval", 0, 0.5, "--small-groups", "merge", "--min-group-size", 11)
        record = run("audit", "scores.csv", *COLUMNS, *options, "--json", "--out", "out").json
        together = file["sex"].replace({"two": "small groups", "twenty": "small groups"})
        wanted = gap_of(None, file["score"], sensitive_features=together, interval=(0.0, 0.5))
        assert record["metrics"]["statistical_parity"]["gap"] == pytest.approx(wanted)
        assert {group["group"] for group in record["groups"]} == {"big", "large", "small groups"}

    def test_fewer_than_two_judged(self, run, file):
        run("audit", "scores.csv", *COLUMNS, *BAND, "--min-group-size", 100).assert_refused(
            "effective members", "--min-group-size", "--small-groups keep"
        )

    def test_compare_judges_the_same(self, run, file):
        file.assign(score=-file["score"]).to_csv("other.csv", index=False)
        record = run("compare", "scores.csv", "other.csv", *COLUMNS, *BAND, "--json", "--out", "out").json
        for model in record["models"]:
            assert {group["group"] for group in model["groups"]} == {"big", "large"}
        assert set(pd.read_csv("out/movers.csv")["sex"]) <= {"big", "large"}

    def test_train_leaves_them_out_of_the_promise_and_in_the_loss(self, run, tmp_path):
        table = model_table(few=18)
        table.to_csv(tmp_path / "table.csv", index=False)
        outcome = run(*TRAIN, *BAND, "--test-size", 0)
        assert outcome.code == 0, outcome.err
        assert "excluded from the constraint: few" in " ".join(outcome.out.split())
        record = json.loads(Path("out/train.json").read_text())
        assert record["excluded_groups"] == ["few"]
        assert record["rows"]["training"] == 600  # all of them are in the loss
        model = load_model("out/model.skops")
        assert model.classifier.result_.small_groups == ("few",)
        scores = model.decision_function(table)
        large = table["region"] != "few"
        gap = gap_of(None, scores[large], sensitive_features=table["region"][large], interval=(0.1, 0.4))
        assert gap <= 0.3
        assert record["fit"]["training_gap"] == pytest.approx(gap)

    def test_train_merges_them(self, run, tmp_path):
        model_table(few=25, fewer=25).to_csv(tmp_path / "table.csv", index=False)
        record = run(*TRAIN, *BAND, "--test-size", 0, "--small-groups", "merge", "--json").json
        assert record["excluded_groups"] == []
        groups = record["models"]["with the constraint"]["training"]["groups"]
        assert {group["group"] for group in groups} == {"north", "south", "small groups"}

    def test_merged_groups_may_be_few_among_rows_held_out(self, run, tmp_path):
        model_table(few=25, fewer=25).to_csv(tmp_path / "table.csv", index=False)
        record = run(*TRAIN, *BAND, "--small-groups", "merge", "--json").json
        held_out = record["models"]["with the constraint"]["held out"]
        assert {group["group"] for group in held_out["small_groups"]} == {"small groups"}

    def test_a_gate_that_nothing_was_measured_for(self, run, tmp_path):
        table = model_table()
        rare = (table["region"] == "south") & (table.index > 60)
        table.assign(hired=table["hired"].mask(rare, "no")).to_csv(tmp_path / "table.csv", index=False)
        gate = ("--fail-metric", "equal_opportunity", "--fail-above", 0.2)
        run(*TRAIN, *BAND, *gate).assert_refused("--fail-metric equal_opportunity", "effective positives")

    def test_compare_with_a_metric_that_one_model_lacks(self, run, tmp_path):
        """The second model puts all positives of a group below the interval, where none is judged."""
        rng = np.random.default_rng(3)
        group, label = np.repeat(["a", "b"], 200), np.tile([0, 1], 200)
        score = rng.normal(size=400)
        worse = np.where((group == "a") & (label == 1), score - 10, score)
        for name, scores in (("one", score), ("two", worse)):
            pd.DataFrame({"score": scores, "sex": group, "y": label}).to_csv(f"{name}.csv", index=False)
        options = (*COLUMNS, "--label", "y", "--threshold", 0.5, "--interval", 0, 0.25)
        for files in (("one.csv", "two.csv"), ("two.csv", "one.csv")):
            outcome = run("compare", *files, *options)
            assert outcome.code == 0, outcome.err
            line = next(line for line in outcome.out.splitlines() if line.startswith("equal opportunity"))
            assert "left out" in line
            assert "left out of two (compares" in outcome.out

    def test_path(self, run, tmp_path):
        model_table(1000, few=18).to_csv(tmp_path / "table.csv", index=False)
        options = ("--target", "hired", "--group", "region", *BAND, "--max-gaps", "0.3", "--out", "out")
        record = run("path", "table.csv", *options, "--json").json
        assert record["excluded_groups"] == ["few"]
        assert record["models"][1]["satisfied"] is True


class TestMissingGroups:
    def test_rows_without_a_group_are_left_out_of_ranks(self, run, people, tmp_path):
        gone = people.assign(sex=people["sex"].where(people.index % 7 > 0))
        gone.to_csv(tmp_path / "scores.csv", index=False)
        run("audit", "scores.csv", *COLUMNS, *BAND).assert_refused(
            "'sex'", "an empty cell", "data row 1", "--missing-groups ignore"
        )
        outcome = run("audit", "scores.csv", *COLUMNS, *BAND, "--missing-groups", "ignore")
        n_missing = int(gone["sex"].isna().sum())
        assert f"{n_missing} rows without a group left out" in " ".join(outcome.out.split())
        record = run("audit", "scores.csv", *COLUMNS, *BAND, "--missing-groups", "ignore", "--json").json
        known = gone.dropna(subset=["sex"])
        wanted = gap_of(None, known["score"], sensitive_features=known["sex"], interval=(0.1, 0.4))
        assert record["metrics"]["statistical_parity"]["gap"] == pytest.approx(wanted)

    def test_in_training_they_count_in_the_loss(self, run, tmp_path):
        table = model_table()
        table.assign(region=table["region"].where(table.index % 7 > 0)).to_csv("table.csv", index=False)
        run(*TRAIN, *BAND).assert_refused("'region'", "an empty cell")
        record = run(*TRAIN, *BAND, "--missing-groups", "ignore", "--json").json
        assert sum(record["rows"].values()) == 600
        assert record["fit"]["satisfied"] is True


class TestLowIsGood:
    def test_an_audit_is_that_of_negated_scores(self, run, people, tmp_path):
        people.to_csv(tmp_path / "high.csv", index=False)
        people.assign(score=-people["score"]).to_csv(tmp_path / "low.csv", index=False)
        options = (*COLUMNS, "--label", "hired", *BAND, "--json")
        high = run("audit", "high.csv", *options, "--threshold", 0.5).json
        low = run("audit", "low.csv", *options, "--threshold", -0.5, "--lower-is-better").json
        for name, row in high["metrics"].items():
            mirrored = low["metrics"][name]
            assert mirrored["gap"] == pytest.approx(row["gap"])
            assert mirrored["ci_high"] == pytest.approx(row["ci_high"])
        assert low["metrics"]["demographic_parity"]["at_score"] == -0.5
        shown = " ".join(run("audit", "low.csv", *options[:-1], "--lower-is-better").out.split())
        assert "from the best, the lowest scores (score percentiles 10–40)" in shown
        assert "score below" in shown

    def test_a_model_remembers_it(self, run, tmp_path):
        """The risk of not being hired: those at the lowest risk come first, and the gap is theirs."""
        table = model_table()
        table.to_csv(tmp_path / "table.csv", index=False)
        outcome = run(*TRAIN, *BAND, "--pos-label", "no", "--lower-is-better", "--test-size", 0)
        assert outcome.code == 0, outcome.err
        model = load_model("out/model.skops")
        assert model.classifier.higher_is_better is False
        risks = model.decision_function(table)
        gap = gap_of(
            None, risks, sensitive_features=table["region"], interval=(0.1, 0.4), higher_is_better=False
        )
        assert gap <= 0.3
        assert model.classifier.result_.gap == pytest.approx(gap)
        assert np.corrcoef(risks, table["test"])[0, 1] < -0.5  # a risk still: predictions are as they were


class TestPositiveLabels:
    @pytest.mark.parametrize(
        ("labels", "positive"),
        [
            (["approved", "denied"], "approved"),
            (["no", "yes"], "yes"),
            (["Not hired", "hired"], "hired"),
            (["bad", "good"], "good"),
            (["no_default", "default"], "default"),
            ([0, 1], 1),
            (["left", "right"], "right"),
            (["F", "M"], "M"),
            (["F", "T"], "T"),
            (["N", "Y"], "Y"),
        ],
    )
    def test_names_say_which(self, labels, positive):
        found = find_positive_label(pd.Series(labels, name="y"), Path("f.csv"), None)
        assert found.value == positive
        other = find_positive_label(pd.Series(labels, name="y"), Path("f.csv"), str(found.other))
        assert other.value == found.other

    def test_it_is_said_before_training(self, run, tmp_path, caplog):
        model_table().to_csv(tmp_path / "table.csv", index=False)
        run(*TRAIN, *BAND)
        lines = [record.getMessage() for record in caplog.records]
        (said,) = [k for k, line in enumerate(lines) if "positive label: hired = yes, not no" in line]
        (fitted,) = [k for k, line in enumerate(lines) if line.startswith("training 2 models")]
        assert said < fitted


class TestPromises:
    @pytest.fixture
    def hopeless(self, tmp_path):
        """One feature, which tells the groups apart: a constant model aside, none is within the gap."""
        rng = np.random.default_rng(2)
        region = rng.choice(["north", "south"], 400)
        test = rng.normal(size=400) + 4.0 * (region == "north")
        hired = np.where(test + rng.normal(size=400) > 2, "yes", "no")
        table = pd.DataFrame({"region": region, "test": test, "hired": hired})
        table.to_csv(tmp_path / "table.csv", index=False)
        return table

    def asked(self, gap):
        return (*TRAIN[:-4], *BAND, "--out", "out", "--max-gap", gap, "--time-limit", 20)

    def test_a_broken_one_never_replaces_a_good_model(self, run, hopeless):
        assert run(*self.asked(1)).code == 0
        good = Path("out/model.skops").read_bytes()
        outcome = run(*self.asked(0.01))
        assert outcome.code == 1
        assert "Constraint NOT satisfied" in outcome.out
        assert "--allow-infeasible" in outcome.out
        assert Path("out/model.skops").read_bytes() == good
        record = json.loads(Path("out/train.json").read_text())
        assert record["model"] == "model.infeasible.skops"
        assert record["fit"]["satisfied"] is False
        run("predict", "out", "table.csv", "--out", "s.csv").assert_refused_elsewhere("--allow-infeasible")
        renamed = Path("renamed.skops")
        renamed.write_bytes(Path("out/model.infeasible.skops").read_bytes())  # the file says it, not its name
        refused = run("predict", renamed, "table.csv", "--out", "s.csv")
        refused.assert_refused_elsewhere("is an infeasible model", "0.01")
        assert run("predict", "out", "table.csv", "--out", "s.csv", "--allow-infeasible").code == 0
        assert run("predict", "out/model.skops", "table.csv", "--out", "s.csv").code == 0

    def test_what_an_earlier_run_left_is_said(self, run, hopeless):
        run(*self.asked(1))
        assert "left unchanged from an earlier run: model.skops" in run(*self.asked(0.01)).out
        assert "left unchanged from an earlier run: model.infeasible.skops" in run(*self.asked(1)).out

    def test_the_headline_is_about_the_gap_that_was_asked_for(self, run, tmp_path):
        model_table().to_csv(tmp_path / "table.csv", index=False)
        outcome = run(*TRAIN, *BAND, "--constraint", "demographic_parity")
        said = " ".join(outcome.out.split("What fairness costs")[0].split())
        assert "Constraint satisfied: training gap" in said
        assert "on held-out rows. The demographic parity (pDP) gap is" in said
        assert "score above" not in said

    def test_rows_that_were_trained_on_have_no_interval(self, run, tmp_path):
        model_table().to_csv(tmp_path / "table.csv", index=False)
        lines = run(*TRAIN, *BAND).out.replace("with the constraint   ", "with the constraint").splitlines()
        for part, has_one in (("training", False), ("held out", True)):
            rows = [
                line for line in lines if "the constraint " in line and f" {part} " in line and "0." in line
            ]
            assert len(rows) == 2
            assert all(("–" in line) is has_one for line in rows)
        alone = run(*TRAIN, *BAND, "--test-size", 0).out
        assert "95% interval 0" not in alone.split("metric")[0]

    def test_the_surrogate_promises_nothing(self, run, hopeless):
        outcome = run(*self.asked(0.01), "--enforce", "surrogate")
        assert outcome.code == 0
        assert "promise" not in outcome.out


class TestHeldOut:
    def test_an_audit_of_the_file_gives_the_same_numbers(self, run, tmp_path):
        table = model_table(900).assign(person=range(10_000, 10_900))
        table.to_csv(tmp_path / "table.csv", index=False)
        record = run(*TRAIN, *BAND, "--id", "person", "--seed", 5, "--json").json
        held_out = pd.read_csv("out/held_out.csv")
        assert record["split"] == {
            "test_size": 0.2,
            "within": "each group's positives and negatives",
            "seed": 5,
            "folds": None,
            "clusters": None,
        }
        assert len(record["file_sha256"]) == 64
        assert {"python", "partialfair", "numpy", "scikit-learn"} <= record["versions"].keys()
        assert (table["person"].iloc[held_out["row"] - 1].to_numpy() == held_out["person"]).all()
        columns = ("--group", "region", "--label", "hired", "--threshold", 0, *BAND, "--seed", 5, "--json")
        for score, model in (
            ("score", "with the constraint"),
            ("score_unconstrained", "without the constraint"),
        ):
            audited = run("audit", "out/held_out.csv", "--score", score, *columns).json
            assert audited["metrics"] == record["models"][model]["held out"]["metrics"]

    def test_the_record_names_no_solver_that_is_not_installed(self, run, tmp_path, monkeypatch):
        model_table(300).to_csv(tmp_path / "table.csv", index=False)
        monkeypatch.setattr("partialfair.cli.prepare._PACKAGES", ("numpy", "not-installed"))
        record = run(*TRAIN, "--constraint", "none", "--json").json
        assert record["versions"].keys() == {"python", "numpy"}

    def test_names_that_are_taken(self, run, tmp_path):
        model_table().rename(columns={"region": "score"}).assign(row=1.0).to_csv("table.csv", index=False)
        options = ["score" if word == "region" else word for word in TRAIN]
        assert run(*options, *BAND, "--id", "row").code == 0
        assert {"row", "row_", "score", "score_"} <= set(pd.read_csv("out/held_out.csv").columns)
