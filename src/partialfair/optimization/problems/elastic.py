"""One Newton step under linearised constraints that may be violated, at a penalty, solved in its dual.

``min_p  ⟨g, p⟩ + ½ pᵀAp + penalty · Σ max(0, c_i + ⟨C_i, p⟩ + gains_i(p))`` over ``low ≤ p ≤ high``, with A
positive definite and factored, where the gains are those of kinks that are spelled out. The dual is a
quadratic program in the multipliers of constraints alone, which are at most the penalty. Few constraints
bind, so they join the program only when the step would violate them.

Bounds are many, and many of them may bind: probabilities that leaves hold end at 0 and 1 by the hundred. So
they are not part of the program. It is guessed which coordinates lie on faces, the program is solved in the
others, and the guess is corrected, all coordinates at once: those that leave the bounds are put on the face,
and those that a face would have to pull at are set free::

    p_j > high_j                  ->  p_j = high_j, no variable
    p_j = high_j and push_j < 0   ->  p_j is free: faces push inwards, and never pull

That settles after a few rounds, whatever n is (a semismooth Newton method: Hintermüller, Ito and Kunisch
2002), where A is nearly diagonal, but need not settle elsewhere. If errors do not get fewer for some rounds,
only the last of them is corrected, until they do (Murty's rule: Portugal, Júdice and Vicente 1994). If there
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
    """What tunes `ElasticModel.step`.

    Attributes
    ----------
    at_once
        Constraints that join the program at once: more make it slow, fewer need more rounds.
    rounds
        How often constraints join or faces are corrected.
    patience
        Rounds in which all coordinates are corrected at once though errors do not get fewer.
    slack
        Violations that do not count. Of two opposite constraints both could have any multiplier; so little
        slack leaves one of them with none.
    binding
        Multipliers that are larger, in units of the penalty, leave their constraint in the program.
    pulled
        A face that pulls by no more, in units of 1 + the largest entry of g, does so by rounding alone.
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
        Multipliers of upper bounds less those of lower bounds: what the faces add to the gradient.
    settled
        Whether the step is the minimum; otherwise it is a point within the bounds.
    """

    p: Floats
    multipliers: Floats
    kink_multipliers: Floats
    bound_push: Floats
    settled: bool

    @property
    def faces(self) -> Sides:
        """Which coordinates faces hold back: 1 upper, −1 lower ones, 0 none."""
        return np.sign(self.bound_push).astype(np.int8)


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
        Of a unit of violation.
    bounds
        Of the step; p = 0 is within.
    gap
        Duality gap at which programs may end.
    faces
        A guess of which coordinates end on faces; None if nothing is known.
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
            # 1. The program in the multipliers of some constraints and all kinks, and the step that they
            # make.
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
            # 2. What faces must add to the gradient of the model at p, to make it 0 where p lies on them.
            push = np.zeros(p.size)
            if faces.any():
                slope = self.gradient + self.factor.times(p) + multipliers @ self.rows
                push = np.where(faces != 0, -slope - kink_multipliers @ self.kinks.rows, 0.0)
            # 3. Correct the guess of faces: all errors at once, or the last if they do not get fewer.
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
            # 4. The constraints that the step violates most join those that bind.
            violated = np.flatnonzero(excess > SETTINGS.slack)
            worst = np.sort(violated[np.argsort(-excess[violated])[: SETTINGS.at_once]])
            active = np.union1d(np.flatnonzero(multipliers > SETTINGS.binding * self.penalty), worst)
        inside = np.clip(p, self.bounds.low, self.bounds.high)
        return Step(inside, multipliers, kink_multipliers, push, bool(settled))

    @cached_property
    def _pinned(self) -> Bools:
        """Which coordinates have no choice."""
        return np.asarray(self.bounds.low == self.bounds.high)

    def _corrected(self, faces: Sides, p: Floats, push: Floats, rounding: float) -> Sides:
        """Return the faces that a step p leaves, or is pushed back by."""
        above, below = p > self.bounds.high + SETTINGS.slack, p < self.bounds.low - SETTINGS.slack
        held = self._pinned | (faces * push >= -rounding)
        outside = above.astype(np.int8) - below.astype(np.int8)
        return np.where(faces == 0, outside, np.where(held, faces, 0)).astype(np.int8)

    def _first_faces(self) -> Sides:
        """Return those of the last step, or else the guess; coordinates without a choice are held."""
        bounds, gradient = self.bounds, self.gradient
        if self._last_held:
            guess = next(iter(self._last_held.values())).faces
        elif self.faces is not None:
            guess = self.faces
        else:  # those that a step against the gradient would leave at once
            up, down = (bounds.high == 0) & (gradient < 0), (bounds.low == 0) & (gradient > 0)
            guess = up.astype(np.int8) - (down & ~up)
        return np.where(self._pinned, np.int8(1), guess)

    def _joined(self, active: Ints, faces: Sides) -> _Joined:
        """Return some rows with what they push at; a correction of a step mostly needs the same again."""
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
    """Which coordinates lie on faces, the others F, factors of A there, and the step without constraints."""

    faces: Sides
    free: Ints
    factor: Factored
    start: Floats


class _Joined(NamedTuple):
    """What rows C of constraints and kinks bring: ``−A_FF⁻¹C_Fᵀ``, ``C_F A_FF⁻¹C_Fᵀ`` and ``C start``."""

    start: Floats
    pushes: Floats
    gram: Floats
    reached: Floats
