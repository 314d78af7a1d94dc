"""Convex quadratic programs, solved by PIQP, and by Clarabel where PIQP is missing or fails.

Every program that is solved exactly is solved here: the dense ones in multipliers (`best_multipliers`), to
which every step and every KKT certificate leads, and the sparse ones of `partialfair.postprocessing`. Both
solvers are interior-point methods; PIQP comes first because it is several times as fast on programs of these
sizes.

The dense programs are hard in one way: their Gram matrices mostly do not have full rank. DAQP and ProxQP, the
other candidates for the second solver, often ran out of iterations on them, and DAQP has no sparse programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from partialfair.exceptions import MissingExtraError
from partialfair.utils.typing import Bools, Floats

Matrix: TypeAlias = Any
"""An array, or a sparse matrix of SciPy."""

_INFINITY = 1e30
"""The value by which PIQP represents a missing bound."""
_RANK = 1e-13
"""Eigenvalues that are smaller than this, relative to the largest, are rounding errors of a Gram matrix."""


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
        Bounds of x, infinite for a missing one; a program has both or neither.
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
    """Tolerances at which a solver may end.

    Attributes
    ----------
    absolute, relative
        Of the residuals.
    gap_absolute, gap_relative
        Of the duality gap.
    max_iter
        Iterations after which PIQP returns its last point, which is mostly good.
    """

    absolute: float
    relative: float
    gap_absolute: float
    gap_relative: float
    max_iter: int


@dataclass(frozen=True, eq=False)
class Optimum:
    """A solution with its multipliers ≥ 0; the multiplier of a missing row or bound is 0.

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
    """Return a solution by the first installed solver that does not fail; None if all of them do.

    Parameters
    ----------
    program
        It has a solution: x = 0 is feasible, and the objective is bounded below.
    tolerances
        Tolerances of the solver. Results that nearly satisfy them are returned as well, so callers must
        check.

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
    """Solve a program by PIQP, dense or sparse like the Hessian."""
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
    except (RuntimeError, ValueError, TypeError):  # errors of its C++ code
        return None
    result = solver.result
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED) or not np.isfinite(result.x).all():
        return None
    duals = (np.nan_to_num(values) for values in (result.z_u, result.z_bl, result.z_bu))
    return Optimum(np.array(result.x), *duals)


def solve_by_clarabel(program: QuadraticProgram, tolerances: Tolerances) -> Optimum | None:
    """Solve a program by Clarabel, in the form ``A x + s = b``, s = 0 for equalities and s ≥ 0 for the rest.

    Rounding gives singular Gram matrices small negative eigenvalues, at which Clarabel stops too early. So a
    dense Hessian is written as ``L Lᵀ`` without them, with additional variables ``v = Lᵀ x``:
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
        except np.linalg.LinAlgError:  # the Hessian has infinite or missing entries
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
    # A nearly solved program is enough: `InsufficientProgress` mostly means that rounding prevents better.
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
"""Solvers by package, in the order in which they are tried.

They return None if they fail, and raise ImportError if their package cannot be imported.
"""


STEP_GAP, WITNESS_GAP = 1e-8, 1e-9
"""Duality gaps of programs: steps are evaluated by their result, but the root of a witness's gap is a
residual, and that of 1e-8 is as large as the usual tolerance."""


@dataclass(frozen=True)
class MultiplierSettings:
    """Settings of `best_multipliers`.

    Attributes
    ----------
    tolerances
        Tolerances of the solver; PIQP stalls below an absolute 1e-10.
    infinity
        Larger upper bounds count as missing.
    rounds
        How often the set of active constraints is corrected.
    dependent
        Reciprocal condition of a system that has more than one solution, up to rounding.
    same
        Multipliers within this relative distance of their bound are on it.
    rounding
        Largest violation by the exact solution on the active constraints, relative to the largest entries.
    """

    tolerances: Tolerances = Tolerances(
        absolute=1e-10, relative=0.0, gap_absolute=STEP_GAP, gap_relative=1e-9, max_iter=100
    )
    infinity: float = 1e30
    rounds: int = 10
    dependent: float = 1e-12
    same: float = 1e-12
    rounding: float = 1e-9


SETTINGS = MultiplierSettings()


class Borders(NamedTuple):
    """Conditions of kinks at borders on multipliers; see `partialfair.optimization.problems.local`.

    Attributes
    ----------
    backs : (K,)
        How far each may go back, in units of how far it may go.
    balance : (n_borders, K)
        Coefficients of sums that are 0.
    """

    backs: Floats
    balance: Floats


def bound_kinks(shares: Floats, beyond: Floats, backs: Floats) -> Floats:
    """Return rows of z = (λ, ν) that are ≤ 0: ``ν − room``, and ``−ν − backs · room`` where ν may go back."""
    kinks = np.eye(backs.size)
    back = -backs[:, None] * np.hstack([shares, beyond])
    back[:, shares.shape[1] :] -= kinks
    return np.vstack([np.hstack([-shares, kinks - beyond]), back[np.flatnonzero(backs)]])


def best_multipliers(
    gram: Floats,
    linear: Floats,
    shares: Floats,
    beyond: Floats,
    upper: Floats,
    gap: float = STEP_GAP,
    borders: Borders | None = None,
) -> Floats:
    """Return the maximizer z of ``⟨linear, z⟩ − ½ zᵀ gram z``, the dual of a program in many parameters.

    ``z = (λ, ν)`` with ``0 ≤ λ ≤ upper`` for constraints and ``0 ≤ ν ≤ room = shares · λ + beyond · ν`` for
    kinks. Some may go back as well, ``−backs · room ≤ ν``, and those that belong to a border balance:
    ``balance · ν = 0``. z is clipped to its bounds, so it is a witness however it was found.

    Parameters
    ----------
    gram : (m + K, m + K)
        Positive semidefinite.
    linear : (m + K,)
        The linear term.
    shares : (K, m)
        Bounds of ν by λ.
    beyond : (K, K)
        Bounds of ν by those ν whose own rows are 0; see `partialfair.optimization.problems.local`.
    upper : (m,)
        Bounds of λ.
    gap
        Duality gap at which the solver may end.
    borders
        Borders of kinks, if they have any.
    """
    n_kinks, m = shares.shape
    if m == 0:
        return np.zeros(n_kinks)
    backs, balance = borders or Borders(np.zeros(n_kinks), np.empty((0, n_kinks)))
    free = np.append(np.zeros(m), backs) > 0
    bounded = bound_kinks(shares, beyond, backs)
    heights = np.zeros(len(bounded))
    equal = np.hstack([np.zeros((len(balance), m)), balance])
    program = QuadraticProgram(
        gram,
        -linear,
        bounded if n_kinks else None,
        heights if n_kinks else None,
        equal if len(equal) else None,
        np.where(free, -np.inf, 0.0),
        np.append(upper, np.full(n_kinks, np.inf)),
    )
    optimum = solve_program(program, replace(SETTINGS.tolerances, gap_absolute=gap))
    if optimum is None:
        return np.zeros(m + n_kinks)  # also a witness, with weak residuals
    z = optimum.x
    z[:m] = np.clip(z[:m], 0.0, upper)
    # An interior solution gives all constraints small multipliers, which together are a residual. The active
    # constraints are guessed from it, and the exact solution with these corrects the guess.
    finite = np.flatnonzero(upper < SETTINGS.infinity)
    rows = np.vstack([np.eye(m + n_kinks)[finite], bounded])
    active_set = _ActiveSet(gram, linear, rows, np.concatenate([upper[finite], heights]), equal, free)
    duals = np.concatenate([optimum.high[finite], optimum.rows])
    exact = active_set.solve(z > optimum.low, duals > active_set.limits - rows @ z)
    if exact is not None:
        reached = finite[np.abs(upper - exact[:m])[finite] <= SETTINGS.same * upper[finite]]
        exact[reached] = upper[reached]
        return exact
    for _ in range(2):  # first those that bound others
        room = np.maximum(shares @ z[:m] + beyond @ z[m:], 0.0)
        z[m:] = np.clip(z[m:], -backs * room, room)
    for amounts in balance:  # reduce the heavier side of a border until it balances
        flows = amounts * z[m:]
        up, down = flows[flows > 0].sum(), -flows[flows < 0].sum()
        if up != down:
            heavier = flows > 0 if up > down else flows < 0
            z[m:] = np.where(heavier, z[m:] * (min(up, down) / max(up, down)), z[m:])
    return np.asarray(z)


@dataclass(frozen=True, eq=False)
class _ActiveSet:
    """``max ⟨linear, z⟩ − ½ zᵀ gram z`` with ``rows z ≤ limits``, ``equal z = 0``, and z ≥ 0 where not free.

    Solved by a primal-dual active-set method (Hintermüller, Ito and Kunisch 2002).
    """

    gram: Floats
    linear: Floats
    rows: Floats
    limits: Floats
    equal: Floats
    free: Bools

    def solve(self, positive: Bools, active: Bools) -> Floats | None:
        """Return the exact solution; None if the guess does not lead to it, or if it is not unique.

        Parameters
        ----------
        positive, active
            A guess of the positive entries, and of the limits that hold with equality.
        """
        largest_wrong = SETTINGS.rounding * (1 + np.abs(self.linear).max())
        for _ in range(SETTINGS.rounds):
            positive = positive | self.free
            stationary = self._stationary_point(positive, active)
            if stationary is None:
                return None
            z, duals, equal_duals = stationary
            slopes = self.linear - self.gram @ z - duals @ self.rows - equal_duals @ self.equal
            slack = self.limits - self.rows @ z
            wrong = [-z[positive & ~self.free], slopes[~positive], -duals[active], -slack[~active]]
            if max(entries.max(initial=0.0) for entries in wrong) <= largest_wrong:
                return np.where(self.free, z, np.maximum(z, 0.0))
            positive = np.where(positive, z > 0, slopes > 0)
            active = np.where(active, duals > 0, slack < 0)
        return None

    def _stationary_point(self, positive: Bools, active: Bools) -> tuple[Floats, Floats, Floats] | None:
        """Return z and multipliers of limits and sums for an active set; None if they are not determined."""
        z, duals, equal_duals = np.zeros(positive.size), np.zeros(active.size), np.zeros(len(self.equal))
        balanced = self.equal[:, positive].any(axis=1)  # empty sums are 0 anyway
        rows = np.vstack([self.rows[np.ix_(active, positive)], self.equal[np.ix_(balanced, positive)]])
        n, n_active = int(positive.sum()), len(rows)
        if n_active > n:
            return None
        if n:
            # [[gram, rowsᵀ], [rows, 0]] of the nonzero entries, by LU with an estimate of its condition.
            system = np.zeros((n + n_active, n + n_active))
            system[:n, :n] = self.gram[np.ix_(positive, positive)]
            system[:n, n:], system[n:, :n] = rows.T, rows
            factor, pivots, failed = dgetrf(system)
            size = float(np.abs(system).sum(axis=0).max())
            if failed or dgecon(factor, size)[0] <= SETTINGS.dependent:
                return None
            right = np.concatenate([self.linear[positive], self.limits[active], np.zeros(balanced.sum())])
            z[positive], duals[active], equal_duals[balanced] = np.split(
                dgetrs(factor, pivots, right)[0], [n, n + int(active.sum())]
            )
        return z, duals, equal_duals
