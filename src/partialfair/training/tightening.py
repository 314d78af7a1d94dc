"""Corrections of the surrogate problem until the *exact* gap is at most the limit (``enforce="exact"``).

A surrogate constraint applies to a grid of ranks and to a smoothed indicator, while the limit is about the
exact metric. So the problem is solved repeatedly, each time from the last solution x_c, with corrections in
both directions: limits become stricter if the exact gap was too large, and looser if there was slack. The
first correction doubles the number of grid points; later ones add a point where the exact gap was largest.

This is the default. Constraints can also be corrected at each rank ("rank by rank"), as

    f_i(x) + h_i(x_c) − f_i(x_c) ≤ 0,

where h_i is f_i with the indicator in place of its surrogate. At x_c this constraint is exact, and the
surrogate only determines its slope. Its width is halved while it covers enough rows for a reliable slope.
The objective is then lower at the same training gap, but counts at one rank are random, and fitting them can
reduce accuracy on new data. So this is used only with ``surrogate_halvings``, and for limits that cannot be
satisfied otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from partialfair.constraints.base import Constraint
from partialfair.constraints.block import join
from partialfair.constraints.parity import OnAGrid
from partialfair.constraints.surrogates import Ramp, Surrogate
from partialfair.data.groups import group_name
from partialfair.data.intervals import as_interval_set, ranks_text
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.solvers import CUT_SHORT, Status
from partialfair.training.attempts import Attempt, Solving
from partialfair.training.statement import GroupedConstraint, Training
from partialfair.utils.text import percent
from partialfair.utils.typing import Floats

# Width, relative to a surrogate's, of a ramp that equals the indicator for all practical purposes.
_INDICATOR = 1e-6


@dataclass(frozen=True)
class Budget:
    """Limits on the number of corrections and steps.

    Attributes
    ----------
    rounds
        Largest number of corrections.
    times, more
        Largest number of steps: this multiple of the first solve's, plus a constant.
    usual_rows
        Largest number of rows with this constant. The cost of a step is proportional to the rows, so with
        more rows the constant is smaller.
    """

    rounds: int
    times: float
    more: int
    usual_rows: int = 20_000

    def is_spent(self, round_number: int, n_steps: int, first: Attempt) -> bool:
        """Whether no rounds, or no steps, are left."""
        more = self.more * min(1.0, self.usual_rows / first.training.cells.n_rows)
        of_first = first.steps - first.result.history[0].step
        return round_number >= self.rounds or n_steps > self.times * of_first + more


@dataclass(frozen=True)
class Tightening:
    """Settings of a `Tightener`. Fractions are relative to the stated limits.

    Attributes
    ----------
    before, after
        Budgets until a model satisfies the constraints, and from then on, when the possible gain is small.
    n_failures, lost
        Number of solves that may fail, that is, end with a violation of the constraints above this fraction,
        or with an exact gap that is larger than the last by a whole limit.
    n_halvings, covered, enough
        Largest number of halvings of the surrogate; the approximate fraction of a group that a surrogate of
        the first width covers (a quarter of the spread of nearly normal scores); and the number of rows that
        it has to cover, because with fewer its slope is mostly noise.
    closer, closer_continued, closer_rank_by_rank, looser
        Fractions that are subtracted from a limit in addition to an excess, and the fraction of a slack that
        is added to it.
    most_taken, most_given
        Fractions by which trained limits may differ from those stated.
    n_continued, close_enough, close_enough_continued
        Number of solves that continue from a model, and fractions of the limit that a solve may leave unused:
        steps on the exact metric use them, above all steps towards models of a path with lower objectives.
    same
        Objectives that differ by at most this are those of the same model.
    """

    before: Budget = Budget(rounds=8, times=3, more=150)
    after: Budget = Budget(rounds=4, times=0.2, more=40)
    n_failures: int = 2
    lost: float = 0.25
    n_halvings: int = 3
    covered: float = 0.08
    enough: float = 16
    closer: float = 0.1
    closer_continued: float = 0.05
    closer_rank_by_rank: float = 0.02
    looser: float = 0.7
    most_taken: float = 0.9
    most_given: float = 0.5
    n_continued: int = 4
    close_enough: float = 0.02
    close_enough_continued: float = 0.25
    same: float = 1e-9


@dataclass(frozen=True, eq=False)
class Tightener:
    """Solve problems again with other limits.

    Parameters
    ----------
    settings
        Fractions and budgets.
    solving
        Solves the problems, warm-started.
    """

    settings: Tightening
    solving: Solving

    def tighten(self, first: Attempt, halvings: int, *, solves_are_long: bool = False) -> Iterator[Attempt]:
        """Correct and solve again; yield every attempt.

        Parameters
        ----------
        first
            The attempt to correct.
        halvings
            How often the surrogate may be halved. With 0 only limits are corrected, and constraints are
            corrected at each rank only if no model satisfies them after that.
        solves_are_long
            Whether to correct constraints at each rank at once if limits would have to be nearly 0.
        """
        settings, narrowest, begun = self.settings, self._most_halvings(first), first.steps
        # The excess is so large that limits would have to be nearly 0.
        far = (first.excess > (settings.most_taken - settings.closer) * first.training.max_gaps).any()
        # Limits alone come first, because corrections at each rank fit random counts.
        if halvings:
            order = [min(halvings, narrowest), 0]
        else:
            order = [narrowest, 0] if solves_are_long and far else [0, narrowest]
        for most in order if narrowest > 0 else [0]:
            satisfied = first.satisfied
            for attempt in self._series(first, most, begun):
                yield attempt
                satisfied = satisfied or attempt.satisfied
                if attempt.result.ended in CUT_SHORT:
                    return
            if satisfied:
                return
            begun = attempt.steps

    def _series(self, first: Attempt, most_halvings: int, begun: int) -> Iterator[Attempt]:
        """Correct repeatedly, at each rank if the surrogate may be halved.

        Parameters
        ----------
        first
            The attempt to correct.
        most_halvings
            How often the surrogate may be halved.
        begun
            Number of steps before this series.
        """
        settings, stated = self.settings, first.training.max_gaps
        last, rank_by_rank = first, most_halvings > 0
        # The reduction of the stated limits; negative for looser limits.
        taken, n_failures, satisfied = np.zeros(stated.size), 0, first.satisfied
        closer = settings.closer_rank_by_rank if rank_by_rank else settings.closer
        # Limits may become looser by half, up to the largest possible gap.
        room = np.array([one.largest_gap for one in first.constraints]) - stated
        most_given = np.minimum(settings.most_given * stated, room)
        for number in range(settings.before.rounds):
            before = taken
            if number or not rank_by_rank:
                # Subtract an excess and a little more; add most of a slack.
                change = np.where(
                    last.excess > 0, last.excess + closer * stated, settings.looser * last.excess
                )
                taken = np.clip(taken + change, -most_given, settings.most_taken * stated)
            # One more halving each time: near a solution the slopes of a narrower surrogate are better.
            halved = min(number, most_halvings)
            attempt = self._correct(last, stated - taken, halved, rank_by_rank=rank_by_rank)
            yield attempt
            satisfied = satisfied or attempt.satisfied
            budget = settings.after if satisfied else settings.before
            # Limits cannot become stricter, and gaps do not become smaller.
            no_smaller = number > 0 and (taken == before).all() and (attempt.excess >= last.excess).all()
            if (
                attempt.result.ended in (*CUT_SHORT, Status.NONFINITE)
                or (not rank_by_rank and attempt.uses_its_gap(settings.close_enough))
                or no_smaller
                or abs(attempt.result.objective - last.result.objective) <= settings.same
                or budget.is_spent(number + 1, attempt.steps - begun, first)
            ):
                return
            # The next correction begins again from the last attempt that did not fail.
            if self._is_lost(attempt, last):
                n_failures += 1
                if n_failures == settings.n_failures:
                    return
            else:
                last = attempt

    def _is_lost(self, attempt: Attempt, last: Attempt) -> bool:
        """Whether an attempt failed and cannot be a start for others; running out of steps is not failing."""
        stated = attempt.training.max_gaps
        violated = not attempt.arrived and attempt.result.violation > self.settings.lost * stated.max()
        return bool(violated or (attempt.excess > np.maximum(last.excess, 0.0) + stated).any())

    def solve_around(self, attempt: Attempt, w: Floats, limits: Floats, halved: int = 0) -> Attempt:
        """Solve the problem whose constraints are exact at a model, with given limits.

        With the surrogate's first width such problems are solved fastest; with halved ones solutions are
        closer to the model.
        """
        at = replace(attempt, result=replace(attempt.result, x=attempt.problem.start_at(w)))
        return self._correct(at, limits, halved, rank_by_rank=True)

    def continue_from(self, begin: Attempt, w: Floats, surrogate_bias: Floats) -> Iterator[Attempt]:
        """Solve corrected problems from a model that is nearly the answer; yield each attempt.

        The last model of a path is nearly the answer for the next limit, and the bias of its surrogate is
        about the same, so the stated constraints need not be solved first. The bias decreases with κ, along
        paths about as √κ. The limits are reduced by that at once, and by a little more.

        Parameters
        ----------
        begin
            The problem as it is stated, unsolved.
        w
            The model.
        surrogate_bias : (n_constraints,)
            `Attempt.surrogate_bias` of that model.
        """
        settings, stated = self.settings, begin.training.max_gaps
        closer, smallest = settings.closer_continued, np.inf
        least, most = (1 - settings.most_taken) * stated, (1 + settings.most_given) * stated
        # The bias of the last model, converted from units of √κ for the new κ.
        limits = np.clip((1 - closer) * stated - np.sqrt(stated) * surrogate_bias, least, most)
        last = replace(begin, result=replace(begin.result, x=begin.problem.start_at(w)))
        for _ in range(settings.n_continued):
            last = self._correct(last, limits, 0, rank_by_rank=False)
            yield last
            # Limits are as strict as they can be, and the gap has not become smaller.
            leads_away = not last.satisfied and last.excess.max() >= smallest and (limits <= least).all()
            ended = last.result.ended in (*CUT_SHORT, Status.NONFINITE)
            if ended or leads_away or last.uses_its_gap(settings.close_enough_continued):
                return
            if last.satisfied:
                limits = np.minimum(limits - settings.looser * last.excess, most)
            else:
                smallest = last.excess.max()
                limits = self.make_stricter(last, limits, closer)

    def solve_further(self, attempt: Attempt) -> Attempt:
        """Make more steps on the problem of an attempt that ran out of them."""
        result = self.solving.solve(attempt.problem, attempt.result.x, again=True)
        return replace(attempt, result=result, number=attempt.number + 1)

    def make_stricter(self, attempt: Attempt, limits: Floats, closer: float | None = None) -> Floats:
        """Return limits for the next attempt: reduced by the excess and a little more."""
        settings, stated = self.settings, attempt.training.max_gaps
        share = settings.closer_rank_by_rank if closer is None else closer
        less = limits - np.maximum(attempt.excess, 0.0) - share * stated
        return np.asarray(np.maximum(less, (1 - settings.most_taken) * stated))

    def _most_halvings(self, first: Attempt) -> int:
        """Return how often the surrogate may be halved and still cover enough rows of every group."""
        settings, covered = self.settings, []
        for one in first.training.constraints:
            inside = one.effective_members(first.training.cells)
            measures = np.array([part.measure for part in one.constraint.intervals(one.groups)])
            covered.append(float((settings.covered * inside / measures).min()))
        halvings = np.log2(max(min(covered) / settings.enough, 1.0))
        return int(np.clip(halvings, 0, settings.n_halvings))

    def _correct(self, last: Attempt, limits: Floats, halved: int, *, rank_by_rank: bool) -> Attempt:
        """Solve again from the last solution, with more ranks, and other limits or another surrogate."""
        training, sigma = last.training, last.sigma
        if last.number == 0:
            constraints = [
                one.on_grid(one.grid.denser()) if isinstance(one, OnAGrid) else one
                for one in last.constraints
            ]
        else:
            constraints = add_points_at(training, last.constraints, last.gaps)
        if sigma is not None:
            sigma = replace(sigma, width=sigma.width * 0.5 ** (halved - last.halved))
        pairs = zip(constraints, limits.tolist(), strict=True)
        trained = tuple(replace(one, max_gap=limit) for one, limit in pairs)
        block = join(training.blocks(trained, sigma))
        # The surrogate problem with other limits, at thresholds computed from the last scores.
        smooth = training.problem([block])
        w, theta = last.problem.split(last.result.x)
        # Thresholds of the new ranks are those of the last scores.
        thresholds = block.joined_thresholds.continued(
            last.problem.constraints.joined_thresholds, theta, smooth.rows.at(w).ranks
        )
        start = np.concatenate([w, thresholds])
        # h_i(x_c) − f_i(x_c): the error of the surrogate at the last solution, at each rank.
        bias = np.zeros(smooth.m)
        if rank_by_rank and sigma is not None:
            bias = evaluate_indicator(training, trained, sigma, start) - smooth.evaluate(start).constraints
        problem = training.problem([block.raised(bias)])
        result = self.solving.solve(problem, start, again=True)
        return Attempt(training, trained, sigma, problem, result, last.number + 1, rank_by_rank, halved)


def evaluate_indicator(
    training: Training, constraints: Sequence[Constraint], sigma: Surrogate, x: Floats
) -> Floats:
    """Return ``h_i(x)``: constraints with the indicator in place of σ; with σ if there is no exact metric."""
    indicator = Ramp(_INDICATOR * sigma.width)
    blocks = [
        one.build(
            grouped.groups,
            training.cells.weights,
            indicator if grouped.has_metric else sigma,
            training.cells.positive,
        )
        for one, grouped in zip(constraints, training.constraints, strict=True)
    ]
    return training.problem(blocks).evaluate(x).constraints


def add_points_at(
    training: Training, constraints: Sequence[Constraint], gaps: Sequence[WorstGap]
) -> list[Constraint]:
    """Add the ranks at which the exact gaps are largest to the grids of ranks, if there are such ranks."""
    refined = []
    for one, gap, grouped in zip(constraints, gaps, training.constraints, strict=True):
        if isinstance(one, OnAGrid) and not np.isnan(gap.ranks).any():
            intervals = one.intervals(grouped.groups)
            of_pair = [intervals[grouped.groups.labels.index(label)] for label in gap.groups]
            one = one.on_grid(one.grid.refined(gap.ranks, of_pair))
        refined.append(one)
    return refined


def explain_infeasibility(training: Training, gaps: Sequence[WorstGap]) -> str:
    """Return which gap exceeds its limit the most, and whether only ties could satisfy it, as text."""
    # A constraint without an exact metric cannot be the reason.
    excess = np.nan_to_num(np.array([gap.value for gap in gaps]) - training.max_gaps)
    worst = int(np.argmax(excess))
    grouped, gap = training.constraints[worst], gaps[worst]
    stated = grouped.constraint
    pair = " and ".join(map(group_name, gap.groups))
    where = (
        "" if np.isnan(gap.ranks).any() else f" at ranks {percent(gap.ranks[0])} and {percent(gap.ranks[1])}"
    )
    name = type(stated).__name__
    if grouped.is_adjoining:
        piece = ranks_text(as_interval_set(stated.interval))
        return (
            f"the exact gap at the adjoining ranks {piece} is {gap.value:.3g} between {pair}{where}, and "
            f"{stated.max_gap:.3g} without a constraint; outside='free' sets no limit there"
        )
    if grouped.is_in_scores:
        # Scores are in units of the fit here, so only the ratio has a meaning for the user.
        times = gap.value / stated.max_gap if stated.max_gap else np.inf
        return f"the exact gap of {name} is {times:.3g} times max_gap between {pair}{where}"
    reached = f"the exact gap of {name} is {gap.value:.3g} between {pair}{where}"
    floor, group, members = estimate_smallest_gap(grouped)
    if stated.max_gap >= floor:
        return reached
    return (
        f"{reached}, and without ties it can hardly be below {floor:.2g}, because the interval holds "
        f"{members:.3g} rows of group {group!r}"
    )


def is_reachable(grouped: GroupedConstraint) -> bool:
    """Whether scores without ties can satisfy a constraint, given the sizes of the groups."""
    # Sizes bound differences of proportions; the unconstrained model satisfies limits next to intervals.
    if grouped.is_in_scores or grouped.is_adjoining:
        return True
    return bool(grouped.constraint.max_gap >= estimate_smallest_gap(grouped)[0])


def estimate_smallest_gap(grouped: GroupedConstraint) -> tuple[float, str, float]:
    """Return about the smallest gap that scores without ties can have, and the group that determines it.

    ``1 / (2 min_k n_k m_k)``, on the absolute scale ``1 / (2 min_k n_k)``: half the step that one row in the
    interval makes. It is attained if all other groups are large.
    """
    stated, groups = grouped.constraint, grouped.groups
    counts = grouped.n_rows[grouped.is_large]
    inside = counts * [part.measure for part in stated.intervals(groups)]
    fewest = int(np.argmin(inside))
    # On the absolute scale a gap is a difference of proportions of the whole group.
    scale = 1.0 if stated.gap_scale == "interval" else inside[fewest] / counts[fewest]
    return float(scale / (2 * inside[fewest])), groups.names[fewest], float(inside[fewest])
