"""Each metric as a family of signed differences, evaluated on data and draws alike.

A metric's gap is ``max_j |d_j|``; these functions yield the d_j in blocks, one column each, for the rows of a
`Resamples`. They mirror `partialfair.metrics.partial` on cells of scores instead of single scores, and serve
only the confidence intervals: reported values always come from the exact metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from partialfair._typing import Floats, GapScale, RankWithin
from partialfair.metrics.resampling import PairBlock, Resamples

__all__ = [
    "Setting",
    "demographic_parity",
    "equal_opportunity",
    "equalized_odds",
    "group_auc",
    "inter_group",
    "intra_group",
    "statistical_parity",
]

N_RANKS = 201
"""Ranks inside the interval at which the absolute gap is followed."""


@dataclass(frozen=True)
class Setting:
    """What metrics need to know besides scores and groups."""

    gap_scale: GapScale = "interval"
    threshold: float | None = None
    rank_within: RankWithin = "group"


def statistical_parity(resamples: Resamples, setting: Setting) -> Iterator[PairBlock]:
    """Differences of conditional distributions at thresholds, or of ranks at ranks in the interval."""
    n_groups = len(resamples.scored)
    if setting.gap_scale == "interval":
        passed = [resamples.passed_linearised(k) for k in range(n_groups)]
        for k, j in resamples.scored.pairs():
            yield PairBlock(k, j, passed[k] - passed[j])
        return
    # The thresholds that count depend on the ranks, which are random. Followed by rank they do not:
    # θ with F̄_k(θ) = p has |F̄_k − F̄_j| = |p − F̄_j(F̄_k⁻¹(p))| for p in the interval, k and j in both orders.
    ranks = [resamples.ranks(k) for k in range(n_groups)]
    parts = resamples.scored.groups[0].interval.parts
    grid = np.concatenate([np.linspace(low, high, N_RANKS) for low, high in parts])
    for k, j in permutations(range(n_groups), 2):
        rows = zip(ranks[k], ranks[j], strict=True)
        yield PairBlock(k, j, np.stack([grid - np.interp(grid, own, other) for own, other in rows]))


def demographic_parity(resamples: Resamples, setting: Setting) -> Iterator[PairBlock]:
    """Differences of selected shares at the one threshold."""
    return _pair_differences(
        resamples, [_selected(resamples, k, setting) for k in range(len(resamples.scored))]
    )


def group_auc(resamples: Resamples, setting: Setting) -> Iterator[PairBlock]:
    """``Pr(s > s') + ½ Pr(s = s') − ½`` inside the intervals of each pair."""
    curves = [_Curve(resamples.passed(k)) for k in range(len(resamples.scored))]
    for k, j in resamples.scored.pairs():
        yield PairBlock(k, j, (curves[k].auc(curves[j]) - 0.5)[:, None])


def equal_opportunity(resamples: Resamples, setting: Setting, positive: bool = True) -> Iterator[PairBlock]:
    """Differences of selected shares among the interval's members with one label."""
    groups = range(len(resamples.scored))
    if setting.rank_within == "group_and_label":
        return _pair_differences(resamples, [_selected(resamples, k, setting, positive) for k in groups])
    return _pair_differences(resamples, [_selected_of_label(resamples, k, setting, positive) for k in groups])


def equalized_odds(resamples: Resamples, setting: Setting) -> Iterator[PairBlock]:
    """Differences of selected shares for both labels."""
    for positive in (True, False):
        yield from equal_opportunity(resamples, setting, positive)


def inter_group(resamples: Resamples, setting: Setting) -> Iterator[PairBlock]:
    """``A(k⁺, j⁻) − A(j⁺, k⁻)`` for each pair."""
    groups = range(len(resamples.scored))
    positives, negatives = ([_Curve(resamples.ranks(k, label)) for k in groups] for label in (True, False))
    for k, j in resamples.scored.pairs():
        lead = positives[k].auc(negatives[j]) - positives[j].auc(negatives[k])
        yield PairBlock(k, j, lead[:, None])


def intra_group(resamples: Resamples, setting: Setting) -> Iterator[PairBlock]:
    """``A(k⁺, k⁻) − A(j⁺, j⁻)`` for each pair."""
    groups = range(len(resamples.scored))
    aucs = [_Curve(resamples.ranks(k, True)).auc(_Curve(resamples.ranks(k, False))) for k in groups]
    return _pair_differences(resamples, aucs)


def _pair_differences(resamples: Resamples, shares: list[Floats]) -> Iterator[PairBlock]:
    for k, j in resamples.scored.pairs():
        yield PairBlock(k, j, (shares[k] - shares[j])[:, None])


def _threshold_column(resamples: Resamples, setting: Setting) -> int:
    """Position of the threshold among the knots, which `resample` put there."""
    return int(np.flatnonzero(resamples.thresholds == setting.threshold)[0])


def _selected(resamples: Resamples, k: int, setting: Setting, positive: bool | None = None) -> Floats:
    share = resamples.passed_linearised(k, positive)[:, _threshold_column(resamples, setting)]
    return share if setting.gap_scale == "interval" else share * resamples.scored.groups[k].interval.measure


def _selected_of_label(resamples: Resamples, k: int, setting: Setting, positive: bool) -> Floats:
    """Ranks within the group; a cell's share of the interval is split over labels by their weight in it."""
    everyone, labelled = resamples.weights(k), resamples.weights(k, positive)
    fraction = np.divide(labelled, everyone, out=np.zeros_like(everyone), where=everyone > 0)
    in_band = np.diff(resamples.passed_linearised(k), axis=1, prepend=0.0) * fraction
    selected = in_band[:, : _threshold_column(resamples, setting) + 1].sum(axis=1)
    if setting.gap_scale == "absolute":
        rate = labelled.sum(axis=1) / everyone.sum(axis=1)
        return np.asarray(resamples.scored.groups[k].interval.measure * selected / rate)
    total = in_band.sum(axis=1)
    # A draw may move the few with the label out of the interval; the least radius answers for those.
    unchanged = np.full_like(total, selected[0] / total[0])
    return np.asarray(np.divide(selected, total, out=unchanged, where=total > 0))


class _Curve:
    """Shares passed at falling thresholds, ready to be compared with others."""

    def __init__(self, passed: Floats) -> None:
        self._mass = np.diff(passed, axis=1, prepend=0.0)
        self._still_below = 1.0 - passed + 0.5 * self._mass

    def auc(self, other: _Curve) -> Floats:
        """Chance that a draw from this one beats a draw from the other, ties counting ½."""
        return np.asarray(np.einsum("bj,bj->b", self._mass, other._still_below))
