"""Several banks as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from partialfair.constraints.dc.bank import (
    AtomBank,
    AtomKinks,
    Bending,
    Gradient,
    Interacting,
    Interaction,
    Moves,
)
from partialfair.constraints.dc.row_columns import RowColumns
from partialfair.data.groups import Members
from partialfair.utils.typing import Floats, Ints

__all__ = ["JoinedBank"]


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

    @property
    def interacts(self) -> bool:
        """Whether kinks of any bank do."""
        return any(isinstance(bank, Interacting) for bank in self.banks)

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

    def interaction(
        self,
        kinks: AtomKinks,
        fractions: Floats,
        rooms: Floats,
        scores: Floats,
        members: tuple[Members, ...],
    ) -> Interaction:
        """Interaction of the kinks of all banks; those of different banks have none."""
        total = Interaction.none(fractions.size, scores.size)
        for part in self._numbered(members):
            here = np.flatnonzero((kinks.atoms >= part.atoms.start) & (kinks.atoms < part.atoms.stop))
            if isinstance(part.bank, Interacting) and here.size:
                chosen = kinks.take(here)
                chosen = replace(chosen, atoms=chosen.atoms - part.atoms.start)
                change = part.bank.interaction(chosen, fractions[here], rooms[here], scores, part.members)
                total.ratios[here] = change.ratios
                total = replace(total, scores=total.scores + change.scores, loss=total.loss + change.loss)
        return total

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
