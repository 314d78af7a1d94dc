"""One Newton step under linearized constraints that may be violated at a penalty, solved in its dual.

``min_p  ⟨g, p⟩ + ½ pᵀAp + penalty · Σ max(0, c_i + ⟨C_i, p⟩ + gains_i(p))`` over ``low ≤ p ≤ high``, with A
positive definite and factored, and with the gains of explicit kinks. The dual is a quadratic program in the
multipliers of constraints only, which are at most the penalty. Few constraints are active, so they join the
program only if the step would violate them.

There are many bounds, and many of them may be active: probabilities in leaves end at 0 and 1 by the hundred.
So they are not part of the program. The set of coordinates on faces is guessed, the program is solved in the
others, and the guess is corrected in all coordinates together: those that leave the bounds are put on the
face, and those at which a face would have to pull are released::

    p_j > high_j                  ->  p_j = high_j, no variable
    p_j = high_j and push_j < 0   ->  p_j is free: faces push inwards, and never pull

If A is nearly diagonal, this settles after a few rounds for any n (a semismooth Newton method: Hintermüller,
Ito and Kunisch 2002); otherwise it may not settle. If the number of errors does not decrease for some rounds,
only the last of them is corrected until it does (Murty's rule: Portugal, Júdice and Vicente 1994). If there
are too many for that, the step is returned as not settled: callers may add to the diagonal of A.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.optimization.models.blocks import Factored
from partialfair.optimization.problems.domains import Box
from partialfair.optimization.problems.local import Kinks
from partialfair.optimization.problems.programs import STEP_GAP, Borders, best_multipliers
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Bools, Floats, Ints

Sides: TypeAlias = npt.NDArray[np.int8]
"""The face of each coordinate: 1 its upper, −1 its lower bound, 0 none."""


@dataclass(frozen=True)
class ElasticSettings:
    """Settings of `ElasticModel.step`.

    Attributes
    ----------
    at_once
        Number of constraints that join the program together: more make it slow, fewer need more rounds.
    rounds
        How often constraints join or faces are corrected.
    patience
        Rounds in which all coordinates are corrected together though the errors do not decrease.
    slack
        Violations that are ignored. Two opposite constraints could both have any multiplier; with this slack
        one of them has none.
    binding
        Constraints with larger multipliers, in units of the penalty, stay in the program.
    pulled
        A pull of a face up to this, in units of 1 + the largest entry of g, is a rounding error.
    """

    at_once: int = 100
    rounds: int = 50
    patience: int = 3
    slack: float = 1e-8
    binding: float = 1e-9
    pulled: float = 1e-9


SETTINGS = ElasticSettings()


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
        Multipliers of upper bounds minus those of lower bounds: the faces' contribution to the gradient.
    settled
        Whether the step is the minimum; otherwise it is some point within the bounds.
    """

    p: Floats
    multipliers: Floats
    kink_multipliers: Floats
    bound_push: Floats
    settled: bool

    @property
    def faces(self) -> Sides:
        """Coordinates that faces hold: 1 for upper, −1 for lower ones, 0 for none."""
        return np.sign(self.bound_push).astype(np.int8)


@dataclass(frozen=True, eq=False)
class ElasticModel:
    """The step's model with A factored; constraints' values may change without a new factorization.

    Parameters
    ----------
    factor
        Factors of A.
    gradient
        g.
    rows : (m, n)
        The C_i.
    kinks
        The explicit kinks.
    penalty
        Penalty of a unit of violation.
    bounds
        Bounds of the step; p = 0 is within them.
    gap
        Duality gap at which programs may end.
    faces
        A guess of the coordinates on faces; None if nothing is known.
    """

    factor: Factored
    gradient: Floats
    rows: Floats
    kinks: Kinks
    penalty: float
    bounds: Box
    gap: float = STEP_GAP
    faces: Sides | None = None
    _last_held: dict[bytes, _Held] = field(default_factory=dict, init=False, repr=False)
    _last_joined: dict[tuple[bytes, bytes], _Joined] = field(default_factory=dict, init=False, repr=False)

    def step(self, values: Floats) -> Step:
        """Return the step for constraints with these values at p = 0."""
        active = np.sort(np.argsort(-values)[: SETTINGS.at_once])
        faces, fewest, patience = self._first_faces(), np.inf, SETTINGS.patience
        multipliers = np.zeros(values.size)
        rounding = SETTINGS.pulled * (1 + np.abs(self.gradient).max(initial=0.0))
        for rounds_left in reversed(range(SETTINGS.rounds)):
            check_clock()
            # 1. The program in the multipliers of some constraints and all kinks, and the step that follows
            # from them.
            joined = self._joined(active, faces)
            dual = best_multipliers(
                joined.gram,
                np.concatenate([values[active] - SETTINGS.slack, -self.kinks.gaps]) + joined.reached,
                self.kinks.shares[:, active],
                self.kinks.beyond,
                np.full(active.size, self.penalty),
                self.gap,
                Borders(self.kinks.backs, self.kinks.balance),
            )
            multipliers[:] = 0.0
            multipliers[active], kink_multipliers = np.split(dual, [active.size])
            p = joined.start + joined.pushes @ dual
            # 2. The forces of faces that make the gradient of the model at p vanish there.
            push = np.zeros(p.size)
            if faces.any():
                slope = self.gradient + self.factor.times(p) + multipliers @ self.rows
                push = np.where(faces != 0, -slope - kink_multipliers @ self.kinks.rows, 0.0)
            # 3. Correct the guess of faces: all errors together, or the last if they do not decrease.
            corrected = self._corrected(faces, p, push, rounding)
            wrong = np.flatnonzero(corrected != faces)
            patience = SETTINGS.patience if wrong.size < fewest else max(patience - 1, 0)
            fewest = min(fewest, wrong.size)
            excess = values + self.rows @ p + self.kinks.gains(p)
            excess[active] = 0.0
            settled = wrong.size == 0 and excess.max(initial=0.0) <= SETTINGS.slack
            if settled or (patience == 0 and wrong.size > rounds_left):
                break
            faces = faces.copy()
            fixed = wrong if patience else wrong[-1:]
            faces[fixed] = corrected[fixed]
            # 4. Add the constraints that the step violates most to the active ones.
            violated = np.flatnonzero(excess > SETTINGS.slack)
            worst = np.sort(violated[np.argsort(-excess[violated])[: SETTINGS.at_once]])
            active = np.union1d(np.flatnonzero(multipliers > SETTINGS.binding * self.penalty), worst)
        inside = np.clip(p, self.bounds.low, self.bounds.high)
        return Step(inside, multipliers, kink_multipliers, push, bool(settled))

    @cached_property
    def _pinned(self) -> Bools:
        """Coordinates with equal bounds."""
        return np.asarray(self.bounds.low == self.bounds.high)

    def _corrected(self, faces: Sides, p: Floats, push: Floats, rounding: float) -> Sides:
        """Return the faces after a step p that leaves some of them or is pushed back by others."""
        above, below = p > self.bounds.high + SETTINGS.slack, p < self.bounds.low - SETTINGS.slack
        held = self._pinned | (faces * push >= -rounding)
        outside = above.astype(np.int8) - below.astype(np.int8)
        return np.where(faces == 0, outside, np.where(held, faces, 0)).astype(np.int8)

    def _first_faces(self) -> Sides:
        """Return the faces of the last step, or else the guess; coordinates with equal bounds are held."""
        bounds, gradient = self.bounds, self.gradient
        if self._last_held:
            guess = next(iter(self._last_held.values())).faces
        elif self.faces is not None:
            guess = self.faces
        else:  # those that a step against the gradient would leave immediately
            up, down = (bounds.high == 0) & (gradient < 0), (bounds.low == 0) & (gradient > 0)
            guess = up.astype(np.int8) - (down & ~up)
        return np.where(self._pinned, np.int8(1), guess)

    def _joined(self, active: Ints, faces: Sides) -> _Joined:
        """Return some rows with their effects; cached, as a correction of a step mostly needs the same."""
        key = active.tobytes(), faces.tobytes()
        if key not in self._last_joined:
            rows, held = np.vstack([self.rows[active], self.kinks.rows]), self._held(faces)
            pushes = np.zeros((faces.size, len(rows)))
            pushes[held.free] = -held.factor.solve(rows[:, held.free].T)
            self._last_joined.clear()
            self._last_joined[key] = _Joined(held.start, pushes, -(rows @ pushes), rows @ held.start)
        return self._last_joined[key]

    def _held(self, faces: Sides) -> _Held:
        """Return the model in the coordinates that lie on no face."""
        key = faces.tobytes()
        if key not in self._last_held:
            free, bounds = np.flatnonzero(faces == 0), self.bounds
            start = np.where(faces > 0, bounds.high, np.where(faces < 0, bounds.low, 0.0))
            # Coordinates on faces stay where they are: A_FF p_F = −(g + A p_faces)_F.
            held_back = free.size < faces.size
            factor = self.factor.restricted(free) if held_back else self.factor
            slope = self.gradient + self.factor.times(start) if held_back else self.gradient
            start[free] = -factor.solve(slope[free])
            self._last_held.clear()
            self._last_held[key] = _Held(faces, free, factor, start)
        return self._last_held[key]


class _Held(NamedTuple):
    """Coordinates on faces, the others F, factors of A there, and the step without constraints."""

    faces: Sides
    free: Ints
    factor: Factored
    start: Floats


class _Joined(NamedTuple):
    """Effects of rows C of constraints and kinks: ``−A_FF⁻¹C_Fᵀ``, ``C_F A_FF⁻¹C_Fᵀ`` and ``C start``."""

    start: Floats
    pushes: Floats
    gram: Floats
    reached: Floats
