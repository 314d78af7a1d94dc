"""Makes frontiers of runs: chosen on the validation set, evaluated on the test set, over random splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from scipy import stats

from partialfair.extension import Floats
from partialfair_paper.method import Interval, Method, Question
from partialfair_paper.methods import METHODS
from partialfair_paper.parts import gap_name
from partialfair_paper.runs import Outcome, Run
from partialfair_paper.store import Store

DoneRun: TypeAlias = tuple[Run, Outcome]

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Mean:
    """A mean over splits, its standard error, and half of its 95% interval (Student's t)."""

    value: float
    error: float
    half_width: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """Return the mean of some values; a single value has no standard error."""
        array = np.array(list(values))
        if array.size < 2:
            return cls(float(array.mean()) if array.size else np.nan, np.nan, np.nan)
        error = float(array.std(ddof=1) / np.sqrt(array.size))
        half = error * float(stats.t.ppf((1 + _CONFIDENCE) / 2, array.size - 1))
        return cls(float(array.mean()), error, half)


@dataclass(frozen=True)
class Point:
    """A point of a frontier: the mean over splits of the models of one tolerance."""

    tolerance: float | None
    fairness: Mean
    accuracy: Mean
    n: int


def choose_runs(
    store: Store, question: Question, method: Method, tolerances: Iterable[float | None] | None = None
) -> dict[tuple[int, float | None], DoneRun]:
    """Return, by split and tolerance, the run whose alpha is most accurate on the validation rows.

    Runs that are missing or failed are ignored.
    """
    best: dict[tuple[int, float | None], DoneRun] = {}
    for run in method.runs(question, tolerances):
        outcome = store.of(run)
        if outcome is None or outcome.failed:
            continue
        which = run.seed, run.tolerance
        if which not in best or outcome.validation["accuracy"] > best[which][1].validation["accuracy"]:
            best[which] = run, outcome
    return best


def frontier(
    store: Store,
    question: Question,
    method: Method,
    tolerances: Iterable[float | None] | None = None,
    *,
    fairness_on: Interval | None = None,
) -> list[Point]:
    """Return the mean over splits of each tolerance, from loose to strict.

    Fairness is evaluated on the interval of the question unless ``fairness_on`` is given.
    """
    by_tolerance: dict[float | None, list[Outcome]] = {}
    for (_, tolerance), (_, outcome) in choose_runs(store, question, method, tolerances).items():
        by_tolerance.setdefault(tolerance, []).append(outcome)
    gap = gap_name(question.fairness, fairness_on or question.interval)
    return [
        Point(
            tolerance,
            Mean.of(1 - outcome.test[gap] for outcome in outcomes),
            Mean.of(outcome.test["accuracy"] for outcome in outcomes),
            len(outcomes),
        )
        for tolerance, outcomes in by_tolerance.items()
    ]


def halve_grid(grid: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return a grid with the geometric mean of each adjacent pair inserted."""
    known = [one for one in grid if one is not None]
    middles = [float(f"{np.sqrt(low * high):.3g}") for low, high in pairwise(known)]
    return tuple(sorted({*known, *middles}, reverse=True))


def curves(
    store: Store,
    question: Question,
    method: Method,
    tolerances: Iterable[float | None] | None = None,
    *,
    fairness_on: Interval | None = None,
) -> Mapping[int, Floats]:
    """Return, by split, test fairness and accuracy, (k, 2), of the models on the validation frontier.

    A model is on the frontier if no other model has both a smaller gap and a higher accuracy on the
    validation rows. Unconstrained models are included. Models are ordered by fairness on the test rows.
    """
    gap = gap_name(question.fairness, fairness_on or question.interval)
    by_split: dict[int, Floats] = {}
    for seed in question.seeds:
        own = _find_outcomes(store, replace(question, seeds=(seed,)), method, tolerances)
        if not own:
            continue
        outcomes = own + _find_outcomes(store, replace(question, seeds=(seed,)), METHODS[method.free])
        points, highest = [], -np.inf
        for outcome in sorted(outcomes, key=lambda one: (one.validation[gap], -one.validation["accuracy"])):
            if outcome.validation["accuracy"] > highest:  # no model with a smaller gap is as accurate
                highest = outcome.validation["accuracy"]
                points.append((1 - outcome.test[gap], outcome.test["accuracy"]))
        by_split[seed] = np.array(sorted(points))
    return by_split


def _find_outcomes(
    store: Store, question: Question, method: Method, tolerances: Iterable[float | None] | None = None
) -> list[Outcome]:
    """Return the outcomes of a method's finished runs that did not fail."""
    outcomes = [store.of(run) for run in method.runs(question, tolerances)]
    return [outcome for outcome in outcomes if outcome is not None and not outcome.failed]


def read_at(curve: Floats, fairness: float) -> float:
    """Return a curve's accuracy at some fairness, interpolated linearly and constant beyond its ends."""
    return float(np.interp(fairness, curve[:, 0], curve[:, 1]))
