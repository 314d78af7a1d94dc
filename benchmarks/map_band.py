"""Coverage and width of the unfairness map's band, beside that of DKW.

Run ``python benchmarks/map_band.py [--draws 1000]``; results go to ``benchmarks/results/``. The bars:
coverage of all gaps at once of at least .94 for a nominal .95, but for the noise of the draws, and radii at
least 20 % narrower on average. Widths are those of the bands as they are, cut off at 0 and 1: with few
members both are cut off on narrow intervals, where neither says anything.

DKW's band holds the ranks of each group to its own ε on the absolute scale, too. (Before there were other
radii, the map took the larger ε of two groups for both.)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from _record import RESULTS, write
from partialfair.metrics._inputs import scored_groups
from partialfair.metrics._map_radii import MapRadii
from partialfair.metrics.map import UnfairnessMap, map_within

N_GRID, CONFIDENCE = 20, 0.95
SCALES = ("interval", "absolute")
POPULATION = 20_000
"""Members of the population: quantiles of the distribution, so that its gaps are true to 1 in 10,000."""


def alike(quantiles: np.ndarray, k: int) -> np.ndarray:
    """Give every group the same scores."""
    return quantiles


def shifted(quantiles: np.ndarray, k: int) -> np.ndarray:
    """Give every second group normal scores with a higher mean and a larger spread."""
    return special.ndtri(quantiles) * (1 + 0.2 * (k % 2)) + 0.4 * (k % 2)


def apart(quantiles: np.ndarray, k: int) -> np.ndarray:
    """Hardly let the groups meet."""
    return quantiles + 0.6 * (k % 2)


def tied(quantiles: np.ndarray, k: int) -> np.ndarray:
    """Give scores twelve values, and groups a little unlike shares of them."""
    return np.floor(12 * quantiles ** (1 + 0.3 * (k % 2)))


def of_rank(quantiles: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weigh some rows ten times: those near one end."""
    return np.where(quantiles > 0.85, 5.0, 0.5)


def at_random(quantiles: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weigh rows whatever their scores."""
    return rng.exponential(size=quantiles.size)


@dataclass(frozen=True)
class Case:
    """Sizes of groups, how their scores come about, and what rows weigh."""

    sizes: tuple[int, ...]
    scores: Callable[[np.ndarray, int], np.ndarray]
    weights: Callable[[np.ndarray, np.random.Generator], np.ndarray] | None = None


TEN, UNLIKE_TEN = (200,) * 10, (60, 100, 200, 300, 500, 700, 1000, 1500, 2000, 3000)
CASES = (
    Case((60, 60), alike),
    Case((60, 3000), alike),
    Case((300, 500), alike),
    Case((3000, 3000), alike),
    Case((60, 100), shifted),
    Case((300, 500), shifted),
    Case((3000, 4000), shifted),
    Case((300, 500), apart),
    Case((60, 100), tied),
    Case((3000, 4000), tied),
    Case((100, 150), alike, at_random),
    Case((1000, 1500), shifted, at_random),
    Case((300, 500), alike, of_rank),
    Case((60,) * 10, alike),
    Case(TEN, alike),
    Case(TEN, shifted),
    Case(UNLIKE_TEN, alike),
    Case(UNLIKE_TEN, shifted),
    Case(UNLIKE_TEN, tied, at_random),
)


def people(case: Case, quantiles: list[np.ndarray], rng: np.random.Generator) -> Any:
    """Return the groups of a sample, or of the population, at quantiles of their distributions."""
    scores = np.concatenate([case.scores(of_group, k) for k, of_group in enumerate(quantiles)])
    weights = None if case.weights is None else case.weights(np.concatenate(quantiles), rng)
    codes = np.repeat(np.arange(len(quantiles)), [of_group.size for of_group in quantiles])
    return scored_groups(scores, codes, sample_weight=weights)


def true_gaps(case: Case, gap_scale: Any) -> np.ndarray:
    """Return the gaps of the population."""
    if case.scores is alike:  # weights do not change that
        return np.where(np.tri(N_GRID, k=-1) > 0, np.nan, 0.0)
    even = replace(case, weights=None if case.weights is at_random else case.weights)
    grid = (np.arange(POPULATION) + 0.5) / POPULATION
    scored = people(even, [grid] * len(case.sizes), np.random.default_rng(0))
    return found_map(scored, MapRadii.of(scored, CONFIDENCE), gap_scale).values


def found_map(scored: Any, radii: MapRadii, gap_scale: Any) -> UnfairnessMap:
    """Return the map with a band of those radii."""
    return map_within(scored, radii, n_grid=N_GRID, gap_scale=gap_scale, confidence=CONFIDENCE)


def of_dkw(radii: MapRadii) -> MapRadii:
    """Return what DKW alone says."""
    return replace(radii, interval_level=np.inf, absolute_level=np.inf, membership=radii.epsilon)


def holds(found: UnfairnessMap, truth: np.ndarray) -> bool:
    """Whether the band holds all true gaps."""
    outside = (found.low > truth + 1e-9) | (found.high < truth - 1e-9)
    return not outside.any()


def rows_of(case: Case, n_draws: int) -> list[dict[str, Any]]:
    """Draw samples of one case, and look at their maps on both scales."""
    rng = np.random.default_rng(20_261_117)
    truths = {gap_scale: true_gaps(case, gap_scale) for gap_scale in SCALES}
    held, width = ({(scale, k): 0.0 for scale in SCALES for k in range(2)} for _ in range(2))
    radii = None
    for _ in range(n_draws):
        scored = people(case, [rng.random(n) for n in case.sizes], rng)
        if radii is None or case.weights is not None:  # without weights sizes are all that matters
            radii = MapRadii.of(scored, CONFIDENCE)
        for scale, truth in truths.items():
            for k, one in enumerate((radii, of_dkw(radii))):
                found = found_map(scored, one, scale)
                held[scale, k] += holds(found, truth)
                width[scale, k] += np.nanmean(found.high - found.low)
    pairs = np.array(list(scored.pairs()))
    sizes = sorted(set(case.sizes))
    return [
        {
            "groups": len(case.sizes),
            "members": str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]}–{sizes[-1]}",
            "scores": case.scores.__name__,
            "weights": "none" if case.weights is None else case.weights.__name__.replace("_", " "),
            "scale": scale,
            "coverage": f"{held[scale, 0] / n_draws:.3f}",
            "coverage, DKW": f"{held[scale, 1] / n_draws:.3f}",
            "radius / DKW's": f"{ratio_of_radii(radii, scale, pairs):.2f}",
            "width / DKW's": f"{width[scale, 0] / width[scale, 1]:.2f}",
        }
        for scale in SCALES
    ]


def ratio_of_radii(radii: MapRadii, scale: str, pairs: np.ndarray) -> float:
    """Return how much narrower the pairs' radii are on average."""
    ours, wide = (getattr(one, scale)(pairs).mean() for one in (radii, of_dkw(radii)))
    return float(ours / wide)


def main() -> None:
    """Try every case on both scales."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = [row for case in CASES for row in rows_of(case, arguments.draws)]
    worst = min(float(row["coverage"]) for row in rows)
    radius, width = (np.mean([float(row[f"{of} / DKW's"]) for row in rows]) for of in ("radius", "width"))
    title = (
        f"Band of the unfairness map, nominal {CONFIDENCE:g}, {arguments.draws:,} draws: coverage "
        f"{worst:.3f} or more, radii {radius:.2f} and widths {width:.2f} times DKW's on average"
    )
    write("map_band", title, rows, arguments.out)


if __name__ == "__main__":
    main()
