"""Newton steps on a Lagrangian under linearised constraints, safeguarded by an exact penalty.

A step minimises ``⟨∇f_0, p⟩ + ½ pᵀ(H + τI)p + price · Σ max(0, linearised f_i)``. H is the Hessian of the
Lagrangian, in which the kinks of ramps are averaged over. At an optimum it need only be positive definite
along the constraints that bind, so ``½ weight Σ (linearised f_i)²`` of those is added if it helps: where they
are met that changes nothing. If it does not help, only a share of the concave part is taken. If the step is
refused, kinks are what the average did not see: those that it passed are spelled out in the quadratic
program, and the step is tried again. Optima lie on many kinks at once, and only so are they reached.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from partialfair._clock import check_clock
from partialfair._typing import Floats
from partialfair.models.blocks import ArrowMatrix, Factored
from partialfair.problems.elastic import ElasticModel, Step
from partialfair.problems.kinks import Kinks, no_kinks

__all__ = ["Descent", "Point"]

_LEAST_PRICE, _LARGEST_PRICE = 0.1, 1e4
_LARGEST_PROXIMAL = 1e6
_SMALLEST_PROXIMAL = 1e-8
_ROUNDS = 4
_REFUSALS = 3
_MEMORY = 3
_WEIGHTS = (1.0, 1e1, 1e2, 1e3, 1e4)
_PINNED = 1e-4
"""Kinks at most so many widths away are taken to be those that the last step ended on."""


class Point(Protocol):
    """What a step needs to know of a problem, or of one of IDCA's subproblems, at a point."""

    @property
    def x(self) -> Floats:
        """The point."""

    @property
    def objective(self) -> float:
        """Value of the objective."""

    @property
    def constraints(self) -> Floats:
        """Values of the constraints, which should be ≤ 0."""

    def objective_gradient(self) -> Floats:
        """Gradient of the objective."""

    def constraint_jacobian(self) -> Floats:
        """Subgradients of the constraints: (m, n)."""

    def lagrangian_hessian(self, multipliers: Floats) -> tuple[ArrowMatrix, ArrowMatrix | None]:
        """Convex part of the Lagrangian's Hessian, and what is to be subtracted from it."""

    def kinks(self, multipliers: Floats, reach: float, towards: Any = None, limit: int = 400) -> Kinks | None:
        """Kinks nearby or on the way to another point; None if there are too many."""


@dataclass(eq=False)
class Descent:
    """What one step hands on to the next.

    Parameters
    ----------
    evaluate
        From coordinates to oracles.
    multipliers
        The last ones.
    tol
        Residual at which a point is stationary.
    price, least_price
        Of a unit of violation, and what it may fall to.
    smooth, sharp
        τ of steps without and with kinks spelled out.
    share
        Share of the Hessian's concave part that was last taken.
    weight
        Of the squares of binding constraints that were last added to the Hessian.
    refusals
        How often in a row a step without kinks was refused; after some it is no longer tried.
    recent
        Objectives and sums of violations at the last points. A step need only fall below the highest of their
        penalty functions: along curved constraints the best steps climb first.
    residual
        Of the KKT conditions at the last point looked at, an upper bound of that of its certificate.
    """

    evaluate: Callable[[Floats], Point]
    multipliers: Floats
    tol: float
    price: float = 1.0
    least_price: float = _LEAST_PRICE
    smooth: float = 1e-2
    sharp: float = 1e-2
    share: float = 1.0
    weight: float = 0.0
    refusals: int = 0
    recent: list[tuple[float, float]] = field(default_factory=list)
    residual: float = field(default=float("inf"), init=False)

    def advance(self, at: Point) -> Point | None:
        """Return the next point; None if no step helps, or if the residual says that none is needed."""
        self.recent = [*self.recent[1 - _MEMORY :], (at.objective, _sum_of_violations(at))]
        local = _Local(at, self.multipliers)
        while max(self.smooth, self.sharp) <= _LARGEST_PROXIMAL:
            for attempt in (self._smooth_step, self._sharp_step):
                following = attempt(local)
                if following is not None or self.residual <= self.tol:
                    return following
        return None

    def _smooth_step(self, local: _Local) -> Point | None:
        """Try the smoothed model."""
        if self.refusals >= _REFUSALS:
            return None
        proposal = self._propose(local, self.smooth, local.no_kinks())
        trial = None if proposal is None else self._judge(local, proposal)
        if trial is not None:
            self.refusals = 0
            self.smooth = max(self.smooth / 4, _SMALLEST_PROXIMAL)
        else:
            self.refusals += 1
            self.smooth = min(max(4 * self.smooth, 1e-6), _LARGEST_PROXIMAL)
        return trial

    def _sharp_step(self, local: _Local) -> Point | None:
        """Try the model with the kinks of the last step, then with those passed, until none is new."""
        kinks = local.at.kinks(self.multipliers, _PINNED) or local.no_kinks()
        proposal = self._propose(local, self.sharp, kinks)
        for _ in range(_ROUNDS):
            if proposal is None or self._fall(proposal.trial) >= 0.5 * proposal.predicted:
                break
            passed = local.at.kinks(proposal.step.multipliers, _PINNED, proposal.trial)
            if passed is None or np.isin(passed.keys, kinks.keys).all():
                break
            kinks = kinks.joined(passed)
            proposal = self._propose(local, self.sharp, kinks)
        if proposal is None:
            return None
        trial = self._judge(local, proposal)
        factor = 4 if trial is None else 0.25
        self.sharp = max(factor * self.sharp, 1e-6 if trial is None else _SMALLEST_PROXIMAL)
        return trial

    def _propose(self, local: _Local, proximal: float, kinks: Kinks) -> _Proposal | None:
        """Solve the model; None if the point is stationary. Raise the price if that is in the way."""
        curved = local.curved(proximal, min(1.0, 1.5 * self.share), self.weight)
        self.share, self.weight = curved.share, curved.weight
        model = ElasticModel(curved.factor, curved.gradient, local.rows, kinks, self.price)
        step = model.step(local.at.constraints)
        self.residual = local.residual(step, kinks)
        if self.residual <= self.tol:
            return None
        left = local.at.constraints + local.rows @ step.p + kinks.gains(step.p)
        if ((step.multipliers >= 0.99 * self.price) & (left > 1e-7)).any():
            self.price = min(4 * self.price, _LARGEST_PRICE)
            self.least_price = self.price / 2
        change = local.gradient @ step.p + 0.5 * step.p @ (curved.hessian @ step.p)
        saved = _sum_of_violations(local.at) - np.maximum(left, 0).sum()
        predicted = float(self.price * saved - change)
        return _Proposal(model, step, predicted, self.evaluate(local.at.x + step.p))

    def _judge(self, local: _Local, proposal: _Proposal) -> Point | None:
        """Return the point proposed, or a correction of it, if the penalty function falls enough."""
        trial, step = proposal.trial, proposal.step
        if proposal.predicted <= 0:  # up to rounding
            return None
        if self._fall(trial) < 0.1 * proposal.predicted:
            # The linearised constraints were met and the true ones are not: linearise from where they are.
            lines = local.rows @ step.p + proposal.model.kinks.gains(step.p)
            corrected = proposal.model.step(trial.constraints - lines)
            trial = self.evaluate(local.at.x + corrected.p)
            if self._fall(trial) < 0.1 * proposal.predicted:
                return None
        self.multipliers = step.multipliers
        # A price far above the multipliers would refuse steps along curved constraints.
        largest = float(step.multipliers.max(initial=0.0))
        if largest < 0.1 * self.price:
            self.least_price = max(self.least_price / 2, _LEAST_PRICE)
        enough = max(2 * largest, self.least_price)
        self.price = max(enough, self.price / 2)
        return trial

    def _fall(self, trial: Point) -> float:
        """Return by how much ``f_0 + price · Σ max(f_i, 0)`` falls below the highest of the last points."""
        before = max(objective + self.price * violations for objective, violations in self.recent)
        after = trial.objective + self.price * _sum_of_violations(trial)
        return before - after if np.isfinite(after) else -np.inf


@dataclass(frozen=True, eq=False)
class _Proposal:
    """A step, what the penalty function falls by in the model, and the point that it leads to."""

    model: ElasticModel
    step: Step
    predicted: float
    trial: Point


def _sum_of_violations(at: Point) -> float:
    return float(np.maximum(at.constraints, 0.0).sum())


@dataclass(frozen=True, eq=False)
class _Curved:
    """A positive definite model: H + τI with the squares, factored; H without them; ∇f_0 with them."""

    factor: Factored
    hessian: ArrowMatrix
    gradient: Floats
    share: float
    weight: float


class _Local:
    """The model at one point: evaluated once, factored anew for each τ."""

    def __init__(self, at: Point, multipliers: Floats) -> None:
        self.at = at
        self.rows = at.constraint_jacobian()
        self.gradient = at.objective_gradient()
        self.convex, self.concave = at.lagrangian_hessian(multipliers)
        self.binding = np.flatnonzero(multipliers > 1e-6 * max(1.0, multipliers.max(initial=0.0)))
        self._curved: dict[float, _Curved] = {}

    def no_kinks(self) -> Kinks:
        """Return none."""
        return no_kinks(self.rows.shape[1], self.rows.shape[0])

    def curved(self, proximal: float, share: float, weight: float) -> _Curved:
        """Return the model for τ; share and weight are those to try first."""
        if proximal not in self._curved:
            self._curved[proximal] = (
                self._augmented(proximal, weight) or self._shared(proximal, share) or self._convex(proximal)
            )
        return self._curved[proximal]

    def _augmented(self, proximal: float, weight: float) -> _Curved | None:
        """Take the whole concave part, with the least weight of squares that makes up for it."""
        if self.concave is None:
            return None
        hessian = self.convex.minus(self.concave, 1.0)
        rows, values = self.rows[self.binding], self.at.constraints[self.binding]
        for trial in (0.0, *(one for one in _WEIGHTS if 10 * one >= weight)):
            check_clock()
            with contextlib.suppress(np.linalg.LinAlgError):
                summed = hessian if trial == 0 else hessian.plus_squares(rows, trial)
                gradient = self.gradient + trial * (values @ rows)
                return _Curved(summed.cholesky(proximal), hessian, gradient, 1.0, trial)
        return None

    def _shared(self, proximal: float, share: float) -> _Curved | None:
        """Take as much of the concave part as leaves the Hessian positive definite."""
        while self.concave is not None and share > 0.1:
            check_clock()
            with contextlib.suppress(np.linalg.LinAlgError):
                hessian = self.convex.minus(self.concave, share)
                return _Curved(hessian.cholesky(proximal), hessian, self.gradient, share, 0.0)
            share /= 2
        return None

    def _convex(self, proximal: float) -> _Curved:
        """Take nothing of the concave part, and a larger τ if rounding errors ask for it."""
        while True:
            check_clock()
            with contextlib.suppress(np.linalg.LinAlgError):
                return _Curved(self.convex.cholesky(proximal), self.convex, self.gradient, 0.1, 0.0)
            proximal *= 4

    def residual(self, step: Step, kinks: Kinks) -> float:
        """Return the largest residual of the KKT conditions at the point, with the step's multipliers.

        The multipliers of kinks that are ``gaps`` away make a subgradient of the Lagrangian that is inexact
        by ``Σ ν · gaps``; see `partialfair.problems.certificate`.
        """
        gradient = self.gradient + step.multipliers @ self.rows + step.kink_multipliers @ kinks.rows
        inexact = 2 * (1 + step.multipliers.sum()) * (step.kink_multipliers @ kinks.gaps)
        return max(
            float(np.sqrt(gradient @ gradient + inexact)),
            float(self.at.constraints.max(initial=0.0)),
            float(np.abs(step.multipliers * self.at.constraints).max(initial=0.0)),
        )
