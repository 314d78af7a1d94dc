"""Figure 12 of the paper: ResNet-18s on faces, "Attractive" with gender, with and without constraints.

Run on a GPU: ``python benchmarks/celeba.py --data DIR [--search] [--jobs 6]``, where DIR holds the packed
faces and the ImageNet backbone (16,000 images of 96 px to train, 2,000 to validate, 4,640 to test).
With ``--search`` settings are tried and judged on the validation part, which is how those below were chosen;
without, the networks of the figure are trained, five seeds each, and the test part is read. Several processes
share the GPU, so that seconds are not recorded. No face is written anywhere.

Networks start from the backbone, with batch norms estimated anew, and are trained for ten epochs by AdamW,
batches of 256, images mirrored and shifted at random. Constraints join after two epochs.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from partialfair.constraints import StatisticalParity
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.torch import PartialFairness
from partialfair.torch.networks import ResNet18, fresh_statistics

ATTRACTIVE, MALE = 2, 20
INTERVALS = {"band": (0.2, 0.4), "whole": (0.0, 1.0)}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SHARDS = {"train": ("train1", "train2", "train3", "train4"), "validation": ("val",), "test": ("test",)}
SEEDS = 5
MAX_GAPS = (0.4, 0.3, 0.2, 0.1, 0.05)
"""The paper gives no κ for its figure."""
BATCH, SHIFT = 256, 4
WIDE = {"dual_step": 0.02, "memory": 0.9, "surrogate_width": 2.0}


_TITLE = "ResNet-18 on faces, with constraints on the band and on all ranks"
_SAID = (
    "Machine: one NVIDIA H200, several networks at a time. CelebA, 16,000 training and 4,640 test images of "
    "96 px; accuracy and fairness (1 − absolute pSP gap on ranks 20-40 %, and on all ranks) on the test part."
)


@dataclass(frozen=True)
class Setting:
    """A network to be trained; ``max_gap`` None is no constraint."""

    max_gap: float | None
    interval: str = "band"
    n_points: int = 10
    seed: int = 0
    fair: dict[str, Any] = field(default_factory=lambda: dict(WIDE))
    free_epochs: int = 2
    epochs: int = 10
    rate: float = 1e-3
    theta_rate: float = 1e-2
    decay: float = 1e-2


@dataclass(frozen=True, eq=False)
class Faces:
    """Images (n, 3, 96, 96) as bytes, labels and groups, on the device."""

    images: Tensor
    y: Tensor
    male: Tensor


@lru_cache
def faces(folder: Path, part: str) -> Faces:
    """Read and decode a part."""
    images, attributes = [], []
    with ThreadPoolExecutor(4) as pool:
        for name in SHARDS[part]:
            with np.load(folder / f"celeba96_{name}.npz") as held:
                data, offsets, attr = held["data"], held["offsets"], held["attr"]
            images += pool.map(partial(_decoded, data), offsets[:-1], offsets[1:])
            attributes.append(attr)
    labels = np.concatenate(attributes).astype(np.int64)
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
    return Faces(
        pixels.cuda(), *(torch.from_numpy(labels[:, one].copy()).cuda() for one in (ATTRACTIVE, MALE))
    )


def _decoded(data: np.ndarray, first: int, end: int) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data[first:end].tobytes())).convert("RGB"))


class Standardised(nn.Module):
    """A network of images that are given as bytes."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None])
        self.register_buffer("std", torch.tensor(STD)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        x = ((x.float() / 255 - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16):
            return self.network(x).squeeze(1).float()


def augmented(images: Tensor, rng: torch.Generator) -> Tensor:
    """Mirror half of the images, and shift all of them alike."""
    mirror = torch.rand(len(images), 1, 1, 1, device=images.device, generator=rng) < 0.5
    down, right = torch.randint(-SHIFT, SHIFT + 1, (2,)).tolist()  # on the host: it need not wait
    return torch.where(mirror, images.flip(3), images).roll((down, right), (2, 3))


def trained(setting: Setting, part: Faces, weights: dict[str, Tensor]) -> Standardised:
    """Train a network."""
    torch.manual_seed(setting.seed)
    rng = torch.Generator("cuda").manual_seed(setting.seed)
    network = ResNet18()
    network.load_backbone(weights)
    fresh_statistics(network)
    model = Standardised(network).to("cuda", memory_format=torch.channels_last)
    parameters = [{"params": list(model.parameters()), "lr": setting.rate, "weight_decay": setting.decay}]
    fair = None
    if setting.max_gap is not None:
        constraint = StatisticalParity(
            INTERVALS[setting.interval], setting.max_gap, "absolute", n_points=setting.n_points
        )
        fair = PartialFairness(
            constraint, part.male.cpu().numpy(), free_passes=setting.free_epochs, **setting.fair
        ).cuda()
        parameters.append({"params": list(fair.parameters()), "lr": setting.theta_rate, "weight_decay": 0.0})
    optimizer = torch.optim.AdamW(parameters)
    n_batches = len(part.y) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        [group["lr"] for group in parameters],
        total_steps=setting.epochs * n_batches,
        pct_start=0.2,
    )
    for _ in range(setting.epochs):
        order = torch.randperm(len(part.y), device="cuda", generator=rng)
        for rows in order[: n_batches * BATCH].split(BATCH):
            scores = model(augmented(part.images[rows], rng))
            loss = nn.functional.binary_cross_entropy_with_logits(scores, part.y[rows].float())
            if fair is not None:
                loss = fair(loss, scores, part.male[rows], None, rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if fair is not None:
                fair.step()
    return model


@torch.no_grad()
def judged(model: nn.Module, part: Faces) -> dict[str, float]:
    """Return accuracy, and fairness on both intervals on the absolute scale."""
    model.eval()
    scores = torch.cat([model(images) for images in part.images.split(1024)]).double().cpu().numpy()
    groups, y = part.male.cpu().numpy(), part.y.cpu().numpy()
    found = {"accuracy": float(((scores > 0) == (y == 1)).mean())}
    for name, interval in INTERVALS.items():
        gap = partial_statistical_parity_difference(
            None, scores, sensitive_features=groups, interval=interval, gap_scale="absolute"
        )
        found[name] = 1 - gap
    return found


def done(folder: Path, parts: tuple[str, ...], setting: Setting) -> dict[str, Any]:
    """Train a network and judge it."""
    torch.backends.cudnn.benchmark = True
    weights = torch.load(folder / "resnet18_imagenet1k_backbone_fp16.pth", weights_only=True)
    model = trained(setting, faces(folder, "train"), weights)
    return {**asdict(setting), **{part: judged(model, faces(folder, part)) for part in parts}}


def tried() -> list[Setting]:
    """Return what the settings of the figure were chosen from."""
    settings = [Setting(None, seed=seed) for seed in range(2)]
    for seed, gap in itertools.product(range(2), (0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03)):
        settings.append(Setting(gap, seed=seed))
        settings.append(Setting(gap, seed=seed, fair={**WIDE, "dual_step": 0.01}))
        settings.append(Setting(gap, "whole", 50, seed, {**WIDE, "dual_step": 0.01}))
        settings.append(Setting(gap, "band", 50, seed, {**WIDE, "dual_step": 0.01}))
    for seed, gap in itertools.product(range(2), (0.1, 0.05)):
        settings.append(Setting(gap, seed=seed, free_epochs=4))
        settings.append(Setting(gap, seed=seed, epochs=16))
        settings.append(
            Setting(gap, seed=seed, fair={**WIDE, "method": "augmented_lagrangian", "penalty": 0.5})
        )
        settings.append(Setting(gap, seed=seed, fair={**WIDE, "refresh_every": 20}))
        settings.append(Setting(gap, seed=seed, fair={**WIDE, "refresh_every": 0}))
        settings.append(Setting(gap, seed=seed, decay=0.1))
        settings.append(Setting(gap, seed=seed, fair={**WIDE, "memory": 0.95}))
    return settings


def of_the_figure() -> list[Setting]:
    """Return the networks of the figure: the band with 10 points, all ranks with 50, the band with 50."""
    settings = [Setting(None, decay=0.1)]
    for where, n_points, step in (("band", 10, 0.02), ("whole", 50, 0.01), ("band", 50, 0.004)):
        fair = {**WIDE, "dual_step": step, "refresh_every": 20}
        settings += [Setting(gap, where, n_points, fair=fair, decay=0.1) for gap in MAX_GAPS]
    return [replace(setting, seed=seed) for seed in range(SEEDS) for setting in settings]


def write_table(records: list[dict[str, Any]], out: Path) -> None:
    """Write means over seeds, with standard errors."""
    table = []
    by_curve: dict[tuple[str, int, float | None], list[dict[str, float]]] = {}
    for one in records:
        by_curve.setdefault((one["interval"], one["n_points"], one["max_gap"]), []).append(one["test"])
    for (where, n_points, gap), tests in by_curve.items():
        row = {"constraint on": where if gap else "", "points": n_points if gap else "", "κ": gap or "none"}
        for name in ("accuracy", *INTERVALS):
            values = np.array([test[name] for test in tests])
            error = values.std(ddof=1) / np.sqrt(values.size)
            row[name if name == "accuracy" else f"fairness, {name}"] = f"{values.mean():.4f} ± {error:.4f}"
        table.append({**row, "seeds": len(tests)})
    lines = [
        "| " + " | ".join(map(str, cells)) + " |" for cells in (table[0], *(row.values() for row in table))
    ]
    lines.insert(1, "|" + "---|" * len(table[0]))
    text = f"# {_TITLE}\n\n{_SAID}\n\n" + "\n".join(lines) + "\n"
    (out / "celeba.md").write_text(text)


def main() -> None:
    """Train all networks, some at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no network after so many")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    parts = ("validation",) if arguments.search else ("validation", "test")
    settings = tried() if arguments.search else of_the_figure()
    end = time.monotonic() + arguments.seconds
    one = partial(_before, end, arguments.data, parts)
    name = "celeba_search.jsonl" if arguments.search else "celeba.jsonl"
    with (
        (arguments.out / name).open("a") as file,
        ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool,
    ):
        for found in pool.map(one, settings):
            if found is not None:
                file.write(json.dumps(found) + "\n")
                file.flush()
    if not arguments.search:
        write_table(
            [json.loads(line) for line in (arguments.out / name).read_text().splitlines()], arguments.out
        )


def _before(end: float, folder: Path, parts: tuple[str, ...], setting: Setting) -> dict[str, Any] | None:
    return done(folder, parts, setting) if time.monotonic() < end else None


if __name__ == "__main__":
    main()
