"""An independent search for small gaps: a smoothed gap as a penalty, minimized by L-BFGS.

Ranks are smoothed by a kernel of width h: ``F̄_k(θ) ≈ mean_i S((s_i − θ) / h)`` with
``S(u) = (2 + 3u − u³) / 4`` on [−1, 1]. The penalty is ``ρ Σ_θ Σ_{k<k'} max(0, |P_k(θ) − P_k'(θ)| − κ')²``.
Every round chooses thresholds again and reduces the width. The module does not use the package's solvers, and
the exact metric evaluates its models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from scipy.optimize import minimize

from _design import Design
from _judging import Case, Model

N_THRESHOLDS = 40
"""Number of thresholds per group, at evenly spaced ranks of the interval."""
WIDTHS = (0.5, 0.25, 0.12, 0.06, 0.03, 0.03)
"""Widths of the kernel by round, in standard deviations of the scores."""
PRICE = 100.0
"""ρ, for losses of about 0.5."""


def smooth_descent(
    case: Case, design: Design, start: Model, allowed: float, rounds: int = len(WIDTHS)
) -> Iterator[Model]:
    """Yield the model after every round; ``allowed`` is κ' of the smoothed gap."""
    model, shape = start, design.shape
    n_coef = shape[0] * shape[1]
    for width in WIDTHS[-rounds:]:
        spread = float(model.scores.std())
        if not 1e-9 < spread < 1e9:
            return
        thresholds = _thresholds(case, model.scores)
        penalty = Penalty(case, thresholds, width * spread, allowed, model.scores)

        def worth(v: Any, penalty: Penalty = penalty) -> tuple[float, Any]:
            at = design.model(v[:n_coef].reshape(shape), v[n_coef:])
            margins = case.signs * at.scores
            by_score = -case.signs / (1.0 + np.exp(np.clip(margins, -700, 700))) / margins.size
            value, pulled = penalty.at(at.scores)
            coef, intercept = design.pull(by_score + pulled)
            slope = np.concatenate([(coef + case.alpha * at.coef).ravel(), intercept])
            return case.objective(at) + value, slope

        v = np.concatenate([model.coef.ravel(), model.intercept])
        found = minimize(worth, v, jac=True, method="L-BFGS-B", options={"maxiter": 60, "maxcor": 20})
        model = design.model(found.x[:n_coef].reshape(shape), found.x[n_coef:])
        yield model


@dataclass(frozen=True, eq=False)
class Penalty:
    """The penalty at some thresholds; ``from_scores`` are the scores from which they were chosen."""

    case: Case
    thresholds: Any
    width: float
    allowed: float
    from_scores: Any

    def __post_init__(self) -> None:
        """Whether thresholds count: on the absolute scale, only those with a rank in the interval."""
        low, high = self.case.interval
        ranks = smooth_ranks(self.from_scores, *self._people, self.thresholds, self.width)
        inside = (low <= ranks) & (ranks < high)
        object.__setattr__(self, "inside", inside)

    @property
    def _people(self) -> tuple[Any, Any]:
        return self.case.codes, self.case.sizes

    def at(self, scores: Any) -> tuple[float, Any]:
        """Return the penalty and its gradient in the scores."""
        low, high = self.case.interval
        ranks = smooth_ranks(scores, *self._people, self.thresholds, self.width)
        by_rank, value = np.zeros_like(ranks), 0.0
        absolute_parity = self.case.kind == "pSP" and self.case.scale == "absolute"
        length = 1.0 if self.case.scale == "absolute" else high - low
        passed = ranks if absolute_parity else np.clip(ranks - low, 0, high - low) / length
        counts = np.ones_like(ranks) if absolute_parity else ((ranks > low) & (ranks < high)) / length
        for k in range(len(ranks)):
            for j in range(k):
                difference = passed[k] - passed[j]
                excess = np.maximum(np.abs(difference) - self.allowed, 0.0)
                if absolute_parity:
                    excess = excess * (self.inside[k] | self.inside[j])  # type: ignore[attr-defined]
                value += PRICE * float((excess**2).sum())
                slope = 2 * PRICE * excess * np.sign(difference)
                by_rank[k] += slope * counts[k]
                by_rank[j] -= slope * counts[j]
        return value, pulled_ranks(scores, *self._people, self.thresholds, self.width, by_rank)


def _thresholds(case: Case, scores: Any) -> Any:
    """Return scores at evenly spaced ranks of the interval, by group; 0 for pDP."""
    if case.kind == "pDP":
        return np.zeros(1)
    low, high = case.interval
    margin = case.max_gap if case.scale == "absolute" else 0.0
    ranks = np.linspace(max(low - margin, 0.0), high, N_THRESHOLDS)
    return np.unique(
        np.concatenate(
            [np.quantile(scores[case.codes == code], 1 - ranks) for code in range(case.sizes.size)]
        )
    )


@njit(cache=True)
def smooth_ranks(scores, codes, sizes, thresholds, width):  # type: ignore[no-untyped-def]
    """Return the smoothed ``F̄_k(θ)``; thresholds increase."""
    n_groups, n_thresholds = sizes.size, thresholds.size
    ranks, full = np.zeros((n_groups, n_thresholds)), np.zeros((n_groups, n_thresholds + 1))
    for i in range(scores.size):
        k = codes[i]
        t = np.searchsorted(thresholds, scores[i] - width, side="right")
        full[k, t] += 1.0  # the kernel lies above all thresholds before this one
        while t < n_thresholds and thresholds[t] < scores[i] + width:
            u = (scores[i] - thresholds[t]) / width
            ranks[k, t] += (2.0 + 3.0 * u - u**3) / 4.0
            t += 1
    for k in range(n_groups):
        above = 0.0
        for t in range(n_thresholds - 1, -1, -1):
            above += full[k, t + 1]
            ranks[k, t] = (ranks[k, t] + above) / sizes[k]
    return ranks


@njit(cache=True)
def pulled_ranks(scores, codes, sizes, thresholds, width, by_rank):  # type: ignore[no-untyped-def]
    """Return the gradient in the scores of ``Σ by_rank · ranks``."""
    pulled = np.zeros(scores.size)
    for i in range(scores.size):
        k = codes[i]
        t = np.searchsorted(thresholds, scores[i] - width, side="right")
        while t < thresholds.size and thresholds[t] < scores[i] + width:
            u = (scores[i] - thresholds[t]) / width
            pulled[i] += by_rank[k, t] * 3.0 * (1.0 - u * u) / (4.0 * width * sizes[k])
            t += 1
    return pulled
