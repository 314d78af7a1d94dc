"""Two features, pSP, one model for all groups: the global optimum, by a sweep over all critical angles.

Ranks do not depend on the intercept or on a positive factor, so the exact gap of ``w · x + b`` depends only
on the angle of w. It can change only where two rows swap, ``w · (x_i − x_j) = 0``: at O(n²) angles, and it is
constant between two of them. On a sector (a cone) the objective is convex, so its minimum lies at the
unconstrained one or on an edge of the cone. It increases with the distance from the unconstrained angle:
``{w : min_b f(w, b) ≤ c}`` is convex and contains the unconstrained w, so if c is below the loss of constant
scores, the angles that it covers form one arc, which increases with c. So the optimum is on the edge of the
first feasible sector on one of the two sides.

On the edge itself two different rows are tied, and models must not add ties: the reference is ``INSIDE``
radians inside the sector, where only equal rows are tied. Their number inside the interval depends on the
sector too; sectors with too many are excluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from _judging import ROUNDING, Case, Model, logistic_minimum
from _references import GLOBAL, References

INSIDE = 1e-7
"""Angle in radians between a reference and the edge of its sector, where two rows would be tied."""
SAME_ANGLE = 1e-11
"""Critical angles closer than this count as one: integer rows have many pairs with the same direction."""
SMALLEST_SCALE = 1e-4
"""Length of w if the optimum is 0, at which scores would be constant and all rows tied."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """All orders of the rows over all directions.

    Attributes
    ----------
    edges : (m,)
        Critical angles, increasing, in [0, 2π).
    gaps : (m,)
        The exact gap between ``edges[i]`` and the next one, around the circle.
    tied : (m,)
        Whether the sector has too many ties.
    """

    edges: Any
    gaps: Any
    tied: Any

    def sector_of(self, angle: float) -> int:
        """Return the sector of an angle."""
        return int((np.searchsorted(self.edges, angle % (2 * np.pi), side="right") - 1) % self.edges.size)

    def width(self, sector: int) -> float:
        """Return the radians from one edge to the next."""
        after = self.edges[(sector + 1) % self.edges.size]
        return float((after - self.edges[sector]) % (2 * np.pi))


def critical_angles(X: Any) -> Any:
    """Return the angles at which two different rows have the same score."""
    first, second = np.triu_indices(len(X), 1)
    moves = X[first] - X[second]
    moves = moves[(moves != 0).any(axis=1)]
    half = (np.arctan2(moves[:, 1], moves[:, 0]) + np.pi / 2) % np.pi
    half = np.sort(half)
    half = half[np.concatenate([[True], np.diff(half) > SAME_ANGLE])]
    if half.size > 1 and half[0] + np.pi - half[-1] <= SAME_ANGLE:
        half = half[:-1]
    return np.concatenate([half, half + np.pi])


def scores_along(X: Any, angle: float) -> Any:
    """Return the scores of the unit vector at an angle; equal rows get equal scores, bit for bit."""
    return np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1]


def swept(case: Case) -> Sweep:
    """Evaluate one angle of every sector."""
    edges = critical_angles(case.X)
    middles = edges + ((np.roll(edges, -1) - edges) % (2 * np.pi)) / 2
    scores = [scores_along(case.X, angle) for angle in middles]
    gaps = np.array([case.gap(along) for along in scores])
    if len(np.unique(case.X, axis=0)) == len(case.X):  # no two rows are equal, so there are no ties
        return Sweep(edges, gaps, np.zeros(gaps.size, dtype=bool))
    free = case.ties(unconstrained(case).scores)
    return Sweep(edges, gaps, np.array([not case.ties(along).within(free) for along in scores]))


def best_along(case: Case, angle: float) -> Model:
    """Return the best model whose w has that angle."""
    along = scores_along(case.X, angle)
    Z = np.column_stack([along, np.ones_like(along)])
    (length, intercept), _ = logistic_minimum(Z, case.signs, np.array([case.alpha, 0.0]))
    if length < SMALLEST_SCALE:  # the best point of the ray is w = 0, where scores are constant
        length = SMALLEST_SCALE
        (intercept,), _ = logistic_minimum(Z[:, 1:], case.signs, np.zeros(1))
    coef = length * np.array([[np.cos(angle), np.sin(angle)]])
    return Model(coef, np.array([intercept]), length * along + intercept)


def unconstrained(case: Case) -> Model:
    """Return the unconstrained model of a few dense features."""
    Z = np.column_stack([case.X, np.ones(len(case.X))])
    penalties = np.append(np.full(case.X.shape[1], case.alpha), 0.0)
    v, _ = logistic_minimum(Z, case.signs, penalties)
    scores = (case.X * v[:-1]).sum(axis=1) + v[-1]  # BLAS may not give equal rows equal scores
    return Model(v[None, :-1], v[-1:], scores)


def global_optimum(case: Case, sweep: Sweep | None = None) -> Model | None:
    """Return the best model whose exact gap is at most κ; None if no admissible order has one."""
    sweep = swept(case) if sweep is None else sweep
    free = unconstrained(case)
    angle = float(np.arctan2(free.coef[0, 1], free.coef[0, 0])) % (2 * np.pi)
    feasible = (sweep.gaps <= case.max_gap + ROUNDING) & ~sweep.tied
    if not feasible.any():
        return None
    at = sweep.sector_of(angle)
    if feasible[at]:
        return free
    ways = np.arange(1, feasible.size)
    after = (at + ways)[feasible[(at + ways) % feasible.size]][0] % feasible.size
    before = (at - ways)[feasible[(at - ways) % feasible.size]][0] % feasible.size
    inside = [min(INSIDE, sweep.width(sector) / 3) for sector in (after, before)]
    beyond = sweep.edges[before] + sweep.width(before)
    models = [best_along(case, sweep.edges[after] + inside[0]), best_along(case, beyond - inside[1])]
    return min(models, key=case.objective)


def make_two_features(setting: list[Case], references: References, seconds: float) -> None:
    """Sweep over all angles; the time limit is not used."""
    for case in setting:
        references.begin(case, unconstrained(case))
        best = global_optimum(case)
        if best is None:
            references.prove(case)
        else:
            references.offer(case, best, "sweep", GLOBAL)


def two_feature_cases() -> list[Case]:
    """Return the problems, one per seed."""
    return [_made(number, *settings) for number, settings in enumerate(_SETTINGS)]


# Random draws, without problems whose constraint costs less than 2e-4, is infeasible, or is optimal at
# constant scores; the last two problems are an infeasible one and one without cost. No fit influenced the
# selection. Rows, groups, shift of the groups, interval, scale, κ, alpha, integer features (0: none, else
# their range).
_SETTINGS: tuple[tuple[int, int, float, tuple[float, float], str, float, float, int], ...] = (
    (100, 2, 1.6, (0.0, 1.0), "interval", 0.4, 0.001, 0),
    (70, 2, 0.6, (0.2, 0.6), "absolute", 0.15, 0.0001, 0),
    (70, 3, 1.6, (0.0, 0.5), "interval", 0.3, 0.01, 0),
    (120, 2, 1, (0.2, 0.6), "absolute", 0.15, 0.01, 6),
    (70, 2, 0.6, (0.2, 0.6), "interval", 0.3, 0.0001, 10),
    (60, 3, 1, (0.05, 0.4), "absolute", 0.2, 0.01, 0),
    (80, 2, 0.3, (0.3, 1.0), "interval", 0.1, 0.001, 0),
    (100, 2, 1, (0.1, 0.5), "absolute", 0.08, 0.001, 0),
    (100, 3, 0.6, (0.0, 0.5), "interval", 0.4, 0.0001, 0),
    (100, 2, 0.6, (0.05, 0.4), "absolute", 0.1, 0.001, 0),
    (100, 2, 0.6, (0.0, 0.5), "interval", 0.4, 0.01, 0),
    (100, 3, 1, (0.3, 1.0), "absolute", 0.2, 0.001, 6),
    (80, 2, 1, (0.1, 0.5), "interval", 0.4, 0.01, 10),
    (120, 2, 0.3, (0.0, 1.0), "absolute", 0.1, 0.0001, 0),
    (120, 3, 0.6, (0.0, 1.0), "interval", 0.2, 0.01, 0),
    (70, 2, 1, (0.3, 1.0), "absolute", 0.15, 0.001, 0),
    (60, 2, 1, (0.0, 0.5), "interval", 0.2, 0.0001, 0),
    (80, 3, 0.3, (0.05, 0.4), "absolute", 0.2, 0.001, 0),
    (80, 2, 0.3, (0.1, 0.5), "interval", 0.3, 0.01, 0),
    (80, 2, 0.3, (0.05, 0.4), "absolute", 0.08, 0.0001, 6),
    (100, 3, 0.6, (0.0, 1.0), "interval", 0.4, 0.01, 10),
    (80, 2, 1, (0.3, 1.0), "absolute", 0.3, 0.0001, 0),
    (120, 2, 1.6, (0.2, 0.6), "interval", 0.25, 0.001, 0),
    (120, 3, 0.3, (0.0, 1.0), "absolute", 0.1, 0.01, 0),
    (90, 2, 0.6, (0.1, 0.5), "interval", 0.2, 0.01, 0),
    (120, 2, 1.6, (0.0, 1.0), "absolute", 0.3, 0.001, 0),
    (90, 3, 0.3, (0.3, 1.0), "interval", 0.25, 0.0001, 0),
    (80, 2, 0.3, (0.2, 0.6), "absolute", 0.2, 0.0001, 6),
    (100, 2, 1.6, (0.0, 0.5), "interval", 0.3, 0.001, 10),
    (60, 3, 0.6, (0.3, 1.0), "absolute", 0.3, 0.01, 0),
    (70, 2, 1.6, (0.1, 0.5), "interval", 0.2, 0.0001, 0),
    (60, 2, 1.6, (0.1, 0.5), "absolute", 0.2, 0.001, 0),
    (80, 3, 0.6, (0.0, 1.0), "interval", 0.4, 0.01, 0),
    (120, 2, 0.3, (0.0, 1.0), "absolute", 0.15, 0.0001, 0),
    (70, 2, 1, (0.05, 0.4), "interval", 0.4, 0.0001, 0),
    (60, 3, 0.3, (0.0, 1.0), "absolute", 0.2, 0.0001, 6),
    (90, 2, 0.3, (0.05, 0.4), "interval", 0.4, 0.0001, 10),
    (90, 2, 0.3, (0.3, 1.0), "absolute", 0.15, 0.001, 0),
    (70, 3, 1, (0.05, 0.4), "interval", 0.4, 0.001, 0),
    (60, 2, 1, (0.0, 1.0), "absolute", 0.2, 0.01, 0),
    (90, 2, 1.6, (0.2, 0.6), "absolute", 0.05, 0.0001, 0),
    (120, 2, 1, (0.0, 0.5), "absolute", 0.05, 0.0001, 0),
    (80, 2, 0.3, (0.05, 0.4), "absolute", 0.05, 0.001, 0),
    (60, 2, 1, (0.1, 0.5), "interval", 0.05, 0.0001, 0),
    (80, 2, 0.3, (0.1, 0.5), "absolute", 0.4, 0.0001, 0),
)


def _made(
    seed: int,
    n: int,
    n_groups: int,
    shift: float,
    interval: tuple[float, float],
    scale: str,
    max_gap: float,
    alpha: float,
    levels: int,
) -> Case:
    """Draw two features: the first separates the groups, and both separate the classes."""
    rng = np.random.default_rng([8, seed])
    groups = np.arange(n) % n_groups if seed % 2 else rng.permutation(np.repeat(np.arange(n_groups), n))[:n]
    X = rng.normal(size=(n, 2))
    X[:, 0] += shift * groups
    X[:, 1] -= 0.3 * shift * groups * (seed % 3)
    truth = X @ [1.0, 0.4 + 0.4 * (seed % 4)]
    y = (truth - truth.mean() + rng.logistic(scale=0.7, size=n) > 0).astype(int)
    if levels:
        X = np.clip(np.round(X * levels / 4), -levels, levels)
    key = f"two-feature/{seed:02d} n={n} groups={n_groups} {scale} κ={max_gap:g}"
    return Case(key, X, y, np.array(list("abcdef"))[groups], "pSP", interval, scale, max_gap, alpha)
