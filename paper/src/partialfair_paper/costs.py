"""Estimates the time that runs will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean

from partialfair_paper.methods import METHODS
from partialfair_paper.runs import Run
from partialfair_paper.store import Store

_SIZES = {"law_school": 1.0, "bank": 3.0, "a9a": 6.0, "acs_income": 17.0, "celeba": 1.0}
"""Rough ratio of a run's time to that on law school."""


class Costs:
    """Estimates of run time: the mean of finished runs of the same kind, or a rough guess.

    Parameters
    ----------
    store : Store
        Finished runs.
    """

    def __init__(self, store: Store) -> None:
        self._taken: dict[tuple[str, str, int | None], list[float]] = {}
        for run, outcome in store.all():
            if not outcome.failed:
                self.learn(run, outcome.seconds)

    def learn(self, run: Run, seconds: float) -> None:
        """Record the time of a run."""
        self._taken.setdefault(_kind(run), []).append(seconds)

    def seconds(self, runs: Iterable[Run]) -> float:
        """Return the estimated total time of runs, one after the other."""
        return sum(
            number * (fmean(self._taken[kind]) if kind in self._taken else _guess(kind))
            for kind, number in Counter(map(_kind, runs)).items()
        )


def _kind(run: Run) -> tuple[str, str, int | None]:
    return run.method, run.dataset, run.rows


def _guess(kind: tuple[str, str, int | None]) -> float:
    method, dataset, _ = kind
    return METHODS[method].guessed_seconds() * _SIZES[dataset]
