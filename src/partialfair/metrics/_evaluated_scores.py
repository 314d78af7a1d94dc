"""What reports and comparisons do first: check what they are given, and find who is judged by what."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from partialfair.data.groups import MAX_GROUPS
from partialfair.exceptions import InputError, SmallGroupWarning
from partialfair.metrics.catalogue import METRICS, lacking, too_few_of, too_few_reason
from partialfair.metrics.differences import Setting
from partialfair.metrics.idle import warn_if_idle
from partialfair.metrics.inputs import (
    ScoredGroups,
    check_gap_scale,
    check_threshold,
    positives,
    ranked_threshold,
    scored_groups,
)
from partialfair.metrics.small_groups import (
    TOO_FEW,
    EvaluatedGroups,
    SmallGroup,
    check_merging,
    labelled_in_interval,
    select_groups,
    warn_about_few,
)
from partialfair.utils.checks import check_choice, check_count, check_fraction
from partialfair.utils.text import listed
from partialfair.utils.typing import (
    ArrayLike,
    GapScale,
    IntervalLike,
    MissingGroups,
    RankWithin,
    SmallGroups,
)

__all__ = ["EvaluatedScores", "read_scores"]


@dataclass(frozen=True, eq=False)
class EvaluatedScores:
    """Scores as metrics take them: checked, parted and sorted, before any draw.

    Attributes
    ----------
    judged, setting
        The groups, and what metrics need to know besides.
    few, omitted
        By metric: groups with too few of a label, and why it cannot be computed.
    """

    judged: EvaluatedGroups
    setting: Setting
    few: dict[str, tuple[SmallGroup, ...]]
    omitted: dict[str, str]


def read_scores(
    y_true: ArrayLike | None,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: IntervalLike,
    threshold: float | None,
    confidence: float,
    gap_scale: GapScale,
    rank_within: RankWithin,
    pos_label: Any,
    sample_weight: ArrayLike | None,
    clusters: ArrayLike | None,
    n_resamples: int,
    higher_is_better: bool,
    min_group_size: int,
    small_groups: SmallGroups,
    missing_groups: MissingGroups,
    max_groups: int = MAX_GROUPS,
) -> EvaluatedScores:
    """Check what `fairness_report` is given, find who is judged by what, and warn of small groups."""
    check_fraction(confidence, "confidence")
    check_count(n_resamples, "n_resamples")
    if n_resamples * (1 - confidence) < 5 - 1e-9:
        needed = int(np.ceil(5 / (1 - confidence) - 1e-9))
        raise InputError(f"confidence {confidence} needs n_resamples of at least {needed}, not {n_resamples}")
    check_choice(rank_within, "rank_within", get_args(RankWithin))
    check_choice(small_groups, "small_groups", get_args(SmallGroups))
    check_count(min_group_size, "min_group_size")
    check_count(max_groups, "max_groups", low=2)
    check_merging(small_groups, interval)
    if threshold is not None:
        check_threshold(threshold)
    positive = None if y_true is None else positives(y_true, pos_label)
    everyone = scored_groups(
        y_score,
        sensitive_features,
        interval,
        sample_weight,
        positive,
        clusters=clusters,
        higher_is_better=higher_is_better,
        missing_groups=missing_groups,
        max_groups=max_groups,
    )
    check_gap_scale(gap_scale, everyone)
    ranked = None if threshold is None else ranked_threshold(everyone, threshold)
    setting = Setting(gap_scale, ranked, rank_within)
    judged = select_groups(everyone, min_group_size, small_groups)
    scored = judged.scored
    few = {} if small_groups == "keep" else _too_few_labelled(scored, setting, min_group_size)
    omitted = _omitted(scored, setting, few, min_group_size)
    if ranked is not None:
        without = [group.group for group in few.get("equal_opportunity", ())]
        warn_if_idle(scored, ranked, rank_within, without)
    _warn_about_small_groups(judged, few, omitted, setting, min_group_size)
    return EvaluatedScores(judged, setting, few, omitted)


def _too_few_labelled(
    scored: ScoredGroups, setting: Setting, min_group_size: int
) -> dict[str, tuple[SmallGroup, ...]]:
    """Return the groups that metrics leave out for want of people with a label, by metric."""
    by_metric = {
        name: too_few_of(metric, scored, setting, min_group_size) for name, metric in METRICS.items()
    }
    return {name: small for name, small in by_metric.items() if small}


def _omitted(
    scored: ScoredGroups, setting: Setting, few: dict[str, tuple[SmallGroup, ...]], min_group_size: int
) -> dict[str, str]:
    """Why metrics cannot be computed: they lack something, or there are not two groups to compare."""
    omitted = {}
    for name, metric in METRICS.items():
        reason = lacking(metric, scored, setting)
        n_compared = len(scored) - len(few.get(name, ()))
        if not reason and n_compared < 2:
            reason = too_few_reason(metric, n_compared, min_group_size)
        if reason:
            omitted[name] = reason
    return omitted


def _warn_about_small_groups(
    judged: EvaluatedGroups,
    few: dict[str, tuple[SmallGroup, ...]],
    omitted: dict[str, str],
    setting: Setting,
    min_group_size: int,
) -> None:
    """Say who is not judged, by any metric or by some, and who is but on few members."""
    scored = judged.scored
    if judged.small:
        n_groups = len(scored) - bool(judged.merged) + len(judged.small) + len(judged.merged)
        message = (
            f"{len(judged.small)} of {n_groups} groups {TOO_FEW}, with fewer than {min_group_size} effective "
            f"members in the interval: {listed([group.text for group in judged.small])}"
        )
        warnings.warn(message, SmallGroupWarning, stacklevel=4)
    named = {name: small for name, small in few.items() if name not in omitted}
    if named:
        titles: dict[str, list[str]] = {}
        for name, small in named.items():
            titles.setdefault(listed([group.text for group in small]), []).append(METRICS[name].title)
        left_out = "; ".join(f"{listed(metrics, 4)} without {names}" for names, metrics in titles.items())
        message = f"{TOO_FEW}, with fewer than {min_group_size}: {left_out}"
        warnings.warn(message, SmallGroupWarning, stacklevel=4)
    labels_count = setting.threshold is not None and scored.groups[0].positive is not None
    few_inside = few.get("equalized_odds", ())
    warn_about_few(
        scored,
        (lambda group, label: labelled_in_interval(group, label, setting.rank_within))
        if labels_count
        else None,
        [group.group for group in few_inside],
    )
