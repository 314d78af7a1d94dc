"""What commands write is whole or absent, is no input, and is recognised when it is a mixture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from partialfair.cli import audit, predict
from partialfair.persistence import load_model
from tests.cli.conftest import COLUMNS

TRAIN = ("--target", "hired", "--group", "sex", "--drop", "person", "--constraint", "none", "--test-size", 0)
PATH = ("--target", "hired", "--group", "sex", "--drop", "person", "--interval", 0, 1, "--max-gaps", 0.5)


@pytest.fixture
def model(run, scores) -> Path:
    """The directory of a trained model."""
    assert run("train", scores, *TRAIN, "--out", "model").code == 0
    return scores.parent / "model"


@pytest.fixture
def no_reading(monkeypatch) -> None:
    """Fail where a table or a model is read: outputs are refused before any work."""

    def read(*arguments: object) -> None:
        pytest.fail("a file was read")

    for module, name in (
        ("audit", "read_scores"),
        ("adjust", "read_scores"),
        ("prepare", "read_table"),
        ("predict", "load_model"),
    ):
        monkeypatch.setattr(f"partialfair.cli.{module}.{name}", read)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("no_reading")
class TestInputsAreNotOutputs:
    @pytest.mark.parametrize("name", audit.FILES)
    def test_audit(self, run, scores, tmp_path, name):
        (tmp_path / name).write_bytes(scores.read_bytes())
        before = contents(tmp_path)
        outcome = run("audit", name, *COLUMNS, "--out", ".")
        outcome.assert_refused(f"{name} cannot be written: it is the input {name}")
        assert contents(tmp_path) == before

    @pytest.mark.parametrize(
        ("name", "command"),
        [
            ("movers.csv", ["compare", "scores.csv", "{}", *COLUMNS, "--out", "."]),
            ("rank_curves.png", ["train", "{}", *TRAIN, "--out", "."]),
            ("people.skops", ["train", "{}", *TRAIN, "--out", "{}"]),
            ("path.csv", ["path", "{}", *PATH, "--out", "."]),
            ("page.html", ["audit", "{}", *COLUMNS, "--report", "{}"]),
            ("page.html", ["path", "{}", *PATH, "--out", "new", "--report", "{}"]),
            ("new.csv", ["predict", "m.skops", "{}", "--out", "{}"]),
            ("m.csv", ["predict", "{}", "scores.csv", "--out", "{}"]),
        ],
    )
    def test_other_commands(self, run, scores, tmp_path, name, command):
        (tmp_path / name).write_bytes(scores.read_bytes())
        before = contents(tmp_path)
        run(*(str(word).format(name) for word in command)).assert_refused(f"it is the input {name}")
        assert contents(tmp_path) == before

    @pytest.mark.skipif(os.name != "posix", reason="of links")
    def test_through_links(self, run, scores, tmp_path):
        (tmp_path / "here").symlink_to(tmp_path)
        os.link(scores, tmp_path / "metrics.csv")
        run("audit", scores, *COLUMNS, "--out", "here").assert_refused("here/metrics.csv", "the input")

    @pytest.mark.skipif(os.name != "posix", reason="of links")
    def test_a_page_that_is_one_of_the_files(self, run, scores, tmp_path):
        (tmp_path / "metrics.csv").symlink_to("page.html")
        outcome = run("audit", scores, *COLUMNS, "--out", ".", "--report", "page.html")
        outcome.assert_refused("page.html and metrics.csv are one file")

    def test_a_page_that_is_the_directory(self, run, scores):
        outcome = run("audit", scores, *COLUMNS, "--out", "a.html/b", "--report", "a.html")
        outcome.assert_refused("--report a.html")


@pytest.mark.usefixtures("no_reading")
@pytest.mark.skipif(os.name != "posix", reason="of kinds of files that POSIX has")
class TestKinds:
    @pytest.mark.parametrize("out", ["/dev/null", "pipe", "/dev/null/out"])
    @pytest.mark.parametrize("command", [["audit", *COLUMNS], ["train", *TRAIN], ["path", *PATH]])
    def test_directories(self, run, scores, tmp_path, command, out):
        os.mkfifo(tmp_path / "pipe")
        run(command[0], scores, *command[1:], "--out", out).assert_refused(f"--out {out}", "is not one")

    @pytest.mark.parametrize(
        "command",
        [
            ["audit", "scores.csv", *COLUMNS, "--report", "pipe.html"],
            ["train", "scores.csv", *TRAIN, "--out", "pipe.skops"],
            ["predict", "m.skops", "scores.csv", "--out", "pipe.csv"],
        ],
    )
    def test_files(self, run, scores, tmp_path, command):
        for suffix in ("html", "skops", "csv"):
            os.mkfifo(tmp_path / f"pipe.{suffix}")
        run(*command).assert_refused("pipe.", "is not a regular file")

    @pytest.mark.skipif(sys.platform != "linux", reason="of /proc")
    @pytest.mark.parametrize("option", [["--out", "/proc/new"], ["--report", "/proc/page.html"]])
    def test_where_nothing_can_be_made(self, run, scores, option):
        run("audit", scores, *COLUMNS, *option).assert_refused(option[1], "cannot be written")


class TestAllOrNothing:
    def test_the_page_belongs_to_it(self, run, scores, monkeypatch, tmp_path):
        def broken(*arguments):
            raise OSError(28, "No space left on device")

        before = contents(tmp_path)
        monkeypatch.setattr(os, "fsync", broken)
        outcome = run("audit", scores, *COLUMNS, "--out", "out", "--report", "page.html")
        assert outcome.code == 2
        assert "cannot be written: No space left on device" in outcome.err
        assert contents(tmp_path) == before

    @pytest.mark.usefixtures("painted")  # pictures fill it
    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount")
    def test_a_full_disk_keeps_the_old_set(self, run, scores, tmp_path):
        disk = tmp_path / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            assert run("audit", scores, *COLUMNS, "--out", disk).code == 0
            before = contents(disk)
            outcome = run("audit", scores, *COLUMNS, "--seed", 1, "--out", disk, "--report", "page.html")
            assert outcome.code == 2
            assert "No space left on device" in outcome.err
            assert contents(disk) == before
            assert not (tmp_path / "page.html").exists()
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_a_page_in_a_new_directory(self, run, scores, tmp_path):
        outcome = run("audit", scores, *COLUMNS, "--out", "out", "--report", tmp_path / "out" / "page.html")
        assert outcome.code == 0
        record = json.loads((tmp_path / "out" / "audit.json").read_text())
        assert {*record["files"], "audit.json"} == {path.name for path in (tmp_path / "out").iterdir()}
        assert "page.html" in record["files"]


class TestDirectoryOfAModel:
    def test_predict_takes_it(self, run, scores, model):
        by_directory = run("predict", "model", scores)
        assert by_directory.code == 0
        assert by_directory.out == run("predict", "model/model.skops", scores).out

    def test_a_model_of_another_run_is_recognised(self, run, scores, model, tmp_path):
        assert run("train", scores, *TRAIN, "--alpha", 1, "--out", "other").code == 0
        (tmp_path / "other" / "model.skops").replace(model / "model.skops")
        outcome = run("predict", "model", scores, "--out", "new.csv")
        outcome.assert_refused("model/model.skops is not the file that model/train.json describes")
        assert not (tmp_path / "new.csv").exists()
        load_model(model / "model.skops")  # by itself it always loads
        assert run("predict", "model/model.skops", scores).code == 0

    def test_a_set_from_before_digests(self, run, scores, model):
        record = json.loads((model / "train.json").read_text())
        del record["files"]
        (model / "train.json").write_text(json.dumps(record))
        (model / "rank_curves.png").write_bytes(b"")
        assert run("predict", "model", scores).code == 0

    @pytest.mark.parametrize("name", ["train.json", "model.skops", "rank_curves.png"])
    def test_its_files_are_not_written_over(self, run, scores, model, name):
        before = contents(model)
        (model / "scores.csv").symlink_to(name)
        run("predict", "model", scores, "--out", "model/scores.csv").assert_refused("it is the input")
        (model / "scores.csv").unlink()
        assert contents(model) == before

    def test_a_path_without_a_model(self, run, scores):
        assert run("path", scores, *PATH, "--out", "model").code == 0
        run("predict", "model", scores).assert_refused(
            "model/path.json names no model", "again with a larger --best"
        )

    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ({}, "neither train.json nor path.json"),
            ({"train.json": "{}", "path.json": "{}"}, "train.json and path.json"),
            ({"train.json": '{"model": "../m.skops"}'}, "damaged"),
            ({"train.json": '{"model": 1}'}, "damaged"),
            ({"path.json": "nonsense"}, "damaged"),
            ({"path.json": '{"model": "gone.skops"}'}, "there is no file model/gone.skops"),
        ],
    )
    def test_what_is_none(self, run, scores, tmp_path, files, words):
        (tmp_path / "model").mkdir()
        for name, text in files.items():
            (tmp_path / "model" / name).write_text(text)
        run("predict", "model", scores).assert_refused("model", words)

    def test_its_records_are_those_that_are_written(self):
        from partialfair.cli import path, train_report

        assert (train_report.file_names("m.skops")[-1], path.FILES[-1]) == predict._RECORDS
