"""Fairness constraints as difference-of-convex functions of scores; the one module that knows both languages.

A constraint is a frozen, reusable statement ("statistical parity on ranks 5–30 % with gap at most .05").
`build` ties it to groups and weights and gives a `ConstraintBlock`: the atoms, the functions ``f_i ≤ 0`` of
them, and thresholds θ at which a model that scores everybody 0 is feasible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, permutations
from typing import get_args

import numpy as np

from partialfair._checks import check_choice, check_count, check_number
from partialfair._state import StoredAsPairs
from partialfair._typing import Floats, GapScale, IntervalLike
from partialfair.dc import DC, Affine, AtomBank, DCSystem, GroupMeans, JoinedBank, atom, maximum
from partialfair.exceptions import InputError
from partialfair.groups import Groups, group_name
from partialfair.intervals import IntervalSet, as_interval_set, intervals_by_group
from partialfair.surrogates import Surrogate

__all__ = [
    "CONSTRAINTS",
    "Constraint",
    "ConstraintBlock",
    "DemographicParity",
    "StatisticalParity",
    "check_compatible",
    "join",
]

_LEAST_GAP = 1e-3
_VACUOUS = 1e-9


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
    """

    bank: AtomBank
    system: DCSystem
    theta0: Floats
    names: tuple[str, ...]
    thresholds_at: Callable[[Floats], Floats] = lambda scores: np.empty(0)


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
        κ, the largest gap allowed, in [0, 1]. Less than .001 counts as .001: a constraint with no room inside
        (against Assumption assume:DC B) need not have multipliers, and no sample tells such gaps apart.
    gap_scale
        ``"interval"``, the definition, or ``"absolute"``, the paper's experiments; see `partialfair.metrics`.
    """

    interval: IntervalLike = (0.0, 1.0)
    max_gap: float = 0.05
    gap_scale: GapScale = "interval"

    def __post_init__(self) -> None:
        check_number(self.max_gap, "max_gap", low=0.0, high=1.0)
        check_choice(self.gap_scale, "gap_scale", get_args(GapScale))

    @property
    def kappa(self) -> float:
        """κ with some room inside."""
        return max(self.max_gap, _LEAST_GAP)

    @abstractmethod
    def build(self, groups: Groups, weights: Floats, surrogate: Surrogate) -> ConstraintBlock:
        """Tie the constraint to the rows of a training set."""

    def intervals(self, groups: Groups) -> tuple[IntervalSet, ...]:
        """Return the interval of each group, refusing those that hold fewer than two members."""
        parts = intervals_by_group(self.interval, groups.labels)
        counts = np.bincount(groups.codes[groups.codes >= 0], minlength=len(groups.labels))
        for label, part, count in zip(groups.labels, parts, counts, strict=True):
            if count * part.measure < 2 - 1e-9:
                raise InputError(
                    f"the interval of {part} holds fewer than two of the {count} members of group "
                    f"{group_name(label)!r}; merge small groups or widen the interval"
                )
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


@dataclass(frozen=True)
class StatisticalParity(Constraint):
    """Partial statistical parity (pSP) by surrogate bands at a grid of ranks (inprocess_pdp_approx).

    For each u of a grid there is one θ_u with ``p_k(u) ≤ mean σ(s − θ_u) ≤ p_k(u + κ)`` in every group k,
    where ``p_k(u)`` is the rank at which a share u of the group's interval has been passed. On the absolute
    scale the grid is of ranks p in [α, β) and the band ``p ≤ mean σ(s − θ_p) ≤ p + κ``. Violations are on the
    scale of the gap: on the interval scale they are shares of the interval, not of the group.

    Parameters
    ----------
    interval, max_gap, gap_scale
        As in `Constraint`.
    n_points
        Size of the grid. On the interval scale it is ``u_j = j(1 − κ)/(N + 1)``, which guarantees κ plus one
        step; on the absolute scale the paper's ``p_j = α + j(β − α)/N``, j = 0, ..., N − 1.
    points
        The grid itself: shares u in [0, 1 − κ], on the absolute scale ranks p.
    """

    n_points: int = 10
    points: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.n_points, "n_points")
        for point in self.points or ():
            check_number(point, "a point of statistical parity", low=0.0, high=1.0)

    def build(self, groups: Groups, weights: Floats, surrogate: Surrogate) -> ConstraintBlock:
        """Two functions per point and group: mean σ at least the lower rank, at most the upper one."""
        lows, highs = self.rank_boxes(groups)
        relative = self.gap_scale == "interval"
        factors = [1 / part.measure if relative else 1.0 for part in self.intervals(groups)]
        bank = GroupMeans(surrogate, groups.codes, weights, len(groups.labels), len(lows))
        functions: list[DC] = []
        names: list[str] = []
        for j in range(len(lows)):
            for k, name in enumerate(groups.names):
                mean = atom(bank.plus(k, j)) - atom(bank.minus(k, j))
                if lows[j, k] > _VACUOUS:  # a mean of σ is never below 0
                    functions.append(factors[k] * (-mean + lows[j, k]))
                    names.append(f"at least {100 * lows[j, k]:.3g} % of {name} above threshold {j + 1}")
                if highs[j, k] < 1 - _VACUOUS:  # nor above 1
                    functions.append(factors[k] * (mean - highs[j, k]))
                    names.append(f"at most {100 * highs[j, k]:.3g} % of {name} above threshold {j + 1}")
        # Scores 0: every group has mean σ(−θ), put into the middle of the band that all groups share.
        middles = np.clip((lows.max(axis=1) + highs.min(axis=1)) / 2, 1e-6, 1 - 1e-6)
        theta0 = np.array([-surrogate.level(float(middle)) for middle in middles])
        return ConstraintBlock(
            bank,
            DCSystem(tuple(functions), bank.n_atoms),
            theta0,
            tuple(names),
            lambda scores: _scores_at(np.clip((lows + highs) / 2, 0, 1), scores, bank),
        )

    def rank_boxes(self, groups: Groups) -> tuple[Floats, Floats]:
        """Return the lower and upper rank of each point in each group.

        Points at which a threshold above or below all scores would do are left out.
        """
        lows, highs = self._boxes(groups)
        asked = (lows > _VACUOUS).any(axis=1) & (highs < 1 - _VACUOUS).any(axis=1)
        return lows[asked], highs[asked]

    def _boxes(self, groups: Groups) -> tuple[Floats, Floats]:
        intervals, kappa = self.intervals(groups), self.kappa
        if self.gap_scale == "absolute":
            shares = np.arange(self.n_points) / self.n_points
            ranks = intervals[0].rank_at(shares, side="right") if self.points is None else self.points
            lows = np.tile(np.asarray(ranks)[:, None], (1, len(intervals)))
            return lows, lows + kappa
        shares = np.arange(1, self.n_points + 1) * (1 - kappa) / (self.n_points + 1)
        if self.points is not None:
            shares = np.minimum(self.points, 1 - kappa)
        lows = np.stack([part.rank_at(shares, side="left") for part in intervals], axis=1)
        highs = np.stack([part.rank_at(shares + kappa, side="right") for part in intervals], axis=1)
        return lows, highs

    def prepared(self) -> StatisticalParity:
        """Return the constraint with a grid that reaches everywhere the exact gap looks, ends included.

        Scores pile up just beyond the last point, where nothing is asked of them.
        """
        if self.points is not None:
            return self
        places = np.linspace(0.0, 1.0, self.n_points + 2)
        if self.gap_scale == "interval":
            return replace(self, points=tuple((places * (1 - self.kappa)).tolist()))
        return replace(self, points=tuple(self._reach.rank_at(places, side="left").tolist()))

    def denser(self) -> StatisticalParity:
        """Return the constraint with a point between any two."""
        points = np.array(self.prepared().points)
        return replace(self, points=(*points.tolist(), *((points[1:] + points[:-1]) / 2).tolist()))

    @property
    def _reach(self) -> IntervalSet:
        """``[max(0, α − κ), β)``: where one group may be inside the interval while another is κ before it."""
        parts = as_interval_set(self.interval).parts
        return as_interval_set(_merged([(max(0.0, low - self.kappa), high) for low, high in parts]))

    def refined(self, groups: Groups, pair: tuple[int, int], ranks: tuple[float, float]) -> StatisticalParity:
        """Return the constraint with one more point, whose band holds the middle of the two ranks."""
        places = np.array(ranks)
        if self.gap_scale == "interval":
            intervals = self.intervals(groups)
            places = np.array(
                [intervals[k].passed(np.array(rank)) for k, rank in zip(pair, ranks, strict=True)]
            )
        point = float(np.clip(places.mean() - self.kappa / 2, 0.0, 1.0 - self.kappa))
        return replace(self, points=(*(self.points or ()), point))


def _merged(parts: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return increasing intervals with those that overlap joined."""
    joined = [parts[0]]
    for low, high in parts[1:]:
        if low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def _scores_at(ranks: Floats, scores: Floats, bank: GroupMeans) -> Floats:
    """Return the groups' mean scores at some ranks (n, n_groups) from the top."""
    found = np.empty_like(ranks)
    for k in range(bank.n_groups):
        members = np.flatnonzero(bank.codes == k)
        order = members[np.argsort(-scores[members])]
        passed = np.cumsum(bank.shares[order])
        found[:, k] = scores[order[np.minimum(np.searchsorted(passed, ranks[:, k]), order.size - 1)]]
    return np.asarray(found.mean(axis=1))


@dataclass(frozen=True)
class DemographicParity(Constraint):
    """Partial demographic parity (pDP) at one threshold (inprocess_wpdp_approx).

    ``P_k − P_k' ≤ κ`` for every ordered pair, with ``P_k = Σ_parts [min(M_k, β) − min(M_k, α)] / m_k`` (not
    divided on the absolute scale) and ``M_k = A_k − B_k`` the mean of σ = σ⁺ − σ⁻ at the threshold. Since
    ``min(A − B, c) = A − max(B, A − c) ``, each part is ``max(B, A − α) − max(B, A − β)``: the mean σ⁺ terms
    of the paper's (DCexample1_wpdp) cancel, which gives the same f with a tighter linearisation.

    Parameters
    ----------
    interval, max_gap, gap_scale
        As in `Constraint`.
    threshold
        θ̂, in units of the scores.
    """

    threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.threshold, "the threshold of demographic parity")

    def build(self, groups: Groups, weights: Floats, surrogate: Surrogate) -> ConstraintBlock:
        """One function per ordered pair of groups."""
        intervals = self.intervals(groups)
        bank = GroupMeans(
            surrogate, groups.codes, weights, len(groups.labels), 0, fixed=(float(self.threshold),)
        )
        shares = [self._share(bank, k, part) for k, part in enumerate(intervals)]
        functions, names = [], []
        for k, other in permutations(range(len(groups.labels)), 2):
            functions.append(shares[k] - shares[other] - self.kappa)
            names.append(
                f"{groups.names[k]} selected at most {self.max_gap:g} more than {groups.names[other]}"
            )
        return ConstraintBlock(bank, DCSystem(tuple(functions), bank.n_atoms), np.empty(0), tuple(names))

    def _share(self, bank: GroupMeans, k: int, part: IntervalSet) -> DC:
        plus, minus = (bank.plus(k, 0), 1.0), (bank.minus(k, 0), 1.0)
        share = DC()
        for low, high in part.parts:
            below = maximum(Affine((minus,)), Affine((plus,), -low))
            share = share + below - maximum(Affine((minus,)), Affine((plus,), -high))
        return (1.0 if self.gap_scale == "absolute" else 1.0 / part.measure) * share


CONSTRAINTS: dict[str, type[Constraint]] = {
    "statistical_parity": StatisticalParity,
    "demographic_parity": DemographicParity,
}
"""Names that estimators accept; a new constraint is one class and one entry."""
