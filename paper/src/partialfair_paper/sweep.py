"""Executes the runs of a sweep, several in parallel, so that no finished run is lost or repeated.

The process that executes a run saves it before it begins the next one. A process that is killed loses only
its current run, and the next sweep finds the runs that are left. Runs that fail are saved as failures.
"""

from __future__ import annotations

import os
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

import numpy as np

from partialfair_paper.methods import METHODS
from partialfair_paper.parts import check_data, evaluate, parts_of
from partialfair_paper.runs import Outcome, Run
from partialfair_paper.store import Store

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_NO_COMPLAINT = "ignore:resource_tracker:UserWarning"
"""Warning filter: a process that ends at once, for example on Ctrl-C, leaves semaphores of its pool, which
are removed with a warning."""
_LOOKS_A_SECOND = 2
_SEED_WITH_SCORES = 0
"""The split whose test scores are kept, for figures of rank curves and densities."""


@dataclass(frozen=True)
class Finished:
    """A run that has just been saved, with the progress of the sweep."""

    run: Run
    error: str | None
    seconds: float
    done: int
    total: int


Say: TypeAlias = Callable[[Finished], None]


def do(run: Run, store: Store, folder: Path | None) -> tuple[str | None, float]:
    """Execute a run, save it, and return its error, if any, and its seconds.

    Unreadable data is not saved as a failure: it would affect every run, so the error is raised.
    """
    parts, method = parts_of(run, folder), METHODS[run.method]
    start, scores = time.perf_counter(), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = method.fit(run, parts)
            on_test = fitted.scores(parts.test)
            outcome = Outcome(
                seconds=time.perf_counter() - start,
                fit=fitted.fit,
                validation=evaluate(parts.validation, fitted.scores(parts.validation), parts),
                test=evaluate(parts.test, on_test, parts),
                history=fitted.history if method.keeps_history else {},
                environment=_environment(store.version),
            )
        if run.seed == _SEED_WITH_SCORES:
            scores = {"scores": on_test.astype(np.float32), "groups": parts.test.groups.astype(str)}
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        outcome = Outcome(text, time.perf_counter() - start, environment=_environment(store.version))
    store.save(run, outcome, scores)
    return outcome.error, outcome.seconds


def sweep(
    runs: Iterable[Run], store: Store, *, folder: Path | None = None, jobs: int = 1, say: Say | None = None
) -> int:
    """Execute the runs that are left; return how many failed.

    Parameters
    ----------
    runs : iterable of Run
        Runs in the order of execution.
    store : Store
        Where runs are saved.
    folder : pathlib.Path, optional
        Directory of data files; by default as in `partialfair.datasets`.
    jobs : int, default=1
        Number of processes, which divide the cores.
    say : callable, optional
        Called with a `Finished` after each run.
    """
    left = store.left(runs)
    if left:
        check_data(left, folder)
        store.prepare()
    failures = 0
    for done, (run, error, seconds) in enumerate(_end(left, store, folder, jobs), start=1):
        failures += error is not None
        if say is not None:
            say(Finished(run, error, seconds, done, len(left)))
    return failures


def _end(
    left: Sequence[Run], store: Store, folder: Path | None, jobs: int
) -> Iterator[tuple[Run, str | None, float]]:
    """Yield runs as they end."""
    if jobs == 1 or len(left) < 2:
        for run in left:
            yield (run, *do(run, store, folder))
        return
    one = partial(do, store=store, folder=folder)
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    settings = {**dict.fromkeys(_THREADS, threads), "PYTHONWARNINGS": _NO_COMPLAINT}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)  # read by processes that start from here
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _end_with, (os.getpid(),))
    try:
        # Only a few runs are submitted ahead, so that an interruption leaves no long queue.
        waiting: dict[Future[tuple[str | None, float]], Run] = {}
        queue = iter(left)
        for run in queue:
            waiting[pool.submit(one, run)] = run
            if len(waiting) >= 2 * jobs:
                yield from _some(waiting)
        while waiting:
            yield from _some(waiting)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _some(
    waiting: dict[Future[tuple[str | None, float]], Run],
) -> Iterator[tuple[Run, str | None, float]]:
    """Wait for at least one run to end, and yield those that have ended."""
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        run = waiting.pop(future)
        yield (run, *future.result())


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, also if the parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1 / _LOOKS_A_SECOND)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _environment(version: str) -> dict[str, str]:
    return {"partialfair": version, "python": platform.python_version(), "numpy": np.__version__}
