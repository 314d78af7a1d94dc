"""A training loop with constraints: epochs, validation by exact metrics, checkpoints, logs."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from partialfair._checks import check_choice, check_count, check_number, shown
from partialfair._extras import require
from partialfair._files import check_targets, write_file
from partialfair._typing import ArrayLike, Floats
from partialfair.constraints import Constraint
from partialfair.exceptions import InputError
from partialfair.torch._checkpoint import random_state, read_checkpoint, set_random_state, write_checkpoint
from partialfair.torch._loading import Batches, as_tensor, check_length, check_validation, moved, unpacked
from partialfair.torch._logs import Progress, as_csv
from partialfair.torch._processes import is_first, mean_over_processes, n_processes
from partialfair.torch.batches import GroupBatches
from partialfair.torch.fairness import PartialFairness
from partialfair.torch.functions import check_labels, check_positions, scores_of, stated_constraints
from partialfair.torch.training import Ending, EpochRecord, Measures, Training, better, measured

__all__ = ["PartialFairTrainer"]

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""From scores and labels, (n,) each, to a loss for each row, (n,)."""
Precision = Literal["float32", "bfloat16", "float16"]
_PRECISIONS = ("float32", "bfloat16", "float16")


class Schedule(Protocol):
    """What torch's schedules of learning rates have in common."""

    def step(self) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class PartialFairTrainer:
    """Train a network under constraints: `PartialFairness` in a loop, with what long trainings need.

    ::

        loader = DataLoader(Indexed(TensorDataset(X, y)), batch_size=256, shuffle=True)
        trainer = PartialFairTrainer(model, StatisticalParity((0.2, 0.4), max_gap=0.1), epochs=20)
        print(trainer.fit(loader, groups, validation=(held_out_loader, held_out_groups)))

    Loaders give batches of (inputs, labels 0 or 1, rows), where rows are positions among the groups that
    `fit` is told; `Indexed` makes them of any data set. If the loader's batches are `GroupBatches`, rows are
    weighted accordingly. Under `torch.distributed` (``torchrun``) the network is wrapped in
    DistributedDataParallel, and the first process alone writes files; give each process its share of the
    rows (``DistributedSampler(drop_last=True)`` or `GroupBatches`).

    Parameters
    ----------
    model
        Of one output a row, the score, or of two, whose difference is. It is trained where it is.
    constraints
        One of `partialfair.constraints`, or a list of them.
    epochs
        Passes over the rows.
    loss
        Of each row; by default the logistic one.
    optimizer
        Makes an optimizer of parameters; by default AdamW with a learning rate of .001.
    schedule
        Makes a schedule of an optimizer and the number of all steps; it moves at every step.
    fairness
        Settings of `PartialFairness`, such as ``dual_step`` or ``free_passes``.
    theta_rate
        Learning rate of the thresholds, in units of the optimizer's.
    precision
        Of the network's own arithmetic. Scores and all sums over them stay in float32.
    clip_norm
        No step is taken along a longer gradient.
    compile
        Run the network through `torch.compile`.
    deterministic
        Ask torch for algorithms that give the same numbers each time; what has none is an error.
    patience
        End after so many epochs that were not better on the rows held out.
    checkpoint
        File to be written after every epoch; ``fit(…, resume=True)`` goes on from it exactly.
    log_dir
        Directory of ``history.csv``, and of TensorBoard's files if ``tensorboard``.
    callback
        Told of every epoch; training ends when it returns True.
    verbose
        1 writes a line an epoch to standard error, and one every ten seconds within long epochs.
    """

    def __init__(
        self,
        model: nn.Module,
        constraints: Constraint | Sequence[Constraint],
        *,
        epochs: int = 10,
        loss: Loss | None = None,
        optimizer: Callable[[Iterable[Tensor]], Optimizer] | None = None,
        schedule: Callable[[Optimizer, int], Schedule] | None = None,
        fairness: Mapping[str, Any] | None = None,
        theta_rate: float = 10.0,
        precision: Precision = "float32",
        clip_norm: float | None = None,
        compile: bool = False,
        deterministic: bool = False,
        patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        tensorboard: bool = False,
        callback: Callable[[EpochRecord], bool | None] | None = None,
        verbose: int = 0,
    ) -> None:
        check_count(epochs, "epochs")
        if not isinstance(model, nn.Module):
            raise InputError(f"model must be a torch.nn.Module, not {shown(model)}")
        for name, function in {
            "loss": loss,
            "optimizer": optimizer,
            "schedule": schedule,
            "callback": callback,
        }.items():
            if function is not None and not callable(function):
                raise InputError(f"{name} must be a function or None, not {shown(function)}")
        for name, path in {"checkpoint": checkpoint, "log_dir": log_dir}.items():
            if path is not None and not isinstance(path, str | os.PathLike):
                raise InputError(f"{name} must be a path or None, not {shown(path)}")
        if not isinstance(fairness, Mapping | None):
            raise InputError(f"fairness must map names to settings of PartialFairness, not {shown(fairness)}")
        check_number(theta_rate, "theta_rate", above=0.0)
        check_choice(precision, "precision", _PRECISIONS)
        if clip_norm is not None:
            check_number(clip_norm, "clip_norm", above=0.0)
        if patience is not None:
            check_count(patience, "patience")
        if tensorboard and log_dir is None:
            raise InputError("tensorboard=True needs log_dir, where its files go")
        self.model, self.epochs, self.patience, self.precision = model, epochs, patience, precision
        self.constraints = tuple(stated_constraints(constraints))
        self.loss = loss or _logistic
        self.make_optimizer = optimizer or _adamw
        self.make_schedule = schedule
        self.fairness, self.theta_rate, self.clip_norm = dict(fairness or {}), theta_rate, clip_norm
        self.compile, self.deterministic = compile, deterministic
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.log_dir = None if log_dir is None else Path(log_dir)
        self.tensorboard, self.callback, self.verbose = tensorboard, callback, verbose

    def fit(
        self,
        loader: Batches,
        groups: ArrayLike,
        y: ArrayLike | None = None,
        *,
        validation: tuple[Iterable[Any], ArrayLike] | None = None,
        resume: bool = False,
    ) -> Training:
        """Train the network; it ends with the weights of the best epoch, in evaluation mode.

        Parameters
        ----------
        loader
            Of training batches (inputs, labels, rows).
        groups
            The group of every training row.
        y
            The label of every training row, for constraints that compare members with the same label.
        validation
            Batches of rows held out, and their groups. Then the best epoch is the most accurate of those that
            keep the constraints there, by exact gaps; without, the last.
        resume
            Go on from the checkpoint, if it is there.
        """
        self._check_files(resume=resume)
        check_validation(validation)
        state = self._begun(loader, groups, y, validation is not None)
        with _determined(self.deterministic), self._board() as board:
            if resume and self.checkpoint is not None and self.checkpoint.exists():
                self._resume(state, loader)
            ended = self._ending(state)
            while ended is None:
                record = self._epoch(state, loader, validation)
                state.history.append(record)
                if np.isfinite(record.loss) and better(record, state.best):
                    state.best, state.best_weights = record, deepcopy(self.model.state_dict())
                ended = self._told(record, state, board)
                self._save(state, loader)
        if state.best is None or state.best_weights is None:
            raise InputError(
                f"the loss was {state.history[-1].loss} in the first epoch: lower the learning rate"
            )
        self.model.load_state_dict(state.best_weights)
        self.model.eval()
        return Training(tuple(state.history), state.best, ended)

    def _begun(self, loader: Batches, groups: ArrayLike, y: ArrayLike | None, judged: bool) -> _State:
        """Return a training that has not begun."""
        if not isinstance(loader, Sized):
            raise InputError("the loader must know how many batches it has: len(loader)")
        if len(loader) == 0:
            raise InputError("the loader has no batch: are there fewer rows than batch_size?")
        if not any(True for _ in self.model.parameters()):
            raise InputError("the network has no parameters to train")
        check_length(loader, groups, "training rows")
        device = next(self.model.parameters()).device
        settings, weights = dict(self.fairness), None
        if isinstance(batches := getattr(loader, "batch_sampler", None), GroupBatches):
            settings.setdefault("batch_shares", batches.shares)
        fair = PartialFairness(list(self.constraints), groups, y, **settings).to(device)
        if isinstance(batches, GroupBatches):
            # Groups may be in another order there.
            order = [batches.labels.index(label) for label in fair.labels]
            weights = batches.loss_weights[order].to(device)
        network = self.model
        if n_processes() > 1:
            network = nn.parallel.DistributedDataParallel(network)
        if self.compile:
            network = torch.compile(network)  # type: ignore[assignment]
        optimizer = self.make_optimizer(self.model.parameters())
        thresholds = {
            "params": list(fair.parameters()),
            "lr": self.theta_rate * optimizer.defaults["lr"],
            "weight_decay": 0.0,
        }
        optimizer.add_param_group(thresholds)
        schedule = None
        if self.make_schedule is not None:
            schedule = self.make_schedule(optimizer, self.epochs * len(loader))
        scaler = torch.amp.GradScaler(device.type, enabled=self.precision == "float16")
        state = _State(network, fair, optimizer, schedule, scaler, device, weights)
        state.purpose = self._purpose(state, len(loader), judged)
        return state

    def _ending(self, state: _State) -> Ending | None:
        """Return why training is over, if it is."""
        if not state.history:
            return None
        last = state.history[-1]
        if not np.isfinite(last.loss):
            return "nonfinite"
        if state.stopped:
            return "callback"
        best = last if state.best is None else state.best
        if self.patience is not None and last.epoch - best.epoch >= self.patience:
            return "patience"
        return "epochs" if last.epoch >= self.epochs else None

    def _epoch(
        self, state: _State, loader: Batches, validation: tuple[Iterable[Any], ArrayLike] | None
    ) -> EpochRecord:
        """Do one pass over the training rows, and judge the network."""
        epoch, start = len(state.history) + 1, time.monotonic()
        before = state.history[-1].seconds if state.history else 0.0
        for name in ("sampler", "batch_sampler"):
            set_epoch = getattr(getattr(loader, name, None), "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)
        self.model.train()
        progress = Progress(epoch, len(loader), self.verbose if is_first() else 0)
        total, n_rows = torch.zeros((), device=state.device), 0
        for batch in loader:
            losses = self._step(state, *unpacked(batch))
            total += losses.sum()
            n_rows += len(losses)
            progress.tell()
        fair = state.fair
        mean = float(mean_over_processes(total / max(n_rows, 1)))
        violation, multiplier = (
            max(one.tolist(), default=0.0) for one in (fair.violations, fair.multipliers)
        )
        held_out = None if validation is None else self._judged(state, *validation)
        return EpochRecord(epoch, before + time.monotonic() - start, mean, violation, multiplier, held_out)

    def _step(self, state: _State, inputs: Any, y: Tensor, rows: Tensor) -> Tensor:
        """Take one step; return the losses of its rows. Nothing here waits for the device."""
        y, rows = as_tensor(y, "labels"), as_tensor(rows, "rows")
        check_labels(y)
        check_positions(rows, "rows", y, state.fair.functions.n_rows, "positions in groups")
        y, rows = (one.to(state.device, non_blocking=True) for one in (y, rows))
        with self._autocast(state.device):
            scores = scores_of(state.network(moved(inputs, state.device)))
        scores, codes = (
            scores.float() if scores.dtype != torch.float64 else scores,
            state.fair.row_codes[rows],
        )
        losses = self._losses(scores, y)
        if state.loss_weights is not None:
            losses = losses * state.loss_weights[codes]
        loss = state.fair(losses.mean(), scores, codes, y, rows)
        state.optimizer.zero_grad(set_to_none=True)
        state.scaler.scale(loss).backward()
        if self.clip_norm is not None:
            state.scaler.unscale_(state.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        state.scaler.step(state.optimizer)
        state.scaler.update()
        if state.schedule is not None:
            state.schedule.step()
        state.fair.step()
        return losses.detach()

    def _losses(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each row."""
        if y.shape != scores.shape:
            raise InputError(f"labels have shape {tuple(y.shape)}, and scores {tuple(scores.shape)}")
        losses = self.loss(scores, y)
        if losses.shape != scores.shape:
            raise InputError(f"loss must return a number for each row, not shape {tuple(losses.shape)}")
        return losses

    @torch.no_grad()
    def _judged(self, state: _State, batches: Iterable[Any], groups: ArrayLike) -> Measures:
        """Return loss, accuracy and exact gaps on rows held out."""
        self.model.eval()
        scores, labels, positions, losses = [], [], [], []
        everybody = np.asarray(groups)
        for inputs, y, rows in map(unpacked, batches):
            with self._autocast(state.device):
                outputs = self.model(moved(inputs, state.device))
            scores.append(scores_of(outputs).float())
            labels.append(as_tensor(y, "labels"))
            check_labels(labels[-1])
            positions.append(as_tensor(rows, "rows"))
            check_positions(
                positions[-1], "rows held out", labels[-1], len(everybody), "positions in their groups"
            )
            losses.append(self._losses(scores[-1], labels[-1].to(state.device)).sum())
        everybody = everybody[torch.cat(positions).cpu().numpy()]
        on_host: Floats = torch.cat(scores).double().cpu().numpy()
        if not np.isfinite(on_host).all():
            none = float("nan")
            return Measures(none, 0.0, 1.0, (none,) * len(self.constraints), none)
        mean = float(torch.stack(losses).sum()) / len(on_host)
        return measured(on_host, torch.cat(labels).cpu().numpy(), everybody, self.constraints, mean)

    def _autocast(self, device: torch.device) -> Any:
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(device.type, getattr(torch, self.precision))

    def _told(self, record: EpochRecord, state: _State, board: Any) -> Ending | None:
        """Tell people and files of an epoch; return why training is over, if it is."""
        if self.callback is not None:
            state.stopped = bool(self.callback(record))
        if is_first():
            if self.verbose:
                sys.stderr.write(f"{record}\n")
            if self.log_dir is not None:
                write_file(self.log_dir / "history.csv", as_csv(state.history))
            for name, value in record.flat().items() if board is not None else ():
                board.add_scalar(name, value, record.epoch)
        return self._ending(state)

    @contextmanager
    def _board(self) -> Iterator[Any]:
        """Yield TensorBoard's writer, or None."""
        if not (self.tensorboard and is_first()):
            yield None
            return
        require("tensorboard", extra="tensorboard", purpose="tensorboard=True")
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(self.log_dir)) as board:
            yield board

    def _check_files(self, *, resume: bool) -> None:
        """Refuse, before any work, to lose an earlier training or to resume from nowhere."""
        if self.log_dir is not None and is_first():
            self.log_dir.mkdir(parents=True, exist_ok=True)
        if self.checkpoint is None:
            if resume:
                raise InputError("resume=True needs checkpoint, the file to go on from")
        elif self.checkpoint.exists() and not resume:
            raise InputError(
                f"{self.checkpoint} holds an earlier training: fit with resume=True to go on, or remove it"
            )
        elif is_first():
            check_targets([self.checkpoint])

    def _purpose(self, state: _State, n_batches: int, judged: bool) -> dict[str, str]:
        """Return what a checkpoint must agree in."""
        shapes = [(name, tuple(value.shape)) for name, value in self.model.state_dict().items()]
        codes = zlib.crc32(state.fair.row_codes.cpu().numpy().tobytes())
        labels = zlib.crc32(state.fair.row_labels.cpu().numpy().tobytes())
        return {
            "network": f"{len(shapes)} tensors ({zlib.crc32(str(shapes).encode()):08x})",
            "groups": f"{state.fair.labels} ({codes:08x})",
            "y": f"{labels:08x}",
            "number of batches in an epoch": str(n_batches),
            "validation": "given" if judged else "None",
            "optimizer": type(state.optimizer).__name__,
            "schedule": type(state.schedule).__name__,
            "fairness": str(dict(sorted(self.fairness.items()))),
            "constraints": str(self.constraints),
            "number of training rows": str(len(state.fair.row_codes)),
            "number of epochs": str(self.epochs),
            "precision": self.precision,
        }

    def _save(self, state: _State, loader: Batches) -> None:
        if self.checkpoint is None:
            return
        state.fair.share_row_scores()
        drawn = random_state(loader)
        if not is_first():
            return
        content = {
            "purpose": state.purpose,
            "random": drawn,
            "model": self.model.state_dict(),
            "history": [asdict(record) for record in state.history],
            "best": None if state.best is None else state.best.epoch,
            "best_weights": state.best_weights,
            **{name: part.state_dict() for name, part in state.parts().items()},
        }
        write_checkpoint(self.checkpoint, content)

    def _resume(self, state: _State, loader: Batches) -> None:
        assert self.checkpoint is not None
        content = read_checkpoint(self.checkpoint, state.purpose)
        self.model.load_state_dict(content["model"])
        for name, part in state.parts().items():
            part.load_state_dict(content[name])
        for record in content["history"]:
            held_out = record.pop("validation")
            if held_out is not None:
                held_out = Measures(**{**held_out, "gaps": tuple(held_out["gaps"])})
            state.history.append(EpochRecord(**record, validation=held_out))
        if content["best"] is not None:
            state.best, state.best_weights = state.history[content["best"] - 1], content["best_weights"]
        set_random_state(content["random"], loader)


@dataclass(eq=False)
class _State:
    """A training as far as it is: what moves, and what has been seen."""

    network: nn.Module
    fair: PartialFairness
    optimizer: Optimizer
    schedule: Schedule | None
    scaler: torch.amp.GradScaler
    device: torch.device
    loss_weights: Tensor | None
    history: list[EpochRecord] = field(default_factory=list)
    best: EpochRecord | None = None
    best_weights: dict[str, Any] | None = None
    stopped: bool = False
    purpose: dict[str, str] = field(default_factory=dict)

    def parts(self) -> dict[str, Any]:
        """Return what has a state besides the network."""
        parts = {"fair": self.fair, "optimizer": self.optimizer, "scaler": self.scaler}
        return parts if self.schedule is None else {**parts, "schedule": self.schedule}


def _logistic(scores: Tensor, y: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(scores, y.to(scores.dtype), reduction="none")


def _adamw(parameters: Iterable[Tensor]) -> Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


@contextmanager
def _determined(wanted: bool) -> Iterator[None]:
    """Ask for deterministic algorithms for a while."""
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once, and is not so without
    before, benchmark = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.backends.cudnn.benchmark = benchmark
