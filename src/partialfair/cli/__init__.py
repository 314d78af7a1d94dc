"""The ``partialfair`` command: parse, call the library, choose the exit code.

Exit codes: 0 fine, 1 a gate failed (``audit --fail-above``), 2 bad input. Never a traceback, unless
``PARTIALFAIR_DEBUG`` is set.
"""

from __future__ import annotations

import os
import sys

from partialfair._extras import require
from partialfair.exceptions import InputError, MissingExtraError

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        require("typer", extra="cli", purpose="the command line")
        require("rich", extra="cli", purpose="the command line")
        from partialfair.cli._app import app

        app()
    except (InputError, MissingExtraError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("interrupted", code=130)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if os.environ.get("PARTIALFAIR_DEBUG"):
            raise
        _stop(
            f"unexpected {type(error).__name__}: {error}; this is a bug in partialfair, please report it "
            "(PARTIALFAIR_DEBUG=1 shows the traceback)"
        )


def _stop(message: str, code: int = 2) -> None:
    sys.stderr.write(f"partialfair: {message}\n")
    sys.exit(code)
