"""Small dense quadratic programs in multipliers: what every step and every certificate comes down to.

There are few constraints and many parameters, so programs are solved in their duals:
``max_z ⟨linear, z⟩ − ½ zᵀ gram z`` over multipliers ``z = (λ, ν)`` with ``0 ≤ λ ≤ upper`` for constraints and
``0 ≤ ν ≤ shares · λ + beyond · ν`` for kinks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from partialfair._typing import Bools, Floats

__all__ = ["STEP_GAP", "WITNESS_GAP", "best_multipliers"]

STEP_GAP, WITNESS_GAP = 1e-8, 1e-9
"""Duality gaps of programs: steps are judged by what they achieve, but a witness keeps the root of its gap as
a residual, and that of 1e-8 is as large as the usual tolerance."""
_INFINITY = 1e30
_ROUNDS = 10
"""How often the set of active constraints is corrected."""
_DEPENDENT = 1e-12
"""Reciprocal condition of a system that has more than one solution, up to rounding."""
_SAME = 1e-12
"""Multipliers that are so near to their bound, relative to it, are on it."""
_ROUNDING = 1e-9
"""What the exact solution on the active constraints may violate, relative to the largest entries."""


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
    bounded = np.hstack([-shares, np.eye(n_kinks) - beyond])
    high = np.concatenate([np.minimum(upper, _INFINITY), np.full(n_kinks, _INFINITY)])
    low, heights = np.full(n_kinks, -_INFINITY), np.zeros(n_kinks)
    limits = (bounded, low, heights) if n_kinks else (None, None, None)
    solver.setup(gram, -linear, None, None, *limits, np.zeros(m + n_kinks), high)
    solver.solve()
    z = np.nan_to_num(np.array(solver.result.x))
    z[:m] = np.clip(z[:m], 0.0, upper)
    finite = np.flatnonzero(upper < _INFINITY)
    rows = np.vstack([np.eye(m + n_kinks)[finite], bounded])
    duals = np.concatenate([np.nan_to_num(solver.result.z_bu)[finite], np.nan_to_num(solver.result.z_u)])
    program = _Program(gram, linear, rows, np.concatenate([upper[finite], heights]))
    exact = program.solved(z > np.nan_to_num(solver.result.z_bl), duals > program.limits - rows @ z)
    if exact is not None:
        reached = finite[np.abs(upper - exact[:m])[finite] <= _SAME * upper[finite]]
        exact[reached] = upper[reached]
        return exact
    for _ in range(2):  # first those that bound others
        z[m:] = np.clip(z[m:], 0.0, np.maximum(shares @ z[:m] + beyond @ z[m:], 0.0))
    return np.asarray(z)


@dataclass(frozen=True, eq=False)
class _Program:
    """``max ⟨linear, z⟩ − ½ zᵀ gram z`` subject to ``z ≥ 0`` and ``rows z ≤ limits``.

    An interior solution gives all constraints a little of a multiplier, and together that is a residual. What
    is active in it is guessed from that, and solving for it tells what is not (Hintermüller, Ito and Kunisch
    2002).
    """

    gram: Floats
    linear: Floats
    rows: Floats
    limits: Floats

    def solved(self, positive: Bools, active: Bools) -> Floats | None:
        """Return the exact solution; None if the guess does not lead to it, or if many are best.

        Parameters
        ----------
        positive, active
            A guess of which entries are positive, and which limits hold with equality.
        """
        for _ in range(_ROUNDS):
            found = self._with_active(positive, active)
            if found is None:
                return None
            z, duals = found
            slopes = self.linear - self.gram @ z - duals @ self.rows
            slack = self.limits - self.rows @ z
            wrong = [-z[positive], slopes[~positive], -duals[active], -slack[~active]]
            if max(entries.max(initial=0.0) for entries in wrong) <= _ROUNDING * (
                1 + np.abs(self.linear).max()
            ):
                return np.maximum(z, 0.0)
            positive = np.where(positive, z > 0, slopes > 0)
            active = np.where(active, duals > 0, slack < 0)
        return None

    def _with_active(self, positive: Bools, active: Bools) -> tuple[Floats, Floats] | None:
        """Return z and the multipliers of limits, given what is active; None if that does not tell."""
        z, duals = np.zeros(positive.size), np.zeros(active.size)
        rows = self.rows[np.ix_(active, positive)]
        n, n_active = int(positive.sum()), int(active.sum())
        if n_active > n:
            return None
        if n:
            system = np.zeros((n + n_active, n + n_active))
            system[:n, :n] = self.gram[np.ix_(positive, positive)]
            system[:n, n:], system[n:, :n] = rows.T, rows
            factor, pivots, failed = dgetrf(system)
            size = float(np.abs(system).sum(axis=0).max())
            if failed or dgecon(factor, size)[0] <= _DEPENDENT:
                return None
            right = np.concatenate([self.linear[positive], self.limits[active]])
            z[positive], duals[active] = np.split(dgetrs(factor, pivots, right)[0], [n])
        return z, duals
