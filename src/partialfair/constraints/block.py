"""A constraint tied to rows, and several of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from partialfair.constraints.dc import AtomBank, BankMembers, DCSystem, JoinedBank
from partialfair.constraints.thresholds import JoinedThresholds, Thresholds
from partialfair.data.groups import Members
from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

__all__ = ["ConstraintBlock", "join"]


@dataclass(frozen=True, eq=False)
class ConstraintBlock:
    """One constraint tied to data.

    Attributes
    ----------
    bank
        Convex atoms of the scores and of the block's own thresholds θ.
    members
        Who counts in the bank, and how much, as `groups.members_of` tells; a tuple for a `JoinedBank`. None
        where rows keep them elsewhere.
    system
        The functions ``f_i ≤ 0`` of the atoms.
    names
        What each f_i says, for messages: "at least 10 % of Women above θ₃".
    thresholds
        Where the bank's free thresholds start, and how they follow scores; for a `JoinedBank` those of each
        of its banks, `JoinedThresholds`.
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
        n_banks = len(self.joined_bank.banks)
        if isinstance(self.thresholds, JoinedThresholds):
            if len(self.thresholds.by_bank) != n_banks:
                raise InputError(
                    f"a constraint on {n_banks} banks has thresholds for {len(self.thresholds.by_bank)}"
                )
            self._check_joined(self.thresholds)
        elif self.thresholds.n and isinstance(self.bank, JoinedBank):
            raise InputError("a constraint on a JoinedBank needs JoinedThresholds: Thresholds for each bank")
        elif self.thresholds.n and self.members is not None:
            object.__setattr__(self, "thresholds", _in_groups(self.thresholds, self.members, self.bank))

    def _check_members(self) -> None:
        """Refuse members that are not those of the banks, or not all of the same rows."""
        n_banks = len(self.joined_bank.banks)
        expected = f"a tuple of {n_banks} Members" if isinstance(self.bank, JoinedBank) else "Members"
        fits = isinstance(self.members, tuple) == isinstance(self.bank, JoinedBank)
        if not fits or len(self.all_members) != n_banks:
            raise InputError(f"members of a constraint on {type(self.bank).__name__} must be {expected}")
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

    def _check_joined(self, thresholds: JoinedThresholds) -> None:
        """Hold the thresholds of each bank against it and its members."""
        for bank, of_bank in zip(self.joined_bank.banks, thresholds.by_bank, strict=True):
            if of_bank.n != bank.n_theta:
                who = type(bank).__name__
                raise InputError(f"{who} has {bank.n_theta} free thresholds, but Thresholds for {of_bank.n}")
        if self.members is not None:
            each = zip(thresholds.by_bank, self.all_members, self.joined_bank.banks, strict=True)
            filled = JoinedThresholds(tuple(_in_groups(*of_bank) for of_bank in each))
            object.__setattr__(self, "thresholds", filled)

    @classmethod
    def none(cls) -> ConstraintBlock:
        """Return no constraints."""
        return join([])

    @cached_property
    def joined_bank(self) -> JoinedBank:
        """The bank, as one of banks in a row."""
        return self.bank if isinstance(self.bank, JoinedBank) else JoinedBank((self.bank,))

    @property
    def all_members(self) -> tuple[Members, ...]:
        """Members of each bank of `joined_bank`; none where rows keep them elsewhere."""
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
        """Return the functions ``f_i + by_i``: what is allowed at one point is not what is at another."""
        pairs = zip(self.system.functions, by.tolist(), strict=True)
        system = DCSystem(tuple(function + value for function, value in pairs), self.system.n_atoms)
        return replace(self, system=system)

    def without_members(self) -> ConstraintBlock:
        """Return the functions alone, of a `JoinedBank`: rows, in shards, keep the members."""
        return ConstraintBlock(self.joined_bank, None, self.system, self.names, self.joined_thresholds)


def _in_groups(thresholds: Thresholds, members: Members, bank: AtomBank) -> Thresholds:
    """Tell thresholds how many groups there are, or hold their ranks against it."""
    n_groups = int(members.codes.max(initial=-1)) + 1
    if thresholds.ranks is None:
        return thresholds.for_groups(max(n_groups, thresholds.n_groups))
    if thresholds.n and thresholds.ranks.shape[1] < n_groups:
        raise InputError(
            f"thresholds of a constraint on {type(bank).__name__} have ranks in "
            f"{thresholds.ranks.shape[1]} groups, but its members are of {n_groups}"
        )
    return thresholds


def join(blocks: Sequence[ConstraintBlock]) -> ConstraintBlock:
    """Return any number of constraints on the same rows as one; each keeps thresholds of its own.

    Blocks that are already joined are taken apart: no bank of the result is itself a `JoinedBank`.
    """
    bank = JoinedBank(tuple(bank for block in blocks for bank in block.joined_bank.banks))
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
