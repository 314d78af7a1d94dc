"""Options are fields of settings: the parser builds what Python would, and help lists every one of them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from partialfair import PartialFairClassifier
from partialfair.cli import settings
from partialfair.cli.intervals import IntervalCommand
from partialfair.cli.options import build_command
from partialfair.trees import PartialFairTrees

COMMANDS = {
    settings.AuditSettings: (["f.csv", "--score", "p", "--group", "g"], {"score": "p", "group": ["g"]}),
    settings.CompareSettings: (
        ["f.csv", "f.csv", "--score", "p", "--group", "g"],
        {"score": "p", "group": ["g"]},
    ),
    settings.AdjustSettings: (["f.csv", "--score", "p", "--group", "g"], {"score": "p", "group": ["g"]}),
    settings.TrainSettings: (["f.csv", "--target", "y", "--group", "g"], {"target": "y", "group": ["g"]}),
    settings.PathSettings: (
        ["f.csv", "--target", "y", "--group", "g", "--max-gaps", "0.1,0.2"],
        {"target": "y", "group": ["g"], "max_gaps": (0.1, 0.2)},
    ),
    settings.PredictSettings: (["m", "f.csv"], {"model": Path("m")}),
    settings.ExportSettings: (["m", "m.onnx"], {"model": Path("m"), "out": Path("m.onnx")}),
    settings.DemoSettings: ([], {}),
}


def parsed(kind: type, words: list[str]) -> Any:
    """Return the settings that a command line gives."""
    received: list[Any] = []
    app = typer.Typer()
    app.command(cls=IntervalCommand)(build_command(kind, received.append, settings.HELP_ORDER))
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output
    return received[0]


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_defaults_are_those_of_the_fields(kind):
    words, given = COMMANDS[kind]
    files = {"file": Path("f.csv"), "files": [Path("f.csv")] * 2}
    names = {field.name for field in fields(kind)}
    expected = kind(**given, **{name: value for name, value in files.items() if name in names})
    assert parsed(kind, words) == expected


def test_what_is_typed_is_read():
    words = [
        "--interval",
        "0.1",
        "0.3",
        "--gap-scale",
        "absolute",
        "--lower-is-better",
        "--fail-on",
        "exceeds",
    ]
    audit = parsed(settings.AuditSettings, [*COMMANDS[settings.AuditSettings][0], *words])
    assert (audit.interval, audit.gap_scale, audit.fail_on) == ((0.1, 0.3), "absolute", "exceeds")
    assert not audit.higher_is_better
    words = ["--id", "a", "--id", "b", "--group-terms", "intercept", "--alpha", "auto", "--seed", "7"]
    train = parsed(settings.TrainSettings, [*COMMANDS[settings.TrainSettings][0], *words])
    assert (train.ids, train.group_terms, train.alpha, train.seed) == (("a", "b"), "intercept", "auto", 7)


def test_help_lists_every_option_and_no_other():
    declared = {
        field.name
        for kind in COMMANDS
        for field in fields(kind)
        if isinstance(field.metadata["parameter"], typer.models.OptionInfo)
    }
    assert declared == set(settings.HELP_ORDER)
    assert len(settings.HELP_ORDER) == len(declared)


@pytest.mark.parametrize(
    ("model", "estimator"), [("linear", PartialFairClassifier), ("hist", PartialFairTrees)]
)
def test_penalties_are_those_of_the_estimators(model, estimator):
    words = [*COMMANDS[settings.TrainSettings][0], "--model", model]
    default = (
        PartialFairClassifier().alpha if estimator is PartialFairClassifier else PartialFairTrees(None).alpha
    )
    assert parsed(settings.TrainSettings, words).alphas == (default,)
