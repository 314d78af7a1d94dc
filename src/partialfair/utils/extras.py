"""Optional dependencies, imported late and behind one guard."""

from __future__ import annotations

import importlib
from types import ModuleType

from partialfair.exceptions import MissingExtraError

__all__ = ["require"]


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import ``module``, or say in one sentence which extra of partialfair provides it.

    Parameters
    ----------
    module
        Dotted name, for instance ``"matplotlib.pyplot"``.
    extra
        The extra in ``pyproject.toml`` that installs it.
    purpose
        What needs it, as the subject of the message: ``"drawing"``, ``"reading Parquet files"``.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        message = (
            f"{purpose} needs {package}, which is not installed; run: pip install 'partialfair[{extra}]'"
        )
        raise MissingExtraError(message, name=package) from error
