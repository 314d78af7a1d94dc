"""What a fit found, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

from partialfair._typing import Floats
from partialfair.groups import group_name
from partialfair.metrics.partial import WorstGap
from partialfair.problems import Certificate
from partialfair.solvers import Record, Status

__all__ = ["FitResult"]


@dataclass(frozen=True, eq=False)
class FitResult:
    """How a fit ended.

    Attributes
    ----------
    status
        CONVERGED only if the certificate holds at the estimator's ``tol``.
    objective
        Weighted mean loss plus penalty.
    max_violation
        ``max(0, max_i f_i)``: by how much the surrogate constraints are violated, in shares of a group.
    gap
        The exact gap of the training scores, as `partialfair.metrics` measures it: that of ``binding``.
    binding
        Among the constraints, the gap that is widest relative to what is allowed, with the worst pair of
        groups, and the score and the ranks at which they differ; None without constraints.
    gaps
        The exact gap of each constraint.
    thresholds
        The θ of the constraints.
    surrogate_width
        The width that was used; nan without constraints.
    tied_share
        Share of the training weight on the most common score; 1 for a model that ranks nobody.
    spread
        Interquartile range of the training scores / 1.349; below one width the surrogate says little.
    history
        One record per step: passes over the data, seconds, objective, violation.
    kkt
        The certificate: residuals of the nearly ε-KKT conditions, with multipliers.
    """

    status: Status
    objective: float
    max_violation: float
    gap: float
    binding: WorstGap | None
    gaps: tuple[WorstGap, ...]
    thresholds: Floats
    surrogate_width: float
    tied_share: float
    spread: float
    history: tuple[Record, ...]
    kkt: Certificate

    def __str__(self) -> str:
        last = self.history[-1]
        lines = [
            f"{self.status} after {last.step} steps, {last.passes:,} passes, {last.seconds:.2f} s",
            f"objective {self.objective:.6g}, surrogate constraints violated by {self.max_violation:.1e}",
            f"certificate: {self.kkt}",
        ]
        if self.binding is not None and self.binding.groups[0] is not None:
            pair = " and ".join(map(group_name, self.binding.groups))
            ranks = " and ".join(f"{100 * rank:.1f} %" for rank in self.binding.ranks)
            lines.append(f"exact training gap {self.gap:.4g}, between {pair} (ranks {ranks} from the top)")
        return "\n".join(lines)
