"""Parity of score distributions, and of the shares that are selected at one threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import ClassVar

import numpy as np

from partialfair._checks import check_count, check_number
from partialfair._typing import Floats
from partialfair.constraints.base import Constraint, ConstraintBlock, Positive, join, refuse_empty_groups
from partialfair.dc import DC, Affine, DCSystem, GroupMeans, atom, maximum
from partialfair.exceptions import InputError
from partialfair.groups import Groups
from partialfair.intervals import IntervalSet, as_interval_set
from partialfair.surrogates import Surrogate

__all__ = ["AtThreshold", "DemographicParity", "StatisticalParity"]

_VACUOUS = 1e-9


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
        The grid itself: ``u / (1 − κ)`` in [0, 1], on the absolute scale ranks p.
    """

    n_points: int = 10
    points: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.n_points, "n_points")
        if not (self.points is None or isinstance(self.points, Sequence)) or isinstance(self.points, str):
            raise InputError(f"points of statistical parity must be a tuple of numbers, not {self.points!r}")
        for point in self.points or ():
            check_number(point, "a point of statistical parity", low=0.0, high=1.0)

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Two functions per point and group: mean σ at least the lower rank, at most the upper one."""
        lows, highs, places = self._asked(groups)
        if not places:
            return join([])
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
                    names.append(f"at least {100 * lows[j, k]:.3g} % of {name} ahead of threshold {j + 1}")
                if highs[j, k] < 1 - _VACUOUS:  # nor above 1
                    functions.append(factors[k] * (mean - highs[j, k]))
                    names.append(f"at most {100 * highs[j, k]:.3g} % of {name} ahead of threshold {j + 1}")
        # Scores 0: every group has mean σ(−θ), put into the middle of the band that all groups share.
        middles = np.clip((lows.max(axis=1) + highs.min(axis=1)) / 2, 1e-6, 1 - 1e-6)
        theta0 = np.array([-surrogate.level(float(middle)) for middle in middles])
        return ConstraintBlock(
            bank,
            DCSystem(tuple(functions), bank.n_atoms),
            theta0,
            tuple(names),
            lambda scores: _scores_at(np.clip((lows + highs) / 2, 0, 1), scores, bank),
            places,
        )

    def rank_boxes(self, groups: Groups) -> tuple[Floats, Floats]:
        """Return the lower and upper rank of each point in each group."""
        return self._asked(groups)[:2]

    def _asked(self, groups: Groups) -> tuple[Floats, Floats, tuple[float, ...]]:
        """Return lower and upper ranks and points, without those at which a θ beyond all scores would do."""
        intervals, kappa = self.intervals(groups), self.kappa
        points = np.array(self._grid if self.points is None else self.points)
        if self.gap_scale == "absolute":
            lows = np.tile(points[:, None], (1, len(intervals)))
            highs = lows + kappa
        else:
            shares = points * (1 - kappa)
            lows = np.stack([part.rank_at(shares, side="left") for part in intervals], axis=1)
            highs = np.stack([part.rank_at(shares + kappa, side="right") for part in intervals], axis=1)
        asked = (lows > _VACUOUS).any(axis=1) & (highs < 1 - _VACUOUS).any(axis=1)
        return lows[asked], highs[asked], tuple(points[asked].tolist())

    @property
    def _grid(self) -> Floats:
        """The paper's grid on the absolute scale, and the one with the best guarantee on the other."""
        if self.gap_scale == "absolute":
            shares = np.arange(self.n_points) / self.n_points
            return self._common.rank_at(shares, side="right")
        return np.arange(1, self.n_points + 1) / (self.n_points + 1)

    @property
    def _common(self) -> IntervalSet:
        """The interval of all groups, which the absolute scale asks for."""
        if isinstance(self.interval, Mapping):
            return as_interval_set(next(iter(self.interval.values())))
        return as_interval_set(self.interval)

    def prepared(self) -> StatisticalParity:
        """Return the constraint with a grid that reaches everywhere the exact gap looks, ends included.

        Scores pile up just beyond the last point, where nothing is asked of them.
        """
        if self.points is not None:
            return self
        places = np.linspace(0.0, 1.0, self.n_points + 2)
        if self.gap_scale == "absolute":
            places = self._reach.rank_at(places, side="left")
        return replace(self, points=tuple(places.tolist()))

    def denser(self) -> StatisticalParity:
        """Return the constraint with a point between any two."""
        points = np.array(self.prepared().points)
        return replace(self, points=(*points.tolist(), *((points[1:] + points[:-1]) / 2).tolist()))

    @property
    def _reach(self) -> IntervalSet:
        """``[max(0, α − κ), β)``: where one group may be inside the interval while another is κ before it."""
        parts = self._common.parts
        return as_interval_set(_merged([(max(0.0, low - self.kappa), high) for low, high in parts]))

    def refined(self, groups: Groups, pair: tuple[int, int], ranks: tuple[float, float]) -> StatisticalParity:
        """Return the constraint with one more point, whose band holds the middle of the two ranks."""
        places = np.array(ranks)
        if self.gap_scale == "interval":
            parts = self.intervals(groups)
            places = np.array([parts[k].passed(np.array(rank)) for k, rank in zip(pair, ranks, strict=True)])
        point = float(np.clip(places.mean() - self.kappa / 2, 0.0, 1.0 - self.kappa))
        if self.gap_scale == "interval":
            point /= 1 - self.kappa
        if np.isclose(self.points or (), point, atol=1e-6).any():
            return self
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
class AtThreshold(Constraint):
    """What constraints on the shares selected at one threshold have in common.

    ``P_k − P_k' ≤ κ`` for every ordered pair, with ``P_k = Σ_parts [min(M_k, β) − min(M_k, α)] / m_k`` (not
    divided on the absolute scale) and ``M_k = A_k − B_k`` the mean of σ = σ⁺ − σ⁻ at the threshold. Since
    ``min(A − B, c) = A − max(B, A − c)``, each part is ``max(B, A − α) − max(B, A − β)``: the mean σ⁺ terms
    of the paper's (DCexample1_wpdp) cancel, which gives the same f with a tighter linearisation.

    Parameters
    ----------
    interval, max_gap, gap_scale
        As in `Constraint`.
    threshold
        θ̂, in units of the scores.
    """

    threshold: float = 0.0

    called: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.threshold, f"the threshold of {self.called}")

    def bound(self, groups: Groups, weights: Floats, surrogate: Surrogate, kind: str = "") -> ConstraintBlock:
        """One function per ordered pair of groups, whose members count by their weights."""
        n_groups = len(groups.labels)
        refuse_empty_groups(groups, weights, kind.strip() or self.counted)
        bank = GroupMeans(surrogate, groups.codes, weights, n_groups, 0, fixed=(float(self.threshold),))
        shares = [self._share(bank, k, part) for k, part in enumerate(self.intervals(groups))]
        functions, names = [], []
        for k, other in permutations(range(n_groups), 2):
            functions.append(shares[k] - shares[other] - self.kappa)
            names.append(
                f"{groups.names[k]}{kind} selected at most {self.max_gap:g} more than "
                f"{groups.names[other]}{kind}"
            )
        return ConstraintBlock(bank, DCSystem(tuple(functions), bank.n_atoms), np.empty(0), tuple(names))

    def _share(self, bank: GroupMeans, k: int, part: IntervalSet) -> DC:
        plus, minus = (bank.plus(k, 0), 1.0), (bank.minus(k, 0), 1.0)
        share = DC()
        for low, high in part.parts:
            below = maximum(Affine((minus,)), Affine((plus,), -low))
            share = share + below - maximum(Affine((minus,)), Affine((plus,), -high))
        return (1.0 if self.gap_scale == "absolute" else 1.0 / part.measure) * share


@dataclass(frozen=True)
class DemographicParity(AtThreshold):
    """Partial demographic parity (pDP) at one threshold (inprocess_wpdp_approx).

    ``P_k − P_k' ≤ κ`` of `AtThreshold` with M_k the mean over all members of group k.

    Parameters
    ----------
    interval, max_gap, gap_scale, threshold
        As in `AtThreshold`.
    """

    called: ClassVar[str] = "demographic parity"

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """One function per ordered pair of groups."""
        return self.bound(groups, weights, surrogate)
