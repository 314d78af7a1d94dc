"""Held-out quality of exact fits, compared with an earlier commit: test accuracy at equal test gap.

Run ``python benchmarks/quality_exact.py --before-commit COMMIT`` or ``--before DIR``, a checkout of an
earlier commit. It is not part of ``make bench``, which has no earlier commit. Data files as in docs/data.md.
It takes about 15 minutes with two workers on two cores. Every table, split and side has its own process.
``--kept`` stores finished results and reuses them if the package and the fits are the same, so that an
interrupted run resumes.

For a grid of ``max_gap``, models are fitted with ``enforce="exact"``, ``alpha=1e-4`` and defaults otherwise.
Gaps are on the absolute scale, as in the paper's tables. A search that uses all of the training limit has
larger test gaps, so accuracies at equal ``max_gap`` are not comparable. The rule for each row (table,
constraint and terms) and split:

- A fit is a point: its exact test gap and its test accuracy. All fits count, including infeasible ones, at
  their test gaps. Nothing is selected on test rows.
- Points of one side are interpolated linearly in the order of their test gaps; points with equal gaps are
  averaged.
- Both lines are evaluated at nine gaps, evenly spaced over their common range; the mean difference is the
  split's.
- If the common range is less than a tenth of the joint range, the row excludes the split ("pairs" has the
  number of splits that are left).

Differences are paired by split. Standard errors are those of the mean over splits, which overlap (a9a has the
same test rows in all of them): they measure the randomness of the choice of rows. Without a true difference,
a row is below -2.5 standard errors once in 60 times with ten splits, and once in 23 times with four. The mean
over all rows averages the rows of a table within each split first, since they share it.

Fits by table: law_school and a9a 10 splits, five gaps, pSP and pDP, with interactions and as one model; bank
8 splits, four gaps, pSP and pDP, with interactions; acs_income 4 splits of 40,000 training rows, three gaps,
pSP, with interactions and as one model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

import partialfair
from _data import CONSTRAINTS, LOADERS, as_part
from _earlier import ROOT, add_earlier, answer_of, commit_of, earlier_checkout
from _equal_gaps import Levels, Paired, at_equal_gaps, overall
from _judging import ROUNDING, Case
from _real import TERMS
from _record import RESULTS, write

SIDES = ("before", "after")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Setting = tuple[str, str, float]
"""Constraint, terms and ``max_gap`` of a fit."""


@dataclass(frozen=True)
class Plan:
    """The fits on a table.

    Attributes
    ----------
    splits
        Number of splits, from seed 0 on.
    max_gaps
        Limits by constraint.
    terms
        Names in `TERMS`.
    seconds
        Rough time of a worker, for the estimate of the remaining time.
    n_rows
        Number of training rows, drawn from the split's; None for all.
    """

    splits: int
    max_gaps: dict[str, tuple[float, ...]]
    terms: tuple[str, ...]
    seconds: dict[str, float]
    n_rows: int | None = None

    def settings(self) -> list[Setting]:
        """Return the fits of one split."""
        return [
            (kind, terms, max_gap)
            for kind, max_gaps in self.max_gaps.items()
            for terms in self.terms
            for max_gap in max_gaps
        ]


BOTH = tuple(reversed(TERMS))
# The longest jobs start first, so that the workers end at similar times.
PLANS = {
    "acs_income": Plan(
        splits=4,
        max_gaps={"pSP": (0.12, 0.08, 0.04)},
        terms=BOTH,
        seconds={"before": 60, "after": 180},
        n_rows=40_000,
    ),
    "bank": Plan(
        splits=8,
        max_gaps={"pSP": (0.2, 0.12, 0.07, 0.03), "pDP": (0.1, 0.06, 0.03, 0.01)},
        terms=BOTH[:1],
        seconds={"before": 20, "after": 60},
    ),
    "a9a": Plan(
        splits=10,
        max_gaps={"pSP": (0.2, 0.13, 0.08, 0.045, 0.02), "pDP": (0.15, 0.1, 0.07, 0.04, 0.02)},
        terms=BOTH,
        seconds={"before": 20, "after": 50},
    ),
    "law_school": Plan(
        splits=10,
        max_gaps={"pSP": (0.3, 0.2, 0.1, 0.05, 0.02), "pDP": (0.15, 0.1, 0.07, 0.04, 0.02)},
        terms=BOTH,
        seconds={"before": 10, "after": 20},
    ),
}


@dataclass(frozen=True)
class Job:
    """The fits of one worker: a table and one of its splits."""

    data: str
    split: int
    n_rows: int | None
    settings: tuple[Setting, ...]


def fitted(job: Job, folder: Path | None) -> dict[str, Any]:
    """Fit and evaluate all settings of a job with the current package."""
    warnings.simplefilter("ignore")
    data = LOADERS[job.data](path=folder)
    whole, split = as_part(data), data.split(job.split)
    rows = split.train
    if job.n_rows is not None and job.n_rows < len(rows):
        rows = np.random.default_rng(job.split).choice(rows, job.n_rows, replace=False)
    train, test = whole.take(rows), whole.take(split.test)
    fits = []
    for kind, terms, max_gap in job.settings:
        asked = Case(
            job.data,
            train.X,
            train.y,
            train.groups,
            kind,
            data.interval,
            "absolute",
            max_gap,
            group_terms=TERMS[terms],
        )
        unseen = replace(asked, X=test.X, y=test.y, groups=test.groups)
        start = time.perf_counter()
        clf = asked.fitted(enforce="exact")
        seconds = time.perf_counter() - start
        scores = unseen.model_of(clf).scores
        fits.append(
            {
                "constraint": kind,
                "terms": terms,
                "max_gap": max_gap,
                "status": str(clf.result_.status),
                "training gap": asked.judged_gap(asked.model_of(clf).scores),
                "test gap": unseen.judged_gap(scores),
                "accuracy": float(((scores > 0) == (unseen.signs > 0)).mean()),
                "seconds": seconds,
            }
        )
    return {"package": str(Path(partialfair.__file__).resolve()), "fits": fits}


def digest_of(checkout: Path) -> str:
    """Return a digest of a package's code; results of other code are not reused."""
    digest = hashlib.sha256()
    source = checkout / "src"
    for path in sorted(source.rglob("*.py")):
        digest.update(str(path.relative_to(source)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def key_of(job: Job, digest: str) -> str:
    """Return the key of the fits of a job with this digest of the package."""
    return f"{digest} {json.dumps(asdict(job))}"


class Kept:
    """Results of finished workers, in a file with one line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._fits = {entry["key"]: entry["fits"] for entry in map(json.loads, lines)}

    def of(self, key: str) -> list[dict[str, Any]] | None:
        """Return the fits of a job, if they are known."""
        return self._fits.get(key)

    def add(self, key: str, fits: list[dict[str, Any]]) -> None:
        """Append the fits of a job."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps({"key": key, "fits": fits}) + "\n")


def rough_seconds(workers: Iterable[tuple[Job, str]]) -> float:
    """Return the total time of workers, one after the other."""
    return sum(PLANS[job.data].seconds[side] for job, side in workers)


def all_fits(jobs: list[Job], before: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the fits of all jobs, before and after, by workers; print the progress after each."""
    kept, found = Kept(arguments.kept), []
    checkouts = dict(zip(SIDES, (before, ROOT), strict=True))
    digests = {side: digest_of(checkout) for side, checkout in checkouts.items()}
    threads = dict.fromkeys(THREADS, str(max(1, (os.cpu_count() or 1) // arguments.workers)))
    folder = ["--data", str(arguments.data)] if arguments.data else []

    def work(job: Job, side: str) -> list[dict[str, Any]]:
        options = ["--fit", json.dumps(asdict(job)), *folder]
        name = f"{job.data}, split {job.split}, {side}"
        fits: list[dict[str, Any]] = answer_of(__file__, options, checkouts[side], name, threads)["fits"]
        return fits

    left = []
    for job in jobs:
        for side in SIDES:
            fits = kept.of(key_of(job, digests[side]))
            if fits is None:
                left.append((job, side))
            else:
                found += _labelled(job, side, fits)
    expected = rough_seconds(left)
    start, n_jobs = time.perf_counter(), len(left)
    if n_jobs < 2 * len(jobs):
        print(f"{2 * len(jobs) - n_jobs} of {2 * len(jobs)} workers were done before", flush=True)
    with ThreadPoolExecutor(arguments.workers) as pool:
        waiting = {pool.submit(work, *todo): todo for todo in left}
        try:
            for done in as_completed(waiting):
                job, side = waiting[done]
                left.remove((job, side))
                fits = done.result()
                kept.add(key_of(job, digests[side]), fits)
                found += _labelled(job, side, fits)
                rest = rough_seconds(left)
                minutes = (time.perf_counter() - start) / (expected - rest) * rest / 60
                spent = sum(fit["seconds"] for fit in fits)
                print(
                    f"{job.data}, split {job.split}, {side}: {len(fits)} fits in {spent:.0f} s; "
                    f"{n_jobs - len(left)} of {n_jobs} workers, about {minutes:.0f} min left",
                    flush=True,
                )
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return found


def _labelled(job: Job, side: str, fits: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield fits with their table, split and side."""
    return ({"data": job.data, "split": job.split, "side": side, **fit} for fit in fits)


def _where(fits: Iterable[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    """Return the fits with these entries."""
    return [fit for fit in fits if all(fit[name] == value for name, value in wanted.items())]


def split_levels(fits: list[dict[str, Any]]) -> dict[int, Levels]:
    """Return both sides of a row's fits at equal gaps, by split, where they can be compared."""
    found = {}
    for split in sorted({fit["split"] for fit in fits}):
        sides = (_where(fits, split=split, side=side) for side in SIDES)
        levels = at_equal_gaps(*([(fit["test gap"], fit["accuracy"]) for fit in side] for side in sides))
        if levels is not None:
            found[split] = levels
    return found


def _broken(fits: Iterable[dict[str, Any]]) -> int:
    """Count the fits whose training gap exceeds the limit."""
    return sum(fit["training gap"] > fit["max_gap"] + ROUNDING for fit in fits)


def _before_after(fits: list[dict[str, Any]], columns: Iterable[str], digits: int) -> dict[str, str]:
    """Return means of some columns for each side."""
    return {
        f"{column} {side}": f"{fmean(fit[column] for fit in _where(fits, side=side)):.{digits}f}"
        for column in columns
        for side in SIDES
    }


def _shown(number: float, digits: str) -> str:
    """Return a number as text, or a dash."""
    return "none" if math.isnan(number) else format(number, digits)


def row_of(fits: list[dict[str, Any]], levels: dict[int, Levels]) -> dict[str, Any]:
    """Return the row of the table for one table of data, constraint and terms."""
    paired = Paired.of(level.difference for level in levels.values())

    def mean(name: str) -> float:
        return fmean(getattr(level, name) for level in levels.values()) if levels else math.nan

    sides = {side: _where(fits, side=side) for side in SIDES}
    return {
        **{name: fits[0][name] for name in ("data", "constraint", "terms")},
        "splits": len({fit["split"] for fit in fits}),
        "pairs": len(levels),
        "test gaps": f"{_shown(mean('low'), '.3f')} to {_shown(mean('high'), '.3f')}",
        "accuracy before": _shown(mean("before"), ".4f"),
        "accuracy after": _shown(mean("after"), ".4f"),
        "difference": _shown(paired.mean, "+.4f"),
        "standard error": _shown(paired.error, ".4f"),
        "in standard errors": _shown(paired.in_errors, "+.1f"),
        **_before_after(fits, ("test gap",), 4),
        **{f"none feasible {side}": _broken(sides[side]) for side in SIDES},
        **{f"seconds {side}": f"{median(fit['seconds'] for fit in sides[side]):.2f}" for side in SIDES},
    }


def fits_row(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over splits of the fits of one setting, before and after."""
    statuses = {side: Counter(fit["status"] for fit in _where(fits, side=side)) for side in SIDES}
    return {
        **{name: fits[0][name] for name in ("data", "constraint", "terms", "max_gap")},
        **_before_after(fits, ("accuracy", "test gap", "training gap"), 4),
        **_before_after(fits, ("seconds",), 2),
        **{
            f"statuses {side}": ", ".join(f"{n} {status}" for status, n in sorted(statuses[side].items()))
            for side in SIDES
        },
    }


def record(fits: list[dict[str, Any]], commits: str, out: Path) -> None:
    """Write both tables: accuracies at equal gaps, and the fits behind them."""
    rows, by_setting, differences = [], [], {}
    for data in dict.fromkeys(fit["data"] for fit in fits):
        of_data = _where(fits, data=data)
        differences[data] = {}
        for kind, terms in dict.fromkeys((fit["constraint"], fit["terms"]) for fit in of_data):
            own = _where(of_data, constraint=kind, terms=terms)
            levels = split_levels(own)
            rows.append(row_of(own, levels))
            differences[data][kind, terms] = {split: level.difference for split, level in levels.items()}
            max_gaps = dict.fromkeys(fit["max_gap"] for fit in own)
            by_setting += [fits_row(_where(own, max_gap=max_gap)) for max_gap in max_gaps]
    seeds = "number of the split"
    write("quality_exact_fits", f"Exact fits, {commits}: means over splits", by_setting, out, seeds=seeds)
    title = f"Test accuracy of exact fits at equal test gap, {commits}; {verdict(rows, overall(differences))}"
    write("quality_exact", title, rows, out, seeds=seeds)


def verdict(rows: list[dict[str, Any]], mean: Paired) -> str:
    """Return a summary of the rows in one line."""
    judged = [row for row in rows if row["in standard errors"] != "none"]
    line = f"paired mean {_shown(mean.mean, '+.5f')}, {_shown(mean.in_errors, '+.2f')} standard errors"
    if judged:
        worst = min(judged, key=lambda row: float(row["in standard errors"]))
        name = " ".join(worst[column] for column in ("data", "constraint", "terms"))
        line += f"; worst row {worst['in standard errors']} standard errors ({name})"
    missing = sum(row["splits"] - row["pairs"] for row in rows)
    return line + f"; {missing} of {sum(row['splits'] for row in rows)} pairs hardly overlap and are left out"


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Return the jobs for each side."""
    jobs = []
    for data, plan in PLANS.items():
        if data not in arguments.only:
            continue
        if arguments.max_gaps:
            plan = replace(plan, max_gaps=dict.fromkeys(plan.max_gaps, tuple(arguments.max_gaps)))
        settings = tuple(one for one in plan.settings() if one[0] in arguments.constraints)
        n_splits = arguments.splits or plan.splits
        n_rows = arguments.rows or plan.n_rows
        jobs += [Job(data, split, n_rows, settings) for split in range(n_splits) if settings]
    return jobs


def main() -> None:
    """Fit everything with both packages, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_earlier(parser, "--fit", "a job, as JSON: fit it with the package at hand")
    parser.add_argument("--only", nargs="*", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--constraints", nargs="*", default=list(CONSTRAINTS), choices=list(CONSTRAINTS))
    parser.add_argument("--splits", type=int, default=None, help="of every table")
    parser.add_argument("--max-gaps", nargs="*", type=float, default=None, help="of every table")
    parser.add_argument("--rows", type=int, default=None, help="training rows, for a quick look")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time; they share the cores")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "quality_exact.jsonl")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.fit:
        job = Job(**json.loads(arguments.fit))
        print(json.dumps(fitted(job, arguments.data)))
        return
    with earlier_checkout(arguments) as before:
        commits = f"before ({commit_of(before)}) and after ({commit_of(ROOT)})"
        fits = all_fits(jobs_of(arguments), before, arguments)
    # Workers end in any order, but tables are sorted.
    fits.sort(key=lambda fit: (list(PLANS).index(fit["data"]), fit["split"]))
    record(fits, commits, arguments.out)


if __name__ == "__main__":
    main()
