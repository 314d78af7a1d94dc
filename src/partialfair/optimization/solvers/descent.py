r"""Newton steps on a Lagrangian under linearised constraints, safeguarded by an exact penalty.

A step minimises ``⟨∇f_0, p⟩ + ½ pᵀ(H + τI)p + price · Σ max(0, linearised f_i)``. H is the Hessian of the
Lagrangian, in which the kinks of ramps are averaged over. At an optimum it need only be positive definite
along the constraints that bind, so ``½ weight Σ (linearised f_i)²`` of those is added if it helps: where they
are met that changes nothing. If it does not help, only a share of the concave part is taken.

At first H is computed anew only now and then, and the last steps correct it; where it would be too large,
they stand in for it (`solvers._remembered`). Then τ is lowered only if the penalty function falls
nearly as the model said. Without kinks that is all. If there are kinks, and steps are refused or τ so large
that they creep, kinks are spelled out from there on, and H is computed at every step, if it can be.

A step that is *smooth* sees kinks as an average only. If it is refused, a *sharp* one is tried: kinks that
the smooth step passed are what the average did not see, so they are spelled out in the quadratic program, and
the step is solved again, until it passes no new ones. Optima lie on many kinks at once, and only so are they
reached; after a sharp step that helped another one is tried first::

    f⁺ along a step      smooth model ·····   refused: f rises where the model falls
         \            /
          \     _____/    <- a kink that was passed becomes a row of the program:
           \___/             max(0, ⟨row, p⟩ − gap) joins f⁺, and the next step ends on it

The *price* of violations is kept above the multipliers, or the penalty function would not be exact, and not
far above, because then no step along curved constraints is ever good enough.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from partialfair.optimization.models.blocks import ArrowMatrix, Factored
from partialfair.optimization.models.limited import AbsoluteHessian, LimitedMemory
from partialfair.optimization.problems.constrained import ProblemPoint
from partialfair.optimization.problems.domains import Domain
from partialfair.optimization.problems.elastic import ElasticModel, Sides, Step, StepBounds
from partialfair.optimization.problems.local import Kinks, Local, no_kinks
from partialfair.optimization.problems.rows import Capability
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Floats

SECOND_ORDER = frozenset(
    {Capability.GRADIENT, Capability.JACOBIAN, Capability.HESSIAN, Capability.ROWS, Capability.LINEAR}
)
"""What Newton steps need of the rows."""

_LEAST_PRICE, _LARGEST_PRICE = 0.1, 1e4
_LARGEST_PROXIMAL = 1e6
"""No step helps that is so short."""
_SMALLEST_PROXIMAL = 1e-8
_FIRST_REFUSED = 1e-6
"""A τ that is smaller is raised to this at its first refusal: factors of 4 from 1e-8 would take too many."""
_SHORTER, _LONGER = 4.0, 0.25
"""Factors of τ after a refusal and after a success."""
_ASTRAY, _AS_PREDICTED = 0.25, 0.75
"""Shares of the predicted fall between which a remembered Hessian leaves τ as it is."""
_SHARP_ROUNDS = 4
"""How often kinks that were passed are spelled out before a sharp step is judged."""
_REFUSALS = 3
"""Smooth steps in a row that may be refused; then only sharp ones are tried."""
_CREEPING = 0.25
"""A larger τ, beside second derivatives of losses that are of this size, says that kinks shorten steps."""
_MEMORY = 3
"""Points whose highest penalty function a step must fall below."""
_SQUARE_WEIGHTS = (1.0, 1e1, 1e2, 1e3, 1e4)
"""Weights of squares of binding constraints that are tried to make the Hessian positive definite."""
LEAST_CONCAVE_SHARE = 0.1
"""Shares of the concave part below this are not worth a factorization."""
_PINNED = 1e-4
"""Kinks at most so many widths away are taken to be those that the last step ended on."""
_ENOUGH = 0.1
"""Share of the predicted fall that a step must achieve."""
_GOOD = 0.5
"""Share of it from which on no kinks need be spelled out."""
_AT_PRICE = 0.99
"""A multiplier of so many prices says that the price is in the way."""
_LEFT_VIOLATED = 1e-7
_FACTORS_KEPT = 2
"""Factorizations for different τ that are remembered at a point."""
_BINDING = 1e-6
"""Constraints with larger multipliers, in units of the largest, bind."""

_ON_FACE = 1e-9
"""A point so near to a face of a box, relative to 1 + |x|, lies on it: x + (high − x) need not be high."""


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

    def expand(self, multipliers: Floats) -> Local:
        """Return the problem near the point, with the Hessian of its Lagrangian."""

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
    domain
        Where steps must stay.
    price, least_price
        Of a unit of violation, and what it may fall to.
    smooth, sharp
        τ of steps without and with kinks spelled out.
    concave_share
        Share of the Hessian's concave part that was last taken.
    square_weight
        Of the squares of binding constraints that were last added to the Hessian.
    refusals
        How often in a row a step without kinks was refused.
    recent
        Objectives and sums of violations at the last points. A step need only fall below the highest of their
        penalty functions: along curved constraints the best steps climb first.
    remembered
        Hessian that is not computed at every step; None where it is. Not for subproblems.
    has_kinks
        Whether the problem can have any.
    factors
        Whether Hessians are small enough to be factored at every step.
    sharpened
        Whether kinks stood in the way of remembered Hessians.
    on_kinks
        Whether the last sharp step helped: a smooth one would leave kinks again, so sharp ones come first.
    faces
        Of the domain that held the last step back, if there was one: most hold back the next as well.
    residual
        Of the KKT conditions at the last point looked at, an upper bound of that of its certificate.
    """

    evaluate: Callable[[Floats], Point]
    multipliers: Floats
    tol: float
    domain: Domain
    price: float = 1.0
    least_price: float = _LEAST_PRICE
    smooth: float = 1e-2
    sharp: float = 1e-2
    concave_share: float = 1.0
    square_weight: float = 0.0
    refusals: int = 0
    recent: list[tuple[float, float]] = field(default_factory=list)
    remembered: RememberedHessian | None = None
    has_kinks: bool = True
    factors: bool = True
    sharpened: bool = False
    on_kinks: bool = False
    faces: Sides | None = None
    residual: float = field(default=float("inf"), init=False)

    def on(self, evaluate: Callable[[Floats], Point], tol: float) -> Descent:
        """Return what this one hands on to the first step on a problem like its own."""
        remembered = None if self.remembered is None else self.remembered.elsewhere()
        return replace(self, evaluate=evaluate, tol=tol, refusals=0, recent=[], remembered=remembered)

    @property
    def pays_most(self) -> bool:
        """Whether violations have the largest price that there is."""
        return self.price >= _LARGEST_PRICE

    def advance(self, at: Point) -> Point | None:
        """Return the next point; None if no step helps, or if the residual says that none is needed."""
        self.recent = [*self.recent[1 - _MEMORY :], (at.objective, _sum_of_violations(at))]
        if self.remembered is not None and not self.sharpened:
            following = self._remembered_step(self._near(at))
            if following is not None or self.residual <= self.tol or not self.has_kinks:
                return following
            self.sharpened, self.smooth = True, self.sharp
            if self.factors:
                self.remembered = None
        near = self._near(at)
        while max(self.smooth, self.sharp) <= _LARGEST_PROXIMAL:
            attempts = (self._smooth_step, self._sharp_step)
            for attempt in reversed(attempts) if self.on_kinks else attempts:
                following = attempt(near)
                if following is not None or self.residual <= self.tol:
                    return following
        return None

    def _near(self, at: Point) -> _Neighbourhood:
        if self.remembered is None:
            local = at.expand(self.multipliers)
        else:
            assert isinstance(at, ProblemPoint)
            local = self.remembered.expand(at, self.multipliers)
        return _Neighbourhood(at, local, self.multipliers, StepBounds(*self.domain.room(at.x)))

    def _remembered_step(self, near: _Neighbourhood) -> Point | None:
        """Try ever shorter steps, but not many where there are kinks: no length helps against those.

        τ falls only after steps that achieve nearly what was predicted.
        """
        refusals, largest = 0, _CREEPING if self.has_kinks else _LARGEST_PROXIMAL
        while self.smooth <= largest and not (self.has_kinks and refusals == _REFUSALS):
            # After a refusal it is τ that leaves violations, as it should: at a higher price the next step
            # would be as long as the last.
            proposal = self._propose(near, self.smooth, near.no_kinks(), price_may_rise=refusals == 0)
            if proposal is None:
                return None
            price = self.price
            trial = self._judge(near, proposal, downhill=True)
            share = -np.inf if trial is None else self._fallen(near.at, trial, price) / proposal.predicted
            if not _ASTRAY <= share < _AS_PREDICTED:
                self.smooth = _next_proximal(self.smooth, refused=share < _ASTRAY)
            if trial is not None:
                return trial
            refusals += 1
        return None

    def _smooth_step(self, near: _Neighbourhood) -> Point | None:
        """Try the smoothed model."""
        if self.refusals >= _REFUSALS:
            return None
        proposal = self._propose(near, self.smooth, near.no_kinks())
        trial = None if proposal is None else self._judge(near, proposal)
        self.refusals = self.refusals + 1 if trial is None else 0
        self.smooth = min(_next_proximal(self.smooth, refused=trial is None), _LARGEST_PROXIMAL)
        return trial

    def _sharp_step(self, near: _Neighbourhood) -> Point | None:
        """Try the model with the kinks of the last step, then with those passed, until none is new."""
        kinks = near.at.kinks(self.multipliers, _PINNED) or near.no_kinks()
        proposal = self._propose(near, self.sharp, kinks)
        for _ in range(_SHARP_ROUNDS):
            if proposal is None or self._fall(proposal.trial) >= _GOOD * proposal.predicted:
                break
            passed = near.at.kinks(proposal.step.multipliers, _PINNED, proposal.trial)
            if passed is None or np.isin(passed.keys, kinks.keys).all():
                break
            kinks = kinks.joined(passed)
            proposal = self._propose(near, self.sharp, kinks)
        if proposal is None:
            return None
        trial = self._judge(near, proposal)
        self.sharp = _next_proximal(self.sharp, refused=trial is None)
        self.on_kinks = trial is not None
        return trial

    def _propose(
        self, near: _Neighbourhood, proximal: float, kinks: Kinks, *, price_may_rise: bool = True
    ) -> _Proposal | None:
        """Solve the model; None if the point is stationary. Raise the price if that is in the way."""
        curved = near.curved(proximal, min(1.0, 1.5 * self.concave_share), self.square_weight)
        self.concave_share, self.square_weight = curved.concave_share, curved.square_weight
        model = ElasticModel(
            curved.factor,
            curved.gradient,
            near.local.jacobian,
            kinks,
            self.price,
            near.bounds,
            faces=self.faces,
        )
        step = model.step(near.at.constraints)
        self.faces = step.faces
        self.residual = near.residual(step, kinks)
        if self.residual <= self.tol:
            return None
        left = near.at.constraints + near.local.jacobian @ step.p + kinks.gains(step.p)
        at_price = (step.multipliers >= _AT_PRICE * self.price) & (left > _LEFT_VIOLATED)
        if price_may_rise and at_price.any():
            self.price = min(4 * self.price, _LARGEST_PRICE)
            self.least_price = self.price / 2
        change = near.local.gradient @ step.p + 0.5 * step.p @ (curved.hessian @ step.p)
        saved = _sum_of_violations(near.at) - np.maximum(left, 0).sum()
        predicted = float(self.price * saved - change)
        return _Proposal(model, step, predicted, self._reached(near, step))

    def _judge(self, near: _Neighbourhood, proposal: _Proposal, *, downhill: bool = False) -> Point | None:
        """Return the point proposed, or a correction of it, if the penalty function falls enough.

        A correction is tried if it does not, and, to go downhill, if it is higher than at the last point.
        """
        trial, step = proposal.trial, proposal.step
        if proposal.predicted <= 0 or not step.settled:  # up to rounding; a larger τ settles it
            return None
        enough = _ENOUGH * proposal.predicted
        if self._fall(trial) < enough or (downhill and self._fallen(near.at, trial, self.price) < 0):
            # The linearised constraints were met and the true ones are not: linearise from where they are.
            lines = near.local.jacobian @ step.p + proposal.model.kinks.gains(step.p)
            corrected = self._reached(near, proposal.model.step(trial.constraints - lines))
            trial = max(trial, corrected, key=self._fall)
            if self._fall(trial) < enough:
                return None
        self.multipliers = step.multipliers
        # A price far above the multipliers would refuse steps along curved constraints.
        largest = float(step.multipliers.max(initial=0.0))
        if largest < 0.1 * self.price:
            self.least_price = max(self.least_price / 2, _LEAST_PRICE)
        self.price = max(2 * largest, self.least_price, self.price / 2)
        return trial

    def _reached(self, near: _Neighbourhood, step: Step) -> Point:
        """Return the point that a step leads to; rounding must not leave the domain."""
        return self.evaluate(self.domain.project(near.at.x + step.p))

    def _fall(self, trial: Point) -> float:
        """Return by how much ``f_0 + price · Σ max(f_i, 0)`` falls below the highest of the last points."""
        before = max(objective + self.price * violations for objective, violations in self.recent)
        after = trial.objective + self.price * _sum_of_violations(trial)
        return before - after if np.isfinite(after) else -np.inf

    @staticmethod
    def _fallen(before: Point, after: Point, price: float) -> float:
        """Return by how much the penalty function falls from one point to another."""
        saved = _sum_of_violations(before) - _sum_of_violations(after)
        return before.objective - after.objective + price * saved


def _next_proximal(proximal: float, *, refused: bool) -> float:
    """Return τ of the next step, after one that was refused or accepted."""
    if refused:
        return max(_SHORTER * proximal, _FIRST_REFUSED)
    return max(_LONGER * proximal, _SMALLEST_PROXIMAL)


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
class _PositiveModel:
    """A positive definite model: H + τI with the squares, factored; H without them; ∇f_0 with them."""

    factor: Factored
    hessian: ArrowMatrix | LimitedMemory
    gradient: Floats
    concave_share: float
    square_weight: float


class _Neighbourhood:
    """The problem near one point: expanded once, factored anew for each τ."""

    def __init__(self, at: Point, local: Local, multipliers: Floats, bounds: StepBounds) -> None:
        self.at = at
        self.bounds = bounds
        self.local = local
        self.binding = np.flatnonzero(multipliers > _BINDING * max(1.0, multipliers.max(initial=0.0)))
        self._curved: dict[float, _PositiveModel] = {}

    def no_kinks(self) -> Kinks:
        """Return none."""
        m, n = self.local.jacobian.shape
        return no_kinks(n, m)

    def curved(self, proximal: float, concave_share: float, square_weight: float) -> _PositiveModel:
        """Return the model for τ; share and weight are those to try first."""
        if proximal not in self._curved:
            # Smooth and sharp steps often have the same τ, and seldom one of long ago; a factor is large.
            if len(self._curved) == _FACTORS_KEPT:
                del self._curved[next(iter(self._curved))]
            self._curved[proximal] = (
                self._augmented(proximal, square_weight)
                or self._shared(proximal, concave_share)
                or self._convex(proximal)
            )
        return self._curved[proximal]

    def _augmented(self, proximal: float, square_weight: float) -> _PositiveModel | None:
        """Take the whole concave part, with the least weight of squares that makes up for it."""
        if self.local.concave is None:
            return None
        assert isinstance(self.local.convex, ArrowMatrix)
        hessian = self.local.convex.minus(self.local.concave, 1.0)
        rows, values = self.local.jacobian[self.binding], self.at.constraints[self.binding]
        for weight in (0.0, *(weight for weight in _SQUARE_WEIGHTS if 10 * weight >= square_weight)):
            check_clock()
            with contextlib.suppress(np.linalg.LinAlgError):
                summed = hessian if weight == 0 else hessian.plus_squares(rows, weight)
                gradient = self.local.gradient + weight * (values @ rows)
                return _PositiveModel(summed.cholesky(proximal), hessian, gradient, 1.0, weight)
        return None

    def _shared(self, proximal: float, share: float) -> _PositiveModel | None:
        """Take as much of the concave part as leaves the Hessian positive definite."""
        if self.local.concave is None:
            return None
        assert isinstance(self.local.convex, ArrowMatrix)
        while share > LEAST_CONCAVE_SHARE:
            check_clock()
            with contextlib.suppress(np.linalg.LinAlgError):
                hessian = self.local.convex.minus(self.local.concave, share)
                return _PositiveModel(hessian.cholesky(proximal), hessian, self.local.gradient, share, 0.0)
            share /= 2
        return None

    def _convex(self, proximal: float) -> _PositiveModel:
        """Take nothing of the concave part, and a larger τ if rounding errors ask for it."""
        convex = self.local.convex
        while True:
            check_clock()
            with contextlib.suppress(np.linalg.LinAlgError):
                factor = convex.cholesky(proximal)
                return _PositiveModel(factor, convex, self.local.gradient, LEAST_CONCAVE_SHARE, 0.0)
            proximal *= 4

    def residual(self, step: Step, kinks: Kinks) -> float:
        """Return the largest residual of the KKT conditions at the point, with the step's multipliers.

        The multipliers of kinks that are ``gaps`` away make a subgradient of the Lagrangian that is inexact
        by ``Σ ν · gaps``; see `problems.certificate`. Faces of a box push only where x lies on
        them: elsewhere their multipliers are no normals.
        """
        room = np.where(step.bound_push > 0, self.bounds.high, -self.bounds.low)
        push = np.where(room <= _ON_FACE * (1 + np.abs(self.at.x)), step.bound_push, 0.0)
        gradient = (
            self.local.gradient
            + step.multipliers @ self.local.jacobian
            + step.kink_multipliers @ kinks.rows
            + push
        )
        inexact = 2 * (1 + step.multipliers.sum()) * (step.kink_multipliers @ kinks.gaps)
        return max(
            float(np.sqrt(gradient @ gradient + inexact)),
            float(self.at.constraints.max(initial=0.0)),
            float(np.abs(step.multipliers * self.at.constraints).max(initial=0.0)),
        )


@dataclass(eq=False)
class RememberedHessian:
    """What is remembered from one point to the next.

    Parameters
    ----------
    memory
        The Hessian, with the steps that correct it.
    renewed_after
        Steps after which it is computed anew; None if it never is.
    age
        Points looked at so far.
    before
        The last of them, and the problem near it.
    """

    memory: LimitedMemory
    renewed_after: int | None = None
    age: int = 0
    before: tuple[Floats, Local] | None = None

    def elsewhere(self) -> RememberedHessian:
        """Return what is worth remembering at a point of another problem like the last one."""
        return replace(self, age=0, before=None)

    def expand(self, at: ProblemPoint, multipliers: Floats) -> Local:
        """Return the problem near the next point, with a Hessian that knows of the step that led there."""
        if self.renewed_after is not None and self.age % self.renewed_after == 0:
            local = at.expand_net(multipliers)
            assert isinstance(local.convex, ArrowMatrix)
            self.memory = LimitedMemory.start(AbsoluteHessian.of(local.convex), at.x.size)
        else:
            local = at.expand_first(self.memory)
            if self.before is not None:
                x, earlier = self.before
                changes = multipliers @ (local.jacobian - earlier.jacobian)
                self.memory = self.memory.updated(at.x - x, local.gradient - earlier.gradient + changes)
        self.age += 1
        self.before = at.x, local
        return replace(local, convex=self.memory)
