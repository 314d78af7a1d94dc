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
may all have missed with that probability (about 3/n), for the smallest n compared.

The draws are a Bayesian bootstrap (exponential weights) on cells of scores: a cell with weight W = Σw and V =
Σw² gets a Gamma weight of mean W and variance V. Weights thus count as sampling weights: a row of weight 2 is
one observation, not two. The number of cells, and so the cost of a draw, does not depend on the number of
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partialfair._typing import Floats
from partialfair.metrics._inputs import GroupScores, ScoredGroups

__all__ = ["Fluctuation", "PairBlock", "PairFluctuation", "Resamples", "fluctuation", "resample"]

CANDIDATE_SHARE = 0.1
"""Share δ'/δ of the error probability that step 1 spends on finding the candidates."""

N_KNOTS = 512
"""Thresholds at which distributions are followed, over all groups (at least 8 for each)."""

_MAX_KEPT_BYTES = 200 << 20
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Resamples:
    """Weights of cells of scores, per group: row 0 is the data, the other rows are draws.

    Attributes
    ----------
    scored
        The groups.
    thresholds : (J,)
        Knots, descending. Cell j holds the scores in ``(thresholds[j], thresholds[j − 1]]``.
    cells
        For each group ``{label: (B + 1, J + 1) weights}`` with keys True and False, or None without labels.
    """

    scored: ScoredGroups
    thresholds: Floats
    cells: tuple[dict[bool | None, Floats], ...]

    def weights(self, k: int, positive: bool | None = None) -> Floats:
        """Cell weights of group k, of one label or (None) of all its members."""
        by_label = self.cells[k]
        return by_label[positive] if positive in by_label else np.asarray(sum(by_label.values()))

    def ranks(self, k: int, positive: bool | None = None) -> Floats:
        """``F̄(θ)`` of group k at each threshold and, last, at −∞."""
        return _shares(self.weights(k, positive))

    def passed(self, k: int, positive: bool | None = None) -> Floats:
        """Share of the group's interval above each threshold."""
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
        total = self.weights(k, positive)[0].sum()
        margin = 2 / np.sqrt(group.n_effective * total / self.weights(k)[0].sum())
        distance = np.full(ranks.shape[1], np.inf)
        for low, high in group.interval.parts:
            distance = np.minimum(distance, np.maximum(np.maximum(low - ranks[0], ranks[0] - high), 0.0))
        near = np.clip(1 - distance / margin, 0.0, 1.0)
        return np.asarray(
            group.interval.passed(ranks[0]) + near * (ranks - ranks[0]) / group.interval.measure
        )


@dataclass(frozen=True, eq=False)
class PairBlock:
    """Differences between groups k and j: (B + 1, m), row 0 from the data, the others from the draws."""

    k: int
    j: int
    values: Floats


@dataclass(frozen=True)
class PairFluctuation:
    """One pair of groups: its gap on the cells, the size of its fluctuation, and its smaller sample."""

    gap: float
    scale: float
    n_smallest: float

    @property
    def unit(self) -> float:
        """The scale, corrected for few members: a Bayesian bootstrap divides by n + 1, not by n − 1."""
        return self.scale * float(np.sqrt((self.n_smallest + 1) / max(self.n_smallest - 1, 0.5)))

    def radius(self, c: float, error: float) -> float:
        """How far the pair's gap may be off, at least by what nobody in the sample would have shown."""
        return max(c * self.unit, 1 - float(error ** (1 / self.n_smallest)))


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

    pairs: tuple[PairFluctuation, ...]
    draws: Floats
    error: float

    @property
    def gap(self) -> float:
        """Widest gap on the cells; the exact one differs by what a cell blurs."""
        return max(pair.gap for pair in self.pairs)

    @property
    def below(self) -> float:
        """How far the truth may lie below the gap."""
        return self.gap - max(pair.gap - self._radius(pair) for pair in self.pairs)

    @property
    def above(self) -> float:
        """How far the truth may lie above the gap."""
        return max(pair.gap + self._radius(pair) for pair in self.pairs) - self.gap

    def p_value(self, excess: float) -> float:
        """Chance of a gap that exceeds the truth by ``excess``: small values speak for a true excess.

        It includes δ', what finding the candidates may cost, and the chance that nobody who would have shown
        otherwise was seen; so it is at most δ just where the confidence interval excludes the truth.
        """
        truth = self.gap - excess
        chance = min(self._chance(pair, pair.gap - truth) for pair in self.pairs)
        return min(1.0, chance + CANDIDATE_SHARE * self.error)

    def _chance(self, pair: PairFluctuation, excess: float) -> float:
        if excess <= 0:
            return 1.0
        n_as_far = self.draws.size - np.searchsorted(self.draws, excess / pair.unit, side="left")
        unseen = max(1 - excess, 0.0) ** pair.n_smallest
        return float(max((1 + n_as_far) / (1 + self.draws.size), unseen))

    def _radius(self, pair: PairFluctuation) -> float:
        left = (1 - CANDIDATE_SHARE) * self.error
        return pair.radius(float(np.quantile(self.draws, 1 - left, method="higher")), left)


def resample(
    scored: ScoredGroups, *, threshold: float | None, n_resamples: int, rng: np.random.Generator
) -> Resamples:
    """Draw Bayesian-bootstrap weights for every cell of every group."""
    thresholds = _knots(scored, threshold)
    cells = []
    for group in scored:
        if group.positive is None:
            members: dict[bool | None, GroupScores] = {None: group}
        else:
            members = {label: group.with_label(label) for label in (True, False)}
        cells.append(
            {label: _draw_cells(part, thresholds, n_resamples, rng) for label, part in members.items()}
        )
    return Resamples(scored, thresholds, tuple(cells))


def fluctuation(
    differences: Callable[[], Iterator[PairBlock]], confidence: float, n_members: Sequence[float]
) -> Fluctuation:
    """Bootstrap the distance between ``max_j |d_j|`` and its truth (steps 1 and 2 of the module's text).

    Parameters
    ----------
    differences
        Yields blocks of differences d: row 0 from the data, the others from the draws. It is called twice, so
        that the blocks of many pairs need not be held at once.
    confidence
        Nominal coverage.
    n_members
        Effective members of each group that the metric compares.
    """
    error = 1 - confidence
    kept = _Kept(differences)
    deviations, pairs = [], []
    for block in kept.blocks():
        deviation = _widest(block.values)
        deviations.append(deviation / (scale := max(float(np.median(deviation)), _TINY)))
        n_smallest = max(min(n_members[block.k], n_members[block.j]), 1.0)
        pairs.append(PairFluctuation(float(np.abs(block.values[0]).max()), scale, n_smallest))
    c = float(np.quantile(np.max(deviations, axis=0), 1 - CANDIDATE_SHARE * error))
    least = max(pair.gap - pair.radius(c, CANDIDATE_SHARE * error) for pair in pairs)
    draws, candidates = np.zeros(deviations[0].size), []
    for block, pair in zip(kept.blocks(), pairs, strict=True):
        possible = np.abs(block.values[0]) + pair.radius(c, CANDIDATE_SHARE * error) >= least
        if possible.any():
            draws = np.maximum(draws, _widest(block.values[:, possible]) / pair.scale)
            candidates.append(pair)
    return Fluctuation(tuple(candidates), np.sort(draws), error)


class _Kept:
    """Blocks of differences for two passes: kept while they are small, computed again where they are not."""

    def __init__(self, differences: Callable[[], Iterator[PairBlock]]) -> None:
        self.differences = differences
        self.kept: list[PairBlock] | None = None

    def blocks(self) -> Iterator[PairBlock]:
        if self.kept is not None:
            yield from self.kept
            return
        kept: list[PairBlock] | None = []
        n_bytes = 0
        for block in self.differences():
            n_bytes += block.values.nbytes
            if kept is not None:
                kept.append(block)
            if n_bytes > _MAX_KEPT_BYTES:
                kept = None
            yield block
        self.kept = kept


def _widest(block: Floats) -> Floats:
    """Largest |d*_j − d_j| of each draw."""
    deviation = block[1:] - block[0]
    return np.asarray(np.maximum(deviation.max(axis=1), -deviation.min(axis=1)))


def _knots(scored: ScoredGroups, threshold: float | None) -> Floats:
    """Thresholds from each group's quantiles: half over all ranks, half in and around its interval."""
    per_group = max(N_KNOTS // len(scored), 8)
    knots = [_group_knots(group, per_group) for group in scored]
    if threshold is not None:
        knots.append(np.array([threshold]))
    return np.unique(np.concatenate(knots))[::-1]


def _group_knots(group: GroupScores, n_knots: int) -> Floats:
    if group.n <= n_knots:
        return group.scores
    margin = 2 / np.sqrt(group.n_effective)
    parts = [np.linspace(0, 1, n_knots // 2)]
    for low, high in group.interval.parts:
        n_inside = max(2, round(n_knots / 2 * (high - low) / group.interval.measure))
        parts.append(np.linspace(max(0.0, low - margin), min(1.0, high + margin), n_inside))
    ranks = np.concatenate(parts)
    if group.weights is None:
        n_above = np.floor(ranks * group.n).astype(np.int64)
    else:
        n_above = np.searchsorted(group.above, ranks * group.above[-1])
    return np.asarray(group.scores[group.n - 1 - np.minimum(n_above, group.n - 1)])


def _draw_cells(group: GroupScores, thresholds: Floats, n_resamples: int, rng: np.random.Generator) -> Floats:
    n_above = group.n - np.searchsorted(group.scores, thresholds, side="right")
    counts = np.diff(np.concatenate([[0], n_above, [group.n]]))
    if group.weights is None:
        total = squares = counts.astype(np.float64)
    else:
        # Summed cell by cell: differences of running sums would drown small cells in large weights.
        cell = np.repeat(np.arange(counts.size), counts)
        from_top = group.weights[::-1]
        total = np.bincount(cell, weights=from_top, minlength=counts.size).astype(np.float64, copy=False)
        squares = np.bincount(cell, weights=from_top**2, minlength=counts.size).astype(np.float64, copy=False)
    occupied = total > 0
    scale = np.divide(squares, total, out=np.zeros_like(total), where=occupied)
    shape = np.divide(total**2, squares, out=np.zeros_like(total), where=occupied)
    draws = np.zeros((n_resamples + 1, total.size))
    draws[0] = total
    draws[1:, occupied] = rng.gamma(shape[occupied], scale[occupied], size=(n_resamples, occupied.sum()))
    return draws


def _shares(weights: Floats) -> Floats:
    cumulative = np.cumsum(weights, axis=1)
    return np.asarray(cumulative / cumulative[:, -1:])
