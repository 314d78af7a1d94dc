"""A two-layer network with the bound on its gap, trained by methods that need scores and ``Jᵀ v`` alone.

Run ``python benchmarks/network.py [--data DIR]``; data files as in docs/data.md. Law school, the training
rows of the first split: ten standardised features and whether the student is of the first group, which the
linear model, with one coefficient vector per group, knows as well. Partial statistical parity on ranks
70-100 %, ``max_gap=.1`` on the absolute scale. The objective of all models is the mean logistic loss plus
``alpha/2`` times the sum of squares of all weights but the intercepts, ``alpha=1e-4``. The gap is the exact
one, of the training scores.

Networks start from unconstrained ones, which differ by seed, and are bound by surrogates on a grid of ranks:
exact gaps may be a little larger than ``max_gap``. The linear model is bound so, too, and by the exact gap
itself. The last two rows are what is said where more than gradients is needed.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from _data import Part, load
from _record import RESULTS, write
from partialfair import PartialFairClassifier
from partialfair.constraints import StatisticalParity
from partialfair.exceptions import InputError
from partialfair.groups import encode_groups
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.models import FirstOrderModel, Parameters
from partialfair.objectives import Logistic
from partialfair.problems import Counts, Problem, certify
from partialfair.problems.ranks import spread
from partialfair.solvers import IDCA, SQP, AugmentedLagrangian, DirectSwitching, Solver, Switching
from partialfair.surrogates import RoundedRamp

Floats = npt.NDArray[np.float64]

INTERVAL, MAX_GAP, SCALE = (0.7, 1.0), 0.1, "absolute"
ALPHA = 1e-4
HIDDEN = 8
WIDTH = 0.25
"""Of the surrogate, in spreads of the unconstrained scores: as estimators choose it."""
SWITCHING_TOLERANCE = 5e-3
"""Epsilon of both switching methods, which is their step as well: a smaller one takes longer."""
GAP_BAR, OBJECTIVE_BAR = 1.2, 1.02
"""What exact gaps may be, in max_gap, and objectives, in the lowest of them."""


@dataclass(frozen=True, eq=False)
class Network:
    """``s(w) = tanh(Z Aᵀ + b) v + c`` with parameters ``w = (A, v, b, c)``, the intercepts b and c last.

    Parameters
    ----------
    inputs
        Z, one row for each person.
    n_hidden
        Number of hidden units.
    """

    inputs: Floats
    n_hidden: int = HIDDEN

    @property
    def n_weights(self) -> int:
        """Number of entries of A and v, which the penalty acts on."""
        return self.n_hidden * (self.inputs.shape[1] + 1)

    @property
    def n_parameters(self) -> int:
        """Number of entries of w."""
        return self.n_weights + self.n_hidden + 1

    def _layers(self, w: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Return A, v, b and c."""
        n, h = self.n_weights, self.n_hidden
        return w[: n - h].reshape(h, -1), w[n - h : n], w[n : n + h], float(w[-1])

    def score(self, w: Floats) -> Floats:
        """Return s(w), one for each person."""
        A, v, b, c = self._layers(w)
        return np.asarray(np.tanh(self.inputs @ A.T + b) @ v + c)

    def pull_back(self, w: Floats, by_score: Floats) -> Floats:
        """Return ``J(w)ᵀ by_score``: the gradient in w of what has these derivatives in the scores."""
        A, v, b, _ = self._layers(w)
        activations = np.tanh(self.inputs @ A.T + b)
        by_input = np.outer(by_score, v) * (1 - activations**2)
        blocks = ((by_input.T @ self.inputs).ravel(), activations.T @ by_score, by_input.sum(axis=0))
        return np.concatenate([*blocks, [by_score.sum()]])

    def start(self, seed: int) -> Floats:
        """Return random parameters with which no unit is saturated, and whose scores are near 0."""
        w = np.zeros(self.n_parameters)
        draws = np.random.default_rng(seed).standard_normal(self.n_weights)
        w[: self.n_weights] = draws / np.sqrt(self.inputs.shape[1])
        return w


def network_of(rows: Part, n_hidden: int = HIDDEN) -> Network:
    """Return the network that sees the features and the group of the rows."""
    first = (encode_groups(rows.groups).codes == 0).astype(float)
    return Network(np.column_stack([rows.X, first - first.mean()]), n_hidden)


def objective(network: Network, w: Floats, y: Floats) -> tuple[float, Floats]:
    """Return mean logistic loss plus penalty, and its gradient; y are the classes as ±1."""
    scores = network.score(w)
    penalised = w * (np.arange(w.size) < network.n_weights)
    value = float(np.logaddexp(0, -y * scores).mean() + ALPHA / 2 * penalised @ penalised)
    return value, network.pull_back(w, -y * expit(-y * scores) / y.size) + ALPHA * penalised


def unconstrained(network: Network, y: Floats, seed: int = 0, max_iter: int = 500) -> Floats:
    """Return the parameters that L-BFGS finds for the objective alone."""
    options = {"maxiter": max_iter}
    found = optimize.minimize(
        lambda w: objective(network, w, y), network.start(seed), jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(found.x)


def gap(scores: Floats, rows: Part) -> float:
    """Return the exact gap of scores."""
    return float(
        partial_statistical_parity_difference(
            None, scores, sensitive_features=rows.groups, interval=INTERVAL, gap_scale=SCALE
        )
    )


@dataclass(frozen=True, eq=False)
class Trained:
    """Scores, and how a method came to them."""

    model: str
    objective: float
    scores: Floats
    seconds: float
    seed: str = "-"
    violation: str = "-"
    status: str = "-"
    passes: str = "-"

    def row(self, rows: Part, y: Floats, lowest: float) -> dict[str, Any]:
        """Return a row of the table; ``lowest`` is the lowest objective under the constraint."""
        return {
            "model": self.model,
            "seed": self.seed,
            "objective": f"{self.objective:.5f}",
            "by the lowest": f"{self.objective / lowest:.4f}",
            "loss": f"{np.logaddexp(0, -y * self.scores).mean():.5f}",
            "exact gap": f"{gap(self.scores, rows):.4f}",
            "surrogate violation": self.violation,
            "accuracy": f"{np.mean((self.scores > 0) == (y > 0)):.4f}",
            "status": self.status,
            "passes": self.passes,
            "seconds": f"{self.seconds:.1f}",
        }


def constraint() -> StatisticalParity:
    """Return the constraint on a grid of ranks that reaches wherever the exact gap looks."""
    parity = StatisticalParity(interval=INTERVAL, max_gap=MAX_GAP, gap_scale=SCALE)
    return parity.on_grid(parity.grid)


def linear(rows: Part, enforce: str) -> Trained:
    """Fit the linear model, bound by surrogates as networks are, or by the exact gap."""
    clf = PartialFairClassifier(constraint(), enforce=enforce, alpha=ALPHA, group_terms="interactions")
    start = time.perf_counter()
    clf.fit(rows.X, rows.y, sensitive_features=rows.groups)
    seconds = time.perf_counter() - start
    result = clf.result_
    return Trained(
        f"linear, {enforce}",
        result.objective,
        clf.decision_function(rows.X, rows.groups),
        seconds,
        violation=f"{result.max_violation:.5f}",
        status=str(result.status),
        passes=str(result.history[-1].passes),
    )


def problem_of(network: Network, rows: Part, y: Floats, free_scores: Floats) -> Problem:
    """Return the constrained problem: of the network it sees ``score`` and ``pull_back`` alone."""
    groups, weights = encode_groups(rows.groups), np.ones(y.size)
    width = WIDTH * spread(Counts(free_scores, weights, groups.codes))
    n = network.n_parameters
    return Problem.of(
        FirstOrderModel(Parameters(n, network.n_weights, n), network.score, network.pull_back),
        Logistic().build(y, weights),
        constraint().build(groups, weights, RoundedRamp(width)),
        ALPHA,
    )


def solvers(share: float) -> dict[str, Solver]:
    """Return the methods, with a share of the steps that they need."""

    def steps(n: int) -> int:
        return math.ceil(share * n)

    return {
        "augmented Lagrangian": AugmentedLagrangian(max_iter=steps(50)),
        "direct switching": DirectSwitching(max_iter=steps(2000), epsilon=SWITCHING_TOLERANCE),
        "IDCA, switching": IDCA(
            max_iter=steps(20), inner=Switching(n_steps=100, epsilon=SWITCHING_TOLERANCE), mu=0.01
        ),
    }


def networks(network: Network, rows: Part, y: Floats, seed: int, share: float) -> list[Trained]:
    """Train a network without the constraint, and from there with it, by every method."""
    start = time.perf_counter()
    w = unconstrained(network, y, seed)
    seconds, free_scores = time.perf_counter() - start, network.score(w)
    value, _ = objective(network, w, y)
    trained = [Trained("network, unconstrained", value, free_scores, seconds, str(seed))]
    for name, solver in solvers(share).items():
        problem = problem_of(network, rows, y, free_scores)
        start = time.perf_counter()
        result = solver.solve(problem, problem.start_at(w))
        trained.append(
            Trained(
                f"network, {name}",
                result.objective,
                network.score(problem.split(result.x)[0]),
                time.perf_counter() - start,
                str(seed),
                f"{result.violation:.5f}",
                str(result.status),
                str(problem.n_passes),
            )
        )
    return trained


def refusals(network: Network, rows: Part, y: Floats) -> dict[str, str]:
    """Ask for what a network does not give; return what is said instead."""
    w = network.start(0)
    problem = problem_of(network, rows, y, network.score(w))
    x = problem.start_at(w)
    answers = {}
    for name, ask in {
        "network, asked for SQP": lambda: SQP().solve(problem, x),
        "network, asked for a certificate": lambda: certify(problem, x),
    }.items():
        try:
            ask()
            answers[name] = "no objection"
        except InputError as refusal:
            answers[name] = str(refusal)
    return answers


def verdict(references: list[Trained], constrained: list[Trained], rows: Part) -> str:
    """Say whether gaps are small enough, and networks as good as they should be."""
    reference = min(trained.objective for trained in references)
    lowest = min(trained.objective for trained in constrained)
    worst = max(trained.objective for trained in constrained)
    largest = max(gap(trained.scores, rows) for trained in constrained)
    return (
        f"Largest exact gap {largest:.4f}, to be at most {GAP_BAR * MAX_GAP:g}; lowest objective "
        f"{lowest:.5f}, to be at most the linear model's {reference:.5f}; highest "
        f"{worst / lowest:.4f} times the lowest, to be at most {OBJECTIVE_BAR:g}."
    )


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=None, help="training rows, for a quick look")
    parser.add_argument("--share", type=float, default=1.0, help="of all steps, for a quick look")
    parser.add_argument("--seeds", type=int, default=3, help="networks to begin with")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    _, rows, _ = load("law_school", arguments.data, arguments.rows)
    y = np.where(rows.y == 1, 1.0, -1.0)
    network = network_of(rows)
    linear(rows.few(), "exact")  # compiles
    references = [linear(rows, enforce) for enforce in ("surrogate", "exact")]
    trained: list[Trained] = []
    with threadpool_limits(1):  # products of a few columns are slower in two threads
        for seed in range(arguments.seeds):
            trained += networks(network, rows, y, seed, arguments.share)
    constrained = [model for model in trained if model.status != "-"]
    lowest = min(model.objective for model in constrained)
    table = [model.row(rows, y, lowest) for model in (*references, *trained)]
    for name, answer in refusals(network, rows, y).items():
        table.append({**dict.fromkeys(table[0], "-"), "model": name, "status": answer})
    write("network", "A two-layer network given by scores and Jᵀv alone", table, arguments.out)
    print(verdict(references, constrained, rows))


if __name__ == "__main__":
    main()
