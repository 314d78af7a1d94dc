"""Which of many models are shown to be fair, all at once: tests in an order that was fixed beforehand.

Models are put in an order that rows held out had no say in, the most promising first. "Its gap is larger than
allowed" is the null hypothesis of each; rejecting it certifies the model. A few *starts* share the error δ.
A walk begins at each of them with the start's share, goes on with all of its error from every model that is
certified, takes up the share of a start that it comes to, and ends at the first model that is not certified:

    place in the order    0     1     2     3     4     5     6
    share of a start      δ/2   0     0     δ/2   0     0     0
    tested at             δ/2   δ/2   δ/2   δ     δ     δ     –     (5 fails: the walk ends, 6 is not tested)

This is the fallback procedure (Wiens 2003), which does a little more than the fixed sequences with several
starts of "Learn then Test" (Angelopoulos et al. 2021). With probability 1 − δ nothing is certified wrongly:
let t₁ < t₂ < … be the places whose gap *is* too large. If one of them is certified, look at the first, t_j.
None of those before it was certified, so every walk ended at t_{j−1} at the latest, and t_j was tested with
no more than the shares of the starts in (t_{j−1}, t_j]. Each of these tests errs with no more than its level,
and the shares add up to δ.

So all certified models may be compared by any other measure, on the same rows, and the best be taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

__all__ = ["certified_places", "lowest_of_all", "rows_needed", "start_places"]

N_STARTS = 3
"""Starts that share the error: at the beginning, and after a third and two thirds of the order.

The first alone fails where the models that seem fairest in training are fitted to its noise, and no fairer
than looser ones. Every further start takes error from the others: the quantile of the normal distribution is
1.64 at 5 %, 1.96 at a half of it and 2.13 at a third. The choice matters little: on 23 splits of law school,
nine models each, one, two and three starts certified some model equally often (18 times) and three reached
the loosest on average; other places and shares of the error, of which eight were tried, gave 15 to 19 times.
"""


def start_places(n_models: int, n_starts: int = N_STARTS) -> tuple[int, ...]:
    """Return the places at which walks begin: the first, and others at equal distances."""
    return tuple(sorted({n_models * k // n_starts for k in range(n_starts)})) if n_models else ()


def certified_places(
    n_models: int, error: float, passes: Callable[[int, float], bool], starts: Sequence[int] | None = None
) -> dict[int, float]:
    """Return the places in the order that are certified, each with the error at which it was tested.

    Parameters
    ----------
    n_models
        How many there are.
    error
        δ, the probability with which one or more may be certified wrongly.
    passes
        ``passes(place, level)``: whether the model at a place passes a test that errs with no more than that
        probability; it is asked in order, and not of all.
    starts
        Places at which walks begin; by default those of `start_places`.
    """
    begun = set(start_places(n_models) if starts is None else starts)
    certified: dict[int, float] = {}
    n_shares = 0
    for place in range(n_models):
        n_shares += place in begun
        if not n_shares:
            continue
        level = error * n_shares / len(begun)
        if passes(place, level):
            certified[place] = level
        else:
            n_shares = 0
    return certified


def lowest_of_all(n_models: int, error: float, bound: Callable[[int, float], float]) -> tuple[int, float]:
    """Return the model with the lowest upper bound, all bounds holding at once but with that probability.

    The error is divided by the number of models (Bonferroni). That holds whichever is taken for whatever
    reason, and no order is needed; bounds that are unknown, nan, come last.
    """
    bounds = [bound(place, error / n_models) for place in range(n_models)]
    lowest = min(range(n_models), key=lambda place: (math.isnan(bounds[place]), bounds[place]))
    return lowest, bounds[lowest]


def rows_needed(n_rows: int, gaps: Sequence[float], radii: Sequence[float], allowed: float) -> int | None:
    """Return roughly how many rows would certify a model; None where no gap is below what is allowed.

    It assumes that gaps stay as they were estimated, and that bounds come closer to them by 1/√n.
    """
    needed = [
        n_rows * (radius / (allowed - gap)) ** 2
        for gap, radius in zip(gaps, radii, strict=True)
        if gap < allowed
    ]
    if not needed or not math.isfinite(min(needed)):
        return None
    least = max(min(needed), n_rows + 1.0)  # so many were not enough
    step = 10.0 ** (math.floor(math.log10(least)) - 1)
    return round(math.ceil(least / step) * step)
