"""Other distributions that extend partialfair: found by their entry points, imported when they are needed.

A distribution declares entry points in one or both of two groups:

- ``partialfair.commands``: subcommands of ``partialfair``. The name is the command's, the object a
  `typer.Typer` with one command. It is imported when the command is called; lists show the summary of its
  distribution.
- ``partialfair.extensions``: functions without arguments that register datasets and classes of saved models
  (`partialfair.extension`). They are called once, when a name or a class is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from partialfair.exceptions import MissingExtraError

__all__ = [
    "PAPER_COMMANDS",
    "PAPER_DATASETS",
    "PAPER_PACKAGE",
    "command_plugins",
    "load_extensions",
    "missing_paper",
]

# What the distribution for reproducing the paper provides, so that messages can name it where it is missing.
PAPER_COMMANDS = ("reproduce",)
PAPER_DATASETS = ("celeba",)
PAPER_PACKAGE = "partialfair_paper"


@cache
def command_plugins() -> Mapping[str, EntryPoint]:
    """Return the commands of other distributions by name, without importing them."""
    return {point.name: point for point in entry_points(group="partialfair.commands")}


@cache
def load_extensions() -> None:
    """Let installed extensions register what they provide; later calls do nothing."""
    for point in entry_points(group="partialfair.extensions"):
        point.load()()


def missing_paper(subject: str) -> MissingExtraError:
    """Return the error that says how to install the distribution that provides ``subject``."""
    name = PAPER_PACKAGE.replace("_", "-")
    return MissingExtraError(
        f"{subject} needs {name}, which is not installed; run: pip install {name}", name=PAPER_PACKAGE
    )
