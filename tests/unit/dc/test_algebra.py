import numpy as np
import pytest

from partialfair.dc import DC, Affine, DCSystem, GroupMeans, JoinedBank, atom, maximum
from partialfair.dc.checks import CheckFailed, check_convex, check_majorises, check_subgradient
from partialfair.surrogates import Ramp, Sigmoid

ATOMS = np.array([0.3, -1.0, 2.0])


def value(f):
    return DCSystem((f,), 3).values(ATOMS)[0]


def test_signed_sums():
    f = 2.0 * atom(0) - 0.5 * atom(2) + 3.0
    assert value(f) == pytest.approx(0.6 - 1.0 + 3.0)
    assert value(-f) == pytest.approx(-value(f))
    assert value(f - f) == pytest.approx(0)
    assert value(f - 1.0) == pytest.approx(value(f) - 1)
    assert value(DC(constant=4.0)) == 4


def test_maxima_and_parts():
    top = maximum(Affine(((0, 1.0),)), Affine(((2, 2.0), (1, 1.0)), -0.5))
    assert value(top) == pytest.approx(max(0.3, 4 - 1 - 0.5))
    plus, minus = DCSystem((top - 3.0 * atom(1), -top), 3).parts(ATOMS)
    assert plus == pytest.approx([2.5, 0])
    assert minus == pytest.approx([-3, 2.5])


def test_a_negative_factor_swaps_the_parts():
    f = 2.0 * atom(0) - atom(1)
    plus, minus = DCSystem((f, -f), 3).parts(ATOMS)
    assert plus[0] == minus[1]
    assert minus[0] == plus[1]


def test_slopes_follow_the_active_piece():
    top = maximum(Affine(((0, 1.0),)), Affine(((2, 2.0),), -0.5))
    plus, minus = DCSystem((top - atom(1),), 3).slope(ATOMS, 0)
    assert plus.tolist() == [0, 0, 2]
    assert minus.tolist() == [0, 1, 0]


def test_pieces_need_coefficients_of_at_least_zero():
    with pytest.raises(ValueError, match="at least 0"):
        Affine(((0, -1.0),))


RAMP = Ramp(0.8)


def bank(surrogate=RAMP, n_theta=2, fixed=(0.3,)):
    rng = np.random.default_rng(1)
    return GroupMeans(surrogate, rng.integers(-1, 2, size=12), rng.random(12), 2, n_theta, fixed)


@pytest.mark.parametrize("surrogate", [Ramp(0.8), Sigmoid(0.5)], ids=str)
def test_group_means_pass_their_checks(surrogate):
    check_convex(bank(surrogate), 12)
    check_subgradient(bank(surrogate), 12, n_trials=10)


def test_group_means_are_means():
    b = bank()
    scores, theta = np.linspace(-1, 1, 12), np.array([-0.2, 0.4])
    values = b.values(scores, theta)
    for k in range(2):
        inside = b.codes == k
        weights = b.weights[inside] / b.weights[inside].sum()
        for j, threshold in enumerate([-0.2, 0.4, 0.3]):
            mean = values[b.plus(k, j)] - values[b.minus(k, j)]
            assert mean == pytest.approx(weights @ b.surrogate(scores[inside] - threshold))


def test_joined_banks_are_their_parts():
    one, two = bank(), bank(Sigmoid(1.0), n_theta=3, fixed=())
    joined = JoinedBank((one, two))
    rng = np.random.default_rng(0)
    scores, theta = rng.normal(size=12), rng.normal(size=5)
    assert joined.values(scores, theta).tolist() == [
        *one.values(scores, theta[:2]),
        *two.values(scores, theta[2:]),
    ]
    coefficients = rng.normal(size=joined.n_atoms)
    found = joined.pull_back(coefficients, scores, theta)
    parts = [
        one.pull_back(coefficients[: one.n_atoms], scores, theta[:2]),
        two.pull_back(coefficients[one.n_atoms :], scores, theta[2:]),
    ]
    assert found.scores == pytest.approx(parts[0].scores + parts[1].scores)
    assert found.theta == pytest.approx(np.concatenate([parts[0].theta, parts[1].theta]))
    check_subgradient(joined, 12, n_trials=3)


class Concave(GroupMeans):
    """A bank that lies: minus its values."""

    def values(self, scores, theta):
        return -super().values(scores, theta)


class WrongSlope(GroupMeans):
    """A bank whose pull_back forgets the thresholds' width."""

    def pull_back(self, coefficients, scores, theta):
        found = super().pull_back(coefficients, scores, theta)
        return type(found)(3 * found.scores, found.theta)


def test_the_checks_can_say_no():
    honest = bank()
    fields = (honest.surrogate, honest.codes, honest.weights, 2, 2, (0.3,))
    with pytest.raises(CheckFailed, match="not convex"):
        check_convex(Concave(*fields), 12)
    with pytest.raises(CheckFailed, match="no subgradient"):
        check_subgradient(WrongSlope(*fields), 12)
    system = DCSystem((atom(0) - atom(1),), honest.n_atoms)
    check_majorises(honest, system, 12)
    with pytest.raises(CheckFailed, match="not majorised"):
        check_majorises(WrongSlope(*fields), system, 12)
