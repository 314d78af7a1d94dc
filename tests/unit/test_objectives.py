import numpy as np
import pytest

from partialfair.objectives import LogisticLoss


@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_loss_by_formula_and_finite_differences(weighted):
    rng = np.random.default_rng(0)
    n = 77
    scores, signs = rng.normal(size=n), rng.choice([-1.0, 1.0], size=n)
    weights = rng.random(n) if weighted else np.ones(n)
    loss = LogisticLoss(signs, weights)
    value, gradient = loss.value_and_gradient(scores)
    assert value == pytest.approx(np.average(np.log(1 + np.exp(-signs * scores)), weights=weights))
    step = 1e-6
    for i in range(n):
        nudge = step * (np.arange(n) == i)
        up, down = (loss.value_and_gradient(scores + sign * nudge)[0] for sign in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("weights", [np.ones(2), np.array([1.0, 3.0])])
def test_extreme_scores_stay_finite(weights):
    value, gradient = LogisticLoss(np.array([1.0, -1.0]), weights).value_and_gradient(np.array([-1e4, 1e4]))
    assert value == pytest.approx(1e4)
    assert np.isfinite(gradient).all()
