"""One Newton step under linearised constraints that may be violated at a price, solved in its dual.

``min_p  ⟨g, p⟩ + ½ pᵀAp + penalty · Σ max(0, c_i + ⟨C_i, p⟩ + gains_i(p))`` over ``low ≤ p ≤ high``, with A
positive definite and factored, where the gains are those of kinks that are spelled out. The dual is a
quadratic program in the multipliers alone: those of constraints are at most the penalty, those of bounds,
which have no price, may be any. Few constraints and bounds bind, so they join the program only when the step
would violate them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from partialfair._clock import check_clock
from partialfair._typing import Floats, Ints
from partialfair.models.blocks import Factored
from partialfair.problems.kinks import Kinks
from partialfair.problems.quadratic import STEP_GAP, Borders, best_multipliers

__all__ = ["ElasticModel", "Step", "StepBounds"]

_AT_ONCE = 100
"""Constraints, and bounds, that join the program at once: more make it slow, fewer need more rounds."""
_ROUNDS = 50
_ALMOST = 1e-8
"""Violations that do not count. Of two opposite constraints both could have any multiplier; so little slack
leaves one of them with none."""
_BINDING = 1e-9
"""Multipliers that are larger, in units of the penalty, keep their constraint in the program."""


@dataclass(frozen=True, eq=False)
class StepBounds:
    """``low ≤ p ≤ high``; both hold at p = 0."""

    low: Floats
    high: Floats

    @classmethod
    def none(cls, n: int) -> StepBounds:
        """Return no bounds on a step of n coordinates."""
        return cls(np.full(n, -np.inf), np.full(n, np.inf))

    def excess(self, p: Floats) -> Floats:
        """By how much each coordinate violates its upper bound, then (2n,) its lower bound."""
        return np.concatenate([p - self.high, self.low - p])

    def rows(self, which: Ints) -> Floats:
        """Return the directions out of some of those faces."""
        n = self.low.size
        out = np.zeros((which.size, n))
        out[np.arange(which.size), which % n] = np.where(which < n, 1.0, -1.0)
        return out


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
    bound_push : (n,)
        Multipliers of upper bounds less those of lower bounds: what the faces add to the gradient.
    """

    p: Floats
    multipliers: Floats
    kink_multipliers: Floats
    bound_push: Floats


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
    bounds
        Of the step.
    gap
        Duality gap at which programs may end.
    """

    factor: Factored
    gradient: Floats
    rows: Floats
    kinks: Kinks
    penalty: float
    bounds: StepBounds
    gap: float = STEP_GAP
    _last_joined: dict[tuple[bytes, bytes], _Joined] = field(default_factory=dict, init=False, repr=False)

    def step(self, values: Floats) -> Step:
        """Return the step for constraints with these values at p = 0."""
        n, newton = self.gradient.size, self._newton
        p = -newton
        active = np.sort(np.argsort(-values)[:_AT_ONCE])
        faces = _worst(self.bounds.excess(p))
        at_zero = self.bounds.excess(np.zeros(n))
        multipliers, face_multipliers = np.zeros(values.size), np.zeros(2 * n)
        kink_multipliers = np.zeros(self.kinks.gaps.size)
        for _ in range(_ROUNDS):
            check_clock()
            joined = self._joined(active, faces)
            heights = np.concatenate([values[active] - _ALMOST, at_zero[faces], -self.kinks.gaps])
            no_shares = np.zeros((self.kinks.gaps.size, faces.size))
            dual = best_multipliers(
                joined.gram,
                heights - joined.along_newton,
                np.hstack([self.kinks.shares[:, active], no_shares]),
                self.kinks.beyond,
                np.concatenate([np.full(active.size, self.penalty), np.full(faces.size, np.inf)]),
                self.gap,
                Borders(self.kinks.backs, self.kinks.balance),
            )
            multipliers[:], face_multipliers[:] = 0.0, 0.0
            multipliers[active], face_multipliers[faces], kink_multipliers = np.split(
                dual, [active.size, active.size + faces.size]
            )
            p = -newton - joined.pushes @ dual
            excess = values + self.rows @ p + self.kinks.gains(p)
            excess[active] = 0.0
            outside = self.bounds.excess(p)
            outside[faces] = 0.0
            if excess.max(initial=0.0) <= _ALMOST and outside.max(initial=0.0) <= _ALMOST:
                break
            active = np.union1d(np.flatnonzero(multipliers > _BINDING * self.penalty), _worst(excess))
            faces = np.union1d(np.flatnonzero(face_multipliers > _BINDING), _worst(outside))
        push = face_multipliers[:n] - face_multipliers[n:]
        return Step(np.clip(p, self.bounds.low, self.bounds.high), multipliers, kink_multipliers, push)

    @cached_property
    def _newton(self) -> Floats:
        """``A⁻¹ g``."""
        return self.factor.solve(self.gradient)

    def _joined(self, active: Ints, faces: Ints) -> _Joined:
        """Return some rows with what they push at; a correction of a step mostly asks for the same again."""
        key = active.tobytes(), faces.tobytes()
        if key not in self._last_joined:
            rows = np.vstack([self.rows[active], self.bounds.rows(faces), self.kinks.rows])
            pushes = self.factor.solve(rows.T)
            self._last_joined.clear()
            self._last_joined[key] = _Joined(pushes, rows @ pushes, rows @ self._newton)
        return self._last_joined[key]


class _Joined(NamedTuple):
    """What constraints, faces and kinks with rows C bring: ``A⁻¹Cᵀ``, ``C A⁻¹Cᵀ`` and ``C A⁻¹g``."""

    pushes: Floats
    gram: Floats
    along_newton: Floats


def _worst(excess: Floats) -> Ints:
    """Return the constraints that are violated most, not too many of them."""
    violated = np.flatnonzero(excess > _ALMOST)
    return np.sort(violated[np.argsort(-excess[violated])[:_AT_ONCE]])
