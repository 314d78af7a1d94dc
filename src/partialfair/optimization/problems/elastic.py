"""One Newton step under linearised constraints that may be violated at a price, solved in its dual.

``min_p  ⟨g, p⟩ + ½ pᵀAp + penalty · Σ max(0, c_i + ⟨C_i, p⟩ + gains_i(p))`` over ``low ≤ p ≤ high``, with A
positive definite and factored, where the gains are those of kinks that are spelled out. The dual is a
quadratic program in the multipliers of constraints alone, which are at most the penalty. Few constraints
bind, so they join the program only when the step would violate them.

Bounds are many, and many of them may bind: probabilities that leaves hold end at 0 and 1 by the hundred. So
they are no part of the program. It is guessed which coordinates lie on faces, the program is solved in the
others, and the guess is corrected, all coordinates at once: those that leave the bounds are put on the face,
and those that a face would have to pull at are set free::

    p_j > high_j                  ->  p_j = high_j, no variable
    p_j = high_j and push_j < 0   ->  p_j is free: faces push inwards, and never pull

That settles after a few rounds, whatever n is (a semismooth Newton method: Hintermüller, Ito and Kunisch
2002), where A is nearly diagonal, but need not settle elsewhere. If errors do not get fewer for some rounds,
only the last of them is corrected, until they do (Murty's rule: Portugal, Júdice and Vicente 1994). If there
are too many for that, the step is returned as not settled: whoever asked may add to the diagonal of A.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from partialfair.optimization.models.blocks import Factored
from partialfair.optimization.problems.local import Kinks
from partialfair.optimization.problems.programs import STEP_GAP, Borders, best_multipliers
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Bools, Floats, Ints

Sides: TypeAlias = npt.NDArray[np.int8]
"""The face of each coordinate: 1 its upper, −1 its lower bound, 0 none."""

_AT_ONCE = 100
"""Constraints that join the program at once: more make it slow, fewer need more rounds."""
_ROUNDS = 50
_ALMOST = 1e-8
"""Violations that do not count. Of two opposite constraints both could have any multiplier; so little slack
leaves one of them with none."""
_BINDING = 1e-9
"""Multipliers that are larger, in units of the penalty, keep their constraint in the program."""
_PULLED = 1e-9
"""A face that pulls by no more, in units of 1 + the largest entry of g, does so by rounding alone."""
_PATIENCE = 3
"""Rounds in which all coordinates are corrected at once though errors do not get fewer."""


@dataclass(frozen=True, eq=False)
class StepBounds:
    """``low ≤ p ≤ high``; both hold at p = 0."""

    low: Floats
    high: Floats

    @classmethod
    def none(cls, n: int) -> StepBounds:
        """Return no bounds on a step of n coordinates."""
        return cls(np.full(n, -np.inf), np.full(n, np.inf))

    @cached_property
    def pinned(self) -> Bools:
        """Which coordinates have no choice."""
        return np.asarray(self.low == self.high)

    def faces_at(self, gradient: Floats) -> Sides:
        """Guess which faces hold back a step against a gradient: those that it would leave at once."""
        up, down = (self.high == 0) & (gradient < 0), (self.low == 0) & (gradient > 0)
        return np.asarray(up.astype(np.int8) - (down & ~up))

    def on(self, faces: Sides) -> Floats:
        """Return the coordinates that lie on faces, and 0 for the others."""
        return np.where(faces > 0, self.high, np.where(faces < 0, self.low, 0.0))

    def corrected(self, faces: Sides, p: Floats, push: Floats, rounding: float) -> Sides:
        """Return the faces that a step p leaves, or is pushed back by."""
        outside = (p > self.high + _ALMOST).astype(np.int8) - (p < self.low - _ALMOST).astype(np.int8)
        kept = self.pinned | (faces * push >= -rounding)
        return np.where(faces == 0, outside, np.where(kept, faces, 0)).astype(np.int8)


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
        Price of a unit of violation.
    bounds
        Of the step.
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
    bounds: StepBounds
    gap: float = STEP_GAP
    faces: Sides | None = None
    _last_held: dict[bytes, _Held] = field(default_factory=dict, init=False, repr=False)
    _last_joined: dict[tuple[bytes, bytes], _Joined] = field(default_factory=dict, init=False, repr=False)

    def step(self, values: Floats) -> Step:
        """Return the step for constraints with these values at p = 0."""
        active = np.sort(np.argsort(-values)[:_AT_ONCE])
        corrections = _Corrections(self._first_faces())
        multipliers, rounding = np.zeros(values.size), _PULLED * (1 + np.abs(self.gradient).max(initial=0.0))
        for rounds_left in reversed(range(_ROUNDS)):
            check_clock()
            faces = corrections.faces
            joined = self._joined(active, faces)
            dual = best_multipliers(
                joined.gram,
                np.concatenate([values[active] - _ALMOST, -self.kinks.gaps]) + joined.reached,
                self.kinks.shares[:, active],
                self.kinks.beyond,
                np.full(active.size, self.penalty),
                self.gap,
                Borders(self.kinks.backs, self.kinks.balance),
            )
            multipliers[:] = 0.0
            multipliers[active], kink_multipliers = np.split(dual, [active.size])
            p = joined.start + joined.pushes @ dual
            push = self._push(faces, p, multipliers, kink_multipliers)
            excess = values + self.rows @ p + self.kinks.gains(p)
            excess[active] = 0.0
            n_wrong = corrections.correct(self.bounds.corrected(faces, p, push, rounding))
            settled = n_wrong == 0 and excess.max(initial=0.0) <= _ALMOST
            if settled or (corrections.one_by_one and n_wrong > rounds_left):
                break
            active = np.union1d(np.flatnonzero(multipliers > _BINDING * self.penalty), _worst(excess))
        inside = np.clip(p, self.bounds.low, self.bounds.high)
        return Step(inside, multipliers, kink_multipliers, push, settled)

    def _first_faces(self) -> Sides:
        """Return those of the last step, or else the guess; coordinates without a choice are held."""
        guess = self.bounds.faces_at(self.gradient) if self.faces is None else self.faces
        for held in self._last_held.values():
            guess = held.faces
        return np.where(self.bounds.pinned, np.int8(1), guess)

    def _push(self, faces: Sides, p: Floats, multipliers: Floats, kink_multipliers: Floats) -> Floats:
        """Return what faces must add to the gradient of the model at p, to make it 0 where p lies on them."""
        if not faces.any():
            return np.zeros(p.size)
        slope = self.gradient + self.factor.times(p) + multipliers @ self.rows
        return np.where(faces != 0, -slope - kink_multipliers @ self.kinks.rows, 0.0)

    def _joined(self, active: Ints, faces: Sides) -> _Joined:
        """Return some rows with what they push at; a correction of a step mostly asks for the same again."""
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
            free, start = np.flatnonzero(faces == 0), self.bounds.on(faces)
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


@dataclass(eq=False)
class _Corrections:
    """The guess of which coordinates lie on faces, and how it gets on.

    Attributes
    ----------
    faces
        The guess.
    fewest
        Coordinates that were wrong in the best round so far.
    patience
        Rounds left in which all may be corrected at once without getting better.
    """

    faces: Sides
    fewest: float = np.inf
    patience: int = _PATIENCE

    @property
    def one_by_one(self) -> bool:
        """Whether only the last error is corrected."""
        return self.patience == 0

    def correct(self, corrected: Sides) -> int:
        """Take corrections over, and return how many there are."""
        wrong = np.flatnonzero(corrected != self.faces)
        if wrong.size < self.fewest:
            self.fewest, self.patience = wrong.size, _PATIENCE
        else:
            self.patience = max(self.patience - 1, 0)
        taken = wrong[-1:] if self.one_by_one else wrong
        self.faces = self.faces.copy()
        self.faces[taken] = corrected[taken]
        return int(wrong.size)


def _worst(excess: Floats) -> Ints:
    """Return the constraints that are violated most, not too many of them."""
    violated = np.flatnonzero(excess > _ALMOST)
    return np.sort(violated[np.argsort(-excess[violated])[:_AT_ONCE]])
