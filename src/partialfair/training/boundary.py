"""Newton steps along the boundary of what the exact metric allows.

Where a surrogate leads astray (few members, many ties, grids of ranks that are too coarse for a small limit)
a solved surrogate problem is far from the best feasible model, and random steps from it end where every short
step either raises the objective or leaves the feasible set. Steps here need no feasible path. Each solves one
quadratic program in which constraints have values of the indicator at the current model, on a grid of ranks
to which the places of the largest recent gaps are added, and slopes of a narrow surrogate::

    min_p  ⟨∇f_0, p⟩ + ½ pᵀ(H + τI)p + penalty · Σ max(0, h_i + ⟨∇f_i, p⟩)

with h_i for limits less a reserve. Once a run has found a feasible model, the
reserve grows while exact gaps exceed the limits and shrinks while they do not, so that models hover around
the boundary. A model that exceeds the limits by far is not followed, and the next step is shorter. The best
model on the way counts, not the last one.
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
        after a model that is not followed and after one that is.
    least_curvature
        What the mean second derivative counts at least, in the units of the fit: that of the hinge loss is 0.
    damping
        Share of a step that is taken: slopes of exact gaps are rough estimates.
    penalty
        Of a unit of violation. It is large: steps from infeasible models restore feasibility first.
    weight_before
        Weight of ∇f_0 until a run has found a feasible model. With 1, runs on data with many ties found one
        only now and then; with 0 they found models of little use.
    reserve, gain, most_reserve, least_reserve
        The first reserve, relative to the limits, which stays until a run has found a feasible model; then
        the share of an excess that is added to it, or of a slack that is taken off; and its bounds.
    n_functions, most_points
        Constraint functions of the grids of ranks, and points of a grid at most: quadratic programs grow with
        the number of groups and points.
    n_recent
        Models whose largest gaps add a point to the grid.
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
    """Take steps from a candidate, and add the best model on the way.

    Parameters
    ----------
    pool
        Candidates, evaluated.
    constraints
        What to train, with the stated limits.
    sigma
        The surrogate whose slopes are used.
    start
        Where to begin.
    settings
        Lengths and numbers.
    """
    training, limits = pool.training, pool.training.max_gaps
    # As fine as the number of functions allows: between two ranks of a grid gaps are not constrained.
    grids = _refine_grids(constraints, pool, settings)
    # A negative reserve loosens limits, but no constraint takes more than its largest gap.
    most_limits = np.array([constraint.largest_gap for constraint in constraints])
    # Where no metric is known, an excess is a violation of the surrogate: there is no slack to measure.
    has_metric = np.array([one.has_metric for one in training.constraints])
    reserve = np.where(has_metric, settings.reserve * limits, 0.0)
    current = best = start
    # Places at which gaps were largest: where only the last one is constrained, the next gap opens elsewhere.
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
            # Until a feasible model is found, ∇f_0 counts less than the way back to the feasible set.
            weight = 1.0 if is_feasible else settings.weight_before
            step = _newton_step(pool, stricter, sigma, current.w, weight, factor, settings)
            # Slopes are those of a surrogate: part of the step is as much as they are good for.
            w = pool.problem.domain.project(current.w + settings.damping * step)
            gaps = training.gaps(pool.problem.rows.at(w).counts())
            candidate = pool.evaluate(w, gaps=gaps)
            assert candidate is not None
            if pool.sort_key(candidate) < pool.sort_key(best):
                best = candidate
            # Too far outside: not followed, and the next step is shorter.
            if (candidate.excess > np.maximum(current.excess, 0.0) + limits).any():
                factor *= settings.shorter
                continue
            current, factor = candidate, max(settings.longer * factor, settings.proximal)
            recent = [*recent, gaps][-settings.n_recent :]
            if is_feasible:
                # A controller of the limits: an excess makes them stricter, a slack looser.
                change = settings.gain * np.minimum(candidate.excess, limits)
                reserve = np.where(
                    has_metric,
                    np.clip(
                        reserve + change, settings.least_reserve * limits, settings.most_reserve * limits
                    ),
                    0.0,
                )
    finally:  # whatever ends it, the best model is there
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
    # τ in units of the mean second derivative, so that it means the same in any unit of the loss.
    mean_curvature = sum(float(np.trace(block)) for block in local.convex.inner.blocks) / w.size
    model = ElasticModel(
        local.convex.cholesky(factor * max(mean_curvature, settings.least_curvature)),
        weight * local.gradient,
        local.jacobian,
        # The indicator has no slope, so constraints have none of its kinks.
        no_kinks(x.size, problem.m),
        settings.penalty,
        problem.domain.room(x),
    )
    return model.step(evaluate_indicator(training, constraints, sigma, x)).p[: w.size]


def _refine_grids(
    constraints: tuple[Constraint, ...], pool: Pool, settings: BoundarySearch
) -> list[Constraint]:
    """Return the constraints, on finer grids of ranks where they have such."""
    n_groups = max(len(one.groups.labels) for one in pool.training.constraints)
    # Each group has two functions for each point: one for either sign of its difference.
    n_points = min(settings.n_functions // (2 * n_groups * len(constraints)), settings.most_points)
    return [
        constraint.on_grid(constraint.grid.with_points(n_points))
        if isinstance(constraint, OnAGrid) and len(constraint.grid.points) < n_points + 2
        else constraint
        for constraint in constraints
    ]
