"""One Newton step under linearised constraints that may be violated at a price, solved in its dual.

``min_p  ⟨g, p⟩ + ½ pᵀAp + penalty · Σ max(0, c_i + ⟨C_i, p⟩ + gains_i(p))`` with A positive definite and
factored, where the gains are those of kinks that are spelled out. The dual is a quadratic program in the
multipliers alone; constraints join it only when the step would violate them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair._clock import check_clock
from partialfair._typing import Floats
from partialfair.models.blocks import Factored
from partialfair.problems.kinks import Kinks
from partialfair.problems.quadratic import best_multipliers

__all__ = ["ElasticModel", "Step"]


_AT_ONCE = 100
_ROUNDS = 50
_ALMOST = 1e-8
"""Violations that do not count."""


@dataclass(frozen=True, eq=False)
class Step:
    """A step with its multipliers.

    Attributes
    ----------
    p : (n,)
        The step.
    multipliers : (m,)
        Of the constraints.
    kink_multipliers : (K,)
        Of the kinks.
    """

    p: Floats
    multipliers: Floats
    kink_multipliers: Floats


@dataclass(frozen=True, eq=False)
class ElasticModel:
    """The step's model with A factored; constraints' values may change without factoring again.

    Parameters
    ----------
    factor
        Factors of A.
    gradient
        g.
    rows : (m, n)
        The C_i.
    kinks
        Those that are spelled out.
    penalty
        Price of a unit of violation.
    """

    factor: Factored
    gradient: Floats
    rows: Floats
    kinks: Kinks
    penalty: float

    def step(self, values: Floats) -> Step:
        """Return the step for constraints with these values at p = 0."""
        newton = self.factor.solve(self.gradient)
        multipliers, kink_multipliers, p = np.zeros(values.size), np.zeros(self.kinks.gaps.size), -newton
        own = np.sort(np.argsort(-values)[:_AT_ONCE])
        for _ in range(_ROUNDS):
            check_clock()
            rows = np.vstack([self.rows[own], self.kinks.rows])
            pushes = self.factor.solve(rows.T)
            # Of two opposite constraints both could have any multiplier: a little slack leaves one with none.
            offsets = np.concatenate([values[own] - _ALMOST, -self.kinks.gaps])
            found = best_multipliers(
                rows @ pushes,
                offsets - rows @ newton,
                self.kinks.shares[:, own],
                np.full(own.size, self.penalty),
            )
            multipliers[own], kink_multipliers = found[: own.size], found[own.size :]
            p = -newton - pushes @ found
            # Few constraints bind: those that would be violated most join, those that do not bind leave.
            excess = values + self.rows @ p + self.kinks.gains(p)
            excess[own] = 0.0
            new = np.flatnonzero(excess > _ALMOST)
            if new.size == 0:
                break
            binding = np.flatnonzero(multipliers > 1e-9 * self.penalty)
            multipliers[:] = 0.0
            own = np.union1d(binding, new[np.argsort(-excess[new])[:_AT_ONCE]])
        return Step(p, multipliers, kink_multipliers)
