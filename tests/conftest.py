"""What all tests share: how many examples hypothesis draws, and where the real data files are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

_QUICK, _THOROUGH = 20, 300
settings.register_profile("default", deadline=None, max_examples=_QUICK, derandomize="CI" in os.environ)
settings.register_profile("thorough", deadline=None, max_examples=_THOROUGH)
settings.load_profile("default")

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Directory of real data files: $PARTIALFAIR_DATA, or ../shared/data from the repository root."""
    named = os.environ.get("PARTIALFAIR_DATA")
    directory = Path(named) if named else _BESIDE_THE_REPOSITORY
    if not directory.is_dir():
        pytest.skip("no real data: set $PARTIALFAIR_DATA to a directory that holds the public files")
    return directory


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where many examples are drawn, as by `make test-slow`, tests that draw them are slow."""
    if settings().max_examples < _THOROUGH:
        return
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker(pytest.mark.slow)
