"""Running cases: a process that has imported and compiled everything forks a child for each of them.

A child costs milliseconds instead of the seconds of a fresh command, and its death by a signal is seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import resource
import signal
import stat
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NoReturn

from partialfair import cli
from tests.fuzz.calls import KINDS, Draw, perform
from tests.fuzz.cases import Case, Earlier, write_case
from tests.fuzz.formats import as_arrow, as_csv, as_parquet
from tests.fuzz.models import canonical
from tests.fuzz.tables import plain_table, second_scores

__all__ = [
    "MEMORY_LIMIT",
    "Outcome",
    "Snapshot",
    "become",
    "cpu_seconds",
    "run_call",
    "run_case",
    "snapshot",
    "warm_up",
    "warm_up_calls",
]

MEMORY_LIMIT = 2 << 30
_CPU_LIMIT = 60.0
"""A path of fifteen models on 300 rows, each of which escalates, takes 20 to 40 s."""
_WALL_LIMIT = 240.0
"""Beyond that limit by as much as a busy machine may stretch it."""
_IDLE = 0.05
"""Of the time of one that computes less than this share, it waits for something that will not come."""

Snapshot = dict[str, str]
"""What is at every path below a directory: its kind, and the digest of its content."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended; `signal` is that of its death, or 0."""

    code: int
    signal: int
    out: bytes
    err: bytes
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    before: Snapshot
    after: Snapshot

    @property
    def too_slow(self) -> bool:
        waits = self.wall_seconds > _CPU_LIMIT and self.cpu_seconds < _IDLE * self.wall_seconds
        return waits or self.cpu_seconds > _CPU_LIMIT or self.wall_seconds > _WALL_LIMIT


def snapshot(directory: Path) -> Snapshot:
    """Return what is in a directory."""
    seen: Snapshot = {}
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = Path(parent) / name
            seen[str(path.relative_to(directory))] = _signature(path)
    return seen


def _signature(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link to {path.readlink()}"
    if stat.S_ISREG(mode):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return stat.filemode(mode)[0]


def run_case(case: Case, directory: Path) -> Outcome:
    """Run a case in ``directory / "work"``; beside it are its home, temporaries and streams."""
    work = _make_places(directory)
    write_case(case, work)
    return _run(directory, case.arguments.words, case.stdin, cli.main)


def run_call(seed: int, directory: Path) -> Outcome:
    """Run a call of the Python interface in the same kind of place."""
    _make_places(directory)
    return _run(directory, (), b"", lambda: sys.exit(perform(seed)))


def _make_places(directory: Path) -> Path:
    for name in ("work", "home", "tmp"):
        (directory / name).mkdir(parents=True)
    return directory / "work"


def _run(directory: Path, words: tuple[str, ...], stdin: bytes, call: Callable[[], None]) -> Outcome:
    before = _all(directory)
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        become(words, directory / "work", streams=directory, stdin=stdin, call=call)
    status, usage = _wait(child, started)
    return Outcome(
        code=os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else -1,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        out=(directory / "stdout").read_bytes(),
        err=(directory / "stderr").read_bytes(),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        wall_seconds=time.monotonic() - started,
        peak_bytes=usage.ru_maxrss * 1024,
        before=before,
        after=_all(directory),
    )


def _all(directory: Path) -> Snapshot:
    return {
        f"{name}/{path}": signature
        for name in ("work", "home", "tmp")
        for path, signature in snapshot(directory / name).items()
    }


def _wait(child: int, started: float) -> tuple[int, resource.struct_rusage]:
    """Wait for a child, and kill it when it takes too much time or memory."""
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return status, usage
        wall, cpu = time.monotonic() - started, cpu_seconds(child)
        waits = wall > _CPU_LIMIT and cpu < _IDLE * wall
        too_long = waits or wall > _WALL_LIMIT or cpu > _CPU_LIMIT + 1
        if too_long or _resident(child) > MEMORY_LIMIT + (256 << 20):  # a little beyond, to be judged so
            os.kill(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            return status, usage
        time.sleep(0.005)


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the computing done by a process up to now; of one that has been waited for, 0."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def become(
    words: tuple[str, ...],
    work: Path,
    *,
    streams: Path,
    stdin: bytes = b"",
    call: Callable[[], None] = cli.main,
) -> NoReturn:
    """Become a command, for good: its arguments, directory, environment and streams, which are files."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(_filled_pipe(stdin), 0)
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(streams / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
        _fresh_streams(open(0), os.fdopen(1, "wb"), os.fdopen(2, "wb"))  # noqa: SIM115 - they stay open
        os.environ |= {"HOME": str(streams / "home"), "TMPDIR": str(streams / "tmp"), "COLUMNS": "100"}
        tempfile.tempdir = None
        os.chdir(work)
        code = _called(words, call)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # what the interpreter would print
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _filled_pipe(content: bytes) -> int:
    """Return a pipe that holds the content and then ends; it fits into a pipe's buffer."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return reader


def _fresh_streams(stdin: io.TextIOBase, out: io.BufferedIOBase, err: io.BufferedIOBase) -> None:
    sys.stdin = stdin
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    logging.getLogger().handlers.clear()  # those of the parent write to its streams


def _called(words: tuple[str, ...], call: Callable[[], None] = cli.command) -> int:
    """Call the command and return its exit code, as the interpreter would."""
    sys.argv = ["partialfair", *words]
    try:
        call()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        sys.stderr.write(f"{stop.code}\n")
        return 1
    return 0


def warm_up() -> Earlier:
    """Run every command in this process, so that all is imported and compiled; keep what they wrote."""
    streams, here = (sys.stdin, sys.stdout, sys.stderr), Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        os.chdir(directory)
        try:
            _fresh_streams(io.StringIO(), io.BytesIO(), io.BytesIO())
            _write_tables()
            for command in _commands():
                if _called(command) not in (0, 1):
                    sys.stderr.flush()
                    raise RuntimeError(f"{command}: {sys.stderr.buffer.getvalue().decode()}")
        finally:
            os.chdir(here)
            sys.stdin, sys.stdout, sys.stderr = streams
            logging.getLogger().handlers.clear()
        sets = {kind: _contents(directory / kind) for kind in ("audit", "compare", "train", "path")}
        (infeasible,) = (directory / "infeasible").glob("*.skops")
        return Earlier(canonical(sets["train"]["model.skops"]), infeasible.read_bytes(), sets)


def warm_up_calls() -> None:
    """Import and compile what the Python interface needs, so that no call does it."""
    out = sys.stdout
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        here = Path.cwd()
        os.chdir(name)
        sys.stdout = io.StringIO()
        try:
            good = Draw(Random(0), plain_table(Random(0), 120, ("women", "men")), bad=0.0)
            warnings.simplefilter("ignore")
            for kind in KINDS:
                with contextlib.suppress(ValueError, TypeError):
                    kind(good)
        finally:
            sys.stdout = out
            os.chdir(here)


def _contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def _write_tables() -> None:
    table = plain_table(Random(0), 400, ("women", "men"))
    Path("data.csv").write_bytes(as_csv(table))
    Path("data.arrow").write_bytes(as_arrow(table))
    Path("data.parquet").write_bytes(as_parquet(table))
    Path("other.csv").write_bytes(as_csv(second_scores(Random(0), table)))


def _commands() -> list[tuple[str, ...]]:
    """Return one good run of each command; the later ones read what the earlier ones wrote."""
    scored = ("--score", "score", "--group", "sex")
    judged = (*scored, "--label", "hired", "--threshold", "0", "--weight", "weight")
    trained = ("--target", "hired", "--group", "sex", "--id", "person", "--drop", "score", "--drop", "weight")
    band = ("--interval", "0.1", "0.6")
    too_much = ("--constraint", "demographic_parity", "--max-gap", "0")
    return [
        ("audit", "data.csv", *judged, *band, "--out", "audit", "--report", "audit/page.html"),
        ("audit", "data.arrow", *scored),
        ("audit", "data.parquet", *scored, "--json"),
        ("compare", "data.csv", "other.csv", *judged, "--id", "person", "--out", "compare"),
        ("train", "data.csv", *trained, *band, "--max-gap", "0.3", "--out", "train"),
        ("train", "data.csv", *trained, *band, "--enforce", "surrogate", "--group-terms", "intercept"),
        ("train", "data.csv", *trained, *band, *too_much, "--time-limit", "1", "--out", "infeasible"),
        ("path", "data.csv", *trained, *band, "--max-gaps", "0.2,0.4", "--best", "0.9", "--out", "path"),
        ("predict", "train/model.skops", "data.csv"),
        ("predict", "train/model.skops", "data.arrow", "--out", "scores.parquet"),
        ("data", "list"),
    ]
