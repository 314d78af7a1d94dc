"""Estimates of the constants in the theory of IDCA (Assumption 6.3) for a given problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair.optimization.problems.constrained import Problem
from partialfair.optimization.problems.reductions import LossParts
from partialfair.optimization.problems.rows import Capability, check_capabilities
from partialfair.theory import IdcaBudget, idca_budget
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats


@dataclass(frozen=True)
class ProblemConstants:
    """M, μ and ν of Assumption 6.3, and a bound on the decrease of the objective.

    Attributes
    ----------
    lipschitz
        M, estimated from below: the length of the longest subgradient of any f± that occurred.
    mu
        μ of the shift; the parts themselves need not be strongly convex.
    nu
        The slack of a model with equal scores, which bounds ν from above if all groups share one interval: at
        most half of max_gap. Without slack, `budget` raises an `InputError`.
    decrease
        ``f_0(w⁰) − f_lb``, bounded by the loss at w = 0.
    """

    lipschitz: float
    mu: float
    nu: float
    decrease: float

    def budget(self, epsilon: float) -> IdcaBudget:
        """Return the number of steps by `partialfair.theory.idca_budget`."""
        return idca_budget(
            lipschitz=self.lipschitz, mu=self.mu, nu=self.nu, epsilon=epsilon, decrease=self.decrease
        )


def estimate_constants(
    problem: Problem,
    *,
    mu: float,
    radius: float,
    n_samples: int = 10,
    random_state: int | np.random.Generator | None = 0,
) -> ProblemConstants:
    """Estimate M, μ and ν of a problem whose parts f± are shifted by ``μ/2 ‖·‖²``.

    Parameters
    ----------
    problem
        The problem, unshifted.
    mu
        The shift.
    radius
        Points are drawn from the ball of this radius and projected onto 𝒲. The shift makes M increase with
        it: without a bounded 𝒲, such as a `Ball`, there is no M (Assumption 6.3 D).
    n_samples, random_state
        How many points, and their seed.
    """
    check_capabilities(problem.rows, frozenset({Capability.JACOBIAN, Capability.LINEAR}), "Assumption 6.3")
    check_number(mu, "mu", above=0.0)
    check_number(radius, "radius", above=0.0)
    check_count(n_samples, "n_samples")
    rng = np.random.default_rng(random_state)
    start = problem.domain.project(problem.trivial_start)
    points = [start]
    for _ in range(n_samples):  # uniform in the ball, then projected onto 𝒲
        direction = rng.normal(size=problem.n)
        length = radius * rng.random() ** (1 / problem.n)
        points.append(problem.domain.project(length * direction / np.linalg.norm(direction)))
    at_start = problem.evaluate(start)
    return ProblemConstants(
        lipschitz=max(_longest_subgradient(problem, x, mu) for x in points),
        mu=mu,
        # Assumption 6.3 B requires a point with slack ν in all constraints, here that of constant scores.
        nu=float(-at_start.constraints.max(initial=-np.inf)),
        decrease=at_start.objective,
    )


def _longest_subgradient(problem: Problem, x: Floats, mu: float) -> float:
    """Return the length of the longest of the subgradients of all shifted f± at x."""
    point = problem.at(x)
    gradients = [
        point.gradient_of(LossParts.CONVEX) + point.penalty_gradient,
        point.gradient_of(LossParts.SUBTRACTED),
    ]
    gradients += [row for slopes in point.slopes for row in slopes @ point.atoms_jacobian]
    return max(float(np.linalg.norm(gradient + mu * x)) for gradient in gradients)
