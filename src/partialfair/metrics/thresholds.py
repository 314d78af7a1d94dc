"""Thresholds whose rank lies outside the interval, where the gap at the threshold is uninformative.

If ``F̄_k(θ̂)`` lies outside the interval of group k, before, between or after its parts, the selected
proportion ``P_k(θ̂)`` does not depend on the scores inside. If this holds in every group and the proportions
are equal, the gap of the definition is 0 for any scores: reports then do not evaluate the metric.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from partialfair.data.intervals import ranks_text
from partialfair.metrics.inputs import ScoredGroups, Setting, oriented
from partialfair.utils.text import listed, short_percent
from partialfair.utils.typing import GroupLabel

OUTSIDE = "threshold outside the interval"
"""Why a metric at one threshold is not evaluated."""

# The selected rows, whatever the scores inside, by the position of the threshold's rank.
_SELECTED = {
    "before": "no row inside is selected",
    "after": "every row inside is selected",
    "between": "a fixed proportion inside is selected",
}


def is_outside_everywhere(scored: ScoredGroups, setting: Setting, labels: Sequence[bool | None]) -> bool:
    """Return whether the threshold's rank is outside the interval in every group, for all labels.

    Ranks are those among the rows compared: all members of a group (label None, or ``rank_within="group"``),
    or those with the label.
    """
    if setting.threshold is None:
        return False
    by_label = setting.rank_within == "group_and_label"
    compared = [
        group.with_label(label) if by_label and label is not None else group
        for label in labels
        for group in scored
    ]
    return all(
        group.n > 0 and group.interval.side(float(group.rank(setting.threshold))) != "inside"
        for group in compared
    )


def threshold_messages(
    scored: ScoredGroups, setting: Setting, without_positives: Collection[GroupLabel] = ()
) -> list[str]:
    """Return messages on groups in which the threshold's rank lies outside the interval.

    The rank is that among the rows compared: all members, and also the positives where ranks are counted
    among those with the same label.
    """
    if setting.threshold is None:
        return []
    compared = [(scored, "in")]
    if setting.rank_within == "group_and_label" and scored.groups[0].positive is not None:
        labelled = [group.with_label(True) for group in scored if group.label not in without_positives]
        groups = tuple(group for group in labelled if group.n)
        if len(groups) > 1:
            compared.append((replace(scored, groups=groups), "among the positives of"))
    messages = [threshold_message(groups, setting.threshold, among) for groups, among in compared]
    return [message for message in messages if message]


def threshold_message(scored: ScoredGroups, threshold: float, among: str = "in") -> str:
    """Return the groups in which the rank lies outside the interval, and the consequence, as a message."""
    ranks = [float(group.rank(threshold)) for group in scored]
    sides = [group.interval.side(rank) for group, rank in zip(scored, ranks, strict=True)]
    outside = [k for k, side in enumerate(sides) if side != "inside"]
    if not outside:
        return ""
    names = [f"{short_percent(ranks[k])} {among} {scored.groups[k].name}" for k in outside]
    where = f"outside the interval {ranks_text(scored.groups[0].interval)}"
    if scored.intervals_differ:
        where = "outside their intervals" if len(outside) > 1 else "outside its interval"
    kinds = {sides[k] for k in outside}
    selected = "none or all of the rows inside are selected"
    if len(kinds) == 1 or "between" in kinds:
        selected = _SELECTED["between" if "between" in kinds else kinds.pop()]
    consequence = f"{selected} there, whatever the scores inside"
    proportions = [float(group.interval.passed(np.array(r))) for group, r in zip(scored, ranks, strict=True)]
    if len(outside) == len(scored) and np.ptp(proportions) == 0:
        consequence = f"{_SELECTED[sides[0]]}, so gaps at the threshold are 0 whatever the scores inside"
    low, high = short_percent(min(ranks)), short_percent(max(ranks))
    rates = f"rate {low}" if low == high else f"rates {low} to {high}"
    return (
        f"the threshold {oriented(threshold, scored.higher_is_better):g} has rank {listed(names)}, {where}: "
        f"{consequence}; choose an interval that contains the selection {rates}, or another threshold"
    )
