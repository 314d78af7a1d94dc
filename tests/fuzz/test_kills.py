"""Interrupted or killed, a command leaves files that are whole, and sets that say what they are.

``python -m tests.fuzz --kills`` runs the campaign and counts how it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from tests.fuzz.kills import HANDFUL, Kill, campaign, faults, run_and_kill


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where earlier good sets are kept."""
    return tmp_path_factory.mktemp("earlier")


@pytest.mark.parametrize("kill", HANDFUL)
def test_killed_commands(kill: str, broken: Callable[[str], list[str]]) -> None:
    """Commands that begin where the imports are done, so that most moments are spent on work."""
    if sentences := broken(kill):
        pytest.fail("\n".join(sentences), pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize("kill", campaign(), ids=str)
def test_many_killed_commands(kill: Kill, tmp_path: Path, earlier: Path) -> None:
    """Each of them hits: a command that ended too early is run again."""
    ending = run_and_kill(kill, tmp_path, earlier)
    if sentences := list(faults(kill, ending)):
        pytest.fail("\n".join(sentences), pytrace=False)


def test_the_campaign_is_large_and_aims_at_everything() -> None:
    kills = list(campaign())
    assert min(Counter(kill.signal for kill in kills).values()) >= 40
    combinations = Counter((kill.command, kill.signal, kill.aimed, kill.earlier) for kill in kills)
    assert len(combinations) == 4 * 2 * 2 * 2
    assert {SIGINT, SIGKILL} == {kill.signal for kill in kills}
    assert len(set(combinations.values())) == 1
