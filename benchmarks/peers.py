"""Two other libraries that solve the same problem, in their own environment (`make bench-comparison`).

Run ``python benchmarks/peers.py [--data DIR] [--minutes 5] [--rungs 200 400]``; data as in docs/data.md.
Model (with interactions), penalty, interval, ``max_gap`` and columns are those of engine.py: objective and
violation are those of `PartialFairClassifier`'s problem for every library. Every row has a fresh process,
which is ended after ``--minutes``. All methods start at the unconstrained solution.

- dccp: the convex-concave procedure for cvxpy, on increasing numbers of random rows of law_school until the
  time limit, and partialfair on the same rows. Both use a ramp with corners, as in the paper, of the
  classifier's default width. Clarabel solves the convex subproblems with shorter steps than its default, with
  which it fails after a few iterations. If dccp does not converge it reports "infeasible", and the row
  describes its last point. Passes are not counted.
- SSG: the stochastic switching subgradient method of humancompatible-train with Adam steps, on batches or on
  all rows. Among the points after each epoch with a violation of at most 1e-3, the one with the lowest
  objective is used, or else the one with the smallest violation. All data sets have the same settings, chosen
  from about a dozen on the training parts of a9a and law_school with pSP. They are not optimal for each: on
  law_school, 3000 epochs on all rows reached 0.2796 instead of 0.2886.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from _data import Part
from _problems import only_shard, unconstrained_start
from _record import RESULTS, write
from engine import (
    METHODS,
    Fitted,
    in_a_process,
    linear_scorer,
    one,
    ours,
    shown,
    stated,
)
from partialfair import FitOptions
from partialfair.constraints.dc import DC, GroupMeans
from partialfair.constraints.surrogates import Ramp
from partialfair.datasets.task import Dataset
from partialfair.optimization.problems import Problem

LADDER = (200, 400, 800, 1600, 3200, 6400)
DCCP = {"tau_ini": 0.1, "mu": 1.5, "tau_max": 100.0}
CLARABEL = {"min_switch_step_length": 0.01, "min_terminate_step_length": 1e-8}
SWITCHING = {
    "SSG, batches": {"epochs": 300, "batch": 2048, "lr": 0.003, "tol": 0.1},
    "SSG, all rows": {"epochs": 1000, "lr": 0.01, "tol": 0.0},
}
FEASIBLE = 1e-3


def only_bank(problem: Problem) -> GroupMeans:
    """Return the atoms of a problem with one constraint."""
    (bank,) = problem.bank.banks
    assert isinstance(bank, GroupMeans)
    return bank


def ramp(train: Part, data: Dataset, constraint: str | None) -> Ramp:
    """Return the ramp with corners, with the classifier's default width."""
    return Ramp(only_bank(stated(train, data, constraint)).surrogate.width)


def described(problem: Problem, x: Any) -> dict[str, Any]:
    """Return the objective and the violation of a point."""
    found = problem.evaluate(x)
    return {"objective": found.objective, "violation": found.violation}


def convex_concave(train: Part, data: Dataset, constraint: str | None) -> Fitted:
    """Solve by dccp; the time is that of cvxpy and dccp."""
    import cvxpy as cp
    import dccp  # noqa: F401  registers itself with cvxpy

    problem = stated(train, data, constraint, options=FitOptions(surrogate=ramp(train, data, constraint)))
    start, _ = unconstrained_start(problem)
    begin = time.perf_counter()
    shard, parameters = only_shard(problem), problem.rows.parameters
    model: Any = shard.model
    (members,) = shard.members
    rows = sparse.csr_matrix(model.rows(np.arange(len(train.y))))
    w, theta = cp.Variable(parameters.n), cp.Variable(start.size - parameters.n)
    # Convex parts are functions of the scores, which keeps the solver's matrix sparse. Parts that dccp
    # linearizes are functions of w, which keeps the tangents short.
    scores = cp.Variable(len(train.y))
    bank = only_bank(problem)

    def atoms(scores_of: Callable[[Any], Any]) -> dict[int, Any]:
        found = {}
        for k in range(bank.n_groups):
            own = np.flatnonzero(members.codes == k)
            for j in range(bank.n_thresholds):
                at = theta[j] if j < bank.n_theta else bank.fixed[j - bank.n_theta]
                margins = (scores_of(own) - at) / bank.surrogate.width
                found[bank.plus(k, j)] = members.shares[own] @ cp.pos(margins + 0.5)
                found[bank.minus(k, j)] = members.shares[own] @ cp.pos(margins - 0.5)
        return found

    def part(f: DC, sign: int, values: dict[int, Any]) -> Any:
        total = 0.0
        for factor, pieces in f.terms:
            if sign * factor > 0:
                each = [sum(x * values[a] for a, x in piece.atoms) + piece.constant for piece in pieces]
                total += abs(factor) * (cp.maximum(*each) if len(each) > 1 else each[0])
        return total

    convex, concave = atoms(lambda own: scores[own]), atoms(lambda own: rows[own] @ w)
    shares, targets = shard.objective.shares, shard.objective.targets
    penalty = cp.sum(cp.multiply(problem.alpha, cp.square(w[: parameters.n_penalized]))) / 2
    program = cp.Problem(
        cp.Minimize(shares @ cp.logistic(-cp.multiply(targets, scores)) + penalty),
        [
            scores == rows @ w,
            *(
                part(f, 1, convex) + f.constant <= part(f, -1, concave)
                for f in problem.constraints.system.functions
            ),
        ],
    )
    w.value, theta.value = problem.split(start)
    scores.value = rows @ w.value
    try:
        program.solve(method="dccp", solver=cp.CLARABEL, **DCCP, **CLARABEL)
        status = program.status
    except cp.SolverError:
        status = "Clarabel failed"
    x = np.concatenate([w.value, theta.value])
    versions = ", ".join(f"{name} {version(name)}" for name in ("dccp", "cvxpy", "clarabel"))
    says = {
        "seconds": time.perf_counter() - begin,
        "status": status,
        **described(problem, x),
        "settings": f"{versions}; {settings(DCCP | CLARABEL)}",
    }
    return Fitted(linear_scorer(problem, x), says)


def settings(given: dict[str, float]) -> str:
    """Return settings in one line."""
    return ", ".join(f"{name}={value:g}" for name, value in given.items())


def switching_subgradient(
    train: Part, data: Dataset, constraint: str | None, given: dict[str, float]
) -> Fitted:
    """Solve by SSG with Adam steps."""
    import torch
    from humancompatible.train.dual_optim import SSG

    torch.manual_seed(0)
    torch.set_num_threads(1)  # steps are short, and more threads make them slower
    problem = stated(train, data, constraint)
    bank = only_bank(problem)
    shard, n_params, n = only_shard(problem), problem.rows.parameters.n, len(train.y)
    model: Any = shard.model
    (codes,) = (members.codes for members in shard.members)

    def tensor(array: Any) -> Any:
        return torch.as_tensor(array, dtype=torch.float32)

    rows, members = tensor(model.rows(np.arange(n))), tensor(np.eye(bank.n_groups)[codes])
    signs, alpha, fixed = tensor(shard.objective.targets), tensor(problem.alpha), tensor(bank.fixed)
    values_of = constraint_values(problem, tensor)
    width, rounding = bank.surrogate.width, bank.surrogate.rounding  # type: ignore[attr-defined]

    def hinge(margins: Any) -> Any:
        above = (margins + rounding).clamp(min=0)
        return torch.where(above < 2 * rounding, above**2 / (4 * rounding), above - rounding)

    x = torch.nn.Parameter(tensor(unconstrained_start(problem)[0]))
    groups = [torch.as_tensor(np.flatnonzero(codes == k)) for k in range(bank.n_groups)]
    n_batches = max(1, n // int(given.get("batch", n)))
    primal = torch.optim.Adam([x], lr=given["lr"])
    epochs = int(given["epochs"])
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(primal, epochs * n_batches)
    switch = SSG(m=problem.m, constraint_tol=given["tol"])
    best = (np.inf, np.inf, x.detach().numpy().astype(float))
    for _ in range(epochs):
        # Every row occurs once, and a batch has the proportions of groups of the data.
        parts = [group[torch.randperm(len(group))].tensor_split(n_batches) for group in groups]
        for picked in map(torch.cat, zip(*parts, strict=True)):
            own = members[picked]
            scores = rows[picked] @ x[:n_params]
            margins = (scores[:, None] - torch.cat([x[n_params:], fixed])) / width
            shares = (own / own.sum(0)).T
            atoms = torch.cat([(shares @ hinge(margins + side)).ravel() for side in (0.5, -0.5)])
            losses = torch.nn.functional.softplus(-signs[picked] * scores)
            penalty = (alpha * x[: problem.rows.parameters.n_penalized] ** 2).sum() / 2
            loss = losses.mean() + penalty
            primal.zero_grad()
            switch.forward_update(loss, values_of(atoms)).backward()
            primal.step()
            decay.step()
        now = x.detach().numpy().astype(float)
        found = problem.evaluate(now)
        best = min(best, (max(found.violation, FEASIBLE), found.objective, now), key=lambda it: it[:2])
    says = {
        "passes": 2 * epochs + problem.n_passes,  # scores and gradient; and scores after every epoch
        **described(problem, best[2]),
        "settings": f"humancompatible-train {version('humancompatible-train')}; Adam; {settings(given)}",
    }
    return Fitted(linear_scorer(problem, best[2]), says)


def constraint_values(problem: Problem, tensor: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the map from atoms to all constraints, as tensors; all terms have the same number of pieces."""
    functions, n_atoms = problem.constraints.system.functions, problem.constraints.bank.n_atoms
    terms = [(i, factor, pieces) for i, f in enumerate(functions) for factor, pieces in f.terms]
    n_pieces = len(terms[0][2])
    matrix = np.zeros((len(terms) * n_pieces, n_atoms))
    for row, piece in enumerate(piece for _, _, pieces in terms for piece in pieces):
        for position, coefficient in piece.atoms:
            matrix[row, position] = coefficient
    factors = np.zeros((len(functions), len(terms)))
    for t, (i, factor, _) in enumerate(terms):
        factors[i, t] = factor
    offsets = tensor([piece.constant for _, _, pieces in terms for piece in pieces])
    pieces_of, sums_of, constants = tensor(matrix), tensor(factors), tensor([f.constant for f in functions])
    return lambda atoms: sums_of @ (pieces_of @ atoms + offsets).reshape(-1, n_pieces).amax(1) + constants


METHODS.update(
    {
        "ours, ramp": lambda train, data, kind: ours(
            train, data, kind, options=FitOptions(surrogate=ramp(train, data, kind))
        ),
        "dccp": convex_concave,
        **{name: partial(switching_subgradient, given=given) for name, given in SWITCHING.items()},
    }
)


def main() -> None:
    """Run every row in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["law_school", "bank", "a9a"], help="data sets of SSG")
    parser.add_argument("--rungs", nargs="*", type=int, default=list(LADDER), help="numbers of rows for dccp")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=5.0, help="limit of a row")
    parser.add_argument(
        "--one", nargs=4, metavar=("DATA", "CONSTRAINT", "METHOD", "ROWS"), help="one row, as JSON"
    )
    arguments = parser.parse_args()
    if arguments.one:
        name, kind, method, n = arguments.one
        warm_up = method != "dccp"  # it measures its own time and would take as long again
        print(json.dumps(one(name, kind, method, arguments.data, int(n) or None, warm_up)))
        return
    rows = []
    for n in arguments.rungs:
        for method in ("ours, ramp", "dccp"):
            rows.append(in_a_process("law_school", "pSP", method, n, arguments, __file__))
        if rows[-1].get("status", "").startswith("over"):
            break
    for name in arguments.only:
        for kind in ("pSP", "pDP"):
            for method in ("ours", *SWITCHING):
                rows.append(in_a_process(name, kind, method, 0, arguments, __file__))
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "settings"))
    write(
        "peers",
        "Peers on the same problem",
        [shown(row, [*columns, "settings"]) for row in rows],
        arguments.out,
        seeds="split 0; torch: 0",
    )


if __name__ == "__main__":
    main()
