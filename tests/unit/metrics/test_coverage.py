"""Do the confidence intervals cover? Simulated draws with known true gaps."""

import warnings

import numpy as np
import pytest

from partialfair.metrics import fairness_report, unfairness_map
from partialfair.metrics.bounds import bound_fluctuation
from partialfair.metrics.differences import statistical_parity
from partialfair.metrics.inputs import Setting, scored_groups
from partialfair.metrics.partial import statistical_parity_gap
from partialfair.metrics.resampling import resample
from tests.sizes import quick_first

INTERVAL = (0.2, 0.5)
WIDTH = INTERVAL[1] - INTERVAL[0]


def shifted_uniform(rng, sizes, gap):
    """Uniform scores, the first group shifted by gap·(β − α): the true gap on (α, β) is exactly ``gap``."""
    scores = np.concatenate([rng.random(n) + (gap * WIDTH if k == 0 else 0.0) for k, n in enumerate(sizes)])
    return scores, np.repeat(np.arange(len(sizes)), sizes)


def coverage(sizes, gap, gap_scale, *, n_draws=500, n_resamples=200, weighted=False):
    rng = np.random.default_rng(20260101)
    truth = gap if gap_scale == "interval" else gap * WIDTH
    covered = 0
    for _ in range(n_draws):
        scores, groups = shifted_uniform(rng, sizes, gap)
        weights = rng.exponential(size=scores.size) if weighted else None
        scored = scored_groups(scores, groups, INTERVAL, weights)
        setting = Setting(gap_scale)
        estimate = statistical_parity_gap(scored, setting).value
        draws = resample(scored, threshold=None, n_resamples=n_resamples, rng=rng)
        spread = bound_fluctuation(statistical_parity(draws, setting), 0.95, [1e9] * len(sizes))
        covered += estimate - spread.below(0.025) <= truth <= estimate + spread.above(0.025)
    return covered / n_draws


@pytest.mark.no_cover
@pytest.mark.parametrize("gap", quick_first([0.0, 0.05, 0.2], quick=2))
def test_intervals_cover_the_true_gap(gap):
    assert coverage((400, 250), gap, "interval") >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(150, 100), (2000, 1500), (300, 200, 100)])
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("gap", [0.0, 0.05, 0.2])
def test_intervals_cover_whatever_the_sizes_scale_and_weights(gap, gap_scale, sizes, weighted):
    assert coverage(sizes, gap, gap_scale, weighted=weighted) >= 0.93


def labelled(rng, n, shift):
    groups = (rng.random(n) < 0.4).astype(int)
    scores = rng.normal(size=n) + shift * groups
    labels = rng.random(n) < 1 / (1 + np.exp(0.5 * groups * (shift > 0) - 1.5 * scores))
    return labels, scores, groups


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning"
)  # with a shift of .4
@pytest.mark.parametrize("options", [{}, {"gap_scale": "absolute"}, {"rank_within": "group_and_label"}])
@pytest.mark.parametrize("shift", [0.0, 0.1, 0.4])
def test_intervals_of_every_metric_cover(shift, options):
    rng = np.random.default_rng(7)
    settings = {"interval": (0.1, 0.4), "threshold": 0.7} | options
    y, s, g = labelled(rng, 2_000_000, shift)
    truth = fairness_report(y, s, sensitive_features=g, **settings, n_resamples=100).to_frame()["gap"]
    if shift == 0:
        truth *= 0  # known exactly: the groups have one distribution
    covered = 0
    n_draws = 1000
    for seed in range(n_draws):
        y, s, g = labelled(rng, 2500, shift)
        found = fairness_report(
            y, s, sensitive_features=g, **settings, random_state=seed, n_resamples=300
        ).to_frame()
        covered = covered + ((found["ci_low"] <= truth) & (truth <= found["ci_high"]))
    assert (covered / n_draws).min() >= 0.933, covered / n_draws  # 0.95 less 2.4 standard errors


def share_of_maps_that_hold(sizes, shift, gap_scale, n_draws, *, weighted=False, n_values=None):
    """Uniform scores, those of every second group shifted: the clipped lead is min(shift, width) everywhere.

    With ``n_values`` scores are rounded down to so many values, which a shift of 0 leaves alike.
    """
    rng, n_grid, held = np.random.default_rng(5), 20, 0
    codes = np.repeat(np.arange(len(sizes)), sizes)
    edges = np.arange(n_grid + 1) / n_grid
    width = edges[None, 1:] - edges[:-1, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        truth = np.minimum(shift / width, 1.0) if gap_scale == "interval" else np.full_like(width, shift)
    for _ in range(n_draws):
        scores = rng.random(codes.size) + shift * (codes % 2)
        scores = scores if n_values is None else np.floor(scores * n_values)
        weights = rng.exponential(size=codes.size) if weighted else None
        found = unfairness_map(
            scores, sensitive_features=codes, n_grid=n_grid, gap_scale=gap_scale, sample_weight=weights
        )
        inside = (found.ci_low <= truth + 1e-12) & (truth <= found.ci_high + 1e-12)
        held += inside[np.isfinite(found.gaps)].all()
    return held / n_draws


@pytest.mark.no_cover
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize(("sizes", "shift"), [((60, 90), 0.0), ((900, 700), 0.0), ((900, 700), 0.06)])
def test_the_maps_band_holds_all_true_gaps_at_once(sizes, shift, gap_scale):
    """Nominally .95: less by 2.6 standard errors of 200 draws at most."""
    assert share_of_maps_that_hold(sizes, shift, gap_scale, 200) >= 0.91


@pytest.mark.slow
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
@pytest.mark.parametrize("shift", [0.0, 0.06, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(60, 60), (60, 3000), (3000, 3000), (60, *range(200, 2000, 200))])
def test_the_maps_band_holds_whatever_the_sizes_and_weights(sizes, weighted, shift, gap_scale):
    """Nominally .95: less by 2.4 standard errors of 1,000 draws at most."""
    assert share_of_maps_that_hold(sizes, shift, gap_scale, 1000, weighted=weighted) >= 0.933


@pytest.mark.slow
@pytest.mark.parametrize("n_values", [2, 6, 25])
@pytest.mark.parametrize("gap_scale", ["interval", "absolute"])
def test_the_maps_band_holds_with_ties(gap_scale, n_values):
    assert share_of_maps_that_hold((60, 200), 0.0, gap_scale, 1000, n_values=n_values) >= 0.95


def covered_share(draw, truth, n_draws, metric, **settings):
    covered = 0
    for seed in range(n_draws):
        y, s, g = draw(np.random.default_rng([99, seed]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few people are the point
            report = fairness_report(
                y, s, sensitive_features=g, **settings, random_state=seed, n_resamples=200
            )
        row = report[metric]
        covered += bool(np.isnan(row.gap)) or row.ci_low <= truth <= row.ci_high
    return covered / n_draws


@pytest.mark.no_cover
@pytest.mark.parametrize(("shifted", "truth"), [(False, 0.0), (True, 0.5)])
def test_a_handful_of_positives_is_not_taken_for_a_crowd(shifted, truth):
    """Some five positives of each group among the 240 people in its interval, the bottom 40%.

    They are uniform on (0, .4), so that half are selected at .2; shifted, the first group's are on (.2, .4).
    """

    def draw(rng):
        s, g = rng.random(1200), np.repeat([0, 1], 600)
        y = rng.random(1200) < np.where(s < 0.4, 0.02, 0.5)
        return y, np.where(shifted & (g == 0) & y & (s < 0.4), 0.2 + s / 2, s), g

    settings = {"interval": (0.6, 1.0), "threshold": 0.2, "small_groups": "keep"}
    assert covered_share(draw, truth, 100, "equal_opportunity", **settings) >= 0.93


@pytest.mark.parametrize(("top_a", "truth"), [(0.300, 0.0), (0.295, 0.155), (0.305, 0.0)])
def test_ties_at_the_end_of_the_interval_on_the_absolute_scale(top_a, truth):
    """Two levels of scores; whether the upper one's rank lies in (.05, .30) hangs on a hair."""

    def draw(rng):
        s = np.concatenate([rng.random(800) < top_a, rng.random(800) < 0.45]).astype(float)
        return None, s, np.repeat([0, 1], 800)

    share = covered_share(draw, truth, 100, "statistical_parity", interval=(0.05, 0.30), gap_scale="absolute")
    assert share >= 0.93


def test_the_maps_absolute_band_sees_ranks_just_below_one():
    """An atom that one of a hundred lies below: in every third sample nobody does."""
    rng = np.random.default_rng(3)
    held, n_draws = 0, 200
    for _ in range(n_draws):
        s = np.concatenate([(rng.random(100) < 0.99).astype(float), np.full(20_000, -1.0)])
        found = unfairness_map(
            s, sensitive_features=np.repeat([0, 1], [100, 20_000]), n_grid=20, gap_scale="absolute"
        )
        held += found.at(0.9, 1.0).ci_high >= 0.99
    assert held / n_draws >= 0.95
