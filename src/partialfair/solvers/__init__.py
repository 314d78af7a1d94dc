"""Solvers that read like the paper's algorithms; each is a frozen settings object with ``solve``."""

from partialfair.solvers.direct import DirectSwitching
from partialfair.solvers.idca import IDCA
from partialfair.solvers.inner.switching import Switching
from partialfair.solvers.newton import Newton
from partialfair.solvers.result import Record, Result, Run, Solver, Status
from partialfair.solvers.sqp import SQP

__all__ = [
    "IDCA",
    "SOLVERS",
    "SQP",
    "DirectSwitching",
    "Newton",
    "Record",
    "Result",
    "Run",
    "Solver",
    "Status",
    "Switching",
]

SOLVERS: dict[str, type[IDCA] | type[DirectSwitching]] = {
    "idca-switching": IDCA,
    "switching": DirectSwitching,
}
"""Names that estimators accept; a new solver is one class with a ``max_iter`` and one entry."""
