"""Which estimator of group means, and which method, holds a network best: small batches and a rare group.

Run ``python benchmarks/torch_estimators.py [--data DIR] [--seeds 5]``. A network of one hidden layer on law
school, partial parity on ranks 70-100 % with an absolute gap of .05, thirty epochs: batches at random or
`GroupBatches`, of 64 or 256 rows, by virtual queues or the augmented Lagrangian, on all training rows and
with a twentieth of the smaller group (some hundred people). A row is the mean over seeds on test rows, at the
last epoch; "wanders" is how far the validation gap moves from epoch to epoch over the last ten, a mean of
absolute differences.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from _record import RESULTS, write
from partialfair.constraints import StatisticalParity
from partialfair.datasets import load_law_school
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.torch import GroupBatches, Indexed, PartialFairTrainer

MAX_GAP, EPOCHS, RARE = 0.05, 30, 0.05
CASES = tuple(
    itertools.product((False, True), (64, 256), ("primal_dual", "augmented_lagrangian"), (False, True))
)
"""Whether the smaller group is rare, rows of a batch, the method, and whether batches are by group."""


def trained(
    data: Any, seed: int, batch_size: int, rare: bool, grouped: bool, method: str
) -> dict[str, float]:
    """Train a network, and judge it on test rows."""
    split = data.split(seed)
    X = data.X.to_numpy(dtype=float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    groups, y = data.sensitive_features.to_numpy(), data.y
    small = data.sensitive_features.cat.categories[1]
    inputs = torch.tensor(np.column_stack([X, groups == small])).float()
    labels = torch.from_numpy(y.astype(np.int64))
    train = split.train
    if rare:
        kept = np.random.default_rng(seed).random(train.size) < RARE
        train = train[(groups[train] != small) | kept]
    rows = Indexed(TensorDataset(inputs[train], labels[train]))
    if grouped:
        loader = DataLoader(rows, batch_sampler=GroupBatches(groups[train], batch_size, seed=seed))
    else:
        rng = torch.Generator().manual_seed(seed)
        loader = DataLoader(rows, batch_size, shuffle=True, drop_last=True, generator=rng)
    held_out = DataLoader(Indexed(TensorDataset(inputs[split.validation], labels[split.validation])), 4096)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(inputs.shape[1], 32), nn.Tanh(), nn.Linear(32, 1))
    trainer = PartialFairTrainer(
        model,
        StatisticalParity(data.interval, MAX_GAP, "absolute"),
        epochs=EPOCHS,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.003),
        schedule=lambda optimizer, n: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n),
        fairness={"method": method},
        theta_rate=3.0,
    )
    weights = {}

    def keep_last(record: Any) -> None:
        weights.update({name: value.clone() for name, value in model.state_dict().items()})

    trainer.callback = keep_last
    training = trainer.fit(loader, groups[train], validation=(held_out, groups[split.validation]))
    gaps = [record.validation.gaps[0] for record in training.history if record.validation][-10:]
    model.load_state_dict(weights)
    with torch.no_grad():
        scores = model(inputs[split.test]).squeeze(1).double().numpy()
    gap = partial_statistical_parity_difference(
        None,
        scores,
        sensitive_features=groups[split.test],
        interval=data.interval,
        gap_scale="absolute",
    )
    return {
        "fairness": 1 - gap,
        "accuracy": float(((scores > 0) == (y[split.test] == 1)).mean()),
        "wanders": fmean(abs(b - a) for a, b in itertools.pairwise(gaps)),
    }


def main() -> None:
    """Train all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = load_law_school(path=arguments.data)
    table = []
    for rare, batch_size, method, grouped in CASES:
        each = [trained(data, seed, batch_size, rare, grouped, method) for seed in range(arguments.seeds)]
        row = {
            "smaller group": "5 % of it" if rare else "all",
            "batch": batch_size,
            "method": method,
            "batches": "by group" if grouped else "at random",
        }
        for name in ("fairness", "accuracy", "wanders"):
            values = np.array([one[name] for one in each])
            row[name] = f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(values.size):.4f}"
        print(row, flush=True)
        table.append(row)
    write("torch_estimators", "Estimators and methods for networks", table, arguments.out)


if __name__ == "__main__":
    main()
