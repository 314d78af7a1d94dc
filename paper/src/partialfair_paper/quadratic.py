"""Defines the paper's in-processing baselines: pairwise fairness on whole groups with quadratic surrogates.

`QuadraticPairs` computes means of ``½ (margin + x)²`` over pairs in closed form; three constraints are sums
of such means.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.exceptions import InputError
from partialfair.extension import (
    DC,
    LEAST_GAP,
    Constraint,
    ConstraintBlock,
    DCSystem,
    Floats,
    GapScale,
    Gradient,
    Groups,
    IntervalLike,
    Ints,
    Members,
    Positive,
    RowColumns,
    Surrogate,
    atom,
    check_number,
    members_of,
    refuse_empty_groups,
)

_Cells: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False)
class QuadraticPairs:
    """``A(a, b) = mean of ½ (margin + s_i − t_j)²``, with s from cell a and t from cell b (Equation 72).

    With means μ and variances v of the scores of a cell, ``A = ½ [(margin + μ_a − μ_b)² + v_a + v_b]``, so
    all of them take one pass. A cell is a group, or the members of a group with one label. ``codes`` of the
    members are cells, and the weights of each cell sum to 1. Squares of means are not additive over shards.

    Parameters
    ----------
    n_groups, n_labels : int
        Numbers of groups and labels; the number of a cell is ``group · n_labels + label``.
    pairs : tuple of tuple of int
        The cells (a, b) to compare.
    margin : float, default=1.0
        Required lead of s over t, in units of the scores; 1 in the paper.
    """

    n_groups: int
    n_labels: int
    pairs: tuple[tuple[int, int], ...]
    margin: float = 1.0

    @property
    def n_cells(self) -> int:
        """Groups times labels."""
        return self.n_groups * self.n_labels

    @property
    def n_atoms(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    @property
    def n_theta(self) -> int:
        """Zero: there are no thresholds."""
        return 0

    @property
    def additive(self) -> bool:
        """False, because means are squared."""
        return False

    def values(self, scores: Floats, members: Members, theta: Floats) -> Floats:
        """Return the values of all atoms."""
        means = self._means(scores, members)
        variances = self._sums(members.shares * (scores - _of_rows(means, members)) ** 2, members)
        first, second = self._ends
        leads = self.margin + means[first] - means[second]
        return np.asarray((leads**2 + variances[first] + variances[second]) / 2)

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: Members, theta: Floats
    ) -> Gradient:
        """Return derivatives of ``Σ coefficients · atoms`` in each score."""
        first, second = self._ends
        at_first, at_second = self._constants(scores, members)
        constants, factors = np.zeros(self.n_cells), np.zeros(self.n_cells)
        np.add.at(constants, first, coefficients * at_first)
        np.add.at(constants, second, coefficients * at_second)
        for cells in (first, second):
            np.add.at(factors, cells, coefficients)
        slopes = members.shares * _of_rows(factors, members)
        if order == 1:
            slopes = members.shares * (_of_rows(constants, members) + _of_rows(factors, members) * scores)
        return Gradient(slopes, np.empty(0))

    def columns(
        self, scores: Floats, members: Members, theta: Floats, curved: Sequence[Floats] = ()
    ) -> Iterator[RowColumns]:
        """Yield the gradients of all atoms as one table by cell."""
        table, atoms = np.zeros((1, self.n_cells, 2, self.n_atoms)), np.arange(self.n_atoms)
        for cells, constants in zip(self._ends, self._constants(scores, members), strict=True):
            table[0, cells, 0, atoms] += constants
            table[0, cells, 1, atoms] += 1.0
        shares = members.shares
        yield RowColumns(np.stack([shares, shares * scores], axis=1), members.codes, table)

    def _constants(self, scores: Floats, members: Members) -> tuple[Floats, Floats]:
        """Return p for each atom: its gradient is ``ω_i (p + s_i)`` in cell a, and likewise in cell b.

        The gradients are ``ω_i (margin + s_i − μ_b)`` and ``ω_j (t_j − μ_a − margin)``.
        """
        means = self._means(scores, members)
        first, second = self._ends
        return self.margin - means[second], -(self.margin + means[first])

    def _means(self, scores: Floats, members: Members) -> Floats:
        return self._sums(members.shares * scores, members)

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        ends = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def _sums(self, values: Floats, members: Members) -> Floats:
        """Sum values by cell."""
        known = members.codes >= 0
        sums = np.bincount(members.codes[known], weights=values[known], minlength=self.n_cells)
        return np.asarray(sums, dtype=np.float64)


def _of_rows(by_cell: Floats, members: Members) -> Floats:
    """Return the value of each score's cell, 0 without a cell."""
    return np.append(by_cell, 0.0)[members.codes]


@dataclass(frozen=True)
class _Quadratic(Constraint):
    """``Σ [A(a, b) − ½ margin²] ≤ κ`` for every ordered pair of groups, over some pairs of cells.

    ``A(a, b)`` is the mean of ``½ (margin + s − t)²`` over members s of cell a and t of cell b (Equation 72).
    A mean of convex functions of scores is convex, so these constraints are convex for linear models. The
    `surrogate` of other constraints is not used.

    The margin is in units of scores and κ in squared units. With scores in another unit,
    ``½ (margin + s − t)² = unit² · ½ (margin/unit + s/unit − t/unit)²``, so `in_units` divides the margin by
    the unit and κ by its square. Functions are divided by ``max(κ, margin²)``, which makes them independent
    of the unit and a solver's tolerance relative to the limit. In a negative unit the margin is negative, and
    t must lead.

    Parameters
    ----------
    max_gap : float, default=0.05
        κ, in units of the quadratic; the paper uses values up to 15. It does not bound an exact metric.
    margin : float, default=1.0
        Required lead of s over t, in units of the scores; 1 in the paper.
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
        """κ, or a small multiple of the squared margin if that is larger, so that interior points exist."""
        return max(self.max_gap, LEAST_GAP * self.margin**2)

    @property
    def _scale(self) -> float:
        """The unit of violations."""
        return max(self.kappa, self.margin**2)

    def in_units(self, unit: float) -> _Quadratic:
        """Return the same constraint for scores in another unit."""
        return replace(self, max_gap=self.max_gap / unit**2, margin=self.margin / unit)

    @abstractmethod
    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return the pairs of cells whose means are summed for an ordered pair of groups."""

    def compared(self, positive: Positive) -> tuple[npt.NDArray[np.bool_], ...]:
        """Return masks of positives and negatives, or of all rows."""
        if not self.by_label:
            return super().compared(positive)
        if positive is None:
            raise InputError(f"{self.called} compares positives with negatives, so it needs labels")
        return positive, ~positive

    def build(
        self, groups: Groups, weights: Floats, surrogate: Surrogate, positive: Positive = None
    ) -> ConstraintBlock:
        """Return one convex function per ordered pair of groups."""
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
    """Group AUC with a quadratic surrogate (Equation 71).

    ``A(k, k') − ½ ≤ κ`` for every ordered pair of different groups, where ``A(k, k')`` is the mean of
    ``½ (1 + s − t)²`` over members s of k and t of k'. With another margin, ``½ (margin + s − t)²`` and
    ``½ margin²``.

    Parameters
    ----------
    max_gap : float, default=0.05
        κ, in units of the quadratic; the paper uses values up to 10. It does not bound an exact metric.
    margin : float, default=1.0
        Required lead of s over t, in units of the scores.
    """

    by_label: ClassVar[bool] = False
    counted: ClassVar[str] = "members"
    called: ClassVar[str] = "quadratic group AUC"

    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return (k, k')."""
        return ((k, other),)


@dataclass(frozen=True)
class InterGroupPairwise(_Quadratic):
    """Inter-group pairwise fairness with a quadratic surrogate (Equation 74).

    ``A(k⁺, k'⁻) + A(k⁻, k'⁺) − 1 ≤ κ`` for every ordered pair of different groups, where A is the mean of
    ``½ (1 + s − t)²`` and k⁺, k⁻ are the positives and negatives of k. The paper's second sum has its indices
    swapped; this is the form that follows from Equation 73.

    Parameters
    ----------
    max_gap : float, default=0.05
        κ, in units of the quadratic; the paper uses values up to 15. It does not bound an exact metric.
    margin : float, default=1.0
        Replaces 1 in A; the constant becomes ``margin²``. See `QuadraticGroupAUC`.
    """

    called: ClassVar[str] = "inter-group pairwise fairness"

    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return (k⁺, k'⁻) and (k⁻, k'⁺)."""
        return (2 * k + 1, 2 * other), (2 * k, 2 * other + 1)


@dataclass(frozen=True)
class IntraGroupPairwise(_Quadratic):
    """Intra-group pairwise fairness with a quadratic surrogate (Equation 76).

    ``A(k⁺, k⁻) + A(k'⁻, k'⁺) − 1 ≤ κ`` for every ordered pair of different groups, where A is the mean of
    ``½ (1 + s − t)²`` and k⁺, k⁻ are the positives and negatives of k.

    Parameters
    ----------
    max_gap : float, default=0.05
        κ, in units of the quadratic; the paper uses values up to 10. It does not bound an exact metric.
    margin : float, default=1.0
        Replaces 1 in A; the constant becomes ``margin²``. See `QuadraticGroupAUC`.
    """

    called: ClassVar[str] = "intra-group pairwise fairness"

    def cells(self, k: int, other: int) -> tuple[_Cells, ...]:
        """Return (k⁺, k⁻) and (k'⁻, k'⁺)."""
        return (2 * k + 1, 2 * k), (2 * other, 2 * other + 1)
