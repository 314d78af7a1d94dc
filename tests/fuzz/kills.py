"""Commands that are interrupted or killed, and what they may leave behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.formats import as_csv
from tests.fuzz.processes import Forked, Fresh, Process, send
from tests.fuzz.runner import Snapshot, cpu_seconds, snapshot
from tests.fuzz.tables import plain_table
from tests.fuzz.verdicts import flaw

__all__ = ["HANDFUL", "Ending", "Kill", "campaign", "faults", "run_and_kill", "state"]

_JUDGED = (
    "--score",
    "score",
    "--group",
    "sex",
    "--label",
    "hired",
    "--threshold",
    "0",
    "--interval",
    "0",
    "0.5",
)
_TRAINED = (
    "--target",
    "hired",
    "--group",
    "sex",
    "--id",
    "person",
    "--drop",
    "score",
    "--interval",
    "0",
    "0.5",
)
COMMANDS = {
    "train": (*_TRAINED, "--max-gap", "0.3", "--out", "set"),
    "path": (*_TRAINED, "--max-gaps", "0.2,0.4", "--best", "1", "--out", "set"),
    "audit": (*_JUDGED, "--out", "set", "--report", "page.html"),
    "predict": ("--out", "scores.csv"),
}
_RECORDS = {"train": "train.json", "path": "path.json", "audit": "audit.json"}
_ROWS = 400
_MOST_TRIES = 50
_GRACE = 2.0
"""Seconds from an interrupt to the end: of computing, because a busy machine stretches the others. Only the
campaign counts them; what is tried every time looks at no clock."""
_HANGS = 300.0
"""Seconds after which a command that was interrupted hangs, however busy the machine."""


@dataclass(frozen=True)
class Kill:
    """Which command is killed, how and when, and whether an earlier good set is in its way."""

    command: str
    signal: signal.Signals
    aimed: bool
    earlier: bool
    number: int

    def __str__(self) -> str:
        moment = "while-writing" if self.aimed else "any-moment"
        return f"{self.command}-{self.signal.name}-{moment}-{'old' if self.earlier else 'new'}-{self.number}"

    @property
    def kind(self) -> type[Process]:
        """Of a third of the campaign the imports are a part; the others spend their moments on work."""
        return Fresh if self.number == 1 else Forked

    @property
    def rng(self) -> Random:
        """Of the moment; that it hits the same instruction again cannot be promised."""
        return Random(str(self))


HANDFUL = (
    Kill("train", signal.SIGKILL, aimed=True, earlier=True, number=0),
    Kill("train", signal.SIGINT, aimed=False, earlier=True, number=0),
    Kill("predict", signal.SIGKILL, aimed=True, earlier=True, number=0),
    Kill("audit", signal.SIGKILL, aimed=True, earlier=False, number=0),
    Kill("audit", signal.SIGINT, aimed=True, earlier=True, number=0),
)
"""What is tried every time."""


@dataclass(frozen=True)
class Ending:
    """How the command ended.

    Attributes
    ----------
    work
        The directory that it ran in.
    seconds, wall_seconds
        Of computing, and in all, from the signal to the end.
    before, after
        What was in the directory.
    tries
        How often it was run until the signal was in time.
    """

    work: Path
    code: int
    seconds: float
    wall_seconds: float
    err: str
    before: Snapshot
    after: Snapshot
    tries: int


def campaign() -> Iterator[Kill]:
    """Yield 48 interrupts and 48 kills, half of them aimed at the writing, half at an earlier set."""
    for number in range(1, 4):
        for command in COMMANDS:
            for how in (signal.SIGINT, signal.SIGKILL):
                for aimed in (False, True):
                    for earlier in (False, True):
                        yield Kill(command, how, aimed, earlier, number)


def run_and_kill(kill: Kill, directory: Path, earlier: Path) -> Ending:
    """Run a command until it is still running when its moment comes, and send it the signal."""
    rng = kill.rng
    for tries in range(1, _MOST_TRIES + 1):
        work = directory / str(tries) / "work"
        work.mkdir(parents=True)
        duration = _prepare(kill, work, earlier)
        before = snapshot(work)
        process = kill.kind(_words(kill.command, "people.csv"), work)
        if kill.aimed:
            most = 1 if kill.command == "predict" else 8  # a file alone, or a set of several
            _wait_for_changes(process, work, rng.randint(1, most))
            time.sleep(rng.choice([0, 0, 0.001, 0.01]))
        else:
            _wait_for_end(process, rng.uniform(0, duration))
        used, sent = cpu_seconds(process.pid), time.monotonic()
        send(process, kill.signal)
        written = _look(work)
        seconds = _cpu_seconds_until_end(process) - used
        wall_seconds = time.monotonic() - sent
        code, err = process.finish()
        if code != 0 or _look(work) != written:  # else it was done before the signal came
            return Ending(work, code, seconds, wall_seconds, err, before, snapshot(work), tries)
    raise RuntimeError(f"{kill}: {_MOST_TRIES} times the command had ended before its moment came")


def faults(kill: Kill, ending: Ending) -> Iterator[str]:
    """Say what may not be: cut-off files, sets of two runs that pass for one, slow or wrong answers."""
    for name in ending.after:
        path = ending.work / name
        if path.is_file() and not _is_hidden(name) and (why := flaw(path)):
            yield f"{name} {why}"
    for name in ("people.csv", "model.skops"):
        if ending.before.get(name) != ending.after.get(name):
            yield f"the input {name} was changed"
    if kill.signal == signal.SIGINT:
        yield from _interrupt_faults(kill, ending)
    if kill.command == "predict":
        yield from _scores_faults(ending.work / "scores.csv", kill, ending)
    else:
        yield from _set_faults(kill, ending)
    yield from _restart_faults(kill, ending)


def state(ending: Ending) -> str:
    """Return in a word what a command left of its set, or of its scores; temporaries are told as well."""
    names = {name for name in (*ending.before, *ending.after) if name.startswith(("set/", "scores.csv"))}
    changed = {name for name in names if ending.before.get(name) != ending.after.get(name)}
    told = "none" if not names else "old" if not changed else "new" if changed == names else "mixed"
    return f"{told}, with temporaries" if any(map(_is_hidden, ending.after)) else told


def _interrupt_faults(kill: Kill, ending: Ending) -> Iterator[str]:
    if ending.seconds > (_GRACE if kill.number else _HANGS):
        yield f"it took {ending.seconds:.1f} s to stop"
    # Dead by the signal itself: before the command had begun, while Python started or loaded it.
    if ending.code not in (130, -signal.SIGINT):
        yield f"the exit code is {ending.code}: {ending.err[-300:]}"
    if ending.code == 130 and "Traceback" in ending.err:
        yield f"a traceback: {ending.err[-300:]}"
    names = {*ending.before, *ending.after}
    changed = sorted(name for name in names if ending.before.get(name) != ending.after.get(name))
    # After the last file there is only printing to interrupt; the files are then new, and it says so.
    if changed and not ending.err.endswith("its files had been written\n"):
        yield f"interrupted with exit code {ending.code}, it changed {changed}: {ending.err[-300:]}"
    if any(_is_hidden(name) for name in ending.after):
        yield f"temporaries were left: {[name for name in ending.after if _is_hidden(name)]}"


def _scores_faults(path: Path, kill: Kill, ending: Ending) -> Iterator[str]:
    if not path.exists():
        if kill.earlier:
            yield "there is no scores.csv"
    elif path.read_text().count("\n") != _ROWS + 1:
        yield f"scores.csv has {path.read_text().count(chr(10))} lines"


def _set_faults(kill: Kill, ending: Ending) -> Iterator[str]:
    """Check that a set is old, or new, or recognised as mixed."""
    work = ending.work
    old = {name: digest for name, digest in ending.before.items() if name.startswith("set/")}
    now = {
        name: ending.after[name] for name in ending.after if name.startswith("set/") and not _is_hidden(name)
    }
    if not now:
        if kill.earlier:
            yield "there is no set"
        return
    if missing := [name for name in old if name not in now]:
        yield f"of the earlier set {missing} are gone"
        return
    is_old = [now[name] == digest for name, digest in old.items()]
    mixed = any(is_old) and not all(is_old)
    disagreeing = _disagreeing(work / "set", _RECORDS[kill.command])
    if disagreeing is None:
        yield f"the record {_RECORDS[kill.command]} is missing, or tells no digests, in {sorted(now)}"
    elif mixed != bool(disagreeing):
        yield f"the set is {'mixed' if mixed else 'of one run'}, and its record disagrees with {disagreeing}"
    if kill.command in ("train", "path"):
        code, err = kill.kind(("predict", "set", "people.csv"), work).finish()
        if code != (2 if mixed else 0):
            yield f"the set is {'mixed' if mixed else 'of one run'}, and predict ends with {code}: {err}"


def _restart_faults(kill: Kill, ending: Ending) -> Iterator[str]:
    """Run the command again, among what the killed one left and with its process id: it ends well."""
    code, err = kill.kind(_words(kill.command, "people.csv"), ending.work).finish()
    if code:
        yield f"a restart ends with {code}: {err[-300:]}"
    elif kill.command == "predict":
        yield from _scores_faults(ending.work / "scores.csv", kill, ending)
    elif disagreeing := _disagreeing(ending.work / "set", _RECORDS[kill.command]):
        yield f"after a restart the record disagrees with {disagreeing}"


def _disagreeing(directory: Path, record_name: str) -> list[str] | None:
    """Return the files that are not those of the record; None if it tells nothing."""
    try:
        known = json.loads((directory / record_name).read_bytes())["files"]
    except (OSError, KeyError):
        return None
    return [
        name
        for name, digest in known.items()
        if not (directory / name).is_file()
        or hashlib.sha256((directory / name).read_bytes()).hexdigest() != digest
    ]


def _is_hidden(name: str) -> bool:
    return any(word.startswith(".") for word in name.split("/"))


def _words(command: str, table: str) -> tuple[str, ...]:
    files = ("model.skops", table) if command == "predict" else (table,)
    return (command, *files, *COMMANDS[command])


def _prepare(kill: Kill, work: Path, earlier: Path) -> float:
    """Write the table, the model and perhaps an earlier set; return how long the command takes."""
    done, seconds = _earlier_run(kill.command, earlier, kill.kind)
    if kill.earlier:
        shutil.copytree(done, work, dirs_exist_ok=True)
    if kill.command == "predict":
        shutil.copy(done / "model.skops", work)
    (work / "people.csv").write_bytes(as_csv(plain_table(Random(2), _ROWS, ("women", "men"))))
    return seconds


@cache
def _earlier_run(command: str, root: Path, kind: type[Process]) -> tuple[Path, float]:
    """Run a command on another table; return its directory and how long it took."""
    work = root / kind.__name__ / command / "work"
    work.mkdir(parents=True)
    table = work / "people.csv"
    table.write_bytes(as_csv(plain_table(Random(1), _ROWS, ("women", "men"))))
    if command == "predict":
        shutil.copy(_earlier_run("train", root, kind)[0] / "set" / "model.skops", work)
    started = time.monotonic()
    code, err = kind(_words(command, table.name), work).finish()
    if code:
        raise RuntimeError(err)
    table.unlink()
    return work, time.monotonic() - started


def _wait_for_changes(process: Process, work: Path, number: int) -> None:
    """Wait until so many changes were seen in the directory, or for the end."""
    last, seen = _look(work), 0
    while seen < number and process.poll() is None:
        now = _look(work)
        seen += now != last
        last = now
        time.sleep(0.0005)  # the command may have to share its only core with this loop


def _look(directory: Path) -> list[tuple[str, int, int]]:
    """Return names of everything in a directory, and sizes and times of files.

    What vanishes meanwhile is left out, and so are empty files: with one a command asks, before any work,
    whether it may write there.
    """
    entries = []
    try:
        for entry in os.scandir(directory):
            if entry.is_dir(follow_symlinks=False):
                entries += [(entry.path, 0, 0), *_look(Path(entry.path))]
                continue
            status = entry.stat(follow_symlinks=False)
            if status.st_size:
                entries.append((entry.path, status.st_size, status.st_mtime_ns))
    except FileNotFoundError:
        pass
    return entries


def _wait_for_end(process: Process, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.002)


def _cpu_seconds_until_end(process: Process) -> float:
    """Wait for the end, looking often; give up, and kill, if it does not come."""
    deadline, used = time.monotonic() + _HANGS, 0.0
    while process.poll() is None:
        used = max(used, cpu_seconds(process.pid))
        if time.monotonic() > deadline:
            os.kill(process.pid, signal.SIGKILL)
            return used + 2 * _HANGS
        time.sleep(0.01)
    return used
