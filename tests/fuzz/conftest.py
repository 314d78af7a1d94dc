"""The process that runs cases and kills commands: one with threads, as that of the tests, must not fork."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def broken() -> Iterator[Callable[[str], list[str]]]:
    """Return what is broken, a function of a seed or of the name of a kill; the process starts when asked."""
    yield from _asking("--serve")


@pytest.fixture(scope="session")
def broken_by_edits() -> Iterator[Callable[[str], list[str]]]:
    """Return what an edited model file breaks, a function of a seed or of the name of a bad node."""
    yield from _asking("--serve-edited")


@pytest.fixture(scope="session")
def broken_by_calls() -> Iterator[Callable[[str], list[str]]]:
    """Return what a call of the Python interface breaks, a function of a seed."""
    yield from _asking("--serve-calls")


def _asking(mode: str) -> Iterator[Callable[[str], list[str]]]:
    server: list[subprocess.Popen[str]] = []

    def ask(line: str) -> list[str]:
        if not server:
            server.append(_server(mode))
        (process,) = server
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _, error = process.communicate()
            pytest.fail(f"the process that runs the cases died at {line}: {error}")
        said = json.loads(answer)
        return [f"{said['name']}: {rule}    {said['command'][:200]}" for rule in said["broken"]]

    yield ask
    for process in server:
        process.communicate()


def _server(mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz", mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_ROOT,
        text=True,
    )
