"""Terminal, JSON, data frame, HTML report and notebook have the same numbers, on three data sets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from html import unescape

import numpy as np
import pandas as pd
import pytest

from partialfair.datasets import make_admissions
from partialfair.exceptions import ThresholdOutsideIntervalWarning
from partialfair.metrics import fairness_report
from partialfair.metrics.catalogue import METRICS
from tests.browser.pages import EXACT, details


def admissions():
    data = make_admissions(3000, seed=1)
    frame = pd.DataFrame(
        {
            "score": data.historical_score,
            "group": np.asarray(data.sensitive_features, dtype=str),
            "label": data.y,
        }
    )
    return frame, {"interval": (0.15, 0.4), "threshold": float(np.quantile(frame["score"], 0.72))}


def risks():
    """Tied risks, of which low ones are good, with weights; the threshold lies outside the interval."""
    rng = np.random.default_rng(2)
    group = rng.choice(["a", "b", "c, <d>"], 1500, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame({"score": (rng.normal(size=1500) + 0.4 * (group == "b")).round(1), "group": group})
    frame = frame.assign(label=(rng.random(1500) < 0.4).astype(int), weight=rng.uniform(0.5, 2, 1500))
    return frame, {"interval": (0.5, 0.8), "threshold": -1.0, "higher_is_better": False}


def grades():
    """Grades without labels, on the absolute scale."""
    rng = np.random.default_rng(3)
    group = np.repeat(["North", "South"], [700, 500])
    scores = np.clip((rng.normal(size=1200) + 0.5 * (group == "North")).round() + 3, 1, 5)
    return pd.DataFrame({"score": scores, "group": group}), {"interval": (0.1, 0.6), "gap_scale": "absolute"}


OPTIONS = {
    "interval": lambda value: ["--interval", *map(str, value)],
    "threshold": lambda value: [f"--threshold={value!r}"],
    "gap_scale": lambda value: ["--gap-scale", value],
    "higher_is_better": lambda value: [] if value else ["--lower-is-better"],
}


@pytest.fixture(params=[admissions, risks, grades], ids=lambda made: made.__name__)
def audited(request, tmp_path):
    """An audit by the command line: what it printed and its folder; and the same report in Python."""
    frame, settings = request.param()
    frame.to_csv(tmp_path / "scores.csv", index=False)
    columns = [f"--{name}={name}" for name in frame.columns if name != "weight"]
    columns += ["--weight=weight"] if "weight" in frame else []
    chosen = [text for name, value in settings.items() for text in OPTIONS[name](value)]
    command = [sys.executable, "-c", "from partialfair.cli import main; main()", "audit", "scores.csv"]
    done = subprocess.run(
        [*command, *columns, *chosen, "--out", "made", "--report", "page.html"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "250"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    warnings.simplefilter("ignore", ThresholdOutsideIntervalWarning)
    report = fairness_report(
        frame.get("label"),
        frame["score"],
        sensitive_features=frame["group"],
        sample_weight=frame.get("weight"),
        random_state=0,
        **settings,
    )
    return done.stdout, tmp_path, report


def same(value):
    """The number, where nan and null are those that are not there."""
    return pytest.approx(value, abs=EXACT, nan_ok=True)


def test_five_outputs_have_the_same_numbers(audited, open_page):
    terminal, directory, report = audited
    record = json.loads((directory / "made" / "audit.json").read_text(encoding="utf-8"))["metrics"]
    frame = report.to_frame()
    assert {*record} == {*frame.index}
    page = open_page(directory / "page.html")
    static = details(page, "As audited")
    notebook = re.sub(r"<[^>]*>", " ", report._repr_html_())
    notebook = " ".join(unescape(notebook).split())
    for metric, row in frame.iterrows():
        described, line = METRICS[metric], record[metric]
        start = described.title.split(" (")[0]
        lines = [" ".join(text.split()) for text in terminal.splitlines() if text.startswith(start)]
        printed = lines[0]  # the table comes before sentences about it
        for name in ("gap", "ci_low", "ci_high", "lower_bound", "upper_bound"):
            assert (np.nan if line[name] is None else line[name]) == same(row[name]), (metric, name)
        folded = static.locator("tbody tr").filter(has_text=described.title).locator("td").all_text_contents()
        shown = page.locator(f"td[data-metric='{metric}'][data-value]")
        if np.isnan(row["gap"]):
            missing = report[metric].missing_text
            assert shown.text_content() == folded[0] == line["reason"] == missing
            assert missing in printed
            assert f"{described.title} {missing}" in notebook
            continue
        assert float(shown.get_attribute("data-value")) == same(row["gap"])
        beside = page.locator(f"td[data-metric='{metric}'][data-interval]")
        ends = [float(beside.get_attribute(f"data-{end}")) for end in ("low", "high")]
        assert ends == same([row["ci_low"], row["ci_high"]])
        gap, low, high = (described.text(row[name]) for name in ("gap", "ci_low", "ci_high"))
        assert shown.text_content() == folded[0] == gap
        assert folded[1] == f"{low} – {high}"
        assert f" {gap} {low} – {high} " in printed
        assert f"{described.title} {gap} {low} to {high}" in notebook
    assert report.verdict.headline in page.locator(".verdict").text_content()
    assert report.verdict.headline in notebook
    csv = pd.read_csv(directory / "made" / "metrics.csv", index_col="metric")
    assert csv["gap"].to_numpy() == same(frame["gap"].to_numpy())
