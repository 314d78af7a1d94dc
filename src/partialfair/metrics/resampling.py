"""A Bayesian bootstrap of groups of scores, on cells of scores.

The draws are a Bayesian bootstrap (exponential weights) on cells of scores: a cell with weight W = Σw and V =
Σw² gets a Gamma weight of mean W and variance V. Weights are thus sampling weights: a row of weight 2 is one
observation, not two. The number of cells, and so the time of a draw, does not depend on the number of rows.
With clusters, each cluster has one exponential weight for all of its rows, across cells, groups and labels.

It is also bounded in the number of groups. A group has cells only between knots where it has scores. If more
than `KnotSettings.max_cells` cells are occupied, only every second, third, ... knot is used. The loss is that
fluctuations are evaluated at the knots only, so that larger values between two knots are missed. With 200
groups of thousands each some 50 knots are left, half of them in and around the interval; the fraction of a
group between two of these is about 1% where its standard error is at least as much, so that the radius of
such an interval is smaller by some hundredths. Groups of a few dozen lose nothing: each of their members has
a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import sparse

from partialfair.metrics.inputs import GroupScores, ScoredGroups
from partialfair.utils.typing import Floats, Ints

# The members of a group with each label; without labels all of them, at None.
_ByLabel: TypeAlias = dict[bool | None, GroupScores]


@dataclass(frozen=True)
class KnotSettings:
    """The number of thresholds at which distributions are evaluated."""

    # Over all groups (at least 8 for each).
    n_knots: int = 512
    # Up to this number, groups have knots at the same ranks; more groups have them at alternating ranks.
    even_groups: int = 10
    # Occupied cells of all groups and labels: a thousand draws of them need 160 MB and a second.
    max_cells: int = 20_000
    # At least this many knots remain for any number of groups.
    min_knots: int = 32
    # Weights of clusters that are held at a time: fits into the processor's cache.
    block_bytes: int = 4 << 20


SETTINGS = KnotSettings()

_GOLDEN = (np.sqrt(5) - 1) / 2


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
    clipped
        Whether draws of `passed_linearized` are clipped at the ends of the interval, as the proportions are.
    """

    scored: ScoredGroups
    thresholds: Floats
    draws: tuple[GroupDraws, ...]
    clipped: bool = False

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
        """Fraction of the group's interval above the threshold below each of its cells."""
        return self.scored.groups[k].interval.passed(self.ranks(k, positive))

    def passed_linearized(
        self, k: int, positive: bool | None = None, *, beyond: float = 2.0, fading: float = 2.0
    ) -> Floats:
        """As `passed`, but with draws that follow the slope 1/m in and near the interval instead of clipping.

        ``passed`` has kinks where the interval begins and ends, and the side of a kink on which the true rank
        lies is uncertain by a standard error of F̄. Clipping at the estimate's kinks ignores this, and
        coverage of a true gap of 0 is too low (92–93% at 250 members for a nominal 95%). So the slope
        continues beyond each end, by default for 2/√n (at least four standard errors), and decreases to 0
        over the same distance.
        """
        if self.clipped:
            return self.passed(k, positive)
        group = self.scored.groups[k]
        ranks = self.ranks(k, positive)
        data = ranks[:, :1]
        # The label's part of the group's effective size.
        total = self.weights(k, positive)[:, 0].sum()
        root_n = np.sqrt(group.n_effective * total / self.weights(k)[:, 0].sum())
        distance = np.full(data.shape, np.inf)
        for low, high in group.interval.parts:
            distance = np.minimum(distance, np.maximum(np.maximum(low - data, data - high), 0.0))
        near = np.clip((beyond + fading - distance * root_n) / fading, 0.0, 1.0)
        return np.asarray(group.interval.passed(data) + near * (ranks - data) / group.interval.measure)


def resample(
    scored: ScoredGroups, *, threshold: float | None, n_resamples: int, rng: np.random.Generator
) -> Resamples:
    """Draw Bayesian-bootstrap weights for every cell of every group."""
    by_label: list[_ByLabel] = [
        {None: group}
        if group.positive is None
        else {label: group.with_label(label) for label in (True, False)}
        for group in scored
    ]
    thresholds = _thin(_knots(scored, threshold), threshold, by_label)
    if scored.groups[0].clusters is not None:
        return Resamples(scored, thresholds, _draw_clusters(by_label, thresholds, n_resamples, rng))
    draws = tuple(_draw_cells(members, thresholds, n_resamples, rng) for members in by_label)
    return Resamples(scored, thresholds, draws)


def _knots(scored: ScoredGroups, threshold: float | None) -> Floats:
    """Thresholds from each group's quantiles: half over all ranks, half in and around its interval."""
    per_group = max(SETTINGS.n_knots // len(scored), 8)
    # Multiples of the golden ratio fill the steps between knots evenly, however many groups there are.
    turns = [None if len(scored) <= SETTINGS.even_groups else k * _GOLDEN % 1 for k in range(len(scored))]
    knots = [_group_knots(group, per_group, turn) for group, turn in zip(scored, turns, strict=True)]
    if threshold is not None:
        knots.append(np.array([threshold]))
    return np.unique(np.concatenate(knots))[::-1]


def _group_knots(group: GroupScores, n_knots: int, turn: float | None) -> Floats:
    if group.n <= n_knots:
        return group.scores

    def space(low: float, high: float, n_ranks: int) -> Floats:
        """Return evenly spaced ranks, or ranks shifted by a fraction of the spacing."""
        if turn is None:
            return np.linspace(low, high, n_ranks)
        return low + (np.arange(n_ranks) + turn) * (high - low) / n_ranks

    margin = 2 / np.sqrt(group.n_effective)  # at least four standard errors of a rank
    parts = [space(0.0, 1.0, n_knots // 2)]
    for low, high in group.interval.parts:
        n_inside = max(2, round(n_knots / 2 * (high - low) / group.interval.measure))
        parts.append(space(max(0.0, low - margin), min(1.0, high + margin), n_inside))
    ranks = np.concatenate(parts)
    if group.weights is None:
        n_above = np.floor(ranks * group.n).astype(np.int64)
    else:
        n_above = np.searchsorted(group.above, ranks * group.above[-1])
    return np.asarray(group.scores[group.n - 1 - np.minimum(n_above, group.n - 1)])


def _thin(knots: Floats, threshold: float | None, by_label: Sequence[_ByLabel]) -> Floats:
    """Keep every first, second, third, ... knot, and the threshold, so that few enough cells are occupied."""
    members = [group for labels in by_label for group in labels.values()]
    if len(members) * (knots.size + 1) <= SETTINGS.max_cells:
        return knots
    occupied = np.array([_n_in_cells(group, knots) > 0 for group in members])
    for step in range(1, max(knots.size // SETTINGS.min_knots, 1) + 1):
        stays = np.arange(knots.size) % step == step // 2
        if threshold is not None:
            stays |= knots == threshold
        # A cell of the knots that stay begins after each of them, the first one at the top.
        begins = np.concatenate([[0], np.flatnonzero(stays) + 1])
        if np.logical_or.reduceat(occupied, begins, axis=1).sum() <= SETTINGS.max_cells:
            break
    return np.asarray(knots[stays])


def _n_in_cells(group: GroupScores, thresholds: Floats) -> Ints:
    n_above = group.n - np.searchsorted(group.scores, thresholds, side="right")
    return np.diff(np.concatenate([[0], n_above, [group.n]]))


def _draw_cells(
    by_label: _ByLabel, thresholds: Floats, n_resamples: int, rng: np.random.Generator
) -> GroupDraws:
    counts = {label: _n_in_cells(group, thresholds) for label, group in by_label.items()}
    cells = np.flatnonzero(np.asarray(sum(counts.values())))
    weights: dict[bool | None, Floats] = {}
    for label, group in by_label.items():
        total = squares = counts[label].astype(np.float64)  # Σw and Σw² of each cell
        if group.weights is not None:
            # Summed cell by cell: differences of running sums would drown small cells in large weights.
            cell = np.repeat(np.arange(total.size), counts[label])
            from_top = group.weights[::-1]
            total, squares = (
                np.bincount(cell, weights=amounts, minlength=counts[label].size).astype(
                    np.float64, copy=False
                )
                for amounts in (from_top, from_top**2)
            )
        drawn = np.zeros((cells.size, n_resamples + 1))
        occupied = np.flatnonzero(total[cells] > 0)
        total, squares = total[cells[occupied]], squares[cells[occupied]]
        drawn[occupied, 0] = total
        # The Gamma distribution of mean Σw and variance Σw²: a sum of that many exponential weights.
        shape, scale = total**2 / squares, squares / total
        drawn[occupied, 1:] = rng.gamma(shape, scale, size=(n_resamples, occupied.size)).T
        weights[label] = drawn
    return GroupDraws(cells, weights)


def _draw_clusters(
    by_label: Sequence[_ByLabel], thresholds: Floats, n_resamples: int, rng: np.random.Generator
) -> tuple[GroupDraws, ...]:
    """Draw one exponential weight for every cluster, and sum them over the cells of all groups."""
    members = [group for labels in by_label for group in labels.values()]
    clusters = [group.clusters for group in members if group.clusters is not None]
    n_clusters = max(int(codes.max(initial=0)) + 1 for codes in clusters)
    weight_of_clusters = []  # that each cluster has in each cell: (n_cells, n_clusters) of each member
    for group, codes in zip(members, clusters, strict=True):
        counts = _n_in_cells(group, thresholds)
        cell = np.repeat(np.arange(counts.size), counts)
        weights = np.ones(group.n) if group.weights is None else group.weights[::-1]
        shape = (counts.size, n_clusters)
        weight_of_clusters.append(sparse.coo_array((weights, (cell, codes[::-1])), shape=shape).tocsr())
    weight_in_cells = sparse.vstack(weight_of_clusters, format="csr")
    drawn = np.empty((weight_in_cells.shape[0], n_resamples + 1))
    drawn[:, 0] = np.asarray(weight_in_cells.sum(axis=1)).ravel()
    step = max(SETTINGS.block_bytes // (8 * n_clusters), 1)
    for first in range(1, n_resamples + 1, step):
        n_draws = min(step, n_resamples + 1 - first)
        # In rows of draws, so that a seed gives a cluster the same weights however many are drawn at a time.
        weights = rng.standard_exponential(size=(n_draws, n_clusters))
        drawn[:, first : first + n_draws] = weight_in_cells @ weights.T
    per_member = iter(np.split(drawn, len(members)))
    draws = []
    for labels in by_label:
        rows = {label: next(per_member) for label in labels}
        cells = np.flatnonzero(np.sum([each[:, 0] for each in rows.values()], axis=0))
        draws.append(GroupDraws(cells, {label: each[cells] for label, each in rows.items()}))
    return tuple(draws)
