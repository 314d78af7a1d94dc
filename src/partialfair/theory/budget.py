"""Evaluates the paper's theorem on the number of steps of IDCA (Theorem 6.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from partialfair.exceptions import InputError
from partialfair.utils.checks import check_number, shown


@dataclass(frozen=True)
class IdcaBudget:
    """Numbers of steps and precision from Theorem 6.5.

    Attributes
    ----------
    n_outer : int
        Outer steps K.
    epsilon : float
        Inner precision ε_k.
    n_inner : int
        Inner steps T_k.
    """

    n_outer: int
    epsilon: float
    n_inner: int

    @property
    def n_steps(self) -> int:
        """Total number of subgradient steps."""
        return self.n_outer * self.n_inner


def idca_budget(*, lipschitz: float, mu: float, nu: float, epsilon: float, decrease: float) -> IdcaBudget:
    """Return the steps after which IDCA with switching subgradients is at a nearly ε-KKT point (Theorem 6.5).

    With ``c = min{1, 1/(4M²), μν/(8M⁴)}``: ``K = ⌈2 (f_0(w⁰) − f_lb) / (c μ ε²)⌉``, ``ε_k = c μ ε² / 8`` and
    ``T_k = ⌈4M²/(ε_k μ) · ln(1 + 4M²/(μ ε_k))⌉``.

    Parameters
    ----------
    lipschitz : float
        M, a Lipschitz constant of every f⁺ and f⁻ on a bounded 𝒲.
    mu : float
        Strong convexity μ of every f⁺ and f⁻ (after the shift, if one is used).
    nu : float
        The ν of the uniform Slater condition. It is at most half of ``max_gap``, so there is none at
        ``max_gap=0``.
    epsilon : float
        Accuracy ε of the KKT point.
    decrease : float
        ``f_0(w⁰) − f_lb``, at most the loss at the start.

    Returns
    -------
    IdcaBudget
        K, ε_k and T_k.

    See Also
    --------
    partialfair.optimization.problems.estimate_constants : M, μ and ν of a problem.

    Notes
    -----
    Two corrections of the paper: its M² in T_k must be 4M², because g_i is 2M-Lipschitz; and the unknown
    distance from the iterate to the subproblem's solution is replaced by its bound 2M/μ.

    Examples
    --------
    >>> from partialfair.theory import idca_budget
    >>> budget = idca_budget(lipschitz=1.0, mu=1.0, nu=0.4, epsilon=0.1, decrease=0.7)
    >>> budget.n_outer, budget.n_inner
    (2800, 708266)
    """
    if isinstance(nu, int | float) and nu <= 0:
        raise InputError(
            f"the theorem needs nu > 0 (Slater's condition), not {shown(nu)}; at max_gap = 0 there is no "
            "such slack"
        )
    given = {"lipschitz": lipschitz, "mu": mu, "nu": nu, "epsilon": epsilon, "decrease": decrease}
    for name, value in given.items():
        check_number(value, name, above=0.0)
    # Python's floats raise where NumPy's overflow.
    lipschitz, mu, nu, epsilon, decrease = map(float, given.values())
    try:  # in the order of Theorem 6.5: c, K, ε_k and T_k
        m_squared = lipschitz**2
        c = min(1.0, 1 / (4 * m_squared), mu * nu / (8 * m_squared**2))
        n_outer = math.ceil(2 * decrease / (c * mu * epsilon**2))
        epsilon_k = c * mu * epsilon**2 / 8
        n_inner = math.ceil(4 * m_squared / (epsilon_k * mu) * math.log1p(4 * m_squared / (mu * epsilon_k)))
    except (OverflowError, ZeroDivisionError):
        raise InputError(
            "the theorem's numbers of steps are too large for a float; use a larger epsilon, or a smaller "
            "domain, on which lipschitz is smaller"
        ) from None
    return IdcaBudget(n_outer, epsilon_k, n_inner)
