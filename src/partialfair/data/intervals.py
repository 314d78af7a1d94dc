"""Converts intervals to ranks, and splits blocks of tied scores at their ends.

The rank of a score θ in group k is F̄_k(θ) = Pr(score > θ | group k) (Definition 4.1): rank 0 is the top, so
the interval ``(0.05, 0.30)`` holds the ranks 5–30% **from the top**, the score percentiles 70–95.

This is the only module that converts fractions to ranks and splits ties. It never rounds ``α n`` to a whole
number of rows: a block of tied scores occupies the ranks ``[F̄(s), F̄(s⁻))``, and the part of that block
inside the interval is split over its members by weight. Duplicating every row then changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np

from partialfair.exceptions import InputError
from partialfair.utils.checks import shown
from partialfair.utils.compiled import njit
from partialfair.utils.text import short_percent
from partialfair.utils.typing import Floats, GroupLabel, IntervalLike, Ints

RANK_TOLERANCE = 1e-12
"""Two ranks closer than this are the same rank.

Weights and ends of intervals are decimal numbers: three weights of 0.1 among ten reach the rank
0.3, and ``[0.1, 0.3)`` does not contain it. The nearest binary numbers do not add up so exactly, and are off
by some 1e-16. Two different ranks are as close as the tolerance only if a row has less than that part of its
group's weight.
"""


@njit(cache=True)
def passed_share(rank: float, starts: Floats, lengths: Floats, measure: float) -> float:
    """Fraction of an interval set above (at smaller ranks than) ``rank``; see `IntervalSet.passed`."""
    total = 0.0
    for part in range(starts.size):
        total += min(max(rank - starts[part], 0.0), lengths[part])
    return total / measure


@njit(cache=True)
def holds_rank(rank: float, starts: Floats, lengths: Floats) -> bool:
    """Whether ``rank`` lies in one of the half-open parts ``[start, start + length)``."""
    for part in range(starts.size):
        depth = rank - starts[part]
        if depth >= -RANK_TOLERANCE and depth < lengths[part] - RANK_TOLERANCE:
            return True
    return False


@dataclass(frozen=True)
class IntervalSet:
    """A union of disjoint half-open intervals ``[low, high)`` of ranks, counted from the top.

    Parameters
    ----------
    parts
        ``(low, high)`` pairs, increasing and disjoint, in [0, 1]. `as_interval_set` reads user input.
    """

    parts: tuple[tuple[float, float], ...]

    @cached_property
    def starts(self) -> Floats:
        """First rank of each part."""
        return np.array([low for low, _ in self.parts])

    @cached_property
    def lengths(self) -> Floats:
        """Length of each part."""
        return np.array([high - low for low, high in self.parts])

    @cached_property
    def measure(self) -> float:
        """Total length ``m``: the fraction of a group in the set."""
        return float(self.lengths.sum())

    def passed(self, ranks: Floats) -> Floats:
        """Fraction of the set that lies above each rank.

        ``passed(r) = Σ_parts clip(r − low, 0, high − low) / m``. With ``r = F̄_k(θ)`` this is
        Pr(score > θ | group k, rank in the set), the closed form in Appendix C of the paper.
        """
        depth = np.asarray(ranks, dtype=np.float64)[..., None] - self.starts
        return np.asarray(np.clip(depth, 0.0, self.lengths).sum(axis=-1) / self.measure)

    def rank_at(self, shares: Floats, *, side: Literal["left", "right"]) -> Floats:
        """Rank above which a fraction of the set lies, the inverse of `passed`.

        For one interval ``low + share · (high − low)``. At the end of a part the inverse jumps over the gap
        between parts: ``side="left"`` is the end of the part before it, ``side="right"`` the start of the
        next one.
        """
        shares = np.asarray(shares, dtype=np.float64)
        done = running_weight(self.lengths) / self.measure  # fraction passed where each part starts
        # Fractions this close to the end of a part count as equal to it.
        slack = RANK_TOLERANCE if side == "left" else -RANK_TOLERANCE
        before = np.searchsorted(done[1:-1], shares - slack, side="left")
        return np.asarray(self.starts[before] + (shares - done[before]) * self.measure)

    def side(self, rank: float) -> Literal["inside", "before", "between", "after"]:
        """Return where a rank lies: inside a part, ends included, or before, between or after all parts.

        A threshold whose rank is not inside selects a fraction of the set that does not depend on the order
        inside.
        """
        if any(low - RANK_TOLERANCE <= rank <= high + RANK_TOLERANCE for low, high in self.parts):
            return "inside"
        if rank < self.parts[0][0]:
            return "before"
        return "after" if rank > self.parts[-1][1] else "between"

    @property
    def from_the_other_end(self) -> IntervalSet:
        """The same part of a group, counted from the bottom."""
        return IntervalSet(tuple((1 - high, 1 - low) for low, high in reversed(self.parts)))

    def __str__(self) -> str:
        """Both ways of counting: ranks from the top, and score percentiles."""
        return interval_text(self)


def interval_text(interval: IntervalSet, higher_is_better: bool = True) -> str:
    """Return an interval as text, in ranks from the best and in percentiles of the original scores."""
    ends = [(1 - high, 1 - low) if higher_is_better else (low, high) for low, high in interval.parts]
    scores = " and ".join(f"{_percent(low)}–{_percent(high)}" for low, high in ends)
    best = "top" if higher_is_better else "best, the lowest scores"
    return f"ranks {ranks_text(interval)} from the {best} (score percentiles {scores})"


def ranks_text(interval: IntervalSet) -> str:
    """Return the ranks of an interval in percent: "5–30%"."""
    return " and ".join(span_text(low, high) for low, high in interval.parts)


def span_text(low: float, high: float) -> str:
    """Return the ends of one interval in percent: "5–30%"."""
    return f"{_percent(low)}–{short_percent(high)}"


def require_interval(interval: IntervalLike | None) -> IntervalLike:
    """Return the interval; raise `InputError` if it is None, since the whole range must be explicit."""
    if interval is None:
        raise InputError(
            "interval is missing: give ranks from the top, such as interval=(0.05, 0.30), or interval=(0, 1) "
            "for the whole range"
        )
    return interval


def as_interval_set(interval: Any) -> IntervalSet:
    """Read one interval ``(low, high)`` or a union ``[(low, high), ...]``; touching parts are joined.

    Raises
    ------
    InputError
        If a part is not two numbers with 0 ≤ low < high ≤ 1, or if two parts overlap.
    """
    if isinstance(interval, IntervalSet):
        return interval
    require_interval(interval)
    is_array = isinstance(interval, np.ndarray) and interval.ndim > 0
    is_list = isinstance(interval, Sequence) and not isinstance(interval, str | bytes)
    if not (is_array or is_list) or len(interval) == 0:
        raise InputError(f"interval must be (low, high) or a list of such pairs, not {shown(interval)}")
    is_single = all(isinstance(end, Real) for end in interval)
    parts = sorted(_read_part(part) for part in ([interval] if is_single else interval))
    joined = [parts[0]]
    for low, high in parts[1:]:
        last_low, last_high = joined[-1]
        if low < last_high - RANK_TOLERANCE:  # by more than rounding
            raise InputError(f"the intervals ({last_low}, {last_high}) and ({low}, {high}) overlap")
        if low <= last_high + RANK_TOLERANCE:
            joined[-1] = (last_low, high)
        else:
            joined.append((low, high))
    return IntervalSet(tuple(joined))


def intervals_by_group(
    interval: IntervalLike | None, labels: Sequence[GroupLabel]
) -> tuple[IntervalSet, ...]:
    """Return one interval set per group, in the order of ``labels``.

    A mapping must name every group and no other.
    """
    if not isinstance(interval, Mapping):
        return (as_interval_set(interval),) * len(labels)
    absent = [label for label in labels if label not in interval]
    unknown = [label for label in interval if label not in labels]
    if absent:
        raise InputError(f"interval names no interval for group {absent[0]!r}, only for {list(interval)}")
    if unknown:
        raise InputError(f"interval names group {unknown[0]!r}, which is not in the data: {list(labels)}")
    return tuple(as_interval_set(interval[label]) for label in labels)


@njit(cache=True)
def running_weight(weights: Floats) -> Floats:
    """Return the sums of the first 0, 1, ..., n weights.

    With Kahan's compensation: the plain sum of a million fractions is off by more than ``RANK_TOLERANCE``.
    """
    sums = np.zeros(weights.size + 1)
    total, lost = 0.0, 0.0
    for i in range(weights.size):
        term = weights[i] - lost
        following = total + term
        lost = (following - total) - term  # rounding error, which corrects the next term
        total = following
        sums[i + 1] = total
    return sums


def tie_ends(ranked: Floats) -> Ints:
    """Return 0 and the end of each block of equal scores, in ascending or descending scores."""
    changes = np.flatnonzero(ranked[1:] != ranked[:-1]) + 1  # a difference of large scores may overflow
    return np.concatenate([[0], changes, [ranked.size]])


def band_weights(scores: Floats, weights: Floats | None, interval: IntervalSet) -> Floats:
    """Return the fraction of the interval of each member of one group; the fractions add up to 1.

    A block of tied scores with weight ``W`` at ranks ``[F̄(s), F̄(s⁻))`` holds
    ``passed(F̄(s⁻)) − passed(F̄(s))``, and a member of it with weight ``w`` holds ``w / W`` of that.

    Parameters
    ----------
    scores : (n,)
        Scores of one group, in any order.
    weights : (n,) or None
        Positive weights; None means all equal.
    """
    from_top = np.argsort(-scores, kind="stable")
    weights = np.ones(scores.size) if weights is None else weights
    above = running_weight(weights[from_top])
    ends = tie_ends(scores[from_top])
    ranks = above[ends] / above[-1]  # a block of ties lies between two of them
    shares_of_set = np.diff(interval.passed(ranks))
    # A block inside has its weight as a fraction: the difference of its ranks would be imprecise for small
    # weights. A block that reaches into the interval by at most the tolerance is outside.
    low, high = interval.starts - RANK_TOLERANCE, interval.starts + interval.lengths + RANK_TOLERANCE
    inside = ((ranks[:-1, None] >= low) & (ranks[1:, None] <= high)).any(axis=1)
    shares_of_set[shares_of_set * interval.measure <= RANK_TOLERANCE] = 0.0
    held = np.where(inside, 1 / (interval.measure * above[-1]), shares_of_set / np.diff(above[ends]))
    shares = np.empty(scores.size)
    shares[from_top] = np.repeat(held, np.diff(ends))
    return shares * weights


def _read_part(part: Any) -> tuple[float, float]:
    try:
        low, high = part
    except (TypeError, ValueError):
        low = high = None
    if not (isinstance(low, Real) and isinstance(high, Real)):
        raise InputError(f"an interval is two numbers (low, high), not {shown(part)}")
    try:
        low, high = float(low), float(high)
    except OverflowError:
        raise InputError(f"interval {shown(part)} lies outside [0, 1]") from None
    if not (0.0 <= low <= 1.0 and 0.0 <= high <= 1.0):
        raise InputError(f"interval ({low:g}, {high:g}) lies outside [0, 1]; 30% is written 0.30")
    if low >= high:
        raise InputError(f"interval ({low:g}, {high:g}) is empty or reversed; low must be below high")
    return low, high


def _percent(fraction: float) -> str:
    """Return a number in percent, without the sign."""
    return short_percent(fraction).removesuffix("%")
