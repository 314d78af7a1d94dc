"""Confidence bounds of gaps, which are maxima of absolute differences.

A percentile bootstrap of a maximum is wrong: resampling adds noise, noise increases a maximum, and at a true
gap of 0 the interval never reaches 0. Instead, write the gap as ``max_j |d_j|`` over pairs of groups and
thresholds, and bootstrap the *fluctuation* ``d*_j − d_j`` of all differences together. The two sides of a
maximum need different methods. Gaps at one threshold need no bootstrap: see
`partialfair.metrics.proportions`.

**Lower bound.** "Some difference is larger than L" is a choice among all j, which must be corrected for:

1. measure the fluctuation of each pair p of groups in units of its own size s_p, so that a small group
   affects the bounds of its own pairs only; with probability 1 − δ' no ``d_j`` is off by more than ``c'
   s_p``, so the true maximum is at least ``L = max_p (max_{j∈p} |d_j| − c' s_p)`` and lies among the
   candidates ``J = {j :
   |d_j| + c' s_p ≥ L}``; where ``|d_j| > c' s_p`` the sign of d_j is known;
2. let c be the quantile of ``max_{j∈J} ±(d*_j − d_j) / s_p``, with that sign, or with both where it is not
   known; the bound is the largest ``|d_j| − c s_p`` over the candidates. Draws may be skewed, as those of a
   proportion near 1 are, whose errors are then skewed the other way: c is the larger of the two quantiles,
   each at the whole error probability.

At a true gap of 0 all j are candidates and this is the (bootstrapped) Kolmogorov–Smirnov test; at a large one
only differences near the largest one remain, and the bound is almost that of a single difference.

**Upper bound.** "No difference is larger than U" is a claim about every j, so it needs no correction for
their number (an intersection–union test): ``U = max_j (|d_j| + t σ_j)``, σ_j being the standard deviation of
``d*_j`` and t the quantile for one difference. If the truth is above U, then so is the d_j with the largest
true value, which has probability δ at most. U is conservative where many differences are nearly maximal.

A bootstrap cannot contain unobserved events: if all of a group's 20 members in the interval are selected,
they are selected in every draw. The radius is therefore at least ``1 − (δ − δ')^(1/n)``, the largest
proportion that n members may all miss with that probability (about 3/n), for the smallest n compared. For
gaps in units of scores it is that proportion of the span of the scores inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from partialfair.utils.compiled import njit
from partialfair.utils.typing import Floats, Ints

# Fraction of the error probability of one side that step 1 spends on finding the candidates.
CANDIDATE_SHARE = 0.1

_BLOCK_BYTES = 4 << 20  # memory for differences at a time; fits into the processor's cache
_TINY = 1e-12
# Error probability at which Student's quantile is compared with the normal one.
_USUAL_ERROR = 0.05


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences d_j between pairs of groups, computed for one block of pairs at a time.

    Attributes
    ----------
    pairs : (p, 2)
        Positions of the groups.
    n_most : (p,)
        Upper limit of the number of differences of each pair.
    fill
        ``fill(chosen, block)`` writes those of the chosen pairs into the rows of the block, column 0 from the
        data and the others from the draws, and returns where each pair's rows start, and their end.
    n_columns
        B + 1.
    """

    pairs: Ints
    n_most: Ints
    fill: Callable[[Ints, Floats], Ints]
    n_columns: int

    def blocks(self, chosen: Ints) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield positions of pairs, where their rows start, and the rows."""
        n_rows = max(_BLOCK_BYTES // (8 * self.n_columns), int(self.n_most[chosen].max(initial=1)))
        block_of_pair = np.cumsum(self.n_most[chosen]) // n_rows
        for some in np.split(chosen, np.flatnonzero(np.diff(block_of_pair)) + 1):
            block = np.empty((int(self.n_most[some].sum()), self.n_columns))
            starts = self.fill(some, block)
            yield some, starts, block[: starts[-1]]


def join_differences(families: Sequence[Differences]) -> Differences:
    """Return the differences of several families as one family, whose pairs are those of all in a row."""
    ends = np.cumsum([0, *(len(family.pairs) for family in families)])

    def fill(chosen: Ints, block: Floats) -> Ints:
        starts: list[Ints] = [np.zeros(1, dtype=np.int64)]
        last = 0
        for family, first, end in zip(families, ends[:-1], ends[1:], strict=True):
            some = chosen[(chosen >= first) & (chosen < end)] - first
            if some.size:
                starts.append(last + family.fill(some, block[last:])[1:])
                last = int(starts[-1][-1])
        return np.concatenate(starts)

    pairs, n_most = (
        np.concatenate(parts) for parts in zip(*((f.pairs, f.n_most) for f in families), strict=True)
    )
    return Differences(pairs, n_most, fill, families[0].n_columns)


@dataclass(frozen=True, eq=False)
class PairFluctuations:
    """Gaps of pairs of groups on the cells, the sizes s_p of their fluctuations, and their smaller samples.

    ``widest`` is the largest possible difference of two rows: 1 for gaps that are proportions.
    ``around_half`` means that gaps are distances of a probability from ½.
    """

    gap: Floats
    scale: Floats
    n_smallest: Floats
    widest: float = 1.0
    around_half: bool = False

    @property
    def small_sample(self) -> Floats:
        """Factor of deviations: a Bayesian bootstrap divides by n + 1, not by n − 1."""
        return np.sqrt((self.n_smallest + 1) / np.maximum(self.n_smallest - 1, 0.5))

    @property
    def student(self) -> Floats:
        """Factor of quantiles of draws, from normal to Student's quantiles for few members."""
        return np.asarray(self.quantile(_USUAL_ERROR) / special.ndtri(1 - _USUAL_ERROR))

    @property
    def unit(self) -> Floats:
        """The scale, corrected for few members."""
        return np.asarray(self.scale * self.small_sample * self.student)

    def quantile(self, error: float) -> Floats:
        """Student's quantile of one difference."""
        return np.asarray(special.stdtrit(np.maximum(self.n_smallest - 1, 1), 1 - error))

    def unseen(self, error: float) -> Floats:
        """Radius of each gap due to events that the sample may have missed."""
        return np.asarray(self.widest * (1 - error ** (1 / self.n_smallest)))

    def radius(self, c: float, error: float) -> Floats:
        """Radius of each gap."""
        return np.maximum(c * self.unit, self.unseen(error))

    def shift(self, gaps: Floats, radius: Floats, of_pair: Ints | None = None) -> Floats:
        """Return the gaps shifted by a radius, upwards or (where it is negative) downwards.

        A probability near 0 or 1 has small errors, and only towards ½, so probabilities are shifted on the
        logit scale.
        """
        if not self.around_half:
            return np.asarray(gaps + radius)
        chance, slope = self._logit_scale(gaps, of_pair)
        return np.asarray(special.expit(special.logit(chance) + radius * slope) - 0.5)

    def distance(self, gaps: Floats, lower: float) -> Floats:
        """Return the radius between the gaps and a lower value; the inverse of `shift`."""
        if not self.around_half:
            return np.asarray(gaps - lower)
        chance, slope = self._logit_scale(gaps, None)
        value = np.clip(0.5 + lower, _TINY, 1 - _TINY)
        return np.asarray((special.logit(chance) - special.logit(value)) / slope)

    def _logit_scale(self, gaps: Floats, of_pair: Ints | None) -> tuple[Floats, Floats]:
        """Return probabilities, at least half a member below 1, and the slope of their logit."""
        n_smallest = self.n_smallest if of_pair is None else self.n_smallest[of_pair]
        chance = np.minimum(0.5 + gaps, 1 - 0.5 / np.maximum(n_smallest, 2.0))
        return chance, 1 / (chance * (1 - chance))

    def only(self, chosen: Ints) -> PairFluctuations:
        """Return some of the pairs."""
        return replace(
            self, gap=self.gap[chosen], scale=self.scale[chosen], n_smallest=self.n_smallest[chosen]
        )


class Places(NamedTuple):
    """Individual differences: ``|d_j|``, the standard deviation σ_j of its draws, and its pair.

    Those that cannot be the largest ``|d_j| + t σ_j``, whatever t ≥ 0, may be left out.
    """

    size: Floats
    deviation: Floats
    pair: Ints


@dataclass(frozen=True, eq=False)
class Fluctuation:
    """The distribution of the error of an estimated gap.

    Attributes
    ----------
    pairs, positions
        All pairs, and the positions of their groups: (p, 2).
    own : (p,)
        Radius of each pair's gap at confidence 1 − δ as a single comparison; where a pair of groups has
        several rows, one radius for all of them.
    places
        All differences that matter to the upper bound.
    candidates
        Positions of the pairs with candidates for the largest difference.
    least, known : (p,)
        For each pair: the least ``|d_j|`` of candidates, and the one above which the sign of d_j is known.
    draws : (2, B)
        ``max_{j∈J} ±(d*_j − d_j) / s_p``, away from 0 and towards it, sorted.
    everywhere : (B,)
        ``max_j |d*_j − d_j| / s_p`` over all j, sorted.
    error
        δ, one minus the nominal coverage; finding the candidates spends a fraction of δ/2.
    """

    pairs: PairFluctuations
    positions: Ints
    own: Floats
    places: Places
    candidates: Ints
    least: Floats
    known: Floats
    draws: Floats
    everywhere: Floats
    error: float

    @property
    def gap(self) -> float:
        """Largest gap on the cells, which differs a little from the exact one."""
        return float(self.pairs.gap.max())

    def below(self, error: float) -> float:
        """Return how far below the gap the true gap may be, at that error probability."""
        left = error - self.spent  # what step 1 has not used
        c = float(np.quantile(self.draws, 1 - left, axis=1, method="higher").max())
        pairs = self.pairs.only(self.candidates)
        return self.gap - float(pairs.shift(pairs.gap, -pairs.radius(c, left)).max())

    def above(self, error: float) -> float:
        """Return how far above the gap the true gap may be, at that error probability."""
        return float(self.upper_ends(error).max()) - self.gap

    def upper_ends(self, error: float) -> Floats:
        """Return ``max_j (|d_j| + t σ_j)`` of each pair, at least the radius of unobserved events."""
        pair, pairs = self.places.pair, self.pairs
        times = pairs.quantile(error) * pairs.small_sample
        radius = np.maximum(times[pair] * self.places.deviation, pairs.unseen(error)[pair])
        ends = np.zeros(pairs.gap.size)
        np.maximum.at(ends, pair, pairs.shift(self.places.size, radius, pair))
        return ends

    def pair_ends(self) -> tuple[Ints, Floats, Floats, Floats]:
        """Return positions, gap, and interval of every row of a pair, each as a single comparison."""
        lows = self.pairs.shift(self.pairs.gap, -self.own)
        return self.positions, self.pairs.gap, lows, self.upper_ends(self.error / 2)

    def radius_everywhere(self, error: float) -> Floats:
        """Return the simultaneous radius of the gaps of all pairs, at that error probability."""
        return self.pairs.radius(float(np.quantile(self.everywhere, 1 - error, method="higher")), error)

    def p_value(self, excess: float) -> float:
        """Probability of a gap that exceeds the true gap by ``excess``; small values indicate a true excess.

        It includes the error used for finding the candidates, and the probability that the sample misses rows
        with the opposite result; so it is at most δ exactly if the lower bound at that δ excludes the true
        gap.
        """
        pairs = self.pairs.only(self.candidates)
        excesses = pairs.distance(pairs.gap, self.gap - excess)
        n_draws = self.draws.shape[1]
        n_below = [np.searchsorted(draws, excesses / pairs.unit, side="left") for draws in self.draws]
        n_as_far = n_draws - np.min(n_below, axis=0)
        unseen = np.clip(1 - excesses / pairs.widest, 0.0, 1.0) ** pairs.n_smallest
        chances = np.maximum((1 + n_as_far) / (1 + n_draws), unseen)
        least = float(np.where(excesses > 0, chances, 1.0).min())
        return min(1.0, least + self.spent)

    @property
    def spent(self) -> float:
        """Error probability for finding the candidates."""
        return CANDIDATE_SHARE * self.error / 2


def bound_fluctuation(
    differences: Differences,
    confidence: float,
    n_members: Sequence[float],
    widest_difference: float = 1.0,
    *,
    around_half: bool = False,
) -> Fluctuation:
    """Bootstrap the error of ``max_j |d_j|`` (steps 1 and 2 of the module's docstring).

    Parameters
    ----------
    differences
        The d_j of all pairs.
    confidence
        Nominal coverage.
    n_members
        Effective members of each group that the metric compares.
    widest_difference
        The largest possible difference of two rows: 1 where d_j are proportions, the span of the scores where
        they are means.
    around_half
        Whether d_j are distances of a probability from ½.
    """
    error = 1 - confidence
    n_pairs = len(differences.pairs)
    # Both labels, or both orders, of two groups may be rows: they share the error of the pair.
    n_rows_of_pair = n_pairs / len(np.unique(np.sort(differences.pairs, axis=1), axis=0))
    gap, scale, own = np.empty(n_pairs), np.empty(n_pairs), np.empty(n_pairs)
    widest = np.zeros(differences.n_columns - 1)
    places: list[Places] = []
    no_sign = np.full(n_pairs, np.inf)
    # Step 1: sizes of the fluctuations, and the simultaneous radius of all pairs.
    for some, starts, block in differences.blocks(np.arange(n_pairs)):
        gap[some], (deviations, _) = _widest_deviations(block, starts, np.zeros(some.size), no_sign[some])
        scale[some] = np.maximum(np.median(deviations, axis=1), _TINY * widest_difference)
        own[some] = np.quantile(deviations, 1 - error / n_rows_of_pair, axis=1, method="higher")
        widest = np.maximum(widest, (deviations / scale[some, None]).max(axis=0))
        size, deviation, pair = _undominated(block, starts)
        places.append(Places(size, deviation, some[pair]))
    n_smallest = np.maximum(np.asarray(n_members, dtype=np.float64)[differences.pairs].min(axis=1), 1.0)
    pairs = PairFluctuations(gap, scale, n_smallest, widest_difference, around_half)
    spent = CANDIDATE_SHARE * error / 2
    radius = pairs.radius(float(np.quantile(widest, 1 - spent)), spent)
    least = (gap - radius).max() - radius  # a candidate's |d_j| is at least this
    # Step 2: draws of the candidates alone. Beyond the radius the sign of d_j is known.
    candidates = np.flatnonzero(gap >= least)
    draws = np.zeros((2, widest.size))
    for some, starts, block in differences.blocks(candidates):
        _, deviations = _widest_deviations(block, starts, least[some], radius[some])
        draws = np.maximum(draws, (deviations / scale[some, None]).max(axis=1))
    return Fluctuation(
        pairs,
        differences.pairs,
        np.maximum(own * pairs.small_sample * pairs.student, pairs.unseen(error / n_rows_of_pair)),
        Places(*map(np.concatenate, zip(*places, strict=True))),
        candidates,
        least,
        radius,
        np.sort(draws, axis=1),
        np.sort(widest),
        error,
    )


@njit(cache=True)
def _widest_deviations(block: Floats, starts: Ints, least: Floats, known: Floats) -> tuple[Floats, Floats]:
    """Return ``max_j |d_j|`` of each pair, and each draw's largest deviations over j with ``|d_j| ≥ least``.

    Deviations are ``|d*_j − d_j|``, and where ``|d_j| > known`` those away from 0 and those towards it
    separately: (2, n_pairs, n_draws).
    """
    n_pairs, n_draws = starts.size - 1, block.shape[1] - 1
    gaps, deviations = np.zeros(n_pairs), np.zeros((2, n_pairs, n_draws))
    for pair in range(n_pairs):
        away, towards = deviations[0, pair], deviations[1, pair]
        for row in range(starts[pair], starts[pair + 1]):
            data = block[row, 0]
            draws = block[row, 1:]
            gaps[pair] = max(gaps[pair], abs(data))
            if abs(data) < least[pair]:
                continue
            if abs(data) > known[pair]:
                sign = 1.0 if data > 0 else -1.0
                for b in range(n_draws):
                    away[b] = max(away[b], sign * (draws[b] - data))
                    towards[b] = max(towards[b], sign * (data - draws[b]))
            else:
                for b in range(n_draws):
                    away[b] = max(away[b], abs(draws[b] - data))
                    towards[b] = max(towards[b], abs(draws[b] - data))
    return gaps, deviations


@njit(cache=True)
def _undominated(block: Floats, starts: Ints) -> tuple[Floats, Floats, Ints]:
    """Return ``|d_j|``, the root mean square of ``d*_j − d_j``, and the pair, of rows that may matter.

    A row does not matter if the draws of the pair's largest row deviate as much.
    """
    sizes, deviations = np.empty(block.shape[0]), np.empty(block.shape[0])
    pairs, n_left = np.empty(block.shape[0], dtype=np.int64), 0
    for pair in range(starts.size - 1):
        first = n_left
        for row in range(starts[pair], starts[pair + 1]):
            data, squares = block[row, 0], 0.0
            for b in range(1, block.shape[1]):
                squares += (block[row, b] - data) ** 2
            sizes[n_left], pairs[n_left] = abs(data), pair
            deviations[n_left] = np.sqrt(squares / (block.shape[1] - 1))
            n_left += 1
        if n_left == first:
            continue
        widest = first + np.argmax(sizes[first:n_left])
        sizes[first], sizes[widest] = sizes[widest], sizes[first]
        deviations[first], deviations[widest] = deviations[widest], deviations[first]
        last, n_left = n_left, first + 1
        for at in range(first + 1, last):
            if deviations[at] > deviations[first]:
                sizes[n_left], deviations[n_left], pairs[n_left] = sizes[at], deviations[at], pair
                n_left += 1
    return sizes[:n_left], deviations[:n_left], pairs[:n_left]
