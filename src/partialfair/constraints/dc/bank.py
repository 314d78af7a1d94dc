"""Convex atoms: functions T(s, θ) of all scores and thresholds, jointly convex, evaluated together.

A bank holds many atoms that share their loops over the scores. Constraints refer to atoms by position, so a
bank is evaluated once per point however many constraints use it. A bank is formulas only: scores, and who the
members are, come as arguments, and are those of one shard of the rows if the bank is additive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.data.groups import Members
from partialfair.utils.typing import Floats, Ints

BankMembers: TypeAlias = Any
"""`Members` of the rows that are given; for a `JoinedBank` a tuple of them, one for each of its banks."""

Moves: TypeAlias = tuple[Floats, Floats]
"""Changes of all scores and of all free thresholds."""


_MORE_THAN_ATOMS = 2**32
"""Numbers of atoms are smaller."""


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of one order: first ones in scores and free thresholds, second ones in the scores only."""

    scores: Floats
    theta: Floats


class AtomBank(Protocol):
    """Convex functions of (scores, θ), in a fixed order."""

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""

    @property
    def n_theta(self) -> int:
        """Number of free thresholds θ."""

    @property
    def additive(self) -> bool:
        """Whether what it returns adds up over shards of rows; if not, it needs all rows at once."""

    def values(self, scores: Floats, members: BankMembers, theta: Floats) -> Floats:
        """Value of every atom.

        Scores are not changed in place while they live: a bank may remember what it found at an array.
        """

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: BankMembers, theta: Floats
    ) -> Gradient:
        """Return the derivatives of ``F = Σ coefficients · atoms``.

        Order 1 gives a subgradient in scores and thresholds; for coefficients ≥ 0 F is convex. Order 2 gives
        second derivatives in each score, smoothed over kinks: they only guide steps, and zeros do. Those in
        thresholds come with the `columns`.
        """

    def columns(
        self, scores: Floats, members: BankMembers, theta: Floats, curved: Sequence[Floats] = ()
    ) -> Iterator[RowColumns]:
        """Yield the derivatives of all atoms in all scores, as columns over the rows.

        Output a is atom a. For the t-th vector c in ``curved``, output ``n_atoms + t · n_theta + j`` is
        ``∂²F/∂s_i ∂θ_j`` of ``F = Σ c · atoms``. The function of a column with a threshold depends on
        ``s − θ_j``, so that its derivative in θ_j is minus the sum of the column.
        """


@runtime_checkable
class Bending(Protocol):
    """What a bank may offer besides: where its atoms bend. It makes steps and certificates sharper."""

    @property
    def has_kinks(self) -> bool:
        """Whether there is any kink at all; no scores are needed to tell."""

    def kinks(
        self,
        wanted: Floats,
        scores: Floats,
        members: BankMembers,
        theta: Floats,
        moves: Moves,
        reach: float,
        limit: int,
    ) -> AtomKinks | None:
        """Kinks of the atoms with wanted ≠ 0 that are within reach, or that the moves pass; None over limit.

        The reach is in units in which the atoms change their slopes much, such as a surrogate's width.
        """


@dataclass(frozen=True, eq=False)
class AtomKinks:
    """Where atoms bend: atom a holds ``weight · max(0, residual + change of (s_row − θ − s_other))``.

    Attributes
    ----------
    atoms, rows, thresholds : (K,)
        The atom, the row of the score among those given, and the free threshold, −1 for a fixed one.
    residuals, weights : (K,)
        How far on its right or left side the kink is, in units of scores, and by how much the slope jumps.
    others : (K,)
        The row of a score that stands where a threshold might, −1 for none.
    borders : (K,)
        The border of a top, numbered among those of the atom, across which the row may pass; −1 for none.
    amounts : (K,)
        What such a row then adds to what is counted above the border, less than 0 if it falls below.
    backs : (K,)
        What such a row may do to the other side instead, in units of the amount: rows on the border do both.
    """

    atoms: Ints
    rows: Ints
    thresholds: Ints
    residuals: Floats
    weights: Floats
    others: Ints
    borders: Ints
    amounts: Floats
    backs: Floats

    @classmethod
    def alone(
        cls, atoms: Ints, rows: Ints, thresholds: Ints, residuals: Floats, weights: Floats, others: Ints
    ) -> AtomKinks:
        """Return kinks that belong to no border."""
        nothing = np.zeros(rows.size)
        return cls(
            atoms, rows, thresholds, residuals, weights, others, np.full_like(rows, -1), nothing, nothing
        )

    @classmethod
    def joined(cls, kinks: Sequence[AtomKinks]) -> AtomKinks:
        """Return any number of sets of kinks as one."""
        none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
        nowhere = cls.alone(none, none, none, nothing, nothing, none)
        return cls(
            *(
                np.concatenate([getattr(part, field.name) for part in (nowhere, *kinks)])
                for field in fields(cls)
            )
        )

    def take(self, which: Ints) -> AtomKinks:
        """Return some of them."""
        return AtomKinks(*(getattr(self, field.name)[which] for field in fields(self)))

    @property
    def border_keys(self) -> Ints:
        """Return a number for each border that tells it from those of other atoms, −1 for none."""
        return np.where(self.borders >= 0, self.borders * _MORE_THAN_ATOMS + self.atoms, -1)

    def keys(self, n_rows: int) -> Ints:
        """Return a number for each kink that tells it from those of other atoms and rows."""
        return (self.atoms * n_rows + self.rows) * (n_rows + 1) + self.others + 1


@dataclass(frozen=True, eq=False)
class _Numbered:
    """One of the banks, and the numbers that its atoms and its thresholds have among all."""

    bank: AtomBank
    members: Members
    atoms: slice
    thresholds: slice

    def threshold_numbers(self, thresholds: Ints) -> Ints:
        """Return thresholds, −1 for none, as they are numbered among all."""
        return np.where(thresholds >= 0, thresholds + self.thresholds.start, -1)


@dataclass(frozen=True, eq=False)
class JoinedBank:
    """Any number of banks on the same scores, in a row; each keeps thresholds and members of its own.

    Its ``members`` are a tuple, one `Members` for each bank.
    """

    banks: tuple[AtomBank, ...]

    @property
    def n_atoms(self) -> int:
        """Atoms of all banks."""
        return sum(bank.n_atoms for bank in self.banks)

    @property
    def n_theta(self) -> int:
        """Free thresholds of all banks."""
        return sum(bank.n_theta for bank in self.banks)

    @property
    def additive(self) -> bool:
        """Whether all banks are."""
        return all(bank.additive for bank in self.banks)

    @property
    def has_kinks(self) -> bool:
        """Whether any bank has."""
        return any(isinstance(bank, Bending) and bank.has_kinks for bank in self.banks)

    def values(self, scores: Floats, members: tuple[Members, ...], theta: Floats) -> Floats:
        """Value of every atom."""
        values = [
            part.bank.values(scores, part.members, theta[part.thresholds]) for part in self._numbered(members)
        ]
        return np.concatenate([np.empty(0), *values])

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: tuple[Members, ...], theta: Floats
    ) -> Gradient:
        """Return derivatives of ``Σ coefficients · atoms``; banks with no coefficient are skipped."""
        by_score, by_theta = np.zeros(scores.size), np.zeros(theta.size)
        for part in self._numbered(members):
            if coefficients[part.atoms].any():
                derivatives = part.bank.by_score(
                    order, coefficients[part.atoms], scores, part.members, theta[part.thresholds]
                )
                by_score += derivatives.scores
                if order == 1:
                    by_theta[part.thresholds] = derivatives.theta
        return Gradient(by_score, by_theta if order == 1 else np.empty(0))

    def columns(
        self, scores: Floats, members: tuple[Members, ...], theta: Floats, curved: Sequence[Floats] = ()
    ) -> Iterator[RowColumns]:
        """Columns of all banks, renumbered; a bank in which a vector of ``curved`` is 0 skips it."""
        for part in self._numbered(members):
            used = [t for t, coefficients in enumerate(curved) if coefficients[part.atoms].any()]
            shortened = [curved[t][part.atoms] for t in used]
            for columns in part.bank.columns(scores, part.members, theta[part.thresholds], shortened):
                thresholds = columns.thresholds
                yield replace(
                    columns,
                    outputs=self._outputs(columns, part, used),
                    thresholds=None if thresholds is None else part.threshold_numbers(thresholds),
                )

    def kinks(
        self,
        wanted: Floats,
        scores: Floats,
        members: tuple[Members, ...],
        theta: Floats,
        moves: Moves,
        reach: float,
        limit: int,
    ) -> AtomKinks | None:
        """Kinks within reach or passed, of all banks that have any."""
        by_bank = []
        for part in self._numbered(members):
            bank = part.bank
            if isinstance(bank, Bending) and bank.has_kinks and wanted[part.atoms].any():
                here, change = theta[part.thresholds], (moves[0], moves[1][part.thresholds])
                kinks = bank.kinks(wanted[part.atoms], scores, part.members, here, change, reach, limit)
                if kinks is None:
                    return None
                thresholds = part.threshold_numbers(kinks.thresholds)
                by_bank.append(replace(kinks, atoms=kinks.atoms + part.atoms.start, thresholds=thresholds))
        return AtomKinks.joined(by_bank)

    def _numbered(self, members: tuple[Members, ...]) -> Iterator[_Numbered]:
        """Every bank with its members and numbers."""
        first_atom = first_threshold = 0
        for bank, bank_members in zip(self.banks, members, strict=True):
            last_atom, last_threshold = first_atom + bank.n_atoms, first_threshold + bank.n_theta
            yield _Numbered(
                bank, bank_members, slice(first_atom, last_atom), slice(first_threshold, last_threshold)
            )
            first_atom, first_threshold = last_atom, last_threshold

    def _outputs(self, columns: RowColumns, part: _Numbered, used: list[int]) -> Ints:
        """Return the outputs of a bank's columns among all: atoms, then mixed derivatives."""
        outputs = columns.outputs
        if outputs is None:
            outputs = np.arange(columns.n_blocks * columns.n_columns).reshape(columns.n_blocks, -1)
        beyond = outputs - part.bank.n_atoms
        vector, threshold = np.divmod(np.maximum(beyond, 0), max(part.bank.n_theta, 1))
        vector = np.array([*used, 0])[vector]  # the last stands for banks that skip all vectors
        mixed = self.n_atoms + vector * self.n_theta + part.thresholds.start + threshold
        return np.asarray(np.where(beyond < 0, part.atoms.start + outputs, mixed))
