"""Commands in processes that can be sent signals: fresh ones, or forked from one that has all imported.

All of them take themselves for the same process, as the commands of a container that is restarted do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from tests.fuzz.runner import become

__all__ = ["Forked", "Fresh", "Process", "send"]

_PROCESS_ID = 7
_START = f"""
import os
import signal
os.getpid = lambda: {_PROCESS_ID}
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from partialfair.cli import main
main()
"""


class Process(Protocol):
    """A command that runs."""

    pid: int

    def __init__(self, words: tuple[str, ...], work: Path) -> None:
        """Start it in a directory."""

    def poll(self) -> int | None:
        """Return the exit code, less than 0 of a signal; None as long as it runs."""

    def finish(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and standard error."""


class Fresh:
    """A command as a shell starts it: seconds of imports are a part of it."""

    def __init__(self, words: tuple[str, ...], work: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *words],
            cwd=work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def finish(self) -> tuple[int, str]:
        _, err = self._process.communicate()
        return self._process.returncode, err


class Forked:
    """A command that begins where the imports are done, in a process that has no threads."""

    def __init__(self, words: tuple[str, ...], work: Path) -> None:
        self._directory = work.parent
        self._code: int | None = None
        (self._directory / "stderr").touch()  # a command may be killed before it has one
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # deadly until the command hears of it
        self.pid = os.fork()
        if self.pid == 0:
            os.getpid = lambda: _PROCESS_ID
            become(words, work, streams=self._directory)
        signal.signal(signal.SIGINT, before)

    def poll(self) -> int | None:
        return self._reap(os.WNOHANG)

    def finish(self) -> tuple[int, str]:
        code = self._reap(0)
        assert code is not None
        return code, (self._directory / "stderr").read_text(errors="replace")

    def _reap(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal, if there still is somebody to hear it."""
    if process.poll() is None:
        os.kill(process.pid, number)  # no other process has its id before it is waited for
