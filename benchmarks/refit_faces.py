"""The last layer of networks on faces, fitted again with a promise on images that they have not seen.

``python benchmarks/refit_faces.py export --data DIR --out DIR`` on a GPU
    trains five networks under a constraint on three quarters of the training images, and writes the features
    that their last layers see of the others, of the validation and of the test part (no images).
``python benchmarks/refit_faces.py refit --features DIR`` anywhere
    fits last layers by `refit_head` on the images not seen, at several gaps, with a penalty chosen on the
    validation part, and compares test accuracy with that of the network before, at its fairness (straight
    lines between the fits). Written to results/refit_faces.md.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from _record import RESULTS, write
from partialfair import PartialFairClassifier
from partialfair.constraints import StatisticalParity
from partialfair.experiments.networks import NetworkSettings, trained_network
from partialfair.experiments.parts import Part, Parts, parts_of
from partialfair.experiments.runs import Run
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.torch import refit_head

BAND, MAX_GAP, SEEDS, SEEN = (0.2, 0.4), 0.2, 5, 12_000
MAX_GAPS, ALPHAS = (0.3, 0.25, 0.2, 0.15, 0.1, 0.05), (1e-3, 1e-2, 1e-1)


@torch.no_grad()
def features_of(model: Any, part: Part) -> tuple[Tensor, Tensor]:
    """Return what the last layer sees of a part, and what it says, in float32."""
    seen: list[Tensor] = []
    watched = model.network.fc.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].cpu()))
    device = next(model.parameters()).device
    model.eval()
    scores = [model(images.to(device))[:, 0].cpu() for images in torch.from_numpy(part.X).split(512)]
    watched.remove()
    return torch.cat(seen), torch.cat(scores)


def export(data: Path, out: Path) -> None:
    """Train the networks, and write their features."""
    run = Run("celeba", 0, "network", MAX_GAP, "pSP", BAND, 10)
    parts = parts_of(run, data)
    everybody = np.arange(len(parts.train.y))
    seen, unseen = (parts.train.take(rows) for rows in (everybody[:SEEN], everybody[SEEN:]))
    some = Parts(seen, parts.validation, parts.test, parts.intervals, parts.folder)
    for seed in range(SEEDS):
        model, _ = trained_network(replace(run, seed=seed), some, NetworkSettings())
        arrays = {}
        for name, part in {"unseen": unseen, "validation": parts.validation, "test": parts.test}.items():
            features, scores = features_of(model, part)
            arrays |= {f"{name}_features": features.half().numpy(), f"{name}_scores": scores.numpy()}
            arrays |= {f"{name}_y": part.y, f"{name}_groups": (part.groups == "Male").astype(np.int8)}
        np.savez_compressed(out / f"features_{seed}.npz", **arrays)
        print(seed, judged(arrays["test_scores"], arrays, "test"), flush=True)


def judged(scores: Any, arrays: Any, part: str) -> tuple[float, float]:
    """Return fairness on the band and accuracy."""
    gap = partial_statistical_parity_difference(
        None, scores, sensitive_features=arrays[f"{part}_groups"], interval=BAND, gap_scale="absolute"
    )
    return 1 - gap, float(((scores > 0) == (arrays[f"{part}_y"] == 1)).mean())


def refitted(arrays: Any, max_gap: float, alpha: float) -> tuple[Any, nn.Linear]:
    """Fit a last layer again on the images not seen."""
    head = nn.Linear(arrays["unseen_features"].shape[1], 1)
    batch = torch.from_numpy(arrays["unseen_features"]).float(), arrays["unseen_y"], arrays["unseen_groups"]
    constraint = StatisticalParity(BAND, max_gap, "absolute")
    return refit_head(head, head, [batch], PartialFairClassifier(constraint, alpha=alpha, tol=1e-3)), head


@torch.no_grad()
def scores_of_part(head: nn.Linear, arrays: Any, part: str) -> Any:
    """Return the scores of a part with a last layer."""
    return head(torch.from_numpy(arrays[f"{part}_features"]).float())[:, 0].double().numpy()


def compared(arrays: Any) -> dict[str, Any]:
    """Compare a network with its refitted heads."""
    fairness, accuracy = judged(arrays["test_scores"], arrays, "test")
    curve, kept = [], 0
    for max_gap in MAX_GAPS:
        fits = [refitted(arrays, max_gap, alpha) for alpha in ALPHAS]
        kept += sum(bool(one.kept) for one, _ in fits)
        on_validation = [
            judged(scores_of_part(head, arrays, "validation"), arrays, "validation") for _, head in fits
        ]
        _, head = fits[int(np.argmax([accuracy for _, accuracy in on_validation]))]
        curve.append(judged(scores_of_part(head, arrays, "test"), arrays, "test"))
    line = np.array(sorted(curve))
    read = float(np.interp(fairness, line[:, 0], line[:, 1]))
    return {
        "fairness": f"{fairness:.4f}",
        "accuracy before": f"{accuracy:.4f}",
        "accuracy refitted, at that fairness": f"{read:.4f}",
        "difference": f"{read - accuracy:+.4f}",
        "refitted fairness": f"{line[0, 0]:.3f} to {line[-1, 0]:.3f}",
        "promises kept by the layer in float32": f"{kept} of {len(MAX_GAPS) * len(ALPHAS)}",
    }


def refit(folder: Path) -> None:
    """Refit all, and write the table."""
    rows = []
    for file in sorted(folder.glob("features_*.npz")):
        with np.load(file) as held:
            rows.append({"network": file.stem[-1], **compared({name: held[name] for name in held.files})})
        print(rows[-1], flush=True)
    gains = np.array([float(row["difference"]) for row in rows])
    error = gains.std(ddof=1) / np.sqrt(gains.size)
    title = f"Last layers refitted on faces not seen: {gains.mean():+.4f} ± {error:.4f} at equal fairness"
    write("refit_faces", title, rows)


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("export", "refit"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.what == "export":
        export(arguments.data, arguments.out)
    else:
        refit(arguments.features)


if __name__ == "__main__":
    main()
