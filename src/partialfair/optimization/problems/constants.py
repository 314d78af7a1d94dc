"""The constants of Assumption assume:DC for a given problem, and the budget that thm:idca makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair.optimization.problems.constrained import Problem
from partialfair.optimization.problems.reductions import LossParts
from partialfair.optimization.problems.rows import Capability, check_capabilities
from partialfair.theory import IdcaBudget, idca_budget
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats

__all__ = ["ProblemConstants", "estimate_constants"]


@dataclass(frozen=True)
class ProblemConstants:
    """M, μ and ν of Assumption assume:DC, and how far the objective can fall.

    Attributes
    ----------
    lipschitz
        M, estimated from below: the longest subgradient of any f± that was seen.
    mu
        μ: that of the shift; the parts themselves need not be strongly convex.
    nu
        The slack of a model that scores everybody alike, which bounds ν from above when all groups share one
        interval: half of max_gap at most. Without any `budget` refuses.
    decrease
        ``f_0(w⁰) − f_lb``, bounded by the loss at w = 0.
    """

    lipschitz: float
    mu: float
    nu: float
    decrease: float

    def budget(self, epsilon: float) -> IdcaBudget:
        """Return the steps that `partialfair.theory.idca_budget` asks for."""
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
        Points are drawn from the ball of this radius and projected onto 𝒲. The shift makes M grow with it:
        without a bounded 𝒲 there is no M (Assumption assume:DC D).
    n_samples, random_state
        How many points, and their seed.
    """
    check_capabilities(
        problem.rows, frozenset({Capability.JACOBIAN, Capability.LINEAR}), "Assumption assume:DC"
    )
    check_number(mu, "mu", above=0.0)
    check_number(radius, "radius", above=0.0)
    check_count(n_samples, "n_samples")
    rng = np.random.default_rng(random_state)
    start = problem.domain.project(problem.trivial_start)
    points = [start, *(_draw(problem, radius, rng) for _ in range(n_samples))]
    return ProblemConstants(
        lipschitz=max(_longest_subgradient(problem, x, mu) for x in points),
        mu=mu,
        nu=float(-problem.evaluate(start).constraints.max(initial=-np.inf)),
        decrease=problem.evaluate(start).objective,
    )


def _draw(problem: Problem, radius: float, rng: np.random.Generator) -> Floats:
    """Return a uniform point of the ball, projected onto 𝒲."""
    n = problem.n
    direction = rng.normal(size=n)
    return problem.domain.project(radius * rng.random() ** (1 / n) * direction / np.linalg.norm(direction))


def _longest_subgradient(problem: Problem, x: Floats, mu: float) -> float:
    point = problem.at(x)
    gradients = [
        point.gradient_of(LossParts.CONVEX) + point.penalty_gradient,
        point.gradient_of(LossParts.SUBTRACTED),
    ]
    gradients += [row for slopes in point.slopes for row in slopes @ point.atoms_jacobian]
    return max(float(np.linalg.norm(gradient + mu * x)) for gradient in gradients)
