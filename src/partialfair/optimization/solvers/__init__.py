"""Solvers, written like the paper's algorithms; each is a frozen settings object with ``solve``."""

from collections.abc import Callable
from functools import partial

from partialfair.optimization.solvers.augmented_lagrangian import AugmentedLagrangian
from partialfair.optimization.solvers.idca import IDCA
from partialfair.optimization.solvers.multistart import MultiStartSQP
from partialfair.optimization.solvers.newton import Newton
from partialfair.optimization.solvers.result import Record, Result, Run, Solver
from partialfair.optimization.solvers.sqp import SQP, NewtonSteps
from partialfair.optimization.solvers.status import (
    CUT_SHORT,
    GOOD,
    Status,
    decide_status,
    decide_status_on_new_rows,
)
from partialfair.optimization.solvers.switching import DirectSwitching, Switching

__all__ = [
    "CUT_SHORT",
    "GOOD",
    "IDCA",
    "SOLVERS",
    "SQP",
    "AugmentedLagrangian",
    "DirectSwitching",
    "MultiStartSQP",
    "Newton",
    "NewtonSteps",
    "Record",
    "Result",
    "Run",
    "Solver",
    "Status",
    "Switching",
    "decide_status",
    "decide_status_on_new_rows",
]

SOLVERS: dict[str, Callable[..., Solver]] = {
    "auto": MultiStartSQP,
    "idca": partial(IDCA, inner=NewtonSteps(), mu=1e-2),
    "idca-switching": IDCA,
    "switching": DirectSwitching,
    "augmented-lagrangian": AugmentedLagrangian,
}
"""Names that estimators accept; a new solver is one class with a ``max_iter`` and one entry."""
