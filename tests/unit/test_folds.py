"""Scores of several models on one scale, and what they then say of the models' true gaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from partialfair.data.samples import draw_folds
from partialfair.estimators.held_out import align_folds, explain_folds
from partialfair.metrics import fairness_report, partial_statistical_parity_difference

INTERVAL = (0.1, 0.6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.sampled_from([[], [0.0], [0.0, 0.5], [-9.0, 9.0]]))
def test_order_ties_and_decisions_stay(seed, digits, thresholds):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(15, 200))
    folds = np.r_[:5, rng.integers(0, 5, n - 5)]
    scores = rng.normal(size=n).round(digits) * (1 + folds) + 0.3 * folds
    weights = np.where(np.arange(n) < 5, 1.0, rng.choice([0.0, 1.0, 2.5], n))
    found = align_folds(scores, folds, weights, rng.integers(-1, 2, n), thresholds)
    for fold in range(5):
        own = np.flatnonzero((folds == fold) & (weights > 0))
        order = own[np.argsort(scores[own])]
        np.testing.assert_array_equal(np.sign(np.diff(found[order])), np.sign(np.diff(scores[order])))
    for threshold in thresholds:
        np.testing.assert_array_equal(np.sign(found - threshold), np.sign(scores - threshold))


def test_one_model_in_all_folds_is_left_alone():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=5000)
    found = align_folds(scores, rng.integers(0, 5, 5000), np.ones(5000), np.zeros(5000, int), [0.0])
    # Where 1,000 people of a fold put a percentile is off by about .03 of a standard deviation.
    middle = np.abs(scores) < 1.5
    assert np.abs(found - scores)[middle].max() < 0.15
    alone = align_folds(scores, np.zeros(5000, int), np.ones(5000), np.zeros(5000, int), [0.0])
    np.testing.assert_allclose(alone, scores, atol=1e-12)


def test_a_weight_of_two_is_the_row_twice():
    rng = np.random.default_rng(1)
    scores, folds, codes = rng.normal(size=60).round(1), np.arange(60) % 3, rng.integers(0, 2, 60)
    twice = rng.integers(1, 3, 60)
    weighted = align_folds(scores, folds, twice.astype(float), codes, [0.0])
    rows = np.repeat(np.arange(60), twice)
    repeated = align_folds(scores[rows], folds[rows], np.ones(rows.size), codes[rows], [0.0])
    np.testing.assert_allclose(weighted[rows], repeated, atol=1e-12)


def shifted_gap(shift, low, high):
    """The gap of two normal distributions: the widest difference of ranks, as far as they are inside."""
    thresholds = np.linspace(-5, 5, 4001)
    ranks = [norm.sf(thresholds), norm.sf(thresholds - shift)]
    inside = [np.clip(rank, low, high) for rank in ranks]
    return np.abs(inside[0] - inside[1]).max() / (high - low)


def test_scales_of_models_do_not_blur_gaps():
    """Models that rank people alike have one gap, whatever the units of their scores."""
    rng = np.random.default_rng(0)
    n = 8000
    groups = rng.integers(0, 2, n)
    score = rng.normal(size=n) + 0.8 * groups
    folds = draw_folds(groups, 5, seed=0)
    of_models = np.array([0.3, 0.7, 1.0, 1.6, 4.0])[folds] * score + np.array([2, -1, 0, 3, -2])[folds]
    truth = shifted_gap(0.8, *INTERVAL)

    def gap(scores):
        return partial_statistical_parity_difference(
            None, scores, sensitive_features=groups, interval=INTERVAL
        )

    assert gap(align_folds(of_models, folds, np.ones(n), groups, [])) == pytest.approx(truth, abs=0.05)
    assert gap(of_models) < 0.7 * truth  # as they are, models of different scales look fairer than they are


def test_folds_that_got_more_of_a_group_are_not_thought_to_rank_higher():
    """Where clusters decide who is in a fold, groups are not even there."""
    rng = np.random.default_rng(0)
    n = 20_000
    groups = rng.integers(0, 2, n)
    score = rng.normal(size=n) + 2.0 * groups
    folds = (rng.random(n) < np.where(groups == 1, 0.8, 0.2)).astype(int)
    found = align_folds(score, folds, np.ones(n), groups, [])
    assert np.abs(found - score)[np.abs(score - 1) < 2].max() < 0.2


@pytest.fixture(scope="module")
def samples():
    """Of 60 samples: five models' mean true gap, and what scores out of fold say of it, by two metrics.

    A model takes each group's training mean (then its 70% quantile) from the scores: in training groups are
    alike, and among new people they differ by the noise of the training rows.
    """
    found = {"statistical_parity": [], "demographic_parity": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        groups = np.repeat([0, 1], [150, 300])
        scores = rng.normal(size=450) + 0.5 * groups
        folds = draw_folds(groups, 5, seed)
        for metric, of in (("statistical_parity", np.mean), ("demographic_parity", upper)):
            taken = np.array([[of(scores[(folds != f) & (groups == k)]) for k in (0, 1)] for f in range(5)])
            raw = scores - taken[folds, groups]
            judged = align_folds(raw, folds, np.ones(450), groups, [0.0])
            left = np.array([0.0, 0.5]) - taken  # the means of new people's scores
            line, by_fold = (
                row(judged, groups, metric),
                [row(raw[folds == f], groups[folds == f], metric).gap for f in range(5)],
            )
            if metric == "statistical_parity":
                truth = np.mean([shifted_gap(high - low, *INTERVAL) for low, high in left])
            else:
                truth = np.mean([abs(norm.sf(-low) - norm.sf(-high)) for low, high in left])
            found[metric].append((truth, line, np.mean(by_fold)))
    return found


def upper(scores):
    return np.quantile(scores, 0.7)


def row(scores, groups, metric):
    interval = INTERVAL if metric == "statistical_parity" else (0.0, 1.0)
    report = fairness_report(
        None,
        scores,
        sensitive_features=groups,
        interval=interval,
        threshold=0.0,
        n_resamples=200,
        random_state=0,
    )
    return report[metric]


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallGroupWarning")
@pytest.mark.filterwarnings("ignore::partialfair.exceptions.ThresholdOutsideIntervalWarning")
class TestTruth:
    def test_estimates_are_nearer_than_the_mean_of_the_folds(self, samples):
        for found in samples.values():
            truths = np.array([truth for truth, _, _ in found])
            errors, of_folds = (
                np.abs(np.array(values) - truths).mean()
                for values in ([line.gap for _, line, _ in found], [mean for _, _, mean in found])
            )
            assert errors < 0.6 * of_folds

    def test_intervals_hold_the_mean_true_gap(self, samples):
        """Nominal .95; of 60 samples 50 or more at .93 but with probability .004."""
        for found in samples.values():
            held = sum(line.ci_low <= truth <= line.ci_high for truth, line, _ in found)
            assert held >= 50

    def test_a_constraint_that_fits_the_noise_looks_too_good(self, samples):
        """What the docs warn of: the folds' differences cancel, and the models' own do not."""
        found = samples["demographic_parity"]
        truth, value = (np.mean(of) for of in zip(*((t, line.gap) for t, line, _ in found), strict=True))
        assert value < 0.6 * truth


def test_what_figures_mean():
    said = explain_folds(np.arange(20) % 5)
    assert "one of 5 models" in said
    assert "on 80% of the rows" in said
