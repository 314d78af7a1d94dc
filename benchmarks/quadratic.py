"""Quadratic-programming solvers on the programs that fits on a9a and law school come down to.

Run ``python benchmarks/quadratic.py [--data DIR]``. Needs piqp, which the package uses, and compares those
of clarabel, daqp, osqp and proxsuite that are installed. Kinks are spelled out in
most of them: the ramps are sharp.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from _record import RESULTS, write
from partialfair.constraints import StatisticalParity
from partialfair.datasets import load_a9a, load_law_school
from partialfair.problems import elastic, quadratic
from solvers import fast, state

Program = tuple[Any, Any, Any, Any]


def programs(path: Path | None) -> list[Program]:
    """Return every tenth program of two fits."""
    found: list[Program] = []

    def keep(*program: Any) -> Any:
        found.append(program)
        return quadratic.best_multipliers(*program)

    elastic.best_multipliers = keep
    for data in (load_law_school(path=path), load_a9a(path=path, drop_sensitive=True)):
        fast(state(data, StatisticalParity(data.interval, 0.05, "absolute")))
    elastic.best_multipliers = quadratic.best_multipliers
    return found[::10]


def constraints(program: Program) -> tuple[Any, Any]:
    """Return A and b of all inequalities ``A z ≤ b``."""
    _, linear, shares, upper = program
    m, n_kinks = upper.size, shares.shape[0]
    eye = np.eye(linear.size)
    rows = [-eye, eye[:m], np.hstack([-shares, np.eye(n_kinks)])]
    return np.vstack(rows), np.concatenate([np.zeros(linear.size), upper, np.zeros(n_kinks)])


def by_clarabel(program: Program) -> Any:
    """Solve with Clarabel."""
    import clarabel

    gram, linear, _, _ = program
    A, b = constraints(program)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(b.size)]
    P, A = sparse.csc_matrix(np.triu(gram)), sparse.csc_matrix(A)
    return np.array(clarabel.DefaultSolver(P, -linear, A, b, cones, settings).solve().x)


def by_daqp(program: Program) -> Any:
    """Solve with DAQP, after a small shift: it needs a positive definite matrix."""
    import daqp

    gram, linear, _, _ = program
    A, b = constraints(program)
    shifted = gram + 1e-12 * np.trace(gram) / linear.size * np.eye(linear.size)
    sense = np.zeros(b.size, dtype=np.int32)
    return daqp.solve(shifted, -linear, A, b, np.full(b.size, -1e30), sense)[0]


def by_osqp(program: Program) -> Any:
    """Solve with OSQP."""
    import osqp

    gram, linear, _, _ = program
    A, b = constraints(program)
    solver = osqp.OSQP()
    P, A = sparse.csc_matrix(np.triu(gram)), sparse.csc_matrix(A)
    solver.setup(P, -linear, A, np.full(b.size, -np.inf), b, verbose=False, eps_abs=1e-9, eps_rel=1e-9)
    return solver.solve().x


def by_proxqp(program: Program) -> Any:
    """Solve with ProxQP."""
    import proxsuite

    gram, linear, _, _ = program
    A, b = constraints(program)
    solver = proxsuite.proxqp.dense.QP(linear.size, 0, b.size)
    solver.settings.eps_abs = 1e-9
    solver.init(gram, -linear, None, None, A, np.full(b.size, -1e20), b)
    solver.solve()
    return solver.results.x


SOLVERS: dict[str, Callable[[Program], Any]] = {
    "PIQP": lambda program: quadratic.best_multipliers(*program),
    "Clarabel": by_clarabel,
    "DAQP": by_daqp,
    "OSQP": by_osqp,
    "ProxQP": by_proxqp,
}


def worth(program: Program, z: Any) -> float:
    """Return the dual objective at z, clipped into its bounds."""
    gram, linear, shares, upper = program
    m = upper.size
    own = np.clip(np.nan_to_num(z[:m]), 0, upper)
    z = np.concatenate([own, np.clip(np.nan_to_num(z[m:]), 0, shares @ own)])
    return float(linear @ z - 0.5 * z @ gram @ z)


def main() -> None:
    """Solve every program with every solver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    threadpool_limits(1)
    found = programs(arguments.data)
    sizes = {"up to 60 rows": (0, 60), "61 to 200 rows": (61, 200), "over 200 rows": (201, 10_000)}
    table = []
    for label, (low, high) in sizes.items():
        own = [program for program in found if low <= program[1].size <= high]
        if not own:
            continue
        best = [max(worth(p, quadratic.best_multipliers(*p)), worth(p, by_clarabel(p))) for p in own]
        for name, solve in SOLVERS.items():
            try:
                start = time.perf_counter()
                answers = [solve(program) for program in own]
                seconds = time.perf_counter() - start
            except ImportError:
                continue
            losses = [b - worth(p, z) for b, p, z in zip(best, own, answers, strict=True)]
            table.append(
                {
                    "programs": f"{label} ({len(own)})",
                    "solver": name,
                    "ms each": f"{1e3 * seconds / len(own):.1f}",
                    "solved to 1e-9": f"{np.mean(np.array(losses) <= 1e-9):.0%}",
                    "worst loss": f"{max(losses):.1e}",
                }
            )
    write("quadratic", "Quadratic-programming solvers on real programs", table, arguments.out)


if __name__ == "__main__":
    main()
