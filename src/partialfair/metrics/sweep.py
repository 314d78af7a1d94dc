"""Ranks of groups at descending scores: for two groups at a time, or for all in one sweep.

For two groups their scores are merged from the top by `next_block`, which handles thresholds, ties and
weights. Scores are sorted ascending; ``above[i]`` is the weight of the ``i`` largest ones, and an empty
``above`` stands for equal weights. An interval set is the tuple ``(starts, lengths, measure)``.

Merging each of G (G − 1) / 2 pairs takes (G − 1) n steps with an unpredictable branch. With many groups the
scores of all are sorted once instead; at each score the one group whose rank changes is compared with all
others in a loop over consecutive numbers. The number of steps is the same, but each is thirty times as fast.
Sorting takes longer than merging a few pairs, so few groups are merged pair by pair. Both methods do the same
arithmetic in the same order: values are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from partialfair.data.intervals import holds_rank, passed_share, tie_ends
from partialfair.metrics.inputs import GroupScores
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, GapScale, Ints

# More groups than this are compared in one sweep: sorting is then faster than merging every pair.
MANY_GROUPS = 8

SetArguments: TypeAlias = tuple[Floats, Floats, float]


def pair_gap(a: GroupScores, b: GroupScores, gap_scale: GapScale) -> tuple[float, float, float, float]:
    """Return the statistical-parity gap of two groups, the θ of the largest difference, and their ranks."""
    if gap_scale == "interval":
        return clipped_gap(*a.ranked, *b.ranked, a.set_arguments, b.set_arguments)
    return absolute_gap(*a.ranked, *b.ranked, a.interval.starts, a.interval.lengths)


def parity_gaps(groups: Sequence[GroupScores], gap_scale: GapScale) -> Floats:
    """Statistical-parity gap of every pair in one sweep, at ``[k, j]`` for k < j; −1 elsewhere."""
    # On the absolute scale all groups have one interval; see `check_gap_scale`. Fractions of intervals, below
    # 1 or equal to it, count everywhere.
    counted = (np.zeros(1), np.full(1, 2.0))
    if gap_scale == "absolute":
        counted = groups[0].interval.starts, groups[0].interval.lengths
    widest = _widest_differences(*sweep_scores(groups, in_intervals=gap_scale == "interval"), *counted)
    gaps = np.full(widest.shape, -1.0)
    upper = np.triu_indices(len(groups), 1)
    # Row k has the differences at scores where group k moves; those where j moves are in row j.
    gaps[upper] = np.maximum(widest, widest.T)[upper]
    return gaps


def pair_aucs(groups: Sequence[GroupScores], pairs: Iterable[tuple[int, int]], tie_weight: float) -> Floats:
    """``Pr(s > s') + tie_weight · Pr(s = s')`` inside the intervals of each pair, at ``[k, j]``.

    It is nan for pairs with an empty group, and unspecified for other pairs than those given.
    """
    if len(groups) > MANY_GROUPS:
        aucs = _aucs(*sweep_scores(groups, in_intervals=True), tie_weight)
    else:
        aucs = np.full((len(groups), len(groups)), np.nan)
        for k, j in pairs:
            a, b = groups[k], groups[j]
            if a.n and b.n:
                aucs[k, j] = band_auc(*a.ranked, *b.ranked, a.set_arguments, b.set_arguments, tie_weight)
    empty = [k for k, group in enumerate(groups) if group.n == 0]
    aucs[empty, :] = aucs[:, empty] = np.nan
    return np.asarray(aucs)


class ScoreSweep(NamedTuple):
    """Distinct scores of every group from the top, with their groups and the fractions passed below them.

    Scores ``ends[b]`` to ``ends[b + 1]`` are equal; a group is among them at most once.
    """

    groups: Ints
    passed: Floats
    ends: Ints
    n_groups: int


def sweep_scores(groups: Sequence[GroupScores], *, in_intervals: bool = False) -> ScoreSweep:
    """Sort the distinct scores of all groups together.

    The fraction passed is the rank F̄, or the fraction of the interval; then scores outside are omitted.
    """
    all_scores, all_passed = [], []
    for group in groups:
        # Where each block of ties begins, the best block first; an empty group has none.
        first = tie_ends(group.scores)[-2::-1][: group.n]
        scores, n_above = group.scores[first], group.n - first
        passed = n_above / group.n if group.weights is None else group.above[n_above] / group.above[-1]
        if in_intervals:
            passed = _fractions_passed(passed, *group.set_arguments)
            inside = np.diff(passed, prepend=0.0) != 0
            scores, passed = scores[inside], passed[inside]
        all_scores.append(scores)
        all_passed.append(passed)
    scores = np.concatenate(all_scores)
    # Each group's scores are sorted: a stable sort merges those runs.
    order = np.argsort(-scores, kind="stable")
    owner = np.repeat(np.arange(len(groups)), [part.size for part in all_scores])
    return ScoreSweep(owner[order], np.concatenate(all_passed)[order], tie_ends(scores[order]), len(groups))


@njit(cache=True)
def _rank(i: int, above: Floats, n: int) -> float:
    return above[i] / above[n] if above.size else i / n


@njit(cache=True)
def _score_before(rank: float, scores: Floats, above: Floats) -> float:
    """Return a score above which lies less than that fraction of the group."""
    # A little above the last such score, so that rounding never skips a member.
    passed = np.searchsorted(above, rank * above[scores.size]) if above.size else int(rank * scores.size)
    return scores[scores.size - 1 - max(passed - 2, 0)]


@njit(cache=True)
def _passed_before(
    first_a: float, first_b: float, a: Floats, above_a: Floats, b: Floats, above_b: Floats
) -> tuple[int, int]:
    """Return how many members of each group have scores above all with ranks of ``first_a`` or ``first_b``.

    The number may be smaller: the walk then begins slightly early.
    """
    if not (first_a > 0.0 and first_b > 0.0 and a.size and b.size):
        return 0, 0
    theta = max(_score_before(first_a, a, above_a), _score_before(first_b, b, above_b))
    n_above_a = a.size - np.searchsorted(a, theta, side="right")
    return int(n_above_a), int(b.size - np.searchsorted(b, theta, side="right"))


@njit(cache=True)
def next_block(
    i: int, j: int, a: Floats, above_a: Floats, b: Floats, above_b: Floats
) -> tuple[float, float, float, int, int]:
    """Return θ, ``F̄_a(θ)`` and ``F̄_b(θ)`` of the highest score that i and j members are not above.

    Also return the numbers of members of a and b with at least this score. After the last score θ is −∞, and
    walks end.
    """
    # Not a generator: numba never releases the arrays of one.
    n_a, n_b = a.size, b.size
    if i >= n_a and j >= n_b:
        return -np.inf, 1.0, 1.0, i, j
    theta = max(a[n_a - 1 - i] if i < n_a else -np.inf, b[n_b - 1 - j] if j < n_b else -np.inf)
    rank_a, rank_b = _rank(i, above_a, n_a), _rank(j, above_b, n_b)
    while i < n_a and a[n_a - 1 - i] == theta:
        i += 1
    while j < n_b and b[n_b - 1 - j] == theta:
        j += 1
    return theta, rank_a, rank_b, i, j


@njit(cache=True)
def clipped_gap(
    a: Floats, above_a: Floats, b: Floats, above_b: Floats, set_a: SetArguments, set_b: SetArguments
) -> tuple[float, float, float, float]:
    """Return ``max_θ |passed_a(F̄_a(θ)) − passed_b(F̄_b(θ))|`` with its θ, F̄_a(θ) and F̄_b(θ).

    ``passed(p)``, the fraction of the interval above rank p, is the closed form in Appendix C of the
    conditional probability in Definition 4.2.
    """
    best, best_theta, best_a, best_b = -1.0, 0.0, 0.0, 0.0
    # Above both intervals the fraction passed is 0, so the walk begins where one of them does.
    i, j = _passed_before(set_a[0][0], set_b[0][0], a, above_a, b, above_b)
    theta = np.inf
    while theta > -np.inf:
        theta, rank_a, rank_b, i, j = next_block(i, j, a, above_a, b, above_b)
        passed_a, passed_b = passed_share(rank_a, *set_a), passed_share(rank_b, *set_b)
        gap = abs(passed_a - passed_b)
        if gap > best:
            best, best_theta, best_a, best_b = gap, theta, rank_a, rank_b
        if passed_a == 1.0 and passed_b == 1.0:  # no difference below both intervals
            break
    return best, best_theta, best_a, best_b


@njit(cache=True)
def absolute_gap(
    a: Floats, above_a: Floats, b: Floats, above_b: Floats, starts: Floats, lengths: Floats
) -> tuple[float, float, float, float]:
    """Return ``max |F̄_a(θ) − F̄_b(θ)|`` over the θ at which either rank lies in the set, and where.

    The gap is 0 at θ = −∞ if no θ qualifies.
    """
    best, best_theta, best_a, best_b = 0.0, -np.inf, 1.0, 1.0
    # A θ counts if one of the two ranks is inside; none is before the first interval begins.
    i, j = _passed_before(starts[0], starts[0], a, above_a, b, above_b)
    theta = np.inf
    while theta > -np.inf:
        theta, rank_a, rank_b, i, j = next_block(i, j, a, above_a, b, above_b)
        gap = abs(rank_a - rank_b)
        if gap > best and (holds_rank(rank_a, starts, lengths) or holds_rank(rank_b, starts, lengths)):
            best, best_theta, best_a, best_b = gap, theta, rank_a, rank_b
    return best, best_theta, best_a, best_b


@njit(cache=True)
def band_auc(
    a: Floats,
    above_a: Floats,
    b: Floats,
    above_b: Floats,
    set_a: SetArguments,
    set_b: SetArguments,
    tie_weight: float,
) -> float:
    """Return ``Pr(s > s') + tie_weight · Pr(s = s')`` for s, s' drawn from the two intervals."""
    auc, last_a, last_b = 0.0, 0.0, 0.0
    i, j, theta = 0, 0, np.inf
    while theta > -np.inf:
        theta, rank_a, rank_b, i, j = next_block(i, j, a, above_a, b, above_b)
        passed_a, passed_b = passed_share(rank_a, *set_a), passed_share(rank_b, *set_b)
        mass_a, mass_b = passed_a - last_a, passed_b - last_b  # fractions of the intervals in this block
        auc += mass_a * ((1.0 - passed_b) + tie_weight * mass_b)  # beats all of b below, and ties within
        last_a, last_b = passed_a, passed_b
    return auc


@njit(cache=True)
def _fractions_passed(ranks: Floats, starts: Floats, lengths: Floats, measure: float) -> Floats:
    passed = np.empty(ranks.size)
    for i in range(ranks.size):
        passed[i] = passed_share(ranks[i], starts, lengths, measure)
    return passed


@njit(cache=True)
def _widest_differences(
    groups: Ints, passed: Floats, ends: Ints, n_groups: int, starts: Floats, lengths: Floats
) -> Floats:
    """Return the largest ``|passed_k − passed_j|`` with either in the set, at [k, j] where group k moves."""
    current = np.zeros(n_groups)
    counts = np.empty(n_groups)  # 1.0 if the group's rank lies in the set, else 0.0
    counts[:] = 1.0 if holds_rank(0.0, starts, lengths) else 0.0
    widest = np.zeros((n_groups, n_groups))
    for block in range(ends.size - 1):
        # All groups that share the score move before any two are compared.
        for at in range(ends[block], ends[block + 1]):
            current[groups[at]] = passed[at]
            counts[groups[at]] = 1.0 if holds_rank(passed[at], starts, lengths) else 0.0
        for at in range(ends[block], ends[block + 1]):
            row, is_inside = widest[groups[at]], counts[groups[at]]
            for j in range(n_groups):
                # A product, not a branch: the loop then runs on vectors.
                row[j] = max(row[j], abs(passed[at] - current[j]) * max(is_inside, counts[j]))
    return widest


@njit(cache=True)
def _aucs(groups: Ints, passed: Floats, ends: Ints, n_groups: int, tie_weight: float) -> Floats:
    """As `band_auc`, of all ordered pairs."""
    current, mass = np.zeros(n_groups), np.zeros(n_groups)
    aucs = np.zeros((n_groups, n_groups))
    for block in range(ends.size - 1):
        for at in range(ends[block], ends[block + 1]):
            mass[groups[at]] = passed[at] - current[groups[at]]
            current[groups[at]] = passed[at]
        for at in range(ends[block], ends[block + 1]):
            row, mass_k = aucs[groups[at]], mass[groups[at]]
            for j in range(n_groups):
                row[j] += mass_k * ((1.0 - current[j]) + tie_weight * mass[j])
        # Below this block the group's mass lies in ``current``, not at the score.
        for at in range(ends[block], ends[block + 1]):
            mass[groups[at]] = 0.0
    return aucs
