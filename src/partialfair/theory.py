"""Bounds of the paper as plain functions: each docstring opens with the formula it evaluates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from partialfair.exceptions import InputError

__all__ = ["IdcaBudget", "describe_bound", "dkw_bound", "idca_budget", "uniform_deviation_bound"]


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


@dataclass(frozen=True)
class IdcaBudget:
    """What Theorem thm:idca asks for: outer steps K, inner precision ε_k and inner steps T_k."""

    n_outer: int
    epsilon: float
    n_inner: int

    @property
    def n_steps(self) -> int:
        """Subgradient steps in all."""
        return self.n_outer * self.n_inner


def idca_budget(*, lipschitz: float, mu: float, nu: float, epsilon: float, decrease: float) -> IdcaBudget:
    """Return how many steps give IDCA with switching subgradients a nearly ε-KKT iterate (thm:idca).

    With ``c = min{1, 1/(4M²), μν/(8M⁴)}``: ``K = ⌈2 (f_0(w⁰) − f_lb) / (c μ ε²)⌉``, ``ε_k = c μ ε² / 8`` and
    ``T_k = ⌈4M²/(ε_k μ) · ln(1 + 4M²/(μ ε_k))⌉``.

    Two corrections of the paper: its M² in T_k must be 4M², because g_i is 2M-Lipschitz; and the distance
    from the iterate to the subproblem's solution, which is not known, is replaced by its bound 2M/μ.

    Parameters
    ----------
    lipschitz
        M, a Lipschitz constant of every f⁺ and f⁻ on a bounded 𝒲.
    mu
        μ, strong convexity of every f⁺ and f⁻ (after the shift, if one is used).
    nu
        ν of the uniform Slater condition. It is at most half the width of the surrogate bands, so there is
        none at κ = 0.
    epsilon
        Accuracy ε of the KKT point.
    decrease
        ``f_0(w⁰) − f_lb``, at most the loss at the start.
    """
    if not nu > 0:
        raise InputError(
            f"the theorem needs nu > 0 (Slater's condition), not {nu}; at max_gap = 0 there is no such slack"
        )
    for name, value in {"lipschitz": lipschitz, "mu": mu, "epsilon": epsilon, "decrease": decrease}.items():
        if not value > 0:
            raise InputError(f"{name} must be positive, not {value}")
    c = min(1.0, 1 / (4 * lipschitz**2), mu * nu / (8 * lipschitz**4))
    epsilon_k = c * mu * epsilon**2 / 8
    n_inner = 4 * lipschitz**2 / (epsilon_k * mu) * math.log1p(4 * lipschitz**2 / (mu * epsilon_k))
    return IdcaBudget(math.ceil(2 * decrease / (c * mu * epsilon**2)), epsilon_k, math.ceil(n_inner))


def describe_bound(bound: float) -> str:
    """Write a bound on a gap in words: a bound of 1 or more is vacuous, since no gap exceeds 1."""
    return f"{bound:.3g} (vacuous: no gap exceeds 1)" if bound >= 1 else f"{bound:.3g}"


def _check_size(n: float, name: str) -> None:
    if not n >= 1:
        raise InputError(f"{name} must be at least 1, not {n}")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, not {confidence}")
