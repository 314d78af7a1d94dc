"""What a constraint is, and several of them together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import ClassVar, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from partialfair._checks import check_choice, check_number
from partialfair._state import StoredAsPairs
from partialfair._typing import Floats, GapScale, GroupLabel, IntervalLike
from partialfair.dc import AtomBank, DCSystem, JoinedBank
from partialfair.exceptions import InputError
from partialfair.groups import Groups
from partialfair.intervals import IntervalSet, as_interval_set, intervals_by_group
from partialfair.surrogates import Surrogate

__all__ = [
    "Constraint",
    "ConstraintBlock",
    "Positive",
    "check_compatible",
    "effective_sizes",
    "join",
    "refuse_empty_groups",
]

Positive: TypeAlias = npt.NDArray[np.bool_] | None
"""Which rows are positive; None if that is not known."""

_LEAST_GAP = 1e-3


@dataclass(frozen=True, eq=False)
class ConstraintBlock:
    """One constraint tied to data.

    Attributes
    ----------
    bank
        Convex atoms of the scores and of the block's own thresholds θ.
    system
        The functions ``f_i ≤ 0`` of the atoms.
    theta0
        Thresholds for scores that are all 0.
    thresholds_at
        From scores to thresholds that violate little.
    names
        What each f_i says, for messages: "at least 10 % of Women above θ₃".
    places
        What each threshold is for, a number by which thresholds of two such blocks are matched.
    """

    bank: AtomBank
    system: DCSystem
    theta0: Floats
    names: tuple[str, ...]
    thresholds_at: Callable[[Floats], Floats] = lambda scores: np.empty(0)
    places: tuple[float, ...] = ()


def join(blocks: Sequence[ConstraintBlock]) -> ConstraintBlock:
    """Return any number of constraints on the same rows as one; each keeps thresholds of its own."""
    bank = JoinedBank(tuple(block.bank for block in blocks))
    offsets = np.cumsum([0, *(block.bank.n_atoms for block in blocks)]).tolist()
    functions = tuple(
        f.renumbered(offset)
        for block, offset in zip(blocks, offsets, strict=False)
        for f in block.system.functions
    )
    return ConstraintBlock(
        bank,
        DCSystem(functions, bank.n_atoms),
        np.concatenate([np.empty(0), *(block.theta0 for block in blocks)]),
        tuple(name for block in blocks for name in block.names),
        lambda scores: np.concatenate([np.empty(0), *(block.thresholds_at(scores) for block in blocks)]),
    )


@dataclass(frozen=True)
class Constraint(StoredAsPairs, ABC):
    """What every constraint states.

    Parameters
    ----------
    interval
        Ranks from the top: ``(low, high)``, a list of such pairs, or a mapping from group to either.
    max_gap
        κ, the largest gap allowed, from 0 to ``largest_gap``. Less than .001 counts as .001: a constraint
        with no room inside (against Assumption assume:DC B) need not have multipliers, and no sample tells
        such gaps apart.
    gap_scale
        ``"interval"``, the definition, or ``"absolute"``, the paper's experiments; see `partialfair.metrics`.
    """

    interval: IntervalLike = (0.0, 1.0)
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
        """κ with some room inside."""
        return max(self.max_gap, _LEAST_GAP)

    @abstractmethod
    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Tie the constraint to the rows of a training set; some need to know which are positive."""

    def members(self, groups: Groups, weights: Floats, positive: Positive = None) -> Floats:
        """Return the effective members of each group inside its interval, ``n_k m_k``.

        ``n_k = (Σ w)² / Σ w²`` over the members that are compared, and m_k the measure of the interval.
        Refuses rows that the constraint cannot be tied to, before any work is done.
        """
        sizes = [effective_sizes(groups, np.where(rows, weights, 0.0)) for rows in self.compared(positive)]
        measures = np.array([part.measure for part in self.intervals(groups)])
        return np.asarray(np.min(sizes, axis=0) * measures)

    def compared(self, positive: Positive) -> tuple[npt.NDArray[np.bool_], ...]:
        """Return the rows that are compared between groups, one set or several; by default everybody."""
        return (np.array(True),)

    def among(self, labels: Sequence[GroupLabel]) -> Constraint:
        """Return the constraint on some groups only: intervals by group are those of these groups."""
        if not isinstance(self.interval, Mapping):
            return self
        kept = {label: part for label, part in self.interval.items() if label in labels}
        return replace(self, interval=kept)

    def intervals(self, groups: Groups) -> tuple[IntervalSet, ...]:
        """Return the interval of each group."""
        parts = intervals_by_group(self.interval, groups.labels)
        if self.gap_scale == "absolute" and any(part != parts[0] for part in parts):
            raise InputError("gap_scale='absolute' has no meaning when intervals differ by group")
        return parts

    def rank_boxes(self, groups: Groups) -> tuple[Floats, Floats]:
        """Return bounds (n, n_groups) on the ranks F̄_k(θ) at n thresholds, if it states any."""
        return np.empty((0, len(groups.labels))), np.empty((0, len(groups.labels)))

    def prepared(self) -> Constraint:
        """Return the constraint that is trained so that the exact gap is at most κ."""
        return self

    def denser(self) -> Constraint:
        """Return a constraint that looks more closely everywhere."""
        return self

    def refined(self, groups: Groups, pair: tuple[int, int], ranks: tuple[float, float]) -> Constraint:
        """Return a constraint that also looks where the ranks of a pair of groups differ too much."""
        return self

    def says(self) -> str:
        """Describe the constraint in a few words, for messages."""
        by_group = isinstance(self.interval, Mapping)
        where = "ranks by group" if by_group else str(as_interval_set(self.interval))
        return f"{type(self).__name__}({where}, max_gap={self.max_gap:g})"


def effective_sizes(groups: Groups, weights: Floats) -> Floats:
    """Return ``(Σ w)² / Σ w²`` over the members of each group; 0 for one without any weight."""
    inside = groups.codes >= 0
    sums, squares = (
        np.bincount(groups.codes[inside], weights=values[inside], minlength=len(groups.labels))
        for values in (weights, weights**2)
    )
    return np.divide(sums**2, squares, out=np.zeros(sums.size), where=squares > 0)


def refuse_empty_groups(groups: Groups, weights: Floats, kind: str) -> None:
    """Refuse groups in which nobody has weight: a mean over nobody has no value."""
    for name, size in zip(groups.names, effective_sizes(groups, weights), strict=True):
        if size == 0:
            raise InputError(f"group {name!r} has no {kind} to compare")


def check_compatible(constraints: Sequence[Constraint], groups: Groups) -> None:
    """Refuse lists that contradict themselves: the same demand twice, or demands that exclude each other.

    Ranks fall in every group as a threshold rises. So of two boxes of ranks, one must be reachable from the
    other by going down in all groups, or no scores whatsoever meet both.
    """
    for one, other in combinations(constraints, 2):
        if _same_demand(one, other, groups):
            raise InputError(f"the list asks for {one.says()} and for {other.says()}; keep one of them")
        lows, highs = one.rank_boxes(groups)
        other_lows, other_highs = other.rank_boxes(groups)
        above = (lows[:, None] <= other_highs[None] + 1e-12).all(axis=2)
        below = (other_lows[None] <= highs[:, None] + 1e-12).all(axis=2)
        if not (above | below).all():
            raise InputError(f"no scores can satisfy both {one.says()} and {other.says()}")


def _same_demand(one: Constraint, other: Constraint, groups: Groups) -> bool:
    """Whether two constraints differ in ``max_gap`` at most, however their intervals are written."""
    own = [field.name for field in fields(one) if field.name not in ("interval", "max_gap")]
    return (
        type(one) is type(other)
        and all(getattr(one, name) == getattr(other, name) for name in own)
        and one.intervals(groups) == other.intervals(groups)
    )
