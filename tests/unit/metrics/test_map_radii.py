"""How far all gaps of the map may be off at once: what is true of the radii."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from partialfair.data.intervals import as_interval_set
from partialfair.exceptions import InputError
from partialfair.metrics import map_radii
from partialfair.metrics.inputs import scored_groups
from partialfair.metrics.map_radii import BridgeSettings, MapRadii
from partialfair.theory import dkw_bound
from tests.sizes import examples


def people(sizes, weights=None, clusters=None):
    scores = np.concatenate([(np.arange(n) + 0.5) / n for n in sizes])
    codes = np.repeat(np.arange(len(sizes)), sizes)
    return scored_groups(scores, codes, sample_weight=weights, clusters=clusters)


def pairs_of(radii):
    return np.stack(np.triu_indices(len(radii.noise), 1), axis=1)


ranks = st.floats(0, 1)


@given(ranks, ranks, ranks, ranks, st.tuples(ranks, ranks).filter(lambda ends: ends[1] - ends[0] > 0.01))
def test_a_clipped_difference_is_off_by_the_errors_or_by_their_difference(x, y, seen_x, seen_y, interval):
    passed = as_interval_set(interval).passed
    off = abs((passed(seen_x) - passed(seen_y)) - (passed(x) - passed(y)))
    errors = np.array([seen_x - x, seen_y - y])
    assert off <= max(*np.abs(errors), abs(errors[0] - errors[1])) / (interval[1] - interval[0]) + 1e-9


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_two_groups_have_the_quantile_of_kolmogorov_and_smirnov(confidence):
    """With a large second group that of one sample; with groups alike hardly more than that of two."""
    quantile = special.kolmogi(1 - confidence)
    beside_many = MapRadii.of(people((400, 1_000_000)), confidence).interval(np.array([[0, 1]]))[0]
    assert beside_many == pytest.approx(quantile / np.sqrt(400), rel=0.02)
    alike = MapRadii.of(people((400, 400)), confidence)
    assert alike.interval(np.array([[0, 1]]))[0] == pytest.approx(quantile * np.sqrt(2 / 400), rel=0.02)
    # On the absolute scale there is something to pay for the ranks of single groups, and not much.
    assert 1 <= alike.absolute(np.array([[0, 1]]))[0] / (quantile * np.sqrt(2 / 400)) <= 1.05


@given(st.lists(st.integers(1, 3000), min_size=2, max_size=12), st.floats(0.5, 0.999))
@examples(20)
def test_no_radius_is_wider_than_that_of_dkw(sizes, confidence):
    radii = MapRadii.of(people(sizes), confidence)
    epsilon = np.array([dkw_bound(n, confidence, n_comparisons=len(sizes)) for n in sizes])
    np.testing.assert_allclose(radii.epsilon, epsilon)
    of_dkw = epsilon[pairs_of(radii)].sum(axis=1)
    assert (radii.interval(pairs_of(radii)) <= of_dkw + 1e-12).all()
    if confidence >= 0.9:  # what is spent on membership makes it wider beside very large groups
        assert (radii.absolute(pairs_of(radii)) <= 1.2 * of_dkw).all()


@pytest.mark.parametrize(
    ("sizes", "ratio"), [((60, 60), 0.68), ((300, 500), 0.68), ((60, 3000), 0.85), ((200,) * 10, 0.8)]
)
def test_radii_are_narrower_than_those_of_dkw(sizes, ratio):
    radii = MapRadii.of(people(sizes), 0.95)
    of_dkw = radii.epsilon[pairs_of(radii)].sum(axis=1)
    for found in (radii.interval(pairs_of(radii)), radii.absolute(pairs_of(radii))):
        assert found.mean() <= ratio * of_dkw.mean()


@pytest.mark.parametrize("sizes", [(60, 60), (60, 3000), (50, 100, 400, 1600), (60,) * 9 + (100_000,)])
def test_radii_grow_with_confidence(sizes):
    found = [MapRadii.of(people(sizes), confidence) for confidence in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)]
    for scale in ("interval", "absolute"):
        radii = np.array([getattr(one, scale)(pairs_of(one)) for one in found])
        assert (np.diff(radii, axis=0) > 0).all()
    assert (np.diff([one.membership for one in found], axis=0) > 0).all()


def test_the_formula_of_the_radii():
    """R_p = min(u_p √(c + log(u_max / u_p)), ε_k + ε_k'), u_p = √(1/n_k + 1/n_k')."""
    sizes = np.array([60, 300, 2000, 100_000])
    radii = MapRadii.of(people(sizes), 0.95)
    pairs = pairs_of(radii)
    unit = np.sqrt((1 / sizes)[pairs].sum(axis=1))
    for scale, level, of_groups in (
        ("interval", radii.interval_level, radii.epsilon),
        ("absolute", radii.absolute_level, radii.membership),
    ):
        free = unit * np.sqrt(level + np.log(unit.max() / unit))
        wanted = np.minimum(free, of_groups[pairs].sum(axis=1))
        np.testing.assert_allclose(getattr(radii, scale)(pairs), wanted)


def test_the_same_sizes_give_the_same_radii_in_any_order_of_scores():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [50, 70, 90])
    first, second = (
        MapRadii.of(scored_groups(scores, codes), 0.9)
        for scores in (rng.normal(size=210), rng.integers(3, size=210) + 0.0)
    )
    np.testing.assert_array_equal(first.interval(pairs_of(first)), second.interval(pairs_of(second)))


def test_equal_weights_are_no_weights():
    plain, weighted = (MapRadii.of(people((80, 200), weights), 0.95) for weights in (None, np.full(280, 3.0)))
    np.testing.assert_allclose(plain.noise, weighted.noise)
    np.testing.assert_allclose(plain.interval(pairs_of(plain)), weighted.interval(pairs_of(plain)))


def test_noise_is_the_largest_variance_of_a_rank():
    """Four times max_u Var(e(u)): 1 / n_effective, and more where heavy rows crowd near an end."""
    rng = np.random.default_rng(0)
    n, n_draws = 400, 4000
    heavy = np.where(np.arange(n) >= 0.9 * n, 9.0, 1.0)  # those with the largest scores
    for weights in (np.ones(n), heavy):
        group = people((n, n), np.tile(weights, 2)).groups[0]
        noise = MapRadii.of(people((n, n), np.tile(weights, 2)), 0.95).noise[0]
        assert noise >= 1 / group.n_effective - 1e-12
        # Rows drawn with their weights: ranks at thresholds between the population's scores.
        rows = np.sort(rng.integers(n, size=(n_draws, n)), axis=1)
        drawn = weights[rows]
        thresholds = np.arange(0, n, 10)
        shares = [(drawn * (rows >= at)).sum(axis=1) / drawn.sum(axis=1) for at in thresholds]
        assert 4 * np.var(shares, axis=1).max() == pytest.approx(noise, rel=0.08)
    assert noise > 1.2 / group.n_effective


def test_rows_in_clusters_have_the_radii_of_dkw():
    """A cluster may lie in several groups, whose errors then are not independent."""
    radii = MapRadii.of(people((80, 80), clusters=np.tile(np.arange(40), 4)), 0.95)
    epsilon = dkw_bound(40, 0.95, n_comparisons=2)
    np.testing.assert_allclose([radii.epsilon, radii.membership], epsilon)
    for scale in (radii.interval, radii.absolute):
        np.testing.assert_allclose(scale(np.array([[0, 1]])), 2 * epsilon)


@pytest.mark.parametrize("sizes", [(100,) * 20, tuple(range(40, 440, 20))])
def test_for_very_many_groups_error_probabilities_are_added_up(sizes, monkeypatch):
    drawn = MapRadii.of(people(sizes), 0.95)
    monkeypatch.setattr(map_radii, "SETTINGS", BridgeSettings(max_draws=0))
    map_radii._find_radii.cache_clear()
    added = MapRadii.of(people(sizes), 0.95)
    map_radii._find_radii.cache_clear()
    for scale in ("interval", "absolute"):
        ratio = getattr(added, scale)(pairs_of(added)) / getattr(drawn, scale)(pairs_of(drawn))
        assert ratio.min() >= 1
        assert ratio.max() <= 1.1
    assert (added.membership >= 0.99 * drawn.membership).all()
    wider = np.maximum(added.membership[pairs_of(added)].max(axis=1), added.interval(pairs_of(added)))
    np.testing.assert_array_equal(wider, added.interval(pairs_of(added)))  # so that they bound |e_k| too


def test_added_up_radii_do_not_mix_with_those_of_dkw(monkeypatch):
    """Both hold with the nominal confidence, but the narrower one of each pair would with less."""
    monkeypatch.setattr(map_radii, "SETTINGS", BridgeSettings(max_draws=0))
    map_radii._find_radii.cache_clear()
    radii = MapRadii.of(people((50,) * 20 + (100_000,)), 0.95)
    map_radii._find_radii.cache_clear()
    pairs = pairs_of(radii)
    np.testing.assert_allclose(radii.interval(pairs), radii.epsilon[pairs].sum(axis=1))
    assert (radii.absolute(pairs) < 1.2 * radii.interval(pairs)).all()


def test_rare_levels_follow_from_frequent_ones():
    """Levels whose tails fall like exp(−2c): the largest of many such."""
    rng = np.random.default_rng(0)
    levels = rng.exponential(0.5, size=(2000, 40)).max(axis=1)
    exact = -0.5 * np.log(1 - (1 - 1e-4) ** (1 / 40))
    assert map_radii._upper_quantile(levels, 1e-4) == pytest.approx(exact, rel=0.05)


def test_certainty_is_refused():
    with pytest.raises(InputError, match="confidence must lie between 0 and 1"):
        MapRadii.of(people((5, 5)), 1.0)
