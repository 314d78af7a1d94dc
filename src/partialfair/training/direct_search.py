"""Steps on the exact metric itself, in small subspaces.

A surrogate smooths ranks: it leaves part of the limit unused, and is misleading if scores tie or rows are
few. The exact gap has no gradient, but one evaluation is cheap. So the search moves from the best model

- towards models with lower objectives that violate the constraint, as far as it is satisfied: the objective
  is convex, so every point of such a segment has a lower objective than its beginning;
- by random steps in the span of the candidates, and in all coordinates if these are few; then from other
  models, too, with the gap as a penalty.

The length of a step is the distance by which it moves scores; a length that succeeds is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partialfair.training.candidates import CandidateModel, Pool
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class DirectSearch:
    """Settings of `direct_search` and `search_all_coordinates`.

    Attributes
    ----------
    few_coordinates
        Largest number of parameters for which every coordinate is a direction.
    many_coordinates, n_starts
        The same after an escalation, and the number of candidates to start from then.
    n_directions
        Directions of the span: differences from the best candidates.
    n_segments, n_trials, shortest
        Number of candidates with lower objectives towards which the best one is moved; evaluations on each
        segment, at fractions that double until one is infeasible and are then bisected; the first fraction.
    no_gain
        Objectives that differ by at most this count as equal: about a hundredth of the effect of ε in the
        KKT certificate.
    usual_rows, more_of_few, fewer_of_many, most_times, most_rows
        The cost of a step is proportional to the number of rows, and the search should stay in proportion to
        a solve. With fewer rows than usual there are more steps, by a power of the ratio and up to a factor;
        with more rows fewer, and no steps beyond a total number of scored rows.
    fewest, no_slack
        With fewer steps than this there is no search from a model that leaves at most this fraction of the
        limit unused: it would hardly ever find a better one.
    first_length, longer, shorter, least_length
        The distance by which the first steps move scores, its factors after success and failure, and the
        length below which steps become long again: shorter ones only bring scores closer to a tie.
    penalty
        Factor by which the penalized objective of the unconstrained model exceeds that of the best model.
    n_penalty_starts, share_of_start
        Starts of steps with the penalty (the unconstrained model and random ones), and the reciprocal of the
        fraction of all steps that each may make.
    lengths
        Factors of the length: a direction that fails at one length may succeed at another.
    objective_alone
        Cost of evaluating two objectives that are too high to evaluate the gap.
    mixed
        Fraction of the directions that one step combines.
    """

    few_coordinates: int = 12
    many_coordinates: int = 100
    n_starts: int = 3
    n_directions: int = 9
    n_segments: int = 6
    n_trials: int = 12
    shortest: float = 1 / 256
    no_gain: float = 1e-6
    usual_rows: int = 12_000
    more_of_few: float = 0.85
    fewer_of_many: float = 0.5
    most_times: float = 60.0
    most_rows: float = 2e7
    fewest: int = 24
    no_slack: float = 0.02
    first_length: float = 0.1
    longer: float = 1.5
    shorter: float = 0.96
    least_length: float = 1e-3
    penalty: float = 4.0
    n_penalty_starts: int = 7
    share_of_start: int = 12
    lengths: tuple[float, ...] = (0.1, 0.3, 1.0)
    objective_alone: float = 0.25
    mixed: float = 0.4

    def n_steps(self, usual: int, n_rows: int, n_parameters: int) -> int:
        """Return the number of steps, given the number for the usual number of rows."""
        power = self.more_of_few if n_rows < self.usual_rows else self.fewer_of_many
        times = (self.usual_rows / n_rows) ** power
        if n_parameters <= self.few_coordinates:  # surrogates are most misleading, and solves cheapest
            times *= self.few_coordinates / n_parameters
        return int(min(usual * min(times, self.most_times), self.most_rows / n_rows))


def direct_search(pool: Pool, n_steps: int, seed: int, settings: DirectSearch) -> None:
    """Make up to ``n_steps`` steps from the best candidate, and add the resulting models to the pool.

    Parameters
    ----------
    pool : Pool
        Evaluated candidates; the first is the unconstrained model.
    n_steps : int
        Evaluations of the exact gap for the usual number of rows.
    seed : int
        Seed of random steps.
    settings : DirectSearch
        Step lengths and numbers of steps.
    """
    n_parameters = pool.problem.rows.parameters.n
    n_steps = settings.n_steps(n_steps, pool.training.cells.n_rows, n_parameters)
    few = n_parameters <= settings.few_coordinates
    steps, used = _Steps(pool, settings, np.random.default_rng(seed)), 0
    # A few steps are useful only if the best model leaves part of its limit unused.
    if n_steps < settings.fewest and pool.any_feasible and steps.uses_its_gap():
        return
    if not pool.any_feasible:
        used += n_steps // 3
        steps.step_at_random(n_steps // 3, pool.sort_key, pool.best)
    if few and not pool.any_feasible:
        used += n_steps // 3
        steps.draw_models(n_steps // 3)
    used += steps.follow_segments(n_steps // 2)
    # The steps that segments did not use start from the unconstrained model and random ones, with a penalty.
    if few and used < n_steps // 2:
        # Critical points differ, and with few parameters those of a penalty are found quickly.
        share = n_steps // settings.share_of_start
        for number in range(settings.n_penalty_starts):
            start = steps.draw_start() if number else pool.candidates[0]
            used += share
            steps.step_at_random(share, steps.penalty(), start)
    # The remaining steps improve the best model, however it was found.
    steps.step_at_random(n_steps - used, pool.sort_key, pool.best)


def search_all_coordinates(pool: Pool, n_steps: int, seed: int, settings: DirectSearch) -> None:
    """Make random steps in all coordinates, unless they are very many, from several candidates.

    Parameters
    ----------
    pool : Pool
        Evaluated candidates.
    n_steps : int
        Evaluations of the exact gap.
    seed : int
        Seed of random steps.
    settings : DirectSearch
        Step lengths and numbers of steps.
    """
    steps, most = _Steps(pool, settings, np.random.default_rng(seed)), settings.many_coordinates
    # Critical points differ: the penalty of infeasible candidates leads to others than the best model does.
    starts = sorted(pool.candidates, key=steps.penalty())[: settings.n_starts]
    for start in starts:
        steps.step_at_random(n_steps // (2 * len(starts)), steps.penalty(), start, most)
    steps.step_at_random(n_steps // 2, pool.sort_key, pool.best, most)


def _normalize(pool: Pool, directions: Sequence[Floats]) -> Floats:
    """Return the directions that move scores, as columns scaled to move them by a root mean square of 1."""
    scaled = []
    for direction in directions:
        size = pool.problem.rows.at(direction).counts().scale.size
        if size > 0:
            scaled.append(direction / size)
    return np.stack(scaled, axis=1)


def _coordinates(pool: Pool) -> list[Floats]:
    """Return all coordinates as directions, in an order that does not depend on that of the columns."""
    unconstrained = pool.candidates[0].w
    return [np.eye(1, unconstrained.size, k)[0] for k in np.argsort(unconstrained, kind="stable")]


@dataclass(frozen=True, eq=False)
class _Steps:
    """Steps from candidates of a pool; the pool receives their results."""

    pool: Pool
    settings: DirectSearch
    rng: np.random.Generator

    def uses_its_gap(self) -> bool:
        """Whether some gap of the best candidate is nearly as large as its limit."""
        best, limits = self.pool.best, self.pool.training.max_gaps
        return bool((best.excess >= -self.settings.no_slack * limits).any())

    def penalty(self) -> Callable[[CandidateModel], tuple[bool, float]]:
        """Return a key that orders candidates by ``f_0 + ρ max(gap − κ, 0)``, those with new ties last.

        It leads from the unconstrained model to feasible ones with low objectives; ρ makes the penalized
        objective of the best model much lower than that of the unconstrained one.
        """
        pool = self.pool
        unconstrained, best = pool.candidates[0], pool.best
        rise = max(best.objective - unconstrained.objective, 0.0)
        rho = self.settings.penalty * rise / max(unconstrained.worst, 1e-12)
        return lambda one: (not pool.is_informative(one), one.objective + rho * one.worst)

    def draw_start(self) -> CandidateModel:
        """Draw a model about as far from the unconstrained one as that is from equal scores."""
        pool, unconstrained = self.pool, self.pool.candidates[0].w
        directions = _normalize(pool, _coordinates(pool))
        n_directions = directions.shape[1]
        # A rough scale is enough, so row weights are ignored.
        deviation = float(np.std(pool.problem.rows.at(unconstrained).counts().weighted.scores))
        far = deviation / np.sqrt(n_directions) * self.rng.normal(size=n_directions)
        candidate = pool.evaluate(unconstrained + directions @ far)
        assert candidate is not None
        return candidate

    def draw_models(self, n_steps: int) -> None:
        """Draw models in all directions; add the best if it is feasible or has a smaller violation."""
        pool, directions = self.pool, _normalize(self.pool, _coordinates(self.pool))
        best = start = pool.best
        for _ in range(n_steps):
            check_clock()
            candidate = pool.evaluate(directions @ self.rng.normal(size=directions.shape[1]))
            assert candidate is not None
            if pool.sort_key(candidate) < pool.sort_key(best):
                best = candidate
        if best is not start:
            pool.keep(best, "random models", n_steps)

    def follow_segments(self, n_steps: int) -> int:
        """Move the best candidate towards those with lower objectives, in the order of their gaps.

        Return the number of evaluations.
        """
        pool, used = self.pool, 0
        if not pool.any_feasible:
            return used
        # All candidates with lower objectives are infeasible; those with the smallest excess come first.
        lower = (one for one in pool.candidates if one.objective < pool.best.objective)
        for end in sorted(lower, key=lambda one: one.worst)[: self.settings.n_segments]:
            if used + self.settings.n_trials > n_steps:
                break
            last, n_trials = self.last_feasible(pool.best, end)
            used += n_trials
            if last is not None:
                pool.keep(last, "towards a lower objective", n_trials)
        return used

    def last_feasible(self, begin: CandidateModel, end: CandidateModel) -> tuple[CandidateModel | None, int]:
        """Return the last feasible point evaluated on a segment, and the number of evaluations.

        The objective is convex and decreases from the last feasible point to the first infeasible one, so
        their objectives bound the gain of more evaluations.
        """
        settings, pool = self.settings, self.pool
        feasible, infeasible = begin, end
        good, bad, fraction, used = 0.0, 1.0, settings.shortest, 0
        while used < settings.n_trials and feasible.objective - infeasible.objective > settings.no_gain:
            check_clock()
            used += 1
            candidate = pool.evaluate(begin.w + fraction * (end.w - begin.w))
            assert candidate is not None
            if pool.is_feasible(candidate):
                feasible, good = candidate, fraction
            else:
                infeasible, bad = candidate, fraction
            fraction = min(2 * fraction, (good + bad) / 2) if bad == 1.0 else (good + bad) / 2
        return (None if feasible is begin else feasible), used

    def step_at_random(
        self,
        n_steps: int,
        sort_key: Callable[[CandidateModel], tuple[bool | float, ...]],
        start: CandidateModel,
        most_coordinates: int | None = None,
    ) -> None:
        """Make random steps to better candidates, and add the last.

        By `Pool.sort_key` feasible candidates are compared by objectives, others by excess.
        """
        if n_steps <= 0:
            return
        settings, pool = self.settings, self.pool
        best, length, used = start, settings.first_length, 0.0
        directions = _normalize(pool, self.directions(most_coordinates or settings.few_coordinates))
        while used < n_steps:
            # The objective is cheaper than the gap, and from a feasible model only lower ones are useful.
            is_feasible = pool.is_feasible(best)
            for step in self.pair_of_steps(directions, length):
                check_clock()
                candidate = pool.evaluate(best.w + step, below=best.objective if is_feasible else np.inf)
                used += candidate is not None
                if candidate is not None and sort_key(candidate) < sort_key(best):
                    best, length = candidate, length * settings.longer
                    break
            else:
                used += settings.objective_alone if is_feasible else 0.0
                is_short = length <= settings.least_length
                length = settings.first_length if is_short else length * settings.shorter
        if best is not start:
            pool.keep(best, "random steps", int(used))

    def pair_of_steps(self, directions: Floats, length: float) -> Iterator[Floats]:
        """Yield a random combination of some of the directions as a step, and the opposite step."""
        settings, rng, n = self.settings, self.rng, directions.shape[1]
        mixed = rng.random(n) < max(settings.mixed, 2 / n)
        factors = rng.normal(size=n) * mixed * length * rng.choice(settings.lengths)
        step = directions @ factors
        yield step
        yield -step

    def directions(self, most_coordinates: int) -> list[Floats]:
        """Return differences of candidates from the best, its own scale, and coordinates if they are few."""
        pool = self.pool
        best, unconstrained, parameters = pool.best, pool.candidates[0], pool.problem.rows.parameters
        others = sorted(pool.candidates, key=pool.sort_key)[1 : 1 + self.settings.n_directions]
        # Good models are in the span of the solutions; the scale does not change ranks.
        given = [best.w, unconstrained.w - best.w, *(one.w - best.w for one in others)]
        if parameters.n <= most_coordinates:
            return [*given, *_coordinates(pool)]
        free = range(parameters.n_penalized, parameters.n)
        return [*given, *(np.eye(1, parameters.n, k)[0] for k in free)]
