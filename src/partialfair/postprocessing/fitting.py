"""From scores to maps: the groups that are large enough, their maps, and what these achieved."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from partialfair.data.groups import Groups, enough, group_name, members_text
from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics.calibration import CalibrationByGroup, calibration_by_group
from partialfair.metrics.inputs import ScoredGroups, Setting, check_gap_scale
from partialfair.metrics.partial import WorstGap, demographic_parity_gap, statistical_parity_gap
from partialfair.postprocessing.maps import ScoreMap
from partialfair.postprocessing.parity import (
    ParityMaps,
    find_parity_maps,
    find_selection_maps,
    identity_map,
    squared_change,
    weights_of,
    with_maps,
)
from partialfair.utils.checks import shown
from partialfair.utils.notebook import result_html
from partialfair.utils.text import gap_text, listed, percent, shorten
from partialfair.utils.typing import ArrayLike, Floats, GapScale, GroupLabel

# Over √n, what ranks of a sample are off by, simultaneously, with 95% confidence.
_KOLMOGOROV = 1.36

# Less than this of the spread of all scores is no move: ties are separated by less.
_STILL = 1e-6

# How much calibration must suffer to be reported: less is within what labels of some thousands can show.
_NOTICED = 0.005


@dataclass(frozen=True, eq=False, repr=False)
class Adjustment:
    """What fitting a `PartialParityAdjuster` achieved, on the rows that it was fitted on.

    Attributes
    ----------
    constraint, max_gap, gap_scale
        The constraint.
    worst, worst_before
        The exact gap of the new scores and of the old ones, with the pair of groups, and the score and ranks
        at which they differ, as `partialfair.metrics` measures them.
    floor
        ``max ½ (b_k + b_j)`` over pairs of groups, b being the largest share of a group's interval on one
        score: the gap that scores without new ties can always reach. A sufficient condition: on discrete
        scores ``gap`` may be smaller. 0 for demographic parity.
    mean_squared_change
        ``Σ w (s' − s)² / Σ w`` over all rows.
    largest_change
        The largest ``|s' − s|``.
    moved_share
        Share of the weight whose scores moved by more than 1e-6 of the spread of all scores.
    n_moved_outside
        Rows outside the interval that moved so far, because the order forces them to.
    n_knots
        Rows of the table.
    is_exact
        Whether no change of scores that satisfies the constraint is smaller. False where ``max_knots`` is
        fewer than a group's distinct scores: then none among maps with about so many knots, up to a knot's
        share.
    small_groups
        Groups with too few members in the interval: their scores stay, and the constraint excludes them.
    calibration, calibration_before
        What scores mean in each group, after and before; None unless y was given and has two classes.
    maps
        Those of the adjuster, which notebooks draw.
    """

    constraint: str
    max_gap: float
    gap_scale: str
    worst: WorstGap
    worst_before: WorstGap
    floor: float
    mean_squared_change: float
    largest_change: float
    moved_share: float
    n_moved_outside: int
    n_knots: int
    is_exact: bool
    small_groups: tuple[GroupLabel, ...] = ()
    calibration: CalibrationByGroup | None = None
    calibration_before: CalibrationByGroup | None = None
    maps: tuple[ScoreMap, ...] = ()

    @property
    def gap(self) -> float:
        """The exact gap of the new scores."""
        return self.worst.value

    @property
    def gap_before(self) -> float:
        """The exact gap of the old scores."""
        return self.worst_before.value

    @property
    def satisfied(self) -> bool:
        """Whether the gap is at most ``max_gap``."""
        return self.gap <= self.max_gap + RANK_TOLERANCE

    @property
    def calibration_sentence(self) -> str:
        """The group whose calibration suffers most, in words; empty without labels."""
        if self.calibration is None or self.calibration_before is None:
            return ""
        pairs = list(zip(self.calibration_before.groups, self.calibration.groups, strict=True))
        probabilities = all(old.error == old.error and new.error == new.error for old, new in pairs)
        what = "error" if probabilities else "difference"
        kind = "calibration error" if probabilities else "distance from what scores mean in all groups"
        old, new = max(pairs, key=lambda pair: getattr(pair[1], what) - getattr(pair[0], what))
        before, after = getattr(old, what), getattr(new, what)
        if after - before <= _NOTICED:
            return f"calibration does not suffer: no group's {kind} grows by more than {_NOTICED:g}"
        return (
            f"calibration suffers: the {kind} of group {group_name(new.group)!r} grows from {before:.3f} to "
            f"{after:.3f}"
        )

    @property
    def verdict(self) -> str:
        """Whether the constraint is satisfied, by which gap, and between whom: the answer in a sentence."""
        state = "satisfied" if self.satisfied else "NOT satisfied"
        gap = min(self.gap, self.max_gap) if self.satisfied else self.gap  # equal but for rounding
        pair = " vs ".join(map(group_name, self.worst.groups))
        return (
            f"Constraint {state}: gap {gap_text(gap, self.max_gap)} after and {self.gap_before:.3g} before "
            f"the adjustment, limit {self.max_gap:g} ({pair})"
        )

    def __str__(self) -> str:
        lines = [
            self.verdict,
            f"{percent(self.moved_share)} moved, {self.n_moved_outside:,} of them outside the interval; "
            f"mean squared change {self.mean_squared_change:.4g}, largest change {self.largest_change:.4g}",
            "new scores depend on the group: scoring needs it, which may be unlawful where you are",
        ]
        if self.calibration_sentence:
            lines.append(self.calibration_sentence)
        if self.small_groups:
            names = listed([group_name(label) for label in self.small_groups])
            lines.append(f"excluded, too small to evaluate, and not moved: {names}")
        lines.append(f"{self.constraint}: a gap of {self.floor:.2g} can always be reached")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Adjustment: {shorten(self.verdict, 250)}>"

    def _repr_html_(self) -> str:
        from partialfair.plotting.scores import plot_score_maps

        rows = [
            ["largest gap", gap_text(self.gap_before, self.max_gap), gap_text(self.gap, self.max_gap)],
            ["limit", "", f"{self.max_gap:g}"],
            ["scores that moved", "", percent(self.moved_share)],
            ["largest change", "", f"{self.largest_change:.4g}"],
        ]
        notes = str(self).splitlines()[1:]
        draw = partial(plot_score_maps, self.maps) if self.largest_change else None
        return result_html(self.verdict, ["", "before", "after"], rows, notes=notes, draw=draw)


@dataclass(frozen=True)
class AdjustmentTask:
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


def fit_maps(scored: ScoredGroups, task: AdjustmentTask) -> tuple[tuple[ScoreMap, ...], Adjustment]:
    """Find the maps of the groups that are large enough; the scores of the others stay.

    Returns
    -------
    maps
        One per group, of small groups too, in the units of ranked scores.
    adjustment
        What they achieved, and what they cost; without calibration.
    """
    check_gap_scale(task.gap_scale, scored)
    compared = _leave_out_small_groups(scored, task.min_group_size)
    if task.threshold is None:
        parity = _fit_parity_maps(compared, task)
    else:
        # Selections are counted as fractions of the interval.
        measure = compared.groups[0].interval.measure if task.gap_scale == "absolute" else 1.0
        parity = ParityMaps(find_selection_maps(compared, task.threshold, task.max_gap / measure), 0.0, True)
    of_group = {one.group: one for one in parity.maps}
    small = tuple(group.label for group in scored if group.label not in of_group)
    before, after = task.gap(compared), task.gap(with_maps(compared, parity.maps))

    # What counts as a move depends on the spread of the scores, small groups' included.
    all_scores = np.concatenate([group.scores for group in scored])
    all_weights = np.concatenate([weights_of(group) for group in scored])
    center = np.average(all_scores, weights=all_weights)
    still = _STILL * float(np.sqrt(np.average((all_scores - center) ** 2, weights=all_weights)))
    maps, largest, moved, total, n_outside = [], 0.0, 0.0, 0.0, 0
    for group in scored:
        # Ranges of scores that the interval holds, if only in part.
        held = np.concatenate([[False], group.in_band > 0, [False]])
        begins = np.flatnonzero(held[1:] & ~held[:-1])
        ends = np.flatnonzero(held[:-1] & ~held[1:]) - 1
        inside = tuple(zip(group.scores[begins].tolist(), group.scores[ends].tolist(), strict=True))
        maps.append(replace(of_group.get(group.label) or identity_map(group), inside=inside))
        move, weights = np.abs(maps[-1](group.scores) - group.scores), weights_of(group)
        largest = max(largest, float(move.max()))
        moved, total = moved + float(weights[move > still].sum()), total + float(weights.sum())
        n_outside += int(((move > still) & (group.in_band == 0)).sum())
    return tuple(maps), Adjustment(
        constraint=task.constraint,
        max_gap=task.max_gap,
        gap_scale=task.gap_scale,
        worst=after.in_units(scored.higher_is_better),
        worst_before=before.in_units(scored.higher_is_better),
        floor=parity.floor,
        mean_squared_change=squared_change(scored, tuple(maps)),
        largest_change=largest,
        moved_share=moved / total,
        n_moved_outside=n_outside,
        n_knots=sum(one.knots.size for one in maps),
        is_exact=parity.is_exact,
        small_groups=small,
    )


def _leave_out_small_groups(scored: ScoredGroups, least: int) -> ScoredGroups:
    """Return the groups with enough effective members in the interval; warn of the others."""
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


def _fit_parity_maps(scored: ScoredGroups, task: AdjustmentTask) -> ParityMaps:
    """Return maps for the interval and a margin, or for the interval itself where only those exist.

    On the absolute scale a threshold counts wholly or not at all, so maps jump right where the interval ends.
    Ranks of new data are off by some 1 / √n, and a jump that comes to lie inside counts in full. A margin
    that users give is part of their constraint; one that is chosen here must not make a limit unreachable
    that the constraint alone allows.
    """
    if task.gap_scale == "interval":
        return find_parity_maps(scored, task.max_gap, task.gap_scale, task.max_knots)
    margin = task.margin
    if margin == "auto":
        margin = _KOLMOGOROV / math.sqrt(min(group.n_effective for group in scored))
    parts: list[tuple[float, float]] = []  # that meet once they are larger become one
    for low, high in scored.groups[0].interval.parts:
        low, high = max(low - margin, 0.0), min(high + margin, 1.0)
        if parts and low <= parts[-1][1]:
            low = parts.pop()[0]
        parts.append((low, high))
    try:
        return find_parity_maps(
            scored.on(IntervalSet(tuple(parts))), task.max_gap, task.gap_scale, task.max_knots
        )
    except InputError as error:
        if task.margin == 0:  # the same interval once more
            raise
        if task.margin != "auto":
            raise InputError(f"{error}, or lower margin, {task.margin:g}") from None
        return find_parity_maps(scored, task.max_gap, task.gap_scale, task.max_knots)


def calibrate(
    scores: Floats,
    y: ArrayLike | None,
    classes: npt.NDArray[Any] | None,
    groups: Groups,
    sample_weight: ArrayLike | None,
) -> CalibrationByGroup | None:
    """Measure what scores mean in each group, where there are labels of two classes."""
    if y is None:
        return None
    labels = np.asarray(y)  # in the order of the rows, like scores and groups
    if labels.ndim != 1 or labels.size != scores.size:
        raise InputError(f"y must have one label for each of the {scores.size} rows, not {labels.shape}")
    known = (np.unique(labels) if classes is None else classes).tolist()
    if len(known) != 2:
        return None
    return calibration_by_group(
        labels,
        scores,
        sensitive_features=groups,
        pos_label=known[1],
        sample_weight=sample_weight,
        missing_groups="ignore",
    )
