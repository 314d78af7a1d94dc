"""How often the bounds of ``compare_gaps`` and ``choose_interval`` hold, in samples with known true gaps.

Run ``python benchmarks/paired_and_chosen.py [--draws 2000] [--paired-draws 600] [--only PART]``. The parts:

- paired: two models on the same rows with correlated scores; how often the interval of ``gap(B) − gap(A)``
  contains the true difference (nominal 0.95; the limit: not significantly below 0.94, binomial tests, Holm at
  5%), for normal scores and every metric
- equal: the same for statistical parity and models with equal gaps, of which one has many tied maxima and the
  other a single one; this is the hardest case, especially if the other has few levels of scores
- few: the same for metrics with one threshold that selects few rows or none
- power: how often the one-sided 95% bound shows that B's gap is smaller, compared with a paired z-test that
  knows the two maximizing thresholds
- chosen: an interval is chosen for two groups with one distribution, or with two; how often each end of the
  confidence interval misses the true gap (nominal 0.025; the limit: 0.035)
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
from partialfair.metrics import compare_gaps, fairness_report
from partialfair.metrics.choice import choose_interval
from partialfair.metrics.paired import GapComparison, GapDifference
from partialfair.utils.typing import Floats, GapScale, Ints

BAR, CHOSEN_BAR = 0.94, 0.035
N_RESAMPLES, N_POPULATION = 300, 200_000
CORRELATION = 0.8
INTERVAL = (0.1, 0.5)

Row = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """Two models: shifts of the second group's scores, the size of the group, and the threshold."""

    shifts: tuple[float, float]
    n: int
    threshold: float

    def sample(self, rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        """Return labels, scores of both models, and groups; the second group has n rows, the first 2n."""
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

    def compared(self, rng: np.random.Generator) -> GapComparison:
        """Return the comparison on a new sample."""
        labels, score_a, score_b, groups = self.sample(rng, self.n)
        return compare_gaps(
            labels,
            score_a,
            score_b,
            sensitive_features=groups,
            interval=INTERVAL,
            threshold=self.threshold,
            n_resamples=N_RESAMPLES,
            random_state=rng,
        )

    def true_differences(self) -> dict[str, float]:
        """Return the difference of the gaps of a very large sample, by every metric."""
        labels, *scores, groups = self.sample(np.random.default_rng(0), N_POPULATION)
        gap_a, gap_b = (
            fairness_report(
                labels,
                score,
                sensitive_features=groups,
                interval=INTERVAL,
                threshold=self.threshold,
                n_resamples=100,
            )
            for score in scores
        )
        same = self.shifts[0] == self.shifts[1]
        return {row.metric: 0.0 if same else gap_b[row.metric].gap - row.gap for row in gap_a.metrics}


@dataclass(frozen=True)
class Profiles:
    """Two models whose groups differ in rank from uniform scores by known profiles, a height times a shape.

    Attributes
    ----------
    a, b
        Shape and height of each group's profile under A and under B.
    n, correlation
        Rows per group, and the correlation of the underlying normal scores.
    step
        Scores are rounded down to multiples of this; 0 for no ties.
    weighted, repeats
        Whether rows have random weights, and how many equal rows form a cluster.
    levels_b
        Where the levels of B's scores begin, if it has few.
    """

    a: tuple[tuple[str, float], ...]
    b: tuple[tuple[str, float], ...]
    n: int = 400
    correlation: float = 0.95
    step: float = 0.0
    weighted: bool = False
    repeats: int = 1
    levels_b: tuple[float, ...] = ()

    def compared(self, rng: np.random.Generator, gap_scale: GapScale) -> GapDifference:
        """Return the comparison of statistical parity on a new sample."""
        groups = np.repeat(np.arange(len(self.a)), self.n)
        common, other = rng.normal(size=(2, groups.size))
        mixed = self.correlation * common + np.sqrt(1 - self.correlation**2) * other
        weights = np.exp(0.5 * rng.normal(size=groups.size)) if self.weighted else None
        scores = [_moved(stats.norm.cdf(x), groups, y) for x, y in ((common, self.a), (mixed, self.b))]
        if self.step:
            scores = [np.floor(each / self.step + 1e-9) * self.step for each in scores]
        if self.levels_b:
            scores[1] = np.digitize(scores[1], self.levels_b).astype(np.float64)
        rows = np.repeat(np.arange(groups.size), self.repeats)
        return compare_gaps(
            None,
            scores[0][rows],
            scores[1][rows],
            sensitive_features=groups[rows],
            interval=INTERVAL,
            gap_scale=gap_scale,
            sample_weight=None if weights is None else weights[rows],
            clusters=rows if self.repeats > 1 else None,
            n_resamples=N_RESAMPLES,
            random_state=rng,
        )["statistical_parity"]


@dataclass(frozen=True)
class FewSelected:
    """Two models that select few rows of the interval, given by the true proportions of both groups.

    Attributes
    ----------
    a, b
        Proportion of each group's interval that A and B select, for either label.
    n, correlation
        Rows per group, and the correlation of the normal scores.
    interval
        Ranks of the interval.
    """

    a: tuple[float, float]
    b: tuple[float, float]
    n: int = 100
    correlation: float = 0.8
    interval: tuple[float, float] = (0.0, 1.0)

    @property
    def true_difference(self) -> float:
        """Gap of B minus gap of A, by every metric with a threshold."""
        return abs(self.b[0] - self.b[1]) - abs(self.a[0] - self.a[1])

    def compared(self, rng: np.random.Generator) -> GapComparison:
        """Return the comparison on a new sample; half of the rows are positive."""
        groups = np.repeat([0, 1], self.n)
        common, other = rng.normal(size=(2, groups.size))
        mixed = self.correlation * common + np.sqrt(1 - self.correlation**2) * other
        low, high = self.interval
        # A row is selected if its score is above 0; the shift gives the required proportion.
        score_a, score_b = (
            noise - stats.norm.isf(low + (high - low) * np.array(selected))[groups]
            for noise, selected in ((common, self.a), (mixed, self.b))
        )
        return compare_gaps(
            rng.random(groups.size) < 0.5,
            np.nan_to_num(score_a, neginf=-99.0),
            np.nan_to_num(score_b, neginf=-99.0),
            sensitive_features=groups,
            interval=self.interval,
            threshold=0.0,
            n_resamples=N_RESAMPLES,
            random_state=rng,
        )


_GRID = np.linspace(0.0, 1.0, 2001)
SHAPES = {
    "flat": np.clip(np.minimum((_GRID - 0.30) / 0.15, (0.97 - _GRID) / 0.13), 0, 1),
    "peak": np.clip(1 - np.abs(_GRID - 0.70) / 0.15, 0, 1),
    "high peak": np.clip(1 - np.abs(_GRID - 0.80) / 0.12, 0, 1),
    "low peak": np.clip(1 - np.abs(_GRID - 0.60) / 0.12, 0, 1),
}
"""Differences in rank by uniform score; the interval contains the scores from 0.5 to 0.9."""


def _moved(uniform: Floats, groups: Ints, profiles: tuple[tuple[str, float], ...]) -> Floats:
    """Return scores whose proportions above a score exceed uniform ones by each group's profile."""
    scores = uniform.copy()
    for k, (shape, height) in enumerate(profiles):
        scores[groups == k] = np.interp(uniform[groups == k], _GRID - height * SHAPES[shape], _GRID)
    return scores


_NONE, _FLAT, _PEAK = ("flat", 0.0), ("flat", 0.1), ("peak", 0.1)
_LEVELS = (0.25, 0.7, 0.95)  # one of them at the peak

EQUAL_GAPS = {
    "flat, one peak": Profiles((_NONE, _FLAT), (_NONE, _PEAK)),
    "flat, one peak, 100 rows": Profiles((_NONE, _FLAT), (_NONE, _PEAK), n=100),
    "flat, one peak, 1,000 rows": Profiles((_NONE, _FLAT), (_NONE, _PEAK), n=1000),
    "flat, one peak, 3,000 rows": Profiles((_NONE, _FLAT), (_NONE, _PEAK), n=3000),
    "flat, one peak, correlation 0.5": Profiles((_NONE, _FLAT), (_NONE, _PEAK), correlation=0.5),
    "flat, one peak, five groups": Profiles(
        (_NONE, _FLAT, _NONE, _FLAT, _NONE), (_NONE, ("peak", 0.05), ("peak", -0.05), _NONE, _NONE), n=200
    ),
    "flat, one peak, ties": Profiles((_NONE, _FLAT), (_NONE, _PEAK), step=0.02),
    "flat, few levels": Profiles((_NONE, _FLAT), (_NONE, _PEAK), levels_b=_LEVELS),
    "flat, few levels, 100 rows": Profiles((_NONE, _FLAT), (_NONE, _PEAK), n=100, levels_b=_LEVELS),
    "flat, few levels, 3,000 rows": Profiles((_NONE, _FLAT), (_NONE, _PEAK), n=3000, levels_b=_LEVELS),
    "flat, few levels, correlation 0.5": Profiles(
        (_NONE, _FLAT), (_NONE, _PEAK), correlation=0.5, levels_b=_LEVELS
    ),
    "flat, few levels, correlation 0": Profiles(
        (_NONE, _FLAT), (_NONE, _PEAK), correlation=0.0, levels_b=_LEVELS
    ),
    "flat, few levels, correlation 0.5, 3,000 rows": Profiles(
        (_NONE, _FLAT), (_NONE, _PEAK), n=3000, correlation=0.5, levels_b=_LEVELS
    ),
    "flat, few levels, opposite": Profiles((_NONE, _FLAT), (_NONE, ("peak", -0.1)), levels_b=_LEVELS),
    "flat, one peak, weights": Profiles((_NONE, _FLAT), (_NONE, _PEAK), weighted=True),
    "flat, one peak, clusters of 2": Profiles((_NONE, _FLAT), (_NONE, _PEAK), repeats=2),
    "peaks at different thresholds": Profiles((_NONE, ("high peak", 0.1)), (_NONE, ("low peak", 0.1))),
    "flat, opposite": Profiles((_NONE, _FLAT), (_NONE, ("flat", -0.1))),
    "no gaps": Profiles((_NONE, _NONE), (_NONE, _NONE)),
}

FEW_SELECTED = {
    "equal gaps": FewSelected((0.05, 0.0), (0.05, 0.0)),
    "equal gaps, 60 rows": FewSelected((0.1, 0.0), (0.1, 0.0), n=60),
    "equal gaps, 200 rows": FewSelected((0.03, 0.0), (0.03, 0.0), n=200),
    "equal gaps, correlation 0": FewSelected((0.05, 0.0), (0.05, 0.0), correlation=0.0),
    "equal gaps, correlation 0.98": FewSelected((0.05, 0.0), (0.05, 0.0), correlation=0.98),
    "equal gaps, opposite": FewSelected((0.05, 0.0), (0.0, 0.05)),
    "equal gaps, no zeros": FewSelected((0.1, 0.03), (0.1, 0.03)),
    "equal gaps, interval 10-50%": FewSelected((0.1, 0.0), (0.1, 0.0), n=200, interval=INTERVAL),
    "B selects none": FewSelected((0.1, 0.0), (0.0, 0.0)),
    "B selects none, 60 rows": FewSelected((0.1, 0.03), (0.0, 0.0), n=60),
    "B selects none, 200 rows": FewSelected((0.05, 0.0), (0.0, 0.0), n=200),
    "smaller gap, no zeros": FewSelected((0.1, 0.03), (0.06, 0.03), n=200),
}

PAIRS = {
    "no gaps": Pair((0.0, 0.0), 600, 0.6),
    "B fairer": Pair((0.5, 0.1), 600, 0.6),
    "equal gaps": Pair((0.3, 0.3), 600, 0.6),
    "equal gaps, opposite": Pair((0.3, -0.3), 600, 0.6),
    "few people": Pair((0.5, 0.1), 120, 0.6),
    "threshold outside": Pair((0.5, 0.1), 600, 1.6),
    "threshold at an end": Pair((0.5, 0.1), 600, 0.0),
    "many people": Pair((0.3, 0.2), 3000, 0.6),
}


def paired(name: str, pair: Pair, n_draws: int) -> list[Row]:
    """Measure one pair of models, metric by metric."""
    truths = pair.true_differences()
    found: dict[str, list[tuple[float, float]]] = {metric: [] for metric in truths}
    for draw in range(n_draws):
        # Samples with too few positives or negatives in the interval lack some metrics.
        for row in pair.compared(np.random.default_rng([1, draw])).metrics:
            found[row.metric].append((row.ci_low, row.ci_high))
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


def equal_gaps(name: str, models: Profiles, gap_scale: GapScale, n_draws: int) -> Row:
    """Measure one pair of models with equal gaps, by statistical parity."""
    found = [models.compared(np.random.default_rng([3, draw]), gap_scale) for draw in range(n_draws)]
    return {
        "models": name,
        "scale": gap_scale,
        "held": float(np.mean([row.ci_low <= 0 <= row.ci_high for row in found])),
        "at_most below 0": float(np.mean([row.upper_bound < 0 for row in found])),
        "at_least above 0": float(np.mean([row.lower_bound > 0 for row in found])),
        "length": float(np.mean([row.ci_high - row.ci_low for row in found])),
        "draws": n_draws,
    }


def few_selected(name: str, models: FewSelected, n_draws: int) -> list[Row]:
    """Measure one pair of models that select few rows, metric by metric."""
    found: dict[str, list[GapDifference]] = {
        metric: [] for metric in ("demographic_parity", "equal_opportunity", "equalized_odds")
    }
    for draw in range(n_draws):
        comparison = models.compared(np.random.default_rng([5, draw]))
        for row in comparison.metrics:
            if row.metric in found:
                found[row.metric].append(row)
    truth = models.true_difference
    return [
        {
            "models": name,
            "metric": metric,
            "true difference": truth,
            "held": float(np.mean([row.ci_low <= truth <= row.ci_high for row in rows])),
            "at_most too low": float(np.mean([row.upper_bound < truth for row in rows])),
            "at_least too high": float(np.mean([row.lower_bound > truth for row in rows])),
            "length": float(np.mean([row.ci_high - row.ci_low for row in rows])),
            "draws": len(rows),
        }
        for metric, rows in found.items()
    ]


def power(n: int, gap_scale: GapScale, n_draws: int) -> Row:
    """Measure how often the smaller gap of B is shown: A = z + 0.3g, B = 0.95z + √(1 − 0.95²)ε + 0.1g."""
    shown, verdicts, known = 0, 0, 0
    groups = np.repeat([0, 1], n)
    for draw in range(n_draws):
        rng = np.random.default_rng([4, draw])
        common, other = rng.normal(size=(2, groups.size))
        score_a = common + 0.3 * groups
        score_b = 0.95 * common + np.sqrt(1 - 0.95**2) * other + 0.1 * groups
        row = compare_gaps(
            None,
            score_a,
            score_b,
            sensitive_features=groups,
            interval=INTERVAL,
            gap_scale=gap_scale,
            random_state=rng,
        )["statistical_parity"]
        shown += row.upper_bound < 0
        verdicts += row.verdict == "smaller gap"
        # Both gaps are largest where the second group reaches rank 0.5, at its medians.
        moved = (score_a > 0.3).astype(np.float64) - (score_b > 0.1)
        first, second = moved[groups == 0], moved[groups == 1]
        error = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / n)
        known += (second.mean() - first.mean()) / error > stats.norm.ppf(0.95)
    return {
        "rows in a group": n,
        "scale": gap_scale,
        "at_most below 0": shown / n_draws,
        "two-sided interval below 0": verdicts / n_draws,
        "known thresholds": known / n_draws,
        "draws": n_draws,
    }


def chosen(shift: float, n: int, n_draws: int) -> Row:
    """Measure choices of an interval for two groups of n rows with normal scores, one of them shifted."""
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
        missed_low += found.ci_low > truth
        missed_high += found.ci_high < truth
        lengths += found.ci_high - found.ci_low
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
    """Return the gap of two normal distributions, one of them shifted, on the interval scale."""
    low, high = interval
    thresholds = np.linspace(-4.0, 4.0 + shift, 20_001)
    one, other = (np.clip(stats.norm.sf(thresholds - by), low, high) for by in (0.0, shift))
    return float(np.abs(one - other).max() / (high - low))


def main() -> None:
    """Measure the parts and write a table of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="of choices")
    parser.add_argument("--paired-draws", type=int, default=600)
    parser.add_argument("--power-draws", type=int, default=1000)
    parser.add_argument("--only", default="", choices=["", "paired", "equal", "few", "power", "chosen"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # the benchmark tests small samples
    if arguments.only in ("", "chosen"):
        _measure_choices(arguments)
    if arguments.only in ("", "power"):
        sizes: tuple[tuple[int, GapScale], ...] = ((200, "interval"), (400, "interval"), (800, "interval"))
        rows = [power(n, scale, arguments.power_draws) for n, scale in (*sizes, (400, "absolute"))]
        title = "How often the one-sided 95% bound shows the smaller gap of model B"
        write("paired_gaps_power", title, _rounded(rows), arguments.out, seeds="(4, draw)")
    if arguments.only in ("", "paired"):
        _measure_pairs(arguments)
    if arguments.only in ("", "equal"):
        _measure_equal_gaps(arguments)
    if arguments.only in ("", "few"):
        _measure_few_selected(arguments)


def _measure_choices(arguments: argparse.Namespace) -> None:
    choices = []
    for shift, n in ((0.0, 600), (0.0, 120), (0.2, 600)):
        choices.append(chosen(shift, n, arguments.draws))
        print(choices[-1], flush=True)
    title = "Bounds after an interval was chosen"
    write("chosen_interval", title, _rounded(choices), arguments.out, seeds="(2, draw)")


def _measure_pairs(arguments: argparse.Namespace) -> None:
    rows: list[Row] = []
    for name, pair in PAIRS.items():
        measured = paired(name, pair, arguments.paired_draws)
        print(*measured, sep="\n", flush=True)
        rows.extend(measured)
    shares = [row["held"] for row in rows]
    summary = {
        "intervals": len(rows),
        "mean": f"{np.mean(shares):.3f}",
        "lowest": f"{min(shares):.3f}",
        f"significantly below {BAR}": n_below(shares, [row["draws"] for row in rows], [BAR] * len(rows)),
    }
    title = "Intervals of the difference of two models' gaps"
    write("paired_gaps_summary", title, [summary], arguments.out, seeds="(1, draw)")
    write("paired_gaps", f"{title}, one by one", _rounded(rows), arguments.out, seeds="(1, draw)")


def _measure_equal_gaps(arguments: argparse.Namespace) -> None:
    rows: list[Row] = []
    for name, models in EQUAL_GAPS.items():
        for scale in ("interval", "absolute") if models.n == 400 else ("interval",):
            rows.append(equal_gaps(name, models, scale, arguments.paired_draws))
            print(rows[-1], flush=True)
    n_draws = [row["draws"] for row in rows]
    n_too_low = n_below([row["held"] for row in rows], n_draws, [BAR] * len(rows))
    valid = [1 - row[bound] for bound in ("at_most below 0", "at_least above 0") for row in rows]
    n_missed = n_below(valid, n_draws * 2, [0.95] * len(valid))
    title = (
        f"Models with equal gaps by statistical parity: {n_too_low} significantly below {BAR}, "
        f"{n_missed} one-sided bounds that miss significantly more than 5%"
    )
    write("paired_gaps_equal", title, _rounded(rows), arguments.out, seeds="(3, draw)")


def _measure_few_selected(arguments: argparse.Namespace) -> None:
    rows: list[Row] = []
    for name, models in FEW_SELECTED.items():
        measured = few_selected(name, models, arguments.paired_draws)
        print(*measured, sep="\n", flush=True)
        rows.extend(measured)
    n_draws = [row["draws"] for row in rows]
    n_too_low = n_below([row["held"] for row in rows], n_draws, [BAR] * len(rows))
    valid = [1 - row[bound] for bound in ("at_most too low", "at_least too high") for row in rows]
    n_missed = n_below(valid, n_draws * 2, [0.95] * len(valid))
    title = (
        f"Models that select few rows: {n_too_low} significantly below {BAR}, "
        f"{n_missed} one-sided bounds that miss significantly more than 5%"
    )
    write("paired_gaps_few", title, _rounded(rows), arguments.out)


def _rounded(rows: list[Row]) -> list[Row]:
    return [
        {name: f"{value:.3f}" if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


if __name__ == "__main__":
    main()
