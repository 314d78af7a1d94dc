"""What packages that extend partialfair import besides its documented modules: one module of building blocks.

A constraint, a solver, a data set or a subcommand of another distribution is written with these names; see
CONTRIBUTING.md. Names are imported on first use (PEP 562), so that the help of a command waits for no package
of numbers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partialfair.cli.options import OUTPUT, AsJson
    from partialfair.cli.output import (
        PlainTable,
        check_directory,
        console,
        echo,
        json_text,
        note,
        png,
        printing,
        step,
    )
    from partialfair.cli.process import keeping
    from partialfair.constraints.base import LEAST_GAP, Positive, refuse_empty_groups
    from partialfair.constraints.block import ConstraintBlock
    from partialfair.constraints.dc.algebra import DC, DCSystem, atom
    from partialfair.constraints.dc.bank import Gradient
    from partialfair.constraints.dc.row_columns import RowColumns
    from partialfair.constraints.surrogates import Surrogate
    from partialfair.data.categoricals import CategoricalCodes
    from partialfair.data.groups import Groups, Members, members_of
    from partialfair.datasets.registry import register_dataset
    from partialfair.datasets.source import (
        DATA_VARIABLE,
        PathLike,
        RemoteFile,
        either_layout,
        find_named,
        read_all,
        search_directories,
        searched,
    )
    from partialfair.datasets.task import group_series
    from partialfair.optimization.problems.constrained import Problem, ProblemPoint
    from partialfair.optimization.problems.rows import Capability
    from partialfair.optimization.solvers.result import Callback, Result, Run, Solver
    from partialfair.optimization.solvers.status import Status
    from partialfair.persistence import register_saved_classes
    from partialfair.plotting.style import GROUP_COLOURS
    from partialfair.report.rendering import page_style
    from partialfair.report.sections import Section
    from partialfair.utils.checks import check_choice, check_count, check_number
    from partialfair.utils.clock import check_clock
    from partialfair.utils.extras import require
    from partialfair.utils.files import check_file, write_file, write_files
    from partialfair.utils.typing import Floats, GapScale, IntervalLike, Ints

__all__ = [
    "DATA_VARIABLE",
    "DC",
    "GROUP_COLOURS",
    "LEAST_GAP",
    "OUTPUT",
    "AsJson",
    "Callback",
    "Capability",
    "CategoricalCodes",
    "ConstraintBlock",
    "DCSystem",
    "Floats",
    "GapScale",
    "Gradient",
    "Groups",
    "IntervalLike",
    "Ints",
    "Members",
    "PathLike",
    "PlainTable",
    "Positive",
    "Problem",
    "ProblemPoint",
    "RemoteFile",
    "Result",
    "RowColumns",
    "Run",
    "Section",
    "Solver",
    "Status",
    "Surrogate",
    "atom",
    "check_choice",
    "check_clock",
    "check_count",
    "check_directory",
    "check_file",
    "check_number",
    "console",
    "echo",
    "either_layout",
    "find_named",
    "group_series",
    "json_text",
    "keeping",
    "members_of",
    "note",
    "page_style",
    "png",
    "printing",
    "read_all",
    "refuse_empty_groups",
    "register_dataset",
    "register_saved_classes",
    "require",
    "search_directories",
    "searched",
    "step",
    "write_file",
    "write_files",
]

_NAMES_IN = {
    "utils.checks": "check_choice check_count check_number",
    "utils.clock": "check_clock",
    "utils.extras": "require",
    "utils.files": "check_file write_file write_files",
    "constraints.dc.row_columns": "RowColumns",
    "utils.typing": "Floats GapScale IntervalLike Ints",
    "data.categoricals": "CategoricalCodes",
    "cli.options": "OUTPUT AsJson",
    "cli.output": "PlainTable check_directory console echo json_text note png printing step",
    "cli.process": "keeping",
    "constraints.base": "LEAST_GAP Positive refuse_empty_groups",
    "constraints.block": "ConstraintBlock",
    "datasets.registry": "register_dataset",
    "datasets.source": "DATA_VARIABLE PathLike RemoteFile either_layout find_named "
    "read_all search_directories searched",
    "datasets.task": "group_series",
    "constraints.dc.algebra": "DC DCSystem atom",
    "constraints.dc.bank": "Gradient",
    "data.groups": "Groups Members members_of",
    "persistence": "register_saved_classes",
    "plotting.style": "GROUP_COLOURS",
    "optimization.problems.constrained": "Problem ProblemPoint",
    "optimization.problems.rows": "Capability",
    "report.rendering": "page_style",
    "report.sections": "Section",
    "optimization.solvers.result": "Callback Result Run Solver",
    "optimization.solvers.status": "Status",
    "constraints.surrogates": "Surrogate",
}
_HOME_OF = {name: f"partialfair.{module}" for module, names in _NAMES_IN.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'partialfair.extension' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
