"""How much the order of rows, columns and group names, or rounding, changes the result of an exact fit.

Run ``python benchmarks/stability.py [--before DIR | --before-commit COMMIT]``; data files as in docs/data.md.
The data sets are those of ``_unstable.py``, selected because searches without escalation failed on them. Each
is fitted in its original order, under ``--permutations`` of rows, columns and group names, and with
``--perturbations`` of its features by 1e-9, relative to their values; then ``fairness_path`` fits four
limits. One process per data set and checkout measures everything on one thread. Data sets that ``--problems``
excludes keep their rows in the record. The table has one row for each data set and checkout:

- statuses, and none: statuses of fits, and the number of fits without a feasible model.
- lowest, highest, spread: objectives of feasible fits, and their difference relative to the *rise*, which is
  the lowest objective of any fit in the record minus the unconstrained one. excess: the median above that
  lowest one, relative to the rise.
- CPU seconds: median of the fits; ratio: to those of the earlier checkout.
- path: whether objectives never decrease as limits become stricter, and every limit is met if a stricter one
  is.
- bars missed: "status" if statuses differ, "objective" if the spread exceeds 2%, `none found` if a fit found
  no feasible model although the record has one at 0.9 of the limit, "path" if the path is not monotone.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import partialfair
from _earlier import ROOT, answer_of, commit_of, earlier_checkout
from _record import RESULTS, write
from _unstable import PROBLEMS, Problem
from partialfair import PartialFairClassifier, fairness_path

TITLE = "Exact fits of data in their original order, permuted, and perturbed"
PATH_FACTORS = (2.0, 1.4, 1.0, 0.9)
"""Limits of a path, relative to that of the problem."""
MAX_SPREAD = 0.02
"""Largest difference of objectives, relative to the rise."""
CLEARLY_FEASIBLE = 0.9
"""Fraction of the limit: a problem with a known model of this gap certainly has feasible models."""
ROUNDING = 1e-12
"""Tolerances of a gap over its limit, and, relative, of an objective over that of a stricter limit."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def variants(problem: Problem, arguments: argparse.Namespace) -> Iterator[Problem]:
    """Yield the problem and its variants, whose results should not differ."""
    yield problem
    for seed in range(arguments.permutations):
        yield problem.permute(seed)
    for seed in range(arguments.perturbations):
        yield problem.perturb(seed)


def fit(problem: Problem, **settings: Any) -> dict[str, Any]:
    """Fit at default settings except for those given, and describe the fit."""
    classifier = PartialFairClassifier(interval=problem.interval, max_gap=problem.max_gap, **settings)
    start = time.process_time()
    result = classifier.fit(problem.X, problem.y, sensitive_features=problem.groups).result_
    seconds = time.process_time() - start
    return {**describe(result, problem.max_gap), "status": str(result.status), "CPU seconds": seconds}


def fit_path(problem: Problem) -> list[dict[str, Any]]:
    """Fit a path to all rows, and describe its fits, from the loosest limit on."""
    path = fairness_path(
        PartialFairClassifier(interval=problem.interval),
        problem.X,
        problem.y,
        sensitive_features=problem.groups,
        max_gaps=[factor * problem.max_gap for factor in PATH_FACTORS],
        validation=(problem.X, problem.y, problem.groups),
    )
    limited = [point for point in path.points if point.max_gap < 1]  # the first has no limit
    return [describe(point.model.result_, point.max_gap) for point in limited]


def describe(result: Any, max_gap: float) -> dict[str, Any]:
    """Return limit, gap and objective of a fit, and whether it is feasible."""
    return {
        "max_gap": max_gap,
        "gap": result.gap,
        "objective": result.objective,
        "feasible": bool(result.gap <= max_gap + ROUNDING),
    }


def measure(problem: Problem, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all fits of a problem with the current package."""
    fit(replace(problem.head(300), max_gap=0.5))  # compiles
    return {
        "package": str(Path(partialfair.__file__).resolve()),
        "max_gap": problem.max_gap,
        "unconstrained": fit(problem, constraint=None)["objective"],
        "fits": [fit(variant) for variant in variants(problem, arguments)],
        "path": fit_path(problem),
    }


def is_monotone(path: list[dict[str, Any]]) -> bool:
    """Check that no fit of a path, given from the loosest limit on, is worse than a stricter one."""
    for at, looser in enumerate(path):
        for stricter in path[at + 1 :]:
            if stricter["feasible"] and not looser["feasible"]:
                return False
            if stricter["feasible"] and looser["objective"] > stricter["objective"] * (1 + ROUNDING):
                return False
    return True


def summarize(measured: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row of the table for each checkout, earliest first."""
    limit = next(iter(measured.values()))["max_gap"]
    every = [
        one
        for record in measured.values()
        for one in (*record["fits"], *record["path"])
        if one["gap"] <= limit + ROUNDING
    ]
    best = min((one["objective"] for one in every), default=float("nan"))
    possible = any(one["gap"] <= CLEARLY_FEASIBLE * limit for one in every)
    rows = []
    for code, record in measured.items():
        fits, rise = record["fits"], best - record["unconstrained"]
        statuses = Counter(one["status"] for one in fits)
        objectives = [one["objective"] for one in fits if one["feasible"]]
        n_none = len(fits) - len(objectives)
        spread = (max(objectives) - min(objectives)) / rise if objectives else float("nan")
        monotone = is_monotone(record["path"])
        missed = {
            "status": len(statuses) > 1,
            "objective": spread > MAX_SPREAD,
            "none found": n_none > 0 and possible,
            "path": not monotone,
        }
        rows.append(
            {
                "code": code,
                "statuses": ", ".join(f"{status} {n}" for status, n in sorted(statuses.items())),
                "none": f"{n_none} of {len(fits)}",
                "unconstrained": f"{record['unconstrained']:.5f}",
                "lowest": f"{min(objectives):.5f}" if objectives else "–",
                "highest": f"{max(objectives):.5f}" if objectives else "–",
                "spread": f"{spread:.1%}" if objectives else "–",
                "excess": f"{(median(objectives) - best) / rise:.1%}" if objectives else "–",
                "path": "monotone" if monotone else "not monotone",
                "CPU seconds": f"{_seconds(record):.2f}",
                "ratio": f"{_seconds(record) / _seconds(measured['before']):.2f}"
                if "before" in measured
                else "",
                "bars missed": ", ".join(bar for bar, is_missed in missed.items() if is_missed) or "none",
            }
        )
    return rows


def _seconds(record: dict[str, Any]) -> float:
    """Return the median CPU seconds of the fits of a record."""
    return median(one["CPU seconds"] for one in record["fits"])


def run(name: str, checkout: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the results of a fresh process on a data set with the package of a checkout."""
    options = ["--measure", name]
    for option in ("permutations", "perturbations", "rows", "data"):
        if (value := getattr(arguments, option)) is not None:
            options += [f"--{option}", str(value)]
    return answer_of(__file__, options, checkout, name, ONE_THREAD)


def main() -> None:
    """Measure every data set with this checkout, and with an earlier one if it is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--before", type=Path, help="an earlier checkout")
    mode.add_argument("--before-commit", help="an earlier commit, checked out for the time being")
    mode.add_argument("--measure", choices=list(PROBLEMS), help="measure a data set with the package at hand")
    parser.add_argument("--problems", default="", help="only data sets whose name matches this pattern")
    parser.add_argument("--permutations", type=int, default=10)
    parser.add_argument("--perturbations", type=int, default=2)
    parser.add_argument(
        "--rows", type=int, default=None, help="first rows of each data set, for a quick look"
    )
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.measure:
        warnings.simplefilter("ignore")
        problem = PROBLEMS[arguments.measure](arguments.data).head(arguments.rows)
        print(json.dumps(measure(problem, arguments)))
        return
    compares = arguments.before is not None or arguments.before_commit is not None
    record = arguments.out / "stability.json"
    rows = json.loads(record.read_text())["rows"] if record.exists() else []
    with earlier_checkout(arguments) if compares else nullcontext() as before:
        checkouts = {"now": ROOT} if before is None else {"before": before, "now": ROOT}
        commits = {code: commit_of(checkout) for code, checkout in checkouts.items()}
        for name in filter(lambda name: re.search(arguments.problems, name), PROBLEMS):
            measured = {code: run(name, checkout, arguments) for code, checkout in checkouts.items()}
            added = [{"data": name, "commit": commits[row["code"]], **row} for row in summarize(measured)]
            rows = [row for row in rows if row["data"] != name] + added
            # Written after every data set, so that an interruption loses at most one.
            write("stability", TITLE, rows, arguments.out, seeds="number of the permutation or perturbation")


if __name__ == "__main__":
    main()
