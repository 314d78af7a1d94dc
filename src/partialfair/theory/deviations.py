"""Bounds on the deviation of proportions in a sample from those in the population.

`dkw_bound` holds for one fixed scorer, `uniform_deviation_bound` for all scorers of a class; `members_needed`
inverts the latter.
"""

from __future__ import annotations

import math

from partialfair.utils.checks import check_count, check_fraction, check_number


def dkw_bound(n_effective: float, confidence: float = 0.95, *, n_comparisons: int = 1) -> float:
    """Return the Dvoretzky–Kiefer–Wolfowitz bound on ``sup_θ |F̄_n(θ) − F̄(θ)|`` for one fixed scorer.

    ``ε = sqrt(log(2 m / (1 − confidence)) / (2 n))`` (with Massart's constant): with that confidence, all of
    ``m`` empirical distributions of ``n`` scores are within ε of the truth at all θ simultaneously.

    Parameters
    ----------
    n_effective : float
        Number of scores; with weights ``(Σw)² / Σw²``, for which the bound is approximate.
    confidence : float, default=0.95
        Confidence level, in (0, 1).
    n_comparisons : int, default=1
        ``m``, the number of groups for which the bound holds simultaneously (union bound).

    Returns
    -------
    float
        The bound ε.

    See Also
    --------
    uniform_deviation_bound : The bound for all scorers of a class.

    Examples
    --------
    >>> from partialfair.theory import dkw_bound
    >>> round(dkw_bound(1000), 4)
    0.0429
    """
    check_number(n_effective, "n_effective", low=1.0)
    check_fraction(confidence, "confidence")
    check_count(n_comparisons, "n_comparisons")
    return math.sqrt(math.log(2 * n_comparisons / (1 - confidence)) / (2 * n_effective))


def uniform_deviation_bound(
    n: int, *, vc_dimension: int, n_points: int, n_groups: int, confidence: float = 0.95
) -> float:
    """Return the paper's ``E(n_k)``, a bound for all scorers of a class simultaneously (Appendix F, step 2).

    ``E(n) = sqrt(8 VC (log n + 1) / n) + sqrt(2 log(4 |Î| |G| / δ) / n)`` with ``δ = 1 − confidence``.

    Parameters
    ----------
    n : int
        Members of the group.
    vc_dimension : int
        VC dimension of ``{ξ → 1[h_w(ξ) > θ]}``; d + 1 for linear scorers of d features and a free θ.
    n_points : int
        ``|Î|``, the number of ranks at which the constraint is imposed.
    n_groups : int
        ``|G|``, the number of groups.
    confidence : float, default=0.95
        Confidence level, in (0, 1).

    Returns
    -------
    float
        The bound E(n).

    See Also
    --------
    dkw_bound : The bound for one fixed scorer.
    gap_bound : The bound on the gap that E(n) is part of.

    Notes
    -----
    A gap on the interval scale is off by up to ``2 E(n) / (β − α)``. At usual sample sizes that exceeds 1 and
    is vacuous; `gap_bound` computes the sum, and `describe_generalization` explains it in words.

    The formula is valid but not tight. Symmetrization, Massart's lemma and Sauer's lemma give the first root.
    McDiarmid's inequality then requires only ``sqrt(log(2 |G| / δ) / (2 n))``: the supremum already includes
    all thresholds, so the factor |Î| is not needed.

    Examples
    --------
    >>> from partialfair.theory import uniform_deviation_bound
    >>> round(uniform_deviation_bound(9674, vc_dimension=124, n_points=10, n_groups=2), 2)
    1.06
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
    """Return a bound on a gap as text; a bound of 1 or more is called vacuous, since no gap exceeds 1.

    Parameters
    ----------
    bound : float
        The bound.

    Returns
    -------
    str
        The number, with "(vacuous: no gap exceeds 1)" if it is at least 1.

    See Also
    --------
    describe_generalization : Describes a `GapBound` and its parts.

    Examples
    --------
    >>> from partialfair.theory import describe_bound
    >>> describe_bound(0.25)
    '0.25'
    """
    return f"{bound:.3g} (vacuous: no gap exceeds 1)" if bound >= 1 else f"{bound:.3g}"
