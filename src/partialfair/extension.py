"""Offers what packages that extend partialfair import besides its documented modules.

A constraint, a solver, a data set or a subcommand of another distribution is written with these names; see
CONTRIBUTING.md. Names are imported on first use (PEP 562), so that the help of a command waits for no package
of numbers. They are listed once, as imports that type checkers follow and that this module reads as text.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

# isort: off
if TYPE_CHECKING:
    from partialfair.cli.interrupts import keeping as keeping
    from partialfair.cli.options import OUTPUT as OUTPUT, AsJson as AsJson
    from partialfair.cli.output import (
        PlainTable as PlainTable,
        console as console,
        echo as echo,
        json_text as json_text,
        note as note,
        printing as printing,
        step as step,
    )
    from partialfair.cli.writing import check_directory as check_directory, png as png
    from partialfair.constraints.base import (
        LEAST_GAP as LEAST_GAP,
        Positive as Positive,
        refuse_empty_groups as refuse_empty_groups,
    )
    from partialfair.constraints.block import ConstraintBlock as ConstraintBlock
    from partialfair.constraints.dc.algebra import DC as DC, DCSystem as DCSystem, atom as atom
    from partialfair.constraints.dc.bank import Gradient as Gradient
    from partialfair.constraints.dc.row_columns import RowColumns as RowColumns
    from partialfair.constraints.surrogates import Surrogate as Surrogate
    from partialfair.data.categoricals import CategoricalCodes as CategoricalCodes
    from partialfair.data.groups import Groups as Groups, Members as Members, members_of as members_of
    from partialfair.datasets import register_dataset as register_dataset
    from partialfair.datasets.source import (
        DATA_VARIABLE as DATA_VARIABLE,
        PathLike as PathLike,
        RemoteFile as RemoteFile,
        either_layout as either_layout,
        find_named as find_named,
        read_all as read_all,
        search_directories as search_directories,
        describe_search as describe_search,
    )
    from partialfair.datasets.task import group_series as group_series
    from partialfair.optimization.problems.constrained import Problem as Problem, ProblemPoint as ProblemPoint
    from partialfair.optimization.problems.rows import Capability as Capability
    from partialfair.optimization.solvers.result import (
        Callback as Callback,
        Result as Result,
        Run as Run,
        Solver as Solver,
    )
    from partialfair.optimization.solvers.status import Status as Status
    from partialfair.persistence import register_saved_classes as register_saved_classes
    from partialfair.plotting.style import GROUP_COLOURS as GROUP_COLOURS
    from partialfair.report.rendering import page_style as page_style
    from partialfair.report.sections import Section as Section
    from partialfair.utils.checks import (
        check_choice as check_choice,
        check_count as check_count,
        check_number as check_number,
    )
    from partialfair.utils.clock import check_clock as check_clock
    from partialfair.utils.extras import require as require
    from partialfair.utils.files import (
        check_file as check_file,
        write_file as write_file,
        write_files as write_files,
    )
    from partialfair.utils.typing import (
        Floats as Floats,
        GapScale as GapScale,
        IntervalLike as IntervalLike,
        Ints as Ints,
    )
# isort: on

# The imports above, as text: module by name.
_TREE = ast.parse(Path(__file__).read_text(encoding="utf-8"))
_IMPORTS = next(node.body for node in _TREE.body if isinstance(node, ast.If))
_HOME_OF = {
    alias.name: str(node.module)
    for node in _IMPORTS
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'partialfair.extension' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
