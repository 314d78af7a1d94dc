"""From scores to maps: who is judged, which maps are asked for, and what they achieved."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from partialfair.data.groups import enough, members_text
from partialfair.data.intervals import IntervalSet
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics.calibration import CalibrationByGroup, calibration_by_group
from partialfair.metrics.inputs import GroupScores, ScoredGroups, Setting, check_gap_scale
from partialfair.metrics.partial import WorstGap, demographic_parity_gap, statistical_parity_gap
from partialfair.postprocessing._parity import (
    ParityMaps,
    identity_map,
    parity_maps,
    squared_change,
    with_maps,
)
from partialfair.postprocessing._selection import selection_maps
from partialfair.postprocessing.maps import ScoreMap
from partialfair.postprocessing.result import Adjustment
from partialfair.utils.checks import shown
from partialfair.utils.text import listed
from partialfair.utils.typing import ArrayLike, Floats, GapScale

__all__ = ["Asked", "Found", "fitted_maps", "measured"]

_KOLMOGOROV = 1.36
"""Over √n, what ranks of a sample are off by, everywhere at once, with 95 % confidence."""

_STILL = 1e-6
"""Less than this of the spread of all scores is no move: blocks are told apart by less."""


@dataclass(frozen=True)
class Asked:
    """What the maps are to achieve; the threshold is one of ranked scores."""

    constraint: str
    max_gap: float
    gap_scale: GapScale
    threshold: float | None
    min_group_size: int
    max_knots: int | None
    margin: float | Literal["auto"]

    def gap(self, scored: ScoredGroups) -> WorstGap:
        """Return the exact gap that is bounded."""
        if self.threshold is None:
            return statistical_parity_gap(scored, Setting(self.gap_scale))
        return demographic_parity_gap(scored, Setting(self.gap_scale, self.threshold))


@dataclass(frozen=True, eq=False)
class Found:
    """The maps of all groups, in the units of ranked scores.

    Attributes
    ----------
    scored
        All groups with their old scores.
    maps
        One per group, of small groups too.
    judged
        The groups that the promise is about.
    floor, is_exact
        As in `Adjustment`.
    """

    scored: ScoredGroups
    maps: tuple[ScoreMap, ...]
    judged: ScoredGroups
    floor: float
    is_exact: bool


def fitted_maps(scored: ScoredGroups, asked: Asked) -> Found:
    """Find the maps of the groups that are large enough; the others keep their scores."""
    check_gap_scale(asked.gap_scale, scored)
    judged = _judged(scored, asked.min_group_size)
    if asked.threshold is None:
        found = _parity_maps(judged, asked)
        maps, floor, is_exact = found.maps, found.floor, found.is_exact
    else:
        measure = judged.groups[0].interval.measure if asked.gap_scale == "absolute" else 1.0
        maps, floor, is_exact = selection_maps(judged, asked.threshold, asked.max_gap / measure), 0.0, True
    of_group = {one.group: one for one in maps}
    everybody = tuple(
        replace(of_group.get(group.label) or identity_map(group), inside=_inside(group)) for group in scored
    )
    return Found(scored, everybody, judged, floor, is_exact)


def _parity_maps(scored: ScoredGroups, asked: Asked) -> ParityMaps:
    """Return maps for the wider interval, or for the interval itself where only those exist.

    A margin that users give is part of what they ask for; one that is chosen here must not make a limit
    unreachable that the constraint alone allows.
    """
    wider = _with_margin(scored, asked)
    try:
        return parity_maps(wider, asked.max_gap, asked.gap_scale, asked.max_knots)
    except InputError as error:
        if wider is scored or asked.margin == 0:
            raise
        if asked.margin != "auto":
            raise InputError(f"{error}, or lower margin, {asked.margin:g}") from None
        return parity_maps(scored, asked.max_gap, asked.gap_scale, asked.max_knots)


def _with_margin(scored: ScoredGroups, asked: Asked) -> ScoredGroups:
    """Return the groups with the interval that is asked for on the absolute scale, wider by the margin.

    There a threshold counts wholly or not at all, so maps jump right where the interval ends. Ranks of new
    people are off by some 1 / √n, and a jump that comes to lie inside counts in full.
    """
    if asked.gap_scale == "interval":
        return scored
    margin = asked.margin
    if margin == "auto":
        margin = _KOLMOGOROV / math.sqrt(min(group.n_effective for group in scored))
    parts: list[tuple[float, float]] = []
    for low, high in scored.groups[0].interval.parts:
        low, high = max(low - margin, 0.0), min(high + margin, 1.0)
        if parts and low <= parts[-1][1]:
            low = parts.pop()[0]
        parts.append((low, high))
    return scored.on(IntervalSet(tuple(parts)))


def _inside(group: GroupScores) -> tuple[tuple[float, float], ...]:
    """Return the ranges of scores that the interval holds, if only in part."""
    held = np.concatenate([[False], group.in_band > 0, [False]])
    begins, ends = np.flatnonzero(held[1:] & ~held[:-1]), np.flatnonzero(held[:-1] & ~held[1:]) - 1
    return tuple(zip(group.scores[begins].tolist(), group.scores[ends].tolist(), strict=True))


def _judged(scored: ScoredGroups, least: int) -> ScoredGroups:
    small = [group for group in scored if not enough(group.n_inside, least)]
    if not small:
        return scored
    sizes = listed(
        [f"{shown(group.name, 60)} has {members_text(group.n_inside, too_few=True)}" for group in small]
    )
    few = f"group {sizes} effective members in the interval, and min_group_size={least:g}"
    if len(scored) - len(small) < 2:
        raise InputError(
            f"fewer than two groups are large enough to be compared: {few}; widen the interval, merge groups "
            "or lower min_group_size"
        )
    warnings.warn(
        f"{few}: scores of such a group stay as they are, and the promise leaves it out",
        SmallGroupWarning,
        stacklevel=4,
    )
    return replace(scored, groups=tuple(group for group in scored if group not in small))


def measured(
    found: Found,
    asked: Asked,
    scores: tuple[Floats, Floats],
    y: ArrayLike | None,
    classes: Sequence[Any] | None,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
) -> Adjustment:
    """Return what the maps achieved, and what they cost; ``scores`` are those of all rows, old and new."""
    labels = {group.label for group in found.judged}
    judged_maps = tuple(one for one in found.maps if one.group in labels)
    before, after = asked.gap(found.judged), asked.gap(with_maps(found.judged, judged_maps))
    moves = [
        np.abs(one(group.scores) - group.scores) for group, one in zip(found.scored, found.maps, strict=True)
    ]
    still = _STILL * _spread(found.scored)
    weights = [_weights(group) for group in found.scored]
    moved = sum(float(w[move > still].sum()) for w, move in zip(weights, moves, strict=True))
    outside = sum(
        int(((move > still) & (group.in_band == 0)).sum())
        for group, move in zip(found.scored, moves, strict=True)
    )
    calibrations = [_calibration(one, y, classes, sensitive_features, sample_weight) for one in scores]
    return Adjustment(
        constraint=asked.constraint,
        max_gap=asked.max_gap,
        gap_scale=asked.gap_scale,
        worst=after.in_units(found.scored.higher_is_better),
        worst_before=before.in_units(found.scored.higher_is_better),
        floor=found.floor,
        mean_squared_change=squared_change(found.scored, found.maps),
        largest_change=float(max(move.max() for move in moves)),
        moved_share=moved / sum(float(w.sum()) for w in weights),
        n_moved_outside=outside,
        n_knots=sum(one.knots.size for one in found.maps),
        is_exact=found.is_exact,
        small_groups=tuple(group.label for group in found.scored if group.label not in labels),
        calibration=calibrations[1],
        calibration_before=calibrations[0],
    )


def _weights(group: GroupScores) -> Floats:
    return np.ones(group.n) if group.weights is None else group.weights


def _spread(scored: ScoredGroups) -> float:
    scores = np.concatenate([group.scores for group in scored])
    weights = np.concatenate([_weights(group) for group in scored])
    center = np.average(scores, weights=weights)
    return float(np.sqrt(np.average((scores - center) ** 2, weights=weights)))


def _calibration(
    scores: Floats,
    y: ArrayLike | None,
    classes: Sequence[Any] | None,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
) -> CalibrationByGroup | None:
    """Measure what scores mean in each group, where labels of two classes tell."""
    if y is None:
        return None
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size != scores.size:
        raise InputError(f"y must have one label for each of the {scores.size} rows, not {labels.shape}")
    found = np.unique(labels).tolist() if classes is None else list(classes)
    if len(found) != 2:
        return None
    return calibration_by_group(
        labels,
        scores,
        sensitive_features=sensitive_features,
        pos_label=found[1],
        sample_weight=sample_weight,
        missing_groups="ignore",
    )
