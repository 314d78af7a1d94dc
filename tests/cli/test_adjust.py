"""``partialfair adjust``: what is written is what the adjuster finds, and maps move other people's scores."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from partialfair import metrics
from partialfair.postprocessing import PartialParityAdjuster
from tests.cli.conftest import COLUMNS

BAND = ("--interval", 0.05, 0.45)
ASKED = (*COLUMNS, *BAND, "--max-gap", 0.1)
FILES = {"adjusted.csv", "map.csv", "map.json", "score_maps.png", "adjust.json"}


def read(path):
    """A table whose floats are those that were written; older versions of pandas round a last digit."""
    table = pd.read_csv(path, dtype=str)
    return table.astype(dict.fromkeys(("score", "adjusted_score"), float))


def gap(table, column):
    return metrics.partial_statistical_parity_difference(
        None, table[column], sensitive_features=table["sex"], interval=BAND[1:]
    )


def test_the_files_hold_what_the_adjuster_finds(run, people, scores, tmp_path):
    record = run("adjust", scores, *ASKED, "--label", "hired", "--out", "out", "--json").json
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    table = read(tmp_path / "out" / "adjusted.csv")
    adjuster = PartialParityAdjuster(BAND[1:], 0.1, min_group_size=10)
    expected = adjuster.fit_transform(people["score"], sensitive_features=people["sex"])
    assert (table["adjusted_score"] == expected).all()
    assert gap(table, "score") == pytest.approx(record["gap_before"])
    assert gap(table, "adjusted_score") == pytest.approx(record["gap"])
    assert record["gap"] <= 0.1 + 1e-12 < record["gap_before"]
    assert record == json.loads((tmp_path / "out" / "adjust.json").read_text())
    assert [line["group"] for line in record["calibration"]] == record["groups"]
    knots = pd.read_csv(tmp_path / "out" / "map.csv")
    assert list(knots.columns) == ["group", "score_from", "score_to"]
    assert set(knots["group"]) == set(people["sex"])


def test_a_map_moves_the_scores_of_others_even_of_one_group(run, people, scores, tmp_path):
    run("adjust", scores, *ASKED, "--out", "out")
    table = read(tmp_path / "out" / "adjusted.csv")
    some = table["sex"] == table["sex"].iloc[0]
    table[some].drop(columns="adjusted_score").to_csv(tmp_path / "new.csv", index=False)
    outcome = run("adjust", "new.csv", *COLUMNS, "--apply", "out/map.json")
    printed = outcome.out.splitlines()
    assert printed[0] == "sex,score,adjusted_score"
    moved = np.array([float(line.split(",")[-1]) for line in printed[1:]])
    assert (moved == table.loc[some, "adjusted_score"]).all()
    again = run("adjust", "new.csv", *COLUMNS, "--apply", "out/map.json", "--out", "applied", "--json").json
    assert again["applied"] == "out/map.json"
    assert {path.name for path in (tmp_path / "applied").iterdir()} == {"adjusted.csv", "adjust.json"}


def test_it_says_what_it_did_and_that_the_group_is_needed(run, scores):
    said = run("adjust", scores, *ASKED, "--label", "hired", "--out", "out").out
    assert "ranks 5–45% from the top" in said
    assert "scoring needs it, which may be unlawful" in said
    assert "calibration" in said


def test_at_a_threshold_shares_above_it_are_alike(run, scores, tmp_path):
    run("adjust", scores, *ASKED, "--threshold", 0.5, "--out", "out")
    table = read(tmp_path / "out" / "adjusted.csv")
    found = metrics.partial_demographic_parity_difference(
        None, table["adjusted_score"], sensitive_features=table["sex"], interval=BAND[1:], threshold=0.5
    )
    assert found <= 0.1 + 1e-12


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["--max-gap is missing"]),
        (("--max-gap", 0.1), ["--interval is missing", "--interval 0 1 for the whole range"]),
        (("--max-gap", 2, *BAND), ["--max-gap must lie in [0, 1], not 2"]),
        (("--max-gap", 0, *BAND), ["--max-gap 0 is smaller than scores without new ties can reach"]),
        (("--max-gap", 0.1, "--interval", "auto"), ["--interval auto"]),
        (("--max-gap", 0.1, *BAND, "--json"), ["--json needs --out"]),
        (("--max-gap", 0.1, *BAND, "--max-knots", 1), ["--max-knots must be at least 10"]),
        (("--max-gap", 0.1, *BAND, "--score-range", 5, 6), ["outside --score-range"]),
        (("--max-gap", 0.1, "--interval", 0, 0.001), ["--min-group-size 10", "widen the interval"]),
        (("--apply", "map.json"), ["map.json"]),
        (("--apply", "map.json", "--max-gap", 0.1), ["--apply", "--max-gap cannot be given"]),
    ],
    ids=str,
)
def test_bad_input_is_refused_in_one_sentence(run, scores, arguments, words):
    outcome = run("adjust", scores, *COLUMNS, *arguments)
    outcome.assert_refused_elsewhere(*words)


def test_groups_without_a_map_are_named(run, people, scores, tmp_path):
    run("adjust", scores, *ASKED, "--out", "out")
    people.assign(sex="other").to_csv(tmp_path / "new.csv", index=False)
    outcome = run("adjust", "new.csv", *COLUMNS, "--apply", "out/map.json")
    outcome.assert_refused_elsewhere("group 'other' of new.csv has no map in out/map.json")


@pytest.mark.parametrize(
    "options", [(), ("--threshold", 0.2), ("--lower-is-better",), ("--gap-scale", "absolute")]
)
def test_an_applied_map_says_the_gap_before_and_after(run, people, scores, tmp_path, options):
    """On what the map was made for, which map.json says; both are the exact gaps of the file."""
    run("adjust", scores, *COLUMNS, *BAND, *options, "--max-gap", 0.05, "--out", "out")
    people.iloc[::2].to_csv(tmp_path / "new.csv", index=False)
    record = run("adjust", "new.csv", *COLUMNS, "--apply", "out/map.json", "--out", "applied", "--json").json
    moved = read(tmp_path / "applied" / "adjusted.csv")
    at_threshold = "--threshold" in options
    name_of_metric = "demographic" if at_threshold else "statistical"
    measure = getattr(metrics, f"partial_{name_of_metric}_parity_difference")
    for name, column in (("gap_before", "score"), ("gap", "adjusted_score")):
        assert record[name] == pytest.approx(
            measure(
                None,
                moved[column],
                sensitive_features=moved["sex"],
                interval=BAND[1:],
                gap_scale="absolute" if "absolute" in options else "interval",
                higher_is_better="--lower-is-better" not in options,
                **({"threshold": 0.2} if at_threshold else {}),
            )
        )
    said = run("adjust", "new.csv", *COLUMNS, "--apply", "out/map.json", "--out", "again").out
    for when, name in (("before", "gap_before"), ("after", "gap")):
        (line,) = [line for line in said.splitlines() if line.startswith(f"{when}: ")]
        assert f"{record[name]:.3f}" in line
    assert "Outside the interval the largest gap" in said


@pytest.mark.parametrize("made_for", [{}, [], {"interval": [2, 3]}, {"interval": "all"}, 3])
def test_a_damaged_purpose_is_refused(run, scores, tmp_path, made_for):
    run("adjust", scores, *COLUMNS, *BAND, "--max-gap", 0.05, "--out", "out")
    path = tmp_path / "out" / "map.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "made_for": made_for}))
    refused = run("adjust", scores, *COLUMNS, "--apply", path)
    refused.assert_refused_elsewhere("out/map.json is damaged")
