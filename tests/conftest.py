"""What all tests share: hypothesis profiles, and where the real data files are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize="CI" in os.environ)
settings.register_profile("thorough", deadline=None, max_examples=1000)
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
