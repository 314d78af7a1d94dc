"""Standard streams that are closed (``>&-``), or whose reader has gone (``| head``)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

__all__ = ["discard", "open_closed", "release"]


def open_closed() -> None:
    """Open streams that are closed as the null device, before a file gets their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good


def discard(stream: TextIO) -> None:
    """Lead a stream that cannot be written to the null device, with what it still holds."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def release() -> None:
    """Write what streams hold, or discard it: at the end of the process it would be an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard(stream)
