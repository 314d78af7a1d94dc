"""Offers what packages that extend partialfair import besides its documented modules.

A constraint, a solver, a data set or a subcommand of another distribution is written with these names; see
CONTRIBUTING.md. They are listed once, in the stub next to this file, as lazy loaders of other packages do
(SPEC 1): type checkers follow its imports, and here they are done on first use (PEP 562), so that the help of
a command waits for no package of numbers.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOME_OF = {
    alias.name: str(node.module)
    for node in _STUB.body
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
