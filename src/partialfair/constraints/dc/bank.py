"""Convex atoms: functions T(s, θ) of all scores and thresholds, jointly convex, evaluated together.

A bank holds many atoms that share their loops over the scores. Constraints refer to atoms by position, so a
bank is evaluated once per point however many constraints use it. A bank contains formulas only: scores and
members are arguments, for one shard of the rows if the bank is additive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.data.groups import Members
from partialfair.utils.typing import Floats, Ints

BankMembers: TypeAlias = Any
"""`Members` of the given rows; for a `JoinedBank` a tuple of them, one for each of its banks."""

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
        """Whether values are sums over shards of rows; otherwise it needs all rows at once."""

    def values(self, scores: Floats, members: BankMembers, theta: Floats) -> Floats:
        """Value of every atom.

        Scores must not be changed in place, because a bank may cache results by array.
        """

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: BankMembers, theta: Floats
    ) -> Gradient:
        """Return the derivatives of ``F = Σ coefficients · atoms``.

        Order 1 gives a subgradient in scores and thresholds; for coefficients ≥ 0 F is convex. Order 2 gives
        second derivatives in each score, smoothed over kinks: they only guide steps, and zeros are enough.
        Derivatives in thresholds are part of `columns`.
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
    """Optional methods of a bank: the kinks of its atoms, which improve steps and KKT certificates."""

    @property
    def has_kinks(self) -> bool:
        """Whether there are any kinks, for some scores."""

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
        """Return kinks, within reach or passed by the moves, of atoms with wanted ≠ 0; None above the limit.

        The reach is in units in which the atoms change their slopes much, such as a surrogate's width.
        """


@dataclass(frozen=True, eq=False)
class Interaction:
    """The difference of a tangent with several kinks, each used in part, from the sum of their terms.

    Attributes
    ----------
    ratios : (K,)
        Factor of the weight of each kink.
    scores : (n,)
        Slopes in the scores to add.
    loss
        Number to subtract from the value; may be negative.
    """

    ratios: Floats
    scores: Floats
    loss: float

    @classmethod
    def none(cls, n_kinks: int, n_scores: int) -> Interaction:
        """Return the interaction of kinks without one."""
        return cls(np.ones(n_kinks), np.zeros(n_scores), 0.0)


@runtime_checkable
class Interacting(Protocol):
    """Required method of a `Bending` bank if the sum of its kinks' terms can exceed an atom.

    Without it a KKT certificate adds the terms of all kinks, which is invalid for such atoms.
    """

    def interaction(
        self, kinks: AtomKinks, fractions: Floats, rooms: Floats, scores: Floats, members: BankMembers
    ) -> Interaction:
        """Return a correction; the sum of kinks' terms is then below ``Σ coefficients · atoms``.

        Parameters
        ----------
        kinks
            Some of the bank's kinks at these scores.
        fractions : (K,)
            Fraction of each that is used, in ``[−backs, 1]``; those of a border sum to 0.
        rooms : (K,)
            The coefficient of each kink's atom.
        """


@dataclass(frozen=True, eq=False)
class AtomKinks:
    """Where atoms bend: atom a holds ``weight · max(0, residual + change of (s_row − θ − s_other))``.

    Attributes
    ----------
    atoms, rows, thresholds : (K,)
        The atom, the row of the score among those given, and the free threshold, −1 for a fixed one.
    residuals, weights : (K,)
        Distance from the kink, with sign, in units of scores, and the jump of the slope.
    others : (K,)
        The row of a score in place of a threshold, −1 for none.
    borders : (K,)
        The border of a top, numbered among those of the atom, across which the row may pass; −1 for none.
    amounts : (K,)
        Weight that such a row then adds above the border, negative if it falls below.
    backs : (K,)
        Weight that such a row may move to the other side instead, in units of the amount: rows on the border
        can do both.
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
        # Border −1: the kink does not depend on the choice of members.
        nothing = np.zeros(rows.size)
        return cls(
            atoms, rows, thresholds, residuals, weights, others, np.full_like(rows, -1), nothing, nothing
        )

    @classmethod
    def joined(cls, kinks: Sequence[AtomKinks]) -> AtomKinks:
        """Return any number of sets of kinks as one."""
        none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
        every = (cls.alone(none, none, none, nothing, nothing, none), *kinks)
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in every]) for name in names))

    def take(self, which: Ints) -> AtomKinks:
        """Return some of them."""
        return AtomKinks(*(getattr(self, field.name)[which] for field in fields(self)))

    @property
    def border_keys(self) -> Ints:
        """Return a number for each border, unique among all atoms, −1 for none."""
        return np.where(self.borders >= 0, self.borders * _MORE_THAN_ATOMS + self.atoms, -1)

    def keys(self, n_rows: int) -> Ints:
        """Return a number for each kink, unique among all atoms and rows."""
        return (self.atoms * n_rows + self.rows) * (n_rows + 1) + self.others + 1


class _Part(NamedTuple):
    """One of several banks, and the positions of its atoms and thresholds among all."""

    bank: AtomBank
    atoms: slice
    thetas: slice


class JoinedBank:
    """Several banks of atoms on the same scores, concatenated; each has its own thresholds and rows.

    Its ``members`` are a tuple, one `Members` for each bank.

    Attributes
    ----------
    banks
        In the order of their atoms and thresholds.
    n_atoms, n_theta
        Atoms and free thresholds of all banks.
    additive
        Whether all banks are.
    has_kinks, interacts
        Whether any bank has kinks, and whether kinks of any bank interact.
    """

    def __init__(self, banks: tuple[AtomBank, ...]) -> None:
        self.banks = banks
        self.additive, self.has_kinks, self.interacts = True, False, False
        self.n_atoms = self.n_theta = 0
        self._parts: list[_Part] = []
        for bank in banks:
            atoms = slice(self.n_atoms, self.n_atoms + bank.n_atoms)
            thetas = slice(self.n_theta, self.n_theta + bank.n_theta)
            self._parts.append(_Part(bank, atoms, thetas))
            self.n_atoms, self.n_theta = atoms.stop, thetas.stop
            self.additive &= bank.additive
            self.has_kinks |= isinstance(bank, Bending) and bank.has_kinks
            self.interacts |= isinstance(bank, Interacting)

    def __repr__(self) -> str:
        return f"JoinedBank({self.banks!r})"

    def values(self, scores: Floats, members: tuple[Members, ...], theta: Floats) -> Floats:
        """Value of every atom."""
        values = [np.empty(0)]
        for (bank, _, thetas), of_bank in zip(self._parts, members, strict=True):
            values.append(bank.values(scores, of_bank, theta[thetas]))
        return np.concatenate(values)

    def by_score(
        self, order: int, coefficients: Floats, scores: Floats, members: tuple[Members, ...], theta: Floats
    ) -> Gradient:
        """Return derivatives of ``Σ coefficients · atoms``; banks with no coefficient are skipped."""
        by_score, by_theta = np.zeros(scores.size), np.zeros(theta.size)
        for (bank, atoms, thetas), of_bank in zip(self._parts, members, strict=True):
            if coefficients[atoms].any():
                derivatives = bank.by_score(order, coefficients[atoms], scores, of_bank, theta[thetas])
                by_score += derivatives.scores  # all banks have the same scores
                if order == 1:
                    by_theta[thetas] = derivatives.theta
        return Gradient(by_score, by_theta if order == 1 else np.empty(0))

    def columns(
        self, scores: Floats, members: tuple[Members, ...], theta: Floats, curved: Sequence[Floats] = ()
    ) -> Iterator[RowColumns]:
        """Columns of all banks, renumbered; a bank in which a vector of ``curved`` is 0 skips it."""
        for (bank, atoms, thetas), of_bank in zip(self._parts, members, strict=True):
            # Vectors of zeros would give columns of zeros.
            used = [t for t, coefficients in enumerate(curved) if coefficients[atoms].any()]
            of_atoms = [curved[t][atoms] for t in used]
            for columns in bank.columns(scores, of_bank, theta[thetas], of_atoms):
                outputs = columns.outputs
                if outputs is None:
                    outputs = np.arange(columns.n_blocks * columns.n_columns).reshape(columns.n_blocks, -1)
                # Atoms come first, then mixed derivatives: those of the bank's t-th vector used, by θ.
                beyond = outputs - bank.n_atoms
                vector, threshold = np.divmod(np.maximum(beyond, 0), max(bank.n_theta, 1))
                vector = np.array([*used, 0])[vector]  # the last is for banks that skip all vectors
                mixed = self.n_atoms + vector * self.n_theta + thetas.start + threshold
                outputs = np.where(beyond < 0, atoms.start + outputs, mixed)
                thresholds = columns.thresholds
                if thresholds is not None:
                    thresholds = np.where(thresholds >= 0, thresholds + thetas.start, -1)
                yield replace(columns, outputs=outputs, thresholds=thresholds)

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
        """Return kinks within reach or passed, of all banks with kinks."""
        by_bank = []
        for (bank, atoms, thetas), of_bank in zip(self._parts, members, strict=True):
            if isinstance(bank, Bending) and bank.has_kinks and wanted[atoms].any():
                change = moves[0], moves[1][thetas]
                kinks = bank.kinks(wanted[atoms], scores, of_bank, theta[thetas], change, reach, limit)
                if kinks is None:
                    return None
                thresholds = np.where(kinks.thresholds >= 0, kinks.thresholds + thetas.start, -1)
                by_bank.append(replace(kinks, atoms=kinks.atoms + atoms.start, thresholds=thresholds))
        return AtomKinks.joined(by_bank)

    def interaction(
        self,
        kinks: AtomKinks,
        fractions: Floats,
        rooms: Floats,
        scores: Floats,
        members: tuple[Members, ...],
    ) -> Interaction:
        """Return the interaction of the kinks of all banks; kinks of different banks do not interact."""
        total = Interaction.none(fractions.size, scores.size)
        for (bank, atoms, _), of_bank in zip(self._parts, members, strict=True):
            here = np.flatnonzero((kinks.atoms >= atoms.start) & (kinks.atoms < atoms.stop))
            if isinstance(bank, Interacting) and here.size:
                chosen = kinks.take(here)
                chosen = replace(chosen, atoms=chosen.atoms - atoms.start)
                change = bank.interaction(chosen, fractions[here], rooms[here], scores, of_bank)
                total.ratios[here] = change.ratios
                total = replace(total, scores=total.scores + change.scores, loss=total.loss + change.loss)
        return total
