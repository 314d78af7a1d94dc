"""Interrupted or killed, a command leaves files that are whole, and sets that say what they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from tests.fuzz.kills import COMMANDS, Kill, faults, run_and_kill

_HANDFUL = [
    Kill("train", SIGKILL, aimed=True, earlier=True, number=0),
    Kill("train", SIGINT, aimed=False, earlier=True, number=0),
    Kill("predict", SIGKILL, aimed=True, earlier=True, number=0),
    Kill("audit", SIGKILL, aimed=True, earlier=False, number=0),
    Kill("audit", SIGINT, aimed=True, earlier=True, number=0),
]


def _campaign() -> Iterator[Kill]:
    """Yield 48 interrupts and 48 kills, half of them aimed at the writing."""
    for number in range(1, 4):
        for command in COMMANDS:
            for how in (SIGINT, SIGKILL):
                for aimed in (False, True):
                    for earlier in (False, True):
                        yield Kill(command, how, aimed, earlier, number)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where earlier good sets are kept."""
    return tmp_path_factory.mktemp("earlier")


@pytest.mark.parametrize("kill", _HANDFUL, ids=str)
def test_killed_commands(kill: Kill, tmp_path: Path, earlier: Path) -> None:
    _fail_where_faulty(kill, tmp_path, earlier)


@pytest.mark.slow
@pytest.mark.parametrize("kill", _campaign(), ids=str)
def test_many_killed_commands(kill: Kill, tmp_path: Path, earlier: Path) -> None:
    _fail_where_faulty(kill, tmp_path, earlier)


def _fail_where_faulty(kill: Kill, work: Path, earlier: Path) -> None:
    ending = run_and_kill(kill, work, earlier)
    if sentences := list(faults(kill, ending, work)):
        pytest.fail("\n".join(sentences), pytrace=False)
