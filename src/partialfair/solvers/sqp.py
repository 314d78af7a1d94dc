"""Sequential quadratic programming: one quadratic program a step, in the multipliers alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partialfair._checks import check_count, check_number
from partialfair._typing import Floats
from partialfair.exceptions import InputError
from partialfair.problems import Problem, WholeSpace
from partialfair.problems.constrained import Trial
from partialfair.solvers._elastic import ElasticModel
from partialfair.solvers.result import Callback, Result, Run, Status

__all__ = ["SQP"]

_LARGEST_PRICE = 1e4
_LARGEST_PROXIMAL = 1e6


@dataclass(frozen=True)
class SQP:
    """Newton steps on the Lagrangian under linearised constraints, safeguarded by an exact penalty.

    A step minimises a quadratic model plus ``τ/2 ‖p‖²`` under the constraints linearised at x, which may be
    violated at a price. The model's curvature is that of f_0 and, smoothed over kinks, of the convex parts f⁺
    with the last multipliers: that of IDCA's majorants. The step is taken if ``f_0 + price · Σ max(f_i, 0)``
    falls by a tenth of what the model predicts, after a second-order correction if need be; then τ falls,
    else it rises. The start need not be feasible, and few passes over the data are needed.

    Parameters
    ----------
    max_iter
        Steps.
    tol
        Stop when violation, complementarity and the gradient of the Lagrangian are no larger.
    """

    max_iter: int = 100
    tol: float = 5e-5

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter of SQP")
        check_number(self.tol, "tol of SQP", above=0.0)

    def solve(
        self,
        problem: Problem,
        start: Floats,
        *,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Run until the KKT residual is small or no step helps; Ctrl-C keeps the best point so far."""
        if not isinstance(problem.domain, WholeSpace):
            raise InputError(
                "SQP solves problems over all of ℝⁿ; IDCA and DirectSwitching know other domains"
            )
        run = Run(problem, self.tol, time_limit, callback)
        at, multipliers = problem.at(start), np.zeros(problem.m)
        price, proximal = 1.0, 1e-2
        ending = run.record(0, start)
        try:
            for k in range(self.max_iter):
                if ending is not None:
                    return run.result(ending)
                local = _Local(at, multipliers)
                following = None
                while following is None:
                    if proximal > _LARGEST_PROXIMAL:
                        return run.result(Status.STALLED)
                    try:
                        step, multipliers = local.step(proximal, price)
                    except np.linalg.LinAlgError:  # a singular Hessian, and τ below its rounding errors
                        proximal *= 4
                        continue
                    price = local.raised(price, multipliers, step)
                    if local.residual(multipliers) <= self.tol:
                        return run.result(Status.CONVERGED)
                    following = local.accept(step, price)
                    proximal *= 4 if following is None else 0.25
                at, proximal = following, max(proximal, 1e-8)
                ending = run.record(k + 1, at.x)
        except KeyboardInterrupt:
            return run.result(Status.STOPPED)
        return run.result(ending or Status.MAX_ITER)


class _Local:
    """The model at one point: evaluated once, factored anew for each τ."""

    def __init__(self, at: Trial, multipliers: Floats) -> None:
        self.at = at
        plus, minus = at.problem.constraints.system.slopes(at.atoms)
        self.rows = (plus - minus) @ at.atoms_jacobian
        self.gradient = at.objective_gradient()
        self.hessian = at.lagrangian_hessian(multipliers @ plus)

    def step(self, proximal: float, price: float) -> tuple[Floats, Floats]:
        """Return the model's step and multipliers."""
        factor = self.hessian.cholesky(np.full(self.at.x.size, proximal))
        self.model = ElasticModel(factor, self.gradient, self.rows, price)
        return self.model.step(self.at.constraints)

    def residual(self, multipliers: Floats) -> float:
        """Return the KKT residual at the point with these multipliers."""
        return max(
            float(np.linalg.norm(self.gradient + multipliers @ self.rows)),
            float(self.at.constraints.max(initial=0.0)),
            float(np.abs(multipliers * self.at.constraints).max(initial=0.0)),
        )

    def raised(self, price: float, multipliers: Floats, step: Floats) -> float:
        """Raise the price where it is what keeps a linearised constraint violated."""
        stuck = (multipliers >= 0.99 * price) & (self.at.constraints + self.rows @ step > 1e-8)
        return min(4 * price, _LARGEST_PRICE) if stuck.any() else price

    def accept(self, step: Floats, price: float) -> Trial | None:
        """Return the oracles at the next point, or None if neither the step nor its correction helps."""
        change = self.gradient @ step + 0.5 * step @ (self.hessian @ step)
        linear = np.maximum(self.at.constraints + self.rows @ step, 0).sum()
        predicted = price * (np.maximum(self.at.constraints, 0).sum() - linear) - change
        trial = self.at.problem.at(self.at.x + step)
        if self._fall(trial, price) >= 0.1 * predicted:
            return trial
        # The linearised constraints were met and the true ones are not: linearise from where they are.
        corrected, _ = self.model.step(trial.constraints - self.rows @ step)
        trial = self.at.problem.at(self.at.x + corrected)
        return trial if self._fall(trial, price) >= 0.1 * predicted else None

    def _fall(self, trial: Trial, price: float) -> float:
        before = self.at.objective + price * np.maximum(self.at.constraints, 0).sum()
        after = trial.objective + price * np.maximum(trial.constraints, 0).sum()
        return float(before - after) if np.isfinite(after) else -np.inf
