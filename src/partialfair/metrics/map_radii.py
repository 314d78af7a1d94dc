"""Simultaneous confidence radii of all gaps of the map.

Let ``e_k(θ) = F̂_k(θ) − F̄_k(θ)``, and ``passed`` be the fraction of an interval [α, β) that a rank has
passed. It is monotone with slopes of at most 1 / (β − α), so that the error of a pair's difference is ``λ
e_k(θ) − λ' e_k'(θ)`` over the width for some λ and λ' in [0, 1]: at most, at one of the four corners,

    sup_θ max(|e_k|, |e_k'|, |e_k − e_k'|) / (β − α).

The Dvoretzky–Kiefer–Wolfowitz inequality bounds this by ε_k + ε_k'. But errors of two groups are independent,
and add up like ``√(1/n_k + 1/n_k')``, as in the Kolmogorov–Smirnov test of two samples. So the radii are

    R_p(c) = min(u_p √(c + log(u_max / u_p)), ε_k + ε_k'),    u_p = √(1/n_k + 1/n_k'),

with the one c for which all pairs p hold simultaneously with the nominal probability. Three choices:

* **The logarithm.** With Kolmogorov's tails ``2 exp(−2 R²/u²)`` the sum of all radii is least, at a given sum
  of error probabilities, if ``R_p² / u_p²`` falls by half the logarithm of the unit (nearly). Then the radii
  of a small group, which are the largest, do not increase with the many pairs among large groups. Errors of
  its own pairs mostly occur together, which reduces their radii further: with all of the logarithm, radii of
  ten groups of 60 to 3,000 are as small on average, and the largest ratio to DKW is 0.90 instead of 0.91, of
  60 with nine times 3,000 0.82 instead of 0.87.
* **The minimum** is part of the family before c is found, so it does not reduce confidence: on the interval
  scale no radius exceeds that of DKW. Such a c exists: with DKW's own radii all pairs hold.
* **Where ranks agree.** In large samples e_k is a Brownian bridge in the rank over √n_k, and the quantile is
  that of two equal groups, whose bridges are compared at equal ranks. To the leading order of the tail this
  is the hardest case: a difference is largest near the point (½, ½) of the rank curve, where its variance
  ``F̄(1 − F̄)/n + F̄'(1 − F̄')/n'`` is. Of all curves through it those along the diagonal leave it most
  slowly, relative to the change of the difference (Cauchy–Schwarz), and other curves do not reach it. Ties
  only remove thresholds. In small samples the quantiles of the limit are conservative.

On the absolute scale a gap is ``max |F̄_k − F̄_k'|`` over the θ at which either rank lies in the interval,
and the errors |e_k| make these θ uncertain. There the event is ``|e_k| ≤ r_k`` for all groups, on which a
fraction of the error probability is spent, and ``|e_k − e_k'| ≤ R_p`` for all pairs, which has the rest.

With weights the bridge of group k runs on the clock ``A(u) = Σ w² / (Σw)²`` of its members above rank u, and
1/n_k becomes ``4 max_u ((1 − u)² A(u) + u² (A(1) − A(u)))``: that is 1 / n_effective if weights do not depend
on ranks, and more where heavy rows are concentrated near an end. Rows in clusters may make groups dependent:
then the radii are those of DKW, which hold for any dependence.

The quantiles are simulated, from the sizes (and clocks) alone and with a seed of their own: the same sizes
give the same radii. They do not depend on the scores, so they need no correction for selection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from partialfair.metrics.inputs import GroupScores, ScoredGroups
from partialfair.theory import dkw_bound
from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints


@dataclass(frozen=True)
class BridgeSettings:
    """Number and grid of simulated bridges, and the quantiles computed from them."""

    # Ranks at which bridges are drawn; `between` corrects for the ranks between them.
    n_ranks: int = 32
    # Enough for the quantile of 95% to be one of 94.8% to 95.2%.
    max_draws: int = 10_000
    # If that would take too long, error probabilities of pairs are summed instead: radii are 3% larger.
    min_draws: int = 500
    # Numbers of random draws, and of differences of two bridges: 0.2 s each.
    max_numbers: int = 4_000_000
    max_differences: int = 640_000_000
    # A quantile that fewer draws exceed is extrapolated from the one that so many exceed.
    tail_draws: int = 50
    # Fraction of the error probability for which θ belong to an interval, on the absolute scale.
    membership: float = 0.2
    # The supremum of a Brownian path exceeds that on a grid of step h as if by ``−ζ(½)/√(2π) · √h``.
    between: float = 0.5826
    # Number of bridges that fit into the processor's cache.
    block_draws: int = 256


SETTINGS = BridgeSettings()


@dataclass(frozen=True, eq=False)
class MapRadii:
    """Radii of all groups and pairs.

    Attributes
    ----------
    noise : (K,)
        1/n_k, or its weighted version.
    epsilon : (K,)
        DKW's bound on sup |e_k|, for all groups simultaneously.
    membership : (K,)
        r_k, which on the absolute scale holds simultaneously with the radii of pairs.
    interval_level, absolute_level
        c of either scale; infinite where all radii are sums of epsilon, or of membership.
    """

    noise: Floats
    epsilon: Floats
    membership: Floats
    interval_level: float
    absolute_level: float

    @classmethod
    def of(cls, scored: ScoredGroups, confidence: float) -> MapRadii:
        """Find the radii for some groups."""
        clocks = np.array([_clock(group) for group in scored])  # bytes can be the key of a cache
        return _find_radii(clocks.tobytes(), confidence, scored.groups[0].clusters is None)

    def interval(self, pairs: Ints) -> Floats:
        """Return radii of the clipped differences of pairs (p, 2), times β − α."""
        return self._of_pairs(pairs, self.interval_level, self.epsilon)

    def absolute(self, pairs: Ints) -> Floats:
        """Return radii of ``F̄_k − F̄_k'`` at all θ, given that errors of ranks are at most `membership`."""
        return self._of_pairs(pairs, self.absolute_level, self.membership)

    def _of_pairs(self, pairs: Ints, level: float, of_groups: Floats) -> Floats:
        units = self.noise[pairs].sum(axis=1)
        largest = float(np.sort(self.noise)[-2:].sum())  # u²_max, that of the two smallest groups
        radii = np.sqrt(units * (level + 0.5 * np.log(largest / units)))
        return np.asarray(np.minimum(radii, of_groups[pairs].sum(axis=1)))


@lru_cache(maxsize=16)  # an HTML report shows several models of the same rows, on two scales
def _find_radii(clocks_as_bytes: bytes, confidence: float, independent: bool) -> MapRadii:
    """Find the radii for groups with such clocks."""
    clocks = np.frombuffer(clocks_as_bytes).reshape(-1, SETTINGS.n_ranks)
    # Variances of the ranks of each group, at the grid's ranks: a bridge on the group's own clock.
    ranks = np.arange(1, SETTINGS.n_ranks + 1) / SETTINGS.n_ranks
    noise = 4 * ((1 - ranks) ** 2 * clocks + ranks**2 * (clocks[:, -1:] - clocks)).max(axis=1)
    epsilon = np.sqrt(noise) * dkw_bound(1.0, confidence, n_comparisons=len(clocks))
    if not independent:
        return MapRadii(noise, epsilon, epsilon, np.inf, np.inf)
    positions = np.stack(np.triu_indices(noise.size, 1), axis=1)
    units = noise[positions].sum(axis=1)  # u_p²
    extra, group_extra = (0.5 * np.log(each.max() / each) for each in (units, noise))
    cap = epsilon[positions].sum(axis=1)
    error, group_error = 1 - confidence, SETTINGS.membership * (1 - confidence)
    n_differences = SETTINGS.n_ranks * len(positions)
    n_draws = min(
        SETTINGS.max_numbers // clocks.size, SETTINGS.max_differences // n_differences, SETTINGS.max_draws
    )
    if n_draws >= SETTINGS.min_draws:
        interval, absolute, of_groups = _draw_levels(
            clocks, noise, group_extra, (positions, units, extra, cap), n_draws
        )
        group_level = _upper_quantile(of_groups, group_error)
        interval_level = _upper_quantile(interval, error)
        # Draws in which some |e_k| exceeds its r_k count as misses of the absolute scale, too.
        absolute_level = _upper_quantile(np.where(of_groups > group_level, np.inf, absolute), error)
    else:
        # Very many groups: Kolmogorov's tails of all of them, and of all pairs, are added up.
        group_tails, pair_tails = (2 * np.exp(-2 * each).sum() for each in (group_extra, extra))
        group_level = 0.5 * float(np.log(group_tails / group_error))
        # There are so many more pairs than groups that a pair's radius exceeds those of its groups: one c is
        # valid for both scales.
        absolute_level = 0.5 * float(np.log(pair_tails / ((1 - SETTINGS.membership) * error)))
        # Where DKW's radius is smaller for some pairs, it would need its own error probability: then it is
        # used for all pairs.
        fits = bool((units * (absolute_level + extra) <= cap**2).all())
        interval_level = absolute_level if fits else np.inf
    membership = np.sqrt(noise * (group_level + group_extra))  # r_k at the level of the groups
    return MapRadii(noise, epsilon, membership, interval_level, absolute_level)


def _clock(group: GroupScores) -> Floats:
    """A(u) at the grid's ranks u = 1/m, ..., 1: the variance of the weight above, for known ranks."""
    ranks = np.arange(1, SETTINGS.n_ranks + 1) / SETTINGS.n_ranks
    if group.weights is None or group.clusters is not None:
        return ranks / group.n_effective
    squares = np.concatenate([[0.0], np.cumsum(group.weights[::-1] ** 2)])
    return np.asarray(np.interp(ranks * group.above[-1], group.above, squares) / group.above[-1] ** 2)


def _draw_levels(
    clocks: Floats,
    noise: Floats,
    group_extra: Floats,
    pairs: tuple[Ints, Floats, Floats, Floats],
    n_draws: int,
) -> Floats:
    """Draw bridges of all groups; return the c of each draw on both scales, and for its groups."""
    rng = np.random.default_rng(0)
    steps = np.sqrt(np.diff(clocks, axis=1, prepend=0.0))
    between = SETTINGS.between * np.sqrt(clocks[:, -1] / SETTINGS.n_ranks)
    levels = np.full((3, n_draws), -np.inf)
    for first in range(0, n_draws, SETTINGS.block_draws):
        block = levels[:, first : first + SETTINGS.block_draws]
        bridges = rng.standard_normal((*steps.shape, block.shape[1]))
        group_sups = _tie_down(bridges, steps) + between[:, None]
        block[2] = (group_sups**2 / noise[:, None] - group_extra[:, None]).max(axis=0)
        _raise_levels(bridges, group_sups, between, *pairs, block)
    return levels


def _upper_quantile(levels: Floats, error: float) -> float:
    """Return the level that draws exceed with that probability.

    Tails fall like ``exp(−2c)``, and the largest of many levels is like Gumbel's: levels that few draws
    exceed are extrapolated from those that more do.
    """
    seen = max(error, SETTINGS.tail_draws / levels.size)
    level = float(np.quantile(levels, 1 - seen, method="higher"))
    return level + 0.5 * float(np.log(np.log1p(-seen) / np.log1p(-error)))


# Bridges lie in an array (K, ranks, draws); inner loops run over the draws, consecutive in memory.


@njit(cache=True)
def _tie_down(numbers: Floats, steps: Floats) -> Floats:
    """Make bridges of normal numbers, in place, and return the largest absolute value of each."""
    n_groups, n_ranks, n_draws = numbers.shape
    sups = np.zeros((n_groups, n_draws))
    for k in range(n_groups):
        for b in range(n_draws):
            numbers[k, 0, b] *= steps[k, 0]
        for rank in range(1, n_ranks):
            for b in range(n_draws):
                numbers[k, rank, b] = numbers[k, rank - 1, b] + steps[k, rank] * numbers[k, rank, b]
        for rank in range(n_ranks):
            fraction = (rank + 1) / n_ranks
            for b in range(n_draws):
                # The last rank is changed last: until then it has the end of the path.
                value = numbers[k, rank, b] - fraction * numbers[k, n_ranks - 1, b]
                numbers[k, rank, b] = value
                sups[k, b] = abs(value) if abs(value) > sups[k, b] else sups[k, b]
    return sups


@njit(cache=True)
def _raise_levels(
    bridges: Floats,
    group_sups: Floats,
    between: Floats,
    positions: Ints,
    units: Floats,
    extra: Floats,
    cap: Floats,
    levels: Floats,
) -> None:
    """Raise each draw's c to that of its pairs: in row 0 on the interval scale, in row 1 on the other."""
    n_draws = bridges.shape[2]
    widest = np.empty(n_draws)
    for pair in range(positions.shape[0]):
        k, j = positions[pair]
        widest[:] = 0.0
        for rank in range(bridges.shape[1]):
            of_k, of_j = bridges[k, rank], bridges[j, rank]
            for b in range(n_draws):
                difference = abs(of_k[b] - of_j[b])
                widest[b] = difference if difference > widest[b] else widest[b]
        missed = np.sqrt(between[k] ** 2 + between[j] ** 2)
        for b in range(n_draws):
            # sup |e_k − e_j| of the draw, and the largest of the four corners in the module's text.
            difference = widest[b] + missed
            clipped = max(difference, max(group_sups[k, b], group_sups[j, b]))
            # Where DKW's radius is the minimum and is exceeded, no c is enough.
            needed = np.inf if clipped > cap[pair] else clipped**2 / units[pair] - extra[pair]
            levels[0, b] = max(levels[0, b], needed)
            levels[1, b] = max(levels[1, b], difference**2 / units[pair] - extra[pair])
