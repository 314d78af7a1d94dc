"""Constraints on a network in any training loop.

`PartialFairness` is the hook. On a GPU its computations are recorded once as a CUDA graph and replayed
(`Replays`), because launching its small kernels takes longer than running them.
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
"""Defaults for all ranks together, divided by the number of ranks: 0.03 and 0.2 for twelve ranks. On law
school and the synthetic admissions, constraints are violated after 900 batches with half the step, gaps
oscillate with twice the step, and a penalty of 0.5 costs accuracy on law school."""
_MAX_DUAL_STEP, _MAX_PENALTY = 0.1, 2.0
"""Upper limits of these defaults for one rank."""
_MAX_GRAPHS = 4
"""CUDA graphs in memory: batches have one shape, and another one at the end of an epoch."""

Work: TypeAlias = Callable[[Sequence[Tensor | None]], tuple[Tensor, ...]]


class PartialFairness(nn.Module):
    """Constraints on the scores of a network, for any training loop (Algorithm 1 of the paper on batches).

    The module adds a term to the loss of each batch, so that training solves ``min f_0 subject to f_i ≤ 0``.
    With f = f⁺ − f⁻, each f⁻ is replaced by its tangent in scores and thresholds, ``g_i = f⁺_i − tangent of
    f⁻_i ≥ f_i``, at the scores that the training rows had when the tangents were last refreshed. This is the
    subproblem of IDCA.

    The method ``"primal_dual"`` is the one of Yu, Neely and Wei (2017): with virtual queues Q, a step Δ on
    ``V ∇f_0 + Σ Q_i ∇g_i`` and ``Q_i ← max(Q_i + g_i + ∇g_iᵀ Δ, 0)``. Here both are divided by V, so that
    the multipliers are ``λ = Q / V`` and ``dual_lr = 1 / V``. The update uses g_i after the step, to first
    order; therefore the multipliers are updated with the g_i of the next batch, and no derivatives of single
    constraints are needed. ``"augmented_lagrangian"`` adds ``[max(λ + ρ g, 0)² − λ²] / 2ρ`` to the loss
    instead, and updates λ in the same way.

    Batch means are noisy. Values, but not derivatives, are therefore averaged over the last batches, which
    delays them by about ``1 / (1 − ema_decay)`` steps.

    With `torch.distributed`, values are means over the batches of all processes, which must have equal sizes.
    Wrap the network, and not this module, in DistributedDataParallel.

    Parameters
    ----------
    constraints : Constraint or list of Constraint
        The constraints, from `partialfair.constraints`.
    groups : array-like of shape (n_rows,)
        The group of every training row.
    y : array-like of shape (n_rows,), default=None
        Labels 0 and 1 of every training row, for constraints that compare rows with the same label.
    method : {"augmented_lagrangian", "primal_dual"}, default="augmented_lagrangian"
        The method. The penalty of the augmented Lagrangian acts while multipliers are still small;
        ``"primal_dual"`` is the method of the paper.
    dual_lr : float, default=None
        The step size of the multipliers; violations are proportions of a group. If None, 0.36 divided by the
        number of ranks of the constraints, at most 0.1.
    penalty : float, default=None
        The penalty ρ of the augmented Lagrangian. If None, 2.4 divided by the number of ranks of the
        constraints, at most 2.
    ema_decay : float, default=0.9
        The weight of the previous value in running averages; with 0 each batch is used alone.
    refresh_every : int, default=20
        The number of steps between refreshes of the tangents, which begin after one epoch. With 0, and in
        calls without ``rows``, tangents are at the scores of the batch itself.
    warmup_epochs : float, default=2.0
        The number of epochs before the constraints are added. At the start of training all scores are nearly
        equal, all constraints are violated, and multipliers would grow without benefit.
    max_multiplier : float, default=100.0
        The upper limit of the multipliers.
    cuda_graph : bool, default=True
        Whether to record the computations on a GPU and replay them in later steps, which is faster than
        launching many small kernels.
    **functions
        Parameters of `ScoreConstraints`: ``surrogate``, ``surrogate_width``, ``reaching``, ``batch_shares``
        and ``dtype``.

    Attributes
    ----------
    multipliers : Tensor of shape (m,)
        The multiplier of each function.
    violations : Tensor of shape (m,)
        The last averaged values of the functions, as proportions of a group.
    labels : tuple
        The groups, in the order of their codes.

    See Also
    --------
    ScoreConstraints : The constraints as functions of scores, for other methods of training.
    GroupBatchSampler : Batches with enough rows of every group.
    refit_head : Refit the last layer under a constraint, with a KKT certificate.

    References
    ----------
    H. Yu, M. J. Neely and X. Wei, "Online convex optimization with stochastic constraints", NeurIPS 2017.

    Examples
    --------
    >>> import torch
    >>> from partialfair.constraints import StatisticalParity
    >>> from partialfair.torch import PartialFairness
    >>> X = torch.linspace(-1, 1, 200).unsqueeze(1)
    >>> y, groups = (X[:, 0] > 0).float(), ["a", "b"] * 100
    >>> model = torch.nn.Linear(1, 1)
    >>> fair = PartialFairness(StatisticalParity((0.1, 0.5), max_gap=0.1), groups)
    >>> codes = fair.codes(groups)
    >>> optimizer = torch.optim.Adam([*model.parameters(), *fair.parameters()], lr=0.01)
    >>> for epoch in range(4):
    ...     for rows in torch.arange(200).split(50):
    ...         scores = model(X[rows]).squeeze(1)
    ...         loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, y[rows])
    ...         loss = fair(loss, scores, codes[rows], y[rows], rows)
    ...         optimizer.zero_grad()
    ...         loss.backward()
    ...         optimizer.step()
    ...         fair.step()
    >>> bool(fair.multipliers.min() >= 0)
    True
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
        # At each rank every group has an upper and a lower bound.
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
        """The groups, in the order of their codes."""
        return self.functions.labels

    def codes(self, groups: ArrayLike) -> Tensor:
        """Return the codes of groups, which calls need."""
        return self.functions.codes(groups)

    def forward(
        self,
        loss: Tensor,
        scores: Tensor,
        groups: Tensor,
        y: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Return the loss plus the term of the constraints.

        In evaluation mode, and without gradients, the loss is returned unchanged. If several batches make one
        step, divide the result, and not the loss, by their number.

        Parameters
        ----------
        loss : Tensor of shape ()
            The loss f_0 of the batch.
        scores : Tensor of shape (n,)
            The scores of the batch, with their graph.
        groups : Tensor of shape (n,)
            The codes of the groups, from `codes`.
        y : Tensor of shape (n,), default=None
            Labels 0 and 1, for constraints that need them.
        rows : Tensor of shape (n,), default=None
            Positions of the batch among the rows of the constructor. If None, tangents are at the scores of
            the batch itself.

        Returns
        -------
        Tensor of shape ()
            The loss with the term added.
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
        """Raise an error for an invalid batch, also before the constraints are added."""
        check_scores(loss, "loss")
        if loss.ndim != 0:
            raise InputError(f"loss must be one number, such as a mean, not of shape {tuple(loss.shape)}")
        self.functions.check_batch(scores, groups, y)
        if rows is not None:
            meaning = "positions among the rows of training"
            check_positions(rows, "rows", scores, self.functions.n_rows, meaning)

    def step(self) -> None:
        """Count a step and refresh the tangents if needed; call it after each step of the optimizer.

        The multipliers are updated with the next batch.
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
        """Compute new tangents of all f⁻, at the last scores of all rows or at the given scores.

        Parameters
        ----------
        scores : Tensor of shape (n_rows,), default=None
            Scores of all training rows, by position. If None, the last score of each row.
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
        # Rows that no batch contained have no score: the other rows represent their group.
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
        """Initialize θ from the last scores of all rows, or from the scores of a first batch."""
        if of_all_rows:
            self.share_row_scores()
            seen = self.row_steps > 0  # a loader may leave out the last rows of a pass
            for code, label in enumerate(self.labels):
                if not (seen & (self.row_codes == code)).any():
                    raise InputError(
                        f"no batch contained a row of group {label!r}: rows must be positions in groups"
                    )
            scores, groups, y = self.row_scores[seen], self.row_codes[seen], self.row_labels[seen]
        self.functions.place_thresholds(scores, groups, y)
        with torch.no_grad():
            self.functions.theta.copy_(mean_over_processes(self.functions.theta))
        self._constrained = True

    def share_row_scores(self) -> None:
        """Exchange the last scores of all rows between processes."""
        if n_processes() == 1:
            return
        # The latest score of a row counts, or the mean if several processes computed it in the same step.
        last = self.row_steps.clone()
        torch.distributed.all_reduce(last, torch.distributed.ReduceOp.MAX)
        mine = (self.row_steps == last).to(self.row_scores.dtype)
        scores = self.row_scores * mine
        torch.distributed.all_reduce(mine)
        torch.distributed.all_reduce(scores)
        self.row_scores.copy_(scores / mine)
        self.row_steps.copy_(last)

    def _is_steady(self, scores: Tensor, rows: Tensor | None) -> bool:
        """Return whether the next steps on a GPU change the batch and the buffers only."""
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
        """Host-side numbers that are constants of a recorded graph."""
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
        """The step of running averages, which are plain means at first."""
        return max(1 - self.ema_decay, 1 / (self._constrained_steps + 1))

    def _remember(self, scores: Tensor, rows: Tensor | None) -> None:
        """Store the scores of rows, and the step at which they were computed."""
        if rows is None:
            return
        rows = rows.long()
        # Scores of a step that overflows, which a gradient scaler skips, must not be stored.
        known = torch.where(scores.isfinite(), scores.to(self.row_scores.dtype), self.row_scores[rows])
        self.row_scores.index_copy_(0, rows, known)
        self.steps += 1
        self.row_steps.index_copy_(0, rows, self.steps.expand(len(rows)))

    def _term(self, batch: Sequence[Tensor | None]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the term of the loss, and its derivatives by score and by threshold."""
        scores, groups, y, rows = batch
        assert scores is not None
        assert groups is not None
        self._remember(scores, rows)
        majorants = self._majorants(scores.to(self.functions.theta.dtype), groups, y, rows)
        # Violations are proportions of a group on either scale, so that one step size suits both.
        torch.div(majorants.values, self.functions.maxima.scales, out=self.violations)
        if self._has_stepped:  # several batches may form one step
            self.multipliers.add_(self.violations, alpha=self.dual_lr).clamp_(0.0, self.max_multiplier)
        if self.method == "primal_dual":
            value, slopes = self.multipliers @ self.violations, self.multipliers
        else:  # [max(λ + ρ g, 0)² − λ²] / 2ρ, whose slopes in g are max(λ + ρ g, 0)
            slopes = torch.relu(self.multipliers + self.penalty * self.violations)
            value = (slopes.square() - self.multipliers.square()).sum() / (2 * self.penalty)
        by_score, by_theta = majorants.combine(slopes / self.functions.maxima.scales)
        return value, by_score.to(scores.dtype), by_theta

    def _majorants(self, scores: Tensor, groups: Tensor, y: Tensor | None, rows: Tensor | None) -> _Majorants:
        """Return ``g_i = f⁺_i − tangent of f⁻_i`` from running averages, with derivatives of the batch."""
        functions, maxima = self.functions, self.functions.maxima
        weights, theta = functions.weights(groups, y), functions.theta.detach()
        here = functions.at(scores, weights, theta)
        if rows is None or not self._has_tangents or self.refresh_every == 0:
            atoms, _ = self._average(here.values)
            plus, minus, pieces = maxima.parts_and_pieces(atoms)
            return _Majorants(plus - minus, here, maxima.plus, pieces, here, maxima.minus @ pieces)
        tangent_scores = self.tangent_scores[rows]
        there = functions.at(tangent_scores, weights, self.tangent_theta)
        # f⁻ at the tangent point plus its slopes times the mean change of atoms from that point.
        changes = there.changes(scores - tangent_scores, theta - self.tangent_theta)
        atoms, changes = self._average(here.values, changes)
        plus, _, pieces = maxima.parts_and_pieces(atoms)
        minus = torch.addmv(self.tangent_values, self.tangent_slopes, changes)
        return _Majorants(plus - minus, here, maxima.plus, pieces, there, self.tangent_slopes)

    def _average(self, *batch: Tensor) -> Tensor:
        """Update the running averages with the batch, and return them."""
        values = mean_over_processes(torch.stack(batch)).to(self.running.dtype)
        running = self.running[: len(batch)]
        # A step that overflowed, which a gradient scaler skips, changes no average.
        running.lerp_(torch.where(values.isfinite(), values, running), self._rate)
        return self.running

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state that is not a tensor, for `state_dict`."""
        return {name: getattr(self, name) for name in _COUNTERS}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the state that is not a tensor."""
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
        Atoms at the scores of the batch; ``plus @ pieces`` are the slopes of f⁺ in them.
    there
        Atoms at the tangent points; ``minus_slopes`` are the slopes of f⁻ in them.
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
    """Add a term with known derivatives by score and by threshold to a loss, without a graph of the term."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, scores: Tensor, theta: Tensor, *term: Tensor) -> Tensor:
        """Return the sum; the term consists of its value and its derivatives."""
        value, *derivatives = term
        ctx.save_for_backward(*derivatives)
        return loss + value

    @staticmethod
    def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor | None, ...]:
        """Return derivatives by loss, scores and thresholds."""
        by_score, by_theta = ctx.saved_tensors
        # DistributedDataParallel averages gradients of the network, but not those of the thresholds.
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
    """Return the number of processes that train together."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if together else 1


def mean_over_processes(values: Tensor) -> Tensor:
    """Return the mean over processes: batches of equal size then act as one batch."""
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
    """CUDA graphs of a function of tensors, one for each shape of its inputs.

    Recorded kernels always read and write the same memory. Inputs are therefore copied to the memory of the
    recorded inputs, and buffers that the function uses must not move. Copies and pickles of this object have
    no graphs, which belong to the memory of one module.
    """

    def __init__(self) -> None:
        self._records: dict[Hashable, _Record] = {}

    def __deepcopy__(self, memo: Any) -> Replays:
        return Replays()

    def __getstate__(self) -> dict[str, Any]:
        return {"_records": {}}

    def __call__(self, work: Work, inputs: Sequence[Tensor | None], place: Hashable) -> tuple[Tensor, ...]:
        """Return the results of the work; the next call overwrites them.

        Parameters
        ----------
        work
            A function of kernels only: it must not wait for the device, nor depend on changing numbers of the
            host.
        inputs
            Tensors on a GPU, without gradients.
        place
            Identifies the other memory that the work uses; another value causes another recording.
        """
        key = (place, *(None if tensor is None else (tensor.shape, tensor.dtype) for tensor in inputs))
        record = self._records.get(key)
        if record is None:
            if len(self._records) >= _MAX_GRAPHS:
                return work(inputs)
            record = self._records[key] = self._record(work, inputs)
        # Recorded kernels always read the same memory.
        for held, given in zip(record.inputs, inputs, strict=True):
            if held is not None and given is not None:
                held.copy_(given)
        record.graph.replay()
        return record.outputs

    @staticmethod
    def _record(work: Work, inputs: Sequence[Tensor | None]) -> _Record:
        """Record the work without running it."""
        held = [None if tensor is None else tensor.clone() for tensor in inputs]
        graph = torch.cuda.CUDAGraph()
        # Other threads, such as those of a data loader, may continue.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = work(held)
        return _Record(graph, held, outputs)
