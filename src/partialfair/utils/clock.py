"""Ends a fit at its deadline or at Ctrl-C, at any depth of calls.

Code that works for long calls `check_clock` about ten times a second: at every pass over the data, in every
round of a quadratic program, and between the pieces of long passes. The function that sets the deadline
catches `OutOfTime`. The deadline belongs to the thread (a context variable): fits in other threads have their
own.
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
# An object, not a context variable: signal handlers run in the context of the interrupted code.
_INTERRUPTS: ContextVar[_Interrupts | None] = ContextVar("interrupts", default=None)


def deadline_in(seconds: float | None) -> float:
    """Return the time, on the monotonic clock, in that number of seconds; infinity for None."""
    return float("inf") if seconds is None else time.monotonic() + seconds


@contextmanager
def deadline(end: float) -> Iterator[None]:
    """Set a deadline on the monotonic clock for the code inside, or keep an earlier enclosing one."""
    token = _DEADLINE.set(min(end, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


@contextmanager
def ignore_deadline() -> Iterator[None]:
    """Ignore the deadline inside, for a single pass over the data that every result needs."""
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
    """Record that a KeyboardInterrupt was handled."""
    interrupts = _INTERRUPTS.get()
    if interrupts is not None:
        interrupts.pending = False


@contextmanager
def notice_interrupts() -> Iterator[None]:
    """Remember Ctrl-C until it is handled.

    A KeyboardInterrupt that is raised inside a finaliser, or in a callback that catches everything, is
    printed or swallowed; `check_clock` raises it again. The application's own handlers are not replaced.
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
