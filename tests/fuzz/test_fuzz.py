"""Whatever the files and options: no traceback, no half-written output, no input lost, no waste.

A case that fails is named by its seed; ``python -m tests.fuzz SEED`` shows it, and ``call-SEED`` a call of
the Python interface.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

_QUICK = 50
_THOROUGH, _THOROUGH_CHUNK = 2200, 50


def _chunks(first: int, last: int, size: int) -> list[range]:
    return [range(start, min(start + size, last)) for start in range(first, last, size)]


def _name(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


def test_hostile_files_and_options(broken: Callable[[str], list[str]]) -> None:
    _fail_where_broken(broken, range(_QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", _chunks(_QUICK, _THOROUGH, _THOROUGH_CHUNK), ids=_name)
def test_more_hostile_files_and_options(broken: Callable[[str], list[str]], seeds: range) -> None:
    _fail_where_broken(broken, seeds)


def test_hostile_calls(broken_by_calls: Callable[[str], list[str]]) -> None:
    _fail_where_broken(broken_by_calls, range(_QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", _chunks(_QUICK, _THOROUGH, 150), ids=_name)
def test_more_hostile_calls(broken_by_calls: Callable[[str], list[str]], seeds: range) -> None:
    _fail_where_broken(broken_by_calls, seeds)


def _fail_where_broken(broken: Callable[[str], list[str]], seeds: range) -> None:
    """Fail with all that was broken, not only the first."""
    rules = [rule for seed in seeds for rule in broken(str(seed))]
    if rules:
        pytest.fail("\n".join(rules), pytrace=False)
