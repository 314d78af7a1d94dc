"""What runs will cost, before they are done."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from partialfair.experiments.methods import METHODS
from partialfair.experiments.runs import Run
from partialfair.experiments.store import Store

__all__ = ["rough_seconds"]

_SIZES = {"law_school": 1.0, "bank": 6.0, "a9a": 4.0, "acs_income": 60.0}
"""How many times longer a run takes than on law school, roughly."""


def rough_seconds(store: Store, runs: Iterable[Run]) -> float:
    """Return what runs take one after the other: as long as those like them did, or as a table guesses."""
    taken: dict[tuple[str, str, int | None], list[float]] = {}
    for run, outcome in store.all():
        if not outcome.failed:
            taken.setdefault((run.method, run.dataset, run.rows), []).append(outcome.seconds)
    total = 0.0
    for run in runs:
        known = taken.get((run.method, run.dataset, run.rows))
        guessed = METHODS[run.method].rough_seconds * _SIZES[run.dataset]
        total += fmean(known) if known else guessed
    return total
