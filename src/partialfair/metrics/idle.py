"""Thresholds that cut nobody's interval: gaps there are 0 whatever the scores inside."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from partialfair.data.intervals import ranks_text
from partialfair.exceptions import IdleThresholdWarning
from partialfair.metrics.inputs import ScoredGroups, oriented
from partialfair.utils.text import listed
from partialfair.utils.typing import GroupLabel, RankWithin

__all__ = ["warn_if_idle"]

_SELECTED = {
    "before": "nobody inside is selected",
    "after": "everybody inside is selected",
    "between": "a fixed share inside is selected",
}
"""Who is, whatever the scores inside, if a threshold's rank lies there."""


def warn_if_idle(
    scored: ScoredGroups,
    threshold: float,
    rank_within: RankWithin = "group",
    without_positives: Sequence[GroupLabel] = (),
) -> None:
    """Warn where ``F̄_k(θ̂)`` lies outside the interval of group k: before, between or after its parts.

    Then the share P_k(θ̂) stays what it is however the scores inside are ordered, so that a gap of 0 is no
    merit. The rank is that among the people compared: all members, and also the positives where ranks are
    taken among those with the same label.

    Parameters
    ----------
    scored
        Groups that are judged.
    threshold
        On their scores, of which higher is better.
    rank_within
        As in `partial_equal_opportunity_difference`.
    without_positives
        Groups whose positives are not judged.
    """
    _warn_if_idle(scored, threshold, "in")
    if rank_within == "group_and_label" and scored.groups[0].positive is not None:
        judged = [group.with_label(True) for group in scored if group.label not in without_positives]
        compared = replace(scored, groups=tuple(group for group in judged if group.n))
        if len(compared) > 1:
            _warn_if_idle(compared, threshold, "among the positives of")


def _warn_if_idle(scored: ScoredGroups, threshold: float, among: str) -> None:
    ranks = [float(group.rank(threshold)) for group in scored]
    sides = [group.interval.side(rank) for group, rank in zip(scored, ranks, strict=True)]
    idle = [k for k, side in enumerate(sides) if side != "inside"]
    if not idle:
        return
    names = [f"{_percent(ranks[k])} {among} {scored.groups[k].name}" for k in idle]
    if scored.intervals_differ:
        where = "outside their intervals" if len(idle) > 1 else "outside its interval"
    else:
        where = f"outside the interval {ranks_text(scored.groups[0].interval)}"
    message = (
        f"the threshold {oriented(threshold, scored.higher_is_better):g} has rank {listed(names)}, {where}: "
        f"{_consequence(scored, ranks, [sides[k] for k in idle])}; choose an interval that contains the "
        f"selection {_rates(ranks)}, or another threshold"
    )
    warnings.warn(message, IdleThresholdWarning, stacklevel=5)  # to whoever called the report


def _consequence(scored: ScoredGroups, ranks: list[float], sides: list[str]) -> str:
    """Say what comes of ranks on some sides of their intervals; if all groups have one, also of gaps."""
    shares = [float(group.interval.passed(np.array(rank))) for group, rank in zip(scored, ranks, strict=True)]
    if len(sides) == len(scored) and np.ptp(shares) == 0:
        return f"{_SELECTED[sides[0]]}, so gaps at the threshold are 0 whatever the scores inside"
    kinds = set(sides)
    selected = "nobody or everybody inside is selected" if len(kinds) > 1 else _SELECTED[sides[0]]
    if len(kinds) > 1 and "between" in kinds:
        selected = _SELECTED["between"]
    return f"{selected} there, whatever the scores inside"


def _rates(ranks: list[float]) -> str:
    low, high = _percent(min(ranks)), _percent(max(ranks))
    return f"rate {low}" if low == high else f"rates {low} to {high}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
