"""Ends a fit at its deadline or at Ctrl-C, at whatever depth of calls it is.

Code that works for long calls `check_clock` about ten times a second: at every pass over the data, in every
round of a quadratic program, and between the pieces of long passes. Whoever set the deadline catches
`OutOfTime`. The deadline belongs to the thread (a context variable): fits in other threads have their own.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType


class OutOfTime(Exception):
    """The deadline has passed."""


@dataclass(eq=False)
class _Interrupts:
    """Whether Ctrl-C was pressed and no code has acted on it yet."""

    pending: bool = False


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))
# An object, not a flag: handlers of signals run in the context of whatever they interrupt.
_INTERRUPTS: ContextVar[_Interrupts | None] = ContextVar("interrupts", default=None)


def deadline_in(seconds: float | None) -> float:
    """Return the time, on the monotonic clock, that is so many seconds away; never for None."""
    return float("inf") if seconds is None else time.monotonic() + seconds


@contextmanager
def deadline(end: float) -> Iterator[None]:
    """Let work inside end at a time of the monotonic clock, or at an enclosing deadline if it comes first."""
    token = _DEADLINE.set(min(end, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


@contextmanager
def ignore_deadline() -> Iterator[None]:
    """Let a single pass over the data, without which there is no answer at all, come to its end."""
    token = _DEADLINE.set(float("inf"))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def out_of_time(end: float | None = None) -> bool:
    """Whether the deadline has passed, or a given time."""
    return time.monotonic() >= (_DEADLINE.get() if end is None else end)


def seconds_left() -> float | None:
    """Return how long it is to the deadline, always positive; None without one."""
    left = _DEADLINE.get() - time.monotonic()
    return None if left == float("inf") else max(left, 1e-9)  # time limits must be positive


def check_clock() -> None:
    """Raise `OutOfTime` past the deadline, and KeyboardInterrupt if one was lost on the way."""
    interrupts = _INTERRUPTS.get()
    if interrupts is not None and interrupts.pending:
        raise KeyboardInterrupt
    if out_of_time():
        raise OutOfTime


def acknowledge_interrupt() -> None:
    """Say that a KeyboardInterrupt was caught and acted upon."""
    interrupts = _INTERRUPTS.get()
    if interrupts is not None:
        interrupts.pending = False


@contextmanager
def notice_interrupts() -> Iterator[None]:
    """Remember Ctrl-C until some code acts on it.

    A KeyboardInterrupt that is raised inside a finaliser, or in a callback that catches everything, is
    printed or swallowed; `check_clock` raises it again. Handlers of the application's own are left alone.
    """
    # Only the main thread may set handlers, and only Python's own handler is replaced.
    in_charge = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not in_charge:
        yield
        return
    interrupts = _Interrupts()

    def handle(number: int, frame: FrameType | None) -> None:
        interrupts.pending = True
        signal.default_int_handler(number, frame)

    token = _INTERRUPTS.set(interrupts)
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _INTERRUPTS.reset(token)
