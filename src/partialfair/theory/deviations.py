"""Bounds how far shares of a sample are from those of the population, and how many rows that takes.

`dkw_bound` and `uniform_deviation_bound` bound deviations, for one scorer and for all scorers of a class;
`members_needed`, `required_size` and `smallest_gap` turn such bounds round.
"""

from __future__ import annotations

import math

from scipy import special

from partialfair.data.intervals import IntervalSet, as_interval_set
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_choice, check_count, check_fraction, check_number
from partialfair.utils.typing import GapScale, IntervalLike


def dkw_bound(n_effective: float, confidence: float = 0.95, *, n_comparisons: int = 1) -> float:
    """Dvoretzky–Kiefer–Wolfowitz bound on ``sup_θ |F̄_n(θ) − F̄(θ)|`` for one fixed scorer.

    ``ε = sqrt(log(2 m / (1 − confidence)) / (2 n))`` (with Massart's constant): with that confidence, all of
    ``m`` empirical distributions of ``n`` scores are within ε of the truth everywhere at once.

    Parameters
    ----------
    n_effective
        Number of scores; with weights ``(Σw)² / Σw²``, for which the bound is approximate.
    confidence
        In (0, 1).
    n_comparisons
        ``m``: how many groups must hold simultaneously (union bound).
    """
    check_number(n_effective, "n_effective", low=1.0)
    check_fraction(confidence, "confidence")
    check_count(n_comparisons, "n_comparisons")
    return math.sqrt(math.log(2 * n_comparisons / (1 - confidence)) / (2 * n_effective))


def uniform_deviation_bound(
    n: int, *, vc_dimension: int, n_points: int, n_groups: int, confidence: float = 0.95
) -> float:
    """Return the paper's ``E(n_k)``, a bound that holds for every scorer of a class at once (App. F, step 2).

    ``E(n) = sqrt(8 VC (log n + 1) / n) + sqrt(2 log(4 |Î| |G| / δ) / n)`` with ``δ = 1 − confidence``.

    Parameters
    ----------
    n
        Members of the group.
    vc_dimension
        VC dimension of ``{ξ → 1[h_w(ξ) > θ]}``; d + 1 for linear scorers of d features and a free θ.
    n_points
        ``|Î|``, the number of ranks at which the constraint is imposed.
    n_groups
        ``|G|``.
    confidence
        In (0, 1).

    Notes
    -----
    A gap on the interval scale is off by up to ``2 E(n) / (β − α)``. At usual sample sizes that exceeds 1 and
    says nothing; `gap_bound` adds it up and `describe_generalization` says so in words.

    The formula is valid, and larger than it need be. Symmetrisation, Massart's lemma and Sauer's lemma give
    the first root. McDiarmid's inequality then asks only for ``sqrt(log(2 |G| / δ) / (2 n))``: the supremum
    runs over all thresholds already, so |Î| need not be paid for.
    """
    check_count(n, "n")
    check_fraction(confidence, "confidence")
    for name, value in {"vc_dimension": vc_dimension, "n_points": n_points, "n_groups": n_groups}.items():
        check_count(value, name)
    # Step 2 of Appendix F: Rademacher complexity by Sauer's lemma, then McDiarmid's inequality.
    delta = 1 - confidence
    complexity = math.sqrt(8 * vc_dimension * (math.log(n) + 1) / n)
    return complexity + math.sqrt(2 * math.log(4 * n_points * n_groups / delta) / n)


def members_needed(
    deviation: float, *, vc_dimension: int, n_points: int, n_groups: int, confidence: float = 0.95
) -> int:
    """Return the smallest n with ``E(n) ≤ deviation``, E as in `uniform_deviation_bound`.

    E falls with n, so the n is found by bisection.
    """
    check_number(deviation, "deviation", above=0.0)

    def enough(n: int) -> bool:
        bound = uniform_deviation_bound(
            n, vc_dimension=vc_dimension, n_points=n_points, n_groups=n_groups, confidence=confidence
        )
        return bound <= deviation

    low, high = 0, 1  # low is too few, and high will be enough
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def describe_bound(bound: float) -> str:
    """Write a bound on a gap in words: a bound of 1 or more is vacuous, since no gap exceeds 1."""
    return f"{bound:.3g} (vacuous: no gap exceeds 1)" if bound >= 1 else f"{bound:.3g}"


def required_size(
    max_gap: float,
    *,
    interval: IntervalLike = (0.0, 1.0),
    true_gap: float = 0.0,
    confidence: float = 0.95,
    power: float = 0.8,
    gap_scale: GapScale = "interval",
) -> int:
    """Return how many members a group needs so that its gap is shown to be at most ``max_gap``.

    ``n = ⌈2 v (z + 2 K)² / (m (max_gap − true_gap))²⌉``, where m is the measure of the interval (1 on the
    absolute scale), v the largest ``p (1 − p)`` of a rank p in it, z the normal quantile at ``confidence``,
    and K Kolmogorov's quantile at ``power``. With so many, a statistical-parity gap that is ``true_gap`` in
    truth has an ``at_most`` in `partialfair.metrics.fairness_report` of ``max_gap`` or less, with probability
    ``power`` or more.

    Parameters
    ----------
    max_gap, true_gap
        What is to be shown, and what is true; 0 ≤ true_gap < max_gap.
    interval
        One for all groups.
    confidence, power
        Of the bound ``at_most``, and how probable it is to be low enough.
    gap_scale
        As in `fairness_report`.

    Notes
    -----
    A difference of two shares, each of n rows, has the standard error ``sqrt(2 v / n) / m`` where it is
    largest. ``at_most`` adds z of these to the widest difference that is measured, and that exceeds the truth
    by less than 2 K of them: K/√n is what the largest deviation between two distributions stays below with
    that probability, and ½ is the largest ``sqrt(v)`` there is. Far from rank ½ this is more than is needed,
    by up to a third; by half, where besides the true gap is not 0: then few thresholds compete, and errors
    that make the difference smaller do no harm.

    The other group is taken to be as large. If it is much larger, half of n suffices. Several groups need a
    little more, because more pairs compete. Members are counted in the whole group, not in the interval;
    with weights they are effective ones, ``(Σw)² / Σw²``.

    Examples
    --------
    >>> from partialfair.theory import required_size
    >>> required_size(0.1), required_size(0.1, interval=(0.05, 0.30))
    (719, 9655)
    """
    part = _one_interval(interval)
    check_number(max_gap, "max_gap", above=0.0, high=1.0)
    check_number(true_gap, "true_gap", low=0.0)
    if true_gap >= max_gap:
        raise InputError(f"true_gap must be below max_gap={max_gap:g}, not {true_gap:g}")
    room = max_gap - true_gap
    errors = _errors_to_allow(confidence, power) * _unit_error(part, gap_scale)  # times 1/√n
    # No bound is below the gap of rows so rare that a sample of n rows may hold none of them.
    inside = part.measure if gap_scale == "interval" else 1.0
    unseen = math.log(1 - confidence) / math.log1p(-room) / inside if room < 1 else 1.0
    return math.ceil(max((errors / room) ** 2, unseen))


def smallest_gap(
    n: float,
    *,
    interval: IntervalLike = (0.0, 1.0),
    confidence: float = 0.95,
    power: float = 0.8,
    gap_scale: GapScale = "interval",
) -> float:
    """Return the smallest gap that n members of the smallest group can show.

    ``g = (z + 2 K) sqrt(2 v / n) / m``, the inverse of `required_size` at a true gap of 0: smaller gaps
    cannot be told from 0. 1 if that is more, as no gap exceeds 1.

    Parameters
    ----------
    n
        Effective members of the smallest group, in the interval or not.
    interval, confidence, power, gap_scale
        As in `required_size`.

    Examples
    --------
    >>> from partialfair.theory import smallest_gap
    >>> round(smallest_gap(1000, interval=(0.05, 0.30)), 2)
    0.31
    """
    check_number(n, "n", above=0.0)
    part = _one_interval(interval)
    gap = _errors_to_allow(confidence, power) * _unit_error(part, gap_scale) / math.sqrt(n)
    inside = n * (part.measure if gap_scale == "interval" else 1.0)
    unseen = 1 - float((1 - confidence) ** (1 / inside))
    return min(1.0, max(gap, unseen))


def _errors_to_allow(confidence: float, power: float) -> float:
    """Return ``z + 2 K``, in standard errors: what the bound adds, and what the measured gap may."""
    check_fraction(confidence, "confidence")
    check_number(power, "power", above=0.0)
    if power >= 1:
        raise InputError(f"power must be below 1, not {power:g}")
    return float(special.ndtri(confidence) + 2 * special.kolmogi(1 - power))


def _unit_error(part: IntervalSet, gap_scale: GapScale) -> float:
    """Return ``sqrt(2 v) / m``: the standard error of a difference, of one member in each group."""
    check_choice(gap_scale, "gap_scale", ("interval", "absolute"))
    nearest = [min(max(0.5, low), high) for low, high in part.parts]  # where p (1 − p) is largest
    widest = max(p * (1 - p) for p in nearest)
    return math.sqrt(2 * widest) / (part.measure if gap_scale == "interval" else 1.0)


def _one_interval(interval: IntervalLike) -> IntervalSet:
    if isinstance(interval, dict):
        raise InputError("interval must be one for all groups, not one for each")
    return as_interval_set(interval)
