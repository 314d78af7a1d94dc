"""The base class of constraints: the settings and methods that do not depend on the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import ClassVar, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from partialfair.constraints.block import ConstraintBlock
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import Groups
from partialfair.data.intervals import IntervalSet, as_interval_set, intervals_by_group
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_choice, check_number
from partialfair.utils.state import StoredAsPairs
from partialfair.utils.typing import Floats, GapScale, GroupLabel, IntervalLike

Positive: TypeAlias = npt.NDArray[np.bool_] | None
"""Which rows are positive; None if that is not known."""

LEAST_GAP = 1e-3
"""A smaller κ leaves constraints no room inside."""

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Constraint(StoredAsPairs, ABC):
    """Base class of constraints.

    Parameters
    ----------
    interval : interval-like, optional
        Ranks from the top: ``(low, high)``, a list of such pairs, or a mapping from group to either. By
        default the interval of the estimator that is given the constraint.
    max_gap : float, default=0.05
        Limit κ of the gap, from 0 to ``largest_gap``. Values below 0.001 count as 0.001: a constraint
        without a strictly feasible point (against Assumption 6.3 B) need not have multipliers, and no sample
        can distinguish such gaps from 0.
    gap_scale : {"interval", "absolute"}, default="interval"
        ``"interval"``, the definition, or ``"absolute"``, the scale of the paper's experiments; see
        `partialfair.metrics.partial_statistical_parity_difference`.
    """

    interval: IntervalLike | None = None
    max_gap: float = 0.05
    gap_scale: GapScale = "interval"

    largest_gap: ClassVar[float] = 1.0
    counted: ClassVar[str] = "members"
    """Whom it compares, for messages."""

    def __post_init__(self) -> None:
        check_number(self.max_gap, "max_gap", low=0.0, high=self.largest_gap)
        check_choice(self.gap_scale, "gap_scale", get_args(GapScale))

    @property
    def kappa(self) -> float:
        """κ, at least 0.001, so that a strictly feasible point exists."""
        return max(self.max_gap, LEAST_GAP)  # Assumption 6.3 B: a point with slack in all constraints

    def can_bind(self, most: float) -> bool:
        """Return whether some scores violate it, given the largest possible gap; else it is not built."""
        return self.kappa < most

    @abstractmethod
    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Apply the constraint to the rows of a training set; some constraints need to know the positives."""

    def effective_members(
        self, groups: Groups, weights: Floats, positive: Positive = None, squares: Floats | None = None
    ) -> Floats:
        """Return the effective members of each group inside its interval, ``n_k m_k``.

        ``n_k = (Σ w)² / Σ w²`` over the members that are compared, and m_k is the measure of the interval.
        Where weights are sums over several rows each, ``squares`` are the sums of their squared weights.
        Raises `InputError`, before any long work, for rows that the constraint cannot be applied to.
        """
        # Kish's effective sample size; where several sets of rows are compared, the smallest counts.
        squares = weights**2 if squares is None else squares
        sizes = [
            effective_sizes(groups, np.where(rows, weights, 0.0), np.where(rows, squares, 0.0))
            for rows in self.compared(positive)
        ]
        measures = np.array([part.measure for part in self.intervals(groups)])
        return np.asarray(np.min(sizes, axis=0) * measures)

    def compared(self, positive: Positive) -> tuple[npt.NDArray[np.bool_], ...]:
        """Return the rows that are compared between groups, as one mask or several; by default all rows."""
        return (np.array(True),)

    def among(self, labels: Sequence[GroupLabel]) -> Constraint:
        """Return the constraint for some groups only, with the intervals by group of these groups."""
        if not isinstance(self.interval, Mapping):
            return self
        some = {label: part for label, part in self.interval.items() if label in labels}
        return replace(self, interval=some)

    def intervals(self, groups: Groups) -> tuple[IntervalSet, ...]:
        """Return the interval of each group."""
        parts = intervals_by_group(self.interval, groups.labels)
        if self.gap_scale == "absolute" and any(part != parts[0] for part in parts):
            raise InputError("gap_scale='absolute' has no meaning when intervals differ by group")
        return parts

    def rank_boxes(self, groups: Groups) -> tuple[Floats, Floats]:
        """Return bounds (n, n_groups) on the ranks F̄_k(θ) at n thresholds, if the constraint implies any."""
        return np.empty((0, len(groups.labels))), np.empty((0, len(groups.labels)))

    def in_units(self, unit: float) -> Constraint:
        """Return the constraint for scores in another unit, s / unit.

        By default the constraint itself: ranks and proportions have no unit. Negative units reverse the order
        of the scores.
        """
        # What a subclass of a user's states in units of scores, only its own in_units can convert.
        has_threshold = "threshold" in (field.name for field in fields(self))
        in_scores = np.isinf(self.largest_gap) and abs(unit) != 1
        if (has_threshold and unit != 1) or in_scores:
            what = "a threshold" if has_threshold else "gaps without a largest one, as those of scores are"
            raise InputError(
                f"{type(self).__name__} has {what}, but no in_units that says what it is for scores in "
                "another unit"
            )
        return self

    def says(self) -> str:
        """Return a short description of the constraint, for messages."""
        by_group = isinstance(self.interval, Mapping)
        where = "ranks by group" if by_group else str(as_interval_set(self.interval))
        return f"{type(self).__name__}({where}, max_gap={self.max_gap:g})"


def effective_sizes(groups: Groups, weights: Floats, squares: Floats | None = None) -> Floats:
    """Return ``(Σ w)² / Σ w²`` over the members of each group; 0 for one without any weight.

    Where weights are sums over several rows each, ``squares`` are the sums of their squared weights.
    """
    inside = groups.codes >= 0
    sums, sums_of_squares = (
        np.bincount(groups.codes[inside], weights=values[inside], minlength=len(groups.labels))
        for values in (weights, weights**2 if squares is None else squares)
    )
    return np.divide(sums**2, sums_of_squares, out=np.zeros(sums.size), where=sums_of_squares > 0)


def refuse_empty_groups(groups: Groups, weights: Floats, kind: str) -> None:
    """Raise `InputError` for groups in which no member has weight: a mean over none is undefined."""
    for name, size in zip(groups.names, effective_sizes(groups, weights), strict=True):
        if size == 0:
            raise InputError(f"group {name!r} has no {kind} to compare")


def check_compatible(constraints: Sequence[Constraint], groups: Groups) -> None:
    """Raise `InputError` for lists with a duplicate constraint, or that no scores can satisfy together.

    Ranks fall in every group as a threshold rises. So of two boxes of ranks, one must be reachable from the
    other by decreasing the ranks of all groups; otherwise no scores satisfy both.
    """
    for first, second in combinations(constraints, 2):
        settings = [field.name for field in fields(first) if field.name not in ("interval", "max_gap")]
        if (  # they differ in max_gap at most, however their intervals are written
            type(first) is type(second)
            and all(getattr(first, name) == getattr(second, name) for name in settings)
            and first.intervals(groups) == second.intervals(groups)
        ):
            raise InputError(f"the list asks for {first.says()} and for {second.says()}; keep one of them")
        # (n, n_groups) boxes of the one against all of the other: above, or below, in every group.
        lows, highs = first.rank_boxes(groups)
        other_lows, other_highs = second.rank_boxes(groups)
        above = (lows[:, None] <= other_highs[None] + _ROUNDING).all(axis=2)
        below = (other_lows[None] <= highs[:, None] + _ROUNDING).all(axis=2)
        if not (above | below).all():
            raise InputError(f"no scores can satisfy both {first.says()} and {second.says()}")
