"""A two-layer network with the bound on its gap, trained by methods that need scores and ``Jᵀ v`` alone.

Run ``python benchmarks/network.py [--data DIR]``; data files as in docs/data.md. Law school, the training
rows of the first split: ten standardised features and whether the student is of the first group, which the
linear model, with one coefficient vector per group, knows as well. Partial statistical parity on ranks
70-100 %, ``max_gap=.1`` on the absolute scale. The objective of all models is the mean logistic loss plus
``alpha/2`` times the sum of squares of all weights but the intercepts, ``alpha=1e-4``. The gap is the exact
one, of the training scores.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize
from scipy.special import expit

from _data import Part, load
from _record import RESULTS, write
from partialfair import PartialFairClassifier
from partialfair.groups import encode_groups
from partialfair.metrics import partial_statistical_parity_difference

Floats = npt.NDArray[np.float64]

INTERVAL, MAX_GAP, SCALE = (0.7, 1.0), 0.1, "absolute"
ALPHA = 1e-4
HIDDEN = 8


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


def described(
    model: str, value: float, scores: Floats, rows: Part, y: Floats, seconds: float
) -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "model": model,
        "objective": f"{value:.5f}",
        "loss": f"{np.logaddexp(0, -y * scores).mean():.5f}",
        "exact gap": f"{gap(scores, rows):.4f}",
        "accuracy": f"{np.mean((scores > 0) == (y > 0)):.4f}",
        "seconds": f"{seconds:.1f}",
    }


def linear(rows: Part, y: Floats) -> dict[str, Any]:
    """Fit and describe the linear model at the same bound on the exact gap."""
    clf = PartialFairClassifier(
        interval=INTERVAL,
        max_gap=MAX_GAP,
        gap_scale=SCALE,
        enforce="exact",
        alpha=ALPHA,
        group_terms="interactions",
    )
    start = time.perf_counter()
    clf.fit(rows.X, rows.y, sensitive_features=rows.groups)
    seconds = time.perf_counter() - start
    scores = clf.decision_function(rows.X, rows.groups)
    return described("linear, exact", clf.result_.objective, scores, rows, y, seconds)


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=None, help="training rows, for a quick look")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    _, rows, _ = load("law_school", arguments.data, arguments.rows)
    y = np.where(rows.y == 1, 1.0, -1.0)
    network = network_of(rows)
    table = [linear(rows, y)]
    start = time.perf_counter()
    w = unconstrained(network, y)
    seconds = time.perf_counter() - start
    value, _ = objective(network, w, y)
    table.append(described("network, unconstrained", value, network.score(w), rows, y, seconds))
    write("network", "A two-layer network given by scores and Jᵀv alone", table, arguments.out)


if __name__ == "__main__":
    main()
