"""A path of ten models compared with one fit of fairlearn's ExponentiatedGradient, and guarantees of `best`.

Run ``python benchmarks/path.py [--data DIR]``; data files as in docs/data.md. The path is on a9a. The
guarantee is checked on random splits of law school: ``best(max_gap=0.1)`` selects a model on the validation
part, and its gap is measured on the test part.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from _data import LOADERS, as_part
from _record import RESULTS, write
from partialfair import PartialFairClassifier, fairness_path
from partialfair.estimators.path import FairnessPath
from partialfair.exceptions import InputError
from partialfair.metrics import partial_statistical_parity_difference

MAX_GAPS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)


def dominated(path: FairnessPath) -> int:
    """Return how many models have a higher objective than a stricter feasible one; there should be none."""
    kept = [point.objective for point in path.points if point.model.result_.satisfied]
    return sum(looser > min(kept[at:]) * (1 + 1e-9) for at, looser in enumerate(kept))


def path_beside_fairlearn(folder: Path | None, n: int | None) -> list[dict[str, Any]]:
    """Return the seconds of both methods on the same rows of a9a."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    data = LOADERS["a9a"](path=folder)
    train = as_part(data).take(data.split(0).train[:n])
    clf = PartialFairClassifier(interval=data.interval)
    few = train.few()
    options = {"max_gaps": MAX_GAPS, "random_state": 0}
    fairness_path(clf, few.X, few.y, sensitive_features=few.groups, **options)  # compiles
    start = time.perf_counter()
    path = fairness_path(clf, train.X, train.y, sensitive_features=train.groups, **options)
    ours = time.perf_counter() - start
    dense = train.X.toarray()
    base = LogisticRegression(C=1 / (clf.alpha * len(train.y)), max_iter=1000)
    peer = ExponentiatedGradient(base, DemographicParity(difference_bound=0.05))
    start = time.perf_counter()
    peer.fit(dense, train.y, sensitive_features=train.groups)
    theirs = time.perf_counter() - start
    converged = (path.to_frame()["status"] == "converged").sum()
    return [
        {
            "what": f"fairness_path of {len(path.points)} models on a9a, {converged} converged",
            "value": f"{ours:.2f} s",
        },
        {"what": "one fit of fairlearn's ExponentiatedGradient", "value": f"{theirs:.2f} s"},
        {"what": "ratio", "value": f"{ours / theirs:.2f}"},
        {"what": "models that cost more than a stricter one, a9a", "value": str(dominated(path))},
    ]


def promise(folder: Path | None, n_splits: int, scale: str) -> dict[str, Any]:
    """Return how often the model of `best` has a larger test gap than the limit."""
    data = LOADERS["law_school"](path=folder)
    whole = as_part(data)
    gaps, bounds, n_dominated = [], [], 0
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(data.y))
        train, validation, test = (whole.take(rows) for rows in np.array_split(order, 3))
        path = fairness_path(
            PartialFairClassifier(interval=data.interval, gap_scale=scale),
            train.X,
            train.y,
            sensitive_features=train.groups,
            max_gaps=MAX_GAPS,
            validation=(validation.X, validation.y, validation.groups),
            random_state=seed,
        )
        bounds.append(path.to_frame()["ci_high"].min())
        n_dominated += dominated(path)
        try:
            chosen = path.best(max_gap=0.1)
        except InputError:
            continue
        gap = partial_statistical_parity_difference(
            None,
            chosen.decision_function(test.X),
            sensitive_features=test.groups,
            interval=data.interval,
            gap_scale=scale,
        )
        gaps.append(gap)
        print(scale, seed, chosen.max_gap, f"{gap:.3f}", flush=True)
    over = f"{np.mean(np.array(gaps) > 0.1):.1%} have a test gap above .1; " if gaps else ""
    lowest = f"lowest upper bound on average {np.mean(bounds):.3f}"
    costs = f"{n_dominated} models cost more than a stricter one of their path"
    return {
        "what": f"law school, {n_splits} splits in thirds, best(max_gap=.1), {scale} scale",
        "value": f"{len(gaps)} times a model qualified; {over}{lowest}; {costs}",
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=None, help="rows of a9a, for a quick look")
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = path_beside_fairlearn(arguments.data, arguments.rows)
    rows += [promise(arguments.data, arguments.splits, scale) for scale in ("interval", "absolute")]
    title = "A path of models, and what its choice guarantees"
    write("path", title, rows, arguments.out, seeds="a9a: 0; law school: number of the split")


if __name__ == "__main__":
    main()
