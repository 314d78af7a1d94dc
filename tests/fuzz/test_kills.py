"""Interrupted or killed, a command leaves files that are whole, and sets that say what they are.

``python -m tests.fuzz --kills`` runs the campaign and counts how it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from signal import SIGINT, SIGKILL

import pytest

from tests.fuzz.kills import HANDFUL, campaign


@pytest.mark.parametrize("kill", map(str, HANDFUL))
def test_killed_commands(kill: str, broken: Callable[[str], list[str]]) -> None:
    _fail_where_broken(kill, broken)


@pytest.mark.slow
@pytest.mark.parametrize("kill", map(str, campaign()))
def test_many_killed_commands(kill: str, broken: Callable[[str], list[str]]) -> None:
    """Each of them hits: a command that ended too early is run again."""
    _fail_where_broken(kill, broken)


def _fail_where_broken(kill: str, broken: Callable[[str], list[str]]) -> None:
    if sentences := broken(kill):
        pytest.fail("\n".join(sentences), pytrace=False)


def test_the_campaign_is_large_and_aims_at_everything() -> None:
    kills = list(campaign())
    assert min(Counter(kill.signal for kill in kills).values()) >= 40
    combinations = Counter((kill.command, kill.signal, kill.aimed, kill.earlier) for kill in kills)
    assert len(combinations) == 4 * 2 * 2 * 2
    assert {SIGINT, SIGKILL} == {kill.signal for kill in kills}
    assert len(set(combinations.values())) == 1
