"""The inexact difference-of-convex algorithm (Algorithm 1), with any solver of its convex subproblems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from partialfair.optimization.problems import Capability, Subproblem
from partialfair.optimization.solvers.result import Run, Solver
from partialfair.optimization.solvers.status import Status
from partialfair.optimization.solvers.switching import Switching
from partialfair.utils.checks import check_count, check_number
from partialfair.utils.typing import Floats

_WEAKLY_CONVEX_SHIFT = 1e-2
"""μ for scores that are not linear. On a two-layer network 0 and 0.01 ended equally low, 0.1 and 1 higher."""


class InnerSolver(Protocol):
    """Approximately solves ``min g_0`` subject to ``g_i ≤ 0``."""

    @property
    def requires(self) -> frozenset[Capability]:
        """Capabilities of the rows that the solver needs."""

    @property
    def epsilon(self) -> float:
        """Infeasibility that the solver may leave."""

    def solve(self, subproblem: Subproblem, start: Floats) -> Floats:
        """Return an ε-optimal point of the convex subproblem (section "Inexact DCA")."""

    def longer(self) -> InnerSolver | None:
        """Return the same solver with a larger budget, or None if that would not help."""


@dataclass(frozen=True)
class IDCA(Solver):
    """Linearize every f⁻ at the iterate, solve the convex subproblem, repeat.

    Parameters
    ----------
    max_iter
        K.
    inner
        Solver of the subproblems; the paper's is `Switching`.
    mu
        Shift of Assumption 6.3 A: every g_i gains ``μ/2 ‖v − x‖²``. The default is 0, as in the paper, if
        scores are linear in the parameters, and otherwise 0.01, the ρ of weakly convex functions.
    tol
        If an outer step moves x by at most this, relative to 1 + ‖x‖, the inner solver is called with more
        steps (T_k of Theorem 6.5 depends on k); if it has no longer version, the solve has stalled.
    """

    max_iter: int = 200
    inner: InnerSolver = field(default_factory=Switching)
    mu: float | None = None
    tol: float = 1e-10

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of IDCA")
        if self.mu is not None:
            check_number(self.mu, "mu of IDCA", low=0.0)

    @property
    def requires(self) -> frozenset[Capability]:  # type: ignore[override]  # what the inner solver needs
        """Capabilities that the inner solver needs; tangents need gradients only."""
        return getattr(self.inner, "requires", frozenset({Capability.GRADIENT}))

    def iterate(self, run: Run, x: Floats) -> Status:
        """Run Algorithm 1 from a point that is feasible up to the inner tolerance (its line 1)."""
        problem, mu, run.tolerance = run.problem, self.mu, self.inner.epsilon
        if mu is None:
            mu = 0.0 if Capability.LINEAR in problem.rows.capabilities else _WEAKLY_CONVEX_SHIFT
        inner: InnerSolver | None = self.inner
        run.record(0, x)
        for k in range(self.max_iter):  # Alg. 1, line 2
            if inner is None:
                return Status.STALLED
            subproblem = problem.linearise(x, mu=mu)  # tangents of f⁻ at x make f convex
            following = inner.solve(subproblem, x)  # Alg. 1, line 3
            moved = np.linalg.norm(following - x)
            x = following
            run.record(k + 1, x)
            # Theorem 6.5 allows different inner budgets T_k: it increases only if it was too small to move x.
            if moved <= self.tol * (1 + np.linalg.norm(x)):
                inner = inner.longer()
        return Status.MAX_ITER
