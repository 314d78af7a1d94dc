"""Bounds of the paper as plain functions: each docstring opens with the formula it evaluates."""

from __future__ import annotations

import math

from partialfair.exceptions import InputError

__all__ = ["describe_bound", "dkw_bound", "uniform_deviation_bound"]


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
    _check_size(n_effective, "n_effective")
    _check_confidence(confidence)
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
    says nothing; `describe_bound` says so in words.
    """
    _check_size(n, "n")
    _check_confidence(confidence)
    delta = 1 - confidence
    complexity = math.sqrt(8 * vc_dimension * (math.log(n) + 1) / n)
    return complexity + math.sqrt(2 * math.log(4 * n_points * n_groups / delta) / n)


def describe_bound(bound: float) -> str:
    """Write a bound on a gap in words: a bound of 1 or more is vacuous, since no gap exceeds 1."""
    return f"{bound:.3g} (vacuous: no gap exceeds 1)" if bound >= 1 else f"{bound:.3g}"


def _check_size(n: float, name: str) -> None:
    if not n >= 1:
        raise InputError(f"{name} must be at least 1, not {n}")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, not {confidence}")
