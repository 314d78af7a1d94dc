"""Where low scores are good, constraints count from the lowest; the model is the mirrored one."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from partialfair import FitOptions, PartialFairClassifier, PartialFairRegressor
from partialfair.constraints import DemographicParity
from partialfair.exceptions import ThresholdOutsideIntervalWarning
from partialfair.metrics import partial_demographic_parity_difference, partial_statistical_parity_difference
from partialfair.optimization.objectives import AUC, PartialAUC
from partialfair.training.named_constraints import NAMED_CONSTRAINTS

QUIET = pytest.mark.filterwarnings("ignore::UserWarning")
INTERVAL = (0.1, 0.6)


def fitted(people, y, **options):
    # A tenth of the usual search: a mirrored one is as long as the other.
    settings = {
        "interval": INTERVAL,
        "max_gap": 0.2,
        "tol": 1e-3,
        "random_state": 0,
        "options": FitOptions(search_steps=10),
    }
    settings |= options
    return PartialFairClassifier(**settings).fit(people.X, y, sensitive_features=people.groups)


@QUIET
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", AUC()], ids=str)
def test_it_is_the_negated_model_of_the_other_class(people, loss):
    positive = people.y == "passed over"
    # Pairs are summed up in another order, and hundreds of random steps magnify the rounding.
    options = {"loss": loss, "options": FitOptions(search_steps=0 if isinstance(loss, AUC) else 10)}
    low = fitted(people, positive, higher_is_better=False, **options)
    high = fitted(people, ~positive, **options)
    assert low.coef_ == pytest.approx(-high.coef_, rel=1e-4)
    assert low.intercept_ == pytest.approx(-high.intercept_, abs=1e-4)
    assert low.result_.thresholds == pytest.approx(-high.result_.thresholds, abs=1e-4)
    assert low.result_.gap == pytest.approx(high.result_.gap)
    assert low.result_.binding.threshold == pytest.approx(-high.result_.binding.threshold, abs=1e-4)
    assert (low.predict(people.X) == ~high.predict(people.X)).all()


@QUIET
@pytest.mark.parametrize("constraint", NAMED_CONSTRAINTS)
def test_every_constraint_may_count_from_the_lowest(people, constraint):
    positive = people.y == "passed over"
    options = {"constraint": constraint, "enforce": "surrogate", "tol": 1e-2}
    low = fitted(people, positive, higher_is_better=False, **options)
    if constraint in ("equal_opportunity", "equalized_odds"):  # positives are the same people
        assert low.result_.gap <= 1
        return
    high = fitted(people, ~positive, **options)
    assert low.coef_ == pytest.approx(-high.coef_, rel=1e-6)


def test_the_exact_gap_is_that_of_the_negated_scores(people):
    clf = fitted(people, people.y, higher_is_better=False)
    scores = clf.decision_function(people.X)
    options = {"sensitive_features": people.groups, "interval": INTERVAL}
    assert clf.result_.gap == pytest.approx(partial_statistical_parity_difference(None, -scores, **options))
    assert clf.result_.gap == pytest.approx(
        partial_statistical_parity_difference(None, scores, higher_is_better=False, **options)
    )
    assert clf.result_.satisfied
    assert not clf.result_.higher_is_better
    assert "from the best, the lowest scores" in str(clf.result_)
    accurate = (clf.predict(people.X) == people.y).mean()
    assert accurate > 0.6  # what is predicted is the same


@QUIET
def test_thresholds_are_in_the_users_units(people):
    clf = fitted(
        people,
        people.y,
        higher_is_better=False,
        constraint="demographic_parity",
        constraint_threshold=0.4,
        interval=(0.0, 1.0),
    )
    assert clf.result_.constraints == (DemographicParity((0.0, 1.0), 0.2, threshold=0.4),)
    scores, women = clf.decision_function(people.X), people.groups == "f"
    selected = scores < 0.4
    assert clf.result_.gap == pytest.approx(abs(selected[women].mean() - selected[~women].mean()))
    assert clf.result_.gap == pytest.approx(
        partial_demographic_parity_difference(
            None,
            scores,
            sensitive_features=people.groups,
            threshold=0.4,
            higher_is_better=False,
        )
    )


@QUIET
def test_automatic_intervals_surround_the_share_selected(people):
    low = fitted(people, people.y == "passed over", higher_is_better=False, interval="auto")
    high = fitted(people, people.y != "passed over", interval="auto")
    assert low.result_.constraints[0].interval == high.result_.constraints[0].interval
    assert low.coef_ == pytest.approx(-high.coef_, rel=1e-6)


@QUIET
def test_partial_auc_is_that_of_the_scores_as_they_are(people):
    loss = PartialAUC((0.05, 0.5))
    free = [
        PartialFairClassifier(None, loss=loss, higher_is_better=way).fit(people.X, people.y)
        for way in (True, False)
    ]
    assert free[0].coef_ == pytest.approx(free[1].coef_, rel=1e-3)
    clf = fitted(people, people.y, higher_is_better=False, loss=loss, tol=1e-2)
    assert np.corrcoef(clf.decision_function(people.X), people.y == "passed over")[0, 1] > 0.3


def test_regressors_too(people):
    y = 1000 * people.X.sum(axis=1)
    low = PartialFairRegressor(
        interval=INTERVAL, max_gap=0.2, options=FitOptions(search_steps=10), higher_is_better=False
    )
    low.fit(people.X, y, sensitive_features=people.groups)
    high = PartialFairRegressor(interval=INTERVAL, max_gap=0.2, options=FitOptions(search_steps=10))
    high.fit(people.X, -y, sensitive_features=people.groups)
    assert low.coef_ == pytest.approx(-high.coef_, rel=1e-6)
    assert low.result_.gap == pytest.approx(
        partial_statistical_parity_difference(
            None, -low.predict(people.X), sensitive_features=people.groups, interval=INTERVAL
        )
    )


def selecting(people, threshold, interval, **options):
    return PartialFairClassifier(
        "demographic_parity",
        interval=interval,
        constraint_threshold=threshold,
        max_gap=0.4,
        enforce="surrogate",
        tol=1e-2,
        **options,
    ).fit(people.X, people.y, sensitive_features=people.groups)


def test_thresholds_outside_of_the_interval_are_told(people):
    match = r"the threshold of DemographicParity has rank \d.*% in group 'f' and rank .* 'm', outside"
    with pytest.warns(ThresholdOutsideIntervalWarning, match=match) as caught:
        selecting(people, 1.0, (0.9, 1.0))
    assert "an interval that contains the selection rate" in str(caught[0].message)
    with pytest.warns(
        ThresholdOutsideIntervalWarning
    ):  # nobody above it is selected where low scores are good
        selecting(people, -50.0, (0.1, 0.5), higher_is_better=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selecting(people, 0.0, (0.0, 1.0))


@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SurrogateWarning")
@pytest.mark.filterwarnings("ignore::partialfair.exceptions.SmallSampleGapWarning")
def test_whether_the_promise_is_kept(people):
    assert PartialFairClassifier(None).fit(people.X, people.y).result_.satisfied is None
    surrogate = fitted(people, people.y, enforce="surrogate", max_gap=0.3, tol=1e-2)
    assert surrogate.result_.satisfied is None
    assert fitted(people, people.y).result_.satisfied is True
    with pytest.warns(ConvergenceWarning):
        hopeless = fitted(people, people.y, max_gap=0.0, max_iter=3)
    kept = hopeless.result_.gap <= 1e-12
    assert hopeless.result_.satisfied is kept
