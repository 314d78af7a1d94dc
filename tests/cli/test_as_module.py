"""``python -m partialfair`` is the command line, too."""

import shlex
import subprocess
import sys


def test_the_package_runs_as_a_module():
    answer = subprocess.run(
        [sys.executable, "-m", "partialfair", "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("partialfair ")


def test_it_prints_commands_that_work(tmp_path):
    """As a module it has no program's name: what it prints begins with the interpreter."""
    module = [sys.executable, "-m", "partialfair"]
    shown = subprocess.run([*module, "train"], capture_output=True, text=True, check=False, cwd=tmp_path)
    usage = shown.stderr.rpartition("; see ")[2].strip()
    assert usage.endswith("-m partialfair train --help")
    again = subprocess.run(shlex.split(usage), capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "--max-gap" in again.stdout
