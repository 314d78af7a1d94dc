"""Problems with ties and several groups: a few integer features, 3 to 10 groups, 500 to 7,000 rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from _judging import Case

# Rows, features, values of each, groups, kind, interval, scale, κ of the setting.
_SETTINGS: tuple[tuple[int, int, int, int, str, tuple[float, float], str, tuple[float, ...]], ...] = (
    (7000, 5, 4, 3, "pSP", (0.2, 0.5), "interval", (0.3, 0.4, 0.5, 0.6)),
    (500, 3, 6, 3, "pSP", (0.1, 0.6), "interval", (0.3, 0.5)),
    (1000, 4, 5, 4, "pSP", (0.0, 0.5), "absolute", (0.1, 0.2)),
    (2000, 5, 3, 5, "pSP", (0.2, 0.8), "interval", (0.2, 0.3)),
    (4000, 6, 4, 10, "pSP", (0.0, 1.0), "interval", (0.1, 0.2)),
    (1500, 3, 8, 10, "pDP", (0.0, 0.6), "interval", (0.1, 0.2)),
    (3000, 4, 4, 6, "pDP", (0.1, 0.7), "absolute", (0.05, 0.1)),
)


def tied_settings(wanted: Callable[[str], bool]) -> Iterator[list[Case]]:
    """Yield settings of the selected problems."""
    for seed, (n, d, levels, n_groups, kind, interval, scale, max_gaps) in enumerate(_SETTINGS):
        rng = np.random.default_rng([77, seed])
        groups = np.minimum(rng.geometric(0.7 / np.sqrt(n_groups), size=n) - 1, n_groups - 1)
        X = rng.normal(size=(n, d))
        X += np.outer(groups / max(n_groups - 1, 1), np.linspace(1.2, -0.4, d))
        X = np.clip(np.round((X + 1) * levels / 4), 0, levels - 1)
        truth = X @ np.linspace(1.0, 0.4, d)
        truth = 1.5 * (truth - truth.mean()) / truth.std()
        y = (truth + rng.logistic(size=n) > 0.3).astype(int)
        name = f"ties/{seed} {kind} n={n} d={d} groups={n_groups} {scale}"
        labels = np.array([f"g{k}" for k in range(n_groups)])[groups]
        setting = [
            Case(f"{name} κ={max_gap:g}", X, y, labels, kind, interval, scale, max_gap)
            for max_gap in max_gaps
        ]
        if chosen := [case for case in setting if wanted(case.key)]:
            yield chosen
