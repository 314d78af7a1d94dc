"""Ranks that fall exactly on an end of the interval, with weights that binary numbers do not hold exactly."""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest

from partialfair import metrics
from partialfair.exceptions import UndefinedGapWarning
from tests import brute

# Values are those of the definition, wherever a threshold lies.
pytestmark = pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning")

AT_A_THRESHOLD = {
    "partial_demographic_parity_difference": [{}],
    "partial_equal_opportunity_difference": [{"rank_within": "group"}, {"rank_within": "group_and_label"}],
    "partial_equalized_odds_difference": [{"rank_within": "group"}, {"rank_within": "group_and_label"}],
}
WEIGHTS = {
    "tenths": lambda rng, n: rng.integers(1, 30, n) / 10,
    "hundredths": lambda rng, n: rng.integers(1, 300, n) / 100,
    "integers": lambda rng, n: rng.integers(1, 9, n),
    "equal": lambda rng, n: np.full(n, 0.1),
}


def cases():
    """Every metric on both scales."""
    scales = [{"gap_scale": scale} for scale in ("interval", "absolute")]
    yield from (("partial_statistical_parity_difference", scale) for scale in scales)
    yield "partial_group_auc_difference", {}
    for name, choices in AT_A_THRESHOLD.items():
        for scale, choice in itertools.product(scales, choices):
            yield name, {**scale, **choice, "threshold": 2.5}


def rows(seed, kind):
    """Tied scores and weights of two groups, and an interval whose ends are ranks of the first."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 30))
    scores, groups = rng.integers(0, 6, n).astype(float), np.array(["a", "b"])[rng.permutation(n) % 2]
    weights = WEIGHTS[kind](rng, n)
    exact = [Fraction(str(weight)) for weight in weights.tolist()]
    above = {
        sum(w for w, s, g in zip(exact, scores, groups, strict=True) if g == "a" and s > theta)
        for theta in [*scores, -1]
    }
    total = max(above)
    ends = sorted(weight / total for weight in above)
    low, high = sorted(rng.choice(len(ends), 2, replace=False)) if len(ends) > 1 else (0, -1)
    return rng.permutation(n) % 2, scores, groups, weights, exact, (ends[low], ends[high])


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("name", "options"), cases())
def test_weights_and_ends_are_meant_as_they_are_written(name, options, kind):
    """Exact arithmetic with the decimal numbers, not with the binary ones that are nearest to them."""
    for seed in range(12):
        labels, scores, groups, weights, exact, (low, high) = rows(seed, kind)
        if not low < high:
            continue
        given = {"sensitive_features": groups, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedGapWarning)
            found = getattr(metrics, name)(
                labels, scores, interval=(float(low), float(high)), sample_weight=weights, **given
            )
        try:
            expected = getattr(brute, name)(
                labels,
                scores,
                sensitive_features=groups,
                interval=(low, high),
                sample_weight=exact,
                **options,
            )
        except brute.Undefined:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(float(expected), abs=1e-9)


def test_an_end_on_a_rank_is_not_a_matter_of_rounding():
    """Three of ten weights of 0.1 are a rank of 0.3, which [0.1, 0.3) excludes and [0.3, 0.6) includes.

    The binary numbers nearest to 0.1, 0.3 and 0.7 do not add up so; exact arithmetic with them would differ.
    """
    scores = np.concatenate([np.repeat([1.0, 0.0], [3, 7]), np.repeat([1.0, 0.0], [8, 2])])
    options = {"sensitive_features": np.repeat(["a", "b"], 10), "gap_scale": "absolute"}
    for weights in (np.full(20, 0.1), np.concatenate([np.full(10, 0.1), np.full(10, 0.7)])):
        gaps = [
            metrics.partial_statistical_parity_difference(
                None, scores, interval=interval, sample_weight=weights, **options
            )
            for interval in ((0.1, 0.3), (0.3, 0.6), (0.1, 0.8), (0.8, 0.9))
        ]
        assert gaps == pytest.approx([0.0, 0.5, 0.5, 0.5])


def test_light_rows_outside_the_interval_do_not_count():
    """A positive of weight 1e-13 far outside is no positive inside: the gap has no value."""
    scores, groups = np.array([9.0, 5.0, 1.0, 9.0, 5.0, 1.0]), np.repeat(["a", "b"], 3)
    labels, weights = np.array([1, 0, 0, 1, 1, 0]), np.array([1e-13, 1.0, 1.0, 1.0, 1.0, 1.0])
    options = {"sensitive_features": groups, "interval": (0.4, 0.9), "threshold": 3.0}
    with pytest.warns(UndefinedGapWarning, match="'a'"):
        gap = metrics.partial_equal_opportunity_difference(labels, scores, sample_weight=weights, **options)
    assert np.isnan(gap)
    # Inside, however light, it counts.
    gap = metrics.partial_equal_opportunity_difference(
        labels, np.array([3.5, 5.0, 1.0, 9.0, 5.0, 1.0]), sample_weight=weights, **options
    )
    assert gap == pytest.approx(0.0)
