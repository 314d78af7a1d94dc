"""Small dense quadratic programs in multipliers: what every step and every certificate comes down to.

There are few constraints and many parameters, so programs are solved in their duals:
``max_z ⟨linear, z⟩ − ½ zᵀ gram z`` over multipliers ``z = (λ, ν)`` with ``0 ≤ λ ≤ upper`` for constraints and
``0 ≤ ν ≤ room = shares · λ + beyond · ν`` for kinks. Some may go back as well, ``−backs · room ≤ ν``, and
those that belong to a border balance: ``balance · ν = 0``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from partialfair.optimization.problems.programs import QuadraticProgram, Tolerances, solve_program
from partialfair.utils.typing import Bools, Floats

__all__ = ["STEP_GAP", "WITNESS_GAP", "Borders", "best_multipliers"]

STEP_GAP, WITNESS_GAP = 1e-8, 1e-9
"""Duality gaps of programs: steps are judged by what they achieve, but a witness keeps the root of its gap as
a residual, and that of 1e-8 is as large as the usual tolerance."""
_TOLERANCES = Tolerances(
    absolute=1e-10,  # below that PIQP stalls
    relative=0.0,
    gap_absolute=STEP_GAP,  # a gap g to a kink leaves a residual of √g in a certificate
    gap_relative=1e-9,
    max_iter=100,
)
_INFINITY = 1e30
"""Upper bounds that are larger are none."""
_ROUNDS = 10
"""How often the set of active constraints is corrected."""
_DEPENDENT = 1e-12
"""Reciprocal condition of a system that has more than one solution, up to rounding."""
_SAME = 1e-12
"""Multipliers that are so near to their bound, relative to it, are on it."""
_ROUNDING = 1e-9
"""What the exact solution on the active constraints may violate, relative to the largest entries."""


@dataclass(frozen=True, eq=False)
class Borders:
    """What kinks of borders ask of multipliers: see `partialfair.optimization.problems.kinks`.

    Attributes
    ----------
    backs : (K,)
        How far each may go back, in units of how far it may go.
    balance : (n_borders, K)
        Sums that are 0.
    """

    backs: Floats
    balance: Floats

    @classmethod
    def none(cls, n_kinks: int) -> Borders:
        """Return none."""
        return cls(np.zeros(n_kinks), np.empty((0, n_kinks)))

    def bounded(self, shares: Floats, beyond: Floats) -> Floats:
        """Return rows of z that are ≤ 0: ``ν − room``, and ``−ν − backs · room`` where ν may go back."""
        kinks, room = np.eye(self.backs.size), np.hstack([shares, beyond])
        forward = np.hstack([-shares, kinks - beyond])
        two_sided = np.flatnonzero(self.backs)
        back = -self.backs[:, None] * room
        back[:, shares.shape[1] :] -= kinks
        return np.vstack([forward, back[two_sided]])

    def balanced(self, multipliers: Floats) -> Floats:
        """Return multipliers, those on the heavier side of a border made smaller until it balances."""
        for amounts in self.balance:
            flows = amounts * multipliers
            up, down = flows[flows > 0].sum(), -flows[flows < 0].sum()
            if up != down:
                heavier = flows > 0 if up > down else flows < 0
                multipliers = np.where(heavier, multipliers * (min(up, down) / max(up, down)), multipliers)
        return multipliers


def best_multipliers(
    gram: Floats,
    linear: Floats,
    shares: Floats,
    beyond: Floats,
    upper: Floats,
    gap: float = STEP_GAP,
    borders: Borders | None = None,
) -> Floats:
    """Return the maximiser z; clipped into its bounds, so that it is a witness however it was found.

    Parameters
    ----------
    gram : (m + K, m + K)
        Positive semidefinite.
    linear : (m + K,)
        The linear term.
    shares : (K, m)
        Bounds of ν by λ.
    beyond : (K, K)
        And by those ν whose own rows are 0; see `partialfair.optimization.problems.kinks`.
    upper : (m,)
        Bounds of λ.
    gap
        Duality gap at which the solver may end.
    borders
        Of kinks, if they have any.
    """
    n_kinks, m = shares.shape
    if m == 0:
        return np.zeros(n_kinks)
    borders = Borders.none(n_kinks) if borders is None else borders
    free = np.append(np.zeros(m), borders.backs) > 0
    bounded = borders.bounded(shares, beyond)
    heights = np.zeros(len(bounded))
    equal = np.hstack([np.zeros((len(borders.balance), m)), borders.balance])
    program = QuadraticProgram(
        gram,
        -linear,
        bounded if n_kinks else None,
        heights if n_kinks else None,
        equal if len(equal) else None,
        np.where(free, -np.inf, 0.0),
        np.append(upper, np.full(n_kinks, np.inf)),
    )
    optimum = solve_program(program, replace(_TOLERANCES, gap_absolute=gap))
    if optimum is None:
        return np.zeros(m + n_kinks)
    z = optimum.x
    z[:m] = np.clip(z[:m], 0.0, upper)
    finite = np.flatnonzero(upper < _INFINITY)
    rows = np.vstack([np.eye(m + n_kinks)[finite], bounded])
    active_set = _ActiveSet(gram, linear, rows, np.concatenate([upper[finite], heights]), equal, free)
    duals = np.concatenate([optimum.high[finite], optimum.rows])
    exact = active_set.solved(z > optimum.low, duals > active_set.limits - rows @ z)
    if exact is not None:
        reached = finite[np.abs(upper - exact[:m])[finite] <= _SAME * upper[finite]]
        exact[reached] = upper[reached]
        return exact
    for _ in range(2):  # first those that bound others
        room = np.maximum(shares @ z[:m] + beyond @ z[m:], 0.0)
        z[m:] = np.clip(z[m:], -borders.backs * room, room)
    z[m:] = borders.balanced(z[m:])
    return np.asarray(z)


@dataclass(frozen=True, eq=False)
class _ActiveSet:
    """``max ⟨linear, z⟩ − ½ zᵀ gram z`` with ``rows z ≤ limits``, ``equal z = 0``, and z ≥ 0 where not free.

    An interior solution gives all constraints a little of a multiplier, and together that is a residual. What
    is active in it is guessed from that, and solving for it tells what is not (Hintermüller, Ito and Kunisch
    2002).
    """

    gram: Floats
    linear: Floats
    rows: Floats
    limits: Floats
    equal: Floats
    free: Bools

    def solved(self, positive: Bools, active: Bools) -> Floats | None:
        """Return the exact solution; None if the guess does not lead to it, or if many are best.

        Parameters
        ----------
        positive, active
            A guess of which entries are positive, and which limits hold with equality.
        """
        for _ in range(_ROUNDS):
            positive = positive | self.free
            found = self._with_active(positive, active)
            if found is None:
                return None
            z, duals, equal_duals = found
            slopes = self.linear - self.gram @ z - duals @ self.rows - equal_duals @ self.equal
            slack = self.limits - self.rows @ z
            wrong = [-z[positive & ~self.free], slopes[~positive], -duals[active], -slack[~active]]
            if max(entries.max(initial=0.0) for entries in wrong) <= _ROUNDING * (
                1 + np.abs(self.linear).max()
            ):
                return np.where(self.free, z, np.maximum(z, 0.0))
            positive = np.where(positive, z > 0, slopes > 0)
            active = np.where(active, duals > 0, slack < 0)
        return None

    def _with_active(self, positive: Bools, active: Bools) -> tuple[Floats, Floats, Floats] | None:
        """Return z, multipliers of limits and of sums, given what is active; None if that does not tell."""
        z, duals, equal_duals = np.zeros(positive.size), np.zeros(active.size), np.zeros(len(self.equal))
        balanced = self.equal[:, positive].any(axis=1)  # sums of nothing are 0 anyway
        rows = np.vstack([self.rows[np.ix_(active, positive)], self.equal[np.ix_(balanced, positive)]])
        n, n_active = int(positive.sum()), len(rows)
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
            right = np.concatenate([self.linear[positive], self.limits[active], np.zeros(balanced.sum())])
            z[positive], duals[active], equal_duals[balanced] = np.split(
                dgetrs(factor, pivots, right)[0], [n, n + int(active.sum())]
            )
        return z, duals, equal_duals
