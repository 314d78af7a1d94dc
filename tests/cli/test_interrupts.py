"""Ctrl-C, and its relatives, end a command at once and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from partialfair import cli
from partialfair.cli.process import ends_on_signals
from tests.cli.conftest import COLUMNS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")

AUDIT = ("audit", "scores.csv", *COLUMNS, "--out", "out", "--report", "page.html")
MODEL = ("--target", "hired", "--group", "sex", "--drop", "person", "--interval", 0, 1)
TRAIN = ("train", "scores.csv", *MODEL, "--out", "out")
RUN = "from partialfair.cli import main; main()"
SECONDS = 2.0  # within which a command is to end
PATIENCE = 300  # seconds after which a command hangs, however busy the machine

ENDLESS_AND_DEAF = """
import os, time
from partialfair.cli import train

def fit(*arguments, **options):
    os.write(2, b"it trains\\n")
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

train.fit_path = fit
"""
ENDLESS_IN_COMPILED_CODE = """
import os, threading
from partialfair.cli import train

def fit(*arguments, **options):
    os.write(2, b"it trains\\n")
    locked = threading.Lock()
    with locked:
        locked.acquire()

train.fit_path = fit
"""
INTERRUPTED_AT_THE_END = """
import os, signal, sys, threading
from partialfair import cli

command, call = cli.command, LINE

def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return call(*arguments, **options)

def said():
    try:
        command()
    finally:
        LINE = interrupted

cli.command = said
"""
PAUSED_WHILE_IMPORTING = """
import os, sys, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "sklearn":
            os.write(2, b"it imports\\n")
            time.sleep(60)

sys.meta_path.insert(0, Finder())
"""
PAUSED_BEFORE_REPLACING = """
import os, time
from partialfair.utils import files

hand_over = files._Staging.hand_over

def paused(staging):
    os.write(2, b"everything is staged\\n")
    time.sleep(60)
    hand_over(staging)

files._Staging.hand_over = paused
"""
PAUSED_WHILE_REPLACING = """
import os, time

replace = os.replace

def slow(*arguments):
    os.write(2, b"being replaced\\n")
    time.sleep(0.1)
    replace(*arguments)

os.replace = slow
"""


@pytest.fixture
def start(scores, tmp_path) -> Iterator[object]:
    """Start the command in a process of its own, after some other code."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, before: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", before + RUN, *map(str, arguments)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    """Read what the command says until it says that."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    pytest.fail(f"{words!r} was never said")


def end(process: subprocess.Popen[str], number: int = signal.SIGINT) -> list[str]:
    """Send a signal, check the code, and return what is said on standard error."""
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    return err.splitlines()


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


NOTHING = "partialfair: interrupted; no file was written"


@pytest.mark.parametrize("moment", ["partialfair: reading", "partialfair: measuring"])
def test_at_any_moment(start, tmp_path, moment):
    process = start(*AUDIT)
    wait_for(process, moment)
    assert end(process)[-1] == NOTHING
    assert names(tmp_path) == {"scores.csv"}


def test_while_packages_are_imported(start, tmp_path):
    process = start(*TRAIN, before=PAUSED_WHILE_IMPORTING)
    wait_for(process, "it imports")
    assert end(process)[-1] == NOTHING
    assert names(tmp_path) == {"scores.csv"}


@pytest.mark.parametrize("line", ["os.close", "threading.Thread.join"])
def test_at_the_end(start, line):
    """An interrupt while the command takes its leave: it is done, and says nothing more."""
    process = start("--version", before=INTERRUPTED_AT_THE_END.replace("LINE", line))
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("partialfair ")


def test_when_everything_is_staged(start, tmp_path):
    process = start(*AUDIT, before=PAUSED_BEFORE_REPLACING)
    wait_for(process, "everything is staged")
    assert any(name.startswith(".partialfair-") for name in names(tmp_path))
    assert end(process)[-1] == NOTHING
    assert names(tmp_path) == {"scores.csv"}


def test_sets_that_are_being_replaced_are_finished(start, tmp_path):
    process = start(*AUDIT, before=PAUSED_WHILE_REPLACING)
    wait_for(process, "being replaced")
    assert end(process)[-1] == "partialfair: interrupted; its files had been written"
    assert names(tmp_path) == {"scores.csv", "out", "page.html"}
    assert "audit.json" in names(tmp_path / "out")


@pytest.mark.parametrize(
    ("before", "number", "word"),
    [
        (ENDLESS_AND_DEAF, signal.SIGINT, "interrupted"),
        (ENDLESS_IN_COMPILED_CODE, signal.SIGTERM, "terminated"),
    ],
)
def test_swallowed_or_not_the_old_model_stays(start, tmp_path, before, number, word):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.skops").write_bytes(b"an earlier one")
    process = start(*TRAIN, before=before)
    wait_for(process, "it trains")
    assert end(process, number)[-1] == f"partialfair: {word}; no file was written"
    assert names(tmp_path) == {"scores.csv", "out"}
    assert names(tmp_path / "out") == {"model.skops"}
    assert (tmp_path / "out" / "model.skops").read_bytes() == b"an earlier one"


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("before", [ENDLESS_AND_DEAF, ENDLESS_IN_COMPILED_CODE])
def test_it_takes_no_more_than_seconds(start, before):
    process = start(*TRAIN, before=before)
    wait_for(process, "it trains")
    sent = time.monotonic()
    end(process)
    assert time.monotonic() - sent < SECONDS


class TestInThisProcess:
    @pytest.mark.usefixtures("scores")
    def test_a_stopped_fit_saves_no_model(self, run, tmp_path, monkeypatch):
        """Also where Python's own way is all there is."""

        def stop(seldom, progress):
            raise KeyboardInterrupt

        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "model.skops").write_bytes(b"an earlier one")
        monkeypatch.setattr("partialfair.cli.output._Seldom.__call__", stop)
        assert run(*TRAIN, "--constraint", "none").code == 130
        assert names(tmp_path / "out") == {"model.skops"}
        assert (tmp_path / "out" / "model.skops").read_bytes() == b"an earlier one"

    @pytest.fixture
    def handlers(self) -> Iterator[None]:
        """Put back what ends with a process."""
        before = {
            number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        yield
        for number, handler in before.items():
            signal.signal(number, handler)

    @pytest.mark.usefixtures("handlers")
    def test_at_the_end_signals_are_ignored(self):
        """At every line of the end, though only some of them are tried."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threads = threading.active_count()
        with ends_on_signals():
            pass
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert signal.set_wakeup_fd(-1) == -1
        assert threading.active_count() == threads

    @pytest.mark.usefixtures("handlers")
    def test_an_ignored_interrupt_stays_ignored(self):
        """As of jobs in the background, which Ctrl-C is not meant for."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with ends_on_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def test_other_threads_may_call_it(self, monkeypatch, capsys):
        codes = []

        def call() -> None:
            try:
                cli.main()
            except SystemExit as stop:
                codes.append(stop.code)

        monkeypatch.setattr(sys, "argv", ["partialfair", "--version"])
        monkeypatch.setenv("MPLBACKEND", "Agg")
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert codes == [0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_reproduction_says_that_its_runs_are_kept(start, tmp_path, data_dir, jobs):
    options = ("--dataset", "law_school", "--rows", 200, "--seeds", 1, "--data", data_dir, "--jobs", jobs)
    process = start("reproduce", "fig1", *options)
    wait_for(process, "partialfair: runs left")
    while not list(tmp_path.glob("results/runs/[!.]*")) and process.poll() is None:
        time.sleep(0.05)
    sentence = "finished runs are kept, and the same command resumes with the rest"
    assert end(process)[-1] == f"partialfair: interrupted; {sentence}"
    assert list(tmp_path.glob("results/runs/[!.]*"))
