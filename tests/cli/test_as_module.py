"""``python -m partialfair`` is the command line, too."""

import subprocess
import sys


def test_the_package_runs_as_a_module():
    answer = subprocess.run(
        [sys.executable, "-m", "partialfair", "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("partialfair ")
