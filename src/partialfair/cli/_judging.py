"""How commands judge scores: what is asked of every one of them, and which groups can be judged at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from partialfair.cli._intervals import AUTO, AskedInterval, check_scale, read_interval
from partialfair.constraints.base import effective_sizes
from partialfair.data.groups import Groups, enough, group_name
from partialfair.data.intervals import as_interval_set, interval_text, intervals_by_group
from partialfair.exceptions import InputError
from partialfair.metrics import FairnessReport, fairness_report
from partialfair.metrics.catalogue import report_metrics
from partialfair.metrics.evaluation import MERGED
from partialfair.utils.checks import check_count
from partialfair.utils.typing import (
    ArrayLike,
    Floats,
    GapScale,
    IntervalLike,
    Ints,
    MissingGroups,
    RankWithin,
    SmallGroups,
)

__all__ = [
    "Judging",
    "check_confidence",
    "judging_options",
    "merged_groups",
    "on_judged",
]

ANYWHERE = (0.0, 0.25)
"""An interval as wide as those that ``--interval auto`` chooses from, the default of `choose_interval`."""

_SUREST = 0.995
"""Of the thousand draws of a report, five lie beyond the ends of an interval of this coverage."""


@dataclass(frozen=True, kw_only=True)
class Judging:
    """What every command that measures gaps is told.

    Attributes
    ----------
    interval, interval_given
        As it was asked for, or everybody if it was not; ``"auto"`` and names of groups are resolved once the
        data are known.
    gap_scale, confidence, higher_is_better, min_group_size, small_groups, missing_groups
        As in `fairness_report`.
    pos_label
        The positive label as it was written; None leaves the choice to its name.
    seed
        Of the bootstrap, and of splits.
    """

    interval: AskedInterval
    interval_given: bool
    gap_scale: GapScale
    confidence: float
    higher_is_better: bool
    min_group_size: int
    small_groups: SmallGroups
    missing_groups: MissingGroups
    pos_label: str | None
    seed: int

    def check(self) -> None:
        """Refuse what cannot be right, before any file is read."""
        check_scale(self.interval, self.gap_scale)
        check_confidence(self.confidence)
        check_count(self.min_group_size, "--min-group")
        if self.small_groups == "merge" and isinstance(self.interval, dict):
            raise InputError("--small-groups merge needs one --interval for all groups, not one for each")

    def report(
        self,
        labels: ArrayLike | None,
        scores: Floats,
        groups: Groups,
        *,
        interval: IntervalLike,
        threshold: float | None,
        positive: Any,
        weights: Floats | None,
        clusters: ArrayLike | None = None,
        rank_within: RankWithin = "group",
        also: Iterable[str] = (),
    ) -> FairnessReport:
        """Return the metrics of one set of scores: those that reports have by default, and some others."""
        return fairness_report(
            labels,
            scores,
            sensitive_features=groups,
            interval=interval,
            threshold=threshold,
            confidence=self.confidence,
            gap_scale=self.gap_scale,
            rank_within=rank_within,
            pos_label=positive,
            sample_weight=weights,
            clusters=clusters,
            random_state=self.seed,
            higher_is_better=self.higher_is_better,
            min_group_size=self.min_group_size,
            small_groups=self.small_groups,
            missing_groups=self.missing_groups,
            metrics=report_metrics(*also),
        )

    def words(self, interval: IntervalLike) -> str:
        """Write an interval in words."""
        return interval_words(interval, self.higher_is_better)


def judging_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `Judging` from the options of a command, by name, as the parser read them.

    Choices are texts or members of a `StrEnum`, as the version of the parser has it.
    """
    return {
        "interval": read_interval(options["interval"]),
        "interval_given": bool(options["interval"]),
        "gap_scale": str(options["gap_scale"]),
        "confidence": options["confidence"],
        "higher_is_better": not options["lower_is_better"],
        "min_group_size": options["min_group"],
        "small_groups": str(options["small_groups"]),
        "missing_groups": str(options["missing_groups"]),
        "pos_label": options["pos_label"],
        "seed": options["seed"],
    }


def check_confidence(confidence: float) -> None:
    """Refuse what lies outside (0, 1), and what the draws of a report cannot tell from certainty."""
    if not 0 < confidence < 1:
        raise InputError(f"--confidence must lie between 0 and 1, not {confidence:g}")
    if confidence > _SUREST:
        raise InputError(f"--confidence must be at most {_SUREST:g}, not {confidence:g}")


def merged_groups(groups: Groups, weights: Floats | None, rows: Ints, settings: Judging) -> Groups:
    """Return the groups with all that are small among some rows as one, the last."""
    interval: IntervalLike = ANYWHERE if isinstance(settings.interval, str) else settings.interval
    sizes = effective_sizes(
        Groups(groups.codes[rows], groups.labels), np.ones(rows.size) if weights is None else weights[rows]
    )
    small = np.array(
        [
            not enough(size * part.measure, settings.min_group_size)
            for size, part in zip(sizes, intervals_by_group(interval, groups.labels), strict=True)
        ]
    )
    if not small.any():
        return groups
    kept = [label for label, is_small in zip(groups.labels, small, strict=True) if not is_small]
    if MERGED in kept:
        raise InputError(f"--small-groups merge makes a group {MERGED!r}, but the data have one of that name")
    return groups.regroup(np.where(small, len(kept), np.cumsum(~small) - 1), (*kept, MERGED))


def on_judged(interval: IntervalLike, groups: Groups) -> IntervalLike:
    """Return the interval without those of groups that are not judged."""
    if not isinstance(interval, dict):
        return interval
    return {label: interval[label] for label in groups.labels}


def interval_words(interval: AskedInterval, higher_is_better: bool) -> str:
    """Write an interval in words, both ways of counting; of intervals by group, each with its group."""
    if isinstance(interval, dict):
        return "; ".join(
            f"{group_name(group)}: {interval_text(as_interval_set(parts), higher_is_better)}"
            for group, parts in interval.items()
        )
    if interval == AUTO:
        return "an interval chosen by the scores"
    return interval_text(as_interval_set(interval), higher_is_better)
