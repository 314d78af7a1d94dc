"""Is this checkout slower than an earlier one? The fits of engine.py, exact.py and path.py, by turns.

Run ``python benchmarks/before_after.py --before-commit HEAD~1`` or ``--before DIR``, a checkout of an earlier
commit; it is not part of ``make bench``, which has nothing to compare with. Data files as in docs/data.md.

Every case is measured ``--runs`` times, before, after, before, after, ... so that both see the same hours of
the machine; each time in a fresh process that loads, warms up on a few rows and fits. Fits of less than a
second are repeated within the process. Both run this script; only the package is another.

- engine: surrogate fits with and without constraint, as in engine.py
- exact: exact fits, as in exact.py, with ``max_gap=.05``
- path: ``fairness_path``, as in path.py; seconds and memory are those of all its fits together
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, TypeAlias

import numpy as np

import partialfair
from _data import CONSTRAINTS, LOADERS, Part, load
from _earlier import ROOT, add_earlier, answer_of, commit_of, earlier_checkout
from _record import RESULTS, write
from partialfair import PartialFairClassifier, fairness_path
from path import MAX_GAPS

ALPHA, MAX_GAP = 1e-4, 0.05
LONG_ENOUGH = 1.0
"""Seconds: what takes as long, in one fit or together, is not repeated."""
MOST_FITS = 20
"""As often is a short fit repeated within a process, at most."""
SAME_OBJECTIVE = 1e-6
"""What an objective may rise by and still count as the same."""

Worse: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Whether a fit, described before and after, is worse after."""


@dataclass(frozen=True)
class Case:
    """One fit, or one path of fits, to be measured; without a constraint if that is empty."""

    benchmark: str
    data: str
    constraint: str
    scale: str = "interval"

    def __str__(self) -> str:
        """Say it in a few words."""
        return " ".join((self.benchmark, self.data, self.constraint or "unconstrained", self.scale))


def cases(benchmarks: list[str], data_sets: list[str]) -> list[Case]:
    """Return what is measured, with less of it on the large data set."""
    chosen = []
    for data in data_sets:
        large = data == "acs_income"
        if "engine" in benchmarks:
            chosen += [Case("engine", data, kind) for kind in (("pSP", "") if large else ("pSP", "pDP", ""))]
        if "exact" in benchmarks:
            scales = ("interval",) if large else ("interval", "absolute")
            chosen += [Case("exact", data, kind, scale) for kind in CONSTRAINTS for scale in scales]
        if "path" in benchmarks and data in ("law_school", "a9a"):
            chosen.append(Case("path", data, "pSP"))
    return chosen


def fit(case: Case, rows: Part, interval: tuple[float, float]) -> list[tuple[float, Any]]:
    """Return the ``max_gap`` of every fit of a case, and how it ended."""
    if case.benchmark == "path":
        clf = PartialFairClassifier(interval=interval)
        options: dict[str, Any] = {"max_gaps": MAX_GAPS, "random_state": 0}
        path = fairness_path(clf, rows.X, rows.y, sensitive_features=rows.groups, **options)
        return [(point.max_gap, point.model.result_) for point in path.points]
    constrained: dict[str, Any] = {"interval": interval, "max_gap": MAX_GAP, "gap_scale": case.scale}
    clf = PartialFairClassifier(
        CONSTRAINTS[case.constraint] if case.constraint else None,
        enforce="exact" if case.benchmark == "exact" else "surrogate",
        alpha=ALPHA,
        group_terms="interactions",
        **(constrained if case.constraint else {}),
    )
    clf.fit(rows.X, rows.y, sensitive_features=rows.groups)
    return [(MAX_GAP if case.constraint else float("inf"), clf.result_)]


def measured(case: Case, folder: Path | None, n: int | None) -> dict[str, Any]:
    """Load, warm up, fit, and describe; peak memory is the process's."""
    warnings.simplefilter("ignore")
    data, train, _ = load(case.data, folder, n)
    fit(case, train.few(), data.interval)  # compiles
    seconds: list[float] = []
    processor: list[float] = []
    while sum(seconds) < LONG_ENOUGH and len(seconds) < MOST_FITS:
        start, start_of_processor = time.perf_counter(), time.process_time()
        results = fit(case, train, data.interval)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - start_of_processor)
    return {
        "package": str(Path(partialfair.__file__).resolve()),
        "seconds": median(seconds),
        "CPU seconds": median(processor),
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "fits": [
            {
                "max_gap": max_gap,
                "status": str(result.status),
                "passes": result.history[-1].passes,
                "objective": result.objective,
            }
            for max_gap, result in results
        ],
    }


def in_a_process(case: Case, checkout: Path, arguments: Any) -> dict[str, Any]:
    """Return what a fresh process measured with the package of a checkout."""
    options = ["--measure", json.dumps(asdict(case))]
    if arguments.rows:
        options += ["--rows", str(arguments.rows)]
    if arguments.data:
        options += ["--data", str(arguments.data)]
    return answer_of(__file__, options, checkout, str(case))


@dataclass(frozen=True)
class Comparison:
    """All runs of a case, before and after."""

    case: Case
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]

    def _medians(self, key: str) -> tuple[float, float]:
        before, after = (median(run[key] for run in runs) for runs in (self.before, self.after))
        return before, after

    @property
    def seconds(self) -> tuple[float, float]:
        """Medians before and after."""
        return self._medians("seconds")

    @property
    def peaks(self) -> tuple[float, float]:
        """Medians of the GiB, before and after."""
        return self._medians("peak GiB")

    @property
    def ratio(self) -> float:
        """Of the seconds."""
        before, after = self.seconds
        return after / before

    @property
    def processor_ratio(self) -> float:
        """Of the seconds that all cores worked: what others do on the machine disturbs it less."""
        before, after = self._medians("CPU seconds")
        return after / before

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each fit; what is measured of all fits together is in the first."""
        described = []
        before, after = self.before[0]["fits"], self.after[0]["fits"]
        for k, (old, new) in enumerate(zip(before, after, strict=True)):
            seconds, peaks = self.seconds, self.peaks
            described.append(
                {
                    "benchmark": self.case.benchmark,
                    "data": self.case.data,
                    "constraint": self.case.constraint or "none",
                    "scale": self.case.scale,
                    "max_gap": f"{old['max_gap']:g}",
                    "seconds before": f"{seconds[0]:.3f}" if k == 0 else "",
                    "seconds after": f"{seconds[1]:.3f}" if k == 0 else "",
                    "ratio": f"{self.ratio:.3f}" if k == 0 else "",
                    "CPU ratio": f"{self.processor_ratio:.3f}" if k == 0 else "",
                    "passes before": old["passes"],
                    "passes after": new["passes"],
                    "status before": old["status"],
                    "status after": new["status"],
                    "objective before": f"{old['objective']:.7f}",
                    "objective after": f"{new['objective']:.7f}",
                    "difference": f"{new['objective'] - old['objective']:+.1e}",
                    "peak GiB before": f"{peaks[0]:.3f}" if k == 0 else "",
                    "peak GiB after": f"{peaks[1]:.3f}" if k == 0 else "",
                }
            )
        return described

    def fits_that_are(self, worse: Worse) -> set[str]:
        """Return the names of the fits that are worse after than before, in any pair of runs."""
        return {
            f"{self.case} {old['max_gap']:g}"
            for old_run, new_run in zip(self.before, self.after, strict=True)
            for old, new in zip(old_run["fits"], new_run["fits"], strict=True)
            if worse(old, new)
        }


def summary(compared: list[Comparison]) -> list[str]:
    """Return the verdicts: seconds, statuses, objectives, passes, memory."""

    def listed(worse: Worse) -> str:
        names = [name for comparison in compared for name in sorted(comparison.fits_that_are(worse))]
        return ", ".join(names) or "none"

    lines = [
        f"{name}: worst ratio {max(ratios):.3f} ({compared[int(np.argmax(ratios))].case}), "
        f"geometric mean {geometric_mean(ratios):.3f}"
        for name, ratios in (
            ("seconds", [comparison.ratio for comparison in compared]),
            ("CPU seconds", [comparison.processor_ratio for comparison in compared]),
        )
    ]
    lines += [
        f"statuses that differ: {listed(lambda old, new: old['status'] != new['status'])}",
        f"objectives that rose by more than {SAME_OBJECTIVE:g}: "
        f"{listed(lambda old, new: new['objective'] > old['objective'] + SAME_OBJECTIVE)}",
        f"passes that rose: {listed(lambda old, new: new['passes'] > old['passes'])}",
    ]
    large = [comparison for comparison in compared if comparison.case.data == "acs_income"]
    if large:
        hungriest = max(large, key=lambda comparison: comparison.peaks[1] / comparison.peaks[0])
        before, after = hungriest.peaks
        lines.append(f"memory on acs_income: worst {before:.3f} to {after:.3f} GiB ({hungriest.case})")
    return lines


def main() -> None:
    """Measure every case with both packages, by turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_earlier(parser, "--measure", "a case, as JSON: measure it with the package at hand")
    benchmarks = ["engine", "exact", "path"]
    parser.add_argument("--only", nargs="*", default=benchmarks, choices=benchmarks)
    parser.add_argument("--data-sets", nargs="*", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=None, help="training rows, for a quick look")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--name", default="before_after", help="of the record")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(Case(**json.loads(arguments.measure)), arguments.data, arguments.rows)))
        return
    compared = []
    with earlier_checkout(arguments) as before:
        commits = f"Before ({commit_of(before)}) and after ({commit_of(ROOT)})"
        for case in cases(arguments.only, arguments.data_sets):
            comparison = Comparison(case, [], [])
            for _ in range(arguments.runs):
                comparison.before.append(in_a_process(case, before, arguments))
                comparison.after.append(in_a_process(case, ROOT, arguments))
            compared.append(comparison)
            print(f"{case}: {comparison.ratio:.3f}, CPU {comparison.processor_ratio:.3f}", flush=True)
            verdicts = summary(compared)
            rows = [row for comparison in compared for row in comparison.rows()]
            # After every case: hours of the machine are not lost with the last one.
            title = f"{commits}, medians of {arguments.runs} runs; " + "; ".join(verdicts)
            write(arguments.name, title, rows, arguments.out)
    print("\n".join(verdicts))


if __name__ == "__main__":
    main()
