"""Small dense quadratic programs in multipliers: what every step and every certificate comes down to.

There are few constraints and many parameters, so programs are solved in their duals:
``max_z ⟨linear, z⟩ − ½ zᵀ gram z`` over multipliers ``z = (λ, ν)`` with ``0 ≤ λ ≤ upper`` for constraints and
``0 ≤ ν ≤ shares · λ + beyond · ν`` for kinks.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from partialfair._typing import Floats

__all__ = ["STEP_GAP", "WITNESS_GAP", "best_multipliers"]

STEP_GAP, WITNESS_GAP = 1e-8, 1e-9
"""Duality gaps of programs: steps are judged by what they achieve, but a witness keeps the root of its gap as
a residual, and that of 1e-8 is as large as the usual tolerance."""
_INFINITY = 1e30
_ACTIVE_ROUNDS = 10
"""How often the set of active constraints is corrected."""
_DEPENDENT = 1e-9
"""What is left of a constraint's square beside others, in units of the largest, if it says nothing new."""
_ROUNDING = 1e-9
"""What the exact solution on the active constraints may violate, relative to the largest entries."""


def _on_active(z: Floats, gram: Floats, linear: Floats, upper: Floats) -> Floats:
    """Return the exact maximiser of ``⟨linear, z⟩ − ½ zᵀ gram z`` on ``[0, upper]`` near one that is not.

    An interior solution gives all constraints a little of a multiplier, and together that is a residual.
    Active are those whose multiplier is larger than their slack; solving for them tells which are not
    (Hintermüller, Ito and Kunisch 2002). Where many are best, the interior one is their centre, and stays.
    """
    scale = np.maximum(np.diagonal(gram), np.finfo(float).tiny)
    exact, slopes = z, linear - gram @ z
    for _ in range(_ACTIVE_ROUNDS):
        towards = exact + slopes / scale
        free = (towards > 0) & (towards < upper)
        exact = np.where(towards >= upper, upper, 0.0)
        if free.any():
            root, failed = dpotrf(gram[np.ix_(free, free)], lower=1)
            if failed or np.diagonal(root).min() ** 2 <= _DEPENDENT * scale[free].max():
                return z
            exact[free] = dpotrs(root, (linear - gram @ exact)[free], lower=1)[0]
        slopes = linear - gram @ exact
        slopes[free] = 0.0
        wrong = np.where(exact > 0, 0.0, np.maximum(slopes, 0.0)) - np.where(
            exact < upper, 0.0, np.minimum(slopes, 0.0)
        )
        inside = (exact >= 0).all() and (exact <= upper).all()
        if inside and wrong.max() <= _ROUNDING * (1 + np.abs(linear).max()):
            return exact
    return z


def best_multipliers(
    gram: Floats, linear: Floats, shares: Floats, beyond: Floats, upper: Floats, gap: float = STEP_GAP
) -> Floats:
    """Return the maximiser z ≥ 0; clipped into its bounds, so that it is a witness however it was found.

    Parameters
    ----------
    gram : (m + K, m + K)
        Positive semidefinite.
    linear : (m + K,)
        The linear term.
    shares : (K, m)
        Bounds of ν by λ.
    beyond : (K, K)
        And by those ν whose own rows are 0; see `partialfair.problems.kinks`.
    upper : (m,)
        Bounds of λ.
    gap
        Duality gap at which the solver may end.
    """
    n_kinks, m = shares.shape
    if m == 0:
        return np.zeros(n_kinks)
    import piqp  # late: machines that train networks may have none

    solver = piqp.DenseSolver()
    # A gap g to a kink leaves a residual of √g in a certificate; below 1e-10 the solver stalls.
    solver.settings.eps_abs, solver.settings.eps_rel = 1e-10, 0.0
    solver.settings.eps_duality_gap_abs = gap
    solver.settings.max_iter = 100
    bounded = np.hstack([-shares, np.eye(n_kinks) - beyond]) if n_kinks else None
    solver.setup(
        gram,
        -linear,
        None,
        None,
        bounded,
        None if bounded is None else np.full(n_kinks, -_INFINITY),
        None if bounded is None else np.zeros(n_kinks),
        np.zeros(m + n_kinks),
        np.concatenate([np.minimum(upper, _INFINITY), np.full(n_kinks, _INFINITY)]),
    )
    solver.solve()
    z = np.nan_to_num(np.array(solver.result.x))
    z[:m] = np.clip(z[:m], 0.0, upper)
    if not n_kinks:
        return _on_active(z, gram, linear, upper)
    for _ in range(2):  # first those that bound others
        z[m:] = np.clip(z[m:], 0.0, np.maximum(shares @ z[:m] + beyond @ z[m:], 0.0))
    return np.asarray(z)
