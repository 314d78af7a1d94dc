"""Confidence intervals for gaps, which are maxima of absolute differences.

A percentile bootstrap of a maximum is wrong: resampling adds noise, noise widens a maximum, and at a true gap
of 0 the interval never reaches 0. Instead write the gap as ``max_j |d_j|`` over pairs of groups and
thresholds, and bootstrap the *fluctuation* ``d*_j − d_j`` of all differences together:

1. measure the fluctuation of each pair p of groups in units of its own size s_p, so that a small group blurs
   only the pairs it is in; with probability 1 − δ' no ``d_j`` is off by more than ``c' s_p``, so the true
   maximum is at least ``L = max_p (max_{j∈p} |d_j| − c' s_p)`` and sits among the candidates
   ``J = {j : |d_j| + c' s_p ≥ L}``;
2. let c be the quantile of ``max_{j∈J} |d*_j − d_j| / s_p``; the interval runs from the largest
   ``|d_j| − c s_p`` to the largest ``|d_j| + c s_p`` over the candidates.

At a true gap of 0 all j are candidates and this is the (bootstrapped) Kolmogorov–Smirnov test; at a large one
only the neighbourhood of the worst place is left and the interval is almost as short as for one difference.

No bootstrap sees what did not happen: if all of a group's 20 members in the interval are selected, so are
they in every draw. The radius is therefore at least ``1 − (δ − δ')^(1/n)``, the largest share that n members
may all have missed with that probability (about 3/n), for the smallest n compared. Of gaps in units of scores
it is that share of the span of the scores inside.

The draws are a Bayesian bootstrap (exponential weights) on cells of scores: a cell with weight W = Σw and V =
Σw² gets a Gamma weight of mean W and variance V. Weights thus count as sampling weights: a row of weight 2 is
one observation, not two. The number of cells, and so the cost of a draw, does not depend on the number of
rows.

Nor does it grow without end with the number of groups. Knots between which nobody in a group scores cost that
group nothing, and beyond `MAX_CELLS` occupied cells every second, third, ... knot is kept. What that blurs: a
fluctuation is followed at the knots alone, and its largest value between two knots is missed. With 200 groups
of thousands each some 50 knots are left, half of them in and around the interval; the share of a group
between two of these is about 1 % where its standard error is at least as much, so that the radius of such an
interval is smaller by some hundredths. Groups of a few dozen lose nothing: each of their members has a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from partialfair._typing import Floats, Ints
from partialfair.metrics._draw_kernels import widest_deviations
from partialfair.metrics._inputs import GroupScores, ScoredGroups

__all__ = [
    "Differences",
    "Fluctuation",
    "GroupDraws",
    "PairFluctuations",
    "Resamples",
    "fluctuation",
    "resample",
]

CANDIDATE_SHARE = 0.1
"""Share δ'/δ of the error probability that step 1 spends on finding the candidates."""

N_KNOTS = 512
"""Thresholds at which distributions are followed, over all groups (at least 8 for each)."""

EVEN_GROUPS = 10
"""Up to here groups take their knots at the same ranks; more of them in turns, to cover the ranks between."""

MAX_CELLS = 20_000
"""Occupied cells of all groups and labels: a thousand draws of them take 160 MB and a second."""

MIN_KNOTS = 32
"""So many knots are kept whatever the number of groups."""

_GOLDEN = (np.sqrt(5) - 1) / 2
_BLOCK_BYTES = 4 << 20  # differences that are held at once: as much as stays near the processor
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """Weights of the cells that a group occupies: column 0 is the data, the other columns are draws.

    Attributes
    ----------
    cells : (c,)
        Positions of the cells, ascending: from the top.
    weights
        ``{label: (c, B + 1) weights}`` with keys True and False, or None without labels.
    """

    cells: Ints
    weights: dict[bool | None, Floats]


@dataclass(frozen=True, eq=False)
class Resamples:
    """Weights of cells of scores, per group.

    Attributes
    ----------
    scored
        The groups.
    thresholds : (J,)
        Knots, descending. Cell j holds the scores in ``(thresholds[j], thresholds[j − 1]]``, cell J the rest.
    draws
        One for each group.
    """

    scored: ScoredGroups
    thresholds: Floats
    draws: tuple[GroupDraws, ...]

    @property
    def n_columns(self) -> int:
        """B + 1."""
        return int(next(iter(self.draws[0].weights.values())).shape[1])

    def weights(self, k: int, positive: bool | None = None) -> Floats:
        """Weights of the cells of group k, of one label or (None) of all its members."""
        by_label = self.draws[k].weights
        return by_label[positive] if positive in by_label else np.asarray(sum(by_label.values()))

    def ranks(self, k: int, positive: bool | None = None) -> Floats:
        """``F̄`` of group k below each of its cells; it is constant from there to the next one."""
        above = np.cumsum(self.weights(k, positive), axis=0)
        return np.asarray(above / above[-1])

    def mean_scores(self, k: int) -> Floats:
        """Mean score of the members of group k in each of its cells; draws change their weights only."""
        group = self.scored.groups[k]
        weights = np.ones(group.n) if group.weights is None else group.weights
        first = np.cumsum(_n_in_cells(group, self.thresholds))[self.draws[k].cells[:-1]]
        starts = np.concatenate([[0], first])  # from the top, like the cells
        sums, totals = (
            np.add.reduceat(amounts[::-1], starts) for amounts in (weights * group.scores, weights)
        )
        return np.asarray(sums / totals)

    def passed(self, k: int, positive: bool | None = None) -> Floats:
        """Share of the group's interval above the threshold below each of its cells."""
        return self.scored.groups[k].interval.passed(self.ranks(k, positive))

    def passed_linearised(self, k: int, positive: bool | None = None) -> Floats:
        """As `passed`, but with draws that follow the slope 1/m in and near the interval instead of clipping.

        ``passed`` has kinks where the interval begins and ends, and which side of a kink the truth is on is
        itself uncertain by a standard error of F̄. Clipping at the estimate's kinks loses that and covers a
        true gap of 0 too rarely (92–93 % at 250 members for a nominal 95 %); so the slope fades out over
        2/√n, at least four standard errors, beyond each end.
        """
        group = self.scored.groups[k]
        ranks = self.ranks(k, positive)
        data = ranks[:, :1]
        total = self.weights(k, positive)[:, 0].sum()
        margin = 2 / np.sqrt(group.n_effective * total / self.weights(k)[:, 0].sum())
        distance = np.full(data.shape, np.inf)
        for low, high in group.interval.parts:
            distance = np.minimum(distance, np.maximum(np.maximum(low - data, data - high), 0.0))
        near = np.clip(1 - distance / margin, 0.0, 1.0)
        return np.asarray(group.interval.passed(data) + near * (ranks - data) / group.interval.measure)


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences d_j between pairs of groups, made a block of pairs at a time.

    Attributes
    ----------
    pairs : (p, 2)
        Positions of the groups.
    n_most : (p,)
        Differences that each pair has, at most.
    fill
        ``fill(chosen, block)`` writes those of the chosen pairs into the rows of the block, column 0 from the
        data and the others from the draws, and returns where each pair's rows start, and their end.
    n_columns
        B + 1.
    """

    pairs: Ints
    n_most: Ints
    fill: Callable[[Ints, Floats], Ints]
    n_columns: int

    def blocks(self, chosen: Ints) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield positions of pairs, where their rows start, and the rows."""
        n_rows = max(_BLOCK_BYTES // (8 * self.n_columns), int(self.n_most[chosen].max(initial=1)))
        block_of_pair = np.cumsum(self.n_most[chosen]) // n_rows
        for some in np.split(chosen, np.flatnonzero(np.diff(block_of_pair)) + 1):
            block = np.empty((int(self.n_most[some].sum()), self.n_columns))
            starts = self.fill(some, block)
            yield some, starts, block[: starts[-1]]


@dataclass(frozen=True, eq=False)
class PairFluctuations:
    """Gaps of pairs of groups on the cells, the sizes of their fluctuations, and their smaller samples.

    ``widest`` is how far two people can be apart: 1 for gaps that are shares.
    """

    gap: Floats
    scale: Floats
    n_smallest: Floats
    widest: float = 1.0

    @property
    def unit(self) -> Floats:
        """The scale, corrected for few members: a Bayesian bootstrap divides by n + 1, not by n − 1."""
        return self.scale * np.sqrt((self.n_smallest + 1) / np.maximum(self.n_smallest - 1, 0.5))

    def radius(self, c: float, error: float) -> Floats:
        """How far each gap may be off, at least by what nobody in the sample would have shown."""
        return np.maximum(c * self.unit, self.widest * (1 - error ** (1 / self.n_smallest)))

    def only(self, chosen: Ints) -> PairFluctuations:
        """Return some of the pairs."""
        return replace(
            self, gap=self.gap[chosen], scale=self.scale[chosen], n_smallest=self.n_smallest[chosen]
        )


@dataclass(frozen=True, eq=False)
class Fluctuation:
    """How far an estimated gap may be from the truth.

    Attributes
    ----------
    pairs
        The pairs with candidates for the widest difference.
    draws : (B,)
        ``max_{j∈J} |d*_j − d_j| / s_p``, sorted.
    error
        δ, one minus the nominal coverage.
    """

    pairs: PairFluctuations
    draws: Floats
    error: float

    @property
    def gap(self) -> float:
        """Widest gap on the cells; the exact one differs by what a cell blurs."""
        return float(self.pairs.gap.max())

    @property
    def below(self) -> float:
        """How far the truth may lie below the gap."""
        return self.gap - float((self.pairs.gap - self._radius).max())

    @property
    def above(self) -> float:
        """How far the truth may lie above the gap."""
        return float((self.pairs.gap + self._radius).max()) - self.gap

    def p_value(self, excess: float) -> float:
        """Chance of a gap that exceeds the truth by ``excess``: small values speak for a true excess.

        It includes δ', what finding the candidates may cost, and the chance that nobody who would have shown
        otherwise was seen; so it is at most δ just where the confidence interval excludes the truth.
        """
        excesses = self.pairs.gap - (self.gap - excess)
        n_as_far = self.draws.size - np.searchsorted(self.draws, excesses / self.pairs.unit, side="left")
        unseen = np.clip(1 - excesses / self.pairs.widest, 0.0, 1.0) ** self.pairs.n_smallest
        chances = np.maximum((1 + n_as_far) / (1 + self.draws.size), unseen)
        least = float(np.where(excesses > 0, chances, 1.0).min())
        return min(1.0, least + CANDIDATE_SHARE * self.error)

    @property
    def _radius(self) -> Floats:
        left = (1 - CANDIDATE_SHARE) * self.error
        return self.pairs.radius(float(np.quantile(self.draws, 1 - left, method="higher")), left)


def resample(
    scored: ScoredGroups, *, threshold: float | None, n_resamples: int, rng: np.random.Generator
) -> Resamples:
    """Draw Bayesian-bootstrap weights for every cell of every group."""
    by_label = [_by_label(group) for group in scored]
    thresholds = _thinned(_knots(scored, threshold), threshold, by_label)
    draws = tuple(_draw_cells(members, thresholds, n_resamples, rng) for members in by_label)
    return Resamples(scored, thresholds, draws)


def _by_label(group: GroupScores) -> dict[bool | None, GroupScores]:
    if group.positive is None:
        return {None: group}
    return {label: group.with_label(label) for label in (True, False)}


def fluctuation(
    differences: Differences, confidence: float, n_members: Sequence[float], widest_difference: float = 1.0
) -> Fluctuation:
    """Bootstrap the distance between ``max_j |d_j|`` and its truth (steps 1 and 2 of the module's text).

    Parameters
    ----------
    differences
        The d_j of all pairs.
    confidence
        Nominal coverage.
    n_members
        Effective members of each group that the metric compares.
    widest_difference
        How far two people can be apart: 1 where d_j are shares, the span of the scores where they are means.
    """
    error = 1 - confidence
    n_pairs = len(differences.pairs)
    gap, scale = np.empty(n_pairs), np.empty(n_pairs)
    widest = np.zeros(differences.n_columns - 1)
    for some, starts, block in differences.blocks(np.arange(n_pairs)):
        gap[some], deviations = widest_deviations(block, starts, np.zeros(some.size))
        scale[some] = np.maximum(np.median(deviations, axis=1), _TINY * widest_difference)
        widest = np.maximum(widest, (deviations / scale[some, None]).max(axis=0))
    n_smallest = np.maximum(np.asarray(n_members, dtype=np.float64)[differences.pairs].min(axis=1), 1.0)
    pairs = PairFluctuations(gap, scale, n_smallest, widest_difference)
    c = float(np.quantile(widest, 1 - CANDIDATE_SHARE * error))
    radius = pairs.radius(c, CANDIDATE_SHARE * error)
    least = (gap - radius).max() - radius  # a candidate's |d_j| is at least this
    if (least <= 0).all():
        return Fluctuation(pairs, np.sort(widest), error)
    candidates = np.flatnonzero(gap >= least)
    draws = np.zeros_like(widest)
    for some, starts, block in differences.blocks(candidates):
        _, deviations = widest_deviations(block, starts, least[some])
        draws = np.maximum(draws, (deviations / scale[some, None]).max(axis=0))
    return Fluctuation(pairs.only(candidates), np.sort(draws), error)


def _knots(scored: ScoredGroups, threshold: float | None) -> Floats:
    """Thresholds from each group's quantiles: half over all ranks, half in and around its interval."""
    per_group = max(N_KNOTS // len(scored), 8)
    # Multiples of the golden ratio fill the steps between knots evenly, however many groups there are.
    turns = [None if len(scored) <= EVEN_GROUPS else k * _GOLDEN % 1 for k in range(len(scored))]
    knots = [_group_knots(group, per_group, turn) for group, turn in zip(scored, turns, strict=True)]
    if threshold is not None:
        knots.append(np.array([threshold]))
    return np.unique(np.concatenate(knots))[::-1]


def _group_knots(group: GroupScores, n_knots: int, turn: float | None) -> Floats:
    if group.n <= n_knots:
        return group.scores
    margin = 2 / np.sqrt(group.n_effective)
    parts = [_spaced(0.0, 1.0, n_knots // 2, turn)]
    for low, high in group.interval.parts:
        n_inside = max(2, round(n_knots / 2 * (high - low) / group.interval.measure))
        parts.append(_spaced(max(0.0, low - margin), min(1.0, high + margin), n_inside, turn))
    ranks = np.concatenate(parts)
    if group.weights is None:
        n_above = np.floor(ranks * group.n).astype(np.int64)
    else:
        n_above = np.searchsorted(group.above, ranks * group.above[-1])
    return np.asarray(group.scores[group.n - 1 - np.minimum(n_above, group.n - 1)])


def _spaced(low: float, high: float, n_ranks: int, turn: float | None) -> Floats:
    """Evenly spaced ranks from end to end; in turns, each that far on its way to the next."""
    if turn is None:
        return np.linspace(low, high, n_ranks)
    return low + (np.arange(n_ranks) + turn) * (high - low) / n_ranks


def _thinned(
    knots: Floats, threshold: float | None, by_label: Sequence[dict[bool | None, GroupScores]]
) -> Floats:
    """Keep every first, second, third, ... knot, and the threshold, until few enough cells are occupied."""
    members = [group for labels in by_label for group in labels.values()]
    if len(members) * (knots.size + 1) <= MAX_CELLS:
        return knots
    occupied = np.array([_n_in_cells(group, knots) > 0 for group in members])
    for step in range(1, max(knots.size // MIN_KNOTS, 1) + 1):
        keep = np.arange(knots.size) % step == step // 2
        if threshold is not None:
            keep |= knots == threshold
        # A cell of the kept knots begins after each of them, the first one at the top.
        begins = np.concatenate([[0], np.flatnonzero(keep) + 1])
        if np.logical_or.reduceat(occupied, begins, axis=1).sum() <= MAX_CELLS:
            break
    return np.asarray(knots[keep])


def _n_in_cells(group: GroupScores, thresholds: Floats) -> Ints:
    n_above = group.n - np.searchsorted(group.scores, thresholds, side="right")
    return np.diff(np.concatenate([[0], n_above, [group.n]]))


def _draw_cells(
    by_label: dict[bool | None, GroupScores], thresholds: Floats, n_resamples: int, rng: np.random.Generator
) -> GroupDraws:
    counts = {label: _n_in_cells(group, thresholds) for label, group in by_label.items()}
    cells = np.flatnonzero(np.asarray(sum(counts.values())))
    weights: dict[bool | None, Floats] = {}
    for label, group in by_label.items():
        drawn = np.zeros((cells.size, n_resamples + 1))
        total, squares = _sums_in_cells(group, counts[label])
        occupied = np.flatnonzero(total[cells] > 0)
        total, squares = total[cells[occupied]], squares[cells[occupied]]
        drawn[occupied, 0] = total
        shape, scale = total**2 / squares, squares / total
        drawn[occupied, 1:] = rng.gamma(shape, scale, size=(n_resamples, occupied.size)).T
        weights[label] = drawn
    return GroupDraws(cells, weights)


def _sums_in_cells(group: GroupScores, counts: Ints) -> tuple[Floats, Floats]:
    """Σw and Σw² of each cell."""
    if group.weights is None:
        return counts.astype(np.float64), counts.astype(np.float64)
    # Summed cell by cell: differences of running sums would drown small cells in large weights.
    cell = np.repeat(np.arange(counts.size), counts)
    from_top = group.weights[::-1]
    total, squares = (
        np.bincount(cell, weights=amounts, minlength=counts.size).astype(np.float64, copy=False)
        for amounts in (from_top, from_top**2)
    )
    return total, squares
