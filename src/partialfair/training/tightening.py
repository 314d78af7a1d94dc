"""From a fit of the surrogate problem to ones whose *exact* gap is at most the limit (``enforce="exact"``).

A surrogate constraint holds at a grid of ranks and for a smoothed indicator, while the limit is about the
exact metric. So the problem is solved again and again, each time from the last solution x_c, and corrected in
both directions: limits become stricter where the exact gap was too large, and looser where there was slack.
The first time the grid is made twice as fine; later a point is added where the exact gap was largest.

That is all by default. It can be done rank by rank as well, by constraints

    f_i(x) + h_i(x_c) − f_i(x_c) ≤ 0,

where h_i is f_i with the indicator itself in place of its surrogate: at x_c the constraint says what is true,
and the surrogate, which becomes narrower as long as it covers enough members to have a slope that means
something, only says how that changes with x. The objective falls at the same training gap, but counts at one
rank are subject to chance, and fitting them can cost accuracy on new data: it is for ``surrogate_halvings``,
and for limits that cannot be satisfied otherwise.
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

# Width, relative to a surrogate's, of a ramp that is as good as the indicator.
_INDICATOR = 1e-6


@dataclass(frozen=True)
class Budget:
    """How many corrections there may be, and how many steps.

    Attributes
    ----------
    rounds
        Corrections.
    times, more
        Steps: so many for each of the first solve's, and so many more.
    usual_rows
        Rows up to which there are as many more. A step costs as much as there are rows: where these are
        many, there are hardly any more.
    """

    rounds: int
    times: float
    more: int
    usual_rows: int = 20_000

    def is_spent(self, round_number: int, n_steps: int, first: Attempt) -> bool:
        """Whether there are no more rounds, or steps."""
        more = self.more * min(1.0, self.usual_rows / first.training.cells.n_rows)
        of_first = first.steps - first.result.history[0].step
        return round_number >= self.rounds or n_steps > self.times * of_first + more


@dataclass(frozen=True)
class Tightening:
    """Settings of a `Tightener`. Shares are relative to the stated limits.

    Attributes
    ----------
    before, after
        Budgets until a model satisfies the constraints, and from then on, when others can be better by a
        little.
    n_failures, lost
        Solves that may go wrong: end with constraints violated by that share, or with an exact gap that is
        larger than the last by a whole limit.
    n_halvings, covered, enough
        How often the surrogate is halved at most; the share of a group that a surrogate of the first width
        covers, roughly (a quarter of the spread of scores that are nearly normal); and members that it has to
        cover: fewer make its slope a matter of chance.
    closer, closer_continued, closer_rank_by_rank, looser
        Shares that are taken off in addition to an excess, and share of a slack that is given back.
    most_taken, most_given
        Shares by which trained limits may differ from those stated.
    n_continued, close_enough, close_enough_continued
        Solves that continue from a model, and shares that a solve may leave unused: steps on the exact metric
        use them, those towards models of a path with lower objectives most of all.
    same
        Objectives that differ by no more are those of the same model.
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
    """Solves problems again with other limits.

    Attributes
    ----------
    settings
        Shares and budgets.
    solving
        Solves them, each from the last solution.
    """

    settings: Tightening
    solving: Solving

    def tighten(self, first: Attempt, halvings: int, *, solves_are_long: bool = False) -> Iterator[Attempt]:
        """Correct and solve again; yield every attempt.

        Parameters
        ----------
        first
            What is to be corrected.
        halvings
            How often the surrogate may be halved; with 0 only limits are corrected, and ranks one by one only
            if no model satisfied the constraints then.
        solves_are_long
            Whether ranks are corrected one by one at once, if limits would have to be next to nothing.
        """
        settings, narrowest, begun = self.settings, self._most_halvings(first), first.steps
        # So large an excess that limits would have to be next to nothing.
        far = (first.excess > (settings.most_taken - settings.closer) * first.training.max_gaps).any()
        # Limits alone come first: rank by rank means fitting counts that are subject to chance.
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
        """Correct again and again, rank by rank if the surrogate may be halved some times.

        Parameters
        ----------
        first
            What is to be corrected.
        most_halvings
            How often the surrogate may be halved.
        begun
            Steps that were taken before.
        """
        settings, stated = self.settings, first.training.max_gaps
        last, rank_by_rank = first, most_halvings > 0
        # What is taken off the stated limits; negative where they were loosened.
        taken, n_failures, satisfied = np.zeros(stated.size), 0, first.satisfied
        closer = settings.closer_rank_by_rank if rank_by_rank else settings.closer
        # Limits may become looser by half, but not than the largest gap there is.
        room = np.array([one.largest_gap for one in first.constraints]) - stated
        most_given = np.minimum(settings.most_given * stated, room)
        for number in range(settings.before.rounds):
            before = taken
            if number or not rank_by_rank:
                # An excess is taken off with a bit more; most of a slack is given back.
                change = np.where(
                    last.excess > 0, last.excess + closer * stated, settings.looser * last.excess
                )
                taken = np.clip(taken + change, -most_given, settings.most_taken * stated)
            # One halving more each time: at a solution, slopes of a narrower surrogate say more.
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
            # The next correction begins again from the last attempt that was not lost.
            if self._is_lost(attempt, last):
                n_failures += 1
                if n_failures == settings.n_failures:
                    return
            else:
                last = attempt

    def _is_lost(self, attempt: Attempt, last: Attempt) -> bool:
        """Whether nothing good can be expected near an attempt; running out of steps alone is no loss."""
        stated = attempt.training.max_gaps
        violated = not attempt.arrived and attempt.result.violation > self.settings.lost * stated.max()
        return bool(violated or (attempt.excess > np.maximum(last.excess, 0.0) + stated).any())

    def solve_around(self, attempt: Attempt, w: Floats, limits: Floats, halved: int = 0) -> Attempt:
        """Solve the problem whose constraints are true of a model, with given limits.

        With a surrogate as wide as at first such problems are solved soonest; with one that is halved some
        times solutions are closer to the model.
        """
        at = replace(attempt, result=replace(attempt.result, x=attempt.problem.start_at(w)))
        return self._correct(at, limits, halved, rank_by_rank=True)

    def continue_from(self, begin: Attempt, w: Floats, surrogate_bias: Floats) -> Iterator[Attempt]:
        """Solve, from a model that is nearly the answer, problems that are corrected already; yield each.

        The last model of a path is nearly the answer for the next limit, and its surrogate was off by about
        as much: constraints need not be stated first, and then corrected. The bias of a surrogate falls with
        κ, but more slowly: along paths about as √κ. So much is taken off at once, and a little more.

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
        # The bias of the last model in units of √κ, for the new κ.
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
        """Take more steps on the problem of an attempt that ran out of them."""
        result = self.solving.solve(attempt.problem, attempt.result.x, again=True)
        return replace(attempt, result=result, number=attempt.number + 1)

    def make_stricter(self, attempt: Attempt, limits: Floats, closer: float | None = None) -> Floats:
        """Return limits for after an attempt that exceeded them: stricter by as much, and a little more."""
        settings, stated = self.settings, attempt.training.max_gaps
        share = settings.closer_rank_by_rank if closer is None else closer
        less = limits - np.maximum(attempt.excess, 0.0) - share * stated
        return np.asarray(np.maximum(less, (1 - settings.most_taken) * stated))

    def _most_halvings(self, first: Attempt) -> int:
        """Return how often the surrogate may be halved and still cover enough members of every group."""
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
        # The surrogate problem with other limits, at thresholds that suit the last scores.
        smooth = training.problem([block])
        w, theta = last.problem.split(last.result.x)
        # New thresholds are those that suit the last scores among the new members.
        thresholds = block.joined_thresholds.continued(
            last.problem.constraints.joined_thresholds, theta, smooth.rows.at(w).ranks
        )
        start = np.concatenate([w, thresholds])
        # h_i(x_c) − f_i(x_c): what the surrogate misses at the last solution, rank by rank.
        bias = np.zeros(smooth.m)
        if rank_by_rank and sigma is not None:
            bias = evaluate_indicator(training, trained, sigma, start) - smooth.evaluate(start).constraints
        problem = training.problem([block.raised(bias)])
        result = self.solving.solve(problem, start, again=True)
        return Attempt(training, trained, sigma, problem, result, last.number + 1, rank_by_rank, halved)


def evaluate_indicator(
    training: Training, constraints: Sequence[Constraint], sigma: Surrogate, x: Floats
) -> Floats:
    """Return ``h_i(x)``: constraints with the indicator in place of σ; with σ where no metric is known."""
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
    """Add to grids of ranks the places at which the exact gaps are largest, if these are at some ranks."""
    refined = []
    for one, gap, grouped in zip(constraints, gaps, training.constraints, strict=True):
        if isinstance(one, OnAGrid) and not np.isnan(gap.ranks).any():
            intervals = one.intervals(grouped.groups)
            of_pair = [intervals[grouped.groups.labels.index(label)] for label in gap.groups]
            one = one.on_grid(one.grid.refined(gap.ranks, of_pair))
        refined.append(one)
    return refined


def explain_infeasibility(training: Training, gaps: Sequence[WorstGap]) -> str:
    """Say which gap exceeds its limit most, and whether only ties could satisfy it."""
    # A constraint without a metric has no exact gap, and cannot be the one to name.
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
        # Scores are in the units of the fit here, not the user's: only the ratio means something to both.
        times = gap.value / stated.max_gap if stated.max_gap else np.inf
        return f"the exact gap of {name} is {times:.3g} times max_gap between {pair}{where}"
    reached = f"the exact gap of {name} is {gap.value:.3g} between {pair}{where}"
    floor, group, members = estimate_smallest_gap(grouped)
    if stated.max_gap >= floor:
        return reached
    return (
        f"{reached}, and without ties it can hardly be below {floor:.2g}, because the interval holds "
        f"{members:.3g} members of group {group!r}"
    )


def is_reachable(grouped: GroupedConstraint) -> bool:
    """Whether scores without ties can satisfy a constraint, as far as the sizes of groups say."""
    # Sizes bound differences of proportions; and the unconstrained model satisfies limits next to intervals.
    if grouped.is_in_scores or grouped.is_adjoining:
        return True
    return bool(grouped.constraint.max_gap >= estimate_smallest_gap(grouped)[0])


def estimate_smallest_gap(grouped: GroupedConstraint) -> tuple[float, str, float]:
    """Return about the smallest gap that scores without ties can have, and the group that bounds it.

    ``1 / (2 min_k n_k m_k)``, on the absolute scale ``1 / (2 min_k n_k)``: half the step that one member of
    the interval makes. It is reached if all other groups are large.
    """
    stated, groups = grouped.constraint, grouped.groups
    counts = grouped.n_rows[grouped.is_large]
    inside = counts * [part.measure for part in stated.intervals(groups)]
    fewest = int(np.argmin(inside))
    # On the absolute scale a gap is a difference of proportions of the whole group.
    scale = 1.0 if stated.gap_scale == "interval" else inside[fewest] / counts[fewest]
    return float(scale / (2 * inside[fewest])), groups.names[fewest], float(inside[fewest])
