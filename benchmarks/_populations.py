"""Populations with known gaps, samples of them, and the settings in which confidence bounds are tested."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import asdict, dataclass
from inspect import signature
from typing import Any

import numpy as np
from scipy import special, stats

from partialfair.metrics import fairness_report
from partialfair.metrics.catalogue import METRICS
from partialfair.metrics.differences import Setting as MetricSetting  # where earlier commits have it, too
from partialfair.metrics.inputs import scored_groups

FACTORS: dict[str, tuple[Any, ...]] = {
    "metric": (
        "statistical_parity",
        "demographic_parity",
        "group_auc",
        "equal_opportunity",
        "equalized_odds",
    ),
    "n": (60, 200, 600, 3000),
    "truth": ("null", "one apart", "spread"),
    "interval": ((0.2, 0.4), (0.0, 0.25), (0.1, 0.6)),
    "n_groups": (2, 10),
    "gap_scale": ("interval", "absolute"),
    "ties": (False, True),
    "rows": ("plain", "weighted", "clustered"),
}
"""Levels of the factors. Sizes are those of the smallest group, in rows or in clusters of four rows."""
N_SETTINGS = 48
_N_POPULATION = 100_000
_TIE_STEP = 0.25
_APART, _SPREAD = 0.35, 0.6
_ROWS_PER_CLUSTER, _SHARED = 4, 0.7
"""Rows of a cluster, and the fraction of the variance of scores that they share."""

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One setting: a level of every factor."""

    metric: str
    n: int
    truth: str
    interval: tuple[float, float]
    n_groups: int
    gap_scale: str
    ties: bool
    rows: str

    @property
    def shifts(self) -> np.ndarray:
        """Shift of the scores of each group."""
        if self.truth == "spread":
            return np.linspace(0.0, _SPREAD, self.n_groups)
        apart = _APART if self.truth == "one apart" else 0.0
        return np.append(apart, np.zeros(self.n_groups - 1))

    @property
    def threshold(self) -> float | None:
        """The middle of the interval, in a group without a shift."""
        if not METRICS[self.metric].needs_threshold:
            return None
        return float(stats.norm.isf(sum(self.interval) / 2)) + 1e-3  # not on a tie

    def described(self) -> Arrays:
        """Return the levels by name."""
        return asdict(self)

    def true_gap(self) -> float:
        """Return the gap of the population, from all quantiles and the probabilities of labels."""
        if self.truth == "null":
            return 0.0
        ranks = (np.arange(_N_POPULATION) + 0.5) / _N_POPULATION
        scores = np.concatenate([self._scores(stats.norm.ppf(ranks), shift) for shift in self.shifts])
        groups = np.repeat(np.arange(self.n_groups), _N_POPULATION)
        chance = _chance(scores)
        scored = scored_groups(
            np.concatenate([scores, scores]),
            np.concatenate([groups, groups]),
            self.interval,
            np.concatenate([chance, 1 - chance]),
            np.repeat([True, False], scores.size),
        )
        setting = MetricSetting(self.gap_scale, self.threshold, "group")  # type: ignore[arg-type]
        return float(METRICS[self.metric].gap(scored, setting).value)

    def sample(self, rng: np.random.Generator) -> tuple[Any, np.ndarray, np.ndarray, Arrays]:
        """Return labels, scores, groups, and the weights or clusters of a sample."""
        sizes = np.full(self.n_groups, 2 * self.n if self.n_groups == 2 else self.n)
        sizes[0] = self.n
        groups, more = np.repeat(np.arange(self.n_groups), sizes), {}
        normal = rng.normal(size=groups.size)
        if self.rows == "clustered":
            clusters = np.repeat(np.arange(groups.size), _ROWS_PER_CLUSTER)
            groups, own = groups[clusters], rng.normal(size=clusters.size)
            normal = np.sqrt(_SHARED) * normal[clusters] + np.sqrt(1 - _SHARED) * own
            more = {"clusters": clusters}
        elif self.rows == "weighted":
            more = {"sample_weight": rng.exponential(size=groups.size)}
        scores = self._scores(normal, self.shifts[groups])
        labels = rng.random(scores.size) < _chance(scores)
        return (labels if METRICS[self.metric].needs_labels else None), scores, groups, more

    def _scores(self, normal: np.ndarray, shift: Any) -> np.ndarray:
        scores = normal + shift
        return np.round(scores / _TIE_STEP) * _TIE_STEP if self.ties else scores


def _chance(scores: np.ndarray) -> np.ndarray:
    """Return the probability of a positive label."""
    return np.asarray(special.expit(1.2 * scores - 0.3))


def line_of(case: Case, rng: np.random.Generator, confidence: float, n_resamples: int) -> Any:
    """Return the metric's row of the report on a new sample."""
    labels, scores, groups, more = case.sample(rng)
    return _line(
        case.metric,
        labels,
        scores,
        sensitive_features=groups,
        interval=case.interval,
        threshold=case.threshold,
        gap_scale=case.gap_scale,
        confidence=confidence,
        n_resamples=n_resamples,
        random_state=int(rng.integers(2**31)),
        **more,
    )


def _line(metric: str, labels: np.ndarray | None, scores: np.ndarray, **settings: Any) -> Any:
    if "metrics" in signature(fairness_report).parameters:  # earlier commits compute all metrics
        settings["metrics"] = [metric]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the setting tests small groups
        return fairness_report(labels, scores, **settings, small_groups="keep")[metric]


@dataclass(frozen=True)
class FewSelected:
    """Two groups of which a threshold selects few rows of one and fewer, or none, of the other.

    ``sizes`` are numbers of rows that the metric compares, and ``rates`` are probabilities of selection.
    """

    metric: str
    sizes: tuple[int, int]
    rates: tuple[float, float]

    @property
    def true_gap(self) -> float:
        """Return the difference of the rates, which is the gap on the interval (0, 1)."""
        return abs(self.rates[0] - self.rates[1])

    def counts(self, n_draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct counts of selected rows in many samples, and their frequencies."""
        drawn = rng.binomial(self.sizes, self.rates, size=(n_draws, 2))
        return np.unique(drawn, axis=0, return_counts=True)

    def line_of(self, n_selected: np.ndarray) -> Any:
        """Return the metric's row of a report on rows with these counts, which determine it."""
        scores = np.concatenate([np.arange(n) < x for n, x in zip(self.sizes, n_selected, strict=True)])
        labels = np.ones(scores.size, dtype=bool) if METRICS[self.metric].needs_labels else None
        groups = np.repeat([0, 1], self.sizes)
        return _line(self.metric, labels, scores.astype(float), sensitive_features=groups, threshold=0.5)


FEW_SELECTED = (
    FewSelected("demographic_parity", (60, 60), (0.101, 0.0)),
    FewSelected("demographic_parity", (60, 2000), (0.101, 0.0)),
    FewSelected("demographic_parity", (200, 200), (0.0305, 0.0)),
    FewSelected("demographic_parity", (200, 2000), (0.0305, 0.0)),
    FewSelected("demographic_parity", (60, 60), (0.13, 0.03)),
    FewSelected("demographic_parity", (60, 2000), (0.13, 0.03)),
    FewSelected("demographic_parity", (1000, 2000), (0.0061, 0.0)),
    FewSelected("equal_opportunity", (60, 60), (0.90, 1.0)),
)
"""Settings in which Wald bounds with the rule of three missed 9 to 17% of the time (nominal 5%)."""


def design() -> list[Case]:
    """Return settings in which every pair of levels of two factors occurs, chosen greedily.

    Group AUCs do not depend on the scale and count as both.
    """
    rng = np.random.default_rng(0)
    names = list(FACTORS)
    missing = {
        (a, x, b, y) for a, b in itertools.combinations(names, 2) for x in FACTORS[a] for y in FACTORS[b]
    }
    chosen: list[Case] = []
    while len(chosen) < N_SETTINGS:
        tried = [
            {name: levels[rng.integers(len(levels))] for name, levels in FACTORS.items()} for _ in range(300)
        ]
        best = max(tried, key=lambda levels: (Case(**levels) not in chosen, len(_pairs(levels) & missing)))
        missing -= _pairs(best)
        chosen.append(Case(**best))
    if missing:
        raise AssertionError(f"{len(missing)} pairs of levels do not occur")
    return sorted(chosen, key=lambda case: (case.metric, case.n))


def _pairs(levels: Arrays) -> set[tuple[Any, ...]]:
    return {(a, levels[a], b, levels[b]) for a, b in itertools.combinations(FACTORS, 2)}
