"""How often confidence bounds hold, and how wide they are, in samples of populations with known gaps.

Run ``python benchmarks/bound_coverage.py [--draws 1000] [--before-commit COMMIT]``. It uses two processes and
resumes after an interruption (``--fresh`` starts again). Settings are a fractional design: every pair of
levels of two factors occurs (``_populations.py``). Columns for each setting:

- covered: how often low ≤ true gap ≤ high, nominal 0.95; at least, at most: how often each one-sided bound
  holds, nominal 0.95
- excess: the mean excess of the upper bound over the true gap; with an earlier commit also relative to the
  excess of its two-sided upper end at confidence 0.90, which has the same one-sided level, on the first 200
  samples

The limits: no setting is significantly below 0.94 (binomial tests, Holm at 5%), the mean is at least 0.945,
and the mean excess is at most 1.1 times the earlier one.

In eight further settings a threshold selects few rows or none (``FEW_SELECTED``), with 5,000 samples each. No
bound may miss significantly more often than its level (5%, or 2.5% for an end of the interval; Holm at 5%),
or more than 6.5% of the time. ``--only few`` measures only these.
"""

from __future__ import annotations

import argparse
import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import partialfair
from _earlier import ROOT, answer_of, earlier_checkout
from _holm import n_below
from _populations import FEW_SELECTED, Case, FewSelected, design, line_of
from _record import RESULTS, write

NOMINAL, BAR = 0.95, 0.94
MEAN_BAR, EXCESS_BAR, DRAWS_OF_RATIO = 0.945, 1.1, 200
FEW_DRAWS, MOST_MISSES = 5000, 0.065
ENDS = {"at most": 0.05, "high": 0.025, "at least": 0.05, "low": 0.025}
N_RESAMPLES = 300
KINDS = ("covered", "at least", "at most")
SEEDS, SEEDS_FEW = "(number of the setting, draw)", "(number of the setting, 0)"

Row = dict[str, Any]


def measured(case: Case, number: int, n_draws: int, *, earlier: bool) -> Row:
    """Return how often bounds held in a number of samples, and how wide they were."""
    warnings.simplefilter("ignore")
    truth, held, excess = case.true_gap(), np.zeros(3), []
    for draw in range(n_draws):
        rng = np.random.default_rng([number, draw])
        row = line_of(case, rng, 0.90 if earlier else NOMINAL, N_RESAMPLES)
        if earlier:
            excess.append(row.ci_high - truth)
            continue
        slack = 1e-9
        held += [
            row.ci_low - slack <= truth <= row.ci_high + slack,
            row.lower_bound <= truth + slack,
            row.upper_bound >= truth - slack,
        ]
        excess.append(row.upper_bound - truth)
    shares = dict(zip(KINDS, (held / n_draws).tolist(), strict=True))
    first = float(np.mean(excess[:DRAWS_OF_RATIO]))
    return {
        "true gap": truth,
        **shares,
        "excess": float(np.mean(excess)),
        "first excess": first,
        "draws": n_draws,
    }


def measured_few(case: FewSelected, number: int, n_draws: int) -> Row:
    """Return how often each bound missed; each pair of counts is evaluated once."""
    warnings.simplefilter("ignore")
    counts, times = case.counts(n_draws, np.random.default_rng([number, 0]))
    lines, truth, slack = [case.line_of(count) for count in counts], case.true_gap, 1e-9
    missed = {
        "at most": [row.upper_bound < truth - slack for row in lines],
        "high": [row.ci_high < truth - slack for row in lines],
        "at least": [row.lower_bound > truth + slack for row in lines],
        "low": [row.ci_low > truth + slack for row in lines],
    }
    excess = float(np.average([row.upper_bound - truth for row in lines], weights=times))
    return {
        **{end: float(np.average(missed[end], weights=times)) for end in ENDS},
        "excess": excess,
        "draws": n_draws,
    }


def write_few(n_draws: int, out: Path) -> None:
    """Measure the settings with few selected rows, and write their table."""
    rows = [measured_few(case, number, n_draws) for number, case in enumerate(FEW_SELECTED)]
    table = [
        {
            "metric": case.metric,
            "n": " and ".join(f"{n:,}" for n in case.sizes),
            "rates": " and ".join(f"{rate:g}" for rate in case.rates),
            "true gap": f"{case.true_gap:.4f}",
            **{f"{end} missed": f"{row[end]:.4f}" for end in ENDS},
            "excess": f"{row['excess']:.4f}",
            "draws": row["draws"],
        }
        for case, row in zip(FEW_SELECTED, rows, strict=True)
    ]
    title = "Bounds at one threshold that selects few rows: how often they miss"
    write("coverage_few", title, table, out, seeds=SEEDS_FEW)
    summary = [
        {
            "bound": end,
            "nominal": ENDS[end],
            "most": f"{max(row[end] for row in rows):.4f}",
            "at most": MOST_MISSES,
            "significantly above nominal": n_below(
                [1 - row[end] for row in rows], [row["draws"] for row in rows], [1 - ENDS[end]] * len(rows)
            ),
        }
        for end in ENDS
    ]
    title = "Do bounds at one threshold hold where few are selected"
    write("coverage_few_summary", title, summary, out, seeds=SEEDS_FEW)


def judged(rows: list[Row]) -> list[Row]:
    """Return a summary of all settings."""
    lines = []
    for kind in KINDS:
        shares = [row[kind] for row in rows]
        lines.append(
            {
                "what": kind,
                "mean": f"{np.mean(shares):.3f}",
                "at least": MEAN_BAR,
                "lowest": f"{min(shares):.3f}",
                "significantly below the bar": n_below(
                    shares, [row["draws"] for row in rows], [BAR] * len(rows)
                ),
            }
        )
    ratios = [row["excess ratio"] for row in rows if row.get("excess ratio") is not None]
    if ratios:
        lines.append(
            {
                "what": "excess of the upper bound, in units of the earlier one's",
                "mean": f"{np.mean(ratios):.2f}",
                "at least": f"(at most {EXCESS_BAR})",
                "lowest": f"{min(ratios):.2f} to {max(ratios):.2f}",
                "significantly below the bar": "",
            }
        )
    return lines


def main() -> None:
    """Measure all settings in two processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--settings", type=int, nargs="*", help="numbers of settings; by default all")
    parser.add_argument("--fresh", action="store_true", help="discard the results of an earlier run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument("--before", type=Path, help="an earlier checkout")
    earlier.add_argument("--before-commit", help="an earlier commit, which is checked out temporarily")
    earlier.add_argument("--one", type=int, help="one setting, as JSON")
    parser.add_argument("--earlier", action="store_true", help="with --one: only the two-sided end at 0.90")
    parser.add_argument("--only", choices=["few"], help="only the settings with few selected rows")
    parser.add_argument("--few-draws", type=int, default=FEW_DRAWS)
    arguments = parser.parse_args()
    if arguments.only == "few":
        write_few(arguments.few_draws, arguments.out)
        return
    cases = design()
    if arguments.one is not None:
        row = measured(cases[arguments.one], arguments.one, arguments.draws, earlier=arguments.earlier)
        print(json.dumps({"package": partialfair.__file__, **row}))
        return
    numbers = list(range(len(cases))) if arguments.settings is None else arguments.settings
    begun = arguments.out / "coverage.jsonl"
    if arguments.fresh:
        begun.unlink(missing_ok=True)
    known = _known(begun, arguments.draws)
    if arguments.before is None and arguments.before_commit is None:
        _measure_all(cases, numbers, known, None, arguments.draws, begun)
    else:
        with earlier_checkout(arguments) as checkout:
            _measure_all(cases, numbers, known, checkout, arguments.draws, begun)
    write_few(arguments.few_draws, arguments.out)
    rows = [known[k] for k in numbers]
    summary = judged(rows)
    title = "Do confidence bounds hold, and how near are they"
    write("coverage_summary", title, summary, arguments.out, seeds=SEEDS)
    write(
        "coverage",
        "Coverage of confidence bounds, setting by setting",
        [{**cases[k].described(), **_rounded(known[k])} for k in numbers],
        arguments.out,
        seeds=SEEDS,
    )


def _known(begun: Path, n_draws: int) -> dict[int, Row]:
    """Return the results of an earlier run with the same number of draws."""
    if not begun.exists():
        return {}
    lines = [json.loads(line) for line in begun.read_text().splitlines()]
    return {line["number"]: line["row"] for line in lines if line["row"]["draws"] == n_draws}


def _measure_all(
    cases: list[Case],
    numbers: list[int],
    known: dict[int, Row],
    checkout: Path | None,
    n_draws: int,
    begun: Path,
) -> None:
    """Measure missing settings, each in its own process, and record each result at once."""

    def of_setting(number: int) -> tuple[int, Row]:
        options = ["--one", str(number), "--draws", str(n_draws)]
        row = answer_of(__file__, options, ROOT, f"setting {number}")
        row["excess ratio"] = None
        if checkout is not None:
            fewer = ["--one", str(number), "--draws", str(min(DRAWS_OF_RATIO, n_draws)), "--earlier"]
            before = answer_of(__file__, fewer, checkout, f"setting {number}, before")
            row["excess ratio"] = row["first excess"] / before["excess"]
        return number, row

    with ThreadPoolExecutor(2) as pool:
        for number, row in pool.map(of_setting, [k for k in numbers if k not in known]):
            known[number] = row
            with begun.open("a") as lines:
                lines.write(json.dumps({"number": number, "row": row}) + "\n")
            print(number, cases[number], _rounded(row), flush=True)


def _rounded(row: Row) -> Row:
    ratio = row["excess ratio"]
    return {
        "true gap": f"{row['true gap']:.3f}",
        **{kind: f"{row[kind]:.3f}" for kind in KINDS},
        "excess": f"{row['excess']:.3f}",
        "excess ratio": "" if ratio is None else f"{ratio:.2f}",
        "draws": row["draws"],
    }


if __name__ == "__main__":
    main()
