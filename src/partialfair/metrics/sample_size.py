"""Required members per group for a gap to be detected, and the smallest gap that n members can detect."""

from __future__ import annotations

import math

from scipy import special

from partialfair.data.intervals import IntervalSet, as_interval_set
from partialfair.exceptions import InputError
from partialfair.utils.checks import check_choice, check_fraction, check_number
from partialfair.utils.typing import GapScale, IntervalLike


def sample_size(
    max_gap: float,
    *,
    interval: IntervalLike = (0.0, 1.0),
    true_gap: float = 0.0,
    confidence: float = 0.95,
    power: float = 0.8,
    gap_scale: GapScale = "interval",
) -> int:
    """Return the number of members a group needs for its gap to be shown to be at most ``max_gap``.

    ``n = ⌈2 v (z + 2 K)² / (m (max_gap − true_gap))²⌉``, where m is the measure of the interval (1 on the
    absolute scale), v the largest ``p (1 − p)`` of a rank p in it, z the normal quantile at ``confidence``,
    and K Kolmogorov's quantile at ``power``. With n members, a statistical-parity gap whose true value is
    ``true_gap`` has an ``upper_bound`` in `fairness_report` of at most ``max_gap`` with a probability of at
    least ``power``.

    Parameters
    ----------
    max_gap : float
        The limit that the upper confidence bound should not exceed.
    interval : interval-like, default=(0, 1)
        Ranks from the best, the same for all groups.
    true_gap : float, default=0.0
        The assumed true gap, below ``max_gap``.
    confidence : float, default=0.95
        Confidence of ``upper_bound``.
    power : float, default=0.8
        Probability that ``upper_bound`` is at most ``max_gap``.
    gap_scale : {"interval", "absolute"}, default="interval"
        As in `fairness_report`.

    Returns
    -------
    int
        Members of the smallest group, in the whole group and not only in the interval; effective ones,
        ``(Σw)² / Σw²``, where rows have weights.

    See Also
    --------
    detectable_gap : The inverse, the smallest gap that n members can detect.
    fairness_report : The gaps with their confidence bounds.

    Notes
    -----
    A difference of two proportions, each of n rows, has a standard error of at most ``sqrt(2 v / n) / m``.
    ``upper_bound`` adds z of these standard errors to the largest measured difference. That exceeds the truth
    by less than 2 K standard errors, because the largest deviation between two distributions stays below K/√n
    with probability ``power``, and ``sqrt(v)`` is at most ½. The formula overestimates n by up to a third far
    from rank ½, and by up to half if also the true gap is above 0: then few thresholds compete for the
    maximum, and errors that reduce the difference do no harm.

    The formula assumes that the other group is equally large. If it is much larger, n/2 is enough. Several
    groups need slightly more members, because more pairs are compared.

    Examples
    --------
    >>> from partialfair.metrics import sample_size
    >>> sample_size(0.1), sample_size(0.1, interval=(0.05, 0.30))
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


def detectable_gap(
    n: float,
    *,
    interval: IntervalLike = (0.0, 1.0),
    confidence: float = 0.95,
    power: float = 0.8,
    gap_scale: GapScale = "interval",
) -> float:
    """Return the smallest gap that can be detected with n members of the smallest group.

    ``g = (z + 2 K) sqrt(2 v / n) / m``, the inverse of `sample_size` at a true gap of 0, and at most 1.
    Smaller gaps cannot be distinguished from 0.

    Parameters
    ----------
    n : float
        Effective members of the smallest group, inside and outside the interval.
    interval : interval-like, default=(0, 1)
        Ranks from the best, the same for all groups.
    confidence : float, default=0.95
        As in `sample_size`.
    power : float, default=0.8
        As in `sample_size`.
    gap_scale : {"interval", "absolute"}, default="interval"
        As in `fairness_report`.

    Returns
    -------
    float
        The gap, in (0, 1].

    See Also
    --------
    sample_size : The members that a given gap needs.

    Examples
    --------
    >>> from partialfair.metrics import detectable_gap
    >>> round(detectable_gap(1000, interval=(0.05, 0.30)), 2)
    0.31
    """
    check_number(n, "n", above=0.0)
    part = _one_interval(interval)
    gap = _errors_to_allow(confidence, power) * _unit_error(part, gap_scale) / math.sqrt(n)
    inside = n * (part.measure if gap_scale == "interval" else 1.0)
    unseen = 1 - float((1 - confidence) ** (1 / inside))
    return min(1.0, max(gap, unseen))


def _errors_to_allow(confidence: float, power: float) -> float:
    """Return ``z + 2 K``: standard errors that the bound adds, and that the measured gap may be too large."""
    check_fraction(confidence, "confidence")
    check_number(power, "power", above=0.0)
    if power >= 1:
        raise InputError(f"power must be below 1, not {power:g}")
    return float(special.ndtri(confidence) + 2 * special.kolmogi(1 - power))


def _unit_error(part: IntervalSet, gap_scale: GapScale) -> float:
    """Return ``sqrt(2 v) / m``, the standard error of a difference with one member in each group."""
    check_choice(gap_scale, "gap_scale", ("interval", "absolute"))
    nearest = [min(max(0.5, low), high) for low, high in part.parts]  # where p (1 − p) is largest
    widest = max(p * (1 - p) for p in nearest)
    return math.sqrt(2 * widest) / (part.measure if gap_scale == "interval" else 1.0)


def _one_interval(interval: IntervalLike) -> IntervalSet:
    if isinstance(interval, dict):
        raise InputError("interval must be one for all groups, not one for each")
    return as_interval_set(interval)
