"""Tests which of many coverages are too low, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats


def n_below(shares: Sequence[float], n_draws: Sequence[int], bars: Sequence[float]) -> int:
    """Return how many coverages are significantly below their limits: binomial tests, Holm at 5%."""
    each = zip(shares, n_draws, bars, strict=True)
    p_values = sorted(float(stats.binom.cdf(round(share * n), n, bar)) for share, n, bar in each)
    # The k-th smallest of m p-values is compared with 0.05 / (m − k + 1), until one is larger.
    below = 0
    while below < len(p_values) and p_values[below] <= 0.05 / (len(p_values) - below):
        below += 1
    return below
