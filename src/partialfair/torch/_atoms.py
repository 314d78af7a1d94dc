"""Atoms of banks, with their surrogates, on tensors of scores.

The formulas of a bank are those of NumPy (`constraints.dc`). Rows have weights (n_groups, n) in the sums of
each group. Weights of a batch are scaled so that its sums estimate the sums over all rows.

Subgradients are explicit instead of computed by autograd, because a training step needs them at two points:
the scores of the batch and its tangent points. Each operation is a kernel, and with small batches launching
a kernel takes longer than running it, so the formulas use few operations. σ⁺ and σ⁻ are one tensor with a
first axis of two. Slopes at kinks are slopes from below, as in the compiled loops, so that both
implementations give the same subgradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from partialfair.constraints.dc import AtomBank, GroupMeans, PairSums
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid, Surrogate
from partialfair.exceptions import InputError


class Parts(nn.Module, ABC):
    """σ⁺ and σ⁻ as functions of ``u = shift + x / scale``, one shift for each.

    Constants are buffers on the device: copying them would make every step wait.
    """

    shifts: Tensor

    def __init__(self, shifts: tuple[float, float], scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("shifts", torch.tensor(shifts, dtype=torch.float64)[:, None, None])

    def shift(self, x: Tensor) -> Tensor:
        """Return u at differences x, (2, *x.shape)."""
        return torch.add(self.shifts, x, alpha=1 / self.scale)

    @abstractmethod
    def values(self, u: Tensor) -> Tensor:
        """Return σ⁺ and σ⁻."""

    @abstractmethod
    def slopes(self, u: Tensor) -> Tensor:
        """Return subgradients of σ⁺ and σ⁻ in x."""


class _Ramp(Parts):
    """One hinge, ``max(u, 0)``, with kinks at −½ and ½."""

    def __init__(self, surrogate: Surrogate) -> None:
        super().__init__((0.5, -0.5), surrogate.width)

    def values(self, u: Tensor) -> Tensor:
        return torch.relu(u)

    def slopes(self, u: Tensor) -> Tensor:
        return (u > 0).to(u.dtype) / self.scale  # 0 at the kink: the slope from below


class _RoundedRamp(Parts):
    """``r t (2u − t)`` with ``t = clip(u, 0, 1)``: 0 up to u = 0, then r u², and ``r (2u − 1)`` from u = 1.

    The hinges at −½ and ½, each rounded over ±r, with ``u = (x / width ± ½ + r) / 2r``.
    """

    def __init__(self, surrogate: Surrogate) -> None:
        self.rounding = RoundedRamp.rounding
        half = 0.5 / (2 * self.rounding)  # shifts of u are (r ± ½) / 2r
        super().__init__((0.5 + half, 0.5 - half), 2 * self.rounding * surrogate.width)

    def values(self, u: Tensor) -> Tensor:
        t = u.clamp(0, 1)
        return torch.sub(u, t, alpha=0.5) * t * (2 * self.rounding)  # r t (2u − t)

    def slopes(self, u: Tensor) -> Tensor:
        return u.clamp(0, 1) * (2 * self.rounding / self.scale)


class _Sigmoid(Parts):
    """``σ⁺ = σ`` up to 0 and its tangent ``½ + u/4`` beyond; ``σ⁻ = σ⁺ − σ``."""

    def __init__(self, surrogate: Surrogate) -> None:
        super().__init__((0.0, 0.0), surrogate.width)

    def values(self, u: Tensor) -> Tensor:
        value = torch.sigmoid(u[0])
        plus = torch.where(u[0] > 0, 0.5 + u[0] / 4, value)
        return torch.stack([plus, plus - value])

    def slopes(self, u: Tensor) -> Tensor:
        value = torch.sigmoid(u[0])
        slope = value * (1 - value)
        plus = torch.where(u[0] > 0, torch.full_like(slope, 0.25), slope)
        return torch.stack([plus, plus - slope]) / self.scale


# A new surrogate is one class and one line.
_SURROGATES: dict[type[Surrogate], type[_Ramp | _RoundedRamp | _Sigmoid]] = {
    Ramp: _Ramp,
    RoundedRamp: _RoundedRamp,
    Sigmoid: _Sigmoid,
}


def parts_of(surrogate: Surrogate) -> Parts:
    """Return a surrogate's parts as torch functions."""
    if type(surrogate) not in _SURROGATES:
        names = ", ".join(kind.__name__ for kind in _SURROGATES)
        raise InputError(f"{type(surrogate).__name__} is not known to partialfair.torch, which has {names}")
    return _SURROGATES[type(surrogate)](surrogate)


class AtomsAt(ABC):
    """Atoms at scores and thresholds: values, and subgradients as a linear map and its adjoint."""

    @property
    @abstractmethod
    def values(self) -> Tensor:
        """The value of every atom, (n_atoms,)."""

    @abstractmethod
    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        """Return ``⟨subgradient, moves⟩`` of every atom."""

    @abstractmethod
    def combine(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``Σ weights · subgradients``, by score and by threshold."""


class AtomsOfBank(nn.Module, ABC):
    """The atoms of one bank; constants are on the device, so that no step waits for the host."""

    n_atoms: int
    n_theta: int

    @abstractmethod
    def at(self, scores: Tensor, weights: Tensor, theta: Tensor) -> AtomsAt:
        """Return the atoms at the scores of some rows and the bank's free thresholds."""


class JoinedAt(AtomsAt):
    """Atoms of several banks in order, each with its own thresholds."""

    def __init__(self, banks: Sequence[AtomsOfBank], by_bank: Sequence[AtomsAt]) -> None:
        self.by_bank = by_bank
        self.n_theta = [bank.n_theta for bank in banks]
        self.n_atoms = [bank.n_atoms for bank in banks]

    @property
    def values(self) -> Tensor:
        return torch.cat([atoms.values for atoms in self.by_bank])

    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        by_bank = zip(self.by_bank, torch.split(theta_moves, self.n_theta), strict=True)
        return torch.cat([atoms.changes(score_moves, own) for atoms, own in by_bank])

    def combine(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        by_bank = zip(self.by_bank, torch.split(weights, self.n_atoms), strict=True)
        by_score, by_theta = zip(*(atoms.combine(own) for atoms, own in by_bank), strict=True)
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

    def join(self, theta: Tensor, *, moves: bool = False) -> Tensor:
        """Return free thresholds, or their moves, followed by fixed thresholds, which do not move."""
        if not len(self.fixed):
            return theta
        return torch.cat([theta, torch.zeros_like(self.fixed) if moves else self.fixed])


class _GroupMeansAt(AtomsAt):
    def __init__(self, bank: _GroupMeans, scores: Tensor, weights: Tensor, theta: Tensor) -> None:
        self.bank, self.weights = bank, weights
        self.u = bank.parts.shift(scores[:, None] - bank.join(theta))

    @property
    def values(self) -> Tensor:
        return (self.weights @ self.bank.parts.values(self.u)).flatten()

    @cached_property
    def slopes(self) -> Tensor:
        """σ±′ of every row and threshold, (2, n, n_thresholds)."""
        return self.bank.parts.slopes(self.u)

    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        moves = score_moves[:, None] - self.bank.join(theta_moves, moves=True)
        return (self.weights @ (self.slopes * moves)).flatten()

    def combine(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        # Atoms are numbered by part (+, −), group and threshold.
        of_atoms = weights.view(2, len(self.weights), self.u.shape[2])
        by_row = self.slopes * (self.weights.T @ of_atoms)
        return by_row.sum((0, 2)), -by_row.sum((0, 1))[: self.bank.n_theta]


class _PairSums(AtomsOfBank):
    """``Σ u_i v_j σ±(s_i − s_j)`` over all pairs of top rows of one group and bottom rows of another.

    Weights of each group are scaled to add up to 1: which rows are at the top is found among those given.
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
        self.u = bank.parts.shift(scores[:, None] - scores[None, :])
        self.above, self.below = [], []
        for k in range(bank.n_groups):
            # If a batch has no row of a group, its weights are all 0.
            own = weights[k] / weights[k].sum().clamp(min=torch.finfo(weights.dtype).tiny)
            self.above.append(_weights_above(scores, own, bank.get_buffer(f"tops_{k}")))
            self.below.append(own - _weights_above(scores, own, bank.get_buffer(f"bottoms_{k}")))

    @property
    def values(self) -> Tensor:
        return self._sums(self.bank.parts.values(self.u))

    @cached_property
    def slopes(self) -> Tensor:
        """σ±′ of every pair of rows, (2, n, n)."""
        return self.bank.parts.slopes(self.u)

    def changes(self, score_moves: Tensor, theta_moves: Tensor) -> Tensor:
        return self._sums(self.slopes * (score_moves[:, None] - score_moves[None, :]))

    def combine(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        # Atoms are numbered by pair of groups, and in it by part (+, −), rank above and rank below.
        first = torch.zeros_like(self.u[0])
        start = 0
        for k, other in self.bank.pairs:
            shape = 2, len(self.above[k]), len(self.below[other])
            own = weights[start : start + shape[0] * shape[1] * shape[2]].reshape(shape)
            # p is the part, b and c are ranks, i and j rows.
            by_pair = torch.einsum("pbc,bi,cj->pij", own, self.above[k], self.below[other])
            first = first + (by_pair * self.slopes).sum(0)
            start += own.numel()
        return first.sum(1) - first.sum(0), weights[:0]  # there are no thresholds

    def _sums(self, by_part: Tensor) -> Tensor:
        sums = [
            torch.einsum("bi,pij,cj->pbc", self.above[k], by_part, self.below[other]).flatten()
            for k, other in self.bank.pairs
        ]
        return torch.cat(sums)


@torch.no_grad()
def _weights_above(scores: Tensor, own: Tensor, ranks: Tensor) -> Tensor:
    """Return how much of each row lies above some ranks of its group: (n_ranks, n), ties split evenly.

    No derivative passes: the derivative of a sum over the top is that over its members (Danskin).
    """
    # Tied rows have equal parts of the weight of their block above the rank.
    higher = (scores[None, :] > scores[:, None]).to(own.dtype) @ own
    level = (scores[None, :] == scores[:, None]).to(own.dtype) @ own
    held = (ranks - higher).clamp(min=0) / level.clamp(min=torch.finfo(own.dtype).tiny)
    return own * held.clamp(max=1)


def atoms_of_bank(bank: AtomBank) -> AtomsOfBank:
    """Return a bank's atoms as torch functions; a new bank is one class and two lines."""
    if type(bank) is GroupMeans:
        return _GroupMeans(bank)
    if type(bank) is PairSums:
        return _PairSums(bank)
    raise InputError(f"constraints on {type(bank).__name__} are not known to partialfair.torch")
