"""Measure the largest gap outside a constrained interval: a constraint may move the gap to ranks next to it.

Let the interval be ``w`` wide, and ``[p, q)`` a piece of the ranks that it leaves. What is wanted is the
largest gap over **all** intervals of width w in the piece (over the piece itself where it is shorter), at any
position. No position has to be tried. With the ranks ``x = F̄_k(θ)`` and ``y = F̄_j(θ)`` of a threshold,
clipped to the piece, the gap of an interval at θ is the part of it that lies between x and y; and an interval
of width w that may be anywhere in the piece can hold ``min(w, |x − y|)`` of what is between them. Therefore

    max over positions of the gap = min(1, max_θ |clip(x, p, q) − clip(y, p, q)| / w),

which is the gap of the whole piece times ``(q − p) / w``. So bounds of that one maximum are bounds of the
search: the differences of all pieces, each in units of its w, are one family of `partialfair.metrics.bounds`,
whose lower bound is corrected for the choice of threshold, pair and piece, and whose upper bound needs no
correction.

On the absolute scale a threshold counts if one of its ranks lies in the interval. Each that counts in a piece
counts in some interval of width w, so the answer is the absolute gap of all pieces together.

For a union of intervals the pieces of the complement are compared as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from partialfair.data.groups import enough, group_name
from partialfair.data.intervals import RANK_TOLERANCE, IntervalSet, span_text
from partialfair.exceptions import InputError
from partialfair.metrics import differences
from partialfair.metrics.bounds import Differences, bound_fluctuation, join_differences
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.inputs import ScoredGroups, Setting, check_gap_scale, read_groups, scored_groups
from partialfair.metrics.partial import WorstGap, statistical_parity_gap
from partialfair.metrics.resampling import Resamples, resample
from partialfair.utils.checks import check_count, check_fraction, random_generator, refuse_lazy
from partialfair.utils.text import fixed, short_percent, shorten
from partialfair.utils.typing import (
    ArrayLike,
    Floats,
    GapScale,
    GroupLabel,
    IntervalLike,
    Ints,
    MissingGroups,
)


@dataclass(frozen=True, repr=False)
class GapElsewhere:
    """The largest statistical-parity gap outside an interval.

    Attributes
    ----------
    gap
        The largest gap over intervals of the same width that do not overlap the constrained one.
    ci_low, ci_high
        Ends of its confidence interval, corrected for the search.
    lower_bound, upper_bound
        One-sided bounds, each by itself with that confidence, corrected likewise.
    interval
        Where it is: ranks from the best, (low, high).
    groups, ranks
        The worst pair of groups, and the ranks in them of the score at which they differ most.
    pieces
        The ranks that were searched.
    skipped
        Ranks outside the interval in which fewer than two groups have enough members.
    confidence, gap_scale
        The settings.
    """

    gap: float
    ci_low: float
    ci_high: float
    lower_bound: float
    upper_bound: float
    interval: tuple[float, float]
    groups: tuple[GroupLabel, GroupLabel]
    ranks: tuple[float, float]
    pieces: tuple[tuple[float, float], ...]
    skipped: tuple[tuple[float, float], ...]
    confidence: float
    gap_scale: GapScale

    def __repr__(self) -> str:
        return (
            f"<GapElsewhere: {fixed(self.gap)} ({fixed(self.ci_low)} to {fixed(self.ci_high)}), {self.place}>"
        )

    @property
    def worse_off(self) -> GroupLabel:
        """The group of the worst pair of which fewer are above the score at which they differ most."""
        return self.groups[int(np.argmin(self.ranks))]

    @property
    def place(self) -> str:
        """Where it is, and which group is worse off: "ranks 40–65%, where South is worse off than North"."""
        ranks = f"ranks {span_text(*self.interval)}"
        if self.gap == 0:
            return ranks
        better_off = self.groups[int(np.argmax(self.ranks))]
        worse, better = (shorten(group_name(label)) for label in (self.worse_off, better_off))
        return f"{ranks}, where {worse} is worse off than {better}"

    @property
    def statement(self) -> str:
        """The answer in a sentence."""
        return (
            f"Outside the interval the largest gap of intervals of the same width is {fixed(self.gap)}, on "
            f"{self.place} ({short_percent(self.confidence)} interval {fixed(self.ci_low)} to "
            f"{fixed(self.ci_high)}, corrected for the search)."
        )


@dataclass(frozen=True, repr=False)
class ElsewhereComparison:
    """The largest gap outside the interval under two models, such as without and with a constraint.

    Attributes
    ----------
    before, after
        Of either model; each is searched by itself, so that they may lie at different ranks.
    """

    before: GapElsewhere
    after: GapElsewhere

    def __repr__(self) -> str:
        return f"<ElsewhereComparison: {fixed(self.before.gap)} before, {fixed(self.after.gap)} after>"

    @property
    def statement(self) -> str:
        """The answer in a sentence."""
        before, after = self.before, self.after
        return (
            "Outside the interval the largest gap of intervals of the same width is estimated as "
            f"{fixed(before.gap)} before ({before.place}) and {fixed(after.gap)} after ({after.place}; "
            f"{short_percent(after.confidence)} interval {fixed(after.ci_low)} to {fixed(after.ci_high)}, "
            "corrected for the search). Whether it changed is not tested."
        )


class _Piece(NamedTuple):
    """Some ranks outside the interval, the width of the intervals compared there, and its groups."""

    low: float
    high: float
    width: float
    members: Ints

    @property
    def factor(self) -> float:
        """The gap of the piece times this is the largest gap of intervals of that width."""
        return (self.high - self.low) / self.width


def gap_elsewhere(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    gap_scale: GapScale = "interval",
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
    higher_is_better: bool = True,
    min_group_size: int = 10,
    missing_groups: MissingGroups = "error",
) -> GapElsewhere | None:
    """Return the largest statistical-parity gap over intervals of a given one's width that do not overlap it.

    A constraint on an interval may move the gap to the ranks next to it. This is the exact maximum over all
    positions of an interval of the same width outside the given one; where a piece of the other ranks is
    shorter, over that piece; and for a union of intervals over the pieces of its complement.

    Parameters
    ----------
    y_score, sensitive_features, gap_scale, sample_weight, higher_is_better, missing_groups
        As in `partial_statistical_parity_difference`.
    interval
        The constrained interval, or a union; the same for all groups.
    confidence, clusters, n_resamples, random_state
        As in `fairness_report`. Bounds are corrected for the search over positions, pieces and pairs.
    min_group_size
        Groups with fewer effective members inside such an interval are not compared there.

    Returns
    -------
    GapElsewhere or None
        None if the interval leaves no other ranks, or none in which two groups have enough members.

    See Also
    --------
    compare_elsewhere : The same of two models, before and after.
    unfairness_map : The gaps of all intervals.

    Examples
    --------
    >>> from partialfair.datasets import make_admissions
    >>> from partialfair.metrics.elsewhere import gap_elsewhere
    >>> data = make_admissions(seed=0)
    >>> elsewhere = gap_elsewhere(
    ...     data.historical_score, sensitive_features=data.sensitive_features, interval=data.interval
    ... )
    >>> elsewhere.ci_low <= elsewhere.gap <= elsewhere.ci_high
    True
    """
    scored = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        None,
        higher_is_better,
        missing_groups,
        clusters,
    )
    check_gap_scale(gap_scale, scored)
    check_fraction(confidence, "confidence")
    check_count(min_group_size, "min_group_size")
    return groups_gap_elsewhere(
        scored,
        gap_scale=gap_scale,
        confidence=confidence,
        n_resamples=n_resamples,
        min_group_size=min_group_size,
        rng=random_generator(random_state),
    )


def compare_elsewhere(
    score_before: ArrayLike,
    score_after: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    gap_scale: GapScale = "interval",
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
    higher_is_better: bool = True,
    min_group_size: int = 10,
    missing_groups: MissingGroups = "error",
) -> ElsewhereComparison | None:
    """Return the largest gap outside an interval under two models of the same rows.

    Parameters
    ----------
    score_before, score_after
        Scores of the same rows, for example without and with a constraint on the interval.
    sensitive_features, interval, gap_scale, confidence, sample_weight, clusters, n_resamples, random_state
        As in `gap_elsewhere`.
    higher_is_better, min_group_size, missing_groups
        As in `gap_elsewhere`.

    Returns
    -------
    ElsewhereComparison or None
        None where `gap_elsewhere` returns None.
    """
    refuse_lazy(score_before, "score_before")
    refuse_lazy(score_after, "score_after")
    if np.shape(score_before) != np.shape(score_after):
        raise InputError(
            f"score_before and score_after must be of the same rows, but have shapes "
            f"{np.shape(score_before)} and {np.shape(score_after)}"
        )
    if n_rows := np.shape(score_before)[0] if np.ndim(score_before) else 0:
        sensitive_features = read_groups(sensitive_features, n_rows, missing_groups)
    seed = int(random_generator(random_state).integers(2**63))
    before, after = (
        gap_elsewhere(
            scores,
            sensitive_features=sensitive_features,
            interval=interval,
            gap_scale=gap_scale,
            confidence=confidence,
            sample_weight=sample_weight,
            clusters=clusters,
            n_resamples=n_resamples,
            random_state=seed,
            higher_is_better=higher_is_better,
            min_group_size=min_group_size,
            missing_groups=missing_groups,
        )
        for scores in (score_before, score_after)
    )
    return None if before is None or after is None else ElsewhereComparison(before, after)


def groups_gap_elsewhere(
    scored: ScoredGroups,
    *,
    gap_scale: GapScale,
    confidence: float,
    n_resamples: int,
    min_group_size: float,
    rng: np.random.Generator,
) -> GapElsewhere | None:
    """As `gap_elsewhere`, of groups that are sorted already and hold the constrained interval."""
    if scored.intervals_differ:
        raise InputError(
            "intervals that differ by group leave different ranks outside; give one interval, or a union"
        )
    constrained, setting = scored.groups[0].interval, Setting(gap_scale)
    width = constrained.measure if len(constrained.parts) == 1 else 1.0
    pieces, skipped = _split_rest(scored, constrained, width, min_group_size)
    if not pieces:
        return None
    rest = IntervalSet(tuple((piece.low, piece.high) for piece in pieces))
    drawn = resample(scored.on(rest), threshold=None, n_resamples=n_resamples, rng=rng)
    # Each piece by itself, so that groups too small in one are compared in the others.
    gaps: list[tuple[float, WorstGap, _Piece]] = []
    families: list[Differences] = []
    n_members: list[float] = []
    reaches: list[tuple[float, float]] = []
    metric = METRICS["statistical_parity"]
    for piece in pieces:
        factor = piece.factor if gap_scale == "interval" else 1.0
        inside = _only(
            replace(drawn, scored=scored.on(IntervalSet(((piece.low, piece.high),)))), piece.members
        )
        worst = statistical_parity_gap(inside.scored, setting)
        gaps.append((factor * worst.value, worst, piece))
        assert metric.reach is not None
        reaches.append(metric.reach(inside.scored, setting, worst.value))
        family = differences.statistical_parity(inside, setting)
        # Every piece has positions of its own, as groups have other numbers of members there.
        families.append(_scale(family, factor, np.arange(piece.members.size) + len(n_members)))
        part = piece.width if gap_scale == "interval" else 1.0
        n_members += [group.n_effective * part for group in inside.scored]
    spread = bound_fluctuation(join_differences(families), confidence, n_members)
    value, worst, piece = max(gaps, key=lambda each: each[0])
    # On the absolute scale ties make it uncertain which scores belong to a piece.
    least, most = value, value
    if gap_scale == "absolute":
        least, most = (max(ends) for ends in zip(*reaches, strict=True))
    error = 1 - confidence
    ends = [least - spread.below(error / 2), most + spread.above(error / 2)]
    ends += [least - spread.below(error), most + spread.above(error)]
    low, high, lower_bound, upper_bound = np.clip(ends, 0.0, 1.0).tolist()
    return GapElsewhere(
        min(value, 1.0),
        low,
        high,
        lower_bound,
        upper_bound,
        _place(piece, worst.ranks, gap_scale),
        worst.groups,
        worst.ranks,
        rest.parts,
        skipped,
        confidence,
        gap_scale,
    )


def _split_rest(
    scored: ScoredGroups, constrained: IntervalSet, width: float, min_group_size: float
) -> tuple[list[_Piece], tuple[tuple[float, float], ...]]:
    """Return the pieces outside the interval in which two groups have enough members, and the others."""
    ends = [0.0, *np.ravel(constrained.parts).tolist(), 1.0]
    pieces, skipped = [], []
    for low, high in zip(ends[::2], ends[1::2], strict=True):
        if high - low <= RANK_TOLERANCE:
            continue
        own_width = min(width, high - low)
        members = np.flatnonzero([enough(group.n_effective * own_width, min_group_size) for group in scored])
        if members.size < 2:
            skipped.append((low, high))
        else:
            pieces.append(_Piece(low, high, own_width, members))
    return pieces, tuple(skipped)


def _only(drawn: Resamples, members: Ints) -> Resamples:
    """Return the draws of some groups."""
    groups = tuple(drawn.scored.groups[k] for k in members)
    return replace(
        drawn,
        scored=replace(drawn.scored, groups=groups),
        draws=tuple(drawn.draws[k] for k in members),
    )


def _scale(family: Differences, factor: float, positions: Ints) -> Differences:
    """Return the differences in other units, with other positions of the groups."""

    def fill(chosen: Ints, block: Floats) -> Ints:
        starts = family.fill(chosen, block)
        block[: starts[-1]] *= factor
        return starts

    return replace(family, pairs=positions[family.pairs], fill=fill)


def _place(piece: _Piece, ranks: Sequence[float], gap_scale: GapScale) -> tuple[float, float]:
    """Return an interval of the piece with the largest gap, ending at whole percents where that can be."""
    first, last = piece.low, piece.high - piece.width  # where it may begin
    low, high = np.clip(sorted(ranks), piece.low, piece.high).tolist()
    if gap_scale == "absolute":
        # One of the two ranks must be inside.
        low = high = next(rank for rank in ranks if piece.low <= rank < piece.high)
        first, last = max(first, low - piece.width * (1 - 1e-9)), min(last, low)
    elif high - low >= piece.width:
        first, last = low, high - piece.width
    else:
        first, last = max(first, high - piece.width), min(last, low)
    middle = float(np.clip((low + high - piece.width) / 2, first, last))
    percents = (
        np.abs(np.arange(np.ceil(100 * first - 1e-9), np.floor(100 * last + 1e-9) + 1)) / 100
    )  # never −0
    start = middle if percents.size == 0 else float(percents[np.argmin(np.abs(percents - middle))])
    return start, round(start + piece.width, 12)
