"""The gap of every pair of groups, each with a confidence interval of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partialfair.metrics._proportions import ProportionGaps
from partialfair.metrics.bounds import Fluctuation
from partialfair.metrics.catalogue import Metric
from partialfair.metrics.differences import Setting
from partialfair.metrics.inputs import ScoredGroups
from partialfair.utils.typing import GroupLabel

__all__ = ["PairGap", "pair_gaps"]


@dataclass(frozen=True)
class PairGap:
    """The gap between two groups.

    Attributes
    ----------
    groups
        Their labels.
    value, low, high
        The gap, and the ends of its confidence interval: that of this pair by itself, were it the only one
        looked at. The interval of a report's line is that of the maximum over all pairs.
    label
        Among whom they differ most, where the metric compares both labels: True for positives; else None.
    """

    groups: tuple[GroupLabel, GroupLabel]
    value: float
    low: float
    high: float
    label: bool | None = None


def pair_gaps(
    metric: Metric, scored: ScoredGroups, setting: Setting, spread: Fluctuation | ProportionGaps
) -> list[PairGap]:
    """Return the gaps of all pairs, the widest first.

    Parameters
    ----------
    metric, setting
        What is measured.
    scored
        The groups that the metric compares.
    spread
        How far their gaps may be off.
    """
    of_pair: dict[tuple[int, int], list[int]] = {}
    positions, values, lows, highs = spread.pair_ends()
    for row, (k, j) in enumerate(np.sort(positions, axis=1).tolist()):
        of_pair.setdefault((k, j), []).append(row)  # both orders, or both labels, are rows of one pair
    gaps = []
    for (k, j), rows in of_pair.items():
        gap = metric.gap(replace(scored, groups=(scored.groups[k], scored.groups[j])), setting)
        # Differences are followed on cells of scores; the exact gap differs by what a cell blurs.
        blurred = gap.value - float(values[rows].max())
        low, high = float(lows[rows].max()) + blurred, float(highs[rows].max()) + blurred
        gaps.append(PairGap(gap.groups, gap.value, max(low, 0.0), min(high, metric.largest), gap.label))
    return sorted(gaps, key=lambda gap: -gap.value)
