"""Whatever the files and options: no traceback, no half-written output, no input lost, no waste.

A case that fails is named by its seed; ``python -m tests.fuzz SEED`` shows it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_QUICK, _QUICK_CHUNK = 150, 75
_THOROUGH, _THOROUGH_CHUNK = 2200, 50


@pytest.fixture(scope="module")
def broken() -> Iterator[Callable[[int], list[str]]]:
    """Return what cases break: a function of the seed.

    The cases run in a process of their own, because one with threads, as that of the tests, must not fork.
    """
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz", "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_ROOT,
        text=True,
    )

    def ask(seed: int) -> list[str]:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(f"{seed}\n")
            server.stdin.flush()
            answer = server.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _, error = server.communicate()
            pytest.fail(f"the process that runs the cases died at seed {seed}: {error}")
        said = json.loads(answer)
        return [f"{said['seed']}: {rule}    {said['command'][:200]}" for rule in said["broken"]]

    with server:
        yield ask


def _chunks(first: int, last: int, size: int) -> list[range]:
    return [range(start, min(start + size, last)) for start in range(first, last, size)]


def _name(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


@pytest.mark.parametrize("seeds", _chunks(0, _QUICK, _QUICK_CHUNK), ids=_name)
def test_hostile_files_and_options(broken: Callable[[int], list[str]], seeds: range) -> None:
    _fail_where_broken(broken, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", _chunks(_QUICK, _THOROUGH, _THOROUGH_CHUNK), ids=_name)
def test_more_hostile_files_and_options(broken: Callable[[int], list[str]], seeds: range) -> None:
    _fail_where_broken(broken, seeds)


def _fail_where_broken(broken: Callable[[int], list[str]], seeds: range) -> None:
    """Fail with all that was broken, not only the first."""
    rules = [rule for seed in seeds for rule in broken(seed)]
    if rules:
        pytest.fail("\n".join(rules), pytrace=False)
