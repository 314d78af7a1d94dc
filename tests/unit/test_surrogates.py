import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partialfair.constraints.surrogates import SURROGATES, Ramp, RoundedRamp, Sigmoid, Surrogate, surrogate
from partialfair.exceptions import InputError

EVERY = [kind(width) for kind in SURROGATES.values() for width in (0.3, 1.0, 4.0)]
reals = st.floats(-30, 30)


def parabola(x):
    """A hinge whose corner is a parabola over a quarter on both sides."""
    return np.where(np.abs(x) < 0.25, (x + 0.25) ** 2, np.maximum(x, 0.0))


def below_and_tangent(x):
    """The sigmoid up to 0, and its tangent there beyond."""
    return np.where(x <= 0, 1 / (1 + np.exp(-np.minimum(x, 0))), 0.5 + x / 4)


FORMULAS = {
    Ramp: (
        lambda x: np.clip(x + 0.5, 0, 1),
        lambda x: np.maximum(x + 0.5, 0),
        lambda x: np.maximum(x - 0.5, 0),
    ),
    RoundedRamp: (
        lambda x: parabola(x + 0.5) - parabola(x - 0.5),
        lambda x: parabola(x + 0.5),
        lambda x: parabola(x - 0.5),
    ),
    Sigmoid: (
        lambda x: 1 / (1 + np.exp(-x)),
        below_and_tangent,
        lambda x: below_and_tangent(x) - 1 / (1 + np.exp(-x)),
    ),
}


@pytest.mark.parametrize("width", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("kind", SURROGATES.values())
def test_the_formulas(kind, width):
    """σ, σ⁺ and σ⁻ of every surrogate, and σ_s(x) = σ(x/s)."""
    x = np.linspace(-6, 6, 301)
    value, plus, minus = (formula(x / width) for formula in FORMULAS[kind])
    assert kind(width)(x) == pytest.approx(value, abs=1e-12)
    assert kind(width).parts(x)[0] == pytest.approx(plus, abs=1e-12)
    assert kind(width).parts(x)[1] == pytest.approx(minus, abs=1e-12)


@pytest.mark.parametrize("sigma", EVERY, ids=str)
@given(x=reals)
def test_they_are_symmetric(sigma, x):
    """σ(x) + σ(−x) = 1, so that group AUC asks the same of both orders of a pair."""
    assert float(sigma(np.array(x)) + sigma(np.array(-x))) == pytest.approx(1, abs=1e-12)


def test_a_rounded_ramp_is_a_ramp_but_near_its_corners():
    x = np.linspace(-3, 3, 241)
    away = np.abs(np.abs(x) - 0.5) >= 0.25
    assert RoundedRamp()(x[away]) == pytest.approx(Ramp()(x[away]), abs=1e-12)


@pytest.mark.parametrize("sigma", EVERY, ids=str)
def test_slopes_are_those_of_the_parts(sigma):
    """weights_i σ±'(scores_i − θ_j), at places where the parts have derivatives."""
    rng = np.random.default_rng(3)
    scores, weights, thetas, step = rng.normal(size=40), rng.random(40), np.array([-0.4, 0.35]), 1e-6
    x = scores[:, None] - thetas
    up, down = (sigma.parts(x + sign * step) for sign in (1, -1))
    expected = [weights[:, None] * (up[part] - down[part]) / (2 * step) for part in range(2)]
    assert sigma.slopes(scores, weights, thetas) == pytest.approx(np.hstack(expected), abs=1e-4)


@pytest.mark.parametrize("sigma", EVERY, ids=str)
def test_bends_are_differences_of_slopes(sigma):
    """Second derivatives; those of a ramp, which has kinks, from slopes a fifth of the width apart."""
    rng = np.random.default_rng(4)
    scores, weights, codes = rng.normal(size=40), rng.random(40), rng.integers(-1, 2, size=40)
    thetas, coefficients = np.array([-0.4, 0.35]), rng.normal(size=(2, 2, 2))
    apart = sigma.width / 5 if sigma.kinks else 2e-3 * sigma.width
    up, down = (
        sigma.slopes(scores + sign * apart / 2, weights, thetas).reshape(40, 2, 2) for sign in (1, -1)
    )
    bends = (up - down) / apart
    expected = np.where(
        (codes >= 0)[:, None], np.einsum("npj,npj->nj", coefficients[:, codes].transpose(1, 0, 2), bends), 0.0
    )
    found = sigma.bends(coefficients, scores, weights, codes, thetas)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("sigma", EVERY, ids=str)
@given(x=reals, y=reals, share=st.floats(0, 1))
def test_parts_are_convex_and_do_not_fall(sigma, x, y, share):
    between = share * x + (1 - share) * y
    for part in range(2):
        at_x, at_y, at_between = (sigma.parts(np.array(z))[part] for z in (x, y, between))
        assert at_between <= share * at_x + (1 - share) * at_y + 1e-9
        assert (at_y - at_x) * (y - x) >= -1e-12


@pytest.mark.parametrize("sigma", EVERY, ids=str)
@given(x=reals, y=reals)
def test_slopes_are_subgradients(sigma, x, y):
    plus, minus, up, down = type(sigma).terms(x)
    at_y = type(sigma).terms(y)
    assert at_y[0] >= plus + up * (y - x) - 1e-9
    assert at_y[1] >= minus + down * (y - x) - 1e-9


@pytest.mark.parametrize("sigma", EVERY, ids=str)
@pytest.mark.parametrize("share", [1e-6, 0.1, 0.5, 0.9])
def test_level_inverts(sigma, share):
    assert float(sigma(np.array(sigma.level(share)))) == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize("sigma", EVERY, ids=str)
def test_means_and_pull_back_by_hand(sigma):
    rng = np.random.default_rng(0)
    scores, weights, codes = rng.normal(size=30), rng.random(30), rng.integers(-1, 3, size=30)
    thetas = np.array([-0.4, 0.1, 0.9])
    means = sigma.means(scores, weights, codes, thetas, 3)
    for k in range(3):
        for j, theta in enumerate(thetas):
            parts = sigma.parts(scores[codes == k] - theta)
            assert means[:, k, j] == pytest.approx([weights[codes == k] @ part for part in parts])
    coefficients = rng.normal(size=(2, 3, 3))
    by_score, by_theta = sigma.pull_back(coefficients, scores, weights, codes, thetas)
    step = 1e-6

    def total(scores, thetas):
        return (coefficients * sigma.means(scores, weights, codes, thetas, 3)).sum()

    for i in range(30):
        nudge = step * (np.arange(30) == i)
        slope = (total(scores + nudge, thetas) - total(scores - nudge, thetas)) / (2 * step)
        assert by_score[i] == pytest.approx(slope, abs=1e-6)
    for j in range(3):
        nudge = step * (np.arange(3) == j)
        slope = (total(scores, thetas + nudge) - total(scores, thetas - nudge)) / (2 * step)
        assert by_theta[j] == pytest.approx(slope, abs=1e-6)


class Plain(Sigmoid):
    """The sigmoid without kernels of its own: what a new surrogate gets."""

    kernels = None


def by_terms(ramp):
    """A ramp that does not know that it is piecewise polynomial."""
    return type("ByTerms", (Surrogate,), {"terms": staticmethod(ramp.terms)})(ramp.width)


@pytest.mark.parametrize(
    ("plain", "own"), [(Plain(0.7), Sigmoid(0.7)), *((by_terms(r), r) for r in (Ramp(0.7), RoundedRamp(0.7)))]
)
def test_a_surrogate_needs_no_kernels_of_its_own(plain, own):
    rng = np.random.default_rng(0)
    scores, weights, codes = rng.normal(size=50), rng.random(50), rng.integers(-1, 3, size=50)
    thetas, coefficients = rng.normal(size=4), rng.normal(size=(2, 3, 4))
    found, expected = (sigma.means(scores, weights, codes, thetas, 3) for sigma in (plain, own))
    assert found == pytest.approx(expected)
    found, expected = (
        np.concatenate(sigma.pull_back(coefficients, scores, weights, codes, thetas))
        for sigma in (plain, own)
    )
    assert found == pytest.approx(expected)


def test_names_and_refusals():
    assert surrogate("sigmoid", 0.5) == Sigmoid(0.5)
    assert surrogate(Ramp(3.0)) == Ramp(3.0)
    with pytest.raises(InputError, match="'ramp', 'rounded_ramp', 'sigmoid'"):
        surrogate("step")
    for width in (0.0, -1.0, np.nan):
        with pytest.raises(InputError, match="surrogate_width"):
            Ramp(width)
