"""The ``partialfair`` command: parse, call the library, choose the exit code.

Exit codes: 0 success, 1 a gate failed (``audit --fail-above``) or a constraint is violated, 2 bad input, 130
interrupted. There is never a traceback, unless ``PARTIALFAIR_DEBUG`` is set.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import suppress
from typing import NoReturn

from partialfair.cli.process import discard, ends_on_signals, goodbye, open_closed, release
from partialfair.exceptions import InputError, MissingExtraError
from partialfair.utils.extras import absolute_user_directories, require
from partialfair.utils.text import message_text

__all__ = ["command", "main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command line as the last action of a process, which signals end."""
    # This comes first: a file opened later would get the descriptor of a closed stream.
    open_closed()
    with ends_on_signals(), absolute_user_directories():
        try:
            command()
        finally:
            gc.freeze()  # skips the garbage collection of imported modules at exit


def command() -> NoReturn:
    """Run the command line, and raise SystemExit."""
    os.environ["MPLBACKEND"] = "Agg"  # figures go to files; interactive backends may fail to load
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack some letters
    try:
        require("typer", extra="cli", purpose="the command line")
        require("rich", extra="cli", purpose="the command line")
        from partialfair.cli.app import run

        code = run()
        sys.stdout.flush()
    except MissingExtraError as error:  # the parser itself may be missing
        _stop(str(error))
    except InputError as error:
        from partialfair.cli.output import as_options

        _stop(as_options(str(error)))
    except KeyboardInterrupt:  # raised before the parser, which converts it to an exit code
        code = _INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe, for example of a help text
        discard(sys.stdout)
        code = 0
    except OSError as error:
        _stop(f"{error.strerror}: {error.filename}" if error.filename else str(error))
    except Exception as error:
        if os.environ.get("PARTIALFAIR_DEBUG"):
            raise
        _stop(
            f"unexpected {type(error).__name__}: {error}; this is a bug in partialfair, please report it "
            "(PARTIALFAIR_DEBUG=1 shows the traceback)"
        )
    if code == _INTERRUPTED:  # without the signal thread, or when a fit was stopped
        _say(goodbye("interrupted", written=False).decode())
    release()
    sys.exit(code)


def _stop(message: str) -> NoReturn:
    _say(message_text(f"partialfair: error: {message}") + "\n")
    release()
    sys.exit(2)


def _say(line: str) -> None:
    with suppress(OSError):  # standard error has no reader
        sys.stderr.write(line)
