"""Steps judged by the exact metric itself, in small subspaces.

A surrogate blurs ranks: it leaves slack everywhere, and misleads where scores tie or people are few. The
exact gap has no gradient, but it is cheap to ask for. So the search goes from the best model it has

- towards models that cost less and break the promise, as far as the promise holds: the objective is convex,
  so every point of such a segment costs less than its beginning;
- by random steps in the span of the models seen, and in all coordinates where they are few; then other
  models are climbed from too, with the gap as a penalty.

Steps are measured by how far they move scores, and a length that succeeds is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partialfair._clock import check_clock
from partialfair._typing import Floats
from partialfair.estimators._candidates import Candidate, Pool

__all__ = ["direct_search", "search_all_coordinates"]

_FEW_COORDINATES = 12
"""Parameters up to which every coordinate is a direction."""
_MANY_COORDINATES, _STARTS_IN_ALL_COORDINATES = 100, 3
"""Parameters up to which they are when the search has failed otherwise, and candidates to start from then."""
_MOST_DIRECTIONS = 10
"""Directions of the span: the best candidates are taken first."""
_SEGMENTS = 6
"""Cheaper candidates towards which the best one is moved."""
_SEGMENT_TRIALS = 12
"""Looks at each segment: shares that double until one fails, and bisections after that."""
_SHORTEST = 1 / 256
"""Share of a segment at the first look."""
_NO_GAIN = 1e-6
"""Objectives that differ by no more, about a hundredth of what the certificate's ε means, are as good."""
_USUAL_ROWS, _MORE_OF_FEW, _FEWER_OF_MANY = 12_000, 0.85, 0.5
_MOST_TIMES, _MOST_ROWS = 60.0, 2e7
"""A step costs as much as there are rows, and what the search takes should stay in proportion to a solve:
with fewer rows than usual there are more steps, by a power of how many times fewer, up to so many times as
many, and no steps beyond so many rows scored in all."""
_FEWEST, _NO_SLACK = 24, 0.02
"""Fewer steps hardly ever lead to a better model than one that leaves no more of the stated gap unused."""
_FIRST_LENGTH, _LONGER, _SHORTER = 0.1, 1.5, 0.96
"""By how much the first steps move scores, and what success and failure make of that."""
_LEAST_LENGTH = 1e-3
"""Below it steps are long again: shorter ones only bring people closer to a tie."""
_PENALTY = 4.0
"""How many times more than the best model the unconstrained one costs with the penalty."""
_PENALTY_STARTS, _SHARE_OF_A_START = 7, 12
"""Starts of such steps, the unconstrained model and random ones, and what part of all steps each may take."""
_LENGTHS = (0.1, 0.3, 1.0)
"""Steps are shorter than the length at times: what is blocked at one may be free at another."""
_OBJECTIVE_ALONE = 0.25
"""What a look at two objectives counts, if they are too high for a look at the gap."""
_MIXED = 0.4
"""Share of the directions that one step combines."""


def direct_search(pool: Pool, n_steps: int, seed: int) -> None:
    """Take up to so many steps from the best candidate, and add what they lead to.

    Parameters
    ----------
    pool
        Candidates, judged; the first is the unconstrained model.
    n_steps
        Looks at the exact gap, where there are as many rows as usual: more where they are few, fewer where
        they are many.
    seed
        For random steps.
    """
    n_rows, n_parameters = pool.training.cells.n_rows, pool.problem.rows.parameters.n
    few = n_parameters <= _FEW_COORDINATES
    times = (_USUAL_ROWS / n_rows) ** (_MORE_OF_FEW if n_rows < _USUAL_ROWS else _FEWER_OF_MANY)
    if few:  # surrogates lead astray most, and solves cost least
        times *= _FEW_COORDINATES / n_parameters
    n_steps = int(min(n_steps * min(times, _MOST_TIMES), _MOST_ROWS / n_rows))
    if n_steps < _FEWEST and pool.is_feasible(pool.best) and _uses_its_gap(pool):
        return
    rng, used = np.random.default_rng(seed), 0
    if not pool.is_feasible(pool.best):
        used += n_steps // 3
        _random_steps(pool, n_steps // 3, rng, pool.sort_key, pool.best)
    if few and not pool.is_feasible(pool.best):
        used += n_steps // 3
        _scattered(pool, n_steps // 3, rng)
    used += _along_segments(pool, n_steps // 2)
    if few and used < n_steps // 2:
        # Critical points differ, and where parameters are few, those of a penalty are quickly found.
        for number in range(_PENALTY_STARTS):
            start = _around(pool, rng) if number else pool.candidates[0]
            used += n_steps // _SHARE_OF_A_START
            _random_steps(pool, n_steps // _SHARE_OF_A_START, rng, _Penalty.of(pool), start)
    _random_steps(pool, n_steps - used, rng, pool.sort_key, pool.best)


def search_all_coordinates(pool: Pool, n_steps: int, seed: int) -> None:
    """Take steps in all coordinates, unless they are very many, from the best candidate and from others.

    Parameters
    ----------
    pool
        Candidates, judged.
    n_steps
        Looks at the exact gap.
    seed
        For random steps.
    """
    rng = np.random.default_rng(seed)
    # Critical points differ: the penalty of infeasible candidates finds others than the best leads to.
    starts = sorted(pool.candidates, key=_Penalty.of(pool))[:_STARTS_IN_ALL_COORDINATES]
    for start in starts:
        _random_steps(pool, n_steps // (2 * len(starts)), rng, _Penalty.of(pool), start, _MANY_COORDINATES)
    _random_steps(pool, n_steps // 2, rng, pool.sort_key, pool.best, _MANY_COORDINATES)


def _uses_its_gap(pool: Pool) -> bool:
    """Whether some gap of the best candidate is nearly as wide as it may be."""
    return bool((pool.best.excess >= -_NO_SLACK * pool.training.max_gaps).any())


def _around(pool: Pool, rng: np.random.Generator) -> Candidate:
    """Return a random model, about as far from the unconstrained one as that is from scoring all alike."""
    free = pool.candidates[0].w
    subspace = _Subspace.of(pool, _coordinates(pool))
    # A rough scale is enough: scores count once each, whatever their weights.
    deviation = float(np.std(pool.problem.rows.at(free).counts().weighted.scores))
    far = deviation / np.sqrt(subspace.n) * rng.normal(size=subspace.n)
    candidate = pool.evaluate(free + subspace.directions @ far)
    assert candidate is not None
    return candidate


def _scattered(pool: Pool, n_steps: int, rng: np.random.Generator) -> None:
    """Look in all directions for a model that keeps the promise, or breaks it by less."""
    subspace = _Subspace.of(pool, _coordinates(pool))
    best = start = pool.best
    for _ in range(n_steps):
        check_clock()
        candidate = pool.evaluate(subspace.directions @ rng.normal(size=subspace.n))
        assert candidate is not None
        if pool.sort_key(candidate) < pool.sort_key(best):
            best = candidate
    if best is not start:
        pool.keep(best, "random models", n_steps)


def _along_segments(pool: Pool, n_steps: int) -> int:
    """Move the best candidate towards cheaper ones, the fairest first; return how many looks that took."""
    used = 0
    if not pool.is_feasible(pool.best):
        return used
    cheaper = sorted(
        (one for one in pool.candidates if one.objective < pool.best.objective), key=lambda one: one.worst
    )
    for end in cheaper[:_SEGMENTS]:
        if used + _SEGMENT_TRIALS > n_steps:
            break
        found, looks = _farthest(pool, pool.best, end)
        used += looks
        if found is not None:
            pool.keep(found, "towards a cheaper model", looks)
    return used


def _farthest(pool: Pool, begin: Candidate, end: Candidate) -> tuple[Candidate | None, int]:
    """Return the last point seen of a segment at which the promise is kept, and how many looks it took.

    The objective is convex and falls from the last such point to the first at which the promise is broken, so
    that their objectives say what more looks could gain.
    """
    feasible, infeasible = begin, end
    good, bad, share = 0.0, 1.0, _SHORTEST
    used = 0
    while used < _SEGMENT_TRIALS and feasible.objective - infeasible.objective > _NO_GAIN:
        check_clock()
        used += 1
        candidate = pool.evaluate(begin.w + share * (end.w - begin.w))
        assert candidate is not None
        if pool.is_feasible(candidate):
            feasible, good = candidate, share
        else:
            infeasible, bad = candidate, share
        share = min(2 * share, (good + bad) / 2) if bad == 1.0 else (good + bad) / 2
    return (None if feasible is begin else feasible), used


@dataclass(frozen=True, eq=False)
class _Subspace:
    """Directions that move scores by 1 each, root mean square: (n_parameters, n)."""

    directions: Floats

    @classmethod
    def of(cls, pool: Pool, given: Sequence[Floats]) -> _Subspace:
        """Return the directions that move scores at all."""
        scaled = []
        for direction in given:
            size = pool.problem.rows.at(direction).counts().scale.size
            if size > 0:
                scaled.append(direction / size)
        return cls(np.stack(scaled, axis=1))

    @property
    def n(self) -> int:
        """Number of directions."""
        return int(self.directions.shape[1])

    def steps(self, rng: np.random.Generator, length: float) -> Iterator[Floats]:
        """Yield a random step and the opposite one; each combines some of the directions."""
        mixed = rng.random(self.n) < max(_MIXED, 2 / self.n)
        step = self.directions @ (rng.normal(size=self.n) * mixed * length * rng.choice(_LENGTHS))
        yield step
        yield -step


def _coordinates(pool: Pool) -> list[Floats]:
    """Return all coordinates as directions, in an order that does not depend on that of the columns."""
    unconstrained = pool.candidates[0].w
    return [np.eye(1, unconstrained.size, k)[0] for k in np.argsort(unconstrained, kind="stable")]


def _directions(pool: Pool, most_coordinates: int) -> list[Floats]:
    """Return differences of candidates from the best, its own scale, and coordinates if they are few."""
    best, parameters = pool.best, pool.problem.rows.parameters
    others = sorted(pool.candidates, key=pool.sort_key)[1:_MOST_DIRECTIONS]
    given = [best.w, pool.candidates[0].w - best.w, *(one.w - best.w for one in others)]
    if parameters.n <= most_coordinates:
        return [*given, *_coordinates(pool)]
    return [*given, *(np.eye(1, parameters.n, k)[0] for k in range(parameters.n_penalised, parameters.n))]


@dataclass(frozen=True, eq=False)
class _Penalty:
    """``f_0 + ρ max(gap − κ, 0)``: a way from the unconstrained model to fair ones that cost little.

    Attributes
    ----------
    pool
        Where the model is a candidate.
    rho
        ρ.
    """

    pool: Pool
    rho: float

    @classmethod
    def of(cls, pool: Pool) -> _Penalty:
        """Return a penalty that makes the best model much better than the unconstrained one."""
        free, best = pool.candidates[0], pool.best
        return cls(pool, _PENALTY * max(best.objective - free.objective, 0.0) / max(free.worst, 1e-12))

    def __call__(self, candidate: Candidate) -> tuple[bool, float]:
        """Order candidates."""
        made_of_ties = not self.pool.is_informative(candidate)
        return made_of_ties, candidate.objective + self.rho * candidate.worst


def _random_steps(
    pool: Pool,
    n_steps: int,
    rng: np.random.Generator,
    sort_key: Callable[[Candidate], tuple[bool | float, ...]],
    start: Candidate,
    most_coordinates: int = _FEW_COORDINATES,
) -> None:
    """Take steps to better candidates, and add the last.

    By `Pool.sort_key` feasible candidates are compared by objectives, others by excess.
    """
    if n_steps <= 0:
        return
    best, length, used = start, _FIRST_LENGTH, 0.0
    subspace = _Subspace.of(pool, _directions(pool, most_coordinates))
    while used < n_steps:
        is_feasible = pool.is_feasible(best)
        for step in subspace.steps(rng, length):
            check_clock()
            candidate = pool.evaluate(best.w + step, below=best.objective if is_feasible else np.inf)
            used += candidate is not None
            if candidate is not None and sort_key(candidate) < sort_key(best):
                best, length = candidate, length * _LONGER
                break
        else:
            used += _OBJECTIVE_ALONE if is_feasible else 0.0
            length = length * _SHORTER if length > _LEAST_LENGTH else _FIRST_LENGTH
    if best is not start:
        pool.keep(best, "random steps", int(used))
