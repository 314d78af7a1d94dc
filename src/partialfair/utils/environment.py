"""How packages are imported: which directories they see as the user's own, and without pauses for garbage."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["absolute_user_directories", "import_quickly"]

_USER_DIRECTORIES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")


@contextmanager
def absolute_user_directories() -> Iterator[None]:
    """Hide the user's directories that are not absolute, as the XDG specification says.

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
    """Switch the garbage collector off: in modules, which stay, it finds next to nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
