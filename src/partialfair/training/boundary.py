"""Newton steps along the boundary of the feasible set of the exact metric.

If a surrogate is misleading (few rows, many ties, a grid of ranks that is too coarse for a small limit), the
solution of the surrogate problem is far from the best feasible model, and random steps from it end where
every short step either raises the objective or leaves the feasible set. The steps here need no feasible path.
Each solves one quadratic program. Its constraints have the values of the indicator at the current model, on a
grid of ranks that includes the places of the largest recent gaps, and the slopes of a narrow surrogate::

    min_p  ⟨∇f_0, p⟩ + ½ pᵀ(H + τI)p + penalty · Σ max(0, h_i + ⟨∇f_i, p⟩)

where the limits in h_i are reduced by a reserve. Once a run has found a feasible model, the reserve grows
while exact gaps exceed the limits and shrinks while they do not, so models stay near the boundary. A model
that exceeds the limits by far is rejected, and the next step is shorter. The result is the best model of the
run, not the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from partialfair.constraints.base import Constraint
from partialfair.constraints.parity import OnAGrid
from partialfair.constraints.surrogates import Surrogate
from partialfair.optimization.models.blocks import ArrowMatrix
from partialfair.optimization.problems.elastic import ElasticModel
from partialfair.optimization.problems.local import no_kinks
from partialfair.training.candidates import CandidateModel, Pool
from partialfair.training.tightening import add_points_at, evaluate_indicator
from partialfair.utils.clock import check_clock, ignore_deadline
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class BoundarySearch:
    """Settings of `follow_boundary`.

    Attributes
    ----------
    n_steps
        Steps of one run.
    proximal, shorter, longer
        The first and smallest τ, relative to the mean second derivative of the objective, and its factors
        after a rejected and after an accepted model.
    least_curvature
        Lower bound on the mean second derivative, in the units of the fit: that of the hinge loss is 0.
    damping
        Fraction of a step that is made: slopes of exact gaps are rough estimates.
    penalty
        Penalty of a unit of violation. It is large: steps from infeasible models restore feasibility first.
    weight_before
        Weight of ∇f_0 until a run has found a feasible model. With 1, runs on data with many ties rarely
        found one; with 0 they found models of little use.
    reserve, gain, most_reserve, least_reserve
        The first reserve, relative to the limits, which is used until a run has found a feasible model; then
        the fraction of an excess that is added to it, or of a slack that is subtracted; and its bounds.
    n_functions, most_points
        Number of constraint functions of the grids of ranks, and largest number of points of a grid:
        quadratic programs grow with the number of groups and points.
    n_recent
        Number of models whose largest gaps add a point to the grid.
    """

    n_steps: int = 40
    proximal: float = 5.0
    shorter: float = 4.0
    longer: float = 0.5
    least_curvature: float = 0.05
    damping: float = 0.5
    penalty: float = 1e3
    weight_before: float = 0.3
    reserve: float = 0.15
    gain: float = 0.3
    most_reserve: float = 0.9
    least_reserve: float = -0.5
    n_functions: int = 120
    most_points: int = 25
    n_recent: int = 6


def follow_boundary(
    pool: Pool,
    constraints: tuple[Constraint, ...],
    sigma: Surrogate,
    start: CandidateModel,
    settings: BoundarySearch,
) -> None:
    """Follow the boundary from a candidate, and add the best model of the run to the pool.

    Parameters
    ----------
    pool
        Candidates, evaluated.
    constraints
        The constraints to train, with the stated limits.
    sigma
        The surrogate whose slopes are used.
    start
        The candidate at which to begin.
    settings
        Step lengths and numbers of steps.
    """
    training, limits = pool.training, pool.training.max_gaps
    # As fine as the number of functions allows: between two ranks of a grid gaps are not limited.
    grids = _refine_grids(constraints, pool, settings)
    # A negative reserve loosens limits, but no limit may exceed the largest possible gap.
    most_limits = np.array([constraint.largest_gap for constraint in constraints])
    # Without an exact metric an excess is a violation of the surrogate, so there is no slack to measure.
    has_metric = np.array([one.has_metric for one in training.constraints])
    reserve = np.where(has_metric, settings.reserve * limits, 0.0)
    current = best = start
    # Recent places of the largest gap: if only the last one were limited, the gap would move elsewhere.
    recent = [training.gaps(pool.problem.rows.at(start.w).counts())]
    factor = settings.proximal
    try:
        for _ in range(settings.n_steps):
            check_clock()
            is_feasible = pool.is_feasible(best)
            pointed = grids
            for gaps in recent:
                pointed = add_points_at(training, pointed, gaps)
            trained_limits = np.minimum(limits - reserve, most_limits).tolist()
            stricter = tuple(
                replace(one, max_gap=limit) for one, limit in zip(pointed, trained_limits, strict=True)
            )
            # Until a feasible model is found, ∇f_0 counts less than feasibility.
            weight = 1.0 if is_feasible else settings.weight_before
            step = _newton_step(pool, stricter, sigma, current.w, weight, factor, settings)
            # Slopes come from a surrogate, so only part of the step is reliable.
            w = pool.problem.domain.project(current.w + settings.damping * step)
            gaps = training.gaps(pool.problem.rows.at(w).counts())
            candidate = pool.evaluate(w, gaps=gaps)
            assert candidate is not None
            if pool.sort_key(candidate) < pool.sort_key(best):
                best = candidate
            # Too far outside: reject the model and shorten the next step.
            if (candidate.excess > np.maximum(current.excess, 0.0) + limits).any():
                factor *= settings.shorter
                continue
            current, factor = candidate, max(settings.longer * factor, settings.proximal)
            recent = [*recent, gaps][-settings.n_recent :]
            if is_feasible:
                # Feedback on the limits: an excess makes them stricter, a slack looser.
                change = settings.gain * np.minimum(candidate.excess, limits)
                reserve = np.where(
                    has_metric,
                    np.clip(
                        reserve + change, settings.least_reserve * limits, settings.most_reserve * limits
                    ),
                    0.0,
                )
    finally:  # keep the best model however the run ends
        if best is not start:
            with ignore_deadline():
                pool.keep(best, "steps along the boundary", settings.n_steps)


def _newton_step(
    pool: Pool,
    constraints: tuple[Constraint, ...],
    sigma: Surrogate,
    w: Floats,
    weight: float,
    factor: float,
    settings: BoundarySearch,
) -> Floats:
    """Solve the quadratic program at w, with a weight of ∇f_0, and return p."""
    training = pool.training
    problem = training.problem(training.blocks(constraints, sigma))
    x = problem.start_at(w)
    local = problem.at(x).expand(np.zeros(problem.m))  # no multipliers: H is that of the objective alone
    assert isinstance(local.convex, ArrowMatrix)
    # τ in units of the mean second derivative has the same meaning in any unit of the loss.
    mean_curvature = sum(float(np.trace(block)) for block in local.convex.inner.blocks) / w.size
    model = ElasticModel(
        local.convex.cholesky(factor * max(mean_curvature, settings.least_curvature)),
        weight * local.gradient,
        local.jacobian,
        # The indicator has no slope, so the kinks of surrogate constraints do not apply.
        no_kinks(x.size, problem.m),
        settings.penalty,
        problem.domain.room(x),
    )
    return model.step(evaluate_indicator(training, constraints, sigma, x)).p[: w.size]


def _refine_grids(
    constraints: tuple[Constraint, ...], pool: Pool, settings: BoundarySearch
) -> list[Constraint]:
    """Return the constraints, on finer grids of ranks if they have grids."""
    n_groups = max(len(one.groups.labels) for one in pool.training.constraints)
    # Each group has two functions per point, one for each sign of its difference.
    n_points = min(settings.n_functions // (2 * n_groups * len(constraints)), settings.most_points)
    return [
        constraint.on_grid(constraint.grid.with_points(n_points))
        if isinstance(constraint, OnAGrid) and len(constraint.grid.points) < n_points + 2
        else constraint
        for constraint in constraints
    ]
