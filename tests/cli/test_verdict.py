"""What train and path begin with: the answer, before and after, and what the test set can tell."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from partialfair.cli.output import PlainTable
from partialfair.cli.verdict import Side, difference_sentence
from partialfair.metrics import compare_gaps, fairness_report, partial_statistical_parity_difference
from partialfair.metrics.paired import GapDifference
from tests.cli.conftest import BAND, TRAIN

ASKED = (*TRAIN[:-1], 0.1, "--out", "out")


def difference(value, low, high):
    return GapDifference("statistical_parity", 0.5, 0.5 + value, value, low, high, low, high, 0.5)


@pytest.mark.parametrize("limit", [None, 0.1, 0.999])
def test_what_an_interval_says_of_the_limit(limit):
    rng = np.random.default_rng(0)
    groups = np.repeat(["A", "B"], 200)
    scores = rng.normal(size=400) + 0.2 * (groups == "A")
    report = fairness_report(
        None, scores, sensitive_features=groups, interval=(0.2, 0.6), n_resamples=100, random_state=0
    )
    row = report["statistical_parity"]
    assert 0.1 < row.ci_high < 0.999
    words = Side("After", "", report, limit).gap_in_words("statistical_parity", unseen=True)
    assert "B is worse off." in words
    assert ("reaches above the limit 0.1" in words) == (limit == 0.1)
    assert ("lies within the limit 0.999" in words) == (limit == 0.999)
    assert "limit" not in Side("After", "", report, limit).gap_in_words("statistical_parity", unseen=False)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (difference(-0.2, -0.3, -0.1), "it is smaller than without the constraint"),
        (difference(-0.2, -0.5, 0.1), "the test set is too small to show that the gap became smaller"),
        (difference(0.1, -0.2, 0.3), "these rows do not show that the gap became smaller"),
        (difference(0.2, 0.1, 0.3), "it is larger than without the constraint"),
        (difference(0.0, 0.0, 0.0), "the constraint changed nothing"),
        (difference(*[np.nan] * 3), "is undefined"),
    ],
)
def test_what_a_difference_shows(row, words):
    assert words in difference_sentence(row, 0.95, "held-out rows")


def test_the_difference_is_that_of_the_held_out_rows(run, tmp_path, file):
    outcome = run(*ASKED, "--json")
    told = outcome.json["difference_from_unconstrained"]
    scored = pd.read_csv(tmp_path / "out" / "held_out.csv")
    expected = compare_gaps(
        scored["hired"] == "yes",
        scored["score_unconstrained"],
        scored["score"],
        sensitive_features=scored["sex"],
        interval=BAND[1:],
        pos_label=True,
        random_state=0,
        n_resamples=100,
        metrics=["statistical_parity"],
    )["statistical_parity"]
    assert [told[name] for name in ("difference", "ci_low", "ci_high")] == pytest.approx(
        [expected.difference, expected.ci_low, expected.ci_high]
    )
    said = " ".join(run(*ASKED).out.split())
    assert f"the gap changed by {expected.difference:+.3f}" in said


def test_the_gap_outside_the_interval_is_that_of_the_two_models(run, tmp_path, file):
    record = run(*ASKED, "--json").json
    scored = pd.read_csv(tmp_path / "out" / "held_out.csv")
    for when, column in (("before", "score_unconstrained"), ("after", "score")):
        told = record["outside_the_interval"][when]
        low, high = told["interval"]
        assert high <= BAND[1] + 1e-12 or low >= BAND[2] - 1e-12
        expected = partial_statistical_parity_difference(
            None, scored[column], sensitive_features=scored["sex"], interval=(low, high)
        )
        assert told["gap"] == pytest.approx(expected)
        assert told["ci_low"] <= told["gap"] <= told["ci_high"]
    said = " ".join(run(*ASKED).out.split())
    gaps = [f"{record['outside_the_interval'][when]['gap']:.3f}" for when in ("before", "after")]
    sentence = said[said.index("Outside the interval") :]
    assert sentence.index(gaps[0]) < sentence.index(gaps[1])
    assert "corrected for the search" in sentence


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("statistical_parity", ("--decision-threshold", "tune")),
        ("demographic_parity", ("--constraint", "demographic_parity")),
    ],
)
def test_the_difference_is_that_of_the_gaps_that_are_shown(run, file, metric, options):
    record = run(*ASKED, *options, "--json").json
    gaps = [each["held out"]["metrics"][metric]["gap"] for each in record["models"].values()]
    assert record["difference_from_unconstrained"]["difference"] == pytest.approx(gaps[1] - gaps[0])


def test_nothing_lies_outside_whole_groups(run, file):
    options = ("--target", "hired", "--group", "sex", "--id", "person", "--max-gap", 0.3, "--out", "out")
    assert (
        run("train", "table.csv", *options, "--interval", 0, 1, "--json").json["outside_the_interval"] is None
    )


def test_training_rows_have_no_difference(run, file):
    outcome = run(*ASKED, "--test-size", 0, "--json")
    assert outcome.json["difference_from_unconstrained"] is None
    said = " ".join(run(*ASKED, "--test-size", 0).out.split())
    assert "on the training rows" in said[said.index("Outside the interval") :]
    assert "corrected for the search" not in said  # confidence is about rows that were not trained on


def test_path_compares_the_strictest_with_the_first(run, file):
    columns = ("--target", "hired", "--group", "sex", "--drop", "person")
    options = (*columns, *BAND, "--max-gaps", "0.1,0.3", "--out", "out")
    record = run("path", file, *options, "--json").json
    assert record["models"][record["compared_model"]]["max_gap"] == 0.1
    said = run("path", file, *options).out
    assert said.index("Before, no constraint") < said.index("After, max gap 0.1")
    change = record["difference_from_unconstrained"]["difference"]
    gaps = [record["models"][place]["gap"] for place in (record["compared_model"], 0)]
    assert change == pytest.approx(gaps[0] - gaps[1])
    assert {*record["outside_the_interval"]} == {"before", "after"}
    assert "Outside the interval the largest gap" in said


def test_the_group_that_is_too_small_is_named_with_the_remedy(run, tmp_path):
    """Eleven members of one group differ from all others: their gap to the others is a multiple of 1/11."""
    sizes = {"many": 500, "more": 480, "few": 44}
    group = np.repeat([*sizes], [*sizes.values()])
    rng = np.random.default_rng(0)
    test = rng.normal(size=group.size) + 9 * (group == "few")
    hired = np.where(test + rng.normal(size=group.size) > 0.5, "yes", "no")
    noise = rng.normal(size=group.size)
    table = pd.DataFrame({"group": group, "test": test, "noise": noise, "hired": hired})
    table.loc[table["group"] == "few", "hired"] = np.where(rng.random(44) < 0.5, "yes", "no")
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--target", "hired", "--group", "group", "--interval", 0.2, 0.5, "--test-size", 0)
    outcome = run("train", "t.csv", *options, "--max-gap", 0.14, "--out", "out")
    said = " ".join(outcome.out.split())
    assert outcome.code == 1
    advice = re.search(
        r"what to do: group few has 13 effective members .* --min-group-size (\d+) leaves it", said
    )
    assert advice is not None, said
    assert "more features" not in said
    again = run("train", "t.csv", *options, "--max-gap", 0.14, "--min-group-size", advice[1], "--out", "out")
    assert again.code == 0


def test_merged_groups_keep_their_names(run, table, tmp_path):
    some = table.assign(
        sex=np.where(np.arange(len(table)) % 20 < 2, ["x", "y"] * (len(table) // 2), table["sex"])
    )
    some.to_csv(tmp_path / "table.csv", index=False)
    options = (*ASKED, "--small-groups", "merge", "--min-group-size", 20)
    record = run(*options, "--json").json
    assert record["merged_groups"] == ["x", "y"]
    assert "'small groups': 'x' and 'y'" in " ".join(record["notes"])


def test_narrow_terminals_leave_columns_out():
    def lines(width):
        table = PlainTable(optional=("second", "third"))
        for title in ("first", "second", "third"):
            table.add_column(title, no_wrap=True)
        table.add_row("a" * 10, "b" * 10, "c" * 10)
        console = Console(width=width)
        with console.capture() as captured:
            console.print(table)
        return captured.get().splitlines()

    for width, titles in ((40, ["first", "second", "third"]), (30, ["first", "second"]), (15, ["first"])):
        header, row = lines(width)
        assert header.split() == titles
        assert row.split() == ["a" * 10, "b" * 10, "c" * 10][: len(titles)]
