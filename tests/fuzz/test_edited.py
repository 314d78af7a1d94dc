"""Model files with something changed in them load and score rows, or are refused: no crash, no endless walk.

``echo SEED | python -m tests.fuzz --serve-edited`` runs one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

_QUICK, _THOROUGH, _CHUNK = 50, 2000, 50


def test_nodes_that_no_tree_has_are_refused(broken_by_edits: Callable[[str], list[str]]) -> None:
    _fail_where_broken(broken_by_edits, ["bad nodes"])


def test_edited_models(broken_by_edits: Callable[[str], list[str]]) -> None:
    _fail_where_broken(broken_by_edits, map(str, range(_QUICK)))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(_QUICK, _THOROUGH, _CHUNK))
def test_more_edited_models(broken_by_edits: Callable[[str], list[str]], first: int) -> None:
    _fail_where_broken(broken_by_edits, map(str, range(first, first + _CHUNK)))


def _fail_where_broken(broken: Callable[[str], list[str]], names: Iterable[str]) -> None:
    """Fail with all that was broken, not only the first."""
    if rules := [rule for name in names for rule in broken(name)]:
        pytest.fail("\n".join(rules), pytrace=False)
