"""App. F: every formula again in other words, and what is said and refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from partialfair.constraints import StatisticalParity
from partialfair.constraints.surrogates import Ramp, RoundedRamp, Sigmoid
from partialfair.data.groups import encode_groups
from partialfair.datasets import fetch_a9a, fetch_acs_income, fetch_bank, fetch_law_school
from partialfair.exceptions import InputError
from partialfair.theory import (
    NearThresholds,
    describe_generalization,
    gap_bound,
    near_thresholds,
    objective_bound,
    uniform_deviation_bound,
)
from partialfair.theory.deviations import members_needed

SURROGATES = [Ramp(1.0), Ramp(0.1), RoundedRamp(0.7), Sigmoid(0.3)]


def a9a_like(**changes):
    given = {"interval": (0.05, 0.30), "max_gap": 0.05, "n_features": 123, "n_points": 10}
    return gap_bound({"Female": 9694, "Male": 19611}, **{**given, **changes})


class TestGapBound:
    def test_by_hand(self):
        near = NearThresholds(tolerance=0.1, margin=0.4, counts={"a": 30, "b": 40})
        bound = gap_bound(
            {"a": 100, "b": 400},
            interval={"a": (0.0, 0.5), "b": (0.0, 0.8)},
            max_gap=0.12,
            n_features=2,
            n_points=10,
            near=near,
            violation=0.01,
        )
        # Group a: E = 1.543974 (VC 3, n 100, ten points, two groups: see test_theory), surrogate .1 + 30/200.
        # On half of the ranks: (1.543974 + .25) / .5 = 3.587948. The step is .88/11.
        assert bound.step == pytest.approx(0.08)
        assert bound.worst.group == "a"
        assert bound.worst.excess == pytest.approx(3.587948, abs=1e-6)
        assert bound.value == pytest.approx(0.12 + 0.08 + 2 * 0.01 + 2 * 3.587948, abs=1e-5)
        assert bound.reference_gap == pytest.approx(0.12 - 2 * 3.587948, abs=1e-5)
        # Group b: surrogate .1 + 40/800.
        assert bound.groups[1].surrogate == pytest.approx(0.15)
        assert bound.groups[1].measure == pytest.approx(0.8)

    def test_the_best_grid_has_equal_steps(self):
        """The step is that of the points the constraint really uses, ends 0 and 1 − κ included."""
        groups = encode_groups(["a", "b"] * 50)
        lows, _ = StatisticalParity((0.2, 0.6), max_gap=0.1, n_points=7).rank_boxes(groups)
        shares = np.concatenate([[0.0], (lows[:, 0] - 0.2) / 0.4, [0.9]])
        bound = gap_bound({"a": 50, "b": 50}, interval=(0.2, 0.6), max_gap=0.1, n_features=1, n_points=7)
        assert bound.step == pytest.approx(np.diff(shares).max())

    def test_exact_constraints_have_neither_step_nor_surrogate(self):
        bound = a9a_like(n_points=None)
        deviation = uniform_deviation_bound(9694, vc_dimension=124, n_points=1, n_groups=2)
        assert bound.step == 0
        assert bound.value == pytest.approx(0.05 + 2 * deviation / 0.25)

    def test_monotone(self):
        near = NearThresholds(0.1, 0.4, {"Female": 500, "Male": 500})
        more_near = NearThresholds(0.1, 0.4, {"Female": 900, "Male": 500})
        value = a9a_like(near=near).value
        assert a9a_like().value < value < a9a_like(near=more_near).value
        assert value < a9a_like(near=near, n_features=200).value
        assert value < a9a_like(near=near, confidence=0.99).value
        assert value < a9a_like(near=near, interval=(0.05, 0.2)).value
        assert value < a9a_like(near=near, max_gap=0.1).value
        assert value < a9a_like(near=near, violation=0.01).value
        sizes = [
            gap_bound({"a": n, "b": n}, interval=(0, 1), max_gap=0.1, n_features=3) for n in (10, 100, 1000)
        ]
        assert sizes[0].value > sizes[1].value > sizes[2].value

    def test_a_fixed_scorer_is_off_by_the_two_largest_deviations(self):
        """ε_k / m_k with ε = sqrt(log(2 |G| / δ) / (2 n)), so that all three groups hold at once."""
        epsilon = {n: math.sqrt(math.log(2 * 3 / 0.05) / (2 * n)) for n in (100, 400, 10_000)}
        bound = gap_bound(
            {"a": 100, "b": 400, "c": 10_000},
            interval={"a": (0, 0.5), "b": (0.1, 0.4), "c": [(0, 0.1), (0.5, 0.6)]},
            max_gap=0.1,
            n_features=2,
        )
        assert bound.fixed_deviation == pytest.approx(epsilon[100] / 0.5 + epsilon[400] / 0.3)

    def test_a_model_that_is_fairer_among_all_people_meets_the_training_constraints(self):
        """Thresholds for the rank p + (β − α)(κ − κ')/2 serve for p, with the room that κ' was chosen for."""
        low, high, kappa = 0.2, 0.7, 0.3
        near = NearThresholds(0.01, 0.4, {"a": 1000, "b": 1000})
        bound = gap_bound(
            {"a": 10**6, "b": 10**6}, interval=(low, high), max_gap=kappa, n_features=1, near=near
        )
        less = bound.reference_gap
        assert 0 < less < kappa
        off = bound.worst.excess * (high - low)  # of means of σ from shares of all people
        lows, highs = StatisticalParity((low, high), kappa).rank_boxes(encode_groups(["a", "b"] * 50))
        for p, most in zip(lows[:, 0], highs[:, 0], strict=True):
            at = p + (high - low) * (kappa - less) / 2
            # Lemma pdp_equiv: some θ has all ranks in [at, at + κ'(β − α)], where at is before β − κ'(β − α).
            assert low <= at <= high - less * (high - low)
            assert p <= at - off + 1e-12
            assert at + less * (high - low) + off <= most + 1e-12

    def test_members_needed_is_the_first_size_that_is_enough(self):
        shared = {"vc_dimension": 6, "n_points": 10, "n_groups": 3}
        for deviation in (0.01, 0.2, 1.5, 100.0):
            n = members_needed(deviation, **shared)
            assert uniform_deviation_bound(n, **shared) <= deviation
            assert n == 1 or uniform_deviation_bound(n - 1, **shared) > deviation
        terms = gap_bound({"a": 9, "b": 9}, interval=(0.2, 0.6), max_gap=0.1, n_features=5).worst
        at_that_size = uniform_deviation_bound(terms.size_for_tenth, vc_dimension=6, n_points=10, n_groups=2)
        assert 2 * at_that_size / 0.4 == pytest.approx(0.1, abs=1e-4)


class TestNearThresholds:
    @pytest.mark.parametrize("sigma", SURROGATES, ids=repr)
    @pytest.mark.parametrize("tolerance", [0.02, 0.1, 0.3])
    def test_counts_by_the_definition(self, sigma, tolerance):
        rng = np.random.default_rng(3)
        scores, thetas = rng.normal(size=300), np.array([-0.5, 0.1, 1.2])
        labels = np.where(rng.random(300) < 0.3, "a", "b")
        near = near_thresholds(
            scores, thetas, sensitive_features=labels, surrogate=sigma, tolerance=tolerance
        )
        values = sigma(np.abs(scores[:, None] - thetas))
        for label in ("a", "b"):
            assert near.counts[label] == (values[labels == label] <= 1 - tolerance).sum(axis=0).max()
        assert sigma(np.array(near.margin)) == pytest.approx(1 - tolerance)

    @pytest.mark.parametrize("sigma", SURROGATES, ids=repr)
    def test_the_best_tolerance(self, sigma):
        rng = np.random.default_rng(4)
        scores, labels = rng.normal(size=200), np.repeat(["a", "b"], [50, 150])
        arguments = {"sensitive_features": labels, "surrogate": sigma}

        def blur(near):
            return max(near.tolerance + near.counts[k] / (2 * n) for k, n in {"a": 50, "b": 150}.items())

        best = near_thresholds(scores, [0.3, 0.9], **arguments)
        for tolerance in (0.01, 0.05, 0.2, 0.35, 0.5):
            other = near_thresholds(scores, [0.3, 0.9], **arguments, tolerance=tolerance)
            assert blur(best) <= blur(other) + 1e-12

    @given(st.integers(0, 10**6), st.sampled_from(SURROGATES), st.floats(0.01, 0.5), st.booleans())
    def test_step_3_a_mean_of_sigma_is_close_to_the_share(self, seed, sigma, tolerance, tied):
        rng = np.random.default_rng(seed)
        scores, thetas = rng.normal(size=40), rng.normal(size=3)
        if tied:
            scores, thetas = np.round(scores, 1), np.round(thetas, 1)
        labels = np.repeat(["a", "b"], 20)
        near = near_thresholds(
            scores, thetas, sensitive_features=labels, surrogate=sigma, tolerance=tolerance
        )
        x = scores[:, None] - thetas
        off = np.abs(sigma(x) - (x > 0))
        for label in ("a", "b"):
            signed = (sigma(x) - (x > 0))[labels == label].mean(axis=0)
            assert np.abs(signed).max() <= tolerance + near.counts[label] / 40 + 1e-12
        assert off.max() <= 0.5 + 1e-12


class TestObjectiveBound:
    def test_by_hand(self):
        # L B R = 1·2·1.5 = 3: complexity 2·3/10 = .6; range min(.693147 + 3, 6) = 3.693147;
        # root of 2·log(4·10·2/.05)/100 = .384129 (as in test_theory).
        bound = objective_bound(100, coef_norm=2.0, feature_norm=1.5)
        assert bound.complexity == pytest.approx(0.6)
        assert bound.sampling == pytest.approx(3.693147 * 0.384129, abs=1e-5)
        assert bound.vacuous
        # A small ball: the range is 2 L B R.
        assert objective_bound(100, coef_norm=0.1, feature_norm=1.0).sampling == pytest.approx(0.2 * 0.384129)

    def test_shrinks_like_a_root(self):
        few, many = (objective_bound(n, coef_norm=3.0, feature_norm=2.0).value for n in (100, 10_000))
        assert many == pytest.approx(few / 10)
        assert not objective_bound(10**6, coef_norm=3.0, feature_norm=2.0).vacuous

    def test_a_penalty_bounds_the_coefficients(self):
        """½ alpha ‖w‖² ≤ ℓ(0) at the best w, whatever the data: B = sqrt(2 ℓ(0) / alpha)."""
        rng = np.random.default_rng(8)
        for alpha in (1e-3, 0.1, 3.0):
            X = 5 * rng.normal(size=(30, 3))
            y = np.sign(X[:, 0])  # separable: without a penalty w has no bound

            def objective(w, X=X, y=y, alpha=alpha):
                return np.logaddexp(0, -y * (X @ w)).mean() + alpha / 2 * w @ w

            best = minimize(objective, np.zeros(3)).x
            assert np.linalg.norm(best) <= math.sqrt(2 * math.log(2) / alpha)

    def test_the_range_of_the_loss(self):
        """c = min{ℓ(0) + L B R, 2 L B R} for scores up to B R: of the logistic and of the hinge loss."""
        for reach in (0.1, 0.9, 2.0, 30.0):
            scores = np.linspace(-reach, reach, 1001)
            for loss, at_zero in ((np.logaddexp(0, -scores), math.log(2)), (np.maximum(1 - scores, 0), 1.0)):
                assert np.ptp(loss) <= min(at_zero + reach, 2 * reach) + 1e-12
                bound = objective_bound(100, coef_norm=1.0, feature_norm=reach, loss_at_zero=at_zero)
                root = math.sqrt(2 * math.log(4 * 10 * 2 / 0.05) / 100)
                assert bound.sampling == pytest.approx(min(at_zero + reach, 2 * reach) * root)

    def test_both_events_are_as_rare_as_it_says(self):
        """McDiarmid for two deviations, each of half the second term: δ / (2 |Î| |G|) together."""
        n, delta = 500, 0.05
        bound = objective_bound(n, coef_norm=1.0, feature_norm=2.0, n_points=7, n_groups=3)
        loss_range = math.log(2) + 2.0
        chance = 2 * math.exp(-2 * n * (bound.sampling / 2) ** 2 / loss_range**2)
        assert chance == pytest.approx(delta / (2 * 7 * 3))
        # Those of `gap_bound`: deviations of the second root above their means, in both directions.
        root = math.sqrt(2 * math.log(4 * 7 * 3 / delta) / n)
        assert 2 * 3 * math.exp(-2 * n * root**2) < chance / 100
        assert chance + 2 * 3 * math.exp(-2 * n * root**2) < delta

    def test_complexity_of_linear_scorers(self):
        """``E sup (1/n) Σ ε_i w·ξ_i = B E‖Σ ε_i ξ_i‖ / n``: half of the first term bounds it, closely."""
        rng = np.random.default_rng(5)
        n, coef_norm = 50, 3.0
        X = rng.normal(size=(n, 4))
        X /= np.linalg.norm(X, axis=1, keepdims=True)  # R = 1
        signs = rng.choice([-1.0, 1.0], size=(4000, n))
        complexity = coef_norm * np.linalg.norm(signs @ X, axis=1).mean() / n
        half = objective_bound(n, coef_norm=coef_norm, feature_norm=1.0).complexity / 2
        assert 0.85 * half < complexity <= half

    def test_losses_are_no_more_complex_than_scores(self):
        """Contraction, for the logistic loss of one feature and a fine grid of w."""
        rng = np.random.default_rng(6)
        x, y, w = rng.uniform(-1, 1, 40), rng.choice([-1, 1], 40), np.linspace(-3, 3, 401)
        losses = np.log1p(np.exp(-y[:, None] * x[:, None] * w))
        signs = rng.choice([-1.0, 1.0], size=(3000, 40))
        complexity = (signs @ losses).max(axis=1).mean() / 40
        assert complexity <= objective_bound(40, coef_norm=3.0, feature_norm=1.0).complexity / 2

    def test_excess_loss_of_the_best_model_in_training(self):
        rng = np.random.default_rng(7)
        w = np.linspace(-2, 2, 81)
        points = np.linspace(-1, 1, 201)
        up = 1 / (1 + np.exp(-1.5 * points))  # Pr(y = 1 | x), x uniform on the points
        loss_up, loss_down = np.log1p(np.exp(-np.outer(points, w))), np.log1p(np.exp(np.outer(points, w)))
        risk = (up[:, None] * loss_up + (1 - up)[:, None] * loss_down).mean(axis=0)
        bound = objective_bound(200, coef_norm=2.0, feature_norm=1.0)
        for _ in range(200):
            i = rng.integers(0, 201, 200)
            y = rng.random(200) < up[i]
            fitted = np.where(y[:, None], loss_up[i], loss_down[i]).mean(axis=0).argmin()
            assert risk[fitted] - risk.min() <= bound.value


class TestWords:
    def test_vacuous_at_usual_sizes(self):
        words = describe_generalization(a9a_like(), objective_bound(29_305, coef_norm=118, feature_norm=4))
        first, female, male, fixed, objective = words.splitlines()
        assert "8.61 (vacuous: no gap exceeds 1)" in first
        assert "0.05 limit + 0.0864 grid step + 8.48 group Female" in first
        assert "Female, 9,694 members" in female
        assert "vacuous alone" in female
        assert "Male, 19,611 members" in male
        assert "fixed beforehand" in fixed
        assert "vacuous" not in fixed
        assert "there are none: vacuous" in objective
        assert str(a9a_like()) == "\n".join([first, female, male, fixed])

    def test_not_vacuous_with_very_many_rows(self):
        sizes = {"f": 10**9, "m": 10**9}
        gap = gap_bound(sizes, interval=(0.05, 0.3), max_gap=0.05, n_features=20)
        words = describe_generalization(gap, objective_bound(2 * 10**9, coef_norm=5, feature_norm=4))
        assert not gap.vacuous
        assert "(vacuous" not in words
        assert words.count("(not vacuous alone)") == 2
        poor = describe_generalization(gap, objective_bound(100, coef_norm=5, feature_norm=4))
        assert "(vacuous: the bound also holds for scores of 0)" in poor

    def test_sizes_are_rounded_up(self):
        words = describe_generalization(a9a_like())
        needed = a9a_like().worst.size_for_tenth
        digits = len(str(needed)) - 2
        assert f"{math.ceil(needed / 10**digits) * 10**digits:,}" in words


GOOD = {"interval": (0.1, 0.3), "max_gap": 0.1, "n_features": 3}
NEAR = NearThresholds(0.1, 0.4, {"a": 5, "c": 5})
ARRAYS = {"sensitive_features": ["a", "b"], "surrogate": Ramp()}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gap_bound({"a": 5}, **GOOD), "two or more groups"),
        (lambda: gap_bound([5, 6], **GOOD), "group_sizes must map"),
        (lambda: gap_bound({"a": 5, "b": 0}, **GOOD), "the size of group 'b' must be at least 1"),
        (lambda: gap_bound({"a": 5, "b": 2.5}, **GOOD), "the size of group 'b' must be a whole number"),
        (lambda: gap_bound({"a": 5, "b": 6}, **{**GOOD, "max_gap": 2}), "max_gap must lie"),
        (lambda: gap_bound({"a": 5, "b": 6}, **{**GOOD, "n_features": 0}), "n_features must be at least 1"),
        (lambda: gap_bound({"a": 5, "b": 6}, **GOOD, n_points=0), "n_points must be at least 1"),
        (lambda: gap_bound({"a": 5, "b": 6}, **GOOD, violation=-1), "violation must be at least 0"),
        (lambda: gap_bound({"a": 5, "b": 6}, **GOOD, confidence=1), "confidence must lie between 0 and 1"),
        (lambda: gap_bound({"a": 5, "b": 6}, **GOOD, near=NEAR), "near has no count for group 'b'"),
        (
            lambda: gap_bound({"a": 4, "c": 6}, **GOOD, near=NEAR),
            "near counts 5 members of group 'a', which has 4",
        ),
        (lambda: gap_bound({"a": 5, "c": 6}, **GOOD, near=NEAR, n_points=None), "near must not be given"),
        (
            lambda: gap_bound({"a": 5, "b": 6}, **{**GOOD, "interval": {"a": (0, 1)}}),
            "no interval for group 'b'",
        ),
        (lambda: near_thresholds([1.0, np.nan], [0.0], **ARRAYS), "scores has 1 values that are NaN"),
        (lambda: near_thresholds([1.0, 2.0], [], **ARRAYS), "thresholds is empty"),
        (lambda: near_thresholds([1.0], [0.0], **ARRAYS), "sensitive_features has 2 rows"),
        (lambda: near_thresholds([1.0, 2.0], [0.0], **ARRAYS, tolerance=0.7), "tolerance must lie in"),
        (lambda: objective_bound(0, coef_norm=1, feature_norm=1), "n must be at least 1"),
        (lambda: objective_bound(9, coef_norm=0, feature_norm=1), "coef_norm must be positive"),
        (lambda: objective_bound(9, coef_norm=1, feature_norm=1, n_groups=0), "n_groups must be at least 1"),
        (lambda: objective_bound(9, coef_norm=1, feature_norm=1, confidence=0), "confidence must lie"),
        (
            lambda: members_needed(0, vc_dimension=2, n_points=1, n_groups=2),
            "deviation must be positive",
        ),
        (
            lambda: uniform_deviation_bound(9, vc_dimension=0, n_points=1, n_groups=2),
            "vc_dimension must be at least 1",
        ),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("load", "deviation", "share"),
    [
        (fetch_a9a, 1.06, 4.24),
        (fetch_bank, 1.81, 7.25),
        (fetch_law_school, 0.73, 2.42),
        (fetch_acs_income, 0.51, 2.54),
    ],
)
def test_vacuous_on_the_papers_data(data_dir, load, deviation, share):
    """E(n_k) of the smallest training group, and E(n_k)/(β − α), of which the bound takes two."""
    data = load(path=data_dir)
    sizes = data.sensitive_features.iloc[data.split(0).train].value_counts().to_dict()
    n_features = len(data.feature_names)
    bound = gap_bound(sizes, interval=data.interval, max_gap=0.05, n_features=n_features, n_points=10)
    assert bound.worst.size == min(sizes.values())
    assert bound.worst.deviation == pytest.approx(deviation, abs=0.01)
    assert bound.worst.excess == pytest.approx(share, abs=0.03)
    assert bound.vacuous
    assert bound.reference_gap < 0
