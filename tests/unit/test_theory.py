import math

import pytest

from partialfair.exceptions import InputError
from partialfair.theory import describe_bound, dkw_bound, idca_budget, uniform_deviation_bound


def test_dkw_by_hand():
    # log(2 / .05) = 3.688879..., halved and divided by 1000: .001844439..., whose root is .0429470
    assert dkw_bound(1000, 0.95) == pytest.approx(0.0429470, abs=1e-7)
    # three groups at once: log(6 / .05) = 4.787491..., / 2000 = .002393745..., root .0489259
    assert dkw_bound(1000, 0.95, n_comparisons=3) == pytest.approx(0.0489259, abs=1e-7)


def test_uniform_deviation_by_hand():
    # VC 3, n 100: 8·3·(4.605170 + 1)/100 = 1.345241, root 1.159845;
    # 2·log(4·10·2/.05)/100 = 2·7.377759/100 = .1475552, root .384129; together 1.543974
    bound = uniform_deviation_bound(100, vc_dimension=3, n_points=10, n_groups=2, confidence=0.95)
    assert bound == pytest.approx(1.543974, abs=1e-6)


@pytest.mark.parametrize("n", [50, 10**4, 10**7])
@pytest.mark.parametrize(("vc", "n_points", "n_groups", "confidence"), [(3, 10, 2, 0.95), (124, 1, 5, 0.8)])
def test_formulas(n, vc, n_points, n_groups, confidence):
    delta = 1 - confidence
    root = math.sqrt(2 * math.log(4 * n_points * n_groups / delta) / n)
    bound = uniform_deviation_bound(
        n, vc_dimension=vc, n_points=n_points, n_groups=n_groups, confidence=confidence
    )
    assert bound == pytest.approx(math.sqrt(8 * vc * (math.log(n) + 1) / n) + root)
    # What McDiarmid's inequality asks for instead of the second root is less.
    assert math.sqrt(math.log(2 * n_groups / delta) / (2 * n)) < root
    expected = math.sqrt(math.log(2 * n_groups / delta) / (2 * n))
    assert dkw_bound(n, confidence, n_comparisons=n_groups) == pytest.approx(expected)


def test_uniform_deviation_is_vacuous_for_the_women_of_a9a():
    """9,694 women in the training part, 123 features and a threshold, ten points: 1.06, more than any gap."""
    bound = uniform_deviation_bound(9694, vc_dimension=124, n_points=10, n_groups=2)
    assert bound == pytest.approx(1.06, abs=0.005)
    assert "vacuous" in describe_bound(bound)


def test_bounds_shrink_with_data_and_grow_with_confidence():
    assert dkw_bound(400) == pytest.approx(dkw_bound(100) / 2)
    assert dkw_bound(100, 0.99) > dkw_bound(100, 0.9)
    small, large = (
        uniform_deviation_bound(n, vc_dimension=5, n_points=10, n_groups=2) for n in (10**4, 10**6)
    )
    assert large < small / math.sqrt(50)


def test_describe_bound_says_vacuous_only_when_it_is():
    assert describe_bound(0.25) == "0.25"
    assert describe_bound(1.0).startswith("1 (vacuous")


def test_idca_budget_by_hand():
    # M = 1, μ = 1, ν = .4: c = min(1, 1/4, .4/8) = .05. ε = .1: K = ⌈2·.7/(.05·.01)⌉ = 2800, ε_k = .05·.01/8
    # = 6.25e-5, T_k = ⌈4/6.25e-5 · ln(1 + 4/6.25e-5)⌉ = ⌈64000 · ln 64001⌉ = ⌈64000 · 11.066654⌉ = 708266
    budget = idca_budget(lipschitz=1.0, mu=1.0, nu=0.4, epsilon=0.1, decrease=0.7)
    assert budget.n_outer == 2800
    assert budget.epsilon == pytest.approx(6.25e-5)
    assert budget.n_inner == pytest.approx(708_266, abs=1)
    assert budget.n_steps == budget.n_outer * budget.n_inner


@pytest.mark.parametrize(
    ("lipschitz", "mu", "nu"),
    [(0.3, 0.5, 2.0), (0.6, 0.5, 2.0), (5.0, 0.01, 0.02)],
    ids=["1", "1/(4M²)", "μν/(8M⁴)"],  # which of the three is the least
)
def test_idca_budget_by_formula(lipschitz, mu, nu):
    """K and ε_k of Theorem 6.5; T_k with 4M² and the distance at most 2M/μ."""
    epsilon, decrease = 0.2, 0.69
    most = max(1, 4 * lipschitz**2, 8 * lipschitz**4 / (mu * nu))
    least = min(1, 1 / (4 * lipschitz**2), mu * nu / (8 * lipschitz**4))
    budget = idca_budget(lipschitz=lipschitz, mu=mu, nu=nu, epsilon=epsilon, decrease=decrease)
    assert budget.n_outer == math.ceil(2 * most * decrease / (mu * epsilon**2))
    assert budget.epsilon == pytest.approx(mu / 8 * least * epsilon**2)
    distance = 2 * lipschitz / mu
    steps = 4 * lipschitz**2 / (budget.epsilon * mu) * math.log(1 + mu * distance**2 / budget.epsilon)
    assert budget.n_inner == pytest.approx(steps, abs=1, rel=1e-12)


def test_idca_budget_needs_slater():
    with pytest.raises(InputError, match="Slater"):
        idca_budget(lipschitz=1.0, mu=1.0, nu=0.0, epsilon=0.1, decrease=0.7)
    with pytest.raises(InputError, match="mu must be positive"):
        idca_budget(lipschitz=1.0, mu=0.0, nu=0.1, epsilon=0.1, decrease=0.7)


@pytest.mark.parametrize("beyond", [{"lipschitz": 1e100}, {"epsilon": 1e-200}, {"mu": 1e-150}])
def test_idca_budget_beyond_floats(beyond):
    given = {"lipschitz": 1.0, "mu": 1.0, "nu": 0.4, "epsilon": 0.1, "decrease": 0.7, **beyond}
    with pytest.raises(InputError, match="too large"):
        idca_budget(**given)


@pytest.mark.parametrize("call", [lambda: dkw_bound(0), lambda: dkw_bound(10, 1.0), lambda: dkw_bound(10, 0)])
def test_refusals(call):
    with pytest.raises(InputError):
        call()
