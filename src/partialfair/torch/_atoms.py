"""Atoms of banks as torch functions of the scores of some rows, and their tangents.

A bank is formulas only, in NumPy (`constraints.dc`) and here: what differs is who adds up. Rows come with
weights (n_groups, n): how much each counts in the sums of each group. Those of a batch are scaled so that its
sums estimate those of all rows.

Subgradients are written out, not left to autograd, because a step of training takes them at two points, the
batch's scores and those of its tangents, and each kernel that it launches counts at small batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from partialfair.constraints.dc import AtomBank, GroupMeans, PairSums
from partialfair.exceptions import InputError
from partialfair.torch._surrogates import Parts, parts_of


class AtomsAt(ABC):
    """Atoms at some scores and thresholds: values, and subgradients as a linear map and its adjoint."""

    @property
    @abstractmethod
    def values(self) -> Tensor:
        """The value of every atom, (n_atoms,)."""

    @abstractmethod
    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        """Return ``⟨subgradient, moves⟩`` of every atom."""

    @abstractmethod
    def combined(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``Σ weights · subgradients``, by score and by threshold."""


class AtomsOfBank(nn.Module, ABC):
    """The atoms of one bank; what does not change stays on the device, so that no step waits for the host."""

    n_atoms: int
    n_theta: int

    @abstractmethod
    def at(self, scores: Tensor, weights: Tensor, theta: Tensor) -> AtomsAt:
        """Return the atoms at the scores of some rows and the bank's free thresholds."""


class JoinedAt(AtomsAt):
    """Atoms of several banks, one bank after the other, with thresholds of their own."""

    def __init__(self, banks: Sequence[AtomsOfBank], by_bank: Sequence[AtomsAt]) -> None:
        self.by_bank = by_bank
        self.n_theta = [bank.n_theta for bank in banks]
        self.n_atoms = [bank.n_atoms for bank in banks]

    @property
    def values(self) -> Tensor:
        return torch.cat([atoms.values for atoms in self.by_bank])

    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        own_moves = torch.split(theta_moves, self.n_theta)
        by_bank = zip(self.by_bank, own_moves, strict=True)
        return torch.cat([atoms.changes(score_moves, own) for atoms, own in by_bank])

    def combined(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        by_bank = zip(self.by_bank, torch.split(weights, self.n_atoms), strict=True)
        by_score, by_theta = zip(*(atoms.combined(own) for atoms, own in by_bank), strict=True)
        return torch.stack(by_score).sum(0), torch.cat(by_theta)


class _GroupMeans(AtomsOfBank):
    """``Σ_{i in k} ω_i σ±(s_i − θ_j)``."""

    fixed: Tensor

    def __init__(self, bank: GroupMeans) -> None:
        super().__init__()
        self.n_atoms, self.n_theta = bank.n_atoms, bank.n_theta
        self.parts: Parts = parts_of(bank.surrogate)
        self.register_buffer("fixed", torch.tensor(bank.fixed, dtype=torch.float64))

    def at(self, scores: Tensor, weights: Tensor, theta: Tensor) -> AtomsAt:
        return _GroupMeansAt(self, scores, weights, theta)

    def thresholds(self, theta: Tensor) -> Tensor:
        """Return free thresholds and, after them, those that are given."""
        return torch.cat([theta, self.fixed]) if len(self.fixed) else theta

    def moves(self, theta_moves: Tensor) -> Tensor:
        """Return by how much thresholds move; those that are given do not."""
        return torch.cat([theta_moves, torch.zeros_like(self.fixed)]) if len(self.fixed) else theta_moves


class _GroupMeansAt(AtomsAt):
    def __init__(self, bank: _GroupMeans, scores: Tensor, weights: Tensor, theta: Tensor) -> None:
        self.bank, self.weights = bank, weights
        self.u = bank.parts.moved(scores[:, None] - bank.thresholds(theta))

    @property
    def values(self) -> Tensor:
        return (self.weights @ self.bank.parts.values(self.u)).flatten()

    @cached_property
    def slopes(self) -> Tensor:
        """σ±′ of every row and threshold, (2, n, n_thresholds)."""
        return self.bank.parts.slopes(self.u)

    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        moves = score_moves[:, None] - self.bank.moves(theta_moves)
        return (self.weights @ (self.slopes * moves)).flatten()

    def combined(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        of_atoms = weights.view(2, len(self.weights), self.u.shape[2])
        by_row = self.slopes * (self.weights.T @ of_atoms)
        return by_row.sum((0, 2)), -by_row.sum((0, 1))[: self.bank.n_theta]


class _PairSums(AtomsOfBank):
    """``Σ u_i v_j σ±(s_i − s_j)`` over the tops of one group and the bottoms of another: all pairs of rows.

    Weights of each group are scaled to add up to 1: who is at the top is judged among the rows at hand.
    """

    def __init__(self, bank: PairSums) -> None:
        super().__init__()
        self.n_atoms, self.n_theta = bank.n_atoms, bank.n_theta
        self.parts: Parts = parts_of(bank.surrogate)
        self.pairs, self.n_groups = bank.pairs, bank.n_groups
        for k in range(bank.n_groups):
            self.register_buffer(f"tops_{k}", torch.tensor(bank.tops[k], dtype=torch.float64)[:, None])
            self.register_buffer(f"bottoms_{k}", torch.tensor(bank.bottoms[k], dtype=torch.float64)[:, None])

    def at(self, scores: Tensor, weights: Tensor, theta: Tensor) -> AtomsAt:
        return _PairSumsAt(self, scores, weights)


class _PairSumsAt(AtomsAt):
    def __init__(self, bank: _PairSums, scores: Tensor, weights: Tensor) -> None:
        self.bank = bank
        self.u = bank.parts.moved(scores[:, None] - scores[None, :])
        self.above, self.below = [], []
        for k in range(bank.n_groups):
            own = weights[k] / weights[k].sum().clamp(min=torch.finfo(weights.dtype).tiny)
            self.above.append(_shares_above(scores, own, bank.get_buffer(f"tops_{k}")))
            self.below.append(own - _shares_above(scores, own, bank.get_buffer(f"bottoms_{k}")))

    @property
    def values(self) -> Tensor:
        return self._sums(self.bank.parts.values(self.u))

    @cached_property
    def slopes(self) -> Tensor:
        """σ±′ of every pair of rows, (2, n, n)."""
        return self.bank.parts.slopes(self.u)

    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        return self._sums(self.slopes * (score_moves[:, None] - score_moves[None, :]))

    def combined(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.zeros_like(self.u[0])
        start = 0
        for k, other in self.bank.pairs:
            shape = 2, len(self.above[k]), len(self.below[other])
            own = weights[start : start + shape[0] * shape[1] * shape[2]].reshape(shape)
            by_pair = torch.einsum("pbc,bi,cj->pij", own, self.above[k], self.below[other])
            first = first + (by_pair * self.slopes).sum(0)
            start += own.numel()
        return first.sum(1) - first.sum(0), weights[:0]

    def _sums(self, by_part: Tensor) -> Tensor:
        sums = [
            torch.einsum("bi,pij,cj->pbc", self.above[k], by_part, self.below[other]).flatten()
            for k, other in self.bank.pairs
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
