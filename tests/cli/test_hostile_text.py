"""Names that mean something to rich, matplotlib, CSV or HTML are only names."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pandas as pd
import pytest

from partialfair.utils.text import LONGEST_MESSAGE, json_visible, message_text, visible

PLAIN = [
    "[red]x[/red]",
    "$x_1$",
    "$",
    "_hidden",
    "<script>alert(1)</script>",
    r"\frac{1}{2}^",
    "ends in \\",
    "{curly} %s %",
    ":smile:",
    "🎉 日本 naïve",
    'comma, "quote"',
    "=1+1",
]
AWKWARD = ["two\nlines", "long " * 60, "x" * 300, "  "]
FILE = "[bold]scores $1 :smile:.csv"
SCORE, GROUP = "the [b]score[/b], in %", "group: [/] $ "


@pytest.fixture
def table(tmp_path) -> str:
    names = PLAIN + AWKWARD
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({GROUP: np.resize(names, 40 * len(names)), "other": "y"})
    frame[SCORE] = rng.normal(size=len(frame)) + 0.1 * (frame.index % len(names))
    frame.to_csv(tmp_path / FILE, index=False)
    return FILE


def test_names_come_out_as_they_went_in(run, table):
    outcome = run("audit", table, "--score", SCORE, "--group", GROUP)
    assert outcome.code == 0
    assert outcome.out.startswith(f"{table}: ranks ")
    for name in PLAIN:
        assert f"\n{name} " in outcome.out
    found = run("audit", table, "--score", SCORE, "--group", GROUP, "--json").json
    assert {group["group"] for group in found["groups"]} == {*PLAIN, *AWKWARD}


def test_crossed_names(run, table):
    found = run("audit", table, "--score", SCORE, "--group", GROUP, "--group", "other", "--json").json
    assert {group["group"] for group in found["groups"]} == {f"{name} × y" for name in PLAIN + AWKWARD}


@pytest.mark.usefixtures("painted")
def test_pictures_are_drawn_without_a_word(run, table, tmp_path):
    audit = run("audit", table, "--score", SCORE, "--group", GROUP, "--interval", 0.1, 0.5, "--out", "a")
    assert (audit.code, audit.err) == (0, "")
    compare = run("compare", table, table, "--score", SCORE, "--group", GROUP, "--out", "b")
    assert (compare.code, compare.err) == (0, "")
    sizes = [path.stat().st_size for folder in "ab" for path in (tmp_path / folder).glob("*.png")]
    assert len(sizes) == 4
    assert min(sizes) > 10_000


def test_names_in_refusals_stay_on_one_line(run, tmp_path):
    pd.DataFrame({"a\nb": [1.0, 2.0], "g": ["x", "y\nz"]}).to_csv(tmp_path / "scores.csv", index=False)
    run("audit", "scores.csv", "--score", "c\nd", "--group", "g").assert_refused(r"'c\nd'", r"'a\nb'")
    options = ("--score", "a\nb", "--group", "g", "--interval", 0, 0.5)
    run("audit", "scores.csv", *options).assert_refused(r"'y\nz' (0 effective members)")


ACTING = [
    "\x1b[31mred",
    "\x07bell",
    "\x9b2Jclear",
    "\u202eright to left",
    "\u2066isolate",
    "tab\there",
    "\x7fdel",
]
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def acting_table(path):
    """Groups, columns and a file name that would act on a terminal."""
    n = 40 * len(ACTING)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({ACTING[0]: np.resize(ACTING, n), "score\x1b[2J": rng.normal(size=n)})
    frame["label"] = np.where(rng.random(n) < 0.5, ACTING[1], ACTING[3])
    frame.to_csv(path, index=False)
    return path.name


class TestControlCharacters:
    def test_are_escaped_in_tables_and_log_lines(self, run, tmp_path):
        name = acting_table(tmp_path / "a\x1b]0;title\x07.csv")
        columns = ("--score", "score\x1b[2J", "--group", ACTING[0], "--label", "label", "--threshold", 0)
        outcome = run("audit", name, *columns, "--out", "out\x1b[31m", "--report", "a.html")
        assert outcome.code == 0, outcome.err
        assert not RAW.search(outcome.out + outcome.err)
        assert "\\x1b[31mred" in outcome.out
        assert "\\u202eright to left" in outcome.out
        compared = run("compare", name, name, *columns)
        assert not RAW.search(compared.out + compared.err)

    def test_survive_in_json(self, run, tmp_path):
        name = acting_table(tmp_path / "a.csv")
        outcome = run("audit", name, "--score", "score\x1b[2J", "--group", ACTING[0], "--json")
        assert not RAW.search(outcome.out)
        assert {group["group"] for group in outcome.json["groups"]} == set(ACTING)

    def test_are_escaped_in_refusals(self, run, tmp_path):
        name = acting_table(tmp_path / "a\x1b[31m.csv")
        for options in (
            ("--score", "\x1b[2J", "--group", ACTING[0]),
            ("--score", ACTING[0], "--group", "label"),
            ("--score", "score\x1b[2J", "--group", "score\x1b[2J"),
        ):
            outcome = run("audit", name, *options)
            outcome.assert_refused("a\\x1b[31m.csv")
            assert not RAW.search(outcome.err)
        run("audit", "\x1b[2J.csv", *options).assert_refused("no file \\x1b[2J.csv")


def test_messages_are_short(run, tmp_path):
    (tmp_path / "a.csv").write_text(f"{'x' * 50_000},{'y' * 50_000}\n{'z' * 50_000},2\n1,3\n")
    for score in ("s" * 20_000, "x" * 50_000):
        outcome = run("audit", "a.csv", "--score", score, "--group", "y" * 50_000)
        outcome.assert_refused()
        assert len(outcome.err) <= 1000
    outcome = run("audit", "n" * 3000, "--score", "s", "--group", "g")
    outcome.assert_refused()
    assert len(outcome.err) <= 1000


@pytest.mark.parametrize("text", ["", "plain", "a" * 5000, "\x1b" * 5000, "two\nlines", os.fsdecode(b"\xff")])
def test_message_text(text):
    found = message_text(text)
    assert len(found) <= LONGEST_MESSAGE
    assert visible(found) == found
    found.encode()
    if text.isalpha() and len(text) < LONGEST_MESSAGE:
        assert found == text


def test_json_visible_says_the_same():
    record = {"a": "\x9b\u202e\x7f\udcff", "b": [1, "x\ny"]}
    text = json_visible(json.dumps(record, ensure_ascii=False, indent=1))
    assert json.loads(text) == record
    assert not RAW.search(text)
