"""The end of a command's process, and its standard streams.

Ctrl-C ends a command at once, and leaves no partly written file.

Python would raise KeyboardInterrupt in the main thread, as soon as compiled code returns, and any code could
catch it. Here a separate thread receives the signal through a pipe and ends the process.

Streams may be closed (``>&-``), and the reader of a stream may have closed the pipe (``| head``).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

_SIGNALS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGHUP"):  # the terminal was closed
    _SIGNALS[signal.SIGHUP] = "terminated"

_said_instead: list[str] = []
"""Messages of commands that write files one after the other while they run."""

_CLEAN_LINE_AND_CURSOR = b"\r\x1b[K\x1b[?25h"  # a spinner hides the cursor and leaves its line


@contextmanager
def ends_on_signals() -> Iterator[None]:
    """End the process on SIGINT, SIGTERM or SIGHUP with exit code 128 + signal, and no file partly written.

    Afterwards these signals are ignored, because the process is about to end. Signals that were ignored
    before, for example in a background job, stay ignored. Outside the main thread, and on systems other than
    POSIX, Python's handling remains.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    pipe_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _leave_it_to_the_thread)
    watcher = threading.Thread(target=_watch, args=(reading,), name="partialfair-signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        # The process is about to end, where Python's handlers would print a traceback.
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(pipe_before)
        os.close(writing)
        watcher.join()
        os.close(reading)


@contextmanager
def keeping(sentence: str) -> Iterator[None]:
    """Print this sentence if the command is ended inside the block, where some files may be written."""
    _said_instead.append(sentence)
    try:
        yield
    finally:
        _said_instead.pop()


def goodbye(word: str, *, written: bool) -> bytes:
    """Return the last line of a command that was ended."""
    what = "its files had been written" if written else "no file was written"
    if _said_instead:
        what = _said_instead[-1]
    return f"partialfair: {word}; {what}\n".encode()


def _leave_it_to_the_thread(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes the signal to the pipe only if a handler is set."""


def _watch(reading: int) -> None:
    """Wait for a signal, or for the other end to be closed."""
    from partialfair.utils.files import abandon

    while byte := os.read(reading, 1):
        word = _SIGNALS.get(byte[0])
        if word is not None:
            written = abandon()
            line = goodbye(word, written=written)
            try:
                os.write(2, (_CLEAN_LINE_AND_CURSOR if os.isatty(2) else b"") + line)
            finally:
                os._exit(128 + byte[0])


def open_closed() -> None:
    """Open streams that are closed as the null device, before a file gets their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good


def discard(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to the null device, with its buffered text."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def release() -> None:
    """Flush the streams, or discard their text: at the end of the process this would be an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard(stream)
