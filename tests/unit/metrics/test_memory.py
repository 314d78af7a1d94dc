"""What is measured is forgotten: nothing holds on to scores once a call has returned."""

import gc
import tracemalloc

import numpy as np
import pytest

from partialfair import FitOptions, PartialFairClassifier, metrics

N = 5000


def people(n):
    rng = np.random.default_rng(0)
    groups = rng.integers(3, size=n)
    scores = rng.normal(size=n) + 0.3 * (groups == 1)
    return scores, groups, rng.random(n) < 0.4 + 0.2 * (scores > 0)


def fit(scores, groups, labels):
    X = np.column_stack([scores, groups == 1])
    clf = PartialFairClassifier(
        interval=(0.1, 0.6), max_gap=0.1, options=FitOptions(n_points=5, n_starts=1, search_steps=5)
    )
    clf.fit(X, labels, sensitive_features=groups)


CALLS = {
    "interval scale": lambda s, g, y: metrics.partial_statistical_parity_difference(
        None, s, sensitive_features=g, interval=(0.1, 0.6)
    ),
    "absolute scale": lambda s, g, y: metrics.partial_statistical_parity_difference(
        None, s, sensitive_features=g, interval=(0.1, 0.6), gap_scale="absolute"
    ),
    "group AUC": lambda s, g, y: metrics.partial_group_auc_difference(
        None, s, sensitive_features=g, interval=(0.1, 0.6)
    ),
    "report": lambda s, g, y: metrics.fairness_report(
        y, s, sensitive_features=g, interval=(0.1, 0.6), threshold=0.3, n_resamples=100
    ),
    "map": lambda s, g, y: metrics.unfairness_map(s, sensitive_features=g),
    "fit": fit,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_keep_nothing(call):
    rows = people(N)
    call(*rows)  # compiles, and fills what is kept on purpose
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            call(*rows)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < N * 8  # one vector of scores, or less than that of one group a call
