"""Every field that a command writes is on the page of the records, and every field of the page is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import COLUMNS, TRAIN
from tests.docs.scripts import ROOT

PAGE = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
DOCUMENTED = set(re.findall(r"`([a-z_0-9]+)`", PAGE))

KEYED_BY_DATA = {
    *("files", "versions", "metrics", "omitted", "too_few_labelled", "rows", "metadata", "inputs", "outputs"),
    *("intercepts", "coefficients", "changes_from_first", "difference_from_first"),
}
"""Objects whose keys are names of files, metrics, groups, features or parts of the rows."""

SCORES = ("--label", "hired", "--interval", 0.1, 0.5, "--threshold", 0.5)

COMMANDS = {
    "audit": ("audit", "scores.csv", *COLUMNS, *SCORES, "--fail-above", 1, "--clusters", "id"),
    "audit auto": ("audit", "scores.csv", *COLUMNS, "--label", "hired", "--interval", "auto"),
    "compare": ("compare", "scores.csv", "scores.csv", *COLUMNS, *SCORES, "--id", "id"),
    "adjust": (
        "adjust",
        "scores.csv",
        *COLUMNS,
        "--label",
        "hired",
        *SCORES[2:5],
        "--max-gap",
        0.3,
        "--out",
        "a",
    ),
    "train": (*TRAIN, "--fail-above", 1, "--out", "m", "--outside", "no_worse"),
    "population": (*TRAIN, "--population", "--max-gap", 0.9, "--out", "m"),
    "trees": (*TRAIN, "--model", "hist", "--out", "m"),
    "path": ("path", *TRAIN[1:-2], "--max-gaps", "0.3", "--best", 0.9, "--out", "p"),
}
"""Command lines whose records have all fields together."""


def fields(record: Any, name: str = "") -> set[str]:
    """Return the names of all fields, without the keys that come from the data."""
    if isinstance(record, list):
        return set().union(*(fields(each, name) for each in record))
    if not isinstance(record, dict):
        return set()
    from_data = name in KEYED_BY_DATA or (name == "models" and "without the constraint" in record)
    from_data |= name in ("without the constraint", "with the constraint")
    below = "rows" if name == "coefficients" else "metric"  # coefficients have groups, and then features
    inner = set().union(*(fields(value, below if from_data else key) for key, value in record.items()))
    if name == "models" and from_data:
        inner = set().union(*(fields(parts, "without the constraint") for parts in record.values()))
    return inner if from_data else inner | set(record)


@pytest.fixture(scope="session")
def written() -> dict[str, set[str]]:
    """The fields of each command, collected by the tests of this module."""
    return {}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_field_is_documented(run, file, people, written, command):
    people.reset_index(names="id").to_csv("scores.csv", index=False)
    outcome = run(*COMMANDS[command], "--json")
    assert outcome.code == 0, outcome.err
    written[command] = fields(outcome.json)
    if command == "adjust":
        written["map"] = fields(json.loads(Path("a/map.json").read_text(encoding="utf-8")))
        written["apply"] = fields(
            run("adjust", "scores.csv", *COLUMNS, "--apply", "a/map.json", "--out", "b", "--json").json
        )
        assert written["map"] | written["apply"] <= DOCUMENTED
    if command == "train":
        written["predict"] = fields(run("predict", "m", "table.csv", "--out", "s.csv", "--json").json)
        written["export"] = fields(run("export", "m", "m.onnx", "--json").json)
        assert written["predict"] | written["export"] <= DOCUMENTED
    assert written[command] <= DOCUMENTED


def test_every_documented_field_is_written(written):
    if {*COMMANDS} - {*written}:
        pytest.skip("needs the other tests of this module, in one process")
    first_cells = re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)
    documented = {name for cell in first_cells for name in re.findall(r"`([a-z_0-9]+)`", cell)}
    assert documented - set().union(*written.values()) == set()
