"""Solvers that read like the paper's algorithms; each is a frozen settings object with ``solve``."""

from partialfair.solvers.direct import DirectSwitching
from partialfair.solvers.idca import IDCA
from partialfair.solvers.inner.switching import Switching
from partialfair.solvers.result import Record, Result, Status

__all__ = ["IDCA", "DirectSwitching", "Record", "Result", "Status", "Switching"]
