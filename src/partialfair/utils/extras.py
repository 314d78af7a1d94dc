"""Imports optional packages, and finds the distributions that extend partialfair.

A distribution that extends partialfair declares entry points in one or both of two groups:

- ``partialfair.commands``: subcommands of ``partialfair``. The name is the command's, the object a
  `typer.Typer` with one command. It is imported when the command is called; lists show the summary of its
  distribution.
- ``partialfair.extensions``: functions without arguments that register datasets and classes of saved models
  (`partialfair.extension`). They are called once, when a name or a class is not known.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from partialfair.exceptions import MissingExtraError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Names from the distribution for reproducing the paper, for messages where it is missing.
PAPER_COMMANDS = ("reproduce",)
PAPER_DATASETS = ("celeba",)
PAPER_PACKAGE = "partialfair_paper"

_USER_DIRECTORIES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import ``module``, or raise an error that names the extra of partialfair that provides it.

    Parameters
    ----------
    module
        Dotted name, for instance ``"matplotlib.pyplot"``.
    extra
        The extra in ``pyproject.toml`` that installs it.
    purpose
        The feature that needs it, as the subject of the message: ``"drawing"``, ``"reading Parquet files"``.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        # An installed package with a missing dependency is broken, not missing.
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        message = (
            f"{purpose} needs {package}, which is not installed; run: pip install 'partialfair[{extra}]'"
        )
        raise MissingExtraError(message, name=package) from error


@contextmanager
def absolute_user_directories() -> Iterator[None]:
    """Hide user directories that are not absolute, as the XDG specification requires.

    numba, matplotlib and pooch would create them in the working directory.
    """
    hidden = {
        name: os.environ.pop(name)
        for name in _USER_DIRECTORIES
        if not os.path.isabs(os.environ.get(name, os.path.sep))
    }
    try:
        yield
    finally:
        os.environ.update(hidden)


@contextmanager
def import_quickly() -> Iterator[None]:
    """Disable the garbage collector, which finds almost nothing during imports."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def command_plugins() -> Mapping[str, EntryPoint]:
    """Return the commands of other distributions by name, without importing them."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="partialfair.commands")}


@cache
def load_extensions() -> None:
    """Let installed extensions register what they provide; later calls do nothing."""
    from importlib.metadata import entry_points

    for point in entry_points(group="partialfair.extensions"):  # errors of an extension are raised
        point.load()()


def missing_paper(subject: str) -> MissingExtraError:
    """Return the error that says how to install the distribution that provides ``subject``."""
    name = PAPER_PACKAGE.replace("_", "-")
    return MissingExtraError(
        f"{subject} needs {name}, which is not installed; run: pip install {name}", name=PAPER_PACKAGE
    )
