"""How often the bounds hold that ``compare_gaps`` and ``choose_interval`` give, in samples with known truths.

Run ``python benchmarks/paired_and_chosen.py [--draws 2000] [--paired-draws 600] [--only PART]``. The parts:

- paired: two models of the same people, whose scores are correlated; how often the interval of
  ``gap(B) − gap(A)`` holds the true difference (nominal .95; the bar: not significantly below .94, binomial
  tests, Holm at 5 %)
- chosen: an interval is chosen for two groups of one distribution, or of two; how often each end of its gap's
  interval misses the gap that it has in truth (nominal .025; the bar: .035)
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special, stats

from _holm import n_below
from _record import RESULTS, write
from partialfair.metrics import choose_interval, compare_gaps

BAR, CHOSEN_BAR = 0.94, 0.035
N_RESAMPLES, N_POPULATION = 300, 200_000
CORRELATION = 0.8
INTERVAL = (0.1, 0.5)

Row = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """Two models: how far each moves the second group's scores, the group's size, and the threshold."""

    shifts: tuple[float, float]
    n: int
    threshold: float

    def sample(self, rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        """Return labels, both models' scores, and groups; the second group has n people, the first twice."""
        groups = np.repeat([0, 1], [2 * n, n])
        common = rng.normal(size=groups.size)
        score_a, score_b = (
            np.sqrt(CORRELATION) * common
            + np.sqrt(1 - CORRELATION) * rng.normal(size=groups.size)
            + shift * groups
            for shift in self.shifts
        )
        labels = rng.random(groups.size) < special.expit(1.5 * common)
        return labels, score_a, score_b, groups

    def compared(self, rng: np.random.Generator, n: int, n_resamples: int) -> Any:
        """Return the comparison on a fresh sample."""
        labels, score_a, score_b, groups = self.sample(rng, n)
        return compare_gaps(
            labels,
            score_a,
            score_b,
            sensitive_features=groups,
            interval=INTERVAL,
            threshold=self.threshold,
            n_resamples=n_resamples,
            random_state=rng,
        )


PAIRS = {
    "no gaps": Pair((0.0, 0.0), 600, 0.6),
    "B fairer": Pair((0.5, 0.1), 600, 0.6),
    "equal gaps": Pair((0.3, 0.3), 600, 0.6),
    "equal gaps, opposite": Pair((0.3, -0.3), 600, 0.6),
    "few people": Pair((0.5, 0.1), 120, 0.6),
    "threshold outside": Pair((0.5, 0.1), 600, 1.6),
    "many people": Pair((0.3, 0.2), 3000, 0.6),
}


def paired(name: str, pair: Pair, n_draws: int) -> list[Row]:
    """Measure one pair of models, metric by metric."""
    population = pair.compared(np.random.default_rng(0), N_POPULATION, 100).rows
    alike = pair.shifts[0] == pair.shifts[1]
    truths = {row.metric: 0.0 if alike else row.difference for row in population}
    found: dict[str, list[tuple[float, float]]] = {metric: [] for metric in truths}
    for draw in range(n_draws):
        # Samples with too few positives or negatives inside have no line of some metrics.
        for row in pair.compared(np.random.default_rng([1, draw]), pair.n, N_RESAMPLES).rows:
            found[row.metric].append((row.low, row.high))
    return [
        {
            "models": name,
            "metric": metric,
            "true difference": truths[metric],
            "held": float(np.mean([low <= truths[metric] <= high for low, high in ends])),
            "length": float(np.mean([high - low for low, high in ends])),
            "draws": len(ends),
        }
        for metric, ends in found.items()
        if ends
    ]


def chosen(shift: float, n: int, n_draws: int) -> Row:
    """Measure choices of an interval for two groups of n people, normal scores, one shifted."""
    missed_low, missed_high, lengths = 0, 0, 0.0
    for draw in range(n_draws):
        rng = np.random.default_rng([2, draw])
        groups = np.repeat([0, 1], n)
        found = choose_interval(
            rng.normal(size=2 * n) + shift * groups,
            sensitive_features=groups,
            positive_rate=0.3,
            random_state=draw,
        )
        truth = _true_gap(shift, found.interval)
        missed_low += found.low > truth
        missed_high += found.high < truth
        lengths += found.high - found.low
    return {
        "people in a group": n,
        "shift": shift,
        "lower end too high": missed_low / n_draws,
        "upper end too low": missed_high / n_draws,
        "at most": CHOSEN_BAR,
        "length": lengths / n_draws,
        "draws": n_draws,
    }


def _true_gap(shift: float, interval: tuple[float, float]) -> float:
    """Return the gap of two normal distributions, one shifted, on the scale of the interval."""
    low, high = interval
    thresholds = np.linspace(-4.0, 4.0 + shift, 20_001)
    one, other = (np.clip(stats.norm.sf(thresholds - by), low, high) for by in (0.0, shift))
    return float(np.abs(one - other).max() / (high - low))


def main() -> None:
    """Measure both parts and write a table of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="of choices")
    parser.add_argument("--paired-draws", type=int, default=600)
    parser.add_argument("--only", default="", choices=["", "paired", "chosen"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # few people are the point
    if arguments.only != "paired":
        _measure_choices(arguments)
    if arguments.only != "chosen":
        _measure_pairs(arguments)


def _measure_choices(arguments: argparse.Namespace) -> None:
    choices = []
    for shift, n in ((0.0, 600), (0.0, 120), (0.2, 600)):
        choices.append(chosen(shift, n, arguments.draws))
        print(choices[-1], flush=True)
    write("chosen_interval", "Bounds after an interval was chosen", _rounded(choices), arguments.out)


def _measure_pairs(arguments: argparse.Namespace) -> None:
    rows: list[Row] = []
    for name, pair in PAIRS.items():
        rows.extend(paired(name, pair, arguments.paired_draws))
        print(*rows[-len(PAIRS) :], sep="\n", flush=True)
    shares = [row["held"] for row in rows]
    summary = {
        "intervals": len(rows),
        "mean": f"{np.mean(shares):.3f}",
        "lowest": f"{min(shares):.3f}",
        f"significantly below {BAR}": n_below(shares, [row["draws"] for row in rows], [BAR] * len(rows)),
    }
    title = "Intervals of the difference of two models' gaps"
    write("paired_gaps_summary", title, [summary], arguments.out)
    write("paired_gaps", f"{title}, one by one", _rounded(rows), arguments.out)


def _rounded(rows: list[Row]) -> list[Row]:
    return [
        {name: f"{value:.3f}" if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


if __name__ == "__main__":
    main()
