"""The paper's in-processing baselines: pairwise fairness of whole groups by a quadratic surrogate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair._checks import check_number
from partialfair._typing import Floats, GapScale, IntervalLike
from partialfair.constraints.base import LEAST_GAP, Constraint, Positive, refuse_empty_groups
from partialfair.constraints.block import ConstraintBlock
from partialfair.dc import DC, DCSystem, QuadraticPairs, atom
from partialfair.exceptions import InputError
from partialfair.groups import Groups, members_of
from partialfair.surrogates import Surrogate

__all__ = ["InterGroupPairwise", "IntraGroupPairwise", "QuadraticGroupAUC"]

_Cells: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class _Quadratic(Constraint):
    """``Σ [A(a, b) − ½ margin²] ≤ κ`` for every ordered pair of groups, over some pairs of cells.

    ``A(a, b)`` is the mean of ``½ (margin + s − t)²`` over members s of cell a and t of cell b
    (ellquadratic). A mean of convex functions of scores is convex, so these constraints are, for linear
    scorers. The surrogate of other constraints plays no part.

    Margin and κ are in units of scores and of their squares. Where scores are counted in another unit,
    ``½ (margin + s − t)² = unit² · ½ (margin/unit + s/unit − t/unit)²``: `in_units` divides the margin by the
    unit and κ by its square. Functions are divided by ``max(κ, margin²)``: they are then the same in any
    unit, and a solver's tolerance is relative to the limit. In a negative unit the margin is negative: it is
    t that should be ahead.

    Parameters
    ----------
    max_gap
        κ, in units of the quadratic: the paper's go up to 15. It bounds no exact metric.
    margin
        By how much s should be ahead of t, in units of the scores; 1 in the paper.
    """

    interval: IntervalLike = field(default=(0.0, 1.0), init=False)
    gap_scale: GapScale = field(default="interval", init=False)
    margin: float = field(default=1.0, kw_only=True)

    largest_gap: ClassVar[float] = np.inf
    by_label: ClassVar[bool] = True
    counted: ClassVar[str] = "positives or negatives"
    called: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.margin, f"the margin of {self.called}")
        if self.margin == 0:
            raise InputError(f"the margin of {self.called} must not be 0")

    @property
    def kappa(self) -> float:
        """κ with some room inside, which is measured by the margin."""
        return max(self.max_gap, LEAST_GAP * self.margin**2)

    @property
    def _scale(self) -> float:
        """What violations are counted in."""
        return max(self.kappa, self.margin**2)

    def in_units(self, unit: float) -> _Quadratic:
        """Return the constraint with the same functions of scores in that unit."""
        return replace(self, max_gap=self.max_gap / unit**2, margin=self.margin / unit)

    @abstractmethod
    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return the pairs of cells that are summed up for an ordered pair of groups."""

    def compared(self, positive: Positive) -> tuple[npt.NDArray[np.bool_], ...]:
        """Return positives and negatives, or everybody."""
        if not self.by_label:
            return super().compared(positive)
        if positive is None:
            raise InputError(f"{self.called} compares positives with negatives, so it needs labels")
        return positive, ~positive

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """One convex function per ordered pair of groups."""
        for rows in self.compared(positive):
            refuse_empty_groups(groups, np.where(rows, weights, 0.0), self.counted)
        n_groups = len(groups.labels)
        ordered = list(permutations(range(n_groups), 2))
        position: dict[_Cells, int] = {}
        for k, other in ordered:
            for cells in self.cells(k, other):
                position.setdefault(cells, len(position))
        codes, n_labels = groups.codes.astype(np.int64), 1
        if self.by_label and positive is not None:
            codes, n_labels = np.where(codes >= 0, 2 * codes + positive, -1), 2
        bank = QuadraticPairs(n_groups, n_labels, tuple(position), float(self.margin))
        functions = []
        for k, other in ordered:
            compared = self.cells(k, other)
            total = sum((atom(position[cells]) for cells in compared), DC())
            limit = 0.5 * self.margin**2 * len(compared) + self.kappa
            functions.append((1 / self._scale) * (total - limit))
        at_most = f"{self.max_gap / self.margin**2:g}{'' if self.margin == 1 else ' squared margins'}"
        names = [
            f"{self.called} of {groups.names[k]} over {groups.names[other]} at most {at_most}"
            for k, other in ordered
        ]
        members = members_of(codes, weights, bank.n_cells)
        return ConstraintBlock(bank, members, DCSystem(tuple(functions), bank.n_atoms), tuple(names))


@dataclass(frozen=True)
class QuadraticGroupAUC(_Quadratic):
    """Group AUC by a quadratic surrogate (inprocess_gauc_approx).

    ``A(k, k') − ½ ≤ κ`` for every ordered pair of different groups, with ``A(k, k')`` the mean of
    ``½ (1 + s − t)²`` over members s of k and t of k'. With another margin, ``½ (margin + s − t)²`` and
    ``½ margin²``.

    Parameters
    ----------
    max_gap
        κ, in units of the quadratic: the paper's go up to 10. It bounds no exact metric.
    margin
        By how much s should be ahead of t, in units of the scores.
    """

    by_label: ClassVar[bool] = False
    counted: ClassVar[str] = "members"
    called: ClassVar[str] = "quadratic group AUC"

    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return (k, k')."""
        return ((k, other),)


@dataclass(frozen=True)
class InterGroupPairwise(_Quadratic):
    """Inter-group pairwise fairness by a quadratic surrogate (inprocess_igpf_approx).

    ``A(k⁺, k'⁻) + A(k⁻, k'⁺) − 1 ≤ κ`` for every ordered pair of different groups, with A the mean of
    ``½ (1 + s − t)²`` and k⁺, k⁻ the positives and negatives of k. The indices of the paper's second sum are
    swapped; this is the one that (igpf) asks for.

    Parameters
    ----------
    max_gap
        κ, in units of the quadratic: the paper's go up to 15. It bounds no exact metric.
    margin
        The 1 in A, and twice the ½ margin² that is subtracted: see `QuadraticGroupAUC`.
    """

    called: ClassVar[str] = "inter-group pairwise fairness"

    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return (k⁺, k'⁻) and (k⁻, k'⁺)."""
        return (2 * k + 1, 2 * other), (2 * k, 2 * other + 1)


@dataclass(frozen=True)
class IntraGroupPairwise(_Quadratic):
    """Intra-group pairwise fairness by a quadratic surrogate (inprocess_itgpf_approx).

    ``A(k⁺, k⁻) + A(k'⁻, k'⁺) − 1 ≤ κ`` for every ordered pair of different groups, with A the mean of
    ``½ (1 + s − t)²`` and k⁺, k⁻ the positives and negatives of k.

    Parameters
    ----------
    max_gap
        κ, in units of the quadratic: the paper's go up to 10. It bounds no exact metric.
    margin
        The 1 in A, and twice the ½ margin² that is subtracted: see `QuadraticGroupAUC`.
    """

    called: ClassVar[str] = "intra-group pairwise fairness"

    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return (k⁺, k⁻) and (k'⁻, k'⁺)."""
        return (2 * k + 1, 2 * k), (2 * other, 2 * other + 1)
