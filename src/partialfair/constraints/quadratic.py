"""The paper's in-processing baselines: pairwise fairness of whole groups by a quadratic surrogate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from itertools import permutations
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair._typing import Floats, GapScale, IntervalLike
from partialfair.constraints.base import Constraint, ConstraintBlock, Positive, refuse_empty_groups
from partialfair.dc import DC, DCSystem, QuadraticPairs, atom
from partialfair.exceptions import InputError
from partialfair.groups import Groups
from partialfair.surrogates import Surrogate

__all__ = ["InterGroupPairwise", "IntraGroupPairwise", "QuadraticGroupAUC"]

_Cells: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class _Quadratic(Constraint):
    """``Σ A(a, b) − offset ≤ κ`` for every ordered pair of groups, over some pairs of cells.

    ``A(a, b)`` is the mean of ``½ (1 + s − t)²`` over members s of cell a and t of cell b (ellquadratic). A
    mean of convex functions of scores is convex, so these constraints are, for linear scorers. The surrogate
    of other constraints plays no part.

    Parameters
    ----------
    max_gap
        κ, in units of the quadratic: the paper's go up to 15. It bounds no exact metric.
    """

    interval: IntervalLike = field(default=(0.0, 1.0), init=False)
    gap_scale: GapScale = field(default="interval", init=False)

    largest_gap: ClassVar[float] = np.inf
    by_label: ClassVar[bool] = True
    counted: ClassVar[str] = "positives or negatives"
    called: ClassVar[str]

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
        labels, n_labels = np.zeros(groups.codes.size, dtype=np.int64), 1
        if self.by_label and positive is not None:
            labels, n_labels = positive.astype(np.int64), 2
        bank = QuadraticPairs(groups.codes, labels, weights, n_groups, n_labels, tuple(position))
        functions = []
        for k, other in ordered:
            compared = self.cells(k, other)
            total = sum((atom(position[cells]) for cells in compared), DC())
            functions.append(total - (0.5 * len(compared) + self.kappa))
        names = [
            f"{self.called} of {groups.names[k]} over {groups.names[other]} at most {self.max_gap:g}"
            for k, other in ordered
        ]
        return ConstraintBlock(bank, DCSystem(tuple(functions), bank.n_atoms), np.empty(0), tuple(names))


@dataclass(frozen=True)
class QuadraticGroupAUC(_Quadratic):
    """Group AUC by a quadratic surrogate (inprocess_gauc_approx).

    ``A(k, k') − ½ ≤ κ`` for every ordered pair of different groups, with ``A(k, k')`` the mean of
    ``½ (1 + s − t)²`` over members s of k and t of k'.

    Parameters
    ----------
    max_gap
        κ, in units of the quadratic: the paper's go up to 10. It bounds no exact metric.
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
    """

    called: ClassVar[str] = "intra-group pairwise fairness"

    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return (k⁺, k⁻) and (k'⁻, k'⁺)."""
        return (2 * k + 1, 2 * k), (2 * other, 2 * other + 1)
