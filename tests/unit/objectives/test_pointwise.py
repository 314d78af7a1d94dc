"""Losses of single scores against their formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.derivatives import check_curvature, check_gradient

from partialfair.objectives import HingeLoss, LogisticLoss, SquaredLoss

N = 77
FORMULAS = {
    "logistic": (LogisticLoss, lambda s, y: np.log(1 + np.exp(-y * s))),
    "squared": (SquaredLoss, lambda s, y: (s - y) ** 2 / 2),
    "hinge": (HingeLoss, lambda s, y: np.maximum(1 - y * s, 0)),
}


def draw(weighted, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, N).astype(float) if weighted else np.ones(N)
    return 2 * rng.normal(size=N), rng.choice([-1.0, 1.0], size=N), weights


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name, weighted):
    kind, formula = FORMULAS[name]
    scores, signs, weights = draw(weighted)
    loss = kind(signs, weights)
    value = loss.value_and_gradient(scores)[0]
    assert value == pytest.approx(np.average(formula(scores, signs), weights=weights))
    check_gradient(loss, scores)
    check_curvature(loss, scores)
    constants = [minimize_scalar(lambda c: loss.value_and_gradient(np.full(N, c))[0], (-3, 3)).fun]
    assert loss.value_and_gradient(np.full(N, loss.best_constant()))[0] == pytest.approx(min(constants))


def test_squared_loss_takes_numbers():
    loss = SquaredLoss(np.array([1.0, 4.0]), np.array([1.0, 3.0]))
    assert loss.value_and_gradient(np.array([2.0, 2.0]))[0] == pytest.approx((1 + 3 * 4) / 8)
    assert loss.best_constant() == pytest.approx(3.25)


@pytest.mark.parametrize("rounding", [0.5, 0.01])
def test_rounding_lifts_the_hinge_by_an_eighth_of_its_width_at_most(rounding):
    signs, weights = np.ones(201), np.ones(201)
    loss, sharp = HingeLoss(signs, weights, rounding), HingeLoss(signs, weights)
    for score in np.linspace(1 - rounding, 1 + rounding, 21):
        scores = np.full(201, score)
        excess = loss.value_and_gradient(scores)[0] - sharp.value_and_gradient(scores)[0]
        assert -1e-12 <= excess <= rounding / 8 + 1e-12
    assert loss.value_and_gradient(np.ones(201))[0] == pytest.approx(rounding / 8)
    check_gradient(loss, np.linspace(0.2, 1.9, 201))
    check_curvature(loss, np.linspace(0.2, 1.9, 201))


@pytest.mark.parametrize("rounding", [0.5, 0.01])
def test_the_corner_of_the_hinge_is_a_parabola(rounding):
    """(x + rounding/2)² / (2 rounding) instead of x_+ where |x| < rounding/2, x = 1 − ζs."""
    scores, signs, weights = draw(weighted=True)
    scores[::3] = signs[::3] + rounding * np.linspace(-0.6, 0.6, scores[::3].size)
    x = 1 - signs * scores
    corner = (x + rounding / 2) ** 2 / (2 * rounding)
    losses = np.where(np.abs(x) < rounding / 2, corner, np.maximum(x, 0))
    found = HingeLoss(signs, weights, rounding).value_and_gradient(scores)[0]
    assert found == pytest.approx(np.average(losses, weights=weights))


def test_curvatures():
    """ω_i σ(s_i)(1 − σ(s_i)), ω_i, and ω_i / rounding for scores at the corner."""
    scores, signs, weights = draw(weighted=True)
    share, sigma = weights / weights.sum(), 1 / (1 + np.exp(-scores))
    assert LogisticLoss(signs, weights).curvature(scores).diagonal == pytest.approx(
        share * sigma * (1 - sigma)
    )
    assert SquaredLoss(signs, weights).curvature(scores).diagonal == pytest.approx(share)
    corner = np.abs(1 - signs * scores) < 0.25
    assert corner.any()
    assert HingeLoss(signs, weights, 0.5).curvature(scores).diagonal == pytest.approx(share * corner / 0.5)


@pytest.mark.parametrize("weights", [np.ones(2), np.array([1.0, 3.0])])
def test_extreme_scores_stay_finite(weights):
    value, gradient = LogisticLoss(np.array([1.0, -1.0]), weights).value_and_gradient(np.array([-1e4, 1e4]))
    assert value == pytest.approx(1e4)
    assert np.isfinite(gradient).all()
