"""Checks for people who add atoms or surrogates: each raises `CheckFailed` and says what is wrong.

They try random points, so they can refute but not prove.
"""

from __future__ import annotations

import numpy as np

from partialfair._typing import Floats
from partialfair.dc.algebra import DCSystem
from partialfair.dc.atoms import AtomBank

__all__ = ["CheckFailed", "check_convex", "check_majorises", "check_subgradient"]


class CheckFailed(AssertionError):
    """A function is not what it claims to be."""


def check_convex(
    bank: AtomBank, n_scores: int, *, n_trials: int = 50, scale: float = 2.0, tol: float = 1e-9, seed: int = 0
) -> None:
    """Check ``T(λx + (1−λ)y) ≤ λT(x) + (1−λ)T(y)`` for every atom at random points x = (s, θ) and y."""
    rng = np.random.default_rng(seed)
    for _ in range(n_trials):
        x, y = _point(bank, n_scores, scale, rng), _point(bank, n_scores, scale, rng)
        share = rng.random()
        between = tuple(share * a + (1 - share) * b for a, b in zip(x, y, strict=True))
        excess = bank.values(*between) - share * bank.values(*x) - (1 - share) * bank.values(*y)
        _refuse(excess, tol, "is not convex: it lies above its chord")


def check_subgradient(
    bank: AtomBank, n_scores: int, *, n_trials: int = 50, scale: float = 2.0, tol: float = 1e-9, seed: int = 0
) -> None:
    """Check ``T(y) ≥ T(x) + ⟨g, y − x⟩`` with g from ``pull_back`` at x, for every atom at random points."""
    rng = np.random.default_rng(seed)
    for _ in range(n_trials):
        x, y = _point(bank, n_scores, scale, rng), _point(bank, n_scores, scale, rng)
        tangents = np.empty(bank.n_atoms)
        for position in range(bank.n_atoms):
            gradient = bank.pull_back(np.eye(bank.n_atoms)[position], *x)
            tangents[position] = gradient.scores @ (y[0] - x[0]) + gradient.theta @ (y[1] - x[1])
        excess = bank.values(*x) + tangents - bank.values(*y)
        _refuse(excess, tol, "has a pull_back that is no subgradient: its tangent lies above it")


def check_majorises(
    bank: AtomBank,
    system: DCSystem,
    n_scores: int,
    *,
    n_trials: int = 50,
    scale: float = 2.0,
    tol: float = 1e-9,
    seed: int = 0,
) -> None:
    """Check that ``f⁺(y) − [f⁻(x) + ⟨g⁻, y − x⟩] ≥ f(y)`` for every function at random points x and y."""
    rng = np.random.default_rng(seed)
    for _ in range(n_trials):
        x, y = _point(bank, n_scores, scale, rng), _point(bank, n_scores, scale, rng)
        tangents = system.tangents(bank.values(*x))
        at_y = bank.values(*y)
        for i in range(system.m):
            gradient = bank.pull_back(tangents.slopes[i], *x)
            line = tangents.values[i] + gradient.scores @ (y[0] - x[0]) + gradient.theta @ (y[1] - x[1])
            minus = system.parts(at_y)[1]
            if not line - minus[i] <= tol:
                excess = line - minus[i]
                raise CheckFailed(
                    f"function {i} is not majorised: the tangent of f⁻ is {excess:.3g} too high"
                )


def _point(bank: AtomBank, n_scores: int, scale: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    return scale * rng.normal(size=n_scores), scale * rng.normal(size=bank.n_theta)


def _refuse(excess: Floats, tol: float, complaint: str) -> None:
    worst = int(np.argmax(excess))
    if not excess[worst] <= tol:
        raise CheckFailed(f"atom {worst} {complaint} by {excess[worst]:.3g}")
