"""Solvers that read like the paper's algorithms; each is a frozen settings object with ``solve``."""

from collections.abc import Callable
from functools import partial

from partialfair.solvers.augmented_lagrangian import AugmentedLagrangian
from partialfair.solvers.direct import DirectSwitching
from partialfair.solvers.idca import IDCA
from partialfair.solvers.inner.newton import NewtonSteps
from partialfair.solvers.inner.switching import Switching
from partialfair.solvers.multistart import MultiStartSQP
from partialfair.solvers.newton import Newton
from partialfair.solvers.result import Record, Result, Run, Solver, as_solver
from partialfair.solvers.sqp import SQP
from partialfair.solvers.status import CUT_SHORT, GOOD, Status, decided, decided_on_new_rows

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
    "as_solver",
    "decided",
    "decided_on_new_rows",
]

SOLVERS: dict[str, Callable[..., Solver]] = {
    "auto": MultiStartSQP,
    "idca": partial(IDCA, inner=NewtonSteps(), mu=1e-2),
    "idca-switching": IDCA,
    "switching": DirectSwitching,
    "augmented-lagrangian": AugmentedLagrangian,
}
"""Names that estimators accept; a new solver is one class with a ``max_iter`` and one entry."""
