"""Fits in several threads leave BLAS with as many threads as they met."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from partialfair import PartialFairClassifier
from partialfair.training import threads
from partialfair.training.threads import one_blas_thread

PATIENCE = 300  # seconds after which a thread hangs, however busy the machine


def blas_threads() -> set[int]:
    """How many threads libraries use; those built without threads, as one that cvxpy brings, have no say."""
    return {
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas" and library.get("threading_layer") != "disabled"
    }


@pytest.fixture(autouse=True)
def two_threads():
    """Whatever the machine has, fits meet two; set by a thread that ends, and so does not keep control."""
    before = threadpool_limits(None)

    def in_thread(call):
        thread = Thread(target=call)
        thread.start()
        thread.join()

    in_thread(lambda: threadpool_limits(2, user_api="blas"))
    if blas_threads() != {2}:
        pytest.skip("this BLAS cannot be told how many threads to use")
    yield
    in_thread(before.restore_original_limits)


def test_the_one_that_began_last_may_end_last():
    begun, ended = Event(), Event()

    def second():
        with one_blas_thread():
            begun.set()
            ended.wait(PATIENCE)

    thread = Thread(target=second)
    with one_blas_thread():
        thread.start()
        assert begun.wait(PATIENCE)
        assert blas_threads() == {1}
    assert blas_threads() == {1}  # the second still computes
    ended.set()
    thread.join(PATIENCE)
    assert blas_threads() == {2}


def test_an_error_gives_them_back():
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        raise KeyboardInterrupt
    assert blas_threads() == {2}


@pytest.mark.parametrize("step", ["_Holder.start", "_RunningFits.begin"])
def test_an_interrupt_at_the_beginning_gives_them_back(monkeypatch, step):
    owner, name = step.split(".")
    begin = getattr(getattr(threads, owner), name)

    def interrupted(*arguments):
        begin(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(getattr(threads, owner), name, interrupted)
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        pytest.fail("it was interrupted before")
    monkeypatch.undo()
    assert blas_threads() == {2}
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_fits_at_once():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(200, 3)), np.resize(["a", "b"], 200)
    y = X[:, 0] + rng.normal(size=200) > 0
    barrier = Barrier(4)

    def fit(_):
        barrier.wait(PATIENCE)
        return PartialFairClassifier(interval=(0, 1), max_gap=0.3).fit(X, y, sensitive_features=groups).coef_

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(fit, range(4))
    assert blas_threads() == {2}
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes by fork")
@pytest.mark.filterwarnings("ignore:.*use of fork")
def test_a_child_of_a_process_that_fits_can_fit():
    with one_blas_thread():
        child = os.fork()
        if not child:
            with one_blas_thread():
                os._exit(0 if blas_threads() == {1} else 1)
        assert os.waitpid(child, 0)[1] == 0
