"""Small dense quadratic programs in multipliers: what every step and every certificate comes down to.

There are few constraints and many parameters, so programs are solved in their duals:
``max_z ⟨linear, z⟩ − ½ zᵀ gram z`` over multipliers ``z = (λ, ν)`` with ``0 ≤ λ ≤ upper`` for constraints and
``0 ≤ ν ≤ shares · λ + beyond · ν`` for kinks.
"""

from __future__ import annotations

import numpy as np

from partialfair._typing import Floats

__all__ = ["STEP_GAP", "WITNESS_GAP", "best_multipliers"]

STEP_GAP, WITNESS_GAP = 1e-8, 1e-9
"""Duality gaps of programs: steps are judged by what they achieve, but a witness keeps the root of its gap as
a residual, and that of 1e-8 is as large as the usual tolerance."""
_INFINITY = 1e30


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
    for _ in range(2):  # first those that bound others
        z[m:] = np.clip(z[m:], 0.0, np.maximum(shares @ z[:m] + beyond @ z[m:], 0.0))
    return np.asarray(z)
