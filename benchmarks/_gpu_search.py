"""The search of `gpu_references`: descents and random steps for thousands of models at once, in PyTorch.

Descents are in single precision; what decides anything is judged by `_gpu_problem`, in double precision.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from _gpu_problem import ROUNDING, SCREENS, Problem, Tensor, pulled, scores_of

GRID = 1024
"""Thresholds of the smoothed ranks."""
MEMORY = 12
"""Steps that L-BFGS remembers."""
CHAINS = 6
"""Models of each κ that take random steps side by side."""
KINDS = 5
"""Sorts of random steps: whitened noise, coefficients, segments, differences, against the gradient."""


@dataclass(frozen=True, eq=False)
class Whitened:
    """The problem in single precision, as moves from the unconstrained model in its Hessian's metric."""

    problem: Problem
    blocks: tuple[Tensor, ...]
    free_scores: Tensor

    @classmethod
    def of(cls, problem: Problem) -> Whitened:
        """Return the whitened problem."""
        blocks = tuple((b @ f.T).float() for b, f in zip(problem.blocks, problem.factor, strict=True))
        return cls(problem, blocks, problem.scores(problem.free[None]).float())

    def models(self, moves: Tensor) -> Tensor:
        """Return the models of some moves."""
        return self.problem.free + torch.einsum("bkp,kpq->bkq", moves.double(), self.problem.factor)

    def moves(self, models: Tensor) -> Tensor:
        """Return the moves that lead to some models."""
        inverse = torch.linalg.inv(self.problem.factor)
        return torch.einsum("bkp,kpq->bkq", models - self.problem.free, inverse).float()

    def descend(
        self, moves: Tensor, rounds: list[tuple[Tensor, Tensor]], price: Tensor, steps: int
    ) -> Tensor:
        """Minimise the objective plus the smoothed gap's excess, so many steps of L-BFGS in each round.

        Rounds have a width of the kernel, in standard deviations of the scores, and what is allowed.
        """
        for width, allowed in rounds:
            scores = self.free_scores + scores_of(self.blocks, moves)
            wide = width * scores[:, ::7].std(1)
            ends = self._ends(scores, wide)

            moves = _minimised(
                partial(self._worth, width=wide, allowed=allowed, price=price, ends=ends), moves, steps
            )
        return moves

    def _worth(
        self, moves: Tensor, width: Tensor, allowed: Tensor, price: Tensor, ends: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the penalised objective and its gradient."""
        problem = self.problem
        scores = self.free_scores + scores_of(self.blocks, moves)
        margins = problem.signs.float() * scores
        by_score = -problem.signs.float() * torch.sigmoid(-margins) / scores.shape[1]
        penalty, pushed = self._pushed(scores, width, allowed, price, ends)
        slope = pulled(self.blocks, by_score + pushed)
        shrink = problem.factor.float().clone()
        shrink[..., -1] = 0.0  # intercepts are not penalised
        free = problem.free.float().clone()
        free[:, -1] = 0.0
        coef = free + torch.einsum("bkp,kpq->bkq", moves, shrink)
        slope += problem.alpha * torch.einsum("bkq,kpq->bkp", coef, shrink)
        loss = torch.nn.functional.softplus(-margins).mean(1) + 0.5 * problem.alpha * coef.square().sum(
            (1, 2)
        )
        return loss + penalty, slope

    def _ends(self, scores: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores between which thresholds are laid: a little more than the interval."""
        low, high = self.problem.interval
        n_first, below, above = self.problem.n_first, [], []
        for part in (scores[:, :n_first], scores[:, n_first:]):
            few = part[:, :: max(1, part.shape[1] // 4000)].sort(dim=1, descending=True).values
            below.append(few[:, min(int((high + 0.02) * few.shape[1]), few.shape[1] - 1)])
            above.append(few[:, max(int((low - 0.02) * few.shape[1]), 0)])
        return torch.minimum(*below) - 3 * width, torch.maximum(*above) + 3 * width

    def _pushed(
        self, scores: Tensor, width: Tensor, allowed: Tensor, price: Tensor, ends: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the penalty and its gradient in the scores."""
        problem, n_first = self.problem, self.problem.n_first
        if problem.kind == "pDP":
            u = scores / width[:, None]
            ranks = torch.special.ndtr(u)
            means = ranks[:, :n_first].mean(1, keepdim=True), ranks[:, n_first:].mean(1, keepdim=True)
            penalty, slopes = self._by_rank(*means, allowed, price)
            density = torch.exp(-0.5 * u.square()) / (math.sqrt(2 * math.pi) * width[:, None])
            density[:, :n_first] *= slopes[0] / n_first
            density[:, n_first:] *= slopes[1] / (scores.shape[1] - n_first)
            return penalty, density
        low, step = ends[0][:, None], ((ends[1] - ends[0]) / (GRID - 1))[:, None]
        at = (scores - low) / step
        inside, beyond = (at >= 0) & (at < GRID - 1), at >= GRID - 1
        cell = at.clamp(0, GRID - 2).long()
        share = at - cell
        # A Gaussian on the grid, padded so that nothing comes round the other end.
        wave = torch.fft.rfftfreq(2 * GRID, device=scores.device) * 2 * math.pi
        kernel = torch.exp(-0.5 * (wave * (width[:, None] / step)).square())
        ranks, parts = [], (slice(0, n_first), slice(n_first, None))
        for part in parts:
            n = scores[:, part].shape[1]
            mass = torch.zeros((len(scores), GRID), device=scores.device)
            mass.scatter_add_(1, cell[:, part], (1 - share[:, part]) * inside[:, part])
            mass.scatter_add_(1, cell[:, part] + 1, share[:, part] * inside[:, part])
            mass = torch.fft.irfft(torch.fft.rfft(mass, 2 * GRID) * kernel, 2 * GRID)[:, :GRID]
            ranks.append((mass.flip(1).cumsum(1).flip(1) + beyond[:, part].sum(1, keepdim=True)) / n)
        pushed = torch.empty_like(scores)
        penalty, slopes = self._by_rank(*ranks, allowed, price)
        for part, slope in zip(parts, slopes, strict=True):
            by_mass = slope.cumsum(1) / scores[:, part].shape[1]
            by_mass = torch.fft.irfft(torch.fft.rfft(by_mass, 2 * GRID) * kernel, 2 * GRID)[:, :GRID]
            rise = torch.diff(by_mass, dim=1) / step
            pushed[:, part] = rise.gather(1, cell[:, part]) * inside[:, part]
        return penalty, pushed

    def _by_rank(
        self, first: Tensor, second: Tensor, allowed: Tensor, price: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the penalty and its gradient in both groups' ranks at every threshold."""
        problem = self.problem
        low, high = problem.interval
        excess = (problem.gap_at(first, second) - allowed[:, None]).clamp_min(0)
        price = price[:, None] / first.shape[1]
        penalty = (price * excess.square()).sum(1)
        slope = 2 * price * excess * torch.sign(first - second)
        if problem.kind == "pSP" and problem.absolute:
            return penalty, (slope, -slope)
        slope = slope / (1.0 if problem.absolute else high - low)
        inside = [(ranks > low) & (ranks < high) for ranks in (first, second)]
        return penalty, (slope * inside[0], -slope * inside[1])


def _minimised(worth: Callable[[Tensor], tuple[Tensor, Tensor]], start: Tensor, steps: int) -> Tensor:
    """Minimise many functions at once by L-BFGS; a step that does not descend is halved in the next turn."""
    shape, x = start.shape, start.flatten(1)
    each = torch.arange(len(x), device=x.device)
    value, slope = worth(x.view(shape))
    slope = slope.flatten(1)
    moved, turned = (torch.zeros((len(x), MEMORY, x.shape[1]), device=x.device) for _ in range(2))
    inverse, last = torch.zeros((len(x), MEMORY), device=x.device), torch.zeros_like(each)
    scale, size = torch.ones_like(value), torch.ones_like(value)
    for _ in range(steps):
        way = -_by_inverse_hessian(slope, moved, turned, inverse, last, scale)
        steep = (way * slope).sum(1)
        way = torch.where((steep < 0)[:, None], way, -slope)
        steep = torch.where(steep < 0, steep, -slope.square().sum(1))
        # Steps are no longer than 1, which is far in the metric of the Hessian.
        step = (size / (way.norm(dim=1) + 1e-12).clamp_min(1.0))[:, None] * way
        trial, its_slope = worth((x + step).view(shape))
        its_slope = its_slope.flatten(1)
        taken = trial <= value + 1e-4 * size * steep + 2e-7 * value.abs()
        turn = its_slope - slope
        bend = (step * turn).sum(1)
        kept = taken & (bend > 1e-10 * turn.square().sum(1))
        slot = (last + 1) % MEMORY
        some = each[kept]
        moved[some, slot[kept]], turned[some, slot[kept]] = step[kept], turn[kept]
        inverse[some, slot[kept]] = 1.0 / bend[kept]
        last = torch.where(kept, slot, last)
        scale = torch.where(kept, bend / turn.square().sum(1).clamp_min(1e-30), scale)
        x = torch.where(taken[:, None], x + step, x)
        value, slope = torch.where(taken, trial, value), torch.where(taken[:, None], its_slope, slope)
        size = torch.where(taken, (2 * size).clamp(max=1.0), size / 3)
    return x.view(shape)


def _by_inverse_hessian(
    slope: Tensor, moved: Tensor, turned: Tensor, inverse: Tensor, last: Tensor, scale: Tensor
) -> Tensor:
    """Return the two-loop recursion of L-BFGS; what was never written has no effect."""
    each, v, factors = torch.arange(len(slope), device=slope.device), slope, []
    for back in range(MEMORY):
        at = (each, (last - back) % MEMORY)
        factors.append((inverse[at] * (moved[at] * v).sum(1))[:, None])
        v = v - factors[-1] * turned[at]
    v = scale[:, None] * v
    for back in range(MEMORY - 1, -1, -1):
        at = (each, (last - back) % MEMORY)
        v = v + (factors[back] - (inverse[at] * (turned[at] * v).sum(1))[:, None]) * moved[at]
    return v


class Search:
    """One setting: the best models of each κ so far.

    Parameters
    ----------
    problem
        The setting.
    max_gaps
        Every κ that the unconstrained model does not keep.
    seed
        Of the random numbers.
    """

    def __init__(self, problem: Problem, max_gaps: list[float], seed: int) -> None:
        self.problem = problem
        device = problem.signs.device
        self.max_gaps = torch.tensor(max_gaps, dtype=torch.float64, device=device)
        self.random = torch.Generator(device).manual_seed(seed)
        self.models, self.values = problem.free[None], torch.zeros(1, device=device).double()
        self.gaps, self.untied = torch.ones_like(self.values), torch.zeros(1, device=device).bool()
        self.consider(problem.free[None])

    def consider(self, models: Tensor) -> tuple[Tensor, Tensor]:
        """Judge models with their best scale, and remember them; return objectives and gaps."""
        problem, found = self.problem, []
        for part in models.split(max(1, 40_000_000 // len(problem.signs))):
            better = problem.rescaled(part, problem.scores(part))
            scores = problem.scores(better)
            found.append((better, problem.objective(better, scores), *problem.judge(scores)[:2]))
        better, values, gaps, untied = (torch.cat(column) for column in zip(*found, strict=True))
        self.models, self.values = torch.cat([self.models, better]), torch.cat([self.values, values])
        self.gaps, self.untied = torch.cat([self.gaps, gaps]), torch.cat([self.untied, untied])
        return values, gaps

    def best(self, max_gap: float, n: int) -> Tensor:
        """Return the n best models that keep the promise with no more ties."""
        kept = (self.gaps <= max_gap + ROUNDING) & self.untied & self.values.isfinite()
        order = torch.where(kept, self.values, math.inf).argsort()
        return self.models[order[: min(n, int(kept.sum()))]]

    def merit(self, max_gap: float) -> Tensor:
        """Return the order of all models: objective plus a price for what the gap is too wide."""
        price = 2 * (self.values[self.gaps <= max_gap].amin() if (self.gaps <= max_gap).any() else 1.0)
        lost = torch.where(self.values.isfinite(), self.values, math.inf)
        return (lost + price * (self.gaps - max_gap).clamp_min(0)).argsort()

    def descents(self, n: int, steps: int, shots: int, end: float) -> None:
        """Descend from many models; aims are corrected by the exact gap, and the better half goes on."""
        white, random = Whitened.of(self.problem), self.random
        device, m = self.max_gaps.device, len(self.max_gaps)
        target = self.max_gaps.repeat_interleave(n).float()
        known = white.moves(self.models)
        pick = torch.randint(len(known), (2, m * n), generator=random, device=device)
        mix = torch.rand((m * n, 1, 1), generator=random, device=device)
        noise = torch.randn(known[pick[0]].shape, generator=random, device=device)
        size = 10 ** (torch.rand((m * n, 1, 1), generator=random, device=device) * 2 - 2.3)
        moves = known[pick[0]] * mix + known[pick[1]] * (1 - mix)
        moves[::3] = 0.0
        moves += noise * size / math.sqrt(noise[0].numel())
        aim = target * (0.9 + 0.12 * torch.rand(m * n, generator=random, device=device))
        allowed = aim.clone()
        free_gap = float(self.gaps[1])
        from_afar = (torch.rand(m * n, generator=random, device=device) < 0.6).float()
        for shot in range(shots):
            if time.time() > end:
                return
            chance = torch.rand((3, m * n), generator=random, device=device)
            last = 0.01 * 10 ** chance[0]
            first = last + (0.4 * chance[1] if shot == 0 else 0.02)
            price = 500 * 20 ** chance[2]
            n_widths = 6 if shot == 0 else 2
            rounds = []
            for i in range(n_widths):
                # Some begin with what the unconstrained model has, and come down to κ.
                loose = max(0.0, 1 - 1.5 * i / (n_widths - 1)) * from_afar if shot == 0 else 0.0 * from_afar
                eased = allowed * (free_gap / allowed) ** loose
                rounds.append((first * (last / first) ** (i / (n_widths - 1)), eased))
            moves = white.descend(moves, rounds, price, steps)
            values, gaps = self.consider(white.models(moves))
            allowed = allowed + 0.8 * (aim - gaps.float())
            for k, max_gap in enumerate(self.max_gaps.tolist()):
                of = slice(k * n, (k + 1) * n)
                order = (values[of] + (gaps[of] - max_gap).clamp_min(0)).nan_to_num(math.inf).argsort()
                half = order[: n // 2].repeat(2)[:n] + k * n
                moves[of], allowed[of], aim[of] = moves[half], allowed[half], aim[half]
            allowed = torch.minimum(torch.maximum(allowed, 0.2 * aim), 1.5 * aim)

    def climb(self, n_candidates: int, end: float, saved: Callable[[], None]) -> int:
        """Take random steps until time is up; return how many rounds there were."""
        starts = [self.best(gap, CHAINS) for gap in self.max_gaps.tolist()]
        if not sum(len(start) for start in starts):
            return 0
        goals = torch.cat([self.models[self.merit(gap)[:24]] for gap in self.max_gaps.tolist()])
        goals = torch.cat([goals, self.problem.free[None]])
        wanted = torch.cat(
            [torch.full((len(s),), g) for s, g in zip(starts, self.max_gaps.tolist(), strict=True)]
        )
        climbers = Climbers(self.problem, torch.cat(starts), wanted.to(goals), goals, self.random)
        rounds, saved_at = 0, time.time()
        while time.time() < end:
            climbers.step(max(KINDS, n_candidates // len(wanted)))
            rounds += 1
            if rounds % 100 == 0:
                climbers.polish()
            if time.time() - saved_at > 20:
                self.consider(climbers.models)
                saved()
                saved_at = time.time()
        climbers.polish()
        self.consider(climbers.models)
        return rounds


class Climbers:
    """Models that take random steps on the exact metric: lower objectives first, then the gap."""

    def __init__(
        self, problem: Problem, models: Tensor, wanted: Tensor, goals: Tensor, random: torch.Generator
    ) -> None:
        self.problem, self.models, self.goals, self.random = problem, models, goals, random
        self.wanted = wanted.double()
        scores = problem.scores(models)
        self.values = problem.objective(models, scores)
        self.screens = problem.judge(scores)[2]
        self.sizes = torch.full((len(models), KINDS), 0.05, dtype=torch.float64, device=models.device)
        # What one coefficient may move by, and what it costs: its own entry of the Hessian's diagonal.
        self.unit = torch.linalg.inv(problem.factor).square().sum(2).rsqrt()

    def polish(self) -> None:
        """Give every model its best scale; those at the end of their steps begin with long ones again."""
        scores = self.problem.scores(self.models)
        better = self.problem.rescaled(self.models, scores)
        scores = self.problem.scores(better)
        gap, untied, screens = self.problem.judge(scores)
        fine = (gap <= self.wanted + ROUNDING) & untied
        self.models = torch.where(fine[:, None, None], better, self.models)
        self.values = torch.where(fine, self.problem.objective(better, scores), self.values)
        self.screens = torch.where(fine[:, None], screens, self.screens)
        self.sizes[self.sizes < 1e-6] = 0.05

    def step(self, n_each: int) -> None:
        """Try so many steps of each model, and take the best."""
        problem, c = self.problem, len(self.models)
        kinds = torch.arange(n_each, device=self.models.device) % KINDS
        sizes = self.sizes[:, kinds] * torch.exp(self._normal(c, n_each))
        trials = self.models[:, None] + self._directions(n_each, kinds, sizes)
        flat = trials.flatten(0, 1)
        scores = problem.scores(flat)
        values = problem.objective(flat, scores).view(c, n_each)
        lower = values < self.values[:, None] - ROUNDING
        rows = lower.flatten().nonzero().ravel()
        if len(rows):
            rows = self._screened(scores, rows, n_each)
        if len(rows):
            rows = self._few(rows, values.flatten(), n_each)
            gap, untied, screens = problem.judge(scores[rows])
            fine = (gap <= self.wanted[rows // n_each] + ROUNDING) & untied
            rows, screens = rows[fine], screens[fine]
        best = torch.full((c, n_each), math.inf, dtype=torch.float64, device=values.device)
        best.view(-1)[rows] = values.flatten()[rows]
        place = torch.full((c * n_each,), -1, device=values.device)
        place[rows] = torch.arange(len(rows), device=values.device)
        value, at = best.min(1)
        won = value.isfinite().nonzero().ravel()
        at = at[won]
        self.sizes *= 0.97
        if len(won):
            self.models[won], self.values[won] = trials[won, at], value[won]
            self.screens[won] = screens[place[won * n_each + at]]
            old = self.sizes[won, kinds[at]] / 0.97
            self.sizes[won, kinds[at]] = (old**0.6 * sizes[won, at] ** 0.4 * 1.15).clamp(1e-7, 1.0)

    def _screened(self, scores: Tensor, rows: Tensor, n_each: int) -> Tensor:
        """Return the rows that keep the promise, or that keep it at the thresholds to screen at."""
        wanted = self.wanted + ROUNDING
        if self.problem.kind == "pDP":
            return rows[self.problem.selection_gap(scores[rows]) <= wanted[rows // n_each]]
        for t in range(SCREENS):
            ranks = self.problem.ranks_at(scores[rows], self.screens[rows // n_each, t])
            rows = rows[self.problem.gap_at(*ranks) <= wanted[rows // n_each]]
            if not len(rows):
                break
        return rows

    def _few(self, rows: Tensor, values: Tensor, n_each: int, n: int = 3) -> Tensor:
        """Return a few rows of each model: those with the lowest objectives, and as many others."""
        kept = []
        for key in (values[rows], torch.rand(len(rows), generator=self.random, device=rows.device)):
            table = torch.full((len(self.models), n_each), math.inf, dtype=torch.float64, device=rows.device)
            table.view(-1)[rows] = key.double()
            lowest, at = table.topk(min(n, n_each), dim=1, largest=False)
            at = at + n_each * torch.arange(len(table), device=rows.device)[:, None]
            kept.append(at[lowest.isfinite()])
        return torch.cat(kept).unique()

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.random, device=self.models.device, dtype=torch.float64)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.random, device=self.models.device, dtype=torch.float64)

    def _some(self, pool: Tensor, c: int, n: int) -> Tensor:
        return pool[torch.randint(len(pool), (c, n), generator=self.random, device=pool.device)]

    def _directions(self, n_each: int, kinds: Tensor, sizes: Tensor) -> Tensor:
        """Return the steps of all kinds."""
        problem, (c, k, p) = self.problem, self.models.shape
        steps = torch.empty((c, n_each, k, p), dtype=torch.float64, device=self.models.device)
        n = [int((kinds == kind).sum()) for kind in range(KINDS)]
        slope = problem.slope(self.models, problem.scores(self.models))
        against = -torch.einsum("ckq,kpq->ckp", slope, problem.factor)[:, None]
        against = against / against.square().sum((2, 3), keepdim=True).sqrt()
        for kind, some in ((0, n[0]), (4, n[4])):
            z = self._normal(c, some, k, p) / math.sqrt(k * p)
            z = z * (self._uniform(c, some, k, p) < self._uniform(c, some, 1, 1))
            if kind == 4:
                z = z * self._uniform(c, some, 1, 1) * 2 + against
            steps[:, kind::KINDS] = torch.einsum("cnkp,kpq->cnkq", z, problem.factor)
        few = self._uniform(c, n[1], k, p) < 2.0 / (k * p)
        steps[:, 1::KINDS] = self._normal(c, n[1], k, p) * few * self.unit
        pool = torch.cat([self.goals, self.models])
        steps[:, 2::KINDS] = self._some(pool, c, n[2]) - self.models[:, None]
        steps[:, 3::KINDS] = self._some(pool, c, n[3]) - self._some(pool, c, n[3])
        sizes[:, 2::KINDS] = sizes[:, 2::KINDS].clamp(max=1.0)
        return steps * sizes[:, :, None, None]
