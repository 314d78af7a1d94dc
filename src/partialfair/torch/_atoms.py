"""Atoms of banks as torch functions of the scores of some rows, and their tangents.

A bank is formulas only, in NumPy (`partialfair.dc`) and here: what differs is who adds up. Rows come with
shares ω, which say how much each counts in its group's sum; those of a batch are scaled so that its sums
estimate those of all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partialfair.dc import AtomBank, GroupMeans, PairSums
from partialfair.exceptions import InputError
from partialfair.torch._surrogates import parts_of, slopes_of

__all__ = ["AtomsOfBank", "Rows", "atoms_of_bank"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Who counts in a bank, and how much: `partialfair.groups.Members` as tensors.

    Attributes
    ----------
    codes : (n,)
        Group of each row; −1 leaves it out.
    shares : (n,)
        ω, 0 for rows that are left out.
    """

    codes: Tensor
    shares: Tensor

    def of_group(self, group: int | Tensor) -> Tensor:
        """Return the shares of a group's rows, 0 for all others; of several groups a row for each."""
        return torch.where(self.codes == group, self.shares, 0.0)


class AtomsOfBank(nn.Module, ABC):
    """The atoms of one bank; what does not change stays on the device, so that no step waits for the host."""

    @abstractmethod
    def values(self, scores: Tensor, rows: Rows, theta: Tensor) -> Tensor:
        """Return the value of every atom, given the scores and the bank's free thresholds."""

    @abstractmethod
    def changes(self, scores: Tensor, rows: Rows, theta: Tensor, moves: tuple[Tensor, Tensor]) -> Tensor:
        """Return ``⟨subgradient, moves⟩`` of every atom, linear in the moves of scores and of thresholds."""


class _GroupMeans(AtomsOfBank):
    """``Σ_{i in k} ω_i σ±(s_i − θ_j)``."""

    groups: Tensor
    fixed: Tensor

    def __init__(self, bank: GroupMeans) -> None:
        super().__init__()
        self.surrogate = bank.surrogate
        self.register_buffer("groups", torch.arange(bank.n_groups)[:, None])
        self.register_buffer("fixed", torch.tensor(bank.fixed, dtype=torch.float64))

    def values(self, scores: Tensor, rows: Rows, theta: Tensor) -> Tensor:
        return self._sums(parts_of(self.surrogate, self._differences(scores, theta)), rows)

    def changes(self, scores: Tensor, rows: Rows, theta: Tensor, moves: tuple[Tensor, Tensor]) -> Tensor:
        score_moves, theta_moves = moves
        # Thresholds that are given do not move.
        all_moves = torch.cat([theta_moves, theta_moves.new_zeros(self.fixed.shape)])
        by_threshold = score_moves[:, None] - all_moves
        slopes = slopes_of(self.surrogate, self._differences(scores, theta))
        return self._sums([slope * by_threshold for slope in slopes], rows)

    def _differences(self, scores: Tensor, theta: Tensor) -> Tensor:
        return scores[:, None] - torch.cat([theta, self.fixed])

    def _sums(self, by_part: Sequence[Tensor], rows: Rows) -> Tensor:
        weights = rows.of_group(self.groups)
        return torch.cat([(weights @ part).flatten() for part in by_part])


class _PairSums(AtomsOfBank):
    """``Σ u_i v_j σ±(s_i − s_j)`` over the tops of one group and the bottoms of another: all pairs of rows.

    Shares of each group are scaled to add up to 1: who is at the top is judged among the rows at hand.
    """

    def __init__(self, bank: PairSums) -> None:
        super().__init__()
        self.surrogate, self.pairs, self.n_groups = bank.surrogate, bank.pairs, bank.n_groups
        for k in range(bank.n_groups):
            self.register_buffer(f"tops_{k}", torch.tensor(bank.tops[k], dtype=torch.float64)[:, None])
            self.register_buffer(f"bottoms_{k}", torch.tensor(bank.bottoms[k], dtype=torch.float64)[:, None])

    def values(self, scores: Tensor, rows: Rows, theta: Tensor) -> Tensor:
        by_part = parts_of(self.surrogate, scores[:, None] - scores[None, :])
        return self._sums(by_part, scores, rows)

    def changes(self, scores: Tensor, rows: Rows, theta: Tensor, moves: tuple[Tensor, Tensor]) -> Tensor:
        slopes = slopes_of(self.surrogate, scores[:, None] - scores[None, :])
        by_pair = moves[0][:, None] - moves[0][None, :]
        return self._sums([slope * by_pair for slope in slopes], scores, rows)

    def _sums(self, by_part: Sequence[Tensor], scores: Tensor, rows: Rows) -> Tensor:
        above, below = [], []
        for k in range(self.n_groups):
            own = rows.of_group(k)
            own = own / own.sum().clamp(min=torch.finfo(own.dtype).tiny)
            above.append(_shares_above(scores, own, self.get_buffer(f"tops_{k}")))
            below.append(own - _shares_above(scores, own, self.get_buffer(f"bottoms_{k}")))
        sums = [
            torch.einsum("bi,ij,cj->bc", above[k], part, below[other]).flatten()
            for k, other in self.pairs
            for part in by_part
        ]
        return torch.cat(sums)


@torch.no_grad()
def _shares_above(scores: Tensor, own: Tensor, ranks: Tensor) -> Tensor:
    """Return how much of each row lies above some ranks of its group: (n_ranks, n), ties split evenly.

    No derivative passes: the derivative of a sum over the top is that over its members (Danskin).
    """
    higher = (scores[None, :] > scores[:, None]).to(own.dtype) @ own
    level = (scores[None, :] == scores[:, None]).to(own.dtype) @ own
    held = (ranks - higher).clamp(min=0) / level.clamp(min=torch.finfo(own.dtype).tiny)
    return own * held.clamp(max=1)


_KINDS: dict[type[AtomBank], type[AtomsOfBank]] = {GroupMeans: _GroupMeans, PairSums: _PairSums}
"""A new bank is one class and one line."""


def atoms_of_bank(bank: AtomBank) -> AtomsOfBank:
    """Return a bank's atoms as torch functions."""
    for kind, atoms in _KINDS.items():
        if type(bank) is kind:
            return atoms(bank)
    raise InputError(f"constraints on {type(bank).__name__} are not known to partialfair.torch")
