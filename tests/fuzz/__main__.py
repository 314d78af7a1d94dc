"""Make, show, run and judge cases.

``python -m tests.fuzz 1234 1300-1350``
    runs these cases, says what each broke, and keeps the directories of those that broke something, and of
    the only case if there is but one.
``python -m tests.fuzz call-1234 call-1300-1350``
    runs these calls of the Python interface and says what each broke.
``python -m tests.fuzz --kills``
    runs commands and interrupts or kills them, says what was broken, and counts how they ended.
``python -m tests.fuzz --serve``
    reads seeds, and names of kills, from standard input, a line each, and answers with a line of JSON: what
    was broken. ``--serve-calls`` does the same for calls, in a process of its own because they use libraries
    that may start threads, and ``--serve-edited`` for model files with something changed in them: seeds, or
    names of bad nodes.
"""

from __future__ import annotations

import os
import sys


def main(words: list[str]) -> int:
    """Run with one thread: a process with threads cannot be forked safely, and a case is to cost one core."""
    for library in ("NUMBA", "OMP", "OPENBLAS", "ARROW"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    if words == ["--serve-edited"]:  # without the libraries' threads in the process of the other cases
        from tests.fuzz.edited import serve_edited

        serve_edited()
        return 0
    from tests.fuzz.session import CALL, serve, serve_calls, show, show_calls, show_kills

    if words == ["--serve"]:
        serve()
        return 0
    if words == ["--serve-calls"]:
        serve_calls()
        return 0
    if words == ["--kills"]:
        return show_kills()
    calls = [word.removeprefix(CALL) for word in words if word.startswith(CALL)]
    return show_calls(_seeds(calls)) if calls else show(_seeds(words))


def _seeds(words: list[str]) -> list[int]:
    """Read ``7`` and ``10-20``, the last included."""
    ends = [word.partition("-")[::2] for word in words]
    return [seed for first, last in ends for seed in range(int(first), int(last or first) + 1)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
