"""Scores and groups: checks the arrays, splits them by group, and sorts each group once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from numbers import Real
from typing import Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from partialfair.data.groups import MAX_GROUPS, Groups, encode_groups, group_name
from partialfair.data.intervals import IntervalSet, band_weights, intervals_by_group, running_weight
from partialfair.exceptions import InputError
from partialfair.utils.checks import (
    as_array,
    check_choice,
    check_flag,
    check_weights,
    finite_vector,
    refuse_dates,
    refuse_masked,
    shown,
)
from partialfair.utils.text import listed, reads_as_negative
from partialfair.utils.typing import (
    ArrayLike,
    Floats,
    GapScale,
    GroupLabel,
    IntervalLike,
    Ints,
    MissingGroups,
    RankWithin,
    Ties,
)

_Scores = TypeVar("_Scores", float, Floats)


@dataclass(frozen=True)
class Setting:
    """Settings of metrics, besides scores and groups.

    Attributes
    ----------
    gap_scale, rank_within, ties
        As in the public metrics.
    threshold
        Negated where lower is better; see `ranked_threshold`.
    """

    gap_scale: GapScale = "interval"
    threshold: float | None = None
    rank_within: RankWithin = "group"
    ties: Ties = "half"

    def __post_init__(self) -> None:
        check_choice(self.gap_scale, "gap_scale", get_args(GapScale))
        check_choice(self.rank_within, "rank_within", get_args(RankWithin))
        check_choice(self.ties, "ties", get_args(Ties))


@dataclass(frozen=True, eq=False)
class GroupScores:
    """Scores of one group, sorted, with its interval.

    Attributes
    ----------
    scores : (n,)
        Ascending, the best last: negated where lower is better (see `oriented`).
    weights : (n,) or None
        In the same order; None when all are equal.
    positive : (n,) booleans or None
        In the same order; None when no labels were given.
    clusters : (n,) integers or None
        In the same order: the cluster of each row, numbered over all groups; None when every row is an
        independent observation. Gaps do not depend on clusters, confidence does.
    """

    label: GroupLabel
    interval: IntervalSet
    scores: Floats
    weights: Floats | None = None
    positive: npt.NDArray[np.bool_] | None = None
    clusters: Ints | None = None

    @cached_property
    def above(self) -> Floats:
        """Weight of the ``i`` largest scores at position ``i``; empty when weights are equal."""
        return np.empty(0) if self.weights is None else np.asarray(running_weight(self.weights[::-1]))

    @cached_property
    def in_band(self) -> Floats:
        """Fraction of the interval that each member occupies; see `intervals.band_weights`."""
        return band_weights(self.scores, self.weights, self.interval)

    @property
    def name(self) -> str:
        """The label as text."""
        return group_name(self.label)

    @property
    def n(self) -> int:
        """Number of members with positive weight."""
        return self.scores.size

    @property
    def n_effective(self) -> float:
        """Return ``(Σw)² / Σw²``, the number of equally weighted members with the same information.

        With clusters, the w are weights of clusters, because rows of one cluster may all be equal.
        """
        if self.clusters is not None:
            by_cluster = np.bincount(self.clusters, weights=self.weights)
            return effective_size(by_cluster.astype(np.float64, copy=False))
        return float(self.n) if self.weights is None else effective_size(self.weights)

    @property
    def n_inside(self) -> float:
        """Effective size inside the interval, ``n_effective · measure``."""
        return self.n_effective * self.interval.measure

    def n_labelled(self, positive: bool, rank_within: RankWithin | None) -> float:
        """Return the effective number of members with a label: inside the interval, or (None) in all."""
        labelled = self.with_label(positive)
        if labelled.n == 0:
            return 0.0
        if rank_within != "group":
            return labelled.n_effective if rank_within is None else labelled.n_inside
        # Ranks of the whole group: each member counts by its fraction of the interval.
        inside = np.where(self.positive == positive, self.in_band, 0.0)
        if self.clusters is not None:
            inside = np.bincount(self.clusters, weights=inside)
        return effective_size(inside) if inside.any() else 0.0

    @property
    def ranked(self) -> tuple[Floats, Floats]:
        """The scores and weights for compiled functions."""
        return self.scores, self.above

    @property
    def set_arguments(self) -> tuple[Floats, Floats, float]:
        """The interval for compiled functions."""
        return self.interval.starts, self.interval.lengths, self.interval.measure

    def rank(self, thresholds: npt.ArrayLike) -> Floats:
        """``F̄(θ)`` (Definition 4.1), the weighted fraction of members with a score above θ."""
        n_above = self.n - np.searchsorted(self.scores, thresholds, side="right")
        if self.weights is None:
            return np.asarray(n_above / self.n)
        return np.asarray(self.above[n_above] / self.above[-1])

    @property
    def turned(self) -> GroupScores:
        """Return the group with negated scores, and its interval counted from their top."""
        return GroupScores(
            self.label,
            self.interval.from_the_other_end,
            oriented(self.scores[::-1], higher_is_better=False),
            *(_at(values, np.s_[::-1]) for values in (self.weights, self.positive, self.clusters)),
        )

    def with_label(self, positive: bool) -> GroupScores:
        """Return the members with that label only, ranked among themselves."""
        assert self.positive is not None
        keep = self.positive == positive
        return GroupScores(
            self.label,
            self.interval,
            self.scores[keep],
            *(_at(values, keep) for values in (self.weights, self.positive, self.clusters)),
        )


@dataclass(frozen=True, eq=False)
class ScoredGroups:
    """All compared groups, and the direction of the original scores.

    Attributes
    ----------
    groups
        One per group, with sorted scores of which higher is better.
    higher_is_better
        Whether higher original scores are better; if not, scores and thresholds here are negated.
    n_missing
        Rows that were left out because they have no group.
    """

    groups: tuple[GroupScores, ...]
    higher_is_better: bool = True
    n_missing: int = 0

    def __iter__(self) -> Iterator[GroupScores]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Positions of all unordered pairs of groups."""
        return combinations(range(len(self.groups)), 2)

    def on(self, interval: IntervalSet) -> ScoredGroups:
        """Return the same groups with another, common interval, without sorting again."""
        return replace(self, groups=tuple(replace(group, interval=interval) for group in self.groups))

    def in_users_units(self) -> ScoredGroups:
        """Return the original scores, for figures: intervals then count from the highest."""
        if self.higher_is_better:
            return self
        return replace(self, groups=tuple(group.turned for group in self.groups), higher_is_better=True)

    @property
    def intervals_differ(self) -> bool:
        """Whether intervals differ by group."""
        return any(group.interval != self.groups[0].interval for group in self.groups)


def scored_groups(
    y_score: ArrayLike,
    sensitive_features: ArrayLike,
    interval: IntervalLike = (0.0, 1.0),
    sample_weight: ArrayLike | None = None,
    positive: npt.NDArray[np.bool_] | None = None,
    higher_is_better: bool = True,
    missing_groups: MissingGroups = "error",
    clusters: ArrayLike | None = None,
    *,
    max_groups: int = MAX_GROUPS,
) -> ScoredGroups:
    """Check, split and sort the scores: O(n log n), and O(n) for each group.

    A row of weight 0 counts as absent, and one of weight 2 as two rows. Only this function negates scores: in
    a `ScoredGroups` higher scores are always better.
    """
    check_flag(higher_is_better, "higher_is_better")
    scores = oriented(finite_vector(y_score, "y_score", ranked=True), higher_is_better)
    if scores.size == 0:
        raise InputError("y_score is empty")
    weights = None if sample_weight is None else check_weights(sample_weight, scores.size)
    if positive is not None and positive.size != scores.size:
        raise InputError(f"y_true has {positive.size} rows, but there are {scores.size} scores")
    encoded = read_groups(sensitive_features, scores.size, missing_groups, max_groups)
    together = None if clusters is None else cluster_codes(clusters, scores.size)
    # Rows of weight 0 would be left out anyway.
    n_missing = int(((encoded.codes < 0) & (True if weights is None else weights > 0)).sum())
    # One pass for each group: for few groups faster than sorting the codes.
    members = [np.flatnonzero(encoded.codes == code) for code in range(len(encoded.labels))]
    if weights is not None:
        members = [rows[weights[rows] > 0] for rows in members]
        if np.ptp(weights) == 0:
            weights = None  # equal weights: counts are exact, sums are not
    present = [(label, rows) for label, rows in zip(encoded.labels, members, strict=True) if rows.size]
    if len(present) < 2:
        # Rows of weight 0 are absent; a group may have no others.
        who = f"only group {present[0][0]!r}" if present else "no group with positive weight"
        raise InputError(f"sensitive_features has {who}; a gap needs at least two groups")
    intervals = intervals_by_group(interval, [label for label, _ in present])
    groups = tuple(
        sorted_group(
            label, part, scores[rows], *(_at(values, rows) for values in (weights, positive, together))
        )
        for (label, rows), part in zip(present, intervals, strict=True)
    )
    return ScoredGroups(groups, bool(higher_is_better), n_missing)


def sorted_group(
    label: GroupLabel,
    interval: IntervalSet,
    scores: Floats,
    weights: Floats | None,
    positive: npt.NDArray[np.bool_] | None,
    clusters: Ints | None = None,
) -> GroupScores:
    """Sort one group. Scores without other arrays are sorted in place, because they are a copy."""
    if weights is None and positive is None and clusters is None:
        scores.sort()
        return GroupScores(label, interval, scores)
    order = np.argsort(scores)
    rest = (_at(values, order) for values in (weights, positive, clusters))
    return GroupScores(label, interval, scores[order], *rest)


def effective_size(weights: Floats) -> float:
    """Return ``(Σw)² / Σw²``, the number of equally weighted rows with the same information."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def read_groups(
    sensitive_features: ArrayLike,
    n_rows: int,
    missing_groups: MissingGroups = "error",
    max_groups: int = MAX_GROUPS,
) -> Groups:
    """Return the group of every row, −1 where it is missing and ``missing_groups="ignore"``."""
    check_choice(missing_groups, "missing_groups", get_args(MissingGroups))
    advice = "; missing_groups='ignore' leaves such rows out"
    return encode_groups(
        sensitive_features, n_rows=n_rows, missing=missing_groups, advice=advice, max_groups=max_groups
    )


def oriented(scores: _Scores, higher_is_better: bool) -> _Scores:
    """Return scores of which higher is better, or the original ones of such scores.

    Negation is exact and its own inverse; subtracting the score from 0 never gives −0.
    """
    return scores if higher_is_better else 0.0 - scores


def check_gap_scale(gap_scale: GapScale, scored: ScoredGroups) -> None:
    """Raise for unknown scales, and for the absolute one where groups have different intervals."""
    check_choice(gap_scale, "gap_scale", get_args(GapScale))
    if gap_scale == "absolute" and scored.intervals_differ:
        raise InputError("gap_scale='absolute' has no meaning when intervals differ by group; use 'interval'")


def check_threshold(threshold: Any) -> None:
    """Raise unless the threshold is one real number."""
    is_number = isinstance(threshold, Real) and not isinstance(threshold, bool | np.bool_)
    try:
        if is_number and not np.isnan(float(threshold)):
            return
    except OverflowError:  # 10**400
        pass
    raise InputError(f"threshold must be a number, not {shown(threshold)}")


def ranked_threshold(scored: ScoredGroups, threshold: Any) -> float:
    """Return a threshold in original units as one on the scores of ``scored``, after checking it."""
    check_threshold(threshold)
    return oriented(float(threshold), scored.higher_is_better)


def positives(y_true: ArrayLike, pos_label: Any) -> npt.NDArray[np.bool_]:
    """Return which labels equal ``pos_label``; there must be two classes, or one only."""
    import pandas as pd

    if y_true is None:
        raise InputError("y_true is missing; this metric needs labels")
    refuse_masked(y_true, "y_true")
    labels = as_array(y_true, "y_true")
    refuse_dates(labels, "y_true")
    if labels.ndim != 1 or labels.dtype.names:
        n_dimensions = labels.ndim + bool(labels.dtype.names)  # fields of a structured array are columns
        raise InputError(f"y_true must have one dimension, not {n_dimensions}")
    if (missing := np.flatnonzero(pd.isna(labels))).size:
        raise InputError(f"y_true has {missing.size} missing values, the first in row {missing[0]}")
    classes = pd.unique(labels).tolist()
    named = listed([shown(label) for label in classes], most=5)
    if len(classes) > 2:
        raise InputError(f"y_true has {len(classes)} classes ({named}), but two are needed")
    # One class alone may be the negatives: then there is no positive.
    if len(classes) == 2 and pos_label not in classes:
        # By the names, or else the larger, as in scikit-learn's classifiers.
        likely = max(classes, key=lambda label: (not reads_as_negative(label), str(label)))
        raise InputError(
            f"pos_label {pos_label!r} is not among the classes of y_true ({named}); give pos_label={likely!r}"
        )
    return np.asarray(labels == pos_label)


def cluster_codes(clusters: ArrayLike, n_rows: int) -> Ints:
    """Return the number of each row's cluster; raise for rows without one."""
    import pandas as pd

    refuse_masked(clusters, "clusters")
    names = as_array(clusters, "clusters")
    if names.ndim != 1 or names.size != n_rows:
        raise InputError(f"clusters must name the cluster of each of the {n_rows} rows, not {names.shape}")
    codes, _ = pd.factorize(names)
    if (missing := np.flatnonzero(codes < 0)).size:
        raise InputError(f"clusters has {missing.size} missing values, the first in row {missing[0]}")
    return np.asarray(codes)


def _at(values: Any, rows: Any) -> Any:
    return None if values is None else values[rows]
