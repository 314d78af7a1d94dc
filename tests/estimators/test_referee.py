"""The exact gaps of a fit against the public metrics."""

import numpy as np
import pytest

from partialfair import metrics
from partialfair.data.groups import Groups
from partialfair.optimization.problems import WeightedScores
from partialfair.training.named_constraints import NAMED_CONSTRAINTS
from partialfair.training.statement import ExactGap

METRICS = {
    "statistical_parity": metrics.partial_statistical_parity_difference,
    "demographic_parity": metrics.partial_demographic_parity_difference,
    "group_auc": metrics.partial_group_auc_difference,
    "equal_opportunity": metrics.partial_equal_opportunity_difference,
    "equalized_odds": metrics.partial_equalized_odds_difference,
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", ["interval", "absolute"])
@pytest.mark.parametrize("name", list(METRICS))
def test_gaps_are_those_of_the_public_metrics(name, scale, weighted):
    if name == "group_auc" and scale == "absolute":
        pytest.skip("has one scale")
    record, rng = NAMED_CONSTRAINTS[name], np.random.default_rng(3)
    for n_scores in (1, 3, 50, 1000):  # from everybody tied to hardly any ties; some score exactly 0
        scores = np.round(rng.normal(size=240) * n_scores) / n_scores
        codes, positive = rng.integers(3, size=240), rng.random(240) < 0.4
        weights = rng.integers(1, 4, size=240).astype(float) if weighted else np.full(240, 2.0)
        settings = {} if name == "group_auc" else {"gap_scale": scale}
        stated = {"interval": (0.2, 0.6), **settings}
        constraint = record.kind(max_gap=0.1, **stated)
        if name in ("equal_opportunity", "equalized_odds"):
            stated["rank_within"] = "group_and_label"
        if record.bounded.needs_threshold:
            stated["threshold"] = 0.0
        truth = METRICS[name](
            positive.astype(int), scores, sensitive_features=codes, sample_weight=weights, **stated
        )
        counts = WeightedScores(scores, weights, codes, positive)
        found = ExactGap.of(constraint, Groups(codes, (0, 1, 2))).measure(counts)
        assert found.value == pytest.approx(truth, abs=1e-12)
