"""How many members a group needs for a gap to be detected, and which gap so many members detect."""

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
    """Return how many members a group needs so that its gap is shown to be at most ``max_gap``.

    ``n = ⌈2 v (z + 2 K)² / (m (max_gap − true_gap))²⌉``, where m is the measure of the interval (1 on the
    absolute scale), v the largest ``p (1 − p)`` of a rank p in it, z the normal quantile at ``confidence``,
    and K Kolmogorov's quantile at ``power``. With so many, a statistical-parity gap that is ``true_gap`` in
    truth has an ``upper_bound`` in `fairness_report` of ``max_gap`` or less, with probability ``power`` or
    more.

    Parameters
    ----------
    max_gap, true_gap
        What is to be shown, and what is true; 0 ≤ true_gap < max_gap.
    interval
        One for all groups.
    confidence, power
        Of the bound ``upper_bound``, and how probable it is to be low enough.
    gap_scale
        As in `fairness_report`.

    Notes
    -----
    A difference of two shares, each of n rows, has the standard error ``sqrt(2 v / n) / m`` where it is
    largest. ``upper_bound`` adds z of these to the largest difference that is measured, and that exceeds the
    truth by less than 2 K of them: K/√n is what the largest deviation between two distributions stays below
    with that probability, and ½ is the largest ``sqrt(v)`` there is. Far from rank ½ this is more than is
    needed, by up to a third; by half, if the true gap is not 0 either: then few thresholds compete, and errors
    errors that make the difference smaller do no harm.

    The other group is taken to be as large. If it is much larger, half of n suffices. Several groups need a
    little more, because more pairs compete. Members are counted in the whole group, not in the interval;
    with weights they are effective ones, ``(Σw)² / Σw²``.

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
    """Return the smallest gap that n members of the smallest group can show.

    ``g = (z + 2 K) sqrt(2 v / n) / m``, the inverse of `sample_size` at a true gap of 0: smaller gaps
    cannot be told from 0. 1 if that is more, as no gap exceeds 1.

    Parameters
    ----------
    n
        Effective members of the smallest group, in the interval or not.
    interval, confidence, power, gap_scale
        As in `sample_size`.

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
