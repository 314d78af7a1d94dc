"""Calibration by group: calibrated probabilities, known errors, weights and ties."""

from __future__ import annotations

import numpy as np
import pytest

from partialfair.exceptions import InputError
from partialfair.metrics import calibration_by_group


def test_calibrated_probabilities_have_hardly_any_error():
    rng = np.random.default_rng(3)
    probabilities, groups = rng.random(40_000), rng.choice(["a", "b"], 40_000)
    happened = rng.random(40_000) < probabilities
    assert calibration_by_group(happened, probabilities, sensitive_features=groups)["error"].max() < 0.015
    moved = np.where(groups == "a", 0.8 * probabilities + 0.2, probabilities)
    table = calibration_by_group(happened, moved, sensitive_features=groups)
    assert table.loc["a", "error"] == pytest.approx(
        np.mean(0.2 * (1 - probabilities[groups == "a"])), abs=0.015
    )
    assert table.loc["b", "error"] < 0.015


def test_bins_are_ranks_and_keep_ties_together():
    # Two values: two bins of one group, whatever the number of bins; errors of .3 and .1.
    happened, probabilities = [1, 0, 1, 1], [0.2, 0.2, 0.9, 0.9]
    for n_bins in (2, 3, 10):
        table = calibration_by_group(happened, probabilities, sensitive_features=["a"] * 4, n_bins=n_bins)
        assert table.loc["a", "error"] == pytest.approx((0.3 + 0.1) / 2)
    single = calibration_by_group(happened, probabilities, sensitive_features=["a"] * 4, n_bins=1)
    assert single.loc["a", "error"] == pytest.approx(0.75 - 0.55)


def test_weight_2_is_the_row_twice_and_weight_0_absent():
    rng = np.random.default_rng(0)
    probabilities, groups = rng.random(60), rng.choice(["a", "b"], 60)
    happened, weights = rng.random(60) < 0.4, rng.integers(0, 3, 60)
    rows = np.repeat(np.arange(60), weights)
    weighted = calibration_by_group(
        happened, probabilities, sensitive_features=groups, sample_weight=weights, n_bins=4
    )
    repeated = calibration_by_group(
        happened[rows], probabilities[rows], sensitive_features=groups[rows], n_bins=4
    )
    np.testing.assert_allclose(weighted[["observed", "error"]], repeated[["observed", "error"]])


def test_scores_are_refused():
    with pytest.raises(InputError, match="y_prob must hold probabilities"):
        calibration_by_group([0, 1], [-1.0, 2.0], sensitive_features=["a", "b"])
