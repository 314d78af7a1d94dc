"""Numbers that are on the terminal and on the page are the same, to the last digit shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from partialfair.utils.text import fixed, percent, short_percent
from tests.browser.pages import details, move_to


@pytest.fixture
def script(open_page, audited):
    return open_page(audited[1])


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An audit of tied scores in groups of 160 and 400, whose shares end on halves: terminal and page."""
    directory = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(2)
    groups = np.repeat(["Men", "Women"], [400, 160])
    scores = (rng.normal(size=560) + 0.5 * (groups == "Men")).round(1)
    label = rng.random(560) < 0.4
    frame = pd.DataFrame({"score": scores, "sex": groups, "hired": label.astype(int)})
    frame.to_csv(directory / "scores.csv", index=False)
    page = directory / "page.html"
    options = ["--score", "score", "--group", "sex", "--label", "hired", "--interval", "0.05", "0.30"]
    command = [sys.executable, "-c", "from partialfair.cli import main; main()", "audit", "scores.csv"]
    outcome = subprocess.run(
        [*command, *options, "--threshold", "0.7", "--report", page],
        cwd=directory,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return outcome.stdout, page


def test_python_and_the_page_write_numbers_alike(script):
    """Random ones, decimals that end on a half, halves exactly between two, and neighbours of both."""
    rng = np.random.default_rng(0)
    halves = np.concatenate([np.arange(2001) / 2000, np.arange(1025) / 1024, np.arange(400) / 400])
    values = np.concatenate(
        [rng.random(2000), halves, np.nextafter(halves, 2), np.nextafter(halves, -1), -halves, 100 * halves]
    ).tolist()
    for digits in (0, 1, 3):
        shown = script.evaluate("([values, digits]) => values.map(x => fixed(x, digits))", [values, digits])
        assert shown == [fixed(value, digits) for value in values]
    shares = script.evaluate("values => values.map(x => percent(x, 1))", values)
    assert shares == [percent(value) for value in values]
    percents = [k / 8 for k in range(801)]
    ends = script.evaluate("values => values.map(x => `${general(x, 4)}%`)", percents)
    assert ends == [short_percent(value / 100) for value in percents]
    scales = 10.0 ** rng.integers(-12, 16, 3000)
    scores = [*(rng.normal(size=3000) * scales), *values, 1234565.0, 1234575.0, 0.5, 100000.0, 999999.5, 1e-5]
    shown = script.evaluate("values => values.map(x => general(x))", [float(score) for score in scores])
    assert shown == [f"{score + 0.0:.6g}" for score in scores]


def lines_of(text, name):
    return [line for line in text.splitlines() if line.startswith(name)]


def test_the_terminal_and_the_page_say_the_same(audited, open_page):
    text, file = audited
    page = open_page(file)
    rows = page.locator("#metrics tbody tr")
    section = details(page, "As audited")
    for k in range(rows.count()):
        title, gap = rows.nth(k).locator("th, td").all_text_contents()[:2]
        line = lines_of(text, title)[0]
        assert line[len(title) :].split()[0] == gap
        static = section.locator("tbody tr").filter(has_text=title).locator("td").all_text_contents()
        assert static[0] == gap
        assert static[1] in line
    for cells in [
        row.locator("th, td").all_text_contents() for row in page.locator("#groups tbody tr").all()
    ]:
        (line,) = lines_of(text, f"{cells[0]}  ")
        assert line.split()[1] == cells[1]
    words, sentence = " ".join(text.split()), page.locator("#sentence").text_content()
    shares = re.search(r"Of the members there, ([\d.]+)% of (\w+) but ([\d.]+)% of (\w+)", words)
    for share, group in (shares.group(1, 2), shares.group(3, 4)):
        assert re.search(rf"{share}% of (the interval|that) of {group}\b", sentence)
    count = re.search(r"band, simultaneous for all ([\d,]+) intervals", words)[1]
    assert f"band, simultaneous for all {count} intervals" in page.locator("#map-text").text_content()
    gap, begin, end, low, high = re.search(
        r"any interval of 25% of the ranks is ([\d.]+), at ranks (\d+)–(\d+)%"
        r".*intervals: ([\d.]+) – ([\d.]+)",
        words,
    ).groups()
    move_to(page, int(begin), int(end))
    first = rows.first.locator("td").all_text_contents()
    assert first[:2] == [gap, f"{low} – {high} band"]
