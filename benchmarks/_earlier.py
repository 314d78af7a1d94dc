"""Earlier checkouts of this repository, and fresh processes that run a benchmark with their packages."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
"""The checkout that this script is in."""


MOVED = {"CategoricalCodes": ("partialfair.data.categoricals", "partialfair.categoricals")}
"""New and old modules of names that earlier checkouts have elsewhere, newest first."""


def import_moved(name: str) -> Any:
    """Return an object of the current package from the module that has it."""
    for module in MOVED[name]:
        with contextlib.suppress(ModuleNotFoundError):
            return getattr(importlib.import_module(module), name)
    raise ImportError(f"{name} is in none of {', '.join(MOVED[name])}")


def add_earlier(parser: argparse.ArgumentParser, worker: str, what: str) -> None:
    """Add the options that name the earlier checkout, and the option with the task of a worker."""
    earlier = parser.add_mutually_exclusive_group(required=True)
    earlier.add_argument("--before", type=Path, help="an earlier checkout")
    earlier.add_argument("--before-commit", help="an earlier commit, which is checked out temporarily")
    earlier.add_argument(worker, help=what)


@contextlib.contextmanager
def earlier_checkout(arguments: Any) -> Iterator[Path]:
    """Yield the directory of the earlier checkout; a temporary one is removed in the end."""
    if arguments.before is not None:
        yield arguments.before
        return
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        commit = arguments.before_commit
        subprocess.run([*git, "add", "--quiet", "--detach", str(checkout), commit], check=True)
        try:
            yield checkout
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def commit_of(checkout: Path) -> str:
    """Return the short commit of a checkout, with "+changes" if files other than records differ from it.

    For a directory without git, return its name.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(checkout), *words]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    commit = git("rev-parse", "--short", "HEAD")
    changes = git(
        "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/results"
    )
    return (commit or checkout.name) + ("+changes" if changes else "")


def answer_of(
    script: str, options: list[str], checkout: Path, name: str, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a script in a fresh process with the package of a checkout, and parse its last line as JSON.

    Parameters
    ----------
    script, options
        The script and its options.
    checkout
        Directory of the package; the answer's ``"package"`` is checked against it.
    name
        Short description for messages.
    settings
        Environment variables.
    """
    source = checkout.resolve() / "src"
    environment = {**os.environ, **(settings or {}), "PYTHONPATH": str(source)}
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{name}, with the package in {source}, failed:\n{done.stderr.strip()}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not Path(answer["package"]).is_relative_to(source):
        raise SystemExit(f"the package was imported from {answer['package']}, not from {source}")
    return answer
