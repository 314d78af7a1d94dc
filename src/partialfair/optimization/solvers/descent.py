r"""Newton steps on a Lagrangian under linearized constraints, safeguarded by an exact penalty.

The paper solves its convex subproblems by first-order steps (Algorithm 2). The steps here are not from the
paper and need few passes over the data. `SQP` applies them to the problem itself, `NewtonSteps` to a
subproblem of Algorithm 1.

A step minimizes ``⟨∇f_0, p⟩ + ½ pᵀ(H + τI)p + penalty · Σ max(0, linearized f_i)``. H is the Hessian of the
Lagrangian, averaged over the kinks of ramps. At an optimum it need only be positive definite along the active
constraints, so ``½ weight Σ (linearized f_i)²`` of those is added if it helps: where they are satisfied, this
changes nothing. If it does not help, only a part of the concave part is used.

At first H is recomputed only now and then, and the last steps correct it; if it would be too large, it is
approximated by them (`RememberedHessian`). Then τ decreases only if the penalty function decreases nearly as
the model predicts. Without kinks this is the whole method. If there are kinks, and steps are rejected or τ is
so large that they become very short, kinks are added explicitly from then on, and H is computed at every
step, if possible.

A *smooth* step uses an average over kinks. If it is rejected, a *sharp* one is tried: the kinks that the
smooth step passed explain the error of the average, so they are added to the quadratic program, and the step
is computed again, until it passes no new ones. Optima lie on many kinks, and only sharp steps reach them;
after a successful sharp step another one is tried first::

    f⁺ along a step      smooth model ·····   rejected: f increases where the model decreases
         \            /
          \     _____/    <- a kink that was passed becomes a row of the program:
           \___/             max(0, ⟨row, p⟩ − gap) joins f⁺, and the next step ends on it

The *penalty* of a unit of violation is above the multipliers, because otherwise the penalty function would
not be exact, and not far above, because then no step along curved constraints would be accepted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from partialfair.optimization.models.blocks import ArrowMatrix, Factored
from partialfair.optimization.models.limited import AbsoluteHessian, LimitedMemory
from partialfair.optimization.problems.constrained import ProblemPoint
from partialfair.optimization.problems.domains import Box
from partialfair.optimization.problems.elastic import ElasticModel, Sides, Step
from partialfair.optimization.problems.local import Kinks, Local, no_kinks
from partialfair.optimization.problems.rows import Capability
from partialfair.utils.clock import check_clock
from partialfair.utils.typing import Floats, Ints

SECOND_ORDER = frozenset(
    {Capability.GRADIENT, Capability.JACOBIAN, Capability.HESSIAN, Capability.ROWS, Capability.LINEAR}
)
"""Capabilities of the rows that Newton steps need."""


@dataclass(frozen=True)
class DescentSettings:
    """Settings of the steps.

    Attributes
    ----------
    min_penalty, max_penalty
        Bounds of the penalty: below, steps would ignore violations; above, rounding errors dominate.
    min_tau, max_tau
        Bounds of τ: smaller values change nothing, and larger ones give steps that are too short to help.
    first_refused_tau
        A smaller τ is raised to this at its first rejection: factors of 4 from 1e-8 would take too long.
    shorter, longer
        Factors of τ after a rejection and after a success.
    enough
        Fraction of the predicted decrease that a step must achieve.
    good
        Fraction of it above which no explicit kinks are needed.
    astray, as_predicted
        Fractions of it between which τ does not change for a remembered Hessian.
    sharp_rounds
        How often kinks that were passed are added before a sharp step is evaluated.
    max_refusals
        Smooth steps in a row that may be rejected; then only sharp ones are tried.
    creeping
        A larger τ, compared with second derivatives of losses of this size, indicates that kinks shorten
        steps.
    n_recent
        Number of points whose largest penalty function a step must not reach.
    square_weights
        Weights of the squares of active constraints that are tried to make the Hessian positive definite.
    min_concave_part
        Smaller fractions of the concave part do not justify a factorization.
    pinned
        Kinks within this many widths are assumed to be those on which the last step ended.
    at_penalty, left_violated
        A multiplier of this fraction of the penalty indicates that the penalty is too small, if the violation
        exceeds ``left_violated``.
    n_factors
        Number of factorizations for different τ that are cached at a point: smooth and sharp steps have one
        each.
    binding
        Constraints with larger multipliers, in units of the largest, are active.
    on_face
        A point this near to a face of a box, relative to 1 + |x|, lies on it: x + (high − x) need not be
        high.
    """

    min_penalty: float = 0.1
    max_penalty: float = 1e4
    min_tau: float = 1e-8
    max_tau: float = 1e6
    first_refused_tau: float = 1e-6
    shorter: float = 4.0
    longer: float = 0.25
    enough: float = 0.1
    good: float = 0.5
    astray: float = 0.25
    as_predicted: float = 0.75
    sharp_rounds: int = 4
    max_refusals: int = 3
    creeping: float = 0.25
    n_recent: int = 3
    square_weights: tuple[float, ...] = (1.0, 1e1, 1e2, 1e3, 1e4)
    min_concave_part: float = 0.1
    pinned: float = 1e-4
    at_penalty: float = 0.99
    left_violated: float = 1e-7
    n_factors: int = 2
    binding: float = 1e-6
    on_face: float = 1e-9

    def next_tau(self, tau: float, *, refused: bool) -> float:
        """Return τ of the next step, after one that was rejected or accepted."""
        if refused:
            return max(self.shorter * tau, self.first_refused_tau)
        return max(self.longer * tau, self.min_tau)


DESCENT = DescentSettings()


class Point(Protocol):
    """The oracles of a problem, or of one of IDCA's subproblems, at a point, for a step."""

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
class RememberedHessian:
    """A Hessian of a Lagrangian that is recomputed now and then, or never; steps in between correct it.

    Parameters
    ----------
    memory
        The Hessian, with the steps that correct it.
    renewed_after
        Steps after which it is recomputed; None for never.
    age
        Number of points so far.
    before
        The last of them, and the problem near it.
    """

    memory: LimitedMemory
    renewed_after: int | None = None
    age: int = 0
    before: tuple[Floats, Local] | None = None

    def expand(self, at: ProblemPoint, multipliers: Floats) -> Local:
        """Return the problem near the next point, with a Hessian that includes the step to it."""
        if self.renewed_after is not None and self.age % self.renewed_after == 0:
            local = at.expand_net(multipliers)
            assert isinstance(local.convex, ArrowMatrix)
            self.memory = LimitedMemory.start(AbsoluteHessian.of(local.convex), at.x.size)
        else:
            jacobian = at.constraint_jacobian()  # also computes the objective's gradient
            local = Local(at.objective_gradient(), jacobian, self.memory, None)
            if self.before is not None:
                x, earlier = self.before
                # The change of the gradient of the Lagrangian with the present multipliers.
                changes = multipliers @ (local.jacobian - earlier.jacobian)
                self.memory = self.memory.updated(at.x - x, local.gradient - earlier.gradient + changes)
        self.age += 1
        self.before = at.x, local
        return replace(local, convex=self.memory)


@dataclass(eq=False)
class Descent:
    """The state that one step passes to the next.

    Parameters
    ----------
    evaluate
        Function from coordinates to oracles.
    multipliers
        The last ones.
    tol
        Residual at which a point is stationary.
    domain
        Set in which steps must stay.
    penalty, min_penalty
        Penalty of a unit of violation, and its lower bound.
    tau_smooth, tau_sharp
        τ of steps without and with explicit kinks.
    concave_part
        Fraction of the Hessian's concave part that was last used.
    square_weight
        Weight of the squares of active constraints that were last added to the Hessian.
    refusals
        Number of steps without kinks that were rejected in a row.
    recent
        Objectives and sums of violations at the last points. A step must only be below the largest of their
        penalty functions, because along curved constraints the best steps increase it at first.
    remembered
        Hessian that is not computed at every step; None otherwise and for subproblems.
    has_kinks
        Whether the problem can have kinks.
    factors
        Whether Hessians are small enough to be factored at every step.
    sharpened
        Whether kinks have blocked steps with remembered Hessians.
    on_kinks
        Whether the last sharp step succeeded: a smooth one would leave kinks again, so sharp ones come first.
    faces
        Faces of the domain that held the last step; most of them hold the next one as well.
    residual
        Residual of the KKT conditions at the last point, an upper bound of that of its KKT certificate.
    """

    evaluate: Callable[[Floats], Point]
    multipliers: Floats
    tol: float
    domain: Box
    penalty: float = 1.0
    min_penalty: float = DESCENT.min_penalty
    tau_smooth: float = 1e-2
    tau_sharp: float = 1e-2
    concave_part: float = 1.0
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
        """Return the state for the first step on a similar problem."""
        remembered = self.remembered
        if remembered is not None:  # the curvature of the new problem is similar, its points are not
            remembered = replace(remembered, age=0, before=None)
        return replace(self, evaluate=evaluate, tol=tol, refusals=0, recent=[], remembered=remembered)

    def advance(self, at: Point) -> Point | None:
        """Return the next point; None if no step helps, or if the residual is small enough."""
        self.recent = [*self.recent[1 - DESCENT.n_recent :], (at.objective, _sum_of_violations(at))]
        if self.remembered is not None and not self.sharpened:
            following = self._remembered_step(self._near(at))
            if following is not None or self.residual <= self.tol or not self.has_kinks:
                return following
            # Kinks are explicit from here on. That helps if the rest of the model is exact.
            self.sharpened, self.tau_smooth = True, self.tau_sharp
            if self.factors:
                self.remembered = None
        near = self._near(at)
        while max(self.tau_smooth, self.tau_sharp) <= DESCENT.max_tau:
            attempts = (self._smooth_step, self._sharp_step)
            for attempt in reversed(attempts) if self.on_kinks else attempts:
                following = attempt(near)
                if following is not None or self.residual <= self.tol:
                    return following
        return None

    def _near(self, at: Point) -> _Neighbourhood:
        """Expand the problem at a point for all of its steps."""
        if self.remembered is None:
            local = at.expand(self.multipliers)
        else:
            assert isinstance(at, ProblemPoint)
            local = self.remembered.expand(at, self.multipliers)
        largest = max(1.0, self.multipliers.max(initial=0.0))
        binding = np.flatnonzero(self.multipliers > DESCENT.binding * largest)
        m, n = local.jacobian.shape
        return _Neighbourhood(at, local, binding, self.domain.room(at.x), no_kinks(n, m))

    def _remembered_step(self, near: _Neighbourhood) -> Point | None:
        """Try shorter and shorter steps, but only a few if there are kinks, against which no length helps.

        τ decreases only after steps that achieve nearly the predicted decrease.
        """
        refusals, largest = 0, DESCENT.creeping if self.has_kinks else DESCENT.max_tau
        while self.tau_smooth <= largest and not (self.has_kinks and refusals == DESCENT.max_refusals):
            # After a rejection τ causes violations, as it should; with a larger penalty the next step would
            # be as long as the last.
            proposal = self._propose(near, self.tau_smooth, near.no_kinks, penalty_may_rise=refusals == 0)
            if proposal is None:
                return None
            penalty = self.penalty  # accepting a step changes it
            trial = self._accept(near, proposal, downhill=True)
            part = -np.inf
            if trial is not None:
                part = _fallen(near.at, trial, penalty) / proposal.predicted
            if not DESCENT.astray <= part < DESCENT.as_predicted:
                self.tau_smooth = DESCENT.next_tau(self.tau_smooth, refused=part < DESCENT.astray)
            if trial is not None:
                return trial
            refusals += 1
        return None

    def _smooth_step(self, near: _Neighbourhood) -> Point | None:
        """Try the smoothed model."""
        if self.refusals >= DESCENT.max_refusals:
            return None
        proposal = self._propose(near, self.tau_smooth, near.no_kinks)
        trial = None if proposal is None else self._accept(near, proposal)
        self.refusals = self.refusals + 1 if trial is None else 0
        self.tau_smooth = min(DESCENT.next_tau(self.tau_smooth, refused=trial is None), DESCENT.max_tau)
        return trial

    def _sharp_step(self, near: _Neighbourhood) -> Point | None:
        """Try the model with the kinks of the last step, then with those passed, until none is new."""
        kinks = near.at.kinks(self.multipliers, DESCENT.pinned) or near.no_kinks
        proposal = self._propose(near, self.tau_sharp, kinks)
        for _ in range(DESCENT.sharp_rounds):
            if proposal is None or self._fall(proposal.trial) >= DESCENT.good * proposal.predicted:
                break
            passed = near.at.kinks(proposal.step.multipliers, DESCENT.pinned, proposal.trial)
            if passed is None or np.isin(passed.keys, kinks.keys).all():
                break
            kinks = kinks.joined(passed)
            proposal = self._propose(near, self.tau_sharp, kinks)
        if proposal is None:
            return None
        trial = self._accept(near, proposal)
        self.tau_sharp = DESCENT.next_tau(self.tau_sharp, refused=trial is None)
        self.on_kinks = trial is not None
        return trial

    def _propose(
        self, near: _Neighbourhood, tau: float, kinks: Kinks, *, penalty_may_rise: bool = True
    ) -> _Proposal | None:
        """Solve the model; None if the point is stationary. Increase the penalty if it is too small."""
        # Slightly more of the concave part than last time: it may be positive definite again.
        curved = near.positive_model(tau, min(1.0, 1.5 * self.concave_part), self.square_weight)
        self.concave_part, self.square_weight = curved.concave_part, curved.square_weight
        at, local = near.at, near.local
        model = ElasticModel(
            curved.factor,
            curved.gradient,
            local.jacobian,
            kinks,
            self.penalty,
            near.bounds,
            faces=self.faces,
        )
        step = model.step(at.constraints)
        self.faces = step.faces
        self.residual = near.residual(step, kinks)
        if self.residual <= self.tol:
            return None
        left = at.constraints + local.jacobian @ step.p + kinks.gains(step.p)
        at_penalty = (step.multipliers >= DESCENT.at_penalty * self.penalty) & (left > DESCENT.left_violated)
        if penalty_may_rise and at_penalty.any():
            self.penalty = min(4 * self.penalty, DESCENT.max_penalty)
            self.min_penalty = self.penalty / 2
        # The squares of active constraints and τ belong to the step, not to the prediction of f.
        change = local.gradient @ step.p + 0.5 * step.p @ (curved.hessian @ step.p)
        saved = _sum_of_violations(at) - np.maximum(left, 0).sum()
        trial = self.evaluate(self.domain.project(at.x + step.p))  # rounding must not leave the domain
        return _Proposal(model, step, float(self.penalty * saved - change), trial)

    def _accept(self, near: _Neighbourhood, proposal: _Proposal, *, downhill: bool = False) -> Point | None:
        """Return the proposed point, or a correction of it, if the penalty function decreases enough.

        A correction is tried if it does not, and with ``downhill`` also if it is larger than at the last
        point.
        """
        trial, step = proposal.trial, proposal.step
        if proposal.predicted <= 0 or not step.settled:  # up to rounding; a larger τ resolves it
            return None
        enough = DESCENT.enough * proposal.predicted
        if self._fall(trial) < enough or (downhill and _fallen(near.at, trial, self.penalty) < 0):
            # The linearized constraints are satisfied and the true ones are not (the Maratos effect):
            # linearize from their values, with the same factors.
            lines = near.local.jacobian @ step.p + proposal.model.kinks.gains(step.p)
            again = proposal.model.step(trial.constraints - lines)
            corrected = self.evaluate(self.domain.project(near.at.x + again.p))
            trial = max(trial, corrected, key=self._fall)
            if self._fall(trial) < enough:
                return None
        self.multipliers = step.multipliers
        # A penalty far above the multipliers would reject steps along curved constraints.
        largest = float(step.multipliers.max(initial=0.0))
        if largest < 0.1 * self.penalty:
            self.min_penalty = max(self.min_penalty / 2, DESCENT.min_penalty)
        self.penalty = max(2 * largest, self.min_penalty, self.penalty / 2)
        return trial

    def _fall(self, trial: Point) -> float:
        """Return the decrease of ``f_0 + penalty · Σ max(f_i, 0)`` from the largest of the last points."""
        before = max(objective + self.penalty * violations for objective, violations in self.recent)
        after = trial.objective + self.penalty * _sum_of_violations(trial)
        return before - after if np.isfinite(after) else -np.inf


def _sum_of_violations(at: Point) -> float:
    return float(np.maximum(at.constraints, 0.0).sum())


def _fallen(before: Point, after: Point, penalty: float) -> float:
    """Return the decrease of the penalty function from one point to another."""
    saved = _sum_of_violations(before) - _sum_of_violations(after)
    return before.objective - after.objective + penalty * saved


@dataclass(frozen=True, eq=False)
class _Proposal:
    """A step, the decrease of the penalty function in the model, and the resulting point."""

    model: ElasticModel
    step: Step
    predicted: float
    trial: Point


@dataclass(frozen=True, eq=False)
class _PositiveModel:
    """A positive definite model: H + τI with the squares, factored; H without them; ∇f_0 with them."""

    factor: Factored
    hessian: ArrowMatrix | LimitedMemory
    gradient: Floats
    concave_part: float
    square_weight: float


@dataclass(eq=False)
class _Neighbourhood:
    """The problem near one point: expanded once, factored again for each τ."""

    at: Point
    local: Local
    binding: Ints
    bounds: Box
    no_kinks: Kinks
    models: dict[float, _PositiveModel] = field(default_factory=dict, init=False)

    def positive_model(self, tau: float, concave_part: float, square_weight: float) -> _PositiveModel:
        """Return the first of `_candidates` for τ that is positive definite; the last always is."""
        if tau not in self.models:
            # Smooth and sharp steps often have the same τ, and seldom an old one; a factor is large.
            if len(self.models) == DESCENT.n_factors:
                del self.models[next(iter(self.models))]
            for factored, shift, *model in self._candidates(tau, concave_part, square_weight):
                check_clock()
                with contextlib.suppress(np.linalg.LinAlgError):
                    self.models[tau] = _PositiveModel(factored.cholesky(shift), *model)
                    break
        return self.models[tau]

    def _candidates(self, tau: float, concave_part: float, square_weight: float) -> Iterator[tuple[Any, ...]]:
        """Yield matrices to factor with their shifts, then the other fields of a `_PositiveModel`."""
        convex, concave, gradient = self.local.convex, self.local.concave, self.local.gradient
        if concave is not None:
            assert isinstance(convex, ArrowMatrix)
            # The whole concave part, with the smallest weight of squares that compensates for it ...
            hessian = convex.minus(concave, 1.0)
            rows, values = self.local.jacobian[self.binding], self.at.constraints[self.binding]
            yield hessian, tau, hessian, gradient, 1.0, 0.0
            for weight in DESCENT.square_weights:
                if 10 * weight >= square_weight:
                    summed = hessian.plus_squares(rows, weight)
                    yield summed, tau, hessian, gradient + weight * (values @ rows), 1.0, weight
            # ... or as much of it as keeps the Hessian positive definite ...
            while concave_part > DESCENT.min_concave_part:
                hessian = convex.minus(concave, concave_part)
                yield hessian, tau, hessian, gradient, concave_part, 0.0
                concave_part /= 2
        while True:  # ... or nothing of it, with a larger τ if rounding errors require it
            yield convex, tau, convex, gradient, DESCENT.min_concave_part, 0.0
            tau *= 4

    def residual(self, step: Step, kinks: Kinks) -> float:
        """Return the largest residual of the KKT conditions at the point, with the step's multipliers.

        The multipliers of kinks at distance ``gaps`` make a subgradient of the Lagrangian that is inexact by
        ``Σ ν · gaps``; see `problems.certificate`. Faces of a box push only if x lies on them; otherwise
        their multipliers are not normals.
        """
        at, local = self.at, self.local
        room = np.where(step.bound_push > 0, self.bounds.high, -self.bounds.low)
        push = np.where(room <= DESCENT.on_face * (1 + np.abs(at.x)), step.bound_push, 0.0)
        of_constraints = local.gradient + step.multipliers @ local.jacobian
        gradient = of_constraints + step.kink_multipliers @ kinks.rows + push
        inexact = 2 * (1 + step.multipliers.sum()) * (step.kink_multipliers @ kinks.gaps)
        return max(
            float(np.sqrt(gradient @ gradient + inexact)),
            float(at.constraints.max(initial=0.0)),
            float(np.abs(step.multipliers * at.constraints).max(initial=0.0)),
        )
