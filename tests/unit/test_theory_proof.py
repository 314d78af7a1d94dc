"""App. F: the steps of its proof on random data, and how often its bounds hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from partialfair.constraints import StatisticalParity
from partialfair.constraints.surrogates import Ramp
from partialfair.data.groups import encode_groups
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.theory import (
    dkw_bound,
    gap_bound,
    near_thresholds,
)
from tests.unit.test_theory_generalization import SURROGATES

INTERVALS = [(0.0, 1.0), (0.1, 0.35), [(0.1, 0.3), (0.6, 0.9)], {"a": (0.1, 0.3), "b": (0.2, 0.6)}]


class TestTheProof:
    """Steps 1 and 3 hold for sure: the exact training gap of any scores with any thresholds."""

    @given(
        st.integers(0, 10**6),
        st.sampled_from(INTERVALS),
        st.sampled_from(SURROGATES),
        st.integers(1, 8),
        st.floats(0, 0.6),
        st.floats(0.01, 0.5),
        st.booleans(),
    )
    def test_gap_on_the_training_data(self, seed, interval, sigma, n_points, max_gap, tolerance, tied):
        rng = np.random.default_rng(seed)
        labels = np.repeat(["a", "b"], [30, 50])
        scores = rng.normal(size=80) + rng.uniform(0, 1) * (labels == "a")
        scores = np.round(scores, 1) if tied else scores
        constraint = StatisticalParity(interval, max_gap=max_gap, n_points=n_points)
        groups = encode_groups(labels)
        lows, highs = constraint.rank_boxes(groups)
        # Near the middles of the boxes, or the violation would explain any gap.
        middles = np.clip((lows + highs).mean(axis=1) / 2, 0, 1)
        thetas = np.quantile(scores, 1 - middles) + 0.05 * rng.normal(size=n_points)
        means = np.stack([sigma(scores[labels == k][:, None] - thetas).mean(axis=0) for k in "ab"], axis=1)
        measures = np.array([part.measure for part in constraint.intervals(groups)])
        violation = max(0.0, ((lows - means) / measures).max(), ((means - highs) / measures).max())
        bound = gap_bound(
            {"a": 30, "b": 50},
            interval=interval,
            max_gap=constraint.kappa,
            n_features=1,
            n_points=n_points,
            near=near_thresholds(
                scores, thetas, sensitive_features=labels, surrogate=sigma, tolerance=tolerance
            ),
            violation=violation,
        )
        gap = partial_statistical_parity_difference(
            None, scores, sensitive_features=labels, interval=interval
        )
        blurred = sum(terms.surrogate / terms.measure for terms in bound.groups)
        assert gap <= bound.max_gap + bound.step + 2 * violation + blurred + 1e-9
        assert gap <= bound.value

    def test_the_step_cannot_be_smaller(self):
        """Scores that meet κ = .2 at three points and whose gap is κ and a whole step, .4."""
        labels = list("aaaabb" + "aabb" + "aabb" + "aabbbb")
        scores = -np.arange(20.0)
        thresholds = [-5.5, -9.5, -13.5]  # after 4 a and 2 b, 6 and 4, 8 and 6
        member = np.array(labels)
        for share, theta in zip([0.2, 0.4, 0.6], thresholds, strict=True):
            ranks = [(scores[member == k] > theta).mean() for k in "ab"]
            assert share - 1e-12 <= min(ranks)
            assert max(ranks) <= share + 0.2 + 1e-12
        bound = gap_bound({"a": 10, "b": 10}, interval=(0, 1), max_gap=0.2, n_features=1, n_points=3)
        gap = partial_statistical_parity_difference(None, scores, sensitive_features=labels)
        assert gap == pytest.approx(0.4)
        assert bound.max_gap + bound.step == pytest.approx(gap)

    def test_the_surrogate_may_hide_everything(self):
        """Two groups on either side of 0, inside one ramp: its means agree, and the gap is 1."""
        labels = np.repeat(["a", "b"], 20)
        scores = np.where(labels == "a", 1e-4, -1e-4)
        constraint = StatisticalParity((0, 1), max_gap=0.01, n_points=50)
        lows, highs = constraint.rank_boxes(encode_groups(labels))
        thetas = 0.5 - (lows + highs)[:, 0] / 2
        means = np.stack([Ramp()(scores[labels == k][:, None] - thetas).mean(axis=0) for k in "ab"], axis=1)
        assert (lows <= means).all()
        assert (means <= highs).all()
        near = near_thresholds(scores, thetas, sensitive_features=labels, surrogate=Ramp(), tolerance=0.01)
        bound = gap_bound(
            {"a": 20, "b": 20}, interval=(0, 1), max_gap=0.01, n_features=1, n_points=50, near=near
        )
        gap = partial_statistical_parity_difference(None, scores, sensitive_features=labels)
        assert gap == 1
        # Both groups' halves are needed, and little more than those.
        training = bound.max_gap + bound.step + 2 * bound.worst.surrogate
        assert gap <= training <= 1.06

    def test_a_violation_counts_twice(self):
        """One group is .05 above the asked-for shares and the other .05 below: a gap of .1."""
        scores = np.concatenate([np.arange(20, 220), np.arange(200)])
        labels = np.repeat(["a", "b"], 200)
        bound = gap_bound(
            {"a": 200, "b": 200}, interval=(0, 1), max_gap=0.0, n_features=1, n_points=99, violation=0.05
        )
        gap = partial_statistical_parity_difference(None, scores, sensitive_features=labels)
        shares = np.arange(1, 100) / 100
        for k in "ab":
            ranks = (scores[labels == k][:, None] > 209.5 - 200 * shares).mean(axis=0)
            assert np.abs(ranks - shares).max() <= 0.05 + 1e-9
        assert gap == pytest.approx(0.1)
        assert gap <= 2 * bound.violation + bound.step <= gap + 0.011


class TestCoverage:
    def test_dkw_for_several_small_groups_at_once(self):
        rng = np.random.default_rng(0)
        n, n_groups, n_draws = 30, 3, 4000
        ordered = np.sort(rng.random((n_draws, n_groups, n)), axis=2)
        steps = np.arange(n) / n
        distance = np.maximum(ordered - steps, steps + 1 / n - ordered).max(axis=(1, 2))
        covered = (distance <= dkw_bound(n, 0.9, n_comparisons=n_groups)).mean()
        # At least .9 (to three standard errors of the simulation), and not idly so.
        assert 0.9 - 0.015 <= covered <= 0.97

    @pytest.mark.parametrize("shift", [0.0, 0.5])
    def test_the_measured_gap_of_a_fixed_scorer(self, shift):
        """Small samples of two normal groups, whose true gap on an interval is known."""
        rng = np.random.default_rng(1)
        interval, sizes = (0.2, 0.7), {"a": 60, "b": 150}
        x = np.linspace(-6, 6, 20_001)
        shares = [(np.clip(norm.sf(x - mean), 0.2, 0.7) - 0.2) / 0.5 for mean in (0.0, shift)]
        true_gap = np.abs(shares[0] - shares[1]).max()
        bound = gap_bound(sizes, interval=interval, max_gap=0.1, n_features=1, confidence=0.9)
        labels = np.repeat(list(sizes), list(sizes.values()))
        off = []
        for _ in range(300):
            scores = rng.normal(size=210) + shift * (labels == "b")
            gap = partial_statistical_parity_difference(
                None, scores, sensitive_features=labels, interval=interval
            )
            off.append(abs(gap - true_gap))
        assert np.mean(np.array(off) <= bound.fixed_deviation) >= 0.9 - 0.05
        assert bound.fixed_deviation < 1

    def test_a_scorer_picked_because_it_looked_fair(self):
        """The bound holds for all scorers at once, so also for the fairest of many on the training data."""
        rng = np.random.default_rng(2)
        mean, n = np.array([0.6, 0.0]), 5000
        angles = np.linspace(0, np.pi, 60, endpoint=False)
        directions = np.stack([np.cos(angles), np.sin(angles)])
        labels = np.repeat(["a", "b"], n)
        for _ in range(5):
            points = rng.normal(size=(2 * n, 2)) + np.where(labels == "b", 1, 0)[:, None] * mean
            gaps = [
                partial_statistical_parity_difference(None, points @ w, sensitive_features=labels)
                for w in directions.T
            ]
            fairest = int(np.argmin(gaps))
            true_gap = 2 * norm.cdf(abs(directions[:, fairest] @ mean) / 2) - 1
            bound = gap_bound(
                {"a": n, "b": n}, interval=(0, 1), max_gap=gaps[fairest], n_features=2, n_points=None
            )
            assert true_gap <= bound.value < 1
