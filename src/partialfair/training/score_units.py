"""Fits in other units of the scores: of the spread of a regression's targets, or counted downwards.

Tolerances, proximal terms and certificates mean something only if scores are of the order of 1. And where low
scores are good, scores in a negative unit are high where they are good: constraints, which count ranks from
the top, need not know. Units are powers of two, or minus one, so that scaling rounds nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partialfair.constraints import Constraint
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.solvers import Record
from partialfair.training.named_constraints import record_of
from partialfair.training.result import FitResult
from partialfair.utils.typing import Floats

__all__ = ["record_in_users_units", "result_in_users_units", "unit_of"]


def unit_of(targets: Floats, weights: Floats) -> float:
    """Return the power of two at the weighted standard deviation; if that is 0, at the mean's size; or 1."""
    mean = float(np.average(targets, weights=weights))
    spread = float(np.sqrt(np.average((targets - mean) ** 2, weights=weights)))
    size = spread if spread > 1e-9 * abs(mean) else abs(mean)
    return float(2.0 ** np.round(np.log2(size))) if 1e-150 < size < 1e150 else 1.0


def record_in_users_units(record: Record, unit: float) -> Record:
    """Return a record of a solver with its objective in units of 1."""
    return replace(record, objective=unit**2 * record.objective)


def _gap(gap: WorstGap, constraint: Constraint, unit: float) -> WorstGap:
    """Return a gap with its threshold, and its value if that is a difference of scores, in units of 1."""
    value = abs(unit) * gap.value if _in_scores(constraint) else gap.value
    return replace(gap, value=value, threshold=unit * gap.threshold)


def _in_scores(constraint: Constraint) -> bool:
    """Whether a constraint bounds a difference of scores."""
    record = record_of(constraint)
    return record is not None and record.bounded.in_scores


def result_in_users_units(result: FitResult, unit: float) -> FitResult:
    """Return a result with everything that depends on the unit of scores in units of 1."""
    sigma = result.surrogate

    def in_users_units(gap: float) -> float:
        """Return a gap, which is a difference of scores if all constraints bound such."""
        in_scores = bool(result.constraints) and all(map(_in_scores, result.constraints))
        return abs(unit) * gap if in_scores else gap

    return replace(
        result,
        objective=unit**2 * result.objective,
        constant_objective=unit**2 * result.constant_objective,
        constraints=tuple(one.in_units(1 / unit) for one in result.constraints),
        gaps=tuple(
            _gap(gap, constraint, unit)
            for gap, constraint in zip(result.gaps, result.constraints, strict=True)
        ),
        thresholds=unit * result.thresholds,
        surrogate=None if sigma is None else replace(sigma, width=abs(unit) * sigma.width),
        spread=abs(unit) * result.spread,
        history=tuple(record_in_users_units(record, unit) for record in result.history),
        kkt=replace(result.kkt, objective=unit**2 * result.kkt.objective, gap=in_users_units(result.kkt.gap)),
        search=tuple(
            replace(line, gap=in_users_units(line.gap), objective=unit**2 * line.objective)
            for line in result.search
        ),
    )
