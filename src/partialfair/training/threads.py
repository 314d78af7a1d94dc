"""One BLAS thread during fits, in any number of Python threads.

Most libraries have one limit for the whole process. If each fit restored the limit that it met, a fit that
begins during another would meet 1, and set it again when it ends last::

    first fit    2 → 1 ─────── 1 → 2
    second fit         1 → 1 ──────── 2 → 1

So a separate thread holds the limit from the beginning of the first of several fits to the end of the last:
newer versions of threadpoolctl let only the thread that set a limit change it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from threadpoolctl import threadpool_limits

__all__ = ["one_blas_thread"]


class _Holder:
    """A thread that limits BLAS to one thread until it is released."""

    def __init__(self) -> None:
        self._limited, self._done = Event(), Event()
        self._thread = Thread(target=self._hold, name="partialfair-blas", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._limited.wait()

    def _hold(self) -> None:
        try:
            with threadpool_limits(1, user_api="blas"):
                self._limited.set()
                self._done.wait()
        finally:
            self._limited.set()

    def release(self) -> None:
        self._done.set()
        if self._thread.is_alive():  # or it ends as soon as it begins
            self._thread.join()


class _RunningFits:
    """The fits in progress, and the thread that holds the limit for them.

    An interrupt may come at any step, so both methods can be called at any time, and repeatedly.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.under_way: set[object] = set()
        self.holder: _Holder | None = None

    def begin(self, fit: object) -> None:
        with self.lock:
            self.under_way.add(fit)
            if self.holder is not None:
                return
            holder = _Holder()
            try:
                holder.start()
                self.holder = holder
            except BaseException:
                self.holder = None
                holder.release()
                raise

    def end(self, fit: object) -> None:
        with self.lock:
            self.under_way.discard(fit)
            if not self.under_way and self.holder is not None:
                self.holder.release()
                self.holder = None


_fits = _RunningFits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fits.__init__)  # type: ignore[misc]  # a child has none of the threads


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread; the end of the last of several fits restores the former limit."""
    fit = object()
    try:
        _fits.begin(fit)
        with threadpool_limits(1, user_api="blas"):  # for libraries with a limit per thread
            yield
    finally:
        _fits.end(fit)
