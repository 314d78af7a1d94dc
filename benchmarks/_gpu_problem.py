"""A setting on the device of `gpu_references`: objectives, exact gaps and ties of many models at once.

Nothing of the package is imported here, so that it runs where only NumPy and PyTorch are. Rows are ordered by
group, there are two groups, and models are tensors of shape ``(models, coefficient vectors, features + 1)``
whose last entries are intercepts. All is in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

Tensor = torch.Tensor
SAME_SCORE, ROUNDING, MORE_TIES = 1e-13, 1e-12, 0.01
"""As in `_judging`."""
SCREENS, CHUNKS = 16, 256
"""Thresholds at which steps are screened: where the worst of so many parts of all ranks are widest apart."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One setting on the device.

    Attributes
    ----------
    blocks
        Features and a column of ones, for the rows of each coefficient vector.
    signs
        Labels as ±1.
    n_first
        Rows of the first group, which come first.
    free
        The unconstrained model.
    free_ties
        Its tied shares: block, band.
    factor
        Inverse Cholesky factor of the objective's Hessian there, for each coefficient vector.
    """

    blocks: tuple[Tensor, ...]
    signs: Tensor
    n_first: int
    kind: str
    interval: tuple[float, float]
    absolute: bool
    alpha: float
    free: Tensor
    free_ties: tuple[float, float]
    factor: Tensor

    @classmethod
    def of(cls, blocks: tuple[Tensor, ...], signs: Tensor, free: Tensor, **others: Any) -> Problem:
        """Return the problem with the Hessian of its unconstrained model."""
        factors = []
        for block, v in zip(blocks, free, strict=True):
            chances = torch.sigmoid(block @ v)
            ridge = torch.full((block.shape[1],), others["alpha"], dtype=block.dtype, device=block.device)
            ridge[-1] = 1e-9
            hessian = (block.T * (chances * (1 - chances))) @ block / len(signs) + torch.diag(ridge)
            factors.append(torch.linalg.inv(torch.linalg.cholesky(hessian)))
        return cls(blocks, signs, free=free, factor=torch.stack(factors), **others)

    def scores(self, models: Tensor) -> Tensor:
        """Return the scores of each model, a row each."""
        return scores_of(self.blocks, models)

    def objective(self, models: Tensor, scores: Tensor) -> Tensor:
        """Mean logistic loss plus the penalty of the coefficients."""
        loss = torch.nn.functional.softplus(-self.signs * scores, threshold=60).mean(1)
        return loss + 0.5 * self.alpha * models[..., :-1].square().sum((1, 2))

    def slope(self, models: Tensor, scores: Tensor) -> Tensor:
        """Return the objective's gradient."""
        by_score = -self.signs * torch.sigmoid(-self.signs * scores) / scores.shape[1]
        slope = pulled(self.blocks, by_score)
        slope[..., :-1] += self.alpha * models[..., :-1]
        return slope

    def passed(self, ranks: Tensor) -> Tensor:
        """Return ranks as the gap compares them, but for pSP on the absolute scale."""
        low, high = self.interval
        return (ranks - low).clamp(0, high - low) / (1.0 if self.absolute else high - low)

    def gap_at(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distance of two groups' ranks at thresholds."""
        low, high = self.interval
        if self.kind == "pDP" or not self.absolute:
            return (self.passed(first) - self.passed(second)).abs()
        inside = [(r - low >= -ROUNDING) & (r - low < high - low - ROUNDING) for r in (first, second)]
        return (first - second).abs() * (inside[0] | inside[1])

    def ranks_at(self, scores: Tensor, thresholds: Tensor) -> tuple[Tensor, Tensor]:
        """Return the shares of both groups that lie at or above a threshold of each model."""
        above = scores >= thresholds[:, None]
        first = above[:, : self.n_first].sum(1, dtype=torch.float64) / self.n_first
        second = above[:, self.n_first :].sum(1, dtype=torch.float64)
        return first, second / (scores.shape[1] - self.n_first)

    def selection_gap(self, scores: Tensor) -> Tensor:
        """Return the exact gap of pDP."""
        tiny = torch.full((len(scores),), 5e-324, dtype=scores.dtype, device=scores.device)
        return self.gap_at(*self.ranks_at(scores, tiny))

    def judge(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return exact gaps, whether no more are tied than is admitted, and thresholds to screen at."""
        some = max(1, 20_000_000 // scores.shape[1])
        parts = [self._judge(part) for part in scores.split(some)]
        gap, untied, screens = (torch.cat(column) for column in zip(*parts, strict=True))
        return (self.selection_gap(scores) if self.kind == "pDP" else gap), untied, screens

    def _judge(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        low, high = self.interval
        n = scores.shape[1]
        unit = SAME_SCORE * scores.abs().amax(1, keepdim=True).clamp_min(1e-300)
        ordered, row = torch.round(scores / unit).sort(dim=1, descending=True)
        is_first = row < self.n_first
        place = torch.arange(1, n + 1, device=scores.device)
        count = is_first.cumsum(1)
        first, second = count.double() / self.n_first, (place - count).double() / (n - self.n_first)
        edge = torch.ones((len(scores), 1), dtype=torch.bool, device=scores.device)
        differs = ordered[:, 1:] != ordered[:, :-1]
        begins, ends = torch.cat([edge, differs], 1), torch.cat([differs, edge], 1)
        distance = self.gap_at(first, second) * ends
        own = torch.where(is_first, first, second)
        size = torch.where(is_first, self.n_first, n - self.n_first).double()
        held = size * (own.clamp(low, high) - (own - 1 / size).clamp(low, high))
        band = (held * ~(begins & ends)).sum(1) / held.sum(1)
        block = (place + 1 - torch.where(begins, place, 0).cummax(1).values).amax(1) / n
        untied = (band <= self.free_ties[1] + MORE_TIES) & (block <= self.free_ties[0] + MORE_TIES)
        chunk = n // CHUNKS
        worst, at = distance[:, : chunk * CHUNKS].unflatten(1, (CHUNKS, chunk)).max(2)
        at = at + chunk * torch.arange(CHUNKS, device=scores.device)
        chosen = at.gather(1, worst.topk(SCREENS, dim=1).indices)
        return distance.amax(1), untied, (ordered.gather(1, chosen) - 0.5) * unit

    def rescaled(self, models: Tensor, scores: Tensor, rounds: int = 6) -> Tensor:
        """Return models with the best factor, and for pSP the best number added: the gap is the same."""
        penalty = self.alpha * models[..., :-1].square().sum((1, 2))
        by = torch.zeros((len(models), 2), dtype=scores.dtype, device=scores.device)
        by[:, 0] = 1.0
        moves = torch.tensor([1.0, 1.0 if self.kind == "pSP" else 0.0], dtype=by.dtype, device=by.device)
        for _ in range(rounds):
            at = by[:, :1] * scores + by[:, 1:]
            wrong = torch.sigmoid(-self.signs * at)
            pull, curve = -self.signs * wrong, wrong * (1 - wrong)
            slope = torch.stack([(pull * scores).mean(1) + penalty * by[:, 0], pull.mean(1)], 1) * moves
            mixed = (curve * scores).mean(1) * moves[1]
            corner = (curve * scores.square()).mean(1) + penalty + 1e-12
            last = torch.where(moves[1] > 0, curve.mean(1) + 1e-12, 1.0)
            determinant = corner * last - mixed.square()
            by[:, 0] -= (last * slope[:, 0] - mixed * slope[:, 1]) / determinant
            by[:, 1] -= (corner * slope[:, 1] - mixed * slope[:, 0]) / determinant
        better = models * by[:, :1, None]
        better[..., -1] += by[:, 1:]
        fine = (by[:, 0] > 1e-3) & (by[:, 0] < 1e3) & by.isfinite().all(1)
        lower = self.objective(better, self.scores(better)) < self.objective(models, scores)
        return torch.where((fine & lower)[:, None, None], better, models)


def scores_of(blocks: tuple[Tensor, ...], models: Tensor) -> Tensor:
    """Return scores, of which each block has the rows of one coefficient vector."""
    return torch.cat([models[:, k] @ block.T for k, block in enumerate(blocks)], 1)


def pulled(blocks: tuple[Tensor, ...], by_score: Tensor) -> Tensor:
    """Return the gradient in the coefficients of a function of the scores."""
    parts = by_score.split([len(block) for block in blocks], 1)
    return torch.stack([part @ block for part, block in zip(parts, blocks, strict=True)], 1)
