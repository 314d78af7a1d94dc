"""Scripts of this repository, run as their users run them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_script(path, *arguments):
    return run_python(str(ROOT / path), *arguments)


def run_smaller(path, change, *arguments, call="script.main()"):
    """Run a script after a change that leaves less to do."""
    script = ROOT / path
    code = f"import {script.stem} as script\n{change}\n{call}"
    return run_python("-c", code, *arguments, cwd=script.parent)


def run_python(*arguments, cwd=None):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout
