"""Quadratic constraints on targets of any size: CONVERGED means that the limit holds, relative to itself."""

from __future__ import annotations

import numpy as np
import pytest

from partialfair import PartialFairRegressor
from partialfair.optimization.solvers import Status
from partialfair_paper.quadratic import QuadraticGroupAUC

RNG = np.random.default_rng(0)
GROUPS = np.arange(300) % 2
X = RNG.normal(size=(300, 3)) + 0.8 * GROUPS[:, None]
Y = X @ [1.0, 0.5, -0.2] + 0.3 * RNG.normal(size=300)


def fit(scale, limit, margin):
    constraint = QuadraticGroupAUC(limit, margin=margin)
    return PartialFairRegressor(constraint).fit(X, scale * Y, sensitive_features=GROUPS)


def worst(scores, margin):
    """The constraint by its definition."""
    groups = scores[GROUPS == 0], scores[GROUPS == 1]
    pairs = (groups, groups[::-1])
    return max(0.5 * ((margin + a[:, None] - b) ** 2).mean() - 0.5 * margin**2 for a, b in pairs)


@pytest.mark.parametrize(
    ("scale", "limit", "margin"),
    [(1e3, 2.0, 1.0), (1e3, 1e4, 1.0), (1e3, 2e5, 1e3), (1.0, 0.2, 1.0), (1e-3, 2e-7, 1e-3)],
)
def test_converged_means_that_the_limit_holds(scale, limit, margin):
    model = fit(scale, limit, margin)
    assert model.result_.status is Status.CONVERGED
    value = worst(model.predict(X), margin)
    assert value <= limit + 2 * model.tol * max(limit, margin**2)


def test_the_unit_of_the_target_does_not_matter():
    plain = fit(1.0, 0.2, 1.0)
    for scale in (2.0**10, 2.0**-10):  # units are powers of two: the problem that is solved is the same
        scaled = fit(scale, 0.2 * scale**2, scale)
        assert scaled.result_.status is plain.result_.status is Status.CONVERGED
        np.testing.assert_allclose(scaled.predict(X) / scale, plain.predict(X), rtol=1e-6, atol=1e-9)
    for scale in (1e3, 1e-3):
        scaled = fit(scale, 0.2 * scale**2, scale)
        assert scaled.result_.status is Status.CONVERGED
        assert scaled.result_.objective / scale**2 == pytest.approx(plain.result_.objective, rel=1e-3)
