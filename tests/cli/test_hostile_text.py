"""Names that mean something to rich, matplotlib, CSV or HTML are only names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

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
    run("audit", "scores.csv", *options).assert_refused(r"'y\nz' (0.5 effective members)")
