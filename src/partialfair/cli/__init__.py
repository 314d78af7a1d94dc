"""The ``partialfair`` command: parse, call the library, choose the exit code.

Exit codes: 0 fine, 1 a gate failed (``audit --fail-above``) or a promise was not kept, 2 bad input, 130
interrupted. Never a traceback, unless ``PARTIALFAIR_DEBUG`` is set.
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
    """Run the command line as the last thing that a process does: signals end it, and afterwards nothing."""
    # First of all: a file opened later would get the descriptor of a closed stream.
    open_closed()
    with ends_on_signals(), absolute_user_directories():
        try:
            command()
        finally:
            gc.freeze()  # the end need not look for garbage in all that was imported


def command() -> NoReturn:
    """Run the command line, and raise SystemExit."""
    os.environ["MPLBACKEND"] = "Agg"  # pictures go to files; a backend for windows or notebooks may not load
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack a letter
    try:
        require("typer", extra="cli", purpose="the command line")
        require("rich", extra="cli", purpose="the command line")
        from partialfair.cli.app import run

        code = run()
        sys.stdout.flush()
    except MissingExtraError as error:  # perhaps of the parser itself
        _stop(str(error))
    except InputError as error:
        from partialfair.cli.output import as_options

        _stop(as_options(str(error)))
    except KeyboardInterrupt:  # before the parser, which makes an exit code of it, was there
        code = _INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, of a help text say
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
    if code == _INTERRUPTED:  # where no thread hears of signals, or a fit was stopped
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
