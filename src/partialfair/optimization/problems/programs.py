"""Convex quadratic programs, solved by PIQP, and by Clarabel where PIQP is missing or fails.

Every program that is solved exactly goes through here: the dense ones in multipliers of
`problems.quadratic`, and the sparse ones of `partialfair.postprocessing`. Both solvers are
interior-point methods; PIQP comes first because it is several times as fast on programs of these sizes.

Our dense programs are hard in one way: their Gram matrices mostly do not have full rank. DAQP and ProxQP,
which were tried for the second place, often ran out of iterations on them, and DAQP has no sparse programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from partialfair.exceptions import MissingExtraError
from partialfair.utils.typing import Floats

__all__ = ["SOLVERS", "Optimum", "QuadraticProgram", "Tolerances", "solve_program"]

Matrix: TypeAlias = Any
"""An array, or a sparse matrix of SciPy."""

_INFINITY = 1e30
"""What PIQP reads as no bound."""
_RANK = 1e-13
"""Eigenvalues that are smaller, relative to the largest, are rounding errors of a Gram matrix."""


@dataclass(frozen=True, eq=False)
class QuadraticProgram:
    """``min ½ xᵀ hessian x + ⟨linear, x⟩`` with ``rows x ≤ limits``, ``equal x = 0`` and ``low ≤ x ≤ high``.

    Attributes
    ----------
    hessian : (n, n)
        Positive semidefinite; dense, or sparse and diagonal.
    linear : (n,)
        The linear term.
    rows : (m, n), or None
        Sparse if the Hessian is.
    limits : (m,), or None
        The bounds of the rows.
    equal : (k, n), or None
        Rows whose value is 0.
    low, high : (n,), or None
        Bounds of x, infinite where there is none; a program has both or neither.
    """

    hessian: Matrix
    linear: Floats
    rows: Matrix | None = None
    limits: Floats | None = None
    equal: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True)
class Tolerances:
    """When a solver may end.

    Attributes
    ----------
    absolute, relative
        Of the residuals.
    gap_absolute, gap_relative
        Of the duality gap.
    max_iter
        Iterations after which PIQP returns what it has, which is mostly good.
    """

    absolute: float
    relative: float
    gap_absolute: float
    gap_relative: float
    max_iter: int


@dataclass(frozen=True, eq=False)
class Optimum:
    """A solution, with its multipliers ≥ 0; those that belong to no row or bound are 0.

    Attributes
    ----------
    x : (n,)
        The minimizer.
    rows, low, high
        Multipliers of the rows, (m,), and of the lower and upper bounds, (n,).
    """

    x: Floats
    rows: Floats
    low: Floats
    high: Floats


def solve_program(program: QuadraticProgram, tolerances: Tolerances) -> Optimum | None:
    """Return a solution by the first solver that is installed and does not give up; None if all of them do.

    Parameters
    ----------
    program
        It has a solution: x = 0 is feasible, and the objective is bounded below.
    tolerances
        When a solver may end. What comes near to them is returned as well: it is for the caller to check.

    Raises
    ------
    MissingExtraError
        If no solver is installed.
    """
    missing = []
    for name, solver in SOLVERS.items():
        try:
            optimum = solver(program, tolerances)
        except ImportError:  # machines that only train networks may have none, and a build may not load
            missing.append(name)
            continue
        if optimum is not None:
            return optimum
    if len(missing) == len(SOLVERS):
        raise MissingExtraError(
            f"quadratic programs need {' or '.join(missing)}, and neither can be imported; "
            f"run: pip install {missing[0]}",
            name=missing[0],
        )
    return None


def solve_by_piqp(program: QuadraticProgram, tolerances: Tolerances) -> Optimum | None:
    """Solve a program by PIQP, which is dense or sparse as the Hessian is."""
    import piqp
    from scipy.sparse import issparse

    solver = piqp.SparseSolver() if issparse(program.hessian) else piqp.DenseSolver()
    settings = solver.settings
    settings.eps_abs, settings.eps_rel = tolerances.absolute, tolerances.relative
    settings.eps_duality_gap_abs = tolerances.gap_absolute
    settings.eps_duality_gap_rel = tolerances.gap_relative
    settings.max_iter = tolerances.max_iter
    rows: tuple[Any, ...] = (None, None, None)
    if program.rows is not None and program.limits is not None:
        rows = (program.rows, np.full(program.limits.size, -_INFINITY), program.limits)
    equal = (None, None) if program.equal is None else (program.equal, np.zeros(len(program.equal)))
    bounds: tuple[Any, ...] = ()
    if program.low is not None and program.high is not None:
        bounds = (np.maximum(program.low, -_INFINITY), np.minimum(program.high, _INFINITY))
    try:
        solver.setup(program.hessian, program.linear, *equal, *rows, *bounds)
        status = solver.solve()
    except (RuntimeError, ValueError, TypeError):  # whatever its C++ raises
        return None
    result = solver.result
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED) or not np.isfinite(result.x).all():
        return None
    duals = (np.nan_to_num(values) for values in (result.z_u, result.z_bl, result.z_bu))
    return Optimum(np.array(result.x), *duals)


def solve_by_clarabel(program: QuadraticProgram, tolerances: Tolerances) -> Optimum | None:
    """Solve a program by Clarabel, in the form ``A x + s = b``, s = 0 for equalities and s ≥ 0 for the rest.

    Rounding gives singular Gram matrices small negative eigenvalues, at which Clarabel stops too early. So a
    dense Hessian is written as ``L Lᵀ`` without them, with variables ``v = Lᵀ x`` of its own:
    ``½ xᵀ hessian x = ½ ‖v‖²``.
    """
    import clarabel
    from scipy.sparse import csc_matrix, diags, hstack, identity, issparse, vstack

    n = program.linear.size
    no_bound = np.full(n, np.inf)
    low = -no_bound if program.low is None else program.low
    high = no_bound if program.high is None else program.high
    has_low, has_high = low > -_INFINITY, high < _INFINITY
    hessian, root = program.hessian, np.empty((n, 0))
    if not issparse(hessian):
        try:
            values, vectors = np.linalg.eigh(hessian)
        except np.linalg.LinAlgError:  # the Hessian holds infinities, or no numbers
            return None
        positive = values > _RANK * values[-1]
        root, hessian = vectors[:, positive] * np.sqrt(values[positive]), csc_matrix((n, n))
    rank = root.shape[1]
    none = np.empty((0, n))
    equal = none if program.equal is None else program.equal
    rows, limits = none if program.rows is None else program.rows, program.limits
    limits = np.empty(0) if limits is None else limits
    unit = identity(n, format="csr")
    of_x = vstack([csc_matrix(block) for block in (root.T, equal, rows, -unit[has_low], unit[has_high])])
    of_v = diags(-np.ones(rank), shape=(of_x.shape[0], rank))
    right = np.concatenate([np.zeros(rank + len(equal)), limits, -low[has_low], high[has_high]])
    cones = [clarabel.ZeroConeT(rank + len(equal)), clarabel.NonnegativeConeT(right.size - rank - len(equal))]

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_feas = max(tolerances.absolute, tolerances.relative)
    settings.tol_gap_abs, settings.tol_gap_rel = tolerances.gap_absolute, tolerances.gap_relative
    solution = clarabel.DefaultSolver(
        csc_matrix(diags(np.append(hessian.diagonal(), np.ones(rank)))),
        np.append(program.linear, np.zeros(rank)),
        csc_matrix(hstack([of_x, of_v])),
        right,
        cones,
        settings,
    ).solve()
    # It is enough to be near: `InsufficientProgress` mostly means that rounding leaves no better point.
    good = ("Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations")
    x, duals = np.array(solution.x), np.nan_to_num(solution.z)
    if str(solution.status) not in good or not np.isfinite(x).all():
        return None
    _, of_rows, of_low, of_high = np.split(duals, np.cumsum([rank + len(equal), limits.size, has_low.sum()]))
    lows, highs = np.zeros(n), np.zeros(n)
    lows[has_low], highs[has_high] = of_low, of_high
    return Optimum(x[:n], of_rows, lows, highs)


SOLVERS: dict[str, Callable[[QuadraticProgram, Tolerances], Optimum | None]] = {
    "piqp": solve_by_piqp,
    "clarabel": solve_by_clarabel,
}
"""By package, in the order in which they are tried.

They return None where they give up, and raise ImportError if their package cannot be imported.
"""
