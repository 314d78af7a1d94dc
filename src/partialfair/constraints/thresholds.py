"""Thresholds θ of constraints: what each is for, where it starts, and where it belongs for given scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np

from partialfair.exceptions import InputError
from partialfair.utils.typing import Floats

__all__ = ["JoinedThresholds", "Ranks", "RanksOf", "Thresholds"]

_MEDIAN = np.array([0.5])


class Ranks(Protocol):
    """Where scores stand in their groups: all that is needed of scores to place thresholds."""

    def at(self, group: int, ranks: Floats) -> Floats:
        """Return the scores at which shares ``ranks`` of a group's weight have been passed from the top."""


RanksOf: TypeAlias = Callable[[int], Ranks]
"""From a bank of a block to the ranks of its members; a block with one bank asks for bank 0."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The free thresholds of one bank.

    Attributes
    ----------
    starts : (n,)
        Where they start if all scores are 0.
    keys : (n,)
        What each is for: by these the thresholds of two blocks of a constraint are matched, as where a grid
        gained a point. By default 0, 1, 2, ...
    ranks : (n, n_groups) or None
        For each threshold a rank from the top in each group of the bank: the mean of the groups' scores at
        these ranks is a good threshold. Without any, ``starts`` move along with the median score.
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

    def for_groups(self, n_groups: int) -> Thresholds:
        """Return the same thresholds, of a bank with so many groups."""
        return replace(self, n_groups=n_groups)

    def at(self, ranks_of: RanksOf) -> Floats:
        """Return thresholds that suit the scores; the constraints are then violated little."""
        if not self.n:
            return np.empty(0)
        ranks = ranks_of(0)
        if self.ranks is None:
            medians = [float(ranks.at(k, _MEDIAN)[0]) for k in range(self.n_groups)]
            return np.asarray(self.starts + np.mean(medians))
        by_group = [ranks.at(k, self.ranks[:, k]) for k in range(self.ranks.shape[1])]
        return np.asarray(np.stack(by_group, axis=1).mean(axis=1))

    def continued(self, before: Thresholds, theta: Floats, ranks_of: RanksOf) -> Floats:
        """Return the values that thresholds had before, by their keys, and suitable ones for new keys.

        Parameters
        ----------
        before
            The thresholds of an earlier block of the constraint.
        theta : (before.n,)
            Their values.
        ranks_of
            Ranks of the scores now.
        """
        known = dict(zip(before.keys, theta.tolist(), strict=True))
        if all(key in known for key in self.keys):
            return np.array([known[key] for key in self.keys])
        suitable = self.at(ranks_of).tolist()
        return np.array([known.get(key, value) for key, value in zip(self.keys, suitable, strict=True)])


@dataclass(frozen=True, eq=False)
class JoinedThresholds:
    """The free thresholds of several banks in a row, one `Thresholds` for each bank.

    Each looks at the ranks of its own bank's members, and keys are matched within a bank only.
    """

    by_bank: tuple[Thresholds, ...]

    @property
    def n(self) -> int:
        """Number of thresholds."""
        return sum(thresholds.n for thresholds in self.by_bank)

    @property
    def starts(self) -> Floats:
        """Where all of them start if all scores are 0: (n,)."""
        return np.concatenate([np.empty(0), *(thresholds.starts for thresholds in self.by_bank)])

    def at(self, ranks_of: RanksOf) -> Floats:
        """Return thresholds that suit the scores."""
        values = [
            thresholds.at(_ranks_of_bank(ranks_of, bank)) for bank, thresholds in enumerate(self.by_bank)
        ]
        return np.concatenate([np.empty(0), *values])

    def continued(self, before: JoinedThresholds, theta: Floats, ranks_of: RanksOf) -> Floats:
        """Return the values that thresholds had before, and suitable ones for new keys, bank by bank."""
        if len(before.by_bank) != len(self.by_bank):
            raise InputError("only thresholds of the same constraints can be continued")
        values, first = [np.empty(0)], 0
        for bank, (thresholds, earlier) in enumerate(zip(self.by_bank, before.by_bank, strict=True)):
            known = theta[first : first + earlier.n]
            values.append(thresholds.continued(earlier, known, _ranks_of_bank(ranks_of, bank)))
            first += earlier.n
        return np.concatenate(values)


def _ranks_of_bank(ranks_of: RanksOf, bank: int) -> RanksOf:
    """Return what a block of this bank alone would ask."""
    return lambda _: ranks_of(bank)
