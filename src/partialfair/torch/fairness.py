"""Holds a network to constraints while its own loop trains it.

`PartialFairness` is the hook. On a GPU what it computes is recorded once, as a CUDA graph, and replayed
(`Replays`): launching its small kernels takes longer than they do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.distributed
from torch import Tensor, nn

from partialfair.constraints.base import Constraint
from partialfair.exceptions import InputError
from partialfair.torch._atoms import AtomsAt
from partialfair.torch.functions import ScoreConstraints, check_positions, check_scores, score_vector
from partialfair.utils.checks import check_choice, check_count, check_flag, check_number
from partialfair.utils.typing import ArrayLike

Method = Literal["primal_dual", "augmented_lagrangian"]
_DUAL_STEPS, _PENALTIES = 0.36, 2.4
"""Of all ranks that are looked at together, each of which has its share: .03 and .2 of twelve. Tried on law
school and the synthetic admissions: with half the step constraints are not met after 900 batches, with twice
as much gaps wander, and a penalty of .5 costs accuracy on law school."""
_MAX_DUAL_STEP, _MAX_PENALTY = 0.1, 2.0
"""Of one rank, where there are few."""
_MAX_GRAPHS = 4
"""CUDA graphs in memory: batches have one shape, and another at the end of a pass."""

Work: TypeAlias = Callable[[Sequence[Tensor | None]], tuple[Tensor, ...]]


class PartialFairness(nn.Module):
    """``min f_0 subject to f_i ≤ 0`` on the scores of a network, a batch at a time (Algorithm 1 on batches).

    With f = f⁺ − f⁻, each f⁻ is replaced by its tangent in scores and thresholds, ``g_i = f⁺_i −
    tangent of f⁻_i ≥ f_i``, at the scores that each training row had when the tangents were last refreshed:
    the subproblem of IDCA. Its method is the primal–dual one of Yu, Neely and Wei (2017): with virtual queues
    Q, a step Δ on ``V ∇f_0 + Σ Q_i ∇g_i`` and ``Q_i ← max(Q_i + g_i + ∇g_iᵀ Δ, 0)``; here both are divided by
    V, so that multipliers are ``λ = Q / V`` and ``dual_lr = 1 / V``. What is added to a queue is g_i after
    the step, to first order. So multipliers move when the next batch comes, by its g_i: no derivative of
    single constraints is needed. ``"augmented_lagrangian"`` adds ``[max(λ + ρ g, 0)² − λ²] / 2ρ`` instead and
    moves λ by the same rule.

    Under `torch.distributed` values are those of the batches of all processes together, which must be of one
    size; wrap the network, not this, in DistributedDataParallel.

    Batch means are noisy, so values, not derivatives, are averaged over the last batches: they lag behind by
    about ``1 / (1 − ema_decay)`` steps, which is their bias.

    ::

        fair = PartialFairness(constraint, groups, y)          # of all training rows
        optimizer.add_param_group({"params": fair.parameters(), "weight_decay": 0.0})
        for X, y, group, row in loader:                        # group by fair.codes, row by position
            scores = model(X).squeeze(1)
            loss = fair(loss_function(scores, y), scores, group, y, row)
            optimizer.zero_grad(); loss.backward(); optimizer.step(); fair.step()

    Parameters
    ----------
    constraints, groups, y, surrogate, surrogate_width, reaching, batch_shares, dtype
        As in `ScoreConstraints`.
    method
        ``"augmented_lagrangian"``, whose penalty acts before multipliers have grown, or ``"primal_dual"``,
        the paper's.
    dual_lr
        How fast multipliers grow with violations, which are in shares of a group; by default .36 divided by
        the number of ranks that are looked at.
    penalty
        ρ of the augmented Lagrangian; by default 2.4 divided by the same.
    ema_decay
        Share of the running averages that a batch leaves as it is; 0 looks at one batch alone.
    refresh_every
        Steps between refreshes of the tangents; the first comes after one pass over the rows. 0 takes
        tangents at the scores of each batch itself, as do calls without rows.
    warmup_epochs
        Passes over the rows before the constraints join: where all scores are equal everything is violated,
        and multipliers would grow for nothing.
    max_multiplier
        No multiplier grows beyond it.
    cuda_graph
        On a GPU, record what the hook computes and replay it in later steps: launching its small kernels one
        by one takes longer than they do.
    """

    multipliers: Tensor
    violations: Tensor
    running: Tensor
    row_codes: Tensor
    row_labels: Tensor
    row_scores: Tensor
    row_steps: Tensor
    steps: Tensor
    tangent_scores: Tensor
    tangent_theta: Tensor
    tangent_values: Tensor
    tangent_slopes: Tensor

    def __init__(
        self,
        constraints: Constraint | Sequence[Constraint],
        groups: ArrayLike,
        y: ArrayLike | None = None,
        *,
        method: Method = "augmented_lagrangian",
        dual_lr: float | None = None,
        penalty: float | None = None,
        ema_decay: float = 0.9,
        refresh_every: int = 20,
        warmup_epochs: float = 2.0,
        max_multiplier: float = 100.0,
        cuda_graph: bool = True,
        **functions: Any,
    ) -> None:
        super().__init__()
        check_choice(method, "method", ("primal_dual", "augmented_lagrangian"))
        for name, value in (("dual_lr", dual_lr), ("penalty", penalty)):
            if value is not None:
                check_number(value, name, above=0.0)
        check_number(ema_decay, "ema_decay", low=0.0, high=0.999)
        check_number(warmup_epochs, "warmup_epochs", low=0.0)
        check_number(max_multiplier, "max_multiplier", above=0.0)
        check_count(refresh_every, "refresh_every", low=0)
        check_flag(cuda_graph, "cuda_graph")
        self.functions: ScoreConstraints = ScoreConstraints(constraints, groups, y, **functions)
        self.method, self.ema_decay = method, ema_decay
        # At each rank every group is bounded from above and from below.
        n_ranks = max(self.functions.m / (2 * len(self.labels)), 1)
        self.dual_lr = min(_DUAL_STEPS / n_ranks, _MAX_DUAL_STEP) if dual_lr is None else dual_lr
        self.penalty = min(_PENALTIES / n_ranks, _MAX_PENALTY) if penalty is None else penalty
        self.refresh_every, self.warmup_epochs, self.max_multiplier = (
            refresh_every,
            warmup_epochs,
            max_multiplier,
        )
        self.cuda_graph, self._replays = cuda_graph, Replays()
        dtype, m = self.functions.theta.dtype, self.functions.m
        n_atoms = self.functions.maxima.n_atoms
        row_codes = self.functions.codes(groups)
        row_labels = (
            torch.zeros_like(row_codes) if y is None else torch.from_numpy(np.asarray(y).astype(np.int64))
        )
        buffers = {
            "multipliers": torch.zeros(m, dtype=dtype),
            "violations": torch.zeros(m, dtype=dtype),
            "running": torch.zeros(2, n_atoms, dtype=dtype),
            "row_codes": row_codes,
            "row_labels": row_labels,
            "row_scores": torch.zeros(len(row_codes), dtype=dtype),
            "row_steps": torch.zeros_like(row_codes),
            "steps": torch.zeros((), dtype=row_codes.dtype),
            "tangent_scores": torch.zeros(len(row_codes), dtype=dtype),
            "tangent_theta": torch.zeros_like(self.functions.theta.data),
            "tangent_values": torch.zeros(m, dtype=dtype),
            "tangent_slopes": torch.zeros(m, n_atoms, dtype=dtype),
        }
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)
        self._constrained_steps, self._rows_seen, self._since_refresh = 0, 0, 0
        self._has_rows, self._has_tangents, self._constrained, self._has_stepped = False, False, False, True

    @property
    def labels(self) -> tuple[Any, ...]:
        """The groups; calls name them by position."""
        return self.functions.labels

    def codes(self, groups: ArrayLike) -> Tensor:
        """Return groups as calls take them."""
        return self.functions.codes(groups)

    def forward(
        self,
        loss: Tensor,
        scores: Tensor,
        groups: Tensor,
        y: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Return the loss with the constraints' term added; in evaluation, or without derivatives, as it is.

        Where several batches make one step, divide what is returned by their number, not the loss.

        Parameters
        ----------
        loss
            f_0 of the batch.
        scores : (n,)
            Of the batch, with their graph.
        groups : (n,)
            As `codes` returns them.
        y : (n,)
            Labels, for constraints that need them.
        rows : (n,)
            Positions of the batch among the rows of the constructor; without them tangents are taken at the
            batch's own scores.
        """
        scores = score_vector(scores, self.functions.theta)
        self._check_batch(loss, scores, groups, y, rows)
        if not (self.training and torch.is_grad_enabled()):
            return loss
        self._has_rows = rows is not None
        passed = self._rows_seen / self.functions.n_rows
        self._rows_seen += len(scores) * n_processes()
        if passed < self.warmup_epochs or self.functions.m == 0:  # κ may allow everything
            self._remember(scores.detach(), rows)
            return loss
        if not self._constrained:
            self._place_thresholds(scores, groups, y, of_all_rows=rows is not None and passed >= 1)
        batch = scores.detach(), groups, y if self.functions.uses_labels else None, rows
        with torch.no_grad():
            if self._is_steady(scores, rows):
                place = self.running.data_ptr(), self.functions.theta.data_ptr(), *self._settings
                term = self._replays(self._term, batch, place)
            else:
                term = self._term(batch)
        self._has_stepped = False
        added: Tensor = _Added.apply(loss, scores, self.functions.theta, *term)  # type: ignore[no-untyped-call]
        return added

    def _check_batch(
        self, loss: Tensor, scores: Tensor, groups: Tensor, y: Tensor | None, rows: Tensor | None
    ) -> None:
        """Refuse a batch that cannot be right, from the first one on: constraints join only later."""
        check_scores(loss, "loss")
        if loss.ndim != 0:
            raise InputError(f"loss must be one number, such as a mean, not of shape {tuple(loss.shape)}")
        self.functions.check_batch(scores, groups, y)
        if rows is not None:
            meaning = "positions among the rows of training"
            check_positions(rows, "rows", scores, self.functions.n_rows, meaning)

    def step(self) -> None:
        """Count a step; call it once after each step of the optimizer.

        The multipliers move with the next batch, and tangents are refreshed here when it is time.
        """
        self._has_stepped = True
        if not self._constrained:
            return
        self._constrained_steps += 1
        self._since_refresh += 1
        if self.refresh_every == 0 or not self._has_rows:
            return
        first = not self._has_tangents and self._rows_seen >= self.functions.n_rows
        if first or (self._has_tangents and self._since_refresh >= self.refresh_every):
            self.refresh()

    @torch.no_grad()
    def refresh(self, scores: Tensor | None = None) -> None:
        """Take new tangents of all f⁻: at the last scores of all rows, or at those that are given.

        Parameters
        ----------
        scores : (n_rows,)
            Of all training rows, by position.
        """
        if scores is not None:
            scores = score_vector(scores, self.functions.theta)
            if scores.shape != self.row_scores.shape:
                raise InputError(
                    f"scores have shape {tuple(scores.shape)}, and there are {len(self.row_scores)} rows"
                )
            self.row_scores.copy_(scores)
            self.row_steps.clamp_(min=1)
        else:
            self.share_row_scores()
        functions = self.functions
        self.tangent_scores.copy_(self.row_scores)
        self.tangent_theta.copy_(functions.theta)
        weights = functions.weights(self.row_codes, self.row_labels, of_all_rows=True)
        # Rows that were not seen have no score yet: those that were stand for all of their group.
        of_seen = weights * (self.row_steps > 0)
        least = torch.finfo(weights.dtype).tiny
        of_seen *= weights.sum(-1, keepdim=True) / of_seen.sum(-1, keepdim=True).clamp(min=least)
        atoms = functions.at(self.tangent_scores, of_seen, self.tangent_theta).values
        _, minus, pieces = functions.maxima.parts_and_pieces(atoms)
        self.tangent_values.copy_(minus)
        self.tangent_slopes.copy_(functions.maxima.minus @ pieces)
        self.running[0].copy_(atoms)
        self.running[1].zero_()
        self._has_tangents, self._since_refresh = True, 0

    def _place_thresholds(
        self, scores: Tensor, groups: Tensor, y: Tensor | None, *, of_all_rows: bool
    ) -> None:
        """Put θ where they suit the last scores of all rows, or those of a first batch."""
        if of_all_rows:
            self.share_row_scores()
            seen = self.row_steps > 0  # a loader may leave out the last rows of a pass
            for code, label in enumerate(self.labels):
                if not (seen & (self.row_codes == code)).any():
                    raise InputError(f"no batch held a row of group {label!r}: are rows positions in groups?")
            scores, groups, y = self.row_scores[seen], self.row_codes[seen], self.row_labels[seen]
        self.functions.place_thresholds(scores, groups, y)
        with torch.no_grad():
            self.functions.theta.copy_(mean_over_processes(self.functions.theta))
        self._constrained = True

    def share_row_scores(self) -> None:
        """Give every process the last scores of all rows, whichever process saw them."""
        if n_processes() == 1:
            return
        # The process that saw a row last has its score; if several saw it in the same step, their mean.
        last = self.row_steps.clone()
        torch.distributed.all_reduce(last, torch.distributed.ReduceOp.MAX)
        mine = (self.row_steps == last).to(self.row_scores.dtype)
        scores = self.row_scores * mine
        torch.distributed.all_reduce(mine)
        torch.distributed.all_reduce(scores)
        self.row_scores.copy_(scores / mine)
        self.row_steps.copy_(last)

    def _is_steady(self, scores: Tensor, rows: Tensor | None) -> bool:
        """Return whether nothing but the batch and the buffers will change in the next step, on a GPU."""
        return (
            self.cuda_graph
            and scores.is_cuda
            and rows is not None
            and (self._has_tangents or self.refresh_every == 0)
            and self._has_stepped
            and self._rate == 1 - self.ema_decay
            and n_processes() == 1
        )

    @property
    def _settings(self) -> tuple[Any, ...]:
        """Numbers of the host that are part of what is recorded."""
        return (
            self.method,
            self.dual_lr,
            self.penalty,
            self.ema_decay,
            self.max_multiplier,
            self.refresh_every == 0,
        )

    @property
    def _rate(self) -> float:
        """How far running averages move: plain means at first."""
        return max(1 - self.ema_decay, 1 / (self._constrained_steps + 1))

    def _remember(self, scores: Tensor, rows: Tensor | None) -> None:
        """Store the scores of rows, and when they had them."""
        if rows is None:
            return
        rows = rows.long()
        # A step that overflows, which a scaler of gradients leaves out, must not be remembered.
        known = torch.where(scores.isfinite(), scores.to(self.row_scores.dtype), self.row_scores[rows])
        self.row_scores.index_copy_(0, rows, known)
        self.steps += 1
        self.row_steps.index_copy_(0, rows, self.steps.expand(len(rows)))

    def _term(self, batch: Sequence[Tensor | None]) -> tuple[Tensor, Tensor, Tensor]:
        """Return what is added to the loss, and its derivatives by score and by threshold."""
        scores, groups, y, rows = batch
        assert scores is not None
        assert groups is not None
        self._remember(scores, rows)
        majorants = self._majorants(scores.to(self.functions.theta.dtype), groups, y, rows)
        # As fractions of a group, whatever the scale of gaps: multipliers then grow at one speed.
        torch.div(majorants.values, self.functions.maxima.scales, out=self.violations)
        if self._has_stepped:  # several batches may be one step
            self.multipliers.add_(self.violations, alpha=self.dual_lr).clamp_(0.0, self.max_multiplier)
        if self.method == "primal_dual":
            value, slopes = self.multipliers @ self.violations, self.multipliers
        else:  # [max(λ + ρ g, 0)² − λ²] / 2ρ, whose slopes in g are max(λ + ρ g, 0)
            slopes = torch.relu(self.multipliers + self.penalty * self.violations)
            value = (slopes.square() - self.multipliers.square()).sum() / (2 * self.penalty)
        by_score, by_theta = majorants.combine(slopes / self.functions.maxima.scales)
        return value, by_score.to(scores.dtype), by_theta

    def _majorants(self, scores: Tensor, groups: Tensor, y: Tensor | None, rows: Tensor | None) -> _Majorants:
        """Return ``g_i = f⁺_i − tangent of f⁻_i`` by running averages, with the batch's derivatives."""
        functions, maxima = self.functions, self.functions.maxima
        weights, theta = functions.weights(groups, y), functions.theta.detach()
        here = functions.at(scores, weights, theta)
        if rows is None or not self._has_tangents or self.refresh_every == 0:
            atoms, _ = self._average(here.values)
            plus, minus, pieces = maxima.parts_and_pieces(atoms)
            return _Majorants(plus - minus, here, maxima.plus, pieces, here, maxima.minus @ pieces)
        tangent_scores = self.tangent_scores[rows]
        there = functions.at(tangent_scores, weights, self.tangent_theta)
        # f⁻ at the tangent plus its slopes times the mean change of atoms from there.
        changes = there.changes(scores - tangent_scores, theta - self.tangent_theta)
        atoms, changes = self._average(here.values, changes)
        plus, _, pieces = maxima.parts_and_pieces(atoms)
        minus = torch.addmv(self.tangent_values, self.tangent_slopes, changes)
        return _Majorants(plus - minus, here, maxima.plus, pieces, there, self.tangent_slopes)

    def _average(self, *batch: Tensor) -> Tensor:
        """Move running averages towards the batch, and return all of them."""
        values = mean_over_processes(torch.stack(batch)).to(self.running.dtype)
        running = self.running[: len(batch)]
        # A step that overflowed, which a scaler of gradients leaves out, moves no average.
        running.lerp_(torch.where(values.isfinite(), values, running), self._rate)
        return self.running

    def get_extra_state(self) -> dict[str, Any]:
        """Return what `state_dict` keeps besides tensors."""
        return {name: getattr(self, name) for name in _COUNTERS}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take it back."""
        for name in _COUNTERS:
            setattr(self, name, state[name])


@dataclass(frozen=True, eq=False)
class _Majorants:
    """``g = f⁺ − tangent of f⁻`` of a batch.

    Attributes
    ----------
    values : (m,)
        g.
    here
        Atoms at the batch's scores, of which ``plus @ pieces`` are the slopes of f⁺.
    there
        Atoms where the tangents are taken, of which ``minus_slopes`` are the slopes of f⁻.
    """

    values: Tensor
    here: AtomsAt
    plus: Tensor
    pieces: Tensor
    there: AtomsAt
    minus_slopes: Tensor

    def combine(self, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of ``Σ coefficients · g`` by score and by threshold."""
        up, down = (coefficients @ self.plus) @ self.pieces, coefficients @ self.minus_slopes
        if self.there is self.here:
            return self.here.combine(up - down)
        score_up, theta_up = self.here.combine(up)
        score_down, theta_down = self.there.combine(down)
        return score_up - score_down, theta_up - theta_down


class _Added(torch.autograd.Function):
    """A loss plus a term whose derivatives by score and by threshold are known: a step builds no graph."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, scores: Tensor, theta: Tensor, *term: Tensor) -> Tensor:
        """Return the sum; the term is its value and its derivatives."""
        value, *derivatives = term
        ctx.save_for_backward(*derivatives)
        return loss + value

    @staticmethod
    def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor | None, ...]:
        """Return derivatives by loss, scores and thresholds."""
        by_score, by_theta = ctx.saved_tensors
        # DistributedDataParallel averages the network's gradients; thresholds are not its own.
        return by_loss, by_loss * by_score, mean_over_processes(by_loss * by_theta), None, None, None


_COUNTERS = (
    "_constrained_steps",
    "_rows_seen",
    "_since_refresh",
    "_has_rows",
    "_has_tangents",
    "_constrained",
    "_has_stepped",
)


def n_processes() -> int:
    """Return how many processes train together."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if together else 1


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean of what all processes have: batches of equal size are then one batch."""
    if n_processes() == 1:
        return values
    total = values.clone()
    torch.distributed.all_reduce(total)
    return total / n_processes()


@dataclass(frozen=True, eq=False)
class _Record:
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor | None]
    outputs: tuple[Tensor, ...]


class Replays:
    """CUDA graphs of one function of tensors, one for each shape of its inputs.

    Recorded kernels read and write the same memory each time, so inputs are copied to where they were when
    they were recorded, and what is written elsewhere (buffers of modules) must stay where it is. Copies, also
    those that are pickled, begin without any: graphs belong to the memory of one module.
    """

    def __init__(self) -> None:
        self._records: dict[Hashable, _Record] = {}

    def __deepcopy__(self, memo: Any) -> Replays:
        return Replays()

    def __getstate__(self) -> dict[str, Any]:
        return {"_records": {}}

    def __call__(self, work: Work, inputs: Sequence[Tensor | None], place: Hashable) -> tuple[Tensor, ...]:
        """Return what the work returns for some inputs; it is overwritten by the next call.

        Parameters
        ----------
        work
            Kernels only: nothing of it may wait for the device or depend on numbers of the host that change.
        inputs
            On a GPU, without derivatives.
        place
            Where the memory is that the work reads and writes besides; elsewhere it is recorded anew.
        """
        key = (place, *(None if tensor is None else (tensor.shape, tensor.dtype) for tensor in inputs))
        record = self._records.get(key)
        if record is None:
            if len(self._records) >= _MAX_GRAPHS:
                return work(inputs)
            record = self._records[key] = self._record(work, inputs)
        # Recorded kernels read the same memory each time.
        for held, given in zip(record.inputs, inputs, strict=True):
            if held is not None and given is not None:
                held.copy_(given)
        record.graph.replay()
        return record.outputs

    @staticmethod
    def _record(work: Work, inputs: Sequence[Tensor | None]) -> _Record:
        """Record the work; nothing of it is done yet."""
        held = [None if tensor is None else tensor.clone() for tensor in inputs]
        graph = torch.cuda.CUDAGraph()
        # Other threads, such as a loader's, may go on with what they do.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = work(held)
        return _Record(graph, held, outputs)
