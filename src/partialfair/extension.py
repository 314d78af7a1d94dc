"""What packages that extend partialfair import besides its documented modules: one module of building blocks.

A constraint, a solver, a data set or a subcommand of another distribution is written with these names; see
CONTRIBUTING.md. Names are imported on first use (PEP 562), so that the help of a command waits for no package
of numbers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partialfair._checks import check_choice, check_count
    from partialfair._extras import require
    from partialfair._files import check_file, write_file, write_files
    from partialfair._typing import Floats, GapScale, Ints
    from partialfair.categoricals import CategoricalCodes
    from partialfair.cli._interrupts import keeping
    from partialfair.cli._options import OUTPUT, AsJson
    from partialfair.cli._output import PlainTable, console, echo, json_text, note, printing, step
    from partialfair.cli._writing import check_directory, png
    from partialfair.datasets._registry import register_dataset
    from partialfair.datasets._source import (
        DATA_VARIABLE,
        PathLike,
        RemoteFile,
        either_layout,
        find_named,
        read_all,
        search_directories,
        searched,
    )
    from partialfair.datasets._task import group_series
    from partialfair.groups import Groups
    from partialfair.plotting._style import GROUP_COLOURS
    from partialfair.report.rendering import page_style
    from partialfair.report.sections import Section

__all__ = [
    "DATA_VARIABLE",
    "GROUP_COLOURS",
    "OUTPUT",
    "AsJson",
    "CategoricalCodes",
    "Floats",
    "GapScale",
    "Groups",
    "Ints",
    "PathLike",
    "PlainTable",
    "RemoteFile",
    "Section",
    "check_choice",
    "check_count",
    "check_directory",
    "check_file",
    "console",
    "echo",
    "either_layout",
    "find_named",
    "group_series",
    "json_text",
    "keeping",
    "note",
    "page_style",
    "png",
    "printing",
    "read_all",
    "register_dataset",
    "require",
    "search_directories",
    "searched",
    "step",
    "write_file",
    "write_files",
]

_NAMES_IN = {
    "_checks": ("check_choice", "check_count"),
    "_extras": ("require",),
    "_files": ("check_file", "write_file", "write_files"),
    "_typing": ("Floats", "GapScale", "Ints"),
    "categoricals": ("CategoricalCodes",),
    "cli._interrupts": ("keeping",),
    "cli._options": ("OUTPUT", "AsJson"),
    "cli._output": ("PlainTable", "console", "echo", "json_text", "note", "printing", "step"),
    "cli._writing": ("check_directory", "png"),
    "datasets._registry": ("register_dataset",),
    "datasets._source": (
        "DATA_VARIABLE",
        "PathLike",
        "RemoteFile",
        "either_layout",
        "find_named",
        "read_all",
        "search_directories",
        "searched",
    ),
    "datasets._task": ("group_series",),
    "groups": ("Groups",),
    "plotting._style": ("GROUP_COLOURS",),
    "report.rendering": ("page_style",),
    "report.sections": ("Section",),
}
_HOME_OF = {name: f"partialfair.{module}" for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'partialfair.extension' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
