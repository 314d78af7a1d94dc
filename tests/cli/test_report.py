"""``--report``: the interactive page of every command that has one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import COLUMNS


def data_of(path):
    page = Path(path).read_text(encoding="utf-8")
    return page, json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))


def test_audit(run, scores):
    done = run("audit", scores, *COLUMNS, "--label", "hired", "--interval", 0.1, 0.4, "--report", "page.html")
    assert done.code == 0
    assert "open in a browser: page.html" in done.out
    page, data = data_of("page.html")
    assert data["settings"]["interval"] == [10, 40]
    assert sum(group["n"] for group in data["models"][0]["groups"]) == 600
    assert "positive label: yes" in page


def test_a_page_may_lie_in_the_directory_of_out(run, scores):
    assert run("audit", scores, *COLUMNS, "--out", "made", "--report", "made/page.html").code == 0
    assert Path("made/page.html").exists()


def test_json_is_still_only_json(run, scores):
    assert run("audit", scores, *COLUMNS, "--report", "page.html", "--json").json["schema"]
    assert Path("page.html").exists()


def test_compare(run, scores, people, tmp_path):
    other = people.assign(score=-people["score"])
    other.to_csv(tmp_path / "other.csv", index=False)
    done = run("compare", scores, "other.csv", *COLUMNS, "--interval", 0.1, 0.4, "--report", "page.html")
    assert done.code == 0
    page, data = data_of("page.html")
    assert [model["name"] for model in data["models"]] == [Path(scores).stem, "other"]
    assert data["settings"]["model"] == 1
    assert "Who enters and leaves the interval" in page
    assert "Rows that enter and leave: as audited" in page


def test_train_and_path(run, people, tmp_path):
    people.drop(columns=["score", "code"]).assign(merit=people["score"]).to_csv("people.csv", index=False)
    common = ("people.csv", "--target", "hired", "--group", "sex", "--id", "person", "--interval", 0.1, 0.6)
    assert run("train", *common, "--max-gap", 0.3, "--out", "m", "--report", "train.html").code == 0
    page, data = data_of("train.html")
    assert [model["name"] for model in data["models"]] == ["without the constraint", "with the constraint"]
    for words in ("Accuracy and AUC", "Fits and KKT certificates", "stationarity", "max_gap"):
        assert words in page
    assert run("path", *common, "--max-gaps", "0.3,1", "--out", "p", "--report", "path.html").code == 0
    page, data = data_of("path.html")
    assert [point["model"] for point in data["frontier"]["points"]] == [0, 1, 2]
    assert data["models"][0]["name"] == "no constraint"
    assert "Frontier" in page
    lines = json.loads(Path("p/path.json").read_text())["models"]
    assert [point["gap"] for point in data["frontier"]["points"]] == [line["gap"] for line in lines]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("page.txt", ("--report", ".html", "page.txt")),
        ("nowhere/page.html", ("--report", "no directory nowhere")),
        ("folder.html", ("folder.html", "is a directory")),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_any_work(run, report, words):
    Path("folder.html").mkdir()
    run("audit", "absent.csv", *COLUMNS, "--report", report).assert_refused(*words)


def test_names_in_the_file_are_text(run, people):
    people.assign(sex=people["sex"].map({"f": "<script>x</script>", "m": "&amp;"})).to_csv(
        "s.csv", index=False
    )
    assert run("audit", "s.csv", *COLUMNS, "--report", "page.html").code == 0
    page, data = data_of("page.html")
    assert page.count("<script>") == 1  # the page's own
    assert {group["name"] for group in data["models"][0]["groups"]} == {"<script>x</script>", "&amp;"}
