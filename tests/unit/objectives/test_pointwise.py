"""Losses of single scores against their formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from partialfair.optimization.objectives import HingeLoss, LogisticLoss, SquaredLoss, tie_loss
from tests.derivatives import check_curvature, check_slopes, curvature, evaluated

N = 77
FORMULAS = {
    "logistic": (LogisticLoss(), lambda s, y: np.log(1 + np.exp(-y * s))),
    "squared": (SquaredLoss(), lambda s, y: (s - y) ** 2 / 2),
    "hinge": (HingeLoss(), lambda s, y: np.maximum(1 - y * s, 0)),
}


def draw(weighted, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, N).astype(float) if weighted else np.ones(N)
    return 2 * rng.normal(size=N), rng.choice([-1.0, 1.0], size=N), weights


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name, weighted):
    loss, formula = FORMULAS[name]
    scores, signs, weights = draw(weighted)
    objective = tie_loss(loss, signs, weights)
    assert evaluated(objective, scores)[0] == pytest.approx(
        np.average(formula(scores, signs), weights=weights)
    )
    check_slopes(objective, scores)
    check_curvature(objective, scores)
    least = minimize_scalar(lambda c: evaluated(objective, np.full(N, c))[0], (-3, 3)).fun
    constant = loss.best_constant(objective.mean_target)
    assert evaluated(objective, np.full(N, constant))[0] == pytest.approx(least)


@pytest.mark.parametrize("at", [0, 40, N - 1])
def test_one_other_weight_is_enough_to_be_weighted(at):
    """Equal shares take a shorter way; shares that differ anywhere must not."""
    scores, signs, weights = draw(weighted=False)
    weights[at] = 3.0
    value, slopes = evaluated(tie_loss(LogisticLoss(), signs, weights), scores)
    formula = FORMULAS["logistic"][1]
    assert value == pytest.approx(np.average(formula(scores, signs), weights=weights))
    assert slopes == pytest.approx(-weights / weights.sum() * signs / (1 + np.exp(signs * scores)))


def test_squared_loss_takes_numbers():
    objective = tie_loss(SquaredLoss(), np.array([1.0, 4.0]), np.array([1.0, 3.0]))
    assert evaluated(objective, np.array([2.0, 2.0]))[0] == pytest.approx((1 + 3 * 4) / 8)
    assert objective.loss.best_constant(objective.mean_target) == pytest.approx(3.25)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_labels_that_are_all_the_same_have_a_finite_best_constant(sign):
    objective = tie_loss(LogisticLoss(), np.full(3, sign), np.array([0.1, 0.2, 0.7]))
    constant = objective.loss.best_constant(objective.mean_target)
    assert np.isfinite(constant)
    assert sign * constant > 20


@pytest.mark.parametrize("rounding", [0.5, 0.01])
def test_rounding_lifts_the_hinge_by_an_eighth_of_its_width_at_most(rounding):
    signs, weights = np.ones(201), np.ones(201)
    rounded, sharp = (tie_loss(HingeLoss(width), signs, weights) for width in (rounding, 0.0))
    for score in np.linspace(1 - rounding, 1 + rounding, 21):
        scores = np.full(201, score)
        excess = evaluated(rounded, scores)[0] - evaluated(sharp, scores)[0]
        assert -1e-12 <= excess <= rounding / 8 + 1e-12
    assert evaluated(rounded, np.ones(201))[0] == pytest.approx(rounding / 8)
    check_slopes(rounded, np.linspace(0.2, 1.9, 201))
    check_curvature(rounded, np.linspace(0.2, 1.9, 201))


@pytest.mark.parametrize("rounding", [0.5, 0.01])
def test_the_corner_of_the_hinge_is_a_parabola(rounding):
    """(x + rounding/2)² / (2 rounding) instead of x_+ where |x| < rounding/2, x = 1 − ζs."""
    scores, signs, weights = draw(weighted=True)
    scores[::3] = signs[::3] + rounding * np.linspace(-0.6, 0.6, scores[::3].size)
    x = 1 - signs * scores
    corner = (x + rounding / 2) ** 2 / (2 * rounding)
    losses = np.where(np.abs(x) < rounding / 2, corner, np.maximum(x, 0))
    value = evaluated(tie_loss(HingeLoss(rounding), signs, weights), scores)[0]
    assert value == pytest.approx(np.average(losses, weights=weights))


def test_curvatures():
    """ω_i σ(s_i)(1 − σ(s_i)), ω_i, and ω_i / rounding for scores at the corner."""
    scores, signs, weights = draw(weighted=True)
    share, sigma = weights / weights.sum(), 1 / (1 + np.exp(-scores))
    corner = np.abs(1 - signs * scores) < 0.25
    assert corner.any()
    for loss, diagonal in (
        (LogisticLoss(), share * sigma * (1 - sigma)),
        (SquaredLoss(), share),
        (HingeLoss(0.5), share * corner / 0.5),
    ):
        second = curvature(tie_loss(loss, signs, weights), scores)
        assert second.diagonal == pytest.approx(diagonal)
        assert not second.couplings


@pytest.mark.parametrize("weights", [np.ones(2), np.array([1.0, 3.0])])
def test_extreme_scores_stay_finite(weights):
    objective = tie_loss(LogisticLoss(), np.array([1.0, -1.0]), weights)
    value, slopes = evaluated(objective, np.array([-1e4, 1e4]))
    assert value == pytest.approx(1e4)
    assert np.isfinite(slopes).all()
