"""What all tests share: the examples that Hypothesis draws, the real data files, a clock that counts."""

from __future__ import annotations

import itertools
import os
import random
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

# By default the same examples everywhere and every time, however slow the machine is. `make test-slow` draws
# others each time, by a seed that it prints.
_QUICK, _THOROUGH = 20, 300
_ANYWHERE = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _ANYWHERE, max_examples=_QUICK, derandomize=True)
settings.register_profile("thorough", _ANYWHERE, max_examples=_THOROUGH, derandomize=False)
settings.load_profile("default")
with suppress(ImportError):  # which older versions have not
    from hypothesis.internal.conjecture import providers

    # Some examples are constants that Hypothesis finds in the modules imported so far, which depends on the
    # order of tests and on every line of code. There is no setting for it.
    providers._get_local_constants = lambda: providers._local_constants


def pytest_configure(config: pytest.Config) -> None:
    """Give workers one thread each: threads that wait for a core keep it busy."""
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")


_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Directory of real data files: $PARTIALFAIR_DATA, or ../shared/data from the repository root."""
    named = os.environ.get("PARTIALFAIR_DATA")
    directory = Path(named) if named else _BESIDE_THE_REPOSITORY
    if not directory.is_dir():
        pytest.skip("no real data: set $PARTIALFAIR_DATA to a directory that holds the public files")
    return directory


@pytest.fixture(autouse=True)
def _one_seed_for_all() -> None:
    """Seed what libraries draw from where a test names no seed: the order of tests then changes nothing."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture
def ticking_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the monotonic clock move on by 1 ms at each look, and by nothing else: time limits count looks."""
    looks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 1e-3 * next(looks))


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where many examples are drawn, as by `make test-slow`, tests that draw them are slow."""
    if settings().max_examples < _THOROUGH:
        return
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker(pytest.mark.slow)
