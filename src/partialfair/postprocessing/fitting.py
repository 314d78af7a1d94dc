"""From scores to maps: the groups that are large enough, their maps, and the result of the adjustment."""

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

# Error of all ranks of a sample, times √n, that is not exceeded simultaneously with 95% confidence.
_KOLMOGOROV = 1.36

# Changes below this fraction of the spread of all scores do not count: ties are separated by less.
_STILL = 1e-6

# Smallest increase of the calibration error that is reported: smaller ones are noise with some thousand
# labels.
_NOTICED = 0.005


@dataclass(frozen=True, eq=False, repr=False)
class Adjustment:
    """The result of fitting a `PartialParityAdjuster`, on the rows of the fit.

    Attributes
    ----------
    constraint, max_gap, gap_scale
        The constraint.
    worst, worst_before : WorstGap
        The exact gap of the new scores and of the old ones, as `partialfair.metrics` measures it, with the
        two groups, the score and the ranks at which they differ.
    floor : float
        ``max ½ (b_k + b_j)`` over pairs of groups, where b is the largest fraction of a group's interval on
        one score: a gap that scores without new ties can always reach. With discrete scores ``gap`` may be
        smaller. 0 for demographic parity.
    mean_squared_change : float
        ``Σ w (s' − s)² / Σ w`` over all rows.
    largest_change : float
        The largest ``|s' − s|``.
    moved_share : float
        Fraction of the weight whose scores changed by more than 1e-6 of the spread of all scores.
    n_moved_outside : int
        Number of rows outside the interval whose scores changed, because the order requires it.
    n_knots : int
        Number of knots.
    is_exact : bool
        Whether no smaller change of scores satisfies the constraint. If a group has more distinct scores than
        ``max_knots``, this is False: the change is then the smallest among maps with about that many knots,
        up to the weight of a knot.
    small_groups : tuple
        Groups that the constraint excludes because they are too small; their scores do not change.
    calibration, calibration_before : CalibrationByGroup or None
        Calibration of the scores in each group, after and before; None unless y has two classes.
    maps : tuple of ScoreMap
        The maps of the adjuster, which notebooks draw.
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
        """The group whose calibration deteriorates most, as text; empty without labels."""
        if self.calibration is None or self.calibration_before is None:
            return ""
        pairs = list(zip(self.calibration_before.groups, self.calibration.groups, strict=True))
        probabilities = all(old.error == old.error and new.error == new.error for old, new in pairs)
        what = "error" if probabilities else "difference"
        kind = "calibration error" if probabilities else "distance from the calibration of all groups"
        old, new = max(pairs, key=lambda pair: getattr(pair[1], what) - getattr(pair[0], what))
        before, after = getattr(old, what), getattr(new, what)
        if after - before <= _NOTICED:
            return f"calibration is preserved: no group's {kind} grows by more than {_NOTICED:g}"
        return (
            f"calibration deteriorates: the {kind} of group {group_name(new.group)!r} grows from "
            f"{before:.3f} to {after:.3f}"
        )

    @property
    def verdict(self) -> str:
        """The answer as text: whether the constraint is satisfied, the gap, the limit and the groups."""
        state = "satisfied" if self.satisfied else "NOT satisfied"
        gap = min(self.gap, self.max_gap) if self.satisfied else self.gap  # equal except for rounding
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
            lines.append(f"excluded, too small to evaluate, and unchanged: {names}")
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
    """The task of the maps; its threshold is in units of ranked scores."""

    constraint: str
    max_gap: float
    gap_scale: GapScale
    threshold: float | None
    min_group_size: int
    max_knots: int | None
    margin: float | Literal["auto"]

    def gap(self, scored: ScoredGroups) -> WorstGap:
        """Return the exact gap that the constraint limits."""
        if self.threshold is None:
            return statistical_parity_gap(scored, Setting(self.gap_scale))
        return demographic_parity_gap(scored, Setting(self.gap_scale, self.threshold))


def fit_maps(scored: ScoredGroups, task: AdjustmentTask) -> tuple[tuple[ScoreMap, ...], Adjustment]:
    """Compute the maps of the groups that are large enough; other scores do not change.

    Returns
    -------
    maps
        One per group, also for small groups, in the units of ranked scores.
    adjustment
        The result without calibration.
    """
    check_gap_scale(task.gap_scale, scored)
    compared = _leave_out_small_groups(scored, task.min_group_size)
    if task.threshold is None:
        parity = _fit_parity_maps(compared, task)
    else:
        # Selection rates are fractions of the interval.
        measure = compared.groups[0].interval.measure if task.gap_scale == "absolute" else 1.0
        parity = ParityMaps(find_selection_maps(compared, task.threshold, task.max_gap / measure), 0.0, True)
    of_group = {one.group: one for one in parity.maps}
    small = tuple(group.label for group in scored if group.label not in of_group)
    before, after = task.gap(compared), task.gap(with_maps(compared, parity.maps))

    # The smallest change that counts depends on the spread of all scores, also of small groups.
    all_scores = np.concatenate([group.scores for group in scored])
    all_weights = np.concatenate([weights_of(group) for group in scored])
    center = np.average(all_scores, weights=all_weights)
    still = _STILL * float(np.sqrt(np.average((all_scores - center) ** 2, weights=all_weights)))
    maps, largest, moved, total, n_outside = [], 0.0, 0.0, 0.0, 0
    for group in scored:
        # Ranges of scores that the interval contains, at least in part.
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
    """Return the groups with enough effective rows in the interval; warn of the others."""
    small = [group for group in scored if not enough(group.n_inside, least)]
    if not small:
        return scored
    sizes = listed(
        [f"{shown(group.name, 60)} has {members_text(group.n_inside, too_few=True)}" for group in small]
    )
    few = f"group {sizes} effective rows in the interval, and min_group_size={least:g}"
    if len(scored) - len(small) < 2:
        raise InputError(
            f"fewer than two groups are large enough to be compared: {few}; widen the interval, merge groups "
            "or lower min_group_size"
        )
    warnings.warn(
        f"{few}: the constraint excludes such a group, and its scores do not change",
        SmallGroupWarning,
        stacklevel=4,
    )
    return replace(scored, groups=tuple(group for group in scored if group not in small))


def _fit_parity_maps(scored: ScoredGroups, task: AdjustmentTask) -> ParityMaps:
    """Return maps for the interval and a margin, or for the interval itself if only those exist.

    On the absolute scale a threshold counts fully or not at all, so maps jump where the interval ends. Ranks
    of new data differ by about 1 / √n, and a jump that lies inside then counts fully. A margin that the user
    sets is part of the constraint; a margin that is chosen here must not make a limit unreachable.
    """
    if task.gap_scale == "interval":
        return find_parity_maps(scored, task.max_gap, task.gap_scale, task.max_knots)
    margin = task.margin
    if margin == "auto":
        margin = _KOLMOGOROV / math.sqrt(min(group.n_effective for group in scored))
    parts: list[tuple[float, float]] = []  # enlarged parts that touch are merged
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
        if task.margin == 0:  # the same interval again
            raise
        if task.margin != "auto":
            raise InputError(f"{error}, or reduce margin, {task.margin:g}") from None
        return find_parity_maps(scored, task.max_gap, task.gap_scale, task.max_knots)


def calibrate(
    scores: Floats,
    y: ArrayLike | None,
    classes: npt.NDArray[Any] | None,
    groups: Groups,
    sample_weight: ArrayLike | None,
) -> CalibrationByGroup | None:
    """Return the calibration of scores in each group if there are labels of two classes."""
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
