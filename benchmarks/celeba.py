"""Figure 12 of the paper on a GPU: ResNet-18s on faces, with and without constraints, as records.

``python benchmarks/celeba.py train --data DIR --out DIR [--jobs 6]``
    trains the networks of the figure that are not recorded yet, five seeds each
    (`partialfair_paper.networks`), and writes one line per network to celeba.jsonl, with its settings,
    machine and metrics.
``python benchmarks/celeba.py search --data DIR --out DIR``
    evaluates settings that are not recorded yet on the validation part, which selected those of the figure
    (celeba_search.jsonl).
``python benchmarks/celeba.py store OUT``
    copies the recorded runs to a directory for ``partialfair reproduce fig12 --out OUT``, which draws the
    figure on any machine.
``python benchmarks/celeba.py table``
    writes celeba.md from celeba.jsonl: the figure, compared with the best of about sixty simple prototypes.

``--data`` is the directory of the packed faces and the backbone. Several processes share the GPU, so run
times are not comparable. No face is written to a file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from _record import COMMIT, RESULTS
from partialfair import __version__
from partialfair_paper.figures import Networks
from partialfair_paper.frontiers import Mean, curves, read_at
from partialfair_paper.networks import NetworkSettings, network_scores, train_network
from partialfair_paper.parts import evaluate, parts_of
from partialfair_paper.runs import FORMAT, Run, read_outcome, read_run
from partialfair_paper.store import Store
from partialfair_paper.sweep import sweep
from partialfair_paper.target import Scope
from partialfair_paper.targets import TARGETS

FIGURE, SCOPE = TARGETS["fig12"], Scope(("celeba",))
assert isinstance(FIGURE, Networks)
BAND, WHOLE = (0.2, 0.4), (0.0, 1.0)
NAIVE = {
    BAND: {0.626: 0.793, 0.681: 0.786, 0.723: 0.767, 0.758: 0.760, 0.836: 0.738, 0.869: 0.717, 0.897: 0.663},
    WHOLE: {0.789: 0.761, 0.824: 0.745, 0.894: 0.723, 0.912: 0.718, 0.955: 0.715, 0.977: 0.702},
}
"""Fairness on the interval and accuracy of the best of about sixty prototypes on the same test images, by the
constrained ranks."""


SEARCHED_SEEDS = 3
SEARCHED_GAPS = {BAND: (0.4, 0.3, 0.2, 0.15, 0.1, 0.07), WHOLE: (0.3, 0.1, 0.05, 0.02, 0.005)}


def train(data: Path, out: Path, jobs: int, seconds: float) -> None:
    """Train the networks of the figure."""
    runs = FIGURE.runs(SCOPE)
    end = time.monotonic() + seconds
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store", __version__)
        for run, outcome in recorded(RESULTS / "celeba.jsonl"):
            store.save(run, outcome)
        by_seed = sorted(runs, key=lambda run: run.seed)

        def said(one: Any) -> None:
            print(
                f"{one.done} of {one.total}: {one.run}, {one.seconds:.0f} s, {one.error or 'fine'}",
                flush=True,
            )
            write_records(store, out / "celeba.jsonl")
            if time.monotonic() > end:
                raise SystemExit("time is up: what was done is written")

        sweep(by_seed, store, folder=data, jobs=jobs, say=said)


def write_records(store: Store, path: Path) -> None:
    """Write one line per run, with the commit that trained it."""
    known = commits_of(RESULTS / "celeba.jsonl")
    lines = [
        json.dumps(
            {
                "commit": known.get(run, COMMIT),
                "run": {"format": FORMAT, **asdict(run)},
                "outcome": asdict(outcome),
            }
        )
        for run, outcome in store.all()
    ]
    path.write_text("\n".join(lines) + "\n")


def commits_of(path: Path) -> dict[Run, str]:
    """Return the commit of every run of a record, if there is one."""
    lines = map(json.loads, path.read_text().splitlines() if path.exists() else ())
    return {read_run(line["run"]): line["commit"] for line in lines}


def recorded(path: Path) -> Iterator[tuple[Run, Any]]:
    """Yield the runs of a record, if there is one."""
    for line in path.read_text().splitlines() if path.exists() else ():
        content = json.loads(line)
        yield read_run(content["run"]), read_outcome(content["outcome"])


def put_into_store(out: Path) -> None:
    """Save the recorded runs in a store."""
    store = Store(out, __version__)
    for run, outcome in recorded(RESULTS / "celeba.jsonl"):
        store.save(run, outcome)


def tried() -> list[tuple[Run, NetworkSettings]]:
    """Return the candidate settings of the figure: both methods and both kinds of batches."""
    lagrangian = NetworkSettings()
    queues = replace(lagrangian, method="primal_dual")
    # With five times as many functions, each has a fifth of the penalty.
    gently = {"dual_lr": 0.004, "penalty": 0.2}
    by_curve = {
        (WHOLE, 50): (
            replace(queues, **gently),
            replace(queues, dual_lr=0.01, group_batches=False),
            replace(lagrangian, **gently),
            replace(lagrangian, dual_lr=0.01, penalty=1.0),
            lagrangian,
        ),
        (BAND, 10): (queues, lagrangian, replace(queues, group_batches=False)),
        (BAND, 50): (replace(queues, **gently), replace(lagrangian, **gently)),
    }
    cases = [(Run("celeba", seed, "network-unconstrained"), queues) for seed in range(SEARCHED_SEEDS)]
    for seed, ((interval, n_points), each) in itertools.product(range(SEARCHED_SEEDS), by_curve.items()):
        for gap in SEARCHED_GAPS[interval]:
            run = Run("celeba", seed, "network", gap, "pSP", interval, n_points)
            cases += [(run, settings) for settings in each]
    return cases


def judged_on_validation(data: Path, end: float, case: tuple[Run, NetworkSettings]) -> dict[str, Any] | None:
    """Train a network and evaluate it only on the validation part."""
    if time.monotonic() > end:
        return None
    run, settings = case
    parts = parts_of(run, data)
    model, _ = train_network(run, parts, settings)
    measures = evaluate(parts.validation, network_scores(model, parts.validation), parts)
    return {"commit": COMMIT, "run": asdict(run), "settings": asdict(settings), "validation": measures}


def search(data: Path, out: Path, jobs: int, seconds: float) -> None:
    """Evaluate settings."""
    end = time.monotonic() + seconds
    one = partial(judged_on_validation, data, end)
    record = RESULTS / "celeba_search.jsonl"
    done = record.read_text() if record.exists() else ""
    known = [(line["run"], line["settings"]) for line in map(json.loads, done.splitlines())]
    left = [case for case in tried() if _as_recorded(case) not in known]
    with (
        (out / record.name).open("w") as file,
        ProcessPoolExecutor(jobs, get_context("spawn")) as pool,
    ):
        file.write(done)
        for line in pool.map(one, left):
            if line is not None:
                file.write(json.dumps(line) + "\n")
                file.flush()


def _as_recorded(case: tuple[Run, NetworkSettings]) -> tuple[Any, Any]:
    """Return a case in the form of a record, with lists instead of tuples."""
    run, settings = (json.loads(json.dumps(asdict(part))) for part in case)
    return run, settings


def write_table() -> None:
    """Write the figure as a table, with the accuracies of simple prototypes at their fairness."""
    with TemporaryDirectory() as folder:
        put_into_store(Path(folder) / "store")
        store = Store(Path(folder) / "store", __version__)
        curves_by_label = {
            label: (question.interval, curves(store, question, method, fairness_on=BAND))
            for label, question, method in FIGURE.curves(SCOPE)
            if method.name == "network"
        }
        outcomes = [store.of(run) for run in FIGURE.runs(SCOPE)]
        machine = next(outcome.fit["device"] for outcome in outcomes if outcome is not None)
        figure = FIGURE.rows(SCOPE, store)
    lines = [
        "# ResNet-18 on faces, with constraints on the band and on all ranks",
        f"Commit: {', '.join(sorted(set(commits_of(RESULTS / 'celeba.jsonl').values())))}. "
        f"Machine: one {machine}, several networks at a time. CelebA, 16,000 training and 4,640 test images "
        "of 96 px; accuracy and fairness (1 − absolute pSP gap on ranks 20-40%) on the test part. Settings "
        "and κ were chosen on the validation part (celeba_search.jsonl).",
        _markdown(figure),
        "## Beside naive prototypes",
        "The best by fairness of some sixty runs on the same test images, and our accuracy at their "
        "fairness: seeds are read one by one, by straight lines between networks that the validation part "
        "prefers; seeds that do not reach so far take no part.",
        _markdown([row for one in curves_by_label.items() for row in _beside_naive(*one)]),
    ]
    (RESULTS / "celeba.md").write_text("\n\n".join(lines) + "\n")


def _beside_naive(label: str, curve: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Return partialfair's accuracy at the fairness of each simple prototype."""
    interval, by_seed = curve
    rows = []
    for fairness, accuracy in NAIVE[interval].items():
        reached = [line for line in by_seed.values() if line[0, 0] <= fairness <= line[-1, 0]]
        mean = Mean.of(read_at(line, fairness) for line in reached)
        row = {"constraint on": label, "fairness": fairness, "naive": accuracy, "seeds": len(reached)}
        if reached:
            row["ours"] = f"{mean.value:.4f}"
            row["difference"] = f"{mean.value - accuracy:+.4f}"
        if len(reached) > 1:
            row["ours"] += f" ± {mean.error:.4f}"
            row["in errors"] = f"{(mean.value - accuracy) / mean.error:+.1f}"
        rows.append({"ours": "not reached", "difference": "", "in errors": "", **row})
    order = ("constraint on", "fairness", "naive", "ours", "difference", "in errors", "seeds")
    return [{name: row[name] for name in order} for row in rows]


def _markdown(rows: Sequence[dict[str, Any]]) -> str:
    cells = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in cells)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("train", "search", "store", "table"))
    parser.add_argument("where", type=Path, nargs="?", help="the store to fill")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no network after this many")
    arguments = parser.parse_args()
    if arguments.what == "train":
        train(arguments.data, arguments.out, arguments.jobs, arguments.seconds)
    elif arguments.what == "search":
        search(arguments.data, arguments.out, arguments.jobs, arguments.seconds)
    elif arguments.what == "store":
        put_into_store(arguments.where)
    else:
        write_table()


if __name__ == "__main__":
    main()
