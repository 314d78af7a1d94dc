"""What stays the same while a fit tries models: the rows, the loss, and the promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partialfair.constraints import Constraint, ConstraintBlock, join
from partialfair.constraints.surrogates import Surrogate
from partialfair.metrics.partial import WorstGap
from partialfair.optimization.objectives import Objective
from partialfair.optimization.problems import Box, Cells, Counts, Problem, TrainingData
from partialfair.training.promise import Promise
from partialfair.utils.typing import Floats

__all__ = ["Training"]


@dataclass(frozen=True, eq=False)
class Training:
    """What stays the same while constraints are corrected.

    Attributes
    ----------
    data
        The rows, wherever they lie.
    objective, alpha
        Loss and penalty.
    promises
        What is promised, and to whom.
    tol
        ε of the certificate.
    box
        Where parameters may lie; None: anywhere. Thresholds always may.
    """

    data: TrainingData
    objective: Objective
    alpha: Floats
    promises: tuple[Promise, ...]
    tol: float
    box: Box | None = None

    @property
    def cells(self) -> Cells:
        """What constraints are tied to: rows, or cells of rows."""
        assert self.data.cells is not None
        return self.data.cells

    def blocks(self, constraints: Sequence[Constraint], sigma: Surrogate | None) -> list[ConstraintBlock]:
        """Tie constraints, one for each promise, to the rows."""
        if sigma is None:
            return []
        return [
            constraint.build(promise.groups, self.cells.weights, sigma, self.cells.positive)
            for constraint, promise in zip(constraints, self.promises, strict=True)
        ]

    def problem(self, blocks: Sequence[ConstraintBlock]) -> Problem:
        """State the problem."""
        joined = join(blocks)
        box = None if self.box is None else self.box.with_free(joined.joined_bank.n_theta)
        return Problem.about(self.data, self.objective, joined, self.alpha, box)

    def gaps(self, counts: Counts) -> tuple[WorstGap, ...]:
        """Return the exact gap that each promise is about."""
        return tuple(counts.gap(promise) for promise in self.promises)

    @property
    def max_gaps(self) -> Floats:
        """What is allowed."""
        return np.array([promise.constraint.max_gap for promise in self.promises])
