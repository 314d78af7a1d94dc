from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from partialfair.metrics import compare_gaps
from tests.cli.conftest import COLUMNS

BAND = ("--interval", 0.1, 0.35)


@pytest.fixture
def new(people, tmp_path) -> pd.DataFrame:
    """Another model's scores of the same people, also written to new.csv."""
    noise = np.random.default_rng(1).normal(scale=0.3, size=len(people))
    frame = people.assign(score=people["score"] + noise + 0.3 * (people["sex"] == "f"))
    frame.to_csv(tmp_path / "new.csv", index=False)
    return frame


def models(outcome):
    """What was found about each model, but for where it was read from."""
    return [{**model, "file": None, "name": None} for model in outcome.json["models"]]


def test_each_model_is_audited_as_it_would_be_alone(run, scores, new):
    options = (*COLUMNS, *BAND, "--label", "hired", "--threshold", 0.5, "--weight", "weight", "--json")
    outcome = run("compare", scores, "new.csv", *options)
    assert outcome.json["schema"] == "partialfair.compare/1"
    assert [model["name"] for model in outcome.json["models"]] == ["scores", "new"]
    for model, file in zip(outcome.json["models"], (scores, "new.csv"), strict=True):
        assert model["metrics"] == run("audit", file, *options).json["metrics"]


@pytest.mark.parametrize("weight", [[], ["--weight", "weight"]])
def test_as_many_enter_as_leave(run, scores, new, weight):
    outcome = run("compare", scores, "new.csv", *COLUMNS, *BAND, *weight, "--json")
    assert outcome.json["models"][0]["changes_from_first"] is None
    changes = outcome.json["models"][1]["changes_from_first"]
    assert set(changes) == {"f", "m"}
    for change in changes.values():
        assert change["stays"] + change["enters"] == pytest.approx(change["in_interval"])
        assert change["stays"] + change["leaves"] == pytest.approx(change["in_interval"])
        assert change["enters"] > 0


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_are_matched_by_id_in_any_order(run, scores, new, tmp_path, suffix):
    shuffled = new.sample(frac=1, random_state=0)
    write = shuffled.to_csv if suffix == "csv" else shuffled.to_parquet
    write(tmp_path / f"shuffled.{suffix}", index=False)
    by_order = run("compare", scores, "new.csv", *COLUMNS, *BAND, "--json")
    by_id = run("compare", scores, f"shuffled.{suffix}", *COLUMNS, *BAND, "--id", "person", "--json")
    assert models(by_id) == models(by_order)


def test_ids_are_text_whatever_the_file_made_of_them(run, people, scores, tmp_path):
    people.assign(person=np.arange(600)).to_parquet(tmp_path / "whole.parquet")
    people.assign(person=[str(k) for k in range(600)]).to_csv(scores, index=False)
    assert run("compare", "whole.parquet", scores, *COLUMNS, "--id", "person").code == 0


def small(scores):
    """Eight crowds of ten, each with scores around one number."""
    return pd.DataFrame(
        {
            "person": [f"{crowd}{k}" for crowd in "abcdwxyz" for k in range(10)],
            "score": [score + k / 20 for score in scores for k in range(10)],
            "team": ["p"] * 40 + ["q"] * 40,
        }
    )


@pytest.mark.parametrize(("id_options", "first_columns"), [(["--id", "person"], "person"), ([], "row")])
def test_movers_are_listed(run, tmp_path, id_options, first_columns):
    old, new = small([4, 3, 2, 1, 4, 3, 2, 1]), small([1, 4, 3, 2, 14, 13, 12, 11])
    old.to_csv(tmp_path / "old.csv", index=False)
    (new.iloc[::-1] if id_options else new).to_csv(tmp_path / "new.csv", index=False)
    options = ("--score", "score", "--group", "team", *id_options, "--interval", 0.25, 0.5)
    outcome = run("compare", "old.csv", "new.csv", *options, "--out", "out")
    assert outcome.code == 0
    shown = " ".join(outcome.out.split())
    assert "from old to new: group in the interval stay enter leave p 10 0 10 10 q 10 10 0 0" in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "compare.json",
        "movers.csv",
        "rank_curves.png",
    }
    leaving, entering = (
        [f"{crowd}{k}" if id_options else str(first + k) for k in range(10)]
        for crowd, first in (("b", 11), ("c", 21))
    )
    assert (tmp_path / "out" / "movers.csv").read_text().splitlines() == [
        f"{first_columns},team,in interval: old,in interval: new",
        *(f"{name},p,1.0,0.0" for name in leaving),
        *(f"{name},p,0.0,1.0" for name in entering),
    ]
    record = json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert {*record.pop("files")} == {"movers.csv", "rank_curves.png"}
    assert record == run("compare", "old.csv", "new.csv", *options, "--json").json


def test_three_models_are_compared_with_the_first(run, scores, new):
    found = run("compare", scores, "new.csv", scores, *COLUMNS, *BAND, "--json").json
    assert len({model["name"] for model in found["models"]}) == 3
    for change in found["models"][2]["changes_from_first"].values():
        assert change["enters"] == change["leaves"] == 0


@pytest.mark.filterwarnings("ignore::UserWarning")  # the library's own, about the threshold and few people
def test_differences_are_those_of_the_library(run, people, scores, new):
    options = (*COLUMNS, *BAND, "--label", "hired", "--threshold", 0.5, "--weight", "weight")
    first, second = run("compare", scores, "new.csv", *options, "--json").json["models"]
    assert first["difference_from_first"] is None
    found = compare_gaps(
        people["hired"] == "yes",
        people["score"],
        new["score"],
        sensitive_features=people["sex"],
        interval=BAND[1:],
        threshold=0.5,
        sample_weight=people["weight"],
        n_resamples=100,
        random_state=0,
    )
    told = second["difference_from_first"]
    assert list(told) == [row.metric for row in found.metrics]
    for row in found.metrics:
        expected = {
            "ci_low": row.ci_low,
            "ci_high": row.ci_high,
            "upper_bound": row.upper_bound,
            "p_value": row.p_value,
        }
        assert {key: told[row.metric][key] for key in expected} == pytest.approx(expected)
        assert told[row.metric]["verdict"] == row.verdict
        gaps = [model["metrics"][row.metric]["gap"] for model in (first, second)]
        assert told[row.metric]["difference"] == pytest.approx(gaps[1] - gaps[0])


def test_a_smaller_gap_is_shown_and_an_equal_one_is_not(run, people, tmp_path):
    even = people.assign(score=np.random.default_rng(0).normal(size=len(people)))
    even.to_csv(tmp_path / "even.csv", index=False)
    apart = even.assign(score=even["score"] + 3 * (people["sex"] == "m"))
    apart.to_csv(tmp_path / "apart.csv", index=False)
    outcome = run("compare", "apart.csv", "even.csv", "apart.csv", *COLUMNS, *BAND, "--report", "page.html")
    better, same = (part.partition(":")[2] for part in outcome.out.split("Does ")[1:3])
    assert "smaller gap" in better
    assert "larger gap" not in better
    assert "inconclusive" in same
    assert "smaller gap" not in same
    assert "fair" not in outcome.out  # a gap is smaller; whether that is fairer no number says
    worse = run("compare", "even.csv", "apart.csv", *COLUMNS, *BAND).out
    assert "larger gap" in worse
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Differences of gaps" in page
    assert "smaller gap" in page


@pytest.mark.parametrize("small", ["list", "merge", "keep"])
def test_groups_that_are_small_are_compared_as_they_are_audited(run, people, tmp_path, small):
    groups = np.where(np.arange(len(people)) < 25, "few", people["sex"])
    groups[:12] = "fewer"
    people.assign(sex=groups).to_csv(tmp_path / "old.csv", index=False)
    people.assign(sex=groups, score=people["score"] ** 3).to_csv(tmp_path / "new.csv", index=False)
    found = run("compare", "old.csv", "new.csv", *COLUMNS, *BAND, "--small-groups", small, "--json").json
    first, second = found["models"]
    for metric, told in second["difference_from_first"].items():
        gaps = [model["metrics"][metric]["gap"] for model in (first, second)]
        assert told["difference"] == pytest.approx(gaps[1] - gaps[0])


def test_files_of_one_name_are_told_apart_by_their_paths(run, people, tmp_path):
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        people.to_csv(tmp_path / folder / "scores.csv", index=False)
    found = run("compare", "first/scores.csv", "second/scores.csv", *COLUMNS, "--json").json
    assert [model["name"] for model in found["models"]] == ["first/scores.csv", "second/scores.csv"]


def test_an_undefined_gap_is_called_so(run, people, scores):
    people.assign(hired=np.where((people["sex"] == "f") | (people["score"] < 0), 0, 1)).to_csv(
        scores, index=False
    )
    shown = run("compare", scores, scores, *COLUMNS, *BAND, "--label", "hired", "--threshold", 0.5).out
    assert "undefined" in shown
    assert "nan" not in shown


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f.head(599), [], ["other.csv has 599 rows", "has 600", "--id"]),
        (lambda f: f.assign(sex=[*f["sex"][1:], "f"]), [], ["other.csv", "into other groups", "data row"]),
        (lambda f: f.head(599), ["--id", "person"], ["other.csv lacks 'p"]),
        (lambda f: f.assign(person=["new", *f["person"][1:]]), ["--id", "person"], ["other.csv lacks 'p"]),
        (
            lambda f: f.assign(person=["p001", "p001", *f["person"][2:]]),
            ["--id", "person"],
            ["'person' of other.csv repeats 'p001'"],
        ),
        (lambda f: f.assign(person=["", *f["person"][1:]]), ["--id", "person"], ["'person'", "data row 1"]),
        (lambda f: f.assign(sex=f["sex"].str.upper()), ["--id", "person"], ["into other groups"]),
        (lambda f: f.assign(score="x"), [], ["'score' of other.csv", "'x'"]),
        (lambda f: f, ["--interval", 0.4, 0.2], ["interval (0.4, 0.2)"]),
        (lambda f: f, ["--confidence", 2], ["--confidence"]),
    ],
)
def test_refusals(run, people, scores, tmp_path, change, options, words):
    change(people).to_csv(tmp_path / "other.csv", index=False)
    outcome = run("compare", scores, "other.csv", *COLUMNS, *options, "--out", "out")
    outcome.assert_refused(*words)


def test_one_file_is_not_enough(run, scores):
    run("compare", scores, *COLUMNS).assert_refused("at least two files", "audit")


@pytest.mark.parametrize("id_column", [[], ["--id", "person"]])
def test_people_without_a_group_in_every_file_are_the_same_people(run, people, new, id_column):
    unknown = people.index < 30
    for frame, name in ((people, "old.csv"), (new, "new.csv")):
        frame.assign(sex=frame["sex"].mask(unknown)).to_csv(name, index=False)
    options = (*COLUMNS, *BAND, "--missing-groups", "ignore", *id_column, "--json")
    outcome = run("compare", "old.csv", "new.csv", *options)
    for frame, name in ((people, "a.csv"), (new, "b.csv")):
        frame[~unknown].to_csv(name, index=False)
    others = run("compare", "a.csv", "b.csv", *COLUMNS, *BAND, "--json")
    changes = [one.json["models"][1]["changes_from_first"] for one in (outcome, others)]
    assert changes[0] == changes[1]
    new.assign(sex=new["sex"].mask(people.index < 31)).to_csv("new.csv", index=False)
    run("compare", "old.csv", "new.csv", *options).assert_refused(
        "puts 1 rows into other groups", "or into none"
    )
