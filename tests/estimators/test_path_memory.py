"""What the fits of one path know of each other."""

import warnings

import numpy as np
import pytest

from partialfair import PartialFairClassifier
from partialfair.estimators.inputs import read_samples
from partialfair.estimators.parameters import read_task
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.training.settings import EarlierFits

INTERVAL = (0.1, 0.6)
SOLVES = ("warm start", "surrogate constraints", "correction", "more steps")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    groups = rng.choice(["a", "b"], 2000)
    X = rng.normal(size=(2000, 20)) + np.outer(groups == "a", np.ones(20)) / 4
    return X, X.sum(axis=1) + rng.logistic(size=2000) > 0.5, groups


def fits(people, *max_gaps):
    """Fit one model after the other, each knowing the others; return what they know, and their results."""
    X, y, groups = people
    known = EarlierFits()
    clf = PartialFairClassifier(interval=INTERVAL, warm_start=True)
    results = []
    for max_gap in max_gaps:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.set_params(max_gap=max_gap)
            samples = read_samples(clf, X, y, groups)
            known = clf._fit_samples(samples, read_task(clf), np.inf, earlier=known)
        results.append(clf.result_)
    return known, results


def test_a_model_is_evaluated_by_other_limits_as_the_metric_does(people):
    known, _ = fits(people, 0.2, 0.1)
    assert len(known.models) == 2
    for limit in (0.05, 0.15, 0.3):
        for candidate in known.candidates(np.array([limit])):
            gap = partial_statistical_parity_difference(
                None,
                known.rows.model.scores(candidate.w),
                sensitive_features=people[2],
                interval=INTERVAL,
            )
            assert candidate.excess == pytest.approx(gap - limit, abs=1e-12)


def test_a_fit_that_allows_as_much_again_solves_nothing_and_keeps_its_certificate(people):
    known, (first, _, again) = fits(people, 0.2, 0.1, 0.2)
    assert len(known.models) == 2
    hows = [line.how for line in again.candidates]
    assert "the earlier fit" in hows
    assert not any(how.startswith(SOLVES) for how in hows)
    assert (again.kkt.residual, again.kkt.objective) == (first.kkt.residual, first.kkt.objective)
    assert again.history == first.history
    assert again.satisfied
    assert again.objective <= first.objective
    assert again.status is first.status
