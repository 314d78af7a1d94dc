"""One thread for BLAS while models are fitted, in however many threads.

Most libraries have one limit for the whole process. Were each fit to restore what it met, one that begins
during another would meet 1, and leave it behind when it ends last::

    first fit    2 → 1 ─────── 1 → 2
    second fit         1 → 1 ──────── 2 → 1

So the limit is held by a thread of its own, from the beginning of the first of several fits to the end of the
last: newer versions of threadpoolctl let only the thread that has set a limit change it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from threadpoolctl import threadpool_limits

__all__ = ["one_blas_thread"]


class _Holder:
    """A thread that limits BLAS to one until it is told that nobody needs it any more."""

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
    """Which fits are under way, and who holds the limit for them.

    An interrupt may come at any step, so that both ends can be called at any time, and twice.
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
    """Limit BLAS to one thread, and give back what there was when the last of several fits ends."""
    fit = object()
    try:
        _fits.begin(fit)
        with threadpool_limits(1, user_api="blas"):  # of this thread, in libraries that count by thread
            yield
    finally:
        _fits.end(fit)
