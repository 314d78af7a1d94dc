"""Compiles loops by numba when they are first called.

Until then numba is not imported: a command that runs no loop does not wait for it. Numba keeps compiled code
in a cache, next to the source or below the user's home. Where neither can be written, as in containers with a
read-only disk, or where the disk is full, each process compiles anew. Without numba, on a machine with only
torch and NumPy, the interpreter runs the loops, with the same results, but slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from threading import RLock
from types import CodeType
from typing import Any

from partialfair.utils.extras import absolute_user_directories

_lock = RLock()


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function of numbers and arrays, with numba's options, when it is first called."""
    return _Loop(function, options) if function is not None else lambda loop: _Loop(loop, options)


class _Loop:
    """A function that numba compiles when it is first called; it must not call itself."""

    compiled: list[_Loop] = []  # noqa: RUF012 - of all loops

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._function, self._options = function, options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        dispatcher = self._dispatcher or self.dispatcher
        try:
            return dispatcher(*arguments)
        except OSError:  # of the cache, before the loop began: loops open no files
            for loop in _Loop.compiled:
                loop._dispatcher._cache.disable()
            return dispatcher(*arguments)

    @property
    def dispatcher(self) -> Any:
        """The numba dispatcher of the function, with the loops it calls compiled first."""
        with _lock:  # several threads may make the first call
            if self._dispatcher is None:
                # numba looks names up in the module, and knows its own dispatchers but not this class.
                names = self._function.__globals__
                for name in _names_in(self._function.__code__):
                    if isinstance(called := names.get(name), _Loop):
                        names[name] = called.dispatcher
                self._dispatcher = self._compile()
                _Loop.compiled.append(self)
        return self._dispatcher

    def _compile(self) -> Any:
        try:
            import numba
        except ModuleNotFoundError:
            return self._function
        with absolute_user_directories():
            try:
                return numba.njit(**self._options)(self._function)
            except RuntimeError:  # no place for the cache
                return numba.njit(**{**self._options, "cache": False})(self._function)

    @property
    def _numba_type_(self) -> Any:
        """The numba type of a loop that is an argument of another."""
        return self.dispatcher._numba_type_


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names that code uses, and that of functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
