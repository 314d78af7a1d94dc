"""The metrics once more, straight from the definitions: naive, exact, sharing no code with the package.

Called like the package's metrics, with `Fraction` weights and interval ends (other numbers are read as they
are printed, so 0.05 is 1/20). Scores are only compared. A gap that is not defined raises `Undefined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

HALF = Fraction(1, 2)
NEVER = float("-inf")


class Undefined(Exception):
    """The gap has no value because nobody can be counted in ``groups``."""

    def __init__(self, groups: Iterable[Any]):
        self.groups = list(groups)
        super().__init__(f"nobody to count in {self.groups}")


@dataclass(frozen=True)
class Member:
    score: float
    weight: Fraction
    positive: bool


Members = Sequence[Member]


def partial_statistical_parity_difference(
    y_true, y_score, *, sensitive_features, interval=(0, 1), gap_scale="interval", sample_weight=None
) -> Fraction:
    groups = split(y_score, sensitive_features, sample_weight)
    gap = interval_scale_gap if gap_scale == "interval" else absolute_scale_gap
    return max(
        gap(groups[k], parts_of(interval, k), groups[j], parts_of(interval, j))
        for k, j in combinations(groups, 2)
    )


def partial_demographic_parity_difference(
    y_true,
    y_score,
    *,
    sensitive_features,
    threshold,
    interval=(0, 1),
    gap_scale="interval",
    sample_weight=None,
) -> Fraction:
    groups = split(y_score, sensitive_features, sample_weight)
    return widest(
        {
            k: share_above(threshold, members, parts_of(interval, k))
            * (measure(parts_of(interval, k)) if gap_scale == "absolute" else 1)
            for k, members in groups.items()
        }
    )


def partial_group_auc_difference(
    y_true, y_score, *, sensitive_features, interval=(0, 1), ties="half", sample_weight=None
) -> Fraction:
    groups = split(y_score, sensitive_features, sample_weight)
    shares = {k: band_shares(members, parts_of(interval, k)) for k, members in groups.items()}
    return max(
        abs(chance_of_beating(groups[k], shares[k], groups[j], shares[j], ties) - HALF)
        for k, j in permutations(groups, 2)
    )


def partial_equal_opportunity_difference(y_true, y_score, **options) -> Fraction:
    return opportunity_gap(y_true, y_score, label=True, **options)


def partial_equalized_odds_difference(y_true, y_score, **options) -> Fraction:
    gaps, undefined = [], []
    for label in (True, False):
        try:
            gaps.append(opportunity_gap(y_true, y_score, label=label, **options))
        except Undefined as nobody:
            undefined += nobody.groups
    if undefined:
        raise Undefined(undefined)
    return max(gaps)


def inter_group_pairwise_difference(
    y_true, y_score, *, sensitive_features, pos_label=1, ties="half", sample_weight=None
) -> Fraction:
    upper, lower = split_by_label(y_true, y_score, sensitive_features, sample_weight, pos_label)
    return max(
        abs(auc(upper[k], lower[j], ties) + auc(lower[k], upper[j], ties) - 1)
        for k, j in permutations(upper, 2)
    )


def intra_group_pairwise_difference(
    y_true, y_score, *, sensitive_features, pos_label=1, ties="half", sample_weight=None
) -> Fraction:
    upper, lower = split_by_label(y_true, y_score, sensitive_features, sample_weight, pos_label)
    return widest({k: auc(upper[k], lower[k], ties) for k in upper})


def opportunity_gap(
    y_true,
    y_score,
    *,
    label,
    sensitive_features,
    threshold,
    interval=(0, 1),
    gap_scale="interval",
    pos_label=1,
    rank_within="group",
    sample_weight=None,
) -> Fraction:
    """pEOP, among the positives (``label=True``) or the negatives."""
    groups = split(y_score, sensitive_features, sample_weight, [y == pos_label for y in y_true])
    shares: dict[Any, Fraction | None] = {}
    for k, members in groups.items():
        ranked = members
        if rank_within == "group_and_label":
            ranked = [m for m in members if m.positive == label]
        shares[k] = labelled_share(ranked, parts_of(interval, k), label, threshold, gap_scale)
    return widest(shares)


def labelled_share(members: Members, parts, label: bool, threshold: float, gap_scale: str) -> Fraction | None:
    """Pr(score > θ̂ | label, rank in I), or on the absolute scale Pr(score > θ̂, rank in I | label)."""
    if not any(m.positive == label for m in members):
        return None
    # Pr(this member is drawn and the rank is in I), for each member with the label.
    in_band = {
        i: share * measure(parts)
        for i, share in enumerate(band_shares(members, parts))
        if members[i].positive == label
    }
    selected = sum((p for i, p in in_band.items() if members[i].score > threshold), Fraction(0))
    if gap_scale == "absolute":
        return selected / probability(members, lambda m: m.positive == label)
    return selected / sum(in_band.values()) if any(in_band.values()) else None


def interval_scale_gap(first: Members, first_parts, second: Members, second_parts) -> Fraction:
    """max_θ |Pr(score > θ | k, rank in I_k) − Pr(score > θ | k', rank in I_k')|."""
    return max(
        abs(share_above(theta, first, first_parts) - share_above(theta, second, second_parts))
        for theta in thresholds(first, second)
    )


def absolute_scale_gap(first: Members, first_parts, second: Members, second_parts) -> Fraction:
    """max |F̄_k(θ) − F̄_k'(θ)| over the θ at which one of the two ranks lies in the interval."""
    gaps = [Fraction(0)]
    for theta in thresholds(first, second):
        ranks = rank(first, theta), rank(second, theta)
        if holds(first_parts, ranks[0]) or holds(second_parts, ranks[1]):
            gaps.append(abs(ranks[0] - ranks[1]))
    return max(gaps)


def thresholds(*groups: Members) -> set[float]:
    return {NEVER} | {m.score for members in groups for m in members}


def rank(members: Members, theta: float) -> Fraction:
    """F̄(θ), the rank of a score."""
    return probability(members, lambda m: m.score > theta)


def share_above(theta: float, members: Members, parts) -> Fraction:
    """Pr(score > θ | rank in the interval)."""
    shares = band_shares(members, parts)
    return sum((s for m, s in zip(members, shares, strict=True) if m.score > theta), Fraction(0))


def band_shares(members: Members, parts) -> list[Fraction]:
    """The share of the interval that each member holds; tied members split theirs by weight."""
    shares = []
    for member in members:
        tied = sum(m.weight for m in members if m.score == member.score)
        top = rank(members, member.score)
        bottom = top + tied / sum(m.weight for m in members)
        inside = sum(max(Fraction(0), min(bottom, high) - max(top, low)) for low, high in parts)
        shares.append(inside / measure(parts) * member.weight / tied)
    return shares


def auc(upper: Members, lower: Members, ties: str) -> Fraction:
    everyone = [(Fraction(0), Fraction(1))]
    return chance_of_beating(upper, band_shares(upper, everyone), lower, band_shares(lower, everyone), ties)


def chance_of_beating(
    upper: Members, upper_shares: list[Fraction], lower: Members, lower_shares: list[Fraction], ties: str
) -> Fraction:
    tie = HALF if ties == "half" else Fraction(1)
    chance = Fraction(0)
    for a, p in zip(upper, upper_shares, strict=True):
        for b, q in zip(lower, lower_shares, strict=True):
            if a.score > b.score:
                chance += p * q
            elif a.score == b.score:
                chance += p * q * tie
    return chance


def widest(shares: Mapping[Any, Fraction | None]) -> Fraction:
    undefined = [k for k, share in shares.items() if share is None]
    if undefined:
        raise Undefined(undefined)
    return max(abs(shares[k] - shares[j]) for k, j in combinations(shares, 2))


def probability(members: Members, event: Callable[[Member], bool]) -> Fraction:
    return sum((m.weight for m in members if event(m)), Fraction(0)) / sum(m.weight for m in members)


def split(y_score, sensitive_features, sample_weight, positive=None) -> dict[Any, list[Member]]:
    """Members of each group; a weight of 0 is an absent row."""
    n = len(y_score)
    weights = [Fraction(1)] * n if sample_weight is None else [exact(w) for w in sample_weight]
    positive = [False] * n if positive is None else positive
    groups: dict[Any, list[Member]] = {}
    for k, score, weight, label in zip(sensitive_features, y_score, weights, positive, strict=True):
        if weight:
            groups.setdefault(k, []).append(Member(score, weight, label))
    return groups


def split_by_label(y_true, y_score, sensitive_features, sample_weight, pos_label):
    """Positives and negatives of each group; both must be there."""
    groups = split(y_score, sensitive_features, sample_weight, [y == pos_label for y in y_true])
    upper = {k: [m for m in members if m.positive] for k, members in groups.items()}
    lower = {k: [m for m in members if not m.positive] for k, members in groups.items()}
    lacking = [k for k in groups if not upper[k] or not lower[k]]
    if lacking:
        raise Undefined(lacking)
    return upper, lower


def parts_of(interval, group) -> list[tuple[Fraction, Fraction]]:
    """The disjoint parts ``[low, high)`` of the interval of one group."""
    if isinstance(interval, Mapping):
        interval = interval[group]
    pairs = interval if isinstance(interval[0], Sequence) else [interval]
    return [(exact(low), exact(high)) for low, high in pairs]


def measure(parts) -> Fraction:
    return sum((high - low for low, high in parts), Fraction(0))


def holds(parts, point: Fraction) -> bool:
    return any(low <= point < high for low, high in parts)


def exact(number) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(str(number))
