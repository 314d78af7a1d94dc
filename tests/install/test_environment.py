"""What commands make of the user's directories, and imports of the garbage collector."""

import gc
import os
import subprocess
import sys

import pytest

from partialfair.utils.extras import absolute_user_directories, import_quickly


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the user's directories are others")
@pytest.mark.parametrize("value", ["", "relative"])
@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "XDG_CONFIG_HOME"])
def test_no_package_uses_the_working_directory(tmp_path, name, value):
    """matplotlib creates the directory of its settings when it is imported, and the one of its cache."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    (home / ".config").mkdir(parents=True)
    code = """
import sys
from partialfair import cli
def command():
    import matplotlib.pyplot, pooch
    matplotlib.get_cachedir(), matplotlib.get_configdir()
    assert pooch.os_cache("p").is_absolute()
cli.command = command
cli.main()
"""
    inherited = {key: text for key, text in os.environ.items() if not key.startswith(("XDG_", "MPL"))}
    subprocess.run(
        [sys.executable, "-c", code], env={**inherited, "HOME": str(home), name: value}, cwd=work, check=True
    )
    assert not [*work.iterdir()]


def test_hidden_directories_come_back(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("XDG_CONFIG_HOME", os.path.abspath("absolute"))
    with absolute_user_directories():
        assert "XDG_CACHE_HOME" not in os.environ
        assert "XDG_CONFIG_HOME" in os.environ
    assert os.environ["XDG_CACHE_HOME"] == "relative"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_before(enabled):
    (gc.enable if enabled else gc.disable)()
    try:
        with import_quickly():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
