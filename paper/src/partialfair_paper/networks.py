"""Trains ResNet-18s on images of faces, with and without constraints (Figure 12).

Networks start from a backbone trained on ImageNet, with batch norm statistics estimated again. They are
trained for ten epochs with AdamW, a one-cycle schedule of learning rates, and images that are flipped and
shifted at random. The paper gives no κ, learning rate or number of epochs; these were chosen on the
validation part (``benchmarks/celeba.py search``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from partialfair.constraints import StatisticalParity
from partialfair.exceptions import DataFetchError, InputError, MissingExtraError
from partialfair.extension import (
    DATA_VARIABLE,
    Constraint,
    Floats,
    PathLike,
    describe_search,
    find_named,
    require,
)
from partialfair_paper.engine import state_constraint
from partialfair_paper.method import Fitted, Method, Question
from partialfair_paper.parts import Part, Parts
from partialfair_paper.published import N_POINTS, OWN_INTERVALS
from partialfair_paper.runs import Run

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from partialfair.torch import GroupBatchSampler

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's pixels, which its networks expect to be standardized."""
_SHIFT = 4
"""Largest shift of an image in pixels, in either direction."""
NETWORK_MAX_GAPS: Mapping[tuple[float, float], tuple[float, ...]] = {
    (0.2, 0.4): (0.4, 0.3, 0.2, 0.1, 0.07),
    (0.0, 1.0): (0.4, 0.3, 0.2, 0.1, 0.05, 0.02),
}
"""κ by the interval of the constraint."""
_STRICT_MAX_GAP = 0.03
"""Below this κ, on all ranks, small penalties reach less than large ones (``celeba_search.jsonl``)."""
_SECONDS_WITHOUT_GPU = 1800.0
_SCORED_AT_A_TIME = 1024
_NEVER_JOINS = StatisticalParity((0.0, 1.0), 1.0)
"""Constraint of networks without a constraint: all of their epochs are warm-up epochs."""
_LEAST_BATCHES = 4
"""Smallest number of batches per epoch; with few images, batches are smaller."""
_THETA_RATE = 10.0
"""Learning rate of the thresholds, as a multiple of the network's."""
_QUICK_EPOCHS = 2
"""Number of epochs with ``--rows``, for a quick look."""
_WEIGHTS = "weights/resnet18_imagenet1k_backbone_fp16.pth"


@dataclass(frozen=True)
class NetworkSettings:
    """How a network is trained.

    Attributes
    ----------
    epochs, batch_size, rate, decay
        Settings of AdamW; the rate is the largest of the schedule.
    free_epochs
        Warm-up epochs without constraints.
    method, dual_lr, penalty, ema_decay, surrogate_width
        Parameters of `partialfair.torch.PartialFairness`.
    group_batches
        Whether every batch has a fixed number of members of each group
        (`partialfair.torch.GroupBatchSampler`).
    """

    epochs: int = 10
    batch_size: int = 256
    rate: float = 1e-3
    decay: float = 0.1
    free_epochs: int = 2
    method: Literal["primal_dual", "augmented_lagrangian"] = "augmented_lagrangian"
    dual_lr: float = 0.02
    penalty: float = 0.5
    ema_decay: float = 0.9
    surrogate_width: float = 2.0
    group_batches: bool = True


class Network(Method):
    """A ResNet-18 under partial parity, trained with `partialfair.torch.PartialFairness`."""

    name, label = "network", "ResNet-18, partial parity"
    in_frontiers, uses_group = False, False
    free = "network-unconstrained"
    alphas = (0.0,)
    rough_seconds: ClassVar[float] = 30.0  # on a GPU that eight networks share

    def tolerances(self, dataset: str, fairness: str) -> tuple[float | None, ...]:
        """Return κ, which the paper does not give."""
        return NETWORK_MAX_GAPS[OWN_INTERVALS[dataset]]

    def runs(self, question: Question, tolerances: Iterable[float | None] | None = None) -> list[Run]:
        """Return the runs of a question; small κ are used only on all ranks, where they improve fairness."""
        own = NETWORK_MAX_GAPS[question.interval] if tolerances is None else tolerances
        return super().runs(question, own)

    def missing(self) -> str | None:
        """Return a message if torch is not installed."""
        try:
            require("torch", extra="torch", purpose="a network")
        except MissingExtraError as error:
            return str(error)
        return None

    def guessed_seconds(self) -> float:
        """Return a guess of the seconds of a run, which is large without a GPU."""
        if self.missing() is not None:
            return self.rough_seconds
        import torch

        return self.rough_seconds if torch.cuda.is_available() else _SECONDS_WITHOUT_GPU

    def settings(self, run: Run) -> NetworkSettings:
        """Return the training settings of a run."""
        # With five times as many functions each has a smaller penalty, unless κ is small.
        many = run.n_points is not None and run.n_points > N_POINTS
        strict = run.tolerance is not None and run.tolerance < _STRICT_MAX_GAP
        return NetworkSettings(dual_lr=0.004, penalty=0.2) if many and not strict else NetworkSettings()

    def fit(self, run: Run, parts: Parts) -> Fitted:
        """Train a network."""
        model, fit = train_network(run, parts, self.settings(run))
        return Fitted(lambda part: network_scores(model, part), fit)


class FreeNetwork(Network):
    """A ResNet-18 without a constraint."""

    name, label = "network-unconstrained", "ResNet-18, unconstrained"
    sees_interval = False

    def runs(self, question: Question, tolerances: Iterable[float | None] | None = None) -> list[Run]:
        """Return one run for each seed."""
        return super().runs(question, (None,))


NETWORK_METHODS = (FreeNetwork(), Network())


def resnet18_backbone(*, path: PathLike | None = None) -> Path:
    """Return the path of the weights of a ResNet-18 trained on ImageNet; nothing is downloaded.

    The file holds a state dict with torchvision's names. Load it with `torch.load` (``weights_only=True``)
    and ``load_backbone`` of `partialfair_paper.resnet.ResNet18`, which ignores the last layer. The statistics
    of its batch norms may come from other images: estimate them again with ``fresh_statistics``.

    Parameters
    ----------
    path : str or path-like, optional
        The file, under any name, or the directory that holds it. By default ``$PARTIALFAIR_DATA`` and the
        user's cache are searched.

    Returns
    -------
    pathlib.Path
        The file.
    """
    found = find_named(_WEIGHTS, path)
    if found is None:
        raise DataFetchError(
            f"there is no {_WEIGHTS} in {describe_search(path)}, and it is never downloaded; torchvision's"
            " resnet18 state dict works too: save it under that name in the directory of path= or"
            f" ${DATA_VARIABLE}"
        )
    return found


def train_network(
    run: Run, parts: Parts, settings: NetworkSettings
) -> tuple[nn.Module, dict[str, str | int | float]]:
    """Train a network, on a GPU if there is one; return it with the details of training."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(run.seed)
    epochs = settings.epochs if run.rows is None else _QUICK_EPOCHS
    free_epochs = epochs if run.tolerance is None else min(settings.free_epochs, epochs - 1)
    loader = _Batches(parts.train, settings, run.seed, device)
    model = _standardize(parts.folder).to(device)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    constraint = _NEVER_JOINS if run.tolerance is None else state_constraint(run)
    with _fastest_convolutions(device):
        loss = _train(model, loader, parts.train.groups, constraint, settings, epochs, free_epochs)
    fit = {
        **asdict(settings),
        "epochs": epochs,
        "loss": loss,
        "training images": len(parts.train.y),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }
    return model, fit


def _train(
    model: nn.Module,
    loader: _Batches,
    groups: ArrayLike,
    constraint: Constraint,
    settings: NetworkSettings,
    epochs: int,
    free_epochs: int,
) -> float:
    """Train a network with the loop of docs/torch.md, and return the loss of the last epoch."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    from partialfair.torch import PartialFairness

    device, batches = loader.y.device, loader.batch_sampler
    fair = PartialFairness(
        constraint,
        groups,
        method=settings.method,
        dual_lr=settings.dual_lr,
        penalty=settings.penalty,
        ema_decay=settings.ema_decay,
        surrogate_width=settings.surrogate_width,
        warmup_epochs=free_epochs,
        batch_shares=None if batches is None else batches.shares,
    ).to(device)
    row_weights = torch.ones(len(fair.labels), device=device)
    if batches is not None:  # its groups may have another order
        order = [batches.labels.index(label) for label in fair.labels]
        row_weights = batches.loss_weights[order].to(device)
    parameters: list[dict[str, Any]] = [
        {"params": model.parameters()},
        {"params": fair.parameters(), "lr": _THETA_RATE * settings.rate, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=settings.rate,
        weight_decay=settings.decay,
        fused=device.type == "cuda",
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [group["lr"] for group in optimizer.param_groups], epochs * len(loader), pct_start=0.2
    )
    model.train()
    for epoch in range(1, epochs + 1):
        if batches is not None:
            batches.set_epoch(epoch)
        total, n_rows = torch.zeros((), device=device), 0
        for images, y, rows in loader:  # no operation in this loop waits for the device
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                scores = model(images)[:, 0]
            scores, codes = scores.float(), fair.row_codes[rows]
            losses = (
                binary_cross_entropy_with_logits(scores, y.float(), reduction="none") * row_weights[codes]
            )
            optimizer.zero_grad(set_to_none=True)
            fair(losses.mean(), scores, codes, y, rows).backward()
            optimizer.step()
            schedule.step()
            fair.step()
            total += losses.detach().sum()
            n_rows += len(rows)
        loss = float(total / n_rows)
        if not np.isfinite(loss):
            raise InputError(f"the loss was {loss} in epoch {epoch}: lower the learning rate")
    return loss


class _Batches:
    """Augmented batches of images in the memory of the device: (images, labels, rows)."""

    def __init__(self, part: Part, settings: NetworkSettings, seed: int, device: torch.device) -> None:
        import torch

        from partialfair.torch import GroupBatchSampler

        self.images, self.y = _on_device(part, device)
        self.rng = torch.Generator(device).manual_seed(seed)
        self.shifts = np.random.default_rng(seed)
        self.batch_size = min(settings.batch_size, len(part.y) // _LEAST_BATCHES)
        self.batch_sampler: GroupBatchSampler | None = None
        if settings.group_batches:
            self.batch_sampler = GroupBatchSampler(part.groups, self.batch_size, least=0, seed=seed)

    def __len__(self) -> int:
        return len(self.y) // self.batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for rows in self._order():
            yield self._augment(self.images[rows]), self.y[rows], rows

    def _order(self) -> Tensor:
        """Return the rows of each batch of a pass."""
        import torch

        if self.batch_sampler is not None:
            return torch.tensor(list(self.batch_sampler), device=self.y.device)
        order = torch.randperm(len(self.y), device=self.y.device, generator=self.rng)
        return order[: len(self) * self.batch_size].view(len(self), self.batch_size)

    def _augment(self, images: Tensor) -> Tensor:
        """Flip half of the images, and shift all of them by the same vector."""
        import torch

        mirror = torch.rand(len(images), 1, 1, 1, device=images.device, generator=self.rng) < 0.5
        # The shift is drawn on the host, so that no step waits for the device.
        down, right = self.shifts.integers(-_SHIFT, _SHIFT + 1, 2).tolist()
        return torch.where(mirror, images.flip(3), images).roll((down, right), (2, 3))


@lru_cache(maxsize=3)
def _on_device(part: Part, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return images and labels of a part on the device; all runs of a process share one copy."""
    import torch

    return torch.from_numpy(part.X).to(device), torch.from_numpy(part.y.astype(np.int64)).to(device)


def _standardize(folder: Path | None) -> nn.Module:
    """Return a ResNet-18 with the backbone's weights that standardizes images of dtype uint8."""
    import torch
    from torch import nn

    from partialfair_paper.resnet import ResNet18, fresh_statistics

    class Standardized(nn.Module):
        mean: Tensor
        std: Tensor

        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network
            self.register_buffer("mean", 255 * torch.tensor(_MEAN)[:, None, None])
            self.register_buffer("std", 255 * torch.tensor(_STD)[:, None, None])

        def forward(self, images: Tensor) -> Tensor:
            pixels = ((images.float() - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
            scores: Tensor = self.network(pixels)
            return scores

    network = ResNet18()
    network.load_backbone(torch.load(resnet18_backbone(path=folder), weights_only=True))
    fresh_statistics(network)
    return Standardized(network)


def network_scores(model: nn.Module, part: Part) -> Floats:
    """Return the scores of a part in evaluation mode."""
    import torch

    device = next(model.parameters()).device
    images, _ = _on_device(part, device)
    model.eval()
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        scores = [model(batch)[:, 0].float() for batch in torch.split(images, _SCORED_AT_A_TIME)]
    return np.asarray(torch.cat(scores).double().cpu().numpy())


@contextmanager
def _fastest_convolutions(device: torch.device) -> Iterator[None]:
    """Let cuDNN choose its fastest algorithm, which is worthwhile if all batches have the same shape."""
    import torch

    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, device.type == "cuda"
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
