"""Parity of whole score distributions, on a grid of ranks, and of the proportions selected at one threshold.

On the interval scale a point of a grid is ``u / (1 − κ)`` in [0, 1]: a fraction u of the interval lies before
the point, and the band at the point holds the fractions from u to u + κ. Points are therefore the same for
any κ. On the absolute scale a point is a rank p itself, and its band holds the ranks from p to p + κ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from partialfair.constraints.base import Constraint, Positive, refuse_empty_groups
from partialfair.constraints.block import ConstraintBlock, Thresholds, join
from partialfair.constraints.dc import DC, Affine, DCSystem, GroupMeans, atom, maximum
from partialfair.constraints.surrogates import Surrogate
from partialfair.data.groups import LABEL_KINDS, Groups, members_of
from partialfair.data.intervals import IntervalSet, as_interval_set
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.text import short_percent
from partialfair.utils.typing import Floats, GapScale

_SAME_POINT = 1e-6
"""Points that are closer state the same."""
_VACUOUS = 1e-9
"""A bound on a share that is so close to 0 or 1 states nothing."""
_INSIDE = 1e-6
"""Levels of a surrogate stay so far from 0 and 1, which some reach only at infinity."""


@dataclass(frozen=True)
class RankGrid:
    """Points at which a constraint is imposed, and their refinement.

    Attributes
    ----------
    points
        In any order; see the top of this file.
    kappa
        κ, the width of the bands.
    gap_scale
        Which of the two kinds of points.
    """

    points: tuple[float, ...]
    kappa: float
    gap_scale: GapScale = "interval"

    @classmethod
    def reaching(cls, n_points: int, kappa: float, interval: IntervalSet | None) -> RankGrid:
        """Return an even grid, with its ends, that reaches everywhere the exact gap looks.

        Without the ends scores pile up just beyond the last point, where nothing constrains them.

        Parameters
        ----------
        n_points
            Points between the ends.
        kappa
            κ.
        interval
            That of all groups, on the absolute scale: there one group may be inside it while another is κ
            before it, so that the grid covers ``[max(0, α − κ), β)``. None stands for the interval scale.
        """
        even = np.linspace(0.0, 1.0, n_points + 2)
        if interval is None:
            return cls(tuple(even.tolist()), kappa, "interval")
        wider: list[tuple[float, float]] = []
        for low, high in interval.parts:  # those that now overlap are joined
            first = max(0.0, low - kappa)
            if wider and first <= wider[-1][1]:
                first = wider.pop()[0]
            wider.append((first, high))
        points = as_interval_set(wider).rank_at(even, side="left")
        return cls(tuple(points.tolist()), kappa, "absolute")

    def denser(self) -> RankGrid:
        """Return the grid with a point between any two that follow each other in it."""
        points = np.array(self.points)
        return replace(self, points=(*self.points, *((points[1:] + points[:-1]) / 2).tolist()))

    def with_points(self, n_points: int) -> RankGrid:
        """Return a grid of the same reach, with so many points between its ends, as even as this one."""
        points = np.sort(self.points)
        even = np.interp(np.linspace(0, points.size - 1, n_points + 2), np.arange(points.size), points)
        return replace(self, points=tuple(even.tolist()))

    def refined(self, ranks: Sequence[float], intervals: Sequence[IntervalSet]) -> RankGrid:
        """Return the grid with a point whose band holds the middle of two ranks that differ too much.

        Parameters
        ----------
        ranks
            Of two groups at one threshold.
        intervals
            Of the same groups.
        """
        if self.kappa >= 1:
            return self  # no gap exceeds it: there is nothing to look at
        passed = np.array(ranks)
        if self.gap_scale == "interval":
            both = zip(intervals, ranks, strict=True)
            passed = np.array([interval.passed(np.array(rank)) for interval, rank in both])
        # The band [point, point + κ] around the middle; it must fit into [0, 1].
        point = float(np.clip(passed.mean() - self.kappa / 2, 0.0, 1.0 - self.kappa))
        if self.gap_scale == "interval":
            point /= 1 - self.kappa
        if np.isclose(self.points, point, atol=_SAME_POINT).any():
            return self
        return replace(self, points=(*self.points, point))


@runtime_checkable
class OnAGrid(Protocol):
    """What a constraint may offer in addition: it looks at a grid of ranks, which can be made finer."""

    @property
    def grid(self) -> RankGrid:
        """The points to look at so that the exact gap is at most κ, if they are close enough."""

    def on_grid(self, grid: RankGrid) -> Constraint:
        """Return the constraint at the points of another grid."""


def paper_points(n_points: int, interval: IntervalSet | None) -> Floats:
    """Return the paper's ``p_j = α + j(β − α)/N``, and without an interval those with the best guarantee.

    These, ``j / (N + 1)`` on the interval scale, guarantee a gap of κ plus one step of the grid.
    """
    if interval is None:
        return np.arange(1, n_points + 1) / (n_points + 1)
    return interval.rank_at(np.arange(n_points) / n_points, side="right")


@dataclass(frozen=True)
class StatisticalParity(Constraint):
    """Partial statistical parity (pSP), by surrogate bands at a grid of ranks (Section 5).

    For each u of a grid there is one θ_u with ``p_k(u) ≤ mean σ(s − θ_u) ≤ p_k(u + κ)`` in every group k,
    where ``p_k(u)`` is the rank before which a fraction u of the group's interval lies. On the absolute scale
    the grid consists of ranks p in [α, β), and the band is ``p ≤ mean σ(s − θ_p) ≤ p + κ``. Violations are in
    units of the gap: on the interval scale they are fractions of the interval, not of the group.

    Parameters
    ----------
    interval : interval-like, optional
        Ranks from the top: ``(low, high)``, a list of such pairs (a union), or a mapping from group to
        either. By default the interval of the estimator that is given the constraint.
    max_gap : float, default=0.05
        Limit κ of the gap. Values below 0.001 count as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partialfair.metrics.partial_statistical_parity_difference`.
    n_points : int, default=10
        Size of the grid. On the interval scale the grid is ``u_j = j(1 − κ)/(N + 1)``, which guarantees a gap
        of κ plus one step; on the absolute scale it is the paper's ``p_j = α + j(β − α)/N``, j = 0, ..., N −
        1.
    points : tuple of float, optional
        The grid itself: ``u / (1 − κ)`` in [0, 1], or ranks p on the absolute scale.

    See Also
    --------
    partialfair.metrics.partial_statistical_parity_difference : The gap that the constraint limits.
    DemographicParity : The constraint at one threshold.

    Examples
    --------
    >>> from partialfair import PartialFairClassifier
    >>> from partialfair.constraints import StatisticalParity
    >>> clf = PartialFairClassifier(StatisticalParity((0.05, 0.30), max_gap=0.1))
    """

    n_points: int = 10
    points: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.n_points, "n_points")
        if not (self.points is None or isinstance(self.points, Sequence)) or isinstance(self.points, str):
            raise InputError(f"points of statistical parity must be a tuple of numbers, not {self.points!r}")
        for point in self.points or ():
            check_number(point, "each of the points of statistical parity", low=0.0, high=1.0)

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Return two functions per point and group: mean σ at least the lower rank, at most the upper one."""
        lows, highs, points = self._stated(groups)
        relative = self.gap_scale == "interval"
        factors = [1 / part.measure if relative else 1.0 for part in self.intervals(groups)]
        bank = GroupMeans(surrogate, len(groups.labels), len(lows))
        functions: list[DC] = []
        names: list[str] = []
        for j in range(len(lows)):
            for k, name in enumerate(groups.names):
                mean = atom(bank.plus(k, j)) - atom(bank.minus(k, j))  # of σ = σ⁺ − σ⁻ at θ_j
                if lows[j, k] > _VACUOUS:  # a mean of σ is never below 0
                    functions.append(factors[k] * (-mean + lows[j, k]))
                    names.append(f"at least {short_percent(lows[j, k])} of {name} ahead of threshold {j + 1}")
                if highs[j, k] < 1 - _VACUOUS:  # nor above 1
                    functions.append(factors[k] * (mean - highs[j, k]))
                    names.append(f"at most {short_percent(highs[j, k])} of {name} ahead of threshold {j + 1}")
        # Scores 0: every group has mean σ(−θ), put into the middle of the band that all groups share.
        middles = np.clip((lows.max(axis=1) + highs.min(axis=1)) / 2, _INSIDE, 1 - _INSIDE)
        starts = np.array([-surrogate.level(float(middle)) for middle in middles])
        return ConstraintBlock(
            bank,
            members_of(groups.codes, weights, len(groups.labels)),
            DCSystem(tuple(functions), bank.n_atoms),
            tuple(names),
            Thresholds(starts, points, np.clip((lows + highs) / 2, 0, 1)),
        )

    def rank_boxes(self, groups: Groups) -> tuple[Floats, Floats]:
        """Return the lower and upper rank of each point in each group."""
        return self._stated(groups)[:2]

    def bands(self, points: Floats, groups: Groups) -> tuple[Floats, Floats]:
        """Return the lower and upper rank of some points in each group, (n_points, n_groups) each."""
        intervals, kappa = self.intervals(groups), self.kappa
        # Bands of width κ of the group's ranks, or of shares of its interval.
        if self.gap_scale == "absolute":
            lows = np.tile(points[:, None], (1, len(intervals)))
            return lows, lows + kappa
        shares = points * (1 - kappa)
        lows = np.stack([part.rank_at(shares, side="left") for part in intervals], axis=1)
        highs = np.stack([part.rank_at(shares + kappa, side="right") for part in intervals], axis=1)
        return lows, highs

    def _stated(self, groups: Groups) -> tuple[Floats, Floats, tuple[float, ...]]:
        """Return lower and upper ranks and points, without those that a θ beyond all scores satisfies."""
        points = np.array(paper_points(self.n_points, self._common) if self.points is None else self.points)
        lows, highs = self.bands(points, groups)
        stated = (lows > _VACUOUS).any(axis=1) & (highs < 1 - _VACUOUS).any(axis=1) & self.can_bind(1.0)
        return lows[stated], highs[stated], tuple(points[stated].tolist())

    @property
    def grid(self) -> RankGrid:
        """The given points, or a grid of every part of the interval that the exact gap depends on."""
        if self.points is None:
            return RankGrid.reaching(self.n_points, self.kappa, self._common)
        return RankGrid(tuple(self.points), self.kappa, self.gap_scale)

    def on_grid(self, grid: RankGrid) -> StatisticalParity:
        """Return the constraint at the points of a grid."""
        return replace(self, points=grid.points)

    @property
    def _common(self) -> IntervalSet | None:
        """The interval of all groups, which the absolute scale needs; None on the other scale."""
        if self.gap_scale == "interval":
            return None
        if isinstance(self.interval, Mapping):
            return as_interval_set(next(iter(self.interval.values())))
        return as_interval_set(self.interval)


@dataclass(frozen=True)
class AtThreshold(Constraint):
    """Base class of constraints on the proportions selected at one threshold.

    ``P_k − P_k' ≤ κ`` for every ordered pair, with ``P_k = Σ_parts [min(M_k, β) − min(M_k, α)] / m_k`` (not
    divided on the absolute scale) and ``M_k = A_k − B_k`` the mean of σ = σ⁺ − σ⁻ at the threshold. Since
    ``min(A − B, c) = A − max(B, A − c)``, each part is ``max(B, A − α) − max(B, A − β)``: the mean σ⁺ terms
    of the paper (Appendix D) cancel, which gives the same f with a tighter linearization.

    Parameters
    ----------
    interval : interval-like, optional
        Ranks from the top: ``(low, high)``, a list of such pairs (a union), or a mapping from group to
        either. By default the interval of the estimator that is given the constraint.
    max_gap : float, default=0.05
        Limit κ of the gap. Values below 0.001 count as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partialfair.metrics.partial_statistical_parity_difference`.
    threshold : float, default=0.0
        The threshold θ̂, in units of the scores.
    """

    threshold: float = 0.0

    called: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.threshold, f"the threshold of {self.called}")

    def in_units(self, unit: float) -> AtThreshold:
        """Return the constraint with its threshold in the other unit."""
        return replace(self, threshold=self.threshold / unit + 0.0)  # no negative zero

    def bound(self, groups: Groups, weights: Floats, surrogate: Surrogate, kind: str = "") -> ConstraintBlock:
        """Return one function per ordered pair of groups, whose members count by their weights."""
        n_groups = len(groups.labels)
        refuse_empty_groups(groups, weights, kind.strip() or self.counted)
        bank = GroupMeans(surrogate, n_groups, 0, fixed=(float(self.threshold),))
        intervals = self.intervals(groups)
        shares = []
        for k, interval in enumerate(intervals):
            plus, minus = (bank.plus(k, 0), 1.0), (bank.minus(k, 0), 1.0)
            share = DC()
            for low, high in interval.parts:  # min(M, β) − min(M, α), with mean σ⁺ cancelled
                below = maximum(Affine((minus,)), Affine((plus,), -low))
                share = share + below - maximum(Affine((minus,)), Affine((plus,), -high))
            shares.append((1.0 if self.gap_scale == "absolute" else 1.0 / interval.measure) * share)
        functions, names = [], []
        # No share exceeds the interval's measure: with a larger κ nothing is to be bounded.
        most = intervals[0].measure if self.gap_scale == "absolute" else 1.0
        for k, other in permutations(range(n_groups), 2) if self.can_bind(most) else ():
            functions.append(shares[k] - shares[other] - self.kappa)
            names.append(
                f"{groups.names[k]}{kind} selected at most {self.max_gap:g} more than "
                f"{groups.names[other]}{kind}"
            )
        members = members_of(groups.codes, weights, n_groups)
        return ConstraintBlock(bank, members, DCSystem(tuple(functions), bank.n_atoms), tuple(names))


@dataclass(frozen=True)
class DemographicParity(AtThreshold):
    """Partial demographic parity (pDP) at one threshold (Section 5).

    ``P_k − P_k' ≤ κ`` for every ordered pair of groups, with P_k the proportion of the interval of group k
    that is above the threshold, by a surrogate; see `AtThreshold` for the formula.

    Parameters
    ----------
    interval : interval-like, optional
        Ranks from the top: ``(low, high)``, a list of such pairs (a union), or a mapping from group to
        either. By default the interval of the estimator that is given the constraint.
    max_gap : float, default=0.05
        Limit κ of the gap. Values below 0.001 count as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partialfair.metrics.partial_statistical_parity_difference`.
    threshold : float, default=0.0
        The threshold θ̂, in units of the scores.

    See Also
    --------
    partialfair.metrics.partial_demographic_parity_difference : The gap that the constraint limits.
    StatisticalParity : The constraint at all thresholds.

    Examples
    --------
    >>> from partialfair import PartialFairClassifier
    >>> from partialfair.constraints import DemographicParity
    >>> clf = PartialFairClassifier(DemographicParity((0.05, 0.30), max_gap=0.1))
    """

    called: ClassVar[str] = "demographic parity"

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Return one function per ordered pair of groups."""
        return self.bound(groups, weights, surrogate)


@dataclass(frozen=True)
class _ByLabel(AtThreshold):
    """Parity of the proportions selected at a threshold, separately among the members with each label."""

    labels: ClassVar[tuple[bool, ...]]

    def compared(self, positive: Positive) -> tuple[npt.NDArray[np.bool_], ...]:
        """Return a mask of rows for each label that counts."""
        if positive is None:
            raise InputError(f"{self.called} compares members with the same label, so it needs labels")
        return tuple(positive == label for label in self.labels)

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Return one function per ordered pair of groups and label."""
        return join(
            [
                self.bound(groups, np.where(rows, weights, 0.0), surrogate, f" {LABEL_KINDS[label]}")
                for label, rows in zip(self.labels, self.compared(positive), strict=True)
            ]
        )


@dataclass(frozen=True)
class EqualOpportunity(_ByLabel):
    """Partial equal opportunity (pEOP) at one threshold (Appendix A).

    `DemographicParity` among the positives: ``P_k − P_k' ≤ κ`` with M_k the mean of σ over the positives of
    group k. Ranks are counted within the positives of each group, as in
    ``partial_equal_opportunity_difference(..., rank_within="group_and_label")``, and not within the whole
    group as in the definition of the metric.

    Parameters
    ----------
    interval : interval-like, optional
        Ranks from the top: ``(low, high)``, a list of such pairs (a union), or a mapping from group to
        either. By default the interval of the estimator that is given the constraint.
    max_gap : float, default=0.05
        Limit κ of the gap. Values below 0.001 count as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partialfair.metrics.partial_statistical_parity_difference`.
    threshold : float, default=0.0
        The threshold θ̂, in units of the scores.

    See Also
    --------
    partialfair.metrics.partial_equal_opportunity_difference : The gap that the constraint limits.
    EqualizedOdds : The constraint for both labels.

    Examples
    --------
    >>> from partialfair import PartialFairClassifier
    >>> from partialfair.constraints import EqualOpportunity
    >>> clf = PartialFairClassifier(EqualOpportunity((0.05, 0.30), max_gap=0.1))
    """

    called: ClassVar[str] = "equal opportunity"
    counted: ClassVar[str] = "positives"
    labels: ClassVar[tuple[bool, ...]] = (True,)


@dataclass(frozen=True)
class EqualizedOdds(_ByLabel):
    """Partial equalized odds (pEOD) at one threshold (Appendix A).

    `EqualOpportunity` among the positives and also among the negatives. The paper's maximum over the two
    labels is at most κ if and only if both gaps are; here each is a separate function with its own
    linearization.

    Parameters
    ----------
    interval : interval-like, optional
        Ranks from the top: ``(low, high)``, a list of such pairs (a union), or a mapping from group to
        either. By default the interval of the estimator that is given the constraint.
    max_gap : float, default=0.05
        Limit κ of the gap. Values below 0.001 count as 0.001.
    gap_scale : {"interval", "absolute"}, default="interval"
        Scale of the gap; see `partialfair.metrics.partial_statistical_parity_difference`.
    threshold : float, default=0.0
        The threshold θ̂, in units of the scores.

    See Also
    --------
    partialfair.metrics.partial_equalized_odds_difference : The gap that the constraint limits.
    EqualOpportunity : The constraint for positives only.

    Examples
    --------
    >>> from partialfair import PartialFairClassifier
    >>> from partialfair.constraints import EqualizedOdds
    >>> clf = PartialFairClassifier(EqualizedOdds((0.05, 0.30), max_gap=0.1))
    """

    called: ClassVar[str] = "equalized odds"
    counted: ClassVar[str] = "positives or negatives"
    labels: ClassVar[tuple[bool, ...]] = (True, False)
