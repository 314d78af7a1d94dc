"""How many people an audit needs: formulas by hand, the inverse, and reports of simulated people."""

import math

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.metrics import detectable_gap, fairness_report, sample_size
from tests.sizes import quick_first


def test_by_hand():
    # z(.95) = 1.644854; P(K > x) = 2 Σ (−1)^(k+1) exp(−2 k² x²) is .2 at x = 1.072750, where the first term
    # alone, 2 exp(−2 x²), is .200186; v = .21 at rank .3; so (1.644854 + 2.1455)² · .42 / (.25 · .1)² = 9655
    assert sample_size(0.1, interval=(0.05, 0.3)) == 9655
    assert sample_size(0.1, interval=(0.05, 0.3), true_gap=0.05) == pytest.approx(4 * 9655, abs=4)
    assert sample_size(0.025, interval=(0.05, 0.3), gap_scale="absolute") == 9655
    # ranks on both sides of ½ count as ½, and the other end of the scale as this one
    assert sample_size(0.1, interval=(0.3, 0.8)) == pytest.approx(4 * sample_size(0.1), abs=4)
    assert sample_size(0.1, interval=(0.7, 0.95)) == 9655


@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.05, 0.30), [(0.0, 0.1), (0.4, 0.45)]])
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_the_smallest_gap_is_the_inverse(interval, gap_scale):
    for gap in (0.03, 0.1, 0.4, 0.9):
        n = sample_size(gap, interval=interval, gap_scale=gap_scale)
        assert detectable_gap(n, interval=interval, gap_scale=gap_scale) <= gap + 1e-12
        assert detectable_gap(n - 1, interval=interval, gap_scale=gap_scale) > gap


def test_a_gap_of_nobody_seen_cannot_be_excluded():
    """Of ten, 1 − .05^(1/10) = 26% may all have been missed, however narrow the interval makes them."""
    assert detectable_gap(10, interval=(0.0, 0.001), gap_scale="absolute") == pytest.approx(1 - 0.05**0.1)
    assert detectable_gap(3) == 1.0


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "case",
    quick_first(
        [(0.2, 0.0, (0.0, 1.0)), (0.2, 0.0, (0.05, 0.3)), (0.3, 0.1, (0.0, 1.0)), (0.4, 0.2, (0.05, 0.3))]
    ),
)
def test_so_many_do_show_it_and_far_fewer_do_not(case):
    max_gap, true_gap, interval = case
    n = sample_size(max_gap, interval=interval, true_gap=true_gap)
    width = interval[1] - interval[0]

    def shown(n_members, n_draws=60):
        rng = np.random.default_rng(0)
        groups = np.repeat([0, 1], n_members)
        count = 0
        for seed in range(n_draws):
            scores = rng.random(2 * n_members) + true_gap * width * (groups == 0)
            report = fairness_report(
                None, scores, sensitive_features=groups, interval=interval, n_resamples=200, random_state=seed
            )
            count += report["statistical_parity"].upper_bound <= max_gap
        return count / n_draws

    assert shown(n) >= 0.75  # 80%, but for the noise of 60 draws
    times_too_many = 3 if true_gap and interval != (0.0, 1.0) else 2  # as the notes of sample_size say
    assert shown(n // times_too_many) < 0.6


def test_refusals():
    for bad, words in (
        ({"max_gap": 0.0}, "max_gap"),
        ({"max_gap": 0.1, "true_gap": 0.1}, "true_gap must be below max_gap"),
        ({"max_gap": 0.1, "power": 1.0}, "power"),
        ({"max_gap": 0.1, "confidence": 1.0}, "confidence"),
        ({"max_gap": 0.1, "gap_scale": "other"}, "gap_scale"),
        ({"max_gap": 0.1, "interval": {"a": (0, 1)}}, "one for all groups"),
    ):
        with pytest.raises(InputError, match=words):
            sample_size(**bad)
    with pytest.raises(InputError, match="n must"):
        detectable_gap(0)
    assert math.isfinite(detectable_gap(1e12))
