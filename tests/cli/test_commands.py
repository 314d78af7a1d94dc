"""The other commands, and the installed command itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pandas as pd
import pytest

import partialfair
from partialfair.cli import demo
from partialfair.datasets import REGISTRY, load_adult, source
from tests.cli.conftest import COLUMNS

SCRIPT = Path(sysconfig.get_path("scripts")) / "partialfair"


def test_version(run):
    outcome = run("--version")
    assert (outcome.code, outcome.out) == (0, f"partialfair {partialfair.__version__}\n")


@pytest.mark.parametrize(
    "command",
    [
        "audit",
        "compare",
        "adjust",
        "demo",
        "train",
        "path",
        "predict",
        "data sample",
        "data list",
        "data fetch",
        "data path",
    ],
)
def test_help_has_an_example(run, command):
    outcome = run(*command.split(), "--help")
    assert outcome.code == 0
    assert re.search(rf"Example:\n  partialfair {command}\b", outcome.out)
    assert outcome.out == run(*command.split(), "-h").out


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", ["", "audit", "train", "path", "adjust", "data fetch"])
def test_help_fits_the_terminal_without_broken_words(run, monkeypatch, command, width):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run(*command.split(), "--help").out
    assert max(map(len, shown.splitlines())) <= width
    words = {*shown.split()}
    monkeypatch.setenv("COLUMNS", "400")
    assert words == {*run(*command.split(), "--help").out.split()}


def test_expert_options_come_last(run):
    titles = re.findall(r"^(\S.*):$", run("train", "--help").out, re.MULTILINE)
    expected = ["Example", "Arguments", "Columns", "Interval and limit", "Model", "Evaluation", "Output"]
    assert titles == [*expected, "Expert options"]


@pytest.mark.parametrize("arguments", [[], ["data"]])
def test_without_a_command_there_is_help(run, arguments):
    outcome = run(*arguments)
    assert "Usage:" in outcome.out + outcome.err
    assert "Traceback" not in outcome.err


class TestData:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path, monkeypatch) -> Path:
        """An empty cache in place of the user's, and no $PARTIALFAIR_DATA."""
        monkeypatch.setattr(source, "cache_directory", lambda: tmp_path / "cache")
        monkeypatch.delenv(source.DATA_VARIABLE, raising=False)
        return tmp_path / "cache"

    def test_list_says_what_is_there(self, run, cache):
        def states():
            lines = run("data", "list").out.splitlines()
            named = [re.match(r"(\w+) +(ready|not fetched) ", line) for line in lines]
            return {found[1]: found[2] for found in named if found}

        assert states() == {
            name: "not fetched" if entry.files else "ready" for name, entry in REGISTRY.items()
        }
        assert states()["adult"] == "ready"
        for file in REGISTRY["law_school"].files:
            (cache / file.name).parent.mkdir(parents=True, exist_ok=True)
            (cache / file.name).touch()
        assert states()["law_school"] == "ready"

    def test_list_names_the_terms(self, run):
        shown = run("data", "list").out
        assert all(entry.summary in shown and entry.terms in shown for entry in REGISTRY.values())

    def test_path_prints_paths(self, run, tmp_path, monkeypatch):
        mine = tmp_path / "mine"
        for file in REGISTRY["a9a"].files:
            (mine / file.name).parent.mkdir(parents=True, exist_ok=True)
            (mine / file.name).touch()
        monkeypatch.setenv(source.DATA_VARIABLE, str(mine))
        outcome = run("data", "path", "a9a")
        assert outcome.out.splitlines() == [str(mine / file.name) for file in REGISTRY["a9a"].files]

    def test_path_of_what_is_not_there_says_how_to_get_it(self, run):
        run("data", "path", "bank").assert_refused("bank", "partialfair data fetch bank")

    @pytest.mark.parametrize("command", ["path", "fetch"])
    def test_an_unknown_name_lists_the_known(self, run, command):
        run("data", command, "a9b").assert_refused("no dataset 'a9b'", "a9a")

    @pytest.mark.parametrize("command", ["path", "fetch"])
    @pytest.mark.parametrize("name", ["admissions", "adult"])
    def test_data_of_the_package_need_no_files(self, run, command, name):
        outcome = run("data", command, name)
        assert (outcome.code, outcome.out) == (0, "")
        assert "is part of the package" in outcome.err

    def test_the_sample_can_be_audited(self, run, tmp_path):
        outcome = run("data", "sample", "the sample.csv")
        written = pd.read_csv(tmp_path / "the sample.csv")
        data = load_adult()
        pd.testing.assert_frame_equal(written[list(data.feature_names)], data.X)
        assert (written["sex"] == data.sensitive_features.astype(object)).all()
        assert ((written["income"] == ">50K") == data.y).all()
        assert (written["score"] == data.historical_score).all()
        advice = outcome.out.splitlines()[-1]
        audit = run(*shlex.split(advice[advice.index("partialfair audit") :])[1:])
        assert audit.code == 0
        assert "positive label: >50K" in audit.out

    def test_the_sample_needs_a_directory_that_exists(self, run):
        run("data", "sample", "nowhere/adult.csv").assert_refused("nowhere/adult.csv", "no directory")

    def test_a_variable_that_names_no_directory(self, run, monkeypatch):
        monkeypatch.setenv(source.DATA_VARIABLE, "nowhere")
        for command in (["list"], ["path", "a9a"], ["fetch", "a9a"]):
            run("data", *command).assert_refused("$PARTIALFAIR_DATA", "'nowhere'")

    def test_a_failed_fetch_names_the_ways_out(self, run, cache, monkeypatch):
        def unreachable(url, target):
            raise ConnectionError

        monkeypatch.setattr(source, "download", unreachable)
        run("data", "fetch", "law_school").assert_refused(
            "law_school", "could not fetch", "$PARTIALFAIR_DATA"
        )
        assert not [path for path in cache.rglob("*") if path.is_file()]

    def test_fetch_checks_what_it_finds(self, run, cache):
        file = REGISTRY["law_school"].files[0]
        (cache / file.name).parent.mkdir(parents=True)
        (cache / file.name).write_text("nonsense")
        run("data", "fetch", "law_school").assert_refused(str(cache / file.name), "sha256")

    def test_fetch_into_a_file(self, run, tmp_path):
        (tmp_path / "taken").touch()
        run("data", "fetch", "a9a", "--out", "taken").assert_refused("--out taken")


def test_the_demo_trains_and_shows_before_and_after(run, tmp_path):
    out = tmp_path / "a demo"
    outcome = run("demo", "--out", out)
    assert outcome.code == 0
    names = {path.name for path in out.iterdir()}
    assert names == {*demo.FILES, demo.PAGE} - {"model.skops", "out_of_fold.csv"}
    assert all(name in outcome.out for name in names)
    record = json.loads((out / "path.json").read_text(encoding="utf-8"))
    before, *others = record["models"]
    assert before["max_gap"] is None
    assert before["ci_low"] > 0.1  # surely apart without a constraint
    assert all(model["satisfied"] for model in others)
    assert outcome.out.index("Before, no constraint") < outcome.out.index("After, max gap 0.1")
    assert "train fits one limit alone" in outcome.out  # why its model is not just that of the path
    (by_hand,) = [line.strip() for line in outcome.out.splitlines() if line.startswith("  partialfair path ")]
    again = run(*shlex.split(by_hand)[1:], "--json")  # the command that it prints, with the table it wrote
    assert [model["gap"] for model in again.json["models"]] == [model["gap"] for model in record["models"]]


class TestInstalledCommand:
    """What only a process of its own can show: exit codes, streams, encodings."""

    @pytest.fixture
    def start(self, tmp_path):
        def start(*arguments, **environment):
            return subprocess.run(
                [SCRIPT, *map(str, arguments)],
                cwd=tmp_path,
                capture_output=True,
                env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
                timeout=120,
                check=False,
            )

        return start

    def test_a_gate_in_a_notebooks_shell(self, start, scores):
        done = start(
            "audit",
            "scores.csv",
            *COLUMNS,
            "--fail-above",
            0.01,
            "--json",
            "--out",
            "out",
            MPLBACKEND="module://x",
        )
        assert done.returncode == 1
        assert json.loads(done.stdout)["gate"]["passed"] is False
        progress = done.stderr.decode().splitlines()
        assert progress[0] == "partialfair: reading scores.csv"
        assert all(line.startswith("partialfair: ") for line in progress)

    def test_bad_input_in_ascii(self, start):
        done = start("audit", "absént.csv", *COLUMNS, PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.splitlines()[-1] == rb"partialfair: error: there is no file abs\xe9nt.csv"
        assert b"Traceback" not in done.stderr

    @pytest.mark.skipif(os.name != "posix", reason="pipes are closed otherwise there")
    def test_a_reader_that_leaves_changes_nothing(self, scores, tmp_path):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [SCRIPT, "audit", "scores.csv", *COLUMNS, "--fail-above", "1"],
            cwd=tmp_path,
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(writing)
        assert done.returncode == 0
        assert b"rror" not in done.stderr
