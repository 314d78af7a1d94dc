"""Run time of a training step of a ResNet-18 with and without constraints, on a GPU.

Run ``python benchmarks/torch_step.py [--out DIR]``. Random images of 128 px in bf16, channels last, AdamW;
statistical parity on the interval with 10 points, with tangents refreshed every 20 steps, which are part of
the time. Blocks of steps with and without the hook alternate. CUDA events measure their time, and medians are
compared; so are epochs of 16,000 rows. Another block runs under ``torch.cuda.set_sync_debug_mode("error")``,
to show that no step waits for the device.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from _record import RESULTS, write
from partialfair.constraints import StatisticalParity
from partialfair.torch import PartialFairness
from partialfair_paper.resnet import ResNet18

N_ROWS, PIXELS = 16_000, 128
BLOCK, BLOCKS, EPOCHS = 40, 15, 5


class Steps:
    """A network trained on random images, with the hook or without."""

    def __init__(self, batch: int, *, constrained: bool, cuda_graph: bool = True) -> None:
        torch.manual_seed(0)
        self.batch = batch
        self.net = ResNet18().to("cuda", memory_format=torch.channels_last)
        groups = torch.arange(N_ROWS) % 2
        self.fair = None
        parameters = [*self.net.parameters()]
        if constrained:
            constraint = StatisticalParity((0.2, 0.4), 0.1, "absolute", n_points=10)
            self.fair = PartialFairness(
                constraint, groups.numpy(), warmup_epochs=0.0, cuda_graph=cuda_graph
            ).cuda()
            parameters += self.fair.parameters()
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        self.groups = groups.cuda()
        self.images = torch.randn(batch, 3, PIXELS, PIXELS, device="cuda").contiguous(
            memory_format=torch.channels_last
        )
        self.y = (torch.rand(batch, device="cuda") > 0.5).float()
        self.rows = torch.randperm(N_ROWS, device="cuda").split(batch)[: N_ROWS // batch]

    def run(self, n_steps: int) -> None:
        """Take some steps."""
        for step in range(n_steps):
            rows = self.rows[step % len(self.rows)]
            with torch.autocast("cuda", torch.bfloat16):
                scores = self.net(self.images).squeeze(1).float()
            loss = nn.functional.binary_cross_entropy_with_logits(scores, self.y)
            if self.fair is not None:
                loss = self.fair(loss, scores, self.groups[rows], None, rows)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.fair is not None:
                self.fair.step()

    def timed(self, n_steps: int = BLOCK) -> float:
        """Return milliseconds per step."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        self.run(n_steps)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / n_steps


def measured(batch: int) -> dict[str, Any]:
    """Compare steps for one batch size."""
    free, held = (Steps(batch, constrained=constrained) for constrained in (False, True))
    held.run(N_ROWS // batch + 1)  # tangents exist after one pass
    for one in (free, held):
        one.timed()
    pairs = [(free.timed(), held.timed()) for _ in range(BLOCKS)]
    epochs = [(free.timed(N_ROWS // batch), held.timed(N_ROWS // batch)) for _ in range(EPOCHS)]
    torch.cuda.set_sync_debug_mode("error")
    try:
        held.run(BLOCK)
        waits = "no"
    except RuntimeError as error:
        waits = str(error)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    without, with_hook = (median(column) for column in zip(*pairs, strict=True))
    return {
        "batch": batch,
        "ms without": f"{without:.2f}",
        "ms with": f"{with_hook:.2f}",
        "ratio": f"{median(held / free for free, held in pairs):.3f}",
        "ratio of epochs": f"{median(held / free for free, held in epochs):.3f}",
        "images a second": f"{1000 * batch / with_hook:,.0f}",
        "waits for the device": waits,
    }


def replayed_and_launched(batch: int = 64) -> dict[str, float]:
    """Compare the hook's state after many steps with and without its CUDA graph, on given scores."""
    ends = []
    for cuda_graph in (True, False):
        steps = Steps(batch, constrained=True, cuda_graph=cuda_graph)
        fair = steps.fair
        assert fair is not None
        rng = torch.Generator("cuda").manual_seed(1)
        optimizer = torch.optim.SGD(fair.parameters(), lr=0.1)
        total = torch.zeros((), device="cuda")
        for step in range(3 * len(steps.rows)):
            rows = steps.rows[step % len(steps.rows)]
            noise = torch.randn(batch, device="cuda", generator=rng)
            scores = (noise + steps.groups[rows]).requires_grad_()
            loss = fair(scores.square().mean(), scores, steps.groups[rows], None, rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            fair.step()
            total += loss.detach() + scores.grad.abs().sum()
        ends.append((total, fair.multipliers.clone(), fair.functions.theta.detach().clone(), fair.row_scores))
    return {
        "largest multiplier": float(ends[0][1].max()),
        "largest difference": max(float((a - b).abs().max()) for a, b in zip(*ends, strict=True)),
    }


def main() -> None:
    """Measure batches of 64, 256 and 512."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    rows = [measured(batch) for batch in (64, 256, 512)]
    graphs = {"CUDA graph compared with launched kernels": replayed_and_launched()}
    title = "Milliseconds of a ResNet-18 step with and without the hook"
    write("torch_step", title, rows, arguments.out, seeds="0", **graphs)


if __name__ == "__main__":
    main()
