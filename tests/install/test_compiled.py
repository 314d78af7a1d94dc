"""Loops are compiled wherever the package is installed, with a cache or without."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import partialfair
from partialfair.data.intervals import IntervalSet, passed_share
from partialfair.utils.compiled import njit

_CODE = """
import numpy as np
from partialfair.data.intervals import passed_share
print(passed_share(0.25, np.array([0.0, 0.5]), np.array([0.5, 0.5]), 1.0))
"""


@pytest.fixture(scope="module")
def read_only(tmp_path_factory) -> Path:
    """Return a directory with the package, in which nothing can be cached: for root permissions do not count.

    Where directories of caches would be, there are files.
    """
    root = tmp_path_factory.mktemp("installed")
    package = root / "partialfair"
    shutil.copytree(
        Path(partialfair.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.html")
    )
    for directory in (package, *filter(Path.is_dir, [*package.rglob("*")])):
        (directory / "__pycache__").touch()
    return root


def passed(installed: Path, work: Path, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "NUMBA_"))}
    run = subprocess.run(
        [sys.executable, "-c", environment.pop("code", _CODE)],
        env={**inherited, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.skipif(os.name != "posix", reason="of /dev/null")
@pytest.mark.parametrize(
    "environment",
    [{}, {"NUMBA_CACHE_DIR": "/dev/null/cache"}, {"XDG_CACHE_HOME": "/dev/null/cache"}],
    ids=["home", "numba", "xdg"],
)
def test_nothing_can_be_written(read_only, tmp_path, environment):
    assert passed(read_only, tmp_path, HOME="/dev/null", **environment) == "0.25"
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the user's cache is another")
@pytest.mark.parametrize("value", ["", "relative"])
def test_the_working_directory_is_no_cache(read_only, tmp_path, value):
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    assert passed(read_only, work, HOME=str(home), XDG_CACHE_HOME=value) == "0.25"
    assert not [*work.iterdir()]
    assert [*home.glob(".cache/numba/**/*.nbi")]


@pytest.mark.skipif(os.name != "posix", reason="of limits of resources")
def test_the_disk_is_full(tmp_path):
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)){_CODE}"
    source = Path(partialfair.__file__).parents[1]
    assert passed(source, tmp_path, code=limited, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == "0.25"


def test_a_loop_calls_others_and_gets_them_as_arguments():
    def doubled_sum(values, term):
        total = 0.0
        for value in values:
            total += 2 * term(value)
        return total

    values = np.array([1.0, -2.0, 4.0])
    assert njit(doubled_sum)(values, njit(abs_of)) == 14
    assert njit(sum_of_squares)(values) == 21


def abs_of(value):
    return abs(value)


@njit
def square(value):
    return value * value


def sum_of_squares(values):
    total = 0.0
    for value in values:
        total += square(value)
    return total


def test_a_loop_reads_as_its_function():
    assert passed_share.__name__ == "passed_share"
    assert passed_share.__doc__.startswith("Fraction of an interval set")
    assert passed_share.__module__ == "partialfair.data.intervals"
    assert pickle.loads(pickle.dumps(IntervalSet(((0.0, 0.5),)))) == IntervalSet(((0.0, 0.5),))
