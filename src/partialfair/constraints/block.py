"""Constraints applied to rows, with their thresholds θ, and joined constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from partialfair.constraints.dc import AtomBank, BankMembers, DCSystem, JoinedBank
from partialfair.data.groups import Members
from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

_MEDIAN = np.array([0.5])


class Ranks(Protocol):
    """Ranks of scores in their groups, from which thresholds are placed."""

    def at(self, group: int, ranks: Floats) -> Floats:
        """Return the scores at the given ranks from the top of a group, as fractions of its weight."""


RanksOf: TypeAlias = Callable[[int], Ranks]
"""From a bank of a block to the ranks of its members; a block with one bank needs bank 0."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The free thresholds of one bank.

    Attributes
    ----------
    starts : (n,)
        Start values if all scores are 0.
    keys : (n,)
        Keys by which the thresholds of two blocks of a constraint are matched, for instance after a grid has
        gained a point. By default 0, 1, 2, ...
    ranks : (n, n_groups) or None
        For each threshold a rank from the top in each group of the bank: the mean of the groups' scores at
        these ranks is a good threshold. Without ranks, ``starts`` are shifted by the median score.
    n_groups
        Number of groups of the bank; blocks fill it in.
    """

    starts: Floats
    keys: tuple[float, ...] = ()
    ranks: Floats | None = None
    n_groups: int = 0

    def __post_init__(self) -> None:
        starts = np.asarray(self.starts, dtype=np.float64)
        if starts.ndim != 1:
            raise InputError(f"starts of thresholds must be a vector, not of shape {starts.shape}")
        keys = tuple(self.keys) or tuple(map(float, range(starts.size)))
        if len(keys) != starts.size:
            raise InputError(f"{starts.size} thresholds need as many keys, not {keys}")
        if self.ranks is not None and (self.ranks.ndim != 2 or len(self.ranks) != starts.size):
            raise InputError(
                f"ranks of {starts.size} thresholds must be of shape ({starts.size}, n_groups), "
                f"not {self.ranks.shape}"
            )
        # Frozen, except for values that the constructor converts.
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "keys", keys)

    @classmethod
    def none(cls) -> Thresholds:
        """Return no thresholds."""
        return cls(np.empty(0))

    @property
    def n(self) -> int:
        """Number of thresholds."""
        return self.starts.size

    def at(self, ranks_of: RanksOf, bank: int = 0) -> Floats:
        """Return thresholds that suit the scores; the constraints are then violated little."""
        if not self.n:
            return np.empty(0)
        ranks = ranks_of(bank)
        if self.ranks is None:  # without ranks, shift the starts
            medians = [float(ranks.at(k, _MEDIAN)[0]) for k in range(self.n_groups)]
            return np.asarray(self.starts + np.mean(medians))
        # Groups whose bands overlap at a rank have a common threshold near their scores at this rank.
        by_group = [ranks.at(k, self.ranks[:, k]) for k in range(self.ranks.shape[1])]
        return np.asarray(np.stack(by_group, axis=1).mean(axis=1))

    def continued(self, before: Thresholds, theta: Floats, ranks_of: RanksOf, bank: int = 0) -> Floats:
        """Return the previous values of thresholds, by their keys, and suitable values for new keys.

        Parameters
        ----------
        before
            The thresholds of an earlier block of the constraint.
        theta : (before.n,)
            Their values.
        ranks_of, bank
            Ranks of the scores now, and which bank these are the thresholds of.
        """
        # Without new keys no scores are needed, which would be a pass over the data.
        known = dict(zip(before.keys, theta.tolist(), strict=True))
        if all(key in known for key in self.keys):
            return np.array([known[key] for key in self.keys])
        suitable = self.at(ranks_of, bank).tolist()
        return np.array([known.get(key, value) for key, value in zip(self.keys, suitable, strict=True)])


@dataclass(frozen=True, eq=False)
class JoinedThresholds:
    """The free thresholds of several banks in a row, one `Thresholds` for each bank.

    Each uses the ranks of its own bank's members, and keys are matched within a bank only.
    """

    by_bank: tuple[Thresholds, ...]

    @property
    def n(self) -> int:
        """Number of thresholds."""
        return sum(thresholds.n for thresholds in self.by_bank)

    @property
    def starts(self) -> Floats:
        """Start values of all thresholds if all scores are 0: (n,)."""
        return np.concatenate([np.empty(0), *(thresholds.starts for thresholds in self.by_bank)])

    def at(self, ranks_of: RanksOf) -> Floats:
        """Return thresholds that suit the scores."""
        values = [thresholds.at(ranks_of, bank) for bank, thresholds in enumerate(self.by_bank)]
        return np.concatenate([np.empty(0), *values])

    def continued(self, before: JoinedThresholds, theta: Floats, ranks_of: RanksOf) -> Floats:
        """Return the previous values of thresholds, and suitable values for new keys, bank by bank."""
        if len(before.by_bank) != len(self.by_bank):
            raise InputError("only thresholds of the same constraints can be continued")
        values, first = [np.empty(0)], 0
        for bank, (thresholds, earlier) in enumerate(zip(self.by_bank, before.by_bank, strict=True)):
            known = theta[first : first + earlier.n]
            values.append(thresholds.continued(earlier, known, ranks_of, bank))
            first += earlier.n
        return np.concatenate(values)


@dataclass(frozen=True, eq=False)
class ConstraintBlock:
    """One constraint applied to rows.

    Attributes
    ----------
    bank
        Convex atoms of the scores and of the block's own thresholds θ.
    members
        The members of the bank and their weights, as `groups.members_of` returns; a tuple for a `JoinedBank`.
        None where they are stored with the rows.
    system
        The functions ``f_i ≤ 0`` of the atoms.
    names
        Description of each f_i, for messages: "at least 10% of Women above θ₃".
    thresholds
        Start values and updates of the bank's free thresholds; for a `JoinedBank` a `JoinedThresholds`.
    """

    bank: AtomBank
    members: BankMembers
    system: DCSystem
    names: tuple[str, ...]
    thresholds: Thresholds | JoinedThresholds = field(default_factory=Thresholds.none)

    def __post_init__(self) -> None:
        who = type(self.bank).__name__
        if self.system.n_atoms != self.bank.n_atoms:
            raise InputError(
                f"the constraint's functions are of {self.system.n_atoms} atoms, but its {who} has "
                f"{self.bank.n_atoms}"
            )
        if len(self.names) != self.system.m:
            raise InputError(
                f"a constraint on {who} has {self.system.m} functions but {len(self.names)} names: "
                f"{', '.join(map(repr, self.names))}"
            )
        if self.thresholds.n != self.bank.n_theta:
            raise InputError(
                f"a constraint on {who} has {self.bank.n_theta} free thresholds, but Thresholds for "
                f"{self.thresholds.n}"
            )
        if self.members is not None:
            self._check_members()
        self._fill_thresholds()

    def _check_members(self) -> None:
        """Raise `InputError` for members that do not fit the banks, or of different numbers of rows."""
        n_banks = len(self.joined_bank.banks)
        expected = f"a tuple of {n_banks} Members" if isinstance(self.bank, JoinedBank) else "Members"
        fits = isinstance(self.members, tuple) == isinstance(self.bank, JoinedBank)
        if not fits or len(self.all_members) != n_banks:
            raise InputError(f"members of a constraint on {type(self.bank).__name__} must be {expected}")
        # Banks of one constraint may have different members, but of the same rows.
        sizes = set()
        for members in self.all_members:
            if not isinstance(members, Members):
                raise InputError(
                    f"members of a constraint on {type(self.bank).__name__} must be {expected}, as "
                    f"members_of returns, not {type(members).__name__}"
                )
            sizes |= {members.codes.size, members.shares.size}
        if len(sizes) > 1:
            raise InputError(
                f"members of a constraint on {type(self.bank).__name__} are of different numbers of rows: "
                f"{', '.join(map(str, sorted(sizes)))}"
            )

    def _fill_thresholds(self) -> None:
        """Set the number of groups of thresholds; raise `InputError` if they do not fit the banks."""
        banks, given = self.joined_bank.banks, self.thresholds
        joined = isinstance(given, JoinedThresholds)
        if not given.n and not joined:
            return
        if not joined and isinstance(self.bank, JoinedBank):
            raise InputError("a constraint on a JoinedBank needs JoinedThresholds: Thresholds for each bank")
        by_bank = self.joined_thresholds.by_bank
        if len(by_bank) != len(banks):
            raise InputError(f"a constraint on {len(banks)} banks has thresholds for {len(by_bank)}")
        filled = []
        for position, (bank, thresholds) in enumerate(zip(banks, by_bank, strict=True)):
            who = type(bank).__name__
            if thresholds.n != bank.n_theta:
                raise InputError(
                    f"{who} has {bank.n_theta} free thresholds, but Thresholds for {thresholds.n}"
                )
            if self.members is not None:
                n_groups = int(self.all_members[position].codes.max(initial=-1)) + 1
                if thresholds.ranks is None:
                    thresholds = replace(thresholds, n_groups=max(n_groups, thresholds.n_groups))
                elif thresholds.n and thresholds.ranks.shape[1] < n_groups:
                    raise InputError(
                        f"thresholds of a constraint on {who} have ranks in {thresholds.ranks.shape[1]} "
                        f"groups, but its members are of {n_groups}"
                    )
            filled.append(thresholds)
        object.__setattr__(self, "thresholds", JoinedThresholds(tuple(filled)) if joined else filled[0])

    @classmethod
    def none(cls) -> ConstraintBlock:
        """Return no constraints."""
        return join([])

    @cached_property
    def joined_bank(self) -> JoinedBank:
        """The bank as a `JoinedBank`."""
        return self.bank if isinstance(self.bank, JoinedBank) else JoinedBank((self.bank,))

    @property
    def all_members(self) -> tuple[Members, ...]:
        """Members of each bank of `joined_bank`; empty where they are stored with the rows."""
        if self.members is None:
            return ()
        return self.members if isinstance(self.members, tuple) else (self.members,)

    @property
    def joined_thresholds(self) -> JoinedThresholds:
        """Thresholds of each bank of `joined_bank`."""
        if isinstance(self.thresholds, JoinedThresholds):
            return self.thresholds
        if not self.thresholds.n:
            return JoinedThresholds((Thresholds.none(),) * len(self.joined_bank.banks))
        return JoinedThresholds((self.thresholds,))

    def raised(self, by: Floats) -> ConstraintBlock:
        """Return the block with the functions ``f_i + by_i``."""
        # The same terms with other constants, on the same rows.
        pairs = zip(self.system.functions, by.tolist(), strict=True)
        system = DCSystem(tuple(function + value for function, value in pairs), self.system.n_atoms)
        return replace(self, system=system)

    def without_members(self) -> ConstraintBlock:
        """Return the block of a `JoinedBank` without members, which shards of rows store."""
        return ConstraintBlock(self.joined_bank, None, self.system, self.names, self.joined_thresholds)


def join(blocks: Sequence[ConstraintBlock]) -> ConstraintBlock:
    """Return any number of constraints on the same rows as one; each has thresholds of its own.

    Joined blocks are split first: no bank of the result is itself a `JoinedBank`.
    """
    bank = JoinedBank(tuple(bank for block in blocks for bank in block.joined_bank.banks))
    # Atoms of a block follow those of the blocks before it.
    functions, first_atom = [], 0
    for block in blocks:
        functions += [function.renumbered(first_atom) for function in block.system.functions]
        first_atom += block.bank.n_atoms
    return ConstraintBlock(
        bank,
        tuple(members for block in blocks for members in block.all_members),
        DCSystem(tuple(functions), bank.n_atoms),
        tuple(name for block in blocks for name in block.names),
        JoinedThresholds(
            tuple(thresholds for block in blocks for thresholds in block.joined_thresholds.by_bank)
        ),
    )
