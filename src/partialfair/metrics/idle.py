"""Thresholds that cut nobody's interval: gaps there are 0 whatever the scores inside."""

from __future__ import annotations

import warnings

from partialfair.exceptions import IdleThresholdWarning
from partialfair.groups import listed
from partialfair.intervals import RANK_TOLERANCE
from partialfair.metrics._inputs import GroupScores, ScoredGroups, oriented

__all__ = ["warn_if_idle"]


def warn_if_idle(scored: ScoredGroups, threshold: float) -> None:
    """Warn where ``F̄_k(θ̂)`` lies outside the interval of group k, from its first rank to its last.

    Then nobody inside is selected (the rank is too near the top), or everybody is: the share P_k(θ̂) stays 0
    or 1 however the scores inside are ordered, so that a gap of 0 is no merit.

    Parameters
    ----------
    scored
        Groups that are judged.
    threshold
        On their scores, of which higher is better.
    """
    ranks = [float(group.rank(threshold)) for group in scored]
    sides = [_side(group, rank) for group, rank in zip(scored, ranks, strict=True)]
    idle = [k for k, side in enumerate(sides) if side]
    if not idle:
        return
    names = [f"{_percent(ranks[k])} in {scored.groups[k].name}" for k in idle]
    if scored.intervals_differ:
        where = "outside their intervals" if len(idle) > 1 else "outside its interval"
    else:
        parts = " and ".join(
            f"{100 * low:.4g}–{100 * high:.4g} %" for low, high in scored.groups[0].interval.parts
        )
        where = f"outside the interval {parts}"
    message = (
        f"the threshold {oriented(threshold, scored.higher_is_better):g} has rank {listed(names)}, {where}: "
        f"{_consequence(scored, [sides[k] for k in idle])}; choose an interval that contains the selection "
        f"{_rates(ranks)}, or another threshold"
    )
    warnings.warn(message, IdleThresholdWarning, stacklevel=3)


def _side(group: GroupScores, rank: float) -> str:
    """Who inside is selected whatever their scores: nobody, everybody, or (empty) it depends."""
    if rank < group.interval.parts[0][0] - RANK_TOLERANCE:
        return "nobody"
    return "everybody" if rank > group.interval.parts[-1][1] + RANK_TOLERANCE else ""


def _consequence(scored: ScoredGroups, sides: list[str]) -> str:
    if len(set(sides)) > 1:
        return "nobody or everybody inside is selected there, whatever the scores inside"
    if len(sides) < len(scored):
        return f"{sides[0]} inside is selected there, whatever the scores inside"
    return f"{sides[0]} inside is selected, so gaps at the threshold are 0 whatever the scores inside"


def _rates(ranks: list[float]) -> str:
    low, high = _percent(min(ranks)), _percent(max(ranks))
    return f"rate {low}" if low == high else f"rates {low} to {high}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
