"""How many steps the paper's algorithm needs, by its theorem."""

from __future__ import annotations

import math
from dataclasses import dataclass

from partialfair.exceptions import InputError
from partialfair.utils.checks import check_number, shown


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
    if isinstance(nu, int | float) and nu <= 0:
        raise InputError(
            f"the theorem needs nu > 0 (Slater's condition), not {shown(nu)}; at max_gap = 0 there is no "
            "such slack"
        )
    given = {"lipschitz": lipschitz, "mu": mu, "nu": nu, "epsilon": epsilon, "decrease": decrease}
    for name, value in given.items():
        check_number(value, name, above=0.0)
    c = min(1.0, 1 / (4 * lipschitz**2), mu * nu / (8 * lipschitz**4))
    epsilon_k = c * mu * epsilon**2 / 8
    n_inner = 4 * lipschitz**2 / (epsilon_k * mu) * math.log1p(4 * lipschitz**2 / (mu * epsilon_k))
    return IdcaBudget(math.ceil(2 * decrease / (c * mu * epsilon**2)), epsilon_k, math.ceil(n_inner))
